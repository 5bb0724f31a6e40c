"""Quantised ONNX files at random: an operator of any shape and scale, or some of them in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]

MICROSOFT = "com.microsoft"


class OnnxFile:
    """A network that is being made.

    Parameters
    ----------
    form
        "qdq": floats between QuantizeLinear and DequantizeLinear. "operators": operators of integers.
    kind
        int8 or uint8.
    """

    def __init__(self, form: str, kind: str, seed: int) -> None:
        self.form, self.kind, self.rng = form, np.dtype(kind), np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.stored: list[onnx.TensorProto] = []
        self.shapes: dict[str, list[int]] = {}
        self.scaled: dict[str, tuple[str, str]] = {}
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.opset = 17

    def name(self, stem: str) -> str:
        """Return a new name."""
        return f"{stem}{len(self.nodes)}_{len(self.stored)}"

    def number(self, value: Any, stem: str = "n") -> str:
        """Store numbers."""
        name = self.name(stem)
        self.stored.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, operator: str, inputs: Sequence[str], **told: Any) -> str:
        """Add a node, and return what it gives."""
        name = self.name(operator.lower())
        self.nodes.append(helper.make_node(operator, inputs, [name], **told))
        return name

    def zero(self) -> int:
        """Return a zero point, often at an end."""
        low, high = np.iinfo(self.kind).min, np.iinfo(self.kind).max
        return int(self.rng.choice([low, (low + high + 1) // 2, int(self.rng.integers(low, high + 1))]))

    def parameters(self, scale: float, zero: int | None = None) -> tuple[str, str]:
        """Store a scale and a zero point."""
        zero = self.zero() if zero is None else zero
        return self.number(np.float32(scale), "scale"), self.number(self.kind.type(zero), "zero")

    def input(self, shape: Sequence[int], scale: float | None = None) -> str:
        """Add an input, and return what operators read."""
        name = self.name("input")
        scaled = self.parameters(scale or float(10 ** self.rng.uniform(-2.5, 0)))
        whole = self.form == "operators" or self.rng.integers(3) == 0
        kind = helper.np_dtype_to_tensor_dtype(self.kind) if whole else TensorProto.FLOAT
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        if not whole:
            name = self.node("QuantizeLinear", [name, *scaled])
        return self.known(name, shape, scaled)

    def known(self, name: str, shape: Sequence[int], scaled: tuple[str, str]) -> str:
        """Note a tensor of integers, and return what operators read."""
        if self.form == "qdq":
            name = self.node("DequantizeLinear", [name, *scaled])
        self.shapes[name], self.scaled[name] = list(shape), scaled
        return name

    def value(self, name: str) -> Array:
        """Return stored numbers."""
        return numpy_helper.to_array(next(each for each in self.stored if each.name == name))

    def scale_of(self, tensor: str) -> float:
        """Return the scale of a tensor."""
        return float(self.value(self.scaled[tensor][0]))

    def quantised(self, floats: str, shape: Sequence[int], scale: float, zero: int | None = None) -> str:
        """Quantise what an operator of floats gives."""
        scaled = self.parameters(scale, zero)
        return self.known(self.node("QuantizeLinear", [floats, *scaled]), shape, scaled)

    def rectified(self, floats: str) -> tuple[str, int | None]:
        """Return a rectifier behind floats, or none, and the zero point that makes it superfluous."""
        which = int(self.rng.integers(3))
        if which == 0:
            return floats, None
        if which == 1:
            floats = self.node("Relu", [floats])
        else:
            floats = self.node("Clip", [floats, self.number(np.float32(0)), self.number(np.float32(6))])
        return floats, int(np.iinfo(self.kind).min)

    def weights(self, shape: Sequence[int], axis: int, own: str) -> tuple[str, str, str, Array]:
        """Store weights, of one scale or of one for each output: names, and scales of products."""
        count = shape[axis] if self.rng.integers(2) else 1
        scales = (10 ** self.rng.uniform(-3, -1, count)).astype(np.float32)
        kind = np.dtype(np.int8) if self.kind == np.int8 or self.rng.integers(2) else np.dtype(np.uint8)
        numbers = self.rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)
        middle = 128 if kind == np.uint8 else 0
        zeros = np.full(count, middle, kind)
        if count == 1:
            if self.rng.integers(2):
                zeros = np.array(
                    [int(np.clip(middle + self.rng.integers(-9, 10), 0 if middle else -128, 255))]
                ).astype(kind)
            scales, zeros = scales.reshape(()), zeros.reshape(())
        names = self.number(numbers, "w"), self.number(scales, "scale"), self.number(zeros, "zero")
        products = np.float32(self.scale_of(own)) * scales
        return *names, products

    def bias(self, products: Array, count: int) -> str:
        """Store a bias in integers."""
        return self.number(self.rng.integers(-3000, 3001, count).astype(np.int32), "b")

    def save(self, path: Path, last: str) -> Path:
        """Write the file; what is given is that of `last`."""
        kind = TensorProto.FLOAT if self.form == "qdq" else helper.np_dtype_to_tensor_dtype(self.kind)
        given = helper.make_tensor_value_info(last, kind, self.shapes[last])
        graph = helper.make_graph(self.nodes, "network", self.inputs, [given], self.stored)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
        return path


def by_onnxruntime(path: Path, inputs: Sequence[Array]) -> list[Array]:
    """Return what onnxruntime gives for inputs, with its own choices."""
    runtime = pytest.importorskip("onnxruntime")
    runtime.set_default_logger_severity(3)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    found: list[Array] = session.run(None, dict(zip(names, inputs, strict=True)))
    return found


def drawn(path: Path, seed: int) -> list[Array]:
    """Return inputs at random, most of which the scale behind them holds."""
    rng, model = np.random.default_rng(seed), onnx.load(path)
    stored = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    found = []
    for value in model.graph.input:
        shape = [each.dim_value for each in value.type.tensor_type.shape.dim]
        kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if kind == np.float32:
            reader = next(node for node in model.graph.node if value.name in node.input)
            scale, zero = stored[reader.input[1]], int(stored[reader.input[2]])
            low, high = (
                np.iinfo(stored[reader.input[2]].dtype).min,
                np.iinfo(stored[reader.input[2]].dtype).max,
            )
            found.append(((rng.uniform(low - 9, high + 9, shape) - zero) * scale).astype(np.float32))
        else:
            found.append(rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind))
    return found


# Operators ------------------------------------------------------------------------------------------

Draw = Callable[[OnnxFile, str], str]
"""Adds an operator that reads a tensor, and returns the tensor that it gives."""


def result_scale(file: OnnxFile, products: Array, length: int) -> float:
    """Return a scale that holds most sums of products, or few."""
    spread = float(np.mean(products)) * 74 * 74 * float(np.sqrt(length))
    return spread / 100 * float(10 ** file.rng.uniform(-0.4, 0.4))


def convolution(file: OnnxFile, own: str) -> str:
    """Add a convolution, perhaps in groups."""
    rng, (images, channels, *plane) = file.rng, file.shapes[own]
    groups = int(rng.choice([1, channels]))
    outputs = groups * int(rng.integers(1, 4)) if groups > 1 else int(rng.integers(1, 9))
    kernel, stride = rng.integers(1, 4, 2).tolist(), rng.integers(1, 3, 2).tolist()
    dilation = rng.integers(1, 3, 2).tolist()
    extent = [(size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True)]
    pads = [int(rng.integers(0, size)) for size in (*extent, *extent)]
    for axis in range(2):
        while plane[axis] + pads[axis] + pads[axis + 2] < extent[axis]:
            pads[axis] += 1
    after = [
        (plane[axis] + pads[axis] + pads[axis + 2] - extent[axis]) // stride[axis] + 1 for axis in range(2)
    ]
    told = {"strides": stride, "dilations": dilation, "pads": pads, "group": groups, "kernel_shape": kernel}
    shape = [outputs, channels // groups, *kernel]
    w, w_scale, w_zero, products = file.weights(shape, 0, own)
    scale = result_scale(file, products, int(np.prod(shape[1:])))
    return product(
        file, "Conv", own, (w, w_scale, w_zero), products, outputs, [images, outputs, *after], scale, told
    )


def product(
    file: OnnxFile,
    operator: str,
    own: str,
    weights: tuple[str, str, str],
    products: Array,
    outputs: int,
    shape: list[int],
    scale: float,
    told: dict[str, Any],
    axis: int = 0,
) -> str:
    """Add an operator with weights, and perhaps a bias."""
    rng = file.rng
    biased = operator != "MatMul" and bool(rng.integers(2))
    if file.form == "operators":
        gives = file.parameters(scale)
        inputs = [own, *file.scaled[own], *weights]
        bias = [file.bias(products, outputs)] if biased else []
        if operator == "Gemm":
            name = file.node("QGemm", [*inputs, *(bias or [""]), *gives], domain=MICROSOFT, **told)
        else:
            name = file.node(f"QLinear{operator}", [*inputs, *gives, *bias], **told)
        return file.known(name, shape, gives)
    inputs = [own, file.node("DequantizeLinear", weights, axis=axis)]
    if biased:
        integers = file.bias(products, outputs)
        scales = np.broadcast_to(products, outputs).astype(np.float32)
        if rng.integers(3):
            zeros = file.number(np.zeros(outputs, np.int32))
            inputs.append(file.node("DequantizeLinear", [integers, file.number(scales), zeros], axis=0))
        else:
            drawn = file.value(integers) + rng.uniform(-0.4, 0.4, outputs)
            inputs.append(file.number((drawn * scales).astype(np.float32)))
    floats, zero = file.rectified(file.node(operator, inputs, **told))
    return file.quantised(floats, shape, scale, zero)


def general_product(file: OnnxFile, own: str) -> str:
    """Add a product of rows."""
    own = rows(file, own)
    images, length = file.shapes[own]
    outputs, turned = int(file.rng.integers(1, 12)), int(file.rng.integers(2))
    shape, axis = ([outputs, length], 0) if turned else ([length, outputs], 1)
    w, w_scale, w_zero, products = file.weights(shape, axis, own)
    scale = result_scale(file, products, length)
    weights = (w, w_scale, w_zero)
    told = {"transB": turned}
    return product(file, "Gemm", own, weights, products, outputs, [images, outputs], scale, told, axis)


def matrix_product(file: OnnxFile, own: str) -> str:
    """Add a product of the last dimension."""
    if len(file.shapes[own]) == 4:
        own = rows(file, own)
    *before, length = file.shapes[own]
    outputs = int(file.rng.integers(1, 12))
    w, w_scale, w_zero, products = file.weights([length, outputs], 1, own)
    scale, weights = result_scale(file, products, length), (w, w_scale, w_zero)
    return product(file, "MatMul", own, weights, products, outputs, [*before, outputs], scale, {}, 1)


def moved(file: OnnxFile, operator: str, own: str, more: Sequence[str], shape: list[int], **told: Any) -> str:
    """Add what changes no value; floats are quantised as before."""
    name = file.node(operator, [own, *more], **told)
    scaled = file.scaled[own]
    if file.form == "qdq":
        return file.known(file.node("QuantizeLinear", [name, *scaled]), shape, scaled)
    return file.known(name, shape, scaled)


def rows(file: OnnxFile, own: str) -> str:
    """Return a tensor of two dimensions."""
    shape = file.shapes[own]
    return own if len(shape) == 2 else moved(
        file, "Flatten", own, [], [shape[0], int(np.prod(shape[1:]))]
    )  # fmt: skip


def transposition(file: OnnxFile, own: str) -> str:
    """Add a transposition."""
    shape = file.shapes[own]
    order = [0, *(1 + file.rng.permutation(len(shape) - 1)).tolist()]
    return moved(file, "Transpose", own, [], [shape[each] for each in order], perm=order)


def reshaping(file: OnnxFile, own: str) -> str:
    """Add another shape."""
    shape = file.shapes[own]
    wanted = [shape[0], 1, 1, int(np.prod(shape[1:]))]
    if len(shape) == 4:
        wanted = [shape[0], shape[1] * shape[2], shape[3]]
    return moved(file, "Reshape", own, [file.number(np.array(wanted, np.int64))], wanted)


def maximum_pool(file: OnnxFile, own: str) -> str:
    """Add a pool of maxima."""
    told, shape = window(file, own)
    return moved(file, "MaxPool", own, [], shape, **told)


def window(file: OnnxFile, own: str) -> tuple[dict[str, Any], list[int]]:
    """Return attributes of a pool, and the shape that it gives."""
    rng, (images, channels, *plane) = file.rng, file.shapes[own]
    kernel = [int(rng.integers(1, min(4, size) + 1)) for size in plane]
    stride, pads = rng.integers(1, 4, 2).tolist(), [int(rng.integers(0, size)) for size in (*kernel, *kernel)]
    after = [
        (plane[axis] + pads[axis] + pads[axis + 2] - kernel[axis]) // stride[axis] + 1 for axis in range(2)
    ]
    return {"kernel_shape": kernel, "strides": stride, "pads": pads}, [images, channels, *after]


def of_one(
    file: OnnxFile,
    own: str,
    operator: str,
    shape: list[int],
    scale: float,
    zero: int | None = None,
    **told: Any,
) -> str:
    """Add an operator of one tensor."""
    if file.form == "operators":
        gives = file.parameters(scale, zero)
        inputs = [own, *file.scaled[own], *gives]
        return file.known(file.node(f"QLinear{operator}", inputs, domain=MICROSOFT, **told), shape, gives)
    return file.quantised(file.node(operator, [own], **told), shape, scale, zero)


def average_pool(file: OnnxFile, own: str) -> str:
    """Add a pool of averages."""
    told, shape = window(file, own)
    scale = file.scale_of(own) * float(file.rng.choice([1.0, file.rng.uniform(0.2, 1.5)]))
    padded = int(file.rng.integers(2))
    return of_one(file, own, "AveragePool", shape, scale, count_include_pad=padded, **told)


def whole_average(file: OnnxFile, own: str) -> str:
    """Add an average of all pixels."""
    images, channels, *_ = file.shapes[own]
    scale = file.scale_of(own) * float(file.rng.uniform(0.1, 1))
    return of_one(file, own, "GlobalAveragePool", [images, channels, 1, 1], scale)


def softmax(file: OnnxFile, own: str) -> str:
    """Add a softmax."""
    own = rows(file, own)
    if file.shapes[own][1] == 1:
        return leaky(file, own)
    least = int(np.iinfo(file.kind).min)
    scale = float(file.rng.choice([1 / 256, file.rng.uniform(0.003, 0.01)]))
    told = {"axis": -1, "opset": 13} if file.form == "operators" else {"axis": -1}
    return of_one(file, own, "Softmax", file.shapes[own], scale, least, **told)


def sigmoid(file: OnnxFile, own: str) -> str:
    """Add a logistic function."""
    return of_one(file, own, "Sigmoid", file.shapes[own], 1 / 256, int(np.iinfo(file.kind).min))


def leaky(file: OnnxFile, own: str) -> str:
    """Add a rectifier with a slope."""
    scale = file.scale_of(own) * float(file.rng.uniform(0.3, 1.2))
    return of_one(file, own, "LeakyRelu", file.shapes[own], scale, alpha=float(file.rng.uniform(0, 0.5)))


def of_floats(operator: str, **told: Any) -> Draw:
    """Return what adds a function that stands between floats alone."""

    def draw(file: OnnxFile, own: str) -> str:
        if file.form == "operators":
            return leaky(file, own)
        scale = file.scale_of(own) * float(file.rng.uniform(0.3, 1.2))
        return file.quantised(file.node(operator, [own], **told), file.shapes[own], scale)

    return draw


def of_two(operator: str) -> Draw:
    """Return what adds an operator of two tensors: another input, itself, or a number."""

    def draw(file: OnnxFile, own: str) -> str:
        shape, which = file.shapes[own], int(file.rng.integers(4))
        if which == 0:
            other = own
        elif which == 1:
            scaled = file.parameters(float(10 ** file.rng.uniform(-2.5, 0)))
            low, high = np.iinfo(file.kind).min, np.iinfo(file.kind).max
            other = file.number(file.rng.integers(low, high + 1, [1] * len(shape)).astype(file.kind))
            other = file.known(other, [1] * len(shape), scaled)
        else:
            other = file.input(shape)
        pair = [own, other] if file.rng.integers(2) else [other, own]
        scales = [file.scale_of(each) for each in pair]
        scale = sum(scales) * 0.6 if operator == "Add" else scales[0] * scales[1] * 70
        scale *= float(10 ** file.rng.uniform(-0.3, 0.3))
        if file.form == "operators":
            gives = file.parameters(scale)
            inputs = [word for each in pair for word in (each, *file.scaled[each])]
            name = file.node(f"QLinear{operator}", [*inputs, *gives], domain=MICROSOFT)
            return file.known(name, shape, gives)
        floats, zero = file.rectified(file.node(operator, pair))
        return file.quantised(floats, shape, scale, zero)

    return draw


def two_matrices(file: OnnxFile, own: str) -> str:
    """Add a product of two tensors that are computed."""
    shape = [1, int(np.prod(file.shapes[own][:-1])), file.shapes[own][-1]]
    own = moved(file, "Reshape", own, [file.number(np.array(shape, np.int64))], shape)
    length, outputs = shape[2], int(file.rng.integers(1, 8))
    pair = own, file.input([1, length, outputs])
    scale = file.scale_of(pair[0]) * file.scale_of(pair[1]) * 60 * length**0.5
    shape = [1, shape[1], outputs]
    if file.form == "operators":
        gives = file.parameters(scale)
        inputs = [word for each in pair for word in (each, *file.scaled[each])]
        return file.known(file.node("QLinearMatMul", [*inputs, *gives]), shape, gives)
    return file.quantised(file.node("MatMul", pair), shape, scale)


def by_channel(operator: str) -> Draw:
    """Return what adds an operator of a map and a number of each channel."""

    def draw(file: OnnxFile, own: str) -> str:
        shape = file.shapes[own]
        other = file.input([1, shape[1], 1, 1])
        scales = file.scale_of(own), file.scale_of(other)
        scale = sum(scales) * 0.6 if operator == "Add" else scales[0] * scales[1] * 70
        if file.form == "operators":
            gives = file.parameters(scale)
            inputs = [own, *file.scaled[own], other, *file.scaled[other], *gives]
            return file.known(file.node(f"QLinear{operator}", inputs, domain=MICROSOFT), shape, gives)
        return file.quantised(file.node(operator, [own, other]), shape, scale)

    return draw


def border(file: OnnxFile, own: str) -> str:
    """Add zeros around a map."""
    if file.form == "operators":
        return leaky(file, own)
    sides = np.array([0, 0, *file.rng.integers(0, 3, 2), 0, 0, *file.rng.integers(0, 3, 2)])
    shape = (np.array(file.shapes[own]) + sides[:4] + sides[4:]).tolist()
    return moved(file, "Pad", own, [file.number(sides.astype(np.int64))], shape)


def reduced_mean(file: OnnxFile, own: str) -> str:
    """Add a mean over rows and columns."""
    if file.form == "operators":
        return leaky(file, own)
    keeps, (images, channels, *_) = int(file.rng.integers(2)), file.shapes[own]
    floats = file.node("ReduceMean", [own], axes=[2, 3], keepdims=keeps)
    shape = [images, channels, 1, 1] if keeps else [images, channels]
    return file.quantised(floats, shape, file.scale_of(own) * float(file.rng.uniform(0.2, 1)))


def concatenation(file: OnnxFile, own: str) -> str:
    """Add a concatenation of maps whose scales differ, or do not."""
    shape = list(file.shapes[own])
    same = bool(file.rng.integers(2))
    other = own if same else file.input(shape)
    axis = int(file.rng.integers(1, len(shape)))
    shape[axis] *= 2
    if file.form == "operators":
        gives = file.parameters(file.scale_of(own) * 1.1)
        parts = [word for each in (own, other) for word in (each, *file.scaled[each])]
        name = file.node("QLinearConcat", [*gives, *parts], domain=MICROSOFT, axis=axis)
        return file.known(name, shape, gives)
    scaled = file.scaled[own] if same else file.parameters(file.scale_of(own) * 1.1)
    name = file.node("Concat", [own, other], axis=axis)
    return file.known(file.node("QuantizeLinear", [name, *scaled]), shape, scaled)


MAPS = (
    *("conv", "max pool", "average pool", "whole average"),
    *("reduced mean", "pad", "channel add", "channel mul"),
)
"""Operators that read maps."""

DRAWS: dict[str, Draw] = {
    "conv": convolution,
    "gemm": general_product,
    "matmul": matrix_product,
    "add": of_two("Add"),
    "mul": of_two("Mul"),
    "max pool": maximum_pool,
    "average pool": average_pool,
    "whole average": whole_average,
    "softmax": softmax,
    "sigmoid": sigmoid,
    "leaky": leaky,
    "relu": of_floats("Relu"),
    "tanh": of_floats("Tanh"),
    "elu": of_floats("Elu", alpha=0.7),
    "hard sigmoid": of_floats("HardSigmoid"),
    "hard swish": of_floats("HardSwish"),
    "flatten": rows,
    "transpose": transposition,
    "reshape": reshaping,
    "concat": concatenation,
    "two matrices": two_matrices,
    "channel add": by_channel("Add"),
    "channel mul": by_channel("Mul"),
    "pad": border,
    "reduced mean": reduced_mean,
}
"""By name."""


def one_operator(form: str, kind: str, name: str, seed: int) -> tuple[OnnxFile, str]:
    """Return a file of one operator, and what it gives."""
    file = OnnxFile(form, kind, seed)
    shape = [int(file.rng.integers(1, 3)), *file.rng.integers(1, 9, 3).tolist()]
    own = file.input(shape)
    return file, with_scales(file, DRAWS[name](file, own))


def with_scales(file: OnnxFile, own: str) -> str:
    """Add an operator if a file has none with scales."""
    moves = ("Flatten", "MaxPool", "Reshape", "Transpose")
    return leaky(file, own) if all(node.op_type in moves for node in file.nodes) else own


def some_operators(form: str, kind: str, seed: int) -> tuple[OnnxFile, str]:
    """Return a file of some operators in turn, and what the last of them gives."""
    file = OnnxFile(form, kind, seed)
    own = file.input([1, *file.rng.integers(2, 9, 3).tolist()])
    for _ in range(int(file.rng.integers(2, 6))):
        names = [name for name in DRAWS if name not in MAPS or len(file.shapes[own]) == 4]
        own = DRAWS[str(file.rng.choice(names))](file, own)
    return file, with_scales(file, own)
