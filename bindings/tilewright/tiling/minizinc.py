"""Tiling and MiniZinc: what the driver asks, answered for the machine's kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.spec.constraints import Term
from tilewright.tiling.dsp import minizinc as dsp
from tilewright.tiling.hierarchy import minizinc as hierarchy
from tilewright.tiling.machine_kind import KindBridge
from tilewright.tiling.npu import minizinc as npu
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem

BRIDGES: dict[str, KindBridge] = {"dsp": dsp, "npu": npu, "hierarchy": hierarchy}
"""The bridge of each kind of machine."""

CORES = {"dsp": "core.mzn", "npu": "core.npu.mzn", "hierarchy": "core.hierarchy.mzn"}
"""What a formulation for each kind of machine includes."""


def _bridge(problem: Problem) -> KindBridge:
    return BRIDGES[problem.machine.kind]


def suits(problem: Problem, formulation: Path) -> bool:
    """Whether a formulation is one for the problem's kind of machine, by what it includes.

    None has steps that do not divide, or layers that depend on each other.
    """
    if problem.limits.factors == "any" or problem.coupled:
        return False
    core = CORES.get(problem.machine.kind)
    return core is not None and f'include "{core}"' in formulation.read_text("utf-8")


def size(problem: Problem) -> int:
    """Return about how many constraints a formulation gives."""
    return _bridge(problem).size(problem)


def relax(problem: Problem) -> int:
    """Return 0: without large-neighbourhood search, as decisions are few or a good plan is known."""
    return 0


def scale(problem: Problem) -> tuple[int, int]:
    """Return (offset, unit): a plan costs ``offset + unit * objective`` of the formulation."""
    return _bridge(problem).scale(problem)


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that the core declares, all but those of the search."""
    return _bridge(problem).data(problem)


def term(problem: Problem, formulation: Path, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc."""
    if problem.network is not None or not suits(problem, formulation):
        return None
    return _bridge(problem).term(problem, one)


def start(problem: Problem, plan: Plan) -> list[int] | None:
    """Return a plan as values of the decisions, None where the formulations have none that is as good."""
    return _bridge(problem).start(problem, plan)


def decisions(problem: Problem, solution: Any) -> list[int]:
    """Return the values of a solution's decisions, in the order of `start`."""
    return _bridge(problem).decisions(solution)


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution."""
    found: Plan = _bridge(problem).plan(problem, solution)
    return found
