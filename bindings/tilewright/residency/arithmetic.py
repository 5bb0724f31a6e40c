"""What operations compute of some pixels and channels, and the reference network, in integers.

Values are brought to small integers before an operation reads them, as in the room `fusion`, whose reference
of single operations serves here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilewright.residency.graph import Graph, Operation
from tilewright.simulator.operations import exact
from tilewright.simulator.program import Values
from tilewright.simulator.reference import small, small_output
from tilewright.spec.layer import Layer, Window
from tilewright.spec.network import Add, Mul, NamedLayer, Pool

Read = Callable[[int, NDArray[np.int64], int, int], Values]
"""Returns the values of some pixels and channels of the operand of a number, shape (pixels, channels)."""

_LEAST = np.iinfo(np.int64).min


def is_whole(operation: Operation) -> bool:
    """Whether an operation reads all of its operands for each output."""
    return not isinstance(operation.op.spec, Window) or operation.op.spec.kind == "fc"


def reference_network(
    graph: Graph, rng: np.random.Generator, known: Mapping[int, Values] | None = None
) -> tuple[list[Values], dict[int, Values]]:
    """Return all tensors as random integers give them, each of shape (C, H, W), and all weights, flat.

    The weights of a convolution have for each kernel its bias, if there is one, before its numbers.

    Parameters
    ----------
    known
        Weights that are given, of an earlier frame.
    """
    tensors: list[Values] = []
    weights = dict(known or {})
    for tensor in graph.tensors:
        given = rng.integers(-8, 9, tensor.shape, dtype=np.int64)
        tensors.append(given if tensor.given else np.zeros(0, dtype=np.int64))
    for operation in graph.numbers(graph.all & ~graph.begin):
        if operation.number not in weights:
            weights[operation.number] = rng.integers(-8, 9, operation.parameters, dtype=np.int64)
        inputs = [tensors[producer + 1] for producer in operation.op.producers]
        tensors[operation.number + 1] = whole_output(operation, inputs, weights[operation.number])
    return tensors, weights


def whole_output(operation: Operation, inputs: Sequence[Values], weights: Values) -> Values:
    """Return what an operation computes of whole tensors."""
    spec = operation.op.spec
    rows = weights.reshape(spec.kernels, -1) if isinstance(spec, NamedLayer) else None
    found: Values = small_output(spec, [each[None] for each in inputs], rows)[0]
    return found


def computed(
    operation: Operation,
    planes: Sequence[tuple[int, int, int]],
    read: Read,
    weights: Values,
    wanted: NDArray[np.int64],
    channels: tuple[int, int],
    windows: Windows,
    numeric: bool = True,
) -> Values:
    """Return some output pixels and channels, shape (pixels, channels).

    Parameters
    ----------
    planes
        Shapes of the operands, which `read` takes by their place.
    weights
        Of these channels, flat.
    wanted
        The pixels.
    windows
        Where what is under their windows is asked for.
    numeric
        Whether to compute; else all that is needed is read, and zeros are returned.
    """
    spec, count = operation.op.spec, channels[1] - channels[0]
    nothing = np.zeros((len(wanted), count), dtype=np.int64)
    if is_whole(operation):
        operands = [
            read(place, np.arange(shape[1] * shape[2]), 0, shape[0]).T.reshape(shape)
            for place, shape in enumerate(planes)
        ]
        if not numeric:
            return nothing
        if not isinstance(spec, NamedLayer):
            whole: Values = whole_output(operation, operands, weights).reshape(spec.output[0], -1)
            return whole[slice(*channels), wanted].T
        rows = weights.reshape(count, -1)
        bias = int(spec.bias)
        joined = np.concatenate([small(each).reshape(-1) for each in operands])
        values: Values = rows[:, bias:] @ joined + (rows[:, 0] if bias else 0)
        return values[None]
    if isinstance(spec, Add | Mul):
        parts = []
        for place, shape in enumerate(planes):
            one = shape[1:] != spec.input[1:]
            found = read(place, np.zeros(1, dtype=np.int64) if one else wanted, *channels)
            parts.append(np.broadcast_to(small(found), (len(wanted), count)))
        return reduce(np.add if isinstance(spec, Add) else np.multiply, parts)
    assert isinstance(spec, Window)
    first, last = channels if operation.channelwise else (0, spec.input[0])
    seen, needed = windows.under(spec, wanted)
    values = _joined(planes, read, needed, first, last)
    if not numeric:
        return nothing
    values = small(values)
    border = _LEAST if isinstance(spec, Pool) and spec.op == "max" else 0
    padded = np.concatenate([values, np.full((1, values.shape[1]), border)])
    under: Values = padded[np.where(seen >= 0, np.searchsorted(needed, seen), len(needed))]
    if isinstance(spec, Pool):
        pooled: Values = under.max(axis=1) if spec.op == "max" else under.sum(axis=1)
        return pooled
    if not isinstance(spec, Layer):
        return under[:, 0, channels[0] - first : channels[1] - first]
    bias = int(getattr(spec, "bias", False))
    rows = weights.reshape(count, -1)
    deep, each = spec.input[0] // spec.groups, spec.kernels // spec.groups
    result: Values = np.empty((len(wanted), count), dtype=np.int64)
    kernels = rows[:, bias:]
    kind = exact(values, kernels, kernels.shape[1])
    for group in range(channels[0] // each, -(-channels[1] // each)):
        low, high = max(channels[0], group * each), min(channels[1], (group + 1) * each)
        mine = kernels[low - channels[0] : high - channels[0]].astype(kind)
        start = group * deep - first
        taps = under[:, :, start : start + deep].transpose(0, 2, 1).reshape(len(wanted), -1)
        result[:, low - channels[0] : high - channels[0]] = taps.astype(kind) @ mine.T
    if bias:
        result += rows[:, 0]
    return result


def added(
    operation: Operation,
    planes: Sequence[tuple[int, int, int]],
    read: Read,
    weights: Values,
    pixels: NDArray[np.int64],
    inputs: tuple[int, int],
    windows: Windows,
    numeric: bool = True,
) -> Values:
    """Return what some input channels of a convolution add to some pixels, shape (pixels, channels).

    Parameters
    ----------
    weights
        Of the output channels, shape (channels, input channels times window).
    inputs
        The input channels, first and end.
    windows
        Where what is under the windows of the pixels is asked for.
    """
    spec = operation.op.spec
    assert isinstance(spec, NamedLayer)
    if is_whole(operation):
        needed = np.arange(prod(planes[0][1:]))
        seen = needed[None]
    else:
        seen, needed = windows.under(spec, pixels)
    values = _joined(planes, read, needed, *inputs)
    if not numeric:
        return np.zeros((len(pixels), len(weights)), dtype=np.int64)
    padded = np.concatenate([small(values), np.zeros((1, values.shape[1]), dtype=np.int64)])
    under = padded[np.where(seen >= 0, np.searchsorted(needed, seen), len(needed))]
    terms = under.transpose(0, 2, 1).reshape(len(pixels), -1)
    kind = exact(terms, weights, terms.shape[1])
    found: Values = (terms.astype(kind) @ weights.T.astype(kind)).astype(np.int64)
    return found


def _joined(
    planes: Sequence[tuple[int, int, int]], read: Read, pixels: NDArray[np.int64], first: int, last: int
) -> Values:
    """Return some channels of operands that are concatenated."""
    parts, begin = [], 0
    for place, shape in enumerate(planes):
        low, high = max(first - begin, 0), min(last - begin, shape[0])
        if low < high:
            parts.append(read(place, pixels, low, high))
        begin += shape[0]
    return np.concatenate(parts, axis=1)


class Windows:
    """What is under the windows of output pixels, kept until others are asked for."""

    def __init__(self) -> None:
        self._spec: Window | None = None
        self._pixels = self._seen = self._needed = np.zeros(0, dtype=np.int64)

    def under(self, spec: Window, pixels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the input pixels under each window, -1 for padding, and all of them, ascending."""
        if spec is not self._spec or pixels is not self._pixels:
            self._spec, self._pixels = spec, pixels
            self._seen = window_pixels(spec, pixels)
            self._needed = np.unique(self._seen[self._seen >= 0])
        return self._seen, self._needed


def window_pixels(spec: Window, pixels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the input pixels under the window of each output pixel, -1 for padding."""
    rows, columns = np.divmod(pixels, spec.output_plane[1])
    height, width = spec.input[1:]
    down = rows[:, None] * spec.stride[0] - spec.padding[0] + np.arange(spec.kernel[0]) * spec.dilation[0]
    across = (
        columns[:, None] * spec.stride[1] - spec.padding[2] + np.arange(spec.kernel[1]) * spec.dilation[1]
    )
    inside = ((down >= 0) & (down < height))[:, :, None] & ((across >= 0) & (across < width))[:, None, :]
    found = np.where(inside, down[:, :, None] * width + across[:, None, :], -1)
    return found.reshape(len(pixels), prod(spec.kernel))
