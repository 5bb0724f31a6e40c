"""Softmax and sigmoids of 16-bit integers, between points of tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.arithmetic.quantised.operation import Array, ExactOperation
from tilewright.simulator.arithmetic.quantised.scaling import scaled

Integers = NDArray[np.int64]


def between(values: Integers, table: NDArray[np.int16]) -> Integers:
    """Return what lies between points of a table: of all 16-bit integers every 128th, and one beyond."""
    places = 256 + (values >> 7)
    points = table.astype(np.int64)
    base = points[places]
    slope = (points[places + 1] - base).astype(np.int16).astype(np.int64)
    found: Integers = base + ((slope * (values & 127) + 64) >> 7)
    return found


@dataclass(frozen=True, eq=False)
class QuantisedWideSoftmax(ExactOperation):
    """Softmax along the last axis, of 16-bit integers.

    ``p = between(clip(scaled(x - largest, multiplier, shift) + 32767), exponentials)`` is the power of each
    value; h is how many bits are zero before the first one of their sum s, of 32. The inverse is ``i =
    between(clip((((s << (h - 1)) + 2 ** 13) >> 14) - 98304), reciprocals)``, and the result is ``(p * i + 2
    ** (30 - h)) >> (31 - h)``, from 0 to 32767.

    Attributes
    ----------
    multiplier, shift
        Factor of differences to the largest value of a row.
    exponentials : int16, shape (513,)
        Of numbers from -10 to 0.
    reciprocals : int16, shape (513,)
        ``1 / (1 + x)`` of numbers from 0 to 1.
    """

    multiplier: int
    shift: int
    exponentials: NDArray[np.int16]
    reciprocals: NDArray[np.int16]

    def compute(self, *given: Array) -> Array:
        """Return the softmax of each row."""
        rows = given[0].astype(np.int64).reshape(-1, given[0].shape[-1])
        differences = scaled(rows - rows.max(-1, keepdims=True), self.multiplier, self.shift) + 32767
        powers = between(np.clip(differences, -32768, 32767), self.exponentials)
        sums = powers.sum(-1, keepdims=True)
        headroom = 31 - np.floor(np.log2(np.maximum(sums, 1).astype(np.float64))).astype(np.int64)
        shifted = (((sums << (headroom - 1)) + (1 << 13)) >> 14) - (1 << 15) - (1 << 16)
        inverse = between(np.clip(shifted, -32768, 32767), self.reciprocals)
        right = 31 - headroom
        return self.stored(np.clip((powers * inverse + (1 << (right - 1))) >> right, 0, 32767))


@dataclass(frozen=True, eq=False)
class QuantisedSigmoid(ExactOperation):
    """The logistic function or hyperbolic tangent of 16-bit integers, between points of a table.

    ``v = (x * multiplier + 2 ** (right_shift - 1)) >> right_shift`` has its point before the last `fraction`
    bits, where the table's points lie; what is added is 0 where nothing is shifted. Between the points a and
    b of its magnitude, ``r = (a << fraction) + (v & (2 ** fraction - 1)) * (b - a)``; from the last point on,
    r is `largest`. The logistic function is ``(r + 512) >> 10``, below zero ``(2 ** 25 - r + 511) >> 10``.
    The tangent is ``(r - 2 ** 23 + 128) >> 8``, below zero ``(2 ** 23 - r + 127) >> 8``.

    Attributes
    ----------
    table : uint16, shape (256,)
        ``1 / (1 + exp(-i / 24))``, times 65536.
    fraction
        9 of the logistic function, 8 of the tangent.
    tangent
        Whether it is that.
    """

    multiplier: int
    right_shift: int
    table: NDArray[np.uint16]
    fraction: int
    largest: int
    tangent: bool

    def compute(self, *given: Array) -> Array:
        """Return the function of all values."""
        half = 1 << (self.right_shift - 1) if self.right_shift > 0 else 0
        values = (given[0].astype(np.int64) * self.multiplier + half) >> self.right_shift
        size, points = np.abs(values), self.table.astype(np.int64)
        places = np.minimum(size >> self.fraction, 254)
        rest = size & ((1 << self.fraction) - 1)
        found = (points[places] << self.fraction) + rest * (points[places + 1] - points[places])
        found = np.where(size >> self.fraction >= 255, self.largest, found)
        if self.tangent:
            signed = np.where(values >= 0, found - (1 << 23) + 128, (1 << 23) - found + 127)
            return self.stored(signed >> 8)
        return self.stored(np.where(values >= 0, found + 512, (1 << 25) - found + 511) >> 10)
