"""Grouping: partition a layer's patches into ordered steps so that the least data is loaded."""

from __future__ import annotations

from typing import Any

from tilewright.core.bounds import Bound
from tilewright.core.room import Room, Rows, register
from tilewright.grouping.bounds.best import best_bound
from tilewright.grouping.cost import objective, violation
from tilewright.grouping.lowering import (
    lower,
    measured_objective,
    numeric_elements,
    simulate,
    simulation_seconds,
)
from tilewright.grouping.plan import Plan
from tilewright.grouping.portfolio import portfolio
from tilewright.grouping.problem import Problem
from tilewright.grouping.summary import rows
from tilewright.simulator import Report

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
    layer_kinds = ("conv",)  # a fully connected layer is a single patch

    def best_bound(self, problem: Problem) -> Bound:
        return best_bound(problem)

    def violation(self, problem: Problem, plan: Plan) -> str | None:
        return violation(problem, plan)

    def objective(self, problem: Problem, plan: Plan) -> int:
        return objective(problem, plan)

    def measured_objective(self, problem: Problem, report: Report) -> int:
        return measured_objective(problem, report)

    def simulate(self, problem: Problem, plan: Plan, **options: Any) -> Report:
        return simulate(problem, plan, **options)

    def simulation_seconds(self, problem: Problem, steps: int) -> float:
        return simulation_seconds(problem, steps)

    def numeric_elements(self, problem: Problem) -> int:
        return numeric_elements(problem)

    def portfolio(self, problem: Problem, threads: int) -> list[tuple[float, list[str]]]:
        return portfolio(problem, threads)

    def rows(self, problem: Problem, report: dict[str, Any]) -> Rows:
        return rows(problem, report)


ROOM = register(Grouping())

fault = violation
"""Former name of `violation`, for files of users' own."""
