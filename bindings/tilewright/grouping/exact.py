"""The exact search for grouping: walks through disjoint groups, and partial plans stage by stage.

Twice the cost of loads is the length of a walk: from the empty memory through the pixels of every group
back to the empty memory, where a step from pixels A to pixels B has the length of their symmetric
difference. *Chains* are any disjoint groups one after the other; tables tell how short chains can be, and
thereby what the rest of a plan must cost. Plans are searched stage by stage, a stage being the partial
plans that have computed equally many patches in equally many steps, and what cannot end below a given cost
is left out. docs/bounds.md proves what is claimed here; `tilewright.grouping.extending` is the compiled part.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping.bitsets import NEVER, Bits, Words, pack, unpack
from tilewright.grouping.bounds import best_bound, fewest_pixels, with_more_steps
from tilewright.grouping.extending import DELAYED, MERGED, NONE, Rules, Table, extend, grow, undominated
from tilewright.grouping.gaps import NO_ENDS, Ends, Gaps
from tilewright.grouping.plan import Plan
from tilewright.grouping.plan import objective as cost
from tilewright.grouping.problem import Problem
from tilewright.grouping.structure import cells, last_useful_step, scale, scaled_costs, symmetries
from tilewright.grouping.surplus import Known
from tilewright.grouping.surplus import known as known_surplus
from tilewright.grouping.validity import fault
from tilewright.search import MAX_SECONDS, OutOfTimeError

Key = tuple[int, int]
"""A stage: steps done (0 where their number is free) and patches done."""

Ints = NDArray[np.int32]

Start = tuple[int, Words]
"""A patch that a group has, or -1, and the set of those that it has not."""

MAX_ROWS = 60_000_000
"""Most partial plans that one of two searches keeps: some 4 GB, and more while a stage is sorted."""

LARGE = 1 << 20
"""From so many rows on a table grows to twice its size at a time."""

SPLITS = 8
"""About so many places are tried at which a chain is cut into two."""

MAX_GROUPS = 600_000
"""Most groups that chains are started with, but for symmetry."""

FIRST_SLACK = 0
"""How far above known bounds, or what these lead to expect, chains are followed at first."""

TREND = 3
"""So many differences of bounds tell what to expect of the next one."""

GROWTH, WIDER = 2.4, 4.0
"""How much longer the next turn of a search for plans takes, about, and of one for chains."""

IDLE, BRIEF = 40.0, 1.0
"""After a turn for chains of so many seconds (`BRIEF`) or more that raised no bound on plans, the next is
said to take so many times (`IDLE`) as long, which is more than it does, so that it comes late."""

PATIENCE = 5.0
"""A turn that takes so many times what was expected lets the other search go on; one that would refute
several costs at once is left."""

LEADING = 0.15
"""The search for the fewest steps goes ahead as long as its next turn is expected to take no more than so
much of the time that is left, the rest of which others take."""

EARLY = 0.01
"""After so much of the time it waits once for the others, so that something is proven of all soon."""

FOLLOWING = 0.6
"""A search for more steps that takes more than so much of the time that is left aims at less."""

FEW = 256
"""So few partial plans are not shared among threads."""

CHUNK = 5_000
"""Partial plans that are extended between two looks at the clock."""


class TooLargeError(Exception):
    """More partial plans than fit."""


class Space:
    """The stages of a problem, and what all searches in it share.

    Costs are counted in halves of the units of `scale`.

    Attributes
    ----------
    load, step
        Half of what a load costs, and what a step costs.
    room : int64, shape (g + 1,)
        Most pixels of a group of so many patches.
    starts
        The first groups, divided by a patch that they have and others that they do not: one of each set of
        equal groups is enough.
    anywhere
        The same for groups that follow others: all of them.
    """

    def __init__(self, problem: Problem, *, merged: bool = False) -> None:
        self.problem = problem
        parts = cells(problem)
        self.images = symmetries(problem, parts)
        self.bits = Bits.of(problem, parts, self.images)
        self.n_done, self.n_held = self.bits.pixel_patches.shape[1], self.bits.patch_pixels.shape[1]
        self.load, step = scaled_costs(problem)
        self.step = 2 * step
        self.n_patches, self.size = problem.n_patches, problem.group_size
        self.steps, most = problem.steps_range
        self.fixed = self.steps == most
        self.missing = self.steps * self.size - self.n_patches
        patch = int(problem.patch_sizes.max())
        self.room = np.minimum(problem.group_room, np.arange(self.size + 1) * patch)
        self.most_pixels = min(self.size * patch, len(problem.needed_pixels))
        self.fewest = fewest_pixels(problem)
        roomy = (self.room >= np.minimum(np.arange(self.size + 1) * patch, self.most_pixels)).all()
        self.delays = NONE
        if self.fixed and self.missing and roomy:
            self.delays = MERGED if merged else DELAYED
        self.gaps = Gaps(problem, self.bits) if self.fixed else None
        self.pixels = np.arange(self.most_pixels + 1)
        self.anywhere: list[Start] = [(-1, np.zeros(self.n_done, np.uint64))]
        self.starts = self._starts()

    @property
    def end(self) -> Key:
        """The stage of complete plans."""
        return (self.steps if self.fixed else 0, self.n_patches)

    def _starts(self) -> list[Start]:
        """Divide the first groups by the first orbit of patches, under the symmetries, that they meet."""
        orbits = {tuple(sorted({int(image[p]) for image in self.images})) for p in range(self.n_patches)}
        starts: list[Start] = []
        earlier = np.zeros(64 * self.n_done, bool)
        for orbit in sorted(orbits):
            starts.append((orbit[0], pack(earlier)))
            earlier[list(orbit)] = True
        return starts

    def possible(self, key: Key) -> bool:
        """Whether a plan can have steps in succession with so many patches together."""
        if not self.fixed:
            return 0 < key[1] <= self.n_patches
        return 0 < key[0] <= min(key[1], self.steps) and 0 <= self.short(key) <= self.missing

    def all_stages(self) -> list[Key]:
        """Return all stages but the first, in the order of the search."""
        steps = range(1, self.steps + 1) if self.fixed else (0,)
        return [(k, n) for k in steps for n in range(1, self.n_patches + 1) if self.possible((k, n))]

    def groups(self, key: Key) -> Iterator[tuple[int, Key]]:
        """Sizes of the group that may come next in a plan, and where each leads."""
        for size in range(1, min(self.size, self.n_patches - key[1]) + 1):
            after = (key[0] + 1 if self.fixed else 0, key[1] + size)
            enough = not self.fixed or self.steps - after[0] <= self.n_patches - after[1]
            if self.room[size] >= 0 and self.possible(after) and enough:
                yield size, after

    def rest(self, whole: Key, key: Key, size: int) -> Key:
        """Return the chain that is left of another when `key` of it is there and its last group shared."""
        return (whole[0] - key[0] + 1 if self.fixed else 0, whole[1] - key[1] + size)

    def ends(self, total: int) -> Ends:
        """Return what the better of a plan and its reverse keeps to, if the plan costs `total` at most."""
        excess = total // (2 * self.load) - len(self.problem.needed_pixels)
        if self.gaps is None or excess <= 0:
            return NO_ENDS
        return self.gaps.ends(excess)

    def hinge(self, key: Key, ends: Ends) -> bool:
        """Whether a plan and its reverse are told apart by what is done up to a stage, and no more."""
        if ends.steps:
            return key[0] == ends.steps
        if 0 < self.missing < self.size:
            return key[0] == self.steps // 2
        return key[1] - 1 < self.n_patches / 2 <= key[1]

    def short(self, key: Key) -> int:
        """Return how many patches are missing to as many full groups."""
        return key[0] * self.size - key[1]

    def edges(self, key: Key) -> int:
        """Fewest steps after the first one of a chain."""
        return key[0] - 1 if self.fixed else -(-key[1] // self.size) - 1


MostOf = Callable[[Key, int], NDArray[np.int64]]


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
                    done = extend(space.bits, rules, *part, tables[thread])
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


def plans_within(
    space: Space, chains: Chains, total: int, deadline: float, *, watched: bool = False, threads: int = 1
) -> Sweep:
    """Follow all partial plans that may end at a cost of at most `total`.

    Of a plan and its reverse only one is followed: where no gap can begin in the first steps and end in the
    last ones, the one that throws away less in its first steps.

    Returns
    -------
    Sweep
        Not yet run. If it then is without a stage `Space.end` there is no such plan, by what the chains
        prove of the rest; they may get better in between.
    """
    ends = space.ends(total)

    def most(after: Key, size: int) -> NDArray[np.int64]:
        rest = (space.steps - after[0] + 1 if space.fixed else 0, space.n_patches - after[1] + size)
        longest: NDArray[np.int64] = total - chains.anchored[rest][size].astype(np.int64)
        if ends.steps:
            return longest
        if 0 < space.missing < space.size and space.fixed:
            # Of a plan and its reverse, one has no more patches missing in its first half of steps.
            if 2 * after[0] <= space.steps and 2 * space.short(after) > space.missing:
                return np.full(space.most_pixels + 1, -NEVER, np.int64)
        elif after[1] - size < space.n_patches / 2 <= after[1]:
            # Of a plan and its reverse, one is no longer than half up to the group that completes one half.
            longest = np.minimum(longest, (total + space.step) // 2)
        return longest

    spare = 0 if space.problem.max_loads == 1 else 2**30
    return Sweep(space, most, deadline, total=total, watched=watched, spare=spare, ends=ends, threads=threads)


@dataclass(frozen=True)
class Found:
    """What is known after a part of the search.

    Attributes
    ----------
    bound
        Proven lower bound on the objective.
    plan
        A plan that costs as much, or None.
    impossible
        Whether no plan keeps the limits.
    grounds
        What the bound rests on.
    seconds
        How many the next turn for plans is expected to take.
    """

    bound: int
    plan: Plan | None
    impossible: bool
    grounds: str
    seconds: float = 0.0


@dataclass
class Beside:
    """What searches for different numbers of steps have in common.

    Attributes
    ----------
    objective
        Each of them refutes all plans that cost so much or less at once.
    idle
        Whether tables of chains raised no bound on plans.
    """

    objective: int = 0
    idle: bool = False


def answers(
    problem: Problem,
    deadline: float,
    known: int,
    objective: int | None = None,
    threads: int = 1,
    *,
    beside: Beside | None = None,
    merged: bool = False,
) -> Iterator[Found]:
    """Raise the bound, objective by objective, until a plan is found, time is up or memory is full.

    Searches for plans and better tables of chains take turns, stage by stage, so that neither takes much more
    time than the other: who knows which of them pays.

    Parameters
    ----------
    known
        A bound that is proven already.
    objective
        Of a valid plan: nothing above it is searched.
    threads
        How many threads work.
    beside
        What this search shares with others for other numbers of steps.
    merged
        Whether plans with fewer steps are searched by others.
    """
    space = Space(problem, merged=merged)
    chains = Chains(space)
    levels = _Levels(space)
    bound, grounds = levels.up(max(known, levels.value(chains.total))), "bounds of chains, before any search"
    watched, skips = False, True
    plans, tables = _Work(), _Work()
    idle = comb(space.n_patches, space.size) > MAX_GROUPS * len(space.images)
    if idle or (beside is not None and beside.idle):
        tables.expected = float("inf")
    slack, target, reached = FIRST_SLACK, bound, chains.total
    # A search for nothing compiles what the others call: they would be taken for slow.
    nothing = np.full(space.most_pixels + 1, -NEVER, np.int64)
    try:
        next(Sweep(space, lambda _after, _size: nothing, deadline, total=0).run(), None)
    except OutOfTimeError:
        return
    while objective is None or bound < objective:
        if bound > levels.highest:
            yield Found(bound, None, True, grounds)
            return
        if target < bound:
            # The tables have proven what is being searched for.
            plans.leave()
        work = min(plans, tables, key=lambda work: work.due)
        if work.due == float("inf"):
            return
        if work is tables and not work.begun:
            work.begin(chains.improve(slack, deadline, threads))
        elif not work.begun:
            target, seconds, several = bound, plans.expected, False
            until = time.monotonic() + PATIENCE * seconds
            if beside is not None and bound <= beside.objective:
                target, several = beside.objective, bound < beside.objective
                until = time.monotonic() + FOLLOWING * (deadline - time.monotonic())
            elif objective is not None and skips:
                # Cheaper plans are refuted with dearer ones, as far as the tables are worth that time, too.
                left = (1.0 if beside is None else LEADING) * (deadline - time.monotonic())
                left = min(left, tables.due - plans.spent)
                higher = levels.up(target + 1)
                while not idle and higher < objective and GROWTH * seconds <= left:
                    target, higher, seconds = higher, levels.up(higher + 1), GROWTH * seconds
                several = target > bound
                until = time.monotonic() + PATIENCE * seconds
                # If the first steps may throw away no more, a dearer plan is refuted with as little work.
                ends, dearer = space.ends(levels.total(target)), space.ends(levels.total(higher))
                alike = ends.steps and dearer.steps and ends.most == dearer.most
                # Where patches are missing, ends that throw away as much are told apart by these.
                if higher < objective and alike and not space.missing:
                    target = higher
            sweep = plans_within(
                space, chains, levels.total(target), deadline, watched=watched, threads=threads
            )
            work.begin(sweep.run())
        try:
            if work.go_on():
                if work is plans and several and time.monotonic() > until:
                    skips = False
                    work.leave()
                    if beside is not None:
                        beside.objective = (bound + target) // 2
                continue
        except OutOfTimeError:
            return
        except TooLargeError:
            work.leave()
            if work is tables or target == bound:
                work.expected = float("inf")
            elif beside is not None:
                beside.objective = (bound + target) // 2
            idle = idle or work is tables
            skips = False
            continue
        if work is plans:
            plan = sweep.plan() if sweep.complete else None
            if plan is None:
                work.end(GROWTH)
                proven, bound = target, levels.up(target + 1)
            else:
                # Among all plans of at most the target this is the cheapest.
                work.leave()
                bound = cost(problem, plan)
                proven = bound - 1
            grounds = f"no plan costs {proven} or less: {sweep.rows:,} partial plans, {chains}"
            if plan is not None and (watched or fault(problem, plan) is None):
                yield Found(bound, plan, False, grounds)
                return
            if plan is not None and problem.max_loads != 2:
                # Cheaper plans load some pixel too often: what the others cost is not known.
                yield Found(bound, None, False, grounds)
                return
            watched = watched or plan is not None
            del sweep
        else:
            # Where tables say no more of whole plans than before, the search for plans gets most of the time.
            idle = chains.total == reached and work.used > BRIEF
            if beside is not None:
                beside.idle = idle
            work.end(IDLE if idle else WIDER)
            slack, reached = slack + 1, chains.total
            better = levels.up(levels.value(chains.total))
            if better > bound:
                bound, grounds = better, str(chains)
        yield Found(bound, None, False, grounds, plans.expected)


def answers_by_steps(
    problem: Problem, deadline: float, known: int, objective: int | None = None, threads: int = 1
) -> Iterator[Found]:
    """Raise the bound as `answers` does, by a search of its own for every number of steps.

    The search for the fewest steps goes ahead, and waits once. The others follow and refute at once what it
    has refuted: the one with the least bound goes on, or one for a step more begins when what counting says
    of all others is less. A plan that is found may cost more than the bound.
    """
    bound, first = known, best_bound(problem).steps
    steps, leads, beside = first - 1, True, Beside()
    began = time.monotonic()
    waited = False
    bounds: dict[int, int] = {}
    grounds: dict[int, str] = {}
    searches: dict[int, Iterator[Found]] = {}
    while objective is None or bound < objective:
        lowest = min(bounds, key=bounds.__getitem__, default=steps)
        others = with_more_steps(problem, steps + 1)
        plan = None
        limit = int(NEVER) if objective is None else objective
        ahead = leads and bounds.get(first, limit) < limit
        if not ahead and others is not None and (not bounds or others <= bounds[lowest]):
            steps += 1
            part = problem.with_steps(steps)
            facts = best_bound(part)
            bounds[steps] = int(NEVER) if facts.impossible else max(others, facts.value, bound)
            grounds[steps] = str(facts)
            merged = steps > problem.steps_range[0]
            searches[steps] = answers(
                part, deadline, bounds[steps], objective, threads, beside=beside, merged=merged
            )
            others = with_more_steps(problem, steps + 1)
        else:
            number = first if ahead else lowest
            found = next(searches[number], None) if searches else None
            if found is None:
                if number == lowest:
                    return
                leads = False
                continue
            bounds[number] = int(NEVER) if found.impossible else found.bound
            grounds[number] = found.grounds
            if found.plan is not None and (objective is None or found.bound < objective):
                plan, objective = found.plan, found.bound
            if number == first and not found.impossible:
                now = time.monotonic()
                leads = found.seconds <= LEADING * (deadline - now)
                if not waited and now - began >= EARLY * (deadline - began):
                    leads, waited = False, True
                beside.objective = min(bounds[first], limit) - 1
        least = min(bounds.values()) if others is None else min(others, *bounds.values())
        if least >= NEVER:
            yield Found(bound, None, True, "no number of steps is possible")
            return
        bound = max(bound, least)
        said = [f"{number} steps: {text}" for number, text in grounds.items()]
        if others is not None:
            said.append(f"more: {others} or more")
        yield Found(bound, plan, False, "; ".join(said))


class _Work:
    """A search that goes on turn by turn and stage by stage, and how long it takes.

    Attributes
    ----------
    expected
        How many seconds a turn is expected to take.
    used, spent
        How many were used by this turn and spent on those before.
    """

    def __init__(self) -> None:
        self.expected = 0.1
        self.used = self.spent = 0.0
        self._stages: Iterator[object] | None = None

    @property
    def begun(self) -> bool:
        """Whether a turn is going on."""
        return self._stages is not None

    @property
    def due(self) -> float:
        """Seconds spent when this turn, or the next, is over; one that is late may take as long again."""
        late = self.used > PATIENCE * self.expected
        return self.spent + (2 * self.used if late else self.expected)

    def begin(self, stages: Iterator[object]) -> None:
        """Begin a turn."""
        self._stages = stages

    def go_on(self) -> bool:
        """Follow one more stage of the turn; return whether there was one.

        Raises
        ------
        OutOfTimeError, TooLargeError
        """
        began = time.monotonic()
        try:
            return self._stages is not None and next(self._stages, None) is not None
        finally:
            self.used += time.monotonic() - began

    def leave(self) -> None:
        """Leave a turn; the next one takes as long as this one was expected to."""
        self.spent += self.used
        self.used = 0.0
        self._stages = None

    def end(self, growth: float) -> None:
        """End a turn, and expect the next one to take so many times as long."""
        self.expected = max(0.1, growth * self.used)
        self.leave()


class _Levels:
    """Which objectives plans can have, and what they are in the halves that searches count in."""

    def __init__(self, space: Space) -> None:
        problem = space.problem
        self.problem = problem
        self.offset, self.unit = scale(problem)
        self.load, self.step = 2 * space.load, space.step
        self.fewest, self.most = problem.steps_range[0], last_useful_step(problem)
        self.least = len(problem.needed_pixels)
        self.highest = problem.cost(problem.max_loads * self.least, problem.steps_range[1])

    def value(self, total: int) -> int:
        """Return the least objective of a total cost of at least so many halves."""
        return self.offset + self.unit * -(-(total - self.fewest * self.step) // 2)

    def total(self, value: int) -> int:
        """Return the total cost of an objective, in halves."""
        return 2 * (value - self.offset) // self.unit + self.fewest * self.step

    def up(self, value: int) -> int:
        """Return the least objective from `value` on that some best plan can have."""
        cost, load = self.problem.cost, self.problem.load_cost
        best = []
        for steps in range(self.fewest, self.most + 1):
            loads = max(self.least, -(-(value - cost(0, steps)) // load))
            best.append(cost(loads, steps))
        return max(value, min(best))
