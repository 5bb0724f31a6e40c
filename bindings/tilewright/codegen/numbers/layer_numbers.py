"""The numbers of one layer, complete sums of which are stored: made from a seed."""

from __future__ import annotations

from math import ceil, log2
from typing import NamedTuple

import numpy as np

from tilewright.simulator.arithmetic.fixed_point import Integers
from tilewright.simulator.arithmetic.reference import reference_convolution
from tilewright.spec.layer import Layer

SUM_BITS = 32
"""Of an element; no sum leaves it."""

MOST_BITS = 8
"""Of inputs and weights, at most."""


class LayerNumbers(NamedTuple):
    """What a layer is computed of, and what comes of it.

    Attributes
    ----------
    values : shape (images, C, H, W)
    kernels : shape (N, C / groups, H_K, W_K)
    outputs : shape (images, N, H_out, W_out)
    """

    values: Integers
    kernels: Integers
    outputs: Integers


def layer_numbers(layer: Layer, seed: int) -> LayerNumbers:
    """Return random inputs and kernels whose sums do not leave 32 bits, and the sums."""
    rng = np.random.default_rng(seed)
    bits = max(2, min(MOST_BITS, (SUM_BITS - ceil(log2(layer.macs_per_output))) // 2))
    half = 1 << (bits - 1)
    values = rng.integers(-half, half, (layer.batch, *layer.input), dtype=np.int64)
    kernels = rng.integers(-half, half, layer.kernels_shape, dtype=np.int64)
    return LayerNumbers(values, kernels, reference_convolution(layer, values, kernels))
