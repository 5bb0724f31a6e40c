"""Row-by-Row: rows of patches from left to right (S1 paper, section 7.2), for any kernels and channels."""

from tilewright.offloading import Plan, Problem
from tilewright.offloading.loops import baseline
from tilewright.offloading.sequences import row_by_row
from tilewright.spec.errors import InputError


def plan(problem: Problem) -> Plan:
    """Take the best order of loops over groups, kernels and channels, for the largest blocks that do."""
    found = baseline(problem, row_by_row(problem), turning=False)
    if found is None:
        raise InputError("heuristic", "row_by_row", "no order of its loops keeps to the limits")
    return found
