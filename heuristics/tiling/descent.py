"""Descent: the best rows and columns, then the best input maps, of each partition and schedule of an NPU."""

from __future__ import annotations

from tilewright.spec.errors import InputError
from tilewright.tiling import Plan, Problem
from tilewright.tiling.npu.descent import known_plan


def suits(problem: Problem) -> bool:
    """Whether the heuristic has plans for a problem."""
    return problem.machine.kind == "npu" and problem.plain


def plan(problem: Problem) -> Plan:
    """Return the best plan that descent finds.

    Raises
    ------
    InputError
        Where no tile fits a partition and schedule that the limits allow.
    """
    found = known_plan(problem)
    if found is None:
        limit = f"no tile fits partition {problem.limits.partition}"
        raise InputError("limits.schedule", problem.limits.schedule, limit)
    return Plan((found,))
