"""What attention moves in any schedule, by a game of queries and keys: proofs in docs/residency-bounds.md."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import isqrt
from typing import NamedTuple

import numpy as np

GROWTH = 1.04
"""From one size of segments to the next that is tried."""

PARTS = 256
"""Intervals of a segment's room for scores, for each of which its products are bounded."""

SLACK = 1e-9
"""By how much, of itself, what is computed in floating point is moved to the safe side."""


class Game(NamedTuple):
    """Pairs of queries and keys, and what is counted of all that they need.

    Attributes
    ----------
    pairs
        Of all heads.
    query, key
        What one query, and what one key, needs on chip, in elements.
    first
        All of that together: it comes on chip once in any case.
    charge
        What the heaviest event counts.
    products
        The weight of a pair's products whose operands and sums are counted; 0 for none.
    """

    pairs: int
    query: int
    key: int
    first: int
    charge: int
    products: float


@lru_cache(maxsize=1024)
def arrivals(game: Game, memory: int) -> int:
    """Return the least weight of all events of a schedule: what comes on chip, and scores that are moved."""
    return max(_by_pairs(game, memory), _by_products(game, memory))


def _by_pairs(game: Game, memory: int) -> int:
    """Return what theorem 1 proves: a segment completes few pairs."""
    unit = 4 * game.query * game.key

    def most(moved: int) -> int:
        """Return the most pairs of a segment, in units."""
        alone, scores = moved**2 + unit * memory, unit // 2 * moved
        return max((memory + moved) ** 2, alone, memory**2 + scores, unit * memory + scores)

    left, found = game.pairs * unit - most(0), 0
    if left <= 0:
        return 0
    for moved in _sizes(game, memory):
        whole = moved - game.charge + 1
        found = max(found, memory + -(-whole * left // most(moved)))
    return found


def _by_products(game: Game, memory: int) -> int:
    """Return what theorem 2 proves: a segment has few products."""
    if not game.products:
        return 0
    total, found = game.products * game.pairs * (1 - SLACK), 0
    unit = 4.0 * game.query * game.key
    cuts = np.linspace(0, 1, PARTS + 1)
    for moved in _sizes(game, memory):
        every = memory + moved
        left, shared = every * (1 - cuts[:-1]), np.sqrt(memory + every * cuts[1:])
        most = float((game.products * left**2 / unit + left / 2 * shared).max()) * (1 + SLACK)
        if total > most:
            found = max(found, memory + (moved - game.charge + 1) * (int(-(-total // most)) - 1))
    return found


def _sizes(game: Game, memory: int) -> Iterable[int]:
    """Return the weights of segments that are tried."""
    size, end = float(game.charge), 64 * memory + 8 * game.query * game.key
    found = {memory, 2 * memory, isqrt(4 * game.query * game.key * memory)}
    while size < end:
        found.add(int(size))
        size *= GROWTH
    return [size for size in found if size >= game.charge]
