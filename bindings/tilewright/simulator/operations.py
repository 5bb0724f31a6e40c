"""The arithmetic that compute actions perform on what the chip holds, in numeric mode."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tilewright.simulator.program import Values
from tilewright.spec.layer import Layer, Window
from tilewright.spec.network import Add, Map, Pool


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
    kept : int, two arrays
        Rows and columns of the padded plane that the input tensor has, ascending; None for all of them.
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
    kept: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    def __call__(self, chip: dict[str, Values]) -> Values:
        """Return the outputs, shape ``(images, groups * kernels, rows, cols)``."""
        values, weights = self._values(chip[self.input]), self._weights(chip[self.weights])
        (down, _), (high, _) = self.layer.stride, self.layer.kernel_extent
        n_images, n_groups = values.shape[:2]
        kind = exact_type(values, weights, weights.shape[2])
        values, weights = values.astype(kind), weights.astype(kind)
        height, width = (last - first for first, last in (self.rows, self.cols))
        result = np.empty((n_images, n_groups, weights.shape[1], height, width), dtype=np.int64)
        band = max(1, _BAND_ELEMENTS // max(1, n_images * n_groups * weights.shape[2] * width))
        for first in range(0, height, band):
            last = min(first + band, height)
            rows = values[..., first * down : (last - 1) * down + high, :]
            under = windows(self.layer, rows, last - first, width)
            sums = weights @ under.reshape(n_images, n_groups, weights.shape[2], (last - first) * width)
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
        maps: Values = grouped[slice(*self.images), slice(*self.groups), slice(*self.channels)]
        found = self._plane(maps, spans)
        if not self.generated_padding:
            return found
        real = np.zeros_like(found)
        inside = tuple(
            slice(max(0, before - first), max(0, min(last, before + size) - first))
            for (first, last), before, size in zip(spans, layer.padding[::2], layer.input[1:], strict=True)
        )
        real[..., inside[0], inside[1]] = found[..., inside[0], inside[1]]
        return real

    def _plane(self, maps: Values, spans: list[Range]) -> Values:
        """Return certain rows and columns of the padded plane, with zeros where the tensor has none."""
        rows, columns = spans
        if self.kept is None:
            return maps[..., slice(*rows), slice(*columns)]
        found = np.zeros((*maps.shape[:3], rows[1] - rows[0], columns[1] - columns[0]), dtype=maps.dtype)
        (top, bottom), (left, right) = (
            np.searchsorted(kept, span) for kept, span in zip(self.kept, spans, strict=True)
        )
        below, across = self.kept[0][top:bottom] - rows[0], self.kept[1][left:right] - columns[0]
        found[..., below[:, None], across] = maps[..., top:bottom, left:right]
        return found

    def _weights(self, tensor: Values) -> Values:
        """Return the tile's weights, shape ``(groups, kernels, channels * H_K * W_K)``."""
        grouped = tensor.reshape(self.layer.groups, -1, *tensor.shape[-3:])
        found = grouped[slice(*self.groups), slice(*self.kernels), slice(*self.channels)]
        return found.reshape(*found.shape[:2], -1)


@dataclass(frozen=True)
class WindowBeat:
    """Compute one beat of a pipeline: all channels of a box of one frame's outputs.

    Padding is made on chip: it counts as zero, and for the largest value not at all. An average is the sum
    over its window, since the division is a scale and no matter of what moves where; neither is what a map
    computes, which passes its values on.

    Attributes
    ----------
    inputs
        Names of the tensors that are read, each of shape (frames, C, H, W) without padding. Their channels
        are concatenated in order; an addition sums them, and a fully connected layer takes all that they
        hold of the frame as its channels.
    weights
        Name of the tensor of shape (N, C / groups, H_K, W_K), where there is one.
    frame
        Number of the frame.
    rows, cols
        Of the output, half-open.
    """

    layer: Layer | Pool | Add | Map
    inputs: tuple[str, ...]
    weights: str | None
    frame: int
    rows: Range
    cols: Range

    def __call__(self, chip: dict[str, Values]) -> Values:
        """Return the outputs, shape ``(output channels, rows, cols)``."""
        layer = self.layer
        parts = [chip[name][self.frame] for name in self.inputs]
        size = self.rows[1] - self.rows[0], self.cols[1] - self.cols[0]
        result: Values
        if layer.kind == "add" or layer.kind == "map":
            parts = [part[:, slice(*self.rows), slice(*self.cols)] for part in parts]
            result = reduce(np.add, parts) if layer.kind == "add" else np.concatenate(parts)
            return result
        if layer.kind == "pool":
            largest = layer.op == "max"
            under = windows(layer, self._seen(parts, _LEAST if largest else 0), *size)
            result = under.max(axis=(1, 2)) if largest else under.sum(axis=(1, 2))
            return result
        assert self.weights is not None
        if layer.kind == "fc":
            parts = [part.reshape(-1, 1, 1) for part in parts]
        values = self._seen(parts, 0)
        weights = chip[self.weights].reshape(layer.groups, -1, layer.macs_per_output)
        # For one column a slower product is cheaper than a copy of the weights in another type.
        if size != (1, 1):
            kind = exact_type(values, weights, layer.macs_per_output)
            values, weights = values.astype(kind), weights.astype(kind)
        under = windows(layer, values, *size).reshape(layer.groups, layer.macs_per_output, -1)
        result = (weights @ under).astype(np.int64, copy=False).reshape(-1, *size)
        return result

    def _seen(self, parts: list[Values], padding: int) -> Values:
        """Return what the windows cover, shape ``(C, height, width)``, filled up where it is padding."""
        spans = [
            (first * stride - before, (last - 1) * stride - before + extent)
            for (first, last), stride, before, extent in zip(
                (self.rows, self.cols),
                self.layer.stride,
                self.layer.padding[::2],
                self.layer.kernel_extent,
                strict=True,
            )
        ]
        real = [
            (max(0, first), min(last, size))
            for (first, last), size in zip(spans, parts[0].shape[1:], strict=True)
        ]
        found = [part[:, slice(*real[0]), slice(*real[1])] for part in parts]
        values = found[0] if len(found) == 1 else np.concatenate(found)
        if real == spans:
            return values
        (top, bottom), (left, right) = spans
        filled = np.full((len(values), bottom - top, right - left), padding, dtype=np.int64)
        inside = [
            slice(first - begin, last - begin) for (first, last), (begin, _) in zip(real, spans, strict=True)
        ]
        filled[:, inside[0], inside[1]] = values
        return filled


def windows(layer: Window, values: NDArray[Any], rows: int, cols: int) -> NDArray[Any]:
    """Return the windows of `rows` x `cols` outputs, shape ``(..., H_K, W_K, rows, cols)``.

    Parameters
    ----------
    values : shape (..., height, width)
        What they cover and no more.
    """
    *lead, down, across = values.strides
    (by_row, by_col), (row, col), (high, wide) = layer.stride, layer.dilation, layer.kernel_extent
    if values.shape[-2:] != ((rows - 1) * by_row + high, (cols - 1) * by_col + wide):
        raise ValueError(f"windows of {rows} x {cols} outputs do not cover {values.shape[-2:]}")
    # Quicker to set up than sliding_window_view, which counts where windows are few and small.
    return as_strided(
        values,
        (*values.shape[:-2], *layer.kernel, rows, cols),
        (*lead, row * down, col * across, by_row * down, by_col * across),
        writeable=False,
    )


def exact_type(values: Values, weights: Values, terms: int) -> type[np.float64 | np.int64]:
    """Return the type in which sums of `terms` products are exact, floating point if possible."""
    largest = [max(abs(int(a.max(initial=0))), abs(int(a.min(initial=0)))) for a in (values, weights)]
    return np.float64 if largest[0] * largest[1] * terms < _EXACT_BELOW else np.int64


_LEAST = np.iinfo(np.int64).min

_EXACT_BELOW = 2**53
"""Sums of integers below this are exact in floating point, whose matrix product is much faster."""

_BAND_ELEMENTS = 4_000_000
"""Most elements of all windows that are laid out at a time."""
