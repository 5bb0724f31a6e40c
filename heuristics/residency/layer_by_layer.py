"""Layer by layer: every map goes out to DRAM and comes back."""

from __future__ import annotations

from tilewright.residency import Plan, Problem
from tilewright.residency.greedy import construct, next_alone
from tilewright.residency.greedy import suits as suits


def plan(problem: Problem) -> Plan:
    """Execute each operation alone, and move least with nothing on chip between two steps."""
    return construct(problem, next_alone, empty=True)
