"""What many loop nests of a layer cost, all at once, in floating point: for choices that prove nothing.

All steps divide, and in each memory one operand stays in place during the innermost loops: the loops that
do not move it are innermost. Where a memory keeps halos, tiles of input slide along the loop that saves most.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.levels import SLIDING
from tilewright.spec.layer import Layer
from tilewright.tiling.hierarchy.charges import OUTPUT, SPENT, STEPS, WAITING, Charges
from tilewright.tiling.hierarchy.cost import TICKS
from tilewright.tiling.hierarchy.level import OperandBytes
from tilewright.tiling.hierarchy.loops import AXES, LETTERS, OPERANDS, REDUCED, USES, extents
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.nest import divisors, unshared, window

Sizes = NDArray[np.int64]
Values = NDArray[np.float64]
Marks = NDArray[np.bool_]

SLIDE = (SLIDING, "yx", "rs")
"""Along which loops tiles of input may slide, by the operand that stays."""


class Nests(NamedTuple):
    """Loop nests.

    Attributes
    ----------
    blocks : shape (nests, nodes + 1, 8)
        The block that enters each node, and last that of one multiplication.
    stays : shape (nests, nodes)
        Of each memory, the number of the operand that stays in place during its innermost loops.
    """

    blocks: Sizes
    stays: Sizes


class Costs(NamedTuple):
    """What nests cost.

    Attributes
    ----------
    spent : shape (nests, goals)
        Of the goals that add up, in their order, each once.
    ticks : shape (nests, 1 + ports)
        Of the multipliers with what they wait for, and of each port; 0 where no goal depends on them.
    """

    spent: Values
    ticks: Values

    @property
    def cycles(self) -> Values:
        """Cycles, where they are asked for."""
        return np.asarray(self.ticks.max(axis=1) / TICKS)

    @property
    def busy(self) -> Values:
        """Cycles of the multipliers and of each port, added up."""
        return np.asarray(self.ticks.sum(axis=1) / TICKS)


class Batch:
    """A layer on a machine of which is decided what its levels hold.

    Parameters
    ----------
    goals
        What is minimised, and what is limited.
    level
        The memory whose accesses are counted.
    """

    def __init__(self, layer: Layer, machine: HierarchyMachine, goals: Sequence[str], level: str) -> None:
        self.layer, self.machine = layer, machine
        self.charges = Charges(machine, goals, level)
        self.sizes = np.array(list(extents(layer).values()))
        kinds = np.array([one.kind for one in self.charges.quantities])
        self.spends, self.steps, self.waits = (kinds == kind for kind in (SPENT, STEPS, WAITING))
        self.constant = self.charges.constants(layer).astype(np.float64)
        self.uses = np.array([[loop in USES[operand] for loop in LETTERS] for operand in OPERANDS])
        self.reduced = [LETTERS.index(loop) for loop in REDUCED]
        self.memories = [i for i, node in enumerate(machine.nodes) if node.axis is None]
        self.slides = {i for i in self.memories if self.charges.sliding(i, self.charges.outer[i]).any()}

    # Tiles -------------------------------------------------------------------------------------------

    def elements(self, blocks: Sizes) -> Values:
        """Return the elements of each operand under blocks, shape (..., 3)."""
        size = {loop: blocks[..., i] for i, loop in enumerate(LETTERS)}
        area = (size["g"] * size["n"] * size["k"]).astype(np.float64)
        for axis, (out, tap) in enumerate(AXES):
            stride, dilation = self.layer.stride[axis], self.layer.dilation[axis]
            # So many taps have nothing in common; each further one adds rows beside those of an earlier one.
            apart = np.minimum(size[tap], stride // gcd(stride, dilation))
            more = np.minimum(size[out], dilation // gcd(stride, dilation))
            area *= apart * size[out] + (size[tap] - apart) * more
        others = [np.prod(blocks[..., self.uses[o]], axis=-1, dtype=np.float64) for o in (1, 2)]
        return np.stack([area, *others], axis=-1)

    def fit(self, nests: Nests, elements: Values) -> Marks:
        """Return which nests fit into all arrays and memories; `elements` are those of their blocks."""
        trips = nests.blocks[:, :-1] // nests.blocks[:, 1:]
        fitting = np.ones(len(trips), np.bool_)
        for i, node in enumerate(self.machine.nodes):
            if node.axis is not None:
                fitting &= trips[:, i].prod(axis=1) <= node.axis.size
        for nodes in self.machine.memories.values():
            level = self.machine.levels[self.machine.nodes[nodes[0]].level]
            if level.capacity_bytes is None:
                continue
            held = {
                operand: level.copies
                * elements[:, i, OPERANDS.index(operand)]
                * self._width(operand, i, nests, trips)
                for i in nodes
                for operand in self.machine.nodes[i].holds
            }
            if isinstance(level.capacity_bytes, OperandBytes):
                for operand, bits in held.items():
                    fitting &= bits <= 8 * getattr(level.capacity_bytes, operand)
            else:
                fitting &= sum(held.values()) <= 8 * level.capacity_bytes
        return fitting

    def _width(self, operand: str, i: int, nests: Nests, trips: Sizes) -> Values | int:
        """Return the bits of an operand's elements at a node; outputs are partial unless they come complete.

        See `Nest.held_bits`.
        """
        bits, nodes = self.machine.bits, self.machine.nodes
        if operand != "output":
            return int(getattr(bits, operand))
        last = min((one for one in self.machine.holders["output"] if one > i), default=len(nodes))
        sums = np.any(trips[:, :, self.reduced] > 1, axis=2)
        partial = sums[:, [j for j in range(i) if nodes[j].axis is not None]].any(axis=1)
        moved = np.full(len(trips), last == len(nodes))
        for j in reversed([j for j in self.memories if j < last]):
            partial |= sums[:, j] & (moved | self._moved_last(j, nests, trips))
            moved |= np.any(trips[:, j, self.uses[OUTPUT]] > 1, axis=1)
        return np.where(partial, bits.partial, bits.output)

    def _moved_last(self, i: int, nests: Nests, trips: Sizes) -> Marks:
        """Return where one of a memory's loops that move outputs is inside of those over what is added up."""
        stays = nests.stays[:, i]
        found = np.any((trips[:, i] > 1) & (self.uses[OUTPUT] & ~self.uses)[stays], axis=1)
        if i in self.slides:
            parts = self.saved(nests.blocks[:, i + 1], trips[:, i])
            rows = np.isin(parts.argmax(axis=1), [SLIDING.index(loop) for loop in "yx"])
            found = found | ((stays == 0) & rows & (parts.max(axis=1) > 0))
        return np.asarray(found)

    @cached_property
    def _fresh(self) -> dict[str, tuple[Sizes, Sizes, Values]]:
        """Which part of a block's rows or columns the one before along a loop does not have.

        For each loop of `SLIDING`: divisors of the loops over outputs and over the kernel, and the shares.
        """
        found = {}
        for axis, (out, tap) in enumerate(AXES):
            stride, dilation = self.layer.stride[axis], self.layer.dilation[axis]
            outs, taps = (divisors(int(self.sizes[LETTERS.index(loop)])) for loop in (out, tap))
            for loop in (out, tap):
                share = np.ones((len(outs), len(taps)))
                for i, j in np.ndindex(share.shape):
                    geometry = outs[i], taps[j], stride, dilation
                    shift = outs[i] * stride if loop == out else taps[j] * dilation
                    share[i, j] = unshared(*geometry, shift) / window(*geometry)
                found[loop] = np.array(outs), np.array(taps), share
        return found

    def saved(self, inner: Sizes, trips: Sizes) -> Values:
        """Return which part of input need not be fetched again, for each loop along which tiles may slide.

        Parameters
        ----------
        inner, trips : shape (nests, 8)
            The blocks inside of a memory's loops, and how often these run.
        """
        parts = []
        for loop in SLIDING:
            outs, taps, share = self._fresh[loop]
            out, tap = AXES[loop in "xs"]
            at = (
                np.searchsorted(outs, inner[:, LETTERS.index(out)]),
                np.searchsorted(taps, inner[:, LETTERS.index(tap)]),
            )
            again = trips[:, LETTERS.index(loop)]
            parts.append((1 - share[at]) * (again - 1) / again)
        return np.stack(parts, axis=1)

    def sliding(self, i: int, stays: int, inner: Sizes, trips: Sizes) -> str:
        """Return the loop along which a memory's loops slide tiles of input, "" if none saves anything.

        Parameters
        ----------
        inner, trips : shape (8,)
        """
        if i not in self.slides:
            return ""
        parts = dict(zip(SLIDING, self.saved(inner[None], trips[None])[0].tolist(), strict=True))
        best = max(SLIDE[stays], key=lambda loop: parts[loop])
        return best if parts[best] > 0 else ""

    # Costs -------------------------------------------------------------------------------------------

    def costs(self, nests: Nests, elements: Values) -> Costs:
        """Return what nests cost; `elements` are those of their blocks."""
        many, last, charges = len(nests.blocks), len(self.machine.nodes), self.charges
        inside, outputs, ending = np.zeros((3, many, len(self.spends)))
        inside[:, self.steps] = 1.0
        fetched = np.zeros((many, 3, len(self.spends)))
        waiting, added = np.ones((many, 3), np.bool_), np.full(many, last)
        for i in reversed(range(last)):
            trips = nests.blocks[:, i] // nests.blocks[:, i + 1]
            every = trips.prod(axis=1, dtype=np.float64)
            sums = trips[:, self.reduced].prod(axis=1)
            if self.machine.nodes[i].axis is not None:
                inside[:, self.spends] *= every[:, None]
                fetched[:, :, self.spends] *= every[:, None, None]
                ending[sums > 1], added[sums > 1] = 0.0, i
                continue
            still = np.stack([trips[:, ~uses].prod(axis=1) for uses in self.uses], axis=1)
            moves = waiting & charges.reaches[i] & ((every[:, None] > still) | charges.straight[i] | (i == 0))
            holds = np.array([i > 0 and operand in self.machine.nodes[i].holds for operand in OPERANDS])
            tiles = elements[:, i + 1] * (moves | (waiting & holds))
            fetched += tiles[:, :, None] * charges.outer[i]
            outputs += tiles[:, [OUTPUT]] * charges.first_out[i]
            ending += tiles[:, [OUTPUT]] * charges.last_out[i]
            fetches = self._fetches(i, nests.stays[:, i], every, still) * moves
            inside = inside * every[:, None] + (fetches[:, :, None] * fetched).sum(axis=1)
            if i in self.slides:
                parts = self.saved(nests.blocks[:, i + 1], trips)
                able = np.array([[loop in loops for loop in SLIDING] for loops in SLIDE])[nests.stays[:, i]]
                again = fetches[:, 0] * elements[:, i + 1, 0] * (parts * able).max(axis=1)
                inside -= again[:, None] * charges.sliding(i, charges.outer[i])
            fetched *= ~moves[:, :, None]
            waiting = (waiting & ~moves) | holds
            outputs *= (every / sums)[:, None]
            ending *= (every / sums)[:, None]
            held = elements[:, i] * holds
            fetched += held[:, :, None] * charges.inner[i]
            outputs += held[:, [OUTPUT]] * charges.first_in[i]
            ending += held[:, [OUTPUT]] * charges.last_in[i]
        spent = inside[:, self.spends] + self.constant[added][:, self.spends]
        times = inside + outputs + ending
        return Costs(spent, self._ticks(times))

    def _fetches(self, i: int, stays: Sizes, every: Values, still: Sizes) -> Values:
        """Return how often a memory's loops fetch a tile of each operand, if they move it."""
        in_place = (stays[:, None] == np.arange(3)) | (every[:, None] == still)
        return np.where(in_place & ~self.charges.straight[i], every[:, None] / still, every[:, None])

    def _ticks(self, times: Values) -> Values:
        """Return the ticks of the multipliers with what they wait for, and of each port."""
        ports = times[:, ~(self.spends | self.steps | self.waits)]
        if not self.steps.any():
            return np.zeros((len(times), 1))
        steps = np.ceil(times[:, self.steps].sum(axis=1) / self.machine.macs_per_cycle)
        return np.column_stack([steps * TICKS + times[:, self.waits].sum(axis=1), ports])
