"""The room scheduling from a problem to a picture: example 5 of the contest, two products of matrices.

All five matrices have 128 x 128 elements, which take 1,638.4 to move; the memory holds less than three. Each
product goes in two steps of depth 64, which compute for 1,000 while they move. By hand::

    3 = 0 x 1   each step loads half of 0 and half of 1: 1,638.4 and 1,638.4
    4 = 3 x 2   3 has stayed; half of 2 takes 819.2, less than 1,000; half of 2 and the output 4 take 2,457.6

Together these are 6,734.4. The objective is the next whole number.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tilewright as tw
from tilewright.run.instance import parse
from tilewright.scheduling import Plan
from tilewright.scheduling.plan import Subgraph

TEXT = """
room = "scheduling"
[graph]
widths = [128, 128, 128, 128, 128]
heights = [128, 128, 128, 128, 128]
inputs = [[0, 1], [3, 2]]
outputs = [[3], [4]]
base_costs = [2000, 2000]
op_types = ["MatMul", "MatMul"]
fast_memory_capacity = 45000
slow_memory_bandwidth = 10
native_granularity = [128, 128]
"""
PROBLEM: Any = parse(tomllib.loads(TEXT)).problem


@cache
def optimum() -> tw.Result:
    return tw.solve(PROBLEM, "ideals")


def test_the_plan_of_the_text_is_simulated() -> None:
    """Both products in one subgraph: the text says 6,915.2 for slices of 32."""
    plan = Plan((Subgraph((0, 1), (128, 128, 32)),))
    report = tw.simulate(PROBLEM, plan, numeric=True)
    assert report.valid and report.numeric
    assert report.measures.latency == pytest.approx(6915.2)


def test_a_heuristic_merges_both() -> None:
    result = tw.solve(PROBLEM, "greedy")
    assert [subgraph.operations for subgraph in result.plan.subgraphs] == [(0, 1)]
    # Four matrices have to move, whatever is done meanwhile.
    assert (result.status, result.bound) == ("feasible", 6554)
    assert 6735 < result.objective <= 6916


@pytest.mark.parametrize("method", ["ideals", "columns_cover@highs"])
def test_the_optimum_keeps_the_middle_in_memory(method: str) -> None:
    result = tw.solve(PROBLEM, method)
    assert (result.status, result.objective, result.bound) == ("optimal", 6735, 6735)
    assert result.bound_by == method
    first, second = result.plan.subgraphs
    assert (first.operations, first.retained, second.operations) == ((0,), (3,), (1,))


def test_the_simulator_measures_both_subgraphs() -> None:
    measures = tw.simulate(PROBLEM, optimum()).measures
    assert measures.latency == pytest.approx(6734.4)
    assert [step.latency for step in measures.subgraphs] == pytest.approx([3276.8, 1000 + 2457.6])
    assert [step.transfer for step in measures.subgraphs] == pytest.approx([3276.8, 3276.8])
    assert measures.peak_elements == 128 * (128 + 128 + 64)  # 3, a tile of 4, half of 2


def test_a_memory_for_less_than_one_product_is_infeasible() -> None:
    result = tw.solve(PROBLEM.with_(graph={"fast_memory_capacity": 2}), "ideals")
    assert (result.status, result.plan, result.exit_status) == ("infeasible", None, 1)
    assert "operation 0 needs 3 elements" in result.bound_by and "has 2" in result.bound_by


def test_a_result_is_written_read_checked_and_drawn(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    optimum().write(file)
    assert tw.Result.read(file, PROBLEM) == optimum()
    assert all(finding.holds for finding in tw.check(PROBLEM, file))
    tw.plot(PROBLEM, optimum(), tmp_path / "plan.svg")
    assert "<svg" in (tmp_path / "plan.svg").read_text()
