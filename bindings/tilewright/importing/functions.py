"""ONNX operators without a kind of their own: what they are called, and their work."""

from __future__ import annotations

import re
from collections import Counter
from math import prod

from onnx import TensorProto

from tilewright.importing.model import OnnxOperation, Value
from tilewright.importing.shapes import Shape, Table, any_shape, axes, shape

MOVES = (
    "CenterCropPad", "Col2Im", "Compress", "Concat", "DepthToSpace", "Expand", "Gather", "GatherElements",
    "GatherND", "Identity", "OneHot", "Pad", "ReverseSequence", "Scatter", "ScatterElements", "ScatterND",
    "Slice", "SpaceToDepth", "Split", "TensorScatter", "Tile", "Transpose", "Trilu", "Unsqueeze",
    "Upsample",
)  # fmt: skip
"""Operators that move values and compute none."""

COMPARES = (
    "And", "ArgMax", "ArgMin", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Clip", "Equal",
    "Greater", "GreaterOrEqual", "Hardmax", "IsInf", "IsNaN", "Less", "LessOrEqual", "Max", "Min", "Not",
    "Or", "TopK", "Where", "Xor",
)  # fmt: skip

VALUE_BY_VALUE = (
    "Abs", "Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "BitCast", "BitShift", "Ceil", "Cos",
    "Cosh", "CumProd", "CumSum", "DequantizeLinear", "Div", "Dropout", "DynamicQuantizeLinear", "Exp",
    "Floor", "Log", "Mean", "Mod", "Mul", "Neg", "PRelu", "Pow", "QuantizeLinear", "Reciprocal", "Round",
    "Shrink", "Sign", "Sin", "Sinh", "Sqrt", "Sub", "Sum", "Tan", "ThresholdedRelu",
)  # fmt: skip
"""Operators whose work is one operation for each value, which like an activation counts no MAC."""

REDUCES = (
    "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
    "ReduceSumSquare",
)  # fmt: skip

NORMALISES = (
    "BatchNormalization", "GroupNormalization", "InstanceNormalization", "LRN", "LayerNormalization",
    "LogSoftmax", "LpNormalization", "MeanVarianceNormalization", "RMSNormalization", "Softmax",
)  # fmt: skip

POOLS = ("AveragePool", "LpPool", "MaxPool")
PRODUCTS = ("Conv", "ConvTranspose", "DeformConv", "Einsum", "Gemm", "MatMul")
RECURRENT = ("GRU", "LSTM", "RNN")

DETECTIONS = ("tflite.DetectionPostProcess", "tflite.NonMaxSuppression")
"""Operators that choose as many boxes as they give, of all that they read."""

UNDERSTOOD = frozenset(
    (
        *MOVES, *COMPARES, *VALUE_BY_VALUE, *REDUCES, *NORMALISES, *POOLS, *PRODUCTS, *RECURRENT,
        *DETECTIONS, "GridSample", "MaxUnpool", "Resize", "RoiAlign",
    )
)  # fmt: skip
"""Operators that are functions where no kind of layer does what they do."""

TRAINED = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.BFLOAT16,
    TensorProto.DOUBLE,
    TensorProto.INT8,
    TensorProto.UINT8,
)
"""Types of numbers that may have been trained."""

WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def function(operation: OnnxOperation) -> list[Table]:
    """Return a layer for each output of an operation, the first with its work."""
    own = shape(operation, operation.given[0])
    name = WORDS.sub("_", operation.operator.removeprefix("tflite.")).lower()
    if operation.operator in ("Resize", "Upsample"):
        name = f"resize_{operation.attributes.get('mode', 'nearest')}"
    table: Table = {"kind": "function", "op": name, "input": own}
    if operation.operator == "Concat" and parameters(operation):
        table["numbers_at"] = numbers_at(operation)
    along, result = operation.attributes.get("along"), operation.outputs[0]
    if along is not None and result is not None and shape(operation, result) == own:
        table["along"] = axes(operation, operation.given[0], along)
    tables = _each(operation, table, loose=False)
    if operation.operator in RECURRENT and tables:
        tables[0] |= _recurrence(operation, own)
    return tables


def _recurrence(operation: OnnxOperation, own: Shape) -> Table:
    """Return the sizes of a recurrent layer, where its state begins with zeros and its weights are fixed."""
    inputs = [*operation.inputs, *[None] * 8][:8]
    by_input, by_state = (_shape(operation, place) for place in (1, 2))
    begins = all(value is None or _is_zero(value) for value in inputs[5:7])
    fixed = all(value is not None and value.fixed for value in inputs[1:3])
    if not (begins and fixed and inputs[4] is None and len(operation.given) == 1 and by_state):
        return {}
    (directions, rows, hidden), features = by_state, by_input[-1]
    steps, units = operation.attributes.get("steps"), directions * hidden
    result = next(value for value in operation.outputs if value is not None)
    # Several sequences in one image are several states.
    if (
        not steps
        or prod(own) != steps * features
        or prod(shape(operation, result)) not in (units, steps * units)
    ):
        return {}
    if parameters(operation) < directions * rows * (features + hidden):
        return {}
    after = operation.operator == "GRU" and bool(operation.attributes.get("linear_before_reset"))
    sizes: Table = {"steps": steps, "hidden": hidden, "directions": directions}
    every = prod(shape(operation, result)) > units
    told = {
        "reset_after": after,
        "reads_time_last": bool(operation.attributes.get("reads_time_last")),
        "gives_time_last": every and not operation.attributes.get("layout"),
    }
    return {"recurrence": sizes | {name: True for name, value in told.items() if value}}


def _is_zero(value: Value) -> bool:
    """Whether a tensor is known to hold nothing but zeros."""
    return value.data is not None and not value.data.any()


def numbers_at(operation: OnnxOperation) -> int | None:
    """Return how many inputs of a concatenation stand before numbers of the file, if these have one place."""
    given = {value.name for value in operation.given}
    computed = [value is not None and value.name in given for value in operation.inputs]
    first = computed.index(False)
    after = computed[first:]
    return first if sorted(after) == after else None


def opaque(operation: OnnxOperation) -> list[Table]:
    """Return a layer for each output of an operation that is not understood, with the work that is known."""
    own = any_shape(operation, operation.given[0])
    return _each(operation, {"kind": "opaque", "op": operation.operator, "input": own}, loose=True)


def _each(operation: OnnxOperation, table: Table, loose: bool) -> list[Table]:
    work: Table = {"macs": macs(operation), "parameters": parameters(operation)}
    tables: list[Table] = []
    for place, value in enumerate(operation.outputs):
        if value is not None:
            output = (any_shape if loose else shape)(operation, value)
            own = {} if tables else work
            tables.append({**table, "output": output, **own, "gives": place, "reads": [-1]})
    return tables


def parameters(operation: OnnxOperation) -> int:
    """Count the numbers that may have been trained; single ones are part of the operation."""
    if operation.operator in ("Resize", "Upsample", "QuantizeLinear", "DequantizeLinear", "Pad", "Where"):
        return 0
    fixed = operation.fixed
    if operation.operator in RECURRENT:  # whose states begin with zeros where no others are given
        fixed = [value for value in fixed if value not in operation.inputs[5:7] or not _is_zero(value)]
    counts = [
        prod(value.shape)
        for value in fixed
        if value.shape is not None and operation.types.get(value.name) in TRAINED
    ]
    return sum(number for number in counts if number > 1)


def macs(operation: OnnxOperation) -> int:
    """Count multiplications and additions for all images, as far as they are known."""
    first = _values(operation, 0)
    results = [value.shape for value in operation.outputs if value is not None and value.shape is not None]
    given = prod(results[0]) if results else 0
    operator, attributes = operation.operator, operation.attributes
    if operator in PRODUCTS:
        return _products(operation, given)
    if operator in RECURRENT:
        kernels = [_shape(operation, place) for place in (1, 2)]
        steps = first // kernels[0][-1] if kernels[0] and kernels[0][-1] else 0
        return steps * sum(prod(each) for each in kernels if each)
    if operator in POOLS:
        return given * int(prod(attributes.get("kernel_shape", ())))
    if operator in REDUCES:
        return first
    if operator in NORMALISES:  # average, variance, and what becomes of each value
        return first * (4 if len(operation.inputs) > 1 else 3)
    if operator in ("Resize", "Upsample"):
        own, other = _shape(operation, 0), results[0] if results else ()
        taps = {"linear": 2, "cubic": 4}.get(attributes.get("mode", "nearest"), 0)
        changed = sum(a != b for a, b in zip(own, other, strict=False))
        return given * int(taps**changed) if taps else 0
    return given * 4 if operator == "GridSample" else 0


def _shape(operation: OnnxOperation, place: int) -> tuple[int, ...]:
    value: Value | None = operation.inputs[place] if place < len(operation.inputs) else None
    return value.shape if value is not None and value.shape is not None else ()


def _values(operation: OnnxOperation, place: int) -> int:
    return prod(_shape(operation, place))


def _products(operation: OnnxOperation, given: int) -> int:
    """Count the MACs of a convolution or a product."""
    kernels = _shape(operation, 1)
    if operation.operator in ("Conv", "DeformConv"):
        return given * prod(kernels[1:]) if kernels else 0
    if operation.operator == "ConvTranspose":
        return _values(operation, 0) * prod(kernels[1:]) if kernels else 0
    if operation.operator == "Einsum":
        labels, _, _ = str(operation.attributes.get("equation", "")).replace(" ", "").partition("->")
        extents: Counter[str] = Counter()
        for place, each in enumerate(labels.split(",")):
            if "." in each:
                return 0
            for label, size in zip(each, _shape(operation, place), strict=False):
                extents[label] = max(extents[label], size)
        return prod(extents.values()) if extents else 0
    return given * _summed(operation)


def _summed(operation: OnnxOperation) -> int:
    """Return how many products are added up for a value of a product of matrices.

    Weights stand as they are written; so do both where none are weights.
    """
    second = operation.inputs[1]
    by_weights = second is not None and second.fixed
    known = _shape(operation, int(by_weights))
    turned = bool(operation.attributes.get("transB" if by_weights else "transA", 0))
    if len(known) < 2:
        return prod(known)
    return known[-1] if turned == by_weights else known[-2]
