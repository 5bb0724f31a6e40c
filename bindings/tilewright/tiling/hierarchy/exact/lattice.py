"""All blocks whose sizes divide a layer's loops, as points of a lattice, with what they hold."""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.levels import SLIDING
from tilewright.spec.layer import Layer
from tilewright.tiling.hierarchy.loops import AXES, LETTERS, OPERANDS, USES, extents
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.nest import divisors, unshared, window

Table = NDArray[np.int64]

MOST = 2_000_000
"""Most blocks of a layer that are looked at."""

FAR = 2**61
"""Stands for what cannot be."""


class Steps(NamedTuple):
    """What steps that do not divide cost at a node; see `tilewright.tiling.hierarchy.exact.any_steps`.

    Attributes
    ----------
    any
        Whether there are such steps. Nothing else here counts where there are none.
    extents, low, high, counts, weights
        See `AnySteps`.
    spread : bool, shape (3, 8)
        Whether an array further in may have unrolled a loop, so that instances share an operand's tile.
    last : bool, shape (8,)
        Whether no array further out can unroll a loop.
    """

    any: bool
    extents: Table
    low: Table
    high: Table
    counts: Table
    weights: Table
    spread: NDArray[np.bool_]
    last: NDArray[np.bool_]


class Lattice:
    """Blocks of a layer.

    Attributes
    ----------
    cuts
        For each loop, the sizes of blocks, ascending: all divisors of its extent.
    shape
        How many there are.
    """

    any = False
    """Whether steps need not divide; see `tilewright.tiling.hierarchy.exact.any_steps`."""

    def __init__(self, layer: Layer, cuts: list[list[int]] | None = None) -> None:
        self.layer = layer
        self.extents = extents(layer)
        self.cuts = [divisors(extent) for extent in self.extents.values()] if cuts is None else cuts
        self.shape = tuple(map(len, self.cuts))
        self.many = prod(self.shape)

    @property
    def complete(self) -> bool:
        """Whether there are blocks of all combinations of sizes."""
        return self.many == prod(self.shape)

    @cached_property
    def index(self) -> Table:
        """The size's number in each loop, shape (blocks, 8)."""
        return np.stack(np.unravel_index(np.arange(self.many), self.shape), axis=1).astype(np.int64)

    @cached_property
    def strides(self) -> Table:
        """How far apart blocks are that differ in one size, by loop."""
        return np.array([prod(self.shape[i + 1 :]) for i in range(len(self.shape))])

    @cached_property
    def sizes(self) -> Table:
        """Size of each block in each loop, shape (blocks, 8)."""
        return np.stack([np.array(d)[self.index[:, i]] for i, d in enumerate(self.cuts)], axis=1)

    @cached_property
    def elements(self) -> Table:
        """Elements of each operand under each block, shape (blocks, 3)."""
        size = dict(zip(LETTERS, self.sizes.T, strict=True))
        area = size["g"] * size["n"] * size["k"]
        for axis, (out, tap) in enumerate(AXES):
            number = LETTERS.index(out), LETTERS.index(tap)
            stride, dilation = self.layer.stride[axis], self.layer.dilation[axis]
            outs, taps = (self.cuts[i] for i in number)
            table = np.array([[window(each, tap, stride, dilation) for tap in taps] for each in outs])
            area = area * table[self.index[:, number[0]], self.index[:, number[1]]]
        others = [np.prod([size[loop] for loop in USES[operand]], axis=0) for operand in OPERANDS[1:]]
        return np.stack([area, *others], axis=1)

    @cached_property
    def fresh(self) -> Table:
        """Elements of input that each block does not share with the one before, shape (blocks, 4).

        Along the loops of `SLIDING`; one that is not cut has no block before.
        """
        area = self.elements[:, 0]
        found = np.stack([area] * len(SLIDING), axis=1)
        for column, loop in enumerate(SLIDING):
            axis = int(loop in "xs")
            number = [LETTERS.index(each) for each in AXES[axis]]
            stride, dilation = self.layer.stride[axis], self.layer.dilation[axis]
            outs, taps = (self.cuts[i] for i in number)
            new, rows = np.zeros((2, len(outs), len(taps)), np.int64)
            for i, j in np.ndindex(new.shape):
                shift = outs[i] * stride if loop in "yx" else taps[j] * dilation
                new[i, j] = unshared(outs[i], taps[j], stride, dilation, shift)
                rows[i, j] = window(outs[i], taps[j], stride, dilation)
            at = self.index[:, number[0]], self.index[:, number[1]]
            cut = self.sizes[:, LETTERS.index(loop)] < self.extents[loop]
            found[:, column] = np.where(cut, area // rows[at] * new[at], area)
        return found

    @cached_property
    def ratios(self) -> Table:
        """How often one size of a loop is in another, 0 where it does not divide it."""
        most = max(self.shape)
        table = np.zeros((len(LETTERS), most, most), np.int64)
        for i, each in enumerate(self.cuts):
            sizes = np.array(each)
            quotient, rest = np.divmod(sizes[:, None], sizes[None, :])
            table[i, : len(each), : len(each)] = np.where(rest == 0, quotient, 0)
        return table

    @property
    def charged(self) -> Table:
        """Elements of each operand that are charged for each block, shape (blocks, 3)."""
        return self.elements

    @cached_property
    def every(self) -> Table:
        """How often each block is in the layer."""
        return self.times(LETTERS)

    @cached_property
    def moved(self) -> Table:
        """How often each block is in the layer along the loops that move an operand, shape (blocks, 3)."""
        return np.stack([self.times(USES[operand]) for operand in OPERANDS], axis=1)

    def steps(self, machine: HierarchyMachine, i: int) -> Steps:
        """Return what steps that do not divide cost at a node: here there are none."""
        loops = len(LETTERS)
        none, flags = np.zeros((loops, 1), np.int64), np.zeros((len(OPERANDS), loops), np.bool_)
        return Steps(False, none[:, 0].copy(), none, none, none, none[:, :, None], flags, flags[0])

    @property
    def fetches(self) -> Table:
        """The most fetches of each operand's tile from a block on, shape (blocks, 3)."""
        return np.broadcast_to(self.every[:, None], (self.many, len(OPERANDS)))

    def shared(self, machine: HierarchyMachine, i: int) -> Table:
        """Return how many of these count of tiles that instances share, as fractions: here nobody asks."""
        return np.ones((1, len(OPERANDS), 2), np.int64)

    def times(self, loops: str) -> Table:
        """Return how often each block is in the layer, along some loops."""
        which = [LETTERS.index(loop) for loop in loops]
        whole = np.array(list(self.extents.values()))
        return np.asarray(np.prod(whole[which] // self.sizes[:, which], axis=1))

    def bits(self, machine: HierarchyMachine, i: int, output_bits: int) -> Table:
        """Return what each block needs of a memory's node for each operand, with outputs of some width."""
        widths = [machine.bits.input, machine.bits.weights, output_bits]
        node = machine.nodes[i]
        held = [name in node.holds for name in OPERANDS]
        copies = machine.levels[node.level].copies
        return np.asarray(copies * self.elements * np.array(widths) * np.array(held))

    def fits(self, machine: HierarchyMachine, i: int, output_bits: int) -> NDArray[np.bool_]:
        """Return whether each block fits into a memory's node, with outputs of some width."""
        level = machine.levels[machine.nodes[i].level]
        if level.capacity_bytes is None:
            return np.ones(self.many, np.bool_)
        bits = self.bits(machine, i, output_bits)
        if isinstance(level.capacity_bytes, int):
            return np.asarray(bits.sum(axis=1) <= 8 * level.capacity_bytes)
        capacity = np.array([getattr(level.capacity_bytes, name) for name in OPERANDS])
        return np.asarray((bits <= 8 * capacity).all(axis=1))

    def least_around(self, values: Table, most: list[int]) -> Table:
        """Return, for each block, the least value of all blocks that may be outside of it.

        Parameters
        ----------
        values : shape (blocks, columns)
        most
            How often the block may be in the other one, by loop.
        """
        table = values.reshape(*self.shape, -1)
        for axis, limit in enumerate(most):
            if limit == 1 or self.shape[axis] == 1:
                continue
            parts = []
            for i in range(self.shape[axis]):
                ratios = self.ratios[axis, : self.shape[axis], i]
                around = np.flatnonzero((ratios > 0) & (ratios <= limit))
                parts.append(table.take(around, axis=axis).min(axis=axis))
            table = np.stack(parts, axis=axis)
        return table.reshape(self.many, -1)
