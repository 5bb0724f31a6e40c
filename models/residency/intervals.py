"""An integer program: the operations, in their order, are divided into steps; tensors stay or do not."""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from tilewright.residency import Plan, Problem
from tilewright.residency.columns import Columns, takes


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem."""
    return takes(problem)


def size(problem: Problem) -> int:
    """Return about how many constraints there are."""
    return 40 * len(problem.graph.operations) ** 2


def build(problem: Problem) -> Any:
    """Return the model."""
    found = Columns(problem)
    columns, tensors, ends = found.columns, found.tensors, range(len(found.numbers) + 1)
    m = pyo.ConcreteModel(name="intervals")
    m.found, m.unit = found, problem.machine.element_bytes
    m.offset = problem.graph.compulsory * m.unit
    m.largest = max(1, found.worst - problem.graph.compulsory)
    m.chosen = pyo.Var(range(len(columns)), domain=pyo.Binary)
    m.on_chip = pyo.Var(tensors, ends, domain=pyo.Binary)
    m.nowhere = pyo.Var(bounds=(0, 0))  # so that sums of nothing are expressions

    def some(condition: Any) -> Any:
        return m.nowhere + sum(m.chosen[n] for n, column in enumerate(columns) if condition(column))

    @m.Constraint(ends)
    def steps_follow_each_other(m: Any, place: int) -> Any:
        left = some(lambda c: c.end == place) + int(place == 0)
        return left == some(lambda c: c.begin == place) + int(place == ends[-1])

    m.rules = pyo.ConstraintList()
    for tensor in tensors:
        given = problem.graph.tensors[tensor].given
        written = some(lambda c, t=tensor: c.written >> t & 1)
        for place in ends:
            if not found.live(tensor, place):
                m.on_chip[tensor, place].fix(0)
            needing = some(lambda c, t=tensor, p=place: c.begin == p and c.needs >> t & 1)
            m.rules.add(needing <= m.on_chip[tensor, place])
            if not given:
                m.rules.add(some(lambda c, t=tensor, p=place: c.begin == p and c.reads >> t & 1) <= written)
            # Nothing is on chip after a step that was not on chip before, or in the step.
            for before in range(place):
                kept = [
                    n
                    for n, c in enumerate(columns)
                    if (c.begin, c.end) == (before, place) and not c.touched >> tensor & 1
                ]
                m.rules.add(
                    m.on_chip[tensor, place]
                    <= m.on_chip[tensor, before] + 1 - sum(m.chosen[n] for n in kept) + m.nowhere
                )
            gone = some(
                lambda c, t=tensor, p=place: c.end == p and c.touched >> t & 1 and not c.keeps >> t & 1
            )
            m.rules.add(m.on_chip[tensor, place] <= 1 - gone)
        if given:
            m.on_chip[tensor, 0].fix(0)
    capacity = problem.machine.capacity
    for number, column in enumerate(columns):
        passing = found.passing(column)
        total = sum(problem.graph.tensors[t].size for t in passing)
        room = capacity - column.memory
        if total > room:
            held = sum(problem.graph.tensors[t].size * m.on_chip[t, column.end] for t in passing)
            m.rules.add(held <= room + (total - room) * (1 - m.chosen[number]))
    moved = sum(column.moved * m.chosen[n] for n, column in enumerate(columns))
    m.cost = pyo.Objective(expr=moved + m.nowhere - problem.graph.compulsory)
    return m


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in a plan, or to 0 where the plan has steps of another kind."""
    values = m.found.values(plan)
    chosen, on_chip = values if values is not None else ([], set())
    for number in m.chosen:
        m.chosen[number] = int(number in set(chosen))
    for tensor, place in m.on_chip:
        if not m.on_chip[tensor, place].fixed:
            m.on_chip[tensor, place] = int((tensor, place) in on_chip)
    m.nowhere = 0


def read(m: Any) -> Plan:
    """Return the plan that the variables describe."""
    chosen = [number for number in m.chosen if (m.chosen[number].value or 0) > 0.5]
    on_chip = {key: (m.on_chip[key].value or 0) > 0.5 for key in m.on_chip}
    plan: Plan = m.found.plan(chosen, on_chip)
    return plan
