"""The thesis's model: closed forms in which every edge tile counts as a full one (sections 5.1 to 5.5).

What a plan really costs stands in `traffic` and `duration`; these serve to compare with the thesis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.tiling.dsp.nest import C, G, K, N, Nest, X, Y
from tilewright.tiling.dsp.traffic import Tiles

Values = NDArray[np.float64]


def explore(nest: Nest, capacity: float, most_work: float | None = None) -> Tiles:
    """Return the tiles that fit, the smallest first, one for every number of iterations of each loop.

    A larger tile with as many iterations costs more in every closed form.

    Parameters
    ----------
    capacity
        Units for one copy of all buffers.
    most_work
        How often the layer's MACs a tiling may have, edge tiles counted as full ones; None for any.
    """
    steps = [values[:1] for values in nest.steps]
    for d in (K, C, G, N, X, Y):
        rows = [np.repeat(step, len(nest.steps[d])) for step in steps]
        rows[d] = np.tile(nest.steps[d], len(steps[d]))
        tiles = Tiles(nest, tuple(rows))
        keep = tiles.need <= capacity
        if most_work is not None:
            keep &= _padded_work(tiles) <= most_work
        steps = [row[keep] for row in rows]
    return Tiles(nest, tuple(steps))


def _padded_work(tiles: Tiles) -> Values:
    work = np.ones(1)
    for size, step, trips in zip(tiles.nest.sizes, tiles.steps, tiles.trips, strict=True):
        work = work * (step * trips / size)
    return work


def transfers(tiles: Tiles, schedule: str) -> Values:
    """Return DMA transfers of a layer: the accesses per tile with buffers of one element (section 5.3).

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


def cycles(tiles: Tiles, schedule: str, local: float = 0) -> Times:
    """Return cycles as the thesis counts them (equations 5.7 to 5.12), every edge tile as a full one.

    Parameters
    ----------
    local
        Units of local traffic of the whole layer.
    """
    nest, machine = tiles.nest, tiles.nest.machine
    g, n, c, y, x, k = tiles.steps
    trips = np.ones(1)
    for count in tiles.trips:
        trips = trips * count
    outputs = g * n * c * y * x
    macs = outputs * k * nest.window
    # What the buffers hold is moved, but outputs leave complete.
    moved = tiles.need - outputs * (tiles.output_units - machine.units.output)
    bus, begin = machine.bus_units_per_cycle, machine.dma_setup_cycles
    tile = macs / machine.macs_per_cycle
    moves = transfers(tiles, schedule)
    core = tile + moves / trips * begin
    traffic = (accesses(tiles, schedule) + local) / trips / bus
    return Times(
        compute=trips * tile,
        setup=(trips - 1) / trips * moves * begin + 3 * begin,
        ends=moved / bus,
        waiting=(trips - 1) * np.maximum(traffic - core, 0),
    )


def accesses(tiles: Tiles, schedule: str) -> Values:
    """Return accesses as the thesis counts them, every edge tile as a full one (equations 5.13 to 5.20).

    Parameters
    ----------
    schedule : {"intra", "kc", "oc", "oxyn", "oxyn/ox"}
    """
    _, n, c, y, x, k = tiles.trips
    sg, sn, sc, sy, sx, sk = tiles.steps
    rows, columns = tiles.nest.lines
    height = (sy - 1) * rows.stride + rows.extent
    units = tiles.nest.machine.units
    inputs = sg * sn * sk * tiles.nest.plane(sy, sx) * units.input
    weights, written = sg * sc * sk * tiles.nest.window * units.kernels, sg * sn * sc * sy * sx
    outputs = written * units.output
    number = np.prod(np.broadcast_arrays(*tiles.trips), axis=0)
    # One of k times outputs are complete; the others write sums and load them again, which may be wider.
    partial = (2 - 1 / k) * outputs + 2 * (1 - 1 / k) * written * (units.partial - units.output)
    if schedule == "intra":
        each = inputs + weights + partial
    elif schedule == "kc":
        each = inputs + weights + outputs / k
    elif schedule == "oc":
        each = inputs / c + weights + partial
    elif schedule == "oxyn":
        each = inputs + weights / (x * y * n) + partial
    else:
        lines = height * sk * sn * sg * units.input
        shared, fresh = (columns.extent - columns.stride) * lines, sx * columns.stride * lines
        each = fresh + shared / x + weights / (x * y * n) + partial
    result: Values = number * each
    return result
