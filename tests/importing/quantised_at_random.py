"""Quantised TFLite files at random: an operator of any shape and scale, or some of them in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.importing.tflite_files import TfliteFile

Draw = Callable[[TfliteFile, int], int]
"""Adds an operator that reads a tensor, and returns the tensor that it gives."""


def shape_of(file: TfliteFile, tensor: int) -> list[int]:
    """Return the shape of a tensor."""
    return list(file.graph.tensors[tensor].shape)


def scale_of(file: TfliteFile, tensor: int) -> float:
    """Return the scale of a tensor."""
    return float(file.graph.tensors[tensor].quantization.scale[0])


def value(file: TfliteFile, shape: Sequence[int], scale: float | None = None) -> int:
    """Add a tensor with any zero point, and any scale if none is asked for."""
    zero = int(file.rng.integers(-128, 128)) if file.kind == "int8" else 0
    drawn = float(10 ** file.rng.uniform(-4, 1)) if scale is None else scale
    return file.tensor(shape, scale=drawn, zero=zero)


def alike(file: TfliteFile, own: int, shape: Sequence[int]) -> int:
    """Add a tensor with the scale of another."""
    made = file.tensor(shape, scale=1.0)
    file.graph.tensors[made].quantization = file.graph.tensors[own].quantization
    return made


def after_window(file: TfliteFile, sizes: Sequence[int], extent: Sequence[int], stride: Sequence[int]) -> Any:
    """Return a padding that leaves outputs, and how many rows and columns of them there are."""
    fits = all(size >= each for size, each in zip(sizes, extent, strict=True))
    padding = int(file.rng.integers(2)) if fits else 0
    shrinks = extent if padding else (1, 1)
    outputs = [
        (size - each) // step + 1 for size, each, step in zip(sizes, shrinks, stride, strict=True)
    ]  # as many as fit, or rounded up
    return padding, outputs


def activation(file: TfliteFile) -> int:
    """Return a fused rectifier, or none."""
    return int(file.rng.choice([0, 0, 1, 2, 3]))


def convolution(file: TfliteFile, own: int) -> int:
    """Add a convolution, in groups or with a number of outputs for each channel."""
    rng, (_, rows, columns, channels) = file.rng, shape_of(file, own)
    by_channel = bool(rng.integers(2))
    kernel, stride = rng.integers(1, 5, 2).tolist(), rng.integers(1, 4, 2).tolist()
    dilation = rng.integers(1, 3, 2).tolist() if stride == [1, 1] else [1, 1]
    extent = [(size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True)]
    padding, outputs = after_window(file, (rows, columns), extent, stride)
    if by_channel:
        depth = channels * int(rng.integers(1, 4))
        shape, axis, inputs = [1, *kernel, depth], 3, 1
    else:
        groups = int(rng.choice([each for each in (1, 2, 3) if channels % each == 0]))
        depth, inputs = groups * int(rng.integers(1, 7)), channels // groups
        shape, axis = [depth, *kernel, inputs], 0
    weights = file.weights(shape, axis)
    reads = [own, weights, file.bias(own, weights)]
    result = value(file, [1, *outputs, depth], _spread(file, own, weights, kernel[0] * kernel[1] * inputs))
    fields = {"strideH": stride[0], "strideW": stride[1], "padding": padding}
    fields |= {"dilationHFactor": dilation[0], "dilationWFactor": dilation[1]}
    fields["fusedActivationFunction"] = activation(file)
    if by_channel:
        fields["depthMultiplier"] = depth // channels
        file.add("DEPTHWISE_CONV_2D", reads, [result], "DepthwiseConv2DOptions", **fields)
    else:
        file.add("CONV_2D", reads, [result], "Conv2DOptions", **fields)
    return result


def _spread(file: TfliteFile, own: int, weights: int, terms: int) -> float:
    """Return a scale of results that uses most integers, or few of them, or saturates."""
    limit = 127 if file.kind == "int8" else 32767
    largest = scale_of(file, own) * scale_of(file, weights) * limit * 70 * terms**0.5
    return float(largest / limit * 10 ** file.rng.uniform(-1.0, 0.7))


def connected(file: TfliteFile, own: int) -> int:
    """Add a product with weights, which have one scale or one for each output."""
    rng, shape = file.rng, shape_of(file, own)
    depth, outputs = shape[-1], int(rng.integers(1, 12))
    weights = file.weights([outputs, depth], 0)
    bias = file.bias(own, weights)
    if rng.integers(2):
        for number in (weights, bias):
            quantised = file.graph.tensors[number].quantization
            quantised.scale, quantised.zeroPoint = quantised.scale[:1], quantised.zeroPoint[:1]
    result = value(file, [*shape[:-1], outputs], _spread(file, own, weights, depth))
    fields = {"keepNumDims": True, "fusedActivationFunction": activation(file)}
    file.add("FULLY_CONNECTED", [own, weights, bias], [result], "FullyConnectedOptions", **fields)
    return result


def pool(file: TfliteFile, own: int) -> int:
    """Add a pool."""
    rng, (_, rows, columns, channels) = file.rng, shape_of(file, own)
    kernel, stride = rng.integers(1, 5, 2).tolist(), rng.integers(1, 4, 2).tolist()
    padding, outputs = after_window(file, (rows, columns), kernel, stride)
    result = alike(file, own, [1, *outputs, channels])
    fields = {"filterHeight": kernel[0], "filterWidth": kernel[1], "padding": padding}
    fields |= {"strideH": stride[0], "strideW": stride[1], "fusedActivationFunction": activation(file)}
    kind = str(rng.choice(["AVERAGE_POOL_2D", "MAX_POOL_2D"]))
    file.add(kind, [own], [result], "Pool2DOptions", **fields)
    return result


def of_two(file: TfliteFile, own: int) -> int:
    """Add a sum, difference or product with another input, which may be repeated."""
    rng, shape = file.rng, shape_of(file, own)
    other_shape = [size if rng.integers(3) else 1 for size in shape]
    kind, options = [("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions")][rng.integers(3)]
    near, scale = float(10 ** rng.uniform(-2, 2)), scale_of(file, own)
    if kind == "MUL":  # of a number near 1
        other, largest = (
            value(file, other_shape, near / (127 if file.kind == "int8" else 32767)),
            near * scale,
        )
    else:
        other, largest = value(file, other_shape, near * scale), max(near, 1) * scale
    file.graph.inputs.append(other)
    result = value(file, shape, largest * float(10 ** rng.uniform(-1, 1)))
    reads = [own, other] if rng.integers(2) else [other, own]
    fields = {"fusedActivationFunction": activation(file)}
    file.add(kind, reads, [result], options, **fields)
    return result


def mean(file: TfliteFile, own: int) -> int:
    """Add a mean over some axes."""
    rng, shape = file.rng, shape_of(file, own)
    axes = sorted(rng.choice(range(1, len(shape)), int(rng.integers(1, len(shape))), replace=False).tolist())
    left = [1 if axis in axes else size for axis, size in enumerate(shape)]
    result = value(file, left, scale_of(file, own) * float(10 ** rng.uniform(-1, 1)))
    file.add("MEAN", [own, file.integers(*axes)], [result], "ReducerOptions", keepDims=True)
    return result


def softmax(file: TfliteFile, own: int) -> int:
    """Add a softmax along the last axis."""
    shape = shape_of(file, own)
    scale, zero = (1 / 256, -128) if file.kind == "int8" else (1 / 32768, 0)
    result = file.tensor(shape, scale=scale, zero=zero)
    file.add("SOFTMAX", [own], [result], "SoftmaxOptions", beta=float(file.rng.choice([1.0, 0.5, 2.0])))
    return result


def function(file: TfliteFile, own: int) -> int:
    """Add a function of single values."""
    rng, shape = file.rng, shape_of(file, own)
    kinds = ["RELU", "RELU6", "LEAKY_RELU", "QUANTIZE", "LOGISTIC", "TANH"]
    if file.kind == "int8":
        kinds += ["HARD_SWISH", "RELU_N1_TO_1"]
    kind = str(rng.choice(kinds))
    if kind in ("LOGISTIC", "TANH") and scale_of(file, own) > 1:
        kind = "RELU"  # steps of 16-bit integers have to be small
    if kind in ("LOGISTIC", "TANH") and file.kind == "int16":
        result = file.tensor(shape, scale=1 / 32768)
    elif kind == "LOGISTIC":
        result = file.tensor(shape, scale=1 / 256, zero=-128)
    elif kind == "TANH":
        result = file.tensor(shape, scale=1 / 128, zero=0)
    elif kind == "HARD_SWISH":  # which LiteRT does not take to finer scales
        result = value(file, shape, scale_of(file, own) * float(rng.uniform(0.5, 3)))
    elif kind in ("RELU6", "RELU_N1_TO_1"):  # whose kernels for microcontrollers keep the scale
        result = alike(file, own, shape)
    else:
        result = value(file, shape, scale_of(file, own) * float(10 ** rng.uniform(-1, 1)))
    options = {"LEAKY_RELU": "LeakyReluOptions"}.get(kind, "")
    more = {"alpha": float(rng.uniform(-0.5, 1.5))} if options else {}
    file.add(kind, [own], [result], options, **more)
    return result


def border(file: TfliteFile, own: int) -> int:
    """Add a border."""
    rng, shape = file.rng, shape_of(file, own)
    sides = rng.integers(0, 3, (len(shape), 2)).astype("int32")
    sides[0] = 0
    result = alike(file, own, [size + int(each.sum()) for size, each in zip(shape, sides, strict=True)])
    file.add("PAD", [own, file.tensor(sides.shape, "int32", numbers=sides)], [result], "PadOptions")
    return result


def transposed(file: TfliteFile, own: int) -> int:
    """Add a transposed convolution."""
    rng, (_, rows, columns, channels) = file.rng, shape_of(file, own)
    kernel, stride = rng.integers(1, 5, 2).tolist(), rng.integers(1, 4, 2).tolist()
    outputs, padding = int(rng.integers(1, 6)), int(rng.integers(2))
    weights = file.weights([outputs, *kernel, channels], 0)
    more = [(max(size, step) if padding else step) for size, step in zip(kernel, stride, strict=True)]
    sizes = [(rows - 1) * stride[0] + more[0], (columns - 1) * stride[1] + more[1]]
    result = value(file, [1, *sizes, outputs], _spread(file, own, weights, kernel[0] * channels))
    shape = file.integers(1, *sizes, outputs)
    reads = [shape, weights, own, file.bias(own, weights)]
    fields = {"strideH": stride[0], "strideW": stride[1], "padding": padding}
    file.add("TRANSPOSE_CONV", reads, [result], "TransposeConvOptions", **fields)
    return result


def matrices(file: TfliteFile, own: int) -> int:
    """Add a product with matrices of another input."""
    rng, (images, heads, rows, depth) = file.rng, shape_of(file, own)
    columns, first, second = int(rng.integers(1, 6)), bool(rng.integers(2)), bool(rng.integers(2))
    outer, inner = (depth, rows) if first else (rows, depth)
    other = value(file, [images, heads, *((columns, inner) if second else (inner, columns))])
    file.graph.inputs.append(other)
    limit = 127 if file.kind == "int8" else 32767
    largest = scale_of(file, own) * scale_of(file, other) * limit * inner**0.5
    result = value(file, [images, heads, outer, columns], largest * float(10 ** rng.uniform(-1, 1)))
    file.add("BATCH_MATMUL", [own, other], [result], "BatchMatMulOptions", adjX=first, adjY=second)
    return result


def of_one_scale(file: TfliteFile, own: int) -> int:
    """Add the larger of two inputs, a concatenation, or tensors beside each other, or rows of one."""
    rng, shape = file.rng, shape_of(file, own)
    kind = str(
        rng.choice(["MAXIMUM", "MINIMUM", "CONCATENATION", "PACK", "GATHER", "REDUCE_MAX", "REDUCE_MIN"])
    )
    axis = int(rng.integers(1, len(shape)))
    if kind == "GATHER":
        rows = rng.integers(0, shape[axis], int(rng.integers(1, 5)))
        result = alike(file, own, [*shape[:axis], len(rows), *shape[axis + 1 :]])
        file.add(kind, [own, file.integers(*rows.tolist())], [result], "GatherOptions", axis=axis)
        return result
    if kind in ("REDUCE_MAX", "REDUCE_MIN"):
        result = alike(file, own, [*shape[:axis], 1, *shape[axis + 1 :]])
        file.add(kind, [own, file.integers(axis)], [result], "ReducerOptions", keepDims=True)
        return result
    other = alike(file, own, shape)
    file.graph.inputs.append(other)
    if kind == "CONCATENATION":
        result = alike(file, own, [*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]])
        file.add(kind, [own, other], [result], "ConcatenationOptions", axis=axis)
    elif kind == "PACK":
        result = alike(file, own, [*shape[:axis], 2, *shape[axis:]])
        file.add(kind, [own, other], [result], "PackOptions", axis=axis, valuesCount=2)
    else:
        result = alike(file, own, shape)
        file.add(kind, [own, other], [result], "MaximumMinimumOptions")
    return result


def slopes(file: TfliteFile, own: int) -> int:
    """Add a rectifier with a slope for each channel; of 16 bits, where there is none, a border."""
    if file.kind == "int16":
        return border(file, own)
    rng, shape = file.rng, shape_of(file, own)
    numbers = rng.integers(-128, 128, (1, 1, shape[-1])).astype("int8")
    slope = file.tensor(numbers.shape, scale=float(rng.uniform(0.001, 0.02)), zero=5, numbers=numbers)
    result = value(file, shape, scale_of(file, own) * float(10 ** rng.uniform(-1, 1)))
    file.add("PRELU", [own, slope], [result])
    return result


def resized(file: TfliteFile, own: int) -> int:
    """Add a map in another size."""
    rng, shape = file.rng, shape_of(file, own)
    sizes, kind = rng.integers(1, 12, 2).tolist(), str(rng.choice(["Bilinear", "NearestNeighbor"]))
    result = alike(file, own, [1, *sizes, shape[-1]])
    fields = {"alignCorners": bool(rng.integers(2))}
    fields["halfPixelCenters"] = not fields["alignCorners"] and bool(rng.integers(2))
    name = {"Bilinear": "RESIZE_BILINEAR", "NearestNeighbor": "RESIZE_NEAREST_NEIGHBOR"}[kind]
    file.add(name, [own, file.integers(*sizes)], [result], f"Resize{kind}Options", **fields)
    return result


DRAWS: dict[str, Draw] = {
    "convolution": convolution,
    "connected": connected,
    "pool": pool,
    "of two": of_two,
    "mean": mean,
    "softmax": softmax,
    "function": function,
    "border": border,
    "transposed": transposed,
    "matrices": matrices,
    "of one scale": of_one_scale,
    "slopes": slopes,
    "resized": resized,
}


def map_of(file: TfliteFile) -> int:
    """Add an input that is a map."""
    sizes = file.rng.integers(1, 9, 3).tolist()
    own = value(file, [1, *sizes], float(10 ** file.rng.uniform(-3, 0)))
    file.graph.inputs.append(own)
    return own


def one_operator(kind: str, name: str, seed: int) -> tuple[TfliteFile, int]:
    """Return a file of one operator, and what it gives."""
    file = TfliteFile(kind, seed)
    return file, DRAWS[name](file, map_of(file))


def some_operators(kind: str, seed: int) -> tuple[TfliteFile, int]:
    """Return a file of some operators, each of which reads what the one before gives."""
    file = TfliteFile(kind, seed)
    own = map_of(file)
    names = ["convolution", "convolution", "pool", "of two", "function", "border"]
    for name in file.rng.choice(names, int(file.rng.integers(2, 7))):
        own = DRAWS[str(name)](file, own)
    if file.rng.integers(2):
        own = connected(file, mean(file, own))
    return file, own


def any_operators(kind: str, seed: int) -> tuple[TfliteFile, int]:
    """Return a file of some operators of all kinds, each of which reads what the one before gives."""
    file = TfliteFile(kind, seed)
    own = map_of(file)
    for _ in range(int(file.rng.integers(1, 5))):
        if len(shape_of(file, own)) != len("NHWC"):
            break
        own = DRAWS[str(file.rng.choice(list(DRAWS)))](file, own)
    return file, own
