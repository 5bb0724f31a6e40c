"""S1-baseline: one patch per step, row after row (S1 paper, definition 12)."""

import numpy as np

from tilewright.grouping import Plan, Problem


def plan(problem: Problem) -> Plan:
    """Compute one patch per step in row-major order, in K_max steps whatever the limits say."""
    return Plan.from_steps(problem, np.arange(problem.n_patches))
