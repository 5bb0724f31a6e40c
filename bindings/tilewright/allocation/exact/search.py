"""Exact search for the splits of all layers.

*Interval and PEs* are found by the parametric search of `options`; *latency* and the *Pareto surface* of
interval, PEs and latency by the table of `latency_dp`, along the path that a plan's latency waits for. The
final states of the table are lower bounds. Each stands for a plan whose own latency is computed, and is
settled when a known plan is as good. While one is not, the plans are divided in three: one layer's load is
below what it is in that plan, equal, or above. Each part has a table of its own, along the path that the plan
waits for where that load is not below, and the final states of the whole bound its plans, too. At last every
layer has one load and nothing is open; if time is up before, what is proven so far is said.

*Buffers* are judged plan by plan, so a plan that does not fit leaves its state open. With uniform pacing the
latency and the buffers depend on the interval only; for each, the fewest PEs are those of the cheapest splits
up to it, one of which rises to it. All these plans are looked at before any table.

*Ties.* A plan of least interval has the fewest PEs that this allows. Of plans with the same interval and PEs
the one of least latency is found by another search, as far as its first table decides. Where rows are split,
start times depend on them and are not searched.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count, islice
from typing import NamedTuple

import numpy as np

from tilewright.allocation.bounds import bound_on_splits
from tilewright.allocation.energy import energy
from tilewright.allocation.exact import off_chip_search
from tilewright.allocation.exact.energy_search import (
    EnergySearch,
    TooManyPairs,
    as_plan,
    front_by_intervals,
    is_settled_by_splits,
)
from tilewright.allocation.exact.latency_dp import Group, final_states
from tilewright.allocation.exact.options import (
    Offers,
    cheapest_within,
    fewest_in_turn,
    in_turn,
    least_interval,
    offers_of,
)
from tilewright.allocation.exact.timing import Timing, sufficient_loads
from tilewright.allocation.exact.trimming import RANKS, Key, loads_of, pace_plan, plan_of
from tilewright.allocation.geometry import Numbers
from tilewright.allocation.plan import Plan
from tilewright.allocation.problem import Problem
from tilewright.allocation.schedule import schedule
from tilewright.spec.errors import OutOfTimeError

CLAIMS = {"interval": 2, "pes": 1, "latency": 2, "pareto": 3}
"""How many numbers of a key the bounds of a table or of the parametric search are about, in their rank."""


NEVER = 2**62
"""More than any plan costs."""


class AllocationAnswer(NamedTuple):
    """What a search knows of a problem's best plans.

    Attributes
    ----------
    plans
        The best plan; of ``pareto`` all plans of the front, fastest first; none if none is known.
    value
        Their objective; of a front its least interval.
    bound
        No plan's objective is below it.
    proven
        Whether there is nothing better, or no plan at all if none is here.
    cut_short
        Whether time was up before the search had ended by itself: with more time the answer may differ.
    """

    plans: tuple[Plan, ...]
    value: int | None
    bound: int
    proven: bool
    cut_short: bool = False


def exhaustive(problem: Problem, deadline: float = float("inf")) -> AllocationAnswer | None:
    """Return the best plan or the front, and what is proven of it; None if there is provably no plan.

    Parameters
    ----------
    deadline
        ``time.monotonic()`` at which to give up.
    """
    *_, last = search_splits(problem, deadline)
    return last if last.plans or not last.proven else None


def search_splits(problem: Problem, deadline: float = float("inf")) -> Iterator[AllocationAnswer]:
    """Return what is known, again and again as it grows; the last is all that can be said in time."""
    bound = bound_on_splits(problem)
    known = AllocationAnswer((), None, bound.value, bound.impossible is not None)
    if not known.proven and problem.machine.off_chip is not None:
        yield _with_traffic(problem, bound.value, deadline)
        return
    if not known.proven and (problem.minimise == "energy" or problem.trades_energy):
        yield _of_energy(problem, bound.value, deadline)
        return
    if known.proven or not problem.parallel:
        yield known if known.proven else _in_turn(problem)
        return
    minimise, rows_split = problem.minimise, "rows" in problem.limits.splits
    if minimise != "latency":
        known = _parametric(problem, deadline)
    if minimise != "latency" or problem.waits:
        yield known
    if problem.waits:  # tables know no times but those of layers: what is left is for `constrained`
        return
    if not known.proven and not rows_split:
        exploration = _Exploration(problem, minimise, known.bound, deadline)
        for known in exploration.run():
            yield known
    if known.proven and known.plans and minimise in ("interval", "pes") and not rows_split:
        plans, cut_short = _fastest_alike(problem, known.plans[0], deadline)
        yield known._replace(plans=plans, cut_short=cut_short)


def _with_traffic(problem: Problem, bound: int, deadline: float) -> AllocationAnswer:
    """Return the plan of least interval where plans decide what is streamed and spilled."""
    try:
        found = off_chip_search.search(problem, deadline)
    except OutOfTimeError:
        return AllocationAnswer((), None, bound, False, cut_short=True)
    plans = () if found.plan is None else (found.plan,)
    proven = found.proven or found.interval == bound
    return AllocationAnswer(plans, found.interval, max(bound, found.bound), proven, cut_short=not proven)


def _of_energy(problem: Problem, bound: int, deadline: float) -> AllocationAnswer:
    """Return the plan of least energy, or the front of interval and energy.

    Where buffers are limited and layers work at the same time, a single plan is left to `constrained`.
    """
    if not is_settled_by_splits(problem) and not problem.trades_energy:
        return AllocationAnswer((), None, bound, False)
    plans: list[Plan] = []
    ended = cut_short = False
    search = EnergySearch(problem, deadline)
    try:
        if is_settled_by_splits(problem):
            _ = search.front() if problem.trades_energy else search.least()
        else:
            plans.extend(front_by_intervals(problem, deadline))
        ended = True
    except OutOfTimeError:
        cut_short = True
    except TooManyPairs:
        ended = False
    if not plans:
        plans = [as_plan(problem, point.chosen) for point in search.found]
    plans = _energy_front(problem, plans)
    if not plans:
        return AllocationAnswer((), None, bound, ended, cut_short)
    times = schedule(problem, plans[0])
    value = times.interval if problem.trades_energy else energy(problem, plans[0], times.interval)
    known = value if ended else bound
    return AllocationAnswer(tuple(plans), value, known, ended, cut_short)


def _energy_front(problem: Problem, plans: list[Plan]) -> list[Plan]:
    """Return the plans of which no other one is as good in interval and energy, the fastest first."""
    intervals = [schedule(problem, plan).interval for plan in plans]
    keys = [(it, energy(problem, plan, it)) for it, plan in zip(intervals, plans, strict=True)]
    kept: list[Plan] = []
    least = NEVER
    for place in sorted(range(len(plans)), key=keys.__getitem__):
        if keys[place][1] < least:
            least = keys[place][1]
            kept.append(plans[place])
    return kept


def _in_turn(problem: Problem) -> AllocationAnswer:
    """Return the best plan of layers that take turns; none needs other buffers."""
    offers, most, pes = offers_of(problem), problem.most_load, problem.machine.pes
    if problem.minimise == "pes":
        fewest = None if most is None else fewest_in_turn(offers, problem.stages, most)
        assert fewest is not None  # else the problem is impossible
        pes = fewest
    chosen = in_turn(offers, pes)
    assert chosen is not None
    plan = plan_of(problem, chosen)
    value = pes if problem.minimise == "pes" else schedule(problem, plan).interval
    return AllocationAnswer((plan,), value, value, True)


def _parametric(problem: Problem, deadline: float) -> AllocationAnswer:
    """Return the plan of the parametric search, and where rows are split a slower one if it does not fit.

    Of a front it is the bound only.
    """
    offers = offers_of(problem)
    least = least_interval(offers, problem.machine.pes)
    assert least is not None  # else the problem is impossible
    least = problem.interval_at(least)
    if problem.minimise == "pareto":
        return AllocationAnswer((), None, least, False)
    slower = sorted({least, *(load for offer in offers for load in offer.loads if load >= least)})
    if problem.minimise == "pes":
        slower.reverse()
    values: list[int] = []
    for load in slower:
        chosen = cheapest_within(offers, load)
        assert chosen is not None
        plan = plan_of(problem, chosen)
        values.append(plan.pes if problem.minimise == "pes" else load)
        fitting = pace_plan(problem, plan)
        if fitting is not None:
            return AllocationAnswer((fitting,), values[-1], values[0], values[-1] == values[0])
        if "rows" not in problem.limits.splits:
            break
        if time.monotonic() > deadline:
            return AllocationAnswer((), None, values[0], False, cut_short=True)
    return AllocationAnswer((), None, values[0], False)


def _fastest_alike(problem: Problem, plan: Plan, deadline: float) -> tuple[tuple[Plan, ...], bool]:
    """Return the plan of least latency with the PEs of a plan and its interval, and whether time was up.

    Where waiting cannot pay there is no other: the splits are those that nothing replaces.
    """
    most = problem.most_interval if problem.minimise == "pes" else schedule(problem, plan).interval
    search = _Exploration(problem, "latency", 0, deadline, pes=plan.pes, longest=most)
    if not search.waits:
        return (plan,), False
    *_, tabled = islice(search.run(), 2)
    return tabled.plans or (plan,), tabled.cut_short


# Tables, and parts of the plans where one is not enough ----------------------------------------------------


class _Part(NamedTuple):
    """The plans of some loads, and what bounds those that are better than all known ones.

    Attributes
    ----------
    offers
        The loads.
    path
        The layers that the table follows.
    keys : int, shape (states, 3)
        Columns are those of `Key`; no such plan comes before all of them.
    loads : int, shape (states, layers)
        Of the plans that the final states of the table stand for.
    """

    offers: Offers
    path: tuple[int, ...]
    keys: Numbers
    loads: Numbers


class _Known:
    """The best plans so far, with their keys, whose columns are those of `Key`; more than one for a front."""

    def __init__(self, minimise: str) -> None:
        self.rank = list(RANKS.get(minimise, ()))
        self.keys = np.empty((0, 3), dtype=np.int64)
        self.plans: list[Plan] = []

    @property
    def first(self) -> int:
        """What the best plan costs, more than any where there is none."""
        return int(self.keys[0, self.rank[0]]) if self.plans else NEVER

    def settles(self, key: Numbers, claims: int = 3) -> bool:
        """Whether a known plan is as good as a key in the first numbers that count."""
        if not self.rank:
            return bool((self.keys <= key).all(axis=1).any())
        rank = self.rank[:claims]
        return len(self.plans) > 0 and self.keys[0, rank].tolist() <= key[rank].tolist()

    def add(self, key: Numbers, plan: Plan) -> None:
        """Take a plan that is not settled, instead of those that it is better than."""
        if self.rank:
            self.keys, self.plans = key[None], [plan]
            return
        stays = np.flatnonzero((self.keys < key).any(axis=1))
        if len(stays) < len(self.plans):
            self.keys, self.plans = self.keys[stays], [self.plans[place] for place in stays]
        self.keys = np.vstack([self.keys, key])
        self.plans.append(plan)

    def best_first(self, keys: Numbers) -> list[int]:
        """Return the places of keys in their order."""
        rank = self.rank or list(Key)
        order: list[int] = np.lexsort(keys[:, rank[::-1]].T).tolist()
        return order


class _Exploration:
    """The search that the module describes, for layers in parallel whose rows are not split.

    Parameters
    ----------
    minimise
        The problem's objective, or another one.
    bound
        What is known to be a lower bound on it.
    pes, longest
        PEs of all layers, if not the whole array; the longest load.
    """

    def __init__(
        self,
        problem: Problem,
        minimise: str,
        bound: int,
        deadline: float,
        *,
        pes: int | None = None,
        longest: int | None = None,
    ) -> None:
        self.problem, self.minimise, self.bound, self.deadline = problem, minimise, bound, deadline
        self.pes = pes or problem.machine.pes
        self.timing = Timing(problem)
        self.offers, self.waits = sufficient_loads(self.timing)
        if longest is not None:
            self.offers = tuple(offer.between(0, longest) for offer in self.offers)
        self.known = _Known(minimise)
        self._open: list[tuple[list[int], int, _Part]] = []
        self._numbers = count()

    def run(self) -> Iterator[AllocationAnswer]:
        """Return what is known, again and again."""
        try:
            path = self._begin()
            if self.known.rank:
                yield self._answer(False)
            self._add(self.offers, path)
            while self._open:
                first, _, part = heappop(self._open)
                if first:
                    # A plan that was found since this part was put aside may be better than all of the part.
                    self.bound = max(self.bound, min(first[0], self.known.first))
                    yield self._answer(False)
                self._divide(part)
        except OutOfTimeError:
            yield self._answer(False)._replace(cut_short=True)
        else:
            yield self._answer(True)

    def _answer(self, proven: bool) -> AllocationAnswer:
        if not self.known.plans:
            return AllocationAnswer((), None, self.bound, proven)
        order = self.known.best_first(self.known.keys)
        value = int(self.known.keys[order[0], (self.known.rank or list(Key))[0]])
        plans = tuple(self.known.plans[place] for place in order)
        return AllocationAnswer(plans, value, value if proven else self.bound, proven)

    def _begin(self) -> tuple[int, ...]:
        """Look at the plans of one interval each, and return the path that the fastest of them waits for."""
        levels = np.array(sorted({load for offer in self.offers for load in offer.loads}), dtype=np.int64)
        group = Group(range(len(self.offers)), self.offers, levels)
        (places,) = np.nonzero(group.rise <= self.pes)
        loads = group.loads(places, np.ones(len(places), dtype=np.bool_))
        pes, uniform = group.rise[places], np.broadcast_to(levels[places, None], loads.shape)
        if self.known.rank:
            self._offer(self._keys(pes, loads, self.timing.matched(loads)), loads, "matched")
        if self.waits:
            self._offer(self._keys(pes, loads, uniform), loads, "uniform")
        return self.timing.critical_path(uniform[0])

    def _keys(self, pes: Numbers, loads: Numbers, levels: Numbers) -> Numbers:
        return np.stack([loads.max(axis=1), pes, self.timing.latencies(levels)], axis=1)

    def _offer(self, keys: Numbers, loads: Numbers, pacing: str) -> None:
        """Take the plans with these keys and loads that are better than what is known, and fit."""
        capacity = self.problem.machine.buffer_words
        for place in self.known.best_first(keys):
            if self.known.settles(keys[place]):
                continue
            if time.monotonic() > self.deadline:
                raise OutOfTimeError
            chosen = [offer.at(load) for offer, load in zip(self.offers, loads[place].tolist(), strict=True)]
            plan = plan_of(self.problem, chosen, pacing)
            if capacity is None or schedule(self.problem, plan, self.timing.scan).storage <= capacity:
                self.known.add(keys[place], plan)

    def _unsettled(self, keys: Numbers) -> list[int]:
        claims = CLAIMS[self.minimise]
        return [place for place, key in enumerate(keys) if not self.known.settles(key, claims)]

    def _add(self, offers: Offers, path: tuple[int, ...], least: Numbers | None = None) -> None:
        """Look at the plans of some loads, none of which comes before all least keys; keep what is open."""
        keys, loads = self._table(offers, path)
        places = self._unsettled(keys)
        keys, loads = keys[places], loads[places]
        self._offer(self._keys(keys[:, Key.PES], loads, self.timing.matched(loads)), loads, "matched")
        if least is not None and len(keys):
            keys, places = self._joined(keys, least)
            loads = loads[places]
        places = self._unsettled(keys)
        if places:
            first = keys[places[0], self.known.rank].tolist()
            heappush(
                self._open, (first, next(self._numbers), _Part(offers, path, keys[places], loads[places]))
            )

    def _joined(self, keys: Numbers, least: Numbers) -> tuple[Numbers, list[int]]:
        """Return what plans come before that come neither before all keys nor before all least ones.

        Returns
        -------
        joined : int, shape (joined, 3)
        places
            Of one of the keys for each.
        """
        if self.known.rank:
            both = np.concatenate([keys, least])
            return both[self.known.best_first(both)[-1:]], [0]
        places = np.repeat(np.arange(len(keys)), len(least))
        both = np.maximum(keys[places], np.tile(least, (len(keys), 1)))
        front = _front(both)
        return both[front], places[front].tolist()

    def _divide(self, part: _Part) -> None:
        """Divide the plans by the loads of one layer, if a state is still open, and look at each part."""
        places = self._unsettled(part.keys)
        free = [number for number, offer in enumerate(part.offers) if len(offer.loads) > 1]
        if not places or not free:
            return
        loads = part.loads[places[0]]
        waits = self.timing.critical_path(self.timing.matched(loads[None])[0])
        layer = next((number for number in waits if number in free and number not in part.path), free[0])
        before, offer, after = part.offers[:layer], part.offers[layer], part.offers[layer + 1 :]
        load = int(loads[layer])
        for least, most, path in (
            (offer.loads[0], load - 1, part.path),
            (load, load, waits),
            (load + 1, offer.loads[-1], waits),
        ):
            some = offer.between(least, most)
            if some.loads:
                self._add((*before, some, *after), path, part.keys[places])

    def _table(self, offers: Offers, path: tuple[int, ...]) -> tuple[Numbers, Numbers]:
        """Return keys that bound all plans of some loads, and the loads that they stand for."""
        if self.minimise not in ("latency", "pareto"):
            return self._least(offers)
        latency = self.minimise == "latency"
        longest = int(self.known.keys[0, Key.LATENCY]) if latency and self.known.plans else None
        table = final_states(self.timing, offers, path, self.pes, longest=longest, deadline=self.deadline)
        keys = np.stack([table.interval, table.pes, table.latency], axis=1)
        places = np.array(self.known.best_first(keys)[:1] if latency else _front(keys), dtype=np.int64)
        return keys[places], table.loads(places)

    def _least(self, offers: Offers) -> tuple[Numbers, Numbers]:
        """Return the same from the parametric search, which knows no latency."""
        most = self.problem.most_interval
        if self.minimise == "interval":
            most = least_interval(offers, self.pes)
        chosen = None if most is None else cheapest_within(offers, most)
        if chosen is None or sum(split.pes for split in chosen) > self.pes:
            return np.empty((0, 3), dtype=np.int64), np.empty((0, len(offers)), dtype=np.int64)
        loads = loads_of(self.problem, chosen)
        return np.array([[max(loads), sum(split.pes for split in chosen), 0]]), np.array([loads])


def _front(keys: Numbers) -> list[int]:
    """Return the places of the keys that no other one replaces, in their order."""
    order = np.lexsort(keys.T[::-1])
    interval, pes, latency = keys[order].T
    never = np.iinfo(np.int64).max
    least = np.full(int(pes.max(initial=0)) + 1, never)
    found: list[int] = []
    for part in np.split(np.arange(len(order)), np.flatnonzero(np.diff(interval)) + 1):
        # Within an interval those with the fewest PEs come first.
        before = np.minimum.accumulate(np.append(never, latency[part]))[:-1]
        kept = part[(latency[part] < before) & (latency[part] < least[pes[part]])]
        found += order[kept].tolist()
        least[pes[kept]] = latency[kept]
        least = np.minimum.accumulate(least)
    return found
