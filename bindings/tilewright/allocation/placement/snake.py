"""A first placement: all layers one after the other along a path through the array."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from tilewright.allocation.placement.floor import Floor, Regions, on_border
from tilewright.allocation.placement.paths import Path, paths
from tilewright.core.jit import kernel

OFFSETS = 16
"""Most beginnings of a run along a path that are looked at, evenly spaced, beside the one at a line's end."""


def snake(floor: Floor) -> Regions:
    """Return a run of all layers along a path through the array, the best of many.

    Every run keeps all rules but that of the border, and one along the rows that ends with a row keeps this
    one for the first and the last layer. Where no run that is looked at keeps it for all layers that it
    concerns, `violation` names one of them.
    """
    spare = floor.rows * floor.columns - sum(floor.sizes)
    first = np.array([0, *accumulate(floor.sizes)])
    edges = np.array(floor.edges, np.int64).reshape(-1, 2)
    offsets = {spare % floor.columns, *np.linspace(0, spare, min(spare, OFFSETS) + 1).astype(int).tolist()}
    none = len(floor.edges) * sum(floor.sizes) * (floor.rows + floor.columns) + 1
    best = len(floor.border), none
    chosen: list[Path] = []
    for path in paths(floor.rows, floor.columns):
        pes = np.array(path)
        at_border = np.cumsum([0, *(on_border(floor, pe) for pe in path)])
        for offset in offsets:
            begins = first + offset
            reached = np.diff(at_border[begins])
            missing = sum(int(reached[layer] == 0) for layer in floor.border)
            if missing <= best[0]:
                enough = best[1] if missing == best[0] else none
                rank = missing, _hops_of_run(pes, begins, edges, enough)
                if rank < best:
                    best, chosen = rank, [path[i:j] for i, j in pairwise(begins)]
    return tuple(tuple(sorted(region)) for region in chosen)


@kernel()
def _hops_of_run(
    pes: NDArray[np.int64], begins: NDArray[np.int64], edges: NDArray[np.int64], enough: int
) -> int:
    """Return the hops of a run of layers along a path, or any number that is enough."""
    hops = 0
    for edge in range(edges.shape[0]):
        producer, consumer = edges[edge]
        for i in range(begins[consumer], begins[consumer + 1]):
            nearest = enough
            for j in range(begins[producer + 1] - 1, begins[producer] - 1, -1):
                nearest = min(nearest, abs(pes[i, 0] - pes[j, 0]) + abs(pes[i, 1] - pes[j, 1]))
                if nearest == 1:
                    break
            hops += nearest
            if hops >= enough:
                return enough
    return hops
