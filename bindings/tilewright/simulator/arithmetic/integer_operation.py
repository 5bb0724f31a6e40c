"""An operation in integers: what the engines of emitted C compute of elements, here on whole maps."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from tilewright.simulator.arithmetic.fixed_point import Format, Integers, wrap
from tilewright.simulator.arithmetic.integer_network import divide_to_format
from tilewright.simulator.arithmetic.network_executor import layer_output
from tilewright.simulator.arithmetic.reference import reference_convolution
from tilewright.spec.network import AnyLayer, NamedLayer, Pool

AS_STORED = 0, 0
"""What is done to a value that is read as it is stored."""

NOTHING: Integers = np.zeros((0, 0), dtype=np.int64)
"""The kernels of an operation that has none."""


class IntegerOperation(NamedTuple):
    """An operation in integers.

    Attributes
    ----------
    kind
        What the C calls it: CONV, MAX_POOL, AVERAGE_POOL, ADD, MULTIPLY or COPY.
    relu
        Whether negative values become 0.
    reads : (shift, bits) of each operand
        Values are divided by two to the power of the shift, rounded, and saturate at some bits, as they are
        read; `AS_STORED` where nothing is done.
    bits
        At which results saturate.
    shift, divisor
        Results are divided by the divisor and by two to the power of the shift, rounded once, halves away
        from zero.
    kernels : shape (kernels, numbers of each)
    biases : shape (kernels,), optional
    sum_bits
        Of the accumulator, in which sums wrap around.
    bias_shift, bias_within
        A bias is multiplied by two to the power of the shift, and added within the accumulator or outside.
    """

    kind: str
    relu: bool
    reads: tuple[tuple[int, int], ...]
    bits: int
    shift: int = 0
    divisor: int = 1
    kernels: Integers = NOTHING
    biases: Integers | None = None
    sum_bits: int = 32
    bias_shift: int = 0
    bias_within: bool = True

    @property
    def parameters(self) -> Integers:
        """For each kernel its bias, if there is one, then its numbers; flat."""
        if self.biases is None:
            return self.kernels.ravel()
        return np.hstack([self.biases[:, None], self.kernels]).ravel()

    def takes_bias_first(self, element_bits: int) -> bool:
        """Whether it makes no difference if a bias is added within the accumulator or after it."""
        if self.bias_within or self.biases is None:
            return True
        biases, kernels = (np.abs(each).astype(object) for each in (self.biases, self.kernels))
        widest = max(bits or element_bits for _, bits in self.reads)
        most = (biases << self.bias_shift) + (kernels.sum(axis=1) << (widest - 1))
        return bool(most.max() < 1 << (self.sum_bits - 1))

    def results(self, layer: AnyLayer, given: Sequence[Integers]) -> Integers:
        """Return what the operation computes of whole maps, shape (images, C, H, W), before it is scaled."""
        read = [
            values if how == AS_STORED else divide_to_format(values, 1, how[0], Format(how[1], 0))
            for values, how in zip(given, self.reads, strict=True)
        ]
        found = layer_output(layer, read, self._sums, integers=True)
        return np.maximum(found, 0) if self.relu else found

    def scaled(self, results: Integers) -> Integers:
        """Return what is stored of results."""
        return divide_to_format(results, self.divisor, self.shift, Format(self.bits, 0))

    def _sums(self, layer: NamedLayer, joined: Integers) -> Integers:
        layer = layer.model_copy(update={"batch": len(joined)})
        sums = reference_convolution(layer, joined, self.kernels.reshape(layer.kernels_shape))
        bias = 0 if self.biases is None else self.biases[:, None, None] << self.bias_shift
        if self.bias_within:
            return wrap(sums + bias, self.sum_bits)
        return wrap(sums, self.sum_bits) + bias


def divisor_of(layer: AnyLayer) -> int:
    """Return what sums over a window are divided by: the values of the window, for an average."""
    return prod(layer.kernel) if isinstance(layer, Pool) and layer.op == "average" else 1


def kind_of(layer: NamedLayer | Pool) -> str:
    """Return what the C calls a layer with a window."""
    if isinstance(layer, NamedLayer):
        return "CONV"
    return "MAX_POOL" if layer.op == "max" else "AVERAGE_POOL"
