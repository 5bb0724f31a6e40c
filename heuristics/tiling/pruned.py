"""Pruned: the thesis's exploration: five schedules, its closed forms, tiles that add over 5 % work left out.

The closed forms count every edge tile as a full one (sections 5.1 to 5.3, algorithm 1, section 7.7). They
choose the tile here; what it really costs is for `tilewright.tiling` to say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.tiling import Plan, Problem, fault
from tilewright.tiling.dsp import local_traffic, nest_of
from tilewright.tiling.dsp.nest import C, G, K, N, Nest, X, Y
from tilewright.tiling.dsp.plan import SCHEDULES, DspPlan
from tilewright.tiling.dsp.traffic import Tiles

Values = NDArray[np.float64]

MAX_PADDED_WORK = 1.05
"""Tiles whose padded edges make the layer larger than this are ignored (section 7.7)."""


def suits(problem: Problem) -> bool:
    """Whether the heuristic has plans for a problem."""
    return problem.machine.kind == "dsp" and problem.minimise != "pareto"


def plan(problem: Problem) -> Plan:
    """Return the best tile and schedule by the thesis's closed forms."""
    assert problem.machine.kind == "dsp"
    nest = nest_of(problem.one_layer, problem.machine)
    local = local_traffic(problem.one_layer, problem.machine)
    limit = problem.limits.schedule
    allowed = list(SCHEDULES) if limit in ("any", "thesis") else [limit]
    for most in (MAX_PADDED_WORK, None):
        tiles = explore(nest, nest.machine.room, most)
        ranked = []
        for name in allowed:
            cost = _cost(tiles, name, problem.minimise, local)
            cost = np.where(runnable(tiles, name), cost, np.inf)
            # Ties go to the smaller memory, as in algorithm 3.
            at = int(np.lexsort((tiles.need, cost))[0])
            ranked.append((cost[at], int(tiles.need[at]), name, at))
        for _, _, name, at in sorted(ranked):
            found = _plan(tiles, at, name)
            if fault(problem, found) is None:
                return found
    return _plan(explore(nest, nest.machine.room), 0, allowed[0])  # nothing is allowed at all


def _plan(tiles: Tiles, at: int, schedule: str) -> Plan:
    tile = tuple(int(step[at]) for step in tiles.steps)
    return Plan((DspPlan(tile, *SCHEDULES[schedule]),))  # type: ignore[arg-type]


def _cost(tiles: Tiles, schedule: str, minimise: str, local: int) -> Values:
    if minimise == "accesses":
        return tiles.published(schedule)
    times = published_cycles(tiles, schedule, local)
    if minimise == "cycles":
        return times.total
    price, size = tiles.nest.machine.energy, tiles.nest.machine.element_bytes
    dram = price.dram_fj_per_access * size / price.dram_access_bytes
    result: Values = dram * tiles.published(schedule) + price.core_fj_per_cycle * (
        times.compute + times.setup
    )
    return result


# The thesis's model --------------------------------------------------------------------------------


def explore(nest: Nest, room: float, most_work: float | None = None) -> Tiles:
    """Return the tiles that fit, the smallest first, one for every number of iterations of each loop.

    A larger tile with as many iterations costs more in every closed form.

    Parameters
    ----------
    room
        Elements for one copy of all buffers.
    most_work
        How often the layer's MACs a tiling may have, edge tiles counted as full ones; None for any.
    """
    steps = [values[:1] for values in nest.steps]
    for d in (K, C, G, N, X, Y):
        rows = [np.repeat(step, len(nest.steps[d])) for step in steps]
        rows[d] = np.tile(nest.steps[d], len(steps[d]))
        tiles = Tiles(nest, tuple(rows))
        keep = tiles.need <= room
        if most_work is not None:
            keep &= _padded_work(tiles) <= most_work
        steps = [row[keep] for row in rows]
    return Tiles(nest, tuple(steps))


def _padded_work(tiles: Tiles) -> Values:
    work = np.ones(1)
    for size, step, trips in zip(tiles.nest.sizes, tiles.steps, tiles.trips, strict=True):
        work = work * (step * trips / size)
    return work


def runnable(tiles: Tiles, schedule: str) -> NDArray[np.bool_]:
    """Whether partial sums are back in time: not if every next tile needs what this one still writes."""
    if schedule != "intra" or not tiles.nest.machine.double_buffering:
        return np.ones(tiles.trips[K].shape, dtype=bool)
    others = tiles.trips[N] * tiles.trips[C] * tiles.trips[Y] * tiles.trips[X]
    alone: NDArray[np.bool_] = (others == 1) & (tiles.trips[K] > 1)
    return ~alone


def published_transfers(tiles: Tiles, schedule: str) -> Values:
    """DMA transfers of a layer: the accesses per tile with buffers of one element (section 5.3).

    The part of the input that neighbours share is a transfer of its own (listing 6, line 6).
    """
    g, n, c, y, x, k = tiles.trips
    partial = 2 - 1 / k
    each = {
        "intra": 2 + partial,
        "kc": 2 + 1 / k,
        "oc": 1 / c + 1 + partial,
        "oxyn": 1 + 1 / (x * y * n) + partial,
        "oxyn/ox": 1 + 1 / x + 1 / (x * y * n) + partial,
    }[schedule]
    result: Values = g * n * c * y * x * k * each
    return result


@dataclass(frozen=True)
class Times:
    """Cycles of a layer by equation 5.7, one entry per tile.

    Attributes
    ----------
    compute, setup
        Cycles of the core: multiplying, and setting up transfers.
    ends
        Transfers before the first tile and after the last, which nothing hides.
    waiting
        Cycles in which the core waits for the bus.
    """

    compute: Values
    setup: Values
    ends: Values
    waiting: Values

    @property
    def total(self) -> Values:
        """Cycles from the first transfer to the end of the last."""
        result: Values = self.compute + self.setup + self.ends + self.waiting
        return result


def published_cycles(tiles: Tiles, schedule: str, local: float = 0) -> Times:
    """Cycles as the thesis counts them (equations 5.7 to 5.12), every edge tile as a full one.

    Parameters
    ----------
    local
        Elements of local traffic of the whole layer.
    """
    nest, machine = tiles.nest, tiles.nest.machine
    g, n, c, y, x, k = tiles.steps
    trips = np.ones(1)
    for count in tiles.trips:
        trips = trips * count
    outputs = g * n * c * y * x
    weights = g * c * k * nest.window
    inputs = tiles.need - weights - outputs
    macs = outputs * k * nest.window
    bus, begin = machine.bus_elements_per_cycle, machine.dma_setup_cycles
    tile = macs / machine.macs_per_cycle
    transfers = published_transfers(tiles, schedule)
    core = tile + transfers / trips * begin
    traffic = (tiles.published(schedule) + local) / trips / bus
    return Times(
        compute=trips * tile,
        setup=(trips - 1) / trips * transfers * begin + 3 * begin,
        ends=(inputs + weights + outputs) / bus,
        waiting=(trips - 1) * np.maximum(traffic - core, 0),
    )
