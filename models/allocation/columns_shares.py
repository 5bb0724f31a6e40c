"""A constraint model for CP-SAT of the splits of all layers: one literal for each split on offer.

On offer are the splits that docs/allocation-search.md argues to be enough, or all that constraints tell
apart. Their loads are computed beforehand; `reference.mzn` states what splits are and cost.

PEs and loads are sums of them. Where layers work at the same time and latency counts, levels are maxima
(equation 9), paces are levels divided by a layer's beats and rounded down, and starts (10, 11) are bounded by
differences of paces.

Extras: no objective above that of a known plan, and none below a known bound.
"""

from __future__ import annotations

from typing import Any

from ortools.sat.python import cp_model

from tilewright.allocation import Plan, Problem, best_bound
from tilewright.allocation.exact import constrained
from tilewright.allocation.exact.trimming import trim_plan
from tilewright.allocation.plan import PACINGS
from tilewright.allocation.split_options import Choices, chooses
from tilewright.allocation.split_options import why_not as why_not
from tilewright.allocation.vocabulary import split_value
from tilewright.spec.constraints import Term

WRITTEN_FOR = "cpsat"

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
    "latency",
    "pacing",
)

LARGEST = 2**45
"""Largest objective, which leaves room for sums and products in 63 bits."""


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem; where rows are divided, it knows no times of starts."""
    rows_divided = "rows" in problem.limits.splits
    if problem.constraints and rows_divided and constrained.depends_on_starts(problem):
        return False
    return chooses(problem) and Choices(problem).worst() <= LARGEST


def size(problem: Problem) -> int:
    """Return about how many constraints there are: one for each split."""
    return sum(len(offer.loads) for offer in Choices(problem).offers)


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    m: Any = cp_model.CpModel()
    m.choices = choices = Choices(problem)
    layers = range(len(choices.offers))
    loads = [offer.loads for offer in choices.offers]
    m.chosen = [[m.new_bool_var(f"chosen[{i},{s}]") for s in range(len(loads[i]))] for i in layers]
    m.uniform = m.new_bool_var("uniform")  # all layers wait for the slowest, not only for those before them
    if not choices.waiting_pays:
        m.add(m.uniform == 0).with_name("nobody waits in vain")

    def sum_of(values: list[int], i: int) -> Any:
        return sum(value * one for value, one in zip(values, m.chosen[i], strict=True))

    m.sum_of = sum_of
    pes, load = [], []
    for i in layers:
        m.add_exactly_one(m.chosen[i]).with_name(f"a split for layer {i}")
        counts = [split.pes for split in choices.offers[i].splits]
        pes.append(sum_of(counts, i))
        load.append(
            m.new_int_var_from_domain(cp_model.Domain.from_values(sorted(set(loads[i]))), f"load[{i}]")
        )
        m.add(load[i] == sum_of(list(loads[i]), i)).with_name(f"loads belong to splits (4, 6): {i}")
    used = m.new_int_var(1, problem.machine.pes, "used")
    longest = max(map(max, loads)) if problem.parallel else sum(map(max, loads))
    interval = m.new_int_var(1, min(longest, problem.most_interval or longest), "interval")
    if problem.parallel:
        m.add(used == sum(pes)).with_name("the array has PEs for all layers")
        m.add_max_equality(interval, load).with_name("frames follow as fast as the slowest layer (3, 5)")
    else:
        m.add_max_equality(used, pes).with_name("the array has PEs for each layer")
        m.add(interval == sum(load)).with_name("layers take turns (13)")

    m.used, m.interval = used, interval
    goal, m.unit = (used, 1) if problem.minimise == "pes" else (interval, choices.unit)
    if choices.timing is not None:
        latency = _latency(m, load, interval, longest)
        goal = latency if problem.minimise == "latency" else goal
    if m.unit > 1:
        scaled = m.new_int_var(0, longest // m.unit, "objective")
        m.add(m.unit * scaled == goal).with_name("objective (3, 12, 13)")
        goal = scaled
    # Counted from a bound, objectives are small.
    bound = best_bound(problem).value // m.unit if extras else 0
    m.offset = bound * m.unit
    m.minimize(goal - bound)
    if extras:
        m.add(goal >= bound).with_name("no less than proven")
        m.add(goal <= choices.worst()).with_name("worth finding")
    return m


def _latency(m: Any, load: list[Any], interval: Any, longest: int) -> Any:
    """Return the latency, when all layers work at the same time (3 to 12)."""
    timing = m.choices.timing
    leads, layers, beats = timing.leads, range(len(load)), timing.beats.tolist()
    horizon = len(load) * longest
    own = [m.new_int_var(1, longest, f"own[{i}]") for i in layers]
    level = [m.new_int_var(1, longest, f"level[{i}]") for i in layers]
    pace = [m.new_int_var(0, longest // beats[i], f"pace[{i}]") for i in layers]
    begin = [m.new_int_var(0, horizon, f"begin[{i}]") for i in layers]
    m.latency = m.new_int_var(1, horizon, "latency")
    m.pace, m.begin, m.beats = pace, begin, beats
    ready: list[list[Any]] = [[0] for _ in layers]
    for i in layers:
        before = [own[producer] for producer, consumer in leads if consumer == i]
        m.add_max_equality(own[i], [load[i], *before]).with_name(f"throughputs are matched (9): {i}")
        m.add(level[i] == own[i]).only_enforce_if(~m.uniform)
        m.add(level[i] == interval).only_enforce_if(m.uniform)
        m.add(level[i] >= own[i])
        m.add_division_equality(pace[i], level[i], beats[i]).with_name(f"whole cycles (9): {i}")
        m.add(m.latency >= begin[i] + beats[i] * pace[i]).with_name(f"layers are busy to the end (11): {i}")
    for (producer, consumer), lead in leads.items():
        for ahead, done in zip(lead.ahead.tolist(), lead.done.tolist(), strict=True):
            ready[consumer].append(begin[producer] + ahead * pace[producer] - done * pace[consumer])
            m.add(begin[consumer] >= ready[consumer][-1]).with_name(
                f"no beat begins early (10, 11): {producer}, {consumer}"
            )
    if m.choices.problem.constraints:  # which may ask for late starts and ends
        for i in layers:
            m.add_max_equality(begin[i], ready[i]).with_name(f"layers start as soon as they can (10): {i}")
        ends = [begin[i] + beats[i] * pace[i] for i in layers]
        m.add_max_equality(m.latency, ends).with_name("a frame ends with its last layer (12)")
    return m.latency


def term(m: Any, one: Term) -> Any:
    """Return a term of the vocabulary."""
    choices: Choices = m.choices
    names = [stage.name for stage in choices.problem.stages]
    match one.word:
        case "used_pes":
            return m.used
        case "interval":
            return m.interval
        case "latency":
            return m.latency
        case "pacing":
            return 1 + m.uniform
    i = names.index(str(one.arguments[0]))
    match one.word:
        case "pace":
            return m.pace[i]
        case "start":
            return m.begin[i]
        case "busy":
            return m.beats[i] * m.pace[i]
    return m.sum_of([split_value(choices.problem, i, split, one) for split in choices.offers[i].splits], i)


def start(m: Any, plan: Plan) -> None:
    """Hint the splits that stand for a plan."""
    indices, pacing = m.choices.indices(plan)
    for index, chosen in zip(indices, m.chosen, strict=True):
        for s, one in enumerate(chosen):
            m.add_hint(one, s == index)
    m.add_hint(m.uniform, pacing == PACINGS[1])


def read(m: Any, value: Any) -> Plan:
    """Return the plan that the literals describe."""
    choices: Choices = m.choices
    indices = [next(s for s, one in enumerate(chosen) if value(one)) for chosen in m.chosen]
    plan = choices.plan(indices, PACINGS[value(m.uniform)])
    return plan if choices.problem.constraints else trim_plan(choices.problem, plan)
