"""Operators of quantised networks as the operators of floating-point ones that do the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, defs, helper

Bits = tuple[int, int, int]

WIDTHS = {
    TensorProto.INT4: 4,
    TensorProto.UINT4: 4,
    TensorProto.INT8: 8,
    TensorProto.UINT8: 8,
    TensorProto.INT16: 16,
    TensorProto.UINT16: 16,
    TensorProto.FLOAT16: 16,
    TensorProto.BFLOAT16: 16,
    TensorProto.INT32: 32,
    TensorProto.FLOAT: 32,
}
"""Bits of the types of numbers."""


class _Form(NamedTuple):
    """An operator in floating point, its inputs, and the type of what it gives, if not its input's."""

    operator: str
    inputs: Sequence[int] | slice
    gives: int | None = None


MICROSOFT = "com.microsoft"

FORMS: Mapping[tuple[str, str], _Form] = {
    ("", "QLinearConv"): _Form("Conv", (0, 3, 8)),
    ("", "ConvInteger"): _Form("Conv", (0, 1), TensorProto.INT32),
    ("", "QLinearMatMul"): _Form("MatMul", (0, 3)),
    ("", "MatMulInteger"): _Form("MatMul", (0, 1), TensorProto.INT32),
    (MICROSOFT, "MatMulIntegerToFloat"): _Form("MatMul", (0, 1), TensorProto.FLOAT),
    (MICROSOFT, "DynamicQuantizeMatMul"): _Form("MatMul", (0, 1), TensorProto.FLOAT),
    (MICROSOFT, "QGemm"): _Form("Gemm", (0, 3, 6)),
    (MICROSOFT, "QLinearAdd"): _Form("Add", (0, 3)),
    (MICROSOFT, "QLinearMul"): _Form("Mul", (0, 3)),
    (MICROSOFT, "QLinearConcat"): _Form("Concat", slice(2, None, 3)),
    (MICROSOFT, "QLinearAveragePool"): _Form("AveragePool", (0,)),
    (MICROSOFT, "QLinearGlobalAveragePool"): _Form("GlobalAveragePool", (0,)),
    (MICROSOFT, "QLinearLeakyRelu"): _Form("LeakyRelu", (0,)),
    (MICROSOFT, "QLinearSigmoid"): _Form("Sigmoid", (0,)),
    (MICROSOFT, "QLinearSoftmax"): _Form("Softmax", (0,)),
    ("", "RequantShift"): _Form("Identity", (0,)),
    ("PACTOps", "RequantShift"): _Form("Identity", (0,)),
}
"""Those by domain and operator; scales and zero points are what is left out of the inputs."""


def float_form(node: NodeProto, opset: int) -> NodeProto:
    """Return the node in floating point that does the same; itself if it is no quantised one."""
    form = FORMS.get((node.domain, node.op_type))
    if form is None or any(each.name == "channels_last" and each.i for each in node.attribute):
        return node
    least = 3 if isinstance(form.inputs, slice) else 1 + max(form.inputs[:2])
    if len(node.input) < least:
        return node  # which is not valid
    given = list(node.input)
    inputs = given[form.inputs] if isinstance(form.inputs, slice) else [
        given[place] for place in form.inputs if place < len(given)
    ]  # fmt: skip
    made = helper.make_node(form.operator, inputs, list(node.output), name=node.name)
    try:
        known = defs.get_schema(form.operator, opset, "").attributes
    except (defs.SchemaError, TypeError):  # of a version that is none
        return node
    made.attribute.extend(each for each in node.attribute if each.name in known)
    return made


def packed_weights(node: NodeProto) -> tuple[str, tuple[int, int], Bits] | None:
    """Return what weights in blocks of few bits stand for: their name, sizes, and widths of the product.

    None of other nodes than onnxruntime's MatMulNBits, and of those with an order of channels or a bias.
    """
    if (
        (node.domain, node.op_type) != (MICROSOFT, "MatMulNBits")
        or any(node.input[4:])
        or len(node.input) < 3
    ):
        return None
    told = {each.name: each.i for each in node.attribute}
    sizes = told.get("K", 0), told.get("N", 0)
    if min(sizes) < 1:
        return None
    return f"{node.input[1]}/unpacked", sizes, (32, told.get("bits", 4), 32)


def result_type(node: NodeProto, types: Mapping[str, int]) -> int:
    """Return ONNX's number of the type of what a quantised operator gives.

    Parameters
    ----------
    types
        Those of its inputs, by their names.
    """
    form = FORMS[node.domain, node.op_type]
    first = 2 if isinstance(form.inputs, slice) else 0
    return form.gives or types.get(node.input[first], TensorProto.FLOAT)


def operand_bits(node: NodeProto, types: Mapping[str, int]) -> Bits | None:
    """Return the widths of a quantised operator's inputs, weights and outputs, None for all others."""
    form = FORMS.get((node.domain, node.op_type))
    if form is None or isinstance(form.inputs, slice) or len(form.inputs) < 2:
        return None
    if len(node.input) <= form.inputs[1]:
        return None
    own, weights = (WIDTHS.get(types.get(node.input[place], 0)) for place in form.inputs[:2])
    if own is None or weights is None:
        return None
    # What is quantised as it comes is as wide as the weights.
    result = WIDTHS.get(result_type(node, types), own)
    return min(own, weights) if own > 16 else own, weights, result


def stored_numbers(node: NodeProto, stored: Mapping[str, NDArray[Any]]) -> NDArray[Any] | None:
    """Return what a node that quantises stored numbers gives, or what stored integers stand for.

    None of other nodes, of numbers that are computed, and of scales of blocks.

    Parameters
    ----------
    stored
        Numbers of tensors, by name.
    """
    told = {each.name: each.i for each in node.attribute}
    given = [name for name in node.input if name]
    if node.op_type not in ("QuantizeLinear", "DequantizeLinear") or told.get("block_size"):
        return None
    if len(given) < 2 or any(name not in stored for name in given):
        return None
    numbers, scale = stored[given[0]], stored[given[1]]
    zero = stored[given[2]] if len(given) > 2 else np.zeros((), np.uint8)
    if scale.ndim > 1 or zero.dtype.kind not in "iu" or numbers.dtype.kind not in "iuf":
        return None
    if scale.size > 1:
        axis = told.get("axis", 1) % max(1, numbers.ndim)
        along = tuple(-1 if each == axis else 1 for each in range(numbers.ndim))
        scale, zero = scale.reshape(along), zero.reshape(along if zero.size > 1 else ())
    if node.op_type == "DequantizeLinear":
        floats: NDArray[Any] = (numbers.astype(np.int64) - zero.astype(np.int64)).astype(scale.dtype) * scale
        return floats
    limits = np.iinfo(zero.dtype)
    rounded = np.rint(numbers / scale).astype(np.float64) + zero
    integers: NDArray[Any] = np.clip(rounded, limits.min, limits.max).astype(zero.dtype)
    return integers
