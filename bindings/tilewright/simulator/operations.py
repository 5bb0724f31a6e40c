"""The arithmetic that compute actions perform on what the chip holds, in numeric mode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.layer import Layer
from tilewright.simulator.program import Values


@dataclass(frozen=True)
class ConvolvePatches:
    """Convolve some patches with all kernels: windows gathered from the chip, then a product.

    Attributes
    ----------
    pixels : int, shape (patches, H_K * W_K)
        Positions in the input tensor's plane; -1 for padding that is made on chip.
    """

    layer: Layer
    pixels: NDArray[np.int32]

    def __call__(self, chip: dict[str, Values]) -> Values:
        """Return the outputs, shape ``(batch, N, patches)``."""
        layer = self.layer
        batch, channels = layer.batch, layer.input[0]
        plane = chip["input"].reshape(batch, channels, -1)
        windows = np.where(self.pixels >= 0, plane[:, :, self.pixels], 0)
        # Batch, group, patches, then what is summed: channels of the group and window.
        windows = windows.reshape(batch, layer.groups, channels // layer.groups, *self.pixels.shape)
        windows = windows.transpose(0, 1, 3, 2, 4).reshape(batch, layer.groups, len(self.pixels), -1)
        kernels = chip["kernels"].reshape(layer.groups, layer.kernels // layer.groups, -1)
        outputs: Values = np.einsum("bgpk,gnk->bgnp", windows, kernels, optimize=True)
        return outputs.reshape(batch, layer.kernels, -1)
