"""Fit the machine's times, which the TSO paper does not give, on two columns of its table II.

A plan's cycles, bytes and bursts do not depend on prices. So of each layer, partition and schedule the
plans are kept that some prices could prefer, and any prices are evaluated on those. The fit is a search over
two ratios of prices, since the best scale of all three has a closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core import catalogue
from tilewright.core.jit import kernel
from tilewright.run.instance import read
from tilewright.spec.layer import Layer
from tilewright.tiling.npu.cost import OURS, Cost, Counts, Reading, Steps, printed, totals
from tilewright.tiling.npu.cut import Cut, quotient
from tilewright.tiling.npu.exact import largest_filter_step, tiles
from tilewright.tiling.npu.machine import NpuMachine
from tilewright.tiling.npu.plan import PARTITIONS, SCHEDULES

Values = NDArray[np.float64]

NETWORKS = ("inceptionv3", "lenet", "mobilenetv2", "resnet50", "squeezenet")
"""Networks of table II; the layers of its sixth, YOLO, are not published."""

FITTED = ("inceptionv3", "mobilenetv2", "resnet50", "squeezenet")
"""Networks on which the times are fitted; LeNet's few microseconds are mostly what the model leaves out."""

MACS = (8, 16, 32, 48, 64)
"""MACs per cycle that are tried."""


@dataclass(frozen=True)
class Variant:
    """A reading of equations 3 to 8.

    Attributes
    ----------
    overlapped
        Whether transfers and computation overlap (equation 6: no).
    printed
        Whether equations 3 to 9 are taken by the letter, instead of the reading.
    """

    reading: Reading = OURS
    overlapped: bool = False
    printed: bool = False

    def totals(self, cut: Cut, schedule: str, step: Steps) -> Cost:
        """Return the cost of plans."""
        return printed(cut, schedule, step) if self.printed else totals(cut, schedule, step, self.reading)

    def cores(self, machine: NpuMachine) -> int:
        """Return the cores that counted cycles are spread over."""
        if self.printed:
            return machine.tlts
        return machine.tles * machine.tlts if self.reading.cores == "even" else 1


VARIANTS = {
    "ours": Variant(),
    "edge tiles count as full ones": Variant(Reading(edges="full")),
    "every TLT loads its own input tile": Variant(Reading(input="each")),
    "one TLT's transfers stand for all": Variant(Reading(input="one core")),
    "work spread evenly over the cores (eq. 8)": Variant(Reading(cores="even")),
    "padding is not transferred": Variant(Reading(padding="left")),
    "TLEs without work count, too": Variant(Reading(idle="full")),
    "transfers and computation overlap": Variant(overlapped=True),
    "full edges, evenly spread": Variant(Reading(edges="full", cores="even")),
    "full edges, own input tiles": Variant(Reading(edges="full", input="each")),
    "full edges, one TLT for all": Variant(Reading(edges="full", input="one core")),
    "full edges, one TLT, evenly, #TLEs": Variant(Reading("one core", "full", "even", "moved", "full")),
    "equations 3 to 9 by the letter": Variant(printed=True),
}
"""Readings that are compared."""

NOTHING_FITS = np.array([[1 << 43] * 3])
"""Counts of a partition and schedule without a tile: worse than any other."""

PROBES = np.array(list(product((1.0, 30.0, 900.0), (1.0,), (1.0, 30.0, 900.0))))
"""Prices whose best plans are compared with all others first: few are left then."""


class Prices(NamedTuple):
    """Picoseconds for a cycle, for a byte and for a burst."""

    cycle: float
    byte: float
    burst: float


class PlanSpace:
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
        variant: Variant = VARIANTS["ours"],
    ) -> None:
        layers = list(dict.fromkeys(layer for network in networks for layer in network))
        self.count = np.array([[list(network).count(layer) for layer in layers] for network in networks])
        self.overlapped = variant.overlapped
        self.cores = variant.cores(machine)
        self.bytes = machine.element_bytes
        cells, free = [], []
        for layer in layers:
            found = [
                _counts(Cut(layer, machine, partition), schedule, variant)
                for partition, schedule in product(PARTITIONS, SCHEDULES)
            ]
            cells += [undominated(counts, 3) if len(counts) else NOTHING_FITS for counts in found]
            free.append(undominated(np.vstack(found), 2))
        #: Counts of the plans of each cell: layer, partition and schedule.
        self.plans, self._first = _joined(cells)
        #: Counts of the plans of each layer that can be best when bursts cost nothing.
        self.free, self._first_free = _joined(free)

    def times(self, counts: Counts, prices: Prices) -> Values:
        """Return the times of plans in picoseconds (equation 6)."""
        cycles = counts[:, 0] * (prices.cycle / self.cores)
        moved = counts[:, 1] * prices.byte + counts[:, 2] * prices.burst
        times: Values = np.maximum(cycles, moved) if self.overlapped else np.add(cycles, moved)
        return times

    def cells(self, prices: Prices) -> Values:
        """Return the least time of each layer, partition and schedule."""
        least: Values = np.minimum.reduceat(self.times(self.plans, prices), self._first)
        cells: Values = least.reshape(-1, len(PARTITIONS), len(SCHEDULES))
        return cells

    def burst(self, prices: Prices) -> Values:
        """Return every network's time with the fastest plans: the paper's column Burst."""
        times: Values = self.count @ self.cells(prices).min(axis=(1, 2))
        return times

    def no_burst(self, prices: Prices) -> Values:
        """Return every network's time with the plans that are fastest without bursts: the column No Burst."""
        blind = self.times(self.free, prices._replace(burst=0.0))
        least = np.repeat(
            np.minimum.reduceat(blind, self._first_free), np.diff([*self._first_free, len(blind)])
        )
        of = np.cumsum(np.isin(np.arange(len(blind)), self._first_free)) - 1
        chosen = np.flatnonzero(blind <= least)
        chosen = chosen[np.unique(of[chosen], return_index=True)[1]]
        times: Values = self.count @ self.times(self.free[chosen], prices)
        return times


def _joined(parts: Sequence[Counts]) -> tuple[Counts, Counts]:
    return np.vstack(parts), np.cumsum([0, *(len(part) for part in parts[:-1])])


def _counts(cut: Cut, schedule: str, variant: Variant) -> Counts:
    """Return cycles, bytes and bursts of every tile that can be best, in the order of the search."""
    if variant.reading.edges == "true" and not variant.printed:
        found = tiles(cut, schedule)
        step: Steps = found.steps
        fits = found.fits
    else:
        # A tile that is counted as a full one is best when it is hardly larger than what it takes.
        of_a_tle = quotient(cut.filters, cut.slices[1]), cut.maps, *cut.layer.output_plane
        sizes = zip(cut.sizes, of_a_tle, (cut.filters, cut.maps, *cut.layer.output_plane), strict=True)
        ms, ns, rs, cs = (_steps(size, *wholes) for size, *wholes in sizes)
        m, n, r, c = np.ix_(ms, ns, rs, cs)
        m, n, r, c = (axes.transpose(2, 3, 1, 0) for axes in (m[::-1], n[:, ::-1], r, c))
        most = largest_filter_step(cut, schedule, n, r, c)
        fits = (m <= most) & ((m == cut.sizes[0]) if schedule == "IS" else True)
        places = np.nonzero(fits)
        step = (ms[::-1][places[3]], ns[::-1][places[2]], rs[places[0]], cs[places[1]])
        fits = np.ones(len(step[0]), dtype=np.bool_)
    total = variant.totals(cut, schedule, step)
    shape = fits.shape
    return np.stack([np.broadcast_to(value, shape)[fits] for value in total.counts], axis=1)


def _steps(size: int, *wholes: int) -> Counts:
    """Return the steps up to a size that are the least with as many tiles of the size or of a whole."""
    steps = np.arange(1, size + 1)
    return np.unique([[-(-n // -(-n // steps))] for n in (size, *wholes)])


def undominated(counts: Counts, columns: int) -> Counts:
    """Return the rows that no other beats in the first columns, of equal ones the first, in their order."""
    seen = np.ascontiguousarray(counts[:, :columns])
    left = np.arange(len(counts))
    for probe in PROBES[:, :columns]:
        best = seen[left[(seen[left] @ probe).argmin()]]
        worse = (seen[left] >= best).all(axis=1) & (seen[left] > best).any(axis=1)
        left = left[~worse]
    order = left[np.lexsort([left, *seen[left].T[::-1]])]
    kept: Counts = counts[np.sort(_undominated(seen, order))]
    return kept


@kernel()
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


# The fit ---------------------------------------------------------------------------------------------------


class Fit(NamedTuple):
    """Prices, and the relative residuals of every network's columns Burst and No Burst."""

    prices: Prices
    residuals: Values

    @property
    def mean(self) -> float:
        """Mean absolute residual."""
        return float(np.abs(self.residuals).mean())

    @property
    def square(self) -> float:
        """Root of the mean squared residual, which the fit makes small."""
        return float(np.sqrt((self.residuals**2).mean()))


def networks(names: Sequence[str] = FITTED) -> list[list[Layer]]:
    """Return the layers of the networks of table II."""
    problems = (read(catalogue.instance("tiling", f"{name}-nmp")).problem for name in names)
    return [[part.problem.one_layer for part in problem.parts] for problem in problems]


def machine() -> NpuMachine:
    """Return the machine that table II was measured on, with the fitted times."""
    found: NpuMachine = read(catalogue.instance("tiling", "lenet-nmp")).problem.machine
    return found


def evaluate(space: PlanSpace, prices: Prices, names: Sequence[str] = FITTED) -> Fit:
    """Return how far prices are from the paper's two columns."""
    return Fit(prices, _relative(space, prices, names) - 1)


def measured() -> dict[str, tuple[int, int]]:
    """Return table II of the paper in microseconds: TSO with bursts, TSO without, by network."""
    table = catalogue.shared("published", "tso-table2")
    return {name: (table["burst"][name], table["no_burst"][name]) for name in NETWORKS}


def measured_fixed() -> dict[str, dict[str, int]]:
    """Return the columns of table II with a fixed strategy, as far as they are known, by strategy."""
    columns: dict[str, dict[str, int]] = catalogue.shared("published", "tso-table2").get("fixed", {})
    return columns


def _relative(space: PlanSpace, prices: Prices, names: Sequence[str]) -> Values:
    times = 1e6 * np.array([measured()[name] for name in names])
    found: Values = np.stack([space.burst(prices), space.no_burst(prices)], axis=1) / times
    return found


def _scaled(space: PlanSpace, ratios: tuple[float, float]) -> Fit:
    """Return the best prices of given ratios, cycle and burst to a byte, by least squares."""
    prices = Prices(ratios[0], 1.0, ratios[1])
    found = _relative(space, prices, FITTED)
    scale = float(found.sum() / (found**2).sum())
    return Fit(Prices(*(scale * price for price in prices)), scale * found - 1)


def fit(space: PlanSpace) -> Fit:
    """Return the prices with the least squared residuals: a grid of ratios, refined where it is best."""
    grid = product(np.geomspace(1, 600, 30), np.geomspace(0.3, 2000, 30))
    starts = sorted((_scaled(space, ratios) for ratios in grid), key=lambda found: found.square)
    return min((_refined(space, start) for start in starts[:8]), key=lambda found: found.square)


def _refined(space: PlanSpace, best: Fit) -> Fit:
    width = 0.25
    while width > 1e-3:
        cycle, byte, burst = best.prices
        steps = product(np.exp(np.linspace(-width, width, 5)), repeat=2)
        around = (_scaled(space, (cycle / byte * down, burst / byte * across)) for down, across in steps)
        found = min(around, key=lambda found: found.square)
        if found.square < best.square:
            best = found
        else:
            width /= 2
    return best


def whole(space: PlanSpace) -> Fit:
    """Return the best prices in whole picoseconds of which cycle and burst are multiples of an element's.

    Eight numbers leave them open by several percent anyway, and solvers count times in that unit.
    """
    element = space.bytes
    ratios = product(range(1, 61), range(121))
    best = min(
        (_scaled(space, (a * element, b * element)) for a, b in ratios), key=lambda found: found.square
    )
    cycle, byte, burst = best.prices
    nearest = round(byte)
    prices = Prices(nearest * round(cycle / byte), nearest, nearest * round(burst / byte))
    return evaluate(space, prices)
