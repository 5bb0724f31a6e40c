"""Fewest cycles, least energy or fewest accesses over all tiles that fit, the others limited where asked.

A lower bound is computed for all of them at once, and the exact value in the order of that bound until no
bound is below the best value.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf

import numpy as np

from tilewright.tiling.dsp.cost import measure
from tilewright.tiling.dsp.exact.accesses import BestPlan, fewest_accesses
from tilewright.tiling.dsp.exact.families import Family, families, tile_at, tile_limit
from tilewright.tiling.dsp.exact.ways import lower_bound, ways
from tilewright.tiling.dsp.nest import Counts, Nest, Tile
from tilewright.tiling.dsp.plan import DspPlan

NEVER = int(np.iinfo(np.int64).max)
"""More than any plan costs."""


def cheapest(
    nest: Nest,
    minimise: str,
    limit: str,
    local: int,
    deadline: float = float("inf"),
    at_most: Mapping[str, int] | None = None,
) -> tuple[BestPlan | None, bool]:
    """Return a plan with the fewest cycles or the least energy, and whether that is proven.

    It is None, and that is proven, where nothing is feasible.

    Parameters
    ----------
    minimise : {"cycles", "energy", "accesses"}
    local
        Units of local traffic of the layer (`local_traffic`).
    deadline
        ``time.monotonic()`` after which the best plan so far is returned without proof.
    at_most
        What a plan may cost at most, by what that counts.
    """
    start = fewest_accesses(nest, limit, deadline=deadline)
    if start is None:
        return None, True
    search = _Search(nest, minimise, limit, local, dict(at_most or {}))
    search.take([start.plan])
    kept_tiles: list[tuple[Counts, Counts]] = []
    for family in families(nest, limit, deadline, search.most_tiles):
        least = search.least(family)
        if least.min() < search.value:
            search.look(tile_at(family.steps(np.array([least.argmin()])), 0))
        kept = np.flatnonzero(least < search.value)
        kept_tiles.append((least[kept], family.steps(kept)))
    if kept_tiles:
        bounds = np.concatenate([bound for bound, _ in kept_tiles])
        steps = np.concatenate([step for _, step in kept_tiles], axis=1)
        for entry in _ascending(bounds):
            if bounds[entry] >= search.value:
                break
            if time.monotonic() > deadline:
                return search.best, False
            search.look(tile_at(steps, entry))
    return search.best, time.monotonic() <= deadline


@dataclass
class _Search:
    """The best plan so far, and what may be better."""

    nest: Nest
    minimise: str
    limit: str
    local: int
    at_most: dict[str, int]
    best: BestPlan | None = None

    @property
    def value(self) -> int:
        """Cost of the best plan, or more than any has."""
        return NEVER if self.best is None else self.best.value

    def cost(self, plan: DspPlan, of: str) -> int:
        """Return what a plan costs."""
        return measure(self.nest, plan, of, self.local)

    def take(self, plans: Iterable[DspPlan]) -> None:
        """Keep the best of some plans, if it is within the limits and better than the one so far."""
        for plan in plans:
            value = self.cost(plan, self.minimise)
            if value < self.value and all(self.cost(plan, of) <= most for of, most in self.at_most.items()):
                self.best = BestPlan(value, plan)

    def look(self, tile: Tile) -> None:
        """Take the plans of a tile."""
        for way in ways(self.nest, tile, self.limit, self.local):
            if way.bound(self.minimise) < self.value and all(
                way.bound(of) <= most for of, most in self.at_most.items()
            ):
                self.take(way.plans)

    def least(self, family: Family) -> Counts:
        """Bound the cost of each tile of a family from below; `NEVER` where the limits leave no plan."""

        def bound(of: str) -> Counts:
            return lower_bound(family.tiles, family.accesses, family.transfers, of, self.local)

        least = bound(self.minimise)
        for of, most in self.at_most.items():
            least = np.where(bound(of) <= most, least, NEVER)
        return np.asarray(least.min(axis=0))

    def most_tiles(self) -> float:
        """Return how many tiles a plan may have that is of interest."""
        limits = [tile_limit(self.nest, of, most) for of, most in self.at_most.items()]
        return min([inf if self.best is None else tile_limit(self.nest, self.minimise, self.value), *limits])


def _ascending(values: Counts) -> Iterator[int]:
    """Iterate over indices by ascending value, sorting only as many as are asked for."""
    left = np.arange(len(values))
    while len(left):
        size = min(len(left), 256)
        part = np.argpartition(values[left], size - 1) if size < len(left) else np.arange(len(left))
        first = left[part[:size]]
        yield from first[np.argsort(values[first], kind="stable")].tolist()
        left = left[part[size:]]
