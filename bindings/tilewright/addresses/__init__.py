"""Addresses: where buffers with known lifetimes lie in one on-chip memory."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.addresses.buffer_file import lines, read_file
from tilewright.addresses.evaluation import (
    best_bound,
    measured_objective,
    most_values,
    numeric_elements,
    objective,
    portfolio,
    simulation_seconds,
)
from tilewright.addresses.evaluation import (
    violation as limit_violation,
)
from tilewright.addresses.exact.packing import Packing, least_height, pack
from tilewright.addresses.execution import execute_plan
from tilewright.addresses.measures import AddressesMeasures
from tilewright.addresses.plan import Plan
from tilewright.addresses.problem import Buffer, Memory, Problem
from tilewright.core.room import Room, register

__all__ = [
    "ROOM",
    "Buffer",
    "Memory",
    "Packing",
    "Plan",
    "Problem",
    "best_bound",
    "least_height",
    "measured_objective",
    "numeric_elements",
    "objective",
    "pack",
    "portfolio",
    "simulate",
    "simulation_seconds",
    "violation",
]


class Addresses(Room[Problem, Plan]):
    """The room as the rest of tilewright knows it."""

    name = "addresses"
    decides = "Addresses: where buffers with known lifetimes lie in one on-chip memory."
    problem_type = Problem
    plan_type = Plan
    measures_type = AddressesMeasures
    file_suffix = ".csv"

    best_bound = staticmethod(best_bound)
    broken_limit = staticmethod(limit_violation)
    objective = staticmethod(objective)
    measured_objective = staticmethod(measured_objective)
    execute_plan = staticmethod(execute_plan)
    simulation_seconds = staticmethod(simulation_seconds)
    numeric_elements = staticmethod(numeric_elements)
    most_values = staticmethod(most_values)
    portfolio = staticmethod(portfolio)
    lines = staticmethod(lines)
    read_file = staticmethod(read_file)

    def compile_kernels(self, bundled: Callable[[str], Problem]) -> None:
        pack([0, 1], [2, 3], [1, 2], 3)


ROOM = register(Addresses())
simulate = ROOM.simulate
violation = ROOM.violation
