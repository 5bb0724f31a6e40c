"""The compiled kernel of the exact search: all groups that may follow a partial plan, within a budget.

A row is a partial plan: the patches done, the pixels on chip that patches to come still need, and, where the
limit on loads is watched, those of them that may not be loaded again. `tilewright.grouping.partial_plans`
tells what is searched for, docs/bounds.md why nothing is lost.
"""

# Numba infers the types of compiled functions; docstrings state them where it matters.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tilewright.grouping.exact.bitsets import NEVER, Bits, Words
from tilewright.grouping.exact.pruning_kernel import (
    INNER,
    ONE,
    ZERO,
    Ints,
    bit,
    far_apart,
    is_late,
    lasting_gaps,
    least_next,
    lowest,
    ones,
    pixels_gapped,
    still_needed,
)
from tilewright.grouping.exact.workspace import Workspace

(SIZE, STEP, LOAD, SPENT, FREE, WATCHED, SPARE, NEXT, AHEAD, EXCESS, BELOW, DELAYS) = range(12)
"""Places in `Rules.numbers`: patches of the group; cost of a step and half of the cost of a load, in halves;
what this step and those to come cost at least; whether the first group is free; whether loads are watched;
how many pixels on chip may be thrown away at most; most patches of the group after this one; for how many
steps after this one the limits hold; in first steps, how many pixels a whole plan may throw away, else -1,
and by how many twice those thrown away so far must be less than that; what is known of missing patches."""

inlined = njit(**INNER, forceinline=True)
"""For the parts of `extend`: handing them the workspace would take longer than what most of them do."""

RIVALS = 64
"""How many rows with the same patches a row is compared with."""


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


@inlined
def _hash(row):
    value = np.uint64(0x9E3779B97F4A7C15)
    for w in range(len(row)):
        value = (value ^ row[w]) * np.uint64(0xBF58476D1CE4E5B9)
        value ^= value >> np.uint64(29)
    return value ^ (value >> np.uint64(32))


@inlined
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
        at = (at + ONE) & mask
    return at


@njit(cache=True)
def grow(table: Table, larger: Table) -> None:
    """Move all rows into a larger table."""
    for i in range(len(table.cost)):
        if table.cost[i] > -NEVER:
            at = _place(larger.rows, larger.cost, table.rows[i])
            for w in range(table.rows.shape[1]):
                larger.rows[at, w] = table.rows[i, w]
            larger.cost[at] = table.cost[i]
            larger.parent[at] = table.parent[i]
            larger.stage[at] = table.stage[i]
            larger.least[at] = table.least[i]
    larger.used[0] = table.used[0]
    for size in range(len(table.found)):
        for pixels in range(table.found.shape[1]):
            larger.found[size, pixels] = table.found[size, pixels]


@inlined
def _move(images, s, words, out, first):
    """Write the image of a set under a symmetry to ``out[first:]``."""
    n = images.shape[3]
    for w in range(n):
        out[first + w] = ZERO
    for b in range(images.shape[1]):
        byte = (words[b >> 3] >> np.uint64(8 * (b & 7))) & np.uint64(255)
        if byte:
            for w in range(n):
                out[first + w] |= images[s, b, byte, w]


@inlined
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


@inlined
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


class _Limits(NamedTuple):
    """What a group that follows a partial plan may cost.

    Attributes
    ----------
    chip
        Pixels on chip.
    budget, spare
        So many pixels may be loaded and thrown away together, and so many thrown away.
    margin
        How much more may be thrown away in the first steps (theorem 8): a pixel counts 2, or 1 if its gap may
        be long. Elsewhere more than all of them.
    long
        So many pixels have gaps already that may be long.
    """

    chip: int
    budget: int
    spare: int
    margin: int
    long: int


class _Node(NamedTuple):
    """What a level says of the groups that follow from it.

    Attributes
    ----------
    total, fresh, open
        So many pixels are covered; are new on chip; are on chip and not decided.
    slots
        So many patches the group still gets.
    allowed
        So many more pixels may be thrown away; negative if there is no such group.
    later
        So many may be thrown away after the decisions that are made.
    """

    total: int
    fresh: int
    open: int
    slots: int
    allowed: int
    later: int


@inlined
def _take(bits, rules, row, cost, workspace):
    """Read a row; return the limits of what follows, a negative one if nothing can."""
    origin, room = workspace.origin, workspace.room
    patch_pixels, n_pixels = bits.patch_pixels, len(bits.pixel_patches)
    n_held, n_done = len(bits.pixel_words), len(bits.patch_words)
    load, excess = rules.numbers[LOAD], rules.numbers[EXCESS]
    for w in range(n_done):
        origin.done[w] = row[w]
    for w in range(n_held):
        origin.held[w] = row[n_done + w]
        origin.kept[w] = row[n_done + n_held + w] if rules.numbers[WATCHED] else ZERO
        origin.seen[w] = ZERO
        origin.needed[w] = ZERO
        origin.long[w] = ZERO
    for p in range(len(patch_pixels)):
        done = (origin.done[p >> 6] >> np.uint64(p & 63)) & ONE
        for w in range(n_held):
            if done:
                origin.seen[w] |= patch_pixels[p, w]
            else:
                origin.needed[w] |= patch_pixels[p, w]
    chip, missing = 0, 0
    for w in range(n_held):
        chip += ones(origin.held[w])
        missing += ones(origin.needed[w] & ~origin.held[w])
    highest = -NEVER
    for pixels in range(len(rules.most)):
        highest = max(highest, rules.most[pixels])
    budget = (highest - cost - rules.numbers[STEP]) // load + chip
    if rules.numbers[FREE]:
        budget = n_pixels * rules.numbers[SIZE]
    spare = chip
    if rules.total >= 0:
        # Each pixel thrown away is loaded once more; all others that are needed are loaded, too.
        sure = cost + 2 * load * missing + rules.numbers[SPENT]
        spare = (rules.total - sure) // (2 * load)
    long = 0
    if excess >= 0 and len(rules.near):
        for w in range(n_held):
            room.still[w] = origin.seen[w] & origin.needed[w]
            origin.gaps[w] = room.still[w] & ~origin.held[w]
        lasting_gaps(bits, rules.near, excess, origin.done, room.still, origin.gaps, room.sides, origin.long)
        for w in range(n_held):
            long += ones(origin.long[w] & origin.gaps[w])
            origin.long[w] &= origin.held[w]
    margin = 4 * n_pixels
    if excess >= 0:
        margin = 2 * spare - excess - rules.numbers[BELOW] + long
    return _Limits(chip, budget, min(spare, rules.numbers[SPARE]), margin, long)


@inlined
def _root(bits, rules, workspace):
    """Begin with the group that has only the patch that all groups have."""
    origin, branches = workspace.origin, workspace.branches
    for w in range(len(bits.pixel_words)):
        branches.union[0, w] = ZERO
        branches.given[0, w] = ZERO
    n_patches = len(bits.patch_pixels)
    for w in range(len(bits.patch_words)):
        branches.barred[0, w] = origin.done[w] | rules.left_out[w]
        if n_patches < 64 * w + 64:
            # Bits that stand for no patch.
            branches.barred[0, w] |= ~ZERO << np.uint64(max(n_patches - 64 * w, 0))
        branches.chosen[0, w] = ZERO
    branches.taken[0] = branches.thrown[0] = branches.lasting[0] = 0
    if rules.member >= 0:
        branches.barred[0, rules.member >> 6] |= bit(rules.member)
        branches.chosen[0, rules.member >> 6] = bit(rules.member)
        for w in range(len(bits.pixel_words)):
            branches.union[0, w] = bits.patch_pixels[rules.member, w]
        branches.taken[0] = 1
    branches.n_options[0] = -1


@inlined
def _done_with(bits, level, workspace):
    """Write the patches done with the group so far to ``room.done``."""
    for w in range(len(bits.patch_words)):
        workspace.room.done[w] = workspace.origin.done[w] | workspace.branches.chosen[level, w]


@inlined
def _looks_ahead(rules):
    """Whether it matters what the group after this one can cover: where complete plans are looked for."""
    return rules.total >= 0 and rules.numbers[NEXT] > 0


@inlined
def _node(bits, rules, limits, level, workspace):
    """Return what a level says, and bar patches that would make others late."""
    origin, branches, room, scratch = workspace
    total, fresh, open_pixels, open_long = 0, 0, 0, 0
    for w in range(len(bits.pixel_words)):
        covered = branches.union[level, w]
        total += ones(covered)
        fresh += ones(covered & ~origin.held[w])
        room.rest[w] = origin.held[w] & ~covered & ~branches.given[level, w]
        open_pixels += ones(room.rest[w])
        open_long += ones(room.rest[w] & origin.long[w])
        room.group[w] = covered
    slots = rules.numbers[SIZE] - branches.taken[level]
    thrown, following = branches.thrown[level], rules.numbers[NEXT]
    allowed = min(limits.spare, limits.budget - fresh) - thrown
    more = limits.margin - 2 * thrown + branches.lasting[level]
    allowed = min(allowed, more, (more + open_long) // 2)
    later = limits.spare - thrown
    if rules.numbers[AHEAD]:
        later = min(later, more)
    # A patch covers no more than it has pixels.
    if open_pixels - slots * (scratch.members.shape[1] - 1) > allowed:
        allowed = -1
    if allowed >= 0 and later == 0 and _looks_ahead(rules):
        _done_with(bits, level, workspace)
        until = rules.numbers[AHEAD] if limits.spare > thrown else len(bits.patch_pixels)
        if is_late(bits, room.done, room.group, room.rest, slots, following, until, scratch):
            allowed = -1
        else:
            for w in range(len(bits.patch_words)):
                branches.barred[level, w] |= ~scratch.only[w]
    return _Node(total, fresh, open_pixels, slots, allowed, later)


@inlined
def _last_patches(bits, node, level, workspace):
    """Write the patches to ``room.candidates`` that the group may get as its last one."""
    branches, room = workspace.branches, workspace.room
    for v in range(len(bits.patch_words)):
        room.candidates[v] = ~branches.barred[level, v]
    if node.open > node.allowed:
        # It covers one of any pixels that are too many to be thrown away.
        for v in range(len(bits.patch_words)):
            room.candidates[v] = ZERO
        several = node.allowed + 1
        for w in range(len(bits.pixel_words)):
            bag = room.rest[w]
            while bag and several:
                pixel = 64 * w + lowest(bag)
                bag &= bag - ONE
                several -= 1
                for v in range(len(bits.patch_words)):
                    room.candidates[v] |= bits.pixel_patches[pixel, v] & ~branches.barred[level, v]


@inlined
def _finish(bits, rules, limits, node, level, cost, parent, stage, table, workspace):
    """Add all partial plans whose group gets its last patch; return whether there was room for them."""
    origin, branches, room, _ = workspace
    step, load, size = rules.numbers[STEP], rules.numbers[LOAD], rules.numbers[SIZE]
    word = 0
    while word < len(bits.patch_words):
        bag = room.candidates[word]
        if not bag:
            word += 1
            continue
        room.candidates[word] &= bag - ONE
        patch = 64 * word + lowest(bag)
        pixels, fresh, lost = node.total, node.fresh, branches.thrown[level]
        over = limits.margin + branches.lasting[level]
        fixed = False
        for w in range(len(bits.pixel_words)):
            new = bits.patch_pixels[patch, w] & ~branches.union[level, w]
            gone = room.rest[w] & ~bits.patch_pixels[patch, w]
            pixels += ones(new)
            fresh += ones(new & ~origin.held[w])
            lost += ones(gone)
            over += ones(gone & origin.long[w])
            fixed = fixed or gone & origin.kept[w] != 0
        over -= 2 * lost
        if fixed or min(limits.spare - lost, limits.budget - fresh - lost, rules.most[pixels], over) < 0:
            continue
        walk = np.int64(0)
        if not rules.numbers[FREE]:
            walk = cost + step + load * (fresh + lost - limits.chip)
        table.found[size, pixels] = min(table.found[size, pixels], np.int32(walk))
        if walk > rules.most[pixels] or not _may_follow(
            bits, rules, limits, level, patch, lost, over, workspace
        ):
            continue
        total = np.int32(walk + load * pixels)
        if not _add(bits, rules, total, parent, stage, table, workspace):
            return False
    return True


@inlined
def _may_follow(bits, rules, limits, level, patch, lost, over, workspace):
    """Whether a complete group can be followed by others; leaves in `room` what it is and what it leaves.

    Parameters
    ----------
    patch, lost
        The last patch of the group, and how many pixels are thrown away.
    over
        How much more may be in the first steps, at most.
    """
    origin, branches, room, scratch = workspace
    following, ahead, excess = rules.numbers[NEXT], rules.numbers[AHEAD], rules.numbers[EXCESS]
    lasts, later = excess >= 0 and len(rules.near) > 0, limits.spare - lost
    _done_with(bits, level, workspace)
    room.done[patch >> 6] |= bit(patch)
    for w in range(len(bits.pixel_words)):
        room.group[w] = branches.union[level, w] | bits.patch_pixels[patch, w]
    still_needed(bits, room.done, room.group, room.still)
    if lasts and limits.long + lost:
        for w in range(len(bits.pixel_words)):
            room.off[w] = (origin.gaps[w] | origin.held[w]) & ~room.group[w]
        still_needed(bits, room.done, room.off, room.off)
        lasting_gaps(bits, rules.near, excess, room.done, room.off, room.off, room.sides, room.lasting)
        over = 2 * later - excess - rules.numbers[BELOW]
        for w in range(len(bits.pixel_words)):
            over += ones(room.lasting[w])
        if over < 0:
            return False
    if not _looks_ahead(rules):
        return True
    until = ahead if later > 0 else len(bits.patch_pixels)
    if ahead:
        later = min(later, over)
    limit = following + later
    n = far_apart(bits, room.still, room.done, 0, limit, room.apart)
    if n > limit:
        return False
    if ahead and 2 * (n - following) > over:
        # Too many to be thrown away unless some have long gaps.
        lacking = 2 * (n - following) - over
        for j in range(n if lasts else 0):
            gapped = pixels_gapped(bits, rules.near, room.done, room.apart[j], room.nothing, room.sides)
            if gapped <= excess:
                lacking -= 1
        if lacking > 0:
            return False
    return later > 0 or not is_late(bits, room.done, room.still, room.nothing, 0, following, until, scratch)


@inlined
def _add(bits, rules, cost, parent, stage, table, workspace):
    """Add the partial plan that is left in `room`; return whether there was room for it in the table."""
    origin, _, room, _ = workspace
    watched = rules.numbers[WATCHED] > 0
    for w in range(len(bits.pixel_words)):
        again = room.group[w] & origin.seen[w] & ~origin.held[w]
        room.fixed[w] = (origin.kept[w] | again) & room.still[w]
    most = len(table.found) - 1
    least = least_next(
        bits, room.done, origin.done, origin.seen, rules.numbers[SIZE], most, rules.numbers[DELAYS]
    )
    _canonical(bits, room.done, room.still, room.fixed, watched, room.image, room.row)
    return _keep(table, room.row, cost, parent, stage, np.int16(least))


@inlined
def _can_share(bits, node, level, workspace):
    """Whether some patch covers its share of the open pixels that must be covered, if any must."""
    branches, room = workspace.branches, workspace.room
    share = -((node.allowed - node.open) // node.slots)
    if share <= 0:
        return True
    for v in range(len(bits.patch_words)):
        bag = ~branches.barred[level, v]
        while bag:
            patch = 64 * v + lowest(bag)
            bag &= bag - ONE
            n = 0
            for w in range(len(bits.pixel_words)):
                n += ones(room.rest[w] & bits.patch_pixels[patch, w])
            if n >= share:
                return True
    return False


@inlined
def _branch(bits, level, workspace):
    """Choose the open pixel that the fewest patches can cover, and list these; all if none is open."""
    branches, room = workspace.branches, workspace.room
    fewest, pivot = len(bits.patch_pixels) + 1, -1
    for w in range(len(bits.pixel_words)):
        bag = room.rest[w]
        while bag and fewest:
            pixel = 64 * w + lowest(bag)
            bag &= bag - ONE
            count = 0
            for v in range(len(bits.patch_words)):
                count += ones(bits.pixel_patches[pixel, v] & ~branches.barred[level, v])
            if count < fewest:
                fewest, pivot = count, pixel
    n = 0
    for v in range(len(bits.patch_words)):
        bag = ~branches.barred[level, v]
        if pivot >= 0:
            bag &= bits.pixel_patches[pivot, v]
        while bag:
            branches.options[level, n] = 64 * v + lowest(bag)
            bag &= bag - ONE
            n += 1
    branches.pivot[level] = pivot
    branches.n_options[level] = n
    branches.tried[level] = 0


@inlined
def _descend(bits, branches, level):
    """Let the group have the next option, one level below; later branches do without it."""
    patch = branches.options[level, branches.tried[level]]
    branches.tried[level] += 1
    branches.barred[level, patch >> 6] |= bit(patch)
    below = level + 1
    for w in range(len(bits.pixel_words)):
        branches.union[below, w] = branches.union[level, w] | bits.patch_pixels[patch, w]
        branches.given[below, w] = branches.given[level, w]
    for w in range(len(bits.patch_words)):
        branches.barred[below, w] = branches.barred[level, w]
        branches.chosen[below, w] = branches.chosen[level, w]
    branches.chosen[below, patch >> 6] |= bit(patch)
    branches.taken[below] = branches.taken[level] + 1
    branches.thrown[below] = branches.thrown[level]
    branches.lasting[below] = branches.lasting[level]
    branches.n_options[below] = -1


@inlined
def _throw(level, workspace):
    """Throw the pixel away that no option covers, if it may be loaded again; return whether it may."""
    origin, branches = workspace.origin, workspace.branches
    pivot = branches.pivot[level]
    word, here = pivot >> 6, bit(pivot)
    if pivot < 0 or origin.kept[word] & here:
        return False
    branches.given[level, word] |= here
    branches.thrown[level] += 1
    if origin.long[word] & here:
        branches.lasting[level] += 1
    branches.n_options[level] = -1
    return True


@njit(cache=True, nogil=True, _nrt=False)
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
    workspace: Workspace,
) -> int:
    """Add all that may follow ``rows[first:last]`` to a table; return the row at which it ended early.

    Groups are found by branching: a pixel on chip that is still needed is covered by one of its patches, in
    turn, or thrown away; when all are decided, the patches that are left are free. Each decision that
    costs more than the rules allow ends its branch.
    """
    branches, room = workspace.branches, workspace.room
    for i in range(first, last):
        if 4 * table.used[0] > 3 * len(table.cost):
            return i
        if rules.numbers[SIZE] < least[i]:
            continue
        limits = _take(bits, rules, rows[i], costs[i], workspace)
        if min(limits.spare, limits.margin, limits.budget) < 0:
            continue
        _root(bits, rules, workspace)
        level = 0
        while level >= 0:
            if branches.n_options[level] < 0:
                if rules.stop[0]:
                    return i
                node = _node(bits, rules, limits, level, workspace)
                ended = node.allowed < 0
                if not ended and node.slots == 1:
                    _last_patches(bits, node, level, workspace)
                    if not _finish(bits, rules, limits, node, level, costs[i], i, stage, table, workspace):
                        return i
                    ended = True
                if not ended and node.open == 0 and branches.taken[level] and _looks_ahead(rules):
                    _done_with(bits, level, workspace)
                    limit = rules.numbers[NEXT] + node.later
                    n = far_apart(bits, room.group, room.done, node.slots, limit, room.apart)
                    ended = n > limit
                if ended or not _can_share(bits, node, level, workspace):
                    level -= 1
                    continue
                _branch(bits, level, workspace)
            if branches.tried[level] < branches.n_options[level]:
                _descend(bits, branches, level)
                level += 1
            elif not _throw(level, workspace):
                level -= 1
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
                lacks += ones(rows[i, n_done + w] & ~rows[j, n_done + w])
                if watched and rows[j, n_done + n_held + w] & ~rows[i, n_done + n_held + w]:
                    worse = True
            if watched and (worse or lacks):
                continue
            if costs[j] + 2 * load * lacks <= costs[i]:
                keep[i] = False
                break
    return keep
