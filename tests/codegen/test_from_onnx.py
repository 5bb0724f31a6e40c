"""C of ONNX files: it computes what onnxruntime computes of the file, or the command says what it cannot."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from compiled import CHECKED
from conftest import examples
from onnx import TensorProto, helper, numpy_helper
from tests.codegen.onnx_in_c import any_network, emitted, instance_of

import tilewright
from tilewright import codegen
from tilewright.codegen.numbers.made_numbers import MadeNumbers
from tilewright.importing import network, training
from tilewright.importing.training import read_trained
from tilewright.spec.errors import Disagreement, InputError
from tilewright.spec.network import OWN_INPUT

pytest.importorskip("onnxruntime")
needs_compiler = pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler")

ROOMS = {
    "residency": "layer_by_layer",
    "tiling": "greedy",
    "npu": "exhaustive",
    "fusion": "greedy",
    "allocation": "greedy",
}
"""Rooms whose plans become projects, and a method of each; `npu` is another machine of tiling."""

N = helper.make_node


def w(name: str, *shape: int) -> onnx.TensorProto:
    values = np.random.default_rng(len(name) + sum(shape)).standard_normal(shape) / np.prod(shape[1:]) ** 0.5
    return numpy_helper.from_array(values.astype(np.float32), name)


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    weights: list[onnx.TensorProto],
    outputs: dict[str, tuple[int, ...]],
    given: tuple[int, ...] = (1, 3, 8, 8),
) -> Path:
    told = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in each.items()]
        for each in ({"x": given}, outputs)
    ]
    graph = helper.make_graph(nodes, "network", *told, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def chain(path: Path, function: str) -> Path:
    """Write a convolution, a function, an average over the plane and a fully connected layer."""
    nodes = [
        N("Conv", ["x", "k", "b"], ["c"], pads=[1, 1, 1, 1]),
        N(function, ["c"], ["r"]),
        N("GlobalAveragePool", ["r"], ["g"]),
        N("Flatten", ["g"], ["f"]),
        N("Gemm", ["f", "m", "n"], ["y"]),
    ]
    return save(path, nodes, [w("k", 8, 3, 3, 3), w("b", 8), w("m", 8, 10), w("n", 10)], {"y": (1, 10)})


@pytest.mark.by_day(1)
@needs_compiler
@pytest.mark.parametrize("room", ROOMS)
def test_activations_are_computed(room: str, tmp_path: Path) -> None:
    """Rectifiers of a file are not lost on the way, nor is the scale of what an average is of."""
    path = chain(tmp_path / "net.onnx", "Relu")
    emitted(instance_of(path, room, 64), ROOMS[room], path, 0)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("function", ["HardSwish", "Sigmoid", "LeakyRelu"])
@pytest.mark.parametrize("room", ROOMS)
def test_a_function_that_there_is_no_c_for_is_refused_by_name(
    room: str, function: str, tmp_path: Path
) -> None:
    path = chain(tmp_path / "net.onnx", function)
    instance = instance_of(path, room, 64)
    names = [layer.name for layer in instance.problem.network.layers if layer.kind == "map"]
    with pytest.raises(InputError, match=f"layer {names[0]}"):
        emitted(instance, ROOMS[room], path, 0)


@pytest.mark.nightly
@needs_compiler
@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("seed", range(examples(40)))
def test_any_network_computes_what_onnxruntime_does(room: str, seed: int, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    any_network(random.Random(f"{room} {seed}"), path, single=room in ("tiling", "npu"))
    try:
        emitted(instance_of(path, room, 64), ROOMS[room], path, seed, "-O1", *CHECKED)
    except InputError as refused:  # a product in tiling, a value that is added to itself, a part elsewhere
        assert any(told in str(refused) for told in ("mul", "functions of it", "the last layer", "array"))


def quantised(path: Path) -> Path:
    """Write a convolution between quantisations, whose zero points stand for a rectifier."""
    numbers = [
        numpy_helper.from_array(np.float32(0.05), "s"),
        numpy_helper.from_array(np.int8(-128), "z"),
    ]
    nodes = [
        N("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        N("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        N("Conv", ["xd", "k"], ["c"]),
        N("QuantizeLinear", ["c", "s", "z"], ["q"]),
        N("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    return save(path, nodes, [w("k", 4, 3, 1, 1), *numbers], {"y": (1, 4, 8, 8)})


@pytest.mark.by_day(1)
@pytest.mark.parametrize("room", ROOMS)
def test_quantised_networks_are_planned_and_not_emitted(room: str, tmp_path: Path) -> None:
    path = quantised(tmp_path / "net.onnx")
    instance = instance_of(path, room, 64)
    with pytest.raises(InputError, match="scales and zero points"):
        emitted(instance, ROOMS[room], path, 0)
    plan = tilewright.solve(instance, ROOMS[room], time_limit=20).plan
    with pytest.raises(InputError, match="scales and zero points"):
        codegen.project("net", "", instance.problem, plan)


def test_a_network_that_is_read_wrongly_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its rectifier the network gives other values than onnxruntime does."""
    path = chain(tmp_path / "net.onnx", "Relu")
    read: Callable[..., Any] = training.open_network

    def without(*given: Any) -> Any:
        model, found = read(*given)
        layers = [each for each in found.network.layers if getattr(each, "op", "") != "relu"]
        return model, found._replace(network=found.network.with_(layers=tuple(layers)))

    monkeypatch.setattr(training, "open_network", without)
    with pytest.raises(Disagreement, match="output y "):
        read_trained(path)


def test_a_coarse_graph_that_loses_a_function_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = chain(tmp_path / "net.onnx", "Relu")
    monkeypatch.setattr(MadeNumbers, "_rectified", lambda self, op: False)
    instance = instance_of(path, "residency", 64)
    with pytest.raises(Disagreement, match="do not compute what it does"):
        emitted(instance, ROOMS["residency"], path, 0)


def test_weights_that_are_not_in_the_file_are_made_and_it_is_said(tmp_path: Path) -> None:
    path = chain(tmp_path / "net.onnx", "Relu")
    model = onnx.load(path)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="missing.bin")
    path.write_bytes(model.SerializeToString())
    found = read_trained(path, seed=3)
    assert found.origin.startswith("weights are made from seed 3, as those of the file are not read")
    assert found.expected["fc"].shape == (1, 10, 1, 1)


def test_expected_outputs_are_those_of_onnxruntime(tmp_path: Path) -> None:
    import onnxruntime

    path = chain(tmp_path / "net.onnx", "Relu")
    found = read_trained(path, images=3, seed=1)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for place, image in enumerate(found.inputs[OWN_INPUT]):
        (theirs,) = session.run(None, {"x": image[None].astype(np.float32)})
        np.testing.assert_array_equal(found.expected["fc"][place].ravel(), theirs[0].astype(np.float64))
    assert network(path).results == (len(network(path).layers) - 1,)
