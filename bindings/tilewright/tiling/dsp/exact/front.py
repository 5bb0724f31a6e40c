"""All trade-offs of two costs: the Pareto front, with proof."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from tilewright.tiling.dsp.cost import measures
from tilewright.tiling.dsp.exact.accesses import BestPlan, fewest_accesses
from tilewright.tiling.dsp.exact.cheapest import cheapest
from tilewright.tiling.dsp.exact.families import families, tile_at, tile_limit
from tilewright.tiling.dsp.exact.schedules import lower_bound, schedule_groups
from tilewright.tiling.dsp.nest import Counts, Nest, Tile
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.machine_kind import TradeOff

THROUGHPUT = ("cycles", "accesses")
"""What the thesis trades, as throughput and memory efficiency (equation 5.24)."""


def pareto_front(
    nest: Nest,
    limit: str,
    local: int,
    deadline: float = float("inf"),
    traded: tuple[str, str] = THROUGHPUT,
) -> tuple[tuple[TradeOff[DspPlan], ...], bool]:
    """Return every trade-off of two costs, and whether they are proven to be all.

    That with least of the first comes first. Of plans that agree in both numbers one is returned.

    Parameters
    ----------
    limit
        Which schedules are allowed, as in an instance.
    local
        Units of local traffic of the layer (`local_traffic`).
    deadline
        ``time.monotonic()`` after which what was found is returned without proof.
    traded
        Two of cycles, accesses and energy.
    """
    if traded[0] == "accesses":  # which are searched best as the second
        front, proven = pareto_front(nest, limit, local, deadline, (traded[1], traded[0]))
        turned = (TradeOff((one.values[1], one.values[0]), one.plan) for one in reversed(front))
        return tuple(turned), proven
    start: BestPlan | None
    if traded[1] == "accesses":
        start = fewest_accesses(nest, limit, deadline=deadline)
        proven = time.monotonic() <= deadline
    else:
        start, proven = cheapest(nest, traded[1], limit, local, deadline)
    if start is None:
        return (), proven
    # What has more of the first than the plan with least of the second is of no interest.
    values = measures(nest, start.plan, traded, local)
    search = _FrontSearch(nest, limit, local, traded, TradeOff((values[0], values[1]), start.plan))
    complete = search.run(values[0], deadline)
    return tuple(sorted(search.front)), proven and complete and time.monotonic() <= deadline


class _FrontSearch:
    """The trade-offs that no other is known to dominate, and the tiles that were looked at."""

    def __init__(
        self, nest: Nest, limit: str, local: int, traded: tuple[str, str], start: TradeOff[DspPlan]
    ) -> None:
        self.nest, self.limit, self.local, self.traded = nest, limit, local, traded
        self.front = [start]
        self._seen: set[Tile] = set()

    def run(self, most: int, deadline: float) -> bool:
        """Look at all tiles that may be on the front, until the deadline passes; return whether it did not.

        Parameters
        ----------
        most
            Of the first cost, above which a plan is of no interest.
        """
        kept: list[tuple[Counts, Counts, Counts]] = []
        for family in families(
            self.nest, self.limit, deadline, lambda: tile_limit(self.nest, self.traded[0], most)
        ):
            first, second = (
                lower_bound(family.tiles, family.accesses, family.transfers, name, self.local)
                for name in self.traded
            )
            for table in (first, second):
                self._look(tile_at(family.steps(np.array([table.argmin() % table.shape[1]])), 0))
            entry = np.flatnonzero(_unbeaten(self.front, first.ravel(), second.ravel()))
            steps = family.steps(entry % first.shape[1])
            kept.append((first.ravel()[entry], second.ravel()[entry], steps))
        if not kept:
            return True
        first, second, steps = (np.concatenate(columns, axis=-1) for columns in zip(*kept, strict=True))

        def look_at(entries: Counts) -> bool:
            for entry in entries.tolist():
                if time.monotonic() > deadline:
                    return False
                if not self._beaten((int(first[entry]), int(second[entry]))):
                    self._look(tile_at(steps, entry))
            return True

        # The front of the bounds first: its plans rule out nearly everything else.
        order = np.lexsort((second, first))
        complete = look_at(order[np.flatnonzero(_improves(second[order]))])
        rest = np.flatnonzero(_unbeaten(self.front, first, second))
        return complete and look_at(rest[np.argsort(first[rest], kind="stable")])

    def _beaten(self, values: tuple[int, int]) -> bool:
        """Whether a point of the front has as little of both."""
        return any(p.values[0] <= values[0] and p.values[1] <= values[1] for p in self.front)

    def _look(self, tile: Tile) -> None:
        """Add the trade-offs of a tile's schedules to the front, and take away what they dominate."""
        if tile in self._seen:
            return
        self._seen.add(tile)
        for group in schedule_groups(self.nest, tile, self.limit, self.local):
            if self._beaten((group.bound(self.traded[0]), group.bound(self.traded[1]))):
                continue
            for option, plans in group.options():
                bound = group.bound(self.traded[0], option), group.bound(self.traded[1], option)
                if option is None or not self._beaten(bound):
                    self._take(plans)

    def _take(self, plans: tuple[DspPlan, ...]) -> None:
        for plan in plans:
            first, second = measures(self.nest, plan, self.traded, self.local)
            if not self._beaten((first, second)):
                self.front = [p for p in self.front if not (p.values[0] >= first and p.values[1] >= second)]
                self.front.append(TradeOff((first, second), plan))


def _unbeaten(front: list[TradeOff[DspPlan]], first: Counts, second: Counts) -> NDArray[np.bool_]:
    """Whether no point of a front has as little of both."""
    steps = sorted((point.values[1], point.values[0]) for point in front)
    seconds, least = np.array([step[0] for step in steps]), np.array([step[1] for step in steps])
    at = np.searchsorted(seconds, second, side="right") - 1
    return (at < 0) | (first < least[np.maximum(at, 0)])


def _improves(values: Counts) -> NDArray[np.bool_]:
    """Whether a value is below all before it."""
    lowest = np.minimum.accumulate(values)
    return np.concatenate([np.ones(min(1, len(values)), dtype=bool), values[1:] < lowest[:-1]])
