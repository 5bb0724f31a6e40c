"""An integer program by columns: the operations are divided into steps; tensors stay or do not.

Its columns are steps that ``tilewright.residency.enumerated_steps`` lists and prices. No plan is lost: of
steps with the same operations and the same places of tensors before and after, those are left out that take
no less memory than another and move no less.
"""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from tilewright.residency import Plan, Problem
from tilewright.residency.enumerated_steps import Columns, takes


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem."""
    return takes(problem)


def size(problem: Problem) -> int:
    """Return about how many constraints there are."""
    return 40 * len(problem.graph.operations) ** 2


def build(problem: Problem) -> Any:
    """Return the model."""
    found = Columns(problem)
    columns, ends = found.columns, range(len(found.numbers) + 1)
    m = pyo.ConcreteModel(name="intervals")
    m.found, m.unit = found, problem.machine.element_bytes
    m.offset = problem.graph.compulsory * m.unit
    m.largest = max(1, found.worst - problem.graph.compulsory)
    m.COLUMNS, m.TENSORS = pyo.RangeSet(0, len(columns) - 1), pyo.Set(initialize=found.tensors)
    m.PLACES = pyo.Set(initialize=list(ends))  # so many operations have been executed
    m.chosen = pyo.Var(m.COLUMNS, domain=pyo.Binary)
    m.on_chip = pyo.Var(m.TENSORS, m.PLACES, domain=pyo.Binary)
    m.nowhere = pyo.Var(bounds=(0, 0))  # so that sums of nothing are expressions
    for tensor, place in m.on_chip:
        if not found.live(tensor, place) or (place == 0 and problem.graph.tensors[tensor].given):
            m.on_chip[tensor, place].fix(0)

    def some(condition: Any) -> Any:
        """Return how many steps of a kind there are."""
        return m.nowhere + sum(m.chosen[n] for n, column in enumerate(columns) if condition(column))

    @m.Constraint(m.PLACES)
    def steps_follow_each_other(m: Any, place: int) -> Any:
        ending = some(lambda c: c.end == place) + int(place == 0)
        return ending == some(lambda c: c.begin == place) + int(place == ends[-1])

    @m.Constraint(m.TENSORS, m.PLACES)
    def needed_tensors_are_on_chip(m: Any, tensor: int, place: int) -> Any:
        return some(lambda c: c.begin == place and c.needs >> tensor & 1) <= m.on_chip[tensor, place]

    @m.Constraint(m.TENSORS, m.PLACES)
    def tensors_read_from_dram_are_written(m: Any, tensor: int, place: int) -> Any:
        if problem.graph.tensors[tensor].given:
            return pyo.Constraint.Skip
        written = some(lambda c: c.written >> tensor & 1)
        return some(lambda c: c.begin == place and c.reads >> tensor & 1) <= written

    @m.Constraint(m.TENSORS, [(begin, end) for end in ends for begin in range(end)])
    def untouched_tensors_were_on_chip_before(m: Any, tensor: int, begin: int, end: int) -> Any:
        passing = some(lambda c: (c.begin, c.end) == (begin, end) and not c.touched >> tensor & 1)
        return m.on_chip[tensor, end] <= m.on_chip[tensor, begin] + 1 - passing

    @m.Constraint(m.TENSORS, m.PLACES)
    def touched_tensors_stay_only_if_kept(m: Any, tensor: int, place: int) -> Any:
        gone = some(lambda c: c.end == place and c.touched >> tensor & 1 and not c.keeps >> tensor & 1)
        return m.on_chip[tensor, place] <= 1 - gone

    @m.Constraint(m.COLUMNS)
    def all_fits_on_chip(m: Any, number: int) -> Any:
        column, passing = columns[number], found.passing(columns[number])
        sizes = {tensor: problem.graph.tensors[tensor].size for tensor in passing}
        total, room = sum(sizes.values()), problem.machine.capacity - column.memory
        if total <= room:
            return pyo.Constraint.Skip
        held = sum(size * m.on_chip[tensor, column.end] for tensor, size in sizes.items())
        return held <= room + (total - room) * (1 - m.chosen[number])

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
