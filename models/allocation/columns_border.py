"""An integer program for a pipeline whose plans decide what stays on chip: the least interval.

All layers keep pace with the interval, so what an output takes in the buffers follows from the interval, and
from whether it is spilled (docs/allocation-search.md). An interval is the longest load of the splits, or the
time in which all bytes cross the chip's border; both are listed beforehand, with the words of each map. There
is a variable for each of these intervals, one for each weight and map that can leave the chip, and one for
each map and interval together.

Extra: no less than a known bound.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyomo.environ as pyo

from tilewright.allocation import Plan, Problem, best_bound
from tilewright.allocation.exact.off_chip_search import Items, Rises, rises_of, with_choice, words_at
from tilewright.allocation.exact.options import cheapest_within, least_interval, offers_of
from tilewright.allocation.exact.trimming import plan_of
from tilewright.allocation.geometry import Numbers, Scan
from tilewright.allocation.off_chip import transfer_cycles
from tilewright.allocation.schedule import schedule

from .columns_turns import WORDS, term

__all__ = ["WORDS", "build", "read", "size", "start", "suits", "term", "why_not"]

LARGEST = 10**8
"""Most cycles or bytes of a frame whose neighbours are still apart within HiGHS's tolerances."""

MOST_INTERVALS = 3000
"""Most intervals that are listed."""


def why_not(problem: Problem) -> str | None:
    """Say why the formulation does not take a problem, or None."""
    if not problem.parallel or problem.machine.off_chip is None or problem.minimise != "interval":
        return (
            "layers do not work at the same time with machine.off_chip; columns_turns is for layers in turn"
        )
    listed = _listed(problem)
    if listed is None:
        return f"there are more than {MOST_INTERVALS:,} intervals to choose from"
    longest = max(listed.intervals, default=0)
    most = max(longest, _bytes_within(problem, longest))
    if most > LARGEST:
        return f"numbers up to {most:,} may occur, solvers tell {LARGEST:,} apart"
    return None


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem."""
    return why_not(problem) is None


def size(problem: Problem) -> int:
    """Return about how many constraints there are: one for each map and interval."""
    listed = _listed(problem)
    assert listed is not None
    return (1 + len(Items(problem).spilled)) * len(listed.intervals)


class _Listed(NamedTuple):
    """Intervals, ascending, and of those that are loads with splits of just that load, which these are."""

    intervals: tuple[int, ...]
    rises: Rises


@lru_cache(maxsize=16)
def _listed(problem: Problem) -> _Listed | None:
    """Return what intervals can be; None for too many."""
    offers, pes = offers_of(problem, every=True), problem.machine.pes
    least = least_interval(offers, pes)
    if least is None:
        return _Listed((), {})
    rises = rises_of(offers, pes, least)
    moved, each = Items(problem).bytes_of_items()
    sums = moved
    for more in each:
        sums = np.unique(np.concatenate([sums, sums + more]))
        if len(sums) > 8 * MOST_INTERVALS:
            return None
    times = {transfer_cycles(problem, int(each)) for each in sums}
    longest = problem.most_interval or max(*times, *rises, least)
    found = sorted(each for each in {*times, *rises} if least <= each <= longest)
    return _Listed(tuple(found), rises) if len(found) <= MOST_INTERVALS else None


def _bytes_within(problem: Problem, cycles: int) -> int:
    """Return the most bytes that cross the chip's border in a time."""
    link = problem.machine.off_chip
    assert link is not None
    return cycles * link.mb_per_s // problem.machine.clock_mhz


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extra."""
    m = pyo.ConcreteModel(name="columns_border")
    m.problem, m.items, m.listed = problem, Items(problem), _listed(problem)
    intervals = m.listed.intervals
    m.ITEMS = pyo.RangeSet(0, len(m.items.streamed) + len(m.items.spilled) - 1)
    m.INTERVALS = pyo.RangeSet(0, len(intervals) - 1)
    m.away = pyo.Var(m.ITEMS, domain=pyo.Binary)  # weights are streamed, or a map is spilled
    m.at = pyo.Var(m.INTERVALS, domain=pyo.Binary)  # frames follow each other at the interval
    m.one = pyo.Constraint(expr=sum(m.at.values()) == 1 if intervals else pyo.Constraint.Infeasible)
    moved, each = m.items.bytes_of_items()
    m.moved = pyo.Expression(
        expr=int(moved[0]) + sum(int(each[k, 0]) * m.away[k] for k in m.ITEMS) + 0 * sum(m.at.values())
    )
    cycles = sum(intervals[t] * m.at[t] for t in m.INTERVALS)
    most = sum(_bytes_within(problem, intervals[t]) * m.at[t] for t in m.INTERVALS)
    m.bytes_cross_in_time = pyo.Constraint(expr=m.moved <= most)
    # An interval that no layer needs is the time of the bytes, rounded up.
    fewest = {t: _bytes_within(problem, intervals[t] - 1) + 1 for t in m.INTERVALS}
    alone = sum(fewest[t] * m.at[t] for t in m.INTERVALS if intervals[t] not in m.listed.rises)
    m.somebody_needs_it = pyo.Constraint(expr=alone <= m.moved)
    if problem.machine.buffer_words is not None and intervals:
        _add_buffers(m, problem.machine.buffer_words)
    m.unit, m.offset = 1, best_bound(problem).value
    m.cost = pyo.Objective(expr=cycles - m.offset)
    if extras:
        m.no_less = pyo.Constraint(expr=cycles >= m.offset)
    return m


def _add_buffers(m: Any, capacity: int) -> None:
    """Let the buffers hold what stays on chip (15)."""
    problem: Problem = m.problem
    stages, streamed = problem.stages, len(m.items.streamed)
    number = {stage.name: stage.number for stage in stages}
    maps = [number[name] for name in m.items.spilled]
    m.MAPS = pyo.RangeSet(0, len(maps) - 1)
    # The map is spilled, and the interval is this one.
    m.spilled = pyo.Var(m.MAPS, m.INTERVALS, bounds=(0, 1))
    scan = Scan(problem)
    words: list[tuple[Numbers, Numbers, int]] = [words_at(problem, scan, each) for each in m.listed.intervals]

    @m.Constraint(m.MAPS, m.INTERVALS)
    def at_one_interval(m: Any, k: int, t: int) -> Any:
        return m.spilled[k, t] <= m.at[t]

    @m.Constraint(m.MAPS)
    def as_decided(m: Any, k: int) -> Any:
        return sum(m.spilled[k, t] for t in m.INTERVALS) == m.away[streamed + k]

    held = sum((int(kept.sum()) + given) * m.at[t] for t, (kept, _, given) in enumerate(words))
    held += sum(
        int(words[t][1][maps[k]] - words[t][0][maps[k]]) * m.spilled[k, t]
        for k in m.MAPS
        for t in m.INTERVALS
    )
    own = [stages[number[name]].weights for name in m.items.streamed]
    held += sum(stage.weights for stage in stages) - sum(own[k] * m.away[k] for k in range(streamed))
    m.on_chip_is_room = pyo.Constraint(expr=held <= capacity)


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in a plan."""
    away = [name in plan.streamed for name in m.items.streamed]
    away += [name in plan.spilled for name in m.items.spilled]
    for k in m.ITEMS:
        m.away[k] = int(away[k])
    interval = schedule(m.problem, plan).interval
    for t in m.INTERVALS:
        m.at[t] = int(m.listed.intervals[t] == interval)
    if hasattr(m, "spilled"):
        for k, t in m.spilled:
            m.spilled[k, t] = m.at[t].value * int(away[len(m.items.streamed) + k])


def read(m: Any) -> Plan:
    """Return the plan that the variables describe."""
    problem: Problem = m.problem
    offers = offers_of(problem, every=True)
    interval = next(m.listed.intervals[t] for t in m.INTERVALS if m.at[t].value > 0.5)
    choice = np.array([(m.away[k].value or 0) > 0.5 for k in m.ITEMS], dtype=np.bool_)
    splits = cheapest_within(offers, interval)
    assert splits is not None
    plan = with_choice(plan_of(problem, splits, "uniform"), m.items, choice)
    if schedule(problem, plan).interval == interval:
        return plan
    return with_choice(plan_of(problem, m.listed.rises[interval], "uniform"), m.items, choice)
