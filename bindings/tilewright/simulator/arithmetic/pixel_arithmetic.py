"""One operation in integers, of which some pixels and channels are computed at a time.

Values are brought to small integers before an operation reads them, as in `reference.small_output`, which
computes whole maps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.arithmetic.reference import product, small, small_output
from tilewright.simulator.operations import exact_type
from tilewright.simulator.program import Values
from tilewright.spec.access import reads_place
from tilewright.spec.graph import Operation
from tilewright.spec.layer import Layer, Window
from tilewright.spec.network import Add, AnyLayer, Map, MatMul, Mul, NamedLayer, Pool, is_normalisation

Numbers = NDArray[np.int64]
Span = tuple[int, int]
"""First and end."""

Read = Callable[[int, Numbers, int, int], Values]
"""Returns the values of some pixels and channels of an operand by its place, shape (pixels, channels)."""

_LEAST = np.iinfo(np.int64).min


class Work(NamedTuple):
    """Work of any amount.

    Attributes
    ----------
    macs
        Multiplications with a weight and additions.
    vectors
        Operations of the core on single values, in pools, sums and functions.
    accesses
        Elements that the core reads and writes: for each MAC a value and a weight, biases, what it pools,
        sums up or maps, and each value that it computes, once.
    """

    macs: int = 0
    vectors: int = 0
    accesses: int = 0

    def times(self, count: int) -> Work:
        """Return the work of so many values."""
        return Work(self.macs * count, self.vectors * count, self.accesses * count)

    def plus(self, other: Work) -> Work:
        """Return the work of both."""
        return Work(self.macs + other.macs, self.vectors + other.vectors, self.accesses + other.accesses)


def work_of_value(operation: Operation) -> Work:
    """Return what an operation does for one value of its output."""
    spec = operation.spec
    macs = spec.depth if isinstance(spec, MatMul) else operation.macs // max(1, prod(spec.output))
    if macs:
        return Work(macs, 0, 2 * macs + int(getattr(spec, "bias", False)) + 1)
    if isinstance(spec, Pool):
        window = prod(spec.kernel)
        return Work(0, window, window + 1)
    if isinstance(spec, Add | Mul):
        operands = len(operation.operands)
        return Work(0, max(1, operands - 1), operands + 1)
    return Work(0, int(isinstance(spec, Map) or is_normalisation(spec)), 2)


class PixelArithmetic:
    """Computes parts of an operation's output.

    Parameters
    ----------
    planes
        Shapes (C, H, W) of the operands, which are read by their place.
    channelwise
        Whether an output channel needs no input channel but that of its number.
    numeric
        Whether to compute; else all that is needed is read, and zeros are returned.
    of_places
        Computes pixels, shape (pixels, channels), from those of the first operand, of the same form, and all
        of the second one, and from their numbers, instead of what is computed of small integers.
    """

    def __init__(
        self,
        operation: Operation,
        planes: Sequence[tuple[int, int, int]],
        *,
        channelwise: bool,
        numeric: bool,
        of_places: Callable[[Sequence[Values], Numbers], Values] | None = None,
    ) -> None:
        self.operation, self.planes, self.of_places = operation, planes, of_places
        self.channelwise, self.numeric = channelwise, numeric
        # What is under the windows of pixels is kept until others are asked for.
        self._pixels = self._seen = self._needed = np.zeros(0, dtype=np.int64)

    @property
    def reads_all(self) -> bool:
        """Whether each output needs all of the operands."""
        return not isinstance(self.operation.spec, Window) or self.operation.spec.kind == "fc"

    def compute(self, read: Read, weights: Values, pixels: Numbers, channels: Span) -> Values:
        """Return some output pixels and channels, shape (pixels, channels).

        Parameters
        ----------
        weights
            Of these channels, flat: of each kernel its bias, if there is one, before its numbers.
        """
        spec, count = self.operation.spec, channels[1] - channels[0]
        if self.reads_all:
            return self._of_all(read, weights, pixels, channels)
        if isinstance(spec, Add | Mul):
            parts = []
            for place, shape in enumerate(self.planes):
                one = shape[1:] != spec.input[1:]
                places = np.zeros(1, dtype=np.int64) if one else pixels
                if shape[0] < spec.input[0]:  # each group of as many channels has them again
                    found = read(place, places, 0, shape[0])[:, np.arange(*channels) % shape[0]]
                else:
                    found = read(place, places, *channels)
                parts.append(np.broadcast_to(small(found), (len(pixels), count)))
            return reduce(np.add if isinstance(spec, Add) else np.multiply, parts)
        assert isinstance(spec, Window)
        first, last = channels if self.channelwise else (0, spec.input[0])
        border = _LEAST if isinstance(spec, Pool) and spec.op == "max" else 0
        under = self._under(read, pixels, (first, last), border)
        if not self.numeric:
            return np.zeros((len(pixels), count), dtype=np.int64)
        if isinstance(spec, Pool):
            pooled: Values = under.max(axis=1) if spec.op == "max" else under.sum(axis=1)
            return pooled
        if not isinstance(spec, Layer):
            return under[:, 0, channels[0] - first : channels[1] - first]
        return _convolved(spec, under, first, weights.reshape(count, -1), channels)

    def add(self, read: Read, weights: Values, pixels: Numbers, inputs: Span) -> Values:
        """Return what some input channels of a convolution add to some pixels, shape (pixels, channels).

        Parameters
        ----------
        weights
            Of the output channels, shape (channels, input channels times window).
        """
        if self.reads_all:
            needed = np.arange(prod(self.planes[0][1:]))
            under = self._joined(read, needed, *inputs)[None]
            under = small(under) if self.numeric else under
        else:
            under = self._under(read, pixels, inputs, 0)
        if not self.numeric:
            return np.zeros((len(pixels), len(weights)), dtype=np.int64)
        terms = under.transpose(0, 2, 1).reshape(len(pixels), -1)
        kind = exact_type(terms, weights, terms.shape[1])
        found: Values = (terms.astype(kind) @ weights.T.astype(kind)).astype(np.int64)
        return found

    def add_pixels(self, read: Read, weights: Values, pixels: Numbers, channels: Span) -> Values:
        """Return what some pixels of a whole plane add to its one output pixel, shape (1, channels).

        Parameters
        ----------
        weights
            Of these channels and pixels, shape (channels, input channels times pixels); none for a pool.
        """
        spec = self.operation.spec
        deep = channels if self.channelwise else (0, sum(shape[0] for shape in self.planes))
        values = self._joined(read, pixels, *deep)
        if not self.numeric:
            return np.zeros((1, channels[1] - channels[0]), dtype=np.int64)
        values = small(values)
        if isinstance(spec, Pool):
            pooled: Values = values.max(axis=0) if spec.op == "max" else values.sum(axis=0)
            return pooled[None]
        if self.channelwise:
            own: Values = (weights * values.T).sum(axis=1)
            return own[None]
        terms = values.T.reshape(-1)
        kind = exact_type(terms, weights, len(terms))
        found: Values = (weights.astype(kind) @ terms.astype(kind)).astype(np.int64)
        return found[None]

    def together(self, values: Values, before: Values) -> Values:
        """Return the values of two parts of what an operation adds up, or takes the largest of."""
        spec = self.operation.spec
        largest = isinstance(spec, Pool) and spec.op == "max"
        found: Values = np.maximum(values, before) if largest else values + before
        return found

    def _of_all(self, read: Read, weights: Values, pixels: Numbers, channels: Span) -> Values:
        """Return parts of the output where each value needs all of the operands."""
        spec, count = self.operation.spec, channels[1] - channels[0]
        at_place = reads_place(self.operation, self.planes)
        spread = self.operation.spread
        places = pixels if spread == 1 else np.unique(pixels // spread)
        found = [
            read(number, places if place else np.arange(shape[1] * shape[2]), 0, shape[0])
            for number, (shape, place) in enumerate(zip(self.planes, at_place, strict=True))
        ]
        if not self.numeric:
            return np.zeros((len(pixels), count), dtype=np.int64)
        if self.operation.picks is not None:
            picks = np.array(self.operation.picks).reshape(-1, spread)[slice(*channels)]
            joined = np.concatenate([small(each) for each in found], axis=1)
            rows = np.searchsorted(places, pixels // spread)
            picked: Values = joined[rows[:, None], picks[:, pixels % spread].T]
            return picked
        if at_place[0] and self.of_places is not None:
            return self.of_places(found, pixels)[:, slice(*channels)]
        if at_place[0]:
            return _of_places(spec, [small(each) for each in found], channels)
        operands = [each.T.reshape(shape) for each, shape in zip(found, self.planes, strict=True)]
        if not isinstance(spec, NamedLayer):
            whole = whole_output(self.operation, operands, weights).reshape(spec.output[0], -1)
            return whole[slice(*channels), pixels].T
        rows = weights.reshape(count, -1)
        bias = int(spec.bias)
        joined = np.concatenate([small(each).reshape(-1) for each in operands])
        values: Values = rows[:, bias:] @ joined + (rows[:, 0] if bias else 0)
        return values[None]

    def _under(self, read: Read, pixels: Numbers, channels: Span, border: int) -> Values:
        """Return what is under the window of each pixel, shape (pixels, window, channels)."""
        if pixels is not self._pixels:
            assert isinstance(self.operation.spec, Window)
            self._pixels, self._seen = pixels, window_pixels(self.operation.spec, pixels)
            self._needed = np.unique(self._seen[self._seen >= 0])
        values = self._joined(read, self._needed, *channels)
        if not self.numeric:
            return values
        padded = np.concatenate([small(values), np.full((1, values.shape[1]), border)])
        places = np.where(self._seen >= 0, np.searchsorted(self._needed, self._seen), len(self._needed))
        under: Values = padded[places]
        return under

    def _joined(self, read: Read, pixels: Numbers, first: int, last: int) -> Values:
        """Return some channels of operands that are concatenated."""
        parts, begin = [], 0
        for place, shape in enumerate(self.planes):
            low, high = max(first - begin, 0), min(last - begin, shape[0])
            if low < high:
                parts.append(read(place, pixels, low, high))
            begin += shape[0]
        return np.concatenate(parts, axis=1)


def _of_places(spec: AnyLayer, operands: Sequence[Values], channels: Span) -> Values:
    """Return pixels of a product, or of a function that reads the pixel at its place alone.

    Parameters
    ----------
    operands
        The pixels of the first one, shape (pixels, channels); all of a product's second one.
    """
    if not isinstance(spec, MatMul):
        return operands[0][:, slice(*channels)]
    return product(spec, *(each.T for each in operands)).T[:, slice(*channels)]


def _convolved(spec: Layer, under: Values, first: int, rows: Values, channels: Span) -> Values:
    """Return some output channels of a convolution.

    Parameters
    ----------
    under
        What is under the windows, from channel `first` on, shape (pixels, window, channels).
    rows
        Weights of the channels, shape (channels, bias and numbers).
    """
    bias = int(getattr(spec, "bias", False))
    deep, each = spec.input[0] // spec.groups, spec.kernels // spec.groups
    result: Values = np.empty((len(under), len(rows)), dtype=np.int64)
    kernels = rows[:, bias:]
    kind = exact_type(under, kernels, kernels.shape[1])
    for group in range(channels[0] // each, -(-channels[1] // each)):
        low, high = max(channels[0], group * each), min(channels[1], (group + 1) * each)
        mine = kernels[low - channels[0] : high - channels[0]].astype(kind)
        start = group * deep - first
        taps = under[:, :, start : start + deep].transpose(0, 2, 1).reshape(len(under), -1)
        result[:, low - channels[0] : high - channels[0]] = taps.astype(kind) @ mine.T
    if bias:
        result += rows[:, 0]
    return result


def whole_output(operation: Operation, inputs: Sequence[Values], weights: Values) -> Values:
    """Return what an operation computes of whole maps of shape (C, H, W)."""
    spec = operation.spec
    if operation.picks is not None:
        picks = np.array(operation.picks).reshape(-1, operation.spread)
        joined = np.concatenate([small(each).reshape(len(each), -1) for each in inputs])
        picked: Values = joined[picks].transpose(0, 2, 1).reshape(spec.output)
        return picked
    if isinstance(spec, Add | Mul):
        wanted = np.arange(spec.input[0])
        inputs = [each[wanted % len(each)] for each in inputs]
    rows = weights.reshape(spec.kernels, -1) if isinstance(spec, NamedLayer) else None
    found: Values = small_output(spec, [each[None] for each in inputs], rows)[0]
    return found


def window_pixels(spec: Window, pixels: Numbers) -> Numbers:
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
