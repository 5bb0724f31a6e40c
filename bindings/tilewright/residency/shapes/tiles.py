"""One operation in tiles of its output and blocks of input channels: what it holds and moves, in elements.

Sums over input channels are added up block by block; until the last block has been added, an output is a
partial sum, which is wider than a value and lies in a block of its own.

Order ``tiles``: for each tile, for each block of output channels, for each block of input channels. What a
tile reads is loaded anew, for each block of output channels unless all input channels are there at a time;
weights are loaded for each tile.

Order ``channels``: for each block of output channels, for each block of input channels, the input's block
passes by. Weights are loaded once; partial sums of the whole plane are kept.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from tilewright.residency.graph import Graph, Operation, Reading
from tilewright.simulator.program import Counts
from tilewright.spec.network import NamedLayer

SUMMED = ("tiles", "channels")
"""Orders with blocks of input channels."""


def summed_channels(graph: Graph, operation: Operation) -> int:
    """Return the input channels that are added up one after the other; 0 where they may not be divided."""
    if not graph.tiles:
        return 0
    spec, producers = operation.op.spec, operation.op.producers
    if operation.channelwise or not isinstance(spec, NamedLayer) or spec.groups > 1:
        return 0
    if len(set(producers)) < len(producers) or operation.op.has_views:
        return 0
    sources = [graph.tensors[producer + 1] for producer in producers]
    if len({source.shape[1:] for source in sources}) > 1:
        return 0
    # In `ops` outputs have channels even where tensors are looked at as if they had none.
    return sum(graph.ops.shape(access)[0] for access in operation.op.accesses)


def weights_of_a_channel(graph: Graph, operation: Operation) -> tuple[int, int]:
    """Return the weights that an output channel has for each input channel, and for its bias."""
    spec = operation.op.spec
    assert isinstance(spec, NamedLayer)
    bias = int(spec.bias)
    return (operation.parameters // operation.units - bias) // summed_channels(graph, operation), bias


def parts_read(reading: Reading, axis: int, size: int) -> tuple[Counts, Counts]:
    """Return begin and end of what each part of the output's rows (0) or columns (1) reads, without gaps.

    What strides and borders leave out is read, too, so that parts together read all.
    """
    length, extent = reading.output[axis], reading.plane[axis]
    firsts = np.arange(0, length, size, dtype=np.int64)
    lasts = np.minimum(firsts + size, length) - 1
    if reading.extent is None:
        return np.zeros_like(firsts), np.full_like(firsts, extent)
    begins, ends = reading.begin(firsts, axis), reading.last(lasts, axis) + 1
    ends[-1] = extent
    begins[0] = 0
    begins[1:] = np.minimum(begins[1:], ends[:-1])
    return begins, ends


def largest_tile_read(reading: Reading, rows: int, columns: int) -> int:
    """Return the most pixels that a tile reads."""
    return prod(longest_and_total(reading, axis, size)[0] for axis, size in enumerate((rows, columns)))


def read_in_tiles(reading: Reading, rows: int, columns: int) -> int:
    """Return the pixels that all tiles read."""
    return prod(longest_and_total(reading, axis, size)[1] for axis, size in enumerate((rows, columns)))


def longest_and_total(reading: Reading, axis: int, size: int) -> tuple[int, int]:
    """Return how long the longest is that a part of the rows (0) or columns (1) reads, and all together."""
    begins, ends = parts_read(reading, axis, size)
    return int((ends - begins).max()), int((ends - begins).sum())


@lru_cache(maxsize=4096)
def useful_sizes(reading: Reading, axis: int) -> dict[int, tuple[int, int, int]]:
    """Return the sizes of parts along an axis that are not worse than a smaller one.

    Returns
    -------
    For each size: how many parts there are, the most that one reads, and what all of them read.
    """
    found: dict[int, tuple[int, int, int]] = {}
    for size in range(1, reading.output[axis] + 1):
        way = (ceil_div(reading.output[axis], size), *longest_and_total(reading, axis, size))
        if not any(
            other[0] <= way[0] and other[1] <= way[1] and other[2] <= way[2] for other in found.values()
        ):
            found[size] = way
    return found


def ceil_div(length: int, size: int) -> int:
    """Return into how many parts a length is cut."""
    return -(-length // size)
