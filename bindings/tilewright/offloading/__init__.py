"""Offloading: a layer in steps that load, keep, compute and write patches, kernels and channels."""

from __future__ import annotations

from tilewright.core.room import Room, register
from tilewright.offloading.bounds import best_bound
from tilewright.offloading.cost import objective
from tilewright.offloading.cost import violation as limit_violation
from tilewright.offloading.lowering import (
    execute_plan,
    lower,
    measured_objective,
    most_values,
    numeric_elements,
    simulation_seconds,
)
from tilewright.offloading.measures import OffloadingMeasures
from tilewright.offloading.plan import Plan
from tilewright.offloading.portfolio import portfolio
from tilewright.offloading.problem import Problem

__all__ = [
    "ROOM",
    "Plan",
    "Problem",
    "best_bound",
    "lower",
    "measured_objective",
    "numeric_elements",
    "objective",
    "portfolio",
    "simulate",
    "simulation_seconds",
    "violation",
]


class Offloading(Room[Problem, Plan]):
    """The room as the rest of tilewright knows it."""

    name = "offloading"
    decides = "Offloading: a layer in steps that load, keep, compute and write patches, kernels and channels."
    problem_type = Problem
    plan_type = Plan
    measures_type = OffloadingMeasures

    best_bound = staticmethod(best_bound)
    broken_limit = staticmethod(limit_violation)
    objective = staticmethod(objective)
    measured_objective = staticmethod(measured_objective)
    execute_plan = staticmethod(execute_plan)
    simulation_seconds = staticmethod(simulation_seconds)
    numeric_elements = staticmethod(numeric_elements)
    most_values = staticmethod(most_values)
    portfolio = staticmethod(portfolio)

    def runs_compiled(self, problem: Problem) -> bool:
        return False


ROOM = register(Offloading())
simulate = ROOM.simulate
violation = ROOM.violation
