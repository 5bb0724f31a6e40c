"""Scheduling: which operations of a graph run as one subgraph, in which order, tiles and steps."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.core.room import Room, register
from tilewright.scheduling.evaluation import (
    best_bound,
    measured_objective,
    most_values,
    numeric_elements,
    objective,
    portfolio,
    simulation_seconds,
)
from tilewright.scheduling.graph_file import read_file
from tilewright.scheduling.lowering import execute_plan
from tilewright.scheduling.measures import SchedulingMeasures
from tilewright.scheduling.plan import Plan
from tilewright.scheduling.problem import Problem
from tilewright.scheduling.rules import rank
from tilewright.scheduling.rules import violation as limit_violation
from tilewright.scheduling.subgraph.cost import Pricer, best_order, least_traffic, ticks
from tilewright.scheduling.subgraph.structure import LONGEST

__all__ = [
    "ROOM",
    "Plan",
    "Problem",
    "best_bound",
    "measured_objective",
    "numeric_elements",
    "objective",
    "portfolio",
    "simulate",
    "simulation_seconds",
    "violation",
]


class Scheduling(Room[Problem, Plan]):
    """The room as the rest of tilewright knows it."""

    name = "scheduling"
    decides = (
        "Scheduling: which operations of a graph run as one subgraph, in which order, tiles and steps, and "
        "what stays in fast memory."
    )
    problem_type = Problem
    plan_type = Plan
    measures_type = SchedulingMeasures
    layer_kinds = ()
    file_suffix = ".json"
    file_table = "graph"

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
    read_file = staticmethod(read_file)

    def compile_kernels(self, bundled: Callable[[str], Problem]) -> None:
        problem = bundled("mlsys-example5")
        pricer = Pricer(problem)
        ops = frozenset((0,))
        choice, needs = pricer.best(ops), pricer.structure(ops)
        assert choice is not None and not isinstance(needs, str)
        size = choice.width, choice.height, choice.depth
        ticks(problem.graph, needs, size, best_order(problem.graph, needs, size))
        tiles = -(-needs.width // 8), -(-needs.height // 8), choice.depth  # too many for all orders of them
        best_order(problem.graph, needs, tiles)
        least_traffic(problem.graph, ops, needs, problem.graph.fast_memory_capacity, LONGEST)


ROOM = register(Scheduling())
simulate = ROOM.simulate
violation = ROOM.violation
