"""`columns_pipeline` with buffers between layers that work at the same time (equation 15).

The words of an output follow from the interval and from paces of a few layers (see `BufferColumns`). There is
a variable for each of these choices, its column: of each group of layers the one with the paces and the
interval of the plan is 1. Words and starts are sums of columns.

Energy has a product, of the interval and of what all PEs leak in a cycle: PEs are counted for each threshold
that the interval has reached.

Rows are not divided, as beats would depend on the split.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from itertools import groupby, islice
from typing import Any

import pyomo.environ as pyo

from tilewright.allocation import Plan, Problem, best_bound
from tilewright.allocation.bounds import find_obstacle
from tilewright.allocation.exact.buffer_columns import BufferColumns, Pace, choices_of, groups_of
from tilewright.allocation.exact.options import least_interval
from tilewright.allocation.exact.trimming import trim_plan
from tilewright.allocation.plan import PACINGS
from tilewright.allocation.reference import counts_buffers
from tilewright.allocation.schedule import schedule
from tilewright.allocation.split_options import Choices
from tilewright.allocation.vocabulary import split_value
from tilewright.models.allocation import columns_pipeline
from tilewright.models.allocation.columns_pipeline import LARGEST, Levels
from tilewright.spec.constraints import Term

WORDS = (
    "pes",
    "split",
    "units",
    "work",
    "load",
    "used_pes",
    "interval",
    "pace",
    "start",
    "busy",
    "buffer",
    "storage",
    "latency",
    "pacing",
    "energy",
)

MOST_CHOICES = 100_000
"""Most choices of paces, of all groups together."""

MOST_PIXELS = 10**8
"""Most pixels whose lives are looked at, of outputs, for all choices and intervals: about 20 seconds."""


def why_not(problem: Problem) -> str | None:
    """Say why the formulation does not take a problem, or None."""
    if not problem.parallel or not counts_buffers(problem):
        return "buffers between layers are not limited; columns_pipeline and columns_turns are for that"
    if problem.machine.off_chip is not None:
        return "what leaves the chip is not in the model"
    if "rows" in problem.limits.splits:
        return "rows are divided, so that beats depend on splits; reference states that"
    if problem.waits:
        return "layers wait for maps from outside of the array; reference states that"
    if problem.minimise not in ("interval", "pes", "latency", "energy"):
        return f"objective.minimise = {problem.minimise!r} is not in the model"
    if find_obstacle(problem) is not None:
        return None
    choices = Choices(problem)
    worst = choices.worst()
    if problem.minimise == "energy":  # it is counted from a bound
        worst = (worst - best_bound(problem).value) // columns_pipeline.energy_units(choices)[0]
    if worst > LARGEST:
        return f"objectives up to {worst:,} may occur, solvers tell {LARGEST:,} apart"
    found, pixels = _size(problem)
    if found > MOST_CHOICES:
        return f"there are more than {MOST_CHOICES:,} choices of paces"
    if pixels > MOST_PIXELS:
        return f"lives of {pixels:,} pixels would be looked at, at most {MOST_PIXELS:,} are"
    return None


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem."""
    return why_not(problem) is None


def size(problem: Problem) -> int:
    """Return about how many constraints there are: those of `columns_pipeline`, and one for each pace."""
    constraints: int = columns_pipeline.size(problem)
    return constraints + 2 * _size(problem)[0]


@lru_cache(maxsize=16)
def _size(problem: Problem) -> tuple[int, int]:
    """Return the number of choices of paces, at most one too many, and of pixels that are looked at."""
    choices = Choices(problem)
    levels = Levels(choices, choices.longest)
    paces, intervals = _paces(levels), _intervals(choices, choices.longest)
    found = pixels = 0
    for group in groups_of(problem):
        able = choices_of(group, paces, intervals[-1]) if intervals else iter(())
        own = sum(1 for _ in islice(able, MOST_CHOICES + 1 - found))
        found += own
        pixels += own * len(intervals) * sum(levels.beats[owner] for owner in group.owners)
    return found, pixels


def _paces(levels: Levels) -> list[list[Pace]]:
    """Return the paces of each layer, with the loads that it waits for."""
    found = []
    for floor, steps, beats in zip(levels.floors, levels.steps, levels.beats, strict=True):
        alike = groupby((floor, *steps), key=lambda level, beats=beats: level // beats)  # type: ignore[misc]
        found.append([Pace(pace, (own := list(loads))[0], own[-1]) for pace, loads in alike])
    return found


def _intervals(choices: Choices, longest: int) -> list[int]:
    """Return the loads that can be the longest."""
    least = least_interval(choices.offers, choices.problem.machine.pes)
    loads = {load for offer in choices.offers for load in offer.loads}
    floor = max(offer.loads[0] for offer in choices.offers)
    return sorted(load for load in loads if max(least or longest + 1, floor) <= load <= longest)


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    m = columns_pipeline.build(problem, extras)
    m.name = "columns_buffers"
    choices: Choices = m.choices
    longest = choices.longest if extras else max(offer.loads[-1] for offer in choices.offers)
    weights = sum(stage.weights for stage in problem.stages)
    m.paces, capacity = _paces(m.levels), problem.machine.buffer_words
    most = sum(stage.channels * stage.task.rows * stage.task.columns for stage in problem.stages)
    most *= 2 + len(problem.stages)
    most = most if capacity is None else min(most, capacity - weights)
    m.table = table = BufferColumns(problem, m.paces, _intervals(choices, longest), most)
    m.GROUPS = pyo.RangeSet(0, len(table.groups) - 1)
    m.COLUMNS = pyo.RangeSet(0, len(table.columns) - 1)
    m.column = pyo.Var(m.COLUMNS, bounds=(0, 1))  # the plan has the paces and an interval of the column
    of_group = [[k for k in m.COLUMNS if table.columns[k].group == g] for g in m.GROUPS]
    _choose_columns(m, of_group)
    m.buffer = pyo.Var(range(len(problem.stages)), bounds=(0, max(most, 0)))

    @m.Constraint(range(len(problem.stages)))
    def holds_an_output(m: Any, i: int) -> Any:
        words = []
        for g, group in enumerate(table.groups):
            if i in group.owners:
                place = group.owners.index(i)
                words = [table.columns[k].words[place] * m.column[k] for k in of_group[g]]
        return m.buffer[i] == sum(words)

    m.large_enough = pyo.Constraint(expr=sum(m.buffer.values()) <= most)  # (15)
    if problem.constraints:
        _add_times(m, of_group)
    return m


def _choose_columns(m: Any, of_group: list[list[int]]) -> None:
    """Let the columns of each group be those of the paces and the interval."""
    table: BufferColumns = m.table

    def at_least(i: int, number: int) -> Any:
        """Return whether a layer has a pace, or a slower one."""
        if number >= len(m.paces[i]):
            return 0
        t = bisect_left(m.levels.steps[i], m.paces[i][number].least)
        return m.level[i, t] if number else 1

    def reached(interval: int) -> Any:
        """Return whether the interval is as long as one of the table, or longer."""
        value = table.intervals[interval]
        return 1 if value <= m.floor else m.reached[bisect_left(m.thresholds, value)]

    places = [(g, place) for g, group in enumerate(table.groups) for place in range(len(group.layers))]
    by_pace: dict[tuple[int, int, int], list[Any]] = {}
    for g, own in enumerate(of_group):
        for k in own:
            for place, number in enumerate(table.columns[k].paces):
                by_pace.setdefault((g, place, number), []).append(m.column[k])

    @m.Constraint([(g, p, n) for g, p in places for n in range(len(m.paces[table.groups[g].layers[p]]))])
    def has_its_paces(m: Any, g: int, place: int, number: int) -> Any:
        i = table.groups[g].layers[place]
        chosen = sum(by_pace.get((g, place, number), []))
        return chosen == at_least(i, number) - at_least(i, number + 1) + m.nothing

    ends = {(g, table.columns[k].first) for g, own in enumerate(of_group) for k in own}

    @m.Constraint(sorted(ends))
    def not_before_its_intervals(m: Any, g: int, first: int) -> Any:
        later = sum(m.column[k] for k in of_group[g] if table.columns[k].first >= first)
        return later <= reached(first) + m.nothing

    ends = {(g, table.columns[k].last) for g, own in enumerate(of_group) for k in own}

    @m.Constraint(sorted((g, last) for g, last in ends if last + 1 < len(table.intervals)))
    def not_after_its_intervals(m: Any, g: int, last: int) -> Any:
        earlier = sum(m.column[k] for k in of_group[g] if table.columns[k].last <= last)
        return earlier <= 1 - reached(last + 1) + m.nothing

    m.possible = pyo.Constraint(expr=m.nothing >= int(not all(of_group)))
    if table.intervals:
        m.no_faster = pyo.Constraint(expr=reached(0) + m.nothing == 1)


def _add_times(m: Any, of_group: list[list[int]]) -> None:
    """Let starts and the latency be what they are, which constraints may ask to be late."""
    table: BufferColumns = m.table
    layers = range(len(m.paces))
    # No layer waits for another one, nor is it busy, for longer than the slowest one is busy.
    horizon = (len(layers) + 1) * max(offer.loads[-1] for offer in m.choices.offers)
    m.starts = pyo.Var(layers, bounds=(0, horizon))
    m.last = pyo.Var(layers, domain=pyo.Binary)  # the frame ends with the layer
    m.end = pyo.Var(bounds=(0, horizon))

    @m.Constraint(layers)
    def starts_as_soon_as_it_can(m: Any, i: int) -> Any:  # (10)
        for g, group in enumerate(table.groups):
            if i in group.layers and i != group.entry:
                place = group.layers.index(i)
                delay = sum(table.columns[k].delays[place] * m.column[k] for k in of_group[g])
                return m.starts[i] == delay + (m.starts[group.entry] if group.entry >= 0 else 0)
        raise AssertionError(i)

    def busy(i: int) -> Any:
        return m.levels.beats[i] * m.levels.unit * m.pace[i]

    @m.Constraint(layers)
    def ends_no_earlier(m: Any, i: int) -> Any:
        return m.end >= m.starts[i] + busy(i)

    @m.Constraint(layers)
    def ends_with_one(m: Any, i: int) -> Any:  # (12)
        return m.end <= m.starts[i] + busy(i) + horizon * (1 - m.last[i])

    m.one_is_last = pyo.Constraint(expr=sum(m.last.values()) == 1)


def term(m: Any, one: Term) -> Any:
    """Return a term of the vocabulary."""
    choices: Choices = m.choices
    names = [stage.name for stage in choices.problem.stages]
    match one.word:
        case "used_pes":
            return m.used.expr
        case "interval":
            return m.interval.expr
        case "latency":
            return m.end
        case "pacing":
            return 1 + m.uniform
        case "energy":
            return m.energy.expr
        case "storage":
            return sum(stage.weights for stage in choices.problem.stages) + sum(m.buffer.values())
    i = names.index(str(one.arguments[0]))
    pace = m.levels.unit * m.pace[i]
    match one.word:
        case "pace":
            return pace
        case "start":
            return m.starts[i]
        case "busy":
            return m.levels.beats[i] * pace
        case "buffer":
            return m.buffer[i]
    values = [split_value(choices.problem, i, split, one) for split in choices.offers[i].splits]
    return values[0] + sum((values[k] - values[k - 1]) * m.slow[i, k] for k in range(1, len(values)))


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in the plan of the model's space that a plan becomes."""
    columns_pipeline.start(m, plan)
    choices: Choices = m.choices
    table: BufferColumns = m.table
    times = schedule(choices.problem, choices.plan(*choices.indices(plan)), table.scan)
    paces = [[pace.cycles for pace in own] for own in m.paces]
    for k in m.COLUMNS:
        one = table.columns[k]
        layers = table.groups[one.group].layers
        same = all(paces[i][number] == times.paces[i] for i, number in zip(layers, one.paces, strict=True))
        within = table.intervals[one.first] <= times.interval <= table.intervals[one.last]
        m.column[k] = int(same and within)
    for i, words in enumerate(times.buffers):
        m.buffer[i] = words
    if choices.problem.constraints:
        m.end = times.latency
        for i, (begin, end) in enumerate(zip(times.starts, times.ends, strict=True)):
            m.starts[i] = begin
            m.last[i] = int(end == times.latency and i == times.ends.index(end))


def read(m: Any) -> Plan:
    """Return the plan that the variables describe."""
    choices: Choices = m.choices
    plan = choices.plan(columns_pipeline.chosen(m), PACINGS[(m.uniform.value or 0) > 0.5])
    return plan if choices.problem.constraints else trim_plan(choices.problem, plan)
