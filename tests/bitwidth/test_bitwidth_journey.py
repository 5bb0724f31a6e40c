"""The room bitwidth from a problem to a picture: the layer of section 4.4 of the thesis, sums of 16 bits.

A sum of 800 products takes 3 bits beside those of a product, by the range of the outputs. So inputs and
weights have at most 16 - 3 + 1 = 14 bits together: two signs make one. By hand, of all pairs of widths::

    noise of the inputs   2**(-2 x fraction bits) / 12 of the mean square, a third of the largest square
    noise of the weights  the same; signs and bits before the point take 3 bits of inputs, none of weights
"""

from __future__ import annotations

from functools import cache
from math import ceil, log10
from pathlib import Path

import pytest
from bits_at_random import thesis_problem
from conftest import refused
from formulations import need

import tilewright as tw
from tilewright.bitwidth.noise import decibels, most_noise

PROBLEM = thesis_problem("output_range")
INPUTS, WEIGHTS = 32 * 14 * 14, 64 * 800
"""Elements, each of which moves once."""


def noise(inputs: int, weights: int) -> float:
    """Return the noise beside the signal, both powers, in ppb; the ranges are 3.946 and 0.2593."""
    of_inputs = 2.0 ** (-2 * (inputs - 3)) / 12 / (3.946**2 / 3)
    return 1e9 * (of_inputs + 2.0 ** (-2 * weights) / 12 / (0.2593**2 / 3))


def best(most_bits: float = float("inf")) -> tuple[int, int]:
    """Return the widths with the least noise that move no more bits."""
    pairs = [(a, b) for a in range(1, 14) for b in range(1, 15 - a) if a * INPUTS + b * WEIGHTS <= most_bits]
    return min(pairs, key=lambda pair: noise(*pair))


@cache
def optimum() -> tw.Result:
    return tw.solve(PROBLEM.with_(limits={"bits": 310_000}), "merging")


def test_heuristics_choose_widths() -> None:
    """Widths of data types are far from the best; without a limit on bits each layer has its best pair."""
    result = tw.solve(PROBLEM, "power_of_two")
    assert result.plan.widths == ((4, 8),)
    assert (result.status, result.objective) == ("feasible", ceil(noise(4, 8)))
    for name in ("greedy", "algorithm2"):
        result = tw.solve(PROBLEM, name)
        assert result.plan.widths == (best(),) == ((7, 7),)
        assert (result.status, result.objective, result.bound) == ("optimal", *[ceil(noise(7, 7))] * 2)


@pytest.mark.parametrize("method", ["merging", "columns_choose@gecode"])
def test_the_optimum_with_few_bits(method: str) -> None:
    if method.endswith("@gecode"):
        need("gecode")
    result = tw.solve(PROBLEM.with_(limits={"bits": 310_000}), method)
    assert result.plan.widths == (best(310_000),) == ((8, 5),)
    assert (result.status, result.bound_by) == ("optimal", method)
    assert result.objective == result.bound == ceil(noise(8, 5))


def test_the_simulator_measures_noise_and_bits() -> None:
    measures = tw.simulate(PROBLEM, tw.BitwidthPlan(("conv2",), ((7, 7),))).measures
    assert measures.noise_ppb == ceil(noise(7, 7))
    assert measures.moved_bits == 7 * INPUTS + 7 * WEIGHTS
    assert decibels(measures.noise_ppb) == pytest.approx(-10 * log10(noise(7, 7) / 1e9), abs=1e-3)
    assert most_noise(30.0) == 1_000_000
    report = tw.simulate(PROBLEM, tw.BitwidthPlan(("conv2",), ((8, 7),)))
    assert report.violation is not None


def test_what_has_too_few_bits_is_infeasible() -> None:
    result = tw.solve(PROBLEM.with_(limits={"bits": 50_000}), "merging")
    assert (result.status, result.plan, result.exit_status) == ("infeasible", None, 1)
    assert noise(2, 1) < 1e9 < noise(1, 1)  # one bit for each is more noise than signal
    assert (
        f"{2 * INPUTS + WEIGHTS:,} bits" in result.bound_by and "limits.bits allows 50,000" in result.bound_by
    )
    with refused("machine.accumulator_bits", 4, "layer conv2", "3 bits", "5 bits"):
        PROBLEM.with_(machine={"accumulator_bits": 4})
    assert tw.solve(PROBLEM.with_(machine={"accumulator_bits": 5}), "merging").status == "optimal"


def test_a_result_is_written_read_checked_and_drawn(tmp_path: Path) -> None:
    file, problem = tmp_path / "plan.json", PROBLEM.with_(limits={"bits": 310_000})
    optimum().write(file)
    assert tw.Result.read(file, problem) == optimum()
    assert all(finding.holds for finding in tw.check(problem, file))
    tw.plot(problem, optimum(), tmp_path / "plan.svg")
    assert "<svg" in (tmp_path / "plan.svg").read_text()
