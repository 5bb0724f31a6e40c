"""Which memory each buffer of a step lies in, of several: where they cost the least.

Of one cost that is a branch and bound whose bound has a price on the elements of each memory. Of several
costs all layouts are kept that no other one beats in what is left of each memory and in all costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import mul
from typing import NamedTuple

from tilewright.core.branch_and_bound import check_deadline
from tilewright.residency.core_accesses import Thing

ANYTHING = 2**62
"""More than any plan costs."""

SCALE = 1024
"""Parts of a cost in which prices of memory are told."""

PRICED = 10
"""How often the prices of all memories are set anew."""


class Placed(NamedTuple):
    """A buffer, or weights that may be copied, and what accesses to it cost.

    Attributes
    ----------
    costs
        Of each cost that depends on where things lie, that in each memory; what may also lie nowhere, as
        weights stay in flash, has one for that behind them.
    """

    thing: Thing
    size: int
    costs: tuple[tuple[int, ...], ...]


def least_layout(
    sizes: Sequence[int], costs: Sequence[Sequence[int]], rooms: Sequence[int], most: int
) -> list[int] | None:
    """Return a memory for each of some items, so that these cost the least; None if none fit.

    What lies in none has the number behind that of the last memory.

    Parameters
    ----------
    costs
        Of each item in each memory, and behind them in none if that may be.
    rooms
        What may be taken of each memory.
    most
        What they may cost.
    """
    nowhere = len(rooms)
    if min(rooms) < 0:
        return None
    # A price on the elements of each memory makes a bound of what items cost that are still to be placed.
    prices = room_prices(sizes, costs, rooms)
    priced = [
        [
            SCALE * cost + (0 if region == nowhere else prices[region] * size)
            for region, cost in enumerate(each)
        ]
        for size, each in zip(sizes, costs, strict=True)
    ]
    # What differs most between memories is decided first, and of the rest what is large.
    order = sorted(range(len(sizes)), key=lambda n: (min(priced[n]) - max(priced[n]), -sizes[n]))
    least, taken = [0], [0]
    for number in reversed(order):
        least.append(least[-1] + min(priced[number]))
        taken.append(taken[-1] + (sizes[number] if len(costs[number]) == nowhere else 0))
    least.reverse()
    taken.reverse()
    best: list[int] | None = None
    chosen = [0] * len(sizes)
    seen: dict[tuple[int, ...], int] = {}

    def descend(place: int, left: tuple[int, ...], cost: int) -> None:
        nonlocal best, most
        bound = SCALE * cost + least[place] - sum(map(mul, prices, left))
        if bound > SCALE * most or cost > most or taken[place] > sum(left):
            return
        if place == len(order):
            best, most = list(chosen), cost - 1
            return
        state = place, *left
        if seen.get(state, ANYTHING) <= cost:
            return
        seen[state] = cost
        number = order[place]
        size, each = sizes[number], costs[number]
        for region in sorted(range(len(each)), key=priced[number].__getitem__):
            chosen[number] = region
            if region == nowhere:
                descend(place + 1, left, cost + each[region])
            elif size <= left[region]:
                after = (*left[:region], left[region] - size, *left[region + 1 :])
                descend(place + 1, after, cost + each[region])

    descend(0, tuple(rooms), 0)
    return best


def room_prices(sizes: Sequence[int], costs: Sequence[Sequence[int]], rooms: Sequence[int]) -> list[int]:
    """Return a price of an element of each memory, in parts of costs, at which little more is asked of it.

    Any prices make a valid bound: what items cost and take at these prices at least, less what the memories
    have to give. These ones are raised, memory by memory, until no more is asked of it than there is.
    """
    prices = [0] * len(rooms)
    for _ in range(PRICED):
        before = list(prices)
        for region, room in enumerate(rooms):
            leaving = []  # the price at which each item would rather lie elsewhere
            for size, each in zip(sizes, costs, strict=True):
                others = [
                    SCALE * cost + (prices[other] * size if other < len(rooms) else 0)
                    for other, cost in enumerate(each)
                    if other != region
                ]
                if size and others:
                    leaving.append(((min(others) - SCALE * each[region]) // size, size))
            asked = sum(size for price, size in leaving if price >= 0)
            prices[region] = 0
            for price, size in sorted(leaving):
                if price < 0:
                    continue
                if asked <= room:
                    break
                asked -= size
                prices[region] = price
        if prices == before:
            break
    return prices


class _Layout(NamedTuple):
    """Memories of the first items of some, with what is left of each, and what they cost."""

    left: tuple[int, ...]
    costs: tuple[int, ...]
    before: _Layout | None = None
    region: int = 0

    def beats(self, other: _Layout) -> bool:
        """Whether it leaves as much of each memory, and costs as little."""
        left = zip(self.left, other.left, strict=True)
        costs = zip(self.costs, other.costs, strict=True)
        return all(one >= two for one, two in left) and all(one <= two for one, two in costs)


def best_layouts(
    items: Sequence[Placed],
    rooms: Sequence[int],
    nothing: tuple[int, ...],
    worth: Callable[[Sequence[int]], bool],
    deadline: float = float("inf"),
) -> Iterator[tuple[list[int], tuple[int, ...]]]:
    """Return memories for all of some items, with what they cost, that no others beat in all costs.

    Parameters
    ----------
    nothing
        What no items cost: a zero for each cost.
    worth
        Whether what costs at least so much may be of use.

    Raises
    ------
    OutOfTimeError
        When the deadline passes before all are found.
    """
    if not items:
        if min(rooms) >= 0 and worth(nothing):
            yield [], nothing
        return
    nowhere = len(rooms)
    # What differs most between memories is decided first, and of the rest what is large.
    order = sorted(items, key=lambda item: (sum(min(each) - max(each) for each in item.costs), -item.size))
    least, needed = [[*nothing]], [0]
    for item in reversed(order):
        least.append([more + min(each) for more, each in zip(least[-1], item.costs, strict=True)])
        needed.append(needed[-1] + item.size)
    least.reverse()
    needed.reverse()
    found = [_Layout(tuple(rooms), nothing)] if min(rooms) >= 0 else []
    for place, item in enumerate(order):
        check_deadline(deadline)
        later, rest = list[_Layout](), least[place + 1]
        for layout in found:
            for region in range(len(item.costs[0])):
                left = list(layout.left)
                if region < nowhere:
                    left[region] -= item.size
                    if left[region] < 0:
                        continue
                costs = tuple(one + each[region] for one, each in zip(layout.costs, item.costs, strict=True))
                if worth([one + more for one, more in zip(costs, rest, strict=True)]):
                    # More room than all the others need is of no use.
                    there = tuple(min(each, needed[place + 1]) for each in left)
                    later.append(_Layout(there, costs, layout, region))
        found = _unbeaten(later)
    for layout in found:
        lies, at = list[int](), layout
        while at.before is not None:
            lies.append(at.region)
            at = at.before
        of_item = {item.thing: region for item, region in zip(order, reversed(lies), strict=True)}
        yield [of_item[item.thing] for item in items], layout.costs


def _unbeaten(layouts: list[_Layout]) -> list[_Layout]:
    """Return those that no other one beats."""
    found: list[_Layout] = []
    for layout in sorted(layouts, key=lambda each: (each.costs, tuple(-one for one in each.left))):
        if not any(other.beats(layout) for other in found):
            found.append(layout)
    return found
