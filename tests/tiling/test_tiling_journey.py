"""The room tiling from a problem to a picture: two kernels of 1 x 1 x 2 on 2 x 2 pixels of two maps.

That is a product of matrices: 8 inputs, 4 weights, 8 outputs, a byte each. Six bytes hold two inputs and two
weights, and the output that they make, but no second kernel or pixel beside them. By hand::

    kernel by kernel   2 x 2 weights, for each of which all inputs pass by, 2 x 8, and 8 outputs: 28
    pixel by pixel     8 inputs, for each of whose 4 pixels all weights pass by, 4 x 4, and 8 outputs: 32

With eight bytes both kernels stay, 4 + 2 + 2, and each element moves once: 20.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from conftest import refused

import tilewright as tw

PROBLEM = tw.TilingProblem(
    layer=tw.Layer(input=(2, 2, 2), kernels=2, kernel=1),
    machine=tw.DspMachine(memory_bytes=6, element_bytes=1, double_buffering=False),
    objective=tw.TilingObjective(minimise="accesses"),
)


@cache
def optimum() -> tw.Result:
    return tw.solve(PROBLEM, "exhaustive")


def test_a_heuristic_moves_partial_sums() -> None:
    """Tiles of two pixels and one map: outputs go out, come back and go out again, 24 beside 16 + 8."""
    result = tw.solve(PROBLEM, "manual")
    assert (result.status, result.objective, result.bound) == ("feasible", 48, 20)


@pytest.mark.parametrize("method", ["exhaustive", "tiles@highs"])
def test_the_optimum_goes_kernel_by_kernel(method: str) -> None:
    result = tw.solve(PROBLEM, method)
    assert (result.status, result.objective, result.bound) == ("optimal", 28, 28)
    assert result.bound_by == method
    tile = result.plan.layers[0].tile
    assert (tile.output_maps, tile.rows, tile.columns, tile.input_maps) == (1, 1, 1, 2)


def test_the_simulator_counts_what_moves() -> None:
    report = tw.simulate(PROBLEM, optimum(), numeric=True)
    assert report.valid and report.numeric  # eight sums of two products each, as the layer defines them
    measures = report.measures
    assert measures.accesses_elements == 28
    assert measures.loaded_elements == {"input": 16, "kernels": 4}
    assert measures.written_elements == {"output": 8}
    assert measures.peak_elements == 2 + 2 + 1


def test_two_more_bytes_hold_both_kernels() -> None:
    result = tw.solve(PROBLEM.with_(machine={"memory_bytes": 8}), "exhaustive")
    assert (result.status, result.objective) == ("optimal", 20)


def test_a_memory_for_less_than_one_product_is_refused() -> None:
    with refused("machine.memory_bytes", 2, "3 bytes", "1 are missing"):
        PROBLEM.with_(machine={"memory_bytes": 2})


def test_a_result_is_written_read_checked_and_drawn(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    optimum().write(file)
    assert tw.Result.read(file, PROBLEM) == optimum()
    assert all(finding.holds for finding in tw.check(PROBLEM, file))
    tw.plot(PROBLEM, optimum(), tmp_path / "plan.svg")
    assert "<svg" in (tmp_path / "plan.svg").read_text()
