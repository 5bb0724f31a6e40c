"""Beam search: plans grow patch by patch, side by side, and those that lose the fewest pixels survive.

The state of a growing plan is what has been computed and what is on chip. All that distinguishes its
price from the least possible are pixels that leave the memory while patches that need them remain, so
these are counted, and what threatens to become one: pixels of the previous group that the current one does not
cover yet, and to a lesser degree all pixels that have to be kept.
"""

from __future__ import annotations

import numpy as np

from tilewright.grouping import Plan, Problem
from tilewright.heuristics.grouping import strips
from tilewright.heuristics.grouping._measure import best, near, room
from tilewright.heuristics.grouping._window import Style, Window

STYLES: tuple[Style, ...] = (
    (0.3, 0.8, 0.2, 0.0, 0.01),
    (0.5, 0.8, 0.1, 0.0, 0.01),
    (0.7, 0.9, 0.05, 1.0, 0.01),
    (0.3, 0.8, 0.1, 0.5, 0.01),
)
"""Tastes that did well on many layers, the most reliable first."""

WORK = 4e9
"""Bytes that the search may copy; about one second."""


def plan(problem: Problem) -> Plan:
    """Grow plans for the whole layer, and strip by strip for layers that are large; return the best.

    Where even narrow beams would take too long, the answer is that of `strips`.
    """
    plans = [strips.plan(problem)]
    close, space = near(problem), room(problem)
    fewest, most = problem.steps_range
    # With little memory a group may hold fewer patches; `strips` knows how many steps that takes.
    n_steps = min(max(fewest, plans[0].n_steps if problem.machine.memory else problem.kmin), most)
    state = problem.n_patches + 3 * problem.n_pixels
    width = int(min(300, WORK / len(STYLES) / (problem.n_patches * state)))
    if width >= 10:
        whole = Window.of(problem, close, np.arange(problem.n_patches))
        for style in STYLES:
            groups = whole.grow(space, n_steps, problem.max_loads, width, style, 0)
            if groups is not None:
                plans.append(Plan.from_groups(problem, groups))
    return best(problem, plans)
