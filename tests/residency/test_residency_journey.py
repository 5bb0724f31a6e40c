"""The room residency from a problem to a picture: which of three layers' maps stay on chip.

Maps on 6 x 6 pixels, a byte an element; what moves between the memory and DRAM is counted. By hand::

    input 72 -> a, 8 weights -> 144 -> b, 8 weights -> 72 -> c, 72 weights -> output 64

    compulsory     72 + 8 + 8 + 72 + 64 = 224: the input, all weights and the output once
    one by one     224 + 2 x 144 + 2 x 72 = 656: what is between two layers goes out and comes back
    a stays        224 + 2 x 72 = 368: a takes 144 bytes, its weights 8, and two of its input pass by: 154
    a with less    368 + 72 = 440: 150 bytes hold half of a's weights at a time, so the input is read twice
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from conftest import refused

import tilewright as tw

PROBLEM = tw.ResidencyProblem(
    network=tw.Network(
        layers=[
            {"name": "a", "input": [2, 6, 6], "kernels": 4, "kernel": 1},
            {"name": "b", "kernels": 2, "kernel": 1},
            {"name": "c", "kernels": 4, "kernel": 3},
        ]
    ),
    machine=tw.OneMemory(memory_bytes=150),
    limits=tw.ResidencyLimits(most_operations=1),  # no two layers in one step
)


@cache
def optimum() -> tw.Result:
    return tw.solve(PROBLEM, "states")


@pytest.mark.parametrize(("heuristic", "traffic"), [("layer_by_layer", 656), ("keep_if_it_fits", 512)])
def test_heuristics_keep_little(heuristic: str, traffic: int) -> None:
    """The second keeps the output of b, 72 bytes; that of a, 144, has no room beside all weights of a."""
    result = tw.solve(PROBLEM, heuristic)
    assert (result.status, result.objective, result.bound) == ("feasible", traffic, 224)


@pytest.mark.parametrize("method", ["states", "columns_intervals@highs"])
def test_the_optimum_reads_the_input_twice(method: str) -> None:
    result = tw.solve(PROBLEM, method)
    assert (result.status, result.objective, result.bound) == ("optimal", 440, 440)
    assert result.bound_by == method
    assert [step.resident for step in result.plan.steps] == [("a",), (), ()]


def test_the_simulator_counts_what_moves() -> None:
    report = tw.simulate(PROBLEM, optimum(), numeric=True)
    assert report.valid and report.numeric  # the output is what the network computes
    measures = report.measures
    assert measures.traffic_bytes == measures.loaded_bytes + measures.saved_bytes == 440
    assert (measures.compulsory_bytes, measures.layer_by_layer_bytes) == (224, 656)
    assert measures.loaded_elements["input"] == 2 * 72
    assert measures.written_elements == {"b": 72, "c": 64}
    assert measures.memory_bytes <= 150


@pytest.mark.parametrize(
    ("memory", "most_operations", "traffic"), [(149, 1, 512), (153, 1, 440), (154, 1, 368), (150, None, 224)]
)
def test_more_memory_or_layers_computed_together_move_less(
    memory: int, most_operations: int | None, traffic: int
) -> None:
    changed = PROBLEM.with_(machine={"memory_bytes": memory}, limits={"most_operations": most_operations})
    assert tw.solve(changed, "states").objective == traffic


def test_a_memory_for_less_than_one_step_of_a_layer_is_refused() -> None:
    """c, a map at a time, needs the 9 inputs of a window, 9 weights, and 4 bytes for a sum: 22."""
    with refused("machine.memory_bytes", 20, "operation c", "2 bytes", 22):
        PROBLEM.with_(machine={"memory_bytes": 20})


def test_a_result_is_written_read_checked_and_drawn(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    optimum().write(file)
    assert tw.Result.read(file, PROBLEM) == optimum()
    assert all(finding.holds for finding in tw.check(PROBLEM, file))
    tw.plot(PROBLEM, optimum(), tmp_path / "plan.svg")
    assert "<svg" in (tmp_path / "plan.svg").read_text()
