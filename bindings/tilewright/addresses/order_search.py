"""Addresses from orders in which items are placed one by one, until one is found in which all have room.

Each item in its turn lies as low as it can, or as high. What finds no place costs its size for as long as it
is there; then it is placed earlier, or at the other end, and an order that is not much worse is gone on from.
Where it does not matter which of two items is there longer, they may also change their ends. Nothing lies
across a border.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core import jit

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

PATIENCE = 400
"""Orders without gain after which the search begins anew."""

ONE_IN = 12
"""In one of so many orders two items change their ends, where any may."""

NEVER = 2**62
"""A cost that no items have."""


@dataclass(frozen=True)
class OrderSearchParams:
    """When the clock is looked at.

    Attributes
    ----------
    orders
        Orders after which it is looked at, or fewer where there are many items.
    pairs
        Pairs of items beside each other that are looked at meanwhile.
    """

    orders: int = 10_000
    pairs: int = 2 * 10**7


PARAMS = OrderSearchParams()


class Items(NamedTuple):
    """What is placed, and behind it borders: items of no size, at their places all the time.

    Attributes
    ----------
    begins, ends : shape (items,)
        First time at which an item is there, and the first at which it is not any more.
    sizes : shape (items,)
    pairs : shape (pairs, 3)
        Two items of the same size, and a time: from that time on they may change their ends, if both are
        there just before one of them ends.
    firsts, others
        The items that may be beside each one: ``others[firsts[item] : firsts[item + 1]]``, borders last.
    borders : shape (borders,)
        Addresses that nothing lies on both sides of.
    placed
        How many items are no borders.
    """

    begins: Ints
    ends: Ints
    sizes: Ints
    pairs: Ints
    firsts: Ints
    others: Ints
    borders: Ints
    placed: int


class Placing(NamedTuple):
    """An order, and what becomes of it.

    Attributes
    ----------
    order : shape (items,)
    high : bool, shape (items,)
        Whether an item lies as high as it can.
    ends : shape (items,)
        Of items, some of which have changed theirs.
    lows, tops : shape (items,)
        For working: what is taken beside an item.
    """

    order: Ints
    high: Bools
    ends: Ints
    lows: Ints
    tops: Ints


def place_items(
    begins: Ints,
    ends: Ints,
    sizes: Ints,
    capacity: int,
    tries: int,
    deadline: float = float("inf"),
    *,
    seed: int = 0,
    borders: Sequence[int] = (),
) -> Ints | None:
    """Return addresses for all items, or None if none are found; see `place_or_exchange`."""
    none = np.empty((0, 3), np.int64)
    offsets, _ = place_or_exchange(
        begins, ends, sizes, none, capacity, tries, deadline, seed=seed, borders=borders
    )
    return None if (offsets < 0).any() else offsets


def place_or_exchange(
    begins: Ints,
    ends: Ints,
    sizes: Ints,
    pairs: Ints,
    capacity: int,
    tries: int,
    deadline: float = float("inf"),
    *,
    seed: int = 0,
    borders: Sequence[int] = (),
) -> tuple[Ints, Ints]:
    """Return addresses for items, -1 for the few for which none are found, and their ends.

    Parameters
    ----------
    begins, ends, sizes, pairs, borders
        See `Items`.
    capacity
        No address and size add up to more than this.
    tries
        Orders that are tried at most.
    """
    items = _items(begins, ends, sizes, pairs, np.array(borders, dtype=np.int64))
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
    tried = 0
    at_once = min(PARAMS.orders, max(PATIENCE, PARAMS.pairs // max(1, len(items.others))))
    while tried < tries:
        count = min(at_once, tries - tried)
        offsets, unplaced, own_ends = search_orders(items, orders, capacity, count, seed)
        if unplaced < fewest:
            best, fewest = (offsets[: len(sizes)], own_ends[: len(sizes)]), unplaced
        if not unplaced:
            break
        tried, seed = tried + count, seed + 1
        if time.monotonic() > deadline:
            break
    return best


def _items(begins: Ints, ends: Ints, sizes: Ints, pairs: Ints, borders: Ints) -> Items:
    """Return items with those that may be beside each one, whatever ends they have."""
    latest = ends.copy()
    for _ in range(len(ends)):
        before = latest.copy()
        np.maximum.at(latest, pairs[:, 0], before[pairs[:, 1]])
        np.maximum.at(latest, pairs[:, 1], before[pairs[:, 0]])
        if (latest == before).all():
            break
    beside = (begins[:, None] < latest) & (begins < latest[:, None])
    np.fill_diagonal(beside, val=False)
    placed, number = len(sizes), len(borders)
    beside = np.pad(beside, ((0, number), (0, number)))
    beside[:placed, placed:] = True
    firsts = np.concatenate(([0], np.cumsum(beside.sum(axis=1)))).astype(np.int64)
    nothing = np.zeros(number, dtype=np.int64)
    return Items(
        np.concatenate((begins, nothing + begins.min(initial=0))),
        np.concatenate((ends, nothing + latest.max(initial=1))),
        np.concatenate((sizes, nothing)),
        pairs,
        firsts,
        np.nonzero(beside)[1].astype(np.int64),
        borders,
        placed,
    )


# Compiled -----------------------------------------------------------------------------------------------


@jit.inner
def random_below(count: int) -> int:
    """Return a number below another, at random."""
    return int(np.random.random() * count)  # noqa: NPY002  (what compiled code has)


@jit.lean
def copy(those: Ints, into: Ints) -> None:
    """Write numbers into as many others; numba compiles this sooner than an assignment of arrays."""
    for place in range(len(into)):
        into[place] = those[place]


@jit.lean
def place_in_order(
    items: Items, placing: Placing, first: int, most: int, capacity: int, offsets: Ints
) -> int:
    """Place items one after the other; return what those cost that find no place.

    Parameters
    ----------
    first
        Place in the order from which on items are placed anew.
    most
        Cost from which on it is given up.
    offsets
        The addresses, -1 for what has none.
    """
    order, ends, cost = placing.order, placing.ends, 0
    for place in range(len(order)):
        item = order[place]
        if place >= first:
            offsets[item] = -1
        elif offsets[item] < 0:
            cost += items.sizes[item] * (ends[item] - items.begins[item])
    for number in range(first, len(order)):
        item = order[number]
        size = items.sizes[item]
        address = lowest_gap(items, placing, item, capacity, offsets)
        if address + size > capacity:
            cost += size * (ends[item] - items.begins[item])
            if cost > most:
                break
        elif placing.high[item]:
            offsets[item] = capacity - address - size
        else:
            offsets[item] = address
    return cost


@jit.lean
def lowest_gap(items: Items, placing: Placing, item: int, capacity: int, offsets: Ints) -> int:
    """Return the lowest address with room for an item beside those that are placed.

    For what lies high it is counted from the top of the memory.
    """
    begins, ends, lows, tops, beside = items.begins, placing.ends, placing.lows, placing.tops, 0
    for place in range(items.firsts[item], items.firsts[item + 1]):
        other = items.others[place]
        if offsets[other] < 0 or begins[other] >= ends[item] or begins[item] >= ends[other]:
            continue
        low, top = offsets[other], offsets[other] + items.sizes[other]
        if placing.high[item]:
            low, top = capacity - top, capacity - low
        at = beside
        while at > 0 and lows[at - 1] > low:
            lows[at], tops[at] = lows[at - 1], tops[at - 1]
            at -= 1
        lows[at], tops[at] = low, top
        beside += 1
    address = 0
    for place in range(beside):
        if lows[place] - address >= items.sizes[item]:
            break
        address = max(address, tops[place])
    return int(address)


@jit.lean
def find_unplaced(order: Ints, offsets: Ints, unplaced: Ints) -> int:
    """Find the items that have no place; return how many there are."""
    count = 0
    for item in order:
        if offsets[item] < 0:
            unplaced[count] = item
            count += 1
    return count


@jit.lean
def position_of(order: Ints, item: int) -> int:
    """Return the place of an item in an order."""
    place = 0
    while order[place] != item:
        place += 1
    return place


@jit.lean
def move(order: Ints, place: int, to: int) -> None:
    """Move an item of an order to another place."""
    item, step = order[place], 1 if to > place else -1
    for at in range(place, to, step):
        order[at] = order[at + step]
    order[to] = item


@jit.lean
def exchange_ends(begins: Ints, ends: Ints, pair: Ints) -> bool:
    """Change the ends of two items, if they may; return whether they have."""
    one, other, since = pair[0], pair[1], pair[2]
    first = min(ends[one], ends[other])
    if ends[one] == ends[other] or first < since or first <= max(begins[one], begins[other]):
        return False
    ends[one], ends[other] = ends[other], ends[one]
    return True


@jit.inner
def begin_anew(items: Items, placing: Placing, orders: Ints, number: int) -> None:
    """Take the next order to begin with; after the last one with items at either end by chance."""
    copy(orders[number % len(orders)], placing.order)
    placing.high[:] = False
    copy(items.ends, placing.ends)
    if number >= len(orders):
        for item in range(len(items.sizes)):
            placing.high[item] = random_below(2) == 1
        if len(items.pairs):
            for _ in range(random_below(len(items.pairs) + 1)):
                exchange_ends(items.begins, placing.ends, items.pairs[random_below(len(items.pairs))])


class Move(NamedTuple):
    """A change of an order.

    Attributes
    ----------
    pair
        Number of the pair whose items change their ends; -1 if an item changes its place instead.
    place, to
        Where the item was in the order, and where it is.
    flipped
        Whether it lies at the other end of the memory.
    first
        The first place in the order from which on items are placed anew.
    """

    pair: int
    place: int
    to: int
    flipped: bool
    first: int


@jit.inner
def make_move(items: Items, placing: Placing, unplaced: Ints) -> Move:
    """Change the order by chance, for one of the items that have no place."""
    pair, order = -1, placing.order
    if len(items.pairs) and random_below(ONE_IN) == 0:
        pair = random_below(len(items.pairs))
        if not exchange_ends(items.begins, placing.ends, items.pairs[pair]):
            pair = -1
    item = unplaced[random_below(len(unplaced))]
    if pair >= 0:
        one, other = items.pairs[pair, 0], items.pairs[pair, 1]
        return Move(pair, 0, 0, False, min(position_of(order, one), position_of(order, other)))
    flipped = random_below(2) == 0
    # Before something that is in its way, or that something is placed elsewhere.
    beside = items.firsts[item + 1] - items.firsts[item] - len(items.borders)
    if random_below(3) == 0 and beside > 0:
        item = items.others[items.firsts[item] + random_below(beside)]
    place = position_of(order, item)
    to = random_below(place + 1)
    move(order, place, to)
    placing.high[item] = placing.high[item] != flipped
    return Move(pair, place, to, flipped, to)


@jit.inner
def undo_move(items: Items, placing: Placing, change: Move) -> None:
    """Have the order as it was before a move."""
    if change.pair >= 0:
        one, other = items.pairs[change.pair, 0], items.pairs[change.pair, 1]
        ends = placing.ends
        ends[one], ends[other] = ends[other], ends[one]
        return
    item = placing.order[change.to]
    placing.high[item] = placing.high[item] != change.flipped
    move(placing.order, change.to, change.place)


@jit.kernel(nogil=True)
def search_orders(items: Items, orders: Ints, capacity: int, tries: int, seed: int) -> tuple[Ints, int, Ints]:
    """Return addresses, shape (items,), how many items have none, which are at -1, and the items' ends.

    Parameters
    ----------
    orders
        Orders that are begun with, shape (orders, items).
    tries
        Orders that are tried.
    """
    np.random.seed(seed)  # noqa: NPY002
    count = len(items.sizes)
    offsets, new, unplaced = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    placing = Placing(
        orders[0].copy(),
        np.zeros(count, np.bool_),
        items.ends.copy(),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
    )
    for place in range(len(items.borders)):
        offsets[items.placed + place] = new[items.placed + place] = items.borders[place]
    best, fewest, best_ends = offsets.copy(), count + 1, placing.ends.copy()
    number, known, least, waited = 0, np.int64(-1), np.int64(NEVER), PATIENCE + 1
    n_unplaced = 0
    for _ in range(tries):
        if waited > PATIENCE:
            begin_anew(items, placing, orders, number)
            number += 1
            known = place_in_order(items, placing, 0, NEVER, capacity, offsets)
            n_unplaced = find_unplaced(placing.order, offsets, unplaced)
            least, waited = known, 0
        else:
            change = make_move(items, placing, unplaced[:n_unplaced])
            copy(offsets, new)
            most = known + known // 32
            cost = place_in_order(items, placing, change.first, most, capacity, new)
            if cost <= most:
                known = cost
                copy(new, offsets)
                n_unplaced = find_unplaced(placing.order, offsets, unplaced)
            else:
                undo_move(items, placing, change)
            if known < least:
                least, waited = known, 0
            else:
                waited += 1
        if n_unplaced < fewest:
            fewest = n_unplaced
            copy(offsets, best)
            copy(placing.ends, best_ends)
            if not n_unplaced:
                break
    return best, fewest, best_ends
