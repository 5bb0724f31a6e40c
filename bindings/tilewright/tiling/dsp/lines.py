"""Input rows and columns as the chip has them: all of the padded plane, or those that kernels meet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.spec.layer import Layer

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class InputLines:
    """The rows (or columns) of the padded input that DMA transfers can load, numbered without gaps.

    A DMA controller with a step leaves out each row whose distance from the first one is, modulo the stride,
    that of no kernel row: no window meets it. What it keeps repeats with the stride, so a window moves on by
    the same number of kept rows every time.

    Attributes
    ----------
    kept : int, shape (lines,)
        Their positions in the padded plane, ascending.
    stride
        Lines from one window to the next.
    extent
        Lines from the first to the last of a window.
    loaded : (start, stop)
        Lines that are not generated padding.
    """

    kept: Counts
    stride: int
    extent: int
    loaded: tuple[int, int]

    @classmethod
    def of(cls, layer: Layer, side: int, *, dma_step: bool, generated: bool) -> InputLines:
        """Return the lines of an axis.

        Parameters
        ----------
        side : {0, 1}
            Rows or columns.
        dma_step, generated
            Whether the machine's DMA has a step, and whether it makes zeros of padding on chip.
        """
        everything = np.arange(layer.padded_plane[side])
        whole = cls._numbered(layer, side, everything, generated)
        if not dma_step:
            return whole
        windows = everything[: layer.positions(bool(side))[-1, -1] + 1]
        met = np.zeros(layer.stride[side], dtype=bool)
        met[np.arange(layer.kernel[side]) * layer.dilation[side] % len(met)] = True
        lines = cls._numbered(layer, side, windows[met[windows % len(met)]], generated)
        first = np.arange(layer.output_plane[side]) * lines.stride
        inside = np.minimum(first + lines.extent, lines.loaded[1]) - np.maximum(first, lines.loaded[0])
        # Every tile loads some input; where all that a window meets is generated, the gaps are loaded, too.
        return lines if (inside > 0).all() else whole

    @classmethod
    def _numbered(cls, layer: Layer, side: int, kept: Counts, generated: bool) -> InputLines:
        before = layer.padding[2 * side] if generated else 0
        size = layer.input[1 + side] if generated else layer.padded_plane[side]
        ends = (layer.stride[side], layer.kernel_extent[side], before, before + size)
        stride, extent, start, stop = np.searchsorted(kept, ends).tolist()
        return cls(kept, stride, extent, (start, stop))
