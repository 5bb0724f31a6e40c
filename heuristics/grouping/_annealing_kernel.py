"""The compiled kernel of simulated annealing over whole plans or over windows of them.

A plan is a sequence of *rows*; a row is one group. Row 0 stands for the empty memory before the first and
after the last step. Everything is counted as in equations 5 to 8 of the S1 paper, but incrementally: a row
knows how many of its patches contain each pixel, a pixel knows how often it is loaded.
"""

# Numba infers the types of compiled functions; docstrings state them where it matters.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.jit import inlined, kernel, lean


class Total(IntEnum):
    """What is counted of a plan, in `Groups.totals`."""

    LOADS = 0
    """Pixel loads."""
    OVER = 1
    """Violations: loads of a pixel, and pixels of a group, beyond the limits."""
    STEPS = 2
    """Steps."""
    ROWS_FREE = 3
    """Rows that stand for no group."""


class Column(IntEnum):
    """Columns of `Groups.row`."""

    SIZE = 0
    """Number of patches."""
    HELD = 1
    """Number of distinct pixels."""
    PLACE = 2
    """Position in the sequence."""


EXCHANGE, LEAVE, REVERSE = 0.96, 0.965, 0.98
"""Moves are drawn from [0, 1): up to EXCHANGE patches move between groups, up to LEAVE one leaves for a group
of its own, up to REVERSE two stretches change places, beyond it one stretch is reversed."""

NEAR = 0.6
"""Of the exchanges, those below are with the group of a patch near by, others with one near in time."""

FORBIDDEN = 1e6
"""Pixel loads that a violation adds to the value of the best plan: few violations come first."""


class Groups(NamedTuple):
    """A sequence of groups under change; all arrays are changed in place.

    Attributes
    ----------
    pixels : int32, shape (patches, k)
        Pixels of each patch, -1 for none.
    row_of : int32, shape (patches,)
        Row that computes each patch.
    members : int32, shape (rows, group_size)
        Patches of each row.
    row : int32, shape (rows, 3)
        See `Column`.
    holds : int16, shape (rows, pixels)
        How many patches of the row contain the pixel.
    order : int32, shape (rows + 2,)
        Row at each position of the sequence; row 0 at both ends.
    loads : int32, shape (pixels,)
        Loads of each pixel.
    max_pixels : int32, shape (group_size + 1,)
        Most pixels of a group, by its number of patches (equation 12).
    totals : int64, shape (4,)
        See `Total`.
    """

    pixels: NDArray[np.int32]
    row_of: NDArray[np.int32]
    members: NDArray[np.int32]
    row: NDArray[np.int32]
    holds: NDArray[np.int16]
    order: NDArray[np.int32]
    loads: NDArray[np.int32]
    max_pixels: NDArray[np.int32]
    totals: NDArray[np.int64]


class State(NamedTuple):
    """What annealing works on. `groups` stands apart, as passing many arrays is slow in compiled code.

    Attributes
    ----------
    groups
        The plan.
    near : int32, shape (moving patches, m)
        Patches close to each patch that moves, -1 for none: it may move to their groups.
    frozen : bool, shape (rows,)
        Rows that must stay as they are: row 0, and the surroundings of a window.
    unused : int32, shape (rows,)
        Stack of rows that stand for no group.
    seen : int64, shape (pixels + 1,)
        Scratch to visit each shared pixel once; the last entry is the current mark.
    best_row_of, best_order, best_loads, best_totals
        The best plan so far, see `FORBIDDEN`.
    """

    groups: Groups
    near: NDArray[np.int32]
    frozen: NDArray[np.bool_]
    unused: NDArray[np.int32]
    seen: NDArray[np.int64]
    best_row_of: NDArray[np.int32]
    best_order: NDArray[np.int32]
    best_loads: NDArray[np.int32]
    best_totals: NDArray[np.int64]


@lean
def _change_loads(all_loads, totals, pixel, change, max_loads):
    """Count one run of a pixel more or less."""
    loads = all_loads[pixel]
    all_loads[pixel] = loads + change
    totals[Total.LOADS] += change
    if change > 0:
        if loads >= max_loads:
            totals[Total.OVER] += 1
    elif loads > max_loads:
        totals[Total.OVER] -= 1


@lean
def _toggle(s, patch, row, add, max_loads):
    """Add a patch to a row, or take it out."""
    at = s.row[row, Column.PLACE]
    before = s.order[at - 1]
    after = s.order[at + 1]
    s.totals[Total.OVER] -= max(0, s.row[row, Column.HELD] - s.max_pixels[s.row[row, Column.SIZE]])
    size = s.row[row, Column.SIZE]
    if add:
        s.members[row, size] = patch
        s.row[row, Column.SIZE] = size + 1
        s.row_of[patch] = row
    else:
        for i in range(size):
            if s.members[row, i] == patch:
                s.members[row, i] = s.members[row, size - 1]
                break
        s.row[row, Column.SIZE] = size - 1
    for q in range(s.pixels.shape[1]):
        pixel = s.pixels[patch, q]
        if pixel < 0:
            continue
        count = s.holds[row, pixel]
        s.holds[row, pixel] = count + 1 if add else count - 1
        if count == (0 if add else 1):
            # A pixel that appears alone begins a run; between two others it joins their runs.
            change = 1
            if s.holds[before, pixel] > 0:
                change -= 1
            if s.holds[after, pixel] > 0:
                change -= 1
            if not add:
                change = -change
            s.row[row, Column.HELD] += 1 if add else -1
            if change != 0:
                _change_loads(s.loads, s.totals, pixel, change, max_loads)
    s.totals[Total.OVER] += max(0, s.row[row, Column.HELD] - s.max_pixels[s.row[row, Column.SIZE]])


@lean
def _tie(s, seen, first, second, change, max_loads):
    """Make two rows neighbours in the sequence (change -1), or separate them (+1).

    Every pixel that both hold is one run instead of two.
    """
    if s.row[first, Column.SIZE] > s.row[second, Column.SIZE]:
        first, second = second, first
    seen[-1] += 1
    mark = seen[-1]
    for i in range(s.row[first, Column.SIZE]):
        patch = s.members[first, i]
        for q in range(s.pixels.shape[1]):
            pixel = s.pixels[patch, q]
            if pixel >= 0 and s.holds[second, pixel] > 0 and seen[pixel] != mark:
                seen[pixel] = mark
                _change_loads(s.loads, s.totals, pixel, change, max_loads)


@lean
def _put(s, at, row):
    s.order[at] = row
    s.row[row, Column.PLACE] = at


@lean
def _insert_row(s, seen, unused, at, max_loads):
    """Put an empty row at a position of the sequence and return it."""
    n = s.totals[Total.STEPS]
    _tie(s, seen, s.order[at - 1], s.order[at], 1, max_loads)
    s.totals[Total.ROWS_FREE] -= 1
    row = unused[s.totals[Total.ROWS_FREE]]
    for i in range(n + 1, at - 1, -1):
        _put(s, i + 1, s.order[i])
    _put(s, at, row)
    s.totals[Total.STEPS] = n + 1
    return row


@lean
def _delete_row(s, seen, unused, at, max_loads):
    """Take an empty row out of the sequence."""
    n = s.totals[Total.STEPS]
    unused[s.totals[Total.ROWS_FREE]] = s.order[at]
    s.totals[Total.ROWS_FREE] += 1
    for i in range(at, n + 1):
        _put(s, i, s.order[i + 1])
    s.totals[Total.STEPS] = n - 1
    _tie(s, seen, s.order[at - 1], s.order[at], -1, max_loads)


@lean
def _exchange(s, x, a, z, b, max_loads):
    """Move patch x from row a to row b, and patch z, if there is one, the other way."""
    _toggle(s, x, a, False, max_loads)
    if z >= 0:
        _toggle(s, z, b, False, max_loads)
        _toggle(s, z, a, True, max_loads)
    _toggle(s, x, b, True, max_loads)


@lean
def _reverse(s, first, last):
    """Reverse the rows at positions first..last without counting anything."""
    while first < last:
        row = s.order[first]
        _put(s, first, s.order[last])
        _put(s, last, row)
        first += 1
        last -= 1


@lean
def _rearrange(s, seen, first, middle, last, undo, max_loads):
    """Swap the rows first..middle with middle + 1..last; without a middle, reverse first..last."""
    _tie(s, seen, s.order[first - 1], s.order[first], 1, max_loads)
    _tie(s, seen, s.order[last], s.order[last + 1], 1, max_loads)
    if middle >= first:
        if undo:
            middle = first + last - middle - 1
        _tie(s, seen, s.order[middle], s.order[middle + 1], 1, max_loads)
        _reverse(s, first, middle)
        _reverse(s, middle + 1, last)
        middle = first + last - middle - 1
    _reverse(s, first, last)
    if middle >= first:
        _tie(s, seen, s.order[middle], s.order[middle + 1], -1, max_loads)
    _tie(s, seen, s.order[first - 1], s.order[first], -1, max_loads)
    _tie(s, seen, s.order[last], s.order[last + 1], -1, max_loads)


@lean
def _remember(state):
    """Keep the present plan as the best."""
    s = state.groups
    for i in range(s.row_of.shape[0]):
        state.best_row_of[i] = s.row_of[i]
    for i in range(s.order.shape[0]):
        state.best_order[i] = s.order[i]
    for i in range(s.loads.shape[0]):
        state.best_loads[i] = s.loads[i]
    for i in range(s.totals.shape[0]):
        state.best_totals[i] = s.totals[i]


@lean
def _below(n):
    return int(np.random.random() * n)  # noqa: NPY002  (what compiled code has)


class Limits(NamedTuple):
    """Limits of the moves.

    Attributes
    ----------
    max_loads
        Most loads of a pixel.
    fewest, most
        Fewest and most steps.
    longest
        Most rows that one change of the sequence moves.
    """

    max_loads: int
    fewest: int
    most: int
    longest: int


class Weights(NamedTuple):
    """What a violation and a step count, in pixel loads."""

    violation: float
    step: float


class Cooling(NamedTuple):
    """How many moves are tried, at which temperatures.

    Attributes
    ----------
    moves
        Moves to try.
    hot, cold
        First and last temperature, in pixel loads; geometric in between.
    """

    moves: int
    hot: float
    cold: float


@inlined
def _value(totals, weights):
    """Return the value of the present plan, in pixel loads."""
    loads = totals[Total.LOADS] + weights.violation * totals[Total.OVER]
    return loads + weights.step * totals[Total.STEPS]


@inlined
def _try_exchange(state, x, kind, limits, weights, limit):
    """Move patch x to another group, mostly in exchange for a patch of that; return whether that is kept.

    If x was alone, its group vanishes.
    """
    s, near, max_loads = state.groups, state.near, limits.max_loads
    a, n = s.row_of[x], s.totals[Total.STEPS]
    at = s.row[a, Column.PLACE]
    if kind < NEAR:
        y = near[x, _below(near.shape[1])]
        if y < 0:
            return False
        b = s.row_of[y]
    else:
        there = at + _below(7) - 3
        if there < 1 or there > n:
            return False
        b = s.order[there]
    if a == b or state.frozen[b]:
        return False
    z = -1
    if s.row[b, Column.SIZE] == s.members.shape[1] or kind * 1000 % 1 < 0.5:
        z = s.members[b, _below(s.row[b, Column.SIZE])]
    alone = z < 0 and s.row[a, Column.SIZE] == 1
    if alone and n <= limits.fewest:
        return False
    _exchange(s, x, a, z, b, max_loads)
    if alone:
        _delete_row(s, state.seen, state.unused, at, max_loads)
    if _value(s.totals, weights) > limit:
        if alone:
            # The same row is on top of the stack of unused ones.
            _insert_row(s, state.seen, state.unused, at, max_loads)
        _exchange(s, x, b, z, a, max_loads)
        return False
    return True


@inlined
def _try_leaving(state, x, limits, weights, limit):
    """Let patch x leave for a group of its own, beside the old one; return whether that is kept."""
    s, max_loads = state.groups, limits.max_loads
    a = s.row_of[x]
    if (
        s.totals[Total.STEPS] >= limits.most
        or s.totals[Total.ROWS_FREE] == 0
        or s.row[a, Column.SIZE] == 1
    ):  # fmt: skip
        return False
    at = s.row[a, Column.PLACE] + _below(2)
    b = _insert_row(s, state.seen, state.unused, at, max_loads)
    _exchange(s, x, a, -1, b, max_loads)
    if _value(s.totals, weights) > limit:
        _exchange(s, x, b, -1, a, max_loads)
        _delete_row(s, state.seen, state.unused, at, max_loads)
        return False
    return True


@inlined
def _try_rearranging(state, x, kind, limits, weights, limit):
    """Reverse a stretch from the row of x on, or let its beginning and its end change places.

    Returns whether that is kept.
    """
    s, max_loads = state.groups, limits.max_loads
    first = s.row[s.row_of[x], Column.PLACE]
    last, n = first, s.totals[Total.STEPS]
    reach = 1 + _below(limits.longest)
    while last - first < reach and last < n and not state.frozen[s.order[last + 1]]:
        last += 1
    if last == first:
        return False
    middle = first - 1
    if kind < REVERSE:
        middle = first + _below(last - first)
    _rearrange(s, state.seen, first, middle, last, False, max_loads)
    if _value(s.totals, weights) > limit:
        _rearrange(s, state.seen, first, middle, last, True, max_loads)
        return False
    return True


@kernel(nogil=True)
def anneal(state, cooling, seed, limits, weights, best, goal):
    """Anneal for a number of moves from one temperature down to another.

    Parameters
    ----------
    state : State
    cooling : Cooling
    seed : int
    limits : Limits
    weights : Weights
    best : float
        Value that a plan must be below to be kept in ``best_*``, see `FORBIDDEN`.
    goal : float
        A value that needs no improvement.

    Returns
    -------
    float
        Value of the plan in ``best_*``, or `best` if none was below it.
    """
    np.random.seed(seed)  # noqa: NPY002
    s = state.groups
    value = _value(s.totals, weights)
    moves, temperature = cooling.moves, cooling.hot
    factor = (cooling.cold / cooling.hot) ** (64.0 / max(64, moves))
    for move in range(moves):
        if move % 64 == 63:
            temperature *= factor
        limit = value - temperature * math.log(1.0 - np.random.random())  # noqa: NPY002
        x = _below(state.near.shape[0])
        if state.frozen[s.row_of[x]]:
            continue
        kind = np.random.random()  # noqa: NPY002
        if kind < EXCHANGE:
            kept = _try_exchange(state, x, kind, limits, weights, limit)
        elif kind < LEAVE:
            kept = _try_leaving(state, x, limits, weights, limit)
        else:
            kept = _try_rearranging(state, x, kind, limits, weights, limit)
        if not kept:
            continue
        value = _value(s.totals, weights)
        if value + FORBIDDEN * s.totals[Total.OVER] < best - 1e-9:
            best = value + FORBIDDEN * s.totals[Total.OVER]
            _remember(state)
            if best <= goal + 1e-9:
                break
    return best


def build(
    pixels: NDArray[np.int32],
    near: NDArray[np.int32],
    groups: list[NDArray[np.int64]],
    movable: NDArray[np.bool_],
    loads: NDArray[np.int64],
    max_pixels: NDArray[np.int32],
    max_loads: int,
    spare: int,
) -> State:
    """Lay out a sequence of groups for the kernel; loads are counted relative to it.

    Parameters
    ----------
    pixels, near
        See `State`; `near` may be shorter than `pixels`: its patches come first and are those that move.
    groups
        Patches of each group, in order.
    movable
        Which groups may change.
    loads
        Loads of each pixel, also those by groups that are not here.
    max_pixels : int32, shape (group_size + 1,)
        Most pixels of a group, by its number of patches.
    max_loads
        Most loads of a pixel.
    spare
        Groups that may be opened beyond those.
    """
    steps = len(groups)
    rows = steps + 1 + spare
    laid_out = _lay_out(pixels, groups, loads, max_pixels, spare)
    frozen = np.zeros(rows, np.bool_)
    frozen[0] = True
    frozen[1 : steps + 1] = ~movable
    unused = np.zeros(rows, np.int32)
    unused[:spare] = np.arange(steps + 1, rows)
    row = laid_out.row
    over = np.maximum(loads - max_loads, 0).sum()
    over += np.maximum(row[:, Column.HELD] - max_pixels[row[:, Column.SIZE]], 0).sum()
    laid_out.totals[:] = 0, over, steps, spare
    return State(
        groups=laid_out,
        near=near,
        frozen=frozen,
        unused=unused,
        seen=np.zeros(len(loads) + 1, np.int64),
        best_row_of=np.zeros(len(pixels), np.int32),
        best_order=np.zeros(rows + 2, np.int32),
        best_loads=np.zeros(len(loads), np.int32),
        best_totals=np.zeros(4, np.int64),
    )


def _lay_out(
    pixels: NDArray[np.int32],
    groups: list[NDArray[np.int64]],
    loads: NDArray[np.int64],
    max_pixels: NDArray[np.int32],
    spare: int,
) -> Groups:
    """Give each group a row, in order; parameters as of `build`, totals are left open."""
    steps, capacity = len(groups), len(max_pixels) - 1
    rows = steps + 1 + spare
    order = np.zeros(rows + 2, np.int32)
    order[1 : steps + 1] = np.arange(1, steps + 1)
    row = np.zeros((rows, 3), np.int32)
    row[1 : steps + 1, Column.PLACE] = np.arange(1, steps + 1)
    members = np.full((rows, capacity), -1, np.int32)
    row_of = np.zeros(len(pixels), np.int32)
    holds = np.zeros((rows, len(loads)), np.int16)
    for number, group in enumerate(groups, start=1):
        row[number, Column.SIZE] = len(group)
        members[number, : len(group)] = group
        row_of[group] = number
        held = pixels[group]
        np.add.at(holds[number], held[held >= 0], 1)
    row[:, Column.HELD] = (holds > 0).sum(axis=1)
    return Groups(
        pixels=pixels,
        row_of=row_of,
        members=members,
        row=row,
        holds=holds,
        order=order,
        loads=loads.astype(np.int32),
        max_pixels=max_pixels,
        totals=np.zeros(4, np.int64),
    )
