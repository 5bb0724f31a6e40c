"""The numbers of a caffemodel, by layers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.importing.caffe.messages import read_weights
from tilewright.spec.errors import InputError

WEIGHTS = ".caffemodel"
"""What the file with a network's weights ends in."""


class Blobs:
    """The numbers that a caffemodel holds.

    Parameters
    ----------
    path
        Of the network's description; the caffemodel has the same name beside it.

    Raises
    ------
    InputError
        If there is none, or it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.with_suffix(WEIGHTS)
        if not self.path.is_file():
            limit = f"are in no prototxt, and there is no such file beside {path.name}"
            raise InputError(f"weights in {self.path.name}", None, limit)
        net = read_weights(self.path)
        self._of = {layer.name: layer.blobs for layer in (net.layer or net.layers) if layer.blobs}

    def numbers(self, layer: str, number: int, shape: Sequence[int]) -> NDArray[np.float32]:
        """Return a parameter of a layer, in the shape in which it is used.

        Raises
        ------
        InputError
            If the file does not hold it, or another number of values.
        """
        stored = self._of.get(layer, ())
        field = f"{self.path.name}, layer {layer}, blobs[{number}]"
        if number >= len(stored):
            raise InputError(field, None, f"is missing; the layer has a parameter of shape {list(shape)}")
        blob: Any = stored[number]
        values = np.array(blob.data or blob.double_data, np.float32)
        if values.size != prod(shape):
            raise InputError(field, int(values.size), f"values; the layer has {prod(shape)}, {list(shape)}")
        return values.reshape(shape)
