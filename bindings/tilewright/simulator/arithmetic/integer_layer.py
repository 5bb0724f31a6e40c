"""Layers in integers: quantised inputs and weights, and sums in an accumulator that wraps around."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tilewright.simulator.arithmetic.fixed_point import Floats, Format, Integers, accumulate, wrap
from tilewright.simulator.arithmetic.network_executor import convolve, windows
from tilewright.simulator.arithmetic.reference import reference_convolution
from tilewright.spec.network import NamedLayer

EXACT = ((2**24, np.float32), (2**53, np.float64))
"""Integers below which numbers in floating point are exact, whose matrix products are much faster."""


BIAS_BITS = 32
"""Bits of what is added to sums outside of the accumulator."""


class Parameters(NamedTuple):
    """Weights of a layer, of its kernels' shape, and the number added to each output map."""

    weights: Floats
    bias: Floats


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
    def of(
        cls, layer: NamedLayer, widths: Sequence[int], largest: Sequence[float], accumulator: int
    ) -> IntegerLayer:
        """Return a layer with inputs and weights of some widths, which hold some magnitudes."""
        inputs, weights = map(Format.of, widths, largest)
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
        return reference_convolution(self.layer.unnamed(len(inputs)), inputs, weights)

    def bias(self, parameters: Parameters) -> Integers:
        """Return what is added to each map's sums, in their fractional length."""
        return Format(BIAS_BITS, self.fraction).quantise(parameters.bias)

    def run(self, values: Floats, parameters: Parameters) -> tuple[Floats, Integers, Integers]:
        """Return the layer's output, and the sums as they are and as the accumulator keeps them.

        The bias is added when a sum is scaled to the next format, once for each output and outside of the
        accumulator.
        """
        sums = self.sums(self.inputs.quantise(values), self.weights.quantise(parameters.weights))
        kept = wrap(sums, self.accumulator)
        output: Floats = np.ldexp(
            (kept + self.bias(parameters)[:, None, None]).astype(np.float64), -self.fraction
        )
        return output, sums, kept

    def one_by_one(self, inputs: Integers, weights: Integers) -> Integers:
        """Return the sums of one image as `accumulate` has them: a wrap after each addition."""
        layer = self.layer
        seen = windows(layer, inputs.astype(np.float64)).astype(np.int64)[0]
        weights = weights.reshape(layer.kernels, -1)
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
