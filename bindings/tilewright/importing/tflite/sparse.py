"""Numbers of TFLite's sparse tensors: only those are stored that are not zero, or blocks of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import tflite
from numpy.typing import NDArray

from tilewright.spec.errors import InputError

Numbers = NDArray[np.int64]

VECTORS = {
    tflite.SparseIndexVector.Int32Vector: tflite.Int32Vector,
    tflite.SparseIndexVector.Uint16Vector: tflite.Uint16Vector,
    tflite.SparseIndexVector.Uint8Vector: tflite.Uint8Vector,
}
"""Tables of integers, by their numbers."""


def dense(told: Any, values: NDArray[Any], shape: Sequence[int], name: str) -> NDArray[Any]:
    """Return all numbers of a tensor.

    Levels are gone through in the order in which they are stored: dimensions, then those of a block. Of a
    dense level all places are there, of a sparse one those that are listed for each place before.

    Parameters
    ----------
    told
        The table ``SparsityParameters`` of the file.
    values
        Those that are stored.

    Raises
    ------
    InputError
        For tables that do not fit the shape, or each other.
    """
    order = [told.TraversalOrder(place) for place in range(told.TraversalOrderLength())]
    blocked = [told.BlockMap(place) for place in range(told.BlockMapLength())]
    levels = [told.DimMetadata(place) for place in range(told.DimMetadataLength())]
    rank = len(shape)
    if sorted(order) != list(range(rank + len(blocked))) or len(levels) != len(order):
        raise InputError(
            f"tensor {name}, sparsity", order, f"must be an order of {rank} dimensions and blocks"
        )
    if sorted(set(blocked)) != sorted(blocked) or not set(blocked) <= set(range(rank)):
        raise InputError(f"tensor {name}, block map", blocked, f"must be some of {rank} dimensions")
    sizes = [0] * len(order)
    places = np.zeros((1, 0), dtype=np.int64)
    for axis, level in zip(order, levels, strict=True):
        if level.Format() == 0:
            sizes[axis] = size = level.DenseSize()
            count = len(places) * size
            if not 0 < count <= max(1, prod(shape)):
                raise InputError(f"tensor {name}, size of dimension {axis}", size, "does not fit its shape")
            own = np.tile(np.arange(size), len(places))
            before = np.repeat(np.arange(len(places)), size)
        else:
            segments = _numbers(level.ArraySegmentsType(), level.ArraySegments())
            own = _numbers(level.ArrayIndicesType(), level.ArrayIndices())
            counts = np.diff(segments)
            if len(segments) != len(places) + 1 or (counts < 0).any() or counts.sum() != len(own):
                limit = f"must divide {len(own)} indices among {len(places)} places"
                raise InputError(f"tensor {name}, segments of dimension {axis}", len(segments), limit)
            before = np.repeat(np.arange(len(places)), counts)
        places = np.concatenate([places[before], own[:, None]], axis=1)
    by_axis = places[:, np.argsort(order)]
    extents = {place: sizes[rank + number] for number, place in enumerate(blocked)}
    found = by_axis[:, :rank].copy()
    for number, place in enumerate(blocked):
        found[:, place] = found[:, place] * extents[place] + by_axis[:, rank + number]
    if len(found) != len(values) or (found < 0).any() or (found >= np.array(shape, np.int64)).any():
        limit = f"must be the {len(found)} that its dimensions list, inside {list(shape)}"
        raise InputError(f"tensor {name}, numbers", len(values), limit)
    result = np.zeros(shape, values.dtype)
    result[tuple(found.T)] = values
    return result


def _numbers(kind: int, table: Any) -> Numbers:
    """Return the integers of a vector of one of TFLite's kinds."""
    if table is None or kind not in VECTORS:
        return np.zeros(0, dtype=np.int64)
    vector = VECTORS[kind]()
    vector.Init(table.Bytes, table.Pos)
    return np.array([vector.Values(place) for place in range(vector.ValuesLength())], np.int64)
