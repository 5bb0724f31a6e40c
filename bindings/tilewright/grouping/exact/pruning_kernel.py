"""Compiled tests that prune partial plans: necessary conditions on the steps to come.

docs/bounds.md proves them.
"""

# Numba infers the types of compiled functions; docstrings state them where it matters.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.bitsets import Words, unpack
from tilewright.core.jit import lean, popcount
from tilewright.grouping.exact.bitsets import Bits

Ints = NDArray[np.int64]

ONE, ZERO = np.uint64(1), np.uint64(0)


class Delay(IntEnum):
    """What is known of patches missing to full groups (theorem 9)."""

    NONE = 0
    """Nothing."""
    DELAYED = 1
    """A patch that can as well wait for the next group does so while that one is not full."""
    MERGED = 2
    """Moreover, no two neighbouring groups fit into one: plans with fewer steps are searched elsewhere."""


@lean
def lowest_bit(word):
    """Return the index of the lowest set bit of a word other than 0."""
    return popcount(~word & (word - ONE))


@lean
def bit(member):
    """Return the bit of a patch or pixel, in its word."""
    return ONE << np.uint64(member & 63)


@lean
def still_needed(bits, done, group, still):
    """Write those pixels of `group` that remaining patches need to `still`."""
    for w in range(len(bits.pixel_words)):
        bag = group[w]
        still[w] = ZERO
        while bag:
            pixel = 64 * w + lowest_bit(bag)
            bag &= bag - ONE
            wanted = False
            for v in range(len(bits.patch_words)):
                if bits.pixel_patches[pixel, v] & ~done[v]:
                    wanted = True
            if wanted:
                still[w] |= bit(pixel)


@lean
def far_apart(bits, pixels, done, slots, limit, apart):
    """Count pixels of which no remaining patch covers two, until there are more than `limit`.

    Pixels that at most `slots` remaining patches need do not count. The pixels are left in `apart`.
    """
    n = 0
    for w in range(len(bits.pixel_words)):
        bag = pixels[w]
        while bag:
            pixel = 64 * w + lowest_bit(bag)
            bag &= bag - ONE
            coming = 0
            for v in range(len(bits.patch_words)):
                coming += popcount(bits.pixel_patches[pixel, v] & ~done[v])
            if coming <= slots:
                continue
            alone = True
            for i in range(n):
                for v in range(len(bits.patch_words)):
                    if bits.pixel_patches[pixel, v] & bits.pixel_patches[apart[i], v] & ~done[v]:
                        alone = False
                        break
                if not alone:
                    break
            if alone:
                apart[n] = pixel
                n += 1
                if n > limit:
                    return n
    return n


class DeadlineScratch(NamedTuple):
    """Scratch memory of `overcommitted`.

    Attributes
    ----------
    members : int64, shape (patches, pixels of the largest patch + 1)
        The pixels of each patch, and -1 behind the last.
    due, coming, queue : int64, shape (pixels,)
        The step in which a pixel is needed last; the number of remaining patches that need it; the pixels
        that have such a step.
    asked, reserved, only : uint64, shape (words of patches,)
        Patches that are due by the present step; these and the patches of pixels that are due later; patches
        that the group may still get.
    """

    members: Ints
    due: Ints
    coming: Ints
    queue: Ints
    asked: Words
    reserved: Words
    only: Words

    @classmethod
    def of(cls, bits: Bits) -> DeadlineScratch:
        """Allocate it for a layer."""
        n_pixels, n_done = bits.pixel_patches.shape
        patches = unpack(bits.patch_pixels, n_pixels)
        members = np.full((len(patches), patches.sum(axis=1).max() + 1), -1, np.int64)
        for patch, pixels in enumerate(patches):
            members[patch, : pixels.sum()] = np.flatnonzero(pixels)
        return cls(members, *np.zeros((3, n_pixels), np.int64), *np.zeros((3, n_done), np.uint64))


@lean
def _set_deadlines(bits, done, covered, waiting, last, scratch):
    """Set the steps in which pixels on chip are needed last; return how many are queued.

    Pixels off chip, and those that no remaining patch needs, get the step after `last`.
    """
    n = 0
    for pixel in range(len(scratch.due)):
        here, w = bit(pixel), pixel >> 6
        scratch.due[pixel] = last + 1
        scratch.coming[pixel] = 0
        if (waiting[w] | covered[w]) & here:
            count = 0
            for v in range(len(bits.patch_words)):
                count += popcount(bits.pixel_patches[pixel, v] & ~done[v])
            if count:
                scratch.coming[pixel] = count
                scratch.due[pixel] = count - 1 if waiting[w] & here else count
                scratch.queue[n] = pixel
                n += 1
    return n


@lean
def _ask_for_due(bits, done, step, n, scratch):
    """Mark the patches of all queued pixels that are due by a step; return how many pixels stay queued."""
    due, coming, queue, asked = scratch.due, scratch.coming, scratch.queue, scratch.asked
    i = kept = 0
    while i < n:
        pixel = queue[i]
        i += 1
        if due[pixel] > step:
            queue[kept] = pixel
            kept += 1
            continue
        # All its patches are due now.
        due[pixel] = -1
        for v in range(len(bits.patch_words)):
            bag = bits.pixel_patches[pixel, v] & ~done[v] & ~asked[v]
            asked[v] |= bag
            while bag:
                patch = 64 * v + lowest_bit(bag)
                bag &= bag - ONE
                # Its pixels come on chip with it, and have deadlines of their own from now on.
                for j in range(scratch.members.shape[1]):
                    other = scratch.members[patch, j]
                    if other < 0:
                        break
                    if due[other] <= step + 1:
                        continue
                    count = 0
                    for u in range(len(bits.patch_words)):
                        count += popcount(bits.pixel_patches[other, u] & ~done[u])
                    # Where it is the only remaining patch of a pixel, nothing else becomes due.
                    if count > 1 and step + count - 1 < due[other]:
                        if coming[other] == 0:
                            coming[other] = count
                            queue[n] = other
                            n += 1
                        due[other] = step + count - 1
    return kept


@lean
def _reserve(bits, done, step, n, scratch):
    """Return how many patches are done by a step at least; leaves those counted in ``reserved``."""
    reserved = scratch.reserved
    total = 0
    for v in range(len(bits.patch_words)):
        reserved[v] = scratch.asked[v]
        total += popcount(scratch.asked[v])
    # Pixels that are due later have a patch in every step until then, too.
    for i in range(n):
        pixel = scratch.queue[i]
        need = scratch.coming[pixel] - (scratch.due[pixel] - step)
        if need <= 0:
            continue
        for v in range(len(bits.patch_words)):
            need -= popcount(bits.pixel_patches[pixel, v] & reserved[v])
        if need > 0:
            total += need
            for v in range(len(bits.patch_words)):
                reserved[v] |= bits.pixel_patches[pixel, v] & ~done[v]
    return total


@lean
def overcommitted(bits, done, covered, waiting, slots, size, ahead, scratch):
    """Whether more patches are due by some step than the steps can take, if nothing is thrown away (lemma 3).

    Every step then has a patch of each pixel on chip until the last patch of that pixel is done. The patches
    that the group may get without overcommitting a step are left in ``scratch.only``.

    Parameters
    ----------
    done, covered
        The patches done, including those of the group so far; the pixels that the latter cover.
    waiting
        Other pixels on chip that are still needed.
    slots, size
        Number of patches that this group still gets; most patches of a later one.
    ahead
        Number of steps after this one in which nothing may be thrown away.
    """
    left = len(scratch.members)
    for v in range(len(bits.patch_words)):
        left -= popcount(done[v])
        scratch.asked[v] = ZERO
        scratch.only[v] = ~ZERO
    # Steps beyond this one can take all remaining patches.
    last = min((left - slots - 1) // size, ahead)
    n = _set_deadlines(bits, done, covered, waiting, last, scratch)
    for step in range(last + 1):
        n = _ask_for_due(bits, done, step, n, scratch)
        unused = slots + step * size - _reserve(bits, done, step, n, scratch)
        if unused < 0:
            return True
        if unused == 0:
            for v in range(len(bits.patch_words)):
                scratch.only[v] &= scratch.reserved[v]
    return False


@lean
def pixels_gapped(bits, near, done, pixel, gaps, sides):
    """Count the pixels that have gaps if `pixel` has a long one from now on, including those in `gaps`.

    Parameters
    ----------
    done
        Patches done; the other patches of the pixel are all done after the gap.
    sides
        Scratch: the pixels of its patches that are done, and of those that remain.
    """
    for w in range(len(bits.pixel_words)):
        sides[0, w] = sides[1, w] = ZERO
    for v in range(len(bits.patch_words)):
        bag = bits.pixel_patches[pixel, v]
        while bag:
            patch = 64 * v + lowest_bit(bag)
            bag &= bag - ONE
            for w in range(len(bits.pixel_words)):
                if done[v] & bit(patch):
                    sides[0, w] |= bits.patch_pixels[patch, w]
                else:
                    sides[1, w] |= bits.patch_pixels[patch, w]
    n = 0
    for w in range(len(bits.pixel_words)):
        n += popcount(sides[0, w] & sides[1, w] & near[pixel, w] | gaps[w])
    return n


@lean
def lasting_gaps(bits, near, excess, done, pixels, gaps, sides, lasting):
    """Write the pixels that may have a long gap from now on to `lasting`, if those in `gaps` have gaps."""
    for w in range(len(bits.pixel_words)):
        lasting[w] = ZERO
        bag = pixels[w]
        while bag:
            pixel = 64 * w + lowest_bit(bag)
            bag &= bag - ONE
            if pixels_gapped(bits, near, done, pixel, gaps, sides) <= excess:
                lasting[w] |= bit(pixel)


@lean
def least_next(bits, done, before, seen, size, most, delays):
    """Return the fewest patches of the next group that need be tried (theorem 9).

    Parameters
    ----------
    done, before
        Patches done after this group, and before it.
    seen
        Pixels of the patches done before.
    size, most
        Number of patches of this group; most patches of any group.
    """
    if delays == Delay.NONE:
        return 1
    for v in range(len(bits.patch_words) if size > 1 else 0):
        bag = done[v] & ~before[v]
        while bag:
            patch = 64 * v + lowest_bit(bag)
            bag &= bag - ONE
            waits = True
            for w in range(len(bits.pixel_words)):
                # A patch can wait if all pixels that no other patch of the group needs are new.
                old = bits.patch_pixels[patch, w] & seen[w]
                for u in range(len(bits.patch_words) if old else 0):
                    others = done[u] & ~before[u] & ~(bit(patch) if u == v else ZERO)
                    while others and old:
                        old &= ~bits.patch_pixels[64 * u + lowest_bit(others), w]
                        others &= others - ONE
                if old:
                    waits = False
                    break
            if waits:
                return most
    return most + 1 - size if delays == Delay.MERGED else 1
