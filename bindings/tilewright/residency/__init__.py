"""Residency: what stays on chip from layer to layer, in which memory, and at which addresses."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.addresses import pack
from tilewright.core.room import Room, register
from tilewright.residency.evaluation import (
    best_bound,
    measured_objective,
    most_values,
    numeric_elements,
    objective,
    portfolio,
    simulation_seconds,
)
from tilewright.residency.evaluation import (
    violation as limit_violation,
)
from tilewright.residency.exact.time_and_energy import recheck
from tilewright.residency.exact.traffic import least_traffic
from tilewright.residency.exact.traffic_curve import Corner, Curve, traffic_curve
from tilewright.residency.exact.without_dram import MemoryPoint, memory_front
from tilewright.residency.execution import execute_plan
from tilewright.residency.graph import unknown_of
from tilewright.residency.machine import machine_from
from tilewright.residency.measures import ResidencyMeasures
from tilewright.residency.plan import Plan, Step
from tilewright.residency.problem import Problem

__all__ = [
    "ROOM",
    "Corner",
    "Curve",
    "MemoryPoint",
    "Plan",
    "Problem",
    "Step",
    "best_bound",
    "measured_objective",
    "memory_front",
    "numeric_elements",
    "objective",
    "portfolio",
    "simulate",
    "simulation_seconds",
    "traffic_curve",
    "violation",
]


class Residency(Room[Problem, Plan]):
    """The room as the rest of tilewright knows it."""

    name = "residency"
    decides = "Residency: what stays on chip from layer to layer, in which memory, and at which addresses."
    problem_type = Problem
    plan_type = Plan
    measures_type = ResidencyMeasures

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
    recheck = staticmethod(recheck)

    def suited_objective(self, problem: Problem) -> tuple[str, ...] | None:
        if not problem.machine.dram:
            return "macs", "memory"
        return ("cycles",) if problem.machine.timed else None

    def at_least(self, problem: Problem, plan: Plan) -> dict[str, str]:
        timed = bool({*problem.objective.names, *problem.objective.limits} & {"cycles", "energy"})
        return {op.name: why for op in problem.graph.ops.ops if (why := unknown_of(op, timed)) is not None}

    def compile_kernels(self, bundled: Callable[[str], Problem]) -> None:
        small = bundled("mb28-64k")
        least_traffic(small, float("inf"), lambda _bound: None, lambda _plan: None)
        flash = ({"name": "ram", "bytes": 2**16}, {"name": "flash", "bytes": 2**20, "read_only": True})
        alone = small.with_(machine={"memories": flash, "dram": False}, objective={"minimise": "memory"})
        simulate(alone, next(iter(memory_front(alone))).plan)
        pack([0, 1], [2, 3], [1, 2], 3)


ROOM = register(Residency())
simulate = ROOM.simulate
violation = ROOM.violation
