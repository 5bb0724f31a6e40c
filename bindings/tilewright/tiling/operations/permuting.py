"""Moves that give values another order, in tiles that are boxes of what is read and of what is given.

What is read is an array of some dimensions, and what is given has the same dimensions in another order. A box
of the one is a box of the other. Values that follow each other are runs: whole inner dimensions, and of the
innermost one that a tile does not have as a whole as many positions as the tile has.

*Which tiles are enough.* Let j be the innermost dimension of the input that tiles divide, and k that of the
output. Pieces of a run are then what tiles take of j, or of k, times all inner dimensions, and there are as
many runs as the outer dimensions have positions: sizes of tiles along other dimensions change no cost. So for
each pair of dimensions, and sizes of tiles along them, the tile is enough that has no more of the others than
it must: all of what is inner to j in the input or to k in the output, and one position of the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from math import prod
from types import MappingProxyType

import numpy as np

from tilewright.simulator.program import Box, Values
from tilewright.spec.network import Permutation
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.plan import MoveTile, OperationPlan
from tilewright.tiling.operations.walk import OUTPUT, Counts, Moved, Sums, spans
from tilewright.tiling.tile import even_step, even_steps

INPUT = "input"


def permutation_of(operation: Operation) -> Permutation:
    """Return how an operation orders the values of all its images, in as few dimensions as can be."""
    assert operation.permutation is not None
    return operation.permutation.of_images(operation.batch).merged


class MoveWalk:
    """All tiles of a move, in the order of the input's dimensions.

    Tiles are counted by kind: along each dimension the last one may be smaller than the others.

    Attributes
    ----------
    operands, kept
        The names of the tensors that are read, and of those that never leave the chip, with their shapes.
    """

    kept: Mapping[str, tuple[int, ...]] = MappingProxyType({})

    def __init__(self, operation: Operation, plan: OperationPlan) -> None:
        assert isinstance(plan.tile, MoveTile)
        self.operation, self.plan, self.tile = operation, plan, plan.tile
        self.order = permutation_of(operation)
        self.operands = {INPUT: self.order.sizes}

    @property
    def given(self) -> tuple[int, ...]:
        """The shape of the output."""
        return tuple(self.order.sizes[axis] for axis in self.order.axes)

    def malformed(self) -> str | None:
        """Say what is wrong with the sizes of a tile: tiles are as even as their number allows."""
        sizes = self.order.sizes
        if len(self.tile) != len(sizes):
            return f"tile: {len(self.tile)} sizes, the input has {len(sizes)}: {', '.join(map(str, sizes))}"
        for place, (size, step) in enumerate(zip(sizes, self.tile, strict=True), 1):
            if step > size:
                return f"tile: {step} of dimension {place}, the input has {size}"
            if step != (even := even_step(size, step)):
                return f"tile: {-(-size // step)} tiles of {size} are of {even} each, not of {step}"
        return None

    @property
    def steps(self) -> int:
        """Number of tiles."""
        return prod(-(-size // step) for size, step in zip(self.order.sizes, self.tile, strict=True))

    @cached_property
    def _kinds(self) -> list[list[tuple[int, int]]]:
        """Of each dimension, what tiles have of it, and how many have as much."""
        found = []
        for size, step in zip(self.order.sizes, self.tile, strict=True):
            full, rest = divmod(size, step)
            found.append([(step, full), *([(rest, 1)] if rest else [])])
        return found

    @cached_property
    def _lengths(self) -> Counts:
        """What tiles of each kind have of each dimension, shape (kinds, dimensions)."""
        return np.array([[n for n, _ in kind] for kind in product(*self._kinds)], dtype=np.int64)

    @cached_property
    def weights(self) -> Counts:
        """How many tiles stand for each kind."""
        return np.array([prod(many for _, many in kind) for kind in product(*self._kinds)], dtype=np.int64)

    def kind(self, places: Sequence[int]) -> int:
        """Return the kind of a tile, from its place along each dimension."""
        found = 0
        for place, kinds in zip(places, self._kinds, strict=True):
            found = found * len(kinds) + int(place >= kinds[0][1])
        return found

    @property
    def buffers(self) -> dict[str, int]:
        """Elements that are reserved for each tensor: as many as a tile has of it at most."""
        return {INPUT: prod(self.tile), OUTPUT: prod(self.tile)}

    @cached_property
    def loaded(self) -> dict[str, Moved]:
        """What tiles of each kind read."""
        return {INPUT: self._moved(range(len(self.tile)))}

    @property
    def held(self) -> dict[str, Counts]:
        """Elements that tiles of each kind are made of."""
        return {INPUT: self.stored.elements}

    @cached_property
    def stored(self) -> Moved:
        """What tiles of each kind give."""
        return self._moved(self.order.axes)

    @property
    def made(self) -> Counts:
        """Elements that tiles of each kind give."""
        return self.stored.elements

    @property
    def work(self) -> Counts:
        """Operations of tiles of each kind: none, as values are moved."""
        return np.zeros_like(self.weights)

    @property
    def sums(self) -> Sums:
        """What `loaded`, `held` and `stored` add up to."""
        return Sums(*[prod(self.order.sizes)] * 3)

    def _moved(self, axes: Sequence[int]) -> Moved:
        """Return what is moved of an array whose dimensions are in an order."""
        length, elements = np.ones_like(self.weights), self._lengths.prod(axis=1)
        for axis in reversed(axes):
            length = length * self._lengths[:, axis]
            if self.tile[axis] < self.order.sizes[axis]:
                break
        return Moved(elements, elements // length, length)

    def boxes(self) -> Iterator[tuple[int, Box, Box]]:
        """Yield of each tile its kind, and the regions that it reads and gives."""
        along = [spans(size, step) for size, step in zip(self.order.sizes, self.tile, strict=True)]
        for places in product(*(range(len(each)) for each in along)):
            ranges = [along[axis][place] for axis, place in enumerate(places)]
            yield self.kind(places), Box(tuple(ranges)), Box(tuple(ranges[axis] for axis in self.order.axes))


def permuted(operation: Operation, values: Values) -> Values:
    """Return all of an operation's values in the order of the output."""
    return values.transpose(permutation_of(operation).axes)


def move_tiles(operation: Operation) -> Iterator[OperationPlan]:
    """Yield the tiles that are enough, whether they fit or not; see above."""
    order = permutation_of(operation)
    sizes, axes = order.sizes, order.axes
    inner_in = [set(range(axis + 1, len(sizes))) for axis in range(len(sizes))]
    inner_out = [set(axes[axes.index(axis) + 1 :]) for axis in range(len(sizes))]
    found = {sizes: None}
    for j, k in product(range(len(sizes)), repeat=2):
        whole = inner_in[j] | inner_out[k]
        if j in whole or k in whole:
            continue
        for step, other in product(even_steps(sizes[j])[:-1], even_steps(sizes[k])[:-1]):
            if j != k or step == other:
                tile = [size if axis in whole else 1 for axis, size in enumerate(sizes)]
                tile[j], tile[k] = step, other
                found[tuple(tile)] = None
    return (OperationPlan(MoveTile(tile)) for tile in found)
