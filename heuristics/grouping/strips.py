"""Strips: the plane is cut into strips that are walked one after the other, row by row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping import Plan, Problem
from tilewright.heuristics.grouping._measure import best, cut


def plan(problem: Problem) -> Plan:
    """Try strips of every sensible width, upright and lying, and return the best plan.

    A strip that is no wider than a group never loses a pixel that it needs again; what is loaded twice is
    the ``kernel - stride`` lines between two strips. So strips as wide as a group are a good choice,
    and the widest of all may be better where the layer is small.
    """
    return best(problem, (Plan.from_groups(problem, cut(problem, order)) for order in orders(problem)))


def orders(problem: Problem) -> list[NDArray[np.int64]]:
    """Return the sequences of patches that `plan` tries, the same one never twice."""
    numbers = np.arange(problem.n_patches).reshape(problem.grid)
    found = {}
    for plane in (numbers, numbers.T):
        across = plane.shape[1]
        fewest_strips = -(-across // problem.group_size)
        counts = {1, 2, 3, fewest_strips - 1, fewest_strips, fewest_strips + 1, 2 * fewest_strips}
        if problem.n_patches <= 5000:
            counts |= set(range(1, across + 1))
        widths = [np.array_split(np.arange(across), count) for count in counts if 1 <= count <= across]
        # Strips exactly as wide as a group, and a narrower one at the end.
        widths.append(np.split(np.arange(across), range(problem.group_size, across, problem.group_size)))
        for strips in widths:
            for zigzag in (False, True):
                order = _walk(plane, strips, zigzag)
                found.setdefault(order.tobytes(), order)
    return list(found.values())


def _walk(plane: NDArray[np.int64], strips: list[NDArray[np.int64]], zigzag: bool) -> NDArray[np.int64]:
    """Walk strip after strip, down the first and up the next, each row in the same or in turning direction."""
    parts = []
    for number, columns in enumerate(strips):
        strip = plane[:, columns]
        if number % 2:
            strip = strip[::-1]
        if zigzag:
            strip = strip.copy()
            strip[1::2] = strip[1::2, ::-1].copy()
        parts.append(strip.ravel())
    return np.concatenate(parts)
