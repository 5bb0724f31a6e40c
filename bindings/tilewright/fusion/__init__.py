"""Fusion: which operations of a network are executed as one group, and with which tiles."""

from __future__ import annotations

from typing import Any

from tilewright.core.bounds import Bound
from tilewright.core.room import Room, Rows, register
from tilewright.fusion.bounds import best_bound
from tilewright.fusion.evaluation import (
    choices,
    measured_objective,
    numeric_elements,
    objective,
    portfolio,
    simulation_seconds,
    violation,
)
from tilewright.fusion.execution import simulate
from tilewright.fusion.plan import Group, Plan
from tilewright.fusion.problem import Problem
from tilewright.fusion.summary import rows, table
from tilewright.simulator import Report

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
    constructs_first = False

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

    def table(self, problem: Problem, report: dict[str, Any]) -> list[tuple[str, ...]] | None:
        return table(problem, report)

    def records(self, problem: Problem, report: dict[str, Any]) -> list[dict[str, Any]]:
        return list(report["facts"]["groups"])


ROOM = register(Fusion())

fault = violation
"""Former name of `violation`, for files of users' own."""
