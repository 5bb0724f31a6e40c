"""Tiling: tiles, loop schedules and core partitions of layers, on a scratchpad DSP or a multicore NPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.core.bounds import Bound
from tilewright.core.room import Room, Rows, register
from tilewright.simulator import Report
from tilewright.tiling.evaluation import (
    MACHINES,
    best_bound,
    measured_objective,
    numeric_elements,
    objective,
    portfolio,
    recheck,
    simulate,
    simulation_seconds,
    violation,
)
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem
from tilewright.tiling.summary import rows, table

__all__ = [
    "MACHINES",
    "ROOM",
    "Plan",
    "Problem",
    "best_bound",
    "fault",
    "measured_objective",
    "numeric_elements",
    "objective",
    "portfolio",
    "simulate",
    "simulation_seconds",
    "violation",
]


class Tiling(Room[Problem, Plan]):
    """The room as the rest of tilewright knows it."""

    name = "tiling"
    decides = (
        "Tiling: tiles, loop schedules and core partitions of layers, on a scratchpad DSP or a multicore NPU."
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

    def parts(self, problem: Problem) -> Sequence[tuple[str, Problem]]:
        return problem.parts

    def rows(self, problem: Problem, report: dict[str, Any]) -> Rows:
        return rows(problem, report)

    def table(self, problem: Problem, report: dict[str, Any]) -> list[tuple[str, ...]] | None:
        return table(problem, report)

    def recheck(self, problem: Problem, plan: Plan, deadline: float) -> list[tuple[str, bool, str]]:
        return recheck(problem, plan, deadline)

    def records(self, problem: Problem, report: dict[str, Any]) -> list[dict[str, Any]]:
        front = problem.minimise == "pareto"
        return list(report["facts"]["front"]) if front else super().records(problem, report)


ROOM = register(Tiling())

fault = violation
"""Former name of `violation`, for files of users' own."""
