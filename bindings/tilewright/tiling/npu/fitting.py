"""Fit the machine's times, which the TSO paper does not give, on two columns of its table II.

A plan's cycles, elements and bursts do not depend on prices. So of each layer, partition and schedule the plans are
kept that some prices could prefer, and any prices are evaluated on those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from tilewright.layer import Layer
from tilewright.tiling.npu.cost import OURS, Counts, Reading, totals
from tilewright.tiling.npu.machine import NpuMachine
from tilewright.tiling.npu.plan import PARTITIONS, SCHEDULES
from tilewright.tiling.npu.search import largest_filter_step, tiles
from tilewright.tiling.npu.slices import Cut

Values = NDArray[np.float64]

NOTHING_FITS = np.array([[1 << 43] * 3])
"""Counts of a partition and schedule without a tile: worse than any other."""

PROBES = np.array(list(product((1.0, 30.0, 900.0), (1.0,), (1.0, 30.0, 900.0))))
"""Prices whose best plans are compared with all others first: few are left then."""


class Prices(NamedTuple):
    """Picoseconds for a cycle, for a byte and for a burst."""

    cycle: float
    byte: float
    burst: float


class Space:
    """The plans of some networks' layers that can be best, under one reading.

    Attributes
    ----------
    count
        How often a network (row) has a layer (column).
    """

    def __init__(
        self,
        networks: Sequence[Sequence[Layer]],
        machine: NpuMachine,
        reading: Reading = OURS,
        overlapped: bool = False,
    ) -> None:
        layers = list(dict.fromkeys(layer for network in networks for layer in network))
        self.count = np.array([[list(network).count(layer) for layer in layers] for network in networks])
        self.overlapped = overlapped
        self.cores = machine.tles * machine.tlts if reading.cores == "even" else 1
        self.bytes = machine.element_bytes
        cells, free = [], []
        for layer in layers:
            found = [_counts(cut, s, reading) for cut in _cuts(layer, machine) for s in SCHEDULES]
            cells += [undominated(counts, 3) if len(counts) else NOTHING_FITS for counts in found]
            free.append(undominated(np.vstack(found), 2))
        #: Counts of the plans of each cell: layer, partition and schedule.
        self.plans, self._first = _joined(cells)
        #: Counts of the plans of each layer that can be best when bursts cost nothing.
        self.free, self._first_free = _joined(free)

    def times(self, counts: Counts, prices: Prices) -> Values:
        """Return the times of plans in picoseconds (equation 6)."""
        cycles = counts[:, 0] * (prices.cycle / self.cores)
        moved = counts[:, 1] * (self.bytes * prices.byte) + counts[:, 2] * prices.burst
        return np.maximum(cycles, moved) if self.overlapped else cycles + moved

    def cells(self, prices: Prices) -> Values:
        """Return the least time of each layer, partition and schedule."""
        least = np.minimum.reduceat(self.times(self.plans, prices), self._first)
        return least.reshape(-1, len(PARTITIONS), len(SCHEDULES))

    def burst(self, prices: Prices) -> Values:
        """Return every network's time with the fastest plans: the paper's column Burst."""
        return self.count @ self.cells(prices).min(axis=(1, 2))

    def no_burst(self, prices: Prices) -> Values:
        """Return every network's time with the plans that are fastest without bursts: the column No Burst."""
        blind = self.times(self.free, prices._replace(burst=0.0))
        least = np.repeat(np.minimum.reduceat(blind, self._first_free), np.diff([*self._first_free, len(blind)]))
        of = np.cumsum(np.isin(np.arange(len(blind)), self._first_free)) - 1
        chosen = np.flatnonzero(blind <= least)
        chosen = chosen[np.unique(of[chosen], return_index=True)[1]]
        return self.count @ self.times(self.free[chosen], prices)


def _cuts(layer: Layer, machine: NpuMachine) -> Iterator[Cut]:
    return (Cut(layer, machine, partition) for partition in PARTITIONS)


def _joined(parts: Sequence[Counts]) -> tuple[Counts, Counts]:
    return np.vstack(parts), np.cumsum([0, *(len(part) for part in parts[:-1])])


def _counts(cut: Cut, schedule: str, reading: Reading) -> Counts:
    """Return cycles, elements and bursts of every tile that can be best, in the order of the search."""
    if reading.edges == "true":
        found = tiles(cut, schedule)
        step, fits = found.steps, found.fits
    else:
        # A tile that is counted as a full one is best when it is hardly larger than what it takes.
        sizes = zip(cut.sizes, (cut.filters, cut.maps, *cut.layer.output_plane), strict=True)
        ms, ns, rs, cs = (_steps(size, whole) for size, whole in sizes)
        m, n, r, c = np.ix_(ms, ns, rs, cs)
        m, n, r, c = (axes.transpose(2, 3, 1, 0) for axes in (m[::-1], n[:, ::-1], r, c))
        most = largest_filter_step(cut, schedule, n, r, c)
        fits = (m <= most) & ((m == cut.sizes[0]) if schedule == "IS" else True)
        places = np.nonzero(fits)
        step = tuple(
            axes.ravel()[place] for axes, place in zip((m, n, r, c), (places[i] for i in (3, 2, 0, 1)), strict=True)
        )
        fits = np.ones(len(step[0]), dtype=np.bool_)
    total = totals(cut, schedule, step, reading)
    shape = fits.shape
    return np.stack(
        [np.broadcast_to(value, shape)[fits] for value in (total.cycles, total.elements, total.bursts)], axis=1
    )


def _steps(size: int, whole: int) -> Counts:
    """Return the steps up to a size that are the least with as many tiles of the size or of a whole."""
    steps = np.arange(1, size + 1)
    return np.unique([[-(-n // -(-n // steps))] for n in (size, whole)])[: size]


def undominated(counts: Counts, columns: int) -> Counts:
    """Return the rows that no other one beats in the first columns, of equal ones the first, in their order."""
    seen = np.ascontiguousarray(counts[:, :columns])
    left = np.arange(len(counts))
    for probe in PROBES[:, :columns]:
        best = seen[left[(seen[left] @ probe).argmin()]]
        worse = (seen[left] >= best).all(axis=1) & (seen[left] > best).any(axis=1)
        left = left[~worse]
    order = left[np.lexsort([left, *seen[left].T[::-1]])]
    return counts[np.sort(_undominated(seen, order))]


@numba.njit(cache=True)
def _undominated(rows: Counts, order: Counts) -> Counts:
    """Return the numbers of the rows that no earlier one in a lexicographic order beats or equals."""
    kept = np.empty(len(order), dtype=np.int64)
    count = 0
    for number in order:
        beaten = False
        for place in range(count):
            if (rows[kept[place]] <= rows[number]).all():
                beaten = True
                break
        if not beaten:
            kept[count] = number
            count += 1
    return kept[:count]
