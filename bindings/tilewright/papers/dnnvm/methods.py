"""What each method makes of a network: no fusion, greedy, the paper's algorithm 2, the exact search."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.fusion import Plan, Problem, choices, simulate
from tilewright.fusion.matching import matches
from tilewright.fusion.measures import FusionMeasures
from tilewright.fusion.selection.candidates import Candidate, candidates
from tilewright.fusion.selection.downset_search import best_groups
from tilewright.fusion.selection.execution_order import order_groups
from tilewright.heuristics.fusion import dnnvm, greedy
from tilewright.spec.network import OPERANDS

METHODS = ("layerwise", "greedy", "paper", "optimum")
"""What is solved with: no fusion, greedy, the paper's algorithm 2, the exact search."""


@dataclass(frozen=True)
class Solved:
    """What the methods make of a problem.

    Attributes
    ----------
    chosen
        By method, the groups.
    proven
        Whether the exact search ended.
    seconds
        Of `matches`, `candidates`, and the search of each method.
    """

    problem: Problem
    chosen: Mapping[str, Sequence[Candidate]]
    proven: bool
    seconds: Mapping[str, float]

    def milliseconds(self, method: str) -> float:
        """Return how long the groups of a method take."""
        return self.problem.machine.milliseconds(sum(group.cost for group in self.chosen[method]))

    def speedup(self, method: str) -> float:
        """Return how much faster they are than without fusion."""
        return self.milliseconds("layerwise") / self.milliseconds(method)

    def gops(self, method: str) -> float:
        """Return 10^9 operations per second, a MAC being two."""
        operations = 2 * self.problem.machine.arrays * sum(op.macs for op in self.problem.ops)
        return operations / self.milliseconds(method) / 1e6

    def megabytes(self, method: str) -> float:
        """Return what they move from and to DRAM."""
        return sum(choice.traffic for choice in choices(self.problem, self.plan(method))) / 1e6

    def plan(self, method: str) -> Plan:
        """Return the groups in an order of execution."""
        return order_groups(self.problem, self.chosen[method])

    def executed(self, method: str) -> FusionMeasures:
        """Return what the simulator measures; its cycles are those that the method counted on."""
        report = simulate(self.problem, self.plan(method))
        assert report.valid, report.violation
        measures: FusionMeasures = report.measures
        assert measures.duration_ms == self.milliseconds(method)
        return measures


def solved(problem: Problem, time_limit: float = 60, capacity: int | None = None) -> Solved:
    """Solve a problem with all methods.

    Parameters
    ----------
    capacity
        Most bytes of parameters in a group that is on chip as a whole; none when left out, as parameters can
        pass through their buffer.
    """
    seconds: dict[str, float] = {}
    chosen: dict[str, Sequence[Candidate]] = {}

    def timed(name: str, begin: float) -> float:
        seconds[name] = time.perf_counter() - begin
        return time.perf_counter()

    now = time.perf_counter()
    matches(problem.graph, problem.templates)
    now = timed("matches", now)
    groups = [
        group
        for group in candidates(problem)
        if capacity is None or group.template != "block" or _parameters(problem, group) <= capacity
    ]
    producers = [op.producers for op in problem.ops]
    joins = {
        op.number
        for op in problem.ops
        if op.spec.kind in (*OPERANDS, "concat") and len(set(op.producers)) > 1
    }
    now = timed("candidates", now)
    chosen["layerwise"] = [group for group in groups if len(group.nodes) == 1]
    now = timed("layerwise", now)
    chosen["greedy"] = greedy.choose(producers, groups)
    now = timed("greedy", now)
    chosen["paper"] = dnnvm.choose(producers, joins, groups)
    now = timed("paper", now)
    incumbent = best_groups(producers, groups, chosen["greedy"], time.monotonic() + time_limit)
    chosen["optimum"] = incumbent.chosen
    timed("optimum", now)
    return Solved(problem, chosen, incumbent.proven, seconds)


def _parameters(problem: Problem, group: Candidate) -> int:
    """Return the bytes of a group's parameters."""
    fused = problem.fused(group.order)
    values = (
        fused.features[index].shape[0] * fused.parameters(index, (0, fused.summed(index)))
        for index in fused.members
    )
    return sum(values) * problem.machine.element_bytes
