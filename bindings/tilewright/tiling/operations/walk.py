"""The tiles of an operation in their order: what each one reads, computes and gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import pairwise, product
from math import prod
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.program import Box
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.plan import LOOPS, OperationPlan, OperationTile
from tilewright.tiling.tile import even_step

Counts = NDArray[np.int64]
Span = tuple[int, int]

OUTPUT = "output"


class Axis(NamedTuple):
    """Tiles along rows or columns.

    Attributes
    ----------
    outputs, inputs
        Of each tile, the outputs and the part of the input under them.
    """

    outputs: list[Span]
    inputs: list[Span]

    @classmethod
    def of(cls, operation: Operation, axis: int, step: int) -> Axis:
        """Cut an axis into tiles."""
        size, before = operation.inputs[0][1 + axis], operation.padding[2 * axis]
        stride, kernel = operation.stride[axis], operation.kernel[axis]
        return _axis(operation.output[1 + axis], step, size, before, stride, kernel)

    @property
    def fresh(self) -> list[Span]:
        """The part of the input under each tile that is not under the one before."""
        return [
            self.inputs[0],
            *((min(max(low, end), high), high) for (_, end), (low, high) in pairwise(self.inputs)),
        ]


@lru_cache(maxsize=4096)
def _axis(many: int, step: int, size: int, before: int, stride: int, kernel: int) -> Axis:
    """Cut so many outputs into tiles; plans that are compared have the same ones along an axis."""
    outputs, inputs = spans(many, step), []
    for first, last in outputs:
        low = min(max(0, first * stride - before), size)
        inputs.append((low, max(low, min(size, (last - 1) * stride - before + kernel))))
    return Axis(outputs, inputs)


class Sums(NamedTuple):
    """Elements of all tiles together: what they read that is not on chip, work on, and give."""

    loaded: int
    held: int
    stored: int
    kept: int = 0
    """What tiles give to others and never leaves the chip."""


class Moved(NamedTuple):
    """What is moved of a tensor: elements, and of how many runs of how many elements it consists."""

    elements: Counts
    runs: Counts
    length: Counts


class Walk:
    """All tiles of an operation, images outermost, then maps, columns and rows.

    Going down the rows of a tile's columns and maps, rows under two tiles are read once.

    Attributes
    ----------
    operands, kept
        The names of the tensors that are read, and of those that never leave the chip, with their shapes.
    """

    kept: Mapping[str, tuple[int, ...]] = MappingProxyType({})

    def __init__(self, operation: Operation, plan: OperationPlan) -> None:
        assert isinstance(plan.tile, OperationTile)
        self.operation, self.plan, self.tile = operation, plan, plan.tile
        self.operands: dict[str, tuple[int, ...]] = {}
        several = len(operation.inputs) > 1
        for number, shape in enumerate(operation.inputs, 1):
            name = f"input {number}" if several else "input"
            full = (operation.batch, *shape)
            self.operands[name] = full if operation.windowed else (prod(full),)
        if operation.parameters:
            maps = operation.output[0]
            each = operation.parameters // maps
            self.operands["parameters"] = (maps, each) if operation.windowed else (operation.parameters,)

    @property
    def given(self) -> tuple[int, ...]:
        """The shape of the output."""
        full = (self.operation.batch, *self.operation.output)
        return full if self.operation.windowed else (prod(full),)

    @property
    def length(self) -> int:
        """The values that a stream is cut into: its outputs, or in a flow what there is most of."""
        flows = self.operation.needs == "flow"
        return max(self.given[0], *(size for (size,) in self.operands.values())) if flows else self.given[0]

    def malformed(self) -> str | None:
        """Say what is wrong with the sizes of a tile: tiles are as even as their number allows."""
        sizes = self.operation.output if self.operation.windowed else (1, 1, self.length)
        for name, size, most in zip(LOOPS, self.tile, sizes, strict=True):
            if size > most:
                return f"tile: {size} {name}, the output has {most}"
        for size, step in zip(sizes, self.tile, strict=True):
            if step != (even := even_step(size, step)):
                return f"tile: {-(-size // step)} tiles of {size} are of {even} each, not of {step}"
        return None

    @cached_property
    def axes(self) -> tuple[Axis, Axis]:
        """Tiles along rows and columns."""
        return Axis.of(self.operation, 0, self.tile[1]), Axis.of(self.operation, 1, self.tile[2])

    @cached_property
    def maps(self) -> list[Span]:
        """Tiles along the maps."""
        return spans(self.operation.output[0], self.tile[0])

    @cached_property
    def pieces(self) -> list[Span]:
        """Tiles of a stream."""
        return spans(self.length, self.tile[2])

    @property
    def steps(self) -> int:
        """Number of tiles."""
        if not self.operation.windowed:
            return -(-self.length // self.tile[2])
        trips = [-(-size // step) for size, step in zip(self.operation.output, self.tile, strict=True)]
        return self.operation.batch * prod(trips)

    @cached_property
    def weights(self) -> Counts:
        """How many tiles stand for each: one."""
        return np.ones(self.steps, dtype=np.int64)

    @property
    def writes(self) -> Counts:
        """Transfers that write what each tile gives."""
        return self.weights

    def after(self, counts: Counts) -> Counts:
        """Return of each tile what the next one has."""
        return np.append(counts[1:], 0)

    def before(self, counts: Counts) -> Counts:
        """Return of each tile what the one before has."""
        return np.append([0], counts[:-1])

    def first(self, counts: Counts) -> int:
        """Return what the first tile has."""
        return int(counts[0])

    def last(self, counts: Counts) -> int:
        """Return what the last tile has."""
        return int(counts[-1])

    # Sizes, all tiles at once ------------------------------------------------------------------------

    @cached_property
    def kinds(self) -> tuple[tuple[tuple[int, int, int], ...], Counts]:
        """Maps, rows and columns of tiles of different size, the largest first, and which each tile has."""
        if not self.operation.windowed:
            maps, kind = np.unique(self.stored.elements, return_inverse=True)
            return tuple((size, 1, 1) for size in maps[::-1].tolist()), len(maps) - 1 - kind.ravel()
        axes = (self.maps, self.axes[1].outputs, self.axes[0].outputs)
        found = [np.unique(_lengths(spans), return_inverse=True) for spans in axes]
        (maps, m), (columns, x), (rows, y) = found
        kind = (m[:, None, None] * len(columns) + x[:, None]) * len(rows) + y
        sizes = product(maps.tolist(), columns.tolist(), rows.tolist())
        ordered = tuple((deep, tall, wide) for deep, wide, tall in sizes)[::-1]
        return ordered, len(ordered) - 1 - np.tile(kind.ravel(), self.operation.batch)

    @cached_property
    def buffers(self) -> dict[str, int]:
        """Elements that are reserved for each tensor: as many as a tile has of it at most."""
        if not self.operation.windowed:
            piece, total = self.tile[2], self.length
            every = {name: size for name, (size,) in self.operands.items()} | {OUTPUT: self.given[0]}
            return {name: -(-size * piece // total) for name, size in every.items()}
        maps = self.tile[0]
        rows, columns = (max(high - low for low, high in axis.inputs) for axis in self.axes)
        found = {}
        for name, shape in self.operands.items():
            each = shape[1] if name == "parameters" else 1 if self._is_spread(shape) else rows * columns
            found[name] = maps * each
        return found | {OUTPUT: prod(self.tile)}

    @cached_property
    def loaded(self) -> dict[str, Moved]:
        """What each tile reads of each operand that is not on chip."""
        return {name: self._moved(name, fresh=True) for name in self.operands}

    @cached_property
    def held(self) -> dict[str, Counts]:
        """Elements of each operand that each tile is computed from."""
        return {name: self._moved(name, fresh=False).elements for name in self.operands}

    @cached_property
    def stored(self) -> Moved:
        """What each tile gives."""
        if not self.operation.windowed:
            return self._pieces_of(self.given[0])
        rows, columns = (_lengths(axis.outputs) for axis in self.axes)
        return self._boxes(rows, columns, self.operation.output[2])

    @property
    def made(self) -> Counts:
        """Elements that each tile computes."""
        return self.stored.elements

    @cached_property
    def sums(self) -> Sums:
        """What `loaded`, `held` and `stored` add up to, without a look at each tile."""
        given = prod(self.given)
        if not self.operation.windowed:
            read = sum(size for (size,) in self.operands.values())
            return Sums(read, read, given)
        down, across = self.axes
        images, maps = self.given[:2]
        loaded = held = 0
        for name, shape in self.operands.items():
            if name == "parameters" or self._is_spread(shape):
                each = maps * (shape[1] if name == "parameters" else 1)
                again = name != "parameters" or len(self.maps) > 1
                loaded += each * (images if again else 1)
                held += each * images * len(across.outputs) * len(down.outputs)
                continue
            columns = images * maps * _total(across.inputs)
            loaded += columns * _total(down.fresh)
            held += columns * _total(down.inputs)
        return Sums(loaded, held, given)

    @cached_property
    def work(self) -> Counts:
        """Operations of each tile."""
        operation = self.operation
        if operation.windowed:
            return self.stored.elements * (operation.work // prod(self.given))
        return self._pieces_of(operation.work).elements

    def _is_spread(self, shape: tuple[int, ...]) -> bool:
        """Whether an operand has one value for each map, which all pixels of the first one have in common."""
        return shape[2:] == (1, 1) != self.operation.inputs[0][1:]

    def _moved(self, name: str, *, fresh: bool) -> Moved:
        shape = self.operands[name]
        if not self.operation.windowed:
            return self._pieces_of(shape[0])
        if name == "parameters" or self._is_spread(shape):
            each = shape[1] if name == "parameters" else 1
            return self._once(each, every_image=name != "parameters" or len(self.maps) > 1, fresh=fresh)
        down, across = self.axes
        rows = _lengths(down.fresh if fresh else down.inputs)
        return self._boxes(rows, _lengths(across.inputs), shape[3])

    def _pieces_of(self, size: int) -> Moved:
        """Return the part of so many values that each piece of a stream has."""
        ends = [size * first // self.length for first, _ in self.pieces] + [size]
        return _row(np.array([last - first for first, last in pairwise(ends)], dtype=np.int64))

    def _once(self, each: int, *, every_image: bool, fresh: bool) -> Moved:
        """Return what has a few numbers for each map, and stays while a tile's maps do."""
        down, across = (len(axis.outputs) for axis in self.axes)
        counts = np.zeros((self.operation.batch, len(self.maps), across, down), dtype=np.int64)
        if fresh:
            counts[: None if every_image else 1, :, 0, 0] = each * _lengths(self.maps)
        else:
            counts[:] = each * _lengths(self.maps)[:, None, None]
        return _row(counts.ravel())

    def _boxes(self, rows: Counts, columns: Counts, width: int) -> Moved:
        """Return boxes of some rows and columns of planes of a width."""
        shape = (self.operation.batch, len(self.maps), len(columns), len(rows))
        maps, across, down = _lengths(self.maps)[:, None, None], columns[:, None], rows
        whole = across == width
        runs, length = np.where(whole, maps, maps * down), np.where(whole, across * down, across)
        elements = maps * across * down
        return Moved(*(np.broadcast_to(each, shape).ravel() for each in (elements, runs, length)))

    # Regions, tile by tile ---------------------------------------------------------------------------

    def tiles(self) -> Iterator[tuple[dict[str, Box], dict[str, tuple[Box | None, Box | None]], Box]]:
        """Yield of each tile the regions of its operands, what of each leaves and comes, and its output."""
        before: dict[str, Box] = {}
        for number, (held, output) in enumerate(self._regions()):
            changes: dict[str, tuple[Box | None, Box | None]] = {}
            for name, box in held.items():
                old = before.get(name)
                if old != box:
                    changes[name] = self._change(name, old, box)
            yield held, changes, output
            before = held
            assert number < self.steps

    def _regions(self) -> Iterator[tuple[dict[str, Box], Box]]:
        if not self.operation.windowed:
            total = self.length
            for first, last in self.pieces:
                held = {
                    name: Box(((size * first // total, size * last // total),))
                    for name, (size,) in (self.operands | {OUTPUT: self.given}).items()
                }
                yield held, held.pop(OUTPUT)
            return
        down, across = self.axes
        for image, maps, (out_x, in_x), (out_y, in_y) in product(
            range(self.operation.batch),
            self.maps,
            zip(across.outputs, across.inputs, strict=True),
            zip(down.outputs, down.inputs, strict=True),
        ):
            held = {}
            for name, shape in self.operands.items():
                if name == "parameters":
                    held[name] = Box((maps, None))
                elif self._is_spread(shape):
                    held[name] = Box(((image, image + 1), maps, None, None))
                else:
                    held[name] = Box(((image, image + 1), maps, in_y, in_x))
            yield held, Box(((image, image + 1), maps, out_y, out_x))

    def _change(self, name: str, old: Box | None, new: Box) -> tuple[Box | None, Box | None]:
        """Return what leaves and what comes; of two tiles one below the other only what differs."""
        if old is None:
            return None, new
        if len(new.ranges) != 4 or old.ranges[2] is None or new.ranges[2] is None:
            return old, new
        if (old.ranges[:2], old.ranges[3]) != (new.ranges[:2], new.ranges[3]):
            return old, new
        (low, end), (first, last) = old.ranges[2], new.ranges[2]
        if first < low:
            return old, new
        leaves, comes = (low, min(end, first)), (min(max(first, end), last), last)
        kept, side = new.ranges[:2], new.ranges[3]
        return Box((*kept, leaves, side)), Box((*kept, comes, side))


def spans(size: int, step: int) -> list[Span]:
    """Return the tiles of an axis."""
    return [(first, min(first + step, size)) for first in range(0, size, step)]


def _total(ranges: list[Span]) -> int:
    return sum(last - first for first, last in ranges)


def _lengths(ranges: list[Span]) -> Counts:
    return np.array([last - first for first, last in ranges], dtype=np.int64)


def _row(elements: Counts) -> Moved:
    """Return pieces of a row, each of one run."""
    return Moved(elements, (elements > 0).astype(np.int64), elements)
