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
from tilewright.simulator.arithmetic import reference
from tilewright.spec.network import NamedLayer, Pool

Array = NDArray[Any]


def by_onnxruntime(path: Path, model: Model, seed: int = 0) -> dict[str, Array]:
    """Return every tensor of a network for an input of small integers, as onnxruntime computes it."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime, of the extra `test`, is not installed")
    runtime.set_default_logger_severity(3)
    proto = onnx.load(path)
    known = {value.name for value in proto.graph.output}
    names = [name for node in proto.graph.node for name in node.output if name]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in known)
    rng = np.random.default_rng(seed)
    given = {
        each.name: rng.integers(-3, 4, each.shape).astype(np.float32) for each in model.inputs if each.shape
    }
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    return weights | given | dict(zip(names, session.run(names, given), strict=True))


def check_shapes(model: Model, tensors: dict[str, Array]) -> None:
    """Hold the shapes of all tensors against those that were computed."""
    values = [value for each in model.operations for value in each.outputs if value is not None]
    assert {value.name: value.shape for value in values} == {
        value.name: tensors[value.name].shape for value in values
    }


def check_numbers(path: Path) -> None:
    """Execute a network's layers on tensors as they are stored, and compare each with onnxruntime's."""
    model = read(path, {})
    tensors = by_onnxruntime(path, model)
    check_shapes(model, tensors)
    layouts = stored(model)
    opset = {entry.domain: entry.version for entry in onnx.load(path).opset_import}[""]
    # What is given first, in whatever order, is the input as ONNX writes it.
    found = {value.name: tensors[value.name] for value in model.inputs}
    for operation in layouts.operations:
        result = _execute(layouts, operation, found, tensors, opset)
        for value, array in zip(operation.outputs, result, strict=False):
            if value is not None:
                assert array.shape == value.shape, operation
                found[value.name] = array
    compared = 0
    for name, tensor in layouts.tensors.items():
        if tensor.stored.name in found and name in tensors:
            expected = found[tensor.stored.name].transpose(tensor.order)
            np.testing.assert_allclose(tensors[name], expected, rtol=1e-4, atol=1e-4, err_msg=name)
            compared += 1
    assert compared >= len(model.operations)


def _execute(
    layouts: Layouts, operation: OnnxOperation, found: dict[str, Array], tensors: dict[str, Array], opset: int
) -> list[Array]:
    """Return what an operation gives, by the reference of layers where there are some."""
    result = operation.outputs[0]
    assert result is not None and result.shape is not None
    if operation.operator == SAME or operation.operator in ("Reshape", "Flatten", "Squeeze", "Unsqueeze"):
        return [found[operation.given[0].name].reshape(result.shape)]
    tables = layers(operation)
    if {"conv", "fc", "matmul"} & {table["kind"] for table in tables}:
        return [_product(operation, tables, found, tensors).reshape(result.shape)]
    if tables[0]["kind"] == "slice":
        values = _images(operation, found[operation.given[0].name], tuple(tables[0]["input"]))
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
                else found[value.name].astype(np.float32)
            )
            given[value.name] = array
    inputs = [value.name if value is not None else "" for value in operation.inputs]
    names = [f"out{place}" for place, _ in enumerate(operation.outputs)]
    attributes = dict(operation.attributes)
    if operation.operator == "Pad" and "pads" in attributes:
        pads = attributes.pop("pads")
        if opset >= 11:
            given["pads"], inputs = np.array(pads, np.int64), [inputs[0], "pads"]
    if operation.operator.startswith("Reduce") and opset >= 18 and "axes" in attributes:
        given["axes"], inputs = np.array(attributes.pop("axes"), np.int64), [inputs[0], "axes"]
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
    return computed


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


def _integers(array: Array) -> Array:
    whole = np.rint(array).astype(np.int64)
    np.testing.assert_allclose(whole, array, atol=1e-3)
    return whole


def _product(
    operation: OnnxOperation, tables: list[dict[str, Any]], found: dict[str, Array], tensors: dict[str, Array]
) -> Array:
    """Return what convolutions and products give, images first unless they lie elsewhere."""
    if tables[-1]["kind"] == "matmul":
        left, right = (found[value.name] for value in operation.given)
        product = np.swapaxes(left, -1, -2) @ (
            right if _rows_first(operation, found, tensors) else np.swapaxes(right, -1, -2)
        )
        return np.swapaxes(product, -1, -2)
    values, parts = (
        _integers(found[operation.given[0].name]),
        [table for table in tables if "kernels" in table],
    )
    source = _images(operation, values, tables[0]["input"])
    if tables[0]["kind"] == "pad":
        top, bottom, left, right = tables[0]["padding"]
        source = np.pad(source, ((0, 0), (0, 0), (top, bottom), (left, right)))
    results = []
    for table in parts:
        plain = {key: value for key, value in table.items() if key not in ("reads", "gives")}
        layer = NamedLayer.model_validate({"name": "layer", **plain})
        kernels = _kernels(operation, layer, tensors, len(results))
        results.append(reference.reference_convolution(layer, source.reshape(layer.input_shape), kernels))
    joined = _spread(operation, results) if operation.operator == "ConvTranspose" else results[0]
    if len(operation.inputs) > 2 and operation.inputs[2] is not None:
        joined = joined + tensors[operation.inputs[2].name].reshape(1, -1, 1, 1)
    result = operation.outputs[0]
    assert result is not None and result.shape is not None
    if result.images in (0, None) or operation.batch == 1:
        return joined
    return np.moveaxis(joined.reshape(operation.batch, joined.shape[1], -1), 0, 1)


def _rows_first(operation: OnnxOperation, found: dict[str, Array], tensors: dict[str, Array]) -> bool:
    """Whether what is summed over comes first in the second operand, as the result tells."""
    left, right = (found[value.name] for value in operation.given)
    result = operation.outputs[0]
    assert result is not None
    try:
        product = np.swapaxes(left, -1, -2) @ right
    except ValueError:
        return False
    return np.array_equal(product, tensors[result.name])


def _kernels(operation: OnnxOperation, layer: NamedLayer, tensors: dict[str, Array], part: int) -> Array:
    fixed = next(value for value in operation.inputs[:2] if value is not None and value.fixed)
    weights = _integers(tensors[fixed.name])
    if operation.operator == "Conv":
        return weights.reshape(layer.kernels_shape)
    if operation.operator == "ConvTranspose":
        return _gathered(operation, layer, weights, part)
    weights = weights.reshape(weights.shape[-2:])
    first = fixed is operation.inputs[0]
    if first == bool(operation.attributes.get("transA" if first else "transB", 0)):
        weights = weights.T
    return weights.reshape(layer.kernels_shape)


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
    whole = np.zeros((images, shape[1], rows * stride[0], columns * stride[1]), np.int64)
    for result, phases in zip(results, _phases(operation), strict=True):
        for place, (row, column) in enumerate(phases):
            part = result[:, place * shape[1] : (place + 1) * shape[1]]
            whole[:, :, row :: stride[0], column :: stride[1]] = part
    return whole


def _pooled(operation: OnnxOperation, table: dict[str, Any], found: dict[str, Array]) -> Array:
    layer = Pool.model_validate({"name": "pool", **table})
    values = found[operation.given[0].name].reshape(-1, *layer.input)
    if layer.op == "max":
        return reference.reference_pool(layer, _integers(values))
    whole = reference.reference_pool(layer, _integers(values * 4096)) / 4096
    ones = reference.reference_pool(layer, np.ones_like(values, dtype=np.int64))
    padded = operation.attributes.get("count_include_pad", 0)
    averaged: Array = whole / (np.prod(layer.kernel) if padded else ones)
    return averaged
