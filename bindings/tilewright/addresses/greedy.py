"""Offsets without a search: buffers in some order, each at a gap between those that it lives with."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tilewright.addresses.plan import Plan
from tilewright.addresses.problem import Problem


def place_in_order(problem: Problem, order: Iterable[int], *, smallest_gap: bool = False) -> Plan:
    """Place buffers one after the other, each as low as it fits or in the smallest gap that it fits in.

    The plan may be higher than the memory.
    """
    alignment = problem.memory.alignment
    offsets = np.zeros(len(problem.buffers), dtype=np.int64)
    placed: list[int] = []
    for buffer in order:
        others = np.array(placed, dtype=np.int64)
        together = (problem.lower[others] < problem.upper[buffer]) & (
            problem.lower[buffer] < problem.upper[others]
        )
        beside = others[together]
        size = int(problem.size[buffer])
        end, best, least = 0, -1, 2**62
        for other in beside[np.argsort(offsets[beside], kind="stable")].tolist():
            gap = int(offsets[other]) - end
            if gap >= size and gap < least:
                best, least = end, gap
                if not smallest_gap:
                    break
            over = int(offsets[other] + problem.size[other])
            end = max(end, -(-over // alignment) * alignment)
        offsets[buffer] = end if best < 0 else best
        placed.append(buffer)
    return Plan(tuple(offsets.tolist()))


def by_size(problem: Problem) -> list[int]:
    """Return the buffers, the largest first; of the same size, the longest and then the earliest first."""
    length = problem.upper - problem.lower
    order: list[int] = np.lexsort([problem.lower, -length, -problem.size]).tolist()
    return order


def by_breadth(problem: Problem) -> list[int]:
    """Return the buffers by the breadth of the times that they live in, the sum of all sizes at a time.

    Of the broadest time all buffers come first, the largest at the front; then those of the next one.
    """
    times = np.unique(problem.lower)
    live = (problem.lower <= times[:, None]) & (times[:, None] < problem.upper)
    order: dict[int, None] = {}
    largest_first = by_size(problem)
    for one in np.argsort(-(live * problem.size).sum(axis=1), kind="stable").tolist():
        order |= dict.fromkeys(buffer for buffer in largest_first if live[one, buffer])
    return list(order)


def pushed_down(problem: Problem, plan: Plan) -> Plan:
    """Return a plan in which no buffer fits any lower, and which is no higher than a valid one."""
    return place_in_order(problem, np.argsort(plan.offsets, kind="stable").tolist())
