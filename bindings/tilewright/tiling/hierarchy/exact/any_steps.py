"""Blocks of any size, with what every plan charges for them at least.

A loop's blocks are cut on their own, and a border cuts the last one of each off. So what crosses a boundary
is a product over the loops: of the elements in all tiles of the loop, or of how many tiles there are. Blocks
of at most some size are at least as many as in a row that only the layer's border cuts off, and have no fewer
rows and columns of input together, since rows under a tile are a concave function of its size. So each block
is charged as in that row, wherever it lies. docs/hierarchy.md argues that this is a bound for all plans, and
when it is the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.spec.layer import Layer
from tilewright.tiling.hierarchy.exact.lattice import Lattice, Steps
from tilewright.tiling.hierarchy.loops import AXES, LETTERS, OPERANDS, STILL, USES, extents
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.nest import divisors, window
from tilewright.tiling.tile import even_steps

Table = NDArray[np.int64]

PARTS = 2
"""Parts into which a range of sizes is split."""


def thinned(sizes: Sequence[int], most: int) -> list[int]:
    """Return at most so many of some sizes, the first and the last among them, in steps as even as can be."""
    sizes = list(sizes)
    while len(sizes) > max(most, 2):
        gaps = [sizes[i + 1] / sizes[i - 1] for i in range(1, len(sizes) - 1)]
        del sizes[1 + int(np.argmin(gaps))]
    return sizes


def split(extent: int, low: int, high: int) -> list[int]:
    """Return the smallest sizes of a few parts of a range of sizes.

    They tell numbers of blocks apart; if there is one number, the smallest size from the others.
    """
    fewest, most = -(-extent // high), -(-extent // low)
    if fewest == most:
        return sorted({low, min(low + 1, high)})
    numbers = sorted({fewest + (most - fewest) * part // PARTS for part in range(PARTS + 1)})
    sizes = {-(-extent // many) for many in numbers}
    return sorted({low, *(size for size in sizes if low < size <= high)})


def some_sizes(layer: Layer, most: int, *, chains: bool = False) -> list[list[int]]:
    """Return at most so many sizes of blocks for each loop, with chains besides all divisors."""
    cuts = []
    for extent in extents(layer).values():
        sizes = thinned(even_steps(extent), most)
        cuts.append(sorted({*sizes, *divisors(extent)}) if chains else sizes)
    return cuts


class AnySteps(Lattice):
    """Blocks of a layer with steps that need not divide.

    A number of a size stands for all sizes from its own on to the next one: these are charged like the
    largest of them, and need the room of the smallest.

    Attributes
    ----------
    chains
        Whether each block has to divide the one outside of it, all but the outermost one; a number then
        stands for its own size alone.
    low, high, counts : shape (8, sizes)
        The smallest and the largest size of each number, and how many blocks there are of the largest.
    weights : shape (8, sizes, sizes)
        How many blocks of a size there are, times a second size, the smallest of its number: the one that
        the border cuts off counts only as the part of it that it is of the second size.
    """

    any = True

    def __init__(
        self, layer: Layer, cuts: list[list[int]], *, chains: bool = False, blocks: Table | None = None
    ) -> None:
        super().__init__(layer, cuts)
        self.chains, self.blocks = chains, blocks
        if blocks is not None:
            self.many = len(blocks)
        shape = len(LETTERS), max(self.shape)
        self.low, self.high, self.counts = (np.ones(shape, np.int64) for _ in range(3))
        for i, (sizes, extent) in enumerate(zip(self.cuts, self.extents.values(), strict=True)):
            many = len(sizes)
            self.low[i, :many] = sizes
            self.high[i, :many] = sizes if chains else [*(size - 1 for size in sizes[1:]), extent]
            self.counts[i, :many] = -(-extent // self.high[i, :many])

    @cached_property
    def index(self) -> Table:
        """The size's number in each loop, shape (blocks, 8)."""
        return super().index if self.blocks is None else self.blocks

    def closer(self, left: NDArray[np.int64], most: int) -> tuple[AnySteps, Table] | None:
        """Return blocks that stand for fewer sizes each, and which of those that are left each is part of.

        Parameters
        ----------
        left
            Numbers of the blocks to look at more closely, the smallest and the largest one among them.
        most
            Most blocks that there may be. Sizes are told apart in as many loops as that allows, those with
            the widest ranges first.

        Returns
        -------
        None if each block has one size, or there would be more.
        """
        index, loops = self.index[left], []
        for i, extent in enumerate(self.extents.values()):
            some = set(np.unique(index[:, i]).tolist())
            parts = [
                split(extent, size, high) if number in some else [size]
                for number, (size, high) in enumerate(zip(self.cuts[i], self.high[i].tolist(), strict=False))
            ]
            widest = (self.high[i] / self.low[i])[index[:, i]].max()
            loops.append((float(widest), i, parts))
        cuts, many, chosen = list(self.cuts), np.ones(len(left), np.int64), {}
        for widest, i, parts in sorted(loops, key=lambda one: -one[0]):
            more = many * np.array([len(part) for part in parts])[index[:, i]]
            if widest > 1 and more.sum() <= most:
                cuts[i], many, chosen[i] = [size for part in parts for size in part], more, parts
        if not chosen:
            return None
        blocks, of = index, np.arange(len(left))
        for i, parts in chosen.items():
            first = np.cumsum([0, *map(len, parts)])
            many = np.diff(first)[blocks[:, i]]
            of = np.repeat(of, many)
            within = np.arange(len(of)) - np.repeat(np.cumsum(many) - many, many)
            start = np.repeat(first[blocks[:, i]], many)
            blocks = np.repeat(blocks, many, axis=0)
            blocks[:, i] = start + within
        order = np.lexsort(blocks.T[::-1])
        return AnySteps(self.layer, cuts, blocks=np.ascontiguousarray(blocks[order])), left[of[order]]

    @cached_property
    def weights(self) -> Table:
        """How many blocks there are, times a size; see above."""
        whole = np.array(list(self.extents.values()))[:, None]
        full, rest = np.divmod(whole, self.high)
        low = self.low[:, None, :]
        return np.asarray(full[:, :, None] * low + np.minimum(low, rest[:, :, None]))

    @cached_property
    def ratios(self) -> Table:
        """How many instances an array needs at least for one size in another, 0 where it cannot be inside."""
        most = max(self.shape)
        table = np.zeros((len(LETTERS), most, most), np.int64)
        for i, (sizes, extent) in enumerate(zip(self.cuts, self.extents.values(), strict=True)):
            outside, inside = np.array(sizes), self.high[i, : len(sizes)]
            ratios = -(-outside[:, None] // inside[None, :])
            inner = np.tri(len(sizes), dtype=np.bool_)
            if self.chains:
                inner &= (outside[:, None] % inside[None, :] == 0) | (outside[:, None] == extent)
            table[i, : len(sizes), : len(sizes)] = np.where(inner, ratios, 0)
        return table

    @cached_property
    def charged(self) -> Table:
        """Elements of each operand in all tiles of the layer, shape (blocks, 3)."""
        size = self.extents
        area = np.full(self.many, size["g"] * size["n"] * size["k"])
        for axis, (out, tap) in enumerate(AXES):
            i, j = LETTERS.index(out), LETTERS.index(tap)
            table = np.array(
                [
                    [self._rows(axis, each, other) for other in self.high[j, : self.shape[j]].tolist()]
                    for each in self.high[i, : self.shape[i]].tolist()
                ]
            )
            area = area * table[self.index[:, i], self.index[:, j]]
        others = [
            np.full(self.many, np.prod([size[loop] for loop in USES[operand]])) for operand in OPERANDS[1:]
        ]
        return np.stack([area, *others], axis=1)

    def _rows(self, axis: int, outputs: int, taps: int) -> int:
        """Return the rows of input under all tiles of so many outputs and rows of the kernel."""
        total = 0
        parts = []
        for loop, size in zip(AXES[axis], (outputs, taps), strict=True):
            full, rest = divmod(self.extents[loop], size)
            parts.append([(size, full)] + ([(rest, 1)] if rest else []))
        for each, times in parts[0]:
            for other, often in parts[1]:
                rows = window(each, other, self.layer.stride[axis], self.layer.dilation[axis])
                total += times * often * rows
        return total

    @cached_property
    def every(self) -> Table:
        """One: all blocks of the layer are charged together."""
        return np.ones(self.many, np.int64)

    @cached_property
    def moved(self) -> Table:
        """One, as `every`."""
        return np.ones((self.many, len(OPERANDS)), np.int64)

    @cached_property
    def fetches(self) -> Table:
        """The most fetches of each operand's tile from a block on, shape (blocks, 3)."""
        numbers = [[LETTERS.index(loop) for loop in loops] for loops in STILL.values()]
        columns = [self.counts[each, self.index[:, each]].prod(axis=1) for each in numbers]
        return np.stack(columns, axis=1)

    def shared(self, machine: HierarchyMachine, i: int) -> Table:
        """Return how many count of tiles that the instances of arrays share, from a node on, as fractions."""
        spread, found = self._spread(machine, i - 1), np.ones((self.many, len(OPERANDS), 2), np.int64)
        for o, loops in enumerate(STILL.values()):
            for number in map(LETTERS.index, loops):
                at = self.index[:, number]
                if spread[o, number]:
                    found[:, o] *= np.stack([self.weights[number, at, at], self.low[number, at]], axis=1)
                else:
                    found[:, o, 0] *= self.counts[number, at]
        return found

    def steps(self, machine: HierarchyMachine, i: int) -> Steps:
        """Return what steps that do not divide cost at a node."""
        outside = {loop for node in machine.nodes[:i] if node.axis is not None for loop in node.axis.loops}
        return Steps(
            any=True,
            extents=np.array(list(self.extents.values())),
            low=self.low,
            high=self.high,
            counts=self.counts,
            weights=self.weights,
            spread=self._spread(machine, i),
            last=np.array([loop not in outside for loop in LETTERS]),
        )

    def _spread(self, machine: HierarchyMachine, i: int) -> NDArray[np.bool_]:
        """Return whether instances further in may share a tile of an operand along a loop, shape (3, 8)."""
        table = np.zeros((len(OPERANDS), len(LETTERS)), np.bool_)
        for o, operand in enumerate(OPERANDS):
            for number, node in enumerate(machine.nodes):
                if node.axis is not None and i < number < max(machine.holders[operand]):
                    for loop in STILL[operand]:
                        table[o, LETTERS.index(loop)] |= loop in node.axis.loops
        return table
