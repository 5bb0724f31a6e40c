"""Weights of ONNX and Caffe files, and batch normalisations folded into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from tilewright.codegen.numbers.float_network import Constants
from tilewright.core.files import reason
from tilewright.importing.formats import translated
from tilewright.importing.layouts import SAME
from tilewright.importing.model import OnnxOperation, Value
from tilewright.importing.quantised import stored_numbers
from tilewright.simulator.arithmetic.fixed_point import Floats
from tilewright.simulator.arithmetic.integer_layer import Parameters
from tilewright.spec.errors import InputError
from tilewright.spec.network import OWN_INPUT, AnyLayer, Function, Map, NamedLayer, Network
from tilewright.spec.validation import validated

MATRICES = ("Gemm", "MatMul")
"""Operators whose weights are a matrix."""

NORMALISATIONS = ("GroupNormalization", "InstanceNormalization", "LayerNormalization", "RMSNormalization")
"""Operators with a factor and a summand of each channel."""

LIMITS = (("min", 1), ("max", 2))
"""Numbers between which values stay, and the places at which an operator reads them."""

EPSILON = 1e-5
"""Of a batch normalisation that does not tell its own."""


def read_initialisers(path: Path, sizes: Mapping[str, Sequence[int]]) -> dict[str, NDArray[Any]]:
    """Return the numbers that a file stores, by the tensors' names, those of constants among them.

    Of integers with a scale that become floats it is the floats, too.

    Those of a Caffe network are in the caffemodel of the same name beside it.

    Parameters
    ----------
    sizes
        As for `tilewright.importing.network`.

    Raises
    ------
    InputError
        If they lie in files of their own that are not there or cannot be read.
    """
    model = translated(path, sizes, with_weights=True)
    if model is None:
        try:
            model = onnx.load(path)
        except (OSError, ValueError, onnx.checker.ValidationError) as error:
            limit = f"lie in files that cannot be read: {reason(error)}"
            raise InputError("weights", path.name, limit) from None
    graph = model.graph
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        values = [each.t for each in node.attribute if each.name == "value"]
        if node.op_type == "Constant" and values:
            stored[node.output[0]] = numpy_helper.to_array(values[0])
        elif (numbers := stored_numbers(node, stored)) is not None:
            stored[node.output[0]] = numbers
    return stored


class Folding:
    """A network whose layers get the numbers of the operations that they are made of.

    Parameters
    ----------
    layer_of
        Which layer gives which tensor.
    stored
        See `read_initialisers`.

    orders
        Of tensors, by name, the place that each dimension has in the order in which they are stored.

    Attributes
    ----------
    replaced
        Names of normalisations that have been folded, by those of the layers that do their work.
    """

    def __init__(
        self,
        network: Network,
        operations: Sequence[OnnxOperation],
        layer_of: Mapping[str, str],
        stored: Mapping[str, NDArray[Any]],
        orders: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        self.network, self.stored, self.orders = network, stored, orders or {}
        self.replaced: dict[str, str] = {}
        self.layers = {layer.name: layer for layer in network.layers}
        self.operation_of: dict[str, OnnxOperation] = {}
        for operation in operations:
            for value in filter(None, operation.outputs):
                name = layer_of[value.name]
                if operation.operator != SAME or name not in self.operation_of:  # which computes nothing
                    self.operation_of[name] = operation

    def folded(self) -> tuple[Network, dict[str, Parameters]]:
        """Return the network without batch normalisations, and the weights of its layers."""
        found: dict[str, Parameters] = {}
        kept: list[AnyLayer] = []
        outputs = {self.network.layers[place].name for place in self.network.results}
        count = {
            layer.name: len(readers) + (layer.name in outputs)
            for layer, readers in zip(self.network.layers, self.network.consumers, strict=True)
        }
        for layer, producers in zip(self.network.layers, self.network.producers, strict=True):
            names = [OWN_INPUT if place < 0 else self.network.layers[place].name for place in producers]
            names = [self.replaced.get(name, name) for name in names]
            if isinstance(layer, Map) and layer.op == "batch_norm":
                [before] = names
                if before not in found or count[before] != 1:
                    limit = (
                        f"layer {layer.name} follows no convolution that it alone reads; it cannot be folded"
                    )
                    raise InputError("graph.node.op_type", "BatchNormalization", limit)
                found[before] = self._normalised(self._operation(layer.name), found[before])
                count[before] = count[layer.name]
                self.replaced[layer.name] = before
                continue
            if isinstance(layer, NamedLayer):
                found[layer.name] = self._of(layer)
            kept.append(layer.model_copy(update={"inputs": tuple(names)}))
        return self._network(kept, found), found

    def _network(self, kept: Sequence[AnyLayer], found: Mapping[str, Parameters]) -> Network:
        """Return the layers as a network; each with weights has a bias, of zeros where there was none."""
        tables, before = [], OWN_INPUT
        for layer in kept:
            table = layer.model_dump(exclude_defaults=True)
            if list(layer.inputs or ()) == [before]:
                del table["inputs"]
            if layer.name in found:
                table["bias"] = True
            tables.append({"kind": layer.kind, **table})
            before = layer.name
        own: dict[str, Any] = {"name": self.network.name, "source": self.network.source}
        if self.network.input is not None:
            own["input"] = self.network.input
        if self.network.outputs is not None:
            own["outputs"] = [self.replaced.get(name, name) for name in self.network.outputs]
        return validated(Network, {**own, "layers": tables})

    def _operation(self, name: str) -> OnnxOperation:
        """Return the operation of a layer, which may give its output in another shape."""
        if name in self.operation_of:
            return self.operation_of[name]
        place = next(i for i, layer in enumerate(self.network.layers) if layer.name == name)
        for reader in self.network.consumers[place]:
            follower = self.network.layers[reader]
            if follower.kind == "reshape" and follower.name in self.operation_of:
                return self.operation_of[follower.name]
        raise InputError("weights", name, "are not read: what the layer is made of has several parts")

    def _numbers(self, value: Value | None, what: str) -> Floats:
        """Return the numbers of a tensor that a file stores."""
        if value is None or value.name not in self.stored:
            name = None if value is None else value.name
            raise InputError(
                what, name, "is not stored in the file as it is used; only initialisers are read"
            )
        numbers: Floats = self.stored[value.name].astype(np.float64)
        if not np.isfinite(numbers).all():
            place = [int(index) for index in np.argwhere(~np.isfinite(numbers))[0]]
            raise InputError(f"{value.name}{place}", str(numbers[tuple(place)]), "must be a finite number")
        return numbers

    def _of(self, layer: NamedLayer) -> Parameters:
        """Return the weights of a layer in the shape of its kernels, and its bias."""
        operation = self._operation(layer.name)
        what, given = f"weights of {layer.name}", operation.inputs
        attributes = operation.attributes
        if operation.operator == "ConvTranspose":
            return self._of_transposed(layer, operation, what)
        if operation.operator not in ("Conv", *MATRICES) or attributes.get("transA", 0):
            raise InputError(
                what, operation.operator, f"are read of Conv, ConvTranspose, {' and '.join(MATRICES)} only"
            )
        weights = self._numbers(given[1], what)
        if operation.operator == "MatMul" or (
            operation.operator == "Gemm" and not attributes.get("transB", 0)
        ):
            weights = weights.T
        bias = np.zeros(layer.kernels)
        if len(given) > 2 and given[2] is not None:
            bias = np.broadcast_to(self._numbers(given[2], f"bias of {layer.name}").ravel(), layer.kernels)
            bias = bias * attributes.get("beta", 1.0)
        if weights.size != np.prod(layer.kernels_shape):
            raise InputError(what, list(weights.shape), f"must be {list(layer.kernels_shape)}")
        return Parameters(weights.reshape(layer.kernels_shape) * attributes.get("alpha", 1.0), bias.copy())

    def constants(self, layer: AnyLayer) -> Constants:
        """Return the numbers of a layer that multiplies by some, adds some, or normalises.

        Raises
        ------
        InputError
            For numbers that are not stored in the file as they are used.
        """
        nothing = np.ones(1), np.zeros(1)
        if isinstance(layer, NamedLayer):
            own = self._of(layer)
            return Constants(own.weights, own.bias)
        operation = self._operation(layer.name)
        what, inputs, attributes = f"numbers of {layer.name}", operation.inputs, operation.attributes
        if operation.operator in NORMALISATIONS:
            arrays = [self._numbers(value, what) for value in inputs[1:] if value is not None]
            arrays += nothing[len(arrays) :]
            return Constants(arrays[0], arrays[1], attributes)
        if operation.operator == "BatchNormalization":
            gained = self._normalised(operation, Parameters(np.ones((1, 1, 1, 1)), np.zeros(1)))
            return Constants(gained.weights.ravel(), gained.bias)
        if isinstance(layer, Function) or operation.operator == "Clip":
            fixed = {
                place: self._numbers(value, what)
                for place, value in enumerate(inputs)
                if value is not None and value.fixed and value.name in self.stored
            }
            if layer.kind == "function" and layer.op == "concat":
                fixed = {place: self._as_stored(operation, each) for place, each in fixed.items()}
            limits = {name: float(fixed[place].ravel()[0]) for name, place in LIMITS if place in fixed}
            told = limits if operation.operator == "Clip" else {}
            return Constants(*nothing, {**attributes, **told}, fixed)
        if operation.operator not in ("Add", "Sum", "Sub", "Mul", "Div"):
            return Constants(*nothing, attributes)
        places = [place for place, value in enumerate(inputs) if value is not None and value.fixed]
        if len(places) != 1 or (places[0] == 0 and operation.operator in ("Sub", "Div")):
            raise InputError(what, operation.operator, "are read where they are subtracted or divided by")
        numbers = self._numbers(inputs[places[0]], what)
        if isinstance(layer, Map) and layer.numbers is not None:
            numbers = self._as_stored(operation, numbers).reshape(layer.numbers.shape)
        if operation.operator in ("Add", "Sum", "Sub"):
            return Constants(nothing[0], -numbers if operation.operator == "Sub" else numbers)
        return Constants(numbers if operation.operator == "Mul" else 1 / numbers, nothing[1])

    def _as_stored(self, operation: OnnxOperation, numbers: Floats) -> Floats:
        """Return numbers in the order in which what they are combined with is stored."""
        (result,) = filter(None, operation.outputs)
        order = self.orders.get(result.name, tuple(range(numbers.ndim)))
        whole: Floats = numbers.reshape((1,) * (len(order) - numbers.ndim) + numbers.shape)
        return whole.transpose(np.argsort(order))

    def _of_transposed(self, layer: NamedLayer, operation: OnnxOperation, what: str) -> Parameters:
        """Return kernels of the convolution that a transposed one is, and their biases.

        All outputs between two inputs, which are side by side as channels, see as many inputs.
        """
        attributes, weights = operation.attributes, self._numbers(operation.inputs[1], what)
        automatic = attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
        if layer.groups > 1 or automatic or layer.name.count("/conv") > 1:
            raise InputError(what, operation.operator, "are read of one without groups and automatic padding")
        weights = weights.reshape(*weights.shape[:2], *(1,) * (4 - weights.ndim), *weights.shape[2:])
        space = len(attributes.get("strides", [1, 1]))
        stride = [*[1] * (2 - space), *attributes.get("strides", [1, 1])]
        pads = [*[0] * (2 - space), *attributes.get("pads", [0] * 2 * space)[:space]]
        kernels = []
        for row in range(stride[0]):
            for column in range(stride[1]):
                first, second = (row + pads[0]) % stride[0], (column + pads[1]) % stride[1]
                taps = weights[:, :, first :: stride[0], second :: stride[1]]
                kernels.append(taps[:, :, ::-1, ::-1].transpose(1, 0, 2, 3))
        if {each.shape[1:] for each in kernels} != {layer.kernels_shape[1:]}:
            limit = "are read where all outputs between two inputs see as many inputs"
            raise InputError(what, list(weights.shape), limit)
        bias, given = np.zeros(layer.kernels), operation.inputs
        if len(given) > 2 and given[2] is not None:
            bias = np.tile(self._numbers(given[2], f"bias of {layer.name}").ravel(), len(kernels))
        return Parameters(np.concatenate(kernels).reshape(layer.kernels_shape), bias)

    def _normalised(self, operation: OnnxOperation, before: Parameters) -> Parameters:
        """Return weights and bias that do what a batch normalisation does to a layer's outputs."""
        what = f"numbers of {operation.name}"
        scale, offset, mean, variance = (self._numbers(value, what) for value in operation.inputs[1:5])
        gain = scale / np.sqrt(variance + operation.attributes.get("epsilon", EPSILON))
        return Parameters(before.weights * gain[:, None, None, None], (before.bias - mean) * gain + offset)
