"""What the steps of a residency plan have in memory: maps and weights, with their addresses."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import prod

import numpy as np

from tilewright.codegen.numbers.operands import operands_of
from tilewright.residency import Plan, Problem, Step
from tilewright.residency.attention import elements_of_second, owners_of_second
from tilewright.residency.decode_plan import DecodedStep, decode_plan
from tilewright.residency.derived_problems import problem_of_plan
from tilewright.residency.graph import Graph, Operation, Reading, Span, members
from tilewright.residency.shapes import tiles
from tilewright.residency.shapes.in_blocks import in_blocks
from tilewright.residency.shapes.shape import (
    Buffer,
    count_rounds,
    cut_of,
    group_of_passes,
    line_pixels,
    planes_or_strips,
    step_buffers,
    tile_size,
    tiles_of_product,
)
from tilewright.residency.shapes.strips import Strips
from tilewright.residency.views import reads_whole
from tilewright.spec.errors import InputError
from tilewright.spec.graph import Access
from tilewright.spec.network import MatMul

ENTRIES = (
    *("operations", "order", "pixels", "kernels", "kept", "in_place", "addresses"),
    *("dropped", "fetched", "resident", "written"),
    *("columns", "channels", "double_buffering", "running", "blocks", "keys"),
)
"""What the C knows of a step. One with more, that is not as it is left out, is refused."""

ORDERS = ("pixels", "kernels", "tiles", "channels")
"""Outer loops that the C knows."""

BUFFERS = ("lines", "weights", "block", "operand", "partial sums", "state")
"""What the C knows to be placed for a step alone."""


NONE: Span = (0, 0)
"""No channels."""

Box = tuple[Span, Span, Span]
"""Matrices, columns and terms of the second operand of a product."""

Areas = tuple[tuple[tuple[int, int], ...], ...]
"""First and end along an axis, by part and map."""


@dataclass(frozen=True)
class MapInStep:
    """A tensor that a step reads or computes, and where it lies.

    Attributes
    ----------
    number
        Of the tensor.
    address, pixels, channels
        It goes around in so many pixels, of so many channels each, from an address on.
    apart
        Elements from a value to the next: more than one where partial sums lay before.
    whole
        Whether all of it is on chip; else pixels are those of a strip or tile.
    twice
        Whether there is a second buffer behind it, for every other pass.
    block
        Whether it holds a block of channels.
    fetched
        The channels that are loaded before the first pass, first and end.
    streamed, written
        Whether it is loaded pass by pass, saved as it is computed.
    terms, room
        If it has keys, or terms of a product, that pass by: how many each group has, and of how many there is
        room; else 0.
    begin
        The channel with which a line buffer begins.
    in_sums
        Whether it is a context, or a product in tiles, that lies where its partial sums do.
    """

    number: int
    address: int
    pixels: int
    channels: int
    apart: int
    whole: bool
    twice: bool
    block: bool
    fetched: Span
    streamed: bool
    written: bool
    terms: int = 0
    room: int = 0
    begin: int = 0
    in_sums: bool = False


@dataclass(frozen=True)
class PartRead:
    """A part of an operand: a map that an operation reads, by its place in the step.

    Attributes
    ----------
    first
        The channel, or value, of all operands joined, at which the operand begins.
    whole
        Whether each output needs all of it.
    blocks
        If blocks of it are loaded in each pass, what it has of the second operand.
    channels
        The channels of the map that are read, first and end.
    at, plane
        The row and column of the operand at which it begins, and how many it has there.
    copies
        How often each channel, row and column stands there.
    shape
        Rows and columns of the shape in which all of the map is read, where that is another one; else zeros.
    stride, before, extent
        Which rows and columns an output needs: see `tilewright.residency.graph.Reading`.
    """

    place: int
    first: int
    whole: bool
    blocks: Box | None
    channels: Span
    at: tuple[int, int]
    plane: tuple[int, int]
    copies: tuple[int, int, int]
    shape: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (0, 0)
    extent: tuple[int, int] = (1, 1)


@dataclass(frozen=True)
class OperandRead:
    """An operand, put together of parts.

    Attributes
    ----------
    first
        The channel, or value, of all operands joined, at which it begins.
    shape : (C, H, W)
    """

    parts: tuple[PartRead, ...]
    first: int
    shape: tuple[int, int, int]


@dataclass(frozen=True)
class OperationInStep:
    """An operation, the place of its output among the maps, and the address of its weights on chip.

    Attributes
    ----------
    kept
        Whether all its weights are there during the step.
    adds_pixels
        Whether it adds up what it reads pixel by pixel.
    in_blocks
        Whether it is a product whose columns are computed block by block.
    operand
        Where a block of its second operand is loaded.
    by_term
        Whether such a block has columns side by side, term by term, and else column by column: as DRAM has.
    attention
        The attention whose keys pass by, that it is part of, from 1 on; else 0.
    terms
        Of a product in tiles, or a context, how many terms, or keys, pass by at a time; else 0.
    in_tiles
        Whether it is computed for one second matrix, and some of its columns, at a time.
    sums
        Of a product whose terms pass by, the address of partial sums.
    causal
        Of a context, how many keys the first row sees, where each row sees one more; 0 where it sees all.
    state
        Of a recurrent layer, the address of its state.
    """

    operation: Operation
    output: int
    operands: tuple[OperandRead, ...]
    address: int
    kept: bool
    adds_pixels: bool
    in_blocks: bool = False
    operand: int = 0
    by_term: bool = False
    attention: int = 0
    terms: int = 0
    in_tiles: bool = False
    sums: int = 0
    causal: int = 0
    state: int = 0

    @property
    def parts(self) -> tuple[PartRead, ...]:
        """The parts of all operands."""
        return tuple(part for operand in self.operands for part in operand.parts)


@dataclass(frozen=True)
class StepInMemory:
    """A step: its maps, the last of which the last operation computes.

    Attributes
    ----------
    rows, columns
        First and end of what each strip or tile has of each map.
    sums
        Address of partial sums or running values, where there are any.
    depth
        Input channels that are added up block by block, in steps with such blocks.
    loaded, saved
        Elements that it moves.
    """

    step: Step
    maps: tuple[MapInStep, ...]
    operations: tuple[OperationInStep, ...]
    rows: Areas
    columns: Areas
    sums: int | None
    depth: int | None
    loaded: int
    saved: int


def steps_in_memory(problem: Problem, plan: Plan) -> list[StepInMemory]:
    """Return the steps of a valid plan.

    Raises
    ------
    InputError
        For a step of a kind that the C does not know.
    """
    where: dict[int, int] = {}  # addresses of tensors that are on chip as a whole
    found = []
    graph = problem_of_plan(problem, plan).graph
    for place, (step, read) in enumerate(zip(plan.steps, decode_plan(problem, plan), strict=True)):
        refuse_unknown(f"plan.steps[{place}]", step)
        for tensor in members(read.choice.dropped):
            where.pop(tensor)
        for tensor in members(read.choice.fetched | read.choice.resident):
            where[tensor] = step.addresses[graph.tensors[tensor].key]
        found.append(_Placing(graph, f"plan.steps[{place}]", step, read, where, plan.staying).step())
        for tensor in [each for each in where if read.group.is_last_reader(each, read.before.done)]:
            where.pop(tensor)
    return found


def refuse_unknown(field: str, step: Step) -> None:
    """Refuse a step that says more than the C knows.

    Raises
    ------
    InputError
        Names what there is no C for.
    """
    last = step.operations[-1]
    if step.order not in ORDERS:
        raise _refused(
            f"{field}.order", step.order, f"step {last} in this order", f"order('{last}') == 'pixels'"
        )
    for entry in fields(step):
        value = getattr(step, entry.name)
        if entry.name not in ENTRIES and value != entry.default:
            where = f"not {entry.name}('{last}')" if value is True else f"{entry.name}('{last}') != {value!r}"
            raise _refused(f"{field}.{entry.name}", value, f"such a step, {last}", where)


def _refused(field: str, value: object, what: str, where: str) -> InputError:
    """Return the error for what there is no C for, with a constraint that leaves it out."""
    return InputError(field, value, f'there is no C for {what}; plans without it: --where "{where}"')


class _Placing:
    """The places of one step."""

    def __init__(
        self,
        graph: Graph,
        field: str,
        step: Step,
        read: DecodedStep,
        where: dict[int, int],
        staying: dict[str, int],
    ) -> None:
        self._graph, self._field, self._step, self._read, self._where = graph, field, step, read, where
        self._staying = staying
        self._group, self._shape = read.group, read.choice.shape
        self._whole = frozenset(members(read.on_chip))
        self._area = group_of_passes(self._group, self._shape)
        self._held = (
            self._area.double_buffered_line_pixels(
                self._shape.pixels, count_rounds(self._group, self._shape), self._whole
            )
            if self._shape.doubled
            else line_pixels(self._group, self._shape)
        )
        summed = self._shape.order in tiles.SUMMED
        self._depth = tiles.summed_channels(self._graph, self._group.last) if summed else None
        self._buffers = {
            (buffer.what, buffer.number): self._known(buffer)
            for buffer in step_buffers(self._group, self._shape, self._whole)
        }
        self._numbers = sorted({*self._group.lines, *self._group.computed})
        self._blocks = in_blocks(self._group) if self._shape.blocks else None
        self._passing = self._blocks.passing(self._shape.keys) if self._blocks else ()
        self._tiles = tiles_of_product(self._group, self._shape)

    def _known(self, buffer: Buffer) -> Buffer:
        if buffer.what not in BUFFERS:
            raise self._refused(buffer)
        return buffer

    def _refused(self, buffer: Buffer) -> InputError:
        limit = f"there is no C for steps that place this, as {self._group.last.name}"
        return InputError(self._field, f"{buffer.name(self._graph)}, {buffer.size} elements", limit)

    def _address(self, buffer: Buffer) -> int:
        return self._step.addresses[buffer.name(self._graph)]

    def step(self) -> StepInMemory:
        """Return the step."""
        saved = sum(self._graph.tensors[number].size for number in members(self._read.choice.written))
        return StepInMemory(
            self._step,
            tuple(map(self._map, self._numbers)),
            tuple(map(self._operation, self._group.operations)),
            self._areas(0),
            self._areas(1),
            self._sums,
            self._depth,
            self._read.moved - saved,
            saved,
        )

    @property
    def _sums(self) -> int | None:
        """Address of partial sums or running values."""
        if self._shape.running:
            return self._address(self._buffers["block", self._group.output])
        if self._depth is None or self._shape.channels == self._depth:
            return None
        return self._address(self._buffers["block", self._group.output])

    def _areas(self, axis: int) -> Areas:
        """Return the rows (0) or columns (1) of each map in each strip or tile."""
        spans = [self._spans(number, axis) for number in self._numbers]
        return tuple(zip(*spans, strict=True))

    def _spans(self, number: int, axis: int) -> list[tuple[int, int]]:
        output = number == self._group.output
        extent = (self._area.plane if output else self._graph.tensors[number].shape[1:])[axis]
        if self._shape.order == "tiles":
            size = tile_size(self._shape)[axis]
            if number == self._group.output:
                return [(begin, min(begin + size, extent)) for begin in range(0, extent, size)]
            reading = next(each for each in self._group.last.readings if each.tensor == number)
            begins, ends = tiles.parts_read(reading, axis, size)
        else:
            strips = planes_or_strips(self._group, self._shape)
            if not isinstance(strips, Strips) or not axis:
                return [(0, extent)]
            begins, ends = strips.span(number)
        return list(zip(begins.tolist(), ends.tolist(), strict=True))

    def _map(self, number: int) -> MapInStep:
        tensor, choice = self._graph.tensors[number], self._read.choice
        written = bool(choice.written >> number & 1)
        if number in self._whole:
            address, pixels, channels = self._where[number], tensor.pixels, tensor.channels
            fetched = self._fetched(number)
            return MapInStep(
                number, address, pixels, channels, 1, True, False, False, fetched, False, written
            )
        if self._blocks is not None and number in self._group.sources and number not in self._blocks.lines:
            # It is loaded in blocks alone, to where the product has them.
            return MapInStep(number, 0, 1, tensor.channels, 1, False, False, False, NONE, False, False)
        if number == self._group.output and self._has_passing_terms(self._group.last):
            place = MapInStep(number, 0, 1, tensor.channels, 1, False, False, False, NONE, False, written)
            return replace(place, in_sums=True)
        lines = number != self._group.output
        if lines:
            pixels, copies, apart = self._held.get(number, 0), 1, 1
        else:
            by_plane = self._shape.order == "channels"
            pixels = self._group.pixels if by_plane else min(self._shape.pixels, self._group.pixels)
            copies, apart = 2 if self._shape.doubled else 1, self._graph.sum_elements
            if self._shape.order == "tiles":
                pixels = self._shape.pixels
            if self._shape.running:
                assert self._group.last.running is not None
                pixels, copies, apart = 1, 1, self._group.last.running.value
            apart = 1 if self._sums is None else apart
        buffer = self._buffers["lines" if lines else "block", number]
        channels, rest = divmod(buffer.size, pixels * copies * apart)
        if rest or not 1 <= channels <= tensor.channels:
            raise self._refused(buffer)
        by_block = self._depth is not None or (
            self._shape.order == "kernels" and self._group.last.channelwise
        )
        terms, room, begin = self._terms_of(number)
        if lines and not terms:
            begin = self._begin(number, channels)
        return MapInStep(
            number,
            self._address(buffer),
            pixels,
            channels,
            apart,
            False,
            copies > 1,
            by_block or not lines,
            NONE,
            number in self._group.sources,
            written,
            terms,
            room,
            begin,
        )

    def _begin(self, number: int, channels: int) -> int:
        """Return the channel with which a line buffer of so many begins; they lie side by side in the map."""
        spans = (self._blocks or self._group).spans(number)
        if channels == self._graph.tensors[number].channels:
            return 0
        if len(spans) > 1:
            name, last = self._graph.tensors[number].name, self._group.last.name
            what = f"a line buffer of channels that do not lie side by side, in step {last}"
            raise _refused(self._field, name, what, f"on_chip('{name}', '{last}')")
        return spans[0][0]

    def _fetched(self, number: int) -> Span:
        """Return the channels of a map that are loaded before the first pass: those that are read later."""
        if not self._read.choice.fetched >> number & 1:
            return NONE
        spans = self._graph.channels_read(number, self._graph.all & ~self._read.before.done)
        if len(spans) > 1:
            name, last = self._graph.tensors[number].name, self._group.last.name
            what = f"fetching channels that do not lie side by side, in step {last}"
            raise _refused(self._field, name, what, f"not fetched('{name}', '{last}')")
        return spans[0]

    def _terms_of(self, number: int) -> tuple[int, int, int]:
        """Return the keys, or terms, that a group of a map has, room for how many, and its first channel.

        They are zeros where none pass by.
        """
        if self._is_product_in_tiles and self._tiles is not None:
            (first,) = self._group.last.op.operands[0]
            return self._tiles.depth, cut_of(self._shape).terms, (first.channels or (0, 0))[0]
        passing = None
        if self._blocks is not None and self._shape.keys is not None:
            passing = self._blocks.of_keys(number)
        if passing is None or self._shape.keys is None:
            return 0, 0, 0
        return passing[0].keys, min(passing[0].keys, self._shape.keys), 0

    @property
    def _is_product_in_tiles(self) -> bool:
        """Whether the step is a product by itself, in tiles."""
        return self._tiles is not None and self._tiles.attention is None

    def _has_passing_terms(self, operation: Operation) -> bool:
        """Whether terms of a product, or keys of a context, pass by."""
        return self._is_product_in_tiles or any(each.context == operation.number for each in self._passing)

    def _operation(self, operation: Operation) -> OperationInStep:
        weights = self._buffers.get(("weights", operation.number))
        adds = self._shape.running and operation is self._group.last
        operands, first = list[OperandRead](), 0
        for number, read in enumerate(operands_of(self._graph.ops, operation.op)):
            parts = tuple(
                self._part(operation, (number, place), access, first, adds)
                for place, access in enumerate(read.accesses)
            )
            operands.append(OperandRead(parts, first, read.shape))
            if operation.op.spec.kind not in ("add", "mul", "matmul"):
                first += prod(read.shape) if in_a_row(operation) else read.shape[0]
        return OperationInStep(
            operation,
            self._numbers.index(operation.number + 1),
            tuple(operands),
            self._address(weights) if weights else self._staying.get(operation.name, 0),
            bool(operation.staying) or operation.number in self._shape.kept,
            adds,
            self._blocks is not None and operation.second is not None,
            self._address(operand) if (operand := self._buffers.get(("operand", operation.number))) else 0,
            operand is not None and self._is_by_term(operation),
            *self._of_passing(operation),
            self._address(state) if (state := self._buffers.get(("state", operation.number))) else 0,
        )

    def _part(
        self, operation: Operation, place: tuple[int, int], access: Access, first: int, adds: bool
    ) -> PartRead:
        """Return a part of an operand, by the numbers of both."""
        operand, part = place
        number = access.source + 1
        every = self._graph.tensors[number].channels
        copies = access.copies or (1, 1, 1)
        _, height, width = self._graph.ops.shape(access)
        blocks = self._box(operation, part) if operand and self._loads_blocks(operation, number) else None
        found = PartRead(
            self._numbers.index(number),
            first,
            False,
            blocks,
            access.channels or (0, every),
            access.at or (0, 0),
            (height * copies[1], width * copies[2]),
            copies,
            (height, width) if access.shape is not None else (0, 0),
        )
        if adds:
            return found
        reading = _reading(operation, operand, access)
        if reading.extent is None:
            return replace(found, whole=True)
        return replace(found, stride=reading.stride, before=reading.before, extent=reading.extent)

    def _loads_blocks(self, operation: Operation, tensor: int) -> bool:
        """Whether an operation loads blocks of its second operand, which is a tensor."""
        loaded = {} if self._blocks is None else self._blocks.loaded.get(operation.number, {})
        return tensor in loaded and tensor not in self._whole

    def _box(self, operation: Operation, part: int) -> Box:
        """Return what a part has of a product's second operand, of which blocks are loaded."""
        owner = owners_of_second(self._graph.ops, operation.op)
        assert owner is not None
        own = owner == part
        spans = [own.any(axis=axes).nonzero()[0] for axes in ((1, 2), (0, 1), (0, 2))]
        matrices, columns, terms = ((int(span[0]), int(span[-1]) + 1) for span in spans)
        if own.sum() != prod(end - begin for begin, end in (matrices, columns, terms)):
            what = "second operands in blocks of which a tensor has other values than some rows and columns"
            raise _refused(self._field, operation.name, what, f"not blocks('{operation.name}')")
        return matrices, columns, terms

    def _is_by_term(self, operation: Operation) -> bool:
        """Whether more columns than terms of a second operand lie side by side in DRAM."""
        _, elements = elements_of_second(self._graph.ops, operation.op)
        terms, columns = ((np.diff(elements, axis=axis) == 1).sum() for axis in (1, 2))
        return bool(columns > terms)

    def _of_passing(self, operation: Operation) -> tuple[int, int, bool, int, int]:
        """Return the attention that an operation is part of, and what is told of passing terms.

        That is how many there are at a time, whether in tiles, the address of sums, and the keys that the
        first row sees.
        """
        in_tiles = self._tiles is not None
        if self._is_product_in_tiles:
            sums = self._buffers.get(("block", operation.number + 1))
            return 0, cut_of(self._shape).terms, in_tiles, self._address(sums) if sums else 0, 0
        for number, each in enumerate(self._passing, 1):
            if operation.number == each.context:
                assert self._shape.keys is not None
                terms, causal = (
                    min(each.keys, self._shape.keys),
                    0 if each.seen is None else int(each.seen[0]),
                )
                sums = self._buffers["partial sums", each.context]
                return number, terms, in_tiles, self._address(sums), causal
            if operation.number in each.operations:
                return number, 0, False, 0, 0
        return 0, 0, False, 0, 0


def _reading(operation: Operation, operand: int, access: Access) -> Reading:
    """Return how an operation goes over a tensor that is a part of an operand."""
    found = [each for each in operation.readings if each.tensor == access.source + 1]
    if isinstance(operation.op.spec, MatMul) and operand:
        return next(each for each in found if each.extent is None)
    by_place = [each for each in found if each.extent is not None]
    if not by_place:
        return found[0]
    row, column = access.at or (0, 0)
    padding = getattr(operation.op.spec, "padding", (0, 0, 0, 0)) if operation.op.picks is None else (0,) * 4
    before = padding[0] + row, padding[2] + column
    return next((each for each in by_place if each.before == before), by_place[0])


def in_a_row(operation: Operation) -> bool:
    """Whether an operation takes all values of its operands one after the other, channel by channel."""
    return reads_whole(operation.op) and not is_by_rows(operation)


def is_by_rows(operation: Operation) -> bool:
    """Whether an operation that is no window needs one pixel of its first operand at a time."""
    return reads_whole(operation.op) and operation.readings[0].extent is not None
