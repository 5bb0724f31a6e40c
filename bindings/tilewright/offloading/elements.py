"""Which elements of input, kernels and output a block touches: convolution as it is, or as a matrix product.

A *cell* is one patch with one kernel and one channel. A step computes *blocks*, each the cells of some
patches, kernels and channels (definition 2: whatever is on chip is consumed). As a matrix product (im2col) a
convolution is the same with other channels: each position under the window is one, and no two patches share
an element. Hence one description serves both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.spec.layer import Layer

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Elements:
    """The elements of a layer in one form.

    Attributes
    ----------
    n_patches, n_kernels, n_channels
        Extents of the iteration space; channels are those of the input, or positions of a patch (im2col).
    taps
        MACs of a cell.
    n_inputs
        Input elements, whether any patch needs them or not.
    inputs : int32, shape (n_patches, n_channels, taps)
        Input element under each tap; -1 for padding that is made on chip.
    """

    n_patches: int
    n_kernels: int
    n_channels: int
    taps: int
    n_inputs: int
    inputs: NDArray[np.int32]

    @classmethod
    def of(cls, layer: Layer, form: str, padding: str) -> Elements:
        """Return the elements of a convolution, numbered row-major as (C, H, W), (N, C, H, W), (N, H, W).

        The rows of the matrix of im2col are numbered one after the other.
        """
        rows, columns = layer.positions(columns=False), layer.positions(columns=True)
        plane = layer.padded_plane
        pixels = (rows[:, None, :, None] * plane[1] + columns[None, :, None, :]).reshape(
            -1, rows.shape[1] * columns.shape[1]
        )
        channels, taps = layer.input[0], pixels.shape[1]
        if padding == "generated":
            top, _, left, _ = layer.padding
            real = (
                (rows >= top) & (rows < top + layer.input[1]),
                (columns >= left) & (columns < left + layer.input[2]),
            )
            real_pixels = (real[0][:, None, :, None] & real[1][None, :, None, :]).reshape(pixels.shape)
        else:
            real_pixels = np.ones(pixels.shape, dtype=np.bool_)
        n_patches = len(pixels)
        if form == "gemm":
            inputs = np.arange(n_patches * channels * taps, dtype=np.int32).reshape(n_patches, channels, taps)
        else:
            planes = np.arange(channels)[None, :, None] * (plane[0] * plane[1])
            inputs = (pixels[:, None, :] + planes).astype(np.int32)
        inputs = np.where(real_pixels[:, None, :], inputs, np.int32(-1))
        if form == "gemm":
            inputs = inputs.reshape(n_patches, channels * taps, 1)
            channels, taps = channels * taps, 1
        n_inputs = n_patches * channels if form == "gemm" else channels * plane[0] * plane[1]
        inputs.setflags(write=False)
        return cls(n_patches, layer.kernels, channels, taps, n_inputs, inputs)

    @property
    def n_cells(self) -> int:
        """Patches times kernels times channels."""
        return self.n_patches * self.n_kernels * self.n_channels

    @property
    def n_kernel_elements(self) -> int:
        """Elements of all kernels."""
        return self.n_kernels * self.n_channels * self.taps

    @property
    def n_outputs(self) -> int:
        """Elements of the output."""
        return self.n_kernels * self.n_patches

    def needed_inputs(self) -> Numbers:
        """Return the input elements that some patch needs, ascending."""
        return self.inputs_of(np.arange(self.n_patches), np.arange(self.n_channels))

    def inputs_of(self, patches: Numbers, channels: Numbers) -> Numbers:
        """Return the input elements that some patches need of some channels, ascending."""
        there = np.zeros(self.n_inputs + 1, dtype=np.bool_)  # the last one is for padding made on chip
        there[self.inputs[np.ix_(patches, channels)]] = True
        found: Numbers = np.flatnonzero(there[:-1])
        return found

    def kernels_of(self, kernels: Numbers, channels: Numbers) -> Numbers:
        """Return the elements of some channels of some kernels, ascending."""
        firsts = (kernels[:, None] * self.n_channels + channels[None, :]).reshape(-1) * self.taps
        found: Numbers = (firsts[:, None] + np.arange(self.taps)).reshape(-1)
        return np.sort(found)

    def outputs_of(self, patches: Numbers, kernels: Numbers) -> Numbers:
        """Return the outputs of some patches and kernels, ascending."""
        found: Numbers = (kernels[:, None] * self.n_patches + patches[None, :]).reshape(-1)
        return np.sort(found)
