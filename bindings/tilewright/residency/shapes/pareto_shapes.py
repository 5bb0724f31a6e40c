"""What the rest of the memory buys a step: least traffic for each size, a staircase."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tilewright.residency.shapes.groups import Group, pass_sizes
from tilewright.residency.shapes.pareto_tiles import pareto_tiles
from tilewright.residency.shapes.shape import Shape, buffer_sizes, computed_whole, count_blocks, replaces
from tilewright.residency.shapes.strips import least_lines, reread


class ParetoShape(NamedTuple):
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


def pareto_shapes(
    group: Group,
    whole: frozenset[int],
    streamed: int,
    most: int,
    worst: int,
    cuts: Sequence[int | None] = (None,),
    in_place: int = -1,
) -> list[ParetoShape]:
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
    in_place
        Tensor whose place the output takes, or -1.

    Returns
    -------
    Least memory first.
    """

    def best(found: Iterable[ParetoShape]) -> list[ParetoShape]:
        return pareto(
            stair
            for stair in found
            if stair.memory <= most
            and stair.again <= worst
            and (in_place < 0 or replaces(group, stair.shape, in_place))
        )

    found: list[ParetoShape] = []
    if None in cuts:
        found += _by_rows(group, whole, most, worst, in_place)
        if len(group.operations) == 1:
            found += _by_kernels(group, whole, streamed)
            found += [ParetoShape(*way) for way in pareto_tiles(group, whole, most, worst)]
        found = best(found)
    strips = [columns for columns in cuts if columns is not None]
    return best([*found, *_in_strips(group, whole, most, worst, strips, found)]) if strips else found


def pareto(stairs: Iterable[ParetoShape]) -> list[ParetoShape]:
    """Return those that are not worse than another, least memory first."""
    kept: list[ParetoShape] = []
    for stair in sorted(stairs, key=lambda each: each[:2]):
        if not kept or stair.again < kept[-1].again:
            kept.append(stair)
    return kept


def _by_kernels(group: Group, whole: frozenset[int], streamed: int) -> Iterable[ParetoShape]:
    units = group.last.units
    sizes = [1] if group.last.channelwise or not streamed else pass_sizes(units)
    for kernels in sizes:
        shape = Shape("kernels", 1, kernels)
        memory = sum(buffer_sizes(group, shape, whole).values())
        again = 0 if group.last.channelwise else (count_blocks(group.last, shape) - 1) * streamed
        yield ParetoShape(memory, again, shape)


def _by_rows(
    group: Group, whole: frozenset[int], most: int, worst: int, in_place: int
) -> Iterable[ParetoShape]:
    weights = sum(operation.weights for operation in group.operations)
    if weights <= most:
        for pixels in [1] if in_place < 0 else group.pixels_that_replace(in_place):
            yield _all_kept(group, whole, None, pixels)
    if not weights:
        return
    loaded = _least_loaded(group, most)
    _, height, width = group.graph.tensors[group.output].shape
    too_many: list[int] = []
    # Of those that lead to as many passes any number of rows may be the best: padding, and the last pass,
    # which has what remains, make buffers smaller. Only multiples of a number never take less than it.
    for rows in range(1, height + 1):
        if any(rows % fewer == 0 for fewer in too_many):
            continue
        if (group.least_active(rows * width) - 1) * loaded > worst:
            continue
        ways = _some_kept(group, whole, most, worst, rows * width)
        if ways is None:
            too_many.append(rows)
        else:
            yield from ways


def _in_strips(
    group: Group,
    whole: frozenset[int],
    most: int,
    worst: int,
    widths: Iterable[int],
    known: Sequence[ParetoShape],
) -> Iterable[ParetoShape]:
    weights = sum(operation.weights for operation in group.operations)
    for columns in widths:
        again = reread(group, whole, columns)
        least = weights + least_lines(group, whole, columns)
        if again > worst or least > most:
            continue
        if not any(stair.memory <= least and stair.again <= again for stair in known):
            yield _all_kept(group, whole, columns)


def _all_kept(group: Group, whole: frozenset[int], columns: int | None, pixels: int = 1) -> ParetoShape:
    """Return the way that keeps all weights: buffers are smallest with one pixel a pass."""
    every = frozenset(operation.number for operation in group.operations if operation.weights)
    shape = Shape("pixels", pixels, 1, every, columns)
    return ParetoShape(sum(buffer_sizes(group, shape, whole).values()), reread(group, whole, columns), shape)


def _least_loaded(group: Group, most: int) -> int:
    """Return the elements of weights that are loaded for each pass, at least, if not all are kept."""
    weights = [operation.weights for operation in group.operations if operation.weights]
    return max(sum(weights) - most, min(weights))


def _some_kept(
    group: Group, whole: frozenset[int], most: int, worst: int, pixels: int
) -> list[ParetoShape] | None:
    """Return the ways that load some weights for each pass of some rows; None if not even buffers fit."""
    least = Shape("pixels", pixels, 1)
    sizes = buffer_sizes(group, least, whole)
    if sum(sizes.values()) > most:
        return None
    active = group.active(pixels)
    fixed = sum(size for (what, _), size in sizes.items() if what != "weights")
    ways = [(fixed, 0, frozenset[int]())]
    for operation in group.operations:
        if not operation.weights:
            continue
        number = operation.number
        small, again = sizes["weights", number], (active[number] - 1) * operation.weights
        large = operation.weights
        if number == group.last.number and group.output not in whole and not computed_whole(operation, least):
            # Of what is written, all channels are computed at once.
            large += (group.graph.tensors[group.output].channels - 1) * pixels
        ways = _merged(ways, number, (small, again), large, most, worst)
    return [ParetoShape(memory, again, replace(least, kept=kept)) for memory, again, kept in ways]


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
