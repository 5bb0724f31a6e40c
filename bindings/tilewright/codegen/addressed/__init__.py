"""A residency plan as a C project: steps, pass by pass, in a byte array of exactly the planned size.

Of several memories each one that something lies in is such an array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from math import prod
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.codegen.addressed.steps import NONE, OperationInStep, StepInMemory, in_a_row, steps_in_memory
from tilewright.codegen.c_text import identifier, quote, safe_text
from tilewright.codegen.numbers.c_integers import are_packed, c_integer, c_sum_bits, pack_elements
from tilewright.codegen.numbers.element_numbers import element_numbers
from tilewright.codegen.numbers.float_network import WIDTHS, FloatNetwork, FloatNumbers, FloatOperation
from tilewright.codegen.numbers.network_numbers import NetworkNumbers, refusal, refuse_late_bias
from tilewright.codegen.numbers.quantised_network import GivenNumbers, QuantisedNetwork
from tilewright.codegen.numbers.trained_network import TrainedNetwork
from tilewright.codegen.numbers.trained_numbers import coarse_numbers
from tilewright.codegen.project_files import (
    Files,
    array_literal,
    comment,
    file_head,
    machine_header,
    project_files,
    title_of,
    window_fields,
)
from tilewright.residency import Plan, Problem
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.derived_problems import problem_of_plan
from tilewright.residency.evaluation import taken_of_each
from tilewright.residency.graph import Operation, Tensor
from tilewright.residency.machine import ONE, Region
from tilewright.simulator.arithmetic.integer_operation import IntegerOperation
from tilewright.spec.coarsening import PERMUTES
from tilewright.spec.errors import InputError
from tilewright.spec.network import (
    AFFINE,
    FREE,
    AnyLayer,
    Function,
    Map,
    MatMul,
    NamedLayer,
    Pool,
    Reshape,
    Slice,
)

RUNTIME = ("dma.h", "dma.c", "engine.h", "engine.c", "floats.h", "integers.h", "network.h", "main.c")
"""Sources that are the same for every network."""


def addressed_project(
    problem: Problem,
    plan: Plan,
    seed: int,
    name: str,
    source: str,
    given: GivenNumbers | FloatNetwork | None = None,
    *,
    floats: bool = False,
) -> Files:
    """Return the files of a project that computes a network as planned, by their paths.

    Parameters
    ----------
    given
        Its numbers, quantised or in floating point, and images to run it on; made from the seed by default.
    floats
        See `numbers_of`.

    Raises
    ------
    InputError
        For an operation, or a kind of step, that there is no C for; for numbers of another network, or that
        elements do not hold.
    """
    return _Project(problem, plan, numbers_of(problem, seed, given, floats=floats), name, source).files()


def is_in_floats(problem: Problem) -> bool:
    """Whether a network is emitted in floats if nothing else is asked for.

    It has products of computed matrices, or functions along an axis. Or it has other operations that there is
    no C for in integers, and elements that may be floats.
    """
    ops = problem.graph.ops.ops
    specs = [op.spec for op in ops]
    if any(isinstance(spec, MatMul) or (isinstance(spec, Function) and spec.along) for spec in specs):
        return True
    if problem.machine.element_bytes not in WIDTHS:
        return False
    layers = problem.network.layers
    if any(isinstance(layer, Map) and layer.numbers is not None for layer in layers):
        return True
    every = (layer for op in ops for layer in (op.spec, *op.folded))
    moves = (isinstance(spec, Slice) or (isinstance(spec, Reshape) and spec.op in PERMUTES) for spec in specs)
    return any(map(_has_no_integers, every)) or any(moves) or _reads_as_floats_do(problem)


def _has_no_integers(layer: AnyLayer) -> bool:
    """Whether a layer is a function that there is no C for in integers."""
    if isinstance(layer, Map):
        known = ("relu", "softmax", "log_softmax", "lrn", "fused", *AFFINE, *FREE)
        return layer.op not in known
    return isinstance(layer, Function) and layer.op not in ("concat", "expand", "slice", "split")


def _reads_as_floats_do(problem: Problem) -> bool:
    """Whether some operation reads maps as operations in floats alone do: in parts, or another shape."""
    try:
        for operation in problem.graph.operations:
            _refuse_shapes(problem, operation)
    except InputError:
        return True
    return False


def numbers_of(
    problem: Problem,
    seed: int = 0,
    given: GivenNumbers | FloatNetwork | None = None,
    *,
    floats: bool = False,
) -> NetworkNumbers | FloatNumbers:
    """Return the numbers of a project.

    Parameters
    ----------
    floats
        Whether they are to be floats, where integers could do; so it is with a `FloatNetwork`, too.
    """
    size, graph = problem.machine.element_bytes, problem.graph.ops
    if floats or isinstance(given, FloatNetwork) or is_in_floats(problem):
        if isinstance(given, QuantisedNetwork | TrainedNetwork):
            limit = "this network is emitted in floating point; leave --numbers out"
            raise InputError("numbers", given.origin, limit)
        for operation in problem.graph.operations:
            _refuse_groups(problem, operation)
        return FloatNumbers(problem.network, graph, size, images_of(problem), seed, given)
    for layer in problem.network.layers:
        if isinstance(layer, Map) and layer.numbers is not None:
            limit = "there are no integers for stored numbers that differ from place to place"
            raise refusal(problem.network, layer, limit)
    for operation in problem.graph.operations:
        _refuse_shapes(problem, operation)
    if isinstance(given, QuantisedNetwork):
        return element_numbers(problem.network, graph, size, given)
    return coarse_numbers(problem.network, graph, size, images_of(problem), seed, given)


def images_of(problem: Problem) -> int:
    """Return how many images there are where none are given."""
    return 1 if problem.limits.frames == ONE else 2


def _refuse_groups(problem: Problem, operation: Operation) -> None:
    """Refuse groups of single values."""
    spec = operation.op.spec
    if isinstance(spec, NamedLayer) and spec.kind == "fc" and spec.groups > 1:
        raise refusal(problem.network, spec, "there is no C for groups of a fully connected layer")


def _refuse_shapes(problem: Problem, operation: Operation) -> None:
    """Refuse, in integers, maps that are read in parts, copies, or another shape than they are stored in."""
    spec = operation.op.spec
    if not operation.op.accesses:  # an input of the network
        return
    parts = any(access.channels is not None for access in operation.op.accesses)
    if parts and spec.kind != "matmul":
        raise refusal(problem.network, spec, "there is no C for reading some channels of a map alone")
    if operation.op.has_views:
        limit = "there is no C for reading parts of a concatenation, or copies"
        raise refusal(problem.network, spec, limit)
    if operation.op.causal is not None:
        raise refusal(problem.network, spec, "there is no C for a softmax with a causal mask")
    if operation.op.picks is not None:
        raise refusal(problem.network, spec, "there is no C for functions, parts and copies, pixel by pixel")
    planes_and_channels = [problem.graph.ops.operand_shape(operand) for operand in operation.op.operands]
    if spec.kind in ("add", "mul") and any(shape[0] < spec.input[0] for shape in planes_and_channels):
        raise refusal(problem.network, spec, "there is no C for operands of fewer channels")
    _refuse_groups(problem, operation)
    if in_a_row(operation):
        return
    producers = operation.op.producers
    if spec.kind == "matmul":  # whose second operand may have any shape
        producers = producers[:1]
    planes = {problem.graph.tensors[producer + 1].shape[1:] for producer in producers}
    allowed = {spec.input[1:], *([(1, 1)] if spec.kind == "mul" else [])}
    if not planes <= allowed:
        raise refusal(problem.network, spec, "there is no C for reading maps in another shape")


class _Project:
    def __init__(
        self, problem: Problem, plan: Plan, numbers: NetworkNumbers | FloatNumbers, name: str, source: str
    ) -> None:
        self._problem, self._title, self._source = problem, name, source
        self._graph = problem_of_plan(problem, plan).graph if plan.again else problem.graph
        self._size = problem.machine.element_bytes
        self._steps = steps_in_memory(problem, plan)
        self._numbers = numbers
        for step in self._steps:
            if step.sums is not None and isinstance(numbers, NetworkNumbers):
                self._refuse_sums(self._first(step.operations[-1].operation))
        tops = taken_of_each(problem, plan, decode_plan(problem, plan))
        self._taken = {region: top for region, top in zip(problem.machine.regions, tops, strict=True) if top}
        tensors = enumerate(self._graph.tensors)
        given = [number for number, tensor in tensors if tensor.given and tensor.readers]
        stored = numbers.stored if isinstance(numbers, FloatNumbers) else ()
        self._inputs = [number for number in given if self._graph.tensors[number].name not in stored]
        self._stored = [number for number in given if self._graph.tensors[number].name in stored]
        self._outputs = [each.number + 1 for each in self._graph.operations if each.op.leaves]
        weighty = [each for each in self._graph.operations if each.weights and self._first(each) == each]
        begins = accumulate((operation.weights for operation in weighty), initial=0)
        self._weights = {operation.number: begin for operation, begin in zip(weighty, begins, strict=False)}
        self._staying = {
            operation.number: plan.staying[operation.name]
            for operation in weighty
            if operation.name in plan.staying
        }
        self._names, self._arrays = self._named()
        self._after: dict[str, str] = {}  # functions behind operations, as C calls them
        self._picks: dict[str, str] = {}  # and what C is told of the channels of a pixel

    def _first(self, operation: Operation) -> Operation:
        """Return the operation that a copy repeats, whose numbers it has; another one itself."""
        return self._graph.operations[self._graph.first.get(operation.number, operation.number)]

    def _sum_bits(self, operation: Operation) -> int:
        """Return the bits of a sum that is not complete, as C has integers; a maximum takes an element."""
        arithmetic = self._numbers.operations[self._first(operation).name]
        if arithmetic.kind == "MAX_POOL" or isinstance(arithmetic, FloatOperation):
            return 8 * self._size
        if arithmetic.kind == "CONV":
            return c_sum_bits([arithmetic.sum_bits])
        assert operation.running is not None
        return c_sum_bits([min(64, 8 * self._size + prod(operation.running.plane).bit_length())])

    def _refuse_sums(self, operation: Operation) -> None:
        """Refuse sums that do not fit where the plan keeps them, or to which a bias cannot be added first."""
        arithmetic, machine = self._numbers.operations[operation.name], self._problem.machine
        assert isinstance(arithmetic, IntegerOperation)
        bits = self._sum_bits(operation)
        if arithmetic.kind == "MAX_POOL":
            return
        if 8 * self._size * self._graph.sum_elements < bits:
            limit = (
                f"layer {operation.name}: a sum of the C program has {bits} bits, at least {bits // 8} bytes"
            )
            raise InputError("machine.sum_bytes", machine.sum_bytes, limit)
        if arithmetic.kind != "CONV":
            return
        refuse_late_bias(self._problem.network, operation.op.spec, arithmetic, 8 * self._size)

    def _named(self) -> tuple[dict[int, str], list[str]]:
        """Return what C calls the tensors that are ever in DRAM, and arrays for those between steps."""
        found: dict[int, str] = {}
        weights = sum(self._graph.operations[number].weights for number in self._weights)
        for array, begin, numbers in (
            ("network_input", 0, self._inputs),
            ("network_weights", weights, self._stored),
            ("network_output", 0, self._outputs),
        ):
            for number in numbers:
                found[number] = f"{array} + {begin * self._size}"
                begin += self._graph.tensors[number].size
        arrays: list[str] = []
        taken: set[str] = set()
        for each in (each for step in self._steps for each in step.maps if each.written):
            if each.number not in found:
                tensor = self._graph.tensors[each.number]
                found[each.number] = identifier(tensor.name, taken)
                taken.add(found[each.number])
                arrays.append(f"static unsigned char {found[each.number]}[{tensor.size * self._size}];")
        return found, arrays

    # Files ----------------------------------------------------------------------------------------------

    def files(self) -> Files:
        """Return all files."""
        return project_files(
            {"addressed": RUNTIME, "project": ("bits.h", "data_files.h", "expected.h", "numbers.h")},
            {"machine.h": self._machine_text(), "network.c": self._network()},
            {
                "title": title_of(self._title),
                "memory": self._told_memory(),
                "images": self._told_images(),
                "inputs": self._listed(self._inputs),
                "outputs": self._listed(self._outputs),
            },
            {
                "input.bin": self._packed(self._arranged(self._inputs, self._numbers.maps)),
                "weights.bin": self._packed_weights(),
                "labels.bin": self._numbers.labels_data,
                **self._numbers.reference_data(8 * self._size, partial(self._arranged, self._outputs)),
            },
        )

    def _packed_weights(self) -> bytes:
        arrays = [self._parameters(number) for number in self._weights]
        maps = {name: values[:1] for name, values in self._numbers.maps.items()}
        arrays += [self._arranged([number], maps) for number in self._stored]
        return self._packed(np.concatenate(arrays)) if arrays else b""

    def _packed(self, values: NDArray[Any]) -> bytes:
        if isinstance(self._numbers, FloatNumbers):
            return self._numbers.packed(values)
        return pack_elements(values, 8 * self._size)

    def _arranged(self, numbers: Sequence[int], maps: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return the values of tensors, image by image, pixel by pixel."""
        images = zip(
            *(maps[self._graph.tensors[number].name].transpose(0, 2, 3, 1) for number in numbers), strict=True
        )
        return np.concatenate([values.ravel() for image in images for values in image])

    def _parameters(self, number: int) -> NDArray[Any]:
        """Return the weights of an operation."""
        operation = self._graph.operations[number]
        found: NDArray[Any] = self._numbers.operations[operation.name].parameters
        assert found.size == operation.weights
        return found

    def _machine_text(self) -> str:
        size = self._size
        planned = sum(self._taken.values()) * size
        told = [
            f"The machine: {self._problem.machine.memory_bytes:,} bytes on chip, of which the plan takes "
            f"{planned:,}."
        ]
        moved = {
            "LOADED_BYTES": sum(step.loaded for step in self._steps),
            "SAVED_BYTES": sum(step.saved for step in self._steps),
        }
        tensors = self._graph.tensors
        sizes = {
            "INPUT_BYTES": sum(tensors[number].size for number in self._inputs),
            "WEIGHT_BYTES": sum(self._graph.operations[number].weights for number in self._weights)
            + sum(tensors[number].size for number in self._stored),
            "STAYING_BYTES": sum(self._graph.operations[number].weights for number in self._staying),
            "OUTPUT_BYTES": sum(tensors[number].size for number in self._outputs),
        }
        return machine_header(
            told,
            [
                "/* Elements, one after the other without gaps. */",
                f"#define ELEMENT_BYTES {size}",
                f"#define ELEMENT_BITS {8 * size}",
                *self._types(),
                "",
                *self._memories(),
                "",
                f"#define IMAGES {self._numbers.images}",
                f"#define LABELS {int(self._numbers.labels is not None)} /* whether classes are known */",
                f"#define STEPS {len(self._steps)}",
                f"#define STAYING {len(self._staying)} /* operations whose weights stay for all images */",
                f"#define SUM_ELEMENTS {self._graph.sum_elements} /* of a sum that is not complete */",
                f"#define MOST_MAPS {max(len(step.maps) for step in self._steps)} /* of a step */",
                "",
                "/* What is in DRAM before and after, for an image. */",
                *(f"#define {name} {elements * size}" for name, elements in sizes.items()),
                "",
                "/* What the plan moves for an image. */",
                *(f"#define {name} {elements * size}LL" for name, elements in moved.items()),
                "",
                f"#define MOST_AXES {self._most_axes()} /* of a reshape */",
                f"#define MOST_SHARED {self._most_shared()} /* sums of a pixel that its channels share */",
                "",
                "/* C has no arrays of none. */",
                "#define SOME(count) ((count) ? (count) : 1)",
            ],
            'ON_CHIP(buffer) __attribute__((section(".on_chip." #buffer)))',
        )

    def _named_memories(self) -> list[tuple[str, Region, int]]:
        """Return what C calls the memories that something lies in, and how many elements each has."""
        if len(self._problem.machine.regions) == 1:
            return [("memory", self._problem.machine.regions[0], sum(self._taken.values()))]
        found, names = list[tuple[str, Region, int]](), set[str]()
        for region, top in self._taken.items():
            name = identifier(region.name, names, "memory")
            names.add(name)
            found.append((name, region, top))
        return found

    def _memories(self) -> list[str]:
        """Return the definitions of the memories, and of where an element is."""
        found, size = self._named_memories(), self._size
        every = " ".join(f"EACH({name}, {top * size})" for name, _, top in found)
        every = "EACH(memory, MEMORY_BYTES)" if len(self._problem.machine.regions) == 1 else every
        *others, last = [
            f"{name} + ((at) - {region.begin}) * ELEMENT_BYTES"
            if region.begin
            else f"{name} + (at) * ELEMENT_BYTES"
            for name, region, _ in found
        ]
        where = "".join(
            f"(at) < {region.end} ? {one} : " for one, (_, region, _) in zip(others, found, strict=False)
        )
        which = "The memory" if len(found) == 1 else "All memories"
        return [
            f"/* {which} on chip, exactly as planned, and where an element is. */",
            f"#define MEMORY_BYTES {sum(self._taken.values()) * size}",
            f"#define MEMORIES(EACH) {every}",
            f"#define CHIP(at) ({where}{last})",
        ]

    def _told_memory(self) -> str:
        """Return how many bytes a plan takes."""
        found = self._named_memories()
        if len(found) == 1:
            return f"one memory of {found[0][2] * self._size:,} bytes"
        told = (f"{top * self._size:,} bytes of {safe_text(region.name)}" for _, region, top in found)
        return f"{len(found)} memories: {', '.join(told)}"

    def _of_floats(self) -> list[FloatOperation]:
        return [each for each in self._numbers.operations.values() if isinstance(each, FloatOperation)]

    def _most_axes(self) -> int:
        moves = [each.permutation for each in self._of_floats() if each.permutation is not None]
        return max((len(sizes) for sizes, _ in moves), default=1)

    def _most_shared(self) -> int:
        pixels = [each.pixel for each in self._of_floats() if each.pixel is not None]
        return max((len(each.reductions) for each in pixels), default=0)

    def _types(self) -> list[str]:
        """Return what values and sums are."""
        if isinstance(self._numbers, FloatNumbers):
            kind = "float" if self._size == 4 else "double"
            return [
                "#define PACKED 0",
                "#define FLOATS 1",
                '#define VALUES "floats.h"',
                "",
                "/* Values as they are computed, and sums. */",
                f"typedef {kind} value_t, sum_t;",
            ]
        numbers = self._numbers.operations.values()
        sums = [each.sum_bits for each in numbers if each.kind == "CONV"]
        return [
            f"#define PACKED {int(are_packed([8 * self._size]))} /* whether they are no integers of C */",
            "#define FLOATS 0",
            '#define VALUES "integers.h"',
            "",
            "/* Values as they are computed, and sums, of which accumulators keep the last bits. */",
            "typedef int64_t value_t;",
            f"typedef u{c_integer(c_sum_bits(sums))} sum_t;",
        ]

    def _network(self) -> str:
        lines = [
            comment(file_head(self._title, self._source, f"Numbers: {safe_text(self._numbers.origin)}.")),
            '#include "network.h"',
            "",
            "#include <stddef.h>",
            "",
            "unsigned char network_input[SOME(INPUT_BYTES)];",
            "unsigned char network_weights[SOME(WEIGHT_BYTES)];",
            "unsigned char network_output[SOME(OUTPUT_BYTES)];",
            *self._arrays,
            "",
            "static const tensor_t tensors[] = {",
            *map(self._tensor, range(len(self._graph.tensors))),
            "};",
            *self._functions(),
        ]
        for number, step in enumerate(self._steps, 1):
            lines += ["", *self._tables(f"step{number}", step)]
        lines += [
            "",
            "const step_t steps[STEPS] = {",
            *(self._described(f"step{number}", step) for number, step in enumerate(self._steps, 1)),
            "};",
            "",
            "/* Weights that are loaded before the first image, for all of them. */",
            "const staying_t staying[SOME(STAYING)] = {",
            *(map(self._loaded_once, self._staying) if self._staying else ["    {NULL, 0, 0},"]),
            "};",
            "",
        ]
        return "\n".join(lines)

    def _functions(self) -> list[str]:
        """Return functions of single values that are part of operations, and call them by number."""
        lines: list[str] = []
        for number, (name, each) in enumerate(self._numbers.operations.items()):
            if isinstance(each, FloatOperation) and each.after.steps:
                if not lines:
                    lines += ["", "#include <tgmath.h>"]
                self._after[name] = f"after{number}"
                lines += ["", f"/* Behind {safe_text(name)}. */", *each.after.in_c(self._after[name])]
        return [*lines, *self._pixels(bool(lines))]

    def _pixels(self, included: bool) -> list[str]:
        """Return what is computed of the channels of pixels, or which channels are picked."""
        lines: list[str] = []
        for number, (name, each) in enumerate(self._numbers.operations.items()):
            if not isinstance(each, FloatOperation) or each.pixel is None:
                continue
            called, pixel = f"pixel{number}", each.pixel
            lines += ["", f"/* Of a pixel: {safe_text(name)}. */"]
            if pixel.picks is not None:
                self._picks[name] = f".picks = {called}"
                shown = ", ".join(map(str, pixel.picks))
                lines += [f"static const int {called}[] = {{", *wrap(shown, 108, initial_indent="    "), "};"]
                continue
            share = f".share = {called}_shared, " if pixel.reductions else ""
            self._picks[name] = f"{share}.of_pixel = {called}"
            lines += pixel.in_c(called)
        return ["", "#include <tgmath.h>", *lines] if lines and not included else lines

    def _tensor(self, number: int) -> str:
        shown = array_literal((self._names.get(number, "NULL"), *self._graph.tensors[number].shape))
        return f"    {shown}, /* {self._told(number)} */"

    def _tables(self, name: str, step: StepInMemory) -> list[str]:
        """Return the tables of a step."""
        lines = [
            f"/* {safe_text(', '.join(step.step.operations))} */",
            f"static const map_t {name}_maps[] = {{",
        ]
        for each in step.maps:
            place = each.address, each.pixels, each.channels, each.apart
            first, end = each.fetched
            flags = int(each.whole), int(each.twice), int(each.block), end - first, first
            moved = int(each.streamed), int(each.written)
            terms = each.terms, each.room, each.begin, int(each.in_sums)
            shown = array_literal((f"tensors + {each.number}", *place, *flags, *moved, *terms))
            lines.append(f"    {shown}, /* {self._told(each.number)} */")
        lines.append("};")
        for axis, parts in (("rows", step.rows), ("columns", step.columns)):
            lines.append(f"static const range_t {name}_{axis}[] = {{")
            lines += [f"    {', '.join(map(array_literal, part))}," for part in parts]
            lines.append("};")
        lines.append(f"static const part_t {name}_parts[] = {{")
        for operation in step.operations:
            lines += self._parts(operation)
        lines += ["};", f"static const operand_t {name}_operands[] = {{"]
        first = 0
        for operand in (operand for operation in step.operations for operand in operation.operands):
            shown = array_literal((f"{name}_parts + {first}", operand.first, *operand.shape))
            lines.append(f"    {shown},")
            first += len(operand.parts)
        lines += ["};", f"static const operation_t {name}_operations[] = {{"]
        places = 0, 0
        for operation in step.operations:
            lines += [f"    {line}" for line in self._operation(name, operation, places, step.sums)]
            places = places[0] + len(operation.operands), places[1] + len(operation.parts)
        return [*lines, "};"]

    def _parts(self, operation: OperationInStep) -> list[str]:
        """Return the parts of an operation's operands."""
        arithmetic = self._numbers.operations[self._first(operation.operation).name]
        reads: Sequence[tuple[int, int]] = [(0, 0)] * len(operation.parts)
        if isinstance(arithmetic, IntegerOperation):
            reads = arithmetic.reads
        lines = []
        for part, read in zip(operation.parts, reads, strict=True):
            begin, end = part.channels
            fields = [part.place, part.first, int(part.whole), *read, begin, end - begin]
            shown = [*fields, *part.at, *part.plane, array_literal(part.copies), *part.shape]
            shown += [array_literal(each) for each in (part.stride, part.before, part.extent)]
            shown.append(array_literal(map(array_literal, part.blocks or (NONE, NONE, NONE))))
            lines.append(f"    {array_literal(shown)},")
        return lines

    def _told(self, number: int) -> str:
        return safe_text(self._graph.tensors[number].name)

    def _operation(
        self, name: str, each: OperationInStep, places: tuple[int, int], sums: int | None
    ) -> list[str]:
        """Return an operation, whose operands and parts begin at some places of their tables."""
        operation, spec = each.operation, each.operation.op.spec
        arithmetic = self._numbers.operations[self._first(operation).name]
        window, groups, bias = window_fields(operation.op)
        if isinstance(spec, MatMul):
            groups = spec.groups
        if isinstance(arithmetic, FloatOperation) and arithmetic.kind == "PICK":
            window = ((1, 1), (1, 1), (0, 0), (1, 1))
        if each.adds_pixels:
            window = ((1, 1), (1, 1), (0, 0), (1, 1))
        kernel, stride, padding, dilation = map(array_literal, window)
        weights = "NULL"
        if operation.parameters:
            weights = f"network_weights + {self._weights[self._first(operation).number] * self._size}"
        return [
            f"{{ /* {safe_text(operation.name)} */",
            f"    .kind = {arithmetic.kind}, .map = {each.output},",
            f"    .operands = {name}_operands + {places[0]}, .operand_count = {len(each.operands)},",
            f"    .parts = {name}_parts + {places[1]}, .part_count = {len(each.parts)}, "
            f".in_a_row = {int(in_a_row(operation))},",
            f"    .input_channels = {spec.input[0]}, .groups = {groups},",
            f"    .kernel = {kernel}, .stride = {stride}, .padding = {padding}, .dilation = {dilation},",
            f"    .units = {operation.units}, .channelwise = {int(operation.channelwise)},",
            f"    .weights = {weights}, .weight_count = {operation.parameters}, "
            f".each = {-(-operation.parameters // operation.units)},",
            f"    .address = {each.address}, .kept = {int(each.kept)}, "
            f".stays = {int(operation.staying > 0)},",
            f"    .has_bias = {bias}, .divisor = {arithmetic.divisor},",
            *(f"    {line}" for line in self._arithmetic(operation, arithmetic, sums)),
            *(f"    {line}" for line in _in_blocks(each)),
            *(f"    {line}" for line in _recurrent(each, arithmetic)),
            "},",
        ]

    def _arithmetic(
        self, operation: Operation, arithmetic: IntegerOperation | FloatOperation, sums: int | None
    ) -> list[str]:
        """Return what is told of an operation in integers, or in floating point."""
        if isinstance(arithmetic, IntegerOperation):
            within = int(arithmetic.bias_within or sums is not None)
            return [
                f".sum_bits = {arithmetic.sum_bits}, .bias_shift = {arithmetic.bias_shift}, "
                f".bias_within = {within},",
                f".relu = {int(arithmetic.relu)}, .shift = {arithmetic.shift}, .bits = {arithmetic.bits},",
            ]
        spec, name = operation.op.spec, self._first(operation).name
        after = self._after.get(name, "NULL")
        lines = [f".sum_bits = {8 * self._size}, .bias_within = 1, .after = {after},"]
        if isinstance(spec, Pool):
            lines.append(f".within = {int(arithmetic.within)},")
        elif isinstance(spec, MatMul):
            sizes = f".rows = {spec.rows}, .columns = {spec.columns}, .depth = {spec.depth}"
            lines.append(f"{sizes}, .transposed = {int(bool(spec.transposed))},")
        elif arithmetic.permutation is not None:
            sizes, apart = map(array_literal, arithmetic.permutation)
            lines.append(f".sizes = {sizes}, .apart = {apart}, .axes = {len(arithmetic.permutation[0])},")
        elif arithmetic.pixel is not None:
            lines += [f".spread = {operation.op.spread},", f"{self._picks[name]},"]
        elif isinstance(spec, Map | Function):
            lines.append(f".together = {arithmetic.together}, .inner = {arithmetic.inner},")
            lines.append(f".by_channel = {int(in_a_row(operation))}, .causal = {_keys_of_first(operation)},")
            lines.append(f".has_summand = {int(arithmetic.has_summand)},")
            lines.append(f".epsilon = (value_t){arithmetic.epsilon!r},")
        return lines

    def _loaded_once(self, number: int) -> str:
        operation = self._graph.operations[number]
        weights = f"network_weights + {self._weights[number] * self._size}"
        shown = array_literal((weights, self._staying[number], operation.weights))
        return f"    {shown}, /* {safe_text(operation.name)} */"

    def _described(self, name: str, step: StepInMemory) -> str:
        planned = step.step
        summed = step.depth is not None
        fields = (
            quote(" + ".join(planned.operations)),
            planned.order.upper(),
            planned.pixels,
            planned.kernels,
            planned.columns or 0,
            planned.channels if summed else "ALL",
            step.depth if summed else "ALL",
            step.sums or 0,
            self._sum_bits(step.operations[-1].operation) if planned.running else 0,
            int(planned.double_buffering),
            f"{name}_maps",
            len(step.maps),
            f"{name}_rows",
            f"{name}_columns",
            len(step.rows),
            len(step.columns),
            f"{name}_operations",
            len(step.operations),
        )
        return f"    {array_literal(fields)},"

    def _told_images(self) -> str:
        told = "an image" if self._numbers.images == 1 else f"{self._numbers.images} images"
        right = self._numbers.right
        known = "" if right is None else f", of which {right} are put into the right class"
        return f"{told}{known}. Numbers: {safe_text(self._numbers.origin)}"

    def _listed(self, numbers: Sequence[int]) -> str:
        """Return tensors with their shapes."""
        return ", ".join(_shown(self._graph.tensors[number]) for number in numbers)


def _keys_of_first(operation: Operation) -> int:
    """Return how many keys the first row of a softmax with a causal mask sees; of another one 0."""
    return 0 if operation.op.causal is None else operation.op.causal + 1


def _recurrent(each: OperationInStep, arithmetic: IntegerOperation | FloatOperation) -> list[str]:
    """Return what is told of a recurrent layer."""
    if not isinstance(arithmetic, FloatOperation) or arithmetic.recurrent is None:
        return []
    told = arithmetic.recurrent.told
    of_value = each.operation.parameters // (told.directions * told.hidden)
    return [*arithmetic.recurrent.in_c(), f".of_value = {of_value}, .state = {each.state},"]


def _in_blocks(each: OperationInStep) -> list[str]:
    """Return what is told of an operation whose second operand is in blocks, or whose terms pass by."""
    lines = []
    if each.in_blocks:
        lines.append(f".in_blocks = 1, .operand = {each.operand}, .by_term = {int(each.by_term)},")
    if each.attention:
        lines.append(f".attention = {each.attention},")
    if each.terms:
        lines.append(f".terms = {each.terms}, .in_tiles = {int(each.in_tiles)}, .sums = {each.sums},")
    if each.causal:
        lines.append(f".causal = {each.causal},")
    return lines


def _shown(tensor: Tensor) -> str:
    rows_first = tensor.shape[1], tensor.shape[2], tensor.shape[0]
    return f"{safe_text(tensor.name)} ({'x'.join(map(str, rows_first))})"
