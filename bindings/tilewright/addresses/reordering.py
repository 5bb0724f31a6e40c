"""Addresses from orders in which items are placed one by one, until one is found in which all have room.

Each item in its turn lies as low as it can, or as high. What finds no place costs its size for as long as it
is there; then it is placed earlier, or at the other end, and an order that is not much worse is gone on from.
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
    beside = (begins[:, None] < ends) & (begins < ends[:, None])
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
    tried, at_once = 0, min(AT_ONCE, max(PATIENCE, LOOKS // max(1, len(others))))
    while tried < trials:
        count = min(at_once, trials - tried)
        found, missing = reordered(sizes, times, firsts, others, orders, capacity, count, seed)
        if not missing:
            offsets: Ints = found
            return offsets
        tried, seed = tried + count, seed + 1
        if time.monotonic() > deadline:
            break
    return None


@jit.inner
def below(count: int) -> int:
    """Return a number below another, at random."""
    return int(np.random.random() * count)  # noqa: NPY002  (what compiled code has)


@jit.lean
def fitted(
    sizes: Ints,
    times: Ints,
    firsts: Ints,
    others: Ints,
    order: Ints,
    high: Bools,
    capacity: int,
    offsets: Ints,
    lows: Ints,
    ends: Ints,
    late: Ints,
) -> tuple[int, int]:
    """Place items one after the other; return how many find no place, and what that costs.

    Parameters
    ----------
    times
        Steps that each item is there.
    firsts, others
        Items beside each, one behind the other, and where these begin.
    high
        Whether an item lies as high as it can.
    offsets
        Becomes the addresses, -1 for what has none.
    lows, ends
        For working.
    late
        Becomes the items that find no place.
    """
    count, cost = 0, 0
    offsets[:] = -1
    for item in order:
        beside = 0
        for place in range(firsts[item], firsts[item + 1]):
            other = others[place]
            if offsets[other] < 0:
                continue
            begin, end = offsets[other], offsets[other] + sizes[other]
            if high[item]:
                begin, end = capacity - end, capacity - begin
            at = beside
            while at > 0 and lows[at - 1] > begin:
                lows[at], ends[at] = lows[at - 1], ends[at - 1]
                at -= 1
            lows[at], ends[at] = begin, end
            beside += 1
        address = 0
        for place in range(beside):
            if lows[place] - address >= sizes[item]:
                break
            address = max(address, ends[place])
        if address + sizes[item] > capacity:
            late[count] = item
            count += 1
            cost += sizes[item] * times[item]
        elif high[item]:
            offsets[item] = capacity - address - sizes[item]
        else:
            offsets[item] = address
    return count, cost


@jit.kernel(nogil=True)
def reordered(
    sizes: Ints,
    times: Ints,
    firsts: Ints,
    others: Ints,
    orders: Ints,
    capacity: int,
    trials: int,
    seed: int,
) -> tuple[Ints, int]:
    """Return addresses, shape (items,), and how many items have none, which are at -1.

    Parameters
    ----------
    orders
        Orders that are begun with, shape (orders, items).
    trials
        Orders that are tried.
    """
    np.random.seed(seed)  # noqa: NPY002
    count = len(sizes)
    offsets, late = np.zeros(count, np.int64), np.zeros(count, np.int64)
    lows, ends = np.zeros(count, np.int64), np.zeros(count, np.int64)
    best, fewest = offsets.copy(), count + 1
    order, high = orders[0].copy(), np.zeros(count, np.bool_)
    number, known, least, waited = 0, np.int64(-1), np.int64(2**62), PATIENCE + 1
    n_late = 0
    for _ in range(trials):
        if waited > PATIENCE:
            order[:] = orders[number % len(orders)]
            high[:] = False
            if number >= len(orders):
                for item in range(count):
                    high[item] = below(2) == 1
            number += 1
            n_late, known = fitted(
                sizes, times, firsts, others, order, high, capacity, offsets, lows, ends, late
            )
            least, waited = known, 0
        else:
            item = late[below(n_late)]
            place = 0
            while order[place] != item:
                place += 1
            flipped = below(2) == 0
            # Before something that is in its way, or that something is placed elsewhere.
            if below(3) == 0 and firsts[item + 1] > firsts[item]:
                item = others[firsts[item] + below(firsts[item + 1] - firsts[item])]
                place = 0
                while order[place] != item:
                    place += 1
            to = below(place + 1)
            for at in range(place, to, -1):
                order[at] = order[at - 1]
            order[to] = item
            high[item] = high[item] != flipped
            n_new, cost = fitted(
                sizes, times, firsts, others, order, high, capacity, offsets, lows, ends, late
            )
            if cost <= known + known // 32:
                n_late, known = n_new, cost
            else:
                high[item] = high[item] != flipped
                for at in range(to, place):
                    order[at] = order[at + 1]
                order[place] = item
                fitted(sizes, times, firsts, others, order, high, capacity, offsets, lows, ends, late)
            if known < least:
                least, waited = known, 0
            else:
                waited += 1
        if n_late < fewest:
            fewest = n_late
            best[:] = offsets
            if not n_late:
                break
    return best, fewest
