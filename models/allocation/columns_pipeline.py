"""An integer program for the splits of all layers, in which everything is said by thresholds.

It chooses among the splits that docs/allocation-search.md argues to be enough, whose loads are computed
beforehand; `reference.mzn` states what splits are and cost.

For every load on a layer's offer but the least, ``slow`` says whether the layer is as slow as that or slower;
loads and PEs are sums of these variables. The interval, the largest of the loads, has reached a threshold
where some load has. So it is with levels (equation 9): the largest of the loads at or before a layer, or of
all loads where all layers wait. A pace is a level divided by a layer's beats and rounded down, a sum of what
it gains at each threshold; starts (equations 10 and 11) are bounded by differences of paces. Layers that take
turns are the other way round: their loads add up, and the largest split counts.

Extras: no level is above the latency of a known plan, and no objective below a known bound.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from math import gcd
from typing import Any

import numpy as np
import pyomo.environ as pyo

from tilewright.allocation import Plan, Problem, best_bound
from tilewright.allocation.energy import leakage_per_cycle
from tilewright.allocation.exact.constrained import energy_counts
from tilewright.allocation.exact.trimming import trim_plan
from tilewright.allocation.plan import PACINGS
from tilewright.allocation.schedule import schedule
from tilewright.allocation.split_options import Choices, chooses
from tilewright.allocation.split_options import why_not as why_not

LARGEST = 10**8
"""Largest objective, in units, whose neighbours are still apart within HiGHS's tolerances."""


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem."""
    return chooses(problem) and Choices(problem).worst() <= LARGEST


def size(problem: Problem) -> int:
    """Return about how many constraints there are: two for each load, and three for each level of a layer."""
    choices = Choices(problem)
    levels = [] if choices.timing is None else Levels(choices, choices.longest).steps
    return 2 * sum(len(offer.loads) for offer in choices.offers) + 3 * sum(map(len, levels))


class Levels:
    """The levels that layers can have.

    Attributes
    ----------
    floors
        The least, of each layer.
    steps
        Those above it, ascending.
    unit
        Cycles of which all paces are multiples.
    """

    def __init__(self, choices: Choices, most: int) -> None:
        assert choices.timing is not None
        self.beats: list[int] = choices.timing.beats.tolist()
        self.floors = [offer.loads[0] for offer in choices.offers]
        reached = [set(offer.loads) for offer in choices.offers]
        for producer, consumer in choices.timing.leads:
            self.floors[consumer] = max(self.floors[consumer], self.floors[producer])
            reached[consumer] |= reached[producer]
        if choices.waiting_pays:
            reached = [set().union(*reached)] * len(reached)
        self.steps = [
            sorted(level for level in levels if floor < level <= most)
            for levels, floor in zip(reached, self.floors, strict=True)
        ]
        pairs = zip(self.floors, self.steps, self.beats, strict=True)
        self.unit = gcd(*(level // beats for floor, steps, beats in pairs for level in (floor, *steps)))

    def paces(self, i: int) -> list[int]:
        """Return the pace of a layer at each of its levels, in units."""
        return [level // self.beats[i] // self.unit for level in (self.floors[i], *self.steps[i])]


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    m = pyo.ConcreteModel(name="columns_pipeline")
    m.choices = choices = Choices(problem)
    loads = [offer.loads for offer in choices.offers]
    counts = [[split.pes for split in offer.splits] for offer in choices.offers]
    longer = [(i, k) for i, offer in enumerate(loads) for k in range(1, len(offer))]
    m.SLOW = pyo.Set(dimen=2, initialize=longer)
    m.slow = pyo.Var(m.SLOW, domain=pyo.Binary)  # the layer has its k-th load, from 0, or a longer one
    m.nothing = pyo.Var(bounds=(0, 0))  # so that what is constant can be constrained

    def slow(i: int, k: int) -> Any:
        return m.slow[i, k] if 0 < k < len(loads[i]) else int(k == 0) + m.nothing

    def as_long(i: int, load: int) -> Any:
        return slow(i, bisect_left(loads[i], load))

    def as_large(i: int, pes: int) -> Any:
        return 1 - slow(i, sum(count >= pes for count in counts[i]))

    @m.Constraint(m.SLOW)
    def loads_ascend(m: Any, i: int, k: int) -> Any:
        return slow(i, k) <= slow(i, k - 1)

    if problem.parallel:
        used, interval = all_together(m, counts), _largest(m, loads, as_long)
    else:
        used, interval = _largest(m, counts, as_large), all_together(m, loads)
    m.used, m.interval = pyo.Expression(expr=used), pyo.Expression(expr=interval)
    m.fits = pyo.Constraint(expr=used <= problem.machine.pes)
    if problem.most_interval is not None:
        m.rate = pyo.Constraint(expr=interval <= problem.most_interval)  # (18) to (20)
    goal, m.unit, base = (used, 1, 0) if problem.minimise == "pes" else (interval, choices.unit, 0)
    if problem.parallel and energy_counts(problem):
        m.energy = pyo.Expression(expr=_energy(m))
        if problem.minimise == "energy":
            goal, m.unit, base = m.energy, *energy_units(choices)
    if choices.timing is not None:
        longest = choices.longest if extras else max(map(max, loads))
        m.levels = Levels(choices, longest)
        _add_paces(m, m.levels, as_long)
        if problem.minimise == "latency":
            goal, m.unit = latency_of(m), m.levels.unit

        @m.Constraint(range(len(loads)))
        def worth_finding(m: Any, i: int) -> Any:
            return slow(i, bisect_right(loads[i], longest)) == m.nothing

    # Counted from a bound, objectives are small.
    m.offset = base + (best_bound(problem).value - base) // m.unit * m.unit
    m.cost = pyo.Objective(expr=(goal - m.offset) / m.unit)
    if extras:
        m.no_less = pyo.Constraint(expr=goal >= m.offset)
    return m


def all_together(m: Any, tables: Sequence[Sequence[int]]) -> Any:
    """Return the sum of the layers' values, which are in these tables."""
    gains = ((tables[i][k] - tables[i][k - 1]) * m.slow[i, k] for i, k in m.SLOW)
    return sum(table[0] for table in tables) + m.nothing + sum(gains)


def energy_units(choices: Choices) -> tuple[int, int]:
    """Return femtojoules of which all energies are multiples but for a constant, and that constant."""
    rest = leakage_per_cycle(choices.problem, 0)
    more = leakage_per_cycle(choices.problem, 1) - rest
    least = [min(each) for each in choices.energies]
    steps = [spent - low for each, low in zip(choices.energies, least, strict=True) for spent in each]
    return max(1, gcd(*steps, rest, more)), sum(least)


def _energy(m: Any) -> Any:
    """Return the energy of a frame of layers that work at the same time.

    Leakage is a product of the interval and of what all PEs take in a cycle. PEs are counted once more for
    each threshold that the interval has reached.
    """
    problem = m.choices.problem
    rest, pes = leakage_per_cycle(problem, 0), problem.machine.pes
    more = leakage_per_cycle(problem, 1) - rest
    m.leaking = pyo.Var(m.THRESHOLDS, bounds=(0, pes))  # PEs, 0 where the threshold is not reached

    @m.Constraint(m.THRESHOLDS)
    def leaks_if_reached(m: Any, t: int) -> Any:
        return m.leaking[t] >= m.used - pes * (1 - m.reached[t])

    @m.Constraint(m.THRESHOLDS)
    def leaks_only_if_reached(m: Any, t: int) -> Any:
        return m.leaking[t] <= pes * m.reached[t]

    @m.Constraint(m.THRESHOLDS)
    def leaks_no_more_than_all(m: Any, t: int) -> Any:
        return m.leaking[t] <= m.used

    at_once = (
        (m.thresholds[t] - (m.thresholds[t - 1] if t else m.floor)) * m.leaking[t] for t in m.THRESHOLDS
    )
    leakage = rest * m.interval + more * (m.floor * m.used + sum(at_once))
    return all_together(m, m.choices.energies) + leakage


def _largest(m: Any, tables: Sequence[Sequence[int]], reaches: Callable[[int, int], Any]) -> Any:
    """Return the largest of the layers' values, which are in these tables."""
    m.floor = floor = max(map(min, tables))
    m.thresholds = sorted({value for table in tables for value in table if value > floor})
    m.THRESHOLDS = pyo.RangeSet(0, len(m.thresholds) - 1)
    m.reached = pyo.Var(m.THRESHOLDS, domain=pyo.Binary)  # some layer's value is as large as the threshold

    @m.Constraint(m.THRESHOLDS, range(len(tables)))
    def at_least_each(m: Any, t: int, i: int) -> Any:
        value = m.thresholds[t]
        return m.reached[t] >= reaches(i, value) if value in tables[i] else pyo.Constraint.Skip

    @m.Constraint(m.THRESHOLDS)
    def no_more_than_all(m: Any, t: int) -> Any:
        return m.reached[t] <= sum(reaches(i, m.thresholds[t]) for i in range(len(tables)))

    @m.Constraint(m.THRESHOLDS)
    def thresholds_ascend(m: Any, t: int) -> Any:
        return m.reached[t] <= m.reached[t - 1] if t else pyo.Constraint.Skip

    gains = (m.reached[t] * (m.thresholds[t] - (m.thresholds[t - 1] if t else floor)) for t in m.THRESHOLDS)
    return floor + m.nothing + sum(gains)


def _add_paces(m: Any, levels: Levels, as_long: Callable[[int, int], Any]) -> None:
    """Let paces follow from loads, where all layers work at the same time (9)."""
    choices: Choices = m.choices
    layers = range(len(levels.steps))
    m.LEVELS = pyo.Set(dimen=2, initialize=[(i, t) for i in layers for t in range(len(levels.steps[i]))])
    m.level = pyo.Var(m.LEVELS, bounds=(0, 1))  # the layer's level is its t-th above the least, or more
    m.uniform = pyo.Var(domain=pyo.Binary)  # all layers wait for the slowest
    m.uniform.setub(int(choices.waiting_pays))
    m.pace = pyo.Var(layers, bounds=lambda _, i: (0, levels.paces(i)[-1]))  # in units, as all times are
    _constrain_levels(m, levels, as_long)

    @m.Constraint(layers)
    def whole_cycles(m: Any, i: int) -> Any:
        paces = levels.paces(i)
        gains = (m.level[i, t] * (paces[t + 1] - paces[t]) for t in range(len(levels.steps[i])))
        return m.pace[i] == paces[0] + sum(gains)


def _constrain_levels(m: Any, levels: Levels, as_long: Callable[[int, int], Any]) -> None:
    """Let each layer's level be the longest load at or before it, or of all layers (9)."""
    choices: Choices = m.choices
    assert choices.timing is not None
    leads = choices.timing.leads
    producers = [
        [producer for producer, consumer in leads if consumer == i] for i in range(len(levels.steps))
    ]

    def level(i: int, value: int) -> Any:
        t = bisect_left(levels.steps[i], value)
        if value <= levels.floors[i]:
            return 1
        return m.level[i, t] if t < len(levels.steps[i]) else 0

    def reached(value: int) -> Any:
        t = bisect_left(m.thresholds, value)
        if value <= m.floor:
            return 1
        return m.reached[t] if t < len(m.thresholds) else 0

    @m.Constraint(m.LEVELS)
    def levels_ascend(m: Any, i: int, t: int) -> Any:
        return m.level[i, t] <= m.level[i, t - 1] if t else pyo.Constraint.Skip

    @m.Constraint(m.LEVELS)
    def at_least_own(m: Any, i: int, t: int) -> Any:
        value = levels.steps[i][t]
        own = value in choices.offers[i].loads
        return m.level[i, t] >= as_long(i, value) if own else pyo.Constraint.Skip

    @m.Constraint([(i, t, producer) for i, t in m.LEVELS for producer in producers[i]])
    def at_least_before(m: Any, i: int, t: int, producer: int) -> Any:
        return m.level[i, t] >= level(producer, levels.steps[i][t])

    @m.Constraint(m.LEVELS)
    def no_more(m: Any, i: int, t: int) -> Any:
        value = levels.steps[i][t]
        before = sum(level(producer, value) for producer in producers[i])
        return m.level[i, t] <= as_long(i, value) + before + m.uniform

    if choices.waiting_pays:

        @m.Constraint(m.LEVELS)
        def waits_for_all(m: Any, i: int, t: int) -> Any:
            return m.level[i, t] >= reached(levels.steps[i][t]) + m.uniform - 1

        @m.Constraint(m.LEVELS)
        def waits_for_some(m: Any, i: int, t: int) -> Any:
            return m.level[i, t] <= reached(levels.steps[i][t])


def latency_of(m: Any) -> Any:
    """Return the latency, with starts and itself bounded from below by paces (3, 10 to 12)."""
    levels: Levels = m.levels
    leads, layers = m.choices.timing.leads, range(len(levels.steps))
    m.begin = pyo.Var(layers, domain=pyo.NonNegativeReals)
    m.latency = pyo.Var(domain=pyo.NonNegativeReals)
    corners = [(*edge, corner) for edge, lead in leads.items() for corner in range(len(lead.done))]

    @m.Constraint(corners)
    def not_early(m: Any, producer: int, consumer: int, corner: int) -> Any:
        ahead, done = (int(beats[corner]) for beats in leads[producer, consumer])
        return m.begin[consumer] >= m.begin[producer] + ahead * m.pace[producer] - done * m.pace[consumer]

    @m.Constraint(layers)
    def ends(m: Any, i: int) -> Any:
        return m.latency >= m.begin[i] + levels.beats[i] * m.pace[i]

    return levels.unit * m.latency


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in the plan of the model's space that a plan becomes."""
    choices: Choices = m.choices
    problem, offers = choices.problem, choices.offers
    indices, pacing = choices.indices(plan)
    for i, k in m.SLOW:
        m.slow[i, k] = int(indices[i] >= k)
    m.nothing = 0
    splits = [offer.splits[index] for offer, index in zip(offers, indices, strict=True)]
    loads = [offer.loads[index] for offer, index in zip(offers, indices, strict=True)]
    largest = max(loads) if problem.parallel else max(split.pes for split in splits)
    for t in m.THRESHOLDS:
        m.reached[t] = int(largest >= m.thresholds[t])
        if hasattr(m, "leaking"):
            m.leaking[t] = m.reached[t].value * sum(split.pes for split in splits)
    if choices.timing is None:
        return
    times = schedule(problem, choices.plan(indices, pacing), choices.timing.scan)
    levels = choices.timing.matched(np.array([loads]))[0]
    m.uniform = int(pacing == PACINGS[1])
    for i, t in m.LEVELS:
        m.level[i, t] = int((levels[i], largest)[m.uniform.value] >= m.levels.steps[i][t])
    for i, pace in enumerate(times.paces):
        m.pace[i] = pace // m.levels.unit
    if hasattr(m, "latency"):
        for i, begin in enumerate(times.starts):
            m.begin[i] = begin // m.levels.unit
        m.latency = times.latency // m.levels.unit


def read(m: Any) -> Plan:
    """Return the plan that the variables describe."""
    choices: Choices = m.choices
    waits = choices.waiting_pays and (m.uniform.value or 0) > 0.5  # it has none where no level is open
    return trim_plan(choices.problem, choices.plan(chosen(m), PACINGS[waits]))


def chosen(m: Any) -> list[int]:
    """Return the number of the split that each layer has."""
    return [
        sum(m.slow[i, k].value > 0.5 for k in range(1, len(offer.loads)))
        for i, offer in enumerate(m.choices.offers)
    ]
