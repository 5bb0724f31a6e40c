"""Buffers at random, and the least height of a few by trying all orders."""

from __future__ import annotations

import itertools

import numpy as np

from tilewright.addresses import Memory, Problem


def at_random(rng: np.random.Generator, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lower = rng.integers(0, 6, number)
    return lower, lower + rng.integers(1, 5, number), rng.integers(1, 7, number)


def enumerated(lower: np.ndarray, upper: np.ndarray, size: np.ndarray, alignment: int) -> int:
    """Return the least height of all orders in which buffers are put as low as those before them allow."""
    best = 2**62
    for order in itertools.permutations(range(len(size))):
        offsets: dict[int, int] = {}
        for one in order:
            beside = [o for o in offsets if lower[o] < upper[one] and lower[one] < upper[o]]
            top = max((offsets[o] + int(size[o]) for o in beside), default=0)
            offsets[one] = -(-top // alignment) * alignment
        best = min(best, max(offsets[one] + int(size[one]) for one in order))
    return best


def problem_of(lower: np.ndarray, upper: np.ndarray, size: np.ndarray, **memory: int) -> Problem:
    rows = zip(lower.tolist(), upper.tolist(), size.tolist(), strict=True)
    buffers = [{"id": f"b{i}", "lower": a, "upper": b, "size": c} for i, (a, b, c) in enumerate(rows)]
    return Problem(buffers=buffers, memory=Memory(**memory))
