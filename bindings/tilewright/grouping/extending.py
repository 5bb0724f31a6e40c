"""The compiled kernel of the exact search: all groups that may follow a partial plan, within a budget.

A row is a partial plan: the patches done, the pixels on chip that patches to come still need, and, where the
limit on loads is watched, those of them that may not be loaded again. `tilewright.grouping.partial_plans`
tells what is searched for, docs/bounds.md why nothing is lost.
"""

# Numba infers the types of compiled functions; docstrings state them where it matters.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from tilewright.grouping.bitsets import NEVER, Bits, Words

inner = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, inline="always")
"""For functions that only compiled ones call: without the ways in from Python they compile faster, and where
they are inlined early their arrays are not counted as used at every call, which takes a tenth of the time."""

Ints = NDArray[np.int64]

(SIZE, STEP, LOAD, SPENT, FREE, WATCHED, SPARE, NEXT, AHEAD, EXCESS, BELOW, DELAYS) = range(12)
"""Places in `Rules.numbers`: patches of the group; cost of a step and half of the cost of a load, in halves;
what this step and those to come cost at least; whether the first group is free; whether loads are watched;
how many pixels on chip may be thrown away at most; most patches of the group after this one; for how many
steps after this one the limits hold; in first steps, how many pixels a whole plan may throw away, else -1,
and by how many twice those thrown away so far must be less than that; what is known of missing patches."""

NONE, DELAYED, MERGED = range(3)
"""Nothing; patches that can as well wait for the next group do so while it has room; moreover, two groups
that fit into one are left to plans with fewer steps (theorem 9)."""

RIVALS = 64
"""How many rows with the same patches a row is compared with."""

_ONE, _ZERO = np.uint64(1), np.uint64(0)


class Rules(NamedTuple):
    """Which groups may follow.

    Attributes
    ----------
    numbers : int64, shape (12,)
        See the constants above.
    most : int64, shape (pixels of a group + 1,)
        Longest walk to a group with so many pixels; negative where the memory has no room for it.
    total
        Largest total cost that the pixels thrown away may lead to; negative for any.
    member
        A patch that is in all groups, or -1.
    left_out : uint64, shape (words of patches,)
        Patches that are in none.
    near : uint64, shape (pixels, words of pixels)
        For each pixel those that cannot stay on chip as long as it has a long gap, if the patches that they
        share are parted by it; empty where no gap is long.
    stop : bool, shape (1,)
        Set from outside when time is up.
    """

    numbers: Ints
    most: Ints
    total: int
    member: int
    left_out: Words
    near: Words
    stop: NDArray[np.bool_]


class Table(NamedTuple):
    """Partial plans of one stage, by hashing; a row of cost ``-NEVER`` is empty.

    Attributes
    ----------
    rows : uint64, shape (size, words)
    cost : int32, shape (size,)
        Least cost at which the row was reached, in halves.
    parent : int32, shape (size,)
        Row of the earlier stage that it was reached from, and which stage that was.
    stage : int32, shape (size,)
    least : int16, shape (size,)
        So many patches the next group has at least, without loss.
    used : int64, shape (1,)
        Number of rows in use.
    found : int32, shape (patches of a group + 1, pixels of a group + 1)
        Shortest walk to a group of so many patches with so many pixels, kept or not.
    """

    rows: Words
    cost: NDArray[np.int32]
    parent: NDArray[np.int32]
    stage: NDArray[np.int32]
    least: NDArray[np.int16]
    used: Ints
    found: NDArray[np.int32]


@intrinsic
def _count(_context: Any, _word: Any) -> Any:
    """Count the bits of a word, by one instruction of the processor."""
    return types.int64(types.uint64), lambda _c, builder, _s, words: builder.ctpop(words[0])


@inner
def _hash(row):
    value = np.uint64(0x9E3779B97F4A7C15)
    for w in range(len(row)):
        value = (value ^ row[w]) * np.uint64(0xBF58476D1CE4E5B9)
        value ^= value >> np.uint64(29)
    return value ^ (value >> np.uint64(32))


@inner
def _place(rows, cost, row):
    """Return the place of a row in a table, or the empty one where it belongs."""
    mask = np.uint64(len(cost) - 1)
    at = _hash(row) & mask
    while cost[at] > -NEVER:
        same = True
        for word in range(len(row)):
            if rows[at, word] != row[word]:
                same = False
                break
        if same:
            break
        at = (at + _ONE) & mask
    return at


@njit(cache=True)
def grow(table: Table, larger: Table) -> None:
    """Move all rows into a larger table."""
    for i in range(len(table.cost)):
        if table.cost[i] > -NEVER:
            at = _place(larger.rows, larger.cost, table.rows[i])
            larger.rows[at] = table.rows[i]
            larger.cost[at] = table.cost[i]
            larger.parent[at] = table.parent[i]
            larger.stage[at] = table.stage[i]
            larger.least[at] = table.least[i]
    larger.used[0] = table.used[0]
    larger.found[:] = table.found


@inner
def _move(images, s, words, out, first):
    """Write the image of a set under a symmetry to ``out[first:]``."""
    n = images.shape[3]
    for w in range(n):
        out[first + w] = _ZERO
    for b in range(images.shape[1]):
        byte = (words[b >> 3] >> np.uint64(8 * (b & 7))) & np.uint64(255)
        if byte:
            for w in range(n):
                out[first + w] |= images[s, b, byte, w]


@inner
def _canonical(bits, done, held, kept, watched, image, row):
    """Write the least image of a partial plan under all symmetries to `row`."""
    n_done, n_held = len(done), len(held)
    end = n_done + n_held * (2 if watched else 1)
    for s in range(len(bits.patch_images)):
        _move(bits.patch_images, s, done, image, 0)
        order = -1 if s == 0 else 0
        if s:
            for w in range(n_done):
                if image[w] != row[w]:
                    order = -1 if image[w] < row[w] else 1
                    break
        if order > 0:
            continue
        _move(bits.pixel_images, s, held, image, n_done)
        if watched:
            _move(bits.pixel_images, s, kept, image, n_done + n_held)
        if order == 0:
            for w in range(n_done, end):
                if image[w] != row[w]:
                    order = -1 if image[w] < row[w] else 1
                    break
        if order < 0:
            for w in range(end):
                row[w] = image[w]


@inner
def _shed(bits, done, group, still):
    """Write those pixels of a group to `still` that patches to come need."""
    for w in range(len(bits.pixel_words)):
        still[w] = group[w]
        bag = group[w]
        while bag:
            low = bag & (~bag + _ONE)
            bag ^= low
            pixel = 64 * w + _count(low - _ONE)
            wanted = False
            for v in range(len(bits.patch_words)):
                if bits.pixel_patches[pixel, v] & ~done[v]:
                    wanted = True
            if not wanted:
                still[w] ^= low


@inner
def _apart(bits, pixels, done, slots, limit, apart):
    """Count pixels no two of which a patch to come can cover, until there are more than `limit`.

    Pixels that as many more patches as there are slots might finish do not count.
    """
    n = 0
    for w in range(len(bits.pixel_words)):
        bag = pixels[w]
        while bag:
            low = bag & (~bag + _ONE)
            bag ^= low
            pixel = 64 * w + _count(low - _ONE)
            coming = 0
            for v in range(len(bits.patch_words)):
                coming += _count(bits.pixel_patches[pixel, v] & ~done[v])
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


class _Scratch(NamedTuple):
    """Room that `_late` works in, and the pixels of each patch, -1 behind the last.

    Attributes
    ----------
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


@inner
def _scratch(bits, largest):
    """Make room for a layer whose largest patch has so many pixels."""
    n_patches, (n_pixels, n_done) = len(bits.patch_pixels), bits.pixel_patches.shape
    members = np.full((n_patches, largest + 1), -1, np.int64)
    for p in range(n_patches):
        n = 0
        for pixel in range(n_pixels):
            if bits.patch_pixels[p, pixel >> 6] >> np.uint64(pixel & 63) & _ONE:
                members[p, n] = pixel
                n += 1
    pixels = np.zeros((3, n_pixels), np.int64)
    words = np.zeros((3, n_done), np.uint64)
    return _Scratch(members, pixels[0], pixels[1], pixels[2], words[0], words[1], words[2])


@inner
def _late(bits, done, covered, waiting, slots, size, ahead, scratch):
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
        left -= _count(done[v])
        asked[v] = _ZERO
        scratch.only[v] = ~_ZERO
    # With so many steps no patch is late.
    last = min((left - slots - 1) // size, ahead)
    n = 0
    for pixel in range(len(due)):
        here, w = np.uint64(1) << np.uint64(pixel & 63), pixel >> 6
        due[pixel] = last + 1
        coming[pixel] = 0
        if (waiting[w] | covered[w]) & here:
            count = 0
            for v in range(len(bits.patch_words)):
                count += _count(pixel_patches[pixel, v] & ~done[v])
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
                    low = bag & (~bag + _ONE)
                    bag ^= low
                    # It brings its pixels in, and these are done with some steps later.
                    patch = 64 * v + _count(low - _ONE)
                    for j in range(scratch.members.shape[1]):
                        other = scratch.members[patch, j]
                        if other < 0:
                            break
                        if due[other] <= step + 1:
                            continue
                        count = 0
                        for u in range(len(bits.patch_words)):
                            count += _count(pixel_patches[other, u] & ~done[u])
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
            total += _count(asked[v])
        # Pixels that are done with later take patches until then, too.
        for i in range(n):
            pixel = queue[i]
            need = coming[pixel] - (due[pixel] - step)
            if need <= 0:
                continue
            for v in range(len(bits.patch_words)):
                need -= _count(pixel_patches[pixel, v] & reserved[v])
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


@inner
def _gapped(bits, near, done, pixel, gaps, sides):
    """Count the pixels with gaps if one has a long gap from now on, together with those in `gaps`.

    Parameters
    ----------
    done
        Patches done; the pixel's others are all done after the gap.
    sides
        Room for the pixels of its patches that are done and of those to come.
    """
    for w in range(len(bits.pixel_words)):
        sides[0, w] = sides[1, w] = _ZERO
    for v in range(len(bits.patch_words)):
        bag = bits.pixel_patches[pixel, v]
        while bag:
            low = bag & (~bag + _ONE)
            bag ^= low
            patch = 64 * v + _count(low - _ONE)
            for w in range(len(bits.pixel_words)):
                if done[v] & low:
                    sides[0, w] |= bits.patch_pixels[patch, w]
                else:
                    sides[1, w] |= bits.patch_pixels[patch, w]
    n = 0
    for w in range(len(bits.pixel_words)):
        n += _count(sides[0, w] & sides[1, w] & near[pixel, w] | gaps[w])
    return n


@inner
def _lasting(bits, rules, done, pixels, gaps, sides, lasting):
    """Write those pixels to `lasting` that may have a long gap from now on, beside those in `gaps`."""
    for w in range(len(bits.pixel_words)):
        lasting[w] = _ZERO
        bag = pixels[w]
        while bag:
            low = bag & (~bag + _ONE)
            bag ^= low
            pixel = 64 * w + _count(low - _ONE)
            if _gapped(bits, rules.near, done, pixel, gaps, sides) <= rules.numbers[EXCESS]:
                lasting[w] |= low


@inner
def _least(bits, done, left, seen, size, most, delays):
    """Return how many patches the group after this one has at least, without loss.

    Parameters
    ----------
    done, left
        Patches done after this group, and those that were left before it: both sets have its own.
    seen
        Pixels of the patches done before.
    size, most
        How many patches this group has, and any at most.
    """
    if delays == NONE:
        return 1
    for v in range(len(bits.patch_words) if size > 1 else 0):
        bag = done[v] & left[v]
        while bag:
            low = bag & (~bag + _ONE)
            bag ^= low
            patch = 64 * v + _count(low - _ONE)
            waits = True
            for w in range(len(bits.pixel_words)):
                # It can wait if all pixels that it alone needs are new.
                old = bits.patch_pixels[patch, w] & seen[w]
                for u in range(len(bits.patch_words) if old else 0):
                    others = done[u] & left[u] & ~(low if u == v else _ZERO)
                    while others and old:
                        other = others & (~others + _ONE)
                        others ^= other
                        old &= ~bits.patch_pixels[64 * u + _count(other - _ONE), w]
                if old:
                    waits = False
                    break
            if waits:
                return most
    return most + 1 - size if delays == MERGED else 1


@inner
def _keep(table, row, cost, parent, stage, least):
    """Add a partial plan if it is new or cheaper; return whether there was room."""
    place = _place(table.rows, table.cost, row)
    if table.cost[place] == -NEVER:
        if 8 * table.used[0] > 7 * len(table.cost):
            return False
        table.used[0] += 1
        for w in range(len(row)):
            table.rows[place, w] = row[w]
    elif table.cost[place] <= cost:
        if table.cost[place] == cost:
            # What holds of one way to come here holds of both.
            table.least[place] = max(table.least[place], least)
        return True
    table.least[place] = least
    table.cost[place] = cost
    table.parent[place] = parent
    table.stage[place] = stage
    return True


@njit(cache=True, nogil=True)
def extend(
    bits: Bits,
    rules: Rules,
    rows: Words,
    costs: NDArray[np.int32],
    least: NDArray[np.int16],
    first: int,
    last: int,
    stage: int,
    table: Table,
) -> int:
    """Add all that may follow ``rows[first:last]`` to a table; return the row at which it ended early.

    Groups are found by branching: a pixel on chip that is still needed is covered by one of its patches, in
    turn, or thrown away; when all are decided, the patches that are left are free. Each decision that
    costs more than the rules allow ends its branch.
    """
    size, step, load = rules.numbers[SIZE], rules.numbers[STEP], rules.numbers[LOAD]
    free, watched = rules.numbers[FREE] > 0, rules.numbers[WATCHED] > 0
    patch_pixels, pixel_patches = bits.patch_pixels, bits.pixel_patches
    n_patches, n_held = len(patch_pixels), len(bits.pixel_words)
    n_pixels, n_done = len(pixel_patches), len(bits.patch_words)
    # Pixels of the largest patch: what a patch can cover at most.
    largest = 0
    for p in range(n_patches):
        total = 0
        for w in range(n_held):
            total += _count(patch_pixels[p, w])
        largest = max(largest, total)
    highest = rules.most.max()
    # What the group after this one can cover matters where complete plans are looked for.
    following, looks = rules.numbers[NEXT], rules.total >= 0 and rules.numbers[NEXT] > 0
    delays, most_patches = rules.numbers[DELAYS], len(table.found) - 1
    steps_ahead, excess, below = rules.numbers[AHEAD], rules.numbers[EXCESS], rules.numbers[BELOW]
    # Whether gaps may begin here that are in both ends of the plan.
    lasts = excess >= 0 and len(rules.near) > 0
    apart = np.zeros(n_pixels, np.int64)
    scratch = _scratch(bits, largest)
    nothing = np.zeros(n_held, np.uint64)
    existing = np.zeros(n_done, np.uint64)
    for p in range(n_patches):
        existing[p >> 6] |= _ONE << np.uint64(p & 63)

    depth = size + 1
    union = np.zeros((depth, n_held), np.uint64)
    given = np.zeros((depth, n_held), np.uint64)
    barred = np.zeros((depth, n_done), np.uint64)
    chosen = np.zeros((depth, n_done), np.uint64)
    taken = np.zeros(depth, np.int64)
    thrown = np.zeros(depth, np.int64)
    lasting = np.zeros(depth, np.int64)
    options = np.zeros((depth, n_patches), np.int32)
    n_options = np.zeros(depth, np.int64)
    at = np.zeros(depth, np.int64)
    pivot = np.zeros(depth, np.int64)

    held = np.zeros(n_held, np.uint64)
    kept = np.zeros(n_held, np.uint64)
    seen = np.zeros(n_held, np.uint64)
    gaps = np.zeros(n_held, np.uint64)
    long = np.zeros(n_held, np.uint64)
    off = np.zeros(n_held, np.uint64)
    still_long = np.zeros(n_held, np.uint64)
    sides = np.zeros((2, n_held), np.uint64)
    needed = np.zeros(n_held, np.uint64)
    done = np.zeros(n_done, np.uint64)
    left = np.zeros(n_done, np.uint64)
    candidates = np.zeros(n_done, np.uint64)
    covered = np.zeros(n_held, np.uint64)
    rest = np.zeros(n_held, np.uint64)
    still = np.zeros(n_held, np.uint64)
    group = np.zeros(n_held, np.uint64)
    fixed = np.zeros(n_held, np.uint64)
    image = np.zeros(table.rows.shape[1], np.uint64)
    row = np.zeros(table.rows.shape[1], np.uint64)

    for i in range(first, last):
        if 4 * table.used[0] > 3 * len(table.cost):
            return i
        if size < least[i]:
            continue
        # What the partial plan holds, and what the patches to come need beside that.
        for w in range(n_done):
            left[w] = ~rows[i, w]
        for w in range(n_held):
            held[w] = rows[i, n_done + w]
            kept[w] = rows[i, n_done + n_held + w] if watched else _ZERO
            seen[w] = _ZERO
            needed[w] = _ZERO
        for p in range(n_patches):
            ahead = (left[p >> 6] >> np.uint64(p & 63)) & _ONE
            for w in range(n_held):
                if ahead:
                    needed[w] |= patch_pixels[p, w]
                else:
                    seen[w] |= patch_pixels[p, w]
        n_chip, n_missing = 0, 0
        for w in range(n_held):
            n_chip += _count(held[w])
            n_missing += _count(needed[w] & ~held[w])
        budget = n_pixels * size if free else (highest - costs[i] - step) // load + n_chip
        if rules.total >= 0:
            # Each pixel thrown away is loaded once more; all others that are needed are loaded, too.
            sure = costs[i] + 2 * load * n_missing + rules.numbers[SPENT]
            spare = (rules.total - sure) // (2 * load)
        else:
            spare = n_chip
        # How much more may be thrown away in the first steps (theorem 8): a pixel counts 2, or 1 if its gap
        # may be long. Elsewhere more than all of them.
        margin, n_long = 4 * n_pixels, 0
        if lasts:
            for w in range(n_done):
                done[w] = ~left[w]
            for w in range(n_held):
                still[w] = seen[w] & needed[w]
                gaps[w] = still[w] & ~held[w]
            _lasting(bits, rules, done, still, gaps, sides, long)
            for w in range(n_held):
                n_long += _count(long[w] & gaps[w])
                long[w] &= held[w]
        if excess >= 0:
            margin = 2 * spare - excess - below + n_long
        spare = min(spare, rules.numbers[SPARE])
        if min(spare, margin, budget) < 0:
            continue

        level = 0
        for w in range(n_held):
            union[0, w] = _ZERO
            given[0, w] = _ZERO
        for w in range(n_done):
            barred[0, w] = ~left[w] | rules.left_out[w] | ~existing[w]
            chosen[0, w] = _ZERO
        taken[0] = thrown[0] = lasting[0] = 0
        if rules.member >= 0:
            here = np.uint64(1) << np.uint64(rules.member & 63)
            barred[0, rules.member >> 6] |= here
            chosen[0, rules.member >> 6] = here
            for w in range(n_held):
                union[0, w] = patch_pixels[rules.member, w]
            taken[0] = 1
        n_options[0] = -1
        while level >= 0:
            if n_options[level] < 0:
                if rules.stop[0]:
                    return i
                # A new node: what is covered, what it costs, and how to go on.
                total, fresh, open_pixels, open_long = 0, 0, 0, 0
                for w in range(n_held):
                    total += _count(union[level, w])
                    fresh += _count(union[level, w] & ~held[w])
                    covered[w] = union[level, w]
                    rest[w] = held[w] & ~covered[w] & ~given[level, w]
                    open_pixels += _count(rest[w])
                    open_long += _count(rest[w] & long[w])
                slots = size - taken[level]
                # So many more pixels may be thrown away.
                allowed = min(spare, budget - fresh) - thrown[level]
                more = margin - 2 * thrown[level] + lasting[level]
                allowed = min(allowed, more, (more + open_long) // 2)
                if open_pixels - slots * largest > allowed or allowed < 0:
                    level -= 1
                    continue
                later = spare - thrown[level]
                if steps_ahead:
                    later = min(later, more)
                if looks and later == 0:
                    for w in range(n_done):
                        done[w] = ~left[w] | chosen[level, w]
                    until = steps_ahead if spare > thrown[level] else n_patches
                    if _late(bits, done, covered, rest, slots, following, until, scratch):
                        level -= 1
                        continue
                    for w in range(n_done):
                        barred[level, w] |= ~scratch.only[w]
                if slots == 1:
                    # It covers one of any pixels that are too many to be thrown away.
                    for v in range(n_done):
                        candidates[v] = _ZERO if open_pixels > allowed else ~barred[level, v]
                    if open_pixels > allowed:
                        several = allowed + 1
                        for w in range(n_held):
                            bag = rest[w]
                            while bag and several:
                                low = bag & (~bag + _ONE)
                                bag ^= low
                                several -= 1
                                for v in range(n_done):
                                    candidates[v] |= (
                                        pixel_patches[64 * w + _count(low - _ONE), v] & ~barred[level, v]
                                    )
                    part = 0
                    while part < n_done:
                        bag = candidates[part]
                        if not bag:
                            part += 1
                            continue
                        here = bag & (~bag + _ONE)
                        candidates[part] ^= here
                        p = 64 * part + _count(here - _ONE)
                        pixels, more, lost = total, fresh, thrown[level]
                        over = margin + lasting[level]
                        fine = True
                        for w in range(n_held):
                            new = patch_pixels[p, w] & ~union[level, w]
                            pixels += _count(new)
                            more += _count(new & ~held[w])
                            lost += _count(rest[w] & ~patch_pixels[p, w])
                            over += _count(rest[w] & long[w] & ~patch_pixels[p, w])
                            if watched and rest[w] & kept[w] & ~patch_pixels[p, w]:
                                fine = False
                        if not fine or lost > spare or more + lost > budget or rules.most[pixels] < 0:
                            continue
                        over -= 2 * lost
                        if over < 0:
                            continue
                        walk = costs[i] + step + load * (more + lost - n_chip)
                        if free:
                            walk = np.int64(0)
                        table.found[size, pixels] = min(table.found[size, pixels], np.int32(walk))
                        if walk > rules.most[pixels]:
                            continue
                        for w in range(n_done):
                            done[w] = ~left[w] | chosen[level, w]
                        done[p >> 6] |= here
                        for w in range(n_held):
                            group[w] = union[level, w] | patch_pixels[p, w]
                        _shed(bits, done, group, still)
                        if lasts and n_long + lost:
                            for w in range(n_held):
                                off[w] = (gaps[w] | held[w]) & ~group[w]
                            _shed(bits, done, off, off)
                            _lasting(bits, rules, done, off, off, sides, still_long)
                            over = 2 * (spare - lost) - excess - below
                            for w in range(n_held):
                                over += _count(still_long[w])
                            if over < 0:
                                continue
                        if looks:
                            later = spare - lost
                            if steps_ahead:
                                later = min(later, over)
                            limit = following + later
                            n = _apart(bits, still, done, 0, limit, apart)
                            if n > limit:
                                continue
                            if steps_ahead and 2 * (n - following) > over:
                                # Too many to be thrown away unless some have long gaps.
                                room = over - 2 * (n - following)
                                for j in range(n if lasts else 0):
                                    if _gapped(bits, rules.near, done, apart[j], nothing, sides) <= excess:
                                        room += 1
                                if room < 0:
                                    continue
                            until = steps_ahead if spare > lost else n_patches
                            if later == 0 and _late(bits, done, still, nothing, 0, following, until, scratch):
                                continue
                        if watched:
                            for w in range(n_held):
                                fixed[w] = (kept[w] | (group[w] & seen[w] & ~held[w])) & still[w]
                        coming = np.int16(_least(bits, done, left, seen, size, most_patches, delays))
                        _canonical(bits, done, still, fixed, watched, image, row)
                        if not _keep(table, row, np.int32(walk + load * pixels), i, stage, coming):
                            return i
                    level -= 1
                    continue
                if looks and open_pixels == 0 and taken[level]:
                    for w in range(n_done):
                        done[w] = ~left[w] | chosen[level, w]
                    limit = following + later
                    if _apart(bits, covered, done, slots, limit, apart) > limit:
                        level -= 1
                        continue
                # If some of the open pixels must be covered, one patch covers its share of them.
                share = -((allowed - open_pixels) // slots)
                for v in range(n_done):
                    bag = ~barred[level, v]
                    while bag and share > 0:
                        low = bag & (~bag + _ONE)
                        bag ^= low
                        p = 64 * v + _count(low - _ONE)
                        n = 0
                        for w in range(n_held):
                            n += _count(rest[w] & patch_pixels[p, w])
                        if n >= share:
                            share = 0
                if share > 0:
                    level -= 1
                    continue
                # Branch on the open pixel that the fewest patches can cover.
                fewest, pivot[level] = n_patches + 1, -1
                for w in range(n_held):
                    bag = rest[w]
                    while bag and fewest:
                        low = bag & (~bag + _ONE)
                        bag ^= low
                        pixel = 64 * w + _count(low - _ONE)
                        count = 0
                        for v in range(n_done):
                            count += _count(pixel_patches[pixel, v] & ~barred[level, v])
                        if count < fewest:
                            fewest, pivot[level] = count, pixel
                n = 0
                for v in range(n_done):
                    bag = ~barred[level, v]
                    if pivot[level] >= 0:
                        bag &= pixel_patches[pivot[level], v]
                    while bag:
                        low = bag & (~bag + _ONE)
                        bag ^= low
                        options[level, n] = 64 * v + _count(low - _ONE)
                        n += 1
                n_options[level] = n
                at[level] = 0
            if at[level] < n_options[level]:
                # Cover it by the next patch; later branches do without this one.
                p = options[level, at[level]]
                at[level] += 1
                here = np.uint64(1) << np.uint64(p & 63)
                barred[level, p >> 6] |= here
                level += 1
                for w in range(n_held):
                    union[level, w] = union[level - 1, w] | patch_pixels[p, w]
                    given[level, w] = given[level - 1, w]
                for w in range(n_done):
                    barred[level, w] = barred[level - 1, w]
                    chosen[level, w] = chosen[level - 1, w]
                chosen[level, p >> 6] |= here
                taken[level] = taken[level - 1] + 1
                thrown[level] = thrown[level - 1]
                lasting[level] = lasting[level - 1]
                n_options[level] = -1
                continue
            word, here = pivot[level] >> 6, np.uint64(1) << np.uint64(pivot[level] & 63)
            if pivot[level] < 0 or kept[word] & here:
                level -= 1
                continue
            # Throw it away: none of its patches is in the group.
            given[level, word] |= here
            thrown[level] += 1
            if long[word] & here:
                lasting[level] += 1
            n_options[level] = -1
    return last


@njit(cache=True)
def undominated(
    bits: Bits, rows: Words, costs: NDArray[np.int32], load: int, watched: bool
) -> NDArray[np.bool_]:
    """Mark the rows that no other row with the same patches done makes useless; rows are sorted by these.

    A plan that goes on from one row can go on from another that holds other pixels if it loads what that
    one lacks. Where loads are watched it must lack none, and may not have loaded more.
    """
    n_held, n_done = len(bits.pixel_words), len(bits.patch_words)
    keep = np.ones(len(rows), np.bool_)
    first = 0
    for i in range(len(rows)):
        for w in range(n_done):
            if rows[i, w] != rows[first, w]:
                first = i
                break
        # Rows with the same patches stand in the order of their costs.
        for j in range(first, min(i, first + RIVALS)):
            if not keep[j]:
                continue
            lacks = 0
            worse = False
            for w in range(n_held):
                lacks += _count(rows[i, n_done + w] & ~rows[j, n_done + w])
                if watched and rows[j, n_done + n_held + w] & ~rows[i, n_done + n_held + w]:
                    worse = True
            if watched and (worse or lacks):
                continue
            if costs[j] + 2 * load * lacks <= costs[i]:
                keep[i] = False
                break
    return keep
