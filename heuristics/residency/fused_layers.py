"""Fused layers: as many operations as fit with their weights run depth-first, others' maps go to DRAM.

The greedy rule of pyramids of layers (Alwani et al., Fused-layer CNN accelerators, MICRO 2016), with line
buffers in place of what is computed again.
"""

from __future__ import annotations

from tilewright.residency import Plan, Problem
from tilewright.residency.greedy import construct, fused_groups
from tilewright.residency.greedy import suits as suits

SLOW = True


def plan(problem: Problem) -> Plan:
    """Take the longest group in which nothing moves twice, else the next operation alone."""
    return construct(problem, fused_groups, empty=True)
