"""Addresses: what is on chip at the same time lies at different places."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tilewright.addresses.exact.packing import pack
from tilewright.residency.costs import buffers
from tilewright.residency.graph import Graph, members
from tilewright.residency.passes import Group
from tilewright.residency.transitions import Choice

TRIALS = 400
"""Orders in which items are placed."""


class Item(NamedTuple):
    """Something that has one address from a step until before another.

    Attributes
    ----------
    names
        What it is called in which step that places it; more than one where a result takes the place of an
        operand.
    """

    begin: int
    end: int
    size: int
    names: tuple[tuple[int, str], ...]


def items(graph: Graph, choices: Sequence[Choice]) -> list[Item]:
    """Return all that the steps place."""
    found: list[Item] = []
    alive: dict[int, tuple[int, int, list[tuple[int, str]]]] = {}  # tensor: begin, size, names
    done = graph.begin
    for number, choice in enumerate(choices):
        for tensor in members(choice.dropped):
            begin, size, names = alive.pop(tensor)
            found.append(Item(begin, number, size, tuple(names)))
        for tensor in members(choice.fetched):
            alive[tensor] = number, graph.tensors[tensor].size, [(number, graph.tensors[tensor].name)]
        group = Group.of(graph, choice.group)
        done |= choice.group
        whole = frozenset([*alive, *members(choice.resident)])
        for tensor in members(choice.resident):
            name = number, graph.tensors[tensor].name
            if tensor == group.output and choice.in_place >= 0:
                begin, size, names = alive.pop(choice.in_place)
                alive[tensor] = begin, size, [*names, name]
            else:
                alive[tensor] = number, graph.tensors[tensor].size, [name]
        for buffer in buffers(group, choice.shape, whole):
            found.append(Item(number, number + 1, buffer.size, ((number, buffer.name(graph)),)))
        for tensor in [tensor for tensor in alive if not graph.readers[tensor] & ~done]:
            begin, size, names = alive.pop(tensor)
            found.append(Item(begin, number + 1, size, tuple(names)))
    return found


def most_live(found: Sequence[Item]) -> int:
    """Return the elements of all that is on chip at a time, at most."""
    return max(sum(other.size for other in found if other.begin <= item.begin < other.end) for item in found)


def placed(found: Sequence[Item], capacity: int, deadline: float, *, exact: bool = False) -> list[int] | None:
    """Return addresses for all, or None if none are found.

    Parameters
    ----------
    exact
        Whether to search until there are addresses, or it is proven that there are none, or time is up.
    """
    addresses = _tried(found, capacity, deadline)
    if addresses is None and exact:
        begins, ends, sizes = ([item[column] for item in found] for column in range(3))
        offsets = pack(begins, ends, sizes, capacity, deadline=deadline).offsets
        addresses = None if offsets is None else [int(offset) for offset in offsets]
    return addresses


def _tried(found: Sequence[Item], capacity: int, deadline: float, seed: int = 0) -> list[int] | None:
    """Return addresses that are found in a moment: items one after the other, in many orders."""
    rng = random.Random(seed)
    orders: list[Callable[[Item], tuple[int, ...]]] = [
        lambda item: (-(item.end - item.begin), -item.size),
        lambda item: (-item.size, item.begin),
        lambda item: (-item.size * (item.end - item.begin), item.begin),
        lambda item: (item.end - item.begin == 1, item.begin, -item.size),
    ]
    numbers = range(len(found))
    ranks = [sorted(numbers, key=lambda number: order(found[number])) for order in orders]
    tried = 0
    while tried < TRIALS:
        rank = ranks[tried % len(ranks)]
        if tried >= len(ranks):
            rank = _moved(rank, rng)
        addresses, late = _first_fit(found, rank, capacity)
        if not late:
            return addresses
        # What did not fit is placed earlier the next time.
        ranks[tried % len(ranks)] = [*late, *(number for number in rank if number not in set(late))]
        tried += 1
        if time.monotonic() > deadline:
            break
    return None


def _moved(rank: list[int], rng: random.Random) -> list[int]:
    """Return an order with one item moved forward."""
    place = rng.randrange(len(rank))
    return [rank[place], *rank[:place], *rank[place + 1 :]]


def _first_fit(found: Sequence[Item], rank: Sequence[int], capacity: int) -> tuple[list[int], list[int]]:
    """Place items one after the other, each as low as possible; return those that find no place, too."""
    addresses, late = [0] * len(found), []
    there: list[int] = []
    for number in rank:
        item = found[number]
        beside = sorted(
            (addresses[other], found[other].size)
            for other in there
            if found[other].begin < item.end and item.begin < found[other].end
        )
        address = 0
        for begin, size in beside:
            if begin - address >= item.size:
                break
            address = max(address, begin + size)
        if address + item.size > capacity:
            late.append(number)
            continue
        addresses[number] = address
        there.append(number)
    return addresses, late
