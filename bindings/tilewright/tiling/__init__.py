"""Tiling: tiles, loop orders and partitions of layers, on a DSP, an NPU or any memory hierarchy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.core.room import Room, register
from tilewright.tiling.evaluation import (
    at_least,
    best_bound,
    most_values,
    objective,
    portfolio,
    rank,
    space,
    wider,
)
from tilewright.tiling.evaluation import (
    violation as limit_violation,
)
from tilewright.tiling.execution import execute_plan, measured_objective, numeric_elements, simulation_seconds
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.kinds import MACHINES, kind_of
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem
from tilewright.tiling.several_objectives import best_of_network, last_stage, recheck

__all__ = [
    "MACHINES",
    "ROOM",
    "Plan",
    "Problem",
    "best_bound",
    "best_of_network",
    "fault",
    "kind_of",
    "last_stage",
    "measured_objective",
    "numeric_elements",
    "objective",
    "portfolio",
    "simulate",
    "simulation_seconds",
    "violation",
]

if TYPE_CHECKING:
    from tilewright.core.overview import Decisions, Overview
    from tilewright.tiling.measures import TilingMeasures


class Tiling(Room[Problem, Plan]):
    """The room as the rest of tilewright knows it."""

    name = "tiling"
    decides = "Tiling: tiles, loop orders and partitions of layers, on a DSP, an NPU or any memory hierarchy."
    problem_type = Problem
    plan_type = Plan

    @property
    def measures_type(self) -> Any:
        from tilewright.tiling.measures import TilingMeasures  # for start-up time

        return TilingMeasures

    best_bound = staticmethod(best_bound)
    rank = staticmethod(rank)
    at_least = staticmethod(at_least)
    space = staticmethod(space)
    wider = staticmethod(wider)
    broken_limit = staticmethod(limit_violation)
    objective = staticmethod(objective)
    measured_objective = staticmethod(measured_objective)
    execute_plan = staticmethod(execute_plan)
    simulation_seconds = staticmethod(simulation_seconds)
    numeric_elements = staticmethod(numeric_elements)
    most_values = staticmethod(most_values)
    portfolio = staticmethod(portfolio)
    recheck = staticmethod(recheck)

    def suited_objective(self, problem: Problem) -> tuple[str, ...] | None:
        machine = problem.machine
        timed = machine.has_rates if isinstance(machine, HierarchyMachine) else machine.kind == "dsp"
        return ("cycles",) if timed else None

    def decisions(self, problem: Problem, plan: Plan, measures: TilingMeasures | None) -> Decisions | None:
        from tilewright.tiling.tiles import decisions  # for start-up time

        return decisions(problem, plan, measures)

    def overview(self, problem: Problem, plan: Plan, measures: TilingMeasures) -> Overview:
        from tilewright.tiling.overview import overview  # for start-up time

        return overview(problem, plan, measures)

    def answered(self, problem: Problem, plan: Plan | None) -> Problem:
        """Return the problem in which operations of attention are executed one by one, as of older files."""
        if plan is None or not problem.joins_attention or len(plan.layers) == len(problem.parts):
            return problem
        return problem.apart if len(plan.layers) == len(problem.apart.parts) else problem

    def compile_kernels(self, bundled: Callable[[str], Problem]) -> None:
        levels = [{"name": "dram"}, {"name": "buffer", "capacity_bytes": 1000}]
        layer = {"input": [2, 2, 2], "kernels": 2, "kernel": [1, 1]}
        table = {"layer": layer, "machine": {"kind": "hierarchy", "levels": levels}}
        MACHINES["hierarchy"].exhaustive(Problem.model_validate(table), float("inf"))

    def runs_compiled(self, problem: Problem) -> bool:
        return problem.machine.kind == "hierarchy" and not problem.trades_capacity

    def parts(self, problem: Problem) -> Sequence[tuple[str, Problem]]:
        return [("", problem)] if problem.coupled else problem.parts

    def only_method(self, part: Problem) -> str | None:
        return None if part.operation is None else "exhaustive"


ROOM = register(Tiling())
simulate = ROOM.simulate
violation = ROOM.violation

fault = violation
"""Former name of `violation`, for files of users' own."""
