"""Allocation: processing elements for the layers of a network that run as a pipeline on a processor array."""

from __future__ import annotations

from tilewright.allocation.evaluation import (
    best_bound,
    execute_plan,
    measured_objective,
    most_values,
    numeric_elements,
    objective,
    pes,
    portfolio,
    recheck,
    simulation_seconds,
)
from tilewright.allocation.evaluation import (
    violation as limit_violation,
)
from tilewright.allocation.exact.trimming import rank
from tilewright.allocation.machine import machine_from
from tilewright.allocation.measures import PipelineMeasures
from tilewright.allocation.plan import PACINGS, Plan
from tilewright.allocation.problem import Problem
from tilewright.core.room import Room, register

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
    measures_type = PipelineMeasures

    best_bound = staticmethod(best_bound)
    broken_limit = staticmethod(limit_violation)
    objective = staticmethod(objective)
    measured_objective = staticmethod(measured_objective)
    execute_plan = staticmethod(execute_plan)
    simulation_seconds = staticmethod(simulation_seconds)
    numeric_elements = staticmethod(numeric_elements)
    most_values = staticmethod(most_values)
    portfolio = staticmethod(portfolio)
    rank = staticmethod(rank)
    recheck = staticmethod(recheck)
    machine_from = staticmethod(machine_from)


ROOM = register(Allocation())
simulate = ROOM.simulate
violation = ROOM.violation

fault = violation
"""Former name of `violation`, for files of users' own."""
