"""A network as a C project: sources, a DMA controller for PCs that counts, weights and images as data."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from math import prod

from tilewright.codegen.c_text import identifier, origin_lines, quoted, safe_text
from tilewright.codegen.project.nodes import Node, Nodes
from tilewright.codegen.project.text import (
    ALIGNED,
    Named,
    braced,
    comment,
    layer_text,
    memory_elements,
    operation_of,
    operation_text,
    scale,
)
from tilewright.codegen.project.values import Values
from tilewright.core.version import __version__
from tilewright.simulator.fixed_point import Integers
from tilewright.simulator.integer_layer import BIAS_BITS
from tilewright.spec.errors import InputError
from tilewright.spec.network import OWN_INPUT
from tilewright.tiling import Problem
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.operations.plan import OperationPlan

__all__ = ["Values", "network_project"]

RUNTIME = ("dma.h", "dma.c", "layers.h", "layers.c", "main.c")
"""Sources that are the same for every network."""

WIDTHS = {1: "int8_t", 2: "int16_t", 4: "int32_t"}
"""Types of elements, by their bytes."""

RUN = "void run_network(const unsigned char *weights, const data_t *images, data_t *outputs, int counted)"
"""The function that computes a batch of images."""

Files = dict[str, bytes]


def network_project(
    problem: Problem, plans: Sequence[DspPlan | OperationPlan], values: Values, name: str, source: str
) -> Files:
    """Return the files of a project that computes a network as planned, by their paths.

    Parameters
    ----------
    problem
        A network on a machine of kind ``dsp``.
    plans
        Of each of its parts; valid.
    values
        Its numbers, and images to run it on.

    Raises
    ------
    InputError
        For a layer that there is no C for, or numbers that are wider than the machine's elements.
    """
    return _Project(problem, plans, values, name, source).files()


class _Project:
    def __init__(
        self,
        problem: Problem,
        plans: Sequence[DspPlan | OperationPlan],
        values: Values,
        name: str,
        source: str,
    ) -> None:
        self.values, self.title, self.source = values, name, source
        self.machine = _machine(problem)
        self.batch = (
            max((layer.batch for layer in problem.network.convolutions), default=1) if problem.network else 1
        )
        if problem.batch is not None:
            self.batch = problem.batch
        nodes = Nodes(problem, plans, values)
        self._check_widths(nodes.nodes)
        self.nodes = _named(nodes.nodes)
        self.result = next(each for each in self.nodes if each.node.tensor == nodes.result)
        self.weights, self.places = self._packed()

    def _check_widths(self, nodes: Sequence[Node]) -> None:
        """Refuse numbers that do not fit the machine's elements."""
        most = 8 * self.machine.element_bytes
        numbers = self.values.network
        if (width := numbers.formats[OWN_INPUT].bits) > most:
            limit = f"images of {width} bits do not fit"
            raise InputError("machine.element_bytes", self.machine.element_bytes, limit)
        for node in nodes:
            own = numbers.layers.get(node.layer.name)
            bits = {"values": numbers.formats[node.tensor].bits}
            if own is not None:
                bits |= {
                    "inputs": own.inputs.bits,
                    "weights": own.weights.bits,
                    "accumulator": own.accumulator,
                }
            for what, width in bits.items():
                if width > most:
                    limit = f"layer {node.name}: {what} of {width} bits do not fit"
                    raise InputError("machine.element_bytes", self.machine.element_bytes, limit)

    # Files ----------------------------------------------------------------------------------------------

    def files(self) -> Files:
        """Return all files."""
        folder = resources.files(__name__) / "runtime"
        found = {f"src/{name}": (folder / name).read_bytes() for name in RUNTIME}
        found["Makefile"] = (folder / "Makefile").read_bytes()
        texts = {
            "src/machine.h": self._machine_text(),
            "src/network.h": self._header(),
            "src/network.c": self._network(),
            "README.md": self._readme(),
        }
        found |= {path: text.encode("ascii") for path, text in texts.items()}
        labels = self.values.labels
        found["data/weights.bin"] = self.weights
        found["data/images.bin"] = self._elements(self.values.images)
        found["data/labels.bin"] = b"" if labels is None else labels.astype("<i4").tobytes()
        return dict(sorted(found.items()))

    def _elements(self, values: Integers) -> bytes:
        return values.astype(f"<i{self.machine.element_bytes}").tobytes()

    def _packed(self) -> tuple[bytes, dict[str, tuple[int, int]]]:
        """Return all weights and biases one after the other, and where those of each layer begin."""
        found, places = bytearray(), {}
        for each in self.nodes:
            layer = each.node.layer.name
            if layer not in self.values.network.layers:
                continue
            begins = []
            biases = self.values.network.biases[layer].astype(f"<i{BIAS_BITS // 8}").tobytes()
            for part in (self._elements(self.values.network.kernels[layer]), biases):
                found += bytes(-len(found) % ALIGNED)
                begins.append(len(found))
                found += part
            places[layer] = (begins[0], begins[1])
        return bytes(found), places

    def _machine_text(self) -> str:
        machine = self.machine
        most = max(memory_elements(each.node) for each in self.nodes)
        size = most * machine.copies * machine.element_bytes
        inputs = max(len(each.node.sources) for each in self.nodes)
        kind, wide = WIDTHS[machine.element_bytes], 32 if machine.element_bytes < 4 else 64
        told = [
            f"The machine: elements of {machine.element_bytes} bytes; {machine.memory_bytes:,} on chip,",
            f"of which the plan takes {size:,}.",
        ]
        return "\n".join(
            [
                comment(told),
                "#ifndef MACHINE_H",
                "#define MACHINE_H",
                "",
                "#include <stdint.h>",
                "",
                "typedef " + kind + " data_t; /* inputs, weights and outputs */",
                "typedef " + kind + " acc_t;  /* sums */",
                f"typedef int{wide}_t product_t;",
                f"typedef uint{wide}_t sum_t; /* of which an accumulator keeps the last bits */",
                "",
                "/* Each buffer exists so many times: twice under double buffering. */",
                f"#define COPIES {machine.copies}",
                f"#define MEMORY_BYTES {max(1, size)}",
                f"#define MOST_INPUTS {inputs}",
                "",
                "/* Where the memory on chip is. */",
                "#ifndef ON_CHIP",
                '#define ON_CHIP __attribute__((section(".scratchpad")))',
                "#endif",
                "",
                "#endif",
                "",
            ]
        )

    def _header(self) -> str:
        names = ", ".join(each.name.upper() for each in self.nodes)
        image = prod(self.values.images.shape[1:])
        return "\n".join(
            [
                comment([f"{safe_text(self.title) or 'A network'}, written by tilewright {__version__}."]),
                "#ifndef NETWORK_H",
                "#define NETWORK_H",
                "",
                '#include "dma.h"',
                '#include "layers.h"',
                "",
                f"#define BATCH {self.batch} /* images that are computed together */",
                f"#define IMAGE_ELEMENTS {image}",
                f"#define OUTPUT_ELEMENTS {prod(self.result.node.shape)} /* of each image */",
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
                "",
                "#endif",
                "",
            ]
        )

    def _network(self) -> str:
        numbers = self.values.network
        lines = [
            comment(self._story()),
            '#include "network.h"',
            "",
            "#include <string.h>",
            "",
            "const char *const part_names[PARTS] = {",
            *(f"    {quoted(each.node.name)}," for each in self.nodes),
            "};",
            "",
            "dma_count_t part_counts[PARTS][KINDS];",
        ]
        for each in self.nodes:
            planned = isinstance(each.node.plan, DspPlan)
            text = layer_text(each, numbers) if planned else operation_text(each, numbers, self.batch)
            lines += ["", *text]
        lines += ["", "/* Tensors in external memory. */", *self._arrays()]
        lines += ["", *self._run()]
        return "\n".join(lines) + "\n"

    def _story(self) -> list[str]:
        """Return what the head of the network's file tells."""
        hosted = [each.node.name for each in self.nodes if self._on_host(each)]
        gathered = [each.node.name for each in self.nodes if each.gathered]
        lines = [
            f"{safe_text(self.title) or 'A network'}, tile by tile, written by tilewright {__version__}.",
            *origin_lines(self.source),
            f"Numbers: {safe_text(self.values.origin)}.",
            "",
            "Not in the plan's memory and traffic: the biases, which are read where they are.",
        ]
        if gathered:
            lines.append(
                "Written by the host before they are read, with borders, concatenated or in another scale: "
                f"the inputs of {safe_text(', '.join(gathered))}."
            )
        if hosted:
            lines.append(f"Computed by the host: {safe_text(', '.join(hosted))}.")
        return lines

    def _on_host(self, each: Named) -> bool:
        plan = each.node.plan
        return plan is None or (isinstance(plan, OperationPlan) and operation_of(each.node).on == "host")

    def _arrays(self) -> list[str]:
        lines, partial = [], 1
        for each in self.nodes:
            size = self.batch * prod(each.node.shape)
            if each is not self.result:
                lines.append(
                    f"static data_t {each.output}[{size}]; /* {self.batch} x {_shape(each.node.shape)} */"
                )
            if each.gathered:
                top, bottom, left, right = each.border
                rows, columns = each.plane
                plane = (rows + top + bottom) * (columns + left + right)
                lines.append(f"static data_t {each.name}_input[{self.batch * sum(each.maps) * plane}];")
            if isinstance(each.node.plan, DspPlan):
                partial = max(partial, size)
        return [*lines, f"static acc_t partial_sums[{partial}];"]

    def _run(self) -> list[str]:
        lines = [
            "static void count(int part, int counted)",
            "{",
            "    if (counted)",
            "        memcpy(part_counts[part], dma_counts, sizeof dma_counts);",
            "    memset(dma_counts, 0, sizeof dma_counts);",
            "}",
            "",
            RUN,
            "{",
        ]
        for each in self.nodes:
            lines += self._step(each)
        return [*lines, "}"]

    def _step(self, each: Named) -> list[str]:
        node = each.node
        output = "outputs" if each is self.result else each.output
        inputs = list(each.inputs)
        lines = []
        if each.gathered:
            sources = braced(
                braced((array, maps, scale(source.formats[0].fraction, source.formats[1])))
                for array, maps, source in zip(inputs, each.maps, node.sources, strict=True)
            )
            lines += [
                "    {",
                f"        const source_t sources[] = {sources};",
                f"        const int plane[2] = {braced(each.plane)}, border[4] = {braced(each.border)};",
                f"        gather(sources, {len(inputs)}, {self.batch}, plane, border, {each.name}_input);",
                "    }",
            ]
            inputs = [f"{each.name}_input"]
        if isinstance(node.plan, DspPlan):
            kernels, biases = self.places[node.layer.name]
            lines += [
                f"    run_layer(&{each.name}, {inputs[0]}, (const data_t *)(weights + {kernels}),",
                f"              (const int32_t *)(weights + {biases}), partial_sums, {output});",
            ]
        else:
            function = "run_on_host" if self._on_host(each) else "run_operation"
            lines += [
                "    {",
                f"        const data_t *const inputs[] = {braced(inputs)};",
                f"        {function}(&{each.name}, inputs, {output});",
                "    }",
            ]
        return [*lines, f"    count({each.name.upper()}, counted);"]

    def _readme(self) -> str:
        right = self.values.right
        told = "" if right is None else f", of which {right} are put into the right class"
        text = (resources.files(__name__) / "runtime" / "README.md").read_text(encoding="utf-8")
        return text.format(
            title=safe_text(self.title) or "A network",
            version=__version__,
            images=f"{len(self.values.images)} images{told}",
            bias_bits=BIAS_BITS,
        )


def _machine(problem: Problem) -> DspMachine:
    """Return the machine; refuse elements that have no type in C."""
    machine = problem.machine
    assert isinstance(machine, DspMachine)
    if machine.bits is not None:
        limit = "projects are emitted for elements of one width, element_bytes"
        raise InputError("machine.bits", list(machine.bits.model_dump().values()), limit)
    if machine.element_bytes not in WIDTHS:
        limit = f"C is emitted for elements of {', '.join(map(str, WIDTHS))} bytes"
        raise InputError("machine.element_bytes", machine.element_bytes, limit)
    return machine


def _named(nodes: Sequence[Node]) -> list[Named]:
    """Return nodes with names that C allows, each used once."""
    arrays = {OWN_INPUT: "images"}
    taken: set[str] = set()
    found = []
    for node in nodes:
        name = identifier(node.name, taken)
        taken.add(name)
        inputs = tuple(arrays[source.tensor] for source in node.sources)
        arrays[node.tensor] = f"{name}_output"
        found.append(Named(node, name, arrays[node.tensor], inputs))
    return found


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))
