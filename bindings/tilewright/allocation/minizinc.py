"""Allocation and MiniZinc: what the driver asks, answered for the choice of splits and for placement."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tilewright.allocation import reference, split_options
from tilewright.allocation.placement import minizinc as placement_minizinc
from tilewright.allocation.placement.floor import Floor
from tilewright.allocation.placement.unplaced import floor_of, pes_to_place
from tilewright.allocation.plan import Plan
from tilewright.allocation.problem import Problem
from tilewright.spec.constraints import Term

CORE = 'include "core.mzn"'
"""What formulations that choose splits have, and those that place layers have not."""


REFERENCE = "reference.mzn"
"""The formulation that has a bridge of its own, and that others may include."""


def bridge_of(_problem: Problem, formulation: Path) -> Any:
    """Return the bridge of a formulation: this one, or that of the reference."""
    text = formulation.read_text("utf-8")
    is_reference = formulation.name == REFERENCE or f'include "{REFERENCE}"' in text
    return reference if is_reference else sys.modules[__name__]


def _places(problem: Problem) -> bool:
    return problem.minimise == "distance"


def _unplaced(problem: Problem) -> tuple[Plan, Floor]:
    """Return the plan whose PEs are to be placed, and what their placement has to keep to."""
    unplaced = pes_to_place(problem)
    return unplaced, floor_of(problem, unplaced)


def suits(problem: Problem, formulation: Path) -> bool:
    """Whether a formulation decides what a problem asks, in numbers that fit."""
    if (CORE in formulation.read_text("utf-8")) == _places(problem):
        return False
    return _places(problem) or split_options.suits(problem)


def why_not(problem: Problem, _formulation: Path) -> str | None:
    """Say why a formulation does not take a problem, or None where that is not told."""
    return None if _places(problem) else split_options.why_not(problem)


def size(problem: Problem) -> int:
    """Return about how many constraints a formulation gives."""
    if _places(problem):
        return placement_minizinc.size(_unplaced(problem)[1])
    return split_options.size(problem)


def relax(problem: Problem) -> int:
    """Return the percentage of decisions that large-neighbourhood search keeps."""
    if _places(problem):
        return placement_minizinc.relax(_unplaced(problem)[1])
    return split_options.relax(problem)


def scale(problem: Problem) -> tuple[int, int]:
    """Return (offset, unit): a plan costs ``offset + unit * objective`` of the formulation."""
    return (0, 1) if _places(problem) else split_options.scale(problem)


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that the formulations declare, all but those of the search."""
    if _places(problem):
        return placement_minizinc.data(_unplaced(problem)[1])
    return split_options.data(problem)


def term(problem: Problem, _formulation: Path, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc; what splits decide is known where layers are placed."""
    if not _places(problem):
        return None
    unplaced, floor = _unplaced(problem)
    if one.word in ("at", "hops"):
        return placement_minizinc.term(unplaced.names, floor, one)
    return str(problem.vocabulary.value(one, problem.vocabulary.view(unplaced)))


def start(problem: Problem, plan: Plan) -> list[int] | None:
    """Return a plan as values of the decisions, None where the formulation has none for it."""
    if not _places(problem):
        return split_options.start(problem, plan)
    floor = _unplaced(problem)[1]
    same = plan.regions and floor_of(problem, plan) == floor
    as_it_is = bool(problem.constraints)
    return placement_minizinc.start(floor, plan.regions, as_it_is=as_it_is) if same else None


def decisions(problem: Problem, solution: Any) -> list[int]:
    """Return the values of a solution's decisions, in the order of `start`."""
    return list(solution.layer) if _places(problem) else [*solution.choice, int(solution.uniform)]


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution."""
    if not _places(problem):
        return split_options.plan(problem, solution)
    unplaced, floor = _unplaced(problem)
    return unplaced.placed(placement_minizinc.read(floor, solution))
