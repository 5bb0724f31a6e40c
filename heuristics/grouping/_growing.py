"""The compiled kernel of the beam search: plans that grow patch by patch, many side by side."""

from __future__ import annotations

import numpy as np
from numba import njit

PREVIOUS, CURRENT, ONE_LOAD = 1, 2, 4
"""Bits of a pixel on chip: in the group before, in the group that grows; above them its loads."""

EVICTED, UNCOVERED, HELD, EMPTY, CLOSED = range(5)
"""What is booked per plan: pixels evicted though needed, pixels of the previous group that are needed but
not in the current one, pixels of the current one, slots left empty, whether the current group is closed."""

MOST_LOADS = 62
TOO_OFTEN = 1000
"""Price of loading a pixel more often than allowed, in evictions."""


@njit(cache=True)
def grow(pixels, near, needs, chip, room, n_steps, max_loads, width, style, seed):
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
    n_steps, max_loads, width : int
        Number of groups; most loads of a pixel; plans kept side by side.
    style : (open, patience, hold, crowd, noise)
        Taste of the search. An uncovered pixel weighs ``open * patience ** (free slots - 1)`` (1 when no slot
        is free); a pixel of the current group that r more patches need weighs ``hold * r ** crowd``; each
        score is raised at random by up to ``noise``.
    seed : int

    Returns
    -------
    steps : int32, shape (patches,)
    evictions : int
        -1 if the search died in a dead end.
    """
    np.random.seed(seed)  # noqa: NPY002  (what compiled code has)
    open_, patience, hold, crowd, noise = style
    n_patches, k = pixels.shape
    n_pixels = needs.shape[0]
    capacity = room.shape[0] - 1
    slots = n_steps * capacity
    slack = slots - n_patches
    max_loads = min(max_loads, MOST_LOADS)
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
    front = np.zeros((2, width))
    keys = np.zeros((2, width, 2), np.int64)
    parent = np.zeros((slots, width), np.int32)
    choice = np.zeros((slots, width), np.int32)
    left[0, 0] = needs
    on_chip[0, 0] = chip
    for j in range(n_pixels):
        if chip[j] & PREVIOUS and needs[j] > 0:
            book[0, 0, UNCOVERED] += 1
    alive = 1

    score = np.zeros(64 * width)
    source = np.zeros(64 * width, np.int32)
    patch = np.zeros(64 * width, np.int32)
    key = np.zeros(64 * width, np.int64)
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
                        for y in near[x]:
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
            if found + n_listed > score.shape[0]:
                more = score.shape[0]
                score = np.append(score, np.zeros(more))
                source = np.append(source, np.zeros(more, np.int32))
                patch = np.append(patch, np.zeros(more, np.int32))
                key = np.append(key, np.zeros(more, np.int64))
            for i in range(n_listed):
                y = listed[i]
                evicted = book[old, b, EVICTED]
                uncovered = book[old, b, UNCOVERED]
                held = book[old, b, HELD]
                ahead = front[old, b]
                now = keys[old, b, 1] + 77
                if y >= 0:
                    for j in pixels[y]:
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
                                uncovered -= 1
                            elif bits >= ONE_LOAD * max_loads:
                                evicted += TOO_OFTEN
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
        ranking = np.argsort(score[:found])
        alive = 0
        for i in ranking:
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
            left[new, a] = left[old, b]
            on_chip[new, a] = on_chip[old, b]
            done[new, a] = done[old, b]
            member[new, a] = member[old, b]
            book[new, a] = book[old, b]
            keys[new, a] = keys[old, b]
            front[new, a] = front[old, b]
            if y >= 0:
                done[new, a, y] = 1
                member[new, a, capacity + filled] = y
                keys[new, a, 0] ^= key_done[y]
                keys[new, a, 1] ^= key_now[y]
                for j in pixels[y]:
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
                            book[new, a, UNCOVERED] -= 1
                        else:
                            if bits >= ONE_LOAD * max_loads:
                                book[new, a, EVICTED] += TOO_OFTEN
                            if bits < ONE_LOAD * MOST_LOADS:
                                on_chip[new, a, j] += ONE_LOAD
            else:
                book[new, a, EMPTY] += 1
                book[new, a, CLOSED] = 1
            if free == 0:
                _finish_group(pixels, left[new, a], on_chip[new, a], member[new, a], book[new, a])
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


@njit(cache=True)
def _finish_group(pixels, left, on_chip, member, book):
    """Let what the current group does not cover leave the memory, and make it the previous group."""
    capacity = member.shape[0] // 2
    book[EVICTED] += book[UNCOVERED]
    for j in range(on_chip.shape[0]):
        on_chip[j] = (on_chip[j] & ~np.uint8(3)) | ((on_chip[j] & CURRENT) >> 1)
    uncovered = 0
    for j in range(on_chip.shape[0]):
        if on_chip[j] & PREVIOUS and left[j] > 0:
            uncovered += 1
    member[:capacity] = member[capacity:]
    member[capacity:] = -1
    book[UNCOVERED] = uncovered
    book[HELD] = 0
    book[CLOSED] = 0
