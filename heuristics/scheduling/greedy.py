"""Greedy fusion: subgraphs are merged as long as that wins time, those first that win most."""

from __future__ import annotations

from tilewright.scheduling import Plan, Problem
from tilewright.scheduling.improvement.partition import merge_greedily
from tilewright.scheduling.improvement.sequencing import Sequencing, plan_of
from tilewright.scheduling.subgraph.cost import Pricer
from tilewright.spec.errors import InputError


def plan(problem: Problem) -> Plan:
    """Merge from single operations on."""
    pricer = Pricer(problem)
    found = Sequencing(pricer).arranged(merge_greedily(pricer).blocks)
    if found is None:
        raise InputError("graph.fast_memory_capacity", problem.graph.fast_memory_capacity, "is too small")
    return plan_of(pricer, found[1])
