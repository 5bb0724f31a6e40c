"""Windows of a plan, and the group that two neighbours share (docs/bounds.md, theorem 2b: seams)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping.problem import Problem

MOST_PATCHES = 32
"""Largest group for which overlaps are computed; with larger ones, windows would exceed most layers."""

MOST_FREE = 32
"""Most free places in the rows and columns of a group that are told apart."""

_NONE = np.int64(1 << 40)


def window_ends(total: int, count: int, group: int) -> Iterator[NDArray[np.int64]]:
    """Yield for each of `count` windows the numbers of `total` patches that may be done when it ends.

    A window ends with the first step that completes its share, so it may have up to ``group - 1`` patches
    more.
    """
    for i in range(1, count + 1):
        target = total * i // count
        yield np.arange(target, total + 1 if i == count else min(target + group, total + 1))


@dataclass(frozen=True)
class WindowOverlaps:
    """Costs of windows and of the groups between them, in half pixels.

    Two neighbouring windows may claim half of a pixel each.

    Attributes
    ----------
    patch
        Cost of each patch of a window and of the group before it.
    around : int, shape (n_places,)
        ``around[n]``: cost of a shape whose rows and columns cross at n places or more.
    overlap : int, shape (n, n)
        ``overlap[i, j]``: cost when i free places of the group go to the earlier window and j to the later,
        its own patches among these, less the pixels that it holds.
    """

    patch: int
    around: NDArray[np.int64]
    overlap: NDArray[np.int64]

    @classmethod
    def of(
        cls, problem: Problem, fewest: NDArray[np.int64], most: NDArray[np.int64]
    ) -> WindowOverlaps | None:
        """Compute them; return None for large groups, dilation, or padding that is generated.

        Parameters
        ----------
        fewest : int, shape (n_patches + 1,)
            Fewest pixels of m patches by lemma 1.
        most : int, shape (group + 1,)
            Most pixels on chip after a step of m patches, m = 0 .. group.
        """
        layer = problem.layer
        group = len(most) - 1
        if group > MOST_PATCHES or problem.generates_padding or {*layer.dilation} != {1}:
            return None
        kernel, stride, grid = layer.kernel, layer.stride, problem.grid
        step = [min(pair) for pair in zip(kernel, stride, strict=True)]
        rest = [k - s for k, s in zip(kernel, step, strict=True)]

        def apart(along: int) -> int:
            """Return the least cost of two patches of the group that are neighbours in a line."""
            across = 1 - along
            return min(
                2 * kernel[across] * (kernel[along] - min(stride[along] * distance, kernel[along]))
                + step[across] * min(stride[along] * (distance - 1), rest[along])
                for distance in range(1, kernel[along] + 1)
            )

        size = min(group**2, group + MOST_FREE) + 1
        overlap = np.full((size, size), _NONE)
        beside, below = apart(1), apart(0)
        for a in range(1, group + 1):
            for rows in range(1, min(a, grid[0]) + 1):
                for cols in range(-(-a // rows), min(a, grid[1]) + 1):
                    lost = max((a - rows) * beside, (a - cols) * below)
                    held = min(2 * int(most[a]), 2 * a * kernel[0] * kernel[1] - lost)
                    cost = 2 * a * step[0] * step[1] - held
                    after = np.arange(a, rows * cols + 1)
                    before = np.minimum(rows * cols - after, size - 1)
                    np.minimum.at(overlap, (before, np.minimum(after, size - 1)), cost)
        patch = 2 * step[0] * step[1]
        around = np.full(problem.n_patches + 2 * size, _NONE)
        around[: len(fewest)] = 2 * fewest - patch * np.arange(len(fewest))
        return cls(patch, around, overlap)

    def fewest_loads(self, total: int, count: int, group: int) -> int:
        """Return the fewest loads of `total` patches in `count` windows of sizes known up to a group."""
        size = len(self.overlap)
        places = np.arange(size)
        ends, best = np.array([0]), np.full((1, size), _NONE)
        best[0, 0] = 0
        for reach in window_ends(total, count, group):
            before = np.full((len(reach), size), _NONE)
            for end, so_far in zip(ends, best, strict=True):
                length = (reach - end)[:, None, None]
                needed = self.around[length + places[:, None] + places]
                loads = (so_far[:, None] + needed).min(axis=1) + self.patch * length[:, :, 0]
                before = np.minimum(before, loads)
            ends, best = reach, (before[:, :, None] + self.overlap).min(axis=1)
        return -(-int(before[-1, 0]) // 2)
