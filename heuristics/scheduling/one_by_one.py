"""One by one: every operation a subgraph of its own, at its best granularity; what can stay stays."""

from __future__ import annotations

from tilewright.scheduling import Plan, Problem
from tilewright.scheduling.improvement.sequencing import Sequencing, plan_of
from tilewright.scheduling.subgraph.cost import Pricer
from tilewright.spec.errors import InputError


def plan(problem: Problem) -> Plan:
    """Run the operations in an order in which what is made is read next."""
    pricer = Pricer(problem)
    found = Sequencing(pricer).arranged([frozenset((op,)) for op in range(len(problem.graph.inputs))])
    if found is None:
        raise InputError("graph.fast_memory_capacity", problem.graph.fast_memory_capacity, "is too small")
    return plan_of(pricer, found[1])
