"""TFLite's operators as those of ONNX."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
import tflite
from numpy.typing import NDArray
from onnx import helper

from tilewright.importing.tflite.file import Operator, Tensor
from tilewright.importing.tflite.graph import MICROSOFT, Graph, Unread, quantised

ACTIVATIONS = {number: name for name, number in vars(tflite.ActivationFunctionType).items()}

LIMITS = {"RELU": (0.0, np.inf), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}
"""Least and most value of what these give."""

MOST_STRIDE = 1024
"""Largest stride of an operator that has its options in bytes."""


# What follows another operator ----------------------------------------------------------------------


def limits_of(tensor: Tensor, activation: str) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return the least and the most number that a rectifier lets through, in the type of a tensor.

    None where a quantised tensor has no others: its numbers saturate.
    """
    least, most = LIMITS[activation]
    if not quantised(tensor):
        if not tensor.type.startswith("float"):
            raise Unread(f"its output is {tensor.type} without a scale")
        return np.array(least, tensor.type), np.array(most, tensor.type)
    assert tensor.scales is not None and tensor.zero_points is not None
    kind, scale, zero = np.iinfo(tensor.type), float(tensor.scales[0]), int(tensor.zero_points[0])
    numbers = (round(min(max(value / scale, -(2**32)), 2**32)) + zero for value in (least, most))
    found = [min(max(number, kind.min), kind.max) for number in numbers]
    if found == [kind.min, kind.max]:
        return None
    low, high = (np.array(value, tensor.type) for value in found)
    return low, high


def activated(graph: Graph, operator: Operator, name: str, shape: Sequence[int]) -> str:
    """Return the name of what a fused activation makes of a tensor."""
    output, options = graph.output(operator), operator.options
    fused = getattr(options, "FusedActivationFunction", None)  # some operators have none
    activation = "NONE" if fused is None else ACTIVATIONS[fused()]
    if activation == "NONE":
        return name
    if activation not in LIMITS:
        raise Unread(f"its fused activation is {activation}")
    limits = limits_of(output, activation)
    if limits is None:
        return name
    if not quantised(output) and activation == "RELU":
        return graph.step("Relu", [name], output.type, shape)
    bounds = [graph.constant(f"{output.name}/limit", each) for each in limits]
    return graph.step("Clip", [name, *bounds], output.type, shape)


def give(graph: Graph, operator: Operator, name: str) -> None:
    """Let a tensor, after the fused activation, be the output."""
    output = graph.output(operator)
    graph.rename(activated(graph, operator, name, output.shape), output)


# Windows --------------------------------------------------------------------------------------------


def padding(
    given: Sequence[int], output: Sequence[int], kernel: Sequence[int], stride: Sequence[int], same: bool
) -> list[int]:
    """Return the padding of a window: before and after rows, then in ONNX's order."""
    total = [
        max(0, (after - 1) * step + extent - before) if same else 0
        for before, after, extent, step in zip(given, output, kernel, stride, strict=True)
    ]
    return [each // 2 for each in total] + [each - each // 2 for each in total]


def window(
    graph: Graph, operator: Operator, kernel: Sequence[int], dilation: Sequence[int]
) -> dict[str, Any]:
    """Return stride, dilation and padding of an operator that moves a window."""
    options, own, output = operator.options, graph.tensor(operator, 0), graph.output(operator)
    if options is None or len(own.shape) != 4 or len(output.shape) != 4:
        raise Unread("it is not of a map with 4 dimensions, or has no options")
    stride = [options.StrideH(), options.StrideW()]
    extent = [(size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True)]
    same = options.Padding() == tflite.Padding.SAME
    if operator.pads is not None:
        return {"kernel_shape": list(kernel), "strides": stride, "pads": list(operator.pads)}
    if not same and any(size > given for size, given in zip(extent, own.shape[1:3], strict=True)):
        told = "x".join(map(str, extent)), "x".join(map(str, own.shape[1:3]))
        raise Unread(
            f"its window of {told[0]} is larger than its input of {told[1]}, as sizes left open are 1"
        )
    return {
        "kernel_shape": list(kernel),
        "strides": stride,
        "pads": padding(own.shape[1:3], output.shape[1:3], extent, stride, same),
    }


def convolution(graph: Graph, operator: Operator, *, by_channel: bool = False) -> None:
    """Add a convolution; weights are (outputs, rows, columns, inputs), or (1, rows, columns, outputs)."""
    own, weights, output = graph.tensor(operator, 0), graph.tensor(operator, 1), graph.output(operator)
    if len(weights.shape) != 4:
        raise Unread(f"its weights have {len(weights.shape)} dimensions")
    dilation = operator.dilation or (operator.options.DilationHFactor(), operator.options.DilationWFactor())
    attributes = window(graph, operator, weights.shape[1:3], dilation) | {"dilations": list(dilation)}
    order = (3, 0, 1, 2) if by_channel else (0, 3, 1, 2)
    groups = own.shape[3] if by_channel else own.shape[3] // max(1, weights.shape[3])
    numbers = np.transpose(graph.known(operator, 1), order)
    attributes["group"] = groups
    reads = graph.channels_first(own)
    found = linear(graph, operator, "Conv", reads, numbers, graph.first_shape(output), **attributes)
    graph.give_last(activated(graph, operator, found, graph.first_shape(output)), output)


def linear(
    graph: Graph,
    operator: Operator,
    kind: str,
    reads: str,
    numbers: NDArray[Any],
    shape: Sequence[int],
    **attributes: Any,
) -> str:
    """Return the name of what weights, outputs first, and a bias make of a tensor."""
    own, weights, output = graph.tensor(operator, 0), graph.tensor(operator, 1), graph.output(operator)
    bias = graph.optional(operator, 2)
    stored = graph.constant(weights.name, numbers)
    if quantised(own) and quantised(weights) and quantised(output) and own.type != "int16":
        scales = [*graph.scale(own), stored, *graph.scale(weights)]
        added = [] if bias is None else [graph.name(bias)]
        if kind == "Gemm":
            operands = [reads, *scales, *(added or [""]), *graph.scale(output)]
            return graph.step("QGemm", operands, output.type, shape, MICROSOFT, **attributes)
        operands = [reads, *scales, *graph.scale(output), *added]
        return graph.step("QLinearConv", operands, output.type, shape, **attributes)
    if quantised(own):
        rows = max(1, shape[0])
        given = graph.first_shape(own) if kind == "Conv" else [rows, prod(own.shape) // rows]
        reads = graph.floats(reads, own, given)
    if quantised(weights):
        assert weights.scales is not None
        stored = graph.floats(stored, weights, numbers.shape, 0 if len(weights.scales) > 1 else None)
    elif weights.type == "float16":
        stored = graph.constant(weights.name, numbers.astype(np.float32))
    added = []
    if bias is not None:
        values = graph.known(operator, 2).astype(np.float32)
        if bias.scales is not None:
            values = values * bias.scales
        added = [graph.constant(bias.name, values.astype(np.float32))]
    found = graph.step(kind, [reads, stored, *added], "float32", shape, **attributes)
    if quantised(output):
        found = graph.integers(found, output, shape)
    return found


def fully_connected(graph: Graph, operator: Operator) -> None:
    """Add a product with weights (outputs, inputs)."""
    own, weights, output = graph.tensor(operator, 0), graph.tensor(operator, 1), graph.output(operator)
    if len(weights.shape) != 2:
        raise Unread(f"its weights have {len(weights.shape)} dimensions")
    kernels, depth = weights.shape
    rows = prod(own.shape) // max(1, depth)
    reads, shape = graph.name(own), (rows, kernels)
    if own.shape != (rows, depth):
        reads = reshaped(graph, reads, own.type, (rows, depth))
    found = linear(graph, operator, "Gemm", reads, graph.known(operator, 1), shape, transB=1)
    found = activated(graph, operator, found, shape)
    if output.shape != shape:
        graph.give("Reshape", [found, graph.constant("shape", np.array(output.shape, np.int64))], output)
    else:
        graph.rename(found, output)


def reshaped(graph: Graph, name: str, kind: str, shape: Sequence[int]) -> str:
    """Return the name of a tensor in another shape."""
    return graph.step("Reshape", [name, graph.constant("shape", np.array(shape, np.int64))], kind, shape)


def transposed_convolution(graph: Graph, operator: Operator) -> None:
    """Add a transposed convolution; weights are (outputs, rows, columns, inputs)."""
    options = operator.options
    same = options.Padding() == tflite.Padding.SAME
    _transposed(graph, operator, (2, 3), [options.StrideH(), options.StrideW()], same)


def transposed_with_bias(graph: Graph, operator: Operator) -> None:
    """Add MediaPipe's own transposed convolution: its options are padding, stride across and stride down."""
    if len(operator.custom) < 12:
        raise Unread(f"its options have {len(operator.custom)} bytes, not 12")
    padding_, across, down = struct.unpack("<3i", operator.custom[:12])
    if padding_ not in (1, 2) or not (0 < across <= MOST_STRIDE and 0 < down <= MOST_STRIDE):
        raise Unread(f"its padding and strides are {padding_}, {across}, {down}")
    _transposed(graph, operator, (0, 2), [down, across], padding_ == 1)


def _transposed(
    graph: Graph, operator: Operator, places: tuple[int, int], stride: Sequence[int], same: bool
) -> None:
    """Add a transposed convolution; `places` are those of the map and of the bias among the inputs."""
    own, output, bias = (
        graph.tensor(operator, places[0]),
        graph.output(operator),
        graph.optional(operator, places[1]),
    )
    numbers = np.transpose(graph.known(operator, 1), (3, 0, 1, 2)).astype(np.float32)
    weights = graph.tensor(operator, 1)
    if weights.scales is not None and weights.zero_points is not None:
        points, scales = (each.reshape(1, -1, 1, 1) for each in (weights.zero_points, weights.scales))
        numbers = (numbers - points) * scales
    kernel = numbers.shape[2:]
    pads = padding(output.shape[1:3], own.shape[1:3], kernel, stride, same)
    reads = [graph.channels_first(own)]
    if quantised(own):
        reads = [graph.floats(reads[0], own, graph.first_shape(own))]
    reads.append(graph.constant(weights.name, numbers.astype(np.float32)))
    if bias is not None:
        values = graph.known(operator, places[1]) * (1.0 if bias.scales is None else bias.scales)
        reads.append(graph.constant(bias.name, values.astype(np.float32)))
    shape = graph.first_shape(output)
    attributes: dict[str, Any] = {"strides": stride, "pads": pads, "kernel_shape": kernel}
    more = [
        max(0, after - (before - 1) * step - size)
        for before, after, step, size in zip(own.shape[1:3], output.shape[1:3], stride, kernel, strict=True)
    ]
    if any(more):
        attributes["output_padding"] = more
    found = graph.step("ConvTranspose", reads, "float32", shape, **attributes)
    if quantised(output):
        found = graph.integers(found, output, shape)
    graph.give_last(activated(graph, operator, found, shape), output)


def pool(graph: Graph, operator: Operator, *, largest: bool) -> None:
    """Add a pool."""
    own, output, options = graph.tensor(operator, 0), graph.output(operator), operator.options
    if options is None:
        raise Unread("it has no options")
    attributes = window(graph, operator, [options.FilterHeight(), options.FilterWidth()], [1, 1])
    reads, shape = graph.channels_first(own), graph.first_shape(output)
    kind = "MaxPool" if largest else "AveragePool"
    if not largest and quantised(own) and own.type != "int16":
        operands = [reads, *graph.scale(own), *graph.scale(output)]
        found = graph.step("QLinearAveragePool", operands, output.type, shape, MICROSOFT, **attributes)
    elif quantised(own) and (own.type == "int16" or not largest):
        reads = graph.floats(reads, own, graph.first_shape(own))
        found = graph.integers(graph.step(kind, [reads], "float32", shape, **attributes), output, shape)
    else:
        found = graph.step(kind, [reads], output.type, shape, **attributes)
    graph.give_last(activated(graph, operator, found, shape), output)


# Values ---------------------------------------------------------------------------------------------


def of_two(graph: Graph, operator: Operator, *, kind: str) -> None:
    """Add a function of the values of two tensors."""
    one, other, output = graph.tensor(operator, 0), graph.tensor(operator, 1), graph.output(operator)
    integers = all(map(quantised, (one, other, output))) and output.type != "int16"
    if integers and kind in ("Add", "Mul"):
        operands = [name for each in (one, other) for name in (graph.name(each), *graph.scale(each))]
        reads = [*operands, *graph.scale(output)]
        found = graph.step(f"QLinear{kind}", reads, output.type, output.shape, MICROSOFT)
    else:
        reads = [graph.in_floats(one), graph.in_floats(other)]
        kind_of = "float32" if quantised(output) else output.type
        found = graph.step(kind, reads, kind_of, output.shape)
        if quantised(output):
            found = graph.integers(found, output, output.shape)
    give(graph, operator, found)


def of_one(graph: Graph, operator: Operator, *, kind: str, **attributes: Any) -> None:
    """Add a function of single values, computed in floating point."""
    reads = [graph.in_floats(graph.tensor(operator, 0))]
    graph.give_floats(kind, reads, graph.output(operator), **attributes)


def in_turn(graph: Graph, operator: Operator, *, kinds: Sequence[str]) -> None:
    """Add functions of single values, one after the other."""
    own, output = graph.tensor(operator, 0), graph.output(operator)
    found = graph.in_floats(own)
    for kind in kinds[:-1]:
        found = graph.step(kind, [found], "float32", own.shape)
    graph.give_floats(kinds[-1], [found], output)


def rectifier(graph: Graph, operator: Operator, *, activation: str) -> None:
    """Add a rectifier."""
    own, output = graph.tensor(operator, 0), graph.output(operator)
    if quantised(own):
        low, high = (np.array(min(each, 3e38), np.float32) for each in LIMITS[activation])
        reads = [graph.in_floats(own), graph.constant("limit", low), graph.constant("limit", high)]
        graph.give_floats("Clip", reads, output)
    elif activation == "RELU":
        graph.give("Relu", [graph.name(own)], output)
    else:
        bounds = [graph.constant("limit", np.array(each, own.type)) for each in LIMITS[activation]]
        graph.give("Clip", [graph.name(own), *bounds], output)


def sigmoid(graph: Graph, operator: Operator) -> None:
    """Add a logistic function."""
    own, output = graph.tensor(operator, 0), graph.output(operator)
    if quantised(own) and own.type != "int16":
        reads = [graph.name(own), *graph.scale(own), *graph.scale(output)]
        graph.give("QLinearSigmoid", reads, output, MICROSOFT)
    else:
        of_one(graph, operator, kind="Sigmoid")


def softmax(graph: Graph, operator: Operator) -> None:
    """Add a softmax along the last axis."""
    own, output = graph.tensor(operator, 0), graph.output(operator)
    beta = 1.0 if operator.options is None else operator.options.Beta()
    if beta == 1.0 and quantised(own) and quantised(output) and own.type != "int16":
        operands = [graph.name(own), *graph.scale(own), *graph.scale(output)]
        graph.give("QLinearSoftmax", operands, output, MICROSOFT, axis=-1, opset=13)
        return
    reads = graph.in_floats(own)
    if beta != 1.0:
        factor = graph.constant("beta", np.array(beta, np.float32))
        reads = graph.step("Mul", [reads, factor], "float32", own.shape)
    graph.give_floats("Softmax", [reads], output, axis=-1)


def leaky(graph: Graph, operator: Operator) -> None:
    """Add a leaky rectifier."""
    of_one(graph, operator, kind="LeakyRelu", alpha=float(operator.options.Alpha()))


def with_slopes(graph: Graph, operator: Operator) -> None:
    """Add a rectifier with a slope for each channel."""
    reads = [graph.in_floats(graph.tensor(operator, 0)), graph.in_floats(graph.tensor(operator, 1))]
    graph.give_floats("PRelu", reads, graph.output(operator))


def requantised(graph: Graph, operator: Operator) -> None:
    """Add what quantises values, or quantises them anew."""
    own, output = graph.tensor(operator, 0), graph.output(operator)
    if not quantised(output):
        raise Unread("its output has no scale")
    graph.give("QuantizeLinear", [graph.in_floats(own), *graph.scale(output)], output)


def dequantised(graph: Graph, operator: Operator) -> None:
    """Add what gives the values that integers, or floats of 16 bits, stand for."""
    own, output = graph.tensor(operator, 0), graph.output(operator)
    if quantised(own):
        graph.give("DequantizeLinear", [graph.name(own), *graph.scale(own)], output)
    else:
        graph.give("Cast", [graph.name(own)], output, to=1)


# Axes and shapes ------------------------------------------------------------------------------------


def moved(graph: Graph, operator: Operator) -> None:
    """Add what gives the same values in the output's shape."""
    output = graph.output(operator)
    shape = graph.constant("shape", np.array(output.shape, np.int64))
    graph.give("Reshape", [graph.name(graph.tensor(operator, 0)), shape], output)


def transposition(graph: Graph, operator: Operator) -> None:
    """Add a transposition."""
    order = [int(axis) for axis in graph.known(operator, 1).reshape(-1)]
    graph.give("Transpose", [graph.name(graph.tensor(operator, 0))], graph.output(operator), perm=order)


def concatenation(graph: Graph, operator: Operator) -> None:
    """Add a concatenation; of integers each part is scaled as the output is."""
    output = graph.output(operator)
    parts = [graph.tensor(operator, place) for place in range(len(operator.inputs))]
    axis = operator.options.Axis() % max(1, len(output.shape))
    alike = all(_same_scale(part, output) for part in parts)
    if alike:
        reads = [graph.name(each) for each in parts]
        found = graph.step("Concat", reads, output.type, output.shape, axis=axis)
    else:
        reads = graph.scale(output)
        for part in parts:
            reads += [graph.name(part), *graph.scale(part)]
        found = graph.step("QLinearConcat", reads, output.type, output.shape, MICROSOFT, axis=axis)
    give(graph, operator, found)


def _same_scale(one: Tensor, other: Tensor) -> bool:
    if not (quantised(one) and quantised(other)):
        return True
    assert one.scales is not None and other.scales is not None
    assert one.zero_points is not None and other.zero_points is not None
    return bool(one.scales[0] == other.scales[0] and one.zero_points[0] == other.zero_points[0])


def padded(graph: Graph, operator: Operator) -> None:
    """Add a border of zeros, or of a value that the operator says."""
    own, output = graph.tensor(operator, 0), graph.output(operator)
    pads = graph.known(operator, 1).astype(np.int64)
    reads = [graph.name(own), graph.constant("pads", np.concatenate([pads[:, 0], pads[:, 1]]))]
    value = graph.optional(operator, 2)
    if value is not None:
        reads.append(graph.constant("value", graph.known(operator, 2).reshape(())))
    elif own.zero_points is not None and quantised(own):
        reads.append(graph.constant("value", own.zero_points.astype(own.type).reshape(-1)[0].reshape(())))
    graph.give("Pad", reads, output)


def reduction(graph: Graph, operator: Operator, *, kind: str) -> None:
    """Add a reduction over some axes."""
    own, output = graph.tensor(operator, 0), graph.output(operator)
    axes = graph.known(operator, 1).reshape(-1) % max(1, len(own.shape))
    keeps = int(len(output.shape) == len(own.shape))
    reads = [graph.in_floats(own), graph.constant("axes", axes.astype(np.int64))]
    graph.give_floats(kind, reads, output, keepdims=keeps)


def part(graph: Graph, operator: Operator) -> None:
    """Add a part of a tensor that begins at some place and has some size."""
    own = graph.tensor(operator, 0)
    first, sizes = (graph.known(operator, place).reshape(-1).astype(np.int64) for place in (1, 2))
    end = np.where(sizes < 0, own.shape, first + sizes)
    _slice(graph, operator, first, end, np.ones_like(first))


def strided_part(graph: Graph, operator: Operator) -> None:
    """Add a part of a tensor, of which some places are left out."""
    own, options = graph.tensor(operator, 0), operator.options
    first, end, step = (graph.known(operator, place).reshape(-1).astype(np.int64) for place in (1, 2, 3))
    if options is not None:
        if options.EllipsisMask() or options.NewAxisMask():
            raise Unread("it has an ellipsis or a new axis")
        axes = np.arange(len(first))
        first = np.where(options.BeginMask() >> axes & 1, 0, first)
        end = np.where(options.EndMask() >> axes & 1, np.array(own.shape[: len(first)]), end)
        end = np.where(options.ShrinkAxisMask() >> axes & 1, first + 1, end)
    if (step < 1).any():
        raise Unread("it goes backwards")
    _slice(graph, operator, first, end, step)


def _slice(
    graph: Graph, operator: Operator, first: NDArray[Any], end: NDArray[Any], step: NDArray[Any]
) -> None:
    own, output = graph.tensor(operator, 0), graph.output(operator)
    sizes = np.array(own.shape[: len(first)])
    first, end = np.where(first < 0, first + sizes, first), np.where(end < 0, end + sizes, end)
    shape = [*(-(-(np.minimum(end, sizes) - first) // step)).tolist(), *own.shape[len(first) :]]
    axes = np.arange(len(first))
    reads = [graph.name(own), *(graph.constant("places", each) for each in (first, end, axes, step))]
    if tuple(shape) == output.shape:
        graph.give("Slice", reads, output)
        return
    found = graph.step("Slice", reads, own.type, shape)
    graph.give("Reshape", [found, graph.constant("shape", np.array(output.shape, np.int64))], output)


def split(graph: Graph, operator: Operator, *, places: tuple[int, int]) -> None:
    """Add a split; `places` are those of the tensor and of the axis among the inputs."""
    own, axis = graph.tensor(operator, places[0]), int(graph.known(operator, places[1]).reshape(-1)[0])
    axis %= max(1, len(own.shape))
    first = 0
    for place in range(len(operator.outputs)):
        output = graph.output(operator, place)
        ends = first, first + output.shape[axis]
        reads = [np.array([each], np.int64) for each in (*ends, axis)]
        graph.give("Slice", [graph.name(own), *(graph.constant("places", each) for each in reads)], output)
        first = ends[1]


def stacked(graph: Graph, operator: Operator) -> None:
    """Add tensors one beside the other along a new axis."""
    output = graph.output(operator)
    axis = operator.options.Axis() % max(1, len(output.shape))
    shape = [*output.shape[:axis], 1, *output.shape[axis + 1 :]]
    parts = [graph.tensor(operator, place) for place in range(len(operator.inputs))]
    reads = [reshaped(graph, graph.name(each), each.type, shape) for each in parts]
    graph.give("Concat", reads, output, axis=axis)


def unstacked(graph: Graph, operator: Operator) -> None:
    """Add the parts of a tensor along an axis, which they do not have any more."""
    own = graph.tensor(operator, 0)
    axis = operator.options.Axis() % max(1, len(own.shape))
    for place in range(len(operator.outputs)):
        output = graph.output(operator, place)
        reads = [np.array([each], np.int64) for each in (place, place + 1, axis)]
        shape = [*own.shape[:axis], 1, *own.shape[axis + 1 :]]
        constants = [graph.constant("places", each) for each in reads]
        found = graph.step("Slice", [graph.name(own), *constants], own.type, shape)
        graph.give("Reshape", [found, graph.constant("shape", np.array(output.shape, np.int64))], output)


def resized(graph: Graph, operator: Operator, *, mode: str) -> None:
    """Add what makes a map larger or smaller."""
    own, output, options = graph.tensor(operator, 0), graph.output(operator), operator.options
    way = "asymmetric"
    if options is not None and options.AlignCorners():
        way = "align_corners"
    elif options is not None and options.HalfPixelCenters():
        way = "half_pixel"
    shape = graph.first_shape(output)
    reads, kind = graph.channels_first(own), own.type
    if quantised(own) and mode == "linear":
        reads, kind = graph.floats(reads, own, graph.first_shape(own)), "float32"
    sizes = graph.constant("sizes", np.array(shape, np.int64))
    rounds = {"nearest_mode": "round_prefer_ceil" if way == "align_corners" else "floor"}
    attributes = rounds if mode == "nearest" else {}
    found = graph.step(
        "Resize",
        [reads, "", "", sizes],
        kind,
        shape,
        mode=mode,
        coordinate_transformation_mode=way,
        **attributes,
    )
    if kind != output.type:
        found = graph.integers(found, output, shape)
    graph.give_last(found, output)


def into_space(graph: Graph, operator: Operator, *, kind: str) -> None:
    """Add channels that become pixels, or pixels that become channels."""
    own, output = graph.tensor(operator, 0), graph.output(operator)
    attributes: dict[str, Any] = {"blocksize": operator.options.BlockSize()}
    if kind == "DepthToSpace":
        attributes["mode"] = "DCR"
    found = graph.step(kind, [graph.channels_first(own)], own.type, graph.first_shape(output), **attributes)
    graph.give_last(found, output)


def product_of_two(graph: Graph, operator: Operator) -> None:
    """Add a product of matrices."""
    reads = []
    for place, turned in enumerate((operator.options.AdjX(), operator.options.AdjY())):
        tensor = graph.tensor(operator, place)
        name = graph.in_floats(tensor)
        if turned:
            axes = [*range(len(tensor.shape) - 2), len(tensor.shape) - 1, len(tensor.shape) - 2]
            shape = [tensor.shape[axis] for axis in axes]
            name = graph.step("Transpose", [name], "float32", shape, perm=axes)
        reads.append(name)
    graph.give_floats("MatMul", reads, graph.output(operator))


def gathered(graph: Graph, operator: Operator, *, places: tuple[int, int], axis: int | None = None) -> None:
    """Add rows of a table; `places` are those of the table and of the row numbers among the inputs."""
    table, rows = (graph.tensor(operator, place) for place in places)
    along = operator.options.Axis() if axis is None else axis
    graph.give("Gather", [graph.name(table), graph.name(rows)], graph.output(operator), axis=along)


# Functions without a form in integers of their own ----------------------------------------------------


def compared(graph: Graph, operator: Operator, *, kind: str, negated: bool = False) -> None:
    """Add a comparison of what two tensors stand for, or what combines truth values."""
    output = graph.output(operator)
    reads = [graph.in_floats(graph.tensor(operator, place)) for place in range(len(operator.inputs))]
    if negated:
        graph.give("Not", [graph.step(kind, reads, "bool", output.shape)], output)
    else:
        graph.give(kind, reads, output)


def selected(graph: Graph, operator: Operator) -> None:
    """Add values of one tensor where a condition holds, and else of another."""
    condition, output = graph.tensor(operator, 0), graph.output(operator)
    name = graph.name(condition)
    if operator.type == "SELECT" and condition.shape != output.shape and len(condition.shape) == 1:
        shape = [*condition.shape, *[1] * (len(output.shape) - 1)]  # it selects along the first axis
        name = reshaped(graph, name, condition.type, shape)
    reads = [name, *(graph.in_floats(graph.tensor(operator, place)) for place in (1, 2))]
    graph.give_floats("Where", reads, output)


def squared(graph: Graph, operator: Operator) -> None:
    """Add squares of values, or of differences."""
    one, output = graph.tensor(operator, 0), graph.output(operator)
    found, kind = graph.in_floats(one), "float32" if quantised(one) else one.type
    if operator.type == "SQUARED_DIFFERENCE":
        found = graph.step("Sub", [found, graph.in_floats(graph.tensor(operator, 1))], kind, output.shape)
    graph.give_floats("Mul", [found, found], output)


def mirrored(graph: Graph, operator: Operator) -> None:
    """Add a border that mirrors what is inside."""
    own, output = graph.tensor(operator, 0), graph.output(operator)
    if operator.options is None or operator.options.Mode() != tflite.MirrorPadMode.REFLECT:
        raise Unread("its border has the outermost values twice (SYMMETRIC)")
    pads = graph.known(operator, 1).astype(np.int64)
    reads = [graph.name(own), graph.constant("pads", np.concatenate([pads[:, 0], pads[:, 1]]))]
    graph.give("Pad", reads, output, mode="reflect")


def normalised(graph: Graph, operator: Operator) -> None:
    """Add values divided by the root of the sum of their squares, along the last axis."""
    reads = [graph.in_floats(graph.tensor(operator, 0))]
    graph.give_floats("LpNormalization", reads, graph.output(operator), axis=-1, p=2)


def several_added(graph: Graph, operator: Operator) -> None:
    """Add the sum of tensors."""
    reads = [graph.in_floats(graph.tensor(operator, place)) for place in range(len(operator.inputs))]
    graph.give_floats("Sum", reads, graph.output(operator))


def found_at(graph: Graph, operator: Operator, *, kind: str) -> None:
    """Add the place of the largest or smallest value along an axis."""
    own, output = graph.tensor(operator, 0), graph.output(operator)
    axis = int(graph.known(operator, 1).ravel()[0]) % max(1, len(own.shape))
    found = graph.step(kind, [graph.in_floats(own)], "int64", output.shape, axis=axis, keepdims=0)
    graph.give("Cast", [found], output, to=helper.np_dtype_to_tensor_dtype(np.dtype(output.type)))


def repeated(graph: Graph, operator: Operator) -> None:
    """Add copies of a tensor, one after the other."""
    times = graph.constant("times", graph.known(operator, 1).ravel().astype(np.int64))
    graph.give("Tile", [graph.name(graph.tensor(operator, 0)), times], graph.output(operator))


def spread(graph: Graph, operator: Operator) -> None:
    """Add copies of the values of a tensor, in a larger shape."""
    output = graph.output(operator)
    shape = graph.constant("shape", np.array(output.shape, np.int64))
    graph.give("Expand", [graph.name(graph.tensor(operator, 0)), shape], output)


def gathered_by_places(graph: Graph, operator: Operator) -> None:
    """Add parts of a tensor at places that another has."""
    own, places = graph.tensor(operator, 0), graph.tensor(operator, 1)
    wide = graph.step("Cast", [graph.name(places)], "int64", places.shape, to=7)
    graph.give("GatherND", [graph.name(own), wide], graph.output(operator))


def summed_up(graph: Graph, operator: Operator) -> None:
    """Add sums of all values before a place along an axis."""
    options = operator.options
    reads = [graph.in_floats(graph.tensor(operator, 0)), graph.name(graph.tensor(operator, 1))]
    flags = {"exclusive": int(options.Exclusive()), "reverse": int(options.Reverse())}
    graph.give_floats("CumSum", reads, graph.output(operator), **flags)


def largest(graph: Graph, operator: Operator) -> None:
    """Add the largest values along the last axis, and where they are."""
    own, count = graph.tensor(operator, 0), graph.known(operator, 1).ravel().astype(np.int64)
    values, places = graph.output(operator), graph.output(operator, 1)
    reads = [graph.name(own), graph.constant("count", count)]
    name = graph.unique(f"{graph.called}/places")
    graph.give_several("TopK", reads, [(values.name, values), (name, replace(places, type="int64"))], axis=-1)
    graph.give("Cast", [name], places, to=helper.np_dtype_to_tensor_dtype(np.dtype(places.type)))


def divided_down(graph: Graph, operator: Operator) -> None:
    """Add quotients that are rounded down."""
    one, other, output = graph.tensor(operator, 0), graph.tensor(operator, 1), graph.output(operator)
    if not output.type.startswith("float"):
        raise Unread(f"it divides {output.type}")
    found = graph.step("Div", [graph.name(one), graph.name(other)], output.type, output.shape)
    graph.give("Floor", [found], output)


def backwards(graph: Graph, operator: Operator) -> None:
    """Add a tensor whose values stand in the opposite order along some axes."""
    own = graph.tensor(operator, 0)
    axes = graph.known(operator, 1).ravel().astype(np.int64) % max(1, len(own.shape))
    ones, least = np.ones_like(axes), np.full_like(axes, np.iinfo(np.int64).min)
    reads = [graph.constant("places", each) for each in (-ones, least, axes, -ones)]
    graph.give("Slice", [graph.name(own), *reads], graph.output(operator))


def detected(graph: Graph, operator: Operator, *, kind: str) -> None:
    """Add what chooses boxes, whose number the file fixes."""
    reads = [graph.in_floats(graph.tensor(operator, place)) for place in range(len(operator.inputs))]
    gives = [graph.output(operator, place) for place in range(len(operator.outputs))]
    graph.give_several(kind, reads, [(each.name, each) for each in gives], domain="tflite")


def states(graph: Graph, operator: Operator) -> None:
    """Add an LSTM, all of whose states are given, without peepholes, projections and normalisations.

    TFLite's gates are input, forget, candidate and output, ONNX's input, output, forget and candidate.
    """
    own, output, options = graph.tensor(operator, 0), graph.output(operator), operator.options
    if any(graph.optional(operator, place) is not None for place in (9, 10, 11, 16, 17, 20, 21, 22, 23)):
        raise Unread("it has peepholes, a projection or a normalisation")
    if options is None or ACTIVATIONS[options.FusedActivationFunction()] != "TANH" or options.CellClip():
        raise Unread("it has another activation than TANH, or a limit of its cells")
    if len(own.shape) != 3 or len(output.shape) != 3:
        raise Unread("it is not of three dimensions")
    order = (0, 3, 1, 2)
    by_input, by_state = (
        np.concatenate([_as_floats(graph, operator, first + gate) for gate in order])[None]
        for first in (1, 5)
    )
    hidden = by_state.shape[2]
    biases = np.concatenate([_as_floats(graph, operator, 12 + gate) for gate in order])
    numbers = {"W": by_input, "R": by_state, "B": np.concatenate([biases, np.zeros_like(biases)])[None]}
    major = bool(options.TimeMajor())
    steps, images = own.shape[:2] if major else own.shape[1::-1]
    name = graph.in_floats(own)
    if not major:
        name = graph.step("Transpose", [name], "float32", (steps, images, own.shape[2]), perm=(1, 0, 2))
    reads = [name, *(graph.constant(f"{graph.called}/{key}", each) for key, each in numbers.items())]
    found = graph.step("LSTM", reads, "float32", (steps, 1, images, hidden), hidden_size=hidden)
    if major:
        graph.give_floats("Squeeze", [found, graph.constant("axes", np.array([1]))], output)
        return
    flat = graph.step(
        "Squeeze", [found, graph.constant("axes", np.array([1]))], "float32", (steps, images, hidden)
    )
    graph.give_floats("Transpose", [flat], output, perm=(1, 0, 2))


def _as_floats(graph: Graph, operator: Operator, place: int) -> NDArray[np.float32]:
    """Return the numbers of an input that the file has to store, as what they stand for."""
    tensor, numbers = graph.tensor(operator, place), graph.known(operator, place)
    if tensor.scales is None or tensor.zero_points is None:
        if numbers.dtype.kind != "f":
            raise Unread(f"{tensor.name} has integers without a scale")
        return numbers.astype(np.float32)
    if len(tensor.scales) > 1:
        raise Unread(f"{tensor.name} has several scales")
    found: NDArray[np.float32] = ((numbers - tensor.zero_points[0]) * tensor.scales[0]).astype(np.float32)
    return found


def cast(graph: Graph, operator: Operator) -> None:
    """Add numbers of another type."""
    output = graph.output(operator)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(output.type))
    graph.give("Cast", [graph.name(graph.tensor(operator, 0))], output, to=kind)


OF_TWO = {
    "ADD": "Add",
    "SUB": "Sub",
    "MUL": "Mul",
    "DIV": "Div",
    "MAXIMUM": "Max",
    "MINIMUM": "Min",
    "POW": "Pow",
}
OF_ONE = {
    "TANH": "Tanh",
    "ELU": "Elu",
    "HARD_SWISH": "HardSwish",
    "GELU": "Gelu",
    "ABS": "Abs",
    "NEG": "Neg",
    "EXP": "Exp",
    "LOG": "Log",
    "SQRT": "Sqrt",
    "SIN": "Sin",
    "COS": "Cos",
    "FLOOR": "Floor",
    "CEIL": "Ceil",
    "ROUND": "Round",
    "SIGN": "Sign",
}
COMPARES = {
    "EQUAL": "Equal",
    "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual",
    "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual",
    "LOGICAL_AND": "And",
    "LOGICAL_OR": "Or",
    "LOGICAL_NOT": "Not",
}

OPERATORS: dict[str, Callable[[Graph, Operator], None]] = {
    "CONV_2D": convolution,
    "DEPTHWISE_CONV_2D": partial(convolution, by_channel=True),
    "TRANSPOSE_CONV": transposed_convolution,
    "Convolution2DTransposeBias": transposed_with_bias,
    "FULLY_CONNECTED": fully_connected,
    "BATCH_MATMUL": product_of_two,
    "AVERAGE_POOL_2D": partial(pool, largest=False),
    "MAX_POOL_2D": partial(pool, largest=True),
    **{name: partial(of_two, kind=kind) for name, kind in OF_TWO.items()},
    **{name: partial(of_one, kind=kind) for name, kind in OF_ONE.items()},
    "RSQRT": partial(in_turn, kinds=("Sqrt", "Reciprocal")),
    "RELU": partial(rectifier, activation="RELU"),
    "RELU6": partial(rectifier, activation="RELU6"),
    "RELU_N1_TO_1": partial(rectifier, activation="RELU_N1_TO_1"),
    "RELU_0_TO_1": partial(rectifier, activation="RELU_0_TO_1"),
    "LEAKY_RELU": leaky,
    "PRELU": with_slopes,
    "LOGISTIC": sigmoid,
    "SOFTMAX": softmax,
    "QUANTIZE": requantised,
    "DEQUANTIZE": dequantised,
    "CAST": cast,
    "RESHAPE": moved,
    "SQUEEZE": moved,
    "EXPAND_DIMS": moved,
    "TRANSPOSE": transposition,
    "CONCATENATION": concatenation,
    "PAD": padded,
    "PADV2": padded,
    "MEAN": partial(reduction, kind="ReduceMean"),
    "SUM": partial(reduction, kind="ReduceSum"),
    "REDUCE_MAX": partial(reduction, kind="ReduceMax"),
    "REDUCE_MIN": partial(reduction, kind="ReduceMin"),
    "SLICE": part,
    "STRIDED_SLICE": strided_part,
    "SPLIT": partial(split, places=(1, 0)),
    "SPLIT_V": partial(split, places=(0, 2)),
    "PACK": stacked,
    "UNPACK": unstacked,
    "RESIZE_BILINEAR": partial(resized, mode="linear"),
    "RESIZE_NEAREST_NEIGHBOR": partial(resized, mode="nearest"),
    "DEPTH_TO_SPACE": partial(into_space, kind="DepthToSpace"),
    "SPACE_TO_DEPTH": partial(into_space, kind="SpaceToDepth"),
    "GATHER": partial(gathered, places=(0, 1)),
    "EMBEDDING_LOOKUP": partial(gathered, places=(1, 0), axis=0),
    **{name: partial(compared, kind=kind) for name, kind in COMPARES.items()},
    "NOT_EQUAL": partial(compared, kind="Equal", negated=True),
    "SELECT": selected,
    "SELECT_V2": selected,
    "SQUARE": squared,
    "SQUARED_DIFFERENCE": squared,
    "MIRROR_PAD": mirrored,
    "L2_NORMALIZATION": normalised,
    "LOG_SOFTMAX": partial(of_one, kind="LogSoftmax", axis=-1),
    "ADD_N": several_added,
    "ARG_MAX": partial(found_at, kind="ArgMax"),
    "ARG_MIN": partial(found_at, kind="ArgMin"),
    "TILE": repeated,
    "BROADCAST_TO": spread,
    "GATHER_ND": gathered_by_places,
    "CUMSUM": summed_up,
    "TOPK_V2": largest,
    "REDUCE_PROD": partial(reduction, kind="ReduceProd"),
    "REVERSE_V2": backwards,
    "FLOOR_DIV": divided_down,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": states,
    "TFLite_Detection_PostProcess": partial(detected, kind="DetectionPostProcess"),
    "NON_MAX_SUPPRESSION_V4": partial(detected, kind="NonMaxSuppression"),
    "NON_MAX_SUPPRESSION_V5": partial(detected, kind="NonMaxSuppression"),
}
"""What is read, by TFLite's name."""
