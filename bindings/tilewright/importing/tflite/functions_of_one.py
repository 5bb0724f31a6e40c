"""Tables of functions of one 8-bit integer, as LiteRT fills them before it executes anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def sigmoids() -> NDArray[np.uint16]:
    """Return ``1 / (1 + exp(-i / 24))`` of 256 numbers, times 65536.

    Each is half as much above as the function is above the line to the next in the middle. The last one,
    behind which all is 1, is the largest integer.
    """
    values = 65536 / (1 + np.exp(-np.arange(0, 257, 0.5) / 24))
    points, middles = values[::2], values[1::2]
    above = middles[:256] - (points[:256] + points[1:257]) / 2
    table: NDArray[np.uint16] = np.rint(points[:256] + above / 2).astype(np.uint16)
    table[-1] = 65535
    return table


def points_of(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    span: float,
    zero: int,
    kind: type[np.floating[Any]],
) -> NDArray[np.int16]:
    """Return the points of a function of all 16-bit integers, of which they are every 128th and the last.

    A point gives way by half of what a line between it and the next is off in the middle. Results stand for
    numbers from -1 to 1.

    Parameters
    ----------
    span
        What the largest integer less the least one stands for.
    zero
        The integer that stands for zero.
    kind
        Precision of all steps.
    """

    def given(places: NDArray[Any]) -> NDArray[Any]:
        return function(places.astype(np.float64)).astype(kind)

    def rounded(values: NDArray[Any]) -> NDArray[Any]:
        nearest: NDArray[Any] = np.copysign(np.floor(np.abs(values) + kind(0.5)), values)
        return nearest

    scale, output = kind(span / 65535), kind(2 / 65535)
    first, last = scale * kind(-32768 - zero), scale * kind(32767 - zero)
    step = (last - first) / kind(512)
    unit = kind(65536) / (output * kind(32767) - output * kind(-32768))
    places = np.arange(513).astype(kind)
    every = given(first + places * step) * unit
    middles = rounded(given(first + places[:-1] * step + step / kind(2)) * unit)
    points = rounded(every)
    lines = rounded((every[1:] + points[:-1]) / kind(2))
    points[:-1] -= rounded((lines - middles) / kind(2))
    points[-1] = rounded(given(np.array(last)) * unit)
    table: NDArray[np.int16] = np.clip(points, -32768, 32767).astype(np.int16)
    return table
