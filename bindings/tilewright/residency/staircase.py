"""What the rest of the memory buys a step: least traffic for each size, a staircase."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tilewright.residency.costs import Shape, area, blocks, buffers, computed_whole, read_once
from tilewright.residency.passes import Group, pass_sizes
from tilewright.residency.tile_stairs import in_blocks


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


def staircase(
    group: Group,
    whole: frozenset[int],
    streamed: int,
    most: int,
    worst: int,
    cuts: Sequence[int | None] = (None,),
    fitting: Callable[[Shape], bool] = lambda _shape: True,
    known: Iterable[Stair] = (),
) -> list[Stair]:
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
    cuts
        Columns of strips that are looked at; None for whole rows.
    fitting
        Whether a shape may be taken.
    known
        Other ways.

    Returns
    -------
    Least memory first.
    """
    found = list(known)
    for columns in cuts:
        found += _by_pixels(group, whole, most, worst, columns)
    if len(group.operations) == 1 and None in cuts:
        found += _by_kernels(group, whole, streamed)
        found += [Stair(*way) for way in in_blocks(group, whole, most, worst)]
    return pareto(
        [stair for stair in found if stair.memory <= most and stair.again <= worst and fitting(stair.shape)]
    )


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


def _by_pixels(
    group: Group, whole: frozenset[int], most: int, worst: int, columns: int | None
) -> Iterable[Stair]:
    weighty = [operation for operation in group.operations if operation.weights]
    every = frozenset(operation.number for operation in weighty)
    # With all weights kept only strips read something again, and buffers are smallest with one pixel.
    shape = Shape("pixels", 1, 1, every, columns)
    where = area(group, shape)
    reread = sum(
        read_once(group, shape, tensor) - group.graph.tensors[tensor].size
        for tensor in group.sources
        if tensor not in whole
    )
    if reread > worst:
        return
    weights = sum(operation.weights for operation in weighty)
    if weights <= most:
        yield Stair(sum(buffer.size for buffer in buffers(group, shape, whole)), reread, shape)
    if not weighty or worst == reread:
        return
    # At least these are loaded for each pass.
    loaded = max(weights - most, min(operation.weights for operation in weighty))
    _, height, width = group.graph.tensors[group.output].shape
    width = columns or width
    too_many: list[int] = []
    # Of those that lead to as many passes any number of rows may be the best: padding, and the last pass,
    # which has what remains, make buffers smaller. Only multiples of a number never take less than it.
    for rows in range(1, height + 1):
        if any(rows % fewer == 0 for fewer in too_many):
            continue
        if reread + (min(where.active(rows * width).values()) - 1) * loaded > worst:
            continue
        least = Shape("pixels", rows * width, 1, frozenset(), columns)
        sizes = {buffer[:2]: buffer.size for buffer in buffers(group, least, whole)}
        if sum(sizes.values()) > most:
            too_many.append(rows)
            continue
        active = where.active(rows * width)
        fixed = sum(size for (what, _), size in sizes.items() if what != "weights")
        ways = [(fixed, reread, frozenset[int]())]
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
            yield Stair(memory, again, Shape("pixels", rows * width, 1, kept, columns))


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
