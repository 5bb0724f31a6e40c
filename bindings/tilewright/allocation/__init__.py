"""Allocation: processing elements for the layers of a network that run as a pipeline on a processor array."""

from __future__ import annotations

from typing import Any

from tilewright.allocation.evaluation import (
    best_bound,
    measured_objective,
    numeric_elements,
    objective,
    pes,
    portfolio,
    recheck,
    simulate,
    simulation_seconds,
    violation,
)
from tilewright.allocation.plan import PACINGS, Plan
from tilewright.allocation.problem import Problem
from tilewright.allocation.summary import rows, table
from tilewright.core.bounds import Bound
from tilewright.core.room import Room, Rows, register
from tilewright.simulator import Report

__all__ = [
    "PACINGS",
    "ROOM",
    "Plan",
    "Problem",
    "best_bound",
    "fault",
    "measured_objective",
    "numeric_elements",
    "objective",
    "pes",
    "portfolio",
    "simulate",
    "simulation_seconds",
    "violation",
]


class Allocation(Room[Problem, Plan]):
    """The room as the rest of tilewright knows it."""

    name = "allocation"
    decides = (
        "Allocation: processing elements for the layers of a network that run as a pipeline on a "
        "processor array."
    )
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

    def recheck(self, problem: Problem, plan: Plan, deadline: float) -> list[tuple[str, bool, str]]:
        return recheck(problem, plan, deadline)

    def records(self, problem: Problem, report: dict[str, Any]) -> list[dict[str, Any]]:
        facts = report["facts"]
        return list(facts.get("front") or facts["stages"])


ROOM = register(Allocation())

fault = violation
"""Former name of `violation`, for files of users' own."""
