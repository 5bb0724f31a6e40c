"""Fusion: which operations of a network are executed as one group, and with which tiles."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.core.room import Room, register
from tilewright.fusion.bounds import best_bound
from tilewright.fusion.evaluation import (
    choices,
    measured_objective,
    most_values,
    numeric_elements,
    objective,
    portfolio,
    simulation_seconds,
)
from tilewright.fusion.evaluation import (
    violation as limit_violation,
)
from tilewright.fusion.execution import execute_plan
from tilewright.fusion.machine import machine_from
from tilewright.fusion.measures import FusionMeasures
from tilewright.fusion.plan import Group, Plan
from tilewright.fusion.problem import Problem

__all__ = [
    "ROOM",
    "Group",
    "Plan",
    "Problem",
    "best_bound",
    "choices",
    "fault",
    "measured_objective",
    "numeric_elements",
    "objective",
    "portfolio",
    "simulate",
    "simulation_seconds",
    "violation",
]


class Fusion(Room[Problem, Plan]):
    """The room as the rest of tilewright knows it."""

    name = "fusion"
    decides = "Fusion: which operations of a network are executed as one group, and with which tiles."
    problem_type = Problem
    plan_type = Plan
    measures_type = FusionMeasures

    best_bound = staticmethod(best_bound)
    broken_limit = staticmethod(limit_violation)
    objective = staticmethod(objective)
    measured_objective = staticmethod(measured_objective)
    execute_plan = staticmethod(execute_plan)
    simulation_seconds = staticmethod(simulation_seconds)
    numeric_elements = staticmethod(numeric_elements)
    most_values = staticmethod(most_values)
    portfolio = staticmethod(portfolio)
    machine_from = staticmethod(machine_from)

    def compile_kernels(self, bundled: Callable[[str], Problem]) -> None:
        from tilewright.fusion.group.best_tile import best_tile  # for start-up time

        best_tile(bundled("squeezenet-fire"), (0,))


ROOM = register(Fusion())
simulate = ROOM.simulate
violation = ROOM.violation

fault = violation
"""Former name of `violation`, for files of users' own."""
