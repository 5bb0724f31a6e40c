"""Reload intervals (gaps): the steps in which a pixel is off chip between two steps that need it.

The loads of a plan beyond the compulsory ones are as many as its gaps. docs/bounds.md, theorem 8, proves what
is claimed here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.bitsets import Words, pack, unpack
from tilewright.grouping.exact.bitsets import NEVER, Bits
from tilewright.grouping.problem import Problem
from tilewright.grouping.structure import cells

MOST_PATCHES = 16
"""Most patches of a pixel for which all ways are tried in which a gap can separate them."""

MOST_GAPS = 2
"""Prefix limits are used while a plan may have at most this many gaps per pixel of the largest patch."""


def fewest_with_gaps(problem: Problem) -> NDArray[np.int64]:
    """Return the fewest pixels with gaps in a plan that has a long one, by the length of that gap.

    Returns
    -------
    int64, shape (steps + 1,)
        Entry s counts for a gap of s steps or more; ``NEVER`` where no gap can be as long.
    """
    steps = problem.steps_range[1]
    fewest = np.full(steps + 1, NEVER, np.int64)
    parts = cells(problem)
    needing = [frozenset(part.patches) for part in parts]
    tried = set()
    for part in parts:
        n = len(part.patches)
        if n > MOST_PATCHES:
            fewest[:] = np.minimum(fewest, 1)
            continue
        place = {patch: 1 << i for i, patch in enumerate(part.patches)}
        # Others that share patches with it: how many more they have, which they share, and their pixels.
        near = sorted(
            (len(patches) - len(shared), sum(place[patch] for patch in shared), len(other.pixels))
            for other, patches in zip(parts, needing, strict=True)
            if len(shared := patches & place.keys()) > 1
        )
        if n == 1 or tuple(near) in tried:
            continue
        tried.add(tuple(near))
        # Before the gap and after it; either side may be called the first.
        before = np.arange(1, 1 << (n - 1))
        parted = np.zeros(len(before), np.int64)
        beside = np.zeros_like(fewest)
        for more, mask, pixels in near:
            parted += pixels * ((mask & before > 0) & (mask & ~before > 0))
            beside[more + 1 :] = parted.min()
        fewest = np.minimum(fewest, beside)
    return fewest


class PrefixLimits(NamedTuple):
    """Limits that a plan or its reverse keeps to in its first steps (docs/bounds.md, theorem 8).

    Attributes
    ----------
    steps
        Number of first steps that the limits hold for, at most half of all; 0 if nothing is known.
    excess, most
        Most pixels that a whole plan throws away, and most that its first steps throw away.
    near : uint64, shape (pixels, words of pixels)
        For each pixel, those that cannot stay on chip during a gap of it that reaches from the first steps
        into the last ones; empty if there is no such gap.
    """

    steps: int
    excess: int
    most: int
    near: Words


NO_PREFIX_LIMITS = PrefixLimits(0, -1, -1, np.zeros((0, 0), np.uint64))


class ReloadIntervals:
    """How long gaps can be in the plans of a problem with a fixed number of steps."""

    def __init__(self, problem: Problem, bits: Bits) -> None:
        self.fewest = fewest_with_gaps(problem)
        needing = unpack(bits.pixel_patches, problem.n_patches).astype(np.int64)
        shared = needing @ needing.T
        # [p, q]: how many patches of q may be computed in a gap of p.
        self._beside = needing.sum(axis=1) - shared
        # In a longer gap of p, every q that shares patches on both sides of it has a gap, too.
        self._longest = int(self._beside[shared > 1].max(initial=0))
        self._words = len(bits.pixel_words)
        self._largest = int(problem.patch_sizes.max())

    def prefix_limits(self, excess: int) -> PrefixLimits:
        """Return the limits on the longest prefix for which plans with at most `excess` gaps have some.

        There are none where `excess` is large, as nearly all gaps may be long then.
        """
        if excess > MOST_GAPS * self._largest:
            return NO_PREFIX_LIMITS
        steps = len(self.fewest) - 1
        for end in range(steps // 2, 1, -1):
            gap = steps - 2 * end + 2
            if self.fewest[gap] > excess:
                return PrefixLimits(end, excess, excess // 2, NO_PREFIX_LIMITS.near)
            if gap > self._longest:
                return PrefixLimits(end, excess, excess, pack(self._beside < gap, self._words))
        return NO_PREFIX_LIMITS
