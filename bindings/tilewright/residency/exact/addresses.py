"""Addresses for steps, part by part: what is between two moments at which nothing stays on chip.

Parts have nothing to do with each other. What is found out about one is kept, as better plans often differ in
one part alone. If no addresses are found for a part, tensors that are alike change their places in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tilewright.core.branch_and_bound import share_of
from tilewright.residency.exact.interchangeable import Interchangeable, Stay
from tilewright.residency.graph import Graph
from tilewright.residency.lowering import Placed, plan_of, widen_buffers
from tilewright.residency.placement import Item, find_addresses, peak_elements, placed_items
from tilewright.residency.plan import Plan
from tilewright.residency.transitions import StepChoice

AT_ONCE, AT_FIRST, AT_MOST = 50, 1000, 100
"""Orders that are tried: at once, for each item; then, for each, too; at the end, for each pair of items."""

SHARE = 0.1
"""Share of the time, at the end, for tensors as they are, where some of them are alike."""

Pairs = list[tuple[int, int, int]]
Part = tuple[tuple[int, int, int], ...]
"""When items begin and end, counted from the first of them, and their sizes, sorted."""


class _Alike(NamedTuple):
    """What stays on chip in a part, which items these are, and pairs of items that are alike."""

    stays: list[Stay]
    items: list[int]
    pairs: Pairs


class Addresses:
    """Addresses for plans of a graph in one memory.

    Attributes
    ----------
    alike
        Which tensors are alike.
    failed
        For what of the last plan there were no addresses: from which step until before which.
    """

    def __init__(self, graph: Graph, capacity: int) -> None:
        self.graph, self.capacity = graph, capacity
        self.failed: list[tuple[int, int]] = []
        self.alike = Interchangeable(graph)
        self._known: dict[Part, list[int] | None] = {}
        self._given_up: set[Part] = set()
        self._where: dict[Part, tuple[int, list[tuple[int, int]]]] = {}

    def plan(self, choices: Sequence[StepChoice], deadline: float, *, last: bool = True) -> Plan | None:
        """Return the plan of some steps, in few passes as far as that has addresses, or None.

        Parameters
        ----------
        last
            Whether much is tried, also for parts for which no addresses have been found before.
        """
        self.failed, new = [], list(choices)
        found = placed_items(self.graph, choices)
        if peak_elements(found) > self.capacity:
            return None
        for begin, end in list(_parts(found, len(new))):
            part = _between(found, begin, end)
            if self._at_once(part, deadline) is None:
                better = self._sought(new, part, deadline, last=last)
                if better is not None and better != new:
                    new, found = better, placed_items(self.graph, better)
        if self.failed:
            return None
        return self._whole(new)

    def _at_once(self, part: list[Item], deadline: float) -> list[int] | None:
        """Return addresses for a part, if they are found soon."""
        key = _key(part)
        if key not in self._known:
            offsets, _ = _placed(part, [], self.capacity, AT_ONCE * len(part), deadline)
            self._known[key] = None if self._late(part, offsets) else offsets
        return self._known[key]

    def _late(self, part: list[Item], offsets: list[int]) -> bool:
        """Return whether items of a part have no addresses, and keep which."""
        late = [(item.begin, item.end) for item, offset in zip(part, offsets, strict=True) if offset < 0]
        self._where[_key(part)] = part[0].begin, late
        return bool(late)

    def _sought(
        self, choices: list[StepChoice], part: list[Item], deadline: float, *, last: bool
    ) -> list[StepChoice] | None:
        """Return steps that move as much and have addresses in a part, which are then known, or None."""
        key = _key(part)
        if last or key not in self._given_up:
            alike = self._pairs(choices, part)
            better = self._exchanged(choices, part, alike, AT_FIRST * len(part), deadline)
            if better is None and last:
                until = share_of(deadline, SHARE) if alike.pairs else deadline
                found = find_addresses(part, self.capacity, until, exact=True)
                if found is not None:
                    self._known[key], better = found, choices
                elif alike.pairs:
                    better = self._exchanged(choices, part, alike, AT_MOST * len(part) ** 2, deadline)
            if better is not None:
                return better
            self._given_up.add(key)
        first, late = self._where[key]
        self.failed += [(begin + part[0].begin - first, end + part[0].begin - first) for begin, end in late]
        return None

    def _exchanged(
        self, choices: list[StepChoice], part: list[Item], alike: _Alike, tries: int, deadline: float
    ) -> list[StepChoice] | None:
        offsets, ends = _placed(part, alike.pairs, self.capacity, tries, deadline)
        if self._late(part, offsets):
            return None
        self._keep(part, offsets, ends)
        return self.alike.exchanged(choices, alike.stays, [ends[item] for item in alike.items])

    def _keep(self, part: list[Item], offsets: list[int], ends: list[int]) -> None:
        new = [item._replace(end=end) for item, end in zip(part, ends, strict=True)]
        order = sorted(range(len(new)), key=lambda number: new[number][:3])
        self._known[_key([new[number] for number in order])] = [offsets[number] for number in order]

    def _pairs(self, choices: Sequence[StepChoice], part: Sequence[Item]) -> _Alike:
        begin, end = part[0].begin, max(item.end for item in part)
        states = self.alike.states(choices)
        stays = [
            stay for stay in self.alike.stays(choices, states) if begin <= stay.begin and stay.end <= end
        ]
        numbers = {(item.begin, item.names[0][1]): number for number, item in enumerate(part)}
        where = [numbers[stay.begin, self.graph.tensors[stay.tensor].key] for stay in stays]
        pairs = [(where[one], where[other], since) for one, other, since in self.alike.pairs(stays, states)]
        return _Alike(stays, where, pairs)

    def _whole(self, choices: list[StepChoice]) -> Plan:
        """Return the plan of steps, of all parts of which addresses are known, in few passes."""
        found = placed_items(self.graph, choices)
        everything: list[Placed] = []
        for begin, end in _parts(found, len(choices)):
            part = _between(found, begin, end)
            offsets = self._known[_key(part)]
            assert offsets is not None
            everything += zip(part, offsets, strict=True)
        return plan_of(self.graph, *widen_buffers(self.graph, choices, everything, self.capacity))


def _placed(
    part: Sequence[Item], pairs: Pairs, capacity: int, tries: int, deadline: float
) -> tuple[list[int], list[int]]:
    """Return addresses of items, -1 for those that have none, and their ends, which pairs may exchange.

    Parameters
    ----------
    tries
        Orders that are tried; for another number they are others.
    """
    from tilewright.addresses import reordering  # start-up time: numba

    begins, ends, sizes = (np.array([item[column] for item in part], dtype=np.int64) for column in range(3))
    both = np.array(pairs, dtype=np.int64).reshape(-1, 3)
    offsets, new = reordering.placed_with_ends(
        begins, ends, sizes, both, capacity, tries, deadline, seed=tries
    )
    return offsets.tolist(), new.tolist()


def _parts(found: Sequence[Item], steps: int) -> Iterator[tuple[int, int]]:
    """Return from which step until before which one something is always on chip."""
    latest = [number + 1 for number in range(steps)]
    for item in found:
        latest[item.begin] = max(latest[item.begin], item.end)
    begin = end = 0
    for number in range(steps):
        end = max(end, latest[number])
        if end == number + 1:
            yield begin, end
            begin = end


def _between(found: Sequence[Item], begin: int, end: int) -> list[Item]:
    """Return the items of a part, sorted."""
    return sorted((item for item in found if begin <= item.begin < end), key=lambda item: item[:3])


def _key(part: Sequence[Item]) -> Part:
    first = part[0].begin if part else 0
    return tuple((item.begin - first, item.end - first, item.size) for item in part)
