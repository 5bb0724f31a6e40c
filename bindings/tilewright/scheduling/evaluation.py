"""What a plan costs, what is known without a search, and what ``auto`` runs."""

from __future__ import annotations

from tilewright.core.bounds import Bound
from tilewright.core.context import CONSTRUCT
from tilewright.core.portfolio import Portfolio
from tilewright.scheduling.bounds import lower_bound
from tilewright.scheduling.exact.subgraph_candidates import connected_sets
from tilewright.scheduling.lowering import whole_units
from tilewright.scheduling.plan import Plan
from tilewright.scheduling.problem import Problem
from tilewright.scheduling.rules import latencies
from tilewright.scheduling.subgraph.cost import Pricer
from tilewright.simulator import Report

FEW_OPERATIONS, FEW_SETS = 24, 30_000
"""Operations, and connected sets of them, for which the exact search needs nothing beside it."""

SECONDS_PER_STEP = 4e-5
"""What a step of an execution takes, about, with a slice; more take longer."""


def best_bound(problem: Problem) -> Bound:
    """Return what computing at the native granularity takes, or moving what must be moved."""
    return lower_bound(problem)


def objective(problem: Problem, plan: Plan) -> int:
    """Return the latency of a valid plan by the closed form, a begun unit of time as a whole one."""
    return whole_units(sum(latencies(problem, plan)), problem.graph.scale)


def measured_objective(problem: Problem, report: Report) -> int:
    """Return the latency of an executed plan."""
    return whole_units(report.measures.latency_ticks, problem.graph.scale)


def simulation_seconds(problem: Problem, steps: int) -> float:
    """Estimate how long `simulate` takes for a plan of usual granularities."""
    graph = problem.graph
    width, height = graph.native_granularity
    tiles = sum(
        -(-graph.widths[tensor] // width)
        * -(-graph.heights[tensor] // height)
        * max(1, -(-graph.depth(op) // graph.native_depth))
        for op, tensor in enumerate(graph.made)
    )
    return 0.1 + SECONDS_PER_STEP * tiles


def numeric_elements(problem: Problem) -> int:
    """Return the elements that a numeric execution holds: of all tensors."""
    graph = problem.graph
    return sum(map(graph.elements, range(len(graph.widths))))


def most_values(problem: Problem) -> int:
    """Return about how many values a plan and its report have at most."""
    return 10_000 + 2_000 * len(problem.graph.inputs)


def portfolio(problem: Problem) -> Portfolio:
    """Return what ``auto`` runs: annealing beside the exact search, which small graphs do not need."""
    if len(problem.graph.inputs) <= FEW_OPERATIONS and connected_sets(problem, seen=FEW_SETS) is not None:
        # The search is first tried for a moment, in which what it runs compiled should not yet be loaded.
        Pricer(problem).best(frozenset((0,)))
        return Portfolio(CONSTRUCT, "ideals", alone=True, chooses=True)
    return Portfolio("annealing", "ideals", chooses=True)
