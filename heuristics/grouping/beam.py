"""Beam search: plans grow patch by patch, side by side, and those that lose the fewest pixels survive.

The state of a growing plan is what has been computed and what is on chip. All that distinguishes its
price from the least possible are pixels that leave the memory while patches that need them remain, so
these are counted, and what threatens to become one: pixels of the previous group that the current one does
not cover yet, and to a lesser degree all pixels that have to be kept.

A group can keep a front of limited length on chip, so layers much wider than a group are cut into strips
that are grown one after the other.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping import Plan, Problem
from tilewright.heuristics.grouping import strips
from tilewright.heuristics.grouping._measure import Group, best, near, room
from tilewright.heuristics.grouping._window import Style, Window

STYLES: tuple[Style, ...] = (
    (0.3, 0.8, 0.2, 0.0, 0.01, 100.0),
    (0.5, 0.8, 0.1, 0.0, 0.01, 100.0),
    (0.5, 0.9, 0.03, 1.0, 0.01, 100.0),
    (0.3, 0.8, 0.1, 0.5, 0.01, 100.0),
)
"""Tastes that did well on many layers, the most reliable first."""

SLOW = True
"""On large layers this takes seconds: the others go first."""

WORK = 3e9
"""Bytes that the searches may move together; one or two seconds."""


def plan(problem: Problem) -> Plan:
    """Grow plans for the whole layer and strip by strip; return the best.

    Where even narrow beams would take too long, the answer is that of `strips`.
    """
    plans = [strips.plan(problem)]
    close, space = near(problem), room(problem)
    cuts = [(count, lying) for lying in (False, True) for count in sensible_counts(problem, lying)]
    width = int(min(200, WORK / len(STYLES) / sum(work(problem, count) for count, _ in cuts)))
    if width >= 10:
        for count, lying in cuts:
            for style in STYLES:
                groups = grow(problem, close, space, count, lying, plans[0].n_steps, width, style, 0)
                if groups is not None:
                    plans.append(Plan.from_groups(problem, groups))
    chosen: Plan = best(problem, plans)
    return chosen


def sensible_counts(problem: Problem, lying: bool) -> list[int]:
    """Return the numbers of strips to try: from the fewest that a group can span down, and 1 if near."""
    across = problem.grid[0 if lying else 1]
    full = -(-across // problem.group_size)
    counts = {count for count in (full, full - 1, full - 2) if count > 1}
    # The whole plane is the same upright and lying.
    if full <= 5 and not lying:
        counts.add(1)
    return sorted(counts)


def work(problem: Problem, count: int) -> float:
    """Estimate the bytes that growing a plan in so many strips moves per plan kept."""
    patches, pixels = problem.n_patches / count, problem.n_pixels / count
    candidates = 500 * problem.layer.kernel[0] * problem.layer.kernel[1]
    return problem.n_patches * (patches + 3 * pixels + candidates)


def grow(
    problem: Problem,
    close: NDArray[np.int32],
    space: NDArray[np.int32],
    count: int,
    lying: bool,
    n_steps: int,
    width: int,
    style: Style,
    seed: int,
) -> list[Group] | None:
    """Grow a plan strip by strip; None if the search died.

    Parameters
    ----------
    close, space
        `near` and `room` of the problem.
    count, lying
        Number of strips; whether they lie along the rows. A strip ends where a group is full, not at a
        straight line.
    n_steps
        Number of steps.
    width, style, seed
        See `_growing.grow`.
    """
    numbers = np.arange(problem.n_patches).reshape(problem.grid)
    order = (numbers if lying else numbers.T).ravel()
    lines, length = problem.grid if lying else problem.grid[::-1]
    table = problem.patch_pixels
    size = len(order) / n_steps
    steps = [round(round(i * lines / count) * length / size) for i in range(count)] + [n_steps]
    loads = np.zeros(problem.n_pixels + 1, np.int64)  # the last entry answers for -1
    groups: list[Group] = []
    for first, last in pairwise(steps):
        begin, end = (min(len(order), round(step * size)) for step in (first, last))
        if begin == end:
            continue
        window = Window.of(problem, close, order[begin:end], groups[-1] if groups else None)
        # What later strips need again, they will load again.
        loads[np.unique(table[order[end:]])] += 1
        window.loads = loads[window.known].copy()
        loads[np.unique(table[order[end:]])] -= 1
        part = window.grow(space, last - first, problem.max_loads, width, style, seed)
        if part is None:
            return None
        loads[window.known] += window.starts(problem, part)
        groups += part
    return groups
