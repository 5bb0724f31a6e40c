"""One search through partial plans, or through chains of groups, stage by stage.

Partial plans that cannot end within the cost that is asked for are left out, and so are those that equal or
are dominated by others. docs/bounds.md proves that nothing is lost; `expansion_kernel` is the compiled part.
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

from tilewright.core.bitsets import Words, unpack
from tilewright.core.context import MAX_SECONDS
from tilewright.grouping.exact.bitsets import NEVER
from tilewright.grouping.exact.expansion_kernel import Parents, Rules, Table, expand, move_rows, undominated
from tilewright.grouping.exact.pruning_kernel import Delay
from tilewright.grouping.exact.reload_intervals import NO_PREFIX_LIMITS, PrefixLimits
from tilewright.grouping.exact.stages import Key, StateSpace
from tilewright.grouping.exact.workspace import Workspace
from tilewright.grouping.plan import Plan
from tilewright.spec.errors import OutOfTimeError

Ints = NDArray[np.int32]

MostOf = Callable[[Key, int], NDArray[np.int64]]
"""Of a stage and the size of its last group: the longest walk that is kept, by the pixels of that group."""


@dataclass(frozen=True)
class LayeredParams:
    """How the work is divided.

    Attributes
    ----------
    max_rows
        Most partial plans that a search keeps: some 4 GB, and more while a stage is sorted.
    large
        Slots from which on a table grows by a factor of 2 instead of 4.
    few
        Stages of fewer partial plans are not shared among threads.
    chunk
        Partial plans that are expanded between two looks at the clock.
    """

    max_rows: int = 60_000_000
    large: int = 1 << 20
    few: int = 256
    chunk: int = 5_000


PARAMS = LayeredParams()


@dataclass(frozen=True)
class Limits:
    """What walks are followed.

    Attributes
    ----------
    free
        Whether the first group costs nothing.
    total
        Largest cost of a complete plan, in half units; negative where chains are searched.
    watched
        Whether no pixel may be loaded more than twice.
    spare
        Most pixels that a step may throw away.
    prefix
        Limits on the first steps.
    """

    free: bool = False
    total: int = -1
    watched: bool = False
    spare: int = 2**30
    prefix: PrefixLimits = NO_PREFIX_LIMITS


class TooLargeError(Exception):
    """More partial plans than `LayeredParams.max_rows`."""


@dataclass
class PartialPlans:
    """The partial plans of a stage, sorted by the patches done and then by cost.

    Attributes
    ----------
    rows : uint64, shape (n, words)
    costs : int32, shape (n,)
    parents, stages : int32, shape (n,)
        The row that each was reached from: its number within its stage, and the number of the stage.
    least : int16, shape (n,)
        Fewest patches of the next group that need be tried.
    """

    rows: Words
    costs: Ints
    parents: Ints
    stages: Ints
    least: NDArray[np.int16]


class LayeredSearch:
    """One search, stage by stage, from the empty memory on.

    Parameters
    ----------
    most
        Longest walk that is kept, see `MostOf`.
    deadline
        On the clock of `time.monotonic`.
    limits
        What else is kept.
    threads
        Number of threads that share the work of a stage.

    Attributes
    ----------
    stages, keys
        The stages that were expanded, and where they stand.
    rows
        Number of partial plans that are kept.
    open
        Tables of the stages that were reached but not expanded yet, one for each thread.
    """

    def __init__(
        self,
        space: StateSpace,
        most: MostOf,
        deadline: float,
        limits: Limits,
        threads: int = 1,
        params: LayeredParams | None = None,
    ) -> None:
        self.space, self.most, self.deadline, self.threads = space, most, deadline, threads
        self.limits, self.params = limits, params or PARAMS
        self.stages: list[PartialPlans] = []
        self.keys: list[Key] = []
        self.rows = 0
        self.stop = np.zeros(1, bool)
        root = self._table(1)
        # The first step of a chain is no step from one group to another.
        root.cost[0] = 0 if limits.total >= 0 else -space.step
        self.open: dict[Key, list[Table]] = {(0, 0): [root]}
        self.workspaces = [Workspace.of(space.bits, space.size, root.rows.shape[1]) for _ in range(threads)]

    def run(self) -> Iterator[tuple[Key, Ints]]:
        """Expand one stage after the other.

        Yields
        ------
        key : Key
        shortest : int32, shape (size + 1, pixels of a group + 1)
            Shortest walk to the stage, by the patches and pixels of its last group.

        Raises
        ------
        OutOfTimeError, TooLargeError
        """
        # One call of compiled code can take long: a timer stops it from outside.
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
                self._expand(stage, key, size, after)
            if self.limits.total < 0:
                # Chains are never followed back, so their rows can go.
                self.rows -= len(stage.rows)
                self.stages[-1] = PartialPlans(*(column[:0] for column in vars(stage).values()))

    @property
    def complete(self) -> bool:
        """Whether a complete plan was reached."""
        return self.space.end in self.keys and len(self.stages[self.keys.index(self.space.end)].rows) > 0

    def _table(self, size: int) -> Table:
        space = self.space
        words = space.n_done + space.n_held * (2 if self.limits.watched else 1)
        return Table(
            np.zeros((size, words), np.uint64),
            np.full(size, -NEVER, np.int32),
            np.zeros(size, np.int32),
            np.zeros(size, np.int32),
            np.zeros(size, np.int16),
            np.zeros(1, np.int64),
            np.full((space.size + 1, space.most_pixels + 1), NEVER, np.int32),
        )

    def _stage(self, tables: list[Table]) -> PartialPlans:
        """Sort the rows that were reached, and leave out those that others dominate."""
        used = [np.flatnonzero(table.cost > -NEVER) for table in tables]
        columns = [
            np.concatenate([column[slots] for column, slots in zip(group, used, strict=True)])
            for group in zip(*(table[:5] for table in tables), strict=True)
        ]
        order = np.lexsort((-columns[4], columns[1], *(columns[0][:, w] for w in range(self.space.n_done))))
        columns = [column[order] for column in columns]
        kept = undominated(self.space.bits, *columns[:2], self.space.load, self.limits.watched)
        return PartialPlans(*(column[kept] for column in columns))

    def _expand(self, stage: PartialPlans, key: Key, size: int, after: Key) -> None:
        """Expand a stage by all groups of `size` patches, which lead to the stage `after`."""
        space = self.space
        tables = self.open.setdefault(after, [self._table(1 << 12) for _ in range(self.threads)])
        # No patch waits that would leave the first steps, by which plan and reverse are told apart.
        least = np.zeros_like(stage.least) if space.symmetry_stage(key, self.limits.prefix) else stage.least
        parents = Parents(stage.rows, stage.costs, least, len(self.stages) - 1)
        rules = self._rules(key, size, after)
        chunk = max(1, min(self.params.chunk, -(-len(stage.rows) // self.threads)))
        todo = deque((part, row) for part in rules for row in range(0, len(stage.rows), chunk))

        def work(thread: int) -> None:
            while True:
                try:
                    part, done = todo.popleft()
                except IndexError:
                    return
                end = min(done + chunk, len(stage.rows))
                while done < end:
                    done = expand(
                        space.bits, part, parents, done, end, tables[thread], self.workspaces[thread]
                    )
                    if self.stop[0] or time.monotonic() > self.deadline:
                        raise OutOfTimeError
                    if done < end:
                        slots = len(tables[thread].cost)
                        if (
                            self.rows + sum(len(table.cost) for table in tables) + 2 * slots
                            > self.params.max_rows
                        ):
                            todo.clear()
                            raise TooLargeError
                        larger = self._table((4 if slots < self.params.large else 2) * slots)
                        move_rows(tables[thread], larger)
                        tables[thread] = larger

        if self.threads == 1 or (len(stage.rows) < self.params.few and len(rules) == 1):
            work(0)
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(work, range(self.threads)))

    def _rules(self, key: Key, size: int, after: Key) -> list[Rules]:
        """Return the rules for groups of `size` patches, one for each part of the possible groups."""
        space, first = self.space, key == (0, 0)
        steps_after = 0 if space.fixed else space.step * -(-(space.n_patches - after[1]) // space.size)
        excess, ahead = -1, space.n_patches
        if 0 < after[0] <= self.limits.prefix.steps:
            excess, ahead = self.limits.prefix.excess, self.limits.prefix.steps - after[0]
        most = np.where(space.pixels <= space.max_pixels_by_size[size], self.most(after, size), -NEVER)
        return [
            Rules(
                size=size,
                step=space.step,
                load=space.load,
                coming=space.step + steps_after,
                free=self.limits.free and first,
                watched=self.limits.watched,
                spare=self.limits.spare,
                following=min(space.size, space.n_patches - after[1]),
                ahead=ahead,
                excess=excess,
                # Where both ends throw away as much, the better one is missing no more patches than the
                # other.
                below=int(2 * space.missing_patches(after) > space.missing),
                delays=int(space.delays if self.limits.total >= 0 else Delay.NONE),
                most=most,
                total=self.limits.total,
                member=member,
                left_out=left_out,
                near=self.limits.prefix.near,
                stop=self.stop,
            )
            for member, left_out in (space.starts if first and size > 1 else space.anywhere)
        ]

    def plan(self) -> Plan:
        """Follow the cheapest complete plan back to its start."""
        space = self.space
        number = self.keys.index(space.end)
        row = int(self.stages[number].costs.argmin())
        # Maps the patches of the present row, which is an image, to the patches of the plan.
        frame = np.arange(space.n_patches)
        groups: list[NDArray[np.int64]] = []
        while number:
            stage = self.stages[number]
            earlier = self.stages[stage.stages[row]]
            parent = stage.parents[row]
            here, before = self._done(stage, row), self._done(earlier, parent)
            image = next(
                image
                for symmetry, image in enumerate(space.images)
                if self._leads(earlier, int(parent), symmetry, stage, row)
            )
            moved = np.zeros_like(here)
            moved[image[before]] = True
            groups.append(frame[np.flatnonzero(here & ~moved)])
            frame = frame[image]
            number, row = int(stage.stages[row]), int(parent)
        return Plan.from_groups(space.problem, groups[::-1])

    def _done(self, stage: PartialPlans, row: int) -> NDArray[np.bool_]:
        return unpack(stage.rows[row, : self.space.n_done], self.space.n_patches)

    def _leads(
        self, earlier: PartialPlans, parent: int, symmetry: int, stage: PartialPlans, row: int
    ) -> bool:
        """Whether a row follows from its parent when the parent is moved by a symmetry."""
        space = self.space
        image = space.images[symmetry]
        here, before = self._done(stage, row), self._done(earlier, parent)
        moved = np.zeros_like(here)
        moved[image[before]] = True
        if (moved & ~here).any():
            return False
        # In the frame of the parent: what the group would load, and which of its pixels would be needed
        # still.
        pixels = unpack(space.bits.patch_pixels, len(space.bits.pixel_patches))
        words = earlier.rows[parent, space.n_done :].reshape(-1, space.n_held)
        held, *kept = unpack(words, pixels.shape[1])
        covered = np.asarray(pixels[here[image] & ~before].any(axis=0))
        loaded = covered & ~held
        if earlier.costs[parent] + space.step + 2 * space.load * int(loaded.sum()) != stage.costs[row]:
            return False
        still = covered & pixels[~here[image]].any(axis=0)
        sets = [still, *((old | (loaded & pixels[before].any(axis=0))) & still for old in kept)]
        found = np.concatenate([self._moved(members, symmetry) for members in sets])
        return bool((found == stage.rows[row, space.n_done :]).all())

    def _moved(self, members: NDArray[np.bool_], symmetry: int) -> Words:
        """Return the image of a set of pixels under a symmetry."""
        octets = np.packbits(members, bitorder="little")
        table = self.space.bits.pixel_images[symmetry]
        words: Words = np.bitwise_or.reduce(table[np.arange(len(octets)), octets], axis=0)
        return words
