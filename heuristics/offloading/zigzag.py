"""ZigZag: rows in alternating direction (S1 paper, section 7.2), and likewise over kernels and channels."""

from tilewright.offloading import Plan, Problem
from tilewright.offloading.loops import baseline
from tilewright.offloading.sequences import zigzag
from tilewright.spec.errors import InputError


def plan(problem: Problem) -> Plan:
    """Take the best order of loops over groups, kernels and channels, for the largest blocks that do."""
    found = baseline(problem, zigzag(problem), turning=True)
    if found is None:
        raise InputError("heuristic", "zigzag", "no order of its loops keeps to the limits")
    return found
