"""The compiled step of the search over orders of patches; docs/offloading.md has the argument.

A state is a set of patches that are done, the fewest reloads so far, and a chain of sets of pixels, each in
the next, with a slack for each: of a set's elements no more than its slack may still stay until they are
needed again. Which of the others stay is decided when they are needed.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.bitsets import Words
from tilewright.core.jit import inner, kernel, popcount

CHAIN = 6
"""Most sets of a chain. The loosest one is left out beyond that, which only admits more."""

GONE = 1 << 30
"""Reloads of a state that another one is no worse than."""

SYMMETRIES = 8

ONE, BYTE = np.uint64(1), np.uint64(255)


class States(NamedTuple):
    """States with equally many steps.

    Attributes
    ----------
    done : uint64, shape (states, words of patches)
    sets : uint64, shape (states, CHAIN, words of pixels)
        The chain, the smallest set first.
    slacks : int32, shape (states, CHAIN)
        Ascending.
    lengths : int32, shape (states,)
        Sets of each chain.
    reloads : int32, shape (states,)
        Fewest reloads so far, in elements; `GONE` of a state that is left out.
    totals : int32, shape (states,)
        The same and those that must still come, of elements that cannot stay.
    origins : int64, shape (states,)
        The state one step before times `SYMMETRIES`, plus the symmetry that was applied after the step.
    following : int64, shape (states,)
        The next state in the same bucket, or -1.
    heads : int64, shape (buckets,)
        The newest state of each bucket, or -1: those with equal patches share one.
    used : int64, shape (1,)
        How many states there are.
    """

    done: Words
    sets: Words
    slacks: NDArray[np.int32]
    lengths: NDArray[np.int32]
    reloads: NDArray[np.int32]
    totals: NDArray[np.int32]
    origins: NDArray[np.int64]
    following: NDArray[np.int64]
    heads: NDArray[np.int64]
    used: NDArray[np.int64]


class Scratch(NamedTuple):
    """A state that is being made: before a step, after it, its image, and pixels of the state before."""

    done: Words
    sets: Words
    slacks: NDArray[np.int64]
    image: Words
    best: Words
    moved: Words
    waiting: Words


@inner
def waiting_pixels(done, patch_pixels, waiting):
    """Find the pixels that patches of `done` and others need, and return how many patches are left."""
    left = 0
    touched = np.zeros_like(waiting)
    waiting[:] = np.uint64(0)
    for patch in range(len(patch_pixels)):
        if done[patch >> 6] >> np.uint64(patch & 63) & ONE:
            for w in range(len(waiting)):
                touched[w] |= patch_pixels[patch, w]
        else:
            left += 1
            for w in range(len(waiting)):
                waiting[w] |= patch_pixels[patch, w]
    for w in range(len(waiting)):
        waiting[w] &= touched[w]
    return left


@inner
def end_waits(sets, slacks, length, pixels, depth):
    """Let pixels that a step needs wait no longer; return how many of their elements have not stayed.

    Those stay that leave most slack: of the outermost sets first.
    """
    away = 0
    for j in range(length - 1, -1, -1):
        ending = 0
        for w in range(len(pixels)):
            found = sets[j, w] & pixels[w]
            if j:
                found &= ~sets[j - 1, w]
            ending += popcount(found)
        if ending:
            stay = ending * depth
            for i in range(j, length):
                stay = min(stay, slacks[i])
            for i in range(j, length):
                slacks[i] -= stay
            away += ending * depth - stay
    for j in range(length):
        for w in range(len(pixels)):
            sets[j, w] &= ~pixels[w]
    return away


@inner
def tighten(sets, slacks, length, depth):
    """Drop sets of a chain that the others imply; return how many are left."""
    for j in range(length - 2, -1, -1):
        slacks[j] = min(slacks[j], slacks[j + 1])
    kept = 0
    for j in range(length):
        more = 0
        for w in range(sets.shape[1]):
            found = sets[j, w]
            if kept:
                found &= ~sets[kept - 1, w]
            more += popcount(found)
        inside = slacks[kept - 1] if kept else 0
        if slacks[j] >= inside + depth * more:
            continue
        if kept and slacks[j] == inside:
            kept -= 1
        for w in range(sets.shape[1]):
            sets[kept, w] = sets[j, w]
        slacks[kept] = slacks[j]
        kept += 1
    return min(kept, CHAIN)


@inner
def elements_away(sets, slacks, length, depth):
    """Return how many elements of a chain's sets cannot stay."""
    away = 0
    for j in range(length):
        many = 0
        for w in range(sets.shape[1]):
            many += popcount(sets[j, w])
        away = max(away, depth * many - slacks[j])
    return away


@inner
def excess(sets, slacks, length, others, slacks_of_others, length_of_others, depth):
    """Return how many more elements can stay by the other chain than by the first, of the worst set."""
    most = 0
    for j in range(length):
        can = 0
        for w in range(sets.shape[1]):
            can += popcount(sets[j, w])
        can *= depth
        for i in range(length_of_others):
            outside = 0
            for w in range(sets.shape[1]):
                outside += popcount(sets[j, w] & ~others[i, w])
            can = min(can, slacks_of_others[i] + depth * outside)
        most = max(most, can - slacks[j])
    return most


@inner
def image_of(bits, table, found):
    """Write the image of a set under a symmetry."""
    found[:] = np.uint64(0)
    for octet in range(table.shape[0]):
        byte = bits[octet >> 3] >> np.uint64(8 * (octet & 7)) & BYTE
        if byte:
            row = table[octet, np.int64(byte)]
            for w in range(len(found)):
                found[w] |= row[w]


@inner
def least_image(done, tables, image, best):
    """Write the least image of a set of patches, and return the symmetry that gives it."""
    chosen = 0
    best[:] = done
    for s in range(1, tables.shape[0]):
        image_of(done, tables[s], image)
        for w in range(len(done)):
            if image[w] != best[w]:
                if image[w] < best[w]:
                    best[:] = image
                    chosen = s
                break
    return chosen


@inner
def bucket_of(done, buckets):
    """Return the bucket of a set of patches; their number is a power of two."""
    mixed = np.uint64(0)
    for w in range(len(done)):
        mixed = (mixed ^ done[w]) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return np.int64(mixed & np.uint64(buckets - 1))


@inner
def insert(states, made, length, reloads, total, origin, depth):
    """Add a state unless another one is no worse; leave out those that it is no worse than.

    Returns whether there was room.
    """
    done, sets, slacks = made.best, made.sets, made.slacks
    bucket = bucket_of(done, len(states.heads))
    at = states.heads[bucket]
    while at >= 0:
        same = states.reloads[at] < GONE
        for w in range(len(done)):
            same = same and states.done[at, w] == done[w]
        if same:
            gap, more = reloads - states.reloads[at], total - states.totals[at]
            there, slacks_there, many = states.sets[at], states.slacks[at], states.lengths[at]
            if (
                gap >= 0
                and more >= 0
                and excess(there, slacks_there, many, sets, slacks, length, depth) <= gap
            ):
                return True
            if (
                gap <= 0
                and more <= 0
                and excess(sets, slacks, length, there, slacks_there, many, depth) <= -gap
            ):
                states.reloads[at] = GONE
        at = states.following[at]
    at = states.used[0]
    if at == len(states.done):
        return False
    states.used[0] = at + 1
    for w in range(len(done)):
        states.done[at, w] = done[w]
    for j in range(length):
        states.slacks[at, j] = slacks[j]
        for w in range(sets.shape[1]):
            states.sets[at, j, w] = sets[j, w]
    states.lengths[at], states.reloads[at], states.totals[at] = length, reloads, total
    states.origins[at] = origin
    states.following[at] = states.heads[bucket]
    states.heads[bucket] = at
    return True


@inner
def take_step(number, group, states, tables, rules, after, made):
    """Add what is after a step with a group, if it keeps the budget; return whether there was room for it."""
    _, _, budget, weight, most = rules
    depth, length = tables.depth, states.lengths[number]
    pixels = tables.group_pixels[group]
    for w in range(len(made.done)):
        made.done[w] = states.done[number, w] | tables.group_patches[group, w]
    for j in range(length):
        made.slacks[j] = states.slacks[number, j]
        for w in range(len(pixels)):
            made.sets[j, w] = states.sets[number, j, w]
    reloads = states.reloads[number] + end_waits(made.sets, made.slacks, length, pixels, depth)
    if weight * reloads > budget:
        return True
    for w in range(len(pixels)):
        made.sets[length, w] = made.waiting[w] & ~pixels[w]
    made.slacks[length] = tables.rooms[group]
    length = tighten(made.sets, made.slacks, length + 1, depth)
    total = reloads + elements_away(made.sets, made.slacks, length, depth)
    if total > most or (weight - 1) * reloads + total > budget:
        return True
    symmetry = least_image(made.done, tables.patch_images, made.image, made.best)
    if symmetry:
        for j in range(length):
            image_of(made.sets[j], tables.pixel_images[symmetry], made.moved)
            made.sets[j] = made.moved
    origin = number * SYMMETRIES + symmetry
    return insert(after, made, length, reloads, total, origin, depth)


@kernel(nogil=True)
def expand(first, last, states, tables, rules, after):
    """Add all states after one more step to `after`; return the first that there was no room to go on from.

    Parameters
    ----------
    first, last
        Which of `states`.
    tables : Tables
    rules : (int, int, int, int, int)
        Steps after this one; most patches of a step; most reloads, so many times those so far added to those
        that must come; how many times; and most reloads in all, each counted once.
    """
    later, size, budget, weight, most = rules
    n_sets = tables.group_pixels.shape[1]
    made = Scratch(
        np.zeros(states.done.shape[1], np.uint64),
        np.zeros((CHAIN + 1, n_sets), np.uint64),
        np.zeros(CHAIN + 1, np.int64),
        np.zeros(states.done.shape[1], np.uint64),
        np.zeros(states.done.shape[1], np.uint64),
        np.zeros(n_sets, np.uint64),
        np.zeros(n_sets, np.uint64),
    )
    for number in range(first, last):
        if states.reloads[number] == GONE:
            continue
        left = waiting_pixels(states.done[number], tables.patch_pixels, made.waiting)
        for group in range(len(tables.sizes)):
            rest = left - tables.sizes[group]
            if rest < later or rest > later * size:
                continue
            apart = True
            for w in range(len(made.done)):
                apart = apart and not states.done[number, w] & tables.group_patches[group, w]
            if not apart:
                continue
            away = 0
            for w in range(n_sets):
                away += popcount(made.waiting[w] & ~tables.group_pixels[group, w])
            away = tables.depth * away - tables.rooms[group]
            total = states.reloads[number] + max(0, away)
            if total > most or (weight - 1) * states.reloads[number] + total > budget:
                continue
            if not take_step(number, group, states, tables, rules, after, made):
                return number
    return last


@kernel(nogil=True)
def link(states):
    """Put all states into their buckets, of which there are more now."""
    states.heads[:] = -1
    for at in range(states.used[0]):
        bucket = bucket_of(states.done[at], len(states.heads))
        states.following[at] = states.heads[bucket]
        states.heads[bucket] = at
