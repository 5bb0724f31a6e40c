"""Addresses and MiniZinc: the data of ``models/addresses/core.mzn``, and plans from its solutions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.addresses.exact.packing import Task
from tilewright.addresses.greedy import pushed_down
from tilewright.addresses.plan import Plan
from tilewright.addresses.problem import Problem
from tilewright.spec.constraints import Term

__all__ = ["data", "decisions", "plan", "relax", "scale", "size", "start", "suits"]

MOST_STEPS = 2**31 - 3
"""Highest that MiniZinc's numbers reach."""


def suits(problem: Problem, _formulation: Path) -> bool:
    """Whether the formulations take a problem."""
    task = task_of(problem)
    return _most(problem, task) <= task.step * MOST_STEPS


def size(problem: Problem) -> int:
    """Return about how many constraints a formulation gives: some for each pair that lives together."""
    neighbours, _ = task_of(problem).sections.neighbours
    return 2 * len(neighbours) + len(problem.buffers)


def relax(problem: Problem) -> int:
    """Return 0: with most buffers where they are, a plan gets no lower."""
    return 0


def scale(problem: Problem) -> tuple[int, int]:
    """Return (offset, unit): the objective of the formulation counts steps."""
    return 0, task_of(problem).step


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that core.mzn declares, all but those of the search."""
    task = task_of(problem)
    sections, step = task.sections, task.step
    return {
        "n_buffers": len(task.size),
        "n_sections": sections.number,
        "begin": sections.first.tolist(),
        "long": (sections.last - sections.first).tolist(),
        "units": task.units.tolist(),
        "size": (task.size // step).tolist(),
        "unit": task.unit // step,
        "capacity": _most(problem, task) // step,
        "live": task.bound // step,
    }


def term(problem: Problem, _formulation: Path, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc."""
    task = task_of(problem)
    if one.word == "height":
        return f"{task.step} * objective"
    return f"{task.unit} * place[{problem.names.index(str(one.arguments[0])) + 1}]"


def start(problem: Problem, plan: Plan) -> list[int]:
    """Return a plan as values of the decisions: pushed down, equal buffers in their order."""
    task = task_of(problem)
    if problem.constraints:  # which say where buffers lie
        return [offset // task.unit for offset in plan.offsets]
    offsets = pushed_down(problem, plan).offsets
    alike: dict[tuple[int, int, int], list[int]] = {}
    rows = zip(task.sections.first.tolist(), task.sections.last.tolist(), task.size.tolist(), strict=True)
    for buffer, row in enumerate(rows):
        alike.setdefault(row, []).append(buffer)
    places = [0] * len(offsets)
    for buffers in alike.values():
        lowest_first = sorted(offsets[buffer] // task.unit for buffer in buffers)
        for buffer, place in zip(buffers, lowest_first, strict=True):
            places[buffer] = place
    return places


def decisions(_problem: Problem, solution: Any) -> list[int]:
    """Return the place of each buffer in a solution, in the order of `start`."""
    return list(solution.place)


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution of core.mzn."""
    unit = task_of(problem).unit
    return Plan(tuple(unit * place for place in solution.place))


def task_of(problem: Problem) -> Task:
    """Return the buffers in units; constraints may ask for plans that are not pushed down."""
    memory = problem.memory
    return Task(
        problem.lower, problem.upper, problem.size, memory.alignment, pushed_down=not problem.constraints
    )


def _most(problem: Problem, task: Task) -> int:
    """Return a height that is enough: the capacity, or all buffers one upon the other.

    Constraints without a capacity may ask for any height.
    """
    capacity = problem.memory.capacity
    if problem.constraints:
        return task.step * MOST_STEPS if capacity is None else capacity
    return task.anything if capacity is None else min(capacity, task.anything)
