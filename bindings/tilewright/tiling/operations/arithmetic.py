"""What operations compute, in integers: tile by tile from what is on chip, and whole as the reference.

An average is the sum over its window, as the division by the size of the window is a scale and no matter of
what moves where; so are the divisions of hard sigmoids. Slopes are whole numbers. What has no such form is
not computed: exponentials, roots and error functions, several functions in a row, and moves whose order the
operation does not tell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np

from tilewright.simulator.program import Box, Values
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.permuting import permuted
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.operations.walk import OUTPUT, Walk
from tilewright.tiling.operations.walks import least_tile, walk_of

LARGEST = 2**22
"""Most values of an operation that is computed."""

MOST_TILES = 2**13
"""Most tiles of one."""

POOLS = {"max_pool": np.maximum, "average_pool": np.add}
"""How what lies under a window becomes one value."""

TERMS = {"add": np.add, "mul": np.multiply}

MOVES = ("concat", "reshape", "flatten", "transpose", "space_to_depth", "depth_to_space")
"""What gives each value that it reads once, in an order that the tiles do not know."""

SLOPE = 3
"""What a leaky function multiplies negative values by."""

Parameters = list[Values]
"""The numbers of each map, of the shape of what they are applied to."""


def _affine(values: Values, given: Parameters) -> Values:
    return values * given[0] + sum(given[1:]) if given else values * SLOPE


def _bias(values: Values, given: Parameters) -> Values:
    return values + (sum(given) if given else SLOPE)


def _leaky(values: Values, given: Parameters) -> Values:
    return np.where(values < 0, values * (given[0] if given else SLOPE), values)


MAPS: dict[str, Callable[[Values, Parameters], Values]] = {
    "relu": lambda values, _: np.maximum(values, 0),
    "clip": lambda values, _: np.clip(values, 0, 6),
    "leaky_relu": _leaky,
    "prelu": _leaky,
    "hard_sigmoid": lambda values, _: np.clip(values + 3, 0, 6),
    "hard_swish": lambda values, _: values * np.clip(values + 3, 0, 6),
    "bias": _bias,
    "scale": _affine,
    "batch_norm": _affine,
}
"""Functions of single values, with the numbers of their map."""

LEAST = np.iinfo(np.int64).min


def not_computed(operation: Operation, tiles: int) -> str | None:
    """Say why an operation is not computed, or None where it is."""
    op = operation.op
    if operation.recurrence is not None:
        return (
            f"{op} is too large"
            if max(operation.elements, operation.work) > LARGEST or tiles > MOST_TILES
            else None
        )
    if operation.needs == "flow":
        return f"{op} is moved in pieces of which none has all that an output depends on"
    if operation.windowed:
        known = op in POOLS or op in TERMS or op in MAPS
    else:
        known = (op in POOLS and _of_planes(operation)) or (op in MOVES and _moves_all(operation))
    if not known:
        return f"{op} has no exact form in integers"
    large = operation.elements > LARGEST or tiles > MOST_TILES
    return f"{op} is too large" if large else None


def _of_planes(operation: Operation) -> bool:
    """Whether a stream has one value for each map, of all values of that map."""
    maps = operation.inputs[0][0]
    return len(operation.inputs) == 1 and operation.output == (maps, 1, 1) and not operation.parameters


def _moves_all(operation: Operation) -> bool:
    return len(operation.inputs) == 1 and prod(operation.inputs[0]) == prod(operation.output)


# Tile by tile -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ComputeTile:
    """Compute a box of the output from what the chip holds; where that holds nothing, nonsense comes out."""

    operation: Operation
    box: Box

    def __call__(self, chip: dict[str, Values]) -> Values:
        """Return the values of the box."""
        operation = self.operation
        if not operation.windowed:
            return self._of_stream(chip["input"])
        operands = [values for name, values in chip.items() if name not in (OUTPUT, "parameters")]
        if operation.op in POOLS:
            return self._pooled(operands[0])
        image, maps, rows, columns = (slice(*span) for span in self.box.ranges if span is not None)
        parts = [
            each[image, maps] if each.shape[2:] == (1, 1) else each[image, maps, rows, columns]
            for each in operands
        ]
        if operation.op in TERMS:
            return reduce(TERMS[operation.op], parts)
        numbers = chip["parameters"][maps].T if "parameters" in chip else ()
        return MAPS[operation.op](parts[0], [each[:, None, None] for each in numbers])

    def _of_stream(self, values: Values) -> Values:
        (span,) = self.box.ranges
        assert span is not None
        if self.operation.op in MOVES:
            return values[slice(*span)]
        size = prod(self.operation.inputs[0][1:])
        found: Values = POOLS[self.operation.op].reduce(
            values[size * span[0] : size * span[1]].reshape(-1, size), axis=1
        )
        return found

    def _pooled(self, values: Values) -> Values:
        """Combine the values at each place of the window, those outside of the input left out."""
        operation = self.operation
        combine, neutral = POOLS[operation.op], LEAST if operation.op == "max_pool" else 0
        image, maps, *plane = (span for span in self.box.ranges if span is not None)
        result = np.full([last - first for first, last in (image, maps, *plane)], neutral, dtype=np.int64)
        for place in np.ndindex(*operation.kernel):
            at, there = zip(
                *(self._places(axis, span, place[axis]) for axis, span in enumerate(plane)), strict=True
            )
            under = values[slice(*image), slice(*maps)][:, :, at[0][:, None], at[1]]
            part = np.ix_(range(result.shape[0]), range(result.shape[1]), *there)
            result[part] = combine(result[part], under)
        return result

    def _places(self, axis: int, span: tuple[int, int], place: int) -> tuple[Values, Values]:
        """Return the rows or columns of the input at a place of the window, and of which outputs they are."""
        operation = self.operation
        outputs = np.arange(*span)
        at = outputs * operation.stride[axis] - operation.padding[2 * axis] + place
        inside = (at >= 0) & (at < operation.inputs[0][1 + axis])
        return at[inside], outputs[inside] - span[0]


# Whole --------------------------------------------------------------------------------------------------


def random_values(operation: Operation, seed: int) -> dict[str, Values]:
    """Return random numbers for what an operation reads, integers from -8 to 8."""
    rng = np.random.default_rng(seed)
    operands = walk_of(operation, least_tile(operation)).operands
    return {name: rng.integers(-8, 9, shape, dtype=np.int64) for name, shape in operands.items()}


def whole(operation: Operation, given: dict[str, Values]) -> Values:
    """Return what an operation gives, computed without tiles."""
    operands = [values for name, values in given.items() if name != "parameters"]
    op, first = operation.op, operands[0]
    if operation.permutation is not None:
        return permuted(operation, first)
    if op in MOVES:
        return first
    if op in TERMS:
        total = np.broadcast_to(first, Walk(operation, OperationPlan((1, 1, 1))).given).copy()
        for other in operands[1:]:
            total = total + other if op == "add" else total * other
        return total
    if op in MAPS:
        parameters = given.get("parameters")
        numbers = [] if parameters is None else [each[None, :, None, None] for each in parameters.T]
        return MAPS[op](first, numbers)
    if not operation.windowed:
        planes = first.reshape(-1, prod(operation.inputs[0][1:]))
        found: Values = planes.max(axis=1) if op == "max_pool" else planes.sum(axis=1)
        return found
    return _windows(operation, first)


def _windows(operation: Operation, values: Values) -> Values:
    """Return the largest value under each window, or their sum."""
    top, _, left, _ = operation.padding
    result = np.empty((operation.batch, *operation.output), dtype=np.int64)
    for row, column in np.ndindex(*operation.output[1:]):
        first, begin = row * operation.stride[0] - top, column * operation.stride[1] - left
        window = values[
            ..., max(0, first) : first + operation.kernel[0], max(0, begin) : begin + operation.kernel[1]
        ]
        if operation.op == "average_pool":
            result[..., row, column] = window.sum(axis=(2, 3))
        else:
            result[..., row, column] = window.max(axis=(2, 3), initial=LEAST)
    return result
