"""Row-by-Row: patches from left to right, row after row, a group at a time (S1 paper, section 7.2)."""

import numpy as np

from tilewright.grouping import Plan, Problem


def plan(problem: Problem) -> Plan:
    """Cut the row-major sequence of patches into groups of the largest size."""
    return Plan.from_steps(problem, np.arange(problem.n_patches) // problem.group_size)
