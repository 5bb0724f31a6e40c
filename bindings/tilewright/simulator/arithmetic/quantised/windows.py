"""Operations with weights, and pools: sums and maxima of windows, in integers.

Sums are made of doubles by NumPy's products of matrices. They are exact: every sum, also of a part, is an
integer below 2**53.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tilewright.simulator.arithmetic.quantised.operation import Array, Clamped
from tilewright.simulator.arithmetic.quantised.scaling import (
    scaled,
    scaled_in_doubles,
    scaled_in_singles,
    scaled_wide,
    wrapped,
)

Rounding = Literal["twice", "wide", "doubles", "singles", "shifts"]
"""How a sum is multiplied by a factor: see `Weighted`."""


@dataclass(frozen=True, eq=False)
class Weighted(Clamped):
    """An operation that adds up products with weights, for each output channel by itself.

    A result is ``clip(scaled(sum((x - input_zero_point) * (w - weight_zero_point)) + bias) +
    output_zero_point, least, most)``.

    Attributes
    ----------
    weights
        int8, or int16 where zero points of the outputs differ and have been taken away.
    bias : shape (outputs,)
        int32, or int64 where sums are; zeros where the file has none.
    multiplier, shift : int32, shape (outputs,)
        Factors ``multiplier * 2 ** (shift - 31)``, one for each output.
    scale : float64, shape (outputs,)
        The same factors as numbers.
    rounding
        "twice": sums of 32 bits; a product of 64 bits is rounded to 32, then shifted and rounded again.
        "wide": sums of 64 bits, factors of 16 bits, one rounding. "doubles": sums times `scale` in double
        precision, to the nearest, halves away from zero. "singles": the same in single precision, halves to
        even, as onnxruntime does. "shifts": ``(sum * multiplier + added) >> shift``, in 64 bits.
    added : int64, shape (outputs,)
        Of "shifts" alone, halves that are rounded up among it.
    """

    weights: Array
    bias: Array
    input_zero_point: int
    weight_zero_point: int
    output_zero_point: int
    multiplier: NDArray[np.int32]
    shift: NDArray[np.int32]
    scale: NDArray[np.float64]
    rounding: Rounding
    added: NDArray[np.int64] | None = field(default=None, kw_only=True)

    def given_for(self, sums: NDArray[np.float64]) -> Array:
        """Return the results of sums without the bias, outputs last."""
        whole = sums.astype(np.int64) + self.bias
        if self.rounding == "wide":
            values = scaled_wide(whole, self.multiplier, self.shift)
        elif self.rounding == "twice":
            values = scaled(wrapped(whole), self.multiplier, self.shift)
        elif self.rounding == "singles":
            values = scaled_in_singles(wrapped(whole), self.scale)
        elif self.added is not None:
            values = (whole * self.multiplier + self.added) >> self.shift
        else:
            sums_kept = whole if self.bias.dtype == np.int64 else wrapped(whole)
            values = scaled_in_doubles(sums_kept, self.scale)
        return self.limited(values + self.output_zero_point)

    @property
    def centred_weights(self) -> NDArray[np.float64]:
        """Weights without their zero point."""
        return self.weights.astype(np.float64) - self.weight_zero_point


@dataclass(frozen=True, eq=False)
class QuantisedConvolution(Weighted):
    """A convolution of a map (images, rows, columns, channels).

    Attributes
    ----------
    weights : int8, shape (outputs, rows, columns, inputs of a group)
        A depthwise convolution has as many groups as inputs, and one input in each. Output o is of group
        ``o // (outputs / groups)``.
    stride, dilation
        Of rows and columns.
    padding
        Rows above and below, columns left and right; they hold the input's zero point and so add nothing.
    """

    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]
    groups: int

    @property
    def depthwise(self) -> bool:
        """Whether each output has one input channel."""
        return self.weights.shape[3] == 1 and self.groups > 1

    @property
    def weights_by_place(self) -> NDArray[np.int8]:
        """Weights of a depthwise convolution: (rows, columns, outputs)."""
        return np.ascontiguousarray(self.weights[..., 0].transpose(1, 2, 0))

    def compute(self, *given: Array) -> Array:
        """Return the map that it gives for another."""
        outputs, rows, columns, inputs = self.weights.shape
        centred = given[0].astype(np.float64) - self.input_zero_point
        top, bottom, left, right = self.padding
        padded = np.pad(centred, ((0, 0), (top, bottom), (left, right), (0, 0)))
        high, wide = self.shape[1:3]
        sums = np.zeros((padded.shape[0], high, wide, self.groups, outputs // self.groups))
        weights = self.centred_weights.reshape(self.groups, outputs // self.groups, rows, columns, inputs)
        for row in range(rows):
            for column in range(columns):
                first = row * self.dilation[0], column * self.dilation[1]
                seen = padded[
                    :,
                    first[0] : first[0] + (high - 1) * self.stride[0] + 1 : self.stride[0],
                    first[1] : first[1] + (wide - 1) * self.stride[1] + 1 : self.stride[1],
                ]
                parts = seen.reshape(*seen.shape[:3], self.groups, inputs)
                if inputs == 1:
                    sums += parts * weights[:, :, row, column, 0]
                elif self.groups == 1:
                    sums[..., 0, :] += parts[..., 0, :] @ weights[0, :, row, column].T
                else:
                    sums += np.einsum("nhwgi,goi->nhwgo", parts, weights[:, :, row, column])
        return self.given_for(sums.reshape(*sums.shape[:3], outputs))


@dataclass(frozen=True, eq=False)
class QuantisedFullyConnected(Weighted):
    """A product of rows with weights (outputs, inputs); rows are all values in order, so many at a time."""

    def compute(self, *given: Array) -> Array:
        """Return the outputs of all rows."""
        centred = given[0].astype(np.float64) - self.input_zero_point
        return self.given_for(centred.reshape(-1, self.weights.shape[1]) @ self.centred_weights.T)


@dataclass(frozen=True, eq=False)
class Pooled(Clamped):
    """A pool of a map (images, rows, columns, channels); places of the padding are left out.

    Attributes
    ----------
    kernel, stride
        Of rows and columns.
    padding
        Rows above and below, columns left and right.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]

    def windows(self, values: Array, outside: int) -> Array:
        """Return windows (images, rows, columns, channels, kernel rows, kernel columns)."""
        top, bottom, left, right = self.padding
        sides = ((0, 0), (top, bottom), (left, right), (0, 0))
        padded = np.pad(values, sides, constant_values=outside)
        every = sliding_window_view(padded, self.kernel, axis=(1, 2))
        found: Array = every[:, :: self.stride[0], :: self.stride[1]]
        return found[:, : self.shape[1], : self.shape[2]]

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many places of the map each window has: (rows, columns)."""
        return np.array([[rows * columns for columns in self._seen(1)] for rows in self._seen(0)], np.int64)

    def _seen(self, axis: int) -> Iterator[int]:
        before, after = self.padding[2 * axis : 2 * axis + 2]
        size = (self.shape[1 + axis] - 1) * self.stride[axis] + self.kernel[axis] - before - after
        for place in range(self.shape[1 + axis]):
            first = place * self.stride[axis] - before
            yield min(first + self.kernel[axis], size) - max(first, 0)


@dataclass(frozen=True, eq=False)
class QuantisedAveragePool(Pooled):
    """Averages of integers, to the nearest, halves away from zero: the zero point is not taken away.

    A sum s of n places gives ``(s + n // 2) // n`` where it is above zero, else ``-((-s + n // 2) // n)``.
    """

    def compute(self, *given: Array) -> Array:
        """Return the averages of a map's windows."""
        sums = self.windows(given[0].astype(np.int64), 0).sum((-2, -1))
        counts = self.counts[:, :, np.newaxis]
        halves = counts // 2
        return self.limited(np.where(sums > 0, (sums + halves) // counts, -((halves - sums) // counts)))


@dataclass(frozen=True, eq=False)
class QuantisedMaxPool(Pooled):
    """Maxima of integers."""

    def compute(self, *given: Array) -> Array:
        """Return the maxima of a map's windows."""
        values = given[0].astype(np.int64)
        return self.limited(self.windows(values, np.iinfo(np.int32).min).max((-2, -1)))


@dataclass(frozen=True, eq=False)
class QuantisedTransposedConvolution(Weighted):
    """A transposed convolution: each pixel adds its value times the weights to a window of the results.

    Pixel (y, x) adds to rows ``y * stride - padding`` and on, and columns alike.

    Attributes
    ----------
    weights : int8, shape (outputs, rows, columns, inputs)
    stride
        Of rows and columns.
    padding
        Rows and columns of results that are left out before the first.
    """

    stride: tuple[int, int]
    padding: tuple[int, int]

    def compute(self, *given: Array) -> Array:
        """Return the map that it gives for another."""
        centred = given[0].astype(np.float64) - self.input_zero_point
        images, high, wide, _ = centred.shape
        outputs, rows, columns, _ = self.weights.shape
        (down, right), (top, left) = self.stride, self.padding
        whole = [(size - 1) * step + kernel for size, step, kernel in (
            (high, down, rows), (wide, right, columns)
        )]  # fmt: skip
        needed = self.shape[1] + top, self.shape[2] + left
        sums = np.zeros((images, *(max(each) for each in zip(whole, needed, strict=True)), outputs))
        for row in range(rows):
            for column in range(columns):
                part = centred @ self.centred_weights[:, row, column].T
                sums[:, row : row + high * down : down, column : column + wide * right : right][
                    :, :high, :wide
                ] += part
        return self.given_for(sums[:, top : needed[0], left : needed[1]])


@dataclass(frozen=True, eq=False)
class QuantisedMatrixProduct(Clamped):
    """Products of two tensors' matrices, which are their last two axes; sizes of 1 before them are repeated.

    ``scaled(sum((x - first_zero_point) * (y - second_zero_point)), multiplier, shift) + output_zero_point``.

    Attributes
    ----------
    first_turned, second_turned
        Whether rows and columns of an operand change places.
    rounding
        "twice", "wide" or "singles": see `Weighted`.
    scale
        The factor as a number.
    """

    first_zero_point: int
    second_zero_point: int
    output_zero_point: int
    multiplier: int
    shift: int
    first_turned: bool
    second_turned: bool
    rounding: Rounding
    scale: float = 0.0

    def compute(self, *given: Array) -> Array:
        """Return the products."""
        first = given[0].astype(np.float64) - self.first_zero_point
        second = given[1].astype(np.float64) - self.second_zero_point
        first = first.swapaxes(-1, -2) if self.first_turned else first
        second = second.swapaxes(-1, -2) if self.second_turned else second
        sums = (first @ second).astype(np.int64)
        if self.rounding == "singles":
            return self.limited(scaled_in_singles(wrapped(sums), self.scale) + self.output_zero_point)
        scale = scaled_wide if self.rounding == "wide" else scaled
        return self.limited(scale(sums, self.multiplier, self.shift) + self.output_zero_point)
