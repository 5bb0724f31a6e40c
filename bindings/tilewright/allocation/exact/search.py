"""Exact search for the shares of all layers, and what else follows from shares alone.

*Interval and PEs* are found by the parametric search of `search_choices`; *latency* and the *Pareto surface*
of interval, PEs and latency by the table of `search_path`, along the path that a plan's latency waits for.
The ends of the table are lower bounds. Each stands for a plan whose own latency is computed, and is settled
when a known plan is as good. While one is not, the plans are divided in three: one layer's load is below what
it is in that plan, equal, or above. Each part has a table of its own, along the path that the plan waits for
where that load is not below, and the ends of the whole bound its plans, too. At last every layer has one load
and nothing is open; if time is up before, what is proven so far is said.

*Buffers* are judged plan by plan, so a plan that does not fit leaves its end open. With uniform pacing the
latency and the buffers depend on the interval only; for each, the fewest PEs are those of the cheapest shares
up to it, one of which rises to it. All these plans are looked at before any table.

*Ties.* A plan of least interval has the fewest PEs that this allows. Of plans with the same interval and PEs
the one of least latency is found by another search, as far as its first table decides. Where rows are split,
start times depend on them and are not searched.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count, islice
from typing import NamedTuple

import numpy as np

from tilewright.allocation.bounds import best_bound
from tilewright.allocation.exact.latency_dp import Group, ends
from tilewright.allocation.exact.options import Menus, fewest_in_turn, in_turn, least_interval, menus, within
from tilewright.allocation.exact.timing import Timing, sufficient
from tilewright.allocation.geometry import Numbers, Scan
from tilewright.allocation.plan import PACINGS, Plan
from tilewright.allocation.problem import Problem
from tilewright.allocation.schedule import schedule
from tilewright.allocation.splits import Share
from tilewright.spec.errors import OutOfTimeError

RANKS = {"interval": (0, 1, 2), "pes": (1, 2, 0), "latency": (2, 1, 0)}
"""In which order interval, PEs and latency count for each objective; for ``pareto`` none comes first."""

CLAIMS = {"interval": 2, "pes": 1, "latency": 2, "pareto": 3}
"""How many of them the bounds of a table or of the parametric search are about."""


class Found(NamedTuple):
    """What a search knows.

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
    """

    plans: tuple[Plan, ...]
    value: int | None
    bound: int
    proven: bool


def exhaustive(problem: Problem, deadline: float = float("inf")) -> Found | None:
    """Return the best plan or the front, and what is proven of it; None if there is provably no plan.

    Parameters
    ----------
    deadline
        ``time.monotonic()`` at which to give up.
    """
    *_, last = answers(problem, deadline)
    return last if last.plans or not last.proven else None


def answers(problem: Problem, deadline: float = float("inf")) -> Iterator[Found]:
    """Return what is known, again and again as it grows; the last is all that can be said in time."""
    bound = best_bound(problem)
    known = Found((), None, bound.value, bound.impossible is not None)
    if known.proven or not problem.parallel:
        yield known if known.proven else _in_turn(problem)
        return
    minimise, split = problem.minimise, "rows" in problem.limits.splits
    if minimise != "latency":
        known = _parametric(problem, deadline)
        yield known
    if not known.proven and not split:
        for found in _Exploration(problem, minimise, known.bound, deadline).run():
            known = found
            yield known
    if known.proven and known.plans and minimise in ("interval", "pes") and not split:
        yield known._replace(plans=_fastest_alike(problem, known.plans[0], deadline))


def _in_turn(problem: Problem) -> Found:
    """Return the best plan of layers that take turns; none needs other buffers."""
    offers, most, pes = menus(problem), problem.most_interval, problem.machine.pes
    if problem.minimise == "pes":
        fewest = None if most is None else fewest_in_turn(offers, problem.stages, most)
        assert fewest is not None  # else the problem is impossible
        pes = fewest
    chosen = in_turn(offers, pes)
    assert chosen is not None
    plan = _plan(problem, chosen)
    value = pes if problem.minimise == "pes" else schedule(problem, plan).interval
    return Found((plan,), value, value, True)


def _parametric(problem: Problem, deadline: float) -> Found:
    """Return the plan of the parametric search, and where rows are split a slower one if it does not fit.

    Of a front it is the bound only.
    """
    offers = menus(problem)
    least = least_interval(offers, problem.machine.pes)
    assert least is not None  # else the problem is impossible
    if problem.minimise == "pareto":
        return Found((), None, least, False)
    slower = sorted({load for menu in offers for load in menu.loads if load >= least})
    if problem.minimise == "pes":
        slower.reverse()
    values: list[int] = []
    for load in slower:
        chosen = within(offers, load)
        assert chosen is not None
        plan = _plan(problem, chosen)
        values.append(plan.pes if problem.minimise == "pes" else load)
        fitting = paced(problem, plan)
        if fitting is not None:
            return Found((fitting,), values[-1], values[0], values[-1] == values[0])
        if "rows" not in problem.limits.splits or time.monotonic() > deadline:
            break
    return Found((), None, values[0], False)


def _fastest_alike(problem: Problem, plan: Plan, deadline: float) -> tuple[Plan, ...]:
    """Return the plan of least latency with the PEs of a plan and its interval, as far as time allows.

    Where waiting cannot pay there is no other: the shares are those that nothing replaces.
    """
    most = problem.most_interval if problem.minimise == "pes" else schedule(problem, plan).interval
    search = _Exploration(problem, "latency", 0, deadline, pes=plan.pes, longest=most)
    if not search.waits:
        return (plan,)
    *_, tabled = islice(search.run(), 2)
    return tabled.plans or (plan,)


def _plan(problem: Problem, chosen: Sequence[Share], pacing: str = PACINGS[0]) -> Plan:
    return Plan(tuple(stage.name for stage in problem.stages), tuple(chosen), pacing)


# Tables, and parts of the plans where one is not enough ----------------------------------------------------


class _Part(NamedTuple):
    """The plans of some loads, and what bounds those that are better than all known ones.

    Attributes
    ----------
    offers
        The loads.
    path
        The layers that the table follows.
    keys : int, shape (ends, 3)
        Interval, PEs and latency; no such plan comes before all of them.
    loads : int, shape (ends, layers)
        Of the plans that the ends stand for.
    """

    offers: Menus
    path: tuple[int, ...]
    keys: Numbers
    loads: Numbers


class _Known:
    """The best plans so far, with their keys: interval, PEs and latency; more than one for a front."""

    def __init__(self, minimise: str) -> None:
        self.rank = list(RANKS.get(minimise, ()))
        self.keys = np.empty((0, 3), dtype=np.int64)
        self.plans: list[Plan] = []

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
        rank = self.rank or [0, 1, 2]
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
        self.offers, self.waits = sufficient(self.timing)
        if longest is not None:
            self.offers = tuple(menu.between(0, longest) for menu in self.offers)
        self.known = _Known(minimise)
        self._open: list[tuple[list[int], int, _Part]] = []
        self._numbers = count()

    def run(self) -> Iterator[Found]:
        """Return what is known, again and again."""
        try:
            path = self._begin()
            if self.known.rank:
                yield self._found(False)
            self._add(self.offers, path)
            while self._open:
                first, _, part = heappop(self._open)
                if first:
                    self.bound = max(self.bound, first[0])
                    yield self._found(False)
                self._divide(part)
        except OutOfTimeError:
            yield self._found(False)
        else:
            yield self._found(True)

    def _found(self, proven: bool) -> Found:
        if not self.known.plans:
            return Found((), None, self.bound, proven)
        order = self.known.best_first(self.known.keys)
        value = int(self.known.keys[order[0], (self.known.rank or [0])[0]])
        plans = tuple(self.known.plans[place] for place in order)
        return Found(plans, value, value if proven else self.bound, proven)

    def _begin(self) -> tuple[int, ...]:
        """Look at the plans of one interval each, and return the path that the fastest of them waits for."""
        levels = np.array(sorted({load for menu in self.offers for load in menu.loads}), dtype=np.int64)
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
        room = self.problem.machine.buffer_words
        for place in self.known.best_first(keys):
            if self.known.settles(keys[place]):
                continue
            if time.monotonic() > self.deadline:
                raise OutOfTimeError
            chosen = [menu.at(load) for menu, load in zip(self.offers, loads[place].tolist(), strict=True)]
            plan = _plan(self.problem, chosen, pacing)
            if room is None or schedule(self.problem, plan, self.timing.scan).storage <= room:
                self.known.add(keys[place], plan)

    def _unsettled(self, keys: Numbers) -> list[int]:
        claims = CLAIMS[self.minimise]
        return [place for place, key in enumerate(keys) if not self.known.settles(key, claims)]

    def _add(self, offers: Menus, path: tuple[int, ...], least: Numbers | None = None) -> None:
        """Look at the plans of some loads, none of which comes before all least keys; keep what is open."""
        keys, loads = self._table(offers, path)
        places = self._unsettled(keys)
        keys, loads = keys[places], loads[places]
        self._offer(self._keys(keys[:, 1], loads, self.timing.matched(loads)), loads, "matched")
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
        """Divide the plans by the loads of one layer, if an end is still open, and look at each part."""
        places = self._unsettled(part.keys)
        free = [number for number, menu in enumerate(part.offers) if len(menu.loads) > 1]
        if not places or not free:
            return
        loads = part.loads[places[0]]
        waits = self.timing.critical_path(self.timing.matched(loads[None])[0])
        layer = next((number for number in waits if number in free and number not in part.path), free[0])
        before, menu, after = part.offers[:layer], part.offers[layer], part.offers[layer + 1 :]
        load = int(loads[layer])
        for least, most, path in (
            (menu.loads[0], load - 1, part.path),
            (load, load, waits),
            (load + 1, menu.loads[-1], waits),
        ):
            some = menu.between(least, most)
            if some.loads:
                self._add((*before, some, *after), path, part.keys[places])

    def _table(self, offers: Menus, path: tuple[int, ...]) -> tuple[Numbers, Numbers]:
        """Return keys that bound all plans of some loads, and the loads that they stand for."""
        if self.minimise not in ("latency", "pareto"):
            return self._least(offers)
        latency = self.minimise == "latency"
        longest = int(self.known.keys[0, 2]) if latency and self.known.plans else None
        table = ends(self.timing, offers, path, self.pes, longest=longest, deadline=self.deadline)
        keys = np.stack([table.interval, table.pes, table.latency], axis=1)
        places = np.array(self.known.best_first(keys)[:1] if latency else _front(keys), dtype=np.int64)
        return keys[places], table.loads(places)

    def _least(self, offers: Menus) -> tuple[Numbers, Numbers]:
        """Return the same from the parametric search, which knows no latency."""
        most = self.problem.most_interval
        if self.minimise == "interval":
            most = least_interval(offers, self.pes)
        chosen = None if most is None else within(offers, most)
        if chosen is None or sum(share.pes for share in chosen) > self.pes:
            return np.empty((0, 3), dtype=np.int64), np.empty((0, len(offers)), dtype=np.int64)
        loads = _loads(self.problem, chosen)
        return np.array([[max(loads), sum(share.pes for share in chosen), 0]]), np.array([loads])


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


def _loads(problem: Problem, chosen: Sequence[Share]) -> list[int]:
    return [share.load(stage.task) for stage, share in zip(problem.stages, chosen, strict=True)]


# What follows from shares alone ----------------------------------------------------------------------------


def paced(problem: Problem, plan: Plan) -> Plan | None:
    """Return a plan with a pacing that its buffers allow: matched, unless latency is lower with uniform.

    None means that neither fits.
    """
    room, scan = problem.machine.buffer_words, Scan(problem)
    known = [schedule(problem, replace(plan, pacing=pacing), scan) for pacing in PACINGS]
    fitting = [times for times in known if room is None or times.storage <= room]
    return min(fitting, key=lambda times: times.latency).plan if fitting else None


def trimmed(problem: Problem, plan: Plan) -> Plan:
    """Return a plan that is no worse, without PEs that do not help the objective.

    For the interval every layer has its cheapest share up to it, for PEs its fastest share with as many. For
    latency, and in each plan of a front, no pace changes.
    """
    if plan.front:
        return Plan.joined(tuple(trimmed(problem, one) for one in plan.front))
    if problem.minimise == "distance":
        return plan
    if problem.parallel and problem.minimise in ("latency", "pareto"):
        return replace(plan, shares=_same_paces(problem, plan))
    loads, counts = _loads(problem, plan.shares), [share.pes for share in plan.shares]
    if problem.parallel:
        loads = [max(loads)] * len(loads)
    else:
        counts = [max(counts)] * len(counts)
    chosen = [
        (menu.fastest(most) if problem.minimise == "pes" else menu.within(load)) or share
        for menu, share, load, most in zip(menus(problem), plan.shares, loads, counts, strict=True)
    ]
    other = paced(problem, _plan(problem, chosen))
    return plan if other is None else min(other, plan, key=lambda one: _rank(problem, one))


def _rank(problem: Problem, plan: Plan) -> list[int]:
    times, counts = schedule(problem, plan), [share.pes for share in plan.shares]
    key = times.interval, sum(counts) if problem.parallel else max(counts), times.latency
    return [key[place] for place in RANKS[problem.minimise]]


def _same_paces(problem: Problem, plan: Plan) -> tuple[Share, ...]:
    """Return the cheapest shares of the same levels: only a layer that makes a level keeps its load."""
    loads = _loads(problem, plan.shares)
    found, levels = [], [0] * len(loads)
    pairs = zip(problem.stages, plan.shares, menus(problem, every=True), loads, strict=True)
    for stage, share, menu, load in pairs:
        before = max((levels[producer] for producer in stage.producers if producer >= 0), default=0)
        if plan.pacing == "uniform":
            before = 0 if stage.number == loads.index(max(loads)) else max(loads)
        level = levels[stage.number] = max(before, load)
        found.append(menu.between(0 if load <= before else load, level).within(level) or share)
    return tuple(found)
