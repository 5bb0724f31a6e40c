"""Exact search where plans also decide which weights are streamed and which maps are spilled.

*At the same time.* All layers keep pace with the interval, so starts and buffers follow from the interval
alone, whatever the splits are; rows are not split. An interval is the longest load of the splits or the time
of all bytes of what is streamed and spilled. So it is one of these numbers, and they are gone through in
ascending order. At an interval T that is a load, some layer must have just that load, and what is streamed
and spilled may take up to T to cross the border. At one that is such a time, no load is above it. In both
cases the buffers must hold what stays, at T. The first T for which that is possible is the least interval.

*In turn.* Each layer has its fastest split. What is streamed and spilled decides how long the border is busy
in each turn, and what is on chip then.

All choices of what is streamed and spilled are listed if they are few. If not, only some are, and what they
give is not proven to be best; the bound is that of splits and of the bytes that cross the border in any case.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.allocation.bounds import least_buffers
from tilewright.allocation.exact.latency_dp import Group
from tilewright.allocation.exact.options import Offers, cheapest_within, in_turn, least_interval, offers_of
from tilewright.allocation.exact.trimming import plan_of
from tilewright.allocation.geometry import Numbers, Scan
from tilewright.allocation.off_chip import (
    spillable,
    storage_in_turns,
    streamable,
    transfer_cycles,
    transfers,
    words_of_map,
)
from tilewright.allocation.plan import Plan
from tilewright.allocation.problem import Problem
from tilewright.allocation.schedule import schedule
from tilewright.allocation.splits import LayerSplit
from tilewright.core.branch_and_bound import check_deadline
from tilewright.spec.constraints import Term, meaning

MOST_ITEMS = 16
"""Most weights and maps of which all choices are listed."""

NEVER = 2**60
"""More than any time or amount."""

Choice = NDArray[np.bool_]

Rises = dict[int, tuple[LayerSplit, ...]]
"""Splits with just that load as the longest, by interval."""


class Items:
    """What can be streamed or spilled, and the choices that are looked at.

    Attributes
    ----------
    streamed, spilled
        Names.
    choices : bool, shape (choices, items)
        Of each item, those of `streamed` first, whether it leaves the chip.
    all_listed
        Whether there is no other choice.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.streamed, self.spilled = streamable(problem), spillable(problem)
        count = len(self.streamed) + len(self.spilled)
        self.all_listed = count <= MOST_ITEMS
        if self.all_listed:
            self.choices: Choice = (np.arange(2**count)[:, None] >> np.arange(count)) & 1 > 0
        else:
            self.choices = self._some(count)
        if problem.constraints:
            self.choices = self.choices[[self._kept(choice) for choice in self.choices]]

    def names(self, choice: Choice) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what a choice streams and spills."""
        places = np.flatnonzero(choice).tolist()
        own = len(self.streamed)
        streamed = tuple(self.streamed[place] for place in places if place < own)
        return streamed, tuple(self.spilled[place - own] for place in places if place >= own)

    def _kept(self, choice: Choice) -> bool:
        """Whether a choice keeps the constraints, which speak of nothing else."""
        streamed, spilled = self.names(choice)

        def value(term: Term) -> int:
            if term.word == "off_chip_bytes":
                return sum(transfers(self.problem, streamed, spilled))
            name = str(term.arguments[0])
            return int(name in spilled if term.word == "spilled" else name not in streamed)

        return all(meaning.value(part, value) for part in self.problem.must_hold_in_numbers)

    def linear(self, count: Numbers, each: Numbers) -> Numbers:
        """Return what all choices give of a number that each item changes on its own.

        Parameters
        ----------
        count : int, shape (n,)
            If nothing leaves the chip.
        each : int, shape (items, n)
            What each item adds.
        """
        found: Numbers = count + self.choices.astype(np.int64) @ each
        return found

    def bytes(self) -> Numbers:
        """Return the bytes of all choices, of a frame or of each turn: shape (choices, 1 or layers)."""
        return self.linear(*self.bytes_of_items())

    def bytes_of_items(self) -> tuple[Numbers, Numbers]:
        """Return the bytes if nothing leaves the chip, and what each item adds to them."""
        nothing = np.array(transfers(self.problem, (), ()))
        singles = [transfers(self.problem, *self.names(one)) for one in self._singles()]
        return nothing, np.array(singles, dtype=np.int64).reshape(-1, len(nothing)) - nothing

    def in_turns(self) -> Numbers:
        """Return the words on chip in each turn, of all choices: shape (choices, layers)."""
        return self.linear(*self.words_of_items())

    def words_of_items(self) -> tuple[Numbers, Numbers]:
        """Return the words if nothing leaves the chip, and what each item adds to them."""
        nothing = np.array(storage_in_turns(self.problem, (), ()))
        singles = [storage_in_turns(self.problem, *self.names(one)) for one in self._singles()]
        return nothing, np.array(singles, dtype=np.int64).reshape(-1, len(nothing)) - nothing

    def _singles(self) -> Choice:
        return np.eye(len(self.streamed) + len(self.spilled), dtype=np.bool_)

    def _some(self, count: int) -> Choice:
        """Return choices in which ever more leaves the chip, by the bytes that takes, or those for a word."""
        more = self.bytes_of_items()[1].sum(axis=1)
        by_name = {stage.name: stage for stage in self.problem.stages}
        freed = [by_name[name].weights for name in self.streamed]
        if self.problem.parallel:
            kept = least_buffers(self.problem)
            freed += [kept[by_name[name].number] - by_name[name].channels for name in self.spilled]
        else:
            freed += [words_of_map(self.problem, name) for name in self.spilled]
        families = []
        for price in (more, more / np.maximum(np.array(freed), 1)):
            rank = np.empty(count, dtype=np.int64)
            rank[np.argsort(price, kind="stable")] = np.arange(count)
            families.append(np.arange(count + 1)[:, None] > rank)
        return np.unique(np.concatenate(families), axis=0)


class Found(NamedTuple):
    """A plan and its interval, None without one; a bound on all, and whether there is nothing better."""

    plan: Plan | None
    interval: int | None
    bound: int
    proven: bool


def search(problem: Problem, deadline: float) -> Found:
    """Return the plan of least interval.

    Raises
    ------
    OutOfTimeError
        When the deadline passes.
    """
    return _Pipeline(problem, deadline).best() if problem.parallel else _in_turns(problem)


def _in_turns(problem: Problem) -> Found:
    items, capacity = Items(problem), problem.machine.buffer_words
    chosen = in_turn(offers_of(problem), problem.machine.pes)
    if chosen is None or not len(items.choices):
        return Found(None, None, 0, chosen is None or items.all_listed)
    loads = np.array([split.load(stage.task) for stage, split in zip(problem.stages, chosen, strict=True)])
    moved = items.bytes()
    link = problem.machine.off_chip
    assert link is not None
    cycles = -(-moved * problem.machine.clock_mhz // link.mb_per_s)
    totals = np.maximum(loads, cycles).sum(axis=1)
    bound = int(loads.sum())
    words = items.in_turns().max(axis=1)
    fits = words <= (NEVER if capacity is None else capacity)
    fits &= totals <= (problem.most_interval or NEVER)
    if not fits.any():
        return Found(None, None, bound, items.all_listed)
    places = np.flatnonzero(fits)
    best = places[np.lexsort((words[places], moved[places].sum(axis=1), totals[places]))[0]]
    plan = with_choice(plan_of(problem, chosen), items, items.choices[best])
    value = int(totals[best])
    return Found(plan, value, value if items.all_listed else bound, items.all_listed or value == bound)


def with_choice(plan: Plan, items: Items, choice: Choice) -> Plan:
    """Return a plan with what a choice streams and spills."""
    streamed, spilled = items.names(choice)
    return replace(plan, streamed=streamed, spilled=spilled)


def rises_of(offers: Offers, pes: int, least: int) -> Rises:
    """Return the intervals, from a least one on, that are the longest load of splits that fit."""
    levels = np.array(sorted({load for offer in offers for load in offer.loads}), dtype=np.int64)
    group = Group(range(len(offers)), offers, levels)
    able = np.flatnonzero((group.rise <= pes) & (levels >= least))
    loads = group.loads(able, np.ones(len(able), dtype=np.bool_))
    return {
        interval: tuple(offer.at(load) for offer, load in zip(offers, chosen, strict=True))
        for interval, chosen in zip(levels[able].tolist(), loads.tolist(), strict=True)
    }


def words_at(problem: Problem, scan: Scan, interval: int) -> tuple[Numbers, Numbers, int]:
    """Return the words of each output at an interval, if it stays and if it is spilled, and of the input."""
    splits = tuple(LayerSplit(1) for _ in problem.stages)
    kept = plan_of(problem, splits, "uniform")
    plans = (kept, replace(kept, spilled=spillable(problem)))
    inside, away = (schedule(problem, plan, scan, fixed=interval) for plan in plans)
    return np.array(inside.buffers), np.array(away.buffers), inside.input_buffer


class _Pipeline:
    """The search for layers that work at the same time."""

    def __init__(self, problem: Problem, deadline: float) -> None:
        self.problem, self.deadline, self.scan = problem, deadline, Scan(problem)
        self.items = Items(problem)
        self.offers = offers_of(problem, every=True)
        self.moved = self.items.bytes()[:, 0]
        self.cycles = np.array([transfer_cycles(problem, int(each)) for each in self.moved])
        capacity = problem.machine.buffer_words
        self.capacity = NEVER if capacity is None else capacity

    def best(self) -> Found:
        """Return the plan of least interval."""
        problem = self.problem
        least = least_interval(self.offers, problem.machine.pes)
        if least is None or not len(self.items.choices):
            return Found(None, None, 0, least is None or self.items.all_listed)
        bound = max(least, int(self.cycles.min()))
        for interval, rises in self._intervals(least):
            check_deadline(self.deadline)
            words = self._words(interval)
            fits = words <= self.capacity
            fits &= self.cycles <= interval if rises is not None else self.cycles == interval
            if not fits.any():
                continue
            places = np.flatnonzero(fits)
            place = places[np.lexsort((words[places], self.moved[places]))[0]]
            # Where the border sets the interval, no layer needs just that load.
            splits = cheapest_within(self.offers, interval) if self.cycles[place] == interval else rises
            assert splits is not None
            plan = with_choice(plan_of(problem, splits, "uniform"), self.items, self.items.choices[place])
            proven = self.items.all_listed or interval == bound
            return Found(plan, interval, interval if proven else bound, proven)
        return Found(None, None, bound, self.items.all_listed)

    def _intervals(self, least: int) -> Iterator[tuple[int, tuple[LayerSplit, ...] | None]]:
        """Yield what intervals can be, ascending; those that are loads with splits of just that interval."""
        problem = self.problem
        rising = rises_of(self.offers, problem.machine.pes, least)
        promising = self._least_words() <= self.capacity
        first = max(least, int(self.cycles[promising].min(initial=NEVER)))
        times = self.cycles[promising & (self.cycles >= first)]
        most = problem.most_interval or NEVER
        for interval in sorted({*rising, *times.tolist()}):
            if first <= interval <= most:
                yield interval, rising.get(interval)

    def _words(self, interval: int) -> Numbers:
        """Return the words on chip at an interval, of all choices."""
        return self._of_buffers(*words_at(self.problem, self.scan, interval))

    def _least_words(self) -> Numbers:
        """Return words that all choices need at least, whatever the interval is."""
        least = np.array(least_buffers(self.problem))
        channels = np.array([stage.channels for stage in self.problem.stages])
        return self._of_buffers(least, channels, 0)

    def _of_buffers(self, kept: Numbers, away: Numbers, given: int) -> Numbers:
        stages = self.problem.stages
        by_name = {stage.name: stage for stage in stages}
        nothing = sum(stage.weights for stage in stages) + sum(kept) + given
        each = [-by_name[name].weights for name in self.items.streamed]
        each += [away[by_name[name].number] - kept[by_name[name].number] for name in self.items.spilled]
        return self.items.linear(np.array([nothing]), np.array(each, dtype=np.int64).reshape(-1, 1))[:, 0]
