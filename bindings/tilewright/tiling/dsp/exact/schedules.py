"""The schedules of one tile, those that move the same together, with a bound on cycles and energy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.tiling.dsp.compute import LoopOption, least_compute, loops_worth_trying
from tilewright.tiling.dsp.exact.patterns import group_schedules
from tilewright.tiling.dsp.nest import FREE, C, Counts, G, K, N, Nest, Tile, X, Y
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.dsp.traffic import Tiles


def lower_bound(
    tiles: Tiles, accesses: Counts, transfers: Counts, minimise: str, local: Any, compute: Any = None
) -> Counts:
    """Bound cycles or energy from below, given accesses and transfers, or return accesses or memory.

    The first loads and the last write stand alone; in between, core and bus each have their work to do.

    Parameters
    ----------
    accesses, transfers : int, shape (..., tiles)
        Of each tile's schedules.
    minimise : {"cycles", "energy", "accesses", "memory"}
    local
        Units of local traffic of the layer (`local_traffic`).
    compute
        Cycles of the core, where they are known.
    """
    if minimise == "accesses":
        return accesses
    if minimise == "memory":
        return np.broadcast_to(tiles.need, accesses.shape)
    nest, machine = tiles.nest, tiles.nest.machine
    bus, setup, units = machine.bus_units_per_cycle, machine.dma_setup_cycles, machine.units
    compute = least_compute(tiles) if compute is None else compute
    if minimise == "energy":
        price, size = machine.energy, machine.unit_bits / 8
        bits = machine.unit_bits
        streams = local * bits * price.local_fj_per_access // (8 * price.local_access_bytes)
        # In floating point, since the product may not fit into 64 bits before it is divided.
        each = size * price.dram_fj_per_access / price.dram_access_bytes
        dram = np.floor(accesses * (each * (1 - 1e-9))).astype(np.int64)
        return np.asarray(dram + price.core_fj_per_cycle * (compute + setup * transfers) + streams)
    if not machine.double_buffering:
        return np.asarray(setup * transfers + -(-accesses // bus) + np.maximum(compute, -(-local // bus)))
    g, n, c, _, _, k = tiles.steps
    first = tiles.first_plane * g * n * k * units.input
    weights = g * c * k * nest.window * units.kernels
    last: Any = units.output
    for d in (G, N, C, Y, X):
        last = last * (nest.sizes[d] - (tiles.trips[d] - 1) * tiles.steps[d])
    # Every full tile of weights comes at least once, and what is left of its last bus cycle is lost.
    whole: Any = 1
    for d in (G, C, K):
        whole = whole * (nest.sizes[d] // tiles.steps[d])
    lost = (whole - 1) * (-weights % bus)
    ends = 3 * setup + -(-first // bus) + -(-weights // bus) + -(-last // bus)
    middle = np.maximum(
        compute + setup * (transfers - 3), -(-(accesses - first - weights - last + local + lost) // bus)
    )
    return np.asarray(ends + middle)


@dataclass(frozen=True)
class ScheduleGroup:
    """Plans of one tile, with all orders that move the same; `bound` holds for each of them."""

    tiles: Tiles
    accesses: int
    transfers: int
    local: int
    plans: tuple[DspPlan, ...]

    def bound(self, minimise: str, option: LoopOption | None = None) -> int:
        """Return a lower bound on the cycles, the energy or the accesses of each of the plans.

        Parameters
        ----------
        option
            The inner loop that they have.
        """
        moved = np.array([self.accesses]), np.array([self.transfers])
        local, compute = (self.local, None) if option is None else (option.streamed, option.cycles)
        return int(lower_bound(self.tiles, *moved, minimise, local, compute)[0])

    def bounds_of_loops(self, minimise: str, cycles: Counts, streamed: Counts) -> Counts:
        """Return lower bounds for many inner loops, shape (loops,), given bounds on what these take."""
        moved = np.full(len(cycles), self.accesses), np.full(len(cycles), self.transfers)
        return lower_bound(self.tiles, *moved, minimise, streamed, cycles)

    def options(
        self, options: Sequence[LoopOption] | None = None
    ) -> Iterator[tuple[LoopOption | None, tuple[DspPlan, ...]]]:
        """Return the plans with each of some inner loops, the fastest first; once without such loops.

        Parameters
        ----------
        options
            By default those that may be best.
        """
        nest = self.tiles.nest
        if nest.machine.vector_unit is None:
            yield None, self.plans
            return
        if options is None:
            options = loops_worth_trying(nest, self.plans[0].tile)
        for option in sorted(options, key=lambda option: option[:2]):
            yield option, tuple(replace(plan, inner_loop=option.loop) for plan in self.plans)


def schedule_groups(
    nest: Nest, tile: Tile, limit: str, local: int, *, every: bool = False
) -> list[ScheduleGroup]:
    """Return the schedules of one tile, in groups that move the same, those that move least first.

    `every` is as for `patterns.schedules`.
    """
    tiles = Tiles(nest, tuple(np.array([step]) for step in tile))
    single = frozenset(d for d in FREE if tiles.trips[d][0] == 1)
    groups = []
    for schedules in group_schedules(limit, single, nest.machine.double_buffering, every):
        traffic = tiles.traffic(*schedules[0])
        plans = tuple(DspPlan(tile, order, reuse) for order, reuse in schedules)
        moved = int(traffic.accesses[0]), int(traffic.transfers[0])
        groups.append(ScheduleGroup(tiles, *moved, local, plans))
    return sorted(groups, key=lambda group: (group.accesses, group.transfers))
