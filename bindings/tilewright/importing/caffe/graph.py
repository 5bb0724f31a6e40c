"""An ONNX graph that is made of a Caffe network layer by layer, with all shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from tilewright.importing.caffe.connections import CaffeLayer
from tilewright.importing.caffe.weights import Blobs
from tilewright.spec.errors import InputError
from tilewright.spec.layer import MAX_PLANE

OPSET = 19
"""The first version of ONNX whose averages round up and count the border as Caffe's."""

IR_VERSION = 9

PRODUCER = "Caffe"
"""What is told to have written the model."""

Sizes = tuple[int, ...]


class Unread(Exception):
    """A layer, or a use of one, that is not read: its field, the value and what would have been."""

    def __init__(self, field: str, value: object, limit: str) -> None:
        super().__init__(field)
        self.field, self.value, self.limit = field, value, limit


class Graph:
    """Nodes, weights and shapes.

    Parameters
    ----------
    layers
        All of the network.
    blobs
        Numbers of the layers' weights; None if only their shapes are of interest.

    Attributes
    ----------
    shapes
        Of tensors, batch first; None of an input whose sizes nothing tells.
    readers
        The layers that read a tensor.
    same
        Other names of tensors: those of layers that give what they read.
    """

    def __init__(self, layers: Sequence[CaffeLayer], blobs: Blobs | None) -> None:
        self.layers, self.blobs = layers, blobs
        self.readers: dict[str, list[CaffeLayer]] = {}
        for layer in layers:
            for name in layer.bottoms:
                self.readers.setdefault(name, []).append(layer)
        self.shapes: dict[str, Sizes | None] = {}
        self.same: dict[str, str] = {}
        self.nodes: list[NodeProto] = []
        self.tensors: dict[str, TensorProto] = {}
        self.inputs: list[str] = []
        self._shared: dict[str, str] = {}
        self._used = {name: 1 for layer in layers for name in layer.tops}

    def shape(self, layer: CaffeLayer, number: int = 0) -> Sizes:
        """Return the shape of a tensor that a layer reads."""
        if number >= len(layer.bottoms):
            raise layer.error("bottom", list(layer.message.bottom), f"must be at least {number + 1}")
        name = layer.bottoms[number]
        shape = self.shapes[name]
        if shape is None:
            example = f"for example --input {name}=1,3,224,224"
            raise InputError(
                f"input {name}", None, f"has no shape, and {layer.name} reads it; give it, {example}"
            )
        return shape

    def add(
        self,
        layer: CaffeLayer,
        operator: str,
        reads: Sequence[str],
        shape: Sequence[int],
        part: str = "",
        **attributes: Any,
    ) -> str:
        """Add a node that gives the layer's first top, or a step on the way to it; return its name."""
        name = self._unique(f"{layer.name}/{part}") if part else layer.tops[0]
        self.node(layer, operator, reads, [name], [shape], part, **attributes)
        return name

    def node(
        self,
        layer: CaffeLayer,
        operator: str,
        reads: Sequence[str],
        gives: Sequence[str],
        shapes: Sequence[Sequence[int]],
        part: str = "",
        **attributes: Any,
    ) -> None:
        """Add a node that gives tensors of some shapes."""
        for name, shape in zip(gives, shapes, strict=True):
            _check_sizes(layer, "shape of its top", shape)
            self.shapes[name] = tuple(shape)
        reads = [self.same.get(name, name) for name in reads]
        own = f"{layer.name}/{part}" if part else layer.name
        self.nodes.append(helper.make_node(operator, reads, list(gives), name=own, **attributes))

    def opaque(self, layer: CaffeLayer, shapes: Sequence[Sequence[int]]) -> None:
        """Add a layer that is not read as an operator of Caffe's own."""
        reads = [self.same.get(name, name) for name in layer.bottoms]
        node = helper.make_node(layer.type, reads, list(layer.tops), name=layer.name, domain="caffe")
        self.nodes.append(node)
        for name, shape in zip(layer.tops, shapes, strict=True):
            self.shapes[name] = tuple(shape)

    def weight(self, layer: CaffeLayer, number: int, role: str, shape: Sequence[int]) -> str:
        """Return the name of a layer's parameter, which is shared with others where the file says so."""
        shared = layer.shared[number] if number < len(layer.shared) else ""
        if shared in self._shared:
            name = self._shared[shared]
            if tuple(self.tensors[name].dims) != tuple(shape):
                limit = f"has the shape {list(self.tensors[name].dims)} elsewhere, and here {list(shape)}"
                raise layer.error(f"param[{number}].name", shared, limit)
            return name
        name = self._unique(f"{layer.name}.{role}")
        if shared:
            self._shared[shared] = name
        if self.blobs is None:
            self._unfilled(layer, name, shape)
        else:
            self.tensors[name] = numpy_helper.from_array(self.blobs.numbers(layer.name, number, shape), name)
        return name

    def normalisation(self, layer: CaffeLayer, scale: CaffeLayer | None, channels: int) -> list[str]:
        """Return the names of scale, offset, mean and variance, the first two of a layer that follows."""
        names = [self._unique(f"{layer.name}.{role}") for role in ("gamma", "beta", "mean", "variance")]
        if self.blobs is None:
            for name in names:
                self._unfilled(layer, name, [channels])
            return names
        mean, variance = (self.blobs.numbers(layer.name, number, [channels]) for number in (0, 1))
        [images] = self.blobs.numbers(layer.name, 2, [1])  # that the others are sums of
        share = 1 / images if images else 0.0
        gamma, beta = np.ones(channels, np.float32), np.zeros(channels, np.float32)
        if scale is not None:
            gamma = self.blobs.numbers(scale.name, 0, [channels])
            if scale.parameters("scale_param", "ScaleParameter").bias_term:
                beta = self.blobs.numbers(scale.name, 1, [channels])
        for name, values in zip(names, (gamma, beta, mean * share, variance * share), strict=True):
            self.tensors[name] = numpy_helper.from_array(values.astype(np.float32), name)
        return names

    def constant(self, layer: CaffeLayer, role: str, values: NDArray[Any]) -> str:
        """Return the name of numbers that the file itself holds."""
        name = self._unique(f"{layer.name}.{role}")
        self.tensors[name] = numpy_helper.from_array(values, name)
        return name

    def model(self, unread: frozenset[str]) -> ModelProto:
        """Return the whole model; its outputs are what no layer reads.

        Parameters
        ----------
        unread
            Tensors of the network's inputs, which are no outputs.
        """
        given = [self.same.get(name, name) for layer in self.layers for name in layer.tops]
        read = {name for node in self.nodes for name in node.input}
        outputs = [name for name in dict.fromkeys(given) if name not in read | unread]
        graph = helper.make_graph(
            self.nodes,
            "network",
            [self._info(name) for name in self.inputs if self.shapes[name] is not None],
            [self._info(name) for name in outputs],
            list(self.tensors.values()),
        )
        opsets = [helper.make_opsetid("", OPSET)]
        if any(node.domain for node in self.nodes):
            opsets.append(helper.make_opsetid("caffe", 1))
        return helper.make_model(graph, ir_version=IR_VERSION, opset_imports=opsets, producer_name=PRODUCER)

    def _info(self, name: str) -> ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shapes[name])

    def _unfilled(self, layer: CaffeLayer, name: str, shape: Sequence[int]) -> None:
        """Keep the shape of numbers that are elsewhere."""
        _check_sizes(layer, "shape of its weights", shape)
        self.tensors[name] = TensorProto(
            name=name, dims=shape, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL
        )

    def _unique(self, name: str) -> str:
        found = name
        while found in self._used:
            self._used[name] += 1
            found = f"{name}_{self._used[name]}"
        self._used[found] = 1
        return found


def _check_sizes(layer: CaffeLayer, what: str, shape: Sequence[int]) -> None:
    if any(not 1 <= size <= MAX_PLANE for size in shape):
        raise layer.error(what, list(shape), f"must be from 1 to {MAX_PLANE} in each dimension")


def stated_sizes(sizes: Mapping[str, Sequence[int]], name: str, stated: Sequence[int] | None) -> Sizes | None:
    """Return the sizes of an input: those that the user gives, else those of the file."""
    if name not in sizes:
        return None if stated is None else tuple(stated)
    given = tuple(sizes[name])
    if stated is not None and len(given) != len(stated):
        limit = f"the file has {name}={','.join(map(str, stated))}, of {len(stated)} dimensions"
        raise InputError("--input", f"{name}={','.join(map(str, given))}", limit)
    return given
