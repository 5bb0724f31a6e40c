"""Tiling and MiniZinc: what the driver asks, answered for the machine's kind."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem

CORES = {"dsp": "core.mzn", "npu": "core.npu.mzn"}
"""What a formulation for each kind of machine includes."""


def _bridge(problem: Problem) -> Any:
    return importlib.import_module(f"tilewright.tiling.{problem.machine.kind}.minizinc")


def suits(problem: Problem, formulation: Path) -> bool:
    """Whether a formulation is one for the problem's kind of machine, by what it includes."""
    return f'include "{CORES[problem.machine.kind]}"' in formulation.read_text("utf-8")


def size(problem: Problem) -> int:
    """Return about how many constraints a formulation gives."""
    return int(_bridge(problem).size(problem))


def relax(problem: Problem) -> int:
    """Return the percentage of decisions that large-neighbourhood search keeps."""
    return int(_bridge(problem).relax(problem))


def scale(problem: Problem) -> tuple[int, int]:
    """Return (offset, unit): a plan costs ``offset + unit * objective`` of the formulation."""
    offset, unit = _bridge(problem).scale(problem)
    return offset, unit


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that the core declares, all but those of the search."""
    return dict(_bridge(problem).data(problem))


def start(problem: Problem, plan: Plan) -> list[int] | None:
    """Return a plan as values of the decisions, None where the formulations have none that is as good."""
    found: list[int] | None = _bridge(problem).start(problem, plan)
    return found


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution."""
    found: Plan = _bridge(problem).plan(problem, solution)
    return found
