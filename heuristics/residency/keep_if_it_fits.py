"""Keep if it fits: layer by layer, but a map stays on chip if all that is left to do fits beside it."""

from __future__ import annotations

from tilewright.residency import Plan, Problem
from tilewright.residency.greedy import construct, leaves_room, next_alone
from tilewright.residency.greedy import suits as suits

SLOW = True


def plan(problem: Problem) -> Plan:
    """Execute each operation alone, and keep what may be kept."""
    return construct(problem, next_alone, leaves_room(problem))
