"""Moves that change the order of values on an NPU: tiles, runs and bursts against sets of addresses."""

from __future__ import annotations

from math import prod
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from conftest import examples, refused
from hypothesis import given, settings
from numbered import randoms
from onnx import TensorProto, helper
from searches import proven_best
from tests.oracles.moves import Move

import tilewright as tw
from tilewright.importing import network
from tilewright.spec.network import Permutation
from tilewright.tiling import Plan, Problem, at_least, kind_of, objective, simulate, violation
from tilewright.tiling.operations.plan import MoveTile, OperationPlan

Json = dict[str, Any]


def machine(**more: Any) -> Json:
    return {"kind": "npu", "tles": 2, "tlts": 1, "element_bytes": 1, "vector_ops_per_cycle": 4} | more


def layer(sizes: list[int], axes: list[int]) -> Json:
    shape = [prod(sizes), 1, 1]
    table = {"name": "t", "kind": "reshape", "op": "transpose", "input": shape, "output": shape}
    return table | {"permutation": {"sizes": sizes, "axes": axes}}


def drawn(random: Random) -> tuple[Json, Json, int]:
    count = random.randint(1, 4)
    sizes = [random.choice([1, 2, 3, 4, 5, 6]) for _ in range(count)]
    axes = random.sample(range(count), count)
    table = machine(
        element_bytes=random.randint(1, 2),
        input_bytes=random.randint(2, 30),
        output_bytes=random.randint(2, 30),
        burst_bytes=random.randint(1, 8),
        burst_ps=random.choice([0, 3, 50]),
        byte_ps=random.randint(1, 3),
    )
    return layer(sizes, axes), table, random.choice([1, 1, 2])


def part_of(problem: Problem) -> Any:
    ((_, part),) = problem.parts
    return part


def tiled(*sizes: int) -> Plan:
    return Plan((OperationPlan(MoveTile(sizes)),))


@settings(max_examples=examples(400))
@given(randoms)
def test_the_best_tiles_are_those_of_an_enumeration(random: Random) -> None:
    move, table, images = drawn(random)
    problem = Problem.model_validate({"network": {"layers": [move]}, "machine": table, "batch": images})
    part, oracle = part_of(problem), Move(move, table, images)
    plans = list(oracle.plans())
    found = proven_best(part)
    assert found.value == min(map(oracle.time, plans)) == kind_of(part).best_bound(part).value
    for tile in [tuple(found.layers[0].tile), *random.sample(plans, min(4, len(plans)))]:
        plan = tiled(*tile)
        assert violation(part, plan) is None
        assert not at_least(part, plan)
        assert objective(part, plan) == oracle.time(tile)
        report = simulate(part, plan, numeric=True)
        assert report.violation is None and report.numeric
        assert report.measures.duration_ps == oracle.time(tile)
        assert report.peak <= 2 * prod(tile)


def test_a_transposition_by_hand() -> None:
    """A matrix of 4 x 6 in tiles of 2 x 3: each reads 2 runs of 3, and writes 3 runs of 2."""
    table = machine(input_bytes=3, output_bytes=3, burst_bytes=4, burst_ps=10, byte_ps=1)
    problem = Problem.model_validate({"network": {"layers": [layer([4, 6], [1, 0])]}, "machine": table})
    part = part_of(problem)
    assert objective(part, tiled(2, 3)) == 2 * 24 + 10 * 4 * (2 + 3)
    # Rows are 2 bursts each, and then each value is written alone: 8 + 24. Columns: 24 + 6. Blocks: 20.
    result = tw.solve(problem)
    assert (result.status, result.objective) == ("optimal", 2 * 24 + 10 * 20)
    told = {"operation": {"dimension_1": 2, "dimension_2": 3}}
    assert result.plan.layers[0].to_json() == told
    assert OperationPlan.from_json(told) == result.plan.layers[0]
    assert "4 boxes of 2 x 3 of 4 x 6" in result.summary()
    for plan, told in (
        (Plan((OperationPlan((1, 1, 6)),)), "maps, rows and columns"),
        (tiled(6), "1 sizes, the input has 2"),
        (tiled(5, 1), "5 of dimension 1, the input has 4"),
        (tiled(3, 2), "2 tiles of 4 are of 2 each, not of 3"),
        (tiled(4, 3), "needs 12 elements"),
    ):
        assert told in str(violation(part, plan))


def test_neighbours_that_stay_neighbours_are_one_dimension() -> None:
    found = Permutation(sizes=(2, 1, 3, 4, 5), axes=(2, 3, 1, 0, 4)).merged
    assert (found.sizes, found.axes) == ((2, 12, 5), (1, 0, 2))
    assert Permutation(sizes=(1, 7), axes=(1, 0)).merged == Permutation(sizes=(7,), axes=(0,))
    assert Permutation(sizes=(1, 1), axes=(1, 0)).merged == Permutation(sizes=(1,), axes=(0,))


def test_orders_that_are_none_are_refused() -> None:
    for sizes, axes, field, value in (
        ([4, 6], [1, 1], "layer.permutation.axes", [1, 1]),
        ([4, 5], [1, 0], "layer.permutation.sizes", [4, 5]),
    ):
        move = layer([4, 6], [1, 0]) | {"permutation": {"sizes": sizes, "axes": axes}}
        with refused(field, value, "must"):
            Problem.model_validate({"network": {"layers": [move]}, "machine": machine()})


def saved(path: Path, operator: str, shape: list[int], output: list[int], **attributes: Any) -> Path:
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    result = helper.make_tensor_value_info("z", TensorProto.FLOAT, output)
    node = helper.make_node(operator, ["x"], ["z"], **attributes)
    model = helper.make_model(helper.make_graph([node], "g", [given], [result]))
    model.opset_import[0].version, model.ir_version = 17, 8
    onnx.save(model, path)
    return path


@pytest.mark.parametrize(
    ("operator", "shape", "output", "attributes"),
    [
        ("DepthToSpace", [1, 12, 2, 3], [1, 3, 4, 6], {"blocksize": 2, "mode": "DCR"}),
        ("DepthToSpace", [1, 12, 2, 3], [1, 3, 4, 6], {"blocksize": 2, "mode": "CRD"}),
        ("SpaceToDepth", [1, 3, 4, 6], [1, 12, 2, 3], {"blocksize": 2}),
        ("Transpose", [1, 2, 3, 4], [1, 4, 2, 3], {"perm": [0, 3, 1, 2]}),
    ],
)
def test_orders_of_files_are_those_of_onnxruntime(
    operator: str, shape: list[int], output: list[int], attributes: Json, tmp_path: Path
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    file = saved(tmp_path / "move.onnx", operator, shape, output, **attributes)
    values = np.arange(prod(shape), dtype=np.float32).reshape(shape)
    session = runtime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": values})
    (order,) = [each.permutation for each in network(file).layers if each.kind == "reshape"]
    found = values.reshape(order.sizes).transpose(order.axes)
    assert (found.ravel() == expected.ravel()).all()
