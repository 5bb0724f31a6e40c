"""The ways to execute one operation in tiles and blocks of input channels: of each memory, the least traffic.

Memory and traffic are closed forms of the tile's rows and columns and of the block's output channels, so that
all sizes are looked at together. Of input channels there is one at a time, which is never worse than some, or
there are all: then there are no partial sums, and each tile is read once for all output channels, of which
one at a time is enough.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tilewright.residency.graph import Operation
from tilewright.residency.shapes import tiles
from tilewright.residency.shapes.groups import Group, pass_sizes
from tilewright.residency.shapes.shape import Shape
from tilewright.simulator.program import Counts

TileTable = tuple[Counts, Counts, Counts]
"""Memory, what is moved again, and the sizes, shape (ways, 4): rows, columns, kernels, channels."""


def pareto_tiles(
    group: Group, whole: frozenset[int], most: int, worst: int
) -> Iterator[tuple[int, int, Shape]]:
    """Return memory, what is moved again and shape of the ways that are not worse than another of them.

    Parameters
    ----------
    whole
        Tensors of the step that are on chip as a whole.
    most, worst
        Elements that buffers may take, and that may be moved again.
    """
    depth = tiles.summed_channels(group.graph, group.last)
    if len(group.operations) > 1 or not depth:
        return
    for order, ways in (("tiles", _tiles(group, whole, depth)), ("channels", _channels(group, whole, depth))):
        for memory, again, (rows, columns, kernels, channels) in _best(ways, most, worst):
            if order == "tiles":
                yield memory, again, Shape(order, rows * columns, kernels, frozenset(), columns, channels)
            else:
                yield memory, again, Shape(order, 1, kernels, frozenset(), None, channels)


def _best(ways: TileTable, most: int, worst: int) -> Iterator[tuple[int, int, tuple[int, int, int, int]]]:
    memory, again, sizes = ways
    fits = np.flatnonzero((memory <= most) & (again <= worst))
    rank = fits[np.lexsort((again[fits], memory[fits]))]
    least = np.minimum.accumulate(again[rank])
    for place, number in enumerate(rank.tolist()):
        if not place or again[number] < least[place - 1]:
            rows, columns, kernels, channels = sizes[number].tolist()
            yield int(memory[number]), int(again[number]), (rows, columns, kernels, channels)


def _tiles(group: Group, whole: frozenset[int], depth: int) -> TileTable:
    graph, operation = group.graph, group.last
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
    streamed = [graph.tensors[r.tensor].channels for r in operation.readings if r.tensor not in whole]
    each, bias = tiles.weights_of_a_channel(graph, operation)
    memory = _weights(operation, kernels * (channels * each + bias))
    for count in streamed:
        memory = memory + np.minimum(channels, count) * largest
    memory = memory + _block(group, whole, channels < depth, kernels * rows * columns)
    times = np.where(channels == depth, 1, -(-operation.units // kernels))
    again = operation.weights * (parts - 1) + sum(streamed) * (total * times - reading.pixels)
    return memory, again, np.stack([rows, columns, kernels, channels], axis=1)


def _channels(group: Group, whole: frozenset[int], depth: int) -> TileTable:
    graph, operation = group.graph, group.last
    blocks = pass_sizes(operation.units)
    kernels = np.array([*blocks, *blocks], dtype=np.int64)
    channels = np.array([1] * len(blocks) + [depth] * len(blocks), dtype=np.int64)
    each, bias = tiles.weights_of_a_channel(graph, operation)
    memory = _weights(operation, kernels * (channels * each + bias))
    memory = memory + _block(group, whole, channels < depth, kernels * group.pixels)
    streamed = [reading.tensor for reading in operation.readings if reading.tensor not in whole]
    for tensor in streamed:
        memory = memory + np.minimum(channels, graph.tensors[tensor].channels) * group.line_pixels(1)[tensor]
    size = sum(graph.tensors[tensor].size for tensor in streamed)
    again = size * (-(-operation.units // kernels) - 1)
    ones = np.ones_like(kernels)
    return memory, again, np.stack([ones, ones, kernels, channels], axis=1)


def _weights(operation: Operation, block: Counts) -> Counts:
    """Return what blocks of weights take, which is nothing where all of them are on chip for good."""
    return block if operation.weights else np.zeros_like(block)


def _block(group: Group, whole: frozenset[int], partial: NDArray[np.bool_], values: Counts) -> Counts:
    """Return the elements that partial sums take, or values of an output that does not stay."""
    return np.where(partial, values * group.graph.sum_elements, 0 if group.output in whole else values)
