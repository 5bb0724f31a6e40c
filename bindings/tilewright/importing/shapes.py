"""Shapes of ONNX tensors as layers see them, and why an operation has no layer."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tilewright.importing.model import OnnxOperation, Value

Table = dict[str, Any]
Shape = tuple[int, int, int]

LARGEST = 2**24
"""Most values along a dimension of a layer."""


class Unknown(Exception):
    """An operator, or a use of it, that no layer does; says why, unless it is the operator itself."""


class Invalid(Unknown):
    """A use of an operator that cannot be."""


class Unshaped(Unknown):
    """The shape of a tensor is not known."""


def shape(operation: OnnxOperation, value: Value) -> Shape:
    """Return channels, height and width of one image's part of a tensor.

    A line is a plane of one row; what has more dimensions has more channels.
    """
    known, images = list(sizes(operation, value)), operation.batch
    if images == 1:
        known = known[1:] if known[:1] == [1] else known
    elif value.images is None or value.images >= len(known) or known[value.images] % images:
        raise Unknown(f"the shape of {value.name}, {known}, does not begin with {images} images")
    else:
        known[value.images] //= images
        if known[value.images] == 1:
            del known[value.images]
    if min(known, default=1) < 1:
        raise Unknown(f"the shape of {value.name}, {known}, holds nothing")
    if len(known) < 2:
        return prod(known), 1, 1
    height, width = known[-2:] if len(known) > 2 else (1, known[1])
    return prod(known) // (height * width), height, width


def axes(operation: OnnxOperation, value: Value, dimensions: Sequence[int]) -> list[str]:
    """Return channels, rows and columns that some dimensions of a tensor are part of: see `shape`.

    One image's part has all of its dimensions but the first, where that is the images'.
    """
    known, images = sizes(operation, value), operation.batch
    first = 0 if images == 1 and tuple(known[:1]) == (1,) else None
    if images > 1 and value.images is not None and known[value.images] == images:
        first = value.images
    left = [place for place in range(len(known)) if place != first]
    names = ["channels"] * len(left)
    if len(left) > 1:
        names[-1] = "columns"
    if len(left) > 2:
        names[-2] = "rows"
    return list(dict.fromkeys(name for name, place in zip(names, left, strict=True) if place in dimensions))


def any_shape(operation: OnnxOperation, value: Value) -> Shape:
    """Return the shape of a tensor of which nothing is known but how much it holds, rounded up."""
    try:
        found = shape(operation, value)
        if max(found) <= LARGEST:
            return found
    except Unshaped:
        raise
    except Unknown:
        pass
    values = -(-prod(max(1, size) for size in sizes(operation, value)) // operation.batch)
    width = min(values, LARGEST)
    return -(-values // width), 1, width


def sizes(operation: OnnxOperation, value: Value) -> tuple[int, ...]:
    """Return all sizes of a tensor, the batch included."""
    if value.shape is None:
        missing = [each.name for each in operation.fixed if each.data is None]
        because = (
            f", which may depend on numbers that are not in the file: {', '.join(missing)}" if missing else ""
        )
        if not missing and len(operation.given) > 1 and operation.given[0].shape is not None:
            because = f", which depends on values of {', '.join(each.name for each in operation.given[1:])}"
        known = [each.shape for each in operation.given if each.shape is not None]
        example = ",".join(map(str, known[0] if known else (1, 3, 224, 224)))
        told = f"; tell it, for example --input {value.name}={example}"
        raise Unshaped(f"the shape of {value.name} is not known{because}{told}")
    return value.shape


def source(operation: OnnxOperation) -> Value:
    """Return the first input, which must be what other operations compute."""
    value = operation.inputs[0]
    if value is None or value.fixed:
        raise Unknown("its first input is the same for all images")
    return value


def result(operation: OnnxOperation) -> Value:
    """Return the first output."""
    value = operation.outputs[0]
    if value is None:
        raise Unknown("its first output is not used")
    return value


def input_shape(operation: OnnxOperation) -> Shape:
    """Return the shape of the first input."""
    return shape(operation, source(operation))


def output_shape(operation: OnnxOperation) -> Shape:
    """Return the shape of the first output."""
    return shape(operation, result(operation))


def weights(operation: OnnxOperation) -> tuple[int, ...]:
    """Return the sizes of the second input, which must be the same for all images."""
    value = operation.inputs[1]
    if value is None or not value.fixed:
        raise Unknown("its weights depend on the image")
    return sizes(operation, value)


def has_bias(operation: OnnxOperation) -> bool:
    """Whether there is a third input."""
    return len(operation.inputs) > 2 and operation.inputs[2] is not None


def plane(operation: OnnxOperation) -> tuple[int, ...]:
    """Return the dimensions of space of the first input, which must hold one image after the other."""
    first = source(operation)
    known = sizes(operation, first)
    space = known[2:]
    if len(space) not in (1, 2):
        raise Unknown(f"it has {len(space)} dimensions of space; known are 1 and 2")
    if known[0] != operation.batch:
        raise Unknown(
            f"the shape of {first.name}, {list(known)}, does not begin with {operation.batch} images"
        )
    return space


def count(operation: OnnxOperation, values: Sequence[Value]) -> int:
    """Count the numbers that tensors hold."""
    return sum(prod(sizes(operation, value)) for value in values)
