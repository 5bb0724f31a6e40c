"""Longest first: what lives longest lies lowest, as it is in the way of most others."""

from __future__ import annotations

import numpy as np

from tilewright.addresses import Plan, Problem
from tilewright.addresses.greedy import place_in_order


def plan(problem: Problem) -> Plan:
    """Place the buffers that live longest first, the larger of two first."""
    order = np.lexsort([-problem.size, problem.lower - problem.upper])
    return place_in_order(problem, order.tolist())
