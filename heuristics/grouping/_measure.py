"""Properties of a problem and of a sequence of groups that all heuristics need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping import Plan, Problem
from tilewright.grouping.cost import count_loads

Group = NDArray[np.int64]
"""Patch numbers of one step."""


def max_pixels_by_size(problem: Problem) -> NDArray[np.int32]:
    """Return `Problem.max_pixels_by_size` in the type that the kernels take."""
    return problem.max_pixels_by_size.astype(np.int32)


def near(problem: Problem, most: int = 64) -> NDArray[np.int32]:
    """Return the closest patches of each patch, those first that share most pixels with it; -1 for none.

    Patches that just miss each other are near, too: they keep whole rows of pixels on chip together.
    """
    layer, (height, width) = problem.layer, problem.grid
    reach = [
        min(-(-extent // stride), size - 1)
        for extent, stride, size in zip(layer.kernel_extent, layer.stride, problem.grid, strict=True)
    ]
    offsets = [
        (dy, dx)
        for dy in range(-reach[0], reach[0] + 1)
        for dx in range(-reach[1], reach[1] + 1)
        if (dy, dx) != (0, 0)
    ]
    # Thin out large neighbourhoods evenly, so that far directions remain.
    offsets.sort(key=lambda o: (abs(o[0]) + abs(o[1]), o))
    if len(offsets) > most:
        inner = offsets[: most // 2]
        outer = offsets[most // 2 :]
        offsets = inner + outer[:: -(-len(outer) // (most - len(inner)))]
    number = np.full((height + 2 * reach[0], width + 2 * reach[1]), -1, np.int32)
    inside = number[reach[0] : reach[0] + height, reach[1] : reach[1] + width]
    inside[:] = np.arange(problem.n_patches).reshape(height, width)
    columns = [
        number[reach[0] + dy : reach[0] + dy + height, reach[1] + dx : reach[1] + dx + width].ravel()
        for dy, dx in offsets
    ]
    if not columns:
        return np.full((problem.n_patches, 1), -1, np.int32)
    return np.ascontiguousarray(np.stack(columns, axis=1))


@dataclass(frozen=True, order=True)
class Value:
    """How good a plan is: first by how far it breaks the limits, then by its objective."""

    violations: int
    objective: int


def value(problem: Problem, plan: Plan) -> Value:
    """Judge a plan that computes every patch once, in groups that are not too large."""
    steps = plan.steps(problem)
    loads = count_loads(problem, steps)
    fewest, most = problem.steps_range
    over = int(np.maximum(loads - problem.max_loads, 0).sum())
    over += max(0, fewest - plan.n_steps, plan.n_steps - most)
    if problem.machine.memory is not None:
        over += sum(
            max(0, distinct(problem, members) - problem.max_group_pixels(len(members)))
            for members in plan.indices(problem)
        )
    return Value(over, problem.cost(int(loads.sum()), plan.n_steps))


def distinct(problem: Problem, members: NDArray[np.int64]) -> int:
    """Count the pixels of a group."""
    pixels = np.unique(problem.patch_pixels[members])
    return int((pixels >= 0).sum())


def longest_fitting(problem: Problem, max_pixels: NDArray[np.int32], patches: Group) -> int:
    """Count how many of the first patches fit into the memory together; one always does."""
    table = problem.patch_pixels[patches]
    pixels, first = np.unique(table, return_index=True)
    new = np.bincount(first[pixels >= 0] // table.shape[1], minlength=len(patches))
    fits = np.cumsum(new) <= max_pixels[1 : len(patches) + 1]
    return len(patches) if fits.all() else max(1, int(np.argmin(fits)))


def best(problem: Problem, plans: Iterable[Plan]) -> Plan:
    """Return the plan of least `Value`, the first among equals."""
    return min(plans, key=lambda plan: value(problem, plan))


def cut(problem: Problem, order: Sequence[int] | NDArray[np.int64]) -> list[Group]:
    """Cut a sequence of all patches into groups, as few as the limits on a group and on the steps allow."""
    order = np.asarray(order, dtype=np.int64)
    fewest, _ = problem.steps_range
    size = problem.group_size
    if problem.machine.memory is None:
        if fewest > problem.kmin:
            return np.array_split(order, fewest)
        return np.split(order, range(size, len(order), size))
    max_pixels = max_pixels_by_size(problem)
    groups = []
    start = 0
    while start < len(order):
        fitting = longest_fitting(problem, max_pixels, order[start : start + size])
        groups.append(order[start : start + fitting])
        start += fitting
    while len(groups) < fewest:
        longest = max(range(len(groups)), key=lambda i: len(groups[i]))
        groups[longest : longest + 1] = np.array_split(groups[longest], 2)
    return groups
