"""Interleaved: each group takes patches a kernel's width apart, so that whole pixel rows stay on chip."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping import Plan, Problem
from tilewright.heuristics.grouping._measure import best, cut


def plan(problem: Problem) -> Plan:
    """Try spacings of a kernel's width and nearby, both orientations and turns; return the best plan.

    Patches that just miss each other need as many pixels as patches can. A group of ``W / K_W`` of them
    holds all pixels of its rows; the groups that follow fill the places between, and the rows are given
    up only when the walk has gone on to the next ones.
    """
    numbers = np.arange(problem.n_patches).reshape(problem.grid)
    plans = []
    for plane, axis in ((numbers, 1), (numbers.T, 0)):
        layer = problem.layer
        miss = -(-layer.kernel_extent[axis] // layer.stride[axis])
        for spacing in {max(1, miss - 1), miss, miss + 1}:
            for turning in (False, True):
                order = _walk(plane, min(spacing, plane.shape[1]), turning)
                plans.append(Plan.from_groups(problem, cut(problem, order)))
    chosen: Plan = best(problem, plans)
    return chosen


def _walk(plane: NDArray[np.int64], spacing: int, turning: bool) -> NDArray[np.int64]:
    """Walk the rows; within a row columns 0, spacing, 2 spacing, ..., then 1, spacing + 1, ..., and so on.

    A turning walk takes every other row backwards, so that a row begins with the columns that the one
    before it ended with.
    """
    columns = np.arange(plane.shape[1])
    order = columns[np.lexsort((columns, columns % spacing))]
    rows = [row[order[::-1] if turning and number % 2 else order] for number, row in enumerate(plane)]
    return np.concatenate(rows)
