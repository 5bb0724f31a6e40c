"""What a quantised ONNX file computes, bit for bit as onnxruntime does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper

from tilewright.importing import Imported, open_network
from tilewright.importing.exact.operators import OPERATORS, Builder, Made, Node, levels_of
from tilewright.importing.exact.tensors import (
    Integers,
    Numbers,
    Scaled,
    Unread,
    stored_order,
    stored_shape,
)
from tilewright.importing.parameters import read_initialisers
from tilewright.simulator.arithmetic.quantised import (
    Dequantised,
    ExactNetwork,
    ExactOperation,
    ExactTensor,
    Quantised,
    Rearranged,
    Recoded,
    Reshaped,
)
from tilewright.spec.errors import InputError

TYPES = {TensorProto.FLOAT: "float32", TensorProto.INT8: "int8", TensorProto.UINT8: "uint8"}
"""Types of inputs and outputs that are known."""


def onnx_operations(path: str | Path) -> ExactNetwork:
    """Read the operations of a quantised ONNX file, as onnxruntime computes them on x86-64 by default.

    Inputs and outputs are those of the file. Inside, all integers have a sign, and maps have channels last.

    Raises
    ------
    InputError
        For a file that is none, or damaged, and for nodes whose integers are not known.
    """
    path = Path(path)
    try:
        model, imported = open_network(path, {})
        given = [*model.inputs, *(each for operation in model.operations for each in operation.outputs)]
        shapes = {each.name: each.shape for each in given if each is not None and each.shape is not None}
        proto = onnx.load(path, load_external_data=False)
        if not any(_is_quantised(node) for node in proto.graph.node):
            limit = "has no quantised operators; onnxruntime.quantization makes such files of those in floats"
            raise InputError("network", path.name, limit)
        return _Reader(proto, shapes, read_initialisers(path, {}), imported).network()
    except InputError as error:
        raise error.in_file(str(path)) from None


def _is_quantised(node: NodeProto) -> bool:
    operator = OPERATORS.get((node.domain, node.op_type))
    quantises = node.op_type in ("QuantizeLinear", "DequantizeLinear", "RequantShift")
    return quantises or (operator is not None and operator.gives is not None)


class _Reader:
    """Nodes become exact operations, in their order.

    A float tensor is what it stands for: integers, numbers of the file, or a node whose result is quantised
    by the node behind it.
    """

    def __init__(
        self,
        proto: onnx.ModelProto,
        shapes: Mapping[str, tuple[int, ...]],
        stored: Mapping[str, NDArray[Any]],
        imported: Imported,
    ) -> None:
        self.graph, self.shapes, self.stored, self.imported = proto.graph, shapes, stored, imported
        self.version = next((each.version for each in proto.opset_import if not each.domain), 1)
        self.operations: list[ExactOperation] = []
        self.tensors: dict[str, ExactTensor] = {}
        self.layers: dict[str, tuple[str, ...]] = {}
        self.borders: set[str] = set()
        self.integers: dict[str, Integers | Numbers] = {}
        self.floats: dict[str, Integers | Numbers | Made] = {}
        self.inputs: list[str] = []
        self.shifts = any(node.op_type == "RequantShift" for node in proto.graph.node)
        self.given = {value.name for value in proto.graph.output}

    def network(self) -> ExactNetwork:
        """Return the network."""
        for value in self.graph.input:
            if value.name not in self.stored:
                self._input(value)
        for number, node in enumerate(self.graph.node):
            if node.op_type == "Constant":
                continue
            try:
                self._node(node, number)
            except Unread as reason:
                named = reason.node or node
                name = named.name or next(filter(None, named.output), str(number))
                limit = f"is not computed exactly: {reason}"
                raise InputError(f"node {name}", named.op_type, limit) from None
        outputs = tuple(self._output(value.name) for value in self.graph.output)
        needed, kept = set(outputs), list[ExactOperation]()
        for operation in reversed(self.operations):
            if operation.name in needed:
                needed.update(operation.inputs)
                kept.append(operation)
        tensors = {name: each for name, each in self.tensors.items() if name in needed.union(self.inputs)}
        borders = frozenset(each.name for each in kept if each.name in self.borders)
        return ExactNetwork(tensors, tuple(self.inputs), outputs, tuple(reversed(kept)), self.layers, borders)

    # Inputs and outputs -----------------------------------------------------------------------------------

    def _input(self, value: onnx.ValueInfoProto) -> None:
        kind = TYPES.get(value.type.tensor_type.elem_type)
        if value.name not in self.shapes:  # which nothing depends on
            return
        if kind is None:
            told = helper.tensor_dtype_to_string(value.type.tensor_type.elem_type).removeprefix(
                "TensorProto."
            )
            raise InputError(f"input {value.name}", told, "must be FLOAT, INT8 or UINT8")
        self.inputs.append(value.name)
        self.tensors[value.name] = ExactTensor(value.name, self.shapes[value.name], kind)

    def _integer_input(self, name: str, scaled: Scaled) -> Integers:
        """Return an input that the file has in integers, as they are stored."""
        shape = self.shapes[name]
        return self._taken(name, shape, scaled, name)

    def _taken(self, name: str, shape: tuple[int, ...], scaled: Scaled, made: str) -> Integers:
        """Return integers at the border of the network with a sign, and with channels last."""
        if scaled.unsigned:
            self._border(Recoded(f"{made}/signed", 0, "Recoded", (name,), shape, "int8"), scaled)
            name = f"{made}/signed"
        order = stored_order(shape)
        if len(shape) == 4:
            common = (f"{made}/stored", 0, "Transpose", (name,), stored_shape(shape), "int8")
            places = None if order is None else order.reshape(stored_shape(shape))
            self._border(Reshaped(*common) if places is None else Rearranged(*common, places), scaled)
            name = f"{made}/stored"
        return Integers(name, shape, scaled, order)

    def _border(self, operation: ExactOperation, scaled: Scaled) -> None:
        self.operations.append(operation)
        self.borders.add(operation.name)
        zero = scaled.zero + 128 * (operation.type == "uint8")
        known = operation.type != "float32"
        self.tensors[operation.name] = ExactTensor(
            operation.name, operation.shape, operation.type, *((float(scaled.scale), zero) if known else ())
        )

    def _output(self, name: str) -> str:
        """Add what gives an output as the file has it, and return its name."""
        found = self.floats.get(name, self.integers.get(name))
        if not isinstance(found, Integers):
            told = "is computed in floats" if isinstance(found, Made) else "is no integer that is computed"
            limit = f"{told}; QuantizeLinear behind it, perhaps with DequantizeLinear, would do"
            raise InputError("graph.output", name, limit)
        source, scaled, shape = found.name, found.scaled, found.shape
        inverse = None if found.order is None else np.argsort(found.order).reshape(shape)
        common = (f"{name}/given", 0, "Transpose", (source,), shape, "int8")
        self._border(Reshaped(*common) if inverse is None else Rearranged(*common, inverse), scaled)
        zero = scaled.zero + 128 * scaled.unsigned
        if scaled.unsigned:
            made = (f"{name}/unsigned", 0, "Recoded", (f"{name}/given",), shape, "uint8")
            self._border(Recoded(*made), scaled)
        last = self.operations.pop()
        self.borders.discard(last.name)
        self.tensors.pop(last.name)
        if name in self.floats:
            self._border(last, scaled)
            self._border(
                Dequantised(
                    name, 0, "DequantizeLinear", (last.name,), shape, "float32", float(scaled.scale), zero
                ),
                scaled,
            )
        else:
            self._border(replace(last, name=name), scaled)
        return name

    # Nodes ------------------------------------------------------------------------------------------------

    def _node(self, node: NodeProto, number: int) -> None:
        outputs = [name for name in node.output if name]
        if not outputs or all(name not in self.shapes and name not in self.stored for name in outputs):
            return  # which no output depends on
        if node.op_type == "QuantizeLinear":
            self._quantise(node, number)
        elif node.op_type == "RequantShift":
            self._requantise(node, number)
        elif node.op_type == "DequantizeLinear":
            self.floats[outputs[0]] = self._dequantised(node)
        elif all(name in self.stored for name in outputs):
            return
        elif (node.domain, node.op_type) in OPERATORS:
            self._operator(node, number)
        elif node.op_type == "Identity":
            for known in (self.floats, self.integers):
                if node.input[0] in known:
                    known[outputs[0]] = known[node.input[0]]  # type: ignore[assignment]
        else:
            raise Unread("its integers are not known")

    def _scaled(self, node: NodeProto) -> Scaled:
        """Return what the integers of a node that quantises stand for."""
        scale, zero = self._parameters(node)
        if scale.size != 1 or zero.size != 1:
            raise Unread(f"{node.output[0]} has {scale.size} scales")
        return self.scaled(scale, zero)

    def scaled(self, scale: NDArray[Any], zero: NDArray[Any]) -> Scaled:
        """Return what integers stand for, of a stored scale and zero point."""
        if zero.dtype not in (np.int8, np.uint8):
            raise Unread(f"its integers are {zero.dtype}, not int8 or uint8")
        if scale.dtype != np.float32 or not np.isfinite(scale).all() or not (scale > 0).all():
            raise Unread("its scale is no positive number of 32 bits")
        unsigned = zero.dtype == np.uint8
        return Scaled(np.float32(scale.reshape(-1)[0]), int(zero.reshape(-1)[0]) - 128 * unsigned, unsigned)

    def _parameters(self, node: NodeProto) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return scales and zero points of QuantizeLinear or DequantizeLinear."""
        told = {each.name: each.i for each in node.attribute}
        if told.get("block_size"):
            raise Unread("it has scales of blocks")
        if node.input[1] not in self.stored:
            raise Unread(f"its scale {node.input[1]} is computed")
        scale = self.stored[node.input[1]]
        if len(node.input) > 2 and node.input[2]:
            if node.input[2] not in self.stored:
                raise Unread(f"its zero point {node.input[2]} is computed")
            return scale, self.stored[node.input[2]]
        kind = np.dtype(np.uint8)
        if node.op_type == "QuantizeLinear" and told.get("output_dtype"):
            kind = np.dtype(helper.tensor_dtype_to_np_dtype(told["output_dtype"]))
        if node.op_type == "DequantizeLinear":
            own = self.integers.get(node.input[0])
            if isinstance(own, Integers):
                kind = np.dtype(own.scaled.type)
            elif node.input[0] in self.stored:
                kind = self.stored[node.input[0]].dtype
        return scale, np.zeros(scale.shape, kind)

    def _quantise(self, node: NodeProto, number: int) -> None:
        source, name = node.input[0], node.output[0]
        if source in self.stored:
            scale, zero = self._parameters(node)
            axis = {each.name: each.i for each in node.attribute}.get("axis", 1)
            made = Numbers(name, self.stored[source], scale, zero.astype(np.int64), axis)
            if name in self.stored:
                self.integers[name] = replace(made, numbers=self.stored[name])
                return
            raise Unread("it quantises numbers with scales that are not read")
        scaled = self._scaled(node)
        if source in self.tensors and source in self.inputs:
            zero_point = scaled.zero + 128 * scaled.unsigned
            limits = (0, 255) if scaled.unsigned else (-128, 127)
            shape = self.shapes[source]
            common = (name, number, "QuantizeLinear", (source,), shape, scaled.type)
            self._border(Quantised(*common, *limits, float(scaled.scale), zero_point, True), scaled)
            self.integers[name] = self._taken(name, shape, scaled, name)
            return
        found = self.floats.get(source)
        if found is None or isinstance(found, Numbers):
            raise Unread(f"what it reads, {source}, is no result of quantised operators")
        made_of = Made(None, (found,), ()) if isinstance(found, Integers) else found
        self.integers[name] = self._made(made_of, scaled, name, number, quantised_behind=True)

    def _dequantised(self, node: NodeProto) -> Integers | Numbers:
        source, name = node.input[0], node.output[0]
        scale, zero = self._parameters(node)
        if source in self.stored and source not in self.integers:
            axis = {each.name: each.i for each in node.attribute}.get("axis", 1)
            return Numbers(name, self.stored[source], scale, zero.astype(np.int64), axis)
        if source in self.inputs:
            self.integers.setdefault(source, self._integer_input(source, self._scaled(node)))
        found = self.integers.get(source)
        if found is None:
            raise Unread(f"what it reads, {source}, is no integer of 8 bits")
        if isinstance(found, Numbers):
            return found
        scaled = self._scaled(node)
        if scaled != found.scaled:
            raise Unread(f"{source} has been quantised with another scale or zero point")
        return found

    def _operator(self, node: NodeProto, number: int) -> None:
        operator, name = OPERATORS[node.domain, node.op_type], node.output[0]
        if name not in self.shapes:
            raise Unread("the shape of what it gives is not known")
        told = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        reading = Node(node, told, self.shapes[name], self.version, self.stored)
        names = list(operator.tensors(reading))
        operands = tuple(self._operand(*each, operator.weights(reading)) for each in names)
        in_integers = any(each[0] in self.integers and each[0] not in self.floats for each in names)
        made = Made(reading, operands, ())
        if operator.gives is not None:
            scaled = self.scaled(*(self._number(node, place) for place in operator.gives))
            self.integers[name] = self._made(made, scaled, name, number, quantised_behind=False)
        elif operator.rectifies and isinstance(operands[0], Made):
            self.floats[name] = operands[0]._replace(after=(*operands[0].after, reading))
        elif any(isinstance(each, Made) for each in operands):
            raise Unread("it reads floats; QuantizeLinear with DequantizeLinear before it would do")
        elif operator.moves and all(
            isinstance(each, Integers) and each.scaled == operands[0].scaled for each in operands
        ):
            known: dict[str, Any] = self.integers if in_integers else self.floats
            known[name] = self._made(made, operands[0].scaled, name, number, quantised_behind=not in_integers)
        elif in_integers:
            raise Unread("it reads integers, whose scales it has not")
        else:
            self.floats[name] = made

    def _requantise(self, node: NodeProto, number: int) -> None:
        """Read Deeploy's RequantShift: integers in, integers out, in floats or integers of the file."""
        name = node.output[0]
        told = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        reading = Node(node, told, self.shapes[name], self.version, self.stored)
        found = self._operand(node.input[0], "", "", 0)
        if not isinstance(found, Made | Integers):
            raise Unread(f"what it reads, {node.input[0]}, is stored in the file")
        made = Made(None, (found,), (reading,))
        if isinstance(found, Made):
            made = found._replace(after=(*found.after, reading))
        scaled = levels_of(reading)
        self.floats[name] = self._made(made, scaled, name, number, quantised_behind=False)

    def _number(self, node: NodeProto, place: int) -> NDArray[Any]:
        """Return a stored scale or zero point."""
        name = node.input[place] if place < len(node.input) else ""
        if name not in self.stored:
            raise Unread(f"its scale or zero point {name or place} is computed, or left out")
        return self.stored[name]

    def _operand(self, name: str, scale: str, zero: str, axis: int) -> Any:
        """Return a tensor that a node reads, whose scale and zero point may be among the node's inputs."""
        if not name:
            return None
        for parameter in filter(None, (scale, zero)):
            if parameter not in self.stored:
                raise Unread(f"its scale or zero point {parameter} is computed")
        if scale and name in self.stored:
            numbers = self.stored[name]
            zeros = self.stored[zero] if zero else np.zeros((), numbers.dtype)
            return Numbers(name, numbers, self.stored[scale].reshape(-1), zeros.astype(np.int64), axis)
        if name in self.floats:
            return self.floats[name]
        if self.shifts and name in self.inputs and self.tensors[name].type == "float32":
            scaled = Scaled(np.float32(1), 0, False)  # integers of 8 bits with a sign, as Deeploy takes them
            shape, cast = self.shapes[name], f"{name}/integers"
            common = (cast, 0, "Cast", (name,), shape, "int8", -128, 127)
            self._border(Quantised(*common, 1.0, 0, True), scaled)
            self.floats[name] = self._taken(cast, shape, scaled, cast)
            return self.floats[name]
        if name in self.inputs and name not in self.integers and self.tensors[name].type != "float32":
            unsigned = self.tensors[name].type == "uint8"
            scaled = Scaled(np.float32(1), -128 * unsigned, unsigned)
            if scale:
                zeros = self.stored[zero] if zero else np.zeros((), self.tensors[name].type)
                scaled = self.scaled(self.stored[scale], zeros)
            self.integers[name] = self._integer_input(name, scaled)
        found = self.integers.get(name)
        if found is None and name in self.stored:
            return self.stored[name]
        if found is None:
            raise Unread(f"its input {name} is floats; QuantizeLinear with DequantizeLinear would do")
        if scale and isinstance(found, Integers):
            kind = np.zeros((), found.scaled.type)
            told = self.scaled(self.stored[scale], self.stored[zero] if zero else kind)
            if told.unsigned != found.scaled.unsigned:
                raise Unread(f"{name} is {found.scaled.type}, and its zero point {told.type}")
            return replace(found, scaled=told)
        return found

    # Operations -------------------------------------------------------------------------------------------

    def _made(
        self, made: Made, scaled: Scaled, name: str, number: int, *, quantised_behind: bool
    ) -> Integers:
        """Add the operations of a node whose result is quantised, and return what they give."""
        nodes = [each for each in (made.node, *made.after) if each is not None]
        layers = self._layers([*(each.output for each in nodes), name])
        operands = made.operands
        if made.node is None:
            own = operands[0]
            assert isinstance(own, Integers)
            if own.scaled == scaled and not made.after:
                self.layers[own.name] = tuple(dict.fromkeys((*self.layers.get(own.name, ()), *layers)))
                return own
        own_name = f"{name}/stored" if name in self.given else name
        builder = Builder(own_name, number, scaled, quantised_behind, self._add, self._constant)
        try:
            result = builder.built(made)
        except Unread as reason:
            reason.node = reason.node or (made.node.proto if made.node else None)
            raise
        for each in builder.names:
            self.layers[each] = layers
        return result

    def _layers(self, tensors: Sequence[str]) -> tuple[str, ...]:
        """Return the layers that give tensors, the one of the last at the end."""
        known = {**self.imported.outputs, **self.imported.layer_of}
        found: dict[str, None] = {}
        for name in tensors:
            if name in known:
                found.pop(known[name], None)
                found[known[name]] = None
        return tuple(found)

    def _add(self, operation: ExactOperation, scaled: Scaled) -> None:
        self.operations.append(operation)
        self.tensors[operation.name] = ExactTensor(
            operation.name, operation.shape, operation.type, float(scaled.scale), scaled.zero
        )

    def _constant(self, name: str, numbers: NDArray[np.int8], scaled: Scaled) -> None:
        self.tensors[name] = ExactTensor(
            name, numbers.shape, "int8", float(scaled.scale), scaled.zero, numbers
        )
