"""The compiled kernel of the exact search: all groups that may follow a partial plan within a budget.

A row is a partial plan: the patches done, the pixels on chip that remaining patches need, and, where the
limit of two loads is watched, those of them that may not be loaded again. `layered_search` calls `expand`;
docs/bounds.md proves that nothing is lost.
"""

# Numba infers the types of compiled functions; docstrings state them where it matters.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.bitsets import Words
from tilewright.core.jit import inlined, kernel, popcount
from tilewright.grouping.exact.bitsets import NEVER, Bits
from tilewright.grouping.exact.pruning_kernel import (
    ONE,
    ZERO,
    Ints,
    bit,
    far_apart,
    lasting_gaps,
    least_next,
    lowest_bit,
    overcommitted,
    pixels_gapped,
    still_needed,
)
from tilewright.grouping.exact.workspace import Workspace

RIVALS = 64
"""Most rows with the same patches that a row is compared with."""


class Rules(NamedTuple):
    """Which groups may follow. Costs and lengths of walks are in half units.

    Attributes
    ----------
    size
        Number of patches of the group.
    step, load
        Cost of a step, and half the cost of a load.
    coming
        Least cost of this step and the steps after it, without loads.
    free
        Whether the group costs nothing, as the first one of a chain.
    watched
        Whether no pixel may be loaded more than twice.
    spare
        Most pixels on chip that the step may throw away.
    following
        Most patches of the next group.
    ahead
        Number of steps after this one for which `spare` and `excess` hold.
    excess
        Most pixels that a whole plan throws away, in the first steps of theorem 8; -1 in others.
    below
        By how much twice the pixels thrown away so far must be less than `excess`.
    delays
        What is known of missing patches, a `Delay`.
    most : int64, shape (pixels of a group + 1,)
        Longest walk to the group, by its number of pixels; negative where such a group does not fit.
    total
        Largest cost of a complete plan; negative where chains are searched.
    member
        A patch that the group must have, or -1.
    left_out : uint64, shape (words of patches,)
        Patches that the group must not have.
    near : uint64, shape (pixels, words of pixels)
        For each pixel, those that cannot stay on chip during a long gap of it if the gap separates the
        patches that they share; empty where no gap is long.
    stop : bool, shape (1,)
        Set from outside when time is up.
    """

    size: int
    step: int
    load: int
    coming: int
    free: bool
    watched: bool
    spare: int
    following: int
    ahead: int
    excess: int
    below: int
    delays: int
    most: Ints
    total: int
    member: int
    left_out: Words
    near: Words
    stop: NDArray[np.bool_]


class Table(NamedTuple):
    """Partial plans of one stage, in a hash table; a slot of cost ``-NEVER`` is empty.

    Attributes
    ----------
    rows : uint64, shape (size, words)
    cost : int32, shape (size,)
        Least cost at which the row was reached, in half units.
    parent, stage : int32, shape (size,)
        The row that it was reached from: its number within its stage, and the number of the stage.
    least : int16, shape (size,)
        Fewest patches of the next group that need be tried.
    used : int64, shape (1,)
        Number of rows in use.
    found : int32, shape (patches of a group + 1, pixels of a group + 1)
        Shortest walk to any group, by its patches and pixels, whether the row was kept or not.
    """

    rows: Words
    cost: NDArray[np.int32]
    parent: NDArray[np.int32]
    stage: NDArray[np.int32]
    least: NDArray[np.int16]
    used: Ints
    found: NDArray[np.int32]


class Parents(NamedTuple):
    """Partial plans of one stage, whose children are looked for; columns as in `Table`.

    Attributes
    ----------
    rows : uint64, shape (n, words)
    cost : int32, shape (n,)
    least : int16, shape (n,)
    stage
        The stage's number.
    """

    rows: Words
    cost: NDArray[np.int32]
    least: NDArray[np.int16]
    stage: int


@inlined
def _hash(row):
    value = np.uint64(0x9E3779B97F4A7C15)
    for w in range(len(row)):
        value = (value ^ row[w]) * np.uint64(0xBF58476D1CE4E5B9)
        value ^= value >> np.uint64(29)
    return value ^ (value >> np.uint64(32))


@inlined
def _find_slot(rows, cost, row):
    """Return the slot of a row, or the empty slot where it belongs."""
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


@kernel()
def move_rows(table: Table, larger: Table) -> None:
    """Move all rows into a larger table."""
    for i in range(len(table.cost)):
        if table.cost[i] > -NEVER:
            at = _find_slot(larger.rows, larger.cost, table.rows[i])
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
def _map_set(images, s, words, out, first):
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
        _map_set(bits.patch_images, s, done, image, 0)
        order = -1 if s == 0 else 0
        if s:
            for w in range(n_done):
                if image[w] != row[w]:
                    order = -1 if image[w] < row[w] else 1
                    break
        if order > 0:
            continue
        _map_set(bits.pixel_images, s, held, image, n_done)
        if watched:
            _map_set(bits.pixel_images, s, kept, image, n_done + n_held)
        if order == 0:
            for w in range(n_done, end):
                if image[w] != row[w]:
                    order = -1 if image[w] < row[w] else 1
                    break
        if order < 0:
            for w in range(end):
                row[w] = image[w]


@inlined
def _insert(table, row, cost, parents, parent, least):
    """Insert a row if it is new or cheaper; return False if the table is too full."""
    place = _find_slot(table.rows, table.cost, row)
    if table.cost[place] == -NEVER:
        if 8 * table.used[0] > 7 * len(table.cost):
            return False
        table.used[0] += 1
        for w in range(len(row)):
            table.rows[place, w] = row[w]
    elif table.cost[place] <= cost:
        if table.cost[place] == cost:
            # Both ways lead to the same rest, so the stronger condition holds for it.
            table.least[place] = max(table.least[place], least)
        return True
    table.least[place] = least
    table.cost[place] = cost
    table.parent[place] = parent
    table.stage[place] = parents.stage
    return True


class _Limits(NamedTuple):
    """What a group that follows a partial plan may cost.

    Attributes
    ----------
    chip
        Number of pixels on chip.
    budget, spare
        Most pixels to be loaded or thrown away, together; most pixels to be thrown away.
    margin
        What the first steps may still throw away by theorem 8, where a pixel counts 2, or 1 if its gap may be
        long; more than all pixels count in other steps.
    long
        Number of pixels off chip whose gap may be long.
    """

    chip: int
    budget: int
    spare: int
    margin: int
    long: int


class _Level(NamedTuple):
    """Bounds on the groups that follow from the decisions of a level.

    Attributes
    ----------
    limits
        Of what follows the partial plan.
    total, fresh, open
        Number of pixels that are covered; that are covered and to be loaded; that are on chip and undecided.
    slots
        Number of patches that the group still gets.
    allowed
        Most further pixels that it may throw away; negative if no group is possible.
    later
        Most pixels that it and the steps after it may throw away.
    """

    limits: _Limits
    total: int
    fresh: int
    open: int
    slots: int
    allowed: int
    later: int


@inlined
def _read_row(bits, rules, row, cost, workspace):
    """Unpack a row; return the limits of what follows, a negative one if nothing can follow."""
    origin, sets = workspace.origin, workspace.sets
    patch_pixels, n_pixels = bits.patch_pixels, len(bits.pixel_patches)
    n_held, n_done = len(bits.pixel_words), len(bits.patch_words)
    load, excess = rules.load, rules.excess
    for w in range(n_done):
        origin.done[w] = row[w]
    for w in range(n_held):
        origin.held[w] = row[n_done + w]
        origin.kept[w] = row[n_done + n_held + w] if rules.watched else ZERO
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
        chip += popcount(origin.held[w])
        missing += popcount(origin.needed[w] & ~origin.held[w])
    highest = -NEVER
    for pixels in range(len(rules.most)):
        highest = max(highest, rules.most[pixels])
    budget = (highest - cost - rules.step) // load + chip
    if rules.free:
        budget = n_pixels * rules.size
    spare = chip
    if rules.total >= 0:
        # A pixel that is thrown away is loaded once more; needed pixels that are off chip are loaded once.
        sure = cost + 2 * load * missing + rules.coming
        spare = (rules.total - sure) // (2 * load)
    long = 0
    if excess >= 0 and len(rules.near):
        for w in range(n_held):
            sets.still[w] = origin.seen[w] & origin.needed[w]
            origin.gaps[w] = sets.still[w] & ~origin.held[w]
        lasting_gaps(bits, rules.near, excess, origin.done, sets.still, origin.gaps, sets.sides, origin.long)
        for w in range(n_held):
            long += popcount(origin.long[w] & origin.gaps[w])
            origin.long[w] &= origin.held[w]
    margin = 4 * n_pixels
    if excess >= 0:
        margin = 2 * spare - excess - rules.below + long
    return _Limits(chip, budget, min(spare, rules.spare), margin, long)


@inlined
def _start_group(bits, rules, workspace):
    """Set up level 0: the group has the prescribed patch, if there is one, and no other."""
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
def _write_done(bits, level, workspace):
    """Write the patches done, including those chosen so far, to ``sets.done``."""
    for w in range(len(bits.patch_words)):
        workspace.sets.done[w] = workspace.origin.done[w] | workspace.branches.chosen[level, w]


@inlined
def _looks_ahead(rules):
    """Whether the next groups are looked at, too: they are where complete plans are searched."""
    return rules.total >= 0 and rules.following > 0


@inlined
def _bound_level(bits, rules, limits, level, workspace):
    """Return the bounds of a level, and exclude patches that would overcommit later steps."""
    origin, branches, sets, scratch = workspace
    total, fresh, open_pixels, open_long = 0, 0, 0, 0
    for w in range(len(bits.pixel_words)):
        covered = branches.union[level, w]
        total += popcount(covered)
        fresh += popcount(covered & ~origin.held[w])
        sets.rest[w] = origin.held[w] & ~covered & ~branches.given[level, w]
        open_pixels += popcount(sets.rest[w])
        open_long += popcount(sets.rest[w] & origin.long[w])
        sets.group[w] = covered
    slots = rules.size - branches.taken[level]
    thrown, following = branches.thrown[level], rules.following
    allowed = min(limits.spare, limits.budget - fresh) - thrown
    more = limits.margin - 2 * thrown + branches.lasting[level]
    allowed = min(allowed, more, (more + open_long) // 2)
    later = limits.spare - thrown
    if rules.ahead:
        later = min(later, more)
    # A patch covers no more than it has pixels.
    if open_pixels - slots * (scratch.members.shape[1] - 1) > allowed:
        allowed = -1
    if allowed >= 0 and later == 0 and _looks_ahead(rules):
        _write_done(bits, level, workspace)
        until = rules.ahead if limits.spare > thrown else len(bits.patch_pixels)
        if overcommitted(bits, sets.done, sets.group, sets.rest, slots, following, until, scratch):
            allowed = -1
        else:
            for w in range(len(bits.patch_words)):
                branches.barred[level, w] |= ~scratch.only[w]
    return _Level(limits, total, fresh, open_pixels, slots, allowed, later)


@inlined
def _last_patches(bits, node, level, workspace):
    """Write the patches that may be the last one of the group to ``sets.candidates``."""
    branches, sets = workspace.branches, workspace.sets
    for v in range(len(bits.patch_words)):
        sets.candidates[v] = ~branches.barred[level, v]
    if node.open > node.allowed:
        # Of any ``allowed + 1`` open pixels, it must cover one.
        for v in range(len(bits.patch_words)):
            sets.candidates[v] = ZERO
        several = node.allowed + 1
        for w in range(len(bits.pixel_words)):
            bag = sets.rest[w]
            while bag and several:
                pixel = 64 * w + lowest_bit(bag)
                bag &= bag - ONE
                several -= 1
                for v in range(len(bits.patch_words)):
                    sets.candidates[v] |= bits.pixel_patches[pixel, v] & ~branches.barred[level, v]


@inlined
def _complete_groups(bits, rules, node, level, parents, parent, table, workspace):
    """Try each last patch and insert the children; return False if the table is too full."""
    origin, branches, sets, _ = workspace
    step, load, size, cost = rules.step, rules.load, rules.size, parents.cost[parent]
    limits = node.limits
    word = 0
    while word < len(bits.patch_words):
        bag = sets.candidates[word]
        if not bag:
            word += 1
            continue
        sets.candidates[word] &= bag - ONE
        patch = 64 * word + lowest_bit(bag)
        pixels, fresh, lost = node.total, node.fresh, branches.thrown[level]
        over = limits.margin + branches.lasting[level]
        fixed = False
        for w in range(len(bits.pixel_words)):
            new = bits.patch_pixels[patch, w] & ~branches.union[level, w]
            gone = sets.rest[w] & ~bits.patch_pixels[patch, w]
            pixels += popcount(new)
            fresh += popcount(new & ~origin.held[w])
            lost += popcount(gone)
            over += popcount(gone & origin.long[w])
            fixed = fixed or gone & origin.kept[w] != 0
        over -= 2 * lost
        if fixed or min(limits.spare - lost, limits.budget - fresh - lost, rules.most[pixels], over) < 0:
            continue
        walk = np.int64(0)
        if not rules.free:
            walk = cost + step + load * (fresh + lost - limits.chip)
        table.found[size, pixels] = min(table.found[size, pixels], np.int32(walk))
        if walk > rules.most[pixels] or not _can_go_on(
            bits, rules, limits, level, patch, lost, over, workspace
        ):
            continue
        total = np.int32(walk + load * pixels)
        if not _keep_child(bits, rules, total, parents, parent, table, workspace):
            return False
    return True


@inlined
def _can_go_on(bits, rules, limits, level, patch, lost, over, workspace):
    """Whether a complete group can be followed by others; its sets are left in ``workspace.sets``.

    Parameters
    ----------
    patch, lost
        The last patch of the group, and the number of pixels that it throws away.
    over
        What of ``limits.margin`` is left.
    """
    origin, branches, sets, scratch = workspace
    following, ahead, excess = rules.following, rules.ahead, rules.excess
    lasts, later = excess >= 0 and len(rules.near) > 0, limits.spare - lost
    _write_done(bits, level, workspace)
    sets.done[patch >> 6] |= bit(patch)
    for w in range(len(bits.pixel_words)):
        sets.group[w] = branches.union[level, w] | bits.patch_pixels[patch, w]
    still_needed(bits, sets.done, sets.group, sets.still)
    if lasts and limits.long + lost:
        for w in range(len(bits.pixel_words)):
            sets.off[w] = (origin.gaps[w] | origin.held[w]) & ~sets.group[w]
        still_needed(bits, sets.done, sets.off, sets.off)
        lasting_gaps(bits, rules.near, excess, sets.done, sets.off, sets.off, sets.sides, sets.lasting)
        over = 2 * later - excess - rules.below
        for w in range(len(bits.pixel_words)):
            over += popcount(sets.lasting[w])
        if over < 0:
            return False
    if not _looks_ahead(rules):
        return True
    until = ahead if later > 0 else len(bits.patch_pixels)
    if ahead:
        later = min(later, over)
    limit = following + later
    n = far_apart(bits, sets.still, sets.done, 0, limit, sets.apart)
    if n > limit:
        return False
    if ahead and 2 * (n - following) > over:
        # These are too many to be thrown away, unless enough of them have long gaps.
        lacking = 2 * (n - following) - over
        for j in range(n if lasts else 0):
            gapped = pixels_gapped(bits, rules.near, sets.done, sets.apart[j], sets.nothing, sets.sides)
            if gapped <= excess:
                lacking -= 1
        if lacking > 0:
            return False
    return later > 0 or not overcommitted(
        bits, sets.done, sets.still, sets.nothing, 0, following, until, scratch
    )


@inlined
def _keep_child(bits, rules, cost, parents, parent, table, workspace):
    """Insert the child that ``workspace.sets`` describes; return False if the table is too full."""
    origin, _, sets, _ = workspace
    watched = rules.watched
    for w in range(len(bits.pixel_words)):
        again = sets.group[w] & origin.seen[w] & ~origin.held[w]
        sets.fixed[w] = (origin.kept[w] | again) & sets.still[w]
    most = len(table.found) - 1
    least = least_next(bits, sets.done, origin.done, origin.seen, rules.size, most, rules.delays)
    _canonical(bits, sets.done, sets.still, sets.fixed, watched, sets.image, sets.row)
    return _insert(table, sets.row, cost, parents, parent, np.int16(least))


@inlined
def _can_cover_shares(bits, node, level, workspace):
    """Whether some patch covers its share of the open pixels that must be covered, if there are any."""
    branches, sets = workspace.branches, workspace.sets
    share = -((node.allowed - node.open) // node.slots)
    if share <= 0:
        return True
    for v in range(len(bits.patch_words)):
        bag = ~branches.barred[level, v]
        while bag:
            patch = 64 * v + lowest_bit(bag)
            bag &= bag - ONE
            n = 0
            for w in range(len(bits.pixel_words)):
                n += popcount(sets.rest[w] & bits.patch_pixels[patch, w])
            if n >= share:
                return True
    return False


@inlined
def _choose_pivot(bits, level, workspace):
    """Choose the open pixel that the fewest patches can cover, and list these (all if none is open)."""
    branches, sets = workspace.branches, workspace.sets
    fewest, pivot = len(bits.patch_pixels) + 1, -1
    for w in range(len(bits.pixel_words)):
        bag = sets.rest[w]
        while bag and fewest:
            pixel = 64 * w + lowest_bit(bag)
            bag &= bag - ONE
            count = 0
            for v in range(len(bits.patch_words)):
                count += popcount(bits.pixel_patches[pixel, v] & ~branches.barred[level, v])
            if count < fewest:
                fewest, pivot = count, pixel
    n = 0
    for v in range(len(bits.patch_words)):
        bag = ~branches.barred[level, v]
        if pivot >= 0:
            bag &= bits.pixel_patches[pivot, v]
        while bag:
            branches.options[level, n] = 64 * v + lowest_bit(bag)
            bag &= bag - ONE
            n += 1
    branches.pivot[level] = pivot
    branches.n_options[level] = n
    branches.tried[level] = 0


@inlined
def _take_option(bits, branches, level):
    """Choose the next option, one level below; later branches exclude it."""
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
def _throw_away_pivot(level, workspace):
    """Throw the pivot away after all its options, if it may be loaded again; return whether it may."""
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


@inlined
def _branch(bits, rules, limits, parents, parent, table, workspace):
    """Insert all children of a partial plan; return False if the table is too full, or at `Rules.stop`."""
    branches, level = workspace.branches, 0
    while level >= 0:
        if branches.n_options[level] < 0:
            if rules.stop[0]:
                return False
            node = _bound_level(bits, rules, limits, level, workspace)
            if node.allowed >= 0 and node.slots == 1:
                _last_patches(bits, node, level, workspace)
                if not _complete_groups(bits, rules, node, level, parents, parent, table, workspace):
                    return False
                level -= 1
                continue
            if node.allowed < 0 or not _can_branch(bits, rules, node, level, workspace):
                level -= 1
                continue
            _choose_pivot(bits, level, workspace)
        if branches.tried[level] < branches.n_options[level]:
            _take_option(bits, branches, level)
            level += 1
        elif not _throw_away_pivot(level, workspace):
            level -= 1
    return True


@inlined
def _can_branch(bits, rules, node, level, workspace):
    """Whether groups may follow from the decisions of a level that leaves several patches to choose."""
    sets = workspace.sets
    if node.open == 0 and workspace.branches.taken[level] and _looks_ahead(rules):
        _write_done(bits, level, workspace)
        limit = rules.following + node.later
        if far_apart(bits, sets.group, sets.done, node.slots, limit, sets.apart) > limit:
            return False
    return _can_cover_shares(bits, node, level, workspace)


@kernel(nogil=True, _nrt=False)
def expand(
    bits: Bits, rules: Rules, parents: Parents, first: int, last: int, table: Table, workspace: Workspace
) -> int:
    """Insert all children of some partial plans into a table.

    Groups are listed by branching: a pixel on chip that is still needed is either covered by one of its
    patches or thrown away. When all pixels are decided, the other patches are free. A branch ends when its
    decisions cost more than the rules allow.

    Parameters
    ----------
    first, last
        The rows of `parents` to expand.
    table
        Receives the children.
    workspace
        Scratch memory of the thread.

    Returns
    -------
    int
        `last`, or the row to continue with if the table was too full or `Rules.stop` was set.
    """
    for i in range(first, last):
        if 4 * table.used[0] > 3 * len(table.cost):
            return i
        if rules.size < parents.least[i]:
            continue
        limits = _read_row(bits, rules, parents.rows[i], parents.cost[i], workspace)
        if min(limits.spare, limits.margin, limits.budget) < 0:
            continue
        _start_group(bits, rules, workspace)
        if not _branch(bits, rules, limits, parents, i, table, workspace):
            return i
    return last


@kernel()
def undominated(
    bits: Bits, rows: Words, costs: NDArray[np.int32], load: int, watched: bool
) -> NDArray[np.bool_]:
    """Mark the rows that no other row with the same patches done dominates.

    A plan that goes on from row i can go on from row j if it loads the pixels that j lacks. Where loads are
    watched, j must lack none, and the pixels that it may not load again must be among those of i.

    Parameters
    ----------
    rows, costs
        Columns of a stage, sorted by the patches done and then by cost.
    load
        Half the cost of a load, in half units.
    watched
        Whether no pixel may be loaded more than twice.

    Returns
    -------
    bool, shape (n,)
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
                lacks += popcount(rows[i, n_done + w] & ~rows[j, n_done + w])
                if watched and rows[j, n_done + n_held + w] & ~rows[i, n_done + n_held + w]:
                    worse = True
            if watched and (worse or lacks):
                continue
            if costs[j] + 2 * load * lacks <= costs[i]:
                keep[i] = False
                break
    return keep
