"""A lower bound on what every plan on a multicore NPU costs: that of tiles with all input maps at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.tiling.machine_kind import LayerProblem
from tilewright.tiling.npu.cost import Cost, measure, totals
from tilewright.tiling.npu.cut import Cut, cut_of
from tilewright.tiling.npu.exact import NEVER, apart, choices, largest_filter_step


def relaxed(cut: Cut, schedule: str, apart: bool = False) -> tuple[Cost, NDArray[np.bool_]]:
    """Return lower bounds for every pair of T_R and T_C, and whether a tile can fit with them.

    They are those of tiles with all input maps, whatever memory that takes, and as many filters as fit beside
    one map: no count grows with T_N or with T_M.
    """
    _, _, rs, cs = cut.steps
    r, c = rs[:, None], cs[None, :]
    most = largest_filter_step(cut, schedule, np.int64(1), r, c, apart)
    return totals(cut, schedule, (np.maximum(most, 1), np.int64(cut.maps), r, c)), most > 0


def lower_bound(problem: LayerProblem) -> int | None:
    """Return a lower bound on the cost of every plan, None if there is no plan."""
    least: int | None = None
    for partition, schedule in choices(problem.limits):
        cut = cut_of(problem.one_layer, problem.machine, partition)
        total, fits = relaxed(cut, schedule, apart(problem.limits))
        if fits.any():
            found = int(np.where(fits, measure(cut, total, problem.counted), NEVER).min())
            least = found if least is None else min(least, found)
    return least
