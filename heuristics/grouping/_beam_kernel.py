"""The compiled kernel of the beam search: plans that grow patch by patch, many side by side."""

# Numba infers the types of compiled functions; docstrings state them where it matters.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.jit import inner, kernel, lean

PREVIOUS = 1
"""Bit of a pixel on chip: it belongs to the group before."""
CURRENT = 2
"""Bit of a pixel on chip: it belongs to the group that grows."""
ONE_LOAD = 4
"""The loads of a pixel stand in the bits above."""

MOST_LOADS = 62
"""Loads of a pixel are counted up to this number."""

BUCKETS, BUCKETS_PER_POINT = 4096, 100
"""Resolution in which scores are compared."""


class BeamStyle(NamedTuple):
    """Taste of the beam search.

    Attributes
    ----------
    open
        What an uncovered pixel costs while one slot of the group is free; 1 when none is.
    patience
        Factor to `open` for each further free slot.
    hold, crowd
        A pixel of the current group that r more patches need costs ``hold * r ** crowd``.
    noise
        Each score is raised at random by up to this much.
    price
        Additional cost of a pixel that may not be loaded again when it is evicted or uncovered.
    pull
        How much the front is held back for each line that it is ahead; see `bias` of `Growth`.
    """

    open: float
    patience: float
    hold: float
    crowd: float
    noise: float
    price: float
    pull: float


class Book(IntEnum):
    """What is counted per plan."""

    EVICTED = 0
    """Pixels evicted though needed."""
    UNCOVERED = 1
    """Pixels of the previous group that are needed but not in the current one."""
    HELD = 2
    """Pixels of the current group."""
    EMPTY = 3
    """Slots left empty."""
    CLOSED = 4
    """Whether the current group is closed: 0 or 1."""


class _Task(NamedTuple):
    """What does not change while plans grow; for the first four see `Growth`.

    Attributes
    ----------
    weight : float, shape (needs + 1,)
        Cost of a pixel of the current group, by the number of patches that still need it.
    key_done, key_now : int64, shape (patches,)
        Zobrist keys of patches that are done, and of patches of the groups that matter.
    exhausted, price : int
        A pixel with at least `exhausted` on chip may not be loaded again, which costs `price`.
    noise : float
    slack : int
        Slots that stay empty in the whole plan.
    """

    pixels: NDArray[np.int32]
    near: NDArray[np.int32]
    max_pixels: NDArray[np.int32]
    bias: NDArray[np.float64]
    weight: NDArray[np.float64]
    key_done: NDArray[np.int64]
    key_now: NDArray[np.int64]
    exhausted: int
    price: int
    noise: float
    slack: int


class _Plans(NamedTuple):
    """Two generations of `width` plans, the old one and the new one.

    Attributes
    ----------
    left : int16, shape (2, width, pixels)
        Number of remaining patches that need each pixel.
    on_chip : uint8, shape (2, width, pixels)
        Bits of each pixel, and its loads.
    done : uint8, shape (2, width, patches)
        Whether each patch is done.
    member : int32, shape (2, width, 2 * capacity)
        Patches of the previous group, then those of the current one; -1 for none.
    book : int32, shape (2, width, 5)
        See `Book`.
    front, drift : float, shape (2, width)
        Cost of the current group's pixels, and what `bias` adds.
    keys : int64, shape (2, width, 2)
        Zobrist keys: of the plan without the current group, and of that group.
    """

    left: NDArray[np.int16]
    on_chip: NDArray[np.uint8]
    done: NDArray[np.uint8]
    member: NDArray[np.int32]
    book: NDArray[np.int32]
    front: NDArray[np.float64]
    drift: NDArray[np.float64]
    keys: NDArray[np.int64]


class _Candidates(NamedTuple):
    """Ways to fill the next slot; each array has room for all of them.

    Attributes
    ----------
    score : float
        The lower the better.
    source, patch : int32
        The plan of the old generation, and the patch that it gets; -1 leaves the slot empty.
    key : int64
        Equal for plans that are the same.
    ranking : int32
        The candidates in the order of their scores.
    bucket : int32, shape (BUCKETS + 2,)
        Scratch memory of `_rank`.
    listed : int32, shape (patches + 1,)
        The patches that one plan may get.
    stamp : int64, shape (patches,)
        The last mark that each patch was listed under.
    """

    score: NDArray[np.float64]
    source: NDArray[np.int32]
    patch: NDArray[np.int32]
    key: NDArray[np.int64]
    ranking: NDArray[np.int32]
    bucket: NDArray[np.int32]
    listed: NDArray[np.int32]
    stamp: NDArray[np.int64]


class Growth(NamedTuple):
    """What plans are grown of.

    Attributes
    ----------
    pixels : int32, shape (patches, k)
        Pixels of each patch, -1 for none.
    near : int32, shape (patches, m)
        Patches that are considered when a patch has been placed, -1 for none.
    needs : int16, shape (pixels,)
        Number of patches that need each pixel, and one more where it is needed after the last group.
    chip : uint8, shape (pixels,)
        Which pixels are on chip at the beginning (`PREVIOUS`), and ``ONE_LOAD`` times their loads so far.
    max_pixels : int32, shape (group_size + 1,)
        Most pixels of a group, by its number of patches.
    bias : float, shape (patches,)
        What is added to the score of a plan for each patch that it has computed: where it is low, the front
        is drawn ahead.
    n_steps, max_loads, width : int
        Number of groups; most loads of a pixel; plans kept side by side.
    """

    pixels: NDArray[np.int32]
    near: NDArray[np.int32]
    needs: NDArray[np.int16]
    chip: NDArray[np.uint8]
    max_pixels: NDArray[np.int32]
    bias: NDArray[np.float64]
    n_steps: int
    max_loads: int
    width: int


class _Seen(NamedTuple):
    """Plans of the new generation by their keys, with open addressing.

    Attributes
    ----------
    key, slot : int64, shape (power of two,)
        A cell is empty if its slot is not the present one.
    """

    key: NDArray[np.int64]
    slot: NDArray[np.int64]


class _Slot(NamedTuple):
    """The slot that is filled next.

    Attributes
    ----------
    old
        The old generation.
    filled
        How many slots of the group have been filled.
    urge
        What an uncovered pixel costs.
    """

    old: int
    filled: int
    urge: float


@kernel(nogil=True)
def grow_by_patch(growth, style, seed):
    """Grow plans; return the step of each patch in the best, and its evictions.

    The slots of all groups are filled one after the other. A slot may stay empty while there are more slots
    than patches; then the group is closed. A pixel loaded for the first time costs the same in every
    plan, so a plan is charged only when a pixel leaves the memory while patches that need it remain.

    Parameters
    ----------
    growth : Growth
    style : BeamStyle
    seed : int

    Returns
    -------
    steps : int32, shape (patches,)
    evictions : int
        With the prices paid; -1 if the search died in a dead end.
    """
    np.random.seed(seed)  # noqa: NPY002  (what compiled code has)
    n_patches, width = growth.pixels.shape[0], growth.width
    capacity = growth.max_pixels.shape[0] - 1
    slots = growth.n_steps * capacity
    task = _begin_task(growth, style)
    plans, candidates = _begin_plans(growth, task), _begin_candidates(growth)
    # The tree of decisions behind the plans: which plan each came from, and the patch that it got.
    parent = np.zeros((slots, width), np.int32)
    choice = np.zeros((slots, width), np.int32)
    cells = 1
    while cells < 4 * width:
        cells *= 2
    seen = _Seen(np.zeros(cells, np.int64), np.full(cells, -1, np.int64))

    alive, mark = 1, 0
    for slot in range(slots):
        filled = slot % capacity
        free = capacity - filled - 1
        here = _Slot(slot % 2, filled, 1.0 if free == 0 else style.open * style.patience ** (free - 1))
        found = 0
        for b in range(alive):
            mark += 1
            n_listed = _list_patches(task, plans, candidates, here, b, mark)
            found = _score(task, plans, candidates, here, b, n_listed, found)
        if found == 0:
            return np.zeros(n_patches, np.int32), -1
        _rank(candidates.score, found, candidates.bucket, candidates.ranking)
        alive = 0
        for rank in range(found):
            i = candidates.ranking[rank]
            if not _is_new(candidates.key[i], seen, slot):
                continue
            parent[slot, alive] = candidates.source[i]
            choice[slot, alive] = candidates.patch[i]
            _copy_plan(plans, here.old, candidates.source[i], alive)
            _fill_slot(task, plans, 1 - here.old, alive, filled, candidates.patch[i])
            if free == 0:
                _finish_group(task, plans, 1 - here.old, alive)
            alive += 1
            if alive == width:
                break
    best = _fewest_evictions(plans, slots % 2, alive)
    evictions = plans.book[slots % 2, best, Book.EVICTED]
    steps = np.zeros(n_patches, np.int32)
    for slot in range(slots - 1, -1, -1):  # back to the start
        if choice[slot, best] >= 0:
            steps[choice[slot, best]] = slot // capacity
        best = parent[slot, best]
    return steps, evictions


@inner
def _begin_task(growth, style):
    """Return what does not change while plans grow."""
    needs, n_patches = growth.needs, growth.pixels.shape[0]
    weight = np.zeros(needs.max() + 1 if len(needs) else 1)  # without a pixel if all is padding
    for r in range(1, weight.shape[0]):
        weight[r] = style.hold * float(r) ** style.crowd
    key_done = np.random.randint(0, 2**62, n_patches)  # noqa: NPY002
    key_now = np.random.randint(0, 2**62, n_patches)  # noqa: NPY002
    exhausted, price = ONE_LOAD * min(growth.max_loads, MOST_LOADS), int(style.price)
    slack = growth.n_steps * (growth.max_pixels.shape[0] - 1) - n_patches
    return _Task(
        growth.pixels, growth.near, growth.max_pixels, growth.bias, weight, key_done, key_now,
        exhausted, price, style.noise, slack,
    )  # fmt: skip


@inner
def _begin_plans(growth, task):
    """Return room for plans, the first of which is empty."""
    n_patches, n_pixels, width = growth.pixels.shape[0], growth.needs.shape[0], growth.width
    capacity = growth.max_pixels.shape[0] - 1
    plans = _Plans(
        np.zeros((2, width, n_pixels), np.int16),
        np.zeros((2, width, n_pixels), np.uint8),
        np.zeros((2, width, n_patches), np.uint8),
        np.full((2, width, 2 * capacity), -1, np.int32),
        np.zeros((2, width, 5), np.int32),
        np.zeros((2, width)),
        np.zeros((2, width)),
        np.zeros((2, width, 2), np.int64),
    )
    for j in range(n_pixels):
        plans.left[0, 0, j] = growth.needs[j]
        plans.on_chip[0, 0, j] = growth.chip[j]
        if growth.chip[j] & PREVIOUS and growth.needs[j] > 0:
            plans.book[0, 0, Book.UNCOVERED] += 1 + (task.price if growth.chip[j] >= task.exhausted else 0)
    return plans


@inner
def _begin_candidates(growth):
    """Return room for candidates."""
    n_patches, width = growth.pixels.shape[0], growth.width
    capacity = growth.max_pixels.shape[0] - 1
    most = width * min(n_patches, 2 * capacity * growth.near.shape[1]) + n_patches + width
    return _Candidates(
        np.zeros(most),
        np.zeros(most, np.int32),
        np.zeros(most, np.int32),
        np.zeros(most, np.int64),
        np.zeros(most, np.int32),
        np.zeros(BUCKETS + 2, np.int32),
        np.zeros(n_patches + 1, np.int32),
        np.zeros(n_patches, np.int64),
    )


@lean
def _fewest_evictions(plans, last, alive):
    """Return the plan of the last generation with the fewest evictions."""
    best = 0
    for b in range(1, alive):
        if plans.book[last, b, Book.EVICTED] < plans.book[last, best, Book.EVICTED]:
            best = b
    return best


@lean
def _list_patches(task, plans, candidates, slot, b, mark):
    """List what plan b may put into its next slot: patches near its last groups, all if there are none.

    It is -1 for leaving the slot empty. Returns the length of ``candidates.listed``.
    """
    listed, stamp, near, done = candidates.listed, candidates.stamp, task.near, plans.done
    old, filled = slot.old, slot.filled
    closed = plans.book[old, b, Book.CLOSED] == 1
    n_listed = 0
    if not closed:
        for i in range(plans.member.shape[2]):
            x = plans.member[old, b, i]
            if x >= 0:
                for i_near in range(near.shape[1]):
                    y = near[x, i_near]
                    if y >= 0 and stamp[y] != mark and done[old, b, y] == 0:
                        stamp[y] = mark
                        listed[n_listed] = y
                        n_listed += 1
        if n_listed == 0:
            for y in range(done.shape[2]):
                if done[old, b, y] == 0:
                    listed[n_listed] = y
                    n_listed += 1
    free = plans.member.shape[2] // 2 - filled
    if filled > 0 and (closed or plans.book[old, b, Book.EMPTY] + free <= task.slack):
        listed[n_listed] = -1
        n_listed += 1
    return n_listed


@lean
def _score(task, plans, candidates, slot, b, n_listed, found):
    """Make candidates of what is listed for plan b, if it fits into the memory; return how many there are."""
    old, filled, urge = slot.old, slot.filled, slot.urge
    for i in range(n_listed):
        y = candidates.listed[i]
        uncovered = plans.book[old, b, Book.UNCOVERED]
        held = plans.book[old, b, Book.HELD]
        ahead = plans.front[old, b] + plans.drift[old, b]
        now = plans.keys[old, b, 1] + 77
        if y >= 0:
            ahead += task.bias[y]
            for q in range(task.pixels.shape[1]):
                j = task.pixels[y, q]
                if j < 0:
                    continue
                bits = plans.on_chip[old, b, j]
                r = plans.left[old, b, j]
                ahead += task.weight[r - 1]
                if bits & CURRENT:
                    ahead -= task.weight[r]
                else:
                    held += 1
                    if bits & PREVIOUS:
                        uncovered -= 1 + (task.price if bits >= task.exhausted else 0)
            if held > task.max_pixels[filled + 1]:
                continue
            now = plans.keys[old, b, 1] ^ task.key_now[y] ^ task.key_done[y]
        score = plans.book[old, b, Book.EVICTED] + urge * uncovered + ahead
        candidates.score[found] = score + task.noise * np.random.random()  # noqa: NPY002
        candidates.source[found] = b
        candidates.patch[found] = y
        candidates.key[found] = plans.keys[old, b, 0] ^ now
        found += 1
    return found


@inner
def _rank(score, found, bucket, ranking):
    """Sort the candidates, finely near the best score and not at all far above it."""
    least = score[0]
    for i in range(found):
        least = min(least, score[i])
    for i in range(BUCKETS + 2):
        bucket[i] = 0
    for i in range(found):
        score[i] = min((score[i] - least) * BUCKETS_PER_POINT, BUCKETS)
        bucket[int(score[i]) + 1] += 1
    for i in range(BUCKETS):
        bucket[i + 1] += bucket[i]
    for i in range(found):
        level = int(score[i])
        ranking[bucket[level]] = i
        bucket[level] += 1


@lean
def _is_new(key, seen, slot):
    """Enter the key of a plan into the hash table; return False if it is there."""
    mask = seen.key.shape[0] - 1
    cell = (key ^ (key >> 31)) & mask
    while seen.slot[cell] == slot and seen.key[cell] != key:
        cell = (cell + 1) & mask
    if seen.slot[cell] == slot:
        return False
    seen.slot[cell] = slot
    seen.key[cell] = key
    return True


@lean
def _copy_plan(plans, old, b, a):
    """Copy plan b of the old generation to place a of the new one."""
    new = 1 - old
    # Plain loops: assigning slices takes seconds to compile.
    for j in range(plans.left.shape[2]):
        plans.left[new, a, j] = plans.left[old, b, j]
        plans.on_chip[new, a, j] = plans.on_chip[old, b, j]
    for x in range(plans.done.shape[2]):
        plans.done[new, a, x] = plans.done[old, b, x]
    for i in range(plans.member.shape[2]):
        plans.member[new, a, i] = plans.member[old, b, i]
    for i in range(plans.book.shape[2]):
        plans.book[new, a, i] = plans.book[old, b, i]
    plans.keys[new, a, 0] = plans.keys[old, b, 0]
    plans.keys[new, a, 1] = plans.keys[old, b, 1]
    plans.front[new, a] = plans.front[old, b]
    plans.drift[new, a] = plans.drift[old, b]


@lean
def _fill_slot(task, plans, new, a, filled, y):
    """Give a plan patch y, or close its group if that is -1."""
    if y < 0:
        plans.book[new, a, Book.EMPTY] += 1
        plans.book[new, a, Book.CLOSED] = 1
        return
    plans.done[new, a, y] = 1
    plans.drift[new, a] += task.bias[y]
    plans.member[new, a, plans.member.shape[2] // 2 + filled] = y
    plans.keys[new, a, 0] ^= task.key_done[y]
    plans.keys[new, a, 1] ^= task.key_now[y]
    for q in range(task.pixels.shape[1]):
        j = task.pixels[y, q]
        if j < 0:
            continue
        bits = plans.on_chip[new, a, j]
        r = plans.left[new, a, j]
        plans.left[new, a, j] = r - 1
        plans.front[new, a] += task.weight[r - 1]
        if bits & CURRENT:
            plans.front[new, a] -= task.weight[r]
        else:
            plans.book[new, a, Book.HELD] += 1
            plans.on_chip[new, a, j] = bits | CURRENT
            if bits & PREVIOUS:
                plans.book[new, a, Book.UNCOVERED] -= 1 + (task.price if bits >= task.exhausted else 0)
            elif bits < ONE_LOAD * MOST_LOADS:
                plans.on_chip[new, a, j] += ONE_LOAD


@lean
def _finish_group(task, plans, new, a):
    """Let what the current group does not cover leave the memory, and make it the previous group."""
    capacity = plans.member.shape[2] // 2
    uncovered = 0
    for j in range(plans.on_chip.shape[2]):
        bits = plans.on_chip[new, a, j]
        bits = (bits & ~np.uint8(3)) | ((bits & CURRENT) >> 1)
        plans.on_chip[new, a, j] = bits
        if bits & PREVIOUS and plans.left[new, a, j] > 0:
            uncovered += 1 + (task.price if bits >= task.exhausted else 0)
    for i in range(capacity):
        plans.member[new, a, i] = plans.member[new, a, capacity + i]
        plans.member[new, a, capacity + i] = -1
    plans.book[new, a, Book.EVICTED] += plans.book[new, a, Book.UNCOVERED]
    plans.book[new, a, Book.UNCOVERED] = uncovered
    plans.book[new, a, Book.HELD] = 0
    plans.book[new, a, Book.CLOSED] = 0
    plans.keys[new, a, 0] ^= plans.keys[new, a, 1] * 3
    plans.keys[new, a, 1] = 0
    plans.front[new, a] = 0.0
