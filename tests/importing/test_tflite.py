"""TFLite files: what is read computes what LiteRT does, operator by operator; damaged ones are refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import examples
from tests.importing.tflite_files import TfliteFile, by_litert, drawn

from tilewright import importing
from tilewright.importing import tflite
from tilewright.spec.errors import InputError

litert = pytest.importorskip("ai_edge_litert")
Made = Callable[[TfliteFile], int]


def window(operator: str, options: str, **more: Any) -> Made:
    def make(file: TfliteFile) -> int:
        own = file.input([1, 7, 6, 4])
        by_channel = operator == "DEPTHWISE_CONV_2D"
        shape = [1, 3, 2, 8] if by_channel else [5, 3, 2, 4]
        weights = file.weights(shape, 3 if by_channel else 0)
        if file.kind == "float32" and by_channel:
            bias = file.tensor([8], numbers=file.rng.standard_normal(8).astype(np.float32))
        else:
            bias = file.bias(own, weights)
        same = more.get("padding", 0) == 0
        high, wide = (4, 6) if same else (3, 5)
        result = file.value([1, high, wide, 8 if by_channel else 5])
        fields = {"strideH": 2, "strideW": 1, "padding": 0, "dilationHFactor": 1, "dilationWFactor": 1} | more
        if by_channel:
            fields["depthMultiplier"] = 2
        file.add(operator, [own, weights, bias], [result], options, **fields)
        return result

    return make


def pool(operator: str, padding: int, **more: Any) -> Made:
    def make(file: TfliteFile) -> int:
        own = file.input([1, 7, 6, 3])
        shape = [1, 4, 3, 3] if padding == 0 else [1, 3, 3, 3]
        # A pool keeps scale and zero point.
        number = len(file.graph.tensors)
        result = file.value(shape)
        file.graph.tensors[number].quantization = file.graph.tensors[own].quantization
        fields = {"filterHeight": 3, "filterWidth": 2, "strideH": 2, "strideW": 2, "padding": padding}
        file.add(operator, [own], [result], "Pool2DOptions", **fields, **more)
        return result

    return make


def connected(*, keeps: bool = False, bias: bool = True) -> Made:
    def make(file: TfliteFile) -> int:
        own = file.input([1, 3, 8] if keeps else [2, 8])
        weights = file.weights([6, 8], 0)
        if file.kind != "float32":  # one scale for all: LiteRT's reference kernels have it in all versions
            quantised = file.graph.tensors[weights].quantization
            quantised.scale, quantised.zeroPoint = quantised.scale[:1], [0]
        reads = [own, weights]
        if bias and file.kind == "float32":
            reads.append(file.bias(own, weights))
        elif bias:
            scale = file.graph.tensors[own].quantization.scale[0] * quantised.scale[0]
            kind = "int32" if file.kind == "int8" else "int64"
            numbers = file.rng.integers(-2000, 2000, 6).astype(kind)
            reads.append(file.tensor([6], kind, scale=float(scale), numbers=numbers))
        else:
            reads.append(-1)
        result = file.value([1, 3, 6] if keeps else [2, 6])
        fields = {"keepNumDims": keeps, "fusedActivationFunction": 1}
        file.add("FULLY_CONNECTED", reads, [result], "FullyConnectedOptions", **fields)
        return result

    return make


def of_two(operator: str, options: str, other: list[int], **more: Any) -> Made:
    def make(file: TfliteFile) -> int:
        one, two, result = file.input([1, 3, 4, 2]), file.input(other), file.value([1, 3, 4, 2])
        file.add(operator, [one, two], [result], options, **more)
        return result

    return make


def of_one(operator: str, options: str = "", shape: tuple[int, ...] = (1, 3, 4, 2), **more: Any) -> Made:
    def make(file: TfliteFile) -> int:
        own, result = file.input(shape), file.value(shape)
        if file.kind == "int8" and operator in ("LOGISTIC", "TANH", "SOFTMAX"):
            scale, zero = (1 / 128, 0) if operator == "TANH" else (1 / 256, -128)
            told = file.graph.tensors[result].quantization
            told.scale, told.zeroPoint = [scale], [zero]
        file.add(operator, [own], [result], options, **more)
        return result

    return make


def alike(file: TfliteFile, own: int, shape: list[int]) -> int:
    """Return a tensor with the scale of another."""
    result = file.value(shape)
    file.graph.tensors[result].quantization = file.graph.tensors[own].quantization
    return result


def moved(
    operator: str, given: list[int], output: list[int], *values: int, options: str = "", **more: Any
) -> Made:
    def make(file: TfliteFile) -> int:
        own = file.input(given)
        result = alike(file, own, output)
        reads = [own, file.integers(*values)] if values else [own]
        file.add(operator, reads, [result], options, **more)
        return result

    return make


def padded(file: TfliteFile) -> int:
    own = file.input([1, 3, 4, 2])
    result = alike(file, own, [1, 6, 5, 2])
    pads = np.array([[0, 0], [1, 2], [0, 1], [0, 0]], np.int32)
    file.add("PAD", [own, file.tensor([4, 2], "int32", numbers=pads)], [result], "PadOptions")
    return result


def reduced(operator: str, *, keeps: bool) -> Made:
    def make(file: TfliteFile) -> int:
        own = file.input([1, 3, 4, 5])
        shape = [1, 1, 1, 5] if keeps else [1, 5]
        result = file.value(shape) if operator in ("MEAN", "SUM") else alike(file, own, shape)
        file.add(operator, [own, file.integers(1, 2)], [result], "ReducerOptions", keepDims=keeps)
        return result

    return make


def joined(file: TfliteFile) -> int:
    one = file.input([1, 3, 4, 2])
    two = alike(file, one, [1, 3, 4, 5])
    file.graph.inputs.append(two)
    result = alike(file, one, [1, 3, 4, 7])
    file.add("CONCATENATION", [one, two], [result], "ConcatenationOptions", axis=3)
    return result


def strided(file: TfliteFile) -> int:
    own = file.input([1, 6, 5, 3])
    result = alike(file, own, [1, 2, 5, 2])
    reads = [own, file.integers(0, 1, 0, 1), file.integers(1, 5, 0, 3), file.integers(1, 2, 1, 1)]
    file.add("STRIDED_SLICE", reads, [result], "StridedSliceOptions", endMask=0b0100)
    return result


def split(file: TfliteFile) -> int:
    own = file.input([1, 3, 2, 6])
    results = [alike(file, own, [1, 3, 2, 3]) for _ in range(2)]
    axis = file.tensor([], "int32", numbers=np.array(3, np.int32))
    file.add("SPLIT", [axis, own], results, "SplitOptions", numSplits=2)
    return results[1]


def transposed(file: TfliteFile) -> int:
    own = file.input([1, 3, 4, 2])
    weights, result = file.weights([5, 3, 3, 2], 0), file.value([1, 6, 8, 5])
    fields = {"strideH": 2, "strideW": 2, "padding": 0}
    file.add(
        "TRANSPOSE_CONV",
        [file.integers(1, 6, 8, 5), weights, own],
        [result],
        "TransposeConvOptions",
        **fields,
    )
    return result


def product(file: TfliteFile) -> int:
    one, two, result = file.input([2, 3, 4]), file.input([2, 5, 4]), file.value([2, 3, 5])
    file.add("BATCH_MATMUL", [one, two], [result], "BatchMatMulOptions", adjY=True)
    return result


def network(file: TfliteFile) -> int:
    """Two convolutions, of which one is added to the other, an average and a product."""
    own = file.input([1, 8, 8, 4])
    maps = []
    for source in (own, own):
        weights, result = file.weights([4, 3, 3, 4], 0), file.value([1, 8, 8, 4])
        fields = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
        reads = [source, weights, file.bias(source, weights)]
        file.add("CONV_2D", reads, [result], "Conv2DOptions", fusedActivationFunction=1, **fields)
        maps.append(result)
    total = file.value([1, 8, 8, 4])
    file.add("ADD", maps, [total], "AddOptions", fusedActivationFunction=1)
    mean = alike(file, total, [1, 1, 1, 4])
    fields = {"filterHeight": 8, "filterWidth": 8, "strideH": 8, "strideW": 8, "padding": 1}
    file.add("AVERAGE_POOL_2D", [total], [mean], "Pool2DOptions", **fields)
    flat = alike(file, mean, [1, 4])
    file.add("RESHAPE", [mean, file.integers(1, 4)], [flat], "ReshapeOptions", newShape=[1, 4])
    return flat


CASES: dict[str, Made] = {
    "conv": window("CONV_2D", "Conv2DOptions"),
    "conv valid relu6": window("CONV_2D", "Conv2DOptions", padding=1, fusedActivationFunction=3),
    "depthwise": window("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", fusedActivationFunction=1),
    "fully connected": connected(),
    "fully connected in rows": connected(keeps=True),
    "fully connected without bias": connected(bias=False),
    "average": pool("AVERAGE_POOL_2D", 0),
    "average valid": pool("AVERAGE_POOL_2D", 1, fusedActivationFunction=1),
    "largest": pool("MAX_POOL_2D", 0),
    "sum": of_two("ADD", "AddOptions", [1, 3, 4, 2], fusedActivationFunction=1),
    "sum of channels": of_two("ADD", "AddOptions", [1, 1, 1, 2]),
    "difference": of_two("SUB", "SubOptions", [1, 3, 4, 2]),
    "product of values": of_two("MUL", "MulOptions", [1, 1, 1, 2], fusedActivationFunction=3),
    "softmax": of_one("SOFTMAX", "SoftmaxOptions", (2, 6), beta=1.0),
    "softmax scaled": of_one("SOFTMAX", "SoftmaxOptions", (2, 6), beta=0.5),
    "logistic": of_one("LOGISTIC"),
    "tanh": of_one("TANH"),
    "relu": of_one("RELU"),
    "relu6": of_one("RELU6"),
    "leaky": of_one("LEAKY_RELU", "LeakyReluOptions", alpha=0.2),
    "hard swish": of_one("HARD_SWISH", "HardSwishOptions"),
    "padded": padded,
    "mean": reduced("MEAN", keeps=False),
    "mean of planes": reduced("MEAN", keeps=True),
    "joined": joined,
    "strided": strided,
    "split": split,
    "reshape": moved("RESHAPE", [1, 3, 4, 2], [1, 24], 1, 24, options="ReshapeOptions"),
    "squeeze": moved("SQUEEZE", [1, 1, 1, 6], [1, 6], options="SqueezeOptions", squeezeDims=[1, 2]),
    "transpose": moved("TRANSPOSE", [1, 3, 4, 2], [1, 4, 3, 2], 0, 2, 1, 3, options="TransposeOptions"),
    "to space": moved(
        "DEPTH_TO_SPACE", [1, 2, 3, 8], [1, 4, 6, 2], options="DepthToSpaceOptions", blockSize=2
    ),
    "to depth": moved(
        "SPACE_TO_DEPTH", [1, 4, 6, 2], [1, 2, 3, 8], options="SpaceToDepthOptions", blockSize=2
    ),
    "nearest": moved(
        "RESIZE_NEAREST_NEIGHBOR", [1, 2, 3, 2], [1, 4, 6, 2], 4, 6, options="ResizeNearestNeighborOptions"
    ),
    "bilinear": moved("RESIZE_BILINEAR", [1, 2, 3, 2], [1, 4, 6, 2], 4, 6, options="ResizeBilinearOptions"),
    "transposed convolution": transposed,
    "product": product,
    "network": network,
}


def given(
    operator: str, options: str, shapes: list[list[int]], output: list[int], kind: str = "", **more: Any
) -> Made:
    """Return what adds an operator of several inputs, whose output has a type."""

    def make(file: TfliteFile) -> int:
        reads = [file.input(shape) for shape in shapes]
        result = file.tensor(output, kind)
        file.add(operator, reads, [result], options, **more)
        return result

    return make


def with_numbers(
    operator: str,
    shape: list[int],
    output: list[int],
    *numbers: Any,
    kind: str = "",
    options: str = "",
    **more: Any,
) -> Made:
    """Return what adds an operator with tensors of integers behind its input."""

    def make(file: TfliteFile) -> int:
        arrays = [np.array(each, np.int32) for each in numbers]
        reads = [file.input(shape), *(file.tensor(each.shape, "int32", numbers=each) for each in arrays)]
        result = file.tensor(output, kind)
        file.add(operator, reads, [result], options, **more)
        return result

    return make


def chosen(operator: str, condition: list[int]) -> Made:
    def make(file: TfliteFile) -> int:
        one, other = file.input([2, 3, 4]), file.input([2, 3, 4])
        limits, holds = file.input(condition), file.tensor(condition, "bool")
        zeros = file.tensor([1], numbers=np.zeros(1, np.float32))
        file.add("GREATER", [limits, zeros], [holds], "GreaterOptions")
        result = file.value([2, 3, 4])
        file.add(operator, [holds, one, other], [result])
        return result

    return make


def truths(file: TfliteFile) -> int:
    """Comparisons, and what combines their truth values."""
    one, other = file.input([2, 5]), file.input([2, 5])
    names = ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
    found = [file.tensor([2, 5], "bool") for _ in names]
    for name, result in zip(names, found, strict=True):
        file.add(name, [one, other], [result])
    last = found[0]
    for number, each in enumerate(found[1:]):
        result = file.tensor([2, 5], "bool")
        file.add(("LOGICAL_AND", "LOGICAL_OR")[number % 2], [last, each], [result])
        last = result
    result = file.tensor([2, 5], "bool")
    file.add("LOGICAL_NOT", [last], [result])
    return result


def largest(file: TfliteFile) -> int:
    own, values, places = file.input([3, 6]), file.value([3, 2]), file.tensor([3, 2], "int32")
    file.add("TOPK_V2", [own, file.tensor([], "int32", numbers=np.array(2, np.int32))], [values, places])
    found, result = file.tensor([3, 2], "float32"), file.value([3, 2])
    file.add("CAST", [places], [found])
    file.add("ADD", [values, found], [result], "AddOptions")
    return result


def with_halves(file: TfliteFile) -> int:
    """Weights that are stored as floats of 16 bits, of which an operator makes others."""
    own = file.input([1, 5, 6, 3])
    halves = file.tensor([4, 3, 3, 3], "float16", numbers=file.rng.standard_normal((4, 3, 3, 3)).astype("f2"))
    weights, result = file.tensor([4, 3, 3, 3]), file.value([1, 5, 6, 4])
    file.add("DEQUANTIZE", [halves], [weights])
    bias = file.tensor([4], numbers=file.rng.standard_normal(4).astype(np.float32))
    fields = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    file.add("CONV_2D", [own, weights, bias], [result], "Conv2DOptions", **fields)
    return result


def with_integers(file: TfliteFile) -> int:
    """Weights that are stored as integers with scales, turned and reshaped before they are used."""
    own, scales = file.input([2, 6]), [0.1, 0.2, 0.3]
    numbers = file.rng.integers(-127, 128, (3, 2, 4)).astype(np.int8)
    stored = file.tensor([3, 2, 4], "int8", scale=scales, axis=0, numbers=numbers)
    floats, turned, weights = (file.tensor(shape) for shape in ([3, 2, 4], [4, 3, 2], [4, 6]))
    file.add("DEQUANTIZE", [stored], [floats])
    file.add("TRANSPOSE", [floats, file.integers(2, 0, 1)], [turned], "TransposeOptions")
    file.add("RESHAPE", [turned, file.integers(4, 6)], [weights], "ReshapeOptions", newShape=[4, 6])
    result = file.value([2, 4])
    file.add("FULLY_CONNECTED", [own, weights, -1], [result], "FullyConnectedOptions")
    return result


def sparse(*, blocks: bool) -> Made:
    """Return what adds a product with sparse weights, single numbers or blocks of two by two."""

    def make(file: TfliteFile) -> int:
        schema = file.schema
        whole = np.zeros((4, 6), np.float32)
        there = [(0, 1), (0, 2), (2, 0)] if blocks else [(0, 1), (0, 5), (2, 0), (3, 3)]
        values = []
        for row, column in there:
            if blocks and row:
                row, column = 2, 0
            own = file.rng.standard_normal((2, 2) if blocks else ()).astype(np.float32)
            if blocks:
                whole[row : row + 2, 2 * column : 2 * column + 2] = own
            else:
                whole[row, column] = own
            values += own.ravel().tolist()
        stored = file.tensor([4, 6], numbers=np.array(values, np.float32))
        told = file.graph.tensors[stored].sparsity = schema.SparsityParametersT()
        told.traversalOrder, told.blockMap = ([0, 1, 2, 3], [0, 1]) if blocks else ([0, 1], [])

        def level(size: int = 0, segments: Any = None, indices: Any = None) -> Any:
            made = schema.DimensionMetadataT()
            made.format, made.denseSize = int(segments is not None), size
            if segments is not None:
                made.arraySegmentsType = made.arrayIndicesType = schema.SparseIndexVector.Uint8Vector
                made.arraySegments, made.arrayIndices = schema.Uint8VectorT(), schema.Uint8VectorT()
                made.arraySegments.values, made.arrayIndices.values = segments, indices
            return made

        if blocks:
            told.dimMetadata = [level(2), level(0, [0, 2, 3], [1, 2, 0]), level(2), level(2)]
        else:
            told.dimMetadata = [level(4), level(0, [0, 2, 2, 3, 4], [1, 5, 0, 3])]
        own, weights, result = file.input([2, 6]), file.tensor([4, 6]), file.value([2, 4])
        file.add("DENSIFY", [stored], [weights], "DensifyOptions")
        file.add("FULLY_CONNECTED", [own, weights, -1], [result], "FullyConnectedOptions")
        return result

    return make


def dilated(operator: str, options: str) -> Made:
    """Return what adds a convolution of each second row and third column as TensorFlow writes it."""

    def make(file: TfliteFile) -> int:
        own = file.input([1, 7, 8, 2])
        by_channel = operator == "DEPTHWISE_CONV_2D"
        parts, taken = file.value([6, 5, 4, 2]), file.value([6, 3, 2, 2])
        block, pads, crops = ([2, 3], [[2, 1], [2, 2]], [[0, 1], [0, 0]])
        told = [file.tensor(np.shape(each), "int32", numbers=np.array(each, np.int32))
                for each in (block, pads, crops)]  # fmt: skip
        weights = file.weights([1, 3, 3, 2] if by_channel else [2, 3, 3, 2], 0)
        bias = file.tensor([2], numbers=file.rng.standard_normal(2).astype(np.float32))
        fields: dict[str, Any] = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
        fields |= {"padding": 1, "fusedActivationFunction": 1} | (
            {"depthMultiplier": 1} if by_channel else {}
        )
        file.add("SPACE_TO_BATCH_ND", [own, *told[:2]], [parts], "SpaceToBatchNDOptions")
        file.add(operator, [parts, weights, bias], [taken], options, **fields)
        result = file.value([1, 5, 6, 2])
        file.add("BATCH_TO_SPACE_ND", [taken, told[0], told[2]], [result], "BatchToSpaceNDOptions")
        return result

    return make


def recurrent(*, major: bool) -> Made:
    """Return what adds an LSTM as Keras' are converted."""

    def weights(file: TfliteFile, *shape: int) -> int:
        number = file.weights(shape, 0)
        if file.kind != "float32":
            told = file.graph.tensors[number].quantization
            told.scale, told.zeroPoint = told.scale[:1], [0]
        return number

    def make(file: TfliteFile) -> int:
        steps, features, hidden = 4, 3, 5
        images = 2 if major else 1
        own = file.input([steps, images, features] if major else [images, steps, features])
        given = [weights(file, hidden, width) for width in 4 * [features] + 4 * [hidden]]
        biases = [weights(file, hidden) for _ in range(4)]
        kept = [file.value([images, hidden]) for _ in range(2)]
        for number in kept:
            file.graph.tensors[number].isVariable = True
        result = file.value([steps, images, hidden] if major else [images, steps, hidden])
        reads = [own, *given, -1, -1, -1, *biases, -1, -1, *kept, -1, -1, -1, -1]
        fields = {"fusedActivationFunction": 4, "timeMajor": major}
        file.add(
            "UNIDIRECTIONAL_SEQUENCE_LSTM", reads, [result], "UnidirectionalSequenceLSTMOptions", **fields
        )
        return result

    return make


IN_FLOATS: dict[str, Made] = {
    "dilated": dilated("CONV_2D", "Conv2DOptions"),
    "dilated by channel": dilated("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions"),
    "recurrent": recurrent(major=False),
    "recurrent, time first": recurrent(major=True),
    "truths": truths,
    "selected": chosen("SELECT_V2", [2, 1, 4]),
    "selected along the first axis": chosen("SELECT", [2]),
    "square": of_one("SQUARE"),
    "squared difference": of_two("SQUARED_DIFFERENCE", "", [1, 3, 4, 2]),
    "sign": of_one("SIGN"),
    "log of softmax": of_one("LOG_SOFTMAX", "LogSoftmaxOptions", (2, 6)),
    "floor of quotient": of_two("FLOOR_DIV", "", [1, 1, 1, 2]),
    "mirrored": with_numbers("MIRROR_PAD", [3, 4], [6, 6], [[1, 2], [0, 2]], options="MirrorPadOptions"),
    "normalised": of_one("L2_NORMALIZATION", "L2NormOptions"),
    "sum of several": given("ADD_N", "AddNOptions", [[2, 3], [2, 3], [2, 3]], [2, 3]),
    "where it is largest": with_numbers(
        "ARG_MAX", [2, 3, 4], [2, 4], 1, kind="int32", options="ArgMaxOptions", outputType=2
    ),
    "where it is smallest": with_numbers(
        "ARG_MIN", [2, 3, 4], [2, 3], -1, kind="int64", options="ArgMinOptions", outputType=4
    ),
    "tiles": with_numbers("TILE", [2, 3], [4, 9], [2, 3]),
    "spread": with_numbers("BROADCAST_TO", [2, 1, 3], [2, 4, 3], [2, 4, 3]),
    "gathered by places": with_numbers("GATHER_ND", [3, 4, 2], [2, 2], [[0, 3], [2, 1]]),
    "sums before": with_numbers("CUMSUM", [3, 4], [3, 4], 1, options="CumsumOptions", exclusive=True),
    "largest values": largest,
    "product along an axis": with_numbers(
        "REDUCE_PROD", [2, 3, 4], [2, 4], [1], options="ReducerOptions"
    ),
    "backwards": with_numbers("REVERSE_V2", [2, 3, 4], [2, 3, 4], [1]),
    "halves": with_halves,
    "integers": with_integers,
    "sparse": sparse(blocks=False),
    "sparse in blocks": sparse(blocks=True),
}  # fmt: skip
"""Operators that are compared in floats alone."""

ONE_APART = 1
"""LiteRT scales in fixed point and rounds twice, onnxruntime in floating point: half a unit each."""


@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, kind) for name in CASES for kind in ("float32", "int8")), *((n, "float32") for n in IN_FLOATS)],
)
def test_what_is_read_computes_what_litert_computes(name: str, kind: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    file = TfliteFile(kind, seed=len(name))
    path = file.save(tmp_path / "network.tflite", (CASES | IN_FLOATS)[name](file))
    model = tflite.translated(path, {})
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    for seed in range(3):
        given = drawn(path, seed)
        feeds = {
            each.name: values.transpose(0, 3, 1, 2) if values.ndim == 4 else values
            for each, values in zip(session.get_inputs(), given, strict=True)
        }
        for theirs, ours in zip(by_litert(path, given), session.run(None, feeds), strict=True):
            ours = ours.transpose(0, 2, 3, 1) if ours.ndim == 4 else ours
            assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
            if ours.dtype.kind == "f":
                np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
            else:
                assert np.abs(ours.astype(np.int64) - theirs.astype(np.int64)).max() <= ONE_APART


@pytest.mark.parametrize("kind", ["float32", "int8", "int16"])
@pytest.mark.parametrize("name", CASES)
def test_every_operator_is_a_layer(name: str, kind: str, tmp_path: Path) -> None:
    file = TfliteFile(kind)
    path = file.save(tmp_path / "network.tflite", CASES[name](file))
    found = importing.network(path)
    assert found.layers and not any(layer.kind == "opaque" for layer in found.layers)


def test_states_in_integers_are_planned_in_floats(tmp_path: Path) -> None:
    file = TfliteFile("int8")
    path = file.save(tmp_path / "network.tflite", recurrent(major=True)(file))
    (layer,) = (each for each in importing.network(path).layers if getattr(each, "op", "") == "lstm")
    assert layer.recurrence is None  # of two sequences
    file = TfliteFile("int8")
    path = file.save(tmp_path / "network.tflite", recurrent(major=False)(file))
    (layer,) = (each for each in importing.network(path).layers if getattr(each, "op", "") == "lstm")
    assert (layer.recurrence.steps, layer.recurrence.hidden) == (4, 5)


@pytest.mark.parametrize("name", IN_FLOATS)
def test_operators_in_floats_are_layers(name: str, tmp_path: Path) -> None:
    file = TfliteFile()
    path = file.save(tmp_path / "network.tflite", IN_FLOATS[name](file))
    found = importing.network(path)
    assert found.layers and not any(layer.kind == "opaque" for layer in found.layers)


def test_mediapipe_transposes_convolutions_with_a_bias(tmp_path: Path) -> None:
    """Its own operator computes what TFLite's does, whose inputs and options are others."""
    onnxruntime = pytest.importorskip("onnxruntime")
    found = []
    for custom in (False, True):
        file = TfliteFile(seed=5)
        own = file.input([1, 3, 4, 2])
        weights, bias, result = file.weights([5, 3, 3, 2], 0), file.weights([5], 0), file.value([1, 6, 8, 5])
        if custom:
            file.add("CUSTOM", [own, weights, bias], [result])
            file.codes[-1].customCode = "Convolution2DTransposeBias"
            file.graph.operators[-1].customOptions = list(np.array([1, 2, 2], "<i4").tobytes())
        else:
            reads = [file.integers(1, 6, 8, 5), weights, own, bias]
            fields = {"strideH": 2, "strideW": 2, "padding": 0}
            file.add("TRANSPOSE_CONV", reads, [result], "TransposeConvOptions", **fields)
        path = file.save(tmp_path / f"{custom}.tflite", result)
        assert not any(layer.kind == "opaque" for layer in importing.network(path).layers)
        session = onnxruntime.InferenceSession(tflite.translated(path, {}).SerializeToString())
        rng = np.random.default_rng(0)
        given = {each.name: rng.standard_normal(each.shape).astype("f") for each in session.get_inputs()}
        found += session.run(None, given)
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_detections_are_functions_of_all_boxes(tmp_path: Path) -> None:
    """How many are given is fixed by the file; anchors are its numbers."""
    file = TfliteFile()
    boxes, scores, anchors = file.input([1, 20, 4]), file.input([1, 20, 3]), file.weights([20, 4], 0)
    found = [file.value(shape) for shape in ([1, 5, 4], [1, 5], [1, 5], [1])]
    file.add("CUSTOM", [boxes, scores, anchors], found)
    file.codes[-1].customCode = "TFLite_Detection_PostProcess"
    network = importing.network(file.save(tmp_path / "network.tflite", *found))
    functions = [layer for layer in network.layers if layer.kind == "function"]
    assert [layer.op for layer in functions] == 4 * ["detection_post_process"]
    assert [layer.parameters for layer in functions] == [80, 0, 0, 0]


def test_variables_are_inputs_and_outputs(tmp_path: Path) -> None:
    """A state is read, and then given what it was with something added: both are moved in each frame."""
    file = TfliteFile()
    own = file.input([1, 4])
    handles = [file.tensor([], "resource") for _ in range(2)]
    for handle in handles:  # both are of one variable
        file.add("VAR_HANDLE", [], [handle], "VarHandleOptions", container="", sharedName="state")
    before, after, again, result = (file.value([1, 4]) for _ in range(4))
    file.add("READ_VARIABLE", [handles[0]], [before])
    file.add("ADD", [own, before], [after], "AddOptions")
    file.add("ASSIGN_VARIABLE", [handles[1], after], [])
    file.add("READ_VARIABLE", [handles[0]], [again])
    file.add("MUL", [own, again], [result], "MulOptions")
    path = file.save(tmp_path / "network.tflite", result)
    found = importing.network(path)
    kinds = [layer.kind for layer in found.layers]
    assert sorted(kinds) == ["add", "input", "mul"] and len(found.results) == 2
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(tflite.translated(path, {}).SerializeToString())
    frames, state = [drawn(path, seed)[0] for seed in range(2)], np.zeros((1, 4), np.float32)
    for frame in frames:
        names = [each.name for each in session.get_inputs()]
        found_, state = session.run(None, dict(zip(names, [frame, state], strict=True)))
    np.testing.assert_allclose(found_, frames[1] * (frames[0] + frames[1]), rtol=1e-6)


def content() -> bytes:
    """Return a small file."""
    file = TfliteFile("int8")
    return file.content(network(file))


@pytest.mark.parametrize("seed", range(examples(2000, 30)))
def test_a_damaged_file_is_refused_or_read(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    damaged = bytearray(content())
    if seed % 4 == 0:
        del damaged[rng.randint(0, len(damaged)) :]
    else:
        for _ in range(rng.choice([1, 1, 4, 40])):
            damaged[rng.randrange(len(damaged))] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
    path = tmp_path / "network.tflite"
    path.write_bytes(bytes(damaged))
    with suppress(InputError):
        importing.network(path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda made: made.graph.operators[0].inputs.__setitem__(0, 99), "is no number of the"),
        (lambda made: setattr(made.graph.tensors[0].quantization, "scale", [-1.0]), "positive and finite"),
        (lambda made: setattr(made.buffers[1], "data", made.buffers[1].data[:-1]), "has 144 bytes"),
        (lambda made: setattr(made.codes[0], "builtinCode", 5000), "tflite.BUILTIN_5000"),
    ],
)
def test_what_is_wrong_is_named(change: Callable[[TfliteFile], None], told: str, tmp_path: Path) -> None:
    file = TfliteFile("int8")
    output = network(file)
    change(file)
    path = file.save(tmp_path / "network.tflite", output)
    with pytest.raises(InputError, match=told) as refused:
        importing.network(path)
    assert str(path) in str(refused.value)


def test_other_files_and_shapes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "network.tflite"
    path.write_bytes(b"no network at all")
    with pytest.raises(InputError, match="TFL3"):
        importing.network(path)
    path.write_bytes(content())
    with pytest.raises(InputError, match="t0=1,8,8,4"):
        importing.network(path, {"t0": (1, 16, 16, 4)})
    assert importing.network(path, {"t0": (1, 8, 8, 4)}).layers


def test_unknown_operators_are_kept_if_asked(tmp_path: Path) -> None:
    file = TfliteFile()
    own, result = file.input([1, 4, 4, 2]), file.value([1, 4, 4, 2])
    file.add("L2_POOL_2D", [own], [result], "Pool2DOptions")
    path = file.save(tmp_path / "network.tflite", result)
    with pytest.raises(InputError, match="L2_POOL_2D"):
        importing.network(path)
    (layer,) = (one for one in importing.network(path, allow_unknown=True).layers if one.kind == "opaque")
    assert layer.op.endswith("L2_POOL_2D")


def test_maps_of_a_network_are_read_as_they_lie(tmp_path: Path) -> None:
    """All channels of a pixel lie side by side in TFLite and in plans: nothing is moved at the ends."""
    file = TfliteFile("int8")
    path = file.save(tmp_path / "network.tflite", CASES["conv"](file))
    (layer,) = importing.network(path).layers
    assert (layer.kind, layer.input, layer.kernels, layer.macs) == ("conv", (4, 7, 6), 5, 5 * 4 * 6 * 24)
