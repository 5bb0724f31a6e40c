"""A good plan of a layer by descent: rows and columns, then input maps, until nothing gets better.

Of every partition and schedule; each tile has the most filters that fit.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tilewright.tiling.machine_kind import LayerProblem
from tilewright.tiling.npu.cost import Counts, measure, totals
from tilewright.tiling.npu.cut import Cut, cut_of
from tilewright.tiling.npu.exact import apart, choices, largest_filter_step
from tilewright.tiling.npu.plan import NpuPlan


@lru_cache(maxsize=256)
def known_plan(problem: LayerProblem) -> NpuPlan | None:
    """Return the best plan that descent finds, None where no tile fits."""
    best: tuple[int, NpuPlan] | None = None
    for partition, schedule in choices(problem.limits):
        found = _descend(problem, cut_of(problem.one_layer, problem.machine, partition), schedule)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
    return None if best is None else best[1]


def _descend(problem: LayerProblem, cut: Cut, schedule: str) -> tuple[int, NpuPlan] | None:
    _, ns, rs, cs = cut.steps
    found = _best_of(problem, cut, schedule, ns[:1], rs, cs)
    while found is not None:
        before = found
        _, _, r, c = (np.array([step]) for step in found[1].tile)
        found = min(found, _best_of(problem, cut, schedule, ns, r, c) or found, key=_value)
        n = np.array([found[1].tile[1]])
        found = min(found, _best_of(problem, cut, schedule, n, rs, cs) or found, key=_value)
        if found == before:
            break
    return found


def _value(found: tuple[int, NpuPlan]) -> int:
    return found[0]


def _best_of(
    problem: LayerProblem, cut: Cut, schedule: str, n: Counts, r: Counts, c: Counts
) -> tuple[int, NpuPlan] | None:
    """Return the best plan of some steps, each with the most filters that fit."""
    deep, high, wide = np.ix_(n, r, c)
    most = largest_filter_step(cut, schedule, deep, high, wide, apart(problem.limits))
    if not (most > 0).any():
        return None
    value = measure(cut, totals(cut, schedule, (np.maximum(most, 1), deep, high, wide)), problem.minimise)
    value = np.where(most > 0, value, np.iinfo(np.int64).max)
    at = np.unravel_index(int(value.argmin()), value.shape)
    tile = (int(most[at]), int(n[at[0]]), int(r[at[1]]), int(c[at[2]]))
    return int(value[at]), NpuPlan(cut.partition, schedule, cut.step(tile))
