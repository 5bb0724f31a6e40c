"""Sums and products of tensors, means, and functions of single values, in integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.arithmetic.quantised.operation import Array, Clamped, ExactOperation
from tilewright.simulator.arithmetic.quantised.scaling import cut_off, scaled


@dataclass(frozen=True, eq=False)
class QuantisedSum(Clamped):
    """A sum or difference of two tensors; sizes of 1 are repeated.

    Each operand becomes ``scaled((x - zero_point) * 2 ** left_shift, multiplier, shift)``; the result is
    ``scaled(first + second, multiplier, shift) + output_zero_point``, limited.

    Attributes
    ----------
    left_shift
        20 for 8 bits, 15 for 16.
    difference
        Whether the second operand is taken away.
    """

    left_shift: int
    first_zero_point: int
    first_multiplier: int
    first_shift: int
    second_zero_point: int
    second_multiplier: int
    second_shift: int
    output_zero_point: int
    output_multiplier: int
    output_shift: int
    difference: bool = False

    def compute(self, *given: Array) -> Array:
        """Return the sum of two tensors."""
        first = self._ready(given[0], self.first_zero_point, self.first_multiplier, self.first_shift)
        second = self._ready(given[1], self.second_zero_point, self.second_multiplier, self.second_shift)
        total = first - second if self.difference else first + second
        return self.limited(scaled(total, self.output_multiplier, self.output_shift) + self.output_zero_point)

    def _ready(self, values: Array, zero: int, multiplier: int, shift: int) -> NDArray[np.int64]:
        return scaled((values.astype(np.int64) - zero) << self.left_shift, multiplier, shift)


@dataclass(frozen=True, eq=False)
class QuantisedProduct(Clamped):
    """A product of two tensors; sizes of 1 are repeated.

    ``scaled((x - first_zero_point) * (y - second_zero_point), multiplier, shift) + output_zero_point``.
    """

    first_zero_point: int
    second_zero_point: int
    output_zero_point: int
    multiplier: int
    shift: int

    def compute(self, *given: Array) -> Array:
        """Return the product of two tensors."""
        first = given[0].astype(np.int64) - self.first_zero_point
        second = given[1].astype(np.int64) - self.second_zero_point
        return self.limited(scaled(first * second, self.multiplier, self.shift) + self.output_zero_point)


@dataclass(frozen=True, eq=False)
class QuantisedMean(Clamped):
    """A mean, or a sum, over some axes.

    ``scaled(sum(x) - count * input_zero_point, multiplier, shift) + output_zero_point``; the factor of a mean
    has been divided by the count.

    Attributes
    ----------
    axes
        Of what is read.
    count
        How many values each result is of.
    """

    axes: tuple[int, ...]
    count: int
    input_zero_point: int
    output_zero_point: int
    multiplier: int
    shift: int

    def compute(self, *given: Array) -> Array:
        """Return the means of a tensor."""
        sums = given[0].astype(np.int64).sum(self.axes) - self.count * self.input_zero_point
        return self.limited(scaled(sums, self.multiplier, self.shift) + self.output_zero_point)


@dataclass(frozen=True, eq=False)
class QuantisedExtremum(ExactOperation):
    """The largest or the least of the integers along some axes."""

    axes: tuple[int, ...]
    largest: bool

    def compute(self, *given: Array) -> Array:
        """Return the extrema of a tensor."""
        return self.stored(given[0].max(self.axes) if self.largest else given[0].min(self.axes))


@dataclass(frozen=True, eq=False)
class QuantisedTable(ExactOperation):
    """A function of one 8-bit integer.

    Attributes
    ----------
    table : shape (256,), in the type of what is given
        Result of the integer q at ``q - first``.
    first
        The least integer that is read: -128, or 0 of integers without sign.
    """

    table: Array
    first: int

    def compute(self, *given: Array) -> Array:
        """Return what the table has for all values."""
        return self.stored(self.table[given[0].astype(np.int64) - self.first])


@dataclass(frozen=True, eq=False)
class QuantisedRescaling(Clamped):
    """Integers in another scale, with one factor for what is below the zero point, and one for the rest.

    ``scaled(x - input_zero_point, multiplier, shift) + output_zero_point``, limited.
    """

    input_zero_point: int
    output_zero_point: int
    multiplier: int
    shift: int
    multiplier_below: int
    shift_below: int

    def compute(self, *given: Array) -> Array:
        """Return the values in another scale."""
        values = given[0].astype(np.int64) - self.input_zero_point
        above = scaled(values, self.multiplier, self.shift)
        below = scaled(values, self.multiplier_below, self.shift_below)
        return self.limited(np.where(values < 0, below, above) + self.output_zero_point)


@dataclass(frozen=True, eq=False)
class Quantised(Clamped):
    """Integers that stand for floats: ``round(x / scale) + zero_point``, limited.

    Attributes
    ----------
    to_even
        Whether halves go to even, as of onnxruntime; else they go away from zero.
    """

    scale: float
    zero_point: int
    to_even: bool = False

    def compute(self, *given: Array) -> Array:
        """Return the integers of 32-bit floats."""
        quotients = given[0].astype(np.float32) / np.float32(self.scale)
        rounded = np.rint(quotients)
        if not self.to_even:
            rounded = np.copysign(np.floor(np.abs(quotients) + np.float32(0.5)), quotients)
        kept = np.clip(rounded.astype(np.float64), -(2.0**31), 2.0**31 - 1)
        return self.limited(kept.astype(np.int64) + self.zero_point)


@dataclass(frozen=True, eq=False)
class Dequantised(ExactOperation):
    """The 32-bit floats that integers stand for: ``scale * (q - zero_point)``."""

    scale: float
    zero_point: int

    def compute(self, *given: Array) -> Array:
        """Return the floats of integers."""
        return self.stored(self.scale * (given[0].astype(np.int64) - self.zero_point))


@dataclass(frozen=True, eq=False)
class QuantisedSlopes(Clamped):
    """A rectifier whose slopes are another tensor; sizes of 1 are repeated.

    Of values from the zero point on ``scaled(x - input_zero_point, multiplier, shift)``; of others
    ``scaled((x - input_zero_point) * (slope - slope_zero_point), multiplier_below, shift_below)``; plus
    `output_zero_point`, limited.
    """

    input_zero_point: int
    slope_zero_point: int
    output_zero_point: int
    multiplier: int
    shift: int
    multiplier_below: int
    shift_below: int

    def compute(self, *given: Array) -> Array:
        """Return the values of the first tensor with the slopes of the second."""
        values = given[0].astype(np.int64) - self.input_zero_point
        slopes = given[1].astype(np.int64) - self.slope_zero_point
        above = scaled(values, self.multiplier, self.shift)
        below = scaled(values * slopes, self.multiplier_below, self.shift_below)
        return self.limited(np.where(values >= 0, above, below) + self.output_zero_point)


@dataclass(frozen=True, eq=False)
class QuantisedLarger(ExactOperation):
    """The larger or the lesser integers of two tensors of one scale; sizes of 1 are repeated."""

    largest: bool

    def compute(self, *given: Array) -> Array:
        """Return the larger or the lesser of each two."""
        return self.stored((np.maximum if self.largest else np.minimum)(given[0], given[1]))


@dataclass(frozen=True, eq=False)
class QuantisedInterpolation(ExactOperation):
    """A map in another size, each pixel between four others.

    Row y lies `row_parts[y]` of 1024 parts from row `rows[y]` on the way to row `next_rows[y]`, and columns
    alike. The sum of the four pixels, each times its two distances, is divided by 2 ** 20, to the nearest;
    halves go away from zero.

    Attributes
    ----------
    rows, next_rows, row_parts : int64, of as many entries as rows are given
    columns, next_columns, column_parts : int64, of as many entries as columns are given
    """

    rows: NDArray[np.int64]
    next_rows: NDArray[np.int64]
    row_parts: NDArray[np.int64]
    columns: NDArray[np.int64]
    next_columns: NDArray[np.int64]
    column_parts: NDArray[np.int64]

    def compute(self, *given: Array) -> Array:
        """Return the map in its size."""
        values = given[0].astype(np.int64)
        down, right = self.row_parts[:, np.newaxis, np.newaxis], self.column_parts[:, np.newaxis]
        by_rows = values[:, self.rows] * (1024 - down) + values[:, self.next_rows] * down
        sums = by_rows[:, :, self.columns] * (1024 - right) + by_rows[:, :, self.next_columns] * right
        halves = np.where(sums > 0, 1 << 19, -(1 << 19))
        return self.stored(cut_off(sums + halves, 20))
