"""The room allocation from a problem to a picture: two layers on five processing elements (PEs).

Both are kernels of 1 x 1 on 6 x 6 pixels, and a PE does a product a cycle: a has 36 x 1 x 4 = 144 products, b
has 36 x 4 x 2 = 288. A layer is split into equal parts of its kernels and its maps, so that by hand::

    PEs of a          1    2    4         PEs of b          1    2    4    8
    cycles a frame  144   72   36         cycles a frame  288  144   72   36

Both take 144 with 1 + 2 PEs. For 72 they need 2 + 4, one more than there are.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import refused

import tilewright as tw
from tilewright.run.instance import parse

TEXT = """
room = "allocation"
objective = { minimise = "interval" }
machine = { array = [1, 5], functional_units = 1, clock_mhz = 1 }
limits = { splits = ["filters", "maps"] }
[[network.layers]]
name = "a"
input = [1, 6, 6]
kernels = 4
kernel = 1
[[network.layers]]
name = "b"
kernels = 2
kernel = 1
"""
PROBLEM: Any = parse(tomllib.loads(TEXT)).problem


@cache
def optimum() -> tw.Result:
    return tw.solve(PROBLEM, "parametric")


def test_a_heuristic_is_as_good_and_does_not_know_it() -> None:
    """No more than the products are known: 432 of them on five PEs take 87 cycles."""
    result = tw.solve(PROBLEM, "greedy")
    assert (result.status, result.objective, result.bound) == ("feasible", 144, 87)


@pytest.mark.parametrize("method", ["parametric", "columns_pipeline@highs", "pipeline@highs"])
def test_the_optimum_leaves_two_elements_alone(method: str) -> None:
    result = tw.solve(PROBLEM, method)
    assert (result.status, result.objective, result.bound) == ("optimal", 144, 144)
    assert result.bound_by == method
    if method == "parametric":  # of plans with one interval it takes the smallest
        assert [split.pes for split in result.plan.splits] == [1, 2]


def test_the_simulator_executes_the_pipeline() -> None:
    report = tw.simulate(PROBLEM, optimum(), numeric=True)
    assert report.valid and report.numeric  # each frame is what the network computes
    measures = report.measures
    assert (measures.interval_cycles, measures.pes) == (144, 3)
    assert measures.latency_cycles == 144 + 4  # b begins when a has made the four maps of a pixel
    assert measures.frames_per_second == pytest.approx(1e6 / 144)
    assert [layer.busy_cycles for layer in measures.layers.values()] == [144, 144]


def test_one_more_element_doubles_the_rate() -> None:
    result = tw.solve(PROBLEM.with_(machine={"array": [2, 3]}), "parametric")
    assert (result.status, result.objective) == ("optimal", 72)
    assert [split.pes for split in result.plan.splits] == [2, 4]


def test_a_rate_that_needs_more_elements_is_infeasible() -> None:
    """17,000 frames/s leave 58 cycles, so 4 PEs for a and 8 for b."""
    asked = {"minimise": "pes", "frames_per_second": 17_000}
    result = tw.solve(PROBLEM.with_(objective=asked), "parametric")
    assert (result.status, result.plan, result.exit_status) == ("infeasible", None, 1)
    assert "17000 frames per second need 12 PEs" in result.bound_by and "the array has 5" in result.bound_by
    with refused("machine.array", [1, 1], "1 PEs", "layer b"):
        PROBLEM.with_(machine={"array": [1, 1]})


def test_a_result_is_written_read_checked_and_drawn(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    optimum().write(file)
    assert tw.Result.read(file, PROBLEM) == optimum()
    assert all(finding.holds for finding in tw.check(PROBLEM, file))
    tw.plot(PROBLEM, optimum(), tmp_path / "plan.svg")
    assert "<svg" in (tmp_path / "plan.svg").read_text()
