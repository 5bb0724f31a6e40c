"""All trade-offs of cycles and accesses: the Pareto front, with proof."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.tiling.dsp.duration import duration
from tilewright.tiling.dsp.exact.accesses import fewest_accesses
from tilewright.tiling.dsp.exact.families import families, tile_at, tile_limit
from tilewright.tiling.dsp.exact.ways import lower_bound, ways
from tilewright.tiling.dsp.nest import Counts, Nest, Tile
from tilewright.tiling.dsp.plan import DspPlan


class TradeOff(NamedTuple):
    """A trade-off: cycles, accesses to external memory, and a plan with both."""

    cycles: int
    accesses: int
    plan: DspPlan


def pareto_front(
    nest: Nest, limit: str, local: int, deadline: float = float("inf")
) -> tuple[tuple[TradeOff, ...], bool]:
    """Return every trade-off of cycles and accesses, fastest first, and whether they are proven to be all.

    The front is that of equation 5.24 in the thesis. Of plans that agree in both numbers one is returned.

    Parameters
    ----------
    limit
        Which schedules are allowed, as in an instance.
    local
        Elements of local traffic of the layer (`local_traffic`).
    deadline
        ``time.monotonic()`` after which what was found is returned without proof.
    """
    start = fewest_accesses(nest, limit, deadline=deadline)
    if start is None:
        return (), True
    # What takes longer than the plan with the fewest accesses is of no interest.
    slowest = duration(nest, start.plan, local).cycles
    search = _FrontSearch(nest, limit, local, TradeOff(slowest, start.value, start.plan))
    complete = search.run(slowest, deadline)
    return tuple(sorted(search.front)), complete and time.monotonic() <= deadline


class _FrontSearch:
    """The trade-offs that no other is known to dominate, and the tiles that were looked at."""

    def __init__(self, nest: Nest, limit: str, local: int, start: TradeOff) -> None:
        self.nest, self.limit, self.local = nest, limit, local
        self.front = [start]
        self._seen: set[Tile] = set()

    def run(self, slowest: int, deadline: float) -> bool:
        """Look at all tiles that may be on the front, until the deadline passes; return whether it did not.

        Parameters
        ----------
        slowest
            Cycles above which a plan is of no interest.
        """
        kept: list[tuple[Counts, Counts, Counts]] = []
        for family in families(
            self.nest, self.limit, deadline, lambda: tile_limit(self.nest, "cycles", slowest)
        ):
            bounds = lower_bound(family.tiles, family.accesses, family.transfers, "cycles", self.local)
            for table in (bounds, family.accesses):
                self._look(tile_at(family.steps(np.array([table.argmin() % table.shape[1]])), 0))
            entry = np.flatnonzero(_unbeaten(self.front, family.accesses.ravel(), bounds.ravel()))
            steps = family.steps(entry % bounds.shape[1])
            kept.append((family.accesses.ravel()[entry], bounds.ravel()[entry], steps))
        if not kept:
            return True
        accesses, least, steps = (np.concatenate(columns, axis=-1) for columns in zip(*kept, strict=True))

        def look_at(entries: Counts) -> bool:
            for entry in entries.tolist():
                if time.monotonic() > deadline:
                    return False
                if not self._beaten(int(accesses[entry]), int(least[entry])):
                    self._look(tile_at(steps, entry))
            return True

        # The front of the bounds first: its plans rule out nearly everything else.
        order = np.lexsort((accesses, least))
        complete = look_at(order[np.flatnonzero(_improves(accesses[order]))])
        rest = np.flatnonzero(_unbeaten(self.front, accesses, least))
        return complete and look_at(rest[np.argsort(least[rest], kind="stable")])

    def _beaten(self, accesses: int, cycles: int) -> bool:
        """Whether a point of the front has as few accesses and as few cycles."""
        return any(p.accesses <= accesses and p.cycles <= cycles for p in self.front)

    def _look(self, tile: Tile) -> None:
        """Add the trade-offs of a tile's schedules to the front, and take away what they dominate."""
        if tile in self._seen:
            return
        self._seen.add(tile)
        for way in ways(self.nest, tile, self.limit, self.local):
            if self._beaten(way.accesses, way.bound("cycles")):
                continue
            for plan in way.plans:
                cycles = duration(self.nest, plan, self.local).cycles
                if not self._beaten(way.accesses, cycles):
                    self.front = [
                        p for p in self.front if not (p.accesses >= way.accesses and p.cycles >= cycles)
                    ]
                    self.front.append(TradeOff(cycles, way.accesses, plan))


def _unbeaten(front: list[TradeOff], accesses: Counts, cycles: Counts) -> NDArray[np.bool_]:
    """Whether no point of a front has as few accesses and as few cycles."""
    if not front:
        return np.ones(len(accesses), dtype=bool)
    steps = sorted((point.accesses, point.cycles) for point in front)
    moved, cheapest = np.array([step[0] for step in steps]), np.array([step[1] for step in steps])
    at = np.searchsorted(moved, accesses, side="right") - 1
    return (at < 0) | (cycles < cheapest[np.maximum(at, 0)])


def _improves(values: Counts) -> NDArray[np.bool_]:
    """Whether a value is below all before it."""
    lowest = np.minimum.accumulate(values)
    return np.concatenate([np.ones(min(1, len(values)), dtype=bool), values[1:] < lowest[:-1]])
