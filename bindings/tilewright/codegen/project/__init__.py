"""A network as a C project: sources, a DMA controller for PCs that counts, weights and images as data.

`NetworkProject` has what projects of all machines share; those of a DSP are here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Generic, TypeVar

from tilewright.codegen.c_text import identifier, quote, safe_text
from tilewright.codegen.inner_loops import EmittedVectors
from tilewright.codegen.numbers.c_integers import c_bits, pack_elements
from tilewright.codegen.numbers.quantised_network import QuantisedNetwork
from tilewright.codegen.numbers.quantised_operations import QuantisedOperations
from tilewright.codegen.project.machine import image_bits, machine_text, refuse_wide
from tilewright.codegen.project.nodes import (
    ALIGNED,
    DspNode,
    EmittedNode,
    LayerPlan,
    layer_text,
    operation_text,
    read_scales,
)
from tilewright.codegen.project.vectors import has_vectors, layers_source, refuse_vectors, vectors_of
from tilewright.codegen.project_files import (
    Files,
    array_literal,
    comment,
    file_head,
    header_file,
    project_files,
    title_of,
)
from tilewright.simulator.arithmetic.integer_layer import BIAS_BITS
from tilewright.spec.errors import InputError
from tilewright.spec.network import OWN_INPUT, NamedLayer
from tilewright.tiling import Problem
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.operations.plan import OperationPlan

__all__ = ["NetworkProject", "network_project"]

Node = TypeVar("Node", bound=EmittedNode)
"""An operation on the machine of a project."""

RUNTIME = ("bits.h", "expected.h", "main.c", "numbers.h", "operations.h")
"""Sources that are the same for every network, on every machine."""

DSP_RUNTIME = ("dma.h", "dma.c", "layers.h")
"""Those that are the same on every DSP."""

OPERANDS = {
    "input": "inputs",
    "weights": "weights",
    "partial": "sums of parts of its input maps",
    "output": "inputs of several scales, brought to one,",
}
"""What does not fit an operand of the machine."""

VECTOR_COUNT = [
    "    if (counted && vector_counts.stores)",
    '        printf("%s, vectors loaded, stored, multiplied\\t%ld\\t%ld\\t%ld\\n", part_names[part],',
    "               vector_counts.loads, vector_counts.stores, vector_counts.macs);",
    "    memset(&vector_counts, 0, sizeof vector_counts);",
]
"""What tells how many vectors a layer moves."""

RUN = (
    "void run_network(const unsigned char *weights, const unsigned char *images, unsigned char *outputs, "
    "int counted)"
)
"""The function that computes a batch of images."""


def network_project(
    problem: Problem,
    plans: Sequence[DspPlan | OperationPlan],
    quantised: QuantisedNetwork,
    name: str,
    source: str,
) -> Files:
    """Return the files of a project that computes a network as planned, by their paths.

    Parameters
    ----------
    problem
        A network on a machine of kind ``dsp``.
    plans
        Of each of its parts; valid.
    quantised
        Its numbers, and images to run it on.

    Raises
    ------
    InputError
        For a layer that there is no C for; for inputs, weights or stored sums that do not fit the ma.
    """
    return _DspProject(problem, plans, quantised, name, source).files()


class NetworkProject(Generic[Node]):
    """The project of a network: numbers and operations in their order; machines add the layers.

    Parameters
    ----------
    problem
        A network.
    plans
        Of each of its parts; valid.
    quantised
        Its numbers, and images to run it on.
    """

    node_type: type[Node]

    def __init__(
        self,
        problem: Problem,
        plans: Sequence[LayerPlan | OperationPlan],
        quantised: QuantisedNetwork,
        name: str,
        source: str,
    ) -> None:
        self.title, self.source = name, source
        assert problem.machine.kind != "hierarchy"
        self.machine = problem.machine
        refuse_wide(self.machine)
        self.bits = self.machine.operand_bits
        self.image = image_bits(problem, self.bits)
        self.quantised = quantised.stored(self.image, self.bits.output)
        self.batch = (
            max((layer.batch for layer in problem.network.convolutions), default=1) if problem.network else 1
        )
        if problem.batch is not None:
            self.batch = problem.batch
        parts = {part.name: (part.problem, plan) for part, plan in zip(problem.parts, plans, strict=True)}
        operations = QuantisedOperations(self.quantised.network, parts)
        self.nodes = self._nodes(operations, parts)
        self._check_widths()
        before, now = quantised.network.formats, self.quantised.network.formats
        self.narrowed = [
            each.name
            for each in self.nodes
            if before[each.quantised.tensor].bits > now[each.quantised.tensor].bits
        ]
        self.result = next(each for each in self.nodes if each.quantised.tensor == operations.result)
        self.numbers = self.quantised.numbers(operations)
        self.weights, self.places = self._packed()

    def _nodes(
        self,
        operations: QuantisedOperations,
        parts: Mapping[str, tuple[Problem, LayerPlan | OperationPlan]],
    ) -> list[Node]:
        """Return operations with plans, and with names that C allows, each used once."""
        arrays = {OWN_INPUT: "images"}
        taken: set[str] = set()
        found = []
        for each in operations.operations:
            name = identifier(each.name, taken)
            taken.add(name)
            inputs = tuple(arrays[source.tensor] for source in each.sources)
            arrays[each.tensor] = f"{name}_output"
            stored = tuple(
                self.image if source.tensor == OWN_INPUT else self.bits.output for source in each.sources
            )
            read = self.bits.input if isinstance(each.layer, NamedLayer) else self.bits.output
            part, plan = parts.get(each.name, (None, None))
            found.append(self.node_type(each, part, plan, name, arrays[each.tensor], inputs, stored, read))
        return found

    def _check_widths(self) -> None:
        """Refuse numbers that do not fit the machine's elements."""
        for each in self.nodes:
            for operand, bits in self._needed_bits(each).items():
                if bits > getattr(self.bits, operand):
                    field, value = "machine.element_bytes", self.machine.element_bytes
                    if self.machine.bits is not None:
                        field, value = f"machine.bits.{operand}", getattr(self.bits, operand)
                    limit = f"layer {each.name}: {OPERANDS[operand]} of {bits} bits do not fit"
                    raise InputError(field, value, limit)

    def _needed_bits(self, each: Node) -> dict[str, int]:
        """Return the bits that an operation needs of the machine's operands."""
        own = self.quantised.network.layers.get(each.name)
        if own is None:
            return {"output": each.gathered_bits}
        needed = {"input": own.inputs.bits, "weights": own.weights.bits}
        return needed | ({"partial": own.accumulator} if each.sums_leave else {})

    # Files ----------------------------------------------------------------------------------------------

    def files(self) -> Files:
        """Return all files."""
        right = self.numbers.right
        told = "" if right is None else f", of which {right} are put into the right class"
        output_bits = c_bits(self.bits.output)
        return project_files(
            self.runtime(),
            {
                "layers.c": self.layers_source(),
                "machine.h": self.machine_text(),
                "network.h": self._header(),
                "network.c": self._network(),
            },
            {
                "title": title_of(self.title),
                "images": f"{self.numbers.images} images{told}",
                "cores": self.cores,
                "bias_bits": BIAS_BITS,
                "weight_bits": self.bits.weights,
                "image_bits": c_bits(self.image),
                "output_bits": output_bits,
            },
            {
                "weights.bin": self.weights,
                "images.bin": pack_elements(self.numbers.maps[OWN_INPUT], c_bits(self.image)),
                "labels.bin": self.numbers.labels_data,
                **self.numbers.reference_data(output_bits, lambda maps: next(iter(maps.values()))),
            },
        )

    # What machines add ----------------------------------------------------------------------------------

    works = False
    """Whether the cycles of operations are counted."""

    @property
    def cores(self) -> int:
        """How many compute."""
        return 1

    def runtime(self) -> Mapping[str, Sequence[str]]:
        """Return the names of sources that are the same for every network, by folder."""
        raise NotImplementedError

    def layers_source(self) -> str:
        """Return `layers.c`, which executes layers and operations."""
        raise NotImplementedError

    def machine_text(self) -> str:
        """Return `machine.h`."""
        raise NotImplementedError

    def described(self, each: Node) -> list[str]:
        """Return the description of a layer, or of an operation between layers."""
        return self.layer_described(each) if each.is_layer else operation_text(each, self.batch, self.works)

    def layer_described(self, each: Node) -> list[str]:
        """Return the description of a layer."""
        raise NotImplementedError

    def call(self, each: Node, read: str, output: str) -> list[str]:
        """Return the call that computes a layer."""
        raise NotImplementedError

    def before_operation(self, each: Node) -> list[str]:
        """Return what is done before an operation between layers is called."""
        return []

    def declared(self) -> list[str]:
        """Return what else `network.h` declares."""
        return []

    def included(self) -> list[str]:
        """Return what else `network.c` includes."""
        return []

    def defined(self) -> list[str]:
        """Return what else `network.c` defines."""
        return []

    def counted(self) -> list[str]:
        """Return what is done with the counts of a part, besides keeping those of the DMA controller."""
        return []

    def story(self) -> list[str]:
        """Return what the head of `network.c` tells of the layers."""
        return []

    # Generated sources ----------------------------------------------------------------------------------

    def _packed(self) -> tuple[bytes, dict[str, tuple[int, int]]]:
        """Return all weights and biases one after the other, and where those of each layer begin."""
        found, places = bytearray(), {}
        for each in self.nodes:
            operation = each.operation
            if operation.biases is None:
                continue
            begins = []
            biases = pack_elements(operation.biases, BIAS_BITS)
            kernels = pack_elements(operation.kernels, self.bits.weights)
            for part in (kernels, biases):
                found += bytes(-len(found) % ALIGNED)
                begins.append(len(found))
                found += part
            places[each.name] = (begins[0], begins[1])
        return bytes(found), places

    def _header(self) -> str:
        names = ", ".join(each.identifier.upper() for each in self.nodes)
        image = prod(self.numbers.maps[OWN_INPUT].shape[1:])
        return header_file(
            "network",
            file_head(self.title, ""),
            [
                '#include "dma.h"',
                '#include "layers.h"',
                "",
                f"#define BATCH {self.batch} /* images that are computed together */",
                f"#define IMAGE_ELEMENTS {image}",
                f"#define OUTPUT_ELEMENTS {prod(self.result.layer.output)} /* of each image */",
                f"#define WEIGHT_BYTES {len(self.weights)}",
                "",
                "/* Layers and operations, in order. */",
                f"enum {{{names}, PARTS}};",
                "",
                "extern const char *const part_names[PARTS];",
                "extern dma_count_t part_counts[PARTS][KINDS];",
                "",
                "/* Compute a batch of images; note what is moved if that is to be counted. */",
                f"{RUN};",
                *self.declared(),
            ],
        )

    def _network(self) -> str:
        lines = [
            comment(self._story()),
            '#include "network.h"',
            "",
            '#include "bits.h"',
            *self.included(),
            "",
            "const char *const part_names[PARTS] = {",
            *(f"    {quote(each.name)}," for each in self.nodes),
            "};",
            "",
            "dma_count_t part_counts[PARTS][KINDS];",
        ]
        for each in self.nodes:
            text = self.described(each)
            lines += ["", *text]
        lines += ["", "/* Tensors in external memory. */", *self._arrays()]
        lines += ["", *self.defined(), *self._run()]
        return "\n".join(lines) + "\n"

    def _story(self) -> list[str]:
        """Return what the head of the network's file tells."""
        hosted = [each.name for each in self.nodes if each.on_host]
        gathered = [each.name for each in self.nodes if each.gathered]
        lines = [
            *file_head(f"{title_of(self.title)}, tile by tile", self.source),
            f"Numbers: {safe_text(self.numbers.origin)}.",
            "",
            "Not in the plan's memory and traffic: the biases, which are read where they are.",
        ]
        if gathered:
            lines.append(
                "Written by the host before they are read, with borders, concatenated, in other bits or "
                f"another scale: the inputs of {safe_text(', '.join(gathered))}."
            )
        lines += self.story()
        if hosted:
            lines.append(f"Computed by the host: {safe_text(', '.join(hosted))}.")
        if self.narrowed:
            names = safe_text(", ".join(self.narrowed))
            lines.append(
                f"In {self.bits.output} bits, as the machine stores outputs, instead of more: {names}."
            )
        return lines

    def _arrays(self) -> list[str]:
        lines = []
        for each in self.nodes:
            size = self.batch * prod(each.layer.output)
            if each is not self.result:
                about = f"/* {self.batch} x {_shape(each.layer.output)} */"
                lines.append(f"static unsigned char {each.output}[BYTES({size} * OUTPUT_BITS)]; {about}")
            if each.gathered:
                top, bottom, left, right = each.border
                rows, columns = each.plane
                plane = (rows + top + bottom) * (columns + left + right)
                size = self.batch * sum(each.maps) * plane
                lines.append(f"static unsigned char {each.identifier}_input[BYTES({size} * {each.read})];")
        return lines

    def _run(self) -> list[str]:
        lines = [
            "static void count(int part, int counted)",
            "{",
            "    if (counted)",
            "        memcpy(part_counts[part], dma_counts, sizeof dma_counts);",
            "    memset(dma_counts, 0, sizeof dma_counts);",
            *self.counted(),
            "}",
            "",
            RUN,
            "{",
        ]
        if not self.weights:
            lines.append("    (void)weights;")
        for each in self.nodes:
            lines += self._step(each)
        return [*lines, "}"]

    def _step(self, each: Node) -> list[str]:
        output = "outputs" if each is self.result else each.output
        inputs = list(each.inputs)
        lines = []
        if each.gathered:
            sources = array_literal(
                map(array_literal, zip(inputs, each.bits, each.maps, read_scales(each), strict=True))
            )
            lines += [
                "    {",
                f"        const source_t sources[] = {sources};",
                f"        const int plane[2] = {array_literal(each.plane)}, "
                f"border[4] = {array_literal(each.border)};",
                f"        gather(sources, {len(inputs)}, {self.batch}, plane, border, "
                f"{each.identifier}_input, {each.read});",
                "    }",
            ]
            inputs = [f"{each.identifier}_input"]
        if each.is_layer:
            lines += self.call(each, inputs[0], output)
        else:
            function = "run_on_host" if each.on_host else "run_operation"
            lines += self.before_operation(each)
            lines += [
                "    {",
                f"        const unsigned char *const inputs[] = {array_literal(inputs)};",
                f"        {function}(&{each.identifier}, inputs, {output});",
                "    }",
            ]
        return [*lines, f"    count({each.identifier.upper()}, counted);"]


class _DspProject(NetworkProject[DspNode]):
    """The project of a network on a DSP."""

    node_type = DspNode

    def __init__(
        self,
        problem: Problem,
        plans: Sequence[DspPlan | OperationPlan],
        quantised: QuantisedNetwork,
        name: str,
        source: str,
    ) -> None:
        super().__init__(problem, plans, quantised, name, source)
        self.vectors = self._vectors()

    @property
    def _dsp(self) -> DspMachine:
        assert self.machine.kind == "dsp"
        return self.machine

    def _vectors(self) -> dict[str, EmittedVectors]:
        """Return the inner loops of layers by name, on a machine with a vector unit."""
        if self._dsp.vector_unit is None:
            return {}
        refuse_vectors(self._dsp, self.nodes)
        return {each.name: vectors_of(each) for each in self.nodes if has_vectors(each)}

    def runtime(self) -> Mapping[str, Sequence[str]]:
        """Return the names of sources that are the same for every network, by folder."""
        return {"project": (*RUNTIME, *DSP_RUNTIME, *(["vectors.h"] if self.vectors else []))}

    def layers_source(self) -> str:
        """Return `layers.c`, which computes tiles element by element or in vectors."""
        return layers_source(bool(self.vectors))

    def machine_text(self) -> str:
        """Return `machine.h`."""
        return machine_text(self._dsp, self.image, self.nodes)

    def layer_described(self, each: DspNode) -> list[str]:
        """Return the description of a layer."""
        return layer_text(each)

    def described(self, each: DspNode) -> list[str]:
        """Return the description of a layer, or of an operation, and of its inner loop."""
        text = super().described(each)
        if each.name in self.vectors:
            text += ["", *self.vectors[each.name].text(each.identifier)]
        return text

    def before_operation(self, each: DspNode) -> list[str]:
        """Return what says which inner loop an operation has."""
        if not self.vectors or each.on_host:
            return []
        own = f"&{each.identifier}_loop" if each.name in self.vectors else "NULL"
        return [f"    inner_loop = {own};"]

    def call(self, each: DspNode, read: str, output: str) -> list[str]:
        """Return the call that computes a layer."""
        kernels, biases = self.places[each.name]
        sums = "partial_sums" if each.sums_leave else "NULL"
        return [
            *([f"    inner_loop = &{each.identifier}_loop;"] if each.name in self.vectors else []),
            f"    run_layer(&{each.identifier}, {read}, weights + {kernels},",
            f"              (const int32_t *)(weights + {biases}), {sums}, {output});",
        ]

    def included(self) -> list[str]:
        """Return what else `network.c` includes."""
        return ['#include "vectors.h"', "", "#include <stdio.h>"] if self.vectors else []

    def defined(self) -> list[str]:
        """Return the array of sums that are stored before they are complete."""
        partial = [self.batch * prod(each.layer.output) for each in self.nodes if each.sums_leave]
        if not partial:
            return []
        return [f"static unsigned char partial_sums[BYTES({max(partial)} * SUM_BITS)];", ""]

    def counted(self) -> list[str]:
        """Return what tells how many vectors a layer moves."""
        return VECTOR_COUNT if self.vectors else []

    def story(self) -> list[str]:
        """Return what the head of `network.c` tells of the inner loops."""
        if not self.vectors:
            return []
        return [
            "Inner loops are in vectors, as planned (vectors.h). What they read and add up is laid out "
            "along the lanes in arrays of the program, beside the plan's memory: on a chip, the DMA "
            "controller would write it so. Biases are added at the end, outside of the accumulator."
        ]


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))
