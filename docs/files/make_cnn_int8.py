"""Write cnn_int8.onnx: a small network whose weights are made, quantised by onnxruntime in the form QDQ."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

RNG = np.random.default_rng(0)
IMAGE = [1, 3, 32, 32]


class Samples(CalibrationDataReader):  # type: ignore[misc]
    """Images of which onnxruntime learns the ranges of all maps."""

    def __init__(self) -> None:
        self.left = [{"image": RNG.standard_normal(IMAGE).astype(np.float32)} for _ in range(8)]

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        """Return the next image, None after the last one."""
        return self.left.pop() if self.left else None


def floats() -> onnx.ModelProto:
    """Return the network in floats."""
    nodes: list[NodeProto] = []
    stored: list[TensorProto] = []

    def numbers(name: str, *shape: int, spread: float) -> str:
        stored.append(numpy_helper.from_array((RNG.standard_normal(shape) * spread).astype(np.float32), name))
        return name

    def convolution(own: str, name: str, *shape: int, stride: int = 1, group: int = 1) -> str:
        weights = numbers(f"{name}.weight", *shape, spread=float(np.prod(shape[1:])) ** -0.5)
        bias = numbers(f"{name}.bias", shape[0], spread=0.1)
        told = {"pads": [shape[2] // 2] * 4, "strides": [stride] * 2, "group": group}
        nodes.append(helper.make_node("Conv", [own, weights, bias], [f"{name}.sums"], name, **told))
        nodes.append(helper.make_node("Relu", [f"{name}.sums"], [name], f"{name}.relu"))
        return name

    first = convolution("image", "conv1", 16, 3, 3, 3, stride=2)
    depthwise = convolution(first, "dw2", 16, 1, 3, 3, group=16)
    pointwise = convolution(depthwise, "pw2", 16, 16, 1, 1)
    nodes.append(helper.make_node("Add", [first, pointwise], ["sum"], "add2"))
    last = convolution("sum", "conv3", 32, 16, 3, 3, stride=2)
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["mean"], "mean"))
    nodes.append(helper.make_node("Flatten", ["mean"], ["row"], "flatten"))
    weights = [numbers("fc.weight", 10, 32, spread=0.5), numbers("fc.bias", 10, spread=0.1)]
    nodes.append(helper.make_node("Gemm", ["row", *weights], ["scores"], "fc", transB=1))
    nodes.append(helper.make_node("Softmax", ["scores"], ["probabilities"], "softmax"))
    inputs = [helper.make_tensor_value_info("image", TensorProto.FLOAT, IMAGE)]
    outputs = [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, 10])]
    graph = helper.make_graph(nodes, "cnn", inputs, outputs, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(floats(), Path(folder) / "cnn.onnx")
        quantize_static(
            Path(folder) / "cnn.onnx",
            Path(__file__).with_name("cnn_int8.onnx"),
            Samples(),
            per_channel=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
        )
