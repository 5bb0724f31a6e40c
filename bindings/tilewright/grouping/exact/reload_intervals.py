"""Gaps: steps in which a pixel is off chip between two that need it, and where in a plan they can be.

A plan loads as many pixels more than there are as it has gaps. docs/bounds.md, theorem 8, proves what is
claimed here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping.exact.bitsets import NEVER, Bits, Words, pack, unpack
from tilewright.grouping.problem import Problem
from tilewright.grouping.structure import cells

MOST_PATCHES = 16
"""Of a pixel that more patches need, not all ways are tried in which a gap can part them."""

MOST_GAPS = 2
"""Gaps for each pixel of a patch up to which the ends of a plan are told apart by what they throw away."""


def fewest_with_gaps(problem: Problem) -> NDArray[np.int64]:
    """Return how many pixels have a gap at least if one has a gap of so many steps or more.

    Returns
    -------
    int64, shape (steps + 1,)
        ``NEVER`` where no gap can be so long.
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


class Ends(NamedTuple):
    """What the better end of a plan keeps to, the plan or its reverse (docs/bounds.md, theorem 8).

    Attributes
    ----------
    steps
        So many first steps and as many last ones, which have no step in common; 0 if nothing is known.
    excess, most
        How many pixels whole plans throw away at most, and how many the first steps by fewest(s) alone.
    near : uint64, shape (pixels, words of pixels)
        For each pixel those that others' patches cannot keep on chip as long as a gap that is in both ends;
        empty if there is no such gap.
    """

    steps: int
    excess: int
    most: int
    near: Words


NO_ENDS = Ends(0, -1, -1, np.zeros((0, 0), np.uint64))


class Gaps:
    """How long gaps can be in the plans of a problem with a fixed number of steps."""

    def __init__(self, problem: Problem, bits: Bits) -> None:
        self.fewest = fewest_with_gaps(problem)
        needing = unpack(bits.pixel_patches, problem.n_patches).astype(np.int64)
        shared = needing @ needing.T
        # How many patches of the second need not be done in a gap of the first.
        self._beside = needing.sum(axis=1) - shared
        # A longer gap forces all that can be: they share patches on both of its sides.
        self._longest = int(self._beside[shared > 1].max(initial=0))
        self._words = len(bits.pixel_words)
        self._largest = int(problem.patch_sizes.max())

    def ends(self, excess: int) -> Ends:
        """Return the longest ends that say most of plans with so many gaps at most.

        Where these may be many patches' worth, nearly all of them can be long, and this is of no use.
        """
        if excess > MOST_GAPS * self._largest:
            return NO_ENDS
        steps = len(self.fewest) - 1
        for end in range(steps // 2, 1, -1):
            gap = steps - 2 * end + 2
            if self.fewest[gap] > excess:
                return Ends(end, excess, excess // 2, NO_ENDS.near)
            if gap > self._longest:
                return Ends(end, excess, excess, pack(self._beside < gap, self._words))
        return NO_ENDS
