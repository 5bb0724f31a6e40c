"""Networks with weights from ONNX, for the room bitwidth: outputs are those of onnx's own evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from conftest import tells
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tests import command

from tilewright import importing
from tilewright.run.instance import read
from tilewright.simulator.arithmetic.network_executor import convolve, run
from tilewright.simulator.arithmetic.onnx_executor import version
from tilewright.spec.errors import InputError


def model(folder: Path, *, transposed: bool = True, **changes: Any) -> Path:
    """Write a network of a convolution with batch normalisation, a residual, a pool and a matrix."""
    random = np.random.default_rng(0)
    tensors = {
        "w1": random.normal(0, 0.4, (4, 2, 3, 3)),
        "scale": random.normal(1, 0.2, 4),
        "offset": random.normal(0, 0.2, 4),
        "mean": random.normal(0, 0.2, 4),
        "variance": random.uniform(0.5, 2, 4),
        "w2": random.normal(0, 0.3, (4, 4, 1, 1)),
        "b2": random.normal(0, 0.3, 4),
        "w3": random.normal(0, 0.3, (3, 36) if transposed else (36, 3)),
        "b3": random.normal(0, 0.3, 3),
    } | changes
    gemm: dict[str, Any] = {"transB": 1, "alpha": 0.5, "beta": 2.0} if transposed else {}
    nodes = [
        helper.make_node("Conv", ["image", "w1"], ["c1"], "conv1", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c1", "scale", "offset", "mean", "variance"], ["n1"], "bn1"),
        helper.make_node("Relu", ["n1"], ["r1"], "relu1"),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], "conv2", kernel_shape=[1, 1]),
        helper.make_node("Add", ["c2", "r1"], ["sum"], "add"),
        helper.make_node("MaxPool", ["sum"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["flat"], "flatten"),
        helper.make_node("Gemm", ["flat", "w3", "b3"], ["scores"], "fc3", **gemm),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 2, 6, 6])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in tensors.items()],
    )
    path = folder / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("transposed", [True, False])
def test_outputs_are_those_of_onnx(transposed: bool, tmp_path: Path) -> None:
    path = model(tmp_path, transposed=transposed)
    network, parameters = importing.with_parameters(path)
    assert [layer.name for layer in network.layers if layer.kind == "map"] == ["relu1"]
    images = np.random.default_rng(1).normal(0, 1, (5, 2, 6, 6)).astype(np.float32)

    def compute(layer: Any, values: Any) -> Any:
        weights, bias = parameters[layer.name]
        return convolve(layer, values, weights) + bias[:, None, None]

    ours = run(network, images.astype(np.float64), compute)
    evaluator = ReferenceEvaluator(str(path))
    for image, found in zip(images, ours, strict=True):
        [expected] = evaluator.run(None, {"image": image[None]})
        assert np.allclose(found.ravel(), expected.ravel(), atol=1e-4)


def test_an_imported_network_is_solved_and_measured(tmp_path: Path) -> None:
    path = model(tmp_path)
    random = np.random.default_rng(2)
    np.savez(
        tmp_path / "digits.npz", inputs=random.normal(0, 1, (8, 2, 6, 6)), labels=random.integers(0, 3, 8)
    )
    (tmp_path / "narrow.toml").write_text("accumulator_bits = 16\n")
    told = ("--room", "bitwidth", "--machine", "narrow.toml", "--calibration", "digits.npz")
    done = command.run(tmp_path, "import", path.name, "-o", "out", *told)
    assert done.returncode == 0, done.stderr
    instance = read(tmp_path / "out" / "small-bitwidth.toml")
    assert {file.name for file in instance.files} == {
        "small-bitwidth.toml",
        "small-bitwidth.npz",
        "digits.npz",
    }
    runtime = version()
    assert instance.source == f"ranges of 8 samples{f', run by onnxruntime {runtime}' if runtime else ''}"
    ours = command.run(tmp_path, "import", path.name, "-o", "ours", *told, "--executor", "reference")
    assert ours.returncode == 0, ours.stderr
    assert read(tmp_path / "ours" / "small-bitwidth.toml").source == "ranges of 8 samples"
    solved = command.run(tmp_path, "solve", "out/small-bitwidth.toml", "-o", "r.json")
    assert solved.returncode == 0, solved.stderr
    assert "8 images" in solved.stdout and "none of" in solved.stdout
    checked = command.run(tmp_path, "check", "out/small-bitwidth.toml", "r.json")
    assert checked.returncode == 0, checked.stdout


def test_what_is_not_right_is_refused(tmp_path: Path) -> None:
    hole = np.full((4, 4, 1, 1), 0.1)
    hole[1, 2] = np.nan
    with pytest.raises(InputError, match=r"w2\[1, 2, 0, 0\] = 'nan': .*finite"):
        importing.with_parameters(model(tmp_path, w2=hole))
    path = model(tmp_path)
    (tmp_path / "narrow.toml").write_text("accumulator_bits = 16\n")
    told = ("import", path.name, "-o", "out", "--room", "bitwidth", "--machine", "narrow.toml")
    for more, words in (
        ((), "--calibration .. --room bitwidth"),
        (("--calibration", "nowhere.npz"), "nowhere.npz"),
        (("--calibration", "narrow.toml"), "narrow.toml .. .npz"),
        (("--executor", "reference"), "--calibration .. --room bitwidth"),
    ):
        done = command.run(tmp_path, *told, *more)
        assert done.returncode == 2
        assert tells(done.stderr, words)
    assert not (tmp_path / "out").exists()


def quantised_weights(folder: Path, *, again: bool, axis: int | None) -> Path:
    """Write a convolution whose weights are integers with scales, or floats that are quantised first."""
    random = np.random.default_rng(int(again) + (axis or 0))
    kind = np.int8 if axis is None else np.uint8
    limits = np.iinfo(kind)
    count = () if axis is None else (4 if axis == 0 else 2,)
    tensors: dict[str, Any] = {
        "scale": random.uniform(0.01, 0.1, count).astype(np.float32),
        "zero": random.integers(-3 if axis is None else 100, 130, count)
        .clip(limits.min, limits.max)
        .astype(kind),
        "integers": random.integers(limits.min, limits.max + 1, (4, 2, 3, 3)).astype(kind),
    }
    along = {} if axis is None else {"axis": axis}
    nodes = [helper.make_node("DequantizeLinear", ["integers", "scale", "zero"], ["weights"], **along)]
    if again:
        tensors["floats"] = random.normal(0, 4, (4, 2, 3, 3)).astype(np.float32)
        nodes.insert(
            0, helper.make_node("QuantizeLinear", ["floats", "scale", "zero"], ["integers"], **along)
        )
        del tensors["integers"]
    nodes.append(helper.make_node("Conv", ["image", "weights"], ["map"], "conv", kernel_shape=[3, 3]))
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 2, 6, 6])],
        [helper.make_tensor_value_info("map", TensorProto.FLOAT, [1, 4, 4, 4])],
        [numpy_helper.from_array(value, name) for name, value in tensors.items()],
    )
    path = folder / "quantised.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_stored_integers_are_the_weights_that_they_stand_for(
    again: bool, axis: int | None, tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    path = quantised_weights(tmp_path, again=again, axis=axis)
    network, parameters = importing.with_parameters(path)
    image = np.random.default_rng(5).normal(0, 1, (1, 2, 6, 6)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(path).run(None, {"image": image})
    (layer,) = network.layers
    found = convolve(layer, image.astype(np.float64), parameters[layer.name].weights)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-3)
