"""Addresses for steps, part by part: what is between two moments at which nothing stays on chip.

Parts have nothing to do with each other. What is found out about one is kept, as better plans often differ in
one part alone. If no addresses are found for a part, tensors that are alike change their places in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tilewright.core.branch_and_bound import share_of
from tilewright.residency.exact.interchangeable import Exchanges, Stay
from tilewright.residency.exact.wider_buffers import widen_buffers
from tilewright.residency.machine import Region
from tilewright.residency.placement import (
    Item,
    Placed,
    Space,
    find_addresses,
    peak_elements,
    placed_items,
    plan_of,
    spaces,
)
from tilewright.residency.plan import Plan
from tilewright.residency.shapes.groups import Groups
from tilewright.residency.transitions import StepChoice


@dataclass(frozen=True)
class AddressParams:
    """How long addresses of a part are sought.

    Attributes
    ----------
    orders_at_once, orders_with_pairs
        Orders in which items are placed, for each item: at once; then with tensors that change their places.
    orders_at_last
        Such orders at the end, for each pair of items.
    share_as_they_are
        Share of the time, at the end, for tensors as they are, where some of them are alike.
    """

    orders_at_once: int = 50
    orders_with_pairs: int = 1000
    orders_at_last: int = 100
    share_as_they_are: float = 0.1


PARAMS = AddressParams()

Pairs = list[tuple[int, int, int]]
"""Two items whose ends may change places, and from which step on."""

PartKey = tuple[tuple[int, int, int], ...]
"""When items begin and end, counted from the first of them, and their sizes, sorted."""


class _AlikeItems(NamedTuple):
    """What stays on chip in a part, which items these are, and pairs of items that are alike."""

    stays: list[Stay]
    items: list[int]
    pairs: Pairs


class Addresses:
    """Addresses for plans of a graph.

    Parameters
    ----------
    capacity
        Elements that may be taken, of all memories together.
    regions
        The memories, where there are several.

    Attributes
    ----------
    exchanges
        Which tensors may leave the chip in place of others.
    failed
        For what of the last plan there were no addresses: from which step until before which.
    """

    def __init__(self, groups: Groups, capacity: int, regions: Sequence[Region] = ()) -> None:
        self.groups, self.capacity = groups, capacity
        self.failed: list[tuple[int, int]] = []
        self.exchanges = Exchanges(groups)
        self._ways = [_InSpace(groups, self.exchanges, space) for space in spaces(regions, capacity)]

    def place(self, choices: Sequence[StepChoice], deadline: float, *, last: bool = True) -> Plan | None:
        """Return the plan of some steps, in few passes as far as that has addresses, or None.

        Parameters
        ----------
        last
            Whether much is tried, also for parts for which no addresses have been found before.
        """
        for number, way in enumerate(self._ways):
            until = share_of(deadline, 1 / (len(self._ways) - number))
            plan = way.place(choices, until, last=last)
            if plan is not None:
                self.failed = []
                return plan
        self.failed = self._ways[0].failed
        return None


class _InSpace:
    """Addresses for plans where things may lie in one way, all of them counted without what is left out.

    Attributes
    ----------
    failed
        As of `Addresses`.
    """

    def __init__(self, groups: Groups, exchanges: Exchanges, space: Space) -> None:
        self.groups, self.exchanges, self.space = groups, exchanges, space
        self.capacity, self.borders = space.capacity, space.borders
        self.failed: list[tuple[int, int]] = []
        self._known: dict[PartKey, list[int] | None] = {}
        self._given_up: set[PartKey] = set()
        self._unplaced: dict[PartKey, tuple[int, list[tuple[int, int]]]] = {}

    def place(self, choices: Sequence[StepChoice], deadline: float, *, last: bool = True) -> Plan | None:
        """Return the plan of some steps, or None: see `Addresses.place`."""
        self.failed, new = [], list(choices)
        items = placed_items(self.groups, choices)
        if peak_elements(items) > self.capacity:
            return None
        for begin, end in list(_parts(items, len(new))):
            part = _between(items, begin, end)
            if self._place_at_once(part, deadline) is None:
                better = self._search(new, part, deadline, last=last)
                if better is not None and better != new:
                    new, items = better, placed_items(self.groups, better)
        return None if self.failed else self._plan(new)

    def _place_at_once(self, part: list[Item], deadline: float) -> list[int] | None:
        """Return addresses for a part, if they are found soon."""
        key = _key(part)
        if key not in self._known:
            offsets, _ = self._in_orders(part, [], PARAMS.orders_at_once * len(part), deadline)
            self._known[key] = None if self._has_unplaced(part, offsets) else offsets
        return self._known[key]

    def _has_unplaced(self, part: list[Item], offsets: list[int]) -> bool:
        """Return whether items of a part have no addresses, and keep which."""
        unplaced = [(item.begin, item.end) for item, offset in zip(part, offsets, strict=True) if offset < 0]
        self._unplaced[_key(part)] = part[0].begin, unplaced
        return bool(unplaced)

    def _search(
        self, choices: list[StepChoice], part: list[Item], deadline: float, *, last: bool
    ) -> list[StepChoice] | None:
        """Return steps that move as much and have addresses in a part, which are then known, or None."""
        key = _key(part)
        if last or key not in self._given_up:
            alike = self._alike_items(choices, part)
            tries = PARAMS.orders_with_pairs * len(part)
            better = self._exchange(choices, part, alike, tries, deadline)
            if better is None and last:
                until = share_of(deadline, PARAMS.share_as_they_are) if alike.pairs else deadline
                found = find_addresses(part, self.capacity, until, exact=True, borders=self.borders)
                if found is not None:
                    self._known[key], better = found, choices
                elif alike.pairs:
                    tries = PARAMS.orders_at_last * len(part) ** 2
                    better = self._exchange(choices, part, alike, tries, deadline)
            if better is not None:
                return better
            self._given_up.add(key)
        first, unplaced = self._unplaced[key]
        shift = part[0].begin - first
        self.failed += [(begin + shift, end + shift) for begin, end in unplaced]
        return None

    def _exchange(
        self, choices: list[StepChoice], part: list[Item], alike: _AlikeItems, tries: int, deadline: float
    ) -> list[StepChoice] | None:
        """Return steps in which tensors that are alike have changed places so that all have addresses."""
        offsets, ends = self._in_orders(part, alike.pairs, tries, deadline)
        if self._has_unplaced(part, offsets):
            return None
        new = [item._replace(end=end) for item, end in zip(part, ends, strict=True)]
        order = sorted(range(len(new)), key=lambda number: new[number][:3])
        self._known[_key([new[number] for number in order])] = [offsets[number] for number in order]
        return self.exchanges.exchange(choices, alike.stays, [ends[item] for item in alike.items])

    def _alike_items(self, choices: Sequence[StepChoice], part: Sequence[Item]) -> _AlikeItems:
        begin, end = part[0].begin, max(item.end for item in part)
        states, tensors = self.exchanges.states(choices), self.groups.graph.tensors
        every = self.exchanges.stays(choices, states)
        stays = [stay for stay in every if begin <= stay.begin and stay.end <= end]
        numbers = {(item.begin, item.names[0][1]): number for number, item in enumerate(part)}
        where = [numbers[stay.begin, tensors[stay.tensor].key] for stay in stays]
        pairs = self.exchanges.pairs(stays, states)
        return _AlikeItems(stays, where, [(where[one], where[other], since) for one, other, since in pairs])

    def _plan(self, choices: list[StepChoice]) -> Plan:
        """Return the plan of steps, of all parts of which addresses are known, in few passes."""
        items = placed_items(self.groups, choices)
        everything: list[Placed] = []
        for begin, end in _parts(items, len(choices)):
            part = _between(items, begin, end)
            offsets = self._known[_key(part)]
            assert offsets is not None
            everything += zip(part, offsets, strict=True)
        new, placed = widen_buffers(self.groups, choices, everything, self.capacity, self.borders)
        return plan_of(self.groups, new, [(item, self.space.address(at)) for item, at in placed])

    def _in_orders(
        self, part: Sequence[Item], pairs: Pairs, tries: int, deadline: float
    ) -> tuple[list[int], list[int]]:
        """Return addresses of items, -1 for those that have none, and their ends, which pairs may exchange.

        Parameters
        ----------
        tries
            Orders that are tried; for another number they are others.
        """
        from tilewright.addresses import order_search  # start-up time: numba

        begins, ends, sizes = (
            np.array([item[column] for item in part], dtype=np.int64) for column in range(3)
        )
        both = np.array(pairs, dtype=np.int64).reshape(-1, 3)
        offsets, new = order_search.place_or_exchange(
            *(begins, ends, sizes, both),
            self.capacity,
            tries,
            deadline,
            seed=tries,
            borders=self.borders,
        )
        return offsets.tolist(), new.tolist()


def _parts(items: Sequence[Item], steps: int) -> Iterator[tuple[int, int]]:
    """Return from which step until before which one something is always on chip."""
    latest = [number + 1 for number in range(steps)]
    for item in items:
        latest[item.begin] = max(latest[item.begin], item.end)
    begin = end = 0
    for number in range(steps):
        end = max(end, latest[number])
        if end == number + 1:
            yield begin, end
            begin = end


def _between(items: Sequence[Item], begin: int, end: int) -> list[Item]:
    """Return the items of a part, sorted."""
    return sorted((item for item in items if begin <= item.begin < end), key=lambda item: item[:3])


def _key(part: Sequence[Item]) -> PartKey:
    first = part[0].begin if part else 0
    return tuple((item.begin - first, item.end - first, item.size) for item in part)
