"""The compiled kernel of the beam search: plans that grow patch by patch, many side by side."""

# Numba infers the types of compiled functions; docstrings state them where it matters.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
from numba import njit

inner = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""For functions that only compiled ones call: without the ways in from Python they compile faster."""

PREVIOUS, CURRENT, ONE_LOAD = 1, 2, 4
"""Bits of a pixel on chip: in the group before, in the group that grows; above them its loads."""

EVICTED, UNCOVERED, HELD, EMPTY, CLOSED = range(5)
"""What is booked per plan: pixels evicted though needed, pixels of the previous group that are needed but
not in the current one, pixels of the current one, slots left empty, whether the current group is closed."""

MOST_LOADS = 62
BUCKETS, BUCKETS_PER_POINT = 4096, 100
"""Resolution in which scores are compared."""


@njit(cache=True, nogil=True)
def grow(pixels, near, needs, chip, room, bias, n_steps, max_loads, width, style, seed):
    """Grow plans of `n_steps` groups; return the step of each patch in the best, and its evictions.

    The slots of all groups are filled one after the other. A slot may stay empty while there are more slots
    than patches; then the group is closed. A pixel loaded for the first time costs the same in every
    plan, so a plan is charged only when a pixel leaves the memory while patches that need it remain.

    Parameters
    ----------
    pixels : int32, shape (patches, k)
        Pixels of each patch, -1 for none.
    near : int32, shape (patches, m)
        Patches worth a thought when a patch has been placed, -1 for none.
    needs : int16, shape (pixels,)
        Number of patches that need each pixel, and one more where it is needed after the last group.
    chip : uint8, shape (pixels,)
        Which pixels are on chip at the beginning (`PREVIOUS`), and ``ONE_LOAD`` times their loads so far.
    room : int32, shape (group_size + 1,)
        Most pixels of a group with so many patches.
    bias : float, shape (patches,)
        What is added to the score of a plan for each patch that it has computed: where it is low, the front
        is drawn ahead.
    n_steps, max_loads, width : int
        Number of groups; most loads of a pixel; plans kept side by side.
    style : (open, patience, hold, crowd, noise, price)
        Taste of the search. An uncovered pixel weighs ``open * patience ** (free slots - 1)`` (1 when no slot
        is free); a pixel of the current group that r more patches need weighs ``hold * r ** crowd``; each
        score is raised at random by up to ``noise``. A pixel that may not be loaded again counts
        ``price`` more when it is evicted or uncovered.
    seed : int

    Returns
    -------
    steps : int32, shape (patches,)
    evictions : int
        With the prices paid; -1 if the search died in a dead end.
    """
    np.random.seed(seed)  # noqa: NPY002  (what compiled code has)
    open_, patience, hold, crowd, noise, price = style
    n_patches, k = pixels.shape
    n_pixels = needs.shape[0]
    capacity = room.shape[0] - 1
    slots = n_steps * capacity
    slack = slots - n_patches
    exhausted = ONE_LOAD * min(max_loads, MOST_LOADS)
    weight = np.zeros(needs.max() + 1)
    for r in range(1, weight.shape[0]):
        weight[r] = hold * float(r) ** crowd
    # Zobrist keys: plans that agree on what is done and on the groups that matter are the same.
    key_done = np.random.randint(0, 2**62, n_patches)  # noqa: NPY002
    key_now = np.random.randint(0, 2**62, n_patches)  # noqa: NPY002

    # Two generations of plans, and the tree of decisions behind them.
    left = np.zeros((2, width, n_pixels), np.int16)
    on_chip = np.zeros((2, width, n_pixels), np.uint8)
    done = np.zeros((2, width, n_patches), np.uint8)
    member = np.full((2, width, 2 * capacity), -1, np.int32)
    book = np.zeros((2, width, 5), np.int32)
    price = int(price)
    front = np.zeros((2, width))
    drift = np.zeros((2, width))
    keys = np.zeros((2, width, 2), np.int64)
    parent = np.zeros((slots, width), np.int32)
    choice = np.zeros((slots, width), np.int32)
    for j in range(n_pixels):
        left[0, 0, j] = needs[j]
        on_chip[0, 0, j] = chip[j]
        if chip[j] & PREVIOUS and needs[j] > 0:
            book[0, 0, UNCOVERED] += 1 + (price if chip[j] >= exhausted else 0)
    alive = 1

    most = width * min(n_patches, 2 * capacity * near.shape[1]) + n_patches + width
    score = np.zeros(most)
    source = np.zeros(most, np.int32)
    patch = np.zeros(most, np.int32)
    key = np.zeros(most, np.int64)
    ranking = np.zeros(most, np.int32)
    bucket = np.zeros(BUCKETS + 2, np.int32)
    listed = np.zeros(n_patches + 1, np.int32)
    stamp = np.zeros(n_patches, np.int64)
    mark = 0
    cells = 1
    while cells < 4 * width:
        cells *= 2
    table = np.zeros(cells, np.int64)
    table_slot = np.full(cells, -1, np.int64)

    for slot in range(slots):
        old, new = slot % 2, 1 - slot % 2
        filled = slot % capacity
        free = capacity - filled - 1
        urge = 1.0 if free == 0 else open_ * patience ** (free - 1)
        found = 0
        for b in range(alive):
            closed = book[old, b, CLOSED] == 1
            n_listed = 0
            if not closed:
                mark += 1
                for i in range(2 * capacity):
                    x = member[old, b, i]
                    if x >= 0:
                        for i_near in range(near.shape[1]):
                            y = near[x, i_near]
                            if y >= 0 and stamp[y] != mark and done[old, b, y] == 0:
                                stamp[y] = mark
                                listed[n_listed] = y
                                n_listed += 1
                if n_listed == 0:
                    for y in range(n_patches):
                        if done[old, b, y] == 0:
                            listed[n_listed] = y
                            n_listed += 1
            if filled > 0 and (closed or book[old, b, EMPTY] + free + 1 <= slack):
                listed[n_listed] = -1
                n_listed += 1
            for i in range(n_listed):
                y = listed[i]
                evicted = book[old, b, EVICTED]
                uncovered = book[old, b, UNCOVERED]
                held = book[old, b, HELD]
                ahead = front[old, b] + drift[old, b]
                now = keys[old, b, 1] + 77
                if y >= 0:
                    ahead += bias[y]
                    for q in range(k):
                        j = pixels[y, q]
                        if j < 0:
                            continue
                        bits = on_chip[old, b, j]
                        r = left[old, b, j]
                        ahead += weight[r - 1]
                        if bits & CURRENT:
                            ahead -= weight[r]
                        else:
                            held += 1
                            if bits & PREVIOUS:
                                uncovered -= 1 + (price if bits >= exhausted else 0)
                    if held > room[filled + 1]:
                        continue
                    now = keys[old, b, 1] ^ key_now[y] ^ key_done[y]
                score[found] = evicted + urge * uncovered + ahead + noise * np.random.random()  # noqa: NPY002
                source[found] = b
                patch[found] = y
                key[found] = keys[old, b, 0] ^ now
                found += 1
        if found == 0:
            return np.zeros(n_patches, np.int32), -1
        _rank(score, found, bucket, ranking)
        alive = 0
        for rank in range(found):
            i = ranking[rank]
            cell = (key[i] ^ (key[i] >> 31)) & (cells - 1)
            while table_slot[cell] == slot and table[cell] != key[i]:
                cell = (cell + 1) & (cells - 1)
            if table_slot[cell] == slot:
                continue
            table_slot[cell] = slot
            table[cell] = key[i]
            b, y, a = source[i], patch[i], alive
            alive += 1
            parent[slot, a] = b
            choice[slot, a] = y
            # Plain loops: assigning slices takes seconds to compile.
            for j in range(n_pixels):
                left[new, a, j] = left[old, b, j]
                on_chip[new, a, j] = on_chip[old, b, j]
            for x in range(n_patches):
                done[new, a, x] = done[old, b, x]
            for i in range(2 * capacity):
                member[new, a, i] = member[old, b, i]
            for i in range(5):
                book[new, a, i] = book[old, b, i]
            keys[new, a, 0] = keys[old, b, 0]
            keys[new, a, 1] = keys[old, b, 1]
            front[new, a] = front[old, b]
            drift[new, a] = drift[old, b]
            if y >= 0:
                done[new, a, y] = 1
                drift[new, a] += bias[y]
                member[new, a, capacity + filled] = y
                keys[new, a, 0] ^= key_done[y]
                keys[new, a, 1] ^= key_now[y]
                for q in range(k):
                    j = pixels[y, q]
                    if j < 0:
                        continue
                    bits = on_chip[new, a, j]
                    r = left[new, a, j]
                    left[new, a, j] = r - 1
                    front[new, a] += weight[r - 1]
                    if bits & CURRENT:
                        front[new, a] -= weight[r]
                    else:
                        book[new, a, HELD] += 1
                        on_chip[new, a, j] = bits | CURRENT
                        if bits & PREVIOUS:
                            book[new, a, UNCOVERED] -= 1 + (price if bits >= exhausted else 0)
                        elif bits < ONE_LOAD * MOST_LOADS:
                            on_chip[new, a, j] += ONE_LOAD
            else:
                book[new, a, EMPTY] += 1
                book[new, a, CLOSED] = 1
            if free == 0:
                _finish_group(left, on_chip, member, book, new, a, exhausted, price)
                keys[new, a, 0] ^= keys[new, a, 1] * 3
                keys[new, a, 1] = 0
                front[new, a] = 0.0
            if alive == width:
                break
    last = slots % 2
    best = 0
    for b in range(1, alive):
        if book[last, b, EVICTED] < book[last, best, EVICTED]:
            best = b
    evictions = book[last, best, EVICTED]
    steps = np.zeros(n_patches, np.int32)
    for slot in range(slots - 1, -1, -1):
        if choice[slot, best] >= 0:
            steps[choice[slot, best]] = slot // capacity
        best = parent[slot, best]
    return steps, evictions


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


@inner
def _finish_group(left, on_chip, member, book, new, a, exhausted, price):
    """Let what the current group does not cover leave the memory, and make it the previous group."""
    capacity = member.shape[2] // 2
    uncovered = 0
    for j in range(on_chip.shape[2]):
        bits = on_chip[new, a, j]
        bits = (bits & ~np.uint8(3)) | ((bits & CURRENT) >> 1)
        on_chip[new, a, j] = bits
        if bits & PREVIOUS and left[new, a, j] > 0:
            uncovered += 1 + (price if bits >= exhausted else 0)
    for i in range(capacity):
        member[new, a, i] = member[new, a, capacity + i]
        member[new, a, capacity + i] = -1
    book[new, a, EVICTED] += book[new, a, UNCOVERED]
    book[new, a, UNCOVERED] = uncovered
    book[new, a, HELD] = 0
    book[new, a, CLOSED] = 0
