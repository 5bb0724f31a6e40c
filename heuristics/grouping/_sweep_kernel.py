"""The compiled kernel of the sweep: plans that grow group by group and first cover what must stay on chip.

Where hardly a pixel is to be loaded twice, most of a group is dictated: it must cover all pixels on chip that
are still needed. These patches come first, each where least choice is left. The others are free, and chosen
so that the plan keeps to a timetable and its front stays short.
"""

# Numba infers the types of compiled functions; docstrings state them where it matters.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.jit import kernel
from tilewright.heuristics.grouping._beam_kernel import inner, lean

REWARD = 0.1
"""What a pixel that is on chip already counts when a patch is chosen."""

TOLERANCE, STRAIN = 2.0, 0.03
"""Steps by which a patch may miss the timetable, and the cost of the square of further steps."""


class SweepStyle(NamedTuple):
    """Taste of the sweep. The first two and the noise vary at random from group to group.

    Attributes
    ----------
    pull
        What a patch counts for each step that it is late.
    hold, crowd
        A pixel that r more patches need counts ``hold * r ** crowd`` when a patch is chosen.
    noise
        What a patch counts is raised at random by up to this much.
    length
        A pixel that r more patches need counts ``length * r ** crowd`` when plans are compared.
    """

    pull: float
    hold: float
    crowd: float
    noise: float
    length: float


class _Task(NamedTuple):
    """What does not change while plans grow; for the first four see `Sweep`.

    Attributes
    ----------
    everyone : int32, shape (patches,)
        All patches.
    weight : float, shape (needs + 1,)
        ``r ** crowd`` for a pixel that r patches need.
    key_done, key_now : int64, shape (patches,)
        Zobrist keys: plans that agree on the patches left and on the last group are the same.
    """

    pixels: NDArray[np.int32]
    owners: NDArray[np.int32]
    near: NDArray[np.int32]
    goal: NDArray[np.float64]
    everyone: NDArray[np.int32]
    weight: NDArray[np.float64]
    key_done: NDArray[np.int64]
    key_now: NDArray[np.int64]


class _Plans(NamedTuple):
    """Two generations of `width` plans, the old one and the new one.

    Attributes
    ----------
    done : bool, shape (2, width, patches)
    on_chip : bool, shape (2, width, pixels)
    left : int16, shape (2, width, pixels)
        Number of remaining patches that need each pixel.
    evicted : int64, shape (2, width)
        Pixels that left the memory while patches needed them.
    early : float, shape (2, width)
        Squares of the steps by which patches came too early.
    """

    done: NDArray[np.bool_]
    on_chip: NDArray[np.bool_]
    left: NDArray[np.int16]
    evicted: NDArray[np.int64]
    early: NDArray[np.float64]


class _Candidates(NamedTuple):
    """Groups that may come next: `width` times `tries` of them.

    Attributes
    ----------
    group : int32, shape (candidates, capacity)
    source, size : int32, shape (candidates,)
        The plan that it follows, and its number of patches.
    score : float, shape (candidates,)
        The lower the better.
    evictions : int64
    early : float
        As in `_Plans`, with this group.
    key : int64
        Equal for plans that are the same.
    """

    group: NDArray[np.int32]
    source: NDArray[np.int32]
    size: NDArray[np.int32]
    score: NDArray[np.float64]
    evictions: NDArray[np.int64]
    early: NDArray[np.float64]
    key: NDArray[np.int64]


class _Growing(NamedTuple):
    """A plan while its next group is filled: patches done, patches left per pixel, pixels covered."""

    done: NDArray[np.bool_]
    left: NDArray[np.int16]
    covered: NDArray[np.bool_]


@lean
def _must_cover(owners, done, left, chip, uncovered):
    """List the pixels on chip that a remaining patch needs; return how many there are."""
    n_uncovered = 0
    for j in range(left.shape[0]):
        if chip[j] and left[j] > 0:
            # What is needed after the last group only cannot be held by another patch.
            for y in owners[j]:
                if y >= 0 and not done[y]:
                    uncovered[n_uncovered] = j
                    n_uncovered += 1
                    break
    return n_uncovered


@lean
def _list_near(near, group, seen, size, listed, around, n_around):
    """List what is near the patches of the group from number `seen` on; return how many are listed."""
    for x in range(seen, size):
        for q in range(near.shape[1]):
            y = near[group[x], q]
            if y >= 0 and not listed[y]:
                listed[y] = True
                around[n_around] = y
                n_around += 1
    return n_around


@lean
def _best_of(task, candidates, n, style, step, chip, now):
    """Return the best of the first n candidates for the group, -1 if all are done."""
    pull, hold, noise = style
    chosen, best = -1, 0.0
    for x in range(n):
        y = candidates[x]
        if y < 0 or now.done[y]:
            continue
        late = step - task.goal[y]
        score = pull * (late if late > -1.0 else -late * late)
        score += noise * np.random.random()  # noqa: NPY002
        for q in range(task.pixels.shape[1]):
            j = task.pixels[y, q]
            if j < 0:
                continue
            r = now.left[j]
            score -= hold * task.weight[r - 1]
            if now.covered[j]:
                score += hold * task.weight[r]
            elif chip[j]:
                score += REWARD
        if chosen < 0 or score > best:
            chosen, best = y, score
    return chosen


@inner
def _fill(task, style, step, chip, now, group):
    """Fill a group while there are patches; return how many it got. Changes `now`, too.

    Parameters
    ----------
    style : (pull, hold, noise)
        Of this group.
    step
        Number of the group.
    chip : bool, shape (pixels,)
        What is on chip before it.
    now : _Growing
    group : int32, shape (slots,)
    """
    n_patches, n_pixels = task.goal.shape[0], now.left.shape[0]
    size, seen, n_around = 0, 0, 0
    around = np.empty(n_patches, np.int32)
    listed = np.zeros(n_patches, np.bool_)
    uncovered = np.empty(n_pixels, np.int32)
    n_uncovered = _must_cover(task.owners, now.done, now.left, chip, uncovered)
    for _ in range(group.shape[0]):
        # The pixel that the fewest patches can cover, roughly.
        tightest, least, kept = -1, 0.0, 0
        for i in range(n_uncovered):
            j = uncovered[i]
            if not now.covered[j]:
                uncovered[kept] = j
                kept += 1
                choice = now.left[j] + 3.0 * style[2] * np.random.random()  # noqa: NPY002
                if tightest < 0 or choice < least:
                    tightest, least = j, choice
        n_uncovered = kept
        if tightest >= 0:
            owners = task.owners[tightest]
            chosen = _best_of(task, owners, owners.shape[0], style, step, chip, now)
        else:
            n_around = _list_near(task.near, group, seen, size, listed, around, n_around)
            seen = size
            chosen = _best_of(task, around, n_around, style, step, chip, now)
            if chosen < 0:
                chosen = _best_of(task, task.everyone, n_patches, style, step, chip, now)
        if chosen < 0:
            break
        group[size] = chosen
        size += 1
        now.done[chosen] = True
        for q in range(task.pixels.shape[1]):
            j = task.pixels[chosen, q]
            if j >= 0:
                now.left[j] -= 1
                now.covered[j] = True
    return size


@lean
def _judge(task, plans, candidates, old, i, step, length, now):
    """Score candidate i, the group that `now` has got."""
    b = candidates.source[i]
    candidates.evictions[i] = plans.evicted[old, b]
    front = 0.0
    for j in range(now.left.shape[0]):
        if now.left[j] > 0:
            if now.covered[j]:
                front += task.weight[now.left[j]]
            elif plans.on_chip[old, b, j]:
                candidates.evictions[i] += 1
    late = 0.0
    candidates.key[i] = 0
    for y in range(now.done.shape[0]):
        if not now.done[y]:
            late += max(0.0, step - task.goal[y] - TOLERANCE) ** 2
            candidates.key[i] ^= task.key_done[y]
    candidates.early[i] = plans.early[old, b]
    for x in range(candidates.size[i]):
        y = candidates.group[i, x]
        candidates.early[i] += max(0.0, task.goal[y] - step - TOLERANCE) ** 2
        candidates.key[i] ^= task.key_now[y]
    candidates.score[i] = candidates.evictions[i] + length * front + STRAIN * (late + candidates.early[i])


@lean
def _take_over(task, plans, candidates, old, i, new, a):
    """Make candidate i plan a of the new generation."""
    b = candidates.source[i]
    plans.evicted[new, a] = candidates.evictions[i]
    plans.early[new, a] = candidates.early[i]
    for y in range(plans.done.shape[2]):
        plans.done[new, a, y] = plans.done[old, b, y]
    for j in range(plans.left.shape[2]):
        plans.left[new, a, j] = plans.left[old, b, j]
        plans.on_chip[new, a, j] = False
    for x in range(candidates.size[i]):
        y = candidates.group[i, x]
        plans.done[new, a, y] = True
        for q in range(task.pixels.shape[1]):
            j = task.pixels[y, q]
            if j >= 0:
                plans.left[new, a, j] -= 1
                plans.on_chip[new, a, j] = True


@lean
def _best_plan(plans, last, alive):
    """Return the plan with the fewest evictions, and these.

    What the last group does not hold, though it is needed afterwards, is loaded once more.
    """
    best, fewest = 0, -1
    for b in range(alive):
        lost = plans.evicted[last, b]
        for j in range(plans.left.shape[2]):
            if plans.left[last, b, j] > 0 and not plans.on_chip[last, b, j]:
                lost += 1
        if fewest < 0 or lost < fewest:
            best, fewest = b, lost
    return best, fewest


class Sweep(NamedTuple):
    """What plans are grown of.

    Attributes
    ----------
    pixels : int32, shape (patches, k)
        Pixels of each patch, -1 for none.
    owners : int32, shape (pixels, m)
        Patches that need each pixel, -1 for none.
    near : int32, shape (patches, l)
        Patches that are considered when a patch has been placed, -1 for none.
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
    """

    pixels: NDArray[np.int32]
    owners: NDArray[np.int32]
    near: NDArray[np.int32]
    needs: NDArray[np.int16]
    chip: NDArray[np.bool_]
    capacity: int
    goal: NDArray[np.float64]
    n_steps: int
    width: int
    tries: int


@kernel(nogil=True)
def grow_by_group(sweep, style, seed):
    """Grow plans; return the step of each patch in the best, and its evictions.

    A plan is charged when a pixel leaves the memory while patches that need it remain, and when patches miss
    the timetable by far. Limits on memory and on loads are not looked at.

    Parameters
    ----------
    sweep : Sweep
    style : SweepStyle
    seed : int

    Returns
    -------
    steps : int32, shape (patches,)
    evictions : int
    """
    np.random.seed(seed)  # noqa: NPY002  (what compiled code has)
    n_patches, n_pixels = sweep.pixels.shape[0], sweep.needs.shape[0]
    n_steps, width, tries = sweep.n_steps, sweep.width, sweep.tries
    task, plans, candidates = _begin_task(sweep, style), _begin_plans(sweep), _begin_candidates(sweep)
    # The tree of groups behind the plans: which plan each came from, and the group that it got.
    parent = np.zeros((n_steps, width), np.int32)
    groups = np.full((n_steps, width, sweep.capacity), -1, np.int32)
    now = _Growing(np.zeros(n_patches, np.bool_), np.zeros(n_pixels, np.int16), np.zeros(n_pixels, np.bool_))
    taken = np.zeros(width, np.int64)

    alive, remaining = 1, n_patches
    for step in range(n_steps):
        old, new = step % 2, 1 - step % 2
        # Slots that stay empty are spread over the steps.
        quota = -(-remaining // (n_steps - step))
        remaining -= quota
        for i in range(alive * tries):
            b = i // tries
            _copy_plan(plans, old, b, now)
            varied = (
                style.pull * (0.5 + np.random.random()),  # noqa: NPY002
                style.hold * (0.3 + 1.4 * np.random.random()),  # noqa: NPY002
                style.noise * np.random.random(),  # noqa: NPY002
            )
            candidates.source[i] = b
            candidates.size[i] = _fill(
                task, varied, step, plans.on_chip[old, b], now, candidates.group[i, :quota]
            )
            _judge(task, plans, candidates, old, i, step, style.length, now)
        ranking = np.argsort(candidates.score[: alive * tries], kind="mergesort")
        alive = 0
        for i in ranking:
            known = False
            for a in range(alive):
                known = known or taken[a] == candidates.key[i]
            if known:
                continue
            taken[alive] = candidates.key[i]
            parent[step, alive] = candidates.source[i]
            for x in range(candidates.size[i]):
                groups[step, alive, x] = candidates.group[i, x]
            _take_over(task, plans, candidates, old, i, new, alive)
            alive += 1
            if alive == width:
                break
    best, fewest = _best_plan(plans, n_steps % 2, alive)
    steps = np.zeros(n_patches, np.int32)
    for step in range(n_steps - 1, -1, -1):
        for x in range(sweep.capacity):
            if groups[step, best, x] >= 0:
                steps[groups[step, best, x]] = step
        best = parent[step, best]
    return steps, fewest


@inner
def _begin_task(sweep, style):
    """Return what does not change while plans grow."""
    needs, n_patches = sweep.needs, sweep.pixels.shape[0]
    weight = np.zeros(needs.max() + 1 if len(needs) else 1)  # without a pixel if all is padding
    for r in range(1, weight.shape[0]):
        weight[r] = float(r) ** style.crowd
    key_done = np.random.randint(0, 2**62, n_patches)  # noqa: NPY002
    key_now = np.random.randint(0, 2**62, n_patches)  # noqa: NPY002
    everyone = np.arange(n_patches).astype(np.int32)
    return _Task(sweep.pixels, sweep.owners, sweep.near, sweep.goal, everyone, weight, key_done, key_now)


@inner
def _begin_plans(sweep):
    """Return room for plans, the first of which is empty."""
    n_patches, n_pixels, width = sweep.pixels.shape[0], sweep.needs.shape[0], sweep.width
    plans = _Plans(
        np.zeros((2, width, n_patches), np.bool_),
        np.zeros((2, width, n_pixels), np.bool_),
        np.zeros((2, width, n_pixels), np.int16),
        np.zeros((2, width), np.int64),
        np.zeros((2, width)),
    )
    for j in range(n_pixels):
        plans.left[0, 0, j] = sweep.needs[j]
        plans.on_chip[0, 0, j] = sweep.chip[j]
    return plans


@inner
def _begin_candidates(sweep):
    """Return room for candidates."""
    most = sweep.width * sweep.tries
    return _Candidates(
        np.zeros((most, sweep.capacity), np.int32),
        np.zeros(most, np.int32),
        np.zeros(most, np.int32),
        np.zeros(most),
        np.zeros(most, np.int64),
        np.zeros(most),
        np.zeros(most, np.int64),
    )


@lean
def _copy_plan(plans, old, b, now):
    """Begin the next group of plan b."""
    # Plain loops: assigning slices takes seconds to compile.
    for y in range(now.done.shape[0]):
        now.done[y] = plans.done[old, b, y]
    for j in range(now.left.shape[0]):
        now.left[j] = plans.left[old, b, j]
        now.covered[j] = False
