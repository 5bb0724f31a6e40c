"""Equations 3.1 and 4.1 to 4.14, against the thesis's own figures and against plain integers."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, log2

import numpy as np
import pytest
from bits_at_random import THESIS, thesis_problem
from hypothesis import given
from hypothesis import strategies as st

from tilewright.bitwidth import accumulator
from tilewright.simulator.arithmetic.fixed_point import Format, accumulate, integer_length, wrap

magnitudes = st.floats(1e-6, 1e6, allow_nan=False)


def test_the_figures_of_the_thesis() -> None:
    assert Format(16, 8).nearest(3.123432) == 3.125  # equation 3.1
    assert integer_length(3.5324) == 2  # equation 4.6
    assert Format.of(16, 3.5324) == (16, 13)
    assert accumulator.product_bits(8, 8) + accumulator.worst_case(1600) == 26  # section 4.4, step 3
    available = {
        "worst_case": accumulator.worst_case(800),
        "absolute_weights": accumulator.absolute_weights(THESIS["weights"], THESIS["absolute_weights"]),
        "output_range": accumulator.output_range(THESIS["input"], THESIS["weights"], THESIS["output"]),
    }
    assert {name: accumulator.available_bits(16, extra) for name, extra in available.items()} == {
        "worst_case": 7,
        "absolute_weights": 11,
        "output_range": 14,
    }


@pytest.mark.parametrize(
    ("bound", "bits"), [("worst_case", 7), ("absolute_weights", 11), ("output_range", 14)]
)
def test_a_problem_has_the_bits_of_its_bound(bound: str, bits: int) -> None:
    problem = thesis_problem(bound)
    assert problem.available_bits(problem.layers[0]) == bits
    assert {one.inputs + one.weights for one in problem.candidates_of(problem.layers[0])} <= set(
        range(bits + 1)
    )


@given(st.integers(1, 10**6))
def test_worst_case_is_the_logarithm_rounded_up(taps: int) -> None:
    extra = accumulator.worst_case(taps)
    assert 2**extra >= taps > 2**extra / 2 or taps == 1 == extra + 1
    assert taps in (2**19, 2**20) or extra == ceil(log2(taps))


@given(magnitudes)
def test_integer_length_is_equation_4_6(largest: float) -> None:
    length = integer_length(largest)
    assert Fraction(2) ** (length - 1) <= Fraction(largest) < Fraction(2) ** length
    if abs(log2(largest) - round(log2(largest))) > 1e-9:
        assert length == floor(log2(largest)) + 1


def test_a_product_fits_however_small_the_sums_are() -> None:
    """The clamp at zero, which line 18 of algorithm 2 leaves out."""
    assert accumulator.output_range(4, 4, 0.01) == 0


@given(st.integers(1, 24), magnitudes, st.lists(st.floats(-1, 1), min_size=1, max_size=5))
def test_a_format_holds_its_range_to_half_a_step(bits: int, largest: float, shares: list[float]) -> None:
    form = Format.of(bits, largest)
    assert form.bits == form.integer + form.fraction + 1  # equation 4.2
    values = np.array(shares) * largest
    integers = form.quantise(values)
    least, most = form.range
    assert ((integers >= least) & (integers <= most)).all()
    step = 2.0**-form.fraction
    for value, integer, back in zip(values, integers, form.value(integers), strict=True):
        assert back == Fraction(int(integer)) * Fraction(2) ** -form.fraction  # equation 4.4
        # Nothing is lost beyond half a step, but at the upper end, which is one step short of 2 ** IL.
        assert abs(value - back) <= (step if integer == most else step / 2)


@given(st.integers(2, 16), st.integers(-8, 20), st.floats(-1e4, 1e4))
def test_quantisation_is_equation_4_8(bits: int, fraction: int, value: float) -> None:
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    exact = max(Fraction(least), min(Fraction(most), Fraction(value) * Fraction(2) ** fraction))
    away = floor(abs(exact) + Fraction(1, 2)) * (1 if exact >= 0 else -1)
    assert Format(bits, fraction).quantise(np.array([value]))[0] == away


@given(st.integers(2, 40), st.integers(-(2**62), 2**62))
def test_wrapping_keeps_what_is_congruent(bits: int, number: int) -> None:
    kept = int(wrap(np.array([number]), bits)[0])
    assert -(2 ** (bits - 1)) <= kept < 2 ** (bits - 1)
    assert (kept - number) % 2**bits == 0


@given(st.integers(2, 12), st.integers(1, 6), st.data())
def test_a_wrap_after_each_addition_is_one_at_the_end(bits: int, taps: int, data: st.DataObject) -> None:
    row = st.lists(st.integers(-300, 300), min_size=taps, max_size=taps)
    inputs, weights = np.array([data.draw(row)]), np.array([data.draw(row)])
    register = accumulate(inputs, weights, bits)
    whole = inputs @ weights.T
    assert (register == wrap(whole, bits)).all()
    if -(2 ** (bits - 1)) <= whole[0, 0] < 2 ** (bits - 1):
        assert register[0, 0] == whole[0, 0]


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**31))
def test_the_worst_case_bound_holds_but_for_two_most_negative_factors(
    taps: int, inputs: int, weights: int, seed: int
) -> None:
    """Equation 4.13; equation 4.10 leaves out the product of the two most negative numbers."""
    random = np.random.default_rng(seed)
    first = random.integers(-(2 ** (inputs - 1)), 2 ** (inputs - 1), taps)
    second = (
        random.integers(-(2 ** (weights - 1)) + 1, 2 ** (weights - 1), taps)
        if weights > 1
        else np.zeros(taps)
    )
    bits = accumulator.product_bits(inputs, weights) + accumulator.worst_case(taps)
    total = int(first @ second)
    assert -(2 ** (bits - 1)) <= total < 2 ** (bits - 1)
    corner = taps * 2 ** (inputs - 1) * 2 ** (weights - 1)
    assert corner <= 2 ** (bits - 1)  # one too many where K is a power of two, and no more
