"""Scheduling and MiniZinc: the data of ``models/scheduling/core.mzn``, and plans from its solutions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tilewright.scheduling import reference
from tilewright.scheduling.cover import require_cover, takes
from tilewright.scheduling.plan import Plan
from tilewright.scheduling.problem import Problem
from tilewright.spec.constraints import Term

if TYPE_CHECKING:
    from tilewright.core.room import MiniZincBridge

__all__ = ["bridge_of", "data", "decisions", "plan", "relax", "scale", "size", "start", "suits"]


def bridge_of(_problem: Problem, formulation: Path) -> MiniZincBridge:
    """Return what a formulation has to do with problems: the reference model takes data of its own."""
    found: Any = reference if formulation.stem == "reference" else sys.modules[__name__]
    return cast("MiniZincBridge", found)


def suits(problem: Problem, _formulation: Path) -> bool:
    """Whether the formulations take a problem."""
    return takes(problem)


def size(problem: Problem) -> int:
    """Return about how many constraints a formulation gives: some for each link of a run."""
    found = require_cover(problem)
    return sum(len(needs) * (1 + len(ends)) for needs, ends in zip(found.needs, found.ends, strict=True))


def relax(problem: Problem) -> int:
    """Return 0: sets of runs have no neighbourhood of use, as most of them do not cover anything."""
    return 0


def scale(problem: Problem) -> tuple[int, int]:
    """Return (offset, unit): the objective of the formulation is the time."""
    return 0, 1


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that core.mzn declares, all but those of the search."""
    cover = require_cover(problem)

    def counted(sets: list[Any]) -> list[set[int]]:
        return [{op + 1 for op in one} for one in sets]

    return {
        "n_operations": len(problem.graph.inputs),
        "n_blocks": len(cover.blocks),
        "members": counted(cover.blocks),
        "needs": counted(cover.needs),
        "ends": counted(cover.ends),
        "amount": cover.amounts,
        "per_unit": cover.per_unit,
        "results": {op + 1 for op in cover.results},
        "last": {block + 1 for block in cover.last},
        "worst": cover.worst,
    }


def term(problem: Problem, _formulation: Path, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc."""
    if one.word not in ("together", "retained"):
        return None
    holding = require_cover(problem).holding(one)
    return " \\/ ".join(f"chosen[{block + 1}] = 1" for block in holding) or "false"


def start(problem: Problem, plan: Plan) -> list[int] | None:
    """Return a plan as values of the decisions; or those of a faster known one."""
    cover = require_cover(problem)
    numbers = cover.started(plan)
    return None if numbers is None else [int(block in numbers) for block in range(len(cover.blocks))]


def decisions(_problem: Problem, solution: Any) -> list[int]:
    """Return whether each run is chosen in a solution, in the order of `start`."""
    return list(solution.chosen)


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution of core.mzn."""
    return require_cover(problem).plan([block for block, chosen in enumerate(solution.chosen) if chosen])
