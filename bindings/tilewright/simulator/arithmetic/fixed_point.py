"""Dynamic fixed point: formats, quantisation, and accumulators that wrap around.

Equations are those of the thesis on imaging DSPs, chapters 3 and 4.
"""

from __future__ import annotations

from math import frexp
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def integer_length(largest: float) -> int:
    """Return the fewest integer bits that hold a magnitude, without the sign (equation 4.6).

    It is ``floor(log2(largest)) + 1``, taken from the number's exponent, so that no logarithm is rounded; it
    is negative for magnitudes below a half.

    Parameters
    ----------
    largest
        Largest magnitude of a group of values, more than 0.
    """
    return frexp(largest)[1]


class Format(NamedTuple):
    """A two's complement number of some bits, the sign among them, and a scale (equation 4.2).

    Attributes
    ----------
    bits
        BW.
    fraction
        FL: the step from one number to the next is ``2 ** -fraction``.
    """

    bits: int
    fraction: int

    @classmethod
    def of(cls, bits: int, largest: float) -> Format:
        """Return the finest format of a width that holds a magnitude: FL = BW - 1 - IL."""
        return cls(bits, bits - 1 - integer_length(largest))

    @property
    def integer(self) -> int:
        """IL, so that BW = IL + FL + 1."""
        return self.bits - 1 - self.fraction

    @property
    def range(self) -> tuple[int, int]:
        """Least and largest integer."""
        half = 1 << (self.bits - 1)
        return -half, half - 1

    def quantise(self, values: Floats) -> Integers:
        """Return the nearest integers, saturated (equation 4.8); halves go away from zero, as in C."""
        least, largest = self.range
        scaled = np.clip(np.ldexp(values, self.fraction), least, largest)
        rounded: Integers = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled).astype(np.int64)
        return rounded

    def beyond(self, values: Floats) -> int:
        """Return how many values saturate."""
        least, largest = self.range
        scaled = np.ldexp(values, self.fraction)
        return int(np.count_nonzero((scaled <= least - 0.5) | (scaled >= largest + 0.5)))

    def value(self, integers: Integers) -> Floats:
        """Return the numbers that integers stand for (equation 4.4)."""
        found: Floats = np.ldexp(integers.astype(np.float64), -self.fraction)
        return found

    def nearest(self, value: float) -> float:
        """Return the number of the format that is nearest to a value (equation 3.1)."""
        return float(self.value(self.quantise(np.array(value)))[()])


def wrap(sums: Integers, bits: int) -> Integers:
    """Return what two's complement numbers of some bits keep of sums: wrapped around, as often as need be."""
    half = 1 << (bits - 1)
    wrapped: Integers = ((sums + half) & ((1 << bits) - 1)) - half
    return wrapped


def accumulate(inputs: Integers, weights: Integers, bits: int) -> Integers:
    """Add up products one by one in a register that wraps around after each addition.

    Two's complement addition is that of a ring, so the result is ``wrap`` of the whole sum; tests and numeric
    simulations hold both equal.

    Parameters
    ----------
    inputs : shape (positions, K)
    weights : shape (maps, K)
    bits
        Of the register; products are wrapped, too.

    Returns
    -------
    shape (positions, maps)
    """
    register = np.zeros((len(inputs), len(weights)), dtype=np.int64)
    for tap in range(inputs.shape[1]):
        register = wrap(register + wrap(np.outer(inputs[:, tap], weights[:, tap]), bits), bits)
    return register
