"""Execute a network on images by onnxruntime, in single precision: fast, and written by others than us."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from tilewright.simulator.arithmetic.fixed_point import Floats
from tilewright.simulator.arithmetic.integer_layer import Parameters
from tilewright.spec.network import OWN_INPUT, Add, AnyLayer, Map, NamedLayer, Network, Padding, Pool, Reshape

OPSET, IR_VERSION = 13, 8
"""Versions of ONNX that every onnxruntime of the last years reads."""

LARGEST = 2**31 - 2**20
"""Bytes of the weights of a network, of which a model is a single message."""

FUNCTIONS = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "identity": "Identity",
    "dropout": "Identity",
    "softmax": "Softmax",
}
"""Functions of `tilewright.simulator.arithmetic.network_executor`, as ONNX calls them."""


Seen = Callable[[NamedLayer, Floats, Floats], None]
"""Is told of a convolution or fully connected layer what it reads, and its sums without a bias."""


def version() -> str | None:
    """Return the version of onnxruntime, None where it is not installed."""
    try:
        import onnxruntime  # start-up time
    except ImportError:
        return None
    return str(onnxruntime.__version__)


def find_unsupported(network: Network) -> str | None:
    """Say why a network that our own executor takes is not one for onnxruntime, or None."""
    for layer in network.layers:
        if isinstance(layer, Map) and layer.response is not None and layer.response.size % 2 == 0:
            return f"layer {layer.name}: onnxruntime normalises over an odd number of channels"
    weights = sum(4 * prod(each.kernels_shape) for each in network.layers if isinstance(each, NamedLayer))
    return f"{weights} bytes of weights, at most {LARGEST}" if weights > LARGEST else None


class OnnxNetwork:
    """A network with numbers, ready to be run.

    Parameters
    ----------
    network
        Of layers that `network_executor` executes, and for which `find_unsupported` is None.
    parameters
        Of each convolution and fully connected layer, by name.
    """

    def __init__(self, network: Network, parameters: Mapping[str, Parameters]) -> None:
        import onnxruntime  # start-up time

        self._network = network
        model = _Model(network, parameters)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors
        self._session = onnxruntime.InferenceSession(
            model.serialised(), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = model.inputs

    def run(self, images: Floats, seen: Seen) -> None:
        """Compute images, shape (images, C, H, W), and tell of each convolution and fully connected layer."""
        layers = [layer for layer in self._network.layers if isinstance(layer, NamedLayer)]
        names = [name for name in self._inputs if name != OWN_INPUT]
        given = images.astype(np.float32)
        found: list[Any] = self._session.run([*map(_sums, range(len(layers))), *names], {OWN_INPUT: given})
        inputs = dict(zip(names, found[len(layers) :], strict=True)) | {OWN_INPUT: given}
        for layer, sums, name in zip(layers, found, self._inputs, strict=False):
            seen(layer, inputs[name].astype(np.float64), sums.astype(np.float64))


def _sums(number: int) -> str:
    return f"sums {number}"


class _Model:
    """A network as an ONNX model that also gives what layers read, and their sums.

    Attributes
    ----------
    inputs
        Names of what each convolution and fully connected layer reads, in order.
    """

    def __init__(self, network: Network, parameters: Mapping[str, Parameters]) -> None:
        self._parameters = parameters
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._shape = network.own_input
        self.inputs: list[str] = []
        outputs: list[str] = []
        for layer, producers in zip(network.layers, network.producers, strict=True):
            outputs.append(
                self._layer(layer, [OWN_INPUT if each < 0 else outputs[each] for each in producers])
            )

    def serialised(self) -> bytes:
        """Return the model as a file has it."""
        from onnx import TensorProto, helper  # start-up time

        sums = [_sums(number) for number in range(len(self.inputs))]
        told = dict.fromkeys([*sums, *self.inputs])
        told.pop(OWN_INPUT, None)
        graph = helper.make_graph(
            self._nodes,
            "network",
            [helper.make_tensor_value_info(OWN_INPUT, TensorProto.FLOAT, ["images", *self._shape])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in told],
            self._constants,
        )
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, ir_version=IR_VERSION, opset_imports=[opset])
        found: bytes = model.SerializeToString()
        return found

    def _node(self, op: str, inputs: list[str], output: str | None = None, **attributes: Any) -> str:
        """Add a node; return the name of what it gives."""
        from onnx import helper  # start-up time

        output = output or f"tensor {len(self._nodes)}"
        self._nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def _constant(self, values: Any) -> str:
        from onnx import numpy_helper  # start-up time

        name = f"constant {len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def _layer(self, layer: AnyLayer, given: list[str]) -> str:
        if isinstance(layer, Add):
            return self._node("Sum", given)
        if isinstance(layer, NamedLayer):
            return self._summed(layer, given)
        values = given[0] if len(given) == 1 else self._node("Concat", given, axis=1)
        if isinstance(layer, Pool):
            average = layer.op == "average"
            if not average:  # windows may lie within the border, which onnxruntime's own has none of
                values = self._padded(values, layer.padding, -np.inf)
            window: dict[str, Any] = {"kernel_shape": layer.kernel, "strides": layer.stride}
            return self._node("AveragePool" if average else "MaxPool", [values], **window)
        if isinstance(layer, Padding):
            return self._padded(values, layer.padding, 0.0)
        if isinstance(layer, Reshape):
            return self._node("Reshape", [values, self._constant(np.array([0, *layer.output]))])
        if not isinstance(layer, Map):
            return values
        if layer.response is not None:
            own = layer.response
            share: dict[str, Any] = {"size": own.size, "alpha": own.alpha, "beta": own.beta, "bias": own.k}
            return self._node("LRN", [values], **share)
        along: dict[str, Any] = {"axis": 1} if layer.op == "softmax" else {}
        return self._node(FUNCTIONS[layer.op], [values], **along)

    def _summed(self, layer: NamedLayer, given: list[str]) -> str:
        """Add a convolution, and a fully connected layer as one of a single pixel."""
        if layer.kind == "fc":
            column = self._constant(np.array([0, -1, 1, 1]))
            given = [self._node("Reshape", [each, column]) for each in given]
        values = given[0] if len(given) == 1 else self._node("Concat", given, axis=1)
        own = self._parameters[layer.name]
        top, bottom, left, right = layer.padding
        sums = self._node(
            "Conv",
            [values, self._constant(own.weights.astype(np.float32))],
            _sums(len(self.inputs)),
            kernel_shape=layer.kernel,
            strides=layer.stride,
            dilations=layer.dilation,
            group=layer.groups,
            pads=(top, left, bottom, right),
        )
        self.inputs.append(values)
        bias = own.bias.astype(np.float32).reshape(1, -1, 1, 1)
        return self._node("Add", [sums, self._constant(bias)]) if bias.any() else sums

    def _padded(self, values: str, padding: tuple[int, int, int, int], border: float) -> str:
        if not any(padding):
            return values
        top, bottom, left, right = padding
        pads = self._constant(np.array([0, 0, top, left, 0, 0, bottom, right]))
        return self._node("Pad", [values, pads, self._constant(np.float32(border))])
