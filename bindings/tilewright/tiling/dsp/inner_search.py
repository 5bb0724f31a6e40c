"""The best inner loop of a tile, by enumeration of all of them.

Which loops there are: every dimension vectorised, every dimension pipelined, all of the kernel, a row or one
position in the body, and of each loop the smallest unrolling for each number of iterations that it can have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tilewright.tiling.dsp.inner_loop import (
    DIMENSIONS,
    TAPS,
    Counts,
    InnerLoop,
    LoopCosts,
    TileWork,
    body_taps,
    costs_of_bodies,
    extents,
)
from tilewright.tiling.dsp.vector_unit import VectorUnit
from tilewright.tiling.tile import even_steps


class LoopFamily(NamedTuple):
    """Inner loops that differ in their unrolling alone: five arrays, of n, c, y, x and k."""

    vector: str
    pipelined: str
    taps: str
    unroll: list[Counts]

    def loop(self, number: int) -> InnerLoop:
        """Return one of them."""
        n, c, y, x, k = (int(each[number]) for each in self.unroll)
        return InnerLoop(self.vector, self.pipelined, (n, c, y, x, k), self.taps)


class BestLoop(NamedTuple):
    """The best inner loop of a tile, what it costs, and how many loops there are."""

    loop: InnerLoop
    costs: LoopCosts
    cycles: int
    transfers: int
    considered: int


def families(unit: VectorUnit, work: TileWork, vectors: Iterable[str] = DIMENSIONS) -> Iterator[LoopFamily]:
    """Return all inner loops of a tile whose bodies are within `VectorUnit.unrolled_macs`.

    Parameters
    ----------
    vectors
        Dimensions that may be in the lanes.
    """
    every = [taps for taps, along in zip(TAPS, (2, *work.kernel), strict=True) if along > 1]
    for vector in vectors:
        sizes = extents(unit, work, vector)
        for taps in every:
            rows, columns = body_taps(work.kernel, taps)
            unroll = unrollings(sizes, unit.unrolled_macs // (rows * columns))
            if not len(unroll[0]):
                continue
            for pipelined in DIMENSIONS:
                yield LoopFamily(vector, pipelined, taps, unroll)


def unrollings(sizes: tuple[int, ...], most: int) -> list[Counts]:
    """Return all unrollings of some loops with a product of at most some number."""
    found, product = np.zeros((0, 1), np.int64), np.ones(1, np.int64)
    for size in sizes:
        steps = np.array([step for step in even_steps(size) if step <= most], np.int64)
        table = product[:, None] * steps[None, :]
        entry, step = np.nonzero(table <= most)
        found = np.vstack([found[:, entry], steps[step][None, :]])
        product = table[entry, step]
    return list(found)


@lru_cache(maxsize=4096)
def best_loop(
    unit: VectorUnit,
    work: TileWork,
    *,
    prices: tuple[int, int] = (1, 0),
    first: bool = True,
    last: bool = True,
) -> BestLoop:
    """Return the inner loop of least cost, of these that of fewest cycles, then of fewest vector transfers.

    Parameters
    ----------
    prices
        Of a cycle and of a vector transfer: by default cycles alone count.
    first, last
        Whether the tile has the first and the last input maps of its outputs.
    """
    best: tuple[tuple[int, int, int], LoopFamily, int, LoopCosts] | None = None
    considered = 0
    for family in families(unit, work):
        costs = costs_of_bodies(unit, work, family.vector, family.pipelined, family.taps, family.unroll)
        totals = (np.broadcast_to(each, costs.macs.shape) for each in costs.total(first=first, last=last))
        fits = np.flatnonzero(costs.fits)
        considered += len(fits)
        if not len(fits):
            continue
        cycles, transfers = (total[fits] for total in totals)
        ranks = np.stack([prices[0] * cycles + prices[1] * transfers, cycles, transfers])
        at = int(np.lexsort(ranks[::-1])[0])
        rank = int(ranks[0, at]), int(ranks[1, at]), int(ranks[2, at])
        if best is None or rank < best[0]:
            best = rank, family, int(fits[at]), costs
    assert best is not None  # two registers are enough for one weight and one sum
    (_, fastest, fewest), family, at, costs = best
    return BestLoop(family.loop(at), costs.of(at), fastest, fewest, considered)
