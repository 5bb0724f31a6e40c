"""An integer program: of two buffers that live together, one lies above the other.

Extras: the height is at least what lives at one time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo

from tilewright.addresses import Plan, Problem
from tilewright.addresses.exact.packing import Task
from tilewright.addresses.greedy import pushed_down
from tilewright.addresses.minizinc import task_of
from tilewright.spec.constraints import Term

WORDS = ("offset",)

MOST_UNITS = 100_000
"""Most of all sizes together, and most steps of a unit: above, a solver's tolerance could hide an overlap."""


def why_not(problem: Problem) -> str | None:
    """Say why the formulation does not take a problem, or None."""
    task = task_of(problem)
    if problem.constraints and problem.memory.capacity is None:
        return "memory.capacity is needed, as constraints may ask for any height"
    if (units := max(_most(problem, task), task.unit // task.step)) > MOST_UNITS:
        return f"heights are up to {units:,} units of what all sizes have in common, at most {MOST_UNITS:,}"
    return None


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem."""
    return why_not(problem) is None


def size(problem: Problem) -> int:
    """Return about how many constraints there are: two for each pair of buffers that live together."""
    neighbours, _ = task_of(problem).sections.neighbours
    return len(neighbours) + len(problem.buffers)


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    task = task_of(problem)
    m = pyo.ConcreteModel(name="stacking")
    m.problem, m.task, m.unit, most = problem, task, task.step, _most(problem, task)
    m.largest = max(1, task.anything // task.step)
    units, steps, unit = task.units.tolist(), (task.size // task.step).tolist(), task.unit // task.step
    m.BUFFERS = pyo.RangeSet(0, len(units) - 1)
    m.PAIRS = pyo.Set(initialize=_pairs(task), dimen=2)
    m.place = pyo.Var(m.BUFFERS, domain=pyo.NonNegativeIntegers, bounds=(0, most))  # in units
    m.above = pyo.Var(m.PAIRS, domain=pyo.Binary)
    m.height = pyo.Var(bounds=(0, unit * most), domain=pyo.NonNegativeIntegers)  # in steps

    @m.Constraint(m.BUFFERS)
    def below_the_height(m: Any, one: int) -> Any:
        return unit * m.place[one] + steps[one] <= m.height

    @m.Constraint(m.PAIRS)
    def second_above_first(m: Any, one: int, other: int) -> Any:
        return m.place[one] + units[one] <= m.place[other] + most * (1 - m.above[one, other])

    @m.Constraint(m.PAIRS)
    def first_above_second(m: Any, one: int, other: int) -> Any:
        return m.place[other] + units[other] <= m.place[one] + most * m.above[one, other]

    if problem.memory.capacity is not None:
        m.within_the_capacity = pyo.Constraint(expr=m.height <= problem.memory.capacity // task.step)
    if extras:
        m.as_high_as_what_lives = pyo.Constraint(expr=m.height >= task.bound // task.step)
    m.cost = pyo.Objective(expr=m.height)
    return m


def term(m: Any, one: Term) -> Any:
    """Return a term of the vocabulary."""
    return m.task.unit * m.place[m.problem.names.index(one.arguments[0])]


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in a plan that is pushed down."""
    problem, task = m.problem, m.task
    offsets = (
        plan if problem.constraints else pushed_down(problem, plan)
    ).offsets  # which say where they lie
    for one, offset in enumerate(offsets):
        m.place[one] = offset // task.unit
    for one, other in m.PAIRS:
        m.above[one, other] = int(offsets[one] < offsets[other])
    m.height = task.height(np.array(offsets)) // task.step


def read(m: Any) -> Plan:
    """Return the plan that the variables describe."""
    return Plan(tuple(m.task.unit * round(m.place[one].value) for one in m.BUFFERS))


def _pairs(task: Task) -> list[tuple[int, int]]:
    neighbours, begins = task.sections.neighbours
    return [
        (one, other)
        for one in range(len(task.size))
        for other in neighbours[begins[one] : begins[one + 1]].tolist()
        if one < other
    ]


def _most(problem: Problem, task: Task) -> int:
    """Return a height in units that is enough: all buffers one upon the other, or the capacity.

    Constraints without a capacity may ask for any height.
    """
    if not problem.constraints:
        return int(task.units.sum())
    capacity = problem.memory.capacity
    return MOST_UNITS + 1 if capacity is None else -(-capacity // task.unit)
