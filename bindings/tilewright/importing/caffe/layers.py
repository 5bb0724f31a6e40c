"""Caffe's layers as ONNX operators: one function each, which adds the nodes that do the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from tilewright.importing.caffe.connections import CaffeLayer
from tilewright.importing.caffe.graph import Graph, Sizes, Unread
from tilewright.importing.caffe.windows import convolution, pooling


def sources(layer: CaffeLayer) -> list[Sizes | None]:
    """Return the shapes of what a layer without inputs gives, None where the file does not tell."""
    own = layer.message
    shapes: list[list[int]] = []
    if layer.type == "Input":
        shapes = [list(each.dim) for each in layer.parameters("input_param", "InputParameter").shape]
    elif layer.type == "DummyData":
        told = layer.parameters("dummy_data_param", "DummyDataParameter")
        shapes = [list(each.dim) for each in told.shape]
        sides = [list(each) for each in (told.num, told.channels, told.height, told.width)]
        if not shapes and all(sides):
            most = max(map(len, sides))
            shapes = [[side[min(at, len(side) - 1)] for side in sides] for at in range(most)]
    elif layer.type == "MemoryData":
        told = layer.parameters("memory_data_param", "MemoryDataParameter")
        shapes = [[told.batch_size, told.channels, told.height, told.width], [told.batch_size]]
    if len(shapes) not in (0, 1, len(own.top)):
        raise layer.error("shape", shapes, f"must be one, or one for each of its {len(own.top)} tops")
    known = shapes * len(own.top) if len(shapes) == 1 else shapes
    for shape in known:
        if not shape or any(size < 1 for size in shape):
            raise layer.error("shape", shape, "must have sizes of at least 1")
    return [tuple(shape) for shape in known] or [None] * len(own.top)


def axis_of(layer: CaffeLayer, field: str, axis: int, rank: int) -> int:
    """Return an axis counted from the first one; negative ones count from the end."""
    if not -rank <= axis < rank:
        raise layer.error(field, axis, f"must be from {-rank} to {rank - 1}; its bottom has {rank} axes")
    return axis % rank if axis < 0 else axis


def _inner_product(graph: Graph, layer: CaffeLayer) -> None:
    own, shape = layer.parameters("inner_product_param", "InnerProductParameter"), graph.shape(layer)
    axis = axis_of(layer, "inner_product_param.axis", own.axis, len(shape))
    if own.num_output < 1:
        raise layer.error("inner_product_param.num_output", own.num_output, "must be at least 1")
    if axis == 0:
        raise Unread("inner_product_param.axis", own.axis, "images are not added up")
    outer, values, name = list(shape[:axis]), prod(shape[axis:]), layer.bottoms[0]
    stored = [values, own.num_output] if own.transpose else [own.num_output, values]
    if axis == 1:
        if len(shape) > 2:
            name = graph.add(layer, "Flatten", [name], [*outer, values], "flatten", axis=1)
        reads = [name, graph.weight(layer, 0, "weight", stored)]
        reads += [graph.weight(layer, 1, "bias", [own.num_output])] if own.bias_term else []
        graph.add(layer, "Gemm", reads, [*outer, own.num_output], transB=int(not own.transpose))
        return
    if len(shape) > axis + 1:
        name = _reshaped(graph, layer, name, [*outer, values], "flatten")
    weight = graph.weight(layer, 0, "weight", stored)
    if not own.transpose:
        graph.shapes[weight] = tuple(stored)
        weight = graph.add(layer, "Transpose", [weight], [values, own.num_output], "transposed", perm=[1, 0])
    given = [*outer, own.num_output]
    if own.bias_term:
        name = graph.add(layer, "MatMul", [name, weight], given, "product")
        graph.add(layer, "Add", [name, graph.weight(layer, 1, "bias", [own.num_output])], given)
    else:
        graph.add(layer, "MatMul", [name, weight], given)


def _reshaped(graph: Graph, layer: CaffeLayer, name: str, shape: Sequence[int], part: str = "") -> str:
    target = graph.constant(layer, "shape", np.array(shape, np.int64))
    return graph.add(layer, "Reshape", [name, target], shape, part)


# Value by value ------------------------------------------------------------------------------------


def _values(operator: str) -> Callable[[Graph, CaffeLayer], None]:
    """Return what adds an operator that works value by value."""

    def add(graph: Graph, layer: CaffeLayer) -> None:
        graph.add(layer, operator, layer.bottoms[:1], graph.shape(layer))

    return add


def _relu(graph: Graph, layer: CaffeLayer) -> None:
    slope = layer.parameters("relu_param", "ReLUParameter").negative_slope
    told = {"alpha": slope} if slope else {}
    graph.add(layer, "LeakyRelu" if slope else "Relu", layer.bottoms, graph.shape(layer), **told)


def _elu(graph: Graph, layer: CaffeLayer) -> None:
    alpha = layer.parameters("elu_param", "ELUParameter").alpha
    graph.add(layer, "Elu", layer.bottoms, graph.shape(layer), alpha=alpha)


def _prelu(graph: Graph, layer: CaffeLayer) -> None:
    own, shape = layer.parameters("prelu_param", "PReLUParameter"), graph.shape(layer)
    _check_rank(layer, shape, 2)
    channels = 1 if own.channel_shared else shape[1]
    slope = graph.weight(layer, 0, "slope", [channels, *[1] * (len(shape) - 2)])
    graph.add(layer, "PRelu", [layer.bottoms[0], slope], shape)


def _check_rank(layer: CaffeLayer, shape: Sizes, least: int) -> None:
    if len(shape) < least:
        raise layer.error("bottom", list(shape), f"must have at least {least} dimensions")


def _power(graph: Graph, layer: CaffeLayer) -> None:
    own, shape, name = layer.parameters("power_param", "PowerParameter"), graph.shape(layer), layer.bottoms[0]
    steps = [("Mul", own.scale, 1), ("Add", own.shift, 0), ("Pow", own.power, 1)]
    steps = [step for step in steps if step[1] != step[2]]
    if not steps:
        graph.add(layer, "Identity", [name], shape)
    for place, (operator, number, _) in enumerate(steps):
        part = "" if place == len(steps) - 1 else operator.lower()
        value = graph.constant(layer, operator.lower(), np.array(number, np.float32))
        name = graph.add(layer, operator, [name, value], shape, part)


def _eltwise(graph: Graph, layer: CaffeLayer) -> None:
    own, names = layer.parameters("eltwise_param", "EltwiseParameter"), list(layer.bottoms)
    shapes = [graph.shape(layer, number) for number in range(max(2, len(names)))]
    if len(set(shapes)) > 1:
        raise layer.error("shapes of its bottoms", list(map(list, shapes)), "must be the same")
    operation = own.DESCRIPTOR.enum_types_by_name["EltwiseOp"].values_by_number[own.operation].name
    coefficients = list(own.coeff) or [1.0] * len(names)
    if own.coeff and (operation != "SUM" or len(coefficients) != len(names)):
        limit = f"must be one for each of the {len(names)} bottoms, of operation SUM"
        raise layer.error("eltwise_param.coeff", coefficients, limit)
    for place, number in enumerate(coefficients):
        if number != 1:
            factor = graph.constant(layer, f"coeff{place + 1}", np.array(number, np.float32))
            names[place] = graph.add(layer, "Mul", [names[place], factor], shapes[0], f"scale{place + 1}")
    if operation != "PROD":
        graph.add(layer, {"SUM": "Sum", "MAX": "Max"}[operation], names, shapes[0])
        return
    product = names[0]
    for place, name in enumerate(names[1:], start=2):
        product = graph.add(
            layer, "Mul", [product, name], shapes[0], f"{place}" if place < len(names) else ""
        )


# Normalisation -------------------------------------------------------------------------------------


def _response(graph: Graph, layer: CaffeLayer) -> None:
    """Add a local response normalisation; within a channel, of averages of squares."""
    own, shape, name = layer.parameters("lrn_param", "LRNParameter"), graph.shape(layer), layer.bottoms[0]
    size = own.local_size
    if size % 2 == 0:
        raise layer.error("lrn_param.local_size", size, "must be odd")
    if not own.norm_region:
        _check_rank(layer, shape, 3)
        numbers = {"alpha": own.alpha, "beta": own.beta, "bias": own.k}
        graph.add(layer, "LRN", [name], shape, size=size, **numbers)
        return
    if len(shape) != 4:
        raise layer.error(
            "bottom", list(shape), "must have four dimensions: images, channels, height and width"
        )
    window = {"kernel_shape": [size, size], "pads": [size // 2] * 4, "count_include_pad": 1}
    found = graph.add(layer, "Mul", [name, name], shape, "square")
    found = graph.add(layer, "AveragePool", [found], shape, "average", **window)
    steps = (("Mul", "alpha", own.alpha), ("Add", "one", 1.0), ("Pow", "beta", -own.beta))
    for operator, role, number in steps:  # Caffe has 1 here, whatever k is
        found = graph.add(
            layer, operator, [found, graph.constant(layer, role, np.array(number, np.float32))], shape, role
        )
    graph.add(layer, "Mul", [name, found], shape)


def _batch_norm(graph: Graph, layer: CaffeLayer) -> None:
    """Add a batch normalisation, with what scales its outputs if nothing else reads them."""
    own, shape = layer.parameters("batch_norm_param", "BatchNormParameter"), graph.shape(layer)
    if not own.use_global_stats:
        raise Unread("batch_norm_param.use_global_stats", False, "averages of the images are not computed")
    _check_rank(layer, shape, 2)
    [top] = layer.tops
    after = graph.readers.get(top, [])
    scale = after[0] if len(after) == 1 and _scales_channels(after[0]) else None
    numbers = graph.normalisation(layer, scale, shape[1])
    graph.add(layer, "BatchNormalization", [layer.bottoms[0], *numbers], shape, epsilon=own.eps)
    if scale is not None:
        graph.same[scale.tops[0]] = top


def _scales_channels(layer: CaffeLayer) -> bool:
    own = layer.parameters("scale_param", "ScaleParameter")
    plain = len(layer.bottoms) == len(layer.tops) == 1 and (own.axis, own.num_axes) == (1, 1)
    return layer.type == "Scale" and plain and not any(layer.shared) and not layer.unknown


def _scale(graph: Graph, layer: CaffeLayer) -> None:
    """Add a product with numbers of the file or with a second input, then a sum."""
    shape = graph.shape(layer)
    if layer.tops[0] in graph.same:  # done by the batch normalisation before it
        graph.shapes[layer.tops[0]] = shape
        return
    _affine(graph, layer, "scale_param", "ScaleParameter", "Mul")


def _affine(graph: Graph, layer: CaffeLayer, field: str, kind: str, operator: str) -> None:
    own, shape, name = layer.parameters(field, kind), graph.shape(layer), layer.bottoms[0]
    axis = axis_of(layer, f"{field}.axis", own.axis, len(shape))
    biased = operator == "Mul" and own.bias_term
    if len(layer.bottoms) > 1:
        second = graph.shape(layer, 1)
        if shape[axis : axis + len(second)] != second:
            limit = f"must be a part of {list(shape)} from axis {axis} on"
            raise layer.error("shape of bottom[1]", list(second), limit)
        if biased:
            raise Unread(f"{field}.bias_term", True, "is read beside numbers of the file alone")
        other, whole = layer.bottoms[1], [1] * axis + [*second] + [1] * (len(shape) - axis - len(second))
        if whole != list(second):
            other = _reshaped(graph, layer, other, whole, "reshape")
        graph.add(layer, operator, [name, other], shape)
        return
    if own.num_axes < -1 or axis + own.num_axes > len(shape):
        raise layer.error(f"{field}.num_axes", own.num_axes, f"must be -1, or up to {len(shape) - axis}")
    if axis == 0 and own.num_axes != 0:
        raise Unread(f"{field}.axis", own.axis, "numbers are the same for all images")
    many = len(shape) - axis if own.num_axes == -1 else own.num_axes
    numbers = [*shape[axis : axis + many], *[1] * (len(shape) - axis - many)] if many else []
    first = graph.weight(layer, 0, "scale" if operator == "Mul" else "bias", numbers)
    if not biased:
        graph.add(layer, operator, [name, first], shape)
        return
    name = graph.add(layer, operator, [name, first], shape, "scale")
    graph.add(layer, "Add", [name, graph.weight(layer, 1, "bias", numbers)], shape)


def _bias(graph: Graph, layer: CaffeLayer) -> None:
    _affine(graph, layer, "bias_param", "BiasParameter", "Add")


def _softmax(graph: Graph, layer: CaffeLayer) -> None:
    own, shape = layer.parameters("softmax_param", "SoftmaxParameter"), graph.shape(layer)
    axis = axis_of(layer, "softmax_param.axis", own.axis, len(shape))
    graph.add(layer, "Softmax", layer.bottoms, shape, axis=axis)


# Order and shape -----------------------------------------------------------------------------------


def _along(layer: CaffeLayer, field: str, own: Any, old: str, rank: int) -> int:
    """Return the axis of a concatenation or a slice, which has a former name."""
    if own.HasField(old) and own.HasField("axis"):
        raise layer.error(f"{field}.{old}", getattr(own, old), "stands beside axis; one is enough")
    name = old if own.HasField(old) else "axis"
    return axis_of(layer, f"{field}.{name}", getattr(own, name), rank)


def _concat(graph: Graph, layer: CaffeLayer) -> None:
    own = layer.parameters("concat_param", "ConcatParameter")
    shapes = [graph.shape(layer, number) for number in range(max(1, len(layer.bottoms)))]
    axis = _along(layer, "concat_param", own, "concat_dim", len(shapes[0]))
    others = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    if len(others) > 1 or len({len(shape) for shape in shapes}) > 1:
        limit = f"must be the same but for axis {axis}"
        raise layer.error("shapes of its bottoms", list(map(list, shapes)), limit)
    whole = list(shapes[0])
    whole[axis] = sum(shape[axis] for shape in shapes)
    if len(shapes) == 1:
        graph.add(layer, "Identity", layer.bottoms, whole)
    else:
        graph.add(layer, "Concat", layer.bottoms, whole, axis=axis)


def _slice(graph: Graph, layer: CaffeLayer) -> None:
    own, shape = layer.parameters("slice_param", "SliceParameter"), graph.shape(layer)
    axis = _along(layer, "slice_param", own, "slice_dim", len(shape))
    points, many = list(own.slice_point), len(layer.tops)
    if points:
        ends = [0, *points, shape[axis]]
        if len(points) != many - 1 or any(a >= b for a, b in pairwise(ends)):
            limit = f"must be {many - 1} growing numbers between 0 and {shape[axis]}, one less than its tops"
            raise layer.error("slice_param.slice_point", points, limit)
        sizes = [after - before for before, after in pairwise(ends)]
    elif shape[axis] % many:
        limit = f"must divide axis {axis}, {shape[axis]}; there is no slice_point"
        raise layer.error("number of its tops", many, limit)
    else:
        sizes = [shape[axis] // many] * many
    parts = [[*shape[:axis], size, *shape[axis + 1 :]] for size in sizes]
    if many == 1:
        graph.add(layer, "Identity", layer.bottoms, shape)
        return
    split = graph.constant(layer, "sizes", np.array(sizes, np.int64))
    graph.node(layer, "Split", [layer.bottoms[0], split], layer.tops, parts, axis=axis)


def _crop(graph: Graph, layer: CaffeLayer) -> None:
    """Add a slice that gives the sizes of a second input, of which nothing else is read."""
    own, shape, like = (
        layer.parameters("crop_param", "CropParameter"),
        graph.shape(layer),
        graph.shape(layer, 1),
    )
    axis = axis_of(layer, "crop_param.axis", own.axis, len(shape))
    if len(like) != len(shape):
        raise layer.error("shape of bottom[1]", list(like), f"must have as many dimensions as {list(shape)}")
    axes = list(range(axis, len(shape)))
    offsets = list(own.offset) or [0]
    if len(offsets) not in (1, len(axes)):
        raise layer.error("crop_param.offset", offsets, f"must be one number, or {len(axes)}")
    begins = offsets * len(axes) if len(offsets) == 1 else offsets
    ends = [begin + like[each] for begin, each in zip(begins, axes, strict=True)]
    if any(end > shape[each] for end, each in zip(ends, axes, strict=True)):
        raise layer.error("crop_param.offset", offsets, f"takes {list(like)} out of {list(shape)}")
    told = [
        graph.constant(layer, role, np.array(values, np.int64))
        for role, values in (("starts", begins), ("ends", ends), ("axes", axes))
    ]
    graph.add(layer, "Slice", [layer.bottoms[0], *told], [*shape[:axis], *like[axis:]])


def _flatten(graph: Graph, layer: CaffeLayer) -> None:
    own, shape = layer.parameters("flatten_param", "FlattenParameter"), graph.shape(layer)
    first = axis_of(layer, "flatten_param.axis", own.axis, len(shape))
    last = axis_of(layer, "flatten_param.end_axis", own.end_axis, len(shape))
    if last < first:
        raise layer.error("flatten_param.end_axis", own.end_axis, f"must not be before axis {first}")
    whole = [*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :]]
    if first == 1 and last == len(shape) - 1:
        graph.add(layer, "Flatten", layer.bottoms, whole, axis=1)
    else:
        _reshaped(graph, layer, layer.bottoms[0], whole)


def _reshape(graph: Graph, layer: CaffeLayer) -> None:
    own, shape = layer.parameters("reshape_param", "ReshapeParameter"), graph.shape(layer)
    rank, told = len(shape), list(own.shape.dim)
    first = own.axis if own.axis >= 0 else rank + own.axis + 1
    if not 0 <= first <= rank:
        raise layer.error("reshape_param.axis", own.axis, f"must be from {-rank - 1} to {rank}")
    end = rank if own.num_axes == -1 else first + own.num_axes
    if not first <= end <= rank:
        raise layer.error("reshape_param.num_axes", own.num_axes, f"must be -1, or up to {rank - first}")
    wrong = [size for size in told if size < -1]
    if wrong or told.count(-1) > 1 or any(size == 0 and first + at >= rank for at, size in enumerate(told)):
        limit = f"must be sizes, 0 to keep one of {list(shape)}, and at most one -1 for the rest"
        raise layer.error("reshape_param.shape", told, limit)
    sizes = [shape[first + at] if size == 0 else size for at, size in enumerate(told)]
    known = prod(size for size in sizes if size != -1) * prod(shape[:first]) * prod(shape[end:])
    sizes = [prod(shape) // known if size == -1 else size for size in sizes]
    whole = [*shape[:first], *sizes, *shape[end:]]
    if prod(whole) != prod(shape):
        raise layer.error("reshape_param.shape", told, f"must hold the {prod(shape)} values of {list(shape)}")
    _reshaped(graph, layer, layer.bottoms[0], whole)


def _permute(graph: Graph, layer: CaffeLayer) -> None:
    own, shape = layer.parameters("permute_param", "PermuteParameter"), graph.shape(layer)
    told = list(own.order)
    if len(set(told)) < len(told) or any(axis >= len(shape) for axis in told):
        raise layer.error("permute_param.order", told, f"must be axes from 0 to {len(shape) - 1}, each once")
    order = told + [axis for axis in range(len(shape)) if axis not in told]
    graph.add(layer, "Transpose", layer.bottoms, [shape[axis] for axis in order], perm=order)


def _split(graph: Graph, layer: CaffeLayer) -> None:
    """Give what is read under other names."""
    for top in layer.tops:
        graph.shapes[top] = graph.shape(layer)
        graph.same[top] = graph.same.get(layer.bottoms[0], layer.bottoms[0])


SOURCES = frozenset(("Data", "DummyData", "HDF5Data", "ImageData", "Input", "MemoryData", "WindowData"))
"""Types of layers that give the inputs of a network."""

LAYERS: Mapping[str, Callable[[Graph, CaffeLayer], None]] = {
    "AbsVal": _values("Abs"),
    "BNLL": _values("Softplus"),
    "BatchNorm": _batch_norm,
    "Bias": _bias,
    "Concat": _concat,
    "Convolution": convolution,
    "Crop": _crop,
    "Deconvolution": convolution,
    "Dropout": _values("Dropout"),
    "ELU": _elu,
    "Eltwise": _eltwise,
    "Flatten": _flatten,
    "InnerProduct": _inner_product,
    "LRN": _response,
    "PReLU": _prelu,
    "Permute": _permute,
    "Pooling": pooling,
    "Power": _power,
    "ReLU": _relu,
    "Reshape": _reshape,
    "Scale": _scale,
    "Sigmoid": _values("Sigmoid"),
    "Slice": _slice,
    "Softmax": _softmax,
    "Split": _split,
    "TanH": _values("Tanh"),
}
"""Types of layers that are read, and what adds them to a graph."""

READS = {
    "Concat": None,
    "Convolution": None,
    "Deconvolution": None,
    "Eltwise": None,
    "Crop": 2,
    "Bias": 2,
    "Scale": 2,
}
"""Most inputs of types with several, None where there may be any number; of others there is one."""

GIVES = ("Convolution", "Deconvolution", "Pooling", "Slice", "Split")
"""Types whose layers may give several outputs."""
