"""The contest's files: the text's examples, graphs and solutions as they are, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import command
import pytest

from tilewright.run.formats import contest
from tilewright.run.instance import read
from tilewright.scheduling import Plan, Problem, violation
from tilewright.scheduling.plan import Subgraph
from tilewright.scheduling.rules import latencies
from tilewright.spec.errors import InputError

POINTWISE, MATMUL = "Pointwise", "MatMul"
NATIVE = (128, 128, 1)


def example(
    tensors: int, size: int, inputs: list[list[int]], costs: list[int], kind: str, capacity: int
) -> Problem:
    first = tensors - len(costs)
    return Problem(
        graph={
            "widths": [size] * tensors,
            "heights": [size] * tensors,
            "inputs": inputs,
            "outputs": [[first + number] for number in range(len(costs))],
            "base_costs": costs,
            "op_types": [kind] * len(costs),
            "fast_memory_capacity": capacity,
            "slow_memory_bandwidth": 10,
            "native_granularity": [128, 128],
        }
    )


TWO = [[0], [1]]
EXAMPLES: dict[str, tuple[Problem, list[Subgraph], list[float] | None]] = {
    name: (problem, steps, expected)
    for problem, of in (
        (
            example(3, 128, TWO, [1000, 100], POINTWISE, 35000),
            [
                ("1A", [Subgraph((0,), NATIVE), Subgraph((1,), NATIVE)], [3276.8, 3276.8]),
                ("1B", [Subgraph((0, 1), NATIVE)], [3276.8]),
                ("1C", [Subgraph((0, 1), (64, 64, 1))], [4400.0]),
            ],
        ),
        (
            example(3, 256, TWO, [1000, 100], POINTWISE, 35000),
            [
                ("2A", [Subgraph((0,), NATIVE), Subgraph((1,), NATIVE)], [13107.2, 13107.2]),
                ("2B", [Subgraph((0, 1), NATIVE)], [13107.2]),
            ],
        ),
        (
            example(4, 128, [[0], [1], [1, 2]], [1500] * 3, POINTWISE, 50000),
            [
                ("3A", [Subgraph((op,), NATIVE) for op in range(3)], [3276.8, 3276.8, 4915.2]),
                ("3B", [Subgraph((0, 1), NATIVE, (2,)), Subgraph((0, 2), NATIVE)], [3000.0, 3276.8]),
                ("3C", [Subgraph((0,), NATIVE, (1,)), Subgraph((1, 2), NATIVE)], [1638.4, 3000.0]),
                ("3 whole", [Subgraph((0, 1, 2), NATIVE)], [4500.0]),
                ("3 lost", [Subgraph((0, 1), NATIVE), Subgraph((2,), NATIVE)], None),
            ],
        ),
        (
            example(3, 128, [[0, 1]], [1500], MATMUL, 25000),
            [
                ("4A", [Subgraph((0,), (64, 64, 128))], [7096.0]),
                ("4B", [Subgraph((0,), (64, 64, 128), (), (0, 1, 3, 2))], [6548.0]),
                ("4 snake", [Subgraph((0,), (64, 64, 128), (), "snake_rows")], [6548.0]),
                ("4 too large", [Subgraph((0,), (128, 128, 128))], None),
            ],
        ),
        (
            example(5, 128, [[0, 1], [3, 2]], [2000, 2000], MATMUL, 45000),
            [
                ("5A", [Subgraph((0, 1), (128, 128, 128))], None),
                ("5B", [Subgraph((0, 1), (128, 128, 32))], [6915.2]),
            ],
        ),
    )
    for name, steps, expected in of
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_text(name: str) -> None:
    problem, steps, expected = EXAMPLES[name]
    broken = violation(problem, Plan(tuple(steps)))
    if expected is None:
        assert broken is not None
        return
    assert broken is None
    assert [ticks / problem.graph.scale for ticks in latencies(problem, Plan(tuple(steps)))] == pytest.approx(
        expected
    )


def test_a_graph_is_solved_and_its_solution_checked(tmp_path: Path) -> None:
    graph = EXAMPLES["5B"][0].model_dump(mode="json")["graph"]
    (tmp_path / "five.json").write_text(json.dumps(graph))
    solved = command.run(tmp_path, "solve", "five.json", "--contest", "solution.json", "-o", "r.json")
    assert solved.returncode == 0, solved.stderr
    solution = json.loads((tmp_path / "solution.json").read_text())
    assert set(solution) == set(contest.LISTS)
    assert sum(solution["subgraph_latencies"]) <= 6915.2 + 1e-9
    assert command.run(tmp_path, "check", "five.json", "solution.json").returncode == 0
    solution["subgraph_latencies"][0] *= 0.9
    (tmp_path / "wrong.json").write_text(json.dumps(solution))
    wrong = command.run(tmp_path, "check", "five.json", "wrong.json")
    assert wrong.returncode == 1
    assert "WRONG" in wrong.stdout


GRAPH: dict[str, Any] = {
    "widths": [8, 8, 8],
    "heights": [8, 8, 8],
    "inputs": [[0], [1]],
    "outputs": [[1], [2]],
    "base_costs": [10, 1],
    "op_types": [POINTWISE, POINTWISE],
    "fast_memory_capacity": 100,
    "slow_memory_bandwidth": 2,
    "native_granularity": [4, 4],
}


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("widths", [8, 8], "heights"),
        ("widths", [8, 8, 4], r"inputs\[1\]\[0\]"),
        ("widths", [8, -8, 8], r"widths\[1\]"),
        ("widths", [8, 8.5, 8], r"widths\[1\]"),
        ("widths", "8", "widths"),
        ("inputs", [[0], [3]], r"inputs\[1\]\[0\] = 3"),
        ("inputs", [[0], [-1]], r"inputs\[1\]\[0\]"),
        ("inputs", [[2], [1]], "circle"),
        ("inputs", [[], [1]], r"inputs\[0\]"),
        ("outputs", [[1], [1]], r"outputs\[1\]\[0\]"),
        ("outputs", [[1], [2, 0]], r"outputs\[1\]"),
        ("outputs", [[1]], "outputs"),
        ("base_costs", [10, True], r"base_costs\[1\]"),
        ("op_types", [POINTWISE, "Conv"], r"op_types\[1\]"),
        ("op_types", [POINTWISE, MATMUL], r"inputs\[1\]"),
        ("fast_memory_capacity", 0, "fast_memory_capacity"),
        ("slow_memory_bandwidth", None, "slow_memory_bandwidth"),
        ("native_granularity", [4], "native_granularity"),
        ("colour", 1, "colour"),
    ],
)
def test_what_is_no_graph_is_refused(tmp_path: Path, field: str, value: object, told: str) -> None:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(GRAPH | {field: value}))
    with pytest.raises(InputError, match=told) as caught:
        read(path)
    assert caught.value.file == str(path)


def test_a_result_in_place_of_an_instance_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"format": 1, "room": "grouping"}')
    with pytest.raises(InputError, match="is a result, not an instance"):
        read(tmp_path / "r.json")


def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    for text, told in (
        ("{", "valid JSON"),
        ("[]", "object"),
        (json.dumps(GRAPH).replace("100", "NaN"), "NaN"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=told):
            read(path)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("subgraphs", [[0]], "granularities"),
        ("subgraphs", [[0], ["1"]], r"subgraphs\[1\]\[0\]"),
        ("granularities", [[4, 4, 1], [4, 4]], r"granularities\[1\]"),
        ("tensors_to_retain", [[], [-1]], r"tensors_to_retain\[1\]\[0\]"),
        ("traversal_orders", [None, "snake"], r"traversal_orders\[1\]"),
        ("subgraph_latencies", [1.0, "1"], r"subgraph_latencies\[1\]"),
        ("colour", [], "colour"),
    ],
)
def test_what_is_no_solution_is_refused(tmp_path: Path, field: str, value: object, told: str) -> None:
    path = tmp_path / "solution.json"
    solution = {
        "subgraphs": [[0], [1]],
        "granularities": [[4, 4, 1], [4, 4, 1]],
        "tensors_to_retain": [[], []],
        "traversal_orders": [None, None],
        "subgraph_latencies": [64.0, 64.0],
    }
    path.write_text(json.dumps(solution | {field: value}))
    with pytest.raises(InputError, match=told) as caught:
        contest.read(path)
    assert caught.value.file == str(path)
