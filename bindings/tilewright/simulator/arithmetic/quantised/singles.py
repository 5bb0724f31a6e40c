"""Operations that onnxruntime computes in single precision between the integers that it reads and gives.

Each step of a formula below is rounded to 32-bit floats, in the order in which it stands there, and ``rint``
rounds halves to even. Where `offset` is 128, the arithmetic is that of integers without sign: it is added to
all integers that are read, and taken from those that are given. Zero points are told with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.arithmetic.quantised.operation import Array, Clamped, ExactOperation
from tilewright.simulator.arithmetic.quantised.scaling import scaled_in_singles
from tilewright.simulator.arithmetic.quantised.windows import Pooled

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class SumInSingles(Clamped):
    """A sum of two tensors; sizes of 1 are repeated.

    ``rint((fixed + a * first_ratio) + b * second_ratio)``, limited. `fixed` is the output's zero point less
    what those of the operands add.

    Attributes
    ----------
    first_ratio, second_ratio, fixed : float32
    """

    offset: int
    first_ratio: float
    second_ratio: float
    fixed: float

    def compute(self, *given: Array) -> Array:
        """Return the sum of two tensors."""
        a, b = ((each.astype(np.int64) + self.offset).astype(np.float32) for each in given)
        first = np.float32(self.fixed) + a * np.float32(self.first_ratio)
        return self.limited(np.rint(first + b * np.float32(self.second_ratio)) - self.offset)


@dataclass(frozen=True, eq=False)
class ProductInSingles(Clamped):
    """A product of two tensors; sizes of 1 are repeated.

    ``rint((a - first_zero_point) * (b - second_zero_point) * ratio + output_zero_point)``, limited; the
    first product is one of integers.
    """

    offset: int
    first_zero_point: int
    second_zero_point: int
    output_zero_point: int
    ratio: float

    def compute(self, *given: Array) -> Array:
        """Return the product of two tensors."""
        first = given[0].astype(np.int64) + self.offset - self.first_zero_point
        second = given[1].astype(np.int64) + self.offset - self.second_zero_point
        products = (first * second).astype(np.float32) * np.float32(self.ratio)
        return self.limited(np.rint(products + np.float32(self.output_zero_point)) - self.offset)


@dataclass(frozen=True, eq=False)
class MeanInSingles(Clamped):
    """A mean over some axes: ``rint((sum(x) - count * input_zero_point) * scale) + output_zero_point``.

    Attributes
    ----------
    axes
        Of what is read.
    count
        How many values each result is of.
    scale : float32
        By which sums are multiplied, the division by the count included.
    """

    axes: tuple[int, ...]
    count: int
    input_zero_point: int
    output_zero_point: int
    scale: float

    def compute(self, *given: Array) -> Array:
        """Return the means of a tensor."""
        sums = given[0].astype(np.int64).sum(self.axes) - self.count * self.input_zero_point
        return self.limited(scaled_in_singles(sums, self.scale) + self.output_zero_point)


@dataclass(frozen=True, eq=False)
class AveragePoolInSingles(Pooled):
    """Averages of what integers stand for.

    ``input_scale * (x - input_zero_point)`` of the places of a window are added up row by row, divided by
    how many they are, then by `output_scale`; ``rint(average + output_zero_point)`` is limited.

    Attributes
    ----------
    counts_padding
        Whether places of the padding are counted, which add nothing.
    """

    offset: int
    input_scale: float
    input_zero_point: int
    output_scale: float
    output_zero_point: int
    counts_padding: bool

    def compute(self, *given: Array) -> Array:
        """Return the averages of a map's windows."""
        centred = (given[0].astype(np.int64) + self.offset - self.input_zero_point).astype(np.float32)
        seen = self.windows(np.float32(self.input_scale) * centred, 0)
        sums: Floats = np.zeros(seen.shape[:-2], np.float32)
        for row in range(self.kernel[0]):
            for column in range(self.kernel[1]):
                sums = sums + seen[..., row, column]
        averages = sums / self.divisors[:, :, np.newaxis].astype(np.float32)
        found = np.rint(averages / np.float32(self.output_scale) + np.float32(self.output_zero_point))
        return self.limited(found - self.offset)

    @property
    def divisors(self) -> NDArray[np.int64]:
        """By how many places each window's sum is divided: (rows, columns)."""
        return np.full_like(self.counts, self.kernel[0] * self.kernel[1]) if self.counts_padding else (
            self.counts
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class SoftmaxInSingles(Clamped):
    """Softmax along the last axis.

    The power of x is ``powers[255 + x - largest]``, with the largest integer of its row, and s the sum of
    all powers of the row, from the first to the last. The result is ``rint(power * output_scale / s) +
    output_zero_point``, limited.

    Attributes
    ----------
    powers : float32, shape (256,)
        ``exp((i - 255) * scale)``, times a factor that all have in common.
    output_scale : float32
        The whole part of one over the output's scale.
    """

    powers: Floats
    output_scale: float
    output_zero_point: int

    def compute(self, *given: Array) -> Array:
        """Return the softmax of each row."""
        rows = given[0].astype(np.int64)
        powers = self.powers[255 + rows - rows.max(-1, keepdims=True)]
        sums: Floats = np.zeros(rows.shape[:-1], np.float32)
        for place in range(rows.shape[-1]):
            sums = sums + powers[..., place]
        parts = powers * np.float32(self.output_scale) / sums[..., np.newaxis]
        return self.limited(np.rint(parts).astype(np.int64) + self.output_zero_point)


@dataclass(frozen=True, eq=False)
class Recoded(ExactOperation):
    """Integers without sign as integers with it, or the reverse: the first bit is the other one.

    An integer q without sign is ``q - 128``.
    """

    def compute(self, *given: Array) -> Array:
        """Return the integers."""
        return self.stored(given[0].view(np.uint8) ^ np.uint8(128)).view(self.type)

    def stored(self, values: Array) -> Array:
        """Return bytes in the type and shape of what it gives."""
        found: Array = np.ascontiguousarray(values.reshape(self.shape))
        return found
