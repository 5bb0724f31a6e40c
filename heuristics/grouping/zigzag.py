"""ZigZag: even rows from left to right, odd rows from right to left (S1 paper, section 7.2)."""

import numpy as np

from tilewright.grouping import Plan, Problem


def plan(problem: Problem) -> Plan:
    """Cut the boustrophedon sequence of patches into groups of the largest size."""
    place = np.arange(problem.n_patches).reshape(problem.grid)
    place[1::2] = place[1::2, ::-1].copy()
    return Plan.from_steps(problem, place.ravel() // problem.group_size)
