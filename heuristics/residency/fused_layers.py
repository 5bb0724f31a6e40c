"""Fused layers: as many operations as fit with their weights run depth-first, others' maps go to DRAM.

The greedy rule of pyramids of layers (Alwani et al., Fused-layer CNN accelerators, MICRO 2016), with line
buffers in place of what is computed again.
"""

from __future__ import annotations

from tilewright.residency import Plan, Problem
from tilewright.residency.exact.search import Search
from tilewright.residency.greedy import chosen
from tilewright.residency.transitions import Move, State, Transitions


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
            sources = sum(1 << number for number in steps.group(mask).sources)
            stair = steps.best(steps.group(mask), 0, sources, steps.capacity)
            if stair is not None and not stair.again:
                found.append(mask)
        return [*reversed(found), *first]

    def liking(_steps: Transitions, move: Move) -> tuple[int, int]:
        return move.moved, move.memory

    return chosen(problem, groups, lambda _steps, move: not move.after.on_chip, liking)
