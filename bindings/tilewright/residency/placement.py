"""Addresses: what is on chip at the same time lies at different places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tilewright.core.branch_and_bound import share_of
from tilewright.residency.graph import Graph, members
from tilewright.residency.plan import Plan, Step
from tilewright.residency.shapes.groups import Groups
from tilewright.residency.shapes.shape import step_buffers
from tilewright.residency.transitions import StepChoice


@dataclass(frozen=True)
class PlacementParams:
    """How long addresses are sought.

    Attributes
    ----------
    orders_per_item
        Orders in which items are placed, for each item.
    proof_share
        Share of the time in which it is sought whether there are addresses at all, if none are found at once.
    """

    orders_per_item: int = 200
    proof_share: float = 0.3


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


def find_addresses(
    items: Sequence[Item], capacity: int, deadline: float, *, exact: bool = False
) -> list[int] | None:
    """Return addresses for all, or None if none are found.

    Parameters
    ----------
    exact
        Whether to search until there are addresses, or it is proven that there are none, or time is up.
    """
    if peak_elements(items) > capacity:
        return None
    from tilewright.addresses import order_search  # start-up time: numba

    begins, ends, sizes = (np.array([item[column] for item in items], dtype=np.int64) for column in range(3))
    offsets = order_search.place_items(
        begins, ends, sizes, capacity, PARAMS.orders_per_item * len(items), deadline
    )
    if offsets is None and exact:
        from tilewright.addresses.exact.packing import pack  # start-up time: numba

        packing = pack(begins, ends, sizes, capacity, deadline=share_of(deadline, PARAMS.proof_share))
        offsets = packing.offsets
        if not packing.proven:
            offsets = order_search.place_items(begins, ends, sizes, capacity, 2**62, deadline, seed=1)
    return None if offsets is None else [int(offset) for offset in offsets]


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
) -> Plan | None:
    """Return the plan of some steps, or None if no addresses are found for all that they place."""
    found = placed_items(groups, choices)
    addresses = find_addresses(found, capacity, deadline, exact=exact)
    if addresses is None:
        return None
    return plan_of(groups, choices, list(zip(found, addresses, strict=True)))


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
