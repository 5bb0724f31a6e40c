"""The arithmetic that compute actions perform on what the chip holds, in numeric mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
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


Range = tuple[int, int]


@dataclass(frozen=True)
class ConvolveBox:
    """Convolve one tile: a box of outputs, summed over some of the input channels of their groups.

    All ranges are half-open. The outputs come in the order images, groups, kernels within a group, rows,
    columns, which is that of an output box if it has one group, or all kernels of its groups.

    Attributes
    ----------
    images, rows, cols
        Of the output.
    groups
        Channel groups; a tile may span several.
    kernels, channels
        Kernels and input channels *within each* of the groups.
    generated_padding
        Padding is made on chip: it counts as zero, whatever the chip holds there.
    input, weights
        Names of the tensors with shapes (batch, C, padded H, padded W) and (N, C / groups, H_K, W_K);
        C and N may each be split into groups and what each group has.
    """

    layer: Layer
    images: Range
    groups: Range
    kernels: Range
    channels: Range
    rows: Range
    cols: Range
    generated_padding: bool = False
    input: str = "input"
    weights: str = "kernels"

    def __call__(self, chip: dict[str, Values]) -> Values:
        """Return the outputs, shape ``(images, groups * kernels, rows, cols)``."""
        values, weights = self._values(chip[self.input]), self._weights(chip[self.weights])
        n_images, n_groups = values.shape[:2]
        largest = [max(abs(int(a.max(initial=0))), abs(int(a.min(initial=0)))) for a in (values, weights)]
        exact = largest[0] * largest[1] * weights.shape[2] < _EXACT_BELOW
        kind: type[np.float64 | np.int64] = np.float64 if exact else np.int64
        values, weights = values.astype(kind), weights.astype(kind)
        height, width = (last - first for first, last in (self.rows, self.cols))
        result = np.empty((n_images, n_groups, weights.shape[1], height, width), dtype=np.int64)
        band = max(1, _BAND_ELEMENTS // max(1, n_images * n_groups * weights.shape[2] * width))
        for first in range(0, height, band):
            last = min(first + band, height)
            windows = self._windows(values, first, last)
            sums = weights @ windows.reshape(n_images, n_groups, weights.shape[2], (last - first) * width)
            result[:, :, :, first:last] = sums.reshape(*result.shape[:3], last - first, width)
        return result.reshape(n_images, -1, height, width)

    def _values(self, tensor: Values) -> Values:
        """Return the input under the tile, shape ``(images, groups, channels, height, width)``."""
        layer = self.layer
        grouped = tensor.reshape(tensor.shape[0], layer.groups, -1, *tensor.shape[-2:])
        spans = [
            (first * stride, (last - 1) * stride + extent)
            for (first, last), stride, extent in zip(
                (self.rows, self.cols), layer.stride, layer.kernel_extent, strict=True
            )
        ]
        found: Values = grouped[
            slice(*self.images),
            slice(*self.groups),
            slice(*self.channels),
            slice(*spans[0]),
            slice(*spans[1]),
        ]
        if not self.generated_padding:
            return found
        real = np.zeros_like(found)
        inside = tuple(
            slice(max(0, before - first), max(0, min(last, before + size) - first))
            for (first, last), before, size in zip(spans, layer.padding[::2], layer.input[1:], strict=True)
        )
        real[..., inside[0], inside[1]] = found[..., inside[0], inside[1]]
        return real

    def _weights(self, tensor: Values) -> Values:
        """Return the tile's weights, shape ``(groups, kernels, channels * H_K * W_K)``."""
        grouped = tensor.reshape(self.layer.groups, -1, *tensor.shape[-3:])
        found = grouped[slice(*self.groups), slice(*self.kernels), slice(*self.channels)]
        return found.reshape(*found.shape[:2], -1)

    def _windows(self, values: NDArray[Any], first: int, last: int) -> NDArray[Any]:
        """Return the windows of some of the tile's rows: channels, kernel rows and columns, rows, columns."""
        (down, across), (high, wide) = self.layer.stride, self.layer.kernel_extent
        rows = values[..., first * down : (last - 1) * down + high, :]
        windows = sliding_window_view(rows, (high, wide), axis=(-2, -1))
        by_row, by_col = self.layer.dilation
        return windows[..., ::down, ::across, ::by_row, ::by_col].transpose(0, 1, 2, 5, 6, 3, 4)


_EXACT_BELOW = 2**53
"""Sums of integers below this are exact in floating point, whose matrix product is much faster."""

_BAND_ELEMENTS = 4_000_000
"""Most elements of all windows that are laid out at a time."""
