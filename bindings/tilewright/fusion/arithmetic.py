"""The arithmetic of fused groups: what instructions compute, and the reference that they must equal.

All values are integers. An operation first brings what it reads to small integers (`small`), as fixed-point
hardware does after every operation; sums of hundreds of operations would not fit otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import NamedTuple

import numpy as np

from tilewright.simulator.arithmetic.reference import small
from tilewright.simulator.operations import exact_type, windows
from tilewright.simulator.program import Values
from tilewright.spec.graph import Operation
from tilewright.spec.layer import Layer, Window
from tilewright.spec.network import Add, AnyLayer, Mul, Pool

Range = tuple[int, int]

_LEAST = np.iinfo(np.int64).min


class MapRegion(NamedTuple):
    """A region of a map that an instruction reads."""

    tensor: str
    channels: Range
    rows: Range
    columns: Range


@dataclass(frozen=True)
class ComputeTile:
    """Compute some channels, rows and columns of an operation's output.

    An average is the sum over its window, as the division is a scale; so are functions of single values.

    Attributes
    ----------
    sources
        What is read, concatenated along channels, or operand by operand.
    weights
        Name of the parameters: a row for each kernel, its bias first, if there is one.
    summed
        Input channels of each group over which a convolution sums.
    """

    spec: AnyLayer
    sources: tuple[MapRegion, ...]
    weights: str | None
    rows: Range
    columns: Range
    channels: Range
    summed: Range

    def __call__(self, chip: dict[str, Values]) -> Values:
        """Return the outputs, shape ``(images, channels, rows, columns)``."""
        spec = self.spec
        parts = [
            small(chip[name][:, slice(*channels), slice(*rows), slice(*columns)])
            for name, channels, rows, columns in self.sources
        ]
        if isinstance(spec, Add | Mul):
            return reduce(np.add if isinstance(spec, Add) else np.multiply, parts)
        values = np.concatenate(parts, axis=1)
        if isinstance(spec, Pool):
            padded = self._padded(values, _LEAST if spec.op == "max" else 0)
            found = windows(spec, padded, *self._size)
            pooled: Values = found.max(axis=(2, 3)) if spec.op == "max" else found.sum(axis=(2, 3))
            return pooled
        if isinstance(spec, Layer):
            return self._convolved(spec, values, chip)
        # Functions that read neighbouring channels read all.
        return values if values.shape[1] == self._count else values[:, slice(*self.channels)]

    @property
    def _count(self) -> int:
        return self.channels[1] - self.channels[0]

    @property
    def _size(self) -> tuple[int, int]:
        return self.rows[1] - self.rows[0], self.columns[1] - self.columns[0]

    def _padded(self, values: Values, padding: int) -> Values:
        """Return what the windows cover, filled up where it is padding."""
        spec, source = self.spec, self.sources[0]
        assert isinstance(spec, Window)
        pads = [(0, 0), (0, 0)]
        for axis, (low, high), real in ((0, self.rows, source.rows), (1, self.columns, source.columns)):
            first = low * spec.stride[axis] - spec.padding[2 * axis]
            last = (high - 1) * spec.stride[axis] - spec.padding[2 * axis] + spec.kernel_extent[axis]
            pads.append((real[0] - first, last - real[1]))
        return np.pad(values, pads, constant_values=padding)

    def _convolved(self, spec: Layer, values: Values, chip: dict[str, Values]) -> Values:
        assert self.weights is not None
        each, deep = spec.kernels // spec.groups, spec.input[0] // spec.groups
        window, bias = prod(spec.kernel), int(getattr(spec, "bias", False))
        low, high = self.summed
        rows = chip[self.weights][slice(*self.channels)]
        kernels = rows[:, bias + low * window : bias + high * window]
        kind = exact_type(values, kernels, kernels.shape[1])
        kernels = kernels.astype(kind)
        found = windows(spec, self._padded(values.astype(kind), 0), *self._size)
        images, first = len(values), self.channels[0] // each
        result = np.empty((images, len(rows), prod(self._size)), dtype=np.int64)
        for group in range(first, -(-self.channels[1] // each)):
            mine = slice(
                max(0, group * each - self.channels[0]), min(len(rows), (group + 1) * each - self.channels[0])
            )
            begin = (group - first) * deep
            seen = found[:, begin : begin + high - low].reshape(images, kernels.shape[1], -1)
            result[:, mine] = kernels[mine] @ seen
        if bias and low == 0:
            result += rows[:, :1]
        return result.reshape(images, len(rows), *self._size)


def random_parameters(op: Operation, each: int, rng: np.random.Generator) -> Values:
    """Return random parameters of an operation, `each` for each output channel."""
    return rng.integers(-8, 9, (op.spec.output[0], each), dtype=np.int64)
