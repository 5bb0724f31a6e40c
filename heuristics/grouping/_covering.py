"""The compiled kernel of the sweep: plans that grow group by group and first cover what must stay on chip.

Where hardly a pixel is to be loaded twice, most of a group is dictated: it must cover all pixels on chip that
are still needed. These patches come first, each where least choice is left. The others are free, and chosen
so that the plan keeps to a timetable and its front stays short.
"""

# Numba infers the types of compiled functions; docstrings state them where it matters.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
from numba import njit

from tilewright.heuristics.grouping._growing import inner

REWARD = 0.1
"""What a pixel counts that is on chip already, when a patch is chosen."""

TOLERANCE, STRAIN = 2.0, 0.03
"""Steps by which a patch may miss the timetable, and what the square of each step more costs a plan."""


@inner
def _fill(pixels, owners, near, everyone, goal, weight, taste, step, left, chip, done, covered, group):
    """Fill a group, as long as there are patches; all arrays from `left` on are changed, but not `chip`."""
    pull, hold, noise = taste
    size, seen, n_around = 0, 0, 0
    around = np.empty(goal.shape[0], np.int32)
    listed = np.zeros(goal.shape[0], np.bool_)
    uncovered = np.empty(left.shape[0], np.int32)
    n_uncovered = 0
    for j in range(left.shape[0]):
        if chip[j] and left[j] > 0:
            # What is needed after the last group only cannot be held by another patch.
            for y in owners[j]:
                if y >= 0 and not done[y]:
                    uncovered[n_uncovered] = j
                    n_uncovered += 1
                    break
    for _ in range(group.shape[0]):
        tightest, least, kept = -1, 0.0, 0
        for i in range(n_uncovered):
            j = uncovered[i]
            if not covered[j]:
                uncovered[kept] = j
                kept += 1
                choice = left[j] + 3.0 * noise * np.random.random()  # noqa: NPY002
                if tightest < 0 or choice < least:
                    tightest, least = j, choice
        n_uncovered = kept
        chosen, best = -1, 0.0
        for attempt in range(2):
            if tightest >= 0:
                candidates = owners[tightest]
            else:
                while seen < size:
                    for q in range(near.shape[1]):
                        y = near[group[seen], q]
                        if y >= 0 and not listed[y]:
                            listed[y] = True
                            around[n_around] = y
                            n_around += 1
                    seen += 1
                candidates = around[:n_around] if attempt == 0 else everyone
            for y in candidates:
                if y < 0 or done[y]:
                    continue
                late = step - goal[y]
                score = pull * (late if late > -1.0 else -late * late)
                score += noise * np.random.random()  # noqa: NPY002
                for q in range(pixels.shape[1]):
                    j = pixels[y, q]
                    if j < 0:
                        continue
                    r = left[j]
                    score -= hold * weight[r - 1]
                    if covered[j]:
                        score += hold * weight[r]
                    elif chip[j]:
                        score += REWARD
                if chosen < 0 or score > best:
                    chosen, best = y, score
            if chosen >= 0:
                break
        if chosen < 0:
            break
        group[size] = chosen
        size += 1
        done[chosen] = True
        for q in range(pixels.shape[1]):
            j = pixels[chosen, q]
            if j >= 0:
                left[j] -= 1
                covered[j] = True
    return size


@njit(cache=True, nogil=True)
def grow(pixels, owners, near, needs, chip, capacity, goal, n_steps, width, tries, style, seed):
    """Grow plans of `n_steps` groups; return the step of each patch in the best, and its evictions.

    A plan is charged when a pixel leaves the memory while patches that need it remain, and when patches miss
    the timetable by far. Limits on memory and on loads are not looked at.

    Parameters
    ----------
    pixels : int32, shape (patches, k)
        Pixels of each patch, -1 for none.
    owners : int32, shape (pixels, m)
        Patches that need each pixel, -1 for none.
    near : int32, shape (patches, l)
        Patches worth a thought when a patch has been placed, -1 for none.
    needs : int16, shape (pixels,)
        Number of patches that need each pixel, and one more where it is needed after the last group.
    chip : bool, shape (pixels,)
        Which pixels are on chip at the beginning.
    capacity : int
        Most patches of a group.
    goal : float, shape (patches,)
        The timetable: step in which to compute each patch, roughly.
    n_steps, width, tries : int
        Number of groups; plans kept side by side; groups tried for each.
    style : (pull, hold, crowd, noise, length)
        Taste of the search. A patch that is late counts `pull` for each step; a pixel that r more patches
        need counts ``hold * r ** crowd`` when a patch is chosen and ``length * r ** crowd`` when plans are
        compared; what a patch counts is raised at random by up to `noise`. These vary from try to try.
    seed : int

    Returns
    -------
    steps : int32, shape (patches,)
    evictions : int
    """
    np.random.seed(seed)  # noqa: NPY002  (what compiled code has)
    pull, hold, crowd, noise, length = style
    n_patches, n_pixels = pixels.shape[0], needs.shape[0]
    weight = np.zeros(needs.max() + 1)
    for r in range(1, weight.shape[0]):
        weight[r] = float(r) ** crowd
    # Zobrist keys: plans that agree on what is done and on the last group are the same.
    key_done = np.random.randint(0, 2**62, n_patches)  # noqa: NPY002
    key_now = np.random.randint(0, 2**62, n_patches)  # noqa: NPY002

    # Two generations of plans, and the tree of groups behind them.
    done = np.zeros((2, width, n_patches), np.bool_)
    on_chip = np.zeros((2, width, n_pixels), np.bool_)
    left = np.zeros((2, width, n_pixels), np.int16)
    evicted = np.zeros((2, width), np.int64)
    early = np.zeros((2, width))
    parent = np.zeros((n_steps, width), np.int32)
    groups = np.full((n_steps, width, capacity), -1, np.int32)
    for j in range(n_pixels):
        left[0, 0, j] = needs[j]
        on_chip[0, 0, j] = chip[j]
    alive = 1

    # The candidates for the next generation.
    most = width * tries
    group = np.zeros((most, capacity), np.int32)
    source = np.zeros(most, np.int32)
    size = np.zeros(most, np.int32)
    score = np.zeros(most)
    evictions = np.zeros(most, np.int64)
    hasty = np.zeros(most)
    key = np.zeros(most, np.int64)
    taken = np.zeros(width, np.int64)
    covered = np.zeros(n_pixels, np.bool_)
    now_done = np.zeros(n_patches, np.bool_)
    now_left = np.zeros(n_pixels, np.int16)
    everyone = np.arange(n_patches).astype(np.int32)

    remaining = n_patches
    for step in range(n_steps):
        old, new = step % 2, 1 - step % 2
        # Slots that stay empty are spread over the steps.
        quota = -(-remaining // (n_steps - step))
        remaining -= quota
        for i in range(alive * tries):
            b = i // tries
            # Plain loops: assigning slices takes seconds to compile.
            for y in range(n_patches):
                now_done[y] = done[old, b, y]
            for j in range(n_pixels):
                now_left[j] = left[old, b, j]
                covered[j] = False
            taste = (
                pull * (0.5 + np.random.random()),  # noqa: NPY002
                hold * (0.3 + 1.4 * np.random.random()),  # noqa: NPY002
                noise * np.random.random(),  # noqa: NPY002
            )
            size[i] = _fill(
                pixels, owners, near, everyone, goal, weight,
                taste, step, now_left, on_chip[old, b], now_done, covered, group[i, :quota],
            )  # fmt: skip
            source[i] = b
            evictions[i] = evicted[old, b]
            front = 0.0
            for j in range(n_pixels):
                if now_left[j] > 0:
                    if covered[j]:
                        front += weight[now_left[j]]
                    elif on_chip[old, b, j]:
                        evictions[i] += 1
            late = 0.0
            key[i] = 0
            for y in range(n_patches):
                if not now_done[y]:
                    late += max(0.0, step - goal[y] - TOLERANCE) ** 2
                    key[i] ^= key_done[y]
            hasty[i] = early[old, b]
            for x in range(size[i]):
                y = group[i, x]
                hasty[i] += max(0.0, goal[y] - step - TOLERANCE) ** 2
                key[i] ^= key_now[y]
            score[i] = evictions[i] + length * front + STRAIN * (late + hasty[i])
        ranking = np.argsort(score[: alive * tries])
        alive = 0
        for i in ranking:
            known = False
            for a in range(alive):
                known = known or taken[a] == key[i]
            if known:
                continue
            b, a = source[i], alive
            alive += 1
            taken[a] = key[i]
            parent[step, a] = b
            evicted[new, a] = evictions[i]
            early[new, a] = hasty[i]
            for y in range(n_patches):
                done[new, a, y] = done[old, b, y]
            for j in range(n_pixels):
                left[new, a, j] = left[old, b, j]
                on_chip[new, a, j] = False
            for x in range(size[i]):
                y = group[i, x]
                groups[step, a, x] = y
                done[new, a, y] = True
                for q in range(pixels.shape[1]):
                    j = pixels[y, q]
                    if j >= 0:
                        left[new, a, j] -= 1
                        on_chip[new, a, j] = True
            if alive == width:
                break
    # What the last group does not hold, though it is needed afterwards, is loaded once more.
    last, best, fewest = n_steps % 2, 0, -1
    for b in range(alive):
        lost = evicted[last, b]
        for j in range(n_pixels):
            if left[last, b, j] > 0 and not on_chip[last, b, j]:
                lost += 1
        if fewest < 0 or lost < fewest:
            best, fewest = b, lost
    steps = np.zeros(n_patches, np.int32)
    for step in range(n_steps - 1, -1, -1):
        for x in range(capacity):
            if groups[step, best, x] >= 0:
                steps[groups[step, best, x]] = step
        best = parent[step, best]
    return steps, fewest
