"""The compiled kernel of simulated annealing over orders of patches, where pixels may stay.

For a given order the pixels that stay are chosen by Belady's rule: of what a step does not need, those go
first that are needed latest. All pixels have one size and one price, so that this loads as little as any
choice does.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np

from tilewright.core.jit import inner, kernel

NEVER = 1 << 30


AWAY, COUNTED = -1, -2
"""Stamps of pixels that are not on chip: that is all, or they are counted already."""


@inner
def load_missing(group, step, pixels, held, n_held, stamp):
    """Load what a step needs and is not on chip; return how many pixels it needs, and how many are there."""
    needed = 0
    for patch in group:
        for tap in range(pixels.shape[1]):
            pixel = pixels[patch, tap]
            if pixel < 0 or stamp[pixel] == step:
                continue
            needed += 1
            if stamp[pixel] == AWAY:
                held[n_held] = pixel
                n_held += 1
            stamp[pixel] = step
    return needed, n_held


@inner
def forget_unused(step, users, step_of, held, n_held, later, stamp):
    """Forget what no later step needs, and find when the others are needed next; return how many stay."""
    kept = 0
    for number in range(n_held):
        pixel = held[number]
        following = NEVER
        for user in range(users.shape[1]):
            patch = users[pixel, user]
            if patch >= 0 and step < step_of[patch] < following:
                following = step_of[patch]
        if following == NEVER:
            stamp[pixel] = AWAY
            continue
        held[kept] = pixel
        later[kept] = following
        kept += 1
    return kept


@inner
def count_missing(group, pixels, stamp):
    """Return how many pixels of a group are not on chip."""
    missing = 0
    for patch in group:
        for tap in range(pixels.shape[1]):
            pixel = pixels[patch, tap]
            if pixel >= 0 and stamp[pixel] == AWAY:
                missing += 1
                stamp[pixel] = COUNTED
    for patch in group:
        for tap in range(pixels.shape[1]):
            pixel = pixels[patch, tap]
            if pixel >= 0 and stamp[pixel] == COUNTED:
                stamp[pixel] = AWAY
    return missing


@inner
def make_room(step, room, held, n_held, later, stamp):
    """Forget what is needed latest, but not what the next step needs; return how many stay."""
    while n_held > 0 and n_held > room:
        worst = 0
        for number in range(1, n_held):
            if later[number] > later[worst]:
                worst = number
        if later[worst] == step + 1:
            break
        stamp[held[worst]] = AWAY
        n_held -= 1
        held[worst] = held[n_held]
        later[worst] = later[n_held]
    return n_held


@inner
def loads_of(order, size, pixels, users, capacity, step_of, held, later, stamp):
    """Return the pixels loaded by groups of an order, plus 1,000 for each that a step has no room for.

    Parameters
    ----------
    order : int, shape (n_patches,)
    size
        Patches of a group.
    pixels : int, shape (n_patches, taps)
        Pixels of each patch, -1 for none.
    users : int, shape (n_pixels, most)
        Patches that need each pixel, -1 for none.
    capacity
        Pixels that may be on chip.
    step_of, held, later, stamp
        Space for the step of each patch, and the pixels on chip; the next step that needs each of them; of
        each pixel the last step that needed it, or `AWAY`.
    """
    n = len(order)
    for place in range(n):
        step_of[order[place]] = place // size
    stamp[:] = AWAY
    loads = n_held = 0
    steps = (n + size - 1) // size
    for step in range(steps):
        group = order[step * size : min(n, (step + 1) * size)]
        needed, n_now = load_missing(group, step, pixels, held, n_held, stamp)
        loads += n_now - n_held
        if needed > capacity:
            loads += 1000 * (needed - capacity)
        n_held = forget_unused(step, users, step_of, held, n_now, later, stamp)
        if step + 1 == steps:
            break
        group = order[(step + 1) * size : min(n, (step + 2) * size)]
        room = capacity - count_missing(group, pixels, stamp)
        n_held = make_room(step, room, held, n_held, later, stamp)
    return loads


@kernel(nogil=True)
def anneal(order, size, pixels, users, capacity, attempts, hot, cold, seed, goal):
    """Exchange, move and reverse patches of an order; return the best order found, and its loads.

    Parameters
    ----------
    order : int, shape (n_patches,)
        Where to begin.
    attempts
        Number of changes that are tried.
    hot, cold
        Pixels by which a change may be worse at the beginning and at the end, about.
    goal
        Loads at which to stop.
    """
    np.random.seed(seed)  # noqa: NPY002
    n = len(order)
    step_of = np.zeros(n, dtype=np.int64)
    held = np.zeros(len(users) + 1, dtype=np.int64)
    later = np.zeros(len(users) + 1, dtype=np.int64)
    stamp = np.zeros(len(users), dtype=np.int64)
    now = order.copy()
    value = loads_of(now, size, pixels, users, capacity, step_of, held, later, stamp)
    best, least = now.copy(), value
    tried = now.copy()
    for attempt in range(attempts):
        if least <= goal:
            break
        heat = hot * (cold / hot) ** (attempt / attempts)
        tried[:] = now
        kind = np.random.random()  # noqa: NPY002
        first, second = np.random.randint(0, n), np.random.randint(0, n)  # noqa: NPY002
        if kind < 0.35:
            near = min(n - 1, first + 1 + np.random.randint(0, 3 * size))  # noqa: NPY002
            tried[first], tried[near] = now[near], now[first]
        elif kind < 0.5:
            tried[first], tried[second] = now[second], now[first]
        else:
            low, high = min(first, second), max(first, second) + 1
            if kind < 0.75:
                high = min(high, low + 4 * size)
            if kind < 0.85:  # a stretch is reversed
                for place in range(low, high):
                    tried[place] = now[high - 1 - (place - low)]
            else:  # a patch moves to the end of the stretch
                for place in range(low, high - 1):
                    tried[place] = now[place + 1]
                tried[high - 1] = now[low]
        found = loads_of(tried, size, pixels, users, capacity, step_of, held, later, stamp)
        if found <= value or np.random.random() < np.exp((value - found) / heat):  # noqa: NPY002
            now[:] = tried
            value = found
            if value < least:
                best[:] = now
                least = value
    return best, least
