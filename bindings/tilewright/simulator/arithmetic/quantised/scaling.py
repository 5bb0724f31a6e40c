"""Multiplication by a real factor in integers, as LiteRT's kernels do it.

A factor is a 32-bit integer, whose point stands behind its first bit, and a shift: ``multiplier * 2 ** (shift
- 31)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, frexp
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[Any]
"""Of any integer type; sums are int64, which hold what C has in 32 or 64 bits."""

LEAST_32, MOST_32 = -(2**31), 2**31 - 1


class Factor(NamedTuple):
    """A real factor: ``multiplier * 2 ** (shift - 31)``."""

    multiplier: int
    shift: int


def round_half_away(value: float) -> int:
    """Return the nearest integer, halves away from zero, as ``round`` of C does."""
    return floor(value + 0.5) if value >= 0 and value + 0.5 < 2**52 else _round_half_away(value)


def _round_half_away(value: float) -> int:
    """Return the nearest integer where adding a half may round."""
    magnitude = abs(value)
    whole = floor(magnitude)
    nearest = whole + (magnitude - whole >= 0.5)
    return nearest if value >= 0 else -nearest


def factor_of(value: float) -> Factor:
    """Return the factor nearest to a number, in double precision; too small ones are 0."""
    if value == 0:
        return Factor(0, 0)
    mantissa, shift = frexp(value)
    multiplier = round_half_away(mantissa * 2**31)
    if multiplier == 2**31:
        multiplier, shift = multiplier // 2, shift + 1
    return Factor(multiplier, shift) if shift >= -31 else Factor(0, 0)


def factors_of(values: Sequence[float]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return multipliers and shifts of several numbers."""
    factors = [factor_of(value) for value in values]
    multipliers, shifts = (np.array(each, np.int32) for each in zip(*factors, strict=True))
    return multipliers, shifts


def wrapped(values: Integers) -> NDArray[np.int64]:
    """Return what a register of 32 bits keeps of sums."""
    found: NDArray[np.int64] = values.astype(np.int64).astype(np.int32).astype(np.int64)
    return found


def half_of_product(values: Integers, multiplier: Integers | int, bits: int = 32) -> NDArray[np.int64]:
    """Return ``values * multiplier / 2 ** (bits - 1)``, rounded; what is too large is the largest number.

    Halves go up; below zero, where C cuts off the fraction after half a unit less one is taken away, they go
    up as well.
    """
    products = values.astype(np.int64) * np.asarray(multiplier, np.int64)
    nudged = products + np.where(products >= 0, 2 ** (bits - 2), 1 - 2 ** (bits - 2))
    found: NDArray[np.int64] = np.minimum(cut_off(nudged, bits - 1), 2 ** (bits - 1) - 1)
    return found


def cut_off(values: Integers, bits: int) -> NDArray[np.int64]:
    """Return values divided by a power of two, without the fraction, as C divides."""
    found: NDArray[np.int64] = np.where(values >= 0, values >> bits, -(-values >> bits))
    return found


def rounding_shift(values: Integers, bits: Integers | int) -> NDArray[np.int64]:
    """Return values divided by powers of two, to the nearest; halves go away from zero."""
    exponent = np.asarray(bits, np.int64)
    mask = (np.int64(1) << exponent) - 1
    above = (mask >> 1) + (values < 0)
    found: NDArray[np.int64] = (values >> exponent) + ((values & mask) > above)
    return found


def scaled(values: Integers, multiplier: Integers | int, shift: Integers | int) -> NDArray[np.int64]:
    """Return 32-bit integers times factors, as 32-bit integers: rounded twice, to the nearest.

    Parameters
    ----------
    multiplier, shift
        A factor, or one for each place along the last axis.
    """
    exponent = np.asarray(shift, np.int64)
    left, right = np.maximum(exponent, 0), np.maximum(-exponent, 0)
    return rounding_shift(half_of_product(wrapped(values << left), multiplier), right)


def scaled_wide(values: Integers, multiplier: Integers | int, shift: Integers | int) -> NDArray[np.int64]:
    """Return integers of up to 48 bits times factors, as 32-bit integers.

    The factor keeps 16 bits. The sum is rounded once, halves up.
    """
    factor = np.asarray(multiplier, np.int64)
    reduced = np.where(factor < 0x7FFF0000, (factor + (1 << 15)) >> 16, 0x7FFF)
    total = 15 - np.asarray(shift, np.int64)
    return wrapped((values.astype(np.int64) * reduced + (np.int64(1) << (total - 1))) >> total)


def scaled_in_doubles(values: Integers, scale: NDArray[np.float64] | float) -> NDArray[np.int64]:
    """Return integers times numbers in double precision, to the nearest; halves go away from zero."""
    products = values.astype(np.float64) * scale
    found: NDArray[np.int64] = np.copysign(np.floor(np.abs(products) + 0.5), products).astype(np.int64)
    return found


def limits_of(kind: str) -> tuple[int, int]:
    """Return the least and the most number of a type of integers."""
    known = np.iinfo(kind)
    return int(known.min), int(known.max)


def scaled_in_singles(values: Integers, scale: NDArray[Any] | float) -> NDArray[np.int64]:
    """Return integers times a number, both in single precision, to the nearest, halves to even."""
    products = values.astype(np.float32) * np.asarray(scale, np.float32)
    found: NDArray[np.int64] = np.rint(products.astype(np.float64)).astype(np.int64)
    return found
