"""Greedy: from the smallest tile, enlarge whatever saves most per element of memory, for every schedule."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.tiling import Plan, Problem, objective, violation
from tilewright.tiling.dsp import exact
from tilewright.tiling.dsp.exact import local_traffic
from tilewright.tiling.dsp.nest import Nest, Tile, nest_of
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.dsp.traffic import Tiles

Values = NDArray[np.float64]

TELLING = ("ncyxk", "nyxkc", "knyxc", "knxyc", "cknyx", "cknxy")
"""While every loop has several iterations, only the innermost ones matter: outputs stay, inputs stay (and
share their halo in x or y), weights stay (likewise)."""


def suits(problem: Problem) -> bool:
    """Whether the heuristic has plans for a problem."""
    return problem.machine.kind == "dsp" and problem.plain


def plan(problem: Problem) -> Plan:
    """Grow a tile for every schedule and take the best."""
    assert problem.machine.kind == "dsp"
    limit = problem.limits.orders
    nest = nest_of(problem.one_layer, problem.machine, limit)
    local = local_traffic(nest)
    grown = {_grow(nest, *schedule, problem.minimise, local) for schedule in _telling(limit)}
    # A tile that was grown for one order may suit another even better.
    tiles = [_one(nest, tile) for tile in sorted(grown)]
    found = []
    for tile in tiles:
        costs = [
            (float(_cost(tile, *schedule, problem.minimise, local)[0]), schedule)
            for schedule in exact.schedules(limit)
        ]
        least = min(cost for cost, _ in costs)
        order, reuse = next(schedule for cost, schedule in costs if cost == least)
        steps = tuple(int(step[0]) for step in tile.steps)
        found.append((least, DspPlan(steps, order, reuse)))
    # The exact cost decides among the few that look best.
    plans = [Plan((one,)) for _, one in sorted(found, key=lambda entry: entry[0])[:8]]
    valid = [one for one in plans if violation(problem, one) is None]
    return min(valid, key=lambda one: objective(problem, one), default=plans[0])


def _telling(limit: str) -> list[tuple[str, str]]:
    """Return the schedules to grow tiles for."""
    if limit == "any":
        return [(order, "halo") for order in TELLING]
    return list(exact.schedules(limit))


def _one(nest: Nest, tile: Tile) -> Tiles:
    return Tiles(nest, tuple(np.array([step]) for step in tile))


def _grow(nest: Nest, order: str, reuse: str, minimise: str, local: int) -> Tile:
    """Enlarge a tile, one loop at a time, until nothing saves anything or nothing fits."""
    tile: Tile = tuple(int(steps[0]) for steps in nest.steps)
    now = _one(nest, tile)
    cost, need = float(_cost(now, order, reuse, minimise, local)[0]), int(now.need[0])
    while True:
        rows = [
            (*tile[:d], int(step), *tile[d + 1 :])
            for d in range(6)
            for step in nest.steps[d][nest.steps[d] > tile[d]]
        ]
        if not rows:
            return tile
        tiles = Tiles(nest, tuple(np.array(column) for column in zip(*rows, strict=True)))
        costs = np.where(
            tiles.need <= nest.machine.buffer_capacity, _cost(tiles, order, reuse, minimise, local), np.inf
        )
        # What has no cost yet cannot be run, and any tile that can is infinitely better. One that completes
        # its outputs may need less than a smaller tile.
        gain = (min(cost, 1e300) - costs) / np.maximum(tiles.need - need, 1)
        at = int(gain.argmax())
        if not gain[at] > 0:
            return tile
        tile, cost, need = rows[at], float(costs[at]), int(tiles.need[at])


def _cost(tiles: Tiles, order: str, reuse: str, minimise: str, local: int) -> Values:
    """Return the objective, of cycles and energy an estimate; infinite for what cannot be run."""
    nest, machine = tiles.nest, tiles.nest.machine
    traffic = tiles.traffic(order, reuse)
    cost: Values = np.asarray(traffic.accesses, dtype=np.float64)
    if minimise != "accesses":
        core = nest.macs / machine.macs_per_cycle + machine.dma_setup_cycles * traffic.transfers
        if minimise == "cycles":
            bus = machine.bus_units_per_cycle
            cost = np.maximum(core, (cost + local) / bus) + tiles.need / bus
        else:
            price = machine.energy
            dram = price.dram_fj_per_access * machine.unit_bits / 8 / price.dram_access_bytes
            cost = dram * cost + price.core_fj_per_cycle * core
    return np.where(tiles.needs_late_sums(reuse), np.inf, cost)
