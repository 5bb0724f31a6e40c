"""ONNX operators as layers: one function each, which returns the tables of the layers that do the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright.importing.model import OnnxOperation, Value

Table = dict[str, Any]
Shape = tuple[int, int, int]


class Unknown(Exception):
    """An operator, or a use of it, that no layer does; says why, unless it is the operator itself."""


class Unshaped(Unknown):
    """The shape of a tensor is not known."""


def layers(operation: OnnxOperation) -> list[Table]:
    """Return the layers of an operation, without names and inputs.

    The first reads what the operation reads, each of the others the one before.

    Raises
    ------
    Unknown
        If there are none that do the same.
    """
    if operation.operator not in OPERATORS:
        raise Unknown
    for place, value in enumerate(operation.outputs[1:], start=2):
        if value is not None:
            raise Unknown(f"its output {place}, {value.name}, is used")
    _output(operation)  # which every one must know
    return OPERATORS[operation.operator](operation)


def opaque(operation: OnnxOperation) -> list[Table]:
    """Return a layer for each output of an operation that is not understood."""
    source = shape(operation, operation.given[0])
    return [
        {"kind": "opaque", "op": operation.operator, "input": source, "output": shape(operation, value)}
        for value in operation.outputs
        if value is not None
    ]


def shape(operation: OnnxOperation, value: Value) -> Shape:
    """Return channels, height and width of one image's part of a tensor.

    A line is a plane of one row; what has more dimensions has more channels.
    """
    sizes = _sizes(operation, value)
    if sizes[:1] == (operation.batch,):
        sizes = sizes[1:]
    elif operation.batch > 1:
        raise Unknown(
            f"the shape of {value.name}, {list(sizes)}, does not begin with {operation.batch} images"
        )
    if min(sizes, default=1) < 1:
        raise Unknown(f"the shape of {value.name}, {list(sizes)}, holds nothing")
    if len(sizes) < 2:
        return prod(sizes), 1, 1
    height, width = sizes[-2:] if len(sizes) > 2 else (1, sizes[1])
    return prod(sizes) // (height * width), height, width


def _sizes(operation: OnnxOperation, value: Value) -> tuple[int, ...]:
    """Return all sizes of a tensor, the batch included."""
    if value.shape is None:
        missing = [each.name for each in operation.fixed if each.data is None]
        because = (
            f", which may depend on numbers that are not in the file: {', '.join(missing)}" if missing else ""
        )
        raise Unshaped(f"the shape of {value.name} is not known{because}")
    return value.shape


def _source(operation: OnnxOperation) -> Value:
    """Return the first input, which must be what other operations compute."""
    value = operation.inputs[0]
    if value is None or value.fixed:
        raise Unknown("its first input is the same for all images")
    return value


def _result(operation: OnnxOperation) -> Value:
    value = operation.outputs[0]
    if value is None:
        raise Unknown("its first output is not used")
    return value


def _input(operation: OnnxOperation) -> Shape:
    return shape(operation, _source(operation))


def _output(operation: OnnxOperation) -> Shape:
    return shape(operation, _result(operation))


def _weights(operation: OnnxOperation) -> tuple[int, ...]:
    """Return the sizes of the second input, which must be the same for all images."""
    value = operation.inputs[1]
    if value is None or not value.fixed:
        raise Unknown("its weights depend on the image")
    return _sizes(operation, value)


def _has_bias(operation: OnnxOperation) -> bool:
    return len(operation.inputs) > 2 and operation.inputs[2] is not None


def _plane(operation: OnnxOperation) -> tuple[int, ...]:
    """Return the dimensions of space of the first input."""
    plane = _sizes(operation, _source(operation))[2:]
    if len(plane) not in (1, 2):
        raise Unknown(f"it has {len(plane)} dimensions of space; known are 1 and 2")
    return plane


def _count(operation: OnnxOperation, values: Sequence[Value]) -> int:
    """Count the numbers that tensors hold."""
    return sum(prod(_sizes(operation, value)) for value in values)


# Windows -------------------------------------------------------------------------------------------


def _window(operation: OnnxOperation, kernel: Sequence[int], ceil: bool = False) -> Table:
    """Return the geometry of a window, with all of its padding written out."""
    attributes, plane = operation.attributes, _plane(operation)
    sizes = _sizes(operation, _result(operation))[2:]
    strides = attributes.get("strides", [1] * len(plane))
    dilations = attributes.get("dilations", [1] * len(plane))
    pads = attributes.get("pads", [0] * 2 * len(plane))
    automatic = attributes.get("auto_pad", "NOTSET")
    padding = []
    for axis, size in enumerate(plane):
        before, after = pads[axis], pads[axis + len(plane)]
        extent = dilations[axis] * (kernel[axis] - 1) + 1
        needed = (sizes[axis] - 1) * strides[axis] + extent - size
        if automatic in ("SAME_UPPER", "SAME_LOWER"):
            less, more = max(0, needed) // 2, -(-max(0, needed) // 2)
            before, after = (less, more) if automatic == "SAME_UPPER" else (more, less)
        elif ceil:  # the last window may begin inside and end outside
            after = max(after, needed - before)
        padding.append((before, after))
    line = [1] * (2 - len(plane))
    padding = [(0, 0)] * (2 - len(plane)) + padding
    return {
        "kernel": (*line, *kernel),
        "stride": (*line, *strides),
        "padding": tuple(rows for side in padding for rows in side),
        "dilation": (*line, *dilations),
    }


def _conv(operation: OnnxOperation) -> list[Table]:
    weights = _weights(operation)
    if len(weights) != 2 + len(_plane(operation)):
        raise Unknown("its weights do not have the dimensions of its input")
    kernels, seen, *kernel = weights
    channels, height, width = _input(operation)
    groups = operation.attributes.get("group", 1)
    if seen * groups != channels:
        raise Unknown(f"its weights are for {seen * groups} channels, and it reads {channels}")
    window = _window(operation, kernel)
    table = {
        "kind": "conv",
        "input": (channels, height, width),
        "kernels": kernels,
        **window,
        "groups": groups,
        "batch": operation.batch,
        "bias": _has_bias(operation),
    }
    top, bottom, left, right = window["padding"]
    extent = [d * (k - 1) + 1 for k, d in zip(window["kernel"], window["dilation"], strict=True)]
    if max(top, bottom) < extent[0] and max(left, right) < extent[1]:
        return [table]
    # Some of its outputs see nothing but padding, which windows do not.
    padded = (channels, height + top + bottom, width + left + right)
    return [
        {"kind": "pad", "input": table["input"], "padding": window["padding"]},
        {**table, "input": padded, "padding": (0, 0, 0, 0)},
    ]


def _pool(operation: OnnxOperation) -> list[Table]:
    window = _window(
        operation, operation.attributes["kernel_shape"], bool(operation.attributes.get("ceil_mode"))
    )
    if window.pop("dilation") != (1, 1):
        raise Unknown("its window is dilated")
    op = "max" if operation.operator == "MaxPool" else "average"
    return [{"kind": "pool", "op": op, "input": _input(operation), **window}]


def _pool_all(operation: OnnxOperation) -> list[Table]:
    """Pool whole planes, as reductions over all dimensions of space do, too."""
    own, plane = _input(operation), _plane(operation)
    if operation.operator.startswith("Reduce"):
        axes = operation.attributes.get("axes")
        if len(operation.inputs) > 1 and operation.inputs[1] is not None:
            axes = operation.inputs[1].data
        space = list(range(2, 2 + len(plane)))
        if axes is None or sorted(int(axis) % (2 + len(plane)) for axis in axes) != space:
            raise Unknown("it does not reduce all dimensions of space and no others")
    op = "max" if "Max" in operation.operator else "average"
    return [{"kind": "pool", "op": op, "input": own, "kernel": own[1:]}]


# Matrices ------------------------------------------------------------------------------------------


def _fully_connected(operation: OnnxOperation) -> list[Table]:
    own, weights = _input(operation), _weights(operation)
    if not len(weights) == len(_sizes(operation, _source(operation))) == 2:
        raise Unknown("it is known for an input and weights of two dimensions each")
    if operation.attributes.get("transA"):
        raise Unknown("its input is transposed")
    outputs = weights[0 if operation.attributes.get("transB") else 1]
    return [
        {
            "kind": "fc",
            "input": own,
            "kernels": outputs,
            "kernel": (1, 1),
            "batch": operation.batch,
            "bias": _has_bias(operation),
        }
    ]


# Operations value by value -------------------------------------------------------------------------


def _map(op: str) -> Callable[[OnnxOperation], list[Table]]:
    """Return what makes a map layer of an operation; trained functions have parameters as further inputs."""

    def layer(operation: OnnxOperation) -> list[Table]:
        if len(operation.given) > 1:
            raise Unknown("its parameters depend on the image")
        trained = {"batch_norm": operation.fixed[:2], "prelu": operation.fixed}.get(op, [])
        parameters = _count(operation, trained)
        return [{"kind": "map", "op": op, "input": _input(operation), "parameters": parameters}]

    return layer


def _arithmetic(operation: OnnxOperation) -> list[Table]:
    """Combine tensors, or one with numbers of its own."""
    result = _output(operation)
    given = [shape(operation, value) for value in operation.given]
    sums = operation.operator in ("Add", "Sum", "Sub")
    if len(operation.inputs) == 1 and given == [result]:
        return [{"kind": "map", "op": "identity", "input": result}]
    if len(given) == 1 and len(operation.inputs) == 2:
        if given != [result]:
            raise Unknown("numbers of its own give it another shape")
        if operation.operator in ("Sub", "Div"):
            _source(operation)
        numbers = _count(operation, operation.fixed)
        parameters = numbers if numbers > 1 else 0  # a single one belongs to the operation
        op = "bias" if sums else "scale"
        return [{"kind": "map", "op": op, "input": result, "parameters": parameters}]
    if operation.fixed or operation.operator in ("Sub", "Div"):
        raise Unknown("it does not combine one tensor with numbers of its own")
    pixel = (result[0], 1, 1)
    if any(each != result and (sums or each != pixel) for each in given):
        raise Unknown(f"its inputs are of different shapes: {', '.join(map(str, map(list, given)))}")
    return [{"kind": "add" if sums else "mul", "input": result}]


# Order and shape -----------------------------------------------------------------------------------


def _concat(operation: OnnxOperation) -> list[Table]:
    result, axis = _output(operation), operation.attributes["axis"]
    if axis % len(_sizes(operation, _result(operation))) != 1:
        raise Unknown(f"its axis is {axis}, and channels are 1")
    names = [value.name for value in operation.given]
    if len(set(names)) < len(operation.inputs):
        raise Unknown("one of its inputs stands twice, or is the same for all images")
    return [{"kind": "concat", "input": result}]


def _reshape(op: str) -> Callable[[OnnxOperation], list[Table]]:
    def layer(operation: OnnxOperation) -> list[Table]:
        if operation.attributes.get("perm", [0])[:1] != [0] and operation.batch > 1:
            raise Unknown("it mixes images")
        return [{"kind": "reshape", "op": op, "input": _input(operation), "output": _output(operation)}]

    return layer


def _pad(operation: OnnxOperation) -> list[Table]:
    attributes, inputs = operation.attributes, dict(enumerate(operation.inputs))
    rank = len(_plane(operation)) + 2
    if attributes.get("mode", "constant") != "constant":
        raise Unknown(f"its mode is {attributes['mode']}, and zeros are known")
    amounts, number, axes = (inputs.get(place) for place in (1, 2, 3))
    pads = attributes.get("pads", attributes.get("paddings")) if amounts is None else amounts.data
    value = attributes.get("value", 0) if number is None else number.data
    where = range(rank) if axes is None else axes.data
    if pads is None or value is None or where is None or len(pads) != 2 * len(where):
        raise Unknown("what it adds is not known")
    if np.any(value):
        raise Unknown("it does not add zeros")
    before, after = [0] * rank, [0] * rank
    for axis, first, last in zip(where, pads[: len(where)], pads[len(where) :], strict=True):
        before[int(axis) % rank], after[int(axis) % rank] = int(first), int(last)
    if any(before[:2] + after[:2]) or min(before + after) < 0:
        raise Unknown("it adds to other dimensions than height and width, or takes away")
    rows = (0, 0) if rank == 3 else (before[2], after[2])
    return [{"kind": "pad", "input": _input(operation), "padding": (*rows, before[-1], after[-1])}]


OPERATORS: Mapping[str, Callable[[OnnxOperation], list[Table]]] = {
    "Conv": _conv,
    "Gemm": _fully_connected,
    "MatMul": _fully_connected,
    "MaxPool": _pool,
    "AveragePool": _pool,
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "ReduceMean", "ReduceMax"), _pool_all),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Sum"), _arithmetic),
    "Concat": _concat,
    "Pad": _pad,
    **{
        name: _reshape(op)
        for name, op in {
            "Reshape": "reshape",
            "Squeeze": "reshape",
            "Unsqueeze": "reshape",
            "Flatten": "flatten",
            "Transpose": "transpose",
            "SpaceToDepth": "space_to_depth",
            "DepthToSpace": "depth_to_space",
        }.items()
    },
    **{
        name: _map(op)
        for name, op in {
            "BatchNormalization": "batch_norm",
            "Cast": "identity",
            "Celu": "celu",
            "Clip": "clip",
            "DequantizeLinear": "identity",
            "Dropout": "dropout",
            "Elu": "elu",
            "Erf": "erf",
            "Gelu": "gelu",
            "HardSigmoid": "hard_sigmoid",
            "HardSwish": "hard_swish",
            "Identity": "identity",
            "LRN": "lrn",
            "LeakyRelu": "leaky_relu",
            "LogSoftmax": "softmax",
            "Mish": "mish",
            "PRelu": "prelu",
            "QuantizeLinear": "identity",
            "Relu": "relu",
            "Selu": "selu",
            "Sigmoid": "sigmoid",
            "Softmax": "softmax",
            "Softplus": "softplus",
            "Softsign": "softsign",
            "Swish": "swish",
            "Tanh": "tanh",
        }.items()
    },
}
