"""What a TFLite file holds: tensors with their numbers and scales, and operators in order."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import tflite
from numpy.typing import NDArray

from tilewright.core.files import exists
from tilewright.importing.tflite.sparse import dense
from tilewright.spec.errors import InputError

MAX_BYTES = 1_000_000_000
"""Largest file that is read."""

MAX_ENTRIES = 100_000
"""Most tensors, and operators, of a graph."""

IDENTIFIER = b"TFL3"
"""Bytes 4 to 7 of every file."""

TYPES = {
    tflite.TensorType.FLOAT32: "float32",
    tflite.TensorType.FLOAT16: "float16",
    tflite.TensorType.FLOAT64: "float64",
    tflite.TensorType.INT8: "int8",
    tflite.TensorType.UINT8: "uint8",
    tflite.TensorType.INT16: "int16",
    tflite.TensorType.INT32: "int32",
    tflite.TensorType.INT64: "int64",
    tflite.TensorType.UINT16: "uint16",
    tflite.TensorType.UINT32: "uint32",
    tflite.TensorType.UINT64: "uint64",
    tflite.TensorType.COMPLEX64: "complex64",
    tflite.TensorType.COMPLEX128: "complex128",
    tflite.TensorType.BOOL: "bool",
    tflite.TensorType.INT4: "int8",
}
"""Types of elements that are read, as NumPy calls them."""

UNREAD = "object"
"""Type of texts, variables and other things that are no numbers: what reads or gives them is not read."""

OPERATORS = {number: name for name, number in vars(tflite.BuiltinOperator).items() if isinstance(number, int)}
OPTIONS = {number: name for name, number in vars(tflite.BuiltinOptions).items() if isinstance(number, int)}


@dataclass(frozen=True)
class Tensor:
    """A tensor of the graph.

    Attributes
    ----------
    name
        Its own, made unique by its number where the file has it twice or has none.
    scales, zero_points
        One for all elements, or one for each place along `axis`; None of what is not quantised.
    numbers
        What the file stores, None of what is computed.
    """

    name: str
    shape: tuple[int, ...]
    type: str
    scales: NDArray[np.float32] | None = None
    zero_points: NDArray[np.int64] | None = None
    axis: int = 0
    numbers: NDArray[Any] | None = None


@dataclass(frozen=True)
class Operator:
    """An operator: its type, and numbers of its tensors, -1 where an optional one is left out.

    Attributes
    ----------
    custom
        Options of an operator that is none of TFLite's own.
    dilation, pads
        Of a convolution that has been written as three operators: see `stored_values.with_dilations`.
    """

    number: int
    type: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any
    custom: bytes = b""
    dilation: tuple[int, int] | None = None
    pads: tuple[int, int, int, int] | None = None

    def __str__(self) -> str:
        return f"operator {self.number} ({self.type})"


@dataclass(frozen=True)
class File:
    """The main graph of a file."""

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def read_file(path: Path) -> File:
    """Read a TFLite file.

    Raises
    ------
    InputError
        For a file that is none, or damaged.
    """
    if not (exists(path) and path.is_file()):
        raise InputError("network", str(path), "no such file")
    if (size := path.stat().st_size) > MAX_BYTES:
        raise InputError("file size", size, f"at most {MAX_BYTES} bytes")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError("file", path.name, f"cannot be read: {error}") from None
    if content[4:8] != IDENTIFIER:
        raise InputError("file", path.name, "is not TFLite: its bytes 4 to 7 are not TFL3")
    with damage_told("file", path.name):
        model = tflite.Model.GetRootAsModel(content, 0)
        if model.SubgraphsLength() < 1:
            raise InputError("file", path.name, "is damaged: it holds no graph")
        graph = model.Subgraphs(0)
        for what, count in (("tensors", graph.TensorsLength()), ("operators", graph.OperatorsLength())):
            if count > MAX_ENTRIES:
                raise InputError(what, count, f"at most {MAX_ENTRIES}, or the file is damaged")
        tensors = tuple(_tensors(model, graph))
        operators = tuple(_operator(model, graph, number) for number in range(graph.OperatorsLength()))
        inputs = tuple(graph.Inputs(place) for place in range(graph.InputsLength()))
        outputs = tuple(graph.Outputs(place) for place in range(graph.OutputsLength()))
        for operator in operators:
            _check_numbers(str(operator), (*operator.inputs, *operator.outputs), len(tensors), -1)
        _check_numbers("inputs of the graph", inputs, len(tensors), 0)
        _check_numbers("outputs of the graph", outputs, len(tensors), 0)
    return File(tensors, operators, inputs, outputs)


DAMAGE = (struct.error, IndexError, ValueError, TypeError, AttributeError, OverflowError)
"""What reading something raises whose parts lie outside the file, or are of another kind than they say."""


@contextmanager
def damage_told(field: str, value: object) -> Iterator[None]:
    """Refuse a file, or an operator of it, that is damaged."""
    try:
        yield
    except InputError:
        raise
    except DAMAGE as error:
        raise InputError(field, value, f"is damaged or cut off: {error}") from None


def _check_numbers(where: str, numbers: Sequence[int], count: int, least: int) -> None:
    wrong = [number for number in numbers if not least <= number < count]
    if wrong:
        raise InputError(where, wrong[0], f"is no number of the {count} tensors")


def _tensors(model: Any, graph: Any) -> Iterator[Tensor]:
    used: set[str] = set()
    for number in range(graph.TensorsLength()):
        tensor = graph.Tensors(number)
        name = (tensor.Name() or b"").decode("utf-8", "replace")
        if not name or name in used:
            name = f"{name or 'tensor'}_{number}"
        used.add(name)
        shape = tuple(tensor.Shape(place) for place in range(tensor.ShapeLength()))
        kind = TYPES.get(tensor.Type(), UNREAD)
        if any(size < 0 for size in shape):
            raise InputError(f"tensor {name}, shape", list(shape), "must be 0 or more in each dimension")
        numbers = None if kind == UNREAD else _numbers(model, tensor, name, shape, kind)
        yield Tensor(name, shape, kind, *_scales(tensor, name), numbers)


def _scales(tensor: Any, name: str) -> tuple[NDArray[np.float32] | None, NDArray[np.int64] | None, int]:
    told = tensor.Quantization()
    if told is None or told.ScaleLength() < 1:
        return None, None, 0
    scales = np.array([told.Scale(place) for place in range(told.ScaleLength())], np.float32)
    points = np.array([told.ZeroPoint(place) for place in range(told.ZeroPointLength())], np.int64)
    if not (np.isfinite(scales).all() and (scales > 0).all()):
        raise InputError(f"tensor {name}, scale", scales.min().item(), "must be positive and finite")
    if len(points) not in (0, len(scales)):
        limit = f"must be as many as scales, {len(scales)}"
        raise InputError(f"tensor {name}, zero_point", len(points), limit)
    return scales, points if len(points) else np.zeros(len(scales), np.int64), told.QuantizedDimension()


def _numbers(model: Any, tensor: Any, name: str, shape: Sequence[int], kind: str) -> NDArray[Any] | None:
    if not 0 < tensor.Buffer() < model.BuffersLength():
        return None
    buffer = model.Buffers(tensor.Buffer())
    if buffer.DataLength() < 1:
        return None
    stored, width = buffer.DataAsNumpy().tobytes(), np.dtype(kind).itemsize
    if prod(shape) > MAX_BYTES:
        raise InputError(f"tensor {name}, shape", list(shape), f"at most {MAX_BYTES} elements")
    if tensor.Sparsity() is not None:
        values = np.frombuffer(stored[: len(stored) // width * width], np.dtype(kind).newbyteorder("<"))
        return dense(tensor.Sparsity(), values.astype(kind), shape, name)
    if tensor.Type() == tflite.TensorType.INT4:  # the first of two in the lower bits
        pairs = np.frombuffer(stored, np.int8)
        both = np.stack([(pairs << 4).astype(np.int8) >> 4, pairs >> 4], axis=1).ravel()
        stored = both[: prod(shape)].tobytes()
    needed = prod(shape) * width
    if len(stored) != needed:
        limit = f"a {kind} of {list(shape)} has {needed} bytes"
        raise InputError(f"tensor {name}, bytes of its buffer", len(stored), limit)
    return np.frombuffer(stored, np.dtype(kind).newbyteorder("<")).astype(kind).reshape(shape)


def _operator(model: Any, graph: Any, number: int) -> Operator:
    found = graph.Operators(number)
    code = model.OperatorCodes(found.OpcodeIndex())
    # Newer files have larger numbers in a field of their own.
    builtin = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    name = OPERATORS.get(builtin, f"BUILTIN_{builtin}")
    if name == "CUSTOM":
        name = (code.CustomCode() or b"CUSTOM").decode("utf-8", "replace")
    inputs = tuple(found.Inputs(place) for place in range(found.InputsLength()))
    outputs = tuple(found.Outputs(place) for place in range(found.OutputsLength()))
    custom = found.CustomOptionsAsNumpy().tobytes() if found.CustomOptionsLength() else b""
    return Operator(number, name, inputs, outputs, _options(found), custom)


def _options(operator: Any) -> Any:
    """Return the options of an operator, None where it has none."""
    name, table = OPTIONS.get(operator.BuiltinOptionsType(), "NONE"), operator.BuiltinOptions()
    kind = getattr(tflite, name, None)
    if table is None or kind is None:
        return None
    options = kind()
    options.Init(table.Bytes, table.Pos)
    return options
