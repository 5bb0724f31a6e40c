"""Imported networks, executed with numbers: what is stored of every tensor, held against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tilewright.importing.layouts import SAME, SEVERAL, Layouts, stored
from tilewright.importing.model import Model, OnnxOperation, Value, read
from tilewright.importing.operators import layers
from tilewright.importing.standard_forms import NEWEST
from tilewright.simulator.arithmetic import reference
from tilewright.spec.network import NamedLayer, Pool

Array = NDArray[Any]


class NotExecutedError(Exception):
    """A model that onnxruntime does not execute, or an operation of which the reference is not known."""


class ShapesDiffer(AssertionError):
    """Tensors have other shapes than they were imported with."""


def small_integers(model: Model, seed: int = 0) -> dict[str, Array]:
    """Return small integers for all inputs of a network."""
    rng = np.random.default_rng(seed)
    return {
        each.name: rng.integers(-3, 4, each.shape).astype(np.float32) for each in model.inputs if each.shape
    }


def by_onnxruntime(proto: onnx.ModelProto, given: dict[str, Array]) -> dict[str, Array]:
    """Return every tensor of a network as onnxruntime computes it."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime, of the extra `test`, is not installed")
    runtime.set_default_logger_severity(3)
    known = {value.name for value in proto.graph.output}
    names = [name for node in proto.graph.node for name in node.output if name]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in known)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    return weights | given | dict(zip(names, session.run(names, given), strict=True))


def check_shapes(model: Model, tensors: dict[str, Array]) -> None:
    """Hold the shapes of all tensors that the file names against those that were computed."""
    values = [value for each in model.operations for value in each.outputs if value is not None]
    values = [value for value in values if value.name in tensors]
    differ = [
        f"{value.name}: {value.shape}, and {tensors[value.name].shape} is right"
        for value in values
        if value.shape != tensors[value.name].shape
    ]
    if differ or not values:
        raise ShapesDiffer("; ".join(differ) or "no tensor is compared")


def check_file_shapes(path: Path) -> None:
    """Hold the shapes of all tensors of a file against those that onnxruntime gives."""
    model = read(path, {})
    check_shapes(model, by_onnxruntime(onnx.load(path), small_integers(model)))


def check_numbers(path: Path) -> None:
    """Execute a network on small integers, and compare each tensor with onnxruntime's."""
    model = read(path, {})
    proto = onnx.load(path)
    compared = check_model(model, proto, by_onnxruntime(proto, small_integers(model)))
    assert compared >= len(model.operations)


def check_model(model: Model, proto: onnx.ModelProto, tensors: dict[str, Array]) -> int:
    """Execute a network's layers on tensors as they are stored; return how many are compared with others.

    Parameters
    ----------
    tensors
        Inputs, weights, and those that are right, as ONNX writes them.
    """
    check_shapes(model, tensors)
    layouts = stored(model)
    known = {value.name: value.data for each in layouts.operations for value in each.fixed}
    tensors = {name: data for name, data in known.items() if data is not None} | tensors
    opset = next((entry.version for entry in proto.opset_import if not entry.domain), 1)
    # What is given first, in whatever order, is the input as ONNX writes it.
    found = {value.name: tensors[value.name] for value in model.inputs}
    for operation in layouts.operations:
        result = _execute(layouts, operation, found, tensors, opset)
        for value, array in zip(operation.outputs, result, strict=False):
            if value is not None:
                if array.shape != value.shape:
                    raise ShapesDiffer(f"{value.name}: {value.shape}, and layers give {array.shape}")
                found[value.name] = array
    compared = 0
    for name, tensor in layouts.tensors.items():
        if tensor.stored.name in found and name in tensors:
            expected = found[tensor.stored.name].transpose(tensor.order)
            _check_close(name, tensors[name], expected)
            compared += 1
    return compared


def _check_close(name: str, right: Array, ours: Array) -> None:
    """Refuse numbers that differ by more than a few of the last digits of their type, as of the largest."""
    coarse = right.dtype.itemsize < 4 and right.dtype.kind not in "iub"
    limit = 2e-2 if coarse else 1e-4
    kind = np.float64 if right.dtype.kind in "fiubV" or coarse else right.dtype
    largest = max(1.0, float(np.abs(right.astype(kind)).max(initial=0))) if right.dtype.kind == "f" else 1.0
    np.testing.assert_allclose(
        right.astype(kind), ours.astype(kind), rtol=limit, atol=limit * largest, err_msg=name
    )


def _execute(
    layouts: Layouts, operation: OnnxOperation, found: dict[str, Array], tensors: dict[str, Array], opset: int
) -> list[Array]:
    """Return what an operation gives, by the reference of layers where there are some."""
    result = next(value for value in operation.outputs if value is not None)
    assert result.shape is not None
    if operation.operator == SAME or operation.operator in ("Reshape", "Flatten", "Squeeze", "Unsqueeze"):
        return [found[operation.given[0].name].reshape(result.shape)]
    tables = layers(operation)
    if {"conv", "fc", "matmul"} & {table["kind"] for table in tables} or _of_columns(operation):
        return [_product(operation, tables, found, tensors).reshape(result.shape)]
    if tables[0]["kind"] == "slice":
        values = _images(operation, found[operation.given[0].name], tuple(tables[0]["input"]))
        tables = [table for table in tables if table["kind"] == "slice"]
        cuts = [zip(table["first"], table["output"], strict=True) for table in tables]
        parts = [values[(..., *(slice(first, first + size) for first, size in cut))] for cut in cuts]
        wanted = [value.shape for value in operation.outputs if value is not None]
        return [part.reshape(shape) for part, shape in zip(parts, wanted, strict=True) if shape]
    if tables[-1]["kind"] == "pool":
        return [_pooled(operation, tables[-1], found).reshape(result.shape)]
    given: dict[str, Array] = {}
    for value in operation.inputs:
        if value is not None:
            fixed = value.fixed  # what layers compute are integers
            array = (
                _fixed(operation, layouts, value, result, tensors)
                if fixed
                else _of_type(operation, value, found[value.name])
            )
            given[value.name] = array
    inputs = [value.name if value is not None else "" for value in operation.inputs]
    names = [f"out{place}" for place, _ in enumerate(operation.outputs)]
    ours = ("along", "transposed", "steps", "reads_time_last")  # said of stored tensors
    attributes = {name: value for name, value in operation.attributes.items() if name not in ours}
    if operation.operator == "Pad" and "pads" in attributes:
        opset, pads = max(opset, 13), attributes.pop("pads")
        given["pads"], inputs = np.array(pads, np.int64), [inputs[0], "pads", *inputs[2:3]]
        if "value" in attributes:
            given["value"] = np.array(attributes.pop("value"), given[inputs[0]].dtype)
            inputs = [*inputs[:2], "value"]
    if operation.operator == "Expand" and operation.inputs[1] is not None:
        given[operation.inputs[1].name] = np.array(result.shape, np.int64)
    if operation.operator.startswith("Reduce") and opset >= 18 and "axes" in attributes:
        given["axes"], inputs = np.array(attributes.pop("axes"), np.int64), [inputs[0], "axes"]
    if operation.operator in ("Gelu", "LayerNormalization", "RMSNormalization", "Swish"):
        opset = max(opset, NEWEST[operation.operator])  # written for an operator of onnxruntime's own
    order: tuple[int, ...] = ()
    if operation.operator in ("LayerNormalization", "RMSNormalization"):  # along axes of the file
        order = next(each.order for each in layouts.tensors.values() if each.stored.name == result.name)
        given[inputs[0]] = given[inputs[0]].transpose(order)
    recurs = operation.operator in ("GRU", "LSTM", "RNN")
    if recurs:
        given[inputs[0]] = _by_time(layouts, operation, given[inputs[0]])
    node = helper.make_node(operation.operator, inputs, names, **attributes)
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
         for name, array in given.items()],
        [onnx.ValueInfoProto(name=name) for name in names],
    )  # fmt: skip
    evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]))
    computed: list[Array] = evaluator.run(None, given)
    if order:
        return [array.transpose(np.argsort(order)) for array in computed]
    return _recurrent(layouts, operation, computed) if recurs else computed


def _of_columns(operation: OnnxOperation) -> bool:
    """Whether an operation multiplies matrices of tensors, of which rows of the first are stored last."""
    shapes = [value.shape or () for value in operation.given]
    return operation.operator == "MatMul" and len(shapes) == 2 and shapes[0][:-2] == shapes[1][:-2]


def _by_time(layouts: Layouts, operation: OnnxOperation, stored: Array) -> Array:
    """Return what a recurrent operation reads as ONNX writes it: of points in time images and features."""
    first, weights = operation.inputs[:2]
    assert first is not None and weights is not None and weights.shape is not None
    every = (each.order for each in layouts.tensors.values() if each.stored.name == first.name)
    sizes = operation.attributes["steps"], weights.shape[-1]
    order = next(each for each in every if (stored.shape[each[0]], stored.shape[each[2]]) == sizes)
    return stored.transpose(order)


def _recurrent(layouts: Layouts, operation: OnnxOperation, computed: list[Array]) -> list[Array]:
    """Return what a recurrent operation gives, in the order in which it is stored."""
    orders = {each.stored.name: each.order for each in layouts.tensors.values()}
    return [
        array.transpose(np.argsort(orders[value.name])) if value is not None else array
        for value, array in zip(operation.outputs, computed, strict=True)
    ]


def _of_type(operation: OnnxOperation, value: Value, array: Array) -> Array:
    """Return what layers compute, integers among it, in the type that the file has."""
    result = operation.outputs[0]
    known = operation.types.get(value.name) or operation.types.get(result.name if result else "")
    return array.astype(helper.tensor_dtype_to_np_dtype(known) if known else np.float32)


def _fixed(
    operation: OnnxOperation, layouts: Layouts, value: Value, result: Value, tensors: dict[str, Array]
) -> Array:
    """Return numbers of the file in the order of what they are combined with."""
    array = tensors[value.name]
    if array.size < 2 or operation.operator not in SEVERAL:
        return array
    order = next(each.order for each in layouts.tensors.values() if each.stored.name == result.name)
    whole = array.reshape((1,) * (len(order) - array.ndim) + array.shape)
    return whole.transpose(np.argsort(order))


def _images(operation: OnnxOperation, array: Array, shape: tuple[int, ...]) -> Array:
    """Return an array as images, first of all, of a layer's input."""
    value = operation.given[0]
    axis = value.images if value.images is not None and operation.batch > 1 else None
    if axis is None:
        return array.reshape(operation.batch, *shape)
    apart = (*array.shape[:axis], operation.batch, -1, *array.shape[axis + 1 :])
    return np.moveaxis(array.reshape(apart), axis, 0).reshape(operation.batch, *shape)


def _integers(array: Array) -> tuple[Array, int]:
    """Return numbers as integers, and by how much they are too large: by nothing if they are integers."""
    whole = np.rint(array.astype(np.float64))
    scale = 1 if np.allclose(whole, array, rtol=0, atol=1e-3) else 2**18
    return np.rint(array.astype(np.float64) * scale).astype(np.int64), scale


def _product(
    operation: OnnxOperation, tables: list[dict[str, Any]], found: dict[str, Array], tensors: dict[str, Array]
) -> Array:
    """Return what convolutions and products give, images first unless they lie elsewhere."""
    if tables[-1]["kind"] == "matmul" or _of_columns(operation):
        left, right = (found[value.name] for value in operation.given)
        product = np.swapaxes(left, -1, -2) @ (
            right if _rows_first(operation, found, tensors) else np.swapaxes(right, -1, -2)
        )
        return np.swapaxes(product, -1, -2)
    values, scale = _integers(found[operation.given[0].name])
    parts = [table for table in tables if "kernels" in table]
    source = _images(operation, values, tables[0]["input"])
    if tables[0]["kind"] == "pad":
        top, bottom, left, right = tables[0]["padding"]
        source = np.pad(source, ((0, 0), (0, 0), (top, bottom), (left, right)))
    results = []
    for table in parts:
        plain = {key: value for key, value in table.items() if key not in ("reads", "gives")}
        layer = NamedLayer.model_validate({"name": "layer", **plain})
        kernels, times = _kernels(operation, layer, tensors, len(results))
        sums = reference.reference_convolution(layer, source.reshape(layer.input_shape), kernels)
        results.append(sums if scale * times == 1 else sums / (scale * times))
    joined = _spread(operation, results) if operation.operator == "ConvTranspose" else results[0]
    if len(operation.inputs) > 2 and operation.inputs[2] is not None:
        joined = joined + tensors[operation.inputs[2].name].reshape(1, -1, 1, 1)
    result = operation.outputs[0]
    assert result is not None and result.shape is not None
    if result.images in (0, None) or operation.batch == 1:
        return joined
    return np.moveaxis(joined.reshape(operation.batch, joined.shape[1], -1), 0, 1)


def _rows_first(operation: OnnxOperation, found: dict[str, Array], tensors: dict[str, Array]) -> bool:
    """Whether what is summed over comes first in the second operand, as sizes or the result tell."""
    left, right = (found[value.name] for value in operation.given)
    fits = [size == left.shape[-2] for size in right.shape[-2:]]
    result = operation.outputs[0]
    if fits[0] != fits[1]:
        return fits[0]
    if result is None or result.name not in tensors:  # of an operator that stands for several
        return not operation.attributes.get("transposed", False)
    product, right_one = np.swapaxes(left, -1, -2) @ right, tensors[result.name]
    return product.shape == right_one.shape and np.allclose(product, right_one, rtol=1e-3, atol=1e-3)


def _kernels(
    operation: OnnxOperation, layer: NamedLayer, tensors: dict[str, Array], part: int
) -> tuple[Array, int]:
    """Return kernels as integers, and by how much they are too large."""
    fixed = next(value for value in operation.inputs[:2] if value is not None and value.fixed)
    weights, scale = _integers(tensors[fixed.name])
    if operation.operator == "Conv":
        return weights.reshape(layer.kernels_shape), scale
    if operation.operator == "ConvTranspose":
        return _gathered(operation, layer, weights, part), scale
    weights = weights.reshape(weights.shape[-2:])
    first = fixed is operation.inputs[0]
    if first == bool(operation.attributes.get("transA" if first else "transB", 0)):
        weights = weights.T
    return weights.reshape(layer.kernels_shape), scale


def _phases(operation: OnnxOperation) -> list[list[tuple[int, int]]]:
    """Return the outputs between inputs, those together that are of one convolution."""
    known = operation.inputs[1]
    assert known is not None and known.shape is not None
    stride, pads = operation.attributes.get("strides", [1, 1]), operation.attributes.get("pads", [0] * 4)
    groups: dict[tuple[tuple[int, int], ...], list[tuple[int, int]]] = {}
    for row in range(stride[0]):
        for column in range(stride[1]):
            each = zip((row, column), pads, stride, known.shape[2:], strict=False)
            key = tuple(
                (len(range((first + cut) % step, size, step)), (first + cut) // step)
                for first, cut, step, size in each
            )
            groups.setdefault(key, []).append((row, column))
    return list(groups.values())


def _gathered(operation: OnnxOperation, layer: NamedLayer, weights: Array, part: int) -> Array:
    """Return the kernels of a convolution that is a part of a transposed one, without groups."""
    stride, pads = operation.attributes.get("strides", [1, 1]), operation.attributes.get("pads", [0] * 4)
    kernels = []
    for row, column in _phases(operation)[part]:
        first, second = (row + pads[0]) % stride[0], (column + pads[1]) % stride[1]
        taps = weights[:, :, first :: stride[0], second :: stride[1]]
        kernels.append(taps[:, :, ::-1, ::-1].transpose(1, 0, 2, 3))
    return np.concatenate(kernels).reshape(layer.kernels_shape)


def _spread(operation: OnnxOperation, results: list[Array]) -> Array:
    """Return what the parts of a transposed convolution give, at its places."""
    stride = operation.attributes.get("strides", [1, 1])
    images, _, rows, columns = results[0].shape
    shape = operation.outputs[0].shape if operation.outputs[0] is not None else None
    assert shape is not None
    whole = np.zeros((images, shape[1], rows * stride[0], columns * stride[1]), results[0].dtype)
    for result, phases in zip(results, _phases(operation), strict=True):
        for place, (row, column) in enumerate(phases):
            part = result[:, place * shape[1] : (place + 1) * shape[1]]
            whole[:, :, row :: stride[0], column :: stride[1]] = part
    return whole


def _pooled(operation: OnnxOperation, table: dict[str, Any], found: dict[str, Array]) -> Array:
    layer = Pool.model_validate({"name": "pool", **table})
    values = found[operation.given[0].name].reshape(-1, *layer.input)
    if layer.op == "max":
        largest, scale = _integers(values)
        return reference.reference_pool(layer, largest) / scale
    integers, scale = _integers(values)
    whole = reference.reference_pool(layer, integers) / scale
    ones = reference.reference_pool(layer, np.ones_like(values, dtype=np.int64))
    padded = operation.attributes.get("count_include_pad", 0)
    averaged: Array = whole / (np.prod(layer.kernel) if padded else ones)
    return averaged
