"""Grouping: partition a layer's patches into ordered steps so that the least data is loaded."""

from __future__ import annotations

from tilewright.core.room import Room, register
from tilewright.grouping.bounds.best import best_bound
from tilewright.grouping.cost import objective
from tilewright.grouping.cost import violation as limit_violation
from tilewright.grouping.lowering import (
    execute_plan,
    lower,
    measured_objective,
    most_values,
    numeric_elements,
    simulation_seconds,
)
from tilewright.grouping.measures import GroupingMeasures
from tilewright.grouping.plan import Plan
from tilewright.grouping.portfolio import portfolio
from tilewright.grouping.problem import Problem

__all__ = [
    "ROOM",
    "Plan",
    "Problem",
    "best_bound",
    "fault",
    "lower",
    "measured_objective",
    "numeric_elements",
    "objective",
    "portfolio",
    "simulate",
    "simulation_seconds",
    "violation",
]


class Grouping(Room[Problem, Plan]):
    """The room as the rest of tilewright knows it."""

    name = "grouping"
    decides = "Grouping: partition a layer's patches into ordered steps so that the least data is loaded."
    problem_type = Problem
    plan_type = Plan
    measures_type = GroupingMeasures
    layer_kinds = ("conv",)  # a fully connected layer is a single patch

    best_bound = staticmethod(best_bound)
    broken_limit = staticmethod(limit_violation)
    objective = staticmethod(objective)
    measured_objective = staticmethod(measured_objective)
    execute_plan = staticmethod(execute_plan)
    simulation_seconds = staticmethod(simulation_seconds)
    numeric_elements = staticmethod(numeric_elements)
    most_values = staticmethod(most_values)
    portfolio = staticmethod(portfolio)


ROOM = register(Grouping())
simulate = ROOM.simulate
violation = ROOM.violation

fault = violation
"""Former name of `violation`, for files of users' own."""
