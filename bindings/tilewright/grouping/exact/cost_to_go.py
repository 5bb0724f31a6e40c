"""Lower bounds on the cost to go: what the rest of a plan costs at least, from tables of chains.

A *chain* is a sequence of disjoint groups (docs/bounds.md, theorem 7, which proves what is claimed here). Its
length is the walk through its groups plus the cost of its steps, in half units.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping.bounds.excess_loads import ExcessTheorem, known_theorems
from tilewright.grouping.exact.bitsets import NEVER
from tilewright.grouping.exact.layered_search import Ints, LayeredSearch, Limits
from tilewright.grouping.exact.stages import Key, StateSpace

SPLITS = 8
"""Number of places, roughly, at which `_composed` tries to cut a chain into two."""

TREND = 3
"""Number of earlier differences of bounds from which the next one is extrapolated."""


class CostToGo:
    """Lower bounds on the length of chains, by their stage and by their last group.

    Attributes
    ----------
    free, anchored : dict of Key to int32, shape (size + 1, pixels of a group + 1)
        ``free[key][m, p]``: least length of chains of stage `key` whose last group has m patches and p
        pixels. `anchored` adds the walk from the empty memory to the first group. By reversal the same holds
        of the first group and the way to the empty memory.
    slack
        How far above the expected bounds chains were followed for the present tables; None before.
    """

    def __init__(self, space: StateSpace) -> None:
        self.space = space
        self.free: dict[Key, Ints] = {}
        self.anchored: dict[Key, Ints] = {}
        self.slack: int | None = None
        theorems = known_theorems(space.problem, space.size)
        for key in space.all_stages():
            steps = space.step * space.edges(key)
            shape = (space.size + 1, space.most_pixels + 1)
            self.free[key] = np.full(shape, steps, np.int32)
            # From the empty memory all pixels must come, however the patches are cut into groups.
            lengths = steps + space.load * (2 * int(space.fewest[key[1]]) - space.pixels)
            self.anchored[key] = np.broadcast_to(np.maximum(lengths, 0), shape).astype(np.int32)
            for theorem in theorems:
                free, anchored = self._by_excess_loads(key, theorem)
                self.free[key] = np.maximum(self.free[key], free)
                self.anchored[key] = np.maximum(self.anchored[key], anchored)
            sizes = np.arange(space.size + 1)[:, None]
            exists = (sizes > 0) & (sizes <= key[1])
            exists = (
                exists
                & (space.fewest[sizes] <= space.pixels)
                & (space.pixels <= space.max_pixels_by_size[sizes])
            )
            if space.fixed:
                exists = exists & (space.size - sizes <= space.missing_patches(key))
                exists = exists & ((sizes == key[1]) == (key[0] == 1))
            self.free[key][~exists] = NEVER
            self.anchored[key][~exists] = NEVER

    def _by_excess_loads(self, key: Key, theorem: ExcessTheorem) -> tuple[Ints, Ints]:
        """Bound the chains of a stage by theorem 4: twice the loads are the walk and what its ends hold."""
        space = self.space
        edges = space.edges(key)
        free, anchored = np.full((2, space.size + 1, space.most_pixels + 1), NEVER, np.int32)
        lasts = {
            last: excess
            for last, excess in theorem.by_last.items()
            if last[0] <= space.size and last[1] <= space.most_pixels
        }
        sizes, pixels = np.array(list(lasts)).T
        parts = key[1] * theorem.parts + (edges + 1) * theorem.rate.numerator + np.array(list(lasts.values()))
        loads = -(-parts // theorem.parts)
        anchored[sizes, pixels] = space.step * edges + space.load * (2 * loads - pixels)
        both = 2 * np.maximum(loads[:, None], loads) - pixels[:, None] - pixels
        free[sizes, pixels] = space.step * edges + space.load * both.min(axis=1)
        return free, anchored

    @property
    def total(self) -> int:
        """A lower bound on the cost of every plan, in half units."""
        lengths = self.anchored[self.space.end] + self.space.load * self.space.pixels
        return int(lengths[1:].min()) + self.space.step

    def __str__(self) -> str:
        return "no tables of chains" if self.slack is None else f"tables of chains with slack {self.slack}"

    def improve(self, slack: int, deadline: float, threads: int = 1) -> Iterator[Key]:
        """Follow all chains that are at most `slack` half units longer than expected, and raise the tables.

        Yields
        ------
        Key
            Each stage when its table is done.

        Raises
        ------
        OutOfTimeError, TooLargeError
            Tables that were raised before stay.
        """
        for free in (True, False):
            yield from self._follow(self.free if free else self.anchored, free, slack, deadline, threads)
        self.slack = slack

    def _follow(
        self, tables: dict[Key, Ints], free: bool, slack: int, deadline: float, threads: int
    ) -> Iterator[Key]:
        space = self.space
        limits: dict[Key, int] = {}

        def most(after: Key, _size: int) -> NDArray[np.int64]:
            if after not in limits:
                proven = max(int(tables[after][1:].min()), self._composed(tables, after))
                limits[after] = max(proven, self._trend(tables, after)) + slack
            return np.full(space.most_pixels + 1, limits[after])

        followed: list[Key] = []
        for key, shortest in LayeredSearch(space, most, deadline, Limits(free=free), threads).run():
            # A chain that was not followed exceeded the limit at an earlier stage, and had the rest to go.
            left_out = limits[key] + 1
            for earlier in followed:
                rest = self._least_rest(key, earlier, single=not free)
                left_out = min(left_out, limits[earlier] + 1 + rest)
            tables[key] = np.maximum(tables[key], np.minimum(shortest, min(left_out, int(NEVER))))
            followed.append(key)
            yield key

    def _trend(self, tables: dict[Key, Ints], key: Key) -> int:
        """Extrapolate from the bounds on chains with one full group less, two full groups less, and so on."""
        lengths = []
        for _ in range(TREND + 1):
            key = (key[0] - 1 if self.space.fixed else 0, key[1] - self.space.size)
            least = int(tables[key][1:].min()) if key in tables else int(NEVER)
            if least >= NEVER:
                break
            lengths.append(least)
        return lengths[0] + -(-(lengths[0] - lengths[-1]) // (len(lengths) - 1)) if len(lengths) > 1 else 0

    def _least_rest(self, whole: Key, key: Key, single: bool) -> int:
        """Return the least length of the rest of a chain behind its stage `key`; NEVER if there is none.

        Parameters
        ----------
        single
            Whether `key` may be the stage of the first group.
        """
        lengths = [int(self.free[rest][size].min()) for size, rest in self._rests(whole, key, single)]
        return min(lengths, default=int(NEVER))

    def _rests(self, whole: Key, key: Key, single: bool) -> Iterator[tuple[int, Key]]:
        """Yield the stages of the rest behind `key`, each with the size of the group at the cut."""
        space = self.space
        if key[1] >= whole[1] or (space.fixed and (key[0] >= whole[0] or (key[0] == 1 and not single))):
            return
        least = 1
        if space.fixed:
            # The number of patches missing to full groups never decreases.
            missing = space.missing_patches(key)
            if missing > space.missing_patches(whole):
                return
            least = max(1, space.size - missing)
        for size in range(least, min(space.size, key[1]) + 1):
            alone = size == key[1]
            if (alone and not single) if not space.fixed else alone != (key[0] == 1):
                continue
            rest = space.rest(whole, key, size)
            if rest in self.free:
                yield size, rest

    def _composed(self, tables: dict[Key, Ints], whole: Key) -> int:
        """Bound a chain by two shorter ones that share the group at a cut.

        With a fixed number of steps the cut is at a step, else at the group that completes a number of
        patches.
        """
        space = self.space
        anchored = tables is self.anchored
        if space.fixed:
            splits = [[(k, n) for n in range(1, whole[1])] for k in range(1 if anchored else 2, whole[0])]
        else:
            reach = range(1 if anchored else space.size + 1, whole[1] - space.size + 1)
            splits = [[(0, n) for n in range(t, t + space.size)] for t in reach]
        best = 0
        for split in splits[:: max(1, len(splits) // SPLITS)]:
            lengths = [
                int((tables[key][size] + self.free[rest][size]).min())
                for key in split
                if key in tables
                for size, rest in self._rests(whole, key, anchored)
            ]
            best = max(best, min(lengths, default=0))
        return best
