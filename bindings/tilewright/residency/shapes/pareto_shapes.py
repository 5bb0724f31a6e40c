"""The shapes of a step of which none takes less memory and moves no more than another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.residency.shapes import tiles
from tilewright.residency.shapes.groups import Group, pass_sizes
from tilewright.residency.shapes.in_blocks import in_blocks, most_keys, pixels_in_blocks
from tilewright.residency.shapes.product_tiles import Cut, product_tiles
from tilewright.residency.shapes.shape import (
    Shape,
    buffer_sizes,
    computed_whole,
    count_blocks,
    planes_or_strips,
    recurrent_loads,
    replaces,
)
from tilewright.residency.shapes.strips import least_line, reread
from tilewright.simulator.program import Counts


class ParetoShape(NamedTuple):
    """A shape with what it takes and moves.

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


ShapeT = TypeVar("ShapeT", ParetoShape, "_Kept")


class Limits(NamedTuple):
    """Most elements that buffers may take, and that may be moved again."""

    memory: int
    again: int


def pareto_shapes(
    group: Group,
    whole: frozenset[int],
    streamed: int,
    limits: Limits,
    columns: Sequence[int | None] = (None,),
    in_place: int = -1,
    keys: int = 1,
    parts: int = 0,
) -> list[ParetoShape]:
    """Return the shapes of which none takes less memory and moves no more than another, least memory first.

    Parameters
    ----------
    whole
        Tensors of the step that are on chip as a whole.
    streamed
        Elements of the sources that are read through line buffers.
    columns
        Of strips that are looked at; None for whole rows.
    in_place
        Tensor whose place the output takes, or -1.
    keys
        That pass by at a time, where keys do: one at a time takes least. 0 if they are not to pass by; less
        than 0 for shapes in which as many pass by, and no others.
    parts
        Blocks of columns in which the softmax of a tile is computed again; 0 for any number.
    """

    def best(found: Iterable[ParetoShape]) -> list[ParetoShape]:
        return undominated(
            each
            for each in found
            if each.memory <= limits.memory
            and each.again <= limits.again
            and (in_place < 0 or replaces(group, each.shape, in_place))
        )

    if group.mask & group.graph.alone:
        return best(_recurrent(group, whole) if None in columns else [])
    found: list[ParetoShape] = [*_tiles_of_product(group, whole, limits, keys, parts)]
    if keys < 0:
        return best([*found, *_by_blocks(group, whole, limits, keys)])
    if None in columns:
        for area in (group, group.running):
            if area is not None:
                found += _by_rows(area, whole, limits, in_place)
                found += _by_kernels(area, whole, streamed)
        found += _by_blocks(group, whole, limits, keys)
        if len(group.operations) == 1:
            found += shapes_by_tiles(group, whole, limits)
        found = best(found)
    strips = [each for each in columns if each is not None]
    return best([*found, *_in_strips(group, whole, limits, strips, found)]) if strips else found


def _recurrent(group: Group, whole: frozenset[int]) -> Iterator[ParetoShape]:
    """Return the shapes of a recurrent layer: with all weights, a direction's, or those of one value."""
    told, weights = group.last.recurrence, group.last.weights
    assert told is not None
    yield _all_kept(group, whole, None, group.pixels)
    for kernels in {1, told.hidden} if group.keepable else ():
        shape = Shape("pixels", group.pixels, kernels)
        memory = sum(buffer_sizes(group, shape, whole).values())
        yield ParetoShape(memory, (recurrent_loads(told, shape) - 1) * weights, shape)


def undominated(shapes: Iterable[ShapeT]) -> list[ShapeT]:
    """Return those that are not worse than another, least memory first."""
    kept: list[ShapeT] = []
    for each in sorted(shapes, key=lambda each: each[:2]):
        if not kept or each.again < kept[-1].again:
            kept.append(each)
    return kept


def _by_kernels(group: Group, whole: frozenset[int], streamed: int) -> Iterable[ParetoShape]:
    """Return the shapes of one operation in blocks of output channels."""
    if len(group.operations) > 1:
        return
    sizes = [1] if group.last.channelwise or not streamed else pass_sizes(group.last.units)
    for kernels in sizes:
        shape = Shape("kernels", 1, kernels, running=group.is_running)
        memory = sum(buffer_sizes(group, shape, whole).values())
        again = 0 if group.last.channelwise else (count_blocks(group.last, shape) - 1) * streamed
        yield ParetoShape(memory, again, shape)


# Weights kept, or loaded for each pass ------------------------------------------------------------------


def _by_rows(group: Group, whole: frozenset[int], limits: Limits, in_place: int) -> Iterable[ParetoShape]:
    """Return the shapes in passes over whole planes: all weights are kept, or passes have whole rows."""
    weights = [group.graph.operations[number].weights for number in group.keepable]
    if sum(weights) <= limits.memory:
        for pixels in [1] if in_place < 0 else group.pixels_that_replace(in_place):
            yield _all_kept(group, whole, None, pixels)
    if not weights:
        return
    # Of weights that are not all kept, so many elements are loaded for each pass, at least.
    loaded = max(sum(weights) - limits.memory, min(weights))
    height = group.plane[0]
    too_many: list[int] = []
    # Of those that lead to as many passes any number of rows may be the best: padding, and the last pass,
    # which has what remains, make buffers smaller. Only multiples of a number never take less than it.
    for rows in range(1, height + 1):
        if any(rows % fewer == 0 for fewer in too_many):
            continue
        if (group.least_active(rows * group.row) - 1) * loaded > limits.again:
            continue
        found = _some_kept(group, whole, limits, Shape("pixels", rows * group.row, 1))
        if found is None:
            too_many.append(rows)
        else:
            yield from found


def _all_kept(group: Group, whole: frozenset[int], columns: int | None, pixels: int = 1) -> ParetoShape:
    """Return the shape that keeps all weights: buffers are smallest with one pixel a pass."""
    shape = Shape("pixels", pixels, 1, group.keepable, columns, running=group.is_running)
    memory = sum(buffer_sizes(group, shape, whole).values())
    return ParetoShape(memory, reread(group, whole, columns), shape)


def _by_blocks(group: Group, whole: frozenset[int], limits: Limits, keys: int) -> Iterator[ParetoShape]:
    """Return the shapes that load second operands in blocks, without keys that pass by, or with these."""
    passing: list[int | None] = [None, keys] if keys and most_keys(group) else [None]
    if keys < 0:
        passing = [-keys]
    in_tiles = product_tiles(group)
    if in_tiles is not None and in_tiles.attention is not None:  # then keys pass by in tiles
        passing = [each for each in passing if each is None]
    for pixels, each in product(pixels_in_blocks(group), passing):
        area = in_blocks(group)
        streamed = (tensor for tensor in group.sources if tensor not in whole)
        again = sum(area.reloaded(tensor, pixels, each) for tensor in streamed)
        if again <= limits.again:
            least = Shape("pixels", pixels, 1, blocks=True, keys=each)
            left = limits._replace(again=limits.again - again)
            found = _some_kept(group, whole, left, least) or []
            yield from (shape._replace(again=shape.again + again) for shape in found)


def _some_kept(group: Group, whole: frozenset[int], limits: Limits, least: Shape) -> list[ParetoShape] | None:
    """Return the shapes that load some weights for each pass, as `least` loads all; None if none fits."""
    sizes = buffer_sizes(group, least, whole)
    if sum(sizes.values()) > limits.memory:
        return None
    pixels, active = least.pixels, planes_or_strips(group, least).active(least.pixels)
    found = [_Kept(fixed_size(group, sizes), 0, frozenset())]
    for operation in group.operations:
        if operation.number not in group.keepable:
            continue
        number = operation.number
        block, again = sizes["weights", number], (active[number] - 1) * operation.weights
        every = operation.weights
        if number == group.last.number and group.output not in whole and not computed_whole(operation, least):
            # Of what is written, all channels are computed at once.
            every += (group.graph.tensors[group.output].channels - 1) * pixels
        loaded = [_Kept(memory + block, more + again, kept) for memory, more, kept in found]
        if again:
            loaded += [_Kept(memory + every, more, kept | {number}) for memory, more, kept in found]
        found = undominated(
            each for each in loaded if each.memory <= limits.memory and each.again <= limits.again
        )
    return [ParetoShape(memory, again, replace(least, kept=kept)) for memory, again, kept in found]


def fixed_size(group: Group, sizes: Mapping[tuple[str, int], int]) -> int:
    """Return the elements of all buffers but weights that may be kept, given their sizes."""
    return sum(
        size for (what, number), size in sizes.items() if what != "weights" or number not in group.keepable
    )


class _Kept(NamedTuple):
    """Which operations keep their weights, and what the step then takes and moves again."""

    memory: int
    again: int
    kept: frozenset[int]


def _in_strips(
    group: Group,
    whole: frozenset[int],
    limits: Limits,
    widths: Iterable[int],
    known: Sequence[ParetoShape],
) -> Iterable[ParetoShape]:
    """Return the shapes in strips of some columns that may be better than those that are known."""
    group = group.running or group
    weights = sum(group.graph.operations[number].weights for number in group.keepable)
    for columns in widths:
        again = reread(group, whole, columns)
        lines = sum(least_line(group, tensor, columns) for tensor in group.lines if tensor not in whole)
        least = weights + lines
        if again > limits.again or least > limits.memory:
            continue
        if not any(each.memory <= least and each.again <= again for each in known):
            yield _all_kept(group, whole, columns)


def _tiles_of_product(
    group: Group, whole: frozenset[int], limits: Limits, keys: int, parts: int
) -> Iterator[ParetoShape]:
    """Return the shapes in tiles of a product, by itself or with the softmax before it."""
    area = product_tiles(group)
    if area is None or (keys == 0 if area.attention is not None else keys < 0):
        return
    every = area.every(abs(keys))
    if parts:
        chosen = area.count_blocks(every) == parts
        every = Cut(*(each[chosen] for each in every))
    memory, again = area.table(every, whole)
    for number in _undominated_rows(_TileTable(memory, again, np.stack(every, axis=1)), limits):
        pixels, kernels, terms = (int(each[number]) for each in every)
        own = (terms, None) if area.attention is None else (None, terms)
        shape = Shape("pixels", pixels, kernels, channels=own[0], keys=own[1], blocks=True)
        yield ParetoShape(int(memory[number]), int(again[number]), shape)


# Tiles and blocks of input channels ---------------------------------------------------------------------

# Memory and traffic are closed forms of the tile's rows and columns and of the block's output channels, so
# that all sizes are looked at together. Of input channels there is one at a time, which is never worse than
# some, or there are all: then there are no partial sums, and each tile is read once for all output channels,
# of which one at a time is enough.


class _TileTable(NamedTuple):
    """Many ways to cut an operation into tiles and blocks.

    Attributes
    ----------
    memory, again
        Elements that buffers take, and that are moved again; shape (ways,).
    sizes
        Rows, columns, output channels and input channels; shape (ways, 4).
    """

    memory: Counts
    again: Counts
    sizes: Counts


def shapes_by_tiles(group: Group, whole: frozenset[int], limits: Limits) -> Iterator[ParetoShape]:
    """Return the shapes of one operation with blocks of input channels."""
    depth = tiles.summed_channels(group.graph, group.last)
    if not depth:
        return
    for order, table in (("tiles", _tiles(group, whole, depth)), ("channels", _planes(group, whole, depth))):
        for number in _undominated_rows(table, limits):
            rows, columns, kernels, channels = table.sizes[number].tolist()
            tile = (rows * columns, columns) if order == "tiles" else (1, None)
            shape = Shape(order, tile[0], kernels, frozenset(), tile[1], channels)
            yield ParetoShape(int(table.memory[number]), int(table.again[number]), shape)


def _undominated_rows(table: _TileTable, limits: Limits) -> Iterator[int]:
    """Return the numbers of the ways that are not worse than another, least memory first."""
    memory, again, _ = table
    fits = np.flatnonzero((memory <= limits.memory) & (again <= limits.again))
    rank = fits[np.lexsort((again[fits], memory[fits]))]
    least = np.minimum.accumulate(again[rank])
    for place, number in enumerate(rank.tolist()):
        if not place or again[number] < least[place - 1]:
            yield number


def _tiles(group: Group, whole: frozenset[int], depth: int) -> _TileTable:
    """Return the ways to compute an operation tile by tile, `depth` input channels in all."""
    operation = group.last
    reading = operation.readings[0]
    axes = [tiles.useful_sizes(reading, axis) for axis in (0, 1)]
    blocks = pass_sizes(operation.units)
    kernels = np.array([*blocks, 1], dtype=np.int64)
    channels = np.array([1] * len(blocks) + [depth], dtype=np.int64)
    rows, columns, place = (
        each.reshape(-1) for each in np.meshgrid(*map(list, axes), np.arange(len(kernels)), indexing="ij")
    )
    counted = np.ones((len(rows), 3), dtype=np.int64)
    for sizes, chosen in zip(axes, (rows, columns), strict=True):
        table = np.zeros((max(sizes) + 1, 3), dtype=np.int64)
        table[list(sizes)] = list(sizes.values())
        counted *= table[chosen]
    parts, largest, total = counted.T
    kernels, channels = kernels[place], channels[place]
    streamed = [group.channels(r.tensor) for r in operation.readings if r.tensor not in whole]
    memory = _weights_and_sums(group, whole, depth, kernels, channels, kernels * rows * columns)
    for count in streamed:
        memory = memory + np.minimum(channels, count) * largest
    times = np.where(channels == depth, 1, -(-operation.units // kernels))
    again = operation.weights * (parts - 1) + sum(streamed) * (total * times - reading.pixels)
    return _TileTable(memory, again, np.stack([rows, columns, kernels, channels], axis=1))


def _planes(group: Group, whole: frozenset[int], depth: int) -> _TileTable:
    """Return the ways to compute an operation for whole planes, blocks of input channels passing by."""
    operation = group.last
    blocks = pass_sizes(operation.units)
    kernels = np.array([*blocks, *blocks], dtype=np.int64)
    channels = np.array([1] * len(blocks) + [depth] * len(blocks), dtype=np.int64)
    memory = _weights_and_sums(group, whole, depth, kernels, channels, kernels * group.pixels)
    streamed = 0
    for tensor in {reading.tensor for reading in operation.readings} - whole:
        held = group.line_pixels_of(tensor, 1)
        memory = memory + np.minimum(channels, group.channels(tensor)) * held
        streamed += group.elements_read(1 << tensor)
    again = streamed * (-(-operation.units // kernels) - 1)
    ones = np.ones_like(kernels)
    return _TileTable(memory, again, np.stack([ones, ones, kernels, channels], axis=1))


def _weights_and_sums(
    group: Group, whole: frozenset[int], depth: int, kernels: Counts, channels: Counts, values: Counts
) -> Counts:
    """Return the elements of blocks of weights, and of partial sums or an output that does not stay.

    Parameters
    ----------
    kernels, channels, values
        Output channels, input channels and output values at a time, shape (ways,).
    """
    weights: Counts = np.zeros_like(kernels)
    if group.last.weights:  # else all of them are on chip for good
        each, bias = tiles.weights_of_a_channel(group.graph, group.last)
        weights = kernels * (channels * each + bias)
    partial: NDArray[np.bool_] = channels < depth
    output = 0 if group.output in whole else values
    sums: Counts = np.where(partial, values * group.graph.sum_elements, output)
    return weights + sums
