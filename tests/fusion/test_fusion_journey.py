"""The room fusion from a problem to a picture: which of three convolutions run as one group.

Maps on 6 x 6 pixels, a byte an element; what moves between the buffers and DRAM is counted. By hand::

    input 72 -> a, 8 weights -> 144 -> b, 8 weights -> 72 -> c, 72 weights -> output 64

    one by one     656: 224 and what is between two layers, 144 and 72, out and back
    one group      72 + 8 + 8 + 72 + 64 = 224: the input, all weights and the output once
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tilewright as tw
from tilewright.run.instance import parse

TEXT = """
room = "fusion"
objective = { minimise = "traffic" }

[[network.layers]]
name = "a"
input = [2, 6, 6]
kernels = 4
kernel = 1
[[network.layers]]
name = "b"
kernels = 2
kernel = 1
[[network.layers]]
name = "c"
kernels = 4
kernel = 3

[machine]
conv_array = [2, 2, 2] # rows, output maps and input maps at a time
clock_mhz = 100
input_bytes = 256
output_bytes = 256
parameter_bytes = 256
load_mb_per_s = 100
save_mb_per_s = 100
operands_per_cycle = 4
issue_cycles = 5
"""
PROBLEM: Any = parse(tomllib.loads(TEXT)).problem
SMALL = PROBLEM.with_(machine={"output_bytes": 17})


@cache
def optimum() -> tw.Result:
    return tw.solve(PROBLEM, "downsets")


def test_each_layer_alone_is_a_heuristic() -> None:
    result = tw.solve(PROBLEM, "layerwise")
    assert [group.nodes for group in result.plan.groups] == [("a",), ("b",), ("c",)]
    assert (result.status, result.objective, result.bound) == ("feasible", 656, 224)


@pytest.mark.parametrize("method", ["downsets", "columns_partition@highs"])
def test_the_optimum_is_one_group(method: str) -> None:
    result = tw.solve(PROBLEM, method)
    assert [group.nodes for group in result.plan.groups] == [("a", "b", "c")]
    assert (result.status, result.objective, result.bound) == ("optimal", 224, 224)


def test_a_small_buffer_needs_a_search() -> None:
    """Then the compulsory traffic is no longer reached, and what is proven is proven by the search."""
    result = tw.solve(SMALL, "downsets")
    assert (result.status, result.bound_by) == ("optimal", "downsets")
    assert 224 < result.objective == result.bound < tw.solve(SMALL, "layerwise").objective


def test_the_simulator_counts_what_moves() -> None:
    report = tw.simulate(PROBLEM, optimum(), numeric=True)
    assert report.valid and report.numeric  # the output is what the network computes
    measures = report.measures
    assert measures.traffic_bytes == measures.loaded_bytes + measures.saved_bytes == 224
    assert measures.loaded_elements == {"input": 72, "a parameters": 8, "b parameters": 8, "c parameters": 72}
    assert measures.written_elements == {"c": 64}
    assert measures.macs == 36 * 2 * 4 + 36 * 4 * 2 + 16 * 18 * 4


@pytest.mark.parametrize("buffer", ["input_bytes", "parameter_bytes"])
def test_a_buffer_for_less_than_a_window_is_infeasible(buffer: str) -> None:
    """c reads 3 x 3 pixels of two maps at a time, and as many weights: what would be enough is."""
    problem = PROBLEM.with_(machine={buffer: 17})
    result = tw.solve(problem, "downsets")
    assert (result.status, result.plan, result.exit_status) == ("infeasible", None, 1)
    assert "operation c" in result.bound_by and f"machine.{buffer} = 18 instead of 17" in result.bound_by
    assert tw.solve(PROBLEM.with_(machine={buffer: 18}), "downsets").status == "optimal"
    assert all(finding.holds for finding in tw.check(problem, result))


def test_a_result_is_written_read_checked_and_drawn(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    optimum().write(file)
    assert tw.Result.read(file, PROBLEM) == optimum()
    assert all(finding.holds for finding in tw.check(PROBLEM, file))
    tw.plot(PROBLEM, optimum(), tmp_path / "plan.svg")
    assert "<svg" in (tmp_path / "plan.svg").read_text()
