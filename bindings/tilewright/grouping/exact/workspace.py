"""What the compiled search for the groups that may follow a partial plan remembers while it looks for them.

One thread makes it once, and nothing is allocated while it searches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tilewright.grouping.exact.bitsets import Bits, Words
from tilewright.grouping.exact.pruning_kernel import Ints, Scratch


class Origin(NamedTuple):
    """The partial plan that groups are to follow.

    Attributes
    ----------
    done : uint64, shape (words of patches,)
        Patches that are done.
    held, kept : uint64, shape (words of pixels,)
        Pixels on chip that patches to come need, and those of them that may not be loaded again.
    seen, needed : uint64, shape (words of pixels,)
        Pixels of patches done, and of patches to come.
    gaps, long : uint64, shape (words of pixels,)
        Pixels that will be loaded again, and those on chip whose gap may be long if it begins now.
    """

    done: Words
    held: Words
    kept: Words
    seen: Words
    needed: Words
    gaps: Words
    long: Words


class Branches(NamedTuple):
    """The decisions that lead to a group, level by level: one level more for each patch.

    Attributes
    ----------
    union, given : uint64, shape (levels, words of pixels)
        Pixels that are covered, and those that are thrown away.
    barred, chosen : uint64, shape (levels, words of patches)
        Patches that the group does not get any more, and those that it has.
    options : int64, shape (levels, patches)
        The patches that can cover the pixel `pivot`, or all that are free where none is to be decided.
    taken, thrown, lasting : int64, shape (levels,)
        How many patches it has, pixels are thrown away, and of these have gaps that may be long.
    pivot, n_options, tried : int64, shape (levels,)
        The pixel that is to be decided, or -1; how many options there are, -1 before they are known; and how
        many of these have been tried.
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


class Room(NamedTuple):
    """Room for sets, of patches (`done`, `candidates`) and of pixels, and for a row and an image of it.

    Attributes
    ----------
    done, candidates
        Patches done with the group so far, and those that may be its last one.
    sides : uint64, shape (2, words of pixels)
        What `pixels_gapped` needs.
    apart : int64, shape (pixels,)
        What `far_apart` finds.
    rest
        Pixels on chip that are not decided.
    group, still, fixed
        Pixels of the group; those that patches to come need; those of them that may not be loaded again.
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
    """All that one thread needs room for."""

    origin: Origin
    branches: Branches
    room: Room
    scratch: Scratch

    @classmethod
    def of(cls, bits: Bits, size: int, row_words: int) -> Workspace:
        """Make room for groups of at most so many patches, and rows of so many words."""
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
            Room(
                of_patches(),
                of_patches(),
                np.zeros(row_words, np.uint64),
                np.zeros(row_words, np.uint64),
                of_pixels(2),
                np.zeros(n_pixels, np.int64),
                *of_pixels(7),
            ),
            Scratch.of(bits),
        )
