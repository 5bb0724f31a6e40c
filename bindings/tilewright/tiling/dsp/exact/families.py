"""All tiles that fit, in families whose loops of a single iteration are the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, prod

import numpy as np
from numpy.typing import NDArray

from tilewright.tiling.dsp.exact.params import PARAMS
from tilewright.tiling.dsp.exact.patterns import Pattern, patterns
from tilewright.tiling.dsp.nest import FREE, C, Counts, G, K, N, Nest, Tile, X, Y
from tilewright.tiling.dsp.traffic import Tiles


@dataclass(frozen=True)
class Family:
    """Tiles that fit and whose loops of a single iteration are the same.

    Attributes
    ----------
    accesses, transfers : int, shape (patterns, tiles)
    """

    tiles: Tiles
    accesses: Counts
    transfers: Counts

    @classmethod
    def of(cls, nest: Nest, steps: tuple[Counts, ...], candidates: Sequence[Pattern]) -> Family:
        """Return tiles with what some patterns move."""
        tiles = Tiles(nest, steps)
        traffic = [tiles.traffic(pattern.order, pattern.reuse) for pattern in candidates]
        return cls(
            tiles,
            np.stack([np.broadcast_to(t.accesses, steps[0].shape) for t in traffic]),
            np.stack([np.broadcast_to(t.transfers, steps[0].shape) for t in traffic]),
        )

    def steps(self, which: Counts) -> Counts:
        """Return the steps of some tiles, shape (6, tiles)."""
        return np.stack([step[which] for step in self.tiles.steps])


def families(
    nest: Nest,
    limit: str,
    deadline: float,
    most_tiles: Callable[[], float],
    admits: Callable[[tuple[Counts, ...]], NDArray[np.bool_]] | None = None,
) -> Iterator[Family]:
    """Iterate over all tiles that fit, in families of a limited size; end early when the deadline passes.

    Parameters
    ----------
    most_tiles
        Tells, before each family, how many tiles a plan may have that is still of interest.
    admits
        Tells of the steps of many tiles which of them constraints admit.
    """
    # Few loops of several iterations are few tiles, and soon tell how many can be of interest.
    for single, candidates in reversed(patterns(limit, nest.machine.double_buffering)):
        if not candidates or any(nest.sizes[d] == 1 and d not in single for d in FREE):
            continue
        lists = [
            nest.steps[d] if d == G else nest.steps[d][-1:] if d in single else nest.steps[d][:-1]
            for d in range(6)
        ]
        for block in blocks(lists):
            if time.monotonic() > deadline:
                return
            steps = _fitting(nest, block, most_tiles())
            if admits is not None and len(steps[0]):
                good = np.flatnonzero(admits(steps))
                steps = tuple(row[good] for row in steps)
            if len(steps[0]):
                yield Family.of(nest, steps, candidates)


def blocks(lists: list[Counts]) -> Iterator[list[Counts]]:
    """Halve the longest list until the lists have few enough combinations."""
    if prod(len(values) for values in lists) <= PARAMS.block:
        yield lists
        return
    longest = max(range(len(lists)), key=lambda d: len(lists[d]))
    middle = len(lists[longest]) // 2
    for half in (lists[longest][:middle], lists[longest][middle:]):
        yield from blocks([half if d == longest else values for d, values in enumerate(lists)])


def _fitting(nest: Nest, lists: list[Counts], most_tiles: float) -> tuple[Counts, ...]:
    """Return the steps of all tiles that fit and are not too many, loop by loop so that few are looked at."""
    steps = [values[:1] for values in lists]
    fewest_trips = [-(-size // int(values[-1])) for size, values in zip(nest.sizes, lists, strict=True)]
    tiles = np.full(1, prod(fewest_trips))
    for d in (K, C, G, N, X, Y):
        rows = [np.repeat(step, len(lists[d])) for step in steps]
        rows[d] = np.tile(lists[d], len(steps[d]))
        # What is not chosen yet has the cheapest iterations here, and the smallest step in the memory.
        tiles = np.repeat(tiles // fewest_trips[d], len(lists[d])) * -(-nest.sizes[d] // rows[d])
        good = np.flatnonzero(
            (tiles <= most_tiles) & (Tiles(nest, tuple(rows)).need <= nest.machine.buffer_capacity)
        )
        steps, tiles = [row[good] for row in rows], tiles[good]
    return tuple(steps)


def tile_limit(nest: Nest, minimise: str, value: int) -> float:
    """Return how many tiles a plan can have whose cycles or energy are not above a value; else infinite.

    The core computes, and sets up every transfer: three for the first tile, and after that at least two for
    each, one where the input's new part may be nothing but padding (docs/tiling-bounds.md).
    """
    if minimise in ("accesses", "memory"):
        return inf
    machine = nest.machine
    setup, each = machine.dma_setup_cycles, 1 if machine.padding == "generated" else 2
    cycles = float(value)
    if minimise == "energy":
        price = machine.energy
        moved = nest.compulsory_units * machine.unit_bits / 8
        moved *= price.dram_fj_per_access / price.dram_access_bytes
        cycles = (cycles - moved) / price.core_fj_per_cycle if price.core_fj_per_cycle else inf
    if not setup or cycles == inf:
        return inf
    transfers = (cycles - nest.macs / machine.macs_per_cycle) / setup
    return (transfers - 3) / each + 1 + 1e-6 * abs(transfers) + 1


def tile_at(steps: Counts, number: int) -> Tile:
    """Return one of many tiles, shape (6, tiles)."""
    return tuple(int(step) for step in steps[:, number])
