"""How many bits inputs and weights may have together in front of a narrow accumulator: three bounds.

Beyond a product's bits, a sum of K of them needs ``extra_bits`` more (the thesis's delta, section 4.4).
"""

from __future__ import annotations

from typing import Literal

from tilewright.simulator.arithmetic.fixed_point import integer_length

BoundName = Literal["worst_case", "absolute_weights", "output_range"]


def product_bits(inputs: int, weights: int) -> int:
    """Return the bits of a product, but for that of the two most negative numbers (equation 4.10)."""
    return inputs + weights - 1


def worst_case(taps: int) -> int:
    """Return the extra bits for K products of any values: ``ceil(log2(K))`` (equations 4.12 and 4.13)."""
    return (taps - 1).bit_length()


def absolute_weights(weights: float, total: float) -> int:
    """Return the extra bits for weights that are known, and inputs of any values.

    Parameters
    ----------
    weights
        Largest magnitude of a weight.
    total
        Sum of the magnitudes of an output map's weights; of the map where it is largest.
    """
    return integer_length(total) - integer_length(weights)


def output_range(inputs: float, weights: float, output: float) -> int:
    """Return the extra bits for final sums that are known; sums on the way may wrap around.

    It is not less than zero, so that a product fits (section 4.4; line 18 of algorithm 2 leaves that out).

    Parameters
    ----------
    inputs, weights, output
        Largest magnitudes of an input, a weight, and a sum that is complete.
    """
    return max(0, integer_length(output) - (integer_length(inputs) + integer_length(weights)))


def available_bits(accumulator: int, extra: int) -> int:
    """Return the bits that inputs and weights have together (equation 4.14)."""
    return accumulator + 1 - extra
