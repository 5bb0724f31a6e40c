"""Where the layers of a pipeline stand on an array of processing elements (PEs).

How many PEs compute each layer is given; which ones is decided here. A layer's PEs form one region, regions
of layers that follow each other touch, and only PEs on the array's border reach the memory. Pixels travel
from the PEs of one layer to those of the next, hop by hop; the fewer hops the better.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

PE = tuple[int, int]
"""Row and column of a processing element, from 0."""

Regions = tuple[tuple[PE, ...], ...]
"""PEs of each layer, sorted."""


class Floor(NamedTuple):
    """An array and the layers that want a place on it.

    Attributes
    ----------
    rows, columns
        Of the array.
    sizes
        PEs of each layer in the order of execution, at least 1; together no more than the array has.
    edges
        (producer, consumer), once for each layer that reads another one's output; the producer comes first in
        the order of execution.
    border
        Layers that read the network's input, or whose output leaves the array.
    """

    rows: int
    columns: int
    sizes: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]
    border: tuple[int, ...]


def _neighbours(pe: PE) -> tuple[PE, ...]:
    row, column = pe
    return (row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)


def on_border(floor: Floor, pe: PE) -> bool:
    """Whether a PE lies on the border of the array."""
    return pe[0] in (0, floor.rows - 1) or pe[1] in (0, floor.columns - 1)


def _touches(region: Iterable[PE], others: set[PE]) -> bool:
    return any(neighbour in others for pe in region for neighbour in _neighbours(pe))


def _connected(region: set[PE]) -> bool:
    waiting = [next(iter(region))]
    reached = set(waiting)
    while waiting:
        new = [pe for pe in _neighbours(waiting.pop()) if pe in region and pe not in reached]
        reached.update(new)
        waiting += new
    return reached == region


def violation(floor: Floor, regions: Regions) -> str | None:
    """Say which rule a placement breaks, or None for a valid one."""
    if len(regions) != len(floor.sizes):
        return f"{len(regions)} regions for {len(floor.sizes)} layers"
    owner: dict[PE, int] = {}
    for layer, (region, size) in enumerate(zip(regions, floor.sizes, strict=True)):
        if len(region) != size:
            return f"layer {layer}: {len(region)} PEs instead of {size}"
        for row, column in region:
            if not (0 <= row < floor.rows and 0 <= column < floor.columns):
                return f"layer {layer}: PE ({row}, {column}) is outside the array"
            if (row, column) in owner:
                return f"layer {layer}: PE ({row}, {column}) computes layer {owner[row, column]}, too"
            owner[row, column] = layer
    for layer, region in enumerate(regions):
        if not _connected(set(region)):
            return f"layer {layer}: its PEs are not connected"
        if layer and not _touches(region, set(regions[layer - 1])):
            return f"layer {layer}: does not touch layer {layer - 1}"
        if layer in floor.border and not any(on_border(floor, pe) for pe in region):
            return f"layer {layer}: reads or writes the memory, but has no PE on the border"
    return None


def distance(floor: Floor, regions: Regions) -> int:
    """Return the hops of a placement: for every PE of a consumer, those to the nearest PE of the producer."""
    pes = [np.array(region) for region in regions]
    return sum(
        int(np.abs(pes[producer][:, None] - pes[consumer]).sum(axis=2).min(axis=0).sum())
        for producer, consumer in floor.edges
    )
