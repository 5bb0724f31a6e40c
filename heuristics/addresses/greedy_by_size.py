"""Greedy by size (Pisarchyk and Lee 2020): the largest buffer first, each in the smallest gap."""

from __future__ import annotations

from tilewright.addresses import Plan, Problem
from tilewright.addresses.greedy import by_size, place_in_order


def plan(problem: Problem) -> Plan:
    """Place the largest buffers first."""
    return place_in_order(problem, by_size(problem), smallest_gap=True)
