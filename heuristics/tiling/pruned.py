"""Pruned: the thesis's exploration: five schedules, its closed forms, tiles that add over 5 % work left out.

The closed forms count every edge tile as a full one (sections 5.1 to 5.3, algorithm 1, section 7.7). They
choose the tile here; what it really costs is for `tilewright.tiling` to say.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.tiling import Plan, Problem, violation
from tilewright.tiling.dsp import thesis_model
from tilewright.tiling.dsp.exact import local_traffic
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.dsp.plan import SCHEDULES, DspPlan, allowed
from tilewright.tiling.dsp.traffic import Tiles

Values = NDArray[np.float64]

MAX_PADDED_WORK = 1.05
"""Tiles whose padded edges make the layer larger than this are ignored (section 7.7)."""


def suits(problem: Problem) -> bool:
    """Whether the heuristic has plans for a problem."""
    return problem.machine.kind == "dsp" and problem.plain


def plan(problem: Problem) -> Plan:
    """Return the best tile and schedule by the thesis's closed forms."""
    assert problem.machine.kind == "dsp"
    limit = problem.limits.orders
    nest = nest_of(problem.one_layer, problem.machine, limit)
    local = local_traffic(nest)
    names = allowed(limit) or tuple(SCHEDULES)
    for most in (MAX_PADDED_WORK, None):
        tiles = thesis_model.explore(nest, nest.machine.buffer_capacity, most)
        if not len(tiles.need):
            continue
        ranked = []
        for name in names:
            cost = _cost(tiles, name, problem.minimise, local)
            cost = np.where(tiles.needs_late_sums(SCHEDULES[name][1]), np.inf, cost)
            # Ties go to the smaller memory, as in algorithm 3.
            at = int(np.lexsort((tiles.need, cost))[0])
            ranked.append((cost[at], int(tiles.need[at]), name, at))
        for _, _, name, at in sorted(ranked):
            found = _plan(tiles, at, name)
            if violation(problem, found) is None:
                return found
    smallest = Tiles(nest, tuple(steps[:1] for steps in nest.steps))
    return _plan(smallest, 0, names[0])  # nothing is allowed at all


def _plan(tiles: Tiles, at: int, schedule: str) -> Plan:
    tile = tuple(int(step[at]) for step in tiles.steps)
    return Plan((DspPlan(tile, *SCHEDULES[schedule]),))


def _cost(tiles: Tiles, schedule: str, minimise: str, local: int) -> Values:
    if minimise == "accesses":
        return thesis_model.accesses(tiles, schedule)
    times = thesis_model.cycles(tiles, schedule, local)
    if minimise == "cycles":
        return times.total
    price, size = tiles.nest.machine.energy, tiles.nest.machine.unit_bits / 8
    dram = price.dram_fj_per_access * size / price.dram_access_bytes
    result: Values = dram * thesis_model.accesses(tiles, schedule) + price.core_fj_per_cycle * (
        times.compute + times.setup
    )
    return result
