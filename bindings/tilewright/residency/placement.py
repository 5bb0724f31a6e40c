"""Addresses: what is on chip at the same time lies at different places."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, permutations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.branch_and_bound import share_of
from tilewright.residency.graph import Graph, members
from tilewright.residency.machine import Region
from tilewright.residency.plan import Plan, Step
from tilewright.residency.shapes.groups import Groups
from tilewright.residency.shapes.shape import step_buffers
from tilewright.residency.transitions import StepChoice

if TYPE_CHECKING:
    from tilewright.addresses.exact.packing import Packing

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class PlacementParams:
    """How long addresses are sought.

    Attributes
    ----------
    orders_per_item
        Orders in which items are placed, for each item.
    proof_share
        Share of the time in which it is sought whether there are addresses at all, if none are found at once.
    seconds
        How long they are sought at most in several memories, in which it may take long to prove anything.
    ordered
        Memories that are filled in any order, where not all of them may be taken.
    tried
        Places that are tried for things that are there at the same time.
    """

    orders_per_item: int = 200
    proof_share: float = 0.3
    seconds: float = 5.0
    ordered: int = 4
    tried: int = 10_000


PARAMS = PlacementParams()


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


def placed_items(groups: Groups, choices: Sequence[StepChoice]) -> list[Item]:
    """Return all that the steps place."""
    graph, found = groups.graph, list[Item]()
    alive: dict[int, tuple[int, int, list[tuple[int, str]]]] = {}  # tensor: begin, size, names
    done = graph.begin
    for number, choice in enumerate(choices):
        for tensor in members(choice.dropped):
            begin, size, names = alive.pop(tensor)
            found.append(Item(begin, number, size, tuple(names)))
        for tensor in members(choice.fetched):
            alive[tensor] = number, graph.tensors[tensor].size, [(number, graph.tensors[tensor].key)]
        group = groups[choice.group]
        done |= choice.group
        whole = frozenset([*alive, *members(choice.resident)])
        for tensor in members(choice.resident):
            name = number, graph.tensors[tensor].key
            if tensor == group.output and choice.in_place >= 0:
                begin, size, names = alive.pop(choice.in_place)
                alive[tensor] = begin, size, [*names, name]
            else:
                alive[tensor] = number, graph.tensors[tensor].size, [name]
        for buffer in step_buffers(group, choice.shape, whole):
            found.append(Item(number, number + 1, buffer.size, ((number, buffer.name(graph)),)))
        for tensor in [tensor for tensor in alive if not graph.readers[tensor] & ~done]:
            begin, size, names = alive.pop(tensor)
            found.append(Item(begin, number + 1, size, tuple(names)))
    return found


def peak_elements(items: Sequence[Item]) -> int:
    """Return the elements of all that is on chip at a time, at most."""
    return max(sum(other.size for other in items if other.begin <= item.begin < other.end) for item in items)


class Space(NamedTuple):
    """Where things may lie, numbered one behind the other, with what may not be taken left out.

    Attributes
    ----------
    rooms
        First element of each memory, as plans number them, and how many of it may be taken.
    """

    rooms: tuple[tuple[int, int], ...]

    @property
    def capacity(self) -> int:
        """How many elements there are."""
        return sum(size for _, size in self.rooms)

    @property
    def borders(self) -> tuple[int, ...]:
        """Where nothing may lie on both sides."""
        return tuple(accumulate(size for _, size in self.rooms[:-1]))

    def address(self, element: int) -> int:
        """Return what plans call an element."""
        for (begin, _), base in zip(reversed(self.rooms), reversed((0, *self.borders)), strict=True):
            if element >= base:
                return begin + element - base
        return element


def spaces(regions: Sequence[Region], capacity: int) -> list[Space]:
    """Return ways to take no more than some elements of several memories together, each up to some element.

    Where they have more, each way fills some of them, one after the other.

    Parameters
    ----------
    regions
        The memories; none for one that begins at 0 and has just these elements.
    """
    if len(regions) < 2:
        begin = regions[0].begin if regions else 0
        return [Space(((begin, capacity),))]
    found = dict[Space, None]()
    several = len(regions) <= PARAMS.ordered and capacity < sum(region.elements for region in regions)
    for order in permutations(regions) if several else [regions]:
        left, rooms = capacity, list[tuple[int, int]]()
        for region in order:
            taken = min(left, region.elements)
            left -= taken
            if taken:
                rooms.append((region.begin, taken))
        found[Space(tuple(sorted(rooms)))] = None
    return list(found)


def rooms_of(sizes: Sequence[int], rooms: Sequence[int]) -> tuple[int, ...] | None:
    """Return the room of each of some things that are there at the same time, the fullest that it fits in.

    Returns
    -------
    None where they do not fit, each into one room, or too much has been tried (`PlacementParams.tried`).
    """
    order = tuple(sorted(range(len(sizes)), key=lambda place: -sizes[place]))
    found = _rooms_of(tuple(sizes[place] for place in order), tuple(rooms))
    if found is None:
        return None
    return tuple(found[order.index(place)] for place in range(len(sizes)))


@lru_cache(maxsize=100_000)
def _rooms_of(sizes: tuple[int, ...], rooms: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the rooms of things of which the largest come first."""
    left, found, tried = list(rooms), list[int](), 0

    def descend() -> bool:
        nonlocal tried
        if len(found) == len(sizes):
            return True
        size, seen = sizes[len(found)], set[int]()
        for room in sorted(range(len(left)), key=left.__getitem__):
            if left[room] < size or left[room] in seen or tried > PARAMS.tried:
                continue
            seen.add(left[room])
            tried += 1
            left[room] -= size
            found.append(room)
            if descend():
                return True
            left[found.pop()] += size
        return False

    return tuple(found) if sum(sizes) <= sum(rooms) and descend() else None


def find_addresses(
    items: Sequence[Item],
    capacity: int,
    deadline: float,
    *,
    exact: bool = False,
    borders: Sequence[int] = (),
) -> list[int] | None:
    """Return addresses for all, or None if none are found.

    Parameters
    ----------
    exact
        Whether to search until there are addresses, or it is proven that there are none, or time is up.
    borders
        Elements that nothing lies on both sides of, in ascending order. With some, an exact search takes no
        longer than `PlacementParams.seconds`.
    """
    if peak_elements(items) > capacity:
        return None
    from tilewright.addresses import order_search  # start-up time: numba

    begins, ends, sizes = (np.array([item[column] for item in items], dtype=np.int64) for column in range(3))
    if borders:
        deadline = min(deadline, time.monotonic() + PARAMS.seconds)
    offsets = order_search.place_items(
        begins, ends, sizes, capacity, PARAMS.orders_per_item * len(items), deadline, borders=borders
    )
    if offsets is None and exact:
        packing = _pack(begins, ends, sizes, (*borders, capacity), share_of(deadline, PARAMS.proof_share))
        offsets = packing.offsets
        if not packing.proven:
            offsets = order_search.place_items(
                begins, ends, sizes, capacity, 2**62, deadline, seed=1, borders=borders
            )
    return None if offsets is None else [int(offset) for offset in offsets]


def _pack(begins: Ints, ends: Ints, sizes: Ints, tops: Sequence[int], deadline: float) -> Packing:
    """Search for addresses until it is known whether there are any; `tops`: where each memory ends."""
    from tilewright.addresses.exact.packing import pack  # start-up time: numba
    from tilewright.addresses.exact.rooms import pack_in_rooms

    if len(tops) == 1:
        return pack(begins, ends, sizes, tops[0], deadline=deadline)
    rooms = [top - begin for begin, top in zip((0, *tops), tops, strict=False)]
    return pack_in_rooms(begins, ends, sizes, rooms, deadline=deadline)


# Plans --------------------------------------------------------------------------------------------------

Placed = tuple[Item, int]
"""Something that has an address, and the address."""


def place_steps(
    groups: Groups,
    choices: Sequence[StepChoice],
    capacity: int,
    deadline: float = float("inf"),
    *,
    exact: bool = False,
    regions: Sequence[Region] = (),
) -> Plan | None:
    """Return the plan of some steps, or None if no addresses are found for all that they place.

    Parameters
    ----------
    capacity
        Elements that may be taken, of all memories together.
    exact
        As of `find_addresses`.
    regions
        The memories, where there are several.
    """
    found, ways = placed_items(groups, choices), spaces(regions, capacity)
    for number, space in enumerate(ways):
        until = share_of(deadline, 1 / (len(ways) - number))
        addresses = find_addresses(found, space.capacity, until, exact=exact, borders=space.borders)
        if addresses is not None:
            return plan_of(groups, choices, list(zip(found, map(space.address, addresses), strict=True)))
    return None


def plan_of(groups: Groups, choices: Sequence[StepChoice], everything: Sequence[Placed]) -> Plan:
    """Return the plan of some steps and of the addresses of all that they place."""
    at: list[dict[str, int]] = [{} for _ in choices]
    for item, address in everything:
        for number, name in item.names:
            at[number][name] = address
    return encode_plan(groups.graph, choices, at)


def encode_plan(graph: Graph, choices: Sequence[StepChoice], addresses: Sequence[dict[str, int]]) -> Plan:
    """Return the plan of some steps with their addresses."""

    def names(mask: int) -> tuple[str, ...]:
        return tuple(graph.tensors[number].name for number in members(mask))

    return Plan(
        tuple(
            Step(
                operations=tuple(operation.name for operation in graph.numbers(choice.group)),
                order=choice.shape.order,
                pixels=choice.shape.pixels,
                kernels=choice.shape.kernels,
                kept=tuple(graph.operations[number].name for number in sorted(choice.shape.kept)),
                dropped=names(choice.dropped),
                fetched=names(choice.fetched),
                resident=names(choice.resident),
                written=names(choice.written),
                in_place=graph.tensors[choice.in_place].name if choice.in_place >= 0 else None,
                addresses=at,
                columns=choice.shape.columns,
                channels=choice.shape.channels,
                keys=choice.shape.keys,
                blocks=choice.shape.blocks,
                double_buffering=choice.shape.doubled,
                running=choice.shape.running,
                interleaved=choice.shape.interleaved,
                copied=tuple(graph.operations[number].name for number in sorted(choice.shape.copied)),
            )
            for choice, at in zip(choices, addresses, strict=True)
        )
    )
