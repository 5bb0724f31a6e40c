"""A plan of fusion as a program: instructions with addresses, the host's table, and what lies in DDR."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import prod

import numpy as np

from tilewright.codegen.isa.container import Image
from tilewright.codegen.isa.dependencies import Timed, Tokens
from tilewright.codegen.isa.engines import SUM_BITS
from tilewright.codegen.isa.instructions import MODES, NONLINEAR, POOLS, Instruction, Operand
from tilewright.codegen.isa.layout import ALIGNMENT, Life, Tensor, own_array, placed, side_by_side
from tilewright.codegen.isa.places import accesses
from tilewright.codegen.isa.timing import cycles
from tilewright.codegen.numbers.c_integers import pack_elements
from tilewright.codegen.numbers.network_numbers import NetworkNumbers, refuse_late_bias
from tilewright.codegen.numbers.quantised_network import GivenNumbers
from tilewright.codegen.stream import numbers_of
from tilewright.codegen.stream.groups import Tables, planned_tables
from tilewright.fusion import Plan, Problem
from tilewright.fusion.evaluation import choices, copies, decided_layouts, decided_maps
from tilewright.fusion.graph import engine_of
from tilewright.fusion.group.addresses import Addressed, Area
from tilewright.fusion.group.fused_group import FusedGroup
from tilewright.fusion.host import host_cycles
from tilewright.fusion.layouts import CONCATENATED, NCHW
from tilewright.fusion.machine import BUFFERS, CONV, HOST, POOL
from tilewright.fusion.plan import Group
from tilewright.simulator.arithmetic.fixed_point import Integers
from tilewright.simulator.arithmetic.integer_operation import IntegerOperation
from tilewright.spec.errors import InputError
from tilewright.spec.graph import OWN, Operation
from tilewright.spec.layer import Window
from tilewright.spec.network import OPERANDS, OWN_INPUT, Input, NamedLayer

Range = tuple[int, int]

WIDTHS = (1, 2, 4)
"""Bytes that an element can have, so that products of two fit 64 bits."""


def program_of(
    problem: Problem, plan: Plan, seed: int, name: str, given: GivenNumbers | None = None
) -> Image:
    """Return the program of a valid plan, with parameters, inputs and what must come out.

    Parameters
    ----------
    given
        The network's numbers, quantised or in floating point, and inputs; made from the seed when left out.

    Raises
    ------
    InputError
        For an operation that there is no instruction for, and for elements that are too wide.
    """
    size = problem.machine.element_bytes
    if size not in WIDTHS:
        limit = f"instructions are for elements of {', '.join(map(str, WIDTHS))} bytes"
        raise InputError("machine.element_bytes", size, limit)
    return _Compiler(problem, plan, numbers_of(problem, seed, given), name).image()


@dataclass(frozen=True)
class _Step:
    """A group of the plan: what the accelerator executes, or an operation of the host."""

    group: Group
    fused: FusedGroup | None
    op: Operation | None


class _Compiler:
    def __init__(self, problem: Problem, plan: Plan, numbers: NetworkNumbers, name: str) -> None:
        self._problem, self._numbers, self._name = problem, numbers, name
        self._machine = problem.machine
        self._width, self._images = problem.machine.element_bytes, problem.machine.arrays
        self._planned = sum(choice.cycles for choice in choices(problem, plan))
        self._planned += sum(host_cycles(problem, op) for op in problem.ops)
        self._layouts = decided_maps(problem, plan)
        self._by_tensor, self._copied = decided_layouts(problem, plan), copies(problem, plan)
        self._planned += sum(self._copied.values())
        self._steps = list(self._all_steps(plan))
        self._flat: dict[str, Integers] = {
            op.name: self._arranged(op) for op in problem.ops if op.name in numbers.operations
        }
        self._parameters, end = self._parameter_places()
        self._parameter_bytes = end
        self._tensors, self._input_end, self._end = self._tensor_places(end)

    def _all_steps(self, plan: Plan) -> Iterator[_Step]:
        ops = {op.name: op for op in self._problem.ops}
        for group in plan.groups:
            if group.tile is not None:
                fused = self._problem.fused([ops[name].number for name in group.nodes])
                yield _Step(group, fused, None)
                continue
            (op,) = (ops[name] for name in group.nodes)
            if not isinstance(op.spec, Input):
                yield _Step(group, None, op)

    # What lies in DDR -----------------------------------------------------------------------------------

    def _arranged(self, op: Operation) -> Integers:
        """Return an operation's parameters as they lie in DDR: of each kernel its bias, then weights.

        Weights are OWHC, those of a fully connected layer in the order of the maps that it reads.
        """
        made, spec = self._numbers.operations[op.name], op.spec
        if not isinstance(spec, NamedLayer):
            return np.zeros(0, dtype=np.int64)
        if engine_of(op) == HOST:
            shapes = map(self._problem.graph.shape, op.accesses)
            ends = np.cumsum([0, *(prod(self._problem.graph.shape(each)) for each in op.accesses)])
            order = [
                first + np.arange(prod(shape)).reshape(shape).transpose(1, 2, 0).ravel()
                for first, shape in zip(ends, shapes, strict=False)
            ]
            weights = made.kernels[:, np.concatenate(order)]
        else:
            shape = (spec.kernels, -1, *spec.kernel)
            weights = made.kernels.reshape(shape).transpose(0, 3, 2, 1).reshape(spec.kernels, -1)
        if made.biases is None:
            return weights.ravel()
        return np.hstack([made.biases[:, None], weights]).ravel()

    def _parameter_places(self) -> tuple[dict[str, int], int]:
        """Return the addresses of all operations' parameters, and where they end."""
        found, at = {}, 0
        for name, values in self._flat.items():
            found[name] = at
            at += values.size * self._width
        return found, at + -at % ALIGNMENT

    def _tensor_places(self, begin: int) -> tuple[dict[str, Tensor], int, int]:
        """Return where all maps lie, where those of the network's inputs end, and where all end."""
        lives, runs = self._lives(), []
        graph = self._problem.graph
        for step in self._steps:
            if step.fused is not None:
                features = step.fused.features[: step.fused.loaded]
                runs += [[graph.name(each.source) for each in feature.sources] for feature in features]
        tensors = {}
        inputs = [name for name, life in lives.items() if life.role == "INPUT"]
        for name in inputs:
            tensors[name], begin = own_array(lives[name], self._images, self._width, begin)
        others = {name: life for name, life in lives.items() if name not in tensors}
        if self._machine.layouts is None:
            arrays = [names for names in side_by_side(lives, runs) if names[0] in others]
        else:
            arrays = self._decided_arrays(others)
        maps, end = placed(others, arrays, self._images, self._width, begin)
        return {name: each for name, each in (tensors | maps).items() if name in lives}, begin, end

    def _decided_arrays(self, lives: dict[str, Life]) -> list[list[str]]:
        """Return maps in arrays as layouts say; to `lives` comes what stays on chip and has a place there."""
        arrays, graph = [], self._problem.graph
        for tensor in self._problem.tensors:
            members = [number for number in tensor.maps if self._layouts.get(number) == CONCATENATED]
            if members:
                own = [lives[graph.name(number)] for number in members]
                first, last = min(each.first for each in own), max(each.last for each in own)
                for number in tensor.beside:
                    unused = Life(
                        graph.name(number), "MAP", _shape(graph.ops[number].spec.output), first, last
                    )
                    lives.setdefault(unused.name, unused)
                arrays.append([graph.name(number) for number in tensor.beside])
        held = {name for names in arrays for name in names}
        return arrays + [[name] for name in lives if name not in held]

    def _lives(self) -> dict[str, Life]:
        """Return all maps that are in DDR, with the steps from which to which they are needed."""
        graph, forever = self._problem.graph, len(self._steps)
        first: dict[str, int] = dict.fromkeys(self._numbers.inputs, 0)
        last: dict[str, int] = {}
        for number, step in enumerate(self._steps):
            if step.fused is None:
                assert step.op is not None
                read = [graph.name(number) for number in step.op.producers]
                written = [step.op.name] if step.op.name in self._numbers.operations else []
            else:
                features = step.fused.features
                read = [graph.name(access.source) for each in features for access in each.sources]
                written = [each.name for each in features if each.saved]
            last |= dict.fromkeys(read, number)
            first |= dict.fromkeys(written, number)
        lives = {}
        shapes = {op.name: op.spec.output for op in self._problem.ops} | {OWN_INPUT: graph.own_input}
        for name, begin in first.items():
            role = "INPUT" if name in self._numbers.inputs else "MAP"
            role = "OUTPUT" if name in self._numbers.outputs else role
            until, shape = (
                last.get(name, begin) if role == "MAP" else forever,
                shapes[name],
            )
            lives[name] = Life(name, role, _shape(shape), begin, until, self._is_planar(name))
        for number in self._copied:  # what the network has outside is another map
            name = graph.name(number)
            role, planar = lives[name].role, not lives[name].planar
            until = last.get(name, 0) if role == "INPUT" else forever
            outside = replace(lives[name], name=_outside(name), planar=planar)
            lives[outside.name] = outside if role == "INPUT" else replace(outside, first=forever)
            lives[name] = replace(lives[name], role="MAP", last=until)
        return lives

    def _is_planar(self, name: str) -> bool:
        """Whether groups find and leave a map NCHW; where only the host has it, what is wanted outside."""
        layouts = self._machine.layouts
        number = next(n for n in (OWN, *range(len(self._problem.ops))) if self._problem.graph.name(n) == name)
        if number in self._layouts or layouts is None:
            return self._layouts.get(number) == NCHW
        outside = layouts.input if name in self._numbers.inputs else layouts.output
        return outside == NCHW and name in (*self._numbers.inputs, *self._numbers.outputs)

    # The program ----------------------------------------------------------------------------------------

    def image(self) -> Image:
        """Return all of it."""
        sizes = [self._machine.capacity(buffer) // self._width for buffer in BUFFERS]
        tokens = Tokens(sizes)
        host: list[Instruction] = []
        tokens.boundary(Instruction("START", {}), 0)
        self._copy(tokens, host, "INPUT")
        for step in self._steps:
            if step.fused is None:
                assert step.op is not None
                call = Instruction("HOST", {"call": len(host)})
                host.append(self._hosted(step.op))
                tokens.boundary(call, cycles(call, self._machine, host))
                continue
            group = Instruction("GROUP", {})
            taken = cycles(group, self._machine, host)
            end = tokens.boundary(group, taken)
            tokens.group(self._timed(step), end - taken)
        self._copy(tokens, host, "OUTPUT")
        tokens.boundary(Instruction("END", {}), 0)
        outputs = [
            name.removesuffix(OUTSIDE) for name, each in self._tensors.items() if each.role == "OUTPUT"
        ]
        given = [(name, each.planar) for name, each in self._tensors.items() if each.role == "INPUT"]
        inputs = [(self._numbers.maps[name.removesuffix(OUTSIDE)], planar) for name, planar in given]
        begin = self._parameter_bytes
        size = self._input_end - begin
        batches = [
            slice(at, at + self._images)
            for at in range(0, self._numbers.images - self._images + 1, self._images)
        ]
        first, *further = (
            self._packed(
                (each[batch] if planar else _nhwc(each[batch]) for each, planar in inputs), size, aligned=True
            )
            for batch in batches
        )
        return Image(
            name=self._name,
            machine=self._machine,
            code=tokens.program(),
            host=tuple(host),
            tensors=tuple(self._tensors.values()),
            parameters=self._packed(self._flat.values(), begin),
            inputs=first,
            maps=(self._input_end, self._end - self._input_end),
            expected=b"".join(
                self._packed(_nhwc(self._numbers.maps[name][batch]) for name in outputs) for batch in batches
            ),
            planned_cycles=self._planned,
            further=b"".join(further),
        )

    def _copy(self, tokens: Tokens, host: list[Instruction], role: str) -> None:
        """Let the host copy the network's inputs, or its outputs, into the layout that is wanted."""
        for number in self._copied:
            name = self._problem.graph.name(number)
            outside, inside = self._tensors[_outside(name)], self._tensors[name]
            if outside.role == role:
                read, write = (outside, inside) if role == "INPUT" else (inside, outside)
                values = {**_NO_SCALE, "parts": 1, "parameters": 0}
                operands = Operand("read", _hosted_map(read)), Operand("write", _hosted_map(write))
                call = Instruction("HOST", {"call": len(host)})
                host.append(Instruction("RELAYOUT", values, operands))
                tokens.boundary(call, cycles(call, self._machine, host))

    def _packed(self, arrays: object, size: int = 0, aligned: bool = False) -> bytes:
        parts = []
        for values in arrays:  # type: ignore[attr-defined]
            data = pack_elements(values, 8 * self._width)
            parts.append(data + bytes(-len(data) % ALIGNMENT if aligned else 0))
        found = b"".join(parts)
        return found + bytes(max(0, size - len(found)))

    def _timed(self, step: _Step) -> Iterator[Timed]:
        """Yield the instructions of a group in the order in which they begin."""
        assert step.fused is not None
        tables = planned_tables(self._problem, step.group, self._by_tensor)
        for op in (op for op in self._problem.ops if op.name in tables.split):
            arithmetic = self._numbers.operations[op.name]
            refuse_late_bias(self._problem.network, op.spec, arithmetic, 8 * self._width)
        writer = _GroupWriter(self._numbers, self._tensors, self._parameters, step.fused, tables, self._width)
        for addressed in tables.instructions:
            made = writer.instruction(addressed)
            each = addressed.instruction
            touched = accesses(made, self._images, self._width)
            yield Timed(made, touched, each.start, each.finish)

    def _hosted(self, op: Operation) -> Instruction:
        """Return the entry of an operation in the host's table."""
        reads = [self._tensors[self._problem.graph.name(number)] for number in op.producers]
        skipped = op.name not in self._numbers.operations
        write = _hosted_map(reads[0] if skipped else self._tensors[op.name])
        operands = (*(Operand("read", _hosted_map(each)) for each in reads), Operand("write", write))
        parameters = getattr(op.spec, "parameters", 0)
        values = {**_NO_SCALE, "parts": len(reads), "parameters": parameters}
        if skipped:
            return Instruction("LEFT_OUT", values, operands)
        made = self._numbers.operations[op.name]
        ways = set(made.reads)
        if len(ways) > 1:
            what = getattr(op.spec, "op", op.spec.kind)
            limit = f"layer {op.name}: the host reads maps side by side in one format only"
            raise InputError("network.layers", what, limit)
        values |= _scale(made, self._width) | _read(*ways)
        if made.kind != "CONV":
            return Instruction("RESHAPE", values, operands)
        values |= {"bias": int(made.biases is not None), "bias_shift": made.bias_shift}
        values |= {"sum_bits": _sum_bits(made), "bias_last": int(not made.bias_within)}
        values["address"] = self._parameters[op.name]
        return Instruction("CONNECTED", values, operands)


_NO_SCALE = {
    **dict.fromkeys(("bias_shift", "bias", "nonlinear", "shift", "address"), 0),
    **dict.fromkeys(("bits", "sum_bits", "bias_last", "read_shift", "read_bits"), 0),
}
"""Fields of an entry of the host's table that computes nothing."""

OUTSIDE = " outside"
"""What is behind the name of a map that the network's user has in another layout than groups."""


def _outside(name: str) -> str:
    return f"{name}{OUTSIDE}"


def _shape(sizes: Sequence[int]) -> tuple[int, int, int]:
    channels, rows, columns = sizes
    return channels, rows, columns


class _GroupWriter:
    """Writes the instructions of a group."""

    def __init__(
        self,
        numbers: NetworkNumbers,
        tensors: Mapping[str, Tensor],
        parameters: Mapping[str, int],
        fused: FusedGroup,
        tables: Tables,
        width: int,
    ) -> None:
        self._numbers, self._tensors, self._parameters = numbers, tensors, parameters
        self._fused, self._tables, self._width = fused, tables, width
        self._reads = {number: self._reads_of(number) for number in fused.members}
        for number in fused.members:
            self._refuse(number)

    def _refuse(self, number: int) -> None:
        """Refuse an operation that reads maps in another shape, or has parameters and is no convolution."""
        op = self._fused.op(number)
        spec, features = op.spec, self._fused.features
        assert isinstance(spec, Window)
        planes = {features[part.map].shape[1:] for part in features[number].parts}
        reshaped = spec.kind not in OPERANDS and planes != {spec.input[1:]}
        if reshaped or (engine_of(op) != CONV and self._fused.parameters(number, (0, 0))):
            what = getattr(spec, "op", spec.kind)
            raise InputError("network.layers", what, f"layer {op.name}: there is no instruction for it")

    def instruction(self, addressed: Addressed) -> Instruction:
        """Return an instruction without its dependencies."""
        each = addressed.instruction
        if each.what == "fetch":
            return self._fetch(addressed)
        if each.what in ("load", "save"):
            return self._move(addressed)
        engine = engine_of(self._fused.op(each.feature))
        if engine == CONV:
            return self._conv(addressed)
        return self._pointwise(addressed, engine)

    def _area(self, number: int, shift: int, first: tuple[int, int, int]) -> dict[str, int]:
        """Return where a value of a map lies on chip; `first` is its channel, row and column."""
        area: Area = self._tables.maps[number].area
        channel, row, column = first
        return {
            "base": area.base,
            "bank": BUFFERS.index(area.buffer),
            "ring_channels": area.channels,
            "ring_rows": area.rows,
            "ring_columns": area.columns,
            "channel": (channel + area.first) % area.channels,
            "row": (row + shift) % area.rows,
            "column": column % area.columns,
        }

    def _move(self, addressed: Addressed) -> Instruction:
        each = addressed.instruction
        low, high = each.channels
        plane = {"rows": each.rows[1] - each.rows[0], "columns": each.columns[1] - each.columns[0]}
        first = low, each.rows[0], each.columns[0]
        chip = Operand("chip", self._area(each.feature, addressed.shift, first))
        outside: list[dict[str, int]] = []
        at = 0
        for name in self._tables.maps[each.feature].tensors:
            tensor = self._tensors[name]
            begin, end = max(low, at), min(high, at + tensor.shape[0])
            if begin < end:
                place = tensor.address + (begin - at) * tensor.channel_step(self._width)
                place += each.rows[0] * tensor.line + each.columns[0] * tensor.pixel
                outside.append(
                    {
                        "address": place,
                        "pixel": tensor.pixel,
                        "line": tensor.line,
                        "image": tensor.image,
                        "channels": end - begin,
                        "plane_rows": tensor.shape[1] if tensor.planar else 0,
                    }
                )
            at += tensor.shape[0]
        joined = _joined(outside, self._width)
        operands = (chip, *(Operand("ddr", values) for values in joined))
        values = {"channels": high - low, **plane}
        if each.what == "save":
            return Instruction("SAVE", values, operands)
        return Instruction("LOAD", {"parts": len(joined), **values}, operands)

    def _fetch(self, addressed: Addressed) -> Instruction:
        each = addressed.instruction
        spec = self._fused.op(each.feature).spec
        assert isinstance(spec, NamedLayer)
        deep, taps, bias = self._fused.summed(each.feature), prod(spec.kernel), int(spec.bias)
        (low, high), width = each.summed, self._width
        kernel = (bias + taps * deep) * width
        address = self._parameters[spec.name] + each.channels[0] * kernel
        return Instruction(
            "FETCH",
            {
                "address": address if low == 0 else address + (bias + low) * width,
                "kernel": kernel,
                "tap": deep * width,
                "kernels": each.channels[1] - each.channels[0],
                "taps": taps,
                "run": high - low,
                "bias": int(bias and low == 0),
                "base": addressed.parameters,
                "bank": BUFFERS.index("parameter"),
            },
        )

    def _reads_of(self, number: int) -> list[list[tuple[Range, tuple[int, int]]]]:
        """Return, of each part that an operation reads, in which format it takes which of its channels."""
        op, found = self._fused.op(number), []
        how = iter(self._numbers.operations[op.name].reads)
        for part in self._fused.features[number].parts:
            sizes = self._fused.side_by_side(part.map)
            ends = [0, *accumulate(sizes)]
            formats: list[tuple[Range, tuple[int, int]]] = []
            for begin, end in pairwise(ends):
                way = next(how)
                if formats and formats[-1][1] == way:
                    formats[-1] = (formats[-1][0][0], end), way
                else:
                    formats.append(((begin, end), way))
            found.append(formats)
        return found

    def _inputs(self, addressed: Addressed, ranges: Sequence[Range]) -> tuple[Operand, ...]:
        """Return what an operation reads of each part, of some of its channels, in one format each."""
        each, found = addressed.instruction, []
        parts, reads = self._fused.features[each.feature].parts, self._reads[each.feature]
        for part, shift, (low, high), formats in zip(parts, addressed.shifts, ranges, reads, strict=True):
            for (begin, end), way in formats:
                first, last = max(low, begin), min(high, end)
                if first < last:
                    rows, columns = (self._window(addressed, part.map, axis) for axis in range(2))
                    values = self._area(part.map, shift, (first, rows[0], columns[0]))
                    values |= {"channels": last - first, **_read(way)}
                    values |= {"rows": rows[1] - rows[0], "columns": columns[1] - columns[0]}
                    found.append(Operand("in", values))
        return tuple(found)

    def _window(self, addressed: Addressed, source: int, axis: int) -> Range:
        """Return the rows or columns of a map that an instruction reads."""
        each = addressed.instruction
        spec, extent = self._fused.op(each.feature).spec, self._fused.features[source].shape[1 + axis]
        assert isinstance(spec, Window)
        if extent == 1 and spec.kind in OPERANDS:
            return 0, 1
        low, high = (each.rows, each.columns)[axis]
        first = low * spec.stride[axis] - spec.padding[2 * axis]
        last = (high - 1) * spec.stride[axis] - spec.padding[2 * axis] + spec.kernel_extent[axis]
        return max(0, min(first, extent - 1)), min(extent, max(last, 1))

    def _windowed(self, addressed: Addressed) -> dict[str, int]:
        """Return the fields of an operation's window, and what is not there above and to the left."""
        each = addressed.instruction
        spec = self._fused.op(each.feature).spec
        assert isinstance(spec, Window)
        source = self._fused.features[each.feature].parts[0].map
        pads = []
        for axis, (low, _) in enumerate((each.rows, each.columns)):
            begin, _ = self._window(addressed, source, axis)
            pads.append(begin - (low * spec.stride[axis] - spec.padding[2 * axis]))
        return {
            "kernel_rows": spec.kernel[0],
            "kernel_columns": spec.kernel[1],
            "stride_rows": spec.stride[0],
            "stride_columns": spec.stride[1],
            "pad_top": pads[0],
            "pad_left": pads[1],
        }

    def _out(self, addressed: Addressed) -> Operand:
        each = addressed.instruction
        first = each.channels[0], each.rows[0], each.columns[0]
        return Operand("out", self._area(each.feature, addressed.shift, first))

    def _conv(self, addressed: Addressed) -> Instruction:
        each = addressed.instruction
        op = self._fused.op(each.feature)
        spec, made = op.spec, self._numbers.operations[op.name]
        assert isinstance(spec, NamedLayer)
        deep, group = self._fused.summed(each.feature), spec.kernels // spec.groups
        groups = each.channels[0] // group, -(-each.channels[1] // group)
        low, high = groups[0] * deep + each.summed[0], (groups[1] - 1) * deep + each.summed[1]
        parts = self._fused.features[each.feature].parts
        ranges = [self._clipped(part.map, low - part.first, high - part.first) for part in parts]
        operands = self._inputs(addressed, ranges)
        mode = "DENSE" if spec.groups == 1 else "DEPTHWISE" if op.depthwise else "GROUPED"
        first, last = each.summed[0] == 0, each.summed[1] == deep
        values = {
            "parts": len(operands),
            "kernels": each.channels[1] - each.channels[0],
            "rows": each.rows[1] - each.rows[0],
            "columns": each.columns[1] - each.columns[0],
            "depth": each.summed[1] - each.summed[0],
            **self._windowed(addressed),
            "dilation_rows": spec.dilation[0],
            "dilation_columns": spec.dilation[1],
            **_scale(made, self._width),
            "mode": MODES.index(mode),
            "sum_bits": _sum_bits(made),
            "bias_last": int(not made.bias_within and first and last),
            "first": int(first),
            "last": int(last),
            "bias": int(first and made.biases is not None),
            "bias_shift": made.bias_shift,
            "base": addressed.parameters,
            "bank": BUFFERS.index("parameter"),
        }
        if mode == "GROUPED":
            within = {"group_kernels": group, "first_kernel": each.channels[0] % group}
            operands = (Operand("groups", within), *operands)
        return Instruction("CONV", values, (*operands, self._out(addressed)) if last else operands)

    def _clipped(self, source: int, low: int, high: int) -> Range:
        low = max(0, low)
        return low, max(low, min(self._fused.features[source].shape[0], high))

    def _pointwise(self, addressed: Addressed, engine: str) -> Instruction:
        """Return an instruction of POOL or MISC."""
        each = addressed.instruction
        op = self._fused.op(each.feature)
        made, (low, high) = self._numbers.operations[op.name], each.channels
        parts = self._fused.features[each.feature].parts
        ranges = [self._clipped(part.map, low - part.first, high - part.first) for part in parts]
        operands = self._inputs(addressed, ranges)
        values = {
            "parts": len(operands),
            "channels": high - low,
            "rows": each.rows[1] - each.rows[0],
            "columns": each.columns[1] - each.columns[0],
            **_scale(made, self._width),
        }
        name = made.kind
        if engine == POOL:
            name = "POOL"
            kind = POOLS.index("MAX" if made.kind == "MAX_POOL" else "AVERAGE")
            values |= {**self._windowed(addressed), "type": kind}
        return Instruction(name, values, (*operands, self._out(addressed)))


def _scale(made: IntegerOperation, width: int) -> dict[str, int]:
    bits = 0 if made.bits == 8 * width else made.bits
    return {"nonlinear": NONLINEAR.index("RELU" if made.relu else "NONE"), "shift": made.shift, "bits": bits}


def _sum_bits(made: IntegerOperation) -> int:
    return 0 if made.sum_bits == SUM_BITS else made.sum_bits


def _read(way: tuple[int, int]) -> dict[str, int]:
    return {"read_shift": way[0], "read_bits": way[1]}


def _hosted_map(tensor: Tensor) -> dict[str, int]:
    channels, rows, columns = tensor.shape
    return {
        "address": tensor.address,
        "pixel": tensor.pixel,
        "line": tensor.line,
        "image": tensor.image,
        "channels": channels,
        "planar": int(tensor.planar),
        "rows": rows,
        "columns": columns,
    }


def _joined(parts: Sequence[dict[str, int]], width: int) -> list[dict[str, int]]:
    """Return parts of DDR, those together that are neighbours in one array."""
    found: list[dict[str, int]] = []
    for part in parts:
        before = found[-1] if found else None
        if before is not None:
            steps = all(before[name] == part[name] for name in ("pixel", "line", "image"))
            in_array = before["pixel"] > before["channels"] * width and not before["plane_rows"]
            if steps and in_array and before["address"] + before["channels"] * width == part["address"]:
                before["channels"] += part["channels"]
                continue
        found.append(dict(part))
    return found


def _nhwc(values: Integers) -> Integers:
    return np.ascontiguousarray(values.transpose(0, 2, 3, 1))
