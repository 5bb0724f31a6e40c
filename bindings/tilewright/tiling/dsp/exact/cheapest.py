"""Fewest cycles and least energy over all tiles that fit.

A lower bound is computed for all of them at once, and the exact value in the order of that bound until no
bound is below the best value.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from tilewright.tiling.dsp.cost import measure
from tilewright.tiling.dsp.exact.accesses import BestPlan, fewest_accesses
from tilewright.tiling.dsp.exact.families import families, tile_at, tile_limit
from tilewright.tiling.dsp.exact.ways import lower_bound, ways
from tilewright.tiling.dsp.nest import Counts, Nest, Tile


def cheapest(
    nest: Nest, minimise: str, limit: str, local: int, deadline: float = float("inf")
) -> tuple[BestPlan | None, bool]:
    """Return a plan with the fewest cycles or the least energy, and whether that is proven.

    It is None, and that is proven, where nothing is feasible.

    Parameters
    ----------
    minimise : {"cycles", "energy"}
    local
        Elements of local traffic of the layer (`local_traffic`).
    deadline
        ``time.monotonic()`` after which the best plan so far is returned without proof.
    """
    start = fewest_accesses(nest, limit, deadline=deadline)
    if start is None:
        return None, True
    best = BestPlan(measure(nest, start.plan, minimise, local), start.plan)

    def look(tile: Tile) -> None:
        nonlocal best
        for way in ways(nest, tile, limit, local):
            if way.bound(minimise) < best.value:
                measured = [BestPlan(measure(nest, plan, minimise, local), plan) for plan in way.plans]
                best = min([best, *measured], key=lambda entry: entry.value)

    kept_tiles: list[tuple[Counts, Counts]] = []
    for family in families(nest, limit, deadline, lambda: tile_limit(nest, minimise, best.value)):
        least = lower_bound(family.tiles, family.accesses, family.transfers, minimise, local).min(axis=0)
        if least.min() < best.value:
            look(tile_at(family.steps(least.argmin(keepdims=True)), 0))
        kept = np.flatnonzero(least < best.value)
        kept_tiles.append((least[kept], family.steps(kept)))
    if not kept_tiles:
        return best, time.monotonic() <= deadline
    bounds = np.concatenate([bound for bound, _ in kept_tiles])
    steps = np.concatenate([step for _, step in kept_tiles], axis=1)
    for entry in _ascending(bounds):
        if bounds[entry] >= best.value:
            break
        if time.monotonic() > deadline:
            return best, False
        look(tile_at(steps, entry))
    return best, time.monotonic() <= deadline


def _ascending(values: Counts) -> Iterator[int]:
    """Iterate over indices by ascending value, sorting only as many as are asked for."""
    left = np.arange(len(values))
    while len(left):
        size = min(len(left), 256)
        part = np.argpartition(values[left], size - 1) if size < len(left) else np.arange(len(left))
        first = left[part[:size]]
        yield from first[np.argsort(values[first], kind="stable")].tolist()
        left = left[part[size:]]
