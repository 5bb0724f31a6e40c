"""ONNX operators as layers: one function each, which returns the tables of the layers that do the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np
from onnx import TensorProto

from tilewright.importing.functions import UNDERSTOOD, function
from tilewright.importing.layouts import SAME
from tilewright.importing.matrices import matrix
from tilewright.importing.model import OnnxOperation, Value
from tilewright.importing.shapes import (
    Invalid,
    Table,
    Unknown,
    Unshaped,
    any_shape,
    axes,
    count,
    input_shape,
    output_shape,
    plane,
    result,
    shape,
    sizes,
    source,
)
from tilewright.importing.windows import conv, pool, pool_all, transposed_conv


def layers(operation: OnnxOperation) -> list[Table]:
    """Return the layers of an operation, without names.

    A table's ``reads`` are the places of the tables that it reads, -1 for what the operation reads; by
    default the first reads that, and each of the others the one before. Its ``gives`` is the place of the
    operation's output that it computes; by default the last gives the first.

    Raises
    ------
    Unknown
        If there are none that do the same.
    """
    if operation.fault:
        raise Unknown(operation.fault)
    if operation.operator == SAME:
        shapes = {
            "input": any_shape(operation, source(operation)),
            "output": any_shape(operation, result(operation)),
        }
        return [] if shapes["input"] == shapes["output"] else [{"kind": "reshape", **shapes}]
    known = operation.operator in OPERATORS or operation.operator in UNDERSTOOD
    for value in operation.outputs:
        if value is not None:
            (shape if known else sizes)(operation, value)  # which every one must know
    if not known:
        raise Unknown
    several = [value for value in operation.outputs[1:] if value is not None]
    try:
        if operation.operator in OPERATORS and (not several or operation.operator == "Split"):
            tables = OPERATORS[operation.operator](operation)
            widths = {} if operation.bits is None else {"bits": operation.bits}
            return [table | (widths if table["kind"] in ("conv", "fc") else {}) for table in tables]
    except (Unshaped, Invalid):
        raise
    except Unknown:
        if operation.operator not in UNDERSTOOD:
            raise
    if operation.operator not in UNDERSTOOD:
        place = operation.outputs.index(several[0])
        raise Unknown(f"its output {place + 1}, {several[0].name}, is used")
    return function(operation)


# Operations value by value -------------------------------------------------------------------------


def _map(op: str) -> Callable[[OnnxOperation], list[Table]]:
    """Return what makes a map layer of an operation; trained functions have parameters as further inputs."""

    def layer(operation: OnnxOperation) -> list[Table]:
        if len(operation.given) > 1:
            raise Unknown("its parameters depend on the image")
        trained = {"batch_norm": operation.fixed[:2], "prelu": operation.fixed}.get(op, [])
        parameters = count(operation, trained)
        return [{"kind": "map", "op": op, "input": input_shape(operation), "parameters": parameters}]

    return layer


def _dropout(operation: OnnxOperation) -> list[Table]:
    """Return a dropout as it is in an inference; it drops nothing then, whatever its ratio."""
    trains = operation.inputs[2] if len(operation.inputs) > 2 else None
    if trains is not None and (trains.data is None or trains.data.any()):
        raise Invalid("it drops values at random")
    return [{"kind": "map", "op": "dropout", "input": input_shape(operation)}]


def _softmax(operation: OnnxOperation) -> list[Table]:
    """Return a softmax of channels."""
    own, axis, value = input_shape(operation), operation.attributes["axis"], source(operation)
    known, images = sizes(operation, value), value.images if operation.batch > 1 else 0
    places = [
        place for place, size in enumerate(known) if place != images or size not in (1, operation.batch)
    ]
    channels = places[:-2] if len(places) > 2 else places[:1]
    if axis is None or axis % len(known) not in channels or known[axis % len(known)] != own[0]:
        raise Unknown("it is not along the channels")
    op = "softmax" if operation.operator == "Softmax" else "log_softmax"
    return [{"kind": "map", "op": op, "input": own}]


def _cast(operation: OnnxOperation) -> list[Table]:
    """Return what changes the type of numbers: nothing, among floating-point ones."""
    types = {operation.types.get(value.name) for value in (source(operation), result(operation))}
    return _map("identity" if types <= FLOATING else "cast")(operation)


def _arithmetic(operation: OnnxOperation) -> list[Table]:
    """Combine tensors, or one with numbers of its own."""
    own = output_shape(operation)
    given = [shape(operation, value) for value in operation.given]
    sums = operation.operator in ("Add", "Sum", "Sub")
    if len(operation.inputs) == 1 and given == [own]:
        return [{"kind": "map", "op": "identity", "input": own}]
    if len(given) == 1 and len(operation.inputs) == 2:
        if given != [own]:
            raise Unknown("numbers of its own give it another shape")
        if operation.operator in ("Sub", "Div"):
            source(operation)
        numbers = count(operation, operation.fixed)
        parameters = numbers if numbers > 1 else 0  # a single one belongs to the operation
        op = "fused" if _by_place(operation) else "bias" if sums else "scale"
        table: Table = {"kind": "map", "op": op, "input": own, "parameters": parameters}
        shaped = _shape_of_numbers(operation) if op == "fused" else None
        if shaped is not None and operation.operator in ("Add", "Sum", "Sub", "Mul", "Div"):
            table["numbers"] = {"op": "add" if sums else "mul", "shape": shaped}
            causal = operation.fixed[0].causal
            if causal is not None and operation.operator == "Add" and shaped[0] == 1:
                table["numbers"]["causal"] = causal
        return [table]
    if operation.fixed or operation.operator in ("Sub", "Div"):
        raise Unknown("it does not combine one tensor with numbers of its own")
    pixel = (own[0], 1, 1)
    if any(each != own and (sums or each != pixel) for each in given):
        raise Unknown(f"its inputs are of different shapes: {', '.join(map(str, map(list, given)))}")
    return [{"kind": "add" if sums else "mul", "input": own}]


def _by_place(operation: OnnxOperation) -> bool:
    """Whether numbers of its own differ from place to place, so that no weights take them over."""
    numbers = next((value.shape for value in operation.fixed if value.shape is not None), ())
    rank = len(sizes(operation, result(operation)))
    varied = [rank - len(numbers) + place for place, size in enumerate(numbers) if size > 1]
    return not {"channels"}.issuperset(axes(operation, result(operation), varied))


def _shape_of_numbers(operation: OnnxOperation) -> tuple[int, int, int] | None:
    """Return the shape of numbers that differ from place to place, None where layers do not say it.

    They may be the same along a whole plane's rows or columns, and for outer dimensions of channels.
    """
    value, known = operation.fixed[0], sizes(operation, result(operation))
    if value.shape is None or len(value.shape) > len(known) or operation.batch > 1:
        return None
    own = (1,) * (len(known) - len(value.shape)) + value.shape
    if any(size not in (1, whole) for size, whole in zip(own, known, strict=True)):
        return None
    if known[:1] == (1,):
        known, own = known[1:], own[1:]
    outer = max(1, len(known) - 2)
    varied = [size == whole for size, whole in zip(own[:outer], known[:outer], strict=True) if whole > 1]
    if varied != sorted(varied):
        return None
    height, width = [1, 1, *own[outer:]][-2:]
    return prod(own[:outer]), height, width


# Order and shape -----------------------------------------------------------------------------------


def _concat(operation: OnnxOperation) -> list[Table]:
    own, axis = output_shape(operation), operation.attributes["axis"]
    rank = len(sizes(operation, result(operation)))
    if axis % rank != 1 or rank < 2:
        raise Unknown(f"its axis is {axis}, and channels are 1")
    names = [value.name for value in operation.given]
    if len(set(names)) < len(operation.inputs):
        raise Unknown("one of its inputs stands twice, or is the same for all images")
    if {shape(operation, value)[1:] for value in operation.given} != {own[1:]}:
        raise Unknown("its inputs have no channels")
    return [{"kind": "concat", "input": own}]


def _reshape(
    op: str, order: Callable[[OnnxOperation], Order | None] = lambda _: None
) -> Callable[[OnnxOperation], list[Table]]:
    """Return a reader of reshapes; `order` has that of those that change it."""

    def layer(operation: OnnxOperation) -> list[Table]:
        source(operation)
        shapes = {"input": input_shape(operation), "output": output_shape(operation)}
        table: Table = {"kind": "reshape", "op": op, **shapes}
        known = order(operation)
        fits = known is not None and len(known[0]) <= MOST_DIMENSIONS
        if fits and known is not None and prod(known[0]) == prod(shapes["input"]):
            table["permutation"] = {"sizes": known[0], "axes": known[1]}
        return [table]

    return layer


MOST_DIMENSIONS = 8
"""Most dimensions of which an order is told."""

Order = tuple[tuple[int, ...], tuple[int, ...]]
"""Dimensions of what is read, and which of them those of what is given are."""


def _transposition(operation: OnnxOperation) -> Order | None:
    """Return the dimensions of an image, and their new order; None where images do not stay outside."""
    shape = operation.given[0].shape
    if shape is None:
        return None
    axes = tuple(operation.attributes.get("perm", range(len(shape))[::-1]))
    if operation.batch == 1:
        return tuple(shape), axes
    if operation.given[0].images != 0 or axes[0] != 0 or shape[0] != operation.batch:
        return None
    return tuple(shape[1:]), tuple(axis - 1 for axis in axes[1:])


def _to_depth(operation: OnnxOperation) -> Order | None:
    """Return the order in which places of a block become channels."""
    (channels, rows, columns), block = input_shape(operation), operation.attributes.get("blocksize", 0)
    if block < 1 or rows % block or columns % block:
        return None
    return (channels, rows // block, block, columns // block, block), (2, 4, 0, 1, 3)


def _to_space(operation: OnnxOperation) -> Order | None:
    """Return the order in which channels become places of a block, which are their outer or inner part."""
    (channels, rows, columns), block = input_shape(operation), operation.attributes.get("blocksize", 0)
    if block < 1 or channels % block**2:
        return None
    deep = channels // block**2
    if operation.attributes.get("mode", "DCR") in ("CRD", b"CRD"):
        return (deep, block, block, rows, columns), (0, 3, 1, 4, 2)
    return (block, block, deep, rows, columns), (2, 3, 0, 4, 1)


def _pad(operation: OnnxOperation) -> list[Table]:
    attributes, inputs = operation.attributes, dict(enumerate(operation.inputs))
    rank = len(plane(operation)) + 2
    if attributes.get("mode", "constant") != "constant":
        raise Unknown(f"its mode is {attributes['mode']}, and zeros are known")
    amounts, number, chosen = (inputs.get(place) for place in (1, 2, 3))
    pads = attributes.get("pads", attributes.get("paddings")) if amounts is None else amounts.data
    value = attributes.get("value", 0) if number is None else number.data
    where = range(rank) if chosen is None else chosen.data
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
    return [{"kind": "pad", "input": input_shape(operation), "padding": (*rows, before[-1], after[-1])}]


def _response(operation: OnnxOperation) -> list[Table]:
    """Return a local response normalisation with its numbers; of others than a network has, without."""
    found = _map("lrn")(operation)
    told = {"size": 0, "alpha": 1e-4, "beta": 0.75, "bias": 1.0, **operation.attributes}
    if told["size"] > 0 and told["bias"] > 0 and min(told["alpha"], told["beta"]) >= 0:
        alpha, beta, k = (
            float(f"{told[name]:.7g}") for name in ("alpha", "beta", "bias")
        )  # 32 bits in files
        found[-1]["response"] = {"size": told["size"], "alpha": alpha, "beta": beta, "k": k}
    return found


def _split(operation: OnnxOperation) -> list[Table]:
    """Return a slice for each output that is used."""
    axis = operation.attributes.get("axis", 0)
    own, tables, begin = sizes(operation, source(operation)), [], 0
    for place, value in enumerate(operation.outputs):
        if value is None:
            raise Unknown("where its other outputs begin is not known")
        begins = [begin if each == axis else 0 for each in range(len(own))]
        cut, *shaped = _part(operation, begins, value)
        tables.append(cut | {"reads": [-1]})
        tables += [each | {"reads": [len(tables) - 1]} for each in shaped]
        tables[-1]["gives"] = place
        begin += sizes(operation, value)[axis]
    return tables


def _slice(operation: OnnxOperation) -> list[Table]:
    begins = operation.attributes.get("begins")
    if begins is None:
        raise Unknown("where it begins is not known, or it leaves gaps")
    return _part(operation, begins, result(operation))


def _part(operation: OnnxOperation, begins: Sequence[int], value: Value) -> list[Table]:
    """Return the slice that gives a tensor, which begins at some place of each dimension of the source.

    A reshape follows where a first dimension of one value is left, as shapes of layers leave it out.
    """
    first, images = source(operation), operation.batch
    whole, part = list(sizes(operation, first)), list(sizes(operation, value))
    own, given = input_shape(operation), shape(operation, value)
    begins, axis = list(begins), first.images if images > 1 else 0
    if axis is not None and (images > 1 or whole[0] == 1):
        if part[axis] != whole[axis]:
            raise Unknown("it leaves out images")
        if whole[axis] == images:
            del whole[axis], part[axis], begins[axis]
    outer = max(1, len(whole) - 2)  # dimensions of channels
    cut = [axis for axis in range(outer) if part[axis] != whole[axis]]
    if len(cut) > 1 or (cut and prod(whole[: cut[0]]) > 1):
        raise Unknown("its channels do not lie side by side")
    channel = begins[cut[0]] * prod(whole[cut[0] + 1 : outer]) if cut else 0
    plane = [0, 0, *begins[outer:]][-2:]
    whole_plane = prod(part[:outer]), *([1, 1, *part[outer:]][-2:])
    table: Table = {"kind": "slice", "input": own, "first": [channel, *plane], "output": whole_plane}
    return (
        [table]
        if whole_plane == given
        else [table, {"kind": "reshape", "input": whole_plane, "output": given}]
    )


FLOATING = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}
"""Types of numbers that hold nearly the same ones."""

OPERATORS: Mapping[str, Callable[[OnnxOperation], list[Table]]] = {
    "Conv": conv,
    "ConvTranspose": transposed_conv,
    "Gemm": matrix,
    "MatMul": matrix,
    "MaxPool": pool,
    "AveragePool": pool,
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "ReduceMean", "ReduceMax"), pool_all),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Sum"), _arithmetic),
    "Concat": _concat,
    "Cast": _cast,
    "Dropout": _dropout,
    "LRN": _response,
    **dict.fromkeys(("LogSoftmax", "Softmax"), _softmax),
    "Pad": _pad,
    "Slice": _slice,
    "Split": _split,
    **{
        name: _reshape(op)
        for name, op in {
            "Reshape": "reshape",
            "Squeeze": "reshape",
            "Unsqueeze": "reshape",
            "Flatten": "flatten",
        }.items()
    },
    "Transpose": _reshape("transpose", _transposition),
    "SpaceToDepth": _reshape("space_to_depth", _to_depth),
    "DepthToSpace": _reshape("depth_to_space", _to_space),
    **{
        name: _map(op)
        for name, op in {
            "BatchNormalization": "batch_norm",
            "Celu": "celu",
            "Clip": "clip",
            "DequantizeLinear": "dequantise",
            "Elu": "elu",
            "Erf": "erf",
            "Gelu": "gelu",
            "HardSigmoid": "hard_sigmoid",
            "HardSwish": "hard_swish",
            "Identity": "identity",
            "LeakyRelu": "leaky_relu",
            "Mish": "mish",
            "PRelu": "prelu",
            "QuantizeLinear": "quantise",
            "Relu": "relu",
            "Selu": "selu",
            "Sigmoid": "sigmoid",
            "Softplus": "softplus",
            "Softsign": "softsign",
            "Swish": "swish",
            "Tanh": "tanh",
        }.items()
    },
}
