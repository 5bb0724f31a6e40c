"""Greedy by breadth (Pisarchyk and Lee 2020): buffers of the fullest time first, each in the smallest gap."""

from __future__ import annotations

from tilewright.addresses import Plan, Problem
from tilewright.addresses.greedy import by_breadth, place_in_order


def plan(problem: Problem) -> Plan:
    """Place the buffers of the broadest time first."""
    return place_in_order(problem, by_breadth(problem), smallest_gap=True)
