"""Exact search for the least energy of a frame, and for the front of interval and energy.

`energy_options` says what layers choose from, and what a plan costs at a limit: an interval where layers work
at the same time, PEs where they take turns. A plan within the limit costs no more than that, and just that
where it reaches the limit. So the least of all limits' least costs is the least energy.

*At the same time.* At an interval each layer takes its cheapest option; if these are more PEs than there are,
a table over the PEs has the least cost of the first layers with so many: a knapsack with one choice of each
layer.

*In turn.* On some PEs each layer takes its cheapest option; if their loads break the rate, or a front is
asked for, the pairs of load and energy of the first layers are kept that no other one is as good as.

*The front.* Limits are gone through in ascending order of interval. One whose bound is no less than what is
known with a shorter interval gives nothing. Where buffers are limited and layers work at the same time, plans
are searched by branch and bound (`constrained`), again and again with a shorter interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tilewright.allocation.energy import energy
from tilewright.allocation.exact.constrained import ConstrainedSearch
from tilewright.allocation.exact.energy_options import NEVER, EnergyOptions, Menu
from tilewright.allocation.exact.trimming import pace_plan, plan_of
from tilewright.allocation.geometry import Numbers
from tilewright.allocation.plan import Plan
from tilewright.allocation.problem import Problem
from tilewright.allocation.schedule import schedule
from tilewright.allocation.splits import LayerSplit
from tilewright.core.branch_and_bound import check_deadline
from tilewright.core.context import RunContext

MOST_PAIRS = 2_000_000
"""Most pairs of load and energy that are kept of some layers."""

Chosen = tuple[LayerSplit, ...]


class Point(NamedTuple):
    """A plan's interval and energy, and its splits."""

    interval: int
    energy: int
    chosen: Chosen


class TooManyPairs(Exception):
    """There are more pairs than are kept."""


class EnergySearch:
    """The search that the module describes.

    Parameters
    ----------
    deadline
        ``time.monotonic()`` at which to give up.

    Attributes
    ----------
    menu
        From what layers choose.
    found
        Plans of the front so far, or the best one.
    """

    def __init__(self, problem: Problem, deadline: float) -> None:
        self.problem, self.deadline, self.menu = problem, deadline, Menu(problem)
        self.found: list[Point] = []
        self._most = NEVER if problem.most_load is None else problem.most_load

    def least(self) -> Point | None:
        """Return a plan of least energy, of these the fastest one; None if there is none.

        Raises
        ------
        OutOfTimeError, TooManyPairs
            When the deadline passes, or memory would not do.
        """
        if self.menu.empty:
            return None
        best: Point | None = None
        bounds = self.menu.bounds
        for place in np.argsort(bounds, kind="stable").tolist():
            if best is not None and bounds[place] > best.energy:
                break
            for point in self._at(int(self.menu.limits[place]), every=False):
                if best is None or (point.energy, point.interval) < (best.energy, best.interval):
                    best = point
                    self.found = [best]
        return best

    def front(self) -> list[Point]:
        """Return all trade-offs of interval and energy, the shortest interval first; raises as `least`."""
        if self.menu.empty:
            return []
        if not self.problem.parallel:  # something is known, whatever becomes of the pairs
            self.found = _undominated(
                [point for limit in self.menu.limits.tolist() for point in self._at(limit)]
            )
        limits = list(zip(self.menu.limits.tolist(), self.menu.bounds.tolist(), strict=True))
        least = NEVER
        for limit, bound in limits if self.problem.parallel else reversed(limits):
            if self.problem.parallel and bound >= least:
                continue
            points = self._at(limit, every=True)
            self.found = _undominated([*self.found, *points])
            least = min([least, *(point.energy for point in points)])
        return self.found

    def _at(self, limit: int, *, every: bool | None = None) -> list[Point]:
        """Return the best plan within a limit; where layers take turns, and every one is asked for, a front.

        If it is None, the cheapest options are looked at only.
        """
        check_deadline(self.deadline)
        costs = [self.menu.costs(layer, limit) for layer in self.menu.layers]
        cheapest = [int(cost.argmin()) for cost in costs]
        if self.problem.parallel:
            used = sum(int(layer.pes[at]) for layer, at in zip(self.menu.layers, cheapest, strict=True))
            found = cheapest if used <= self.problem.machine.pes else self._knapsack(costs)
            return [] if found is None else [self._point(found)]
        total = sum(int(layer.loads[at]) for layer, at in zip(self.menu.layers, cheapest, strict=True))
        fits = total <= self._most
        if every is None or (fits and not every):
            return [self._point(cheapest)] if fits else []
        return [self._point(places) for places in self._pairs(limit)]

    def _point(self, places: Sequence[int]) -> Point:
        chosen = tuple(layer.splits[at] for layer, at in zip(self.menu.layers, places, strict=True))
        plan = plan_of(self.problem, chosen)
        loads = [int(layer.loads[at]) for layer, at in zip(self.menu.layers, places, strict=True)]
        interval = self.problem.interval_at(max(loads) if self.problem.parallel else sum(loads))
        return Point(interval, energy(self.problem, plan, interval), chosen)

    def _knapsack(self, costs: list[Numbers]) -> list[int] | None:
        """Return the options of least cost that fit on the array; None if none do."""
        pes = self.problem.machine.pes
        least = np.zeros(pes + 1, dtype=np.int64)
        picked: list[Numbers] = []
        for layer, cost in zip(self.menu.layers, costs, strict=True):
            check_deadline(self.deadline)
            now, pick = np.full(pes + 1, NEVER), np.full(pes + 1, -1)
            for at in np.flatnonzero(cost < NEVER).tolist():
                own = int(layer.pes[at])
                if own > pes:
                    continue
                with_it = np.where(least[: pes + 1 - own] < NEVER, least[: pes + 1 - own] + cost[at], NEVER)
                better = with_it < now[own:]
                now[own:][better], pick[own:][better] = with_it[better], at
            least = now
            picked.append(pick)
        if least[pes] >= NEVER:
            return None
        places, left = [], pes
        for layer, pick in zip(reversed(self.menu.layers), reversed(picked), strict=True):
            places.append(int(pick[left]))
            left -= int(layer.pes[places[-1]])
        return places[::-1]

    def _pairs(self, limit: int) -> Iterator[list[int]]:
        """Yield options of layers in turn: for each pair of load and energy that no other is as good as."""
        most = self._most
        loads, spent = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        origins: list[tuple[Numbers, Numbers]] = []
        rest = _least_after([self._within(layer, limit) for layer in self.menu.layers])
        for layer, after in zip(self.menu.layers, rest, strict=True):
            check_deadline(self.deadline)
            own = np.flatnonzero(layer.pes <= limit)
            if len(loads) * len(own) > MOST_PAIRS:
                raise TooManyPairs
            load = (loads[:, None] + layer.loads[own]).ravel()
            energy_of = (spent[:, None] + layer.spent[own]).ravel()
            fits = np.flatnonzero(load + after <= most)
            kept = fits[_staircase(load[fits], energy_of[fits])]
            origins.append((kept // max(1, len(own)), own[kept % max(1, len(own))]))
            loads, spent = load[kept], energy_of[kept]
        for state in range(len(loads)):
            places, at = [], state
            for origin, option in reversed(origins):
                places.append(int(option[at]))
                at = int(origin[at])
            yield places[::-1]

    def _within(self, layer: EnergyOptions, limit: int) -> int:
        return int(layer.loads[layer.pes <= limit].min())


def _least_after(least: list[int]) -> list[int]:
    """Return of each layer the least loads of all later ones together."""
    return [sum(least[number + 1 :]) for number in range(len(least))]


def _staircase(loads: Numbers, spent: Numbers) -> Numbers:
    """Return the places of pairs of which no other one is as good, one of equal ones."""
    order = np.lexsort((spent, loads))
    ordered = spent[order]
    better = np.ones(len(order), dtype=np.bool_)
    better[1:] = ordered[1:] < np.minimum.accumulate(ordered)[:-1]
    return order[better]


def _undominated(points: list[Point]) -> list[Point]:
    kept: list[Point] = []
    for point in sorted(points, key=lambda point: (point.interval, point.energy)):
        if not kept or point.energy < kept[-1].energy:
            kept.append(point)
    return kept


def as_plan(problem: Problem, chosen: Chosen) -> Plan:
    """Return the plan of some splits, with the pacing of less latency."""
    plan = plan_of(problem, chosen)
    return (pace_plan(problem, plan) or plan) if problem.parallel else plan


def is_settled_by_splits(problem: Problem) -> bool:
    """Whether a plan's validity depends on its splits alone, so that `EnergySearch` decides."""
    return not problem.parallel or problem.machine.buffer_words is None


def front_by_intervals(problem: Problem, deadline: float) -> Iterator[Plan]:
    """Yield plans of least energy, each of a shorter interval than the one before; by branch and bound.

    Raises
    ------
    OutOfTimeError
        When the deadline passes.
    """
    single = problem.with_(objective={"minimise": "energy", "between": None})
    tree = ConstrainedSearch(single, RunContext(deadline=deadline))
    while True:
        tree.best = None
        tree.run()
        if tree.best is None:
            return
        plan = tree.best.plan
        yield plan
        tree.shorten(schedule(problem, plan).interval - 1)
