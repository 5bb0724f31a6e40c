"""What the steps of a residency plan have in memory: maps and weights, with their addresses."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import prod

from tilewright.codegen.numbers.operands import operands_of
from tilewright.residency import Plan, Problem, Step
from tilewright.residency.decode_plan import DecodedStep, decode_plan
from tilewright.residency.derived_problems import problem_of_plan
from tilewright.residency.graph import Graph, Operation, Reading, Span, members
from tilewright.residency.shapes import tiles
from tilewright.residency.shapes.in_blocks import in_blocks
from tilewright.residency.shapes.shape import (
    Buffer,
    count_rounds,
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
    keys, room
        If it has keys that pass by: how many each group has, and of how many there is room; else 0.
    begin
        The channel with which a line buffer begins.
    in_sums
        Whether it is a context that lies in its partial sums.
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
    keys: int = 0
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
        Whether blocks of it are loaded in each pass.
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
    blocks: bool
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
    attention
        The attention whose keys pass by, that it is part of, from 1 on; else 0.
    sums
        Of the product that gives the context, the address of partial sums.
    causal
        Of that product, how many keys the first row sees, where each row sees one more; 0 where it sees all.
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
    attention: int = 0
    sums: int | None = None
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
    if step.order not in ORDERS:
        raise InputError(f"{field}.order", step.order, "there is no C for steps in this order")
    for entry in fields(step):
        value = getattr(step, entry.name)
        if entry.name not in ENTRIES and value != entry.default:
            raise InputError(f"{field}.{entry.name}", value, "there is no C for such steps")


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
        in_tiles = tiles_of_product(self._group, self._shape) is not None
        if in_tiles or any(each.source is not None for each in self._passing):
            what = "tiles of a product" if in_tiles else "softmax and context without the scores"
            limit = f"there is no C for {what} in blocks; limits.tiles = false leaves such steps out"
            raise InputError(f"{field}.blocks", True, limit)

    def _known(self, buffer: Buffer) -> Buffer:
        if buffer.what not in BUFFERS:
            raise self._refused(buffer)
        return buffer

    def _refused(self, buffer: Buffer) -> InputError:
        limit = "there is no C for steps that place this"
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
        if any(each.context + 1 == number == self._group.output for each in self._passing):
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
        keys, room = self._keys_of(number)
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
            keys,
            room,
            self._begin(number, channels) if lines and not keys else 0,
        )

    def _begin(self, number: int, channels: int) -> int:
        """Return the channel with which a line buffer of so many begins; they lie side by side in the map."""
        spans = (self._blocks or self._group).spans(number)
        if channels == self._graph.tensors[number].channels:
            return 0
        if len(spans) > 1:
            raise self._refused(self._buffers["lines", number])
        return spans[0][0]

    def _fetched(self, number: int) -> Span:
        """Return the channels of a map that are loaded before the first pass: those that are read later."""
        if not self._read.choice.fetched >> number & 1:
            return NONE
        spans = self._graph.channels_read(number, self._graph.all & ~self._read.before.done)
        if len(spans) > 1:
            limit = "there is no C for fetching channels that do not lie side by side"
            raise InputError(self._field, self._graph.tensors[number].key, limit)
        return spans[0]

    def _keys_of(self, number: int) -> tuple[int, int]:
        """Return how many keys a group of a map has, and of how many there is room, where they pass by."""
        passing = None
        if self._blocks is not None and self._shape.keys is not None:
            passing = self._blocks.of_keys(number)
        if passing is None or self._shape.keys is None:
            return 0, 0
        return passing[0].keys, min(passing[0].keys, self._shape.keys)

    def _operation(self, operation: Operation) -> OperationInStep:
        weights = self._buffers.get(("weights", operation.number))
        adds = self._shape.running and operation is self._group.last
        operands, first = list[OperandRead](), 0
        for number, read in enumerate(operands_of(self._graph.ops, operation.op)):
            parts = tuple(self._part(operation, number, access, first, adds) for access in read.accesses)
            if len(parts) > 1 and any(part.blocks for part in parts):
                limit = "there is no C for second operands in blocks that are put together of several tensors"
                limit += f"; keep this one on chip: --where \"not blocks('{operation.name}')\""
                raise InputError(self._field, operation.name, limit)
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
            *self._attention(operation),
            self._address(state) if (state := self._buffers.get(("state", operation.number))) else 0,
        )

    def _part(self, operation: Operation, operand: int, access: Access, first: int, adds: bool) -> PartRead:
        """Return a part of an operand, by its number."""
        number = access.source + 1
        every = self._graph.tensors[number].channels
        copies = access.copies or (1, 1, 1)
        _, height, width = self._graph.ops.shape(access)
        blocks = operand > 0 and self._loads_blocks(operation, number)
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

    def _attention(self, operation: Operation) -> tuple[int, int | None, int]:
        """Return the attention of passing keys that an operation is part of.

        Of the product that gives its context, also the address of sums, and the keys that the first row sees.
        """
        for number, each in enumerate(self._passing, 1):
            if operation.number == each.context:
                causal = 0 if each.seen is None else int(each.seen[0])
                return number, self._address(self._buffers["partial sums", each.context]), causal
            if operation.number in each.operations:
                return number, None, 0
        return 0, None, 0


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
