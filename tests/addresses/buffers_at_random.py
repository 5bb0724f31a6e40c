"""Buffers at random, and the least height of a few by trying all orders."""

from __future__ import annotations

import numpy as np
from tests.oracles import addresses as oracle

from tilewright.addresses import Memory, Problem


def at_random(rng: np.random.Generator, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lower = rng.integers(0, 6, number)
    return lower, lower + rng.integers(1, 5, number), rng.integers(1, 7, number)


def enumerated(lower: np.ndarray, upper: np.ndarray, size: np.ndarray, alignment: int) -> int:
    """Return the least height of all orders in which buffers are put as low as those before them allow."""
    found = oracle.best(problem_of(lower, upper, size, alignment=alignment).model_dump(mode="json"))
    assert found is not None
    return found


def problem_of(lower: np.ndarray, upper: np.ndarray, size: np.ndarray, **memory: int) -> Problem:
    rows = zip(lower.tolist(), upper.tolist(), size.tolist(), strict=True)
    buffers = [{"id": f"b{i}", "lower": a, "upper": b, "size": c} for i, (a, b, c) in enumerate(rows)]
    return Problem(buffers=buffers, memory=Memory(**memory))
