"""Caffe's layers that move a window over planes, with its rules for the sizes of what they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.importing.caffe.connections import CaffeLayer
from tilewright.importing.caffe.graph import Graph, Sizes, Unread

CONVOLUTION = "convolution_param"
POOLING = "pooling_param"


def convolution(graph: Graph, layer: CaffeLayer) -> None:
    """Add a convolution, or a transposed one, of each of its inputs by the same weights."""
    own = layer.parameters(CONVOLUTION, "ConvolutionParameter")
    transposed = layer.type == "Deconvolution"
    if own.axis != 1:
        raise Unread(f"{CONVOLUTION}.axis", own.axis, "channels are axis 1")
    if own.num_output < 1:
        raise layer.error(f"{CONVOLUTION}.num_output", own.num_output, "must be at least 1")
    if len(layer.tops) != len(layer.bottoms):
        raise layer.error("top", list(layer.message.top), "must be as many as its bottoms")
    names: list[str] = []
    for number, (bottom, top) in enumerate(zip(layer.bottoms, layer.tops, strict=True)):
        shape = graph.shape(layer, number)
        channels, space = shape[1] if len(shape) > 1 else 0, shape[2:]
        kernel, strides, pads, dilations = _window(layer, own, len(space))
        for field, value in (("group, of channels", channels), ("group, of num_output", own.num_output)):
            if own.group < 1 or value % own.group:
                raise layer.error(f"{CONVOLUTION}.{field}", own.group, f"must divide {value}")
        extent = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
        sides = list(zip(space, extent, strides, pads, strict=True))
        if transposed:
            plane = [(size - 1) * step + taps - 2 * pad for size, taps, step, pad in sides]
        else:
            plane = [(size + 2 * pad - taps) // step + 1 for size, taps, step, pad in sides]
        if min(plane, default=1) < 1:
            limit = f"its window takes {extent} of {list(space)} and padding {pads}, which leaves {plane}"
            raise layer.error(f"{CONVOLUTION}.kernel_size", kernel, limit)
        if not names:
            first, second = (channels, own.num_output) if transposed else (own.num_output, channels)
            names = [graph.weight(layer, 0, "weight", [first, second // own.group, *kernel])]
            if own.bias_term:
                names.append(graph.weight(layer, 1, "bias", [own.num_output]))
        attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "dilations": dilations}
        graph.node(
            layer,
            "ConvTranspose" if transposed else "Conv",
            [bottom, *names],
            [top],
            [[shape[0], own.num_output, *plane]],
            str(number + 1) if number else "",
            pads=[*pads, *pads],
            group=own.group,
            **attributes,
        )


def _window(layer: CaffeLayer, own: Any, space: int) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return kernel, strides, padding and dilations of a convolution, for each dimension of space."""
    if space < 1:
        raise layer.error("bottom", list(layer.message.bottom), "must have images, channels and a plane")
    kernel = _each(layer, own, ("kernel_size", "kernel_h", "kernel_w"), space, None)
    strides = _each(layer, own, ("stride", "stride_h", "stride_w"), space, 1)
    pads = _each(layer, own, ("pad", "pad_h", "pad_w"), space, 0)
    dilations = _each(layer, own, ("dilation", "", ""), space, 1)
    for name, values in (("kernel_size", kernel), ("stride", strides), ("dilation", dilations)):
        if min(values) < 1:
            raise layer.error(f"{CONVOLUTION}.{name}", values, "must be at least 1")
    return kernel, strides, pads, dilations


def _each(
    layer: CaffeLayer, own: Any, fields: tuple[str, str, str], space: int, default: int | None
) -> list[int]:
    """Return a field's value for each dimension of space."""
    both, *sides = fields
    values = list(getattr(own, both))
    if any(side and own.HasField(side) for side in sides):
        if values or space != 2:
            told = f"stand beside {both}" if values else f"are for two dimensions of space; there are {space}"
            raise layer.error(f"{CONVOLUTION}.{' and '.join(sides)}", None, told)
        return [getattr(own, side) for side in sides]
    if not values and default is None:
        raise layer.error(f"{CONVOLUTION}.{both}", None, "is missing")
    values = values or [default or 0]
    if len(values) not in (1, space):
        raise layer.error(f"{CONVOLUTION}.{both}", values, f"must be one number, or {space}")
    return values * space if len(values) == 1 else values


def pooling(graph: Graph, layer: CaffeLayer) -> None:
    """Add a pool. Caffe rounds its size up, unless the file says otherwise."""
    own, shape = layer.parameters(POOLING, "PoolingParameter"), graph.shape(layer)
    methods = own.DESCRIPTOR.fields_by_name["pool"].enum_type.values_by_number
    method = methods[own.pool].name
    if method == "STOCHASTIC":
        raise Unread(f"{POOLING}.pool", method, "MAX and AVE are read")
    if len(layer.tops) != 1:
        raise Unread("top", list(layer.message.top), "the places of the largest values are not read")
    if len(shape) != 4:
        raise layer.error("bottom", list(shape), "must have four dimensions")
    kernel, strides, pads = (_pair(layer, own, *fields) for fields in FIELDS_OF_POOLS)
    if own.global_pooling:
        told = [name for name in ("kernel_size", "kernel_h", "kernel_w") if own.HasField(name)]
        if told or strides != (1, 1) or pads != (0, 0):
            limit = "takes the whole plane, and stands beside a kernel, a stride or padding of its own"
            raise layer.error(f"{POOLING}.global_pooling", True, limit)
        operator = "GlobalMaxPool" if method == "MAX" else "GlobalAveragePool"
        graph.add(layer, operator, layer.bottoms, [*shape[:2], 1, 1])
        return
    _check_pool(layer, kernel, strides, pads)
    up = not own.round_mode
    plane = pooled(shape[2:], kernel, strides, pads, up)
    for size, given, step, pad in zip(shape[2:], plane, strides, pads, strict=True):
        if given < 1 or (given - 1) * step >= size + pad:
            limit = (
                f"with kernel {list(kernel)} and padding {list(pads)} a window begins behind {list(shape)}"
            )
            raise layer.error(f"{POOLING}.stride", list(strides), limit)
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides}
    needed = [
        (given - 1) * step + taps - size - pad
        for size, given, taps, step, pad in zip(shape[2:], plane, kernel, strides, pads, strict=True)
    ]
    if method == "MAX":
        attributes["pads"] = [*pads, *(max(0, each) for each in needed)]
    else:
        # An average counts the border, up to its own end. ONNX counts a window that begins in the border
        # behind the input: there the border ends where the last window before does.
        every = pooled(shape[2:], kernel, strides, pads, up, leave_out=False)
        after = [
            max(0, least) if given < all_ else pad
            for least, given, all_, pad in zip(needed, plane, every, pads, strict=True)
        ]
        attributes |= {"pads": [*pads, *after], "ceil_mode": int(up), "count_include_pad": 1}
    operator = "MaxPool" if method == "MAX" else "AveragePool"
    graph.add(layer, operator, layer.bottoms, [*shape[:2], *plane], **attributes)


def _check_pool(
    layer: CaffeLayer, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int]
) -> None:
    for name, values in (("kernel_size", kernel), ("stride", strides)):
        if min(values) < 1:
            raise layer.error(f"{POOLING}.{name}", list(values), "must be at least 1")
    if any(pad >= taps for pad, taps in zip(pads, kernel, strict=True)):
        raise layer.error(f"{POOLING}.pad", list(pads), f"must be smaller than the kernel, {list(kernel)}")


FIELDS_OF_POOLS = (
    ("kernel_size", "kernel_h", "kernel_w"),
    ("stride", "stride_h", "stride_w"),
    ("pad", "pad_h", "pad_w"),
)
"""Fields of a pool's window: for both sides, for height and for width."""


def _pair(layer: CaffeLayer, own: Any, both: str, height: str, width: str) -> tuple[int, int]:
    """Return a field's value for height and width."""
    sides = [name for name in (height, width) if own.HasField(name)]
    if not sides:
        return getattr(own, both), getattr(own, both)
    if own.HasField(both) or len(sides) < 2:
        told = f"stands beside {both}" if own.HasField(both) else f"needs both {height} and {width}"
        raise layer.error(f"{POOLING}.{' and '.join(sides)}", None, told)
    return getattr(own, height), getattr(own, width)


def pooled(
    plane: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    up: bool,
    leave_out: bool = True,
) -> Sizes:
    """Return height and width of what Caffe's pool gives.

    Parameters
    ----------
    up
        Whether the last window may end behind the border.
    leave_out
        Whether a last window that begins behind the input is left out, as it is where there is any padding.
    """
    given = []
    for size, taps, step, pad in zip(plane, kernel, strides, pads, strict=True):
        rest = size + 2 * pad - taps
        outputs = (-(-rest // step) if up else rest // step) + 1
        given.append(outputs - (leave_out and any(pads) and (outputs - 1) * step >= size + pad))
    return tuple(given)
