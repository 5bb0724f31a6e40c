"""Bitwidth: how many bits the inputs and weights of each layer get in front of a narrow accumulator."""

from __future__ import annotations

from tilewright.bitwidth.evaluation import (
    best_bound,
    costs,
    execute_plan,
    measured_objective,
    most_values,
    numeric_elements,
    objective,
    portfolio,
    recheck,
    simulation_seconds,
)
from tilewright.bitwidth.evaluation import (
    violation as limit_violation,
)
from tilewright.bitwidth.measures import BitwidthMeasures
from tilewright.bitwidth.plan import Plan
from tilewright.bitwidth.problem import Problem
from tilewright.core.room import Room, register

__all__ = [
    "ROOM",
    "Plan",
    "Problem",
    "best_bound",
    "costs",
    "fault",
    "measured_objective",
    "numeric_elements",
    "objective",
    "portfolio",
    "simulate",
    "simulation_seconds",
    "violation",
]


class Bitwidth(Room[Problem, Plan]):
    """The room as the rest of tilewright knows it."""

    name = "bitwidth"
    decides = (
        "Bitwidth: how many bits the inputs and weights of each layer get in front of a narrow accumulator."
    )
    problem_type = Problem
    plan_type = Plan
    measures_type = BitwidthMeasures

    best_bound = staticmethod(best_bound)
    broken_limit = staticmethod(limit_violation)
    objective = staticmethod(objective)
    measured_objective = staticmethod(measured_objective)
    execute_plan = staticmethod(execute_plan)
    simulation_seconds = staticmethod(simulation_seconds)
    numeric_elements = staticmethod(numeric_elements)
    most_values = staticmethod(most_values)
    portfolio = staticmethod(portfolio)
    recheck = staticmethod(recheck)

    def runs_compiled(self, problem: Problem) -> bool:
        return False


ROOM = register(Bitwidth())
simulate = ROOM.simulate
violation = ROOM.violation

fault = violation
"""The name that `violation` has in files of users' own for other rooms."""
