"""What the rest of the memory buys a step: least traffic for each size, a staircase."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tilewright.residency.costs import Shape, blocks, buffers, computed_whole
from tilewright.residency.passes import Group, pass_sizes


class Stair(NamedTuple):
    """A way to cut up a step.

    Attributes
    ----------
    memory
        Elements of the buffers that the step places for itself.
    again
        Elements moved beyond each weight once and each source once.
    """

    memory: int
    again: int
    shape: Shape


def staircase(group: Group, whole: frozenset[int], streamed: int, most: int, worst: int) -> list[Stair]:
    """Return the ways to cut up a step of which none takes less memory and moves no more than another.

    Parameters
    ----------
    whole
        Tensors of the step that are on chip as a whole.
    streamed
        Elements of the sources that are read through line buffers.
    most
        Elements that buffers may take.
    worst
        Most elements that may be moved again.

    Returns
    -------
    Least memory first.
    """
    found = list(_by_pixels(group, whole, most, worst))
    if len(group.operations) == 1:
        found += _by_kernels(group, whole, streamed)
    return pareto([stair for stair in found if stair.memory <= most and stair.again <= worst])


def pareto(stairs: Iterable[Stair]) -> list[Stair]:
    """Return those that are not worse than another, least memory first."""
    kept: list[Stair] = []
    for stair in sorted(stairs, key=lambda each: each[:2]):
        if not kept or stair.again < kept[-1].again:
            kept.append(stair)
    return kept


def _by_kernels(group: Group, whole: frozenset[int], streamed: int) -> Iterable[Stair]:
    units = group.last.units
    sizes = [1] if group.last.channelwise or not streamed else pass_sizes(units)
    for kernels in sizes:
        shape = Shape("kernels", 1, kernels)
        memory = sum(buffer.size for buffer in buffers(group, shape, whole))
        again = 0 if group.last.channelwise else (blocks(group.last, shape) - 1) * streamed
        yield Stair(memory, again, shape)


def _by_pixels(group: Group, whole: frozenset[int], most: int, worst: int) -> Iterable[Stair]:
    weighty = [operation for operation in group.operations if operation.weights]
    every = frozenset(operation.number for operation in weighty)
    # With all weights kept nothing moves again, and buffers are smallest with one pixel.
    shape = Shape("pixels", 1, 1, every)
    yield Stair(sum(buffer.size for buffer in buffers(group, shape, whole)), 0, shape)
    if not weighty or not worst:
        return
    cheapest = min(operation.weights for operation in weighty)
    width = group.graph.tensors[group.output].shape[2]
    too_many: list[int] = []
    # Of those that lead to as many passes any number of rows may be the best: padding, and the last pass,
    # which has what remains, make buffers smaller. Only multiples of a number never take less than it.
    for rows in range(1, group.pixels // width + 1):
        if (group.passes(rows * width) - 1) * cheapest > worst:
            continue
        if any(rows % fewer == 0 for fewer in too_many):
            continue
        least = Shape("pixels", rows * width, 1)
        sizes = {buffer[:2]: buffer.size for buffer in buffers(group, least, whole)}
        if sum(sizes.values()) > most:
            too_many.append(rows)
            continue
        active = group.active(rows * width)
        fixed = sum(size for (what, _), size in sizes.items() if what != "weights")
        ways = [(fixed, 0, frozenset[int]())]
        for operation in weighty:
            number = operation.number
            small, again = sizes["weights", number], (active[number] - 1) * operation.weights
            large = operation.weights
            if (
                number == group.last.number
                and group.output not in whole
                and not computed_whole(operation, least)
            ):
                # Of what is written, all channels are computed at once.
                large += (group.graph.tensors[group.output].channels - 1) * rows * width
            ways = _merged(ways, number, (small, again), large, most, worst)
        for memory, again, kept in ways:
            yield Stair(memory, again, Shape("pixels", rows * width, 1, kept))


Way = tuple[int, int, frozenset[int]]


def _merged(
    ways: list[Way], number: int, streamed: tuple[int, int], kept: int, most: int, worst: int
) -> list[Way]:
    """Return the ways that stay good when the weights of one more operation are streamed or kept."""
    small, again = streamed
    found = [(memory + small, more + again, names) for memory, more, names in ways]
    if again:
        found += [(memory + kept, more, names | {number}) for memory, more, names in ways]
    found = sorted((way for way in found if way[0] <= most and way[1] <= worst), key=lambda way: way[:2])
    best: list[Way] = []
    for way in found:
        if not best or way[1] < best[-1][1]:
            best.append(way)
    return best
