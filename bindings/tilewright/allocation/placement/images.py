"""Placements as models see them: the layer of each PE, and one of its images under the array's symmetries."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.allocation.placement.floor import Floor, Regions


def marked_layer(floor: Floor) -> int:
    """Return the layer by whose place models tell the images of a placement apart."""
    return int(np.argmin(floor.sizes))


def most_hops(floor: Floor) -> dict[int, int]:
    """Return how far the PEs of a layer's consumers can be from it: regions that touch lead there."""
    farthest, most = floor.rows + floor.columns - 2, dict[int, int]()
    for producer, consumer in floor.edges:
        reach = min(farthest, sum(floor.sizes[producer + 1 : consumer + 1]))
        most[producer] = max(reach, most.get(producer, 0))
    return most


def positions(floor: Floor) -> tuple[list[int], list[int]]:
    """Return the row and the column of each PE."""
    places = [divmod(p, floor.columns) for p in range(floor.rows * floor.columns)]
    return [row for row, _ in places], [column for _, column in places]


def layers_of(floor: Floor, regions: Regions) -> Any:
    """Return the layer of each PE, from 1, shape (rows, columns)."""
    layers = np.zeros((floor.rows, floor.columns), np.int64)
    for layer, region in enumerate(regions, start=1):
        layers[tuple(zip(*region, strict=True))] = layer
    return layers


def canonical(floor: Floor, regions: Regions) -> Any:
    """Return the layer of each PE, from 1, in the image that symmetry breaking admits."""
    layers = layers_of(floor, regions)
    marked = 1 + marked_layer(floor)

    def middles(image: Any) -> list[float]:
        return [
            float(2 * at.sum() - (length - 1) * at.size)
            for at, length in zip(np.nonzero(image == marked), image.shape, strict=True)
        ]

    rows, columns = middles(layers)
    layers = layers[:: 1 if rows <= 0 else -1, :: 1 if columns <= 0 else -1]
    rows, columns = middles(layers)
    return layers.T if floor.rows == floor.columns and rows > columns else layers
