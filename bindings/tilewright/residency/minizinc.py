"""Residency and MiniZinc: the data of ``models/residency/core.mzn``, and plans from its solutions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tilewright.residency import reference
from tilewright.residency.enumerated_steps import Columns, parts_of, places_of
from tilewright.residency.enumerated_steps import why_not as why_not_columns
from tilewright.residency.exact.priced_steps import FIELDS
from tilewright.residency.graph import members
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.residency.reference import MOST
from tilewright.spec.constraints import Term
from tilewright.spec.errors import InputError

CORE = 'include "core.mzn"'
"""What formulations have that choose among listed steps."""

__all__ = [
    "bridge_of",
    "data",
    "decisions",
    "plan",
    "relax",
    "scale",
    "size",
    "start",
    "suits",
    "term",
    "why_not",
]


def bridge_of(_problem: Problem, formulation: Path) -> Any:
    """Return what a formulation has to do with problems: this module, if it chooses among listed steps."""
    return sys.modules[__name__] if CORE in formulation.read_text("utf-8") else reference


def why_not(problem: Problem, _formulation: Path) -> str | None:
    """Say why the formulations do not take a problem, or None."""
    return why_not_columns(problem)


def suits(problem: Problem, formulation: Path) -> bool:
    """Whether the formulations take a problem."""
    return why_not(problem, formulation) is None


def size(problem: Problem) -> int:
    """Return about how many constraints a formulation gives."""
    return 100 * len(places_of(problem)) ** 2


def relax(problem: Problem) -> int:
    """Return 0: problems of this size need no neighbourhoods."""
    return 0


def scale(problem: Problem) -> tuple[int, int]:
    """Return (offset, unit): a plan costs ``offset + unit * objective`` of the formulation."""
    parts, unit = parts_of(problem)
    return getattr(problem.least_spent, FIELDS[problem.minimise]) // parts * unit, unit


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that core.mzn declares, all but those of the search."""
    found, graph = Columns(problem), problem.graph
    tensors, columns = found.tensors, found.columns
    for name, dearest in zip(found.names, found.dearest, strict=True):
        if (largest := max(dearest, found.least + found.allowed)) > MOST:
            limit = f"may become {largest:,} in the parts that steps count, MiniZinc counts to {MOST:,}"
            raise InputError("objective", name, limit)
    numbers = {tensor: number for number, tensor in enumerate(tensors, 1)}

    def sets(masks: list[int]) -> list[set[int]]:
        return [{numbers[tensor] for tensor in members(mask) if tensor in numbers} for mask in masks]

    return {
        "n_places": len(found.places),
        "n_columns": len(columns),
        "n_tensors": len(tensors),
        "begin": [column.begin for column in columns],
        "end": [column.end for column in columns],
        "needs": sets([column.needs for column in columns]),
        "reads": sets([column.reads for column in columns]),
        "keeps": sets([column.keeps for column in columns]),
        "touched": sets([column.touched for column in columns]),
        "passing": [{numbers[tensor] for tensor in found.passing(column)} for column in columns],
        "writes": sets([column.written for column in columns]),
        "memory": [column.memory for column in columns],
        "cost": [column.costs[0] for column in columns],
        "n_limits": len(found.most),
        "spent": [list(column.costs[1:]) for column in columns],
        "most": found.most,
        "size": [graph.tensors[tensor].size for tensor in tensors],
        "given": {numbers[tensor] for tensor in tensors if graph.tensors[tensor].given},
        "alive": [
            {place for place in range(len(found.places)) if found.live(tensor, place)} for tensor in tensors
        ],
        "capacity": problem.machine.capacity,
        "parts": found.parts,
        "base": found.base,
        "dearest": found.dearest[0],
        "worst": found.worst,
    }


def term(_problem: Problem, _formulation: Path, _one: Term) -> None:
    """Return None: of steps that are alike but for what a constraint says of them, one is listed."""
    return None


def start(problem: Problem, plan: Plan) -> list[int] | None:
    """Return a plan as values of the decisions: the step that begins at each place, and what is on chip."""
    found = Columns(problem)
    values = found.start(plan)
    if values is None:
        return None
    chosen, on_chip = values
    steps = [0] * (len(found.places) - 1)
    for number in chosen:
        steps[found.columns[number].begin] = number + 1
    places = range(len(found.places))
    return [*steps, *(int((tensor, place) in on_chip) for tensor in found.tensors for place in places)]


def decisions(_problem: Problem, solution: Any) -> list[int]:
    """Return the decisions of a solution, in the order of `start`."""
    return [*solution.step, *(value for row in solution.on_chip for value in row)]


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution of core.mzn."""
    found = Columns(problem)
    on_chip = {
        (tensor, place): bool(value)
        for tensor, row in zip(found.tensors, solution.on_chip, strict=True)
        for place, value in enumerate(row)
    }
    return found.plan([number - 1 for number in solution.step if number], on_chip)
