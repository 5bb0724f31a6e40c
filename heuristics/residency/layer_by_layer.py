"""Layer by layer: every map goes out to DRAM and comes back; without DRAM it stays until it is read last."""

from __future__ import annotations

from tilewright.residency import Plan, Problem
from tilewright.residency.exact.without_dram import one_by_one
from tilewright.residency.greedy import construct, next_alone
from tilewright.spec.errors import InputError


def suits(problem: Problem) -> bool:
    """Whether the rule has a plan: not for lists, whose tolerances depend on optima."""
    return not problem.before


def plan(problem: Problem) -> Plan:
    """Execute each operation alone, and move least with nothing on chip between two steps."""
    if problem.machine.dram:
        return construct(problem, next_alone, empty=True)
    found = one_by_one(problem, float("inf"))
    if found is None:
        limit = "holds no plan of the operations one by one, within limits and constraints"
        raise InputError("machine.memory_bytes", problem.machine.memory_bytes, limit)
    return found
