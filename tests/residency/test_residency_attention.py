"""Products, softmax and normalisations row by row: attention whose scores are never all on chip."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from residency_cases import optimum, problem_of

from tilewright.residency import Problem, objective, simulate
from tilewright.simulator.arithmetic.reference import product
from tilewright.spec.network import MatMul

Json = dict[str, Any]


def attention(positions: int, width: int, heads: int = 1, *, rows: bool = False, first: bool = False) -> Json:
    """Return projections, scores, softmax and context of one input.

    Parameters
    ----------
    rows
        Whether products have shapes by heads, as files have them, with reshapes between.
    first
        Whether scores and softmax have positions of queries first, along which nobody computes rows.
    """
    deep = width // heads
    tokens, by_heads = [width, 1, positions], [heads, deep, positions]
    scores = [heads, positions, positions] if rows else [heads * positions, 1, positions]
    layers: list[Json] = [
        {"name": name, "inputs": ["input"], "input": tokens, "kernels": width, "kernel": [1, 1]}
        for name in ("query", "key", "value")
    ]
    query, key, value = "query", "key", "value"
    if rows:
        for name in (query, key, value):
            layers.append(
                {"name": f"heads of {name}", "kind": "reshape", "inputs": [name], "input": tokens}
                | {"output": by_heads}
            )
        query, key, value = (f"heads of {name}" for name in (query, key, value))
    along = ["columns" if first else "rows" if rows else "channels"]
    layers += [
        {"name": "scores", "kind": "matmul", "inputs": [query, key], "input": by_heads if rows else tokens}
        | {"output": scores, "groups": heads, "depth": deep, "transposed": False},
        {"name": "softmax", "kind": "function", "op": "softmax", "input": scores, "output": scores}
        | {"along": along},
        {"name": "context", "kind": "matmul", "inputs": ["softmax", value], "input": scores}
        | {"output": by_heads if rows else tokens, "groups": heads, "depth": positions, "transposed": True},
    ]
    if rows:
        layers.append({"name": "joined", "kind": "reshape", "input": by_heads, "output": tokens})
    layers.append({"name": "out", "input": tokens, "kernels": width, "kernel": [1, 1]})
    return {"layers": layers[:-1] if heads == 1 and not rows else layers, "input": tokens}


def found(problem: Problem) -> int:
    """Return the least traffic, which the simulator confirms."""
    plan = optimum(problem)
    report = simulate(problem, plan, numeric=True)
    assert report.valid and report.numeric, report.violation
    assert report.measures.traffic_bytes == objective(problem, plan)
    return objective(problem, plan)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("positions", "elements", "traffic"),
    [(256, 54_592, 45_056), (256, 38_272, 77_824), (512, 104_768, 77_824), (512, 72_064, 143_360)],
)
def test_attention_moves_what_a_plan_by_hand_moves(positions: int, elements: int, traffic: int) -> None:
    assert found(problem_of(attention(positions, 64), elements)) <= traffic


def test_the_least_memory_of_attention_has_keys_or_values_and_a_query_on_chip() -> None:
    problem = problem_of(attention(64, 16), 64 * 16 + 16 + 64)  # a query and its scores
    assert problem.least_memory == 64 * 16 + 16 + 64
    assert problem.grounds == (
        "plans in which scores and context have the second operand on chip, and not in blocks"
    )


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_shapes_by_heads_cost_what_shapes_by_rows_cost(heads: int) -> None:
    by_heads = problem_of(attention(16, 8, heads, rows=True), 600)
    assert [operation.name for operation in by_heads.graph.operations] == [
        "query", "key", "value", "scores", "softmax", "context", "out",
    ]  # fmt: skip
    by_rows = attention(16, 8, heads)
    out = {"name": "out", "input": [8, 1, 16], "kernels": 8, "kernel": [1, 1]}
    by_rows["layers"] = [layer for layer in by_rows["layers"] if layer["name"] != "out"] + [out]
    assert found(by_heads) == found(problem_of(by_rows, 600))
    shapes = [tensor.shape for tensor in by_heads.graph.tensors]
    assert shapes[4:7] == [(heads * 16, 1, 16), (heads * 16, 1, 16), (8, 1, 16)]


def test_a_softmax_along_the_positions_of_queries_needs_all_of_them() -> None:
    problem = problem_of(attention(16, 8, 2, rows=True, first=True), 2000)
    graph = problem.graph
    assert graph.tensors[[tensor.name for tensor in graph.tensors].index("scores")].shape == (2, 16, 16)
    softmax = next(operation for operation in graph.operations if operation.name == "softmax")
    assert [reading.extent for reading in softmax.readings] == [None]
    found(problem)


def test_readers_of_windows_keep_the_shape_that_they_read() -> None:
    network = attention(16, 8, 2, rows=True)
    network["layers"] = [layer for layer in network["layers"] if layer["name"] not in ("joined", "out")]
    pool = {"name": "pool", "kind": "pool", "input": [2, 4, 16], "kernel": [2, 2], "stride": [2, 2]}
    network["layers"].append(pool)
    problem = problem_of(network, 2000)
    assert problem.graph.tensors[-2].shape == (2, 4, 16)
    found(problem)


def test_cycles_of_attention_are_counted_and_proven() -> None:
    network = attention(16, 8)
    problem = problem_of(network, 2000, objective={"minimise": "cycles"})
    macs = 3 * 16 * 8 * 8 + 2 * 16 * 16 * 8
    report = simulate(problem, optimum(problem))
    assert report.measures.macs == macs


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("groups", [1, 3])
def test_a_product_is_that_of_matrices(transposed: bool, groups: int) -> None:
    rng = np.random.default_rng(groups)
    rows, deep, columns = 5, 4, 6
    layer = MatMul.model_validate(
        {"name": "p", "kind": "matmul", "inputs": ["a", "b"], "input": [groups * deep, 1, rows]}
        | {"output": [groups * columns, 1, rows], "groups": groups, "depth": deep, "transposed": transposed}
    )
    left, right = rng.integers(-9, 9, (groups, rows, deep)), rng.integers(-9, 9, (groups, deep, columns))
    stored = right.transpose(0, 2, 1) if transposed else right
    wanted = (left @ right).transpose(0, 2, 1)
    assert prod(wanted.shape) == prod(layer.output)
    assert (product(layer, left.transpose(0, 2, 1), stored).reshape(wanted.shape) == wanted).all()
    some = product(layer, left.transpose(0, 2, 1)[:, :, 1:3], stored)
    assert (some.reshape(groups, columns, 2) == wanted[:, :, 1:3]).all()
