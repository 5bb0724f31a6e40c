"""Tiling: tiles, loop orders and partitions of layers, on a DSP, an NPU or any memory hierarchy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.core.room import Room, register
from tilewright.tiling.evaluation import (
    MACHINES,
    at_least,
    best_bound,
    best_of_network,
    kind_of,
    last_stage,
    measured_objective,
    most_values,
    numeric_elements,
    objective,
    portfolio,
    rank,
    recheck,
    simulate,
    simulation_seconds,
    space,
    violation,
    wider,
)
from tilewright.tiling.measures import TilingMeasures
from tilewright.tiling.overview import overview
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem
from tilewright.tiling.summary import rows, table
from tilewright.tiling.tiles import decisions

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


class Tiling(Room[Problem, Plan]):
    """The room as the rest of tilewright knows it."""

    name = "tiling"
    decides = "Tiling: tiles, loop orders and partitions of layers, on a DSP, an NPU or any memory hierarchy."
    problem_type = Problem
    plan_type = Plan
    measures_type = TilingMeasures

    best_bound = staticmethod(best_bound)
    rank = staticmethod(rank)
    at_least = staticmethod(at_least)
    space = staticmethod(space)
    wider = staticmethod(wider)
    violation = staticmethod(violation)
    objective = staticmethod(objective)
    measured_objective = staticmethod(measured_objective)
    simulate = staticmethod(simulate)
    simulation_seconds = staticmethod(simulation_seconds)
    numeric_elements = staticmethod(numeric_elements)
    most_values = staticmethod(most_values)
    portfolio = staticmethod(portfolio)
    rows = staticmethod(rows)
    table = staticmethod(table)
    decisions = staticmethod(decisions)
    overview = staticmethod(overview)
    recheck = staticmethod(recheck)

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

fault = violation
"""Former name of `violation`, for files of users' own."""
