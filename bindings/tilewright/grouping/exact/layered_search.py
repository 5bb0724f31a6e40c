"""One search through partial plans, or chains of groups, stage by stage.

What cannot end as short as asked for is left out, and of what is equal or worse than something else, too.
docs/bounds.md proves that nothing is lost; `tilewright.grouping.extending` is the compiled part.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.core.context import MAX_SECONDS
from tilewright.grouping.exact.bitsets import NEVER, Words, unpack
from tilewright.grouping.exact.expansion_kernel import Rules, Table, extend, grow, undominated
from tilewright.grouping.exact.pruning_kernel import NONE
from tilewright.grouping.exact.reload_intervals import NO_ENDS, Ends
from tilewright.grouping.exact.stages import Key, Space
from tilewright.grouping.exact.workspace import Workspace
from tilewright.grouping.plan import Plan
from tilewright.spec.errors import OutOfTimeError

Ints = NDArray[np.int32]

MostOf = Callable[[Key, int], NDArray[np.int64]]
"""Longest walk that is kept to a group of so many patches at a stage, by the group's pixels."""

MAX_ROWS = 60_000_000
"""Most partial plans that one of two searches keeps: some 4 GB, and more while a stage is sorted."""

LARGE = 1 << 20
"""From so many rows on a table grows to twice its size at a time."""

FEW = 256
"""So few partial plans are not shared among threads."""

CHUNK = 5_000
"""Partial plans that are extended between two looks at the clock."""


class TooLargeError(Exception):
    """More partial plans than fit."""


@dataclass
class Stage:
    """Partial plans with equally many patches and steps, sorted by the patches done and then by cost.

    Attributes
    ----------
    rows : uint64, shape (n, words)
    costs : int32, shape (n,)
    parents, stages : int32, shape (n,)
        Where each was reached from: the row and the number of its stage.
    least : int16, shape (n,)
        So many patches the next group has at least, without loss.
    """

    rows: Words
    costs: Ints
    parents: Ints
    stages: Ints
    least: NDArray[np.int16]


class Sweep:
    """One search, stage by stage, from the empty memory on.

    Parameters
    ----------
    most
        Longest walk that is kept to a group of so many patches at a stage, by the group's pixels.
    free
        Whether the first group costs nothing.
    total
        Largest cost of a complete plan that is looked for; negative where chains are.
    watched
        Whether no pixel may be loaded more than twice.
    spare
        How many pixels any step may throw away.
    ends
        What is known of the first steps, where they are the better end of a plan.
    threads
        How many threads share the work of a stage.
    """

    def __init__(
        self,
        space: Space,
        most: MostOf,
        deadline: float,
        *,
        free: bool = False,
        total: int = -1,
        watched: bool = False,
        spare: int = 2**30,
        ends: Ends = NO_ENDS,
        threads: int = 1,
    ) -> None:
        self.space, self.most, self.deadline, self.threads = space, most, deadline, threads
        self.free, self.total, self.watched, self.spare, self.ends = free, total, watched, spare, ends
        self.stages: list[Stage] = []
        self.keys: list[Key] = []
        self.rows = 0
        self.stop = np.zeros(1, bool)
        root = self._table(1)
        # The first step of a chain is no step from one group to another.
        root.cost[0] = 0 if total >= 0 else -space.step
        self.open: dict[Key, list[Table]] = {(0, 0): [root]}
        self.workspaces = [Workspace.of(space.bits, space.size, root.rows.shape[1]) for _ in range(threads)]

    def run(self) -> Iterator[tuple[Key, Ints]]:
        """Extend one stage after the other; give each with the shortest walks that lead there.

        Raises
        ------
        OutOfTimeError, TooLargeError
        """
        # One call of compiled code can take long: a clock beside it ends it.
        clock = threading.Timer(min(self.deadline - time.monotonic(), MAX_SECONDS), self.stop.fill, (True,))
        clock.daemon = True
        clock.start()
        try:
            yield from self._run()
        finally:
            clock.cancel()

    def _run(self) -> Iterator[tuple[Key, Ints]]:
        while self.open:
            key = min(self.open)
            tables = self.open.pop(key)
            stage = self._stage(tables)
            if key != (0, 0):
                yield key, np.minimum.reduce([table.found for table in tables])
            self.keys.append(key)
            self.stages.append(stage)
            self.rows += len(stage.rows)
            for size, after in self.space.groups(key):
                self._extend(stage, key, size, after)
            if self.total < 0:
                # Nobody will ask how a chain was made.
                self.rows -= len(stage.rows)
                self.stages[-1] = Stage(*(column[:0] for column in vars(stage).values()))

    @property
    def complete(self) -> bool:
        """Whether a complete plan was reached."""
        return self.space.end in self.keys and len(self.stages[self.keys.index(self.space.end)].rows) > 0

    def _table(self, size: int) -> Table:
        space = self.space
        words = space.n_done + space.n_held * (2 if self.watched else 1)
        return Table(
            np.zeros((size, words), np.uint64),
            np.full(size, -NEVER, np.int32),
            np.zeros(size, np.int32),
            np.zeros(size, np.int32),
            np.zeros(size, np.int16),
            np.zeros(1, np.int64),
            np.full((space.size + 1, space.most_pixels + 1), NEVER, np.int32),
        )

    def _stage(self, tables: list[Table]) -> Stage:
        """Sort what was reached, and leave out what something else makes useless."""
        used = [np.flatnonzero(table.cost > -NEVER) for table in tables]
        columns = [
            np.concatenate([column[place] for column, place in zip(group, used, strict=True)])
            for group in zip(*(table[:5] for table in tables), strict=True)
        ]
        order = np.lexsort((-columns[4], columns[1], *(columns[0][:, w] for w in range(self.space.n_done))))
        columns = [column[order] for column in columns]
        kept = undominated(self.space.bits, *columns[:2], self.space.load, self.watched)
        return Stage(*(column[kept] for column in columns))

    def _extend(self, stage: Stage, key: Key, size: int, after: Key) -> None:
        space, first = self.space, key == (0, 0)
        tables = self.open.setdefault(after, [self._table(1 << 12) for _ in range(self.threads)])
        ahead = 0 if space.fixed else space.step * -(-(space.n_patches - after[1]) // space.size)
        following = min(space.size, space.n_patches - after[1])
        numbers = [size, space.step, space.load, space.step + ahead, self.free and first, self.watched]
        most = np.where(space.pixels <= space.room[size], self.most(after, size), -NEVER)
        parts = space.starts if first and size > 1 else space.anywhere
        excess, steps_ahead = -1, space.n_patches
        if 0 < after[0] <= self.ends.steps:
            excess, steps_ahead = self.ends.excess, self.ends.steps - after[0]
        # Where both ends throw away as much, the better one is missing no more patches than the other.
        below = 2 * space.short(after) > space.missing
        delays = space.delays if self.total >= 0 else NONE
        limits = np.array([*numbers, self.spare, following, steps_ahead, excess, below, delays], np.int64)
        # No patch waits that would leave the first steps, by which plan and reverse are told apart.
        least = np.zeros_like(stage.least) if space.hinge(key, self.ends) else stage.least
        all_rules = [Rules(limits, most, self.total, *part, self.ends.near, self.stop) for part in parts]
        chunk = max(1, min(CHUNK, -(-len(stage.rows) // self.threads)))
        todo = deque((rules, row) for rules in all_rules for row in range(0, len(stage.rows), chunk))

        def work(thread: int) -> None:
            while True:
                try:
                    rules, done = todo.popleft()
                except IndexError:
                    return
                end = min(done + chunk, len(stage.rows))
                while done < end:
                    part = stage.rows, stage.costs, least, done, end, len(self.stages) - 1
                    done = extend(space.bits, rules, *part, tables[thread], self.workspaces[thread])
                    if self.stop[0] or time.monotonic() > self.deadline:
                        raise OutOfTimeError
                    if done < end:
                        places = len(tables[thread].cost)
                        if self.rows + sum(len(table.cost) for table in tables) + 2 * places > MAX_ROWS:
                            todo.clear()
                            raise TooLargeError
                        larger = self._table((4 if places < LARGE else 2) * places)
                        grow(tables[thread], larger)
                        tables[thread] = larger

        if self.threads == 1 or (len(stage.rows) < FEW and len(all_rules) == 1):
            work(0)
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(work, range(self.threads)))

    def plan(self) -> Plan:
        """Follow the cheapest complete plan back to its start."""
        space = self.space
        number = self.keys.index(space.end)
        row = int(self.stages[number].costs.argmin())
        # How the patches of the present row are moved to where the plan has them.
        frame = np.arange(space.n_patches)
        groups: list[NDArray[np.int64]] = []
        while number:
            stage = self.stages[number]
            earlier = self.stages[stage.stages[row]]
            parent = stage.parents[row]
            here, before = self._done(stage, row), self._done(earlier, parent)
            image = next(
                image
                for place, image in enumerate(space.images)
                if self._leads(earlier, int(parent), place, stage, row)
            )
            came = np.zeros_like(here)
            came[image[before]] = True
            groups.append(frame[np.flatnonzero(here & ~came)])
            frame = frame[image]
            number, row = int(stage.stages[row]), int(parent)
        return Plan.from_groups(space.problem, groups[::-1])

    def _done(self, stage: Stage, row: int) -> NDArray[np.bool_]:
        return unpack(stage.rows[row, : self.space.n_done], self.space.n_patches)

    def _leads(self, earlier: Stage, parent: int, number: int, stage: Stage, row: int) -> bool:
        """Whether a row follows from its parent when the parent is moved by a symmetry."""
        space = self.space
        image = space.images[number]
        here, before = self._done(stage, row), self._done(earlier, parent)
        moved = np.zeros_like(here)
        moved[image[before]] = True
        if (moved & ~here).any():
            return False
        # Back in the frame of the parent: what the group would load, and what would be left of it.
        pixels = unpack(space.bits.patch_pixels, len(space.bits.pixel_patches))
        words = earlier.rows[parent, space.n_done :].reshape(-1, space.n_held)
        held, *kept = unpack(words, pixels.shape[1])
        covered = np.asarray(pixels[here[image] & ~before].any(axis=0))
        loaded = covered & ~held
        if earlier.costs[parent] + space.step + 2 * space.load * int(loaded.sum()) != stage.costs[row]:
            return False
        still = covered & pixels[~here[image]].any(axis=0)
        sets = [still, *((old | (loaded & pixels[before].any(axis=0))) & still for old in kept)]
        found = np.concatenate([self._moved(members, number) for members in sets])
        return bool((found == stage.rows[row, space.n_done :]).all())

    def _moved(self, members: NDArray[np.bool_], number: int) -> Words:
        octets = np.packbits(members, bitorder="little")
        table = self.space.bits.pixel_images[number]
        words: Words = np.bitwise_or.reduce(table[np.arange(len(octets)), octets], axis=0)
        return words
