"""The memory that the expansion kernel works in: each thread allocates it once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tilewright.core.bitsets import Words
from tilewright.grouping.exact.bitsets import Bits
from tilewright.grouping.exact.pruning_kernel import DeadlineScratch, Ints


class Origin(NamedTuple):
    """The partial plan that is expanded.

    Attributes
    ----------
    done : uint64, shape (words of patches,)
        Patches that are done.
    held, kept : uint64, shape (words of pixels,)
        Pixels on chip that remaining patches need, and those of them that may not be loaded again.
    seen, needed : uint64, shape (words of pixels,)
        Pixels of the patches done, and of the remaining patches.
    gaps, long : uint64, shape (words of pixels,)
        Pixels off chip that will be loaded again; pixels on chip whose gap may be long if it begins now.
    """

    done: Words
    held: Words
    kept: Words
    seen: Words
    needed: Words
    gaps: Words
    long: Words


class Branches(NamedTuple):
    """The decisions that lead to a group, as a stack: each patch that is chosen adds a level.

    Attributes
    ----------
    union, given : uint64, shape (levels, words of pixels)
        Pixels that the chosen patches cover, and pixels that are thrown away.
    barred, chosen : uint64, shape (levels, words of patches)
        Patches that are excluded from the group, and patches that are chosen.
    options : int64, shape (levels, patches)
        The patches that can cover the pixel `pivot`; all patches that are not excluded if there is none.
    taken, thrown, lasting : int64, shape (levels,)
        Number of chosen patches, of pixels thrown away, and of those among them whose gap may be long.
    pivot, n_options, tried : int64, shape (levels,)
        The pixel to be covered or thrown away next, -1 for none; the number of options, -1 before they are
        listed; and how many options have been tried.
    """

    union: Words
    given: Words
    barred: Words
    chosen: Words
    options: Ints
    taken: Ints
    thrown: Ints
    lasting: Ints
    pivot: Ints
    n_options: Ints
    tried: Ints


class ScratchSets(NamedTuple):
    """Sets that functions of the kernel hand to each other, and scratch memory.

    Attributes
    ----------
    done, candidates : uint64, shape (words of patches,)
        Patches done including the chosen ones, and patches that may be the last one of the group.
    row, image : uint64, shape (words of a row,)
        The row of a child, and an image of it under a symmetry.
    sides : uint64, shape (2, words of pixels)
        Scratch of `pixels_gapped`.
    apart : int64, shape (pixels,)
        The pixels that `far_apart` finds.
    rest : uint64, shape (words of pixels,), as all that follow
        Pixels on chip that are neither covered nor thrown away yet.
    group, still, fixed
        Pixels of the group; those that remaining patches need; those of them that may not be loaded again.
    off, lasting
        Pixels with gaps after the group, and those of them whose gap may be long.
    nothing
        The empty set.
    """

    done: Words
    candidates: Words
    row: Words
    image: Words
    sides: Words
    apart: Ints
    rest: Words
    group: Words
    still: Words
    fixed: Words
    off: Words
    lasting: Words
    nothing: Words


class Workspace(NamedTuple):
    """The memory of one thread."""

    origin: Origin
    branches: Branches
    sets: ScratchSets
    scratch: DeadlineScratch

    @classmethod
    def of(cls, bits: Bits, size: int, row_words: int) -> Workspace:
        """Allocate it for groups of at most `size` patches and rows of `row_words` words."""
        n_patches, n_held = bits.patch_pixels.shape
        n_pixels, n_done = bits.pixel_patches.shape

        def of_patches(*shape: int) -> Words:
            return np.zeros((*shape, n_done), np.uint64)

        def of_pixels(*shape: int) -> Words:
            return np.zeros((*shape, n_held), np.uint64)

        levels = size + 1
        return cls(
            Origin(of_patches(), *of_pixels(6)),
            Branches(
                of_pixels(levels),
                of_pixels(levels),
                of_patches(levels),
                of_patches(levels),
                np.zeros((levels, n_patches), np.int64),
                *np.zeros((6, levels), np.int64),
            ),
            ScratchSets(
                of_patches(),
                of_patches(),
                np.zeros(row_words, np.uint64),
                np.zeros(row_words, np.uint64),
                of_pixels(2),
                np.zeros(n_pixels, np.int64),
                *of_pixels(7),
            ),
            DeadlineScratch.of(bits),
        )
