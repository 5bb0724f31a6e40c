"""Tables of how short chains of groups can be, by which the rest of a plan is bounded.

*Chains* are any disjoint groups one after the other. docs/bounds.md proves what is claimed here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping.bounds.excess_loads import Known
from tilewright.grouping.bounds.excess_loads import known as known_surplus
from tilewright.grouping.exact.bitsets import NEVER
from tilewright.grouping.exact.layered_search import Ints, Sweep
from tilewright.grouping.exact.stages import Key, Space

SPLITS = 8
"""About so many places are tried at which a chain is cut into two."""

TREND = 3
"""So many differences of bounds tell what to expect of the next one."""


class Chains:
    """Lower bounds on the length of chains, by their stage and by the group at one end.

    Attributes
    ----------
    free, anchored : dict of Key to int32, shape (g + 1, pixels of a group + 1)
        Shortest chain with so many steps and patches that ends in a group of so many patches and pixels:
        without the loads of its first group, and with half of their cost.
    slack
        How far above the bounds of the last complete tables chains were followed; None before.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.free: dict[Key, Ints] = {}
        self.anchored: dict[Key, Ints] = {}
        self.slack: int | None = None
        theorems = known_surplus(space.problem, space.size)
        for key in space.all_stages():
            steps = space.step * space.edges(key)
            shape = (space.size + 1, space.most_pixels + 1)
            self.free[key] = np.full(shape, steps, np.int32)
            # From the empty memory all pixels must come, however the patches are cut into groups.
            lengths = steps + space.load * (2 * int(space.fewest[key[1]]) - space.pixels)
            self.anchored[key] = np.broadcast_to(np.maximum(lengths, 0), shape).astype(np.int32)
            for theorem in theorems:
                free, anchored = self._by_surplus(key, theorem)
                self.free[key] = np.maximum(self.free[key], free)
                self.anchored[key] = np.maximum(self.anchored[key], anchored)
            sizes = np.arange(space.size + 1)[:, None]
            exists = (sizes > 0) & (sizes <= key[1])
            exists = exists & (space.fewest[sizes] <= space.pixels) & (space.pixels <= space.room[sizes])
            if space.fixed:
                exists = exists & (space.size - sizes <= space.short(key))
                exists = exists & ((sizes == key[1]) == (key[0] == 1))
            self.free[key][~exists] = NEVER
            self.anchored[key][~exists] = NEVER

    def _by_surplus(self, key: Key, theorem: Known) -> tuple[Ints, Ints]:
        """Bound the chains of a stage by surplus: twice the loads are the walk and what its ends hold."""
        space = self.space
        edges = space.edges(key)
        free, anchored = np.full((2, space.size + 1, space.most_pixels + 1), NEVER, np.int32)
        lasts = {
            last: surplus
            for last, surplus in theorem.by_last.items()
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
        """What every plan costs at least."""
        lengths = self.anchored[self.space.end] + self.space.load * self.space.pixels
        return int(lengths[1:].min()) + self.space.step

    def __str__(self) -> str:
        return "no tables of chains" if self.slack is None else f"tables of chains with slack {self.slack}"

    def improve(self, slack: int, deadline: float, threads: int = 1) -> Iterator[Key]:
        """Follow all chains that are at most so much longer than bounds let expect, and raise these.

        Gives each stage that it is done with.

        Raises
        ------
        OutOfTimeError, TooLargeError
            What was raised before stays.
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
                known = max(int(tables[after][1:].min()), self._composed(tables, after))
                limits[after] = max(known, self._trend(tables, after)) + slack
            return np.full(space.most_pixels + 1, limits[after])

        known: list[Key] = []
        for key, found in Sweep(space, most, deadline, free=free, threads=threads).run():
            # A chain that was not followed got too long at some stage, and still had the rest to go.
            left_out = limits[key] + 1
            for earlier in known:
                rest = self._least_rest(key, earlier, single=not free)
                left_out = min(left_out, limits[earlier] + 1 + rest)
            tables[key] = np.maximum(tables[key], np.minimum(found, min(left_out, int(NEVER))))
            known.append(key)
            yield key

    def _trend(self, tables: dict[Key, Ints], key: Key) -> int:
        """Continue the bounds on chains with one full group less, two full groups less, and so on."""
        lengths = []
        for _ in range(TREND + 1):
            key = (key[0] - 1 if self.space.fixed else 0, key[1] - self.space.size)
            least = int(tables[key][1:].min()) if key in tables else int(NEVER)
            if least >= NEVER:
                break
            lengths.append(least)
        return lengths[0] + -(-(lengths[0] - lengths[-1]) // (len(lengths) - 1)) if len(lengths) > 1 else 0

    def _least_rest(self, whole: Key, key: Key, single: bool) -> int:
        """Return the least length of what follows `key` in a chain; NEVER if nothing can.

        Parameters
        ----------
        single
            Whether the group at `key` may be the first one.
        """
        lengths = [int(self.free[rest][size].min()) for size, rest in self._rests(whole, key, single)]
        return min(lengths, default=int(NEVER))

    def _rests(self, whole: Key, key: Key, single: bool) -> Iterator[tuple[int, Key]]:
        """Give what chains are left behind `key`, by the patches of the group that is shared."""
        space = self.space
        if key[1] >= whole[1] or (space.fixed and (key[0] >= whole[0] or (key[0] == 1 and not single))):
            return
        least = 1
        if space.fixed:
            # Patches that are missing to full groups only get more.
            short = space.short(key)
            if short > space.short(whole):
                return
            least = max(1, space.size - short)
        for size in range(least, min(space.size, key[1]) + 1):
            alone = size == key[1]
            if (alone and not single) if not space.fixed else alone != (key[0] == 1):
                continue
            rest = space.rest(whole, key, size)
            if rest in self.free:
                yield size, rest

    def _composed(self, tables: dict[Key, Ints], whole: Key) -> int:
        """Bound a chain by two shorter ones that share a group.

        That is the group at a given place, or the first that completes so many patches.
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
