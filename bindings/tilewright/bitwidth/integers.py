"""Layers in integers: quantised inputs and weights, and sums in an accumulator that wraps around."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.bitwidth.data import Parameters
from tilewright.bitwidth.fixed_point import Floats, Format, Integers, accumulate, wrap
from tilewright.bitwidth.machine import LayerRange
from tilewright.bitwidth.network import convolve, windows
from tilewright.bitwidth.plan import Widths
from tilewright.simulator.reference import convolution
from tilewright.spec.network import NamedLayer

EXACT = ((2**24, np.float32), (2**53, np.float64))
"""Integers below which numbers in floating point are exact, whose matrix products are much faster."""


@dataclass(frozen=True)
class IntegerLayer:
    """A layer with its formats.

    Attributes
    ----------
    inputs, weights
        Formats of both, the finest that hold their ranges.
    accumulator
        Bits of the register.
    """

    layer: NamedLayer
    inputs: Format
    weights: Format
    accumulator: int

    @classmethod
    def of(cls, layer: NamedLayer, widths: Widths, known: LayerRange, accumulator: int) -> IntegerLayer:
        """Return a layer with inputs and weights of some widths."""
        inputs, weights = Format.of(widths[0], known.input), Format.of(widths[1], known.weights)
        return cls(layer, inputs, weights, accumulator)

    @property
    def fraction(self) -> int:
        """Fractional length of products and sums."""
        return self.inputs.fraction + self.weights.fraction

    def sums(self, inputs: Integers, weights: Integers) -> Integers:
        """Return the whole sums, in 64 bits.

        Parameters
        ----------
        inputs : shape (images, C, H, W)
        weights : shape (N, C / groups, H_K, W_K)
        """
        largest = self.layer.macs_per_output << (self.inputs.bits + self.weights.bits - 2)
        for most, kind in EXACT:
            if largest < most:
                found = convolve(self.layer, inputs.astype(kind), weights.astype(kind))
                return found.astype(np.int64)
        return convolution(self.layer.unnamed(len(inputs)), inputs, weights)

    def run(self, values: Floats, parameters: Parameters) -> tuple[Floats, Integers, Integers]:
        """Return the layer's output, and the sums as they are and as the accumulator keeps them.

        The bias is added when a sum is scaled to the next format, once for each output and outside of the
        accumulator.
        """
        sums = self.sums(self.inputs.quantise(values), self.weights.quantise(parameters.weights))
        kept = wrap(sums, self.accumulator)
        output: Floats = np.ldexp(kept.astype(np.float64), -self.fraction) + parameters.bias[:, None, None]
        return output, sums, kept

    def one_by_one(self, values: Floats, parameters: Parameters) -> Integers:
        """Return the sums of one image as `accumulate` has them: a wrap after each addition."""
        layer = self.layer
        seen = windows(layer, self.inputs.quantise(values).astype(np.float64)).astype(np.int64)[0]
        weights = self.weights.quantise(parameters.weights).reshape(layer.kernels, -1)
        channels, maps = layer.input[0] // layer.groups, layer.kernels // layer.groups
        rows, columns = layer.output_plane
        parts = []
        for group in range(layer.groups):
            taps = seen[group * channels : (group + 1) * channels].transpose(1, 2, 0, 3, 4)
            found = accumulate(
                taps.reshape(rows * columns, -1), weights[group * maps : (group + 1) * maps], self.accumulator
            )
            parts.append(found.T.reshape(maps, rows, columns))
        return np.concatenate(parts)
