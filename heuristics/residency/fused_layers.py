"""Fused layers: as many operations as fit with their weights run depth-first, others' maps go to DRAM.

The greedy rule of pyramids of layers (Alwani et al., Fused-layer CNN accelerators, MICRO 2016), with line
buffers in place of what is computed again.
"""

from __future__ import annotations

from tilewright.residency import Plan, Problem
from tilewright.residency.exact.search import Search
from tilewright.residency.exact.step_arrays import StepArrays
from tilewright.residency.greedy import construct
from tilewright.residency.greedy import suits as suits
from tilewright.residency.transitions import State

SLOW = True


def plan(problem: Problem) -> Plan:
    """Take the longest group in which nothing moves twice, else the next operation alone."""

    def groups(search: Search, state: State) -> list[int]:
        steps = search.steps
        found: list[int] = []
        first: list[int] = []
        for mask in search.groups(state.done):
            if steps.least(mask) > steps.capacity:
                break
            first = first or [mask]
            group = steps.group(mask)
            if mask & (mask - 1) and StepArrays(group, steps.capacity).once(steps.capacity):
                found.append(mask)
        return [*reversed(found), *first]

    return construct(problem, groups, empty=True)
