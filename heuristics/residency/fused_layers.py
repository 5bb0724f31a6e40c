"""Fused layers: as many operations as fit with their weights run depth-first, others' maps go to DRAM.

The greedy rule of pyramids of layers (Alwani et al., Fused-layer CNN accelerators, MICRO 2016), with line
buffers in place of what is computed again.
"""

from __future__ import annotations

from tilewright.residency import Plan, Problem
from tilewright.residency.exact.step_arrays import StepArrays
from tilewright.residency.greedy import construct
from tilewright.residency.greedy import suits as suits
from tilewright.residency.transitions import State, Transitions

SLOW = True


def plan(problem: Problem) -> Plan:
    """Take the longest group in which nothing moves twice, else the next operation alone."""

    def groups(steps: Transitions, state: State) -> list[int]:
        fitting = list(steps.next_groups(state.done))
        fused = [
            mask
            for mask in fitting
            if mask & (mask - 1)
            and StepArrays(steps.groups[mask], steps.capacity).fits_moving_once(steps.capacity)
        ]
        return [*reversed(fused), *fitting[:1]]

    return construct(problem, groups, empty=True)
