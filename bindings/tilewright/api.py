"""The Python API: ``tilewright.read``, ``tilewright.solve``, ``tilewright.simulate``."""

from __future__ import annotations

from typing import Any

from tilewright.core.room import room_of
from tilewright.run.instance import Instance, read
from tilewright.run.solve import solve
from tilewright.simulator import Report

__all__ = ["read", "simulate", "solve"]


def simulate(problem: Any, plan: Any, *, numeric: bool = False) -> Report:
    """Execute a plan and report what it costs and whether it is right.

    Parameters
    ----------
    problem : Problem, Instance
        What the plan is for.
    plan : Plan
        Decisions of the same room.
    numeric
        Also move random integers and compare with the reference layer.
    """
    if isinstance(problem, Instance):
        problem = problem.problem
    return room_of(problem).simulate(problem, plan, numeric=numeric)
