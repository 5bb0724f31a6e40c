"""From steps to a plan with addresses, and from least buffers to those that the memory has room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.residency.costs import Shape, buffers, moved, replaceable
from tilewright.residency.graph import Graph, members
from tilewright.residency.passes import Group, pass_sizes
from tilewright.residency.placement import Item, items, placed
from tilewright.residency.plan import Plan
from tilewright.residency.reading import told_of
from tilewright.residency.tiles import depth
from tilewright.residency.transitions import Choice


def planned(
    graph: Graph,
    choices: Sequence[Choice],
    capacity: int,
    deadline: float = float("inf"),
    *,
    exact: bool = False,
) -> Plan | None:
    """Return the plan of some steps, or None if no addresses are found for all that they place."""
    found = items(graph, choices)
    addresses = placed(found, capacity, deadline, exact=exact)
    if addresses is None:
        return None
    return with_addresses(graph, choices, found, addresses)


def with_addresses(
    graph: Graph, choices: Sequence[Choice], found: Sequence[Item], addresses: Sequence[int]
) -> Plan:
    """Return the plan of some steps and of the addresses of all that they place."""
    at: list[dict[str, int]] = [{} for _ in choices]
    for item, address in zip(found, addresses, strict=True):
        for number, name in item.names:
            at[number][name] = address
    return told_of(graph, list(choices), at)


def widened(graph: Graph, choices: Sequence[Choice], capacity: int) -> list[Choice]:
    """Return the same steps in fewer passes, as far as the memory has room and nothing moves more."""
    found, alive, done = [], 0, graph.begin
    for choice in choices:
        alive = alive & ~choice.dropped | choice.fetched | choice.resident
        taken = sum(graph.tensors[number].size for number in members(alive))
        if choice.in_place >= 0:
            taken -= graph.tensors[choice.in_place].size
        found.append(choice._replace(shape=_wider(graph, choice, alive, capacity - taken, done)))
        done |= choice.group
        alive = sum(1 << number for number in members(alive) if graph.readers[number] & ~done)
    return found


def _wider(graph: Graph, choice: Choice, alive: int, room: int, done: int) -> Shape:
    """Return the widest shape of a step for some room."""
    group, whole = Group.of(graph, choice.group), frozenset(members(alive))
    streamed = [number for number in group.sources if number not in whole]

    def cost(shape: Shape) -> int:
        return moved(group, shape, streamed, members(choice.written))

    def fits(shape: Shape) -> bool:
        return (
            sum(buffer.size for buffer in buffers(group, shape, whole)) <= room
            and cost(shape) <= most
            and (choice.in_place < 0 or choice.in_place in replaceable(group, shape, done))
        )

    if choice.shape.doubled:
        return choice.shape
    best, most = choice.shape, cost(choice.shape)
    if best.channels is not None:  # whole sums are simpler, and as good where there is room
        every = frozenset(operation.number for operation in group.operations if operation.weights)
        whole_sums = (Shape("pixels", 1, 1, every), Shape("kernels", 1, 1))
        best = next((shape for shape in whole_sums if fits(shape)), best)
    elif best.columns is not None:  # and so are whole rows
        whole_rows = replace(best, pixels=1, columns=None)
        best = whole_rows if fits(whole_rows) else best
    units = max(operation.units for operation in group.operations)
    for kernels in reversed(pass_sizes(units)):
        wider = replace(best, kernels=kernels)
        if fits(wider):
            best = wider
            break
    width = best.columns or graph.tensors[group.output].shape[2]
    rows = [size * width for size in pass_sizes(graph.tensors[group.output].shape[1])]
    parts = [size for size in pass_sizes(width) if size < width]
    for pixels in reversed([*parts, *rows]):
        wider = replace(best, pixels=pixels)
        if pixels > best.pixels and best.order != "tiles" and fits(wider):
            best = wider
            break
    if best.channels is not None:
        for channels in reversed(pass_sizes(depth(graph, group.last))):
            wider = replace(best, channels=channels)
            if channels > best.channels and fits(wider):
                return wider
    return best
