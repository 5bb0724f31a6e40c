"""Keep if it fits: layer by layer, but a map stays on chip if all that is left to do fits beside it."""

from __future__ import annotations

from tilewright.residency import Plan, Problem
from tilewright.residency.greedy import chosen, one, safe
from tilewright.residency.greedy import suits as suits

SLOW = True


def plan(problem: Problem) -> Plan:
    """Execute each operation alone, and keep what may be kept."""
    return chosen(problem, one, safe(problem))
