"""What must hold of the steps to come if no more pixels than allowed are to be thrown away, compiled.

Each function tells something of a partial plan before its next groups are searched; docs/bounds.md proves it.

Numba keeps what it compiled of `extend` until extending.py changes: who changes a function here touches that
file, too.
"""

# Numba infers the types of compiled functions; docstrings state them where it matters.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from tilewright.grouping.exact.bitsets import Bits, Words, unpack

Ints = NDArray[np.int64]

INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
"""For functions that only compiled ones call: without the ways in from Python they compile faster. They
allocate nothing, and without `_nrt` their arrays are not counted as used at every call, which would take
most of the time."""

ONE, ZERO = np.uint64(1), np.uint64(0)

NONE, DELAYED, MERGED = range(3)
"""What is known of missing patches: nothing; patches that can as well wait for the next group do so while it
has room; moreover, two groups that fit into one are left to plans with fewer steps (theorem 9)."""


@intrinsic
def ones(_context: Any, _word: Any) -> Any:
    """Count the bits of a word, by one instruction of the processor."""
    return types.int64(types.uint64), lambda _c, builder, _s, words: builder.ctpop(words[0])


@njit(**INNER)
def lowest(word):
    """Return the place of the lowest bit of a word that has some."""
    return ones(~word & (word - ONE))


@njit(**INNER)
def bit(member):
    """Return the bit of a patch or pixel, in its word."""
    return ONE << np.uint64(member & 63)


@njit(**INNER)
def still_needed(bits, done, group, still):
    """Write those pixels of a group to `still` that patches to come need."""
    for w in range(len(bits.pixel_words)):
        bag = group[w]
        still[w] = ZERO
        while bag:
            pixel = 64 * w + lowest(bag)
            bag &= bag - ONE
            wanted = False
            for v in range(len(bits.patch_words)):
                if bits.pixel_patches[pixel, v] & ~done[v]:
                    wanted = True
            if wanted:
                still[w] |= bit(pixel)


@njit(**INNER)
def far_apart(bits, pixels, done, slots, limit, apart):
    """Count pixels no two of which a patch to come can cover, until there are more than `limit`.

    Pixels that as many more patches as there are slots might finish do not count.
    """
    n = 0
    for w in range(len(bits.pixel_words)):
        bag = pixels[w]
        while bag:
            pixel = 64 * w + lowest(bag)
            bag &= bag - ONE
            coming = 0
            for v in range(len(bits.patch_words)):
                coming += ones(bits.pixel_patches[pixel, v] & ~done[v])
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


class Scratch(NamedTuple):
    """Room that `is_late` works in.

    Attributes
    ----------
    members : int64, shape (patches, pixels of the largest patch + 1)
        The pixels of each patch, and -1 behind the last.
    due, coming, queue : int64, shape (pixels,)
        In which step a pixel is done with, the patches to come that need it, and the pixels known to be due.
    asked, reserved, only : uint64, shape (words of patches,)
        Patches that are asked for by some step, with those that others are counted from; and those that the
        group may still get.
    """

    members: Ints
    due: Ints
    coming: Ints
    queue: Ints
    asked: Words
    reserved: Words
    only: Words

    @classmethod
    def of(cls, bits: Bits) -> Scratch:
        """Make room for a layer."""
        n_pixels, n_done = bits.pixel_patches.shape
        patches = unpack(bits.patch_pixels, n_pixels)
        members = np.full((len(patches), patches.sum(axis=1).max() + 1), -1, np.int64)
        for patch, pixels in enumerate(patches):
            members[patch, : pixels.sum()] = np.flatnonzero(pixels)
        return cls(members, *np.zeros((3, n_pixels), np.int64), *np.zeros((3, n_done), np.uint64))


@njit(**INNER)
def is_late(bits, done, covered, waiting, slots, size, ahead, scratch):
    """Whether more patches are due in some steps than these can take if nothing may be thrown away any more.

    A pixel then takes a patch in every step until it is done with. Leaves in ``scratch.only`` all patches
    that the group may still get without being late.

    Parameters
    ----------
    done, covered
        The patches done and those that the group has so far; the pixels that the latter cover.
    waiting
        Other pixels on chip that are still needed.
    slots, size
        How many patches this group still gets, and those to come at most.
    ahead
        In so many steps to come nothing may be thrown away.
    """
    pixel_patches = bits.pixel_patches
    due, coming, queue = scratch.due, scratch.coming, scratch.queue
    asked, reserved = scratch.asked, scratch.reserved
    left = len(scratch.members)
    for v in range(len(bits.patch_words)):
        left -= ones(done[v])
        asked[v] = ZERO
        scratch.only[v] = ~ZERO
    # With so many steps no patch is late.
    last = min((left - slots - 1) // size, ahead)
    n = 0
    for pixel in range(len(due)):
        here, w = bit(pixel), pixel >> 6
        due[pixel] = last + 1
        coming[pixel] = 0
        if (waiting[w] | covered[w]) & here:
            count = 0
            for v in range(len(bits.patch_words)):
                count += ones(pixel_patches[pixel, v] & ~done[v])
            if count:
                coming[pixel] = count
                due[pixel] = count - 1 if waiting[w] & here else count
                queue[n] = pixel
                n += 1
    for step in range(last + 1):
        i = kept = 0
        while i < n:
            pixel = queue[i]
            i += 1
            if due[pixel] > step:
                queue[kept] = pixel
                kept += 1
                continue
            # All its patches are due.
            due[pixel] = -1
            for v in range(len(bits.patch_words)):
                bag = pixel_patches[pixel, v] & ~done[v] & ~asked[v]
                asked[v] |= bag
                while bag:
                    patch = 64 * v + lowest(bag)
                    bag &= bag - ONE
                    # It brings its pixels in, and these are done with some steps later.
                    for j in range(scratch.members.shape[1]):
                        other = scratch.members[patch, j]
                        if other < 0:
                            break
                        if due[other] <= step + 1:
                            continue
                        count = 0
                        for u in range(len(bits.patch_words)):
                            count += ones(pixel_patches[other, u] & ~done[u])
                        # The only patch to come of a pixel need not be asked for again.
                        if count > 1 and step + count - 1 < due[other]:
                            if coming[other] == 0:
                                coming[other] = count
                                queue[n] = other
                                n += 1
                            due[other] = step + count - 1
        n = kept
        total = 0
        for v in range(len(bits.patch_words)):
            reserved[v] = asked[v]
            total += ones(asked[v])
        # Pixels that are done with later take patches until then, too.
        for i in range(n):
            pixel = queue[i]
            need = coming[pixel] - (due[pixel] - step)
            if need <= 0:
                continue
            for v in range(len(bits.patch_words)):
                need -= ones(pixel_patches[pixel, v] & reserved[v])
            if need > 0:
                total += need
                for v in range(len(bits.patch_words)):
                    reserved[v] |= pixel_patches[pixel, v] & ~done[v]
        unused = slots + step * size - total
        if unused < 0:
            return True
        if unused == 0:
            for v in range(len(bits.patch_words)):
                scratch.only[v] &= reserved[v]
    return False


@njit(**INNER)
def pixels_gapped(bits, near, done, pixel, gaps, sides):
    """Count the pixels with gaps if one has a long gap from now on, together with those in `gaps`.

    Parameters
    ----------
    done
        Patches done; the pixel's others are all done after the gap.
    sides
        Room for the pixels of its patches that are done and of those to come.
    """
    for w in range(len(bits.pixel_words)):
        sides[0, w] = sides[1, w] = ZERO
    for v in range(len(bits.patch_words)):
        bag = bits.pixel_patches[pixel, v]
        while bag:
            patch = 64 * v + lowest(bag)
            bag &= bag - ONE
            for w in range(len(bits.pixel_words)):
                if done[v] & bit(patch):
                    sides[0, w] |= bits.patch_pixels[patch, w]
                else:
                    sides[1, w] |= bits.patch_pixels[patch, w]
    n = 0
    for w in range(len(bits.pixel_words)):
        n += ones(sides[0, w] & sides[1, w] & near[pixel, w] | gaps[w])
    return n


@njit(**INNER)
def lasting_gaps(bits, near, excess, done, pixels, gaps, sides, lasting):
    """Write those pixels to `lasting` that may have a long gap from now on, beside those in `gaps`."""
    for w in range(len(bits.pixel_words)):
        lasting[w] = ZERO
        bag = pixels[w]
        while bag:
            pixel = 64 * w + lowest(bag)
            bag &= bag - ONE
            if pixels_gapped(bits, near, done, pixel, gaps, sides) <= excess:
                lasting[w] |= bit(pixel)


@njit(**INNER)
def least_next(bits, done, before, seen, size, most, delays):
    """Return how many patches the group after this one has at least, without loss.

    Parameters
    ----------
    done, before
        Patches done after this group, and before it.
    seen
        Pixels of the patches done before.
    size, most
        How many patches this group has, and any at most.
    """
    if delays == NONE:
        return 1
    for v in range(len(bits.patch_words) if size > 1 else 0):
        bag = done[v] & ~before[v]
        while bag:
            patch = 64 * v + lowest(bag)
            bag &= bag - ONE
            waits = True
            for w in range(len(bits.pixel_words)):
                # It can wait if all pixels that it alone needs are new.
                old = bits.patch_pixels[patch, w] & seen[w]
                for u in range(len(bits.patch_words) if old else 0):
                    others = done[u] & ~before[u] & ~(bit(patch) if u == v else ZERO)
                    while others and old:
                        old &= ~bits.patch_pixels[64 * u + lowest(others), w]
                        others &= others - ONE
                if old:
                    waits = False
                    break
            if waits:
                return most
    return most + 1 - size if delays == MERGED else 1
