"""Strips: the plane is cut into strips that are walked one after the other, row by row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping import Plan, Problem
from tilewright.grouping.cost import count_loads
from tilewright.heuristics.grouping._measure import Group, cut, longest_fitting, max_pixels_by_size

SMALL = 5000
"""Patches up to which every width is tried; on larger layers, only widths close to what a group spans."""


def plan(problem: Problem) -> Plan:
    """Try strips of every sensible width, upright and lying, and return the best plan.

    A strip that is no wider than a group never loses a pixel that it needs again; what is loaded twice is
    the ``kernel - stride`` lines between two strips. So strips as wide as a group are a good choice,
    and the widest of all may be better where the layer is small.
    """
    judged: list[tuple[int, int, int, list[Group]]] = []
    for order in orders(problem):
        groups = cut(problem, order)
        steps = np.empty(problem.n_patches, np.int64)
        steps[order] = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        loads = count_loads(problem, steps)
        # The memory is respected by the cut already; see `_measure.value` for the whole judgement.
        over = int(np.maximum(loads - problem.max_loads, 0).sum())
        over += max(0, len(groups) - problem.steps_range[1])
        judged.append((over, problem.cost(int(loads.sum()), len(groups)), len(judged), groups))
    return Plan.from_groups(problem, min(judged)[-1])


def orders(problem: Problem) -> list[NDArray[np.int64]]:
    """Return the sequences of patches that `plan` tries, the same one never twice."""
    numbers = np.arange(problem.n_patches).reshape(problem.grid)
    found: dict[bytes, NDArray[np.int64]] = {}
    for plane in (numbers, numbers.T):
        across = plane.shape[1]
        # What a group can span: its patches, as far as they fit into the memory.
        span = longest_fitting(problem, max_pixels_by_size(problem), plane[0, : problem.group_size])
        fewest_strips = -(-across // span)
        small = problem.n_patches <= SMALL
        counts = range(1, across + 1) if small else range(fewest_strips - 1, fewest_strips + 2)
        widths = [np.array_split(np.arange(across), count) for count in counts if 1 <= count <= across]
        # Strips exactly as wide as a group, and a narrower one at the end.
        widths.append(np.split(np.arange(across), range(span, across, span)))
        for strips in widths:
            for zigzag in (False, True) if small else (False,):
                order = _walk(plane, strips, zigzag)
                found.setdefault(order.tobytes(), order)
    return list(found.values())


def _walk(plane: NDArray[np.int64], strips: list[NDArray[np.int64]], zigzag: bool) -> NDArray[np.int64]:
    """Walk strip after strip, down the first and up the next, rows in the same or in turning direction."""
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
