"""An ONNX graph that is made of a TFLite graph operator by operator, with all shapes.

Maps of TFLite have channels last, windows of ONNX read channels first: they stand between transpositions.
Inputs and outputs of the network that are maps have channels first, as plans store them: all channels of a
pixel side by side, as TFLite does. Quantised operators are those of ONNX and onnxruntime that have the same
scales and zero points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from tilewright.importing.tflite.file import File, Operator, Tensor
from tilewright.spec.errors import InputError

OPSET = 21
"""The first version of ONNX that quantises to 16 bits."""

IR_VERSION = 10

PRODUCER = "TFLite"
"""What is told to have written the model."""

MICROSOFT = "com.microsoft"

CHANNELS_FIRST, CHANNELS_LAST = (0, 3, 1, 2), (0, 2, 3, 1)

BESIDE = ("Cast", "Clip", "DequantizeLinear", "QuantizeLinear", "Relu", "Reshape", "Slice", "Transpose")
"""Nodes before and after the one that does what an operator is for."""

QUANTISED = ("int8", "uint8", "int16")

Sizes = Sequence[int]


class Unread(Exception):
    """An operator, or a use of one, that is not read."""


class Graph:
    """Nodes, weights and shapes.

    Attributes
    ----------
    shapes
        Of tensors that nodes give, by name.
    called
        What nodes of the operator in hand are called.
    made
        Names of the tensors that nodes of each operator give, by its number.
    """

    def __init__(self, file: File) -> None:
        self.file = file
        self.nodes: list[NodeProto] = []
        self.weights: dict[str, TensorProto] = {}
        self.shapes: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.called = ""
        self.made: dict[int, tuple[str, ...]] = {}
        self._maps = {file.tensors[number].name for number in file.inputs if is_map(file.tensors[number])}
        self._first = {name: name for name in self._maps}
        self._last: dict[str, str] = {}
        self._used = {tensor.name for tensor in file.tensors}
        self._nodes = set[str]()

    # Tensors ---------------------------------------------------------------------------------------

    def tensor(self, operator: Operator, place: int) -> Tensor:
        """Return an input of an operator.

        Raises
        ------
        InputError
            If it is left out.
        """
        if place >= len(operator.inputs) or operator.inputs[place] < 0:
            raise InputError(f"{operator}, inputs", list(operator.inputs), f"must be at least {place + 1}")
        return self.file.tensors[operator.inputs[place]]

    def optional(self, operator: Operator, place: int) -> Tensor | None:
        """Return an input of an operator, None if it is left out."""
        given = operator.inputs[place] if place < len(operator.inputs) else -1
        return self.file.tensors[given] if given >= 0 else None

    def output(self, operator: Operator, place: int = 0) -> Tensor:
        """Return an output of an operator."""
        if place >= len(operator.outputs) or operator.outputs[place] < 0:
            raise InputError(f"{operator}, outputs", list(operator.outputs), f"must be at least {place + 1}")
        return self.file.tensors[operator.outputs[place]]

    def known(self, operator: Operator, place: int) -> NDArray[Any]:
        """Return the numbers of an input that the file has to store."""
        tensor = self.tensor(operator, place)
        if tensor.numbers is None:
            raise Unread(f"its input {tensor.name} is computed")
        return tensor.numbers

    def name(self, tensor: Tensor) -> str:
        """Return the name of a tensor as the file has it; its numbers become weights."""
        if tensor.name in self._maps:
            if tensor.name not in self._last:
                name, kind, shape = tensor.name, tensor.type, tensor.shape
                self._last[name] = self.step("Transpose", [name], kind, shape, perm=CHANNELS_LAST)
            return self._last[tensor.name]
        if tensor.numbers is not None and tensor.name not in self.weights:
            self.weights[tensor.name] = numpy_helper.from_array(tensor.numbers, tensor.name)
        return tensor.name

    def constant(self, what: str, numbers: NDArray[Any]) -> str:
        """Return the name of numbers that an operator needs."""
        name = self.unique(what)
        self.weights[name] = numpy_helper.from_array(np.array(numbers, order="C"), name)
        return name

    def unique(self, name: str) -> str:
        """Return a name that no tensor has."""
        return _unused(name, self._used)

    def channels_first(self, tensor: Tensor) -> str:
        """Return the name of a map with its channels before its pixels."""
        if not is_map(tensor):
            raise Unread(f"{tensor.name} has {len(tensor.shape)} dimensions, a map has 4")
        if tensor.name not in self._first:
            reads, shape = [self.name(tensor)], self.first_shape(tensor)
            self._first[tensor.name] = self.step("Transpose", reads, tensor.type, shape, perm=CHANNELS_FIRST)
        return self._first[tensor.name]

    def give_last(self, name: str, tensor: Tensor) -> None:
        """Let a map with channels first be a tensor of the file."""
        self._first.setdefault(tensor.name, name)
        self.give("Transpose", [name], tensor, perm=CHANNELS_LAST)

    def first_shape(self, tensor: Tensor) -> list[int]:
        """Return the shape of a map with channels first."""
        return [tensor.shape[axis] for axis in CHANNELS_FIRST]

    def names_of(self, tensor: Tensor) -> tuple[str, ...]:
        """Return what the values of a tensor of the file are called: with channels first, and as they are."""
        return (*(() if tensor.name not in self._first else (self._first[tensor.name],)), tensor.name)

    # Nodes -----------------------------------------------------------------------------------------

    def step(
        self,
        operator: str,
        reads: Sequence[str],
        kind: str,
        shape: Sizes,
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """Add a node that gives a tensor which the file does not have; return its name."""
        name = self.unique(f"{self.called}/{operator}")
        self._node(operator, reads, name, kind, shape, domain, **attributes)
        return name

    def give(
        self, operator: str, reads: Sequence[str], tensor: Tensor, domain: str = "", **attributes: Any
    ) -> None:
        """Add a node that gives a tensor of the file."""
        self._node(operator, reads, tensor.name, tensor.type, tensor.shape, domain, **attributes)

    def _node(
        self,
        operator: str,
        reads: Sequence[str],
        name: str,
        kind: str,
        shape: Sizes,
        domain: str,
        **attributes: Any,
    ) -> None:
        self.shapes[name] = kind, tuple(shape)
        role = f"/{operator.lower()}" if operator in BESIDE else ""
        called = _unused(f"{self.called}{role}", self._nodes)
        self.nodes.append(
            helper.make_node(operator, list(reads), [name], name=called, domain=domain, **attributes)
        )

    def give_several(
        self,
        operator: str,
        reads: Sequence[str],
        gives: Sequence[tuple[str, Tensor]],
        domain: str = "",
        **attributes: Any,
    ) -> None:
        """Add a node that gives several tensors, by name, in the types and shapes of some."""
        for name, tensor in gives:
            self.shapes[name] = tensor.type, tensor.shape
        called, names = _unused(self.called, self._nodes), [name for name, _ in gives]
        self.nodes.append(
            helper.make_node(operator, list(reads), names, name=called, domain=domain, **attributes)
        )

    def size(self) -> tuple[int, ...]:
        """Return how much there is, so that all that comes after it can be `forgotten <forget>`."""
        return len(self.nodes), len(self.weights), len(self.shapes), len(self._first), len(self._last)

    def forget(self, size: tuple[int, ...]) -> None:
        """Take back what has been added since there was so much."""
        del self.nodes[size[0] :]
        known: tuple[dict[str, Any], ...] = (self.weights, self.shapes, self._first, self._last)
        for each, count in zip(known, size[1:], strict=True):
            while len(each) > count:
                each.popitem()

    def rename(self, name: str, tensor: Tensor) -> None:
        """Let what the last node gives be a tensor of the file."""
        node = self.nodes[-1]
        assert list(node.output) == [name]
        node.output[0] = tensor.name
        self.shapes[tensor.name] = self.shapes.pop(name)

    # Scales ----------------------------------------------------------------------------------------

    def floats(self, name: str, tensor: Tensor, shape: Sizes, axis: int | None = None) -> str:
        """Return the name of what quantised numbers stand for, those of a tensor in some shape."""
        more: dict[str, Any] = {} if axis is None else {"axis": axis}
        return self.step("DequantizeLinear", [name, *self.scale(tensor)], "float32", shape, **more)

    def integers(self, name: str, tensor: Tensor, shape: Sizes) -> str:
        """Return the name of values in some shape, quantised as a tensor is."""
        return self.step("QuantizeLinear", [name, *self.scale(tensor)], tensor.type, shape)

    def scale(self, tensor: Tensor) -> list[str]:
        """Return the names of scale and zero point of a tensor, one or one for each output channel."""
        assert tensor.scales is not None and tensor.zero_points is not None
        scales, points = tensor.scales, tensor.zero_points.astype(tensor.type)
        if len(scales) == 1:
            scales, points = scales.reshape(()), points.reshape(())
        return [self.constant(f"{tensor.name}/scale", scales), self.constant(f"{tensor.name}/zero", points)]

    def in_floats(self, tensor: Tensor) -> str:
        """Return the name of what a tensor's numbers stand for."""
        if not quantised(tensor):
            return self.name(tensor)
        assert tensor.scales is not None
        axis = tensor.axis if len(tensor.scales) > 1 else None
        return self.floats(self.name(tensor), tensor, tensor.shape, axis)

    def give_floats(self, operator: str, reads: Sequence[str], tensor: Tensor, **attributes: Any) -> None:
        """Add a node in floating point, whose result is quantised as a tensor of the file is."""
        if not quantised(tensor):
            self.give(operator, reads, tensor, **attributes)
            return
        found = self.step(operator, reads, "float32", tensor.shape, **attributes)
        self.give("QuantizeLinear", [found, *self.scale(tensor)], tensor)

    # The model -------------------------------------------------------------------------------------

    def model(self) -> ModelProto:
        """Return the whole model."""
        inputs = [self._info(self.file.tensors[number]) for number in self.file.inputs]
        outputs = [self._output(self.file.tensors[number]) for number in self.file.outputs]
        known = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)
            for name, (kind, shape) in self.shapes.items()
        ]
        graph = helper.make_graph(
            self.nodes, "network", inputs, outputs, list(self.weights.values()), value_info=known
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
        opsets.append(helper.make_opsetid("tflite", 1))
        return helper.make_model(graph, ir_version=IR_VERSION, opset_imports=opsets, producer_name=PRODUCER)

    def _info(self, tensor: Tensor, name: str = "") -> ValueInfoProto:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.type))
        first = bool(name) or tensor.name in self._maps
        shape = self.first_shape(tensor) if first else tensor.shape
        return helper.make_tensor_value_info(name or tensor.name, kind, shape)

    def _output(self, tensor: Tensor) -> ValueInfoProto:
        """Return an output, of maps with channels first."""
        if not is_map(tensor) or tensor.numbers is not None or tensor.name in self._maps:
            return self._info(tensor)
        return self._info(tensor, self.channels_first(tensor))


def _unused(name: str, used: set[str]) -> str:
    """Return a name that has not been used, with a number if need be, and use it."""
    found, number = name, 1
    while found in used:
        number += 1
        found = f"{name}_{number}"
    used.add(found)
    return found


def is_map(tensor: Tensor) -> bool:
    """Whether a tensor has images, rows, columns and channels."""
    return len(tensor.shape) == 4


def quantised(tensor: Tensor) -> bool:
    """Whether the numbers of a tensor are integers that stand for others."""
    return tensor.scales is not None and tensor.type in QUANTISED
