"""Sets of patches and of pixels as bits of 64-bit words, and how the symmetries of a layer move them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.bitsets import Words, image_table, pack
from tilewright.grouping.problem import Problem
from tilewright.grouping.structure import Cell, scaled_costs

MAX_PATCHES = 192
"""Most patches of a layer that the exact search takes."""

SMALL = (2, 3)
"""Words of a set of patches and of a set of pixels on small layers; loops are compiled for these."""

NEVER = np.int32(2**28)
"""Above every cost."""


def fits(problem: Problem) -> bool:
    """Tell whether the exact search takes a problem: few patches, moderate costs, and loads to save."""
    if problem.n_patches > MAX_PATCHES or problem.load_cost == 0 or len(problem.needed_pixels) == 0:
        return False
    load, step = scaled_costs(problem)
    return bool(2 * (load * problem.patch_pixels.size + step * problem.kmax) < NEVER)


class Bits(NamedTuple):
    """A layer as the kernels see it. Only pixels that some patch needs are numbered.

    Attributes
    ----------
    patch_pixels : uint64, shape (patches, words of pixels)
        The pixels of each patch.
    pixel_patches : uint64, shape (pixels, words of patches)
        The patches that need each pixel.
    patch_images : uint64, shape (symmetries, bytes, 256, words of patches)
        For each symmetry of the layer and each byte of a set of patches, the image of these patches.
    pixel_images : uint64, shape (symmetries, bytes, 256, words of pixels)
        The same for pixels.
    patch_words, pixel_words
        Their lengths are the numbers of words of sets of patches and of pixels. On small layers they are
        tuples, whose length is known when a loop over it is compiled (`SMALL`).
    """

    patch_pixels: Words
    pixel_patches: Words
    patch_images: Words
    pixel_images: Words
    patch_words: tuple[int, ...] | Words
    pixel_words: tuple[int, ...] | Words

    @classmethod
    def of(cls, problem: Problem, parts: list[Cell], images: list[NDArray[np.int64]]) -> Bits:
        """Give the needed pixels numbers in their order, and pack all sets.

        Parameters
        ----------
        parts, images
            `cells` and `symmetries` of the problem.
        """
        n_patches = problem.n_patches
        number = {pixel: i for i, pixel in enumerate(sorted(p for part in parts for p in part.pixels))}
        pairs = [(number[pixel], patch) for part in parts for pixel in part.pixels for patch in part.patches]
        pixel, patch = np.array(pairs).T
        needs = np.zeros((n_patches, len(number)), bool)
        needs[patch, pixel] = True
        # Pixels that the same patches need go, in their order, to those that the patches' images need.
        by_patches = {part.patches: part.pixels for part in parts}
        moved = []
        for image in images:
            target = np.empty(len(number), np.int64)
            for part in parts:
                goal = by_patches[tuple(sorted(int(image[p]) for p in part.patches))]
                target[[number[p] for p in part.pixels]] = [number[p] for p in goal]
            moved.append(target)
        small = n_patches <= 64 * SMALL[0] and len(number) <= 64 * SMALL[1]
        words = SMALL if small else (-(-n_patches // 64), -(-len(number) // 64))
        sets = pack(needs, words[1]), pack(needs.T, words[0])
        tables = image_table(images, words[0]), image_table(moved, words[1])
        lengths = ((0,) * n if small else np.zeros(n, np.uint64) for n in words)
        return cls(*sets, *tables, *lengths)
