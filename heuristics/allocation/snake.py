"""Snake: layers one after the other along a path through the array, with the PEs of the least interval."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.allocation import Plan, Problem
from tilewright.allocation.placement import snake
from tilewright.allocation.placement.unplaced import floor_of, pes_to_place


def suits(problem: Problem) -> bool:
    """Whether the layers of a problem are to be placed."""
    return problem.minimise == "distance"


def plan(problem: Problem) -> Plan:
    """Place the PEs that are given, or that the least interval takes."""
    return placed(problem)


def compile_kernels(bundled: Callable[[str], Problem]) -> None:
    """Compile what it runs; see `tilewright.core.catalogue.kernel_file`."""
    plan(bundled("mnist-tcpa-placed"))


def placed(problem: Problem, deadline: float = float("inf")) -> Plan:
    """Place the PEs, if it is known by a deadline which; see `pes_to_place`."""
    unplaced = pes_to_place(problem, deadline)
    return unplaced.placed(snake.snake(floor_of(problem, unplaced)))
