"""An integer program by columns: the operations are divided into steps; tensors stay or do not.

Its columns are steps that ``tilewright.residency.enumerated_steps`` lists and prices. No plan is lost: of
steps with the same operations and the same places of tensors before and after, those are left out that take
no less memory than another and move no less.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyomo.environ as pyo

from tilewright.residency import Plan, Problem
from tilewright.residency.enumerated_steps import CERTAIN, Columns, places_of, why_not
from tilewright.spec.errors import InputError

__all__ = ["build", "read", "size", "start", "suits", "why_not"]


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem."""
    return why_not(problem) is None


def size(problem: Problem) -> int:
    """Return about how many constraints there are."""
    return 40 * len(places_of(problem)) ** 2


def build(problem: Problem) -> Any:
    """Return the model."""
    found = Columns(problem)
    columns, last = found.columns, len(found.places) - 1
    if found.allowed > CERTAIN * found.parts:
        limit = f"may cost {found.allowed // found.parts:,} beyond the least, {CERTAIN:,} can be told apart"
        raise InputError("network.layers", len(found.graph.operations), limit)
    m = pyo.ConcreteModel(name="columns_intervals")
    m.found, m.unit, m.offset = found, found.unit, found.base * found.unit
    m.largest = max(1, found.allowed // found.parts)
    m.COLUMNS, m.TENSORS = pyo.RangeSet(0, len(columns) - 1), pyo.Set(initialize=found.tensors)
    m.PLACES = pyo.RangeSet(0, last)  # which operations have been executed
    m.chosen = pyo.Var(m.COLUMNS, domain=pyo.Binary)
    m.on_chip = pyo.Var(m.TENSORS, m.PLACES, domain=pyo.Binary)
    m.nowhere = pyo.Var(bounds=(0, 0))  # so that sums of nothing are expressions
    for tensor, place in m.on_chip:
        if place == 0 or not found.live(tensor, place):
            m.on_chip[tensor, place].fix(0)
    beginning: dict[int, list[int]] = {place: [] for place in m.PLACES}
    ending: dict[int, list[int]] = {place: [] for place in m.PLACES}
    for number, column in enumerate(columns):
        beginning[column.begin].append(number)
        ending[column.end].append(number)

    def some(numbers: Iterable[int]) -> Any:
        """Return how many of some steps are chosen."""
        return m.nowhere + sum(m.chosen[number] for number in numbers)

    @m.Constraint(m.PLACES)
    def steps_follow_each_other(m: Any, place: int) -> Any:
        return some(ending[place]) + int(place == 0) == some(beginning[place]) + int(place == last)

    @m.Constraint(m.TENSORS, m.PLACES)
    def needed_tensors_are_on_chip(m: Any, tensor: int, place: int) -> Any:
        needing = [number for number in beginning[place] if columns[number].needs >> tensor & 1]
        return some(needing) <= m.on_chip[tensor, place]

    @m.Constraint(m.TENSORS, m.PLACES)
    def tensors_read_from_dram_are_written(m: Any, tensor: int, place: int) -> Any:
        if problem.graph.tensors[tensor].given:
            return pyo.Constraint.Skip
        written = some(n for n, column in enumerate(columns) if column.written >> tensor & 1)
        return some(n for n in beginning[place] if columns[n].reads >> tensor & 1) <= written

    @m.Constraint(m.TENSORS, sorted({(column.begin, column.end) for column in columns}))
    def untouched_tensors_were_on_chip_before(m: Any, tensor: int, begin: int, end: int) -> Any:
        between = (number for number in beginning[begin] if columns[number].end == end)
        passing = some(number for number in between if not columns[number].touched >> tensor & 1)
        return m.on_chip[tensor, end] <= m.on_chip[tensor, begin] + 1 - passing

    @m.Constraint(m.TENSORS, m.PLACES)
    def touched_tensors_stay_only_if_kept(m: Any, tensor: int, place: int) -> Any:
        gone = (n for n in ending[place] if (columns[n].touched & ~columns[n].keeps) >> tensor & 1)
        return m.on_chip[tensor, place] <= 1 - some(gone)

    @m.Constraint(m.COLUMNS)
    def all_fits_on_chip(m: Any, number: int) -> Any:
        column, passing = columns[number], found.passing(columns[number])
        sizes = {tensor: problem.graph.tensors[tensor].size for tensor in passing}
        total, room = sum(sizes.values()), problem.machine.capacity - column.memory
        if total <= room:
            return pyo.Constraint.Skip
        held = sum(size * m.on_chip[tensor, column.end] for tensor, size in sizes.items())
        return held <= room + (total - room) * (1 - m.chosen[number])

    @m.Constraint(pyo.RangeSet(1, len(found.most)))
    def limits_are_kept(m: Any, limited: int) -> Any:
        spent = sum(column.costs[limited] * m.chosen[n] for n, column in enumerate(columns))
        return m.nowhere + spent <= found.most[limited - 1]

    m.beyond = pyo.Var(domain=pyo.Integers, bounds=(0, found.worst))

    @m.Constraint()
    def what_is_spent_is_rounded_up(m: Any) -> Any:
        spent = sum(column.costs[0] * m.chosen[n] for n, column in enumerate(columns))
        return spent + m.nowhere <= found.parts * (found.base + m.beyond)

    m.cost = pyo.Objective(expr=m.beyond)
    return m


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in a plan, or in a known one that costs less; without one to 0."""
    values = m.found.start(plan)
    chosen, on_chip = values if values is not None else ([], set())
    for number in m.chosen:
        m.chosen[number] = int(number in set(chosen))
    for tensor, place in m.on_chip:
        if not m.on_chip[tensor, place].fixed:
            m.on_chip[tensor, place] = int((tensor, place) in on_chip)
    m.nowhere = 0
    spent = sum(m.found.columns[number].costs[0] for number in chosen)
    m.beyond = max(0, -(-spent // m.found.parts) - m.found.base)


def read(m: Any) -> Plan:
    """Return the plan that the variables describe."""
    chosen = [number for number in m.chosen if (m.chosen[number].value or 0) > 0.5]
    on_chip = {key: (m.on_chip[key].value or 0) > 0.5 for key in m.on_chip}
    plan: Plan = m.found.plan(chosen, on_chip)
    return plan
