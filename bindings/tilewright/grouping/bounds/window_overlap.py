"""Windows of a plan and the groups between them, which stand in both (docs/bounds.md, theorem 2b)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping.problem import Problem

MOST_PATCHES = 32
"""Of a seam; windows between larger ones would be larger than most layers."""

MOST_FREE = 32
"""Most free places of a shape's rows and columns that one seam counts; more are too many to keep apart."""

_NONE = np.int64(1 << 40)


def window_ends(total: int, count: int, group: int) -> Iterator[NDArray[np.int64]]:
    """Give for each of `count` windows how many of `total` patches may be done when it ends."""
    for i in range(1, count + 1):
        target = total * i // count
        yield np.arange(target, total + 1 if i == count else min(target + group, total + 1))


@dataclass(frozen=True)
class Seams:
    """What windows need, in half pixels; a half is what one of two windows can claim of a pixel.

    Attributes
    ----------
    patch
        For each patch of a window and of the seam before it.
    around : int, shape (n_places,)
        For the rows and columns of a shape that cross at so many places, or more.
    seam : int, shape (n, n)
        For the seam between two windows, less what it holds, if it takes so many places of the window
        before it, and so many of the next one, its own patches among these.
    """

    patch: int
    around: NDArray[np.int64]
    seam: NDArray[np.int64]

    @classmethod
    def of(cls, problem: Problem, fewest: NDArray[np.int64], most: NDArray[np.int64]) -> Seams | None:
        """Return them for small groups of a layer without dilation whose padding is loaded, else None.

        Parameters
        ----------
        fewest : int, shape (n_patches + 1,)
            Fewest pixels of m patches by lemma 1.
        most
            Most pixels on chip after a step of m patches, m = 0 .. the most of a group.
        """
        layer = problem.layer
        group = len(most) - 1
        if group > MOST_PATCHES or problem.generates_padding or {*layer.dilation} != {1}:
            return None
        kernel, stride, grid = layer.kernel, layer.stride, problem.grid
        step = [min(pair) for pair in zip(kernel, stride, strict=True)]
        rest = [k - s for k, s in zip(kernel, step, strict=True)]

        def apart(along: int) -> int:
            """Return what two neighbours of a seam, one beside the other in a line, cost at least."""
            across = 1 - along
            return min(
                2 * kernel[across] * (kernel[along] - min(stride[along] * distance, kernel[along]))
                + step[across] * min(stride[along] * (distance - 1), rest[along])
                for distance in range(1, kernel[along] + 1)
            )

        size = min(group**2, group + MOST_FREE) + 1
        seam = np.full((size, size), _NONE)
        beside, below = apart(1), apart(0)
        for a in range(1, group + 1):
            for rows in range(1, min(a, grid[0]) + 1):
                for cols in range(-(-a // rows), min(a, grid[1]) + 1):
                    lost = max((a - rows) * beside, (a - cols) * below)
                    held = min(2 * int(most[a]), 2 * a * kernel[0] * kernel[1] - lost)
                    cost = 2 * a * step[0] * step[1] - held
                    after = np.arange(a, rows * cols + 1)
                    before = np.minimum(rows * cols - after, size - 1)
                    np.minimum.at(seam, (before, np.minimum(after, size - 1)), cost)
        patch = 2 * step[0] * step[1]
        around = np.full(problem.n_patches + 2 * size, _NONE)
        around[: len(fewest)] = 2 * fewest - patch * np.arange(len(fewest))
        return cls(patch, around, seam)

    def fewest_loads(self, total: int, count: int, group: int) -> int:
        """Return the fewest loads of `total` patches in `count` windows of sizes known up to a group."""
        size = len(self.seam)
        places = np.arange(size)
        ends, best = np.array([0]), np.full((1, size), _NONE)
        best[0, 0] = 0
        for reach in window_ends(total, count, group):
            before = np.full((len(reach), size), _NONE)
            for end, known in zip(ends, best, strict=True):
                length = (reach - end)[:, None, None]
                needed = self.around[length + places[:, None] + places]
                loads = (known[:, None] + needed).min(axis=1) + self.patch * length[:, :, 0]
                before = np.minimum(before, loads)
            ends, best = reach, (before[:, :, None] + self.seam).min(axis=1)
        return -(-int(before[-1, 0]) // 2)
