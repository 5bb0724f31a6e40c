"""TFLite files that are made for tests, operator by operator, with the schema that LiteRT itself has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

VERSIONS = {
    "BROADCAST_TO": 2,
    "CONV_2D": 3,
    "DEPTHWISE_CONV_2D": 3,
    "FULLY_CONNECTED": 5,
    "TRANSPOSE_CONV": 3,
}
"""Versions that have what is used here."""


class TfliteFile:
    """A file that grows by one operator after the other.

    Parameters
    ----------
    kind
        Type of what is computed: ``float32``, or of integers ``int8`` or ``int16``.
    """

    def __init__(self, kind: str = "float32", seed: int = 0) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self.schema, self.kind, self.rng = schema, kind, np.random.default_rng(seed)
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.graph.inputs, self.graph.outputs = [], []
        self.buffers = [schema.BufferT()]
        self.codes: list[Any] = []

    def tensor(
        self,
        shape: Sequence[int],
        kind: str = "",
        *,
        scale: float | Sequence[float] | None = None,
        zero: int = 0,
        axis: int = 0,
        numbers: Array | None = None,
        name: str = "",
    ) -> int:
        """Add a tensor, quantised if it has a scale; return its number."""
        schema = self.schema
        made = schema.TensorT()
        made.name = name or f"t{len(self.graph.tensors)}"
        made.shape, made.type = list(shape), getattr(schema.TensorType, (kind or self.kind).upper())
        if scale is not None:
            scales = [scale] if isinstance(scale, float) else list(scale)
            made.quantization = schema.QuantizationParametersT()
            made.quantization.scale = scales
            made.quantization.zeroPoint = [zero] * len(scales)
            made.quantization.quantizedDimension = axis
        if numbers is not None:
            buffer = schema.BufferT()
            buffer.data = list(np.ascontiguousarray(numbers).tobytes())
            made.buffer = len(self.buffers)
            self.buffers.append(buffer)
        self.graph.tensors.append(made)
        return len(self.graph.tensors) - 1

    def value(self, shape: Sequence[int]) -> int:
        """Add a tensor of the type that is computed, with a scale of its own if that is an integer."""
        if self.kind == "float32":
            return self.tensor(shape)
        zero = int(self.rng.integers(-20, 20)) if self.kind == "int8" else 0
        return self.tensor(shape, scale=float(self.rng.uniform(0.02, 0.1)), zero=zero)

    def input(self, shape: Sequence[int]) -> int:
        """Add an input of the network."""
        number = self.value(shape)
        self.graph.inputs.append(number)
        return number

    def weights(self, shape: Sequence[int], axis: int) -> int:
        """Add weights; integers have a scale for each place along an axis."""
        if self.kind == "float32":
            return self.tensor(shape, numbers=self.rng.standard_normal(shape).astype(np.float32))
        scales = self.rng.uniform(0.005, 0.02, shape[axis]).tolist()
        numbers = self.rng.integers(-127, 128, shape).astype(np.int8)
        return self.tensor(shape, "int8", scale=scales, axis=axis, numbers=numbers)

    def bias(self, own: int, weights: int) -> int:
        """Add a bias for each output of some weights that read a tensor."""
        scale = self.graph.tensors[weights].quantization
        if scale is None:
            count = self.graph.tensors[weights].shape[0]
            return self.tensor([count], numbers=self.rng.standard_normal(count).astype(np.float32))
        scales = [self.graph.tensors[own].quantization.scale[0] * each for each in scale.scale]
        kind = "int32" if self.kind == "int8" else "int64"
        numbers = self.rng.integers(-2000, 2000, len(scales)).astype(kind)
        return self.tensor([len(scales)], kind, scale=scales, numbers=numbers)

    def integers(self, *values: int) -> int:
        """Add numbers that say how an operator works."""
        return self.tensor([len(values)], "int32", numbers=np.array(values, np.int32))

    def add(
        self, operator: str, reads: Sequence[int], gives: Sequence[int], options: str = "", **fields: Any
    ) -> None:
        """Add an operator with the options of a table of the schema."""
        schema, made = self.schema, self.schema.OperatorT()
        code = schema.OperatorCodeT()
        number = getattr(schema.BuiltinOperator, operator)
        code.builtinCode, code.deprecatedBuiltinCode = number, min(number, 127)
        code.version = VERSIONS.get(operator, 1)
        made.opcodeIndex = len(self.codes)
        self.codes.append(code)
        made.inputs, made.outputs = list(reads), list(gives)
        if options:
            made.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            made.builtinOptions = getattr(schema, f"{options}T")()
            for name, value in fields.items():
                setattr(made.builtinOptions, name, value)
        self.graph.operators.append(made)

    def content(self, *outputs: int) -> bytes:
        """Return the file."""
        import flatbuffers

        self.graph.outputs = list(outputs)
        model = self.schema.ModelT()
        model.version, model.subgraphs = 3, [self.graph]
        model.operatorCodes, model.buffers = self.codes, self.buffers
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def save(self, path: Path, *outputs: int) -> Path:
        """Write the file."""
        path.write_bytes(self.content(*outputs))
        return path


def by_litert(path: Path, inputs: Sequence[Array]) -> list[Array]:
    """Return outputs as LiteRT's reference kernels compute them."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolver = OpResolverType.BUILTIN_REF
    interpreter = Interpreter(str(path), experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    for known, values in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(known["index"], values)
    interpreter.invoke()
    return [interpreter.get_tensor(known["index"]) for known in interpreter.get_output_details()]


def drawn(path: Path, seed: int) -> list[Array]:
    """Return inputs at random."""
    from ai_edge_litert.interpreter import Interpreter

    rng = np.random.default_rng(seed)
    found = []
    for known in Interpreter(str(path)).get_input_details():
        shape, kind = tuple(known["shape"]), known["dtype"]
        if kind == np.float32:
            found.append(rng.standard_normal(shape).astype(kind))
        else:
            limits = np.iinfo(kind)
            found.append(rng.integers(limits.min, limits.max + 1, shape).astype(kind))
    return found
