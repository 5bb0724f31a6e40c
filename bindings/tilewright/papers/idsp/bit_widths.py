"""Chapter 4 and section 7.4: formats, accumulator bounds, and the accuracy that narrow accumulators leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from tilewright.bitwidth import Plan, Problem
from tilewright.bitwidth.accumulator import (
    absolute_weights,
    available_bits,
    output_range,
    product_bits,
    worst_case,
)
from tilewright.bitwidth.exact.search import best_of
from tilewright.bitwidth.measurement import Measure, floating, interval, measure
from tilewright.bitwidth.noise import decibels
from tilewright.core import catalogue
from tilewright.papers.figures import Say
from tilewright.papers.idsp.setting import published
from tilewright.run.instance import read
from tilewright.simulator.arithmetic.fixed_point import Floats, Format, integer_length
from tilewright.simulator.arithmetic.response import ENTRIES, PowerTable
from tilewright.spec.errors import InputError
from tilewright.spec.network import Response

BOUNDS = ("worst_case", "absolute_weights", "output_range")
WIDTHS = (8, 12, 16)
"""Bits of the accumulators that are measured."""

LARGEST_RESPONSES = (32, 128, 512)
"""Magnitudes of inputs that the table of a local response normalisation is made for."""

IMAGES = 1000
"""Digits that they are measured on."""


class Figure(NamedTuple):
    """A number of the thesis, where it stands, and ours."""

    what: str
    where: str
    published: float
    ours: float


def figures() -> list[Figure]:
    """Return the numbers of chapter 4 that follow from numbers which the thesis gives."""
    told: dict[str, Any] = published()["chapter_4"]
    largest, taps, bits = told["layer"], told["taps"], told["accumulator_bits"]
    extra = {
        "worst_case": worst_case(taps),
        "absolute_weights": absolute_weights(largest["weights"], largest["absolute_weights"]),
        "output_range": output_range(largest["input"], largest["weights"], largest["output"]),
    }
    value = told["equation_4_6"]["largest"]
    found = [
        Figure(
            f"{told['equation_3_1']['value']} in Q8.8",
            "equation 3.1",
            told["equation_3_1"]["rounded"],
            Format(16, 8).nearest(told["equation_3_1"]["value"]),
        ),
        Figure(f"IL of {value}", "equation 4.6", told["equation_4_6"]["integer"], integer_length(value)),
        Figure(
            f"FL of {value}, 16 bits",
            "equation 4.6",
            told["equation_4_6"]["fraction"],
            Format.of(16, value).fraction,
        ),
        Figure(
            "bits of 1600 products of 8 bits each",
            "section 4.4",
            told["bits_of_1600_taps"],
            product_bits(8, 8) + worst_case(1600),
        ),
    ]
    return found + [
        Figure(
            f"bits for inputs and weights, {bound}",
            "section 4.4",
            told["available"][bound],
            available_bits(bits, extra[bound]),
        )
        for bound in BOUNDS
    ]


class Row(NamedTuple):
    """An accumulator and a bound: the plan of least noise and what was measured of it, or why it has none."""

    bits: int
    bound: str
    plan: Plan | None
    noise: int
    seen: Measure | None
    why: str = ""


def row(problem: Problem, bits: int, bound: str, exact: Floats) -> Row:
    """Return what an accumulator and a bound leave of a network.

    Parameters
    ----------
    exact
        Its outputs in floating point, of as many images as are to be run.
    """
    try:
        changed = problem.with_(machine={"accumulator_bits": bits}, limits={"bound": bound})
    except InputError as error:
        return Row(bits, bound, None, 0, None, str(error).partition("too narrow for ")[2].partition(":")[0])
    best = best_of(changed)
    assert best is not None  # without limits
    return Row(
        bits, bound, best.plan, best.noise, measure(changed, best.plan, most_images=len(exact), known=exact)
    )


def print_bit_widths(_folder: Path, say: Say) -> None:
    """Print the numbers of chapter 4, and the accuracy of a network on digits by accumulator and bound."""
    say("Chapter 4: formats and accumulator bounds, K = 800 in the last three (thesis | ours)")
    for figure in figures():
        mark = "" if figure.published == figure.ours else " *"
        say(f"  {figure.what:<50} {figure.where:<13} {figure.published:>6g} |{figure.ours:>6g}{mark}")
    print_response(say)
    print_accuracy(say)


def print_response(say: Say) -> None:
    """Print the largest error of the table that takes the power of a local response normalisation."""
    response = Response(**published()["chapter_4"]["response"])
    say("")
    say(
        f"Section 4.5.1, power of LRN by a table of {ENTRIES} numbers, {response.size} channels, alpha "
        f"{response.alpha:g}, beta {response.beta:g} (no error in the thesis)"
    )
    for largest in LARGEST_RESPONSES:
        error = PowerTable.of(response, largest).largest_error
        say(f"  inputs up to {largest:>6g}: largest relative error {error:.4%}")


def print_accuracy(say: Say, most_images: int = IMAGES) -> None:
    """Print the accuracy of `lenet5-bits` with accumulators of `WIDTHS`, by bound, beside the thesis's."""
    problem = read(catalogue.instance("bitwidth", "lenet5-bits")).problem
    told = published()["chapter_4"]["lenet5"]
    say("")
    say(
        f"Section 7.4, LeNet5-clone: {told['floating']} % in floating point, {told['accumulator_16']} % with "
        f"accumulators of 16 bits, {told['images']:,} images of MNIST (thesis)"
    )
    first, lines, exact = None, [], floating(problem, most_images)
    for bits in WIDTHS:
        for bound in BOUNDS:
            found = row(problem, bits, bound, exact)
            if found.seen is None or found.plan is None:
                lines.append(f"  {bits:>4}  {bound:<17} no widths for {found.why}")
                continue
            first = first or found.seen
            lines.append(_line(found))
    if first is None or first.float_right is None:
        return
    low, high = interval(first.float_right, first.images)
    share = f"{first.float_right / first.images:.2%}"
    say(
        f"Ours, lenet5-bits (fc3 with 128 outputs, trained on 4,000 digits): {share} in floating point "
        f"({low:.2%} to {high:.2%} with 95 % confidence), {first.images:,} other digits"
    )
    say("  bits  bound             accuracy, 95 % confidence    same class  dB: model  measured   overflows")
    for line in lines:
        say(line)


def _line(found: Row) -> str:
    seen = found.seen
    assert seen is not None and seen.right is not None
    low, high = interval(seen.right, seen.images)
    measured = seen.network_measures().signal_to_noise_db
    share = seen.right / seen.images
    return (
        f"  {found.bits:>4}  {found.bound:<17} {share:>7.2%}  {low:>7.2%} to {high:>7.2%}  "
        f"{seen.agreeing:>9,}  {decibels(found.noise):>9.2f} {measured:>9.2f}  {seen.overflows:>10,}"
    )
