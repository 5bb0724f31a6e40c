"""Addresses from orders in which items are placed one by one, until one is found in which all have room.

Each item in its turn lies as low as it can, or as high. What finds no place costs its size for as long as it
is there; then it is placed earlier, or at the other end, and an order that is not much worse is gone on from.
Where it does not matter which of two items is there longer, they may also change their ends.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from tilewright.core import jit

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

PATIENCE = 400
"""Trials without gain after which the search begins anew."""

ONE_IN = 12
"""In one of so many trials two items change their ends, where any may."""

NEVER = 2**62
"""A cost that no items have."""

AT_ONCE = 10_000
"""Trials after which the clock is looked at, or fewer where there are many items."""

LOOKS = 2 * 10**7
"""Pairs of items beside each other that are looked at meanwhile."""


def placed(
    begins: Ints,
    ends: Ints,
    sizes: Ints,
    capacity: int,
    trials: int,
    deadline: float = float("inf"),
    *,
    seed: int = 0,
) -> Ints | None:
    """Return addresses for all items, or None if none are found.

    Parameters
    ----------
    begins, ends
        First time at which an item is there, and the first at which it is not any more, shape (items,).
    sizes
        Shape (items,); no address and size add up to more than `capacity`.
    trials
        Orders that are tried at most.
    """
    none = np.empty((0, 3), np.int64)
    offsets, _ = placed_with_ends(begins, ends, sizes, none, capacity, trials, deadline, seed=seed)
    return None if (offsets < 0).any() else offsets


def placed_with_ends(
    begins: Ints,
    ends: Ints,
    sizes: Ints,
    pairs: Ints,
    capacity: int,
    trials: int,
    deadline: float = float("inf"),
    *,
    seed: int = 0,
) -> tuple[Ints, Ints]:
    """Return addresses for items, -1 for the few for which none are found, and their ends; see `placed`.

    Parameters
    ----------
    pairs
        Two items of the same size, and a time: from that time on they may change their ends, if both are
        there just before one of them ends. Shape (pairs, 3).
    """
    latest = ends.copy()
    for _ in range(len(ends)):
        before = latest.copy()
        np.maximum.at(latest, pairs[:, 0], before[pairs[:, 1]])
        np.maximum.at(latest, pairs[:, 1], before[pairs[:, 0]])
        if (latest == before).all():
            break
    beside = (begins[:, None] < latest) & (begins < latest[:, None])
    np.fill_diagonal(beside, val=False)
    firsts = np.concatenate(([0], np.cumsum(beside.sum(axis=1)))).astype(np.int64)
    others = np.nonzero(beside)[1].astype(np.int64)
    times = ends - begins
    orders = np.stack(
        [
            np.lexsort((-sizes, -times)),
            np.lexsort((begins, -sizes)),
            np.lexsort((begins, -sizes * times)),
            np.lexsort((-sizes, begins, times == 1)),
        ]
    ).astype(np.int64)
    best, fewest = (np.full(len(sizes), -1), ends), len(sizes)
    tried, at_once = 0, min(AT_ONCE, max(PATIENCE, LOOKS // max(1, len(others))))
    while tried < trials:
        count = min(at_once, trials - tried)
        offsets, missing, own = reordered(
            begins, ends, sizes, pairs, firsts, others, orders, capacity, count, seed
        )
        if missing < fewest:
            best, fewest = (offsets, own), missing
        if not missing:
            break
        tried, seed = tried + count, seed + 1
        if time.monotonic() > deadline:
            break
    return best


@jit.inner
def below(count: int) -> int:
    """Return a number below another, at random."""
    return int(np.random.random() * count)  # noqa: NPY002  (what compiled code has)


@jit.lean
def fitted(
    begins: Ints,
    ends: Ints,
    sizes: Ints,
    firsts: Ints,
    others: Ints,
    order: Ints,
    first: int,
    most: int,
    high: Bools,
    capacity: int,
    offsets: Ints,
    lows: Ints,
    tops: Ints,
) -> int:
    """Place items one after the other; return what those cost that find no place.

    Parameters
    ----------
    firsts, others
        Items that may be beside each, one behind the other, and where these begin.
    first
        Place in `order` from which on items are placed anew.
    most
        Cost from which on it is given up.
    high
        Whether an item lies as high as it can.
    offsets
        The addresses, -1 for what has none.
    lows, tops
        For working.
    """
    cost = 0
    for place in range(len(order)):
        item = order[place]
        if place >= first:
            offsets[item] = -1
        elif offsets[item] < 0:
            cost += sizes[item] * (ends[item] - begins[item])
    for number in range(first, len(order)):
        item = order[number]
        beside = 0
        for place in range(firsts[item], firsts[item + 1]):
            other = others[place]
            if offsets[other] < 0 or begins[other] >= ends[item] or begins[item] >= ends[other]:
                continue
            low, top = offsets[other], offsets[other] + sizes[other]
            if high[item]:
                low, top = capacity - top, capacity - low
            at = beside
            while at > 0 and lows[at - 1] > low:
                lows[at], tops[at] = lows[at - 1], tops[at - 1]
                at -= 1
            lows[at], tops[at] = low, top
            beside += 1
        address = 0
        for place in range(beside):
            if lows[place] - address >= sizes[item]:
                break
            address = max(address, tops[place])
        if address + sizes[item] > capacity:
            cost += sizes[item] * (ends[item] - begins[item])
            if cost > most:
                break
        elif high[item]:
            offsets[item] = capacity - address - sizes[item]
        else:
            offsets[item] = address
    return cost


@jit.lean
def gathered(order: Ints, offsets: Ints, late: Ints) -> int:
    """Find the items that have no place; return how many there are."""
    count = 0
    for item in order:
        if offsets[item] < 0:
            late[count] = item
            count += 1
    return count


@jit.lean
def copy(those: Ints, into: Ints) -> None:
    """Write numbers into as many others; numba compiles this sooner than an assignment of arrays."""
    for place in range(len(into)):
        into[place] = those[place]


@jit.lean
def where(order: Ints, item: int) -> int:
    """Return the place of an item in an order."""
    place = 0
    while order[place] != item:
        place += 1
    return place


@jit.lean
def exchanged(begins: Ints, ends: Ints, pair: Ints) -> bool:
    """Change the ends of two items, if they may; return whether they have."""
    one, other, since = pair[0], pair[1], pair[2]
    first = min(ends[one], ends[other])
    if ends[one] == ends[other] or first < since or first <= max(begins[one], begins[other]):
        return False
    ends[one], ends[other] = ends[other], ends[one]
    return True


@jit.kernel(nogil=True)
def reordered(
    begins: Ints,
    ends: Ints,
    sizes: Ints,
    pairs: Ints,
    firsts: Ints,
    others: Ints,
    orders: Ints,
    capacity: int,
    trials: int,
    seed: int,
) -> tuple[Ints, int, Ints]:
    """Return addresses, shape (items,), how many items have none, which are at -1, and the items' ends.

    Parameters
    ----------
    orders
        Orders that are begun with, shape (orders, items).
    trials
        Orders that are tried.
    """
    np.random.seed(seed)  # noqa: NPY002
    count = len(sizes)
    offsets, new, late = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    lows, tops = np.zeros(count, np.int64), np.zeros(count, np.int64)
    best, fewest, best_ends = offsets.copy(), count + 1, ends.copy()
    own = ends.copy()
    order, high = orders[0].copy(), np.zeros(count, np.bool_)
    number, known, least, waited = 0, np.int64(-1), np.int64(2**62), PATIENCE + 1
    n_late = 0
    for _ in range(trials):
        if waited > PATIENCE:
            copy(orders[number % len(orders)], order)
            high[:] = False
            copy(ends, own)
            if number >= len(orders):
                for item in range(count):
                    high[item] = below(2) == 1
                if len(pairs):
                    for _ in range(below(len(pairs) + 1)):
                        exchanged(begins, own, pairs[below(len(pairs))])
            number += 1
            known = fitted(
                begins, own, sizes, firsts, others, order, 0, NEVER, high, capacity, offsets, lows, tops
            )
            n_late = gathered(order, offsets, late)
            least, waited = known, 0
        else:
            pair, place, to, flipped = -1, 0, 0, False
            if len(pairs) and below(ONE_IN) == 0:
                pair = below(len(pairs))
                if not exchanged(begins, own, pairs[pair]):
                    pair = -1
            item = late[below(n_late)]
            if pair < 0:
                flipped = below(2) == 0
                # Before something that is in its way, or that something is placed elsewhere.
                if below(3) == 0 and firsts[item + 1] > firsts[item]:
                    item = others[firsts[item] + below(firsts[item + 1] - firsts[item])]
                place = where(order, item)
                first = to = below(place + 1)
                for at in range(place, to, -1):
                    order[at] = order[at - 1]
                order[to] = item
                high[item] = high[item] != flipped
            else:
                first = min(where(order, pairs[pair, 0]), where(order, pairs[pair, 1]))
            copy(offsets, new)
            most = known + known // 32
            cost = fitted(
                begins, own, sizes, firsts, others, order, first, most, high, capacity, new, lows, tops
            )
            if cost <= most:
                known = cost
                copy(new, offsets)
                n_late = gathered(order, offsets, late)
            elif pair >= 0:
                one, other = pairs[pair, 0], pairs[pair, 1]
                own[one], own[other] = own[other], own[one]
            else:
                high[item] = high[item] != flipped
                for at in range(to, place):
                    order[at] = order[at + 1]
                order[place] = item
            if known < least:
                least, waited = known, 0
            else:
                waited += 1
        if n_late < fewest:
            fewest = n_late
            copy(offsets, best)
            copy(own, best_ends)
            if not n_late:
                break
    return best, fewest, best_ends
