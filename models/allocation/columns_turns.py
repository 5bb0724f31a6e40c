"""An integer program for layers in turn: what stays on chip, so that all turns together are shortest.

Each layer has its fastest split, which docs/allocation-search.md argues to be enough. Bytes that cross the
chip's border in a turn, and words that are on chip then, are sums over what leaves the chip; both are
computed beforehand. A turn is as long as its load and its transfers, whichever is longer.

Extra: no less than a known bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo

from tilewright.allocation import Plan, Problem, best_bound
from tilewright.allocation.exact.off_chip_search import Items, with_choice
from tilewright.allocation.exact.options import in_turn, offers_of
from tilewright.allocation.exact.trimming import plan_of
from tilewright.spec.constraints import Term

WORDS = ("spilled", "weights_stay", "off_chip_bytes")

LARGEST = 10**8
"""Most cycles of a frame, whose neighbours are still apart within HiGHS's tolerances."""


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem: layers take turns, and plans decide what stays on chip."""
    if problem.parallel or problem.machine.off_chip is None or problem.minimise != "interval":
        return False
    return in_turn(offers_of(problem), problem.machine.pes) is not None and _most(problem) <= LARGEST


def size(problem: Problem) -> int:
    """Return about how many constraints there are: three for each turn."""
    return 3 * len(problem.stages)


def _most(problem: Problem) -> int:
    """Return cycles that no frame exceeds."""
    items, link = Items(problem), problem.machine.off_chip
    assert link is not None
    nothing, each = items.bytes_of_items()
    most = int(nothing.sum() + np.maximum(each, 0).sum())
    return sum(_loads(problem)) + most * problem.machine.clock_mhz // link.mb_per_s + len(problem.stages)


def _loads(problem: Problem) -> list[int]:
    chosen = in_turn(offers_of(problem), problem.machine.pes)
    assert chosen is not None
    return [split.load(stage.task) for stage, split in zip(problem.stages, chosen, strict=True)]


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extra."""
    m = pyo.ConcreteModel(name="columns_turns")
    m.items, link = Items(problem), problem.machine.off_chip
    assert link is not None
    m.problem = problem
    m.ITEMS = pyo.RangeSet(0, len(m.items.streamed) + len(m.items.spilled) - 1)
    m.TURNS = pyo.RangeSet(0, len(problem.stages) - 1)
    m.away = pyo.Var(m.ITEMS, domain=pyo.Binary)  # weights are streamed, or a map is spilled
    m.loads = _loads(problem)
    m.turn = pyo.Var(m.TURNS, domain=pyo.NonNegativeIntegers)
    moved, moved_by = m.items.bytes_of_items()
    words, words_by = m.items.words_of_items()

    def total(nothing: Any, each: Any, i: int) -> Any:
        return int(nothing[i]) + sum(int(each[k, i]) * m.away[k] for k in m.ITEMS if each[k, i])

    @m.Constraint(m.TURNS)
    def as_long_as_its_load(m: Any, i: int) -> Any:
        return m.turn[i] >= m.loads[i]

    @m.Constraint(m.TURNS)
    def as_long_as_its_transfers(m: Any, i: int) -> Any:
        return link.mb_per_s * m.turn[i] >= problem.machine.clock_mhz * total(moved, moved_by, i)

    capacity = problem.machine.buffer_words
    if capacity is not None:

        @m.Constraint(m.TURNS)
        def on_chip_is_room(m: Any, i: int) -> Any:
            return total(words, words_by, i) + 0 * m.turn[i] <= capacity

    cycles = sum(m.turn.values())
    if problem.most_interval is not None:
        m.rate = pyo.Constraint(expr=cycles <= problem.most_interval)
    m.unit, m.offset = 1, best_bound(problem).value
    m.cost = pyo.Objective(expr=cycles - m.offset)
    if extras:
        m.no_less = pyo.Constraint(expr=cycles >= m.offset)
    return m


def term(m: Any, one: Term) -> Any:
    """Return a term of the vocabulary."""
    if one.word == "off_chip_bytes":
        moved, each = m.items.bytes_of_items()
        return int(moved.sum()) + sum(int(each[k].sum()) * m.away[k] for k in m.ITEMS)
    name = str(one.arguments[0])
    if one.word == "spilled":
        return m.away[len(m.items.streamed) + m.items.spilled.index(name)]
    return 1 - m.away[m.items.streamed.index(name)] if name in m.items.streamed else 1


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in a plan."""
    away = [name in plan.streamed for name in m.items.streamed]
    away += [name in plan.spilled for name in m.items.spilled]
    for k in m.ITEMS:
        m.away[k] = int(away[k])
    moved, each = m.items.bytes_of_items()
    link = m.problem.machine.off_chip
    for i in m.TURNS:
        crossing = int(moved[i]) + sum(int(each[k, i]) for k in m.ITEMS if away[k])
        m.turn[i] = max(m.loads[i], -(-crossing * m.problem.machine.clock_mhz // link.mb_per_s))


def read(m: Any) -> Plan:
    """Return the plan that the variables describe."""
    chosen = in_turn(offers_of(m.problem), m.problem.machine.pes)
    assert chosen is not None
    # What changes nothing has no value.
    choice = np.array([(m.away[k].value or 0) > 0.5 for k in m.ITEMS], dtype=np.bool_)
    return with_choice(plan_of(m.problem, chosen), m.items, choice)
