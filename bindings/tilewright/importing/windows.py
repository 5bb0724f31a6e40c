"""ONNX operators that move a window over planes: convolutions, their transposes, and pools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from tilewright.importing.model import OnnxOperation
from tilewright.importing.shapes import (
    Invalid,
    Table,
    Unknown,
    has_bias,
    input_shape,
    output_shape,
    plane,
    result,
    sizes,
    weights,
)

AUTOMATIC = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
"""Ways to pad a window."""


def conv(operation: OnnxOperation) -> list[Table]:
    """Return a convolution, after what pads its input if it has outputs of padding alone."""
    known = weights(operation)
    if len(known) != 2 + len(plane(operation)):
        raise Unknown("its weights do not have the dimensions of its input")
    kernels, seen, *kernel = known
    channels, height, width = input_shape(operation)
    groups = operation.attributes.get("group", 1)
    if seen * groups != channels:
        raise Invalid(f"its weights are for {seen * groups} channels, and it reads {channels}")
    window = _window(operation, kernel)
    table = {
        "kind": "conv",
        "input": (channels, height, width),
        "kernels": kernels,
        **window,
        "groups": groups,
        "batch": operation.batch,
        "bias": has_bias(operation),
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


def pool(operation: OnnxOperation) -> list[Table]:
    """Return a pool of a window."""
    attributes = operation.attributes
    window = _window(operation, attributes["kernel_shape"], bool(attributes.get("ceil_mode")))
    if window.pop("dilation") != (1, 1):
        raise Unknown("its window is dilated")
    op = "max" if operation.operator == "MaxPool" else "average"
    return [{"kind": "pool", "op": op, "input": input_shape(operation), **window}]


def pool_all(operation: OnnxOperation) -> list[Table]:
    """Pool whole planes, as reductions over all dimensions of space do, too."""
    own, space = input_shape(operation), plane(operation)
    if operation.operator.startswith("Reduce"):
        axes = operation.attributes.get("axes")
        if axes is None or sorted(axes) != list(range(2, 2 + len(space))):
            raise Unknown("it does not reduce all dimensions of space and no others")
    op = "max" if "Max" in operation.operator else "average"
    return [{"kind": "pool", "op": op, "input": own, "kernel": own[1:]}]


def _window(operation: OnnxOperation, kernel: Sequence[int], ceil: bool = False) -> Table:
    """Return the geometry of a window, with all of its padding written out."""
    attributes, space = operation.attributes, plane(operation)
    outputs = sizes(operation, result(operation))[2:]
    strides = attributes.get("strides", [1] * len(space))
    dilations = attributes.get("dilations", [1] * len(space))
    pads = attributes.get("pads", [0] * 2 * len(space))
    automatic = attributes.get("auto_pad", "NOTSET")
    if automatic not in AUTOMATIC:
        raise Invalid(f"its auto_pad is {automatic!r}; there are {', '.join(AUTOMATIC)}")
    padding = []
    for axis, size in enumerate(space):
        before, after = pads[axis], pads[axis + len(space)]
        extent = dilations[axis] * (kernel[axis] - 1) + 1
        needed = (outputs[axis] - 1) * strides[axis] + extent - size
        if automatic in ("SAME_UPPER", "SAME_LOWER"):
            less, more = max(0, needed) // 2, -(-max(0, needed) // 2)
            before, after = (less, more) if automatic == "SAME_UPPER" else (more, less)
        elif ceil:  # the last window may begin inside and end outside, or be left out
            after = max(after, needed - before)
            if (size + before + after - extent) // strides[axis] + 1 > outputs[axis]:
                after = max(0, needed - before)
        padding.append((before, after))
    line = [1] * (2 - len(space))
    padding = [(0, 0)] * (2 - len(space)) + padding
    return {
        "kernel": (*line, *kernel),
        "stride": (*line, *strides),
        "padding": tuple(rows for side in padding for rows in side),
        "dilation": (*line, *dilations),
    }


# Transposed convolutions ---------------------------------------------------------------------------


def transposed_conv(operation: OnnxOperation) -> list[Table]:
    """Return a transposed convolution as convolutions that gather what each output is made of.

    Outputs at the same place between two inputs see the same part of each kernel: they are a convolution.
    All of them side by side are channels that become space.
    """
    space, known = plane(operation), weights(operation)
    if len(known) != 2 + len(space):
        raise Unknown("its weights do not have the dimensions of its input")
    (channels, height, width), (kernels, rows, columns) = input_shape(operation), output_shape(operation)
    groups = operation.attributes.get("group", 1)
    if known[0] != channels or known[1] * groups != kernels:
        raise Invalid(f"its weights are for {known[0]} channels, and it reads {channels}")
    if any(step != 1 for step in operation.attributes.get("dilations", [])):
        raise Unknown("it is dilated")
    line = [1] * (2 - len(space))
    kernel = (*line, *known[2:])
    strides = (*line, *operation.attributes.get("strides", [1] * len(space)))
    if (rows, columns) != (height * strides[0], width * strides[1]):
        raise Unknown("its outputs are no multiple of its inputs")
    axes = [
        list(_phases(*each))
        for each in zip(kernel, strides, _pads(operation, kernel, strides), (height, width), strict=True)
    ]
    counts: dict[tuple[tuple[int, int, int], ...], int] = {}
    for phase in product(*axes):
        counts[phase] = counts.get(phase, 0) + 1
    own = {"kind": "conv", "input": (channels, height, width), "groups": groups, "batch": operation.batch}
    tables: list[Table] = [
        {
            **own,
            "kernels": kernels * many,
            "kernel": tuple(taps for taps, _, _ in phase),
            "padding": tuple(pad for _, *pads in phase for pad in pads),
            "bias": has_bias(operation),
            "reads": [-1],
        }
        for phase, many in counts.items()
    ]
    several = len(tables) > 1
    wide = (kernels * prod(strides), height, width)
    if several:
        tables.append({"kind": "concat", "input": wide, "reads": list(range(len(tables)))})
    if prod(strides) > 1:
        shaped = {"input": wide, "output": (kernels, rows, columns)}
        table: Table = {"kind": "reshape", "op": "depth_to_space", **shaped, "reads": [len(tables) - 1]}
        phases = list(product(*axes))
        if phases == [phase for phase, many in counts.items() for _ in range(many)]:  # in their order
            sizes = (strides[0], strides[1], kernels, height, width)
            table["permutation"] = {"sizes": sizes, "axes": (2, 3, 0, 4, 1)}
        tables.append(table)
    return tables


def _pads(operation: OnnxOperation, kernel: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Return what is cut off before the first row and the first column."""
    space = len(plane(operation))
    automatic = operation.attributes.get("auto_pad", "NOTSET")
    pads = operation.attributes.get("pads", [0] * 2 * space)
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        total = [max(0, k - s) for k, s in zip(kernel, strides, strict=True)]
        low = [each // 2 if automatic == "SAME_UPPER" else each - each // 2 for each in total]
        return low[0], low[1]
    return (0, pads[0]) if space == 1 else (pads[0], pads[1])


def _phases(kernel: int, stride: int, cut: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Return for each output between two inputs: positions of the kernel, padding before and after.

    Output ``o`` is made of inputs ``i`` with ``i * stride + j = o + cut``, for positions ``j`` of the kernel.
    """
    for first in range(stride):
        taps = len(range((first + cut) % stride, kernel, stride))
        last = (first + cut) // stride  # the last input that the first output sees
        before, after = taps - 1 - last, last
        if taps == 0 or before < 0 or after < 0 or max(before, after) >= taps or taps > size + before + after:
            raise Unknown("some of its outputs see no input")
        yield taps, before, after
