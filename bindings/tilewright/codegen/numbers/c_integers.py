"""The integers of C: which of them holds a tensor's elements, and how elements lie in memory and in files."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tilewright.simulator.arithmetic.fixed_point import Integers

C_BITS = (8, 16, 32, 64)
"""Widths of C's integers."""

LEAST_SUM_BITS = 32
"""Bits of C's integers in which sums are added up, at least."""


def c_bits(bits: int) -> int:
    """Return the width of C's next wider integer, or of its widest."""
    return next((each for each in C_BITS if bits <= each), C_BITS[-1])


def c_integer(bits: int) -> str:
    """Return the name of C's next wider integer, or of its widest."""
    return f"int{c_bits(bits)}_t"


def c_sum_bits(bits: Iterable[int]) -> int:
    """Return the width of the integer of C in which sums are added up that have some bits."""
    return c_bits(max([LEAST_SUM_BITS, *bits]))


def are_packed(bits: Iterable[int]) -> bool:
    """Return whether elements of some bits are no integers of C; they lie without gaps."""
    return not {*bits} <= {*C_BITS}


def pack_elements(values: Integers, bits: int) -> bytes:
    """Return elements of some bits, one after the other without gaps, the lowest bit first."""
    if bits in C_BITS:
        return values.astype(f"<i{bits // 8}").tobytes()
    each = (values.reshape(-1, 1) >> np.arange(bits)) & 1
    return np.packbits(each.astype(np.uint8).ravel(), bitorder="little").tobytes()
