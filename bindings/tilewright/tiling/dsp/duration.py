"""Closed form of a plan's cycles: the phases of double buffering, equal ones counted together.

In phase i the core computes tile i and sets up the transfers that run meanwhile: those that write back what
tile i - 1 has left and those that load what tile i + 1 lacks. A phase takes as long as the busier of core and
bus (thesis, equations 5.7 to 5.12 and figure 5.2, with each phase's own transfers instead of their average
and edge tiles at their true size). Without double buffering everything follows one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.tiling.dsp.compute import compute_of_tiles
from tilewright.tiling.dsp.nest import K, Nest, X, Y
from tilewright.tiling.dsp.plan import LOOPS, DspPlan
from tilewright.tiling.dsp.traffic import RELEVANT, moved_by

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Duration:
    """The time of a plan and its parts.

    Attributes
    ----------
    cycles
        From the first transfer to the end of the last.
    compute
        Cycles in which the core multiplies.
    setup
        Cycles in which the core sets up transfers.
    transfers, accesses
        DMA transfers and the units that they move.
    streamed
        Units between on-chip memory and register file.
    """

    cycles: int
    compute: int
    setup: int
    transfers: int
    accesses: int
    streamed: int


@dataclass(frozen=True)
class _GroupedLoop:
    """One tile loop, its iterations grouped by their sizes and their neighbours' sizes."""

    axis: int
    trips: int
    index: Counts
    weight: Counts
    size: Counts
    full: Counts
    new: Counts


def duration(nest: Nest, plan: DspPlan, local: int = 0) -> Duration:
    """Return the duration of a plan, exactly as the simulator measures it.

    Parameters
    ----------
    local
        Units that the whole layer moves between on-chip memory and registers (section 5.4).
    """
    return _Iterations(nest, plan, local).total()


class _Iterations:
    """The representative iterations of a loop nest, each with how many it stands for."""

    def __init__(self, nest: Nest, plan: DspPlan, local: int) -> None:
        self.nest, self.plan, self.local = nest, plan, local
        self.step, self.moved_by = nest.step(plan.tile), moved_by(plan.reuse)
        self.loops = [self._loop(LOOPS.index(name)) for name in "g" + plan.order]
        self.position = {loop.axis: number for number, loop in enumerate(self.loops)}
        grids = np.meshgrid(*(np.arange(len(loop.index)) for loop in self.loops), indexing="ij")
        self.classes = [grid.ravel() for grid in grids]
        self.at = [loop.index[c] for loop, c in zip(self.loops, self.classes, strict=True)]
        self.weight = np.ones(1, dtype=np.int64)
        for loop, c in zip(self.loops, self.classes, strict=True):
            self.weight = self.weight * loop.weight[c]

    def _loop(self, axis: int) -> _GroupedLoop:
        """Group the iterations of a loop by their sizes and those of the iterations before and after."""
        trips = self.nest.trips(self.step)[axis]
        step, size = self.step[axis], self.nest.sizes[axis]
        sizes = np.full(trips, step, dtype=np.int64)
        sizes[-1] = size - (trips - 1) * step
        full = new = sizes
        if axis in (Y, X):
            tiles = self.nest.axis(axis, step)
            full, new = tiles.full, tiles.new
        if trips <= 5:
            everything = np.arange(trips)
            return _GroupedLoop(axis, trips, everything, np.ones(trips, dtype=np.int64), sizes, full, new)
        if axis not in (Y, X):
            # Only the last may be smaller, so only the two at each end have other neighbours.
            index = np.array([0, 1, 2, trips - 2, trips - 1])
            return _GroupedLoop(axis, trips, index, np.array([1, 1, trips - 4, 1, 1]), sizes, full, new)
        # The first and the last are unlike all others, so that no group mixes them with their neighbours.
        kind = np.stack([sizes, full, new, np.zeros(trips, dtype=np.int64)])
        kind[3, 0], kind[3, -1] = 1, 2
        inner = np.vstack([kind[:, :-2], kind[:, 1:-1], kind[:, 2:]])
        _, index, weight = np.unique(inner, axis=1, return_index=True, return_counts=True)
        index = np.concatenate([[0], index + 1, [trips - 1]])
        weight = np.concatenate([[1], weight, [1]])
        return _GroupedLoop(axis, trips, index, weight, sizes, full, new)

    def _moved(self, forward: bool) -> tuple[list[Counts], NDArray[np.int64]]:
        """Return the next (or previous) iteration's indices and the outermost loop that changes.

        Where there is none, the loop number is -1.
        """
        there = [at.copy() for at in self.at]
        outermost = np.full(len(self.weight), -1)
        carry = np.ones(len(self.weight), dtype=bool)
        for number in reversed(range(len(self.loops))):
            trips = self.loops[number].trips
            at = self.at[number]
            wraps = carry & (at == (trips - 1 if forward else 0))
            steps = carry & ~wraps
            there[number] = np.where(wraps, 0 if forward else trips - 1, at)
            there[number] = np.where(steps, at + (1 if forward else -1), there[number])
            outermost = np.where(steps, number, outermost)
            carry = wraps
        return there, outermost

    def _changes(self, operand: str, outermost: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether an operand's tile changes when that loop, and all inside it, go on."""
        if self.plan.reuse == "none":
            return np.ones(len(outermost), dtype=bool)
        last = max(
            (
                n
                for n, loop in enumerate(self.loops)
                if loop.axis in self.moved_by[operand] and loop.trips > 1
            ),
            default=-1,
        )
        return outermost <= last

    @cached_property
    def _halo(self) -> int:
        """The loop along which input tiles share a halo that stays, or -1."""
        if not self.plan.keeps_halo:
            return -1
        moving = [n for n, loop in enumerate(self.loops) if loop.axis in RELEVANT["input"] and loop.trips > 1]
        return moving[-1] if moving and self.loops[moving[-1]].axis in (Y, X) else -1

    def _product(self, operand: str, at: list[Counts]) -> Counts:
        """Elements of an operand's tile (input: without its plane)."""
        axes = self.moved_by[operand] - ({Y, X} if operand == "input" else set())
        elements = np.ones(1, dtype=np.int64)
        for axis in axes:
            number = self.position[axis]
            elements = elements * self.loops[number].size[at[number]]
        if operand != "kernels":
            return elements
        return elements * (self.nest.group_weights if self.plan.reuse == "weights" else self.nest.window)

    def _loads(self, at: list[Counts], outermost: NDArray[np.int64] | None) -> list[Counts]:
        """Units that each of the three operands loads for the iterations `at`, 0 for none.

        Parameters
        ----------
        outermost
            The loop by which the iteration differs from the one before; None for the very first one.
        """
        y, x = self.position[Y], self.position[X]
        rows, columns = self.loops[y].full[at[y]], self.loops[x].full[at[x]]
        if outermost is not None and self._halo >= 0:
            neighbour = outermost == self._halo
            if self._halo == y:
                rows = np.where(neighbour, self.loops[y].new[at[y]], rows)
            else:
                columns = np.where(neighbour, self.loops[x].new[at[x]], columns)
        partial, units = at[self.position[K]] > 0, self.nest.machine.units
        loads = []
        for operand, moved in (
            ("input", self._product("input", at) * rows * columns * units.input),
            ("kernels", self._product("kernels", at) * units.kernels),
            ("output", self._product("output", at) * partial * units.partial),
        ):
            if outermost is not None:
                moved = np.where(self._changes(operand, outermost), moved, 0)
            loads.append(moved)
        return loads

    def _written(self, at: list[Counts]) -> Counts:
        """Units that are written of the outputs of the iterations `at`, complete or as partial sums."""
        k, units = self.position[K], self.nest.machine.units
        complete = at[k] == self.loops[k].trips - 1
        return np.asarray(self._product("output", at) * np.where(complete, units.output, units.partial))

    def _computed(self) -> tuple[Counts, Counts]:
        """Return the cycles of the core, and what it streams meanwhile."""
        sizes = {loop.axis: loop.size[at] for loop, at in zip(self.loops, self.at, strict=True)}
        at, trips = self.at[self.position[K]], self.loops[self.position[K]].trips
        return compute_of_tiles(self.nest, self.plan, self.local, sizes, at == 0, at == trips - 1)

    def total(self) -> Duration:
        """Add everything up."""
        machine, weight = self.nest.machine, self.weight
        bus, setup = machine.bus_units_per_cycle, machine.dma_setup_cycles
        after, next_loop = self._moved(True)
        before, last_loop = self._moved(False)

        compute, streamed = self._computed()

        loads = [np.where(next_loop >= 0, load, 0) for load in self._loads(after, next_loop)]
        written = np.where(self._changes("output", last_loop) & (last_loop >= 0), self._written(before), 0)
        moved = [*loads, written]
        transfers = sum((units > 0).astype(np.int64) for units in moved)
        transfer = sum(-(-units // bus) for units in moved)
        local = -(-streamed // bus)

        first = [np.zeros(1, dtype=np.int64) for _ in self.loops]
        final = [np.array([loop.trips - 1]) for loop in self.loops]
        ends = [int(load[0]) for load in self._loads(first, None)] + [int(self._written(final)[0])]
        end_transfers = sum(units > 0 for units in ends)
        end_cycles = sum(-(-units // bus) for units in ends)

        if machine.double_buffering:
            phases = np.maximum(compute + setup * transfers, transfer + local)
        else:
            phases = np.maximum(compute, local) + setup * transfers + transfer
        all_transfers = int((weight * transfers).sum()) + end_transfers
        return Duration(
            cycles=int((weight * phases).sum()) + end_cycles + setup * end_transfers,
            compute=int((weight * compute).sum()),
            setup=setup * all_transfers,
            transfers=all_transfers,
            accesses=int((weight * sum(moved)).sum()) + sum(ends),
            streamed=int((weight * streamed).sum()),
        )
