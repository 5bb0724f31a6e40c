"""Snake: layers one after the other along a path through the array, with the PEs of the least interval."""

from __future__ import annotations

from tilewright.allocation import Plan, Problem
from tilewright.allocation.placement import floor as placement


def suits(problem: Problem) -> bool:
    """Whether the layers of a problem are to be placed."""
    return problem.minimise == "distance"


def plan(problem: Problem) -> Plan:
    """Place the PEs that are given, or that the least interval takes."""
    found = problem.unplaced
    assert found is not None
    return found.placed(placement.snake(problem.floor(found)))
