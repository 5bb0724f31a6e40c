"""Softmax in fixed point, as LiteRT's reference kernel and gemmlowp compute it.

A number of n integer bits is a 32-bit integer whose point stands behind its first n + 1 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.arithmetic.quantised.operation import Array, ExactOperation
from tilewright.simulator.arithmetic.quantised.scaling import half_of_product, rounding_shift, wrapped

Integers = NDArray[np.int64]

DIFFERENCE_BITS = 5
"""Integer bits of differences to the largest value."""

SUM_BITS = 12
"""Integer bits of sums of exponentials."""

MOST = 2**31 - 1

EXPONENTIALS = {
    -2: 1672461947,
    -1: 1302514674,
    0: 790015084,
    1: 290630308,
    2: 39332535,
    3: 720401,
    4: 242,
}
"""Of each power of two, what ``exp(-2 ** power)`` is without integer bits."""

EIGHTH = 1 << 28
CONSTANT_TERM = 1895147668
"""``exp(-1/8)`` without integer bits."""
CONSTANT_THIRD = 715827883
"""A third without integer bits."""

CONSTANT_48_OVER_17 = 1515870810
CONSTANT_NEG_32_OVER_17 = -1010580540
"""With two integer bits, where Newton's method for a reciprocal begins."""


def exponential(values: Integers) -> Integers:
    """Return ``exp`` of numbers at most 0 with `DIFFERENCE_BITS`, as numbers without integer bits."""
    quarter = np.int64(1) << (31 - DIFFERENCE_BITS - 2)
    modulo = (values & (quarter - 1)) - quarter
    found = _between_quarter_and_0(modulo << DIFFERENCE_BITS)
    remainder = modulo - values
    for power, factor in EXPONENTIALS.items():
        bit = np.int64(1) << (31 - DIFFERENCE_BITS + power)
        found = np.where(remainder & bit, half_of_product(found, factor), found)
    return np.where(values == 0, MOST, found)


def _between_quarter_and_0(values: Integers) -> Integers:
    """Return ``exp`` of numbers from -1/4 to below 0 by four terms of its series around -1/8."""
    x = values + EIGHTH
    square = half_of_product(x, x)
    cube = half_of_product(square, x)
    fourth = half_of_product(square, square)
    fourth_by_4 = rounding_shift(fourth, 2)
    higher = rounding_shift(half_of_product(fourth_by_4 + cube, CONSTANT_THIRD) + square, 1)
    return wrapped(CONSTANT_TERM + half_of_product(x + higher, CONSTANT_TERM))


def reciprocal(sums: Integers) -> tuple[Integers, Integers]:
    """Return ``1 / x`` of numbers with `SUM_BITS`: from 1/2 to 1 without integer bits, and a shift."""
    headroom = 31 - np.floor(np.log2(sums.astype(np.float64))).astype(np.int64)
    bits_over_unit = SUM_BITS - headroom
    return _one_over_one_plus((sums << headroom) - (1 << 31)), bits_over_unit


def _one_over_one_plus(values: Integers) -> Integers:
    """Return ``1 / (1 + x)`` of numbers from 0 to 1 without integer bits, by Newton's method."""
    half = (values + MOST + 1) >> 1  # the mean of x and 1
    found = CONSTANT_48_OVER_17 + half_of_product(half, CONSTANT_NEG_32_OVER_17)
    for _ in range(3):
        missing = (1 << 29) - half_of_product(half, found)
        step = half_of_product(found, missing)
        found = found + np.clip(step << 2, -(2**31), MOST)
    doubled: Integers = np.clip(found << 1, -(2**31), MOST)
    return doubled


@dataclass(frozen=True, eq=False)
class QuantisedSoftmax(ExactOperation):
    """Softmax along the last axis, of 8-bit integers.

    Attributes
    ----------
    multiplier, left_shift
        Factor of differences to the largest value of a row, to which `DIFFERENCE_BITS` belong:
        ``half_of_product(difference << left_shift, multiplier)``.
    least_difference
        Values that are further below the largest one give nothing.
    least, most
        Of what is given: zero is `least`.
    bits
        Of what is given: 8 or 16.
    """

    multiplier: int
    left_shift: int
    least_difference: int
    least: int
    most: int
    bits: int

    def compute(self, *given: Array) -> Array:
        """Return the softmax of each row."""
        rows = given[0].astype(np.int64).reshape(-1, given[0].shape[-1])
        differences = rows - rows.max(-1, keepdims=True)
        counts = differences >= self.least_difference
        near = np.where(counts, differences, 0)
        powers = exponential(half_of_product(near << self.left_shift, self.multiplier))
        sums = np.where(counts, rounding_shift(powers, SUM_BITS), 0).sum(-1, keepdims=True)
        inverse, over = reciprocal(sums)
        products = rounding_shift(half_of_product(inverse, powers), over + 31 - self.bits)
        return self.stored(
            np.where(counts, np.clip(products + self.least, self.least, self.most), self.least)
        )
