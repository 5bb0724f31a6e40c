"""An integer program: of two buffers that live together, one lies above the other.

Extras: the height is at least what lives at one time.
"""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from tilewright.addresses import Plan, Problem, best_bound

MOST_HEIGHT = 100_000
"""Most of all sizes together: above, the solver's tolerance times it could hide an overlap."""


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem."""
    return _most(problem) <= MOST_HEIGHT


def size(problem: Problem) -> int:
    """Return about how many constraints there are: two for each pair of buffers that live together."""
    return 2 * len(_pairs(problem)) + len(problem.buffers)


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    m = pyo.ConcreteModel(name="stacking")
    m.problem, m.largest, step = problem, max(_most(problem), 1), problem.memory.alignment
    sizes = problem.size.tolist()
    most = _most(problem)
    m.BUFFERS = pyo.RangeSet(0, len(sizes) - 1)
    m.PAIRS = pyo.Set(initialize=_pairs(problem), dimen=2)
    m.place = pyo.Var(m.BUFFERS, domain=pyo.NonNegativeIntegers, bounds=(0, most // step))  # in alignments
    m.above = pyo.Var(m.PAIRS, domain=pyo.Binary)
    m.height = pyo.Var(bounds=(0, most), domain=pyo.NonNegativeIntegers)

    @m.Constraint(m.BUFFERS)
    def below_the_height(m: Any, one: int) -> Any:
        return step * m.place[one] + sizes[one] <= m.height

    @m.Constraint(m.PAIRS)
    def second_above_first(m: Any, one: int, other: int) -> Any:
        return step * m.place[one] + sizes[one] <= step * m.place[other] + most * (1 - m.above[one, other])

    @m.Constraint(m.PAIRS)
    def first_above_second(m: Any, one: int, other: int) -> Any:
        return step * m.place[other] + sizes[other] <= step * m.place[one] + most * m.above[one, other]

    if problem.memory.capacity is not None:
        m.within_the_capacity = pyo.Constraint(expr=m.height <= problem.memory.capacity)
    if extras:
        m.as_high_as_what_lives = pyo.Constraint(expr=m.height >= best_bound(problem).value)
    m.cost = pyo.Objective(expr=m.height)
    return m


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in a plan."""
    problem: Problem = m.problem
    for one, offset in enumerate(plan.offsets):
        m.place[one] = offset // problem.memory.alignment
    for one, other in m.PAIRS:
        m.above[one, other] = int(plan.offsets[one] < plan.offsets[other])
    m.height = max(offset + int(size) for offset, size in zip(plan.offsets, problem.size, strict=True))


def read(m: Any) -> Plan:
    """Return the plan that the variables describe."""
    step = m.problem.memory.alignment
    return Plan(tuple(step * round(m.place[one].value) for one in m.BUFFERS))


def _pairs(problem: Problem) -> list[tuple[int, int]]:
    lives = list(zip(problem.lower.tolist(), problem.upper.tolist(), strict=True))
    return [
        (one, other)
        for one, (lower, upper) in enumerate(lives)
        for other in range(one + 1, len(lives))
        if lower < lives[other][1] and lives[other][0] < upper
    ]


def _most(problem: Problem) -> int:
    """Return a height that is enough: all buffers one upon the other."""
    step = problem.memory.alignment
    return sum(-(-size // step) * step for size in problem.size.tolist())
