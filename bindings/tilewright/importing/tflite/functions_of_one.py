"""Tables of functions of one 8-bit integer, as LiteRT fills them before it executes anything."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.arithmetic.quantised.scaling import (
    Integers,
    cut_off,
    factor_of,
    half_of_product,
    rounding_shift,
)

Floats = NDArray[np.float32]

EVERY = np.arange(-128, 128)
"""All integers that are read."""


def in_double(function: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Callable[[Floats], Floats]:
    """Return a function of single precision whose results are those of double precision, rounded."""

    def single(values: Floats) -> Floats:
        return function(values.astype(np.float64)).astype(np.float32)

    return single


def logistic(values: Floats) -> Floats:
    """Return ``1 / (1 + exp(-x))``, each step in single precision."""
    one = np.float32(1)
    return one / (one + in_double(np.exp)(-values))


def elu(values: Floats) -> Floats:
    """Return values, and ``exp(x) - 1`` of what is below zero."""
    return np.where(values < 0, in_double(np.expm1)(np.minimum(values, 0)), values)


FUNCTIONS: dict[str, Callable[[Floats], Floats]] = {
    "LOGISTIC": logistic,
    "TANH": in_double(np.tanh),
    "ELU": elu,
    "EXP": in_double(np.exp),
}
"""By TFLite's name."""


def table_of(
    function: Callable[[Floats], Floats], scale: np.float32, zero: int, gives: np.float32, gives_zero: int
) -> NDArray[np.int8]:
    """Return the integers that stand for a function of what integers from -128 to 127 stand for.

    All steps are in single precision; results are rounded, halves away from zero.

    Parameters
    ----------
    scale, zero
        Of what is read.
    gives, gives_zero
        Scale and zero point of what is given.
    """
    with np.errstate(over="ignore"):
        found = function(scale * (EVERY - zero).astype(np.float32)) * (np.float32(1) / gives)
    rounded = np.copysign(np.floor(np.abs(found.astype(np.float64)) + 0.5), found)
    table: NDArray[np.int8] = np.clip(rounded + gives_zero, -128, 127).astype(np.int8)
    return table


def hard_swish(scale: np.float32, zero: int, gives: np.float32, gives_zero: int) -> NDArray[np.int8]:
    """Return the table of ``x * min(max(x + 3, 0), 6) / 6``, in integers of 16 bits.

    Parameters
    ----------
    scale, zero, gives, gives_zero
        As of `table_of`.
    """
    fine = np.float32(1 / 128) * scale
    output, output_shift = _short_factor(fine / gives)
    slope, slope_shift = _short_factor(fine / (np.float32(3) / np.float32(32768)))
    values = (EVERY - zero) << 7
    result = half_of_product(values, output, 16)
    ramp = _short(values << (slope_shift - 1)) if slope_shift > 0 else values
    ramp = half_of_product(ramp, slope, 16)
    ramp = _short(ramp << 1) if slope_shift > 0 else rounding_shift(ramp, -slope_shift)
    ramp = (ramp + (1 << 15)) >> 1
    found = rounding_shift(cut_off(ramp * result, 15), -output_shift) + gives_zero
    table: NDArray[np.int8] = np.clip(found, -128, 127).astype(np.int8)
    return table


def _short_factor(value: np.float32) -> tuple[int, int]:
    """Return a factor of 16 bits and its shift."""
    multiplier, shift = factor_of(float(value))
    rounding = 1 << 15
    return (2**15 - 1 if multiplier >= 2**31 - 1 - rounding else (multiplier + rounding) >> 16), shift


def _short(values: Integers) -> Integers:
    return np.clip(values, -(2**15), 2**15 - 1)
