"""First fit: the buffers as they begin to live, each at the lowest addresses that are free all the time."""

from __future__ import annotations

import numpy as np

from tilewright.addresses import Plan, Problem
from tilewright.addresses.greedy import place_in_order


def plan(problem: Problem) -> Plan:
    """Place buffers in the order of time; of those that begin together, the longest first."""
    order = np.lexsort([-problem.size, -problem.upper, problem.lower])
    return place_in_order(problem, order.tolist())
