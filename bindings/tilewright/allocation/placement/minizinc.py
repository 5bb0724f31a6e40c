"""Placement and MiniZinc: the data of ``models/allocation/regions.mzn``, and what its solutions say."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.allocation.placement.floor import Floor, Regions
from tilewright.allocation.placement.hop_bound import fewest_hops, lower_bound
from tilewright.spec.constraints import Term

__all__ = ["data", "read", "relax", "size", "start", "term"]


def size(floor: Floor) -> int:
    """Return about how many links the formulation gives: those of each layer's root with pairs of PEs."""
    return len(floor.sizes) * (floor.rows * floor.columns) ** 2


def relax(floor: Floor) -> int:
    """Return the percentage of PEs that large-neighbourhood search keeps: all but about twenty."""
    return min(95, max(60, 100 - 2000 // (floor.rows * floor.columns)))


def data(floor: Floor) -> dict[str, Any]:
    """Return the parameters that regions.mzn declares, all but those of the search."""
    return {
        "rows": floor.rows,
        "columns": floor.columns,
        "n_layers": len(floor.sizes),
        "n_edges": len(floor.edges),
        "size": list(floor.sizes),
        "producer": [producer + 1 for producer, _ in floor.edges],
        "consumer": [consumer + 1 for _, consumer in floor.edges],
        "border": {layer + 1 for layer in floor.border},
        "fewest_hops": list(fewest_hops(floor)),
        "fewest_in_all": lower_bound(floor),
    }


def term(names: tuple[str, ...], floor: Floor, one: Term) -> str:
    """Return whether a PE computes a layer, or hops between two layers, in MiniZinc."""
    layer = names.index(str(one.arguments[0])) + 1
    if one.word == "at":
        _, row, column = one.arguments
        return f"layer[{int(row) * floor.columns + int(column) + 1}] = {layer}"
    other = names.index(str(one.arguments[1])) + 1
    nearest = f"min(j in PE)(if layer[j] = {layer} then apart[i, j] else farthest endif)"
    return f"sum(i in PE)(bool2int(layer[i] = {other}) * {nearest})"


def start(floor: Floor, regions: Regions, *, as_it_is: bool = False) -> list[int]:
    """Return the layer of each PE, from 1, in the image of a placement that symmetry breaking leaves.

    Parameters
    ----------
    as_it_is
        Whether symmetries are not broken, so that a placement is its own image.
    """
    layers = np.zeros((floor.rows, floor.columns), np.int64)
    for layer, region in enumerate(regions, start=1):
        layers[tuple(zip(*region, strict=True))] = layer
    if as_it_is:
        return layers.ravel().tolist()
    turned = [layers, layers.T] if floor.rows == floor.columns else [layers]
    images = [image[::down, ::right] for image in turned for down in (1, -1) for right in (1, -1)]
    return min(image.ravel().tolist() for image in images)


def read(floor: Floor, solution: Any) -> Regions:
    """Return the placement of a solution of regions.mzn."""
    layers = np.array(solution.layer).reshape(floor.rows, floor.columns)
    return tuple(
        tuple((int(row), int(column)) for row, column in np.argwhere(layers == layer))
        for layer in range(1, len(floor.sizes) + 1)
    )
