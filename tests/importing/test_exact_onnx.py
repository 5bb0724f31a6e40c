"""Quantised ONNX files are computed bit for bit as onnxruntime computes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from conftest import examples, tells
from onnx import TensorProto, helper, numpy_helper
from tests.importing.onnx_integers_at_random import (
    DRAWS,
    OnnxFile,
    by_onnxruntime,
    drawn,
    one_operator,
    some_operators,
)

from tilewright import importing
from tilewright.importing.exact import exact_operations
from tilewright.residency.rows import executed_graph
from tilewright.simulator.arithmetic.quantised import ExactNetwork
from tilewright.spec.coarsening import coarse_graph
from tilewright.spec.errors import InputError

runtime = pytest.importorskip("onnxruntime")

FORMS = [("qdq", "int8"), ("qdq", "uint8"), ("operators", "int8"), ("operators", "uint8")]

IN_FLOATS = {
    "AveragePool",
    "Add",
    "Mul",
    "Conv",
    "FusedConv",
    "Gemm",
    "FusedGemm",
    "MatMul",
    "Relu",
    "Clip",
    "ReduceMean",
}
"""Operators that onnxruntime may leave between floats, as it then says in the graph that it executes."""

CURVES = {"sigmoid", "tanh", "elu"}
"""Functions whose last bit onnxruntime's approximations may miss."""


def executed_operators(path: Path) -> set[str]:
    """Return the operators of the graph that onnxruntime executes."""
    options = runtime.SessionOptions()
    options.optimized_model_filepath = str(path.with_suffix(".executed"))
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return {node.op_type for node in onnx.load(path.with_suffix(".executed")).graph.node}


def differences(path: Path, network: ExactNetwork, seed: int) -> int:
    """Return by how many integers outputs differ from onnxruntime's at most."""
    given = drawn(path, seed)
    most = 0
    for name, theirs in zip(network.outputs, by_onnxruntime(path, given), strict=True):
        ours = network.run(given)[name]
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if theirs.dtype == np.float32:
            last = next(each for each in network.operations if each.name == name)
            steps = np.rint((ours - theirs) / last.scale)  # type: ignore[attr-defined]
            assert ((steps != 0) | (ours == theirs)).all()
        else:
            steps = ours.astype(int) - theirs.astype(int)
        most = max(most, int(np.abs(steps).max(initial=0)))
    return most


@pytest.mark.parametrize("name", DRAWS)
def test_operators_are_computed_as_onnxruntime_does(name: str, tmp_path: Path) -> None:
    first = len(name)  # of the four forms, each operator begins with another
    for seed in range(examples(300, 2)):
        file, last = one_operator(*FORMS[(first + seed) % 4], name, seed)
        path = file.save(tmp_path / "network.onnx", last)
        differ = differences(path, exact_operations(path), seed)
        if differ:
            assert differ == 1
            assert name in CURVES or executed_operators(path) & IN_FLOATS


@pytest.mark.parametrize("seed", range(examples(600, 4)))
def test_small_networks_are_computed_as_onnxruntime_does(seed: int, tmp_path: Path) -> None:
    file, last = some_operators(*FORMS[seed % 4], seed)
    path = file.save(tmp_path / "network.onnx", last)
    network = exact_operations(path)
    if differences(path, network, seed):
        assert executed_operators(path) & {*IN_FLOATS, "QLinearSigmoid", "Tanh", "Elu"}
    if any(node.op_type in ("Concat", "QLinearConcat") for node in file.nodes):
        return
    graph = executed_graph(coarse_graph(importing.network(path), numbers=True), numbers=True)
    found = network.by_operation(graph)
    inside = {each for each in network.operations if each.name not in network.borders}
    assert {each for every in found.values() for each in every} == inside


def floats(rng: np.random.Generator, rectifier: str) -> onnx.ModelProto:
    """Return a small network of floats: windows, a residual sum, an average, a product."""
    nodes: list[onnx.NodeProto] = []
    stored: list[onnx.TensorProto] = []

    def conv(own: str, shape: Sequence[int], group: int, name: str, *, active: bool = True) -> str:
        w = (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        b = (rng.standard_normal(shape[0]) * 0.1).astype(np.float32)
        stored.extend([numpy_helper.from_array(w, f"{name}_w"), numpy_helper.from_array(b, f"{name}_b")])
        side = shape[2] // 2
        nodes.append(
            helper.make_node(
                "Conv",
                [own, f"{name}_w", f"{name}_b"],
                [name],
                group=group,
                pads=[side] * 4,
                kernel_shape=shape[2:],
            )
        )
        if not active:
            return name
        limits = [f"{name}_low", f"{name}_high"] if rectifier == "Clip" else []
        for limit, value in zip(limits, (0, 6), strict=False):
            stored.append(numpy_helper.from_array(np.float32(value), limit))
        nodes.append(helper.make_node(rectifier, [name, *limits], [f"{name}_r"]))
        return f"{name}_r"

    first = conv("x", [8, 3, 3, 3], 1, "c1")
    depth = conv(first, [8, 1, 3, 3], 8, "c2")
    point = conv(depth, [8, 8, 1, 1], 1, "c3", active=False)
    nodes.append(helper.make_node("Add", [first, point], ["sum"]))
    nodes.append(helper.make_node("MaxPool", ["sum"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]))
    nodes.append(helper.make_node("GlobalAveragePool", ["pool"], ["mean"]))
    nodes.append(helper.make_node("Flatten", ["mean"], ["rows"]))
    stored.append(numpy_helper.from_array(rng.standard_normal((5, 8)).astype(np.float32), "v"))
    stored.append(numpy_helper.from_array(rng.standard_normal(5).astype(np.float32), "u"))
    nodes.append(helper.make_node("Gemm", ["rows", "v", "u"], ["sums"], transB=1))
    nodes.append(helper.make_node("Softmax", ["sums"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "floats",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        stored,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def quantised(folder: Path, seed: int, form: str, kind: str, rectifier: str, *, by_channel: bool) -> Path:
    """Return a file that onnxruntime.quantization has made."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    rng = np.random.default_rng(seed)
    source, path = folder / "floats.onnx", folder / "network.onnx"
    onnx.save(floats(rng, rectifier), source)

    class Samples(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.left = [{"x": rng.standard_normal((1, 3, 8, 8)).astype(np.float32)} for _ in range(4)]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    types = {"int8": quantization.QuantType.QInt8, "uint8": quantization.QuantType.QUInt8}
    quantization.quantize_static(
        str(source),
        str(path),
        Samples(),
        quant_format=quantization.QuantFormat.QDQ if form == "qdq" else quantization.QuantFormat.QOperator,
        per_channel=by_channel,
        activation_type=types[kind],
        weight_type=quantization.QuantType.QInt8,
    )
    return path


@pytest.mark.parametrize("seed", range(examples(80, 4)))
def test_what_onnxruntime_quantises_is_computed_as_it_does(seed: int, tmp_path: Path) -> None:
    rectifier = ["Relu", "Clip"][seed // 4 % 2]
    path = quantised(tmp_path, seed, *FORMS[seed % 4], rectifier, by_channel=bool(seed % 3))
    network = exact_operations(path)
    assert len(network.operations) >= 8
    rng = np.random.default_rng(seed)
    for _ in range(5):
        given = [rng.standard_normal((1, 3, 8, 8)).astype(np.float32) * 2]
        theirs = by_onnxruntime(path, given)
        for ours, each in zip(network.run(given).values(), theirs, strict=True):
            np.testing.assert_array_equal(ours, each)


def test_a_rectifier_that_onnxruntime_keeps_in_floats_differs_by_one_at_most(tmp_path: Path) -> None:
    for seed in range(examples(300, 3)):
        file = OnnxFile("qdq", "int8", seed)
        own = file.input([1, 4, 6, 6], scale=0.05)
        w, w_scale, w_zero, products = file.weights([5, 4, 3, 3], 0, own)
        inputs = [own, file.node("DequantizeLinear", [w, w_scale, w_zero], axis=0)]
        rectified = file.node("Relu", [file.node("Conv", inputs, kernel_shape=[3, 3])])
        last = file.quantised(rectified, [1, 5, 4, 4], float(np.mean(products)) * 300, 0)
        path = file.save(tmp_path / "network.onnx", last)
        assert executed_operators(path) & {"Conv", "FusedConv"}  # onnxruntime computes it in floats
        assert differences(path, exact_operations(path), seed) <= 1


def changed(path: Path, **told: Any) -> Path:
    """Return a file of one convolution, of which something is another thing."""
    file = OnnxFile("qdq", "int8", 1)
    own = file.input([1, 2, 5, 5], scale=0.05)
    inputs = [own, file.node("DequantizeLinear", file.weights([3, 2, 3, 3], 0, own)[:3], axis=0)]
    if "bias" in told:
        scales = file.number(np.full(3, told["bias"], np.float32))
        inputs.append(file.node("DequantizeLinear", [file.number(np.zeros(3, np.int32)), scales], axis=0))
    floats = file.node("Conv", inputs, kernel_shape=[3, 3], name="c1")
    if "behind" in told:
        floats = file.node(told["behind"], [floats], name="c2")
    if "kind" in told:
        file.kind, file.opset = np.dtype(told["kind"]), 21
    last = file.quantised(floats, [1, 3, 3, 3], 0.1, 0)
    file.shapes[floats] = [1, 3, 3, 3]
    return file.save(path, floats if "floats" in told else last)


@pytest.mark.parametrize(
    ("told", "field", "value", "limit"),
    [
        ({"bias": 0.5}, "node c1", "Conv", "bias .. has another scale than the product"),
        ({"behind": "Exp"}, "node c2", "Exp", "integers are not known"),
        (
            {"behind": "HardSwish"},
            "node c2",
            "HardSwish",
            "reads floats; QuantizeLinear",
        ),
        ({"kind": "int16"}, "node quantizelinear", "QuantizeLinear", "int16, not int8 or uint8"),
        ({"floats": True}, "graph.output", "conv", "is computed in floats; QuantizeLinear behind it"),
    ],
)
def test_what_has_no_integers_is_refused(
    told: dict[str, Any], field: str, value: str, limit: str, tmp_path: Path
) -> None:
    path = changed(tmp_path / "network.onnx", **told)
    with pytest.raises(InputError) as error:
        exact_operations(path)
    assert error.value.field.startswith(field)
    assert str(error.value.value).startswith(value)
    assert tells(str(error.value), str(path), limit)
