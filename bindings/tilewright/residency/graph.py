"""Tensors and operations of a network, and which rows an operation reads of which tensor."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.residency.attention import Attention, SecondOperand, SecondPart, attentions, second_operand
from tilewright.residency.plan import MAP, key_of
from tilewright.residency.views import reads_whole
from tilewright.simulator.arithmetic.pixel_arithmetic import Work, work_of_value
from tilewright.simulator.program import Counts
from tilewright.spec.access import RECURRENT, reads_place
from tilewright.spec.graph import Access, NetworkGraph
from tilewright.spec.graph import Operation as Op
from tilewright.spec.layer import Layer, Window
from tilewright.spec.network import (
    GATES,
    NORMALISATIONS,
    OWN_INPUT,
    Add,
    AnyLayer,
    Function,
    Map,
    MatMul,
    Mul,
    NamedLayer,
    Opaque,
    Pool,
    Recurrence,
    is_normalisation,
    macs_of,
    parameters_of,
)

Span = tuple[int, int]
"""First and end."""


class InvalidPlanError(Exception):
    """What is wrong with a plan: ``rule: details``."""


def members(mask: int) -> list[int]:
    """Return the numbers in a bit mask, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


@dataclass(frozen=True)
class Reading:
    """How the pixels of an operation's output depend on those of a tensor, both row by row.

    Attributes
    ----------
    tensor
        Number of the tensor.
    plane, output
        Rows and columns of the tensor and of the output.
    stride, before, extent
        Vertical and horizontal: output row y reads rows from ``y * stride - before``, `extent` of them, as
        far as they exist; columns likewise. All of the tensor where there is no `extent`. Of a part of an
        operand, `before` counts where the part begins in the operand, too.
    """

    tensor: int
    plane: tuple[int, int]
    output: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (0, 0)
    extent: tuple[int, int] | None = None

    @property
    def pixels(self) -> int:
        """Pixels of the tensor."""
        return prod(self.plane)

    def first(self, pixel: Counts) -> Counts:
        """Return the first pixel that output pixels from `pixel` on read; none are read at the end."""
        if self.extent is None:
            return np.where(pixel < prod(self.output), 0, self.pixels)
        row, column = np.divmod(pixel, self.output[1])
        own = self.begin(row, 0) * self.plane[1] + self.begin(column, 1)
        own = np.where(self._is_behind(row, 0) | self._is_behind(column, 1), self.pixels, own)
        below = self.begin(row + 1, 0) * self.plane[1] + self.begin(np.zeros_like(pixel), 1)
        below = np.where(self._is_behind(row + 1, 0), self.pixels, below)
        first = np.where(row + 1 < self.output[0], np.minimum(own, below), own)
        return np.where(row < self.output[0], first, self.pixels)

    def end(self, pixel: Counts) -> Counts:
        """Return the end of what output pixels before `pixel` read; 0 where there are none."""
        if self.extent is None:
            return np.where(pixel > 0, self.pixels, 0)
        row, column = np.divmod(pixel - 1, self.output[1])
        own = self.last(row, 0) * self.plane[1] + self.last(column, 1) + 1
        own = np.where(self._is_before(row, 0) | self._is_before(column, 1), 0, own)
        # Columns that strides leave out behind the last one are read by nobody.
        final = self.last(np.full_like(pixel, self.output[1] - 1), 1)
        above = self.last(row - 1, 0) * self.plane[1] + final + 1
        above = np.where(self._is_before(row - 1, 0), 0, above)
        return np.where(pixel > 0, np.where(row > 0, np.maximum(own, above), own), 0)

    def _is_before(self, place: Counts, axis: int) -> NDArray[np.bool_]:
        """Whether a row or column of the output reads only what lies before the tensor, as parts may."""
        assert self.extent is not None
        return place * self.stride[axis] - self.before[axis] + self.extent[axis] <= 0

    def _is_behind(self, place: Counts, axis: int) -> NDArray[np.bool_]:
        """Whether a row or column of the output reads only what lies behind the tensor, as parts may."""
        return place * self.stride[axis] - self.before[axis] >= self.plane[axis]

    def begin(self, place: Counts, axis: int) -> Counts:
        """Return the first row (axis 0) or column (1) that is read for one of the output."""
        first = place * self.stride[axis] - self.before[axis]
        return np.minimum(np.maximum(first, 0), self.plane[axis] - 1)

    def last(self, place: Counts, axis: int) -> Counts:
        """Return the last row or column that is read for one of the output."""
        assert self.extent is not None
        last = place * self.stride[axis] - self.before[axis] + self.extent[axis] - 1
        return np.minimum(np.maximum(last, 0), self.plane[axis] - 1)


class Running(NamedTuple):
    """How the one pixel of an operation's output is computed from what it reads, pixel by pixel.

    Attributes
    ----------
    plane
        Rows and columns of what it reads.
    value
        Elements of a running value: that of an output channel after some pixels.
    each, bias
        Weights of an output channel for each pixel, and beside these.
    """

    plane: tuple[int, int]
    value: int
    each: int
    bias: int


@dataclass(frozen=True)
class Operation:
    """An operation and the tensor that it computes, which has its number plus one.

    Attributes
    ----------
    weights
        Elements of its weights and biases, as far as steps have to load them.
    units
        Output channels, of which blocks are computed with a block of the weights; 1 where it cannot be
        divided.
    channelwise
        Whether an output channel needs no input channel but that of its number, in each operand.
    pixelwise
        Whether it computes each value from those at its place, so that it can take the place of an operand.
    parts
        Of tensors of which it reads some channels alone, by number: these channels, without overlaps,
        ascending.
    staying
        Elements of weights and biases that are on chip for good: steps neither place nor load them.
    running
        How its output is added up pixel by pixel; None where that cannot be.
    second
        The second operand of a product that may be loaded in blocks.
    beside
        Of the tensors that it reads otherwise than as such an operand: these channels, without overlaps.
    state
        Elements that a recurrent layer has on chip beside what it reads and gives: see `state_of`. It is
        executed by itself, in one pass.
    recurrence
        Of such a layer, how often it computes a state.
    every_reading
        Each access with its reading, of which several may be the same.
    """

    number: int
    op: Op
    readings: tuple[Reading, ...]
    parts: Mapping[int, tuple[Span, ...]]
    weights: int
    units: int
    channelwise: bool
    pixelwise: bool
    staying: int = 0
    running: Running | None = None
    second: SecondOperand | None = None
    beside: Mapping[int, tuple[Span, ...]] = field(default_factory=dict)
    state: int = 0
    recurrence: Recurrence | None = None
    every_reading: tuple[tuple[Access, Reading], ...] = ()

    @property
    def parameters(self) -> int:
        """Elements of its weights and biases, wherever they are."""
        return self.weights + self.staying

    @cached_property
    def copyable(self) -> int:
        """Elements of weights in flash that a step may copy: of convolutions and products, without biases."""
        if self.op.spec.kind not in ("conv", "fc"):
            return 0
        return self.staying - self.biases

    @property
    def biases(self) -> int:
        """Elements of its biases: of each block of weights the first one, if there are any."""
        return self.units if getattr(self.op.spec, "bias", False) else 0

    @property
    def name(self) -> str:
        """Its name, and that of its output."""
        return self.op.name

    def offsets(self, graph: NetworkGraph) -> list[int]:
        """Return for each access the first input channel that it has where operands are concatenated."""
        found: list[int] = []
        first = 0
        for operand in self.op.operands:
            found += [first] * len(operand)
            if self.op.spec.kind not in ("add", "mul"):
                first += graph.operand_shape(operand)[0]
        return found

    @cached_property
    def work(self) -> Work:
        """What it does for one value of its output."""
        return work_of_value(self.op)

    def block(self, units: int) -> int:
        """Return the elements of the largest block of weights for some channels, or values of a state."""
        if self.recurrence is not None:
            told = self.recurrence
            return self.weights // (told.directions * told.hidden) * min(units, told.hidden)
        return min(self.weights, -(-self.weights // self.units) * min(units, self.units))


@dataclass(frozen=True)
class Tensor:
    """What an operation computes, or an input of the network.

    Attributes
    ----------
    given
        Whether it is in DRAM before the first step.
    readers
        Numbers of the operations that read it.
    leaves
        Whether it is an output of the network, perhaps read inside as well.
    """

    name: str
    shape: tuple[int, int, int]
    given: bool
    readers: tuple[int, ...]
    leaves: bool

    @property
    def key(self) -> str:
        """What it is called in a plan when it is on chip as a whole."""
        return key_of(MAP, self.name)

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def channels(self) -> int:
        """Elements of a pixel."""
        return self.shape[0]

    @property
    def pixels(self) -> int:
        """Places of a channel."""
        return self.shape[1] * self.shape[2]


class Graph:
    """The operations of a network, coarse as they are executed, and their tensors.

    Parameters
    ----------
    ops
        The network's operations, perhaps with copies of those that are executed twice.
    first
        For each copy, the number of the operation that it repeats.
    free
        Operations whose outputs have no channels, so that they take no room and are moved for nothing: not
        true of any plan, but good for bounds.
    largest
        Elements of the largest memory, where there are several; by default any number.

    Attributes
    ----------
    operations
        In the order of the file. Further inputs of the network have a number, but are none.
    tensors
        The network's input, then what each operation computes.
    sum_elements
        Elements that a partial sum takes.
    tiles
        Whether steps may be cut into strips, tiles, and blocks of input channels.
    staying
        Numbers of the operations whose weights are on chip for good.
    too_large
        Bit mask of the tensors that no memory holds as a whole.
    """

    def __init__(
        self,
        ops: NetworkGraph,
        sum_elements: int = 1,
        *,
        tiles: bool = True,
        staying: Collection[int] = (),
        first: Mapping[int, int] | None = None,
        free: Collection[str] = (),
        largest: int | None = None,
    ) -> None:
        self.sum_elements, self.tiles, self.staying = sum_elements, tiles, frozenset(staying)
        self.free = frozenset(free)
        self.ops, self.first = ops, dict(first or {})
        shapes = [self.ops.own_input, *(op.spec.output for op in ops.ops)]
        readers: list[list[int]] = [[] for _ in shapes]
        for op in ops.ops:
            for producer in dict.fromkeys(op.producers):
                readers[producer + 1].append(op.number)
        names = [OWN_INPUT, *(op.name for op in ops.ops)]
        given = [True, *(not op.producers for op in ops.ops)]
        leaves = [False, *(op.leaves for op in ops.ops)]
        self.tensors = tuple(
            Tensor(*each) for each in zip(names, shapes, given, map(tuple, readers), leaves, strict=True)
        )
        self.operations = tuple(self._operation(op) for op in ops.ops)
        if free:
            self.tensors = tuple(
                replace(tensor, shape=(0, *tensor.shape[1:])) if tensor.name in free else tensor
                for tensor in self.tensors
            )
        sizes = enumerate(tensor.size for tensor in self.tensors)
        self.too_large = sum(1 << number for number, size in sizes if largest is not None and size > largest)

    def _operation(self, op: Op) -> Operation:
        spec = op.spec
        whole, every = reads_whole(op), list[tuple[Access, Reading]]()
        shapes = [self.ops.operand_shape(operand) for operand in op.operands]
        at_place = reads_place(op, shapes) if whole and shapes else (False,) * len(shapes)
        for operand, shape, place in zip(op.operands, shapes, at_place, strict=True):
            for access in operand:
                planes = self.tensors[access.source + 1].shape[1:], spec.output[1:]
                reading = Reading(access.source + 1, *planes)
                if place and op.spread > 1:  # as if each row of one column gave a row
                    pixels = reading.pixels
                    planes = (pixels, 1), (pixels, op.spread)
                    reading = Reading(reading.tensor, *planes, stride=(1, 0), extent=(1, 1))
                elif place:
                    reading = replace(reading, before=access.at or (0, 0), extent=(1, 1))
                elif not whole and not (isinstance(spec, Add | Mul) and shape[1:] != spec.input[1:]):
                    assert isinstance(spec, Window)
                    row, column = access.at or (0, 0)
                    before = spec.padding[0] + row, spec.padding[2] + column
                    reading = Reading(access.source + 1, *planes, spec.stride, before, spec.kernel_extent)
                every.append((access, reading))
        weights = spec.parameters if isinstance(spec, NamedLayer) else parameters_of(spec)
        functions = isinstance(spec, Map) and spec.op not in NORMALISATIONS
        alike = isinstance(spec, Add | Mul) or functions
        fewer = isinstance(spec, Add | Mul) and any(shape[0] != spec.input[0] for shape in shapes)
        divisible = isinstance(spec, Layer | Pool) or (alike and not fewer)
        # Blocks of channels are of one part of each tensor.
        once = len(set(op.producers)) == len(set(op.accesses))
        stays, second = op.number in self.staying, self._second(op)
        return Operation(
            op.number,
            op,
            tuple(dict.fromkeys(reading for _, reading in every)),
            self._parts(op),
            0 if stays else weights,
            spec.output[0] if divisible else 1,
            once and (op.depthwise or isinstance(spec, Pool) or (alike and not fewer)),
            alike,
            weights if stays else 0,
            self._running(op, weights),
            second,
            self._spans(op.accesses if second is None else op.operands[0]),
            state_of(spec),
            spec.recurrence if isinstance(spec, Function) else None,
            tuple(every),
        )

    def _running(self, op: Op, weights: int) -> Running | None:
        """Return how running values are computed of what an operation reads, if its output is one pixel.

        Its window is the whole plane, so that each pixel counts once.
        """
        spec, producers = op.spec, op.producers
        planes = {self.tensors[producer + 1].shape[1:] for producer in producers}
        if not isinstance(spec, Pool | NamedLayer) or spec.output[1:] != (1, 1) or len(planes) != 1:
            return None
        (plane,) = planes
        if prod(plane) == 1 or op.has_views or len(set(producers)) < len(op.accesses):
            return None
        if isinstance(spec, Pool):
            value = 1 if spec.op == "max" else self.sum_elements
            return Running(plane, value, 0, 0) if spec.kernel == plane and not any(spec.padding) else None
        window = spec.kind == "fc" or (
            (spec.kernel, spec.input[1:]) == (plane, plane) and not any(spec.padding)
        )
        grouped = spec.groups > 1 and (spec.kind == "fc" or not op.depthwise)
        if not window or grouped or max(spec.dilation) > 1:
            return None
        bias = int(spec.bias)
        return Running(plane, self.sum_elements, (weights // spec.kernels - bias) // prod(plane), bias)

    def _second(self, op: Op) -> SecondOperand | None:
        """Return the second operand of a product that may be loaded in blocks; what is free takes no room."""
        found = second_operand(self.ops, op)
        if found is None or not self.free:
            return found
        nothing = SecondPart(0, 0, 0, 0)
        free = {tensor for tensor in found.parts if self.tensors[tensor].name in self.free}
        return replace(found, parts={**found.parts, **dict.fromkeys(free, nothing)})

    def _spans(self, accesses: Iterable[Access]) -> dict[int, tuple[Span, ...]]:
        """Return the channels that are read of each tensor."""
        read: dict[int, list[Span]] = {}
        for access in accesses:
            every = 0, self.tensors[access.source + 1].channels
            read.setdefault(access.source + 1, []).append(access.channels or every)
        return {tensor: merged(spans) for tensor, spans in read.items()}

    def _parts(self, op: Op) -> dict[int, tuple[Span, ...]]:
        """Return the channels that an operation reads of the tensors of which it does not read all."""
        return {
            tensor: spans
            for tensor, spans in self._spans(op.accesses).items()
            if spans != ((0, self.tensors[tensor].channels),)
        }

    @cached_property
    def attentions(self) -> tuple[Attention, ...]:
        """Attention whose keys can pass by in blocks."""
        return attentions(self.ops, [operation.second for operation in self.operations], self.free)

    def least_work(self, number: int) -> Work:
        """Return what an operation does at least: of causal attention, for the keys that each row sees."""
        operation, tensor = self.operations[number], self.tensors[number + 1]
        work = operation.work.times(tensor.size)
        attention = self._causal.get(number)
        if attention is None:
            return work
        pairs = attention.count_pairs(tensor.pixels)
        if number != attention.context:
            return operation.work.times(pairs)
        macs = attention.values * pairs
        return Work(macs, work.vectors, work.accesses - 2 * (work.macs - macs))

    @cached_property
    def _causal(self) -> dict[int, Attention]:
        """Causal attention whose keys can pass by, by each of its operations."""
        causal = (each for each in self.attentions if each.seen is not None)
        return {number: each for each in causal for number in each.operations}

    @cached_property
    def read_in_parts(self) -> int:
        """Bit mask of the tensors of which some operation reads some channels alone."""
        return sum(
            1 << tensor for tensor in {each for operation in self.operations for each in operation.parts}
        )

    def channels_read(self, tensor: int, readers: int) -> tuple[Span, ...]:
        """Return the channels of a tensor that some operations read, without overlaps, ascending.

        Parameters
        ----------
        readers
            Bit mask of operations. Of tensors that are never read in parts all channels are returned.
        """
        every = 0, self.tensors[tensor].channels
        if not self.read_in_parts >> tensor & 1 or not every[1]:
            return (every,)
        key = tensor, readers & self.readers[tensor]
        if key not in self._channels_read:
            read = [self.operations[number].parts.get(tensor, (every,)) for number in members(key[1])]
            self._channels_read[key] = merged([span for spans in read for span in spans])
        return self._channels_read[key]

    @cached_property
    def _channels_read(self) -> dict[tuple[int, int], tuple[Span, ...]]:
        return {}

    def still_needed(self, tensor: int, done: int) -> int:
        """Return the elements of a tensor that operations still read when `done` (a bit mask) are executed.

        Of a tensor that is never read in parts, these are all its elements, whether it is read or not.
        """
        whole = self.tensors[tensor]
        if not self.read_in_parts >> tensor & 1:
            return whole.size
        return whole.pixels * count_channels(self.channels_read(tensor, self.all & ~done))

    @cached_property
    def reductions(self) -> tuple[str, ...]:
        """Operations that read a whole plane for each value, and have no running values of it."""
        return tuple(
            operation.name
            for operation in self.operations
            if isinstance(operation.op.spec, Pool | NamedLayer)
            and operation.running is None
            and self.tensors[operation.number + 1].shape[1:] == (1, 1)
            and (operation.op.has_views or any(reading.pixels > 1 for reading in operation.readings))
        )

    @cached_property
    def products(self) -> tuple[str, ...]:
        """Products of two operands of the network whose second one is on chip, and not in blocks."""
        whole = (operation for operation in self.operations if operation.second is None)
        return tuple(operation.name for operation in whole if isinstance(operation.op.spec, MatMul))

    @cached_property
    def alone(self) -> int:
        """Bit mask of the operations that are executed by themselves: recurrent layers with a state."""
        return sum(1 << operation.number for operation in self.operations if operation.state)

    @cached_property
    def recurrences(self) -> tuple[str, ...]:
        """Recurrent layers, of which all that they read and give is on chip."""
        return tuple(operation.name for operation in self.operations if operation.state)

    @cached_property
    def given(self) -> int:
        """Bit mask of the tensors that are in DRAM before the first step."""
        return sum(1 << number for number, tensor in enumerate(self.tensors) if tensor.given)

    @cached_property
    def leaving(self) -> int:
        """Bit mask of the network's outputs, which are written in any case."""
        return sum(1 << number for number, tensor in enumerate(self.tensors) if tensor.leaves)

    @cached_property
    def begin(self) -> int:
        """Bit mask of the numbers that no step has: further inputs."""
        return sum(1 << op.number for op in self.ops.ops if not op.producers)

    @cached_property
    def all(self) -> int:
        """Bit mask of all operations."""
        return (1 << len(self.operations)) - 1

    @cached_property
    def readers(self) -> tuple[int, ...]:
        """For each tensor, a bit mask of the operations that read it."""
        return tuple(sum(1 << reader for reader in tensor.readers) for tensor in self.tensors)

    @cached_property
    def read(self) -> tuple[list[tuple[Operation, Reading]], ...]:
        """For each tensor, the operations that read it, and how."""
        found: tuple[list[tuple[Operation, Reading]], ...] = tuple([] for _ in self.tensors)
        for operation in self.operations:
            for reading in operation.readings:
                found[reading.tensor].append((operation, reading))
        return found

    @cached_property
    def alike(self) -> tuple[int, ...]:
        """For each tensor, the first one of its shape that is read the same way: of as many, as much is read.

        All readers of these read them the same way. Tensors that are read in parts are like no other.
        """
        firsts: dict[object, int] = {}
        found = []
        for number, read in enumerate(self.read):
            ways = {(replace(reading, tensor=0), *self._read_as_second(one, number)) for one, reading in read}
            same = len(ways) == 1 and not self.read_in_parts >> number & 1
            key = (self.tensors[number].shape, *ways) if same else number
            found.append(firsts.setdefault(key, number))
        return tuple(found)

    def _read_as_second(self, operation: Operation, tensor: int) -> tuple[SecondPart | None, tuple[int, ...]]:
        """Return what is read of a tensor as a second operand in blocks, and that for the first keys."""
        if operation.second is None:
            return None, ()
        causal = self._causal.get(operation.number)
        loads = {} if causal is None else causal.loads.get(operation.number, {})
        return operation.second.parts.get(tensor), tuple(loads[tensor]) if tensor in loads else ()

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """For each operation, a bit mask of the tensors that it reads."""
        return tuple(
            sum(1 << tensor for tensor in {reading.tensor for reading in operation.readings})
            for operation in self.operations
        )

    @cached_property
    def is_chain(self) -> bool:
        """Whether there is but one order of the operations."""
        numbers = members(self.all & ~self.begin)
        return all(self.ops.ancestors[after] >> before & 1 for before, after in pairwise(numbers))

    def still_read(self, done: int) -> int:
        """Return the tensors that some operation still reads when `done` have been executed; bit masks."""
        known = self._still_read.get(done)
        if known is None:
            known = sum(1 << number for number, readers in enumerate(self.readers) if readers & ~done)
            self._still_read[done] = known
        return known

    @cached_property
    def _still_read(self) -> dict[int, int]:
        return {}

    @cached_property
    def compulsory(self) -> int:
        """Elements that every plan moves: what is read of inputs, weights once, outputs of the network.

        Weights that are on chip for good are none of them.
        """
        moved = sum(operation.weights for operation in self.operations)
        for number, tensor in enumerate(self.tensors):
            moved += tensor.size * tensor.leaves
            if tensor.given and tensor.readers:
                moved += self.still_needed(number, 0)
        return moved

    def numbers(self, mask: int) -> tuple[Operation, ...]:
        """Return the operations of a bit mask, in the order of the file."""
        return tuple(self.operations[number] for number in members(mask))


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the union of some spans, as spans with gaps between them, ascending."""
    found: list[Span] = []
    for first, end in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((first, end))
    return tuple(found)


def count_channels(spans: Iterable[Span]) -> int:
    """Return how many channels there are in spans without overlaps."""
    return sum(end - first for first, end in spans)


def state_of(spec: AnyLayer) -> int:
    """Return the elements that a recurrent layer has on chip beside inputs, weights and output.

    Of one direction at a time these are the state, of an LSTM the cells, and what each gate gives.
    """
    if not isinstance(spec, Function) or spec.recurrence is None:
        return 0
    return (1 + (spec.op == "lstm") + GATES[spec.op]) * spec.recurrence.hidden


def unknown_of(op: Op, timed: bool) -> str | None:
    """Say what is not known of an operation, which is charged with all that it reads on chip at a time.

    Parameters
    ----------
    timed
        Whether time or energy counts.
    """
    if isinstance(op.spec, Opaque):
        return "what it does is not known"
    if isinstance(op.spec, Function) and op.spec.op in RECURRENT and op.spec.recurrence is None:
        return "its state takes memory that is not counted"
    counted = work_of_value(op).macs > 0 or is_normalisation(op.spec)
    hidden = any(each.macs for each in op.folded if isinstance(each, Function))
    uncounted = hidden or (macs_of(op.spec) > 0 and not counted)
    return "its MACs are not counted" if timed and uncounted else None
