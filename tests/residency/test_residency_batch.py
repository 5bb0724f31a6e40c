"""Networks with a batch in residency: plans and figures of one image, and how many there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from conftest import refused
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
from tilewright import codegen, residency
from tilewright.importing.training import read_trained

Json = dict[str, Any]


def layers(batch: int, **changes: Any) -> list[Json]:
    """Return layers whose function multiplies 12 times for an image."""
    return [
        {"name": "a", "input": [3, 6, 6], "kernels": 4, "kernel": [3, 3], "batch": batch},
        {"name": "f", "kind": "function", "op": "grid_sample", "input": [4, 4, 4], "output": [4, 2, 2]}
        | {"macs": 12 * batch, "inputs": ["a"]},
        {"name": "m", "kind": "matmul", "inputs": ["f", "f"], "input": [4, 2, 2], "output": [2, 4, 4]}
        | {"groups": 2, "depth": 2, "batch": batch},
        {"name": "b", "input": [2, 4, 4], "kernels": 5, "kernel": [1, 1], "batch": batch},
    ] + ([changes["more"]] if changes else [])


def problem(batch: int, memory: int = 300, **changes: Any) -> tw.ResidencyProblem:
    return tw.ResidencyProblem.model_validate(
        {"network": {"layers": layers(batch, **changes)}, "machine": {"memory_bytes": memory}}
    )


def test_a_batch_is_as_many_images_one_after_the_other() -> None:
    many, one = problem(3), problem(1)
    assert (many.batch, many.network) == (3, one.network)
    found, alone = tw.solve(many), tw.solve(one)
    assert (found.status, found.objective) == (alone.status, alone.objective)
    assert residency.objective(one, found.plan) == residency.objective(many, alone.plan)
    assert "3, one after the other" in found.summary()
    assert "one after the other" not in alone.summary()
    assert not [each for each in tw.check(many, found) if each.state == "refuted"]


def test_how_many_images_there_are_is_kept_and_tells_problems_apart() -> None:
    many, one = problem(3), problem(1)
    assert many.with_(machine={"memory_bytes": 400}).batch == 3
    assert many.told() != one.told() and "batch" not in one.told()
    assert tw.ResidencyProblem.model_validate(many.model_dump(mode="json")) == many


def test_batches_that_differ_are_refused() -> None:
    more = {"name": "c", "input": [5, 4, 4], "kernels": 1, "kernel": [1, 1], "batch": 2}
    with refused("network.layers[4].batch", 2, "layer a, 3"):
        problem(3, more=more)
    table = {"network": {"layers": layers(3)}, "machine": {"memory_bytes": 300}, "batch": 2}
    with refused("batch", 2, "batch of 3"):
        tw.ResidencyProblem.model_validate(table)
    odd = layers(3)
    odd[1]["macs"] = 37
    with refused("network.layers[1].macs", 37, "multiple of the 3 images"):
        tw.ResidencyProblem.model_validate({"network": {"layers": odd}, "machine": {"memory_bytes": 300}})


def saved(path: Path, batch: int) -> Path:
    weights = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, *shape])
        for name, shape in (("x", (3, 6, 6)), ("y", (4, 4, 4)))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph)
    model.opset_import[0].version, model.ir_version = 17, 8
    onnx.save(model, path)
    return path


def test_files_with_a_batch_are_planned_and_have_no_program(tmp_path: Path) -> None:
    machine = tmp_path / "memory.toml"
    machine.write_text("memory_bytes = 300\n", encoding="utf-8")
    results = []
    for batch in (1, 2):
        file = saved(tmp_path / f"images{batch}.onnx", batch)
        instance = tw.read(file, machine=machine, room="residency")
        assert instance.problem.batch == batch
        results.append(tw.solve(instance).objective)
    assert results[0] == results[1]
    numbers = read_trained(file)
    found = tw.solve(instance)
    with refused("batch", 2, "one image at a time"):
        codegen.project("x", "", instance.problem, found.plan, given=numbers)
