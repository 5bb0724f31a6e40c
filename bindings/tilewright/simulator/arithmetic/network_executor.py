"""Execute a network, layer by layer on whole maps: what everything that is planned or emitted must equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.arithmetic.fixed_point import Floats
from tilewright.simulator.arithmetic.response import normalise
from tilewright.spec.errors import InputError
from tilewright.spec.graph import OWN, Access, NetworkGraph, Operation
from tilewright.spec.network import (
    OWN_INPUT,
    Add,
    AnyLayer,
    Concat,
    Map,
    Mul,
    NamedLayer,
    Network,
    Padding,
    Pool,
    Reshape,
    Slice,
)

Compute = Callable[[NamedLayer, NDArray[Any]], NDArray[Any]]
"""Returns the output of a convolution or fully connected layer, with its bias, from its input."""

Stored = Callable[[str, Floats], None]

FUNCTIONS: Mapping[str, Callable[[Floats], Floats]] = {
    "relu": lambda values: np.maximum(values, 0),
    "sigmoid": lambda values: 1 / (1 + np.exp(-values)),
    "tanh": np.tanh,
    "identity": lambda values: values,
    "dropout": lambda values: values,
    "softmax": lambda values: _softmax(values),
}
"""Functions without parameters of their own."""


def refuse_quantised(network: Network) -> None:
    """Refuse to compute a network whose integers have scales and zero points, which are not kept.

    Raises
    ------
    InputError
        Names the layers.
    """
    if network.quantised:
        limit = (
            "has integers with scales and zero points, which are not read, nor are activations that these "
            "stand for; such networks are planned, and not computed: export it in floating point"
        )
        raise InputError("network", list(network.quantised), limit)


def refuse_unknown(network: Network, more: Sequence[str] = ()) -> None:
    """Refuse a network with a layer that is not executed with data; name it.

    Parameters
    ----------
    more
        Kinds of layers that are executed in floating point only, and taken, too: ``mul``, ``input``.
    """
    refuse_quantised(network)
    for index, layer in enumerate(network.layers):
        field = f"network.layers[{index}]"
        if isinstance(layer, Map) and layer.op == "lrn":
            if layer.response is None:
                limit = f"layer {layer.name} needs it to be executed with data: size, alpha, beta, k"
                raise InputError(f"{field}.response", None, limit)
        elif isinstance(layer, Map) and layer.op not in FUNCTIONS:
            limit = f"layer {layer.name} is not executed with data; there are: {', '.join(FUNCTIONS)}"
            if layer.op in ("batch_norm", "scale", "bias"):
                limit += "; fold it into the weights before it"
            raise InputError(f"{field}.op", layer.op, limit)
        if isinstance(layer, Reshape) and layer.op not in ("reshape", "flatten"):
            raise InputError(f"{field}.op", layer.op, f"layer {layer.name} is not executed with data")
        known = isinstance(layer, NamedLayer | Pool | Add | Concat | Map | Padding | Reshape)
        if not known and layer.kind not in more:
            raise InputError(f"{field}.kind", layer.kind, f"layer {layer.name} is not executed with data")
        if layer.kind == "pool" and layer.op == "average" and any(layer.padding):
            limit = f"layer {layer.name}: averages of a border are not executed with data"
            raise InputError(f"{field}.padding", list(layer.padding), limit)


def run(network: Network, images: Floats, compute: Compute) -> Floats:
    """Return the output of the last layer, shape (images, C, H, W); see `outputs`."""
    return outputs(network, {OWN_INPUT: images}, compute)[network.layers[-1].name]


def outputs(
    network: Network, inputs: Mapping[str, Floats], compute: Compute, stored: Stored | None = None
) -> dict[str, Floats]:
    """Return the network's outputs, shape (images, C, H, W), by layer.

    Parameters
    ----------
    inputs : shape (images, C, H, W)
        By name.
    compute
        Computes convolutions and fully connected layers.
    stored
        Is told of each layer's output, by name.
    """

    def output(op: Operation, given: list[Floats]) -> Floats:
        found = layer_output(op.spec, given, compute)
        if stored is not None:
            stored(op.name, found)
        return found

    return execute_graph(NetworkGraph.of(network), inputs, output)


def execute_graph(
    graph: NetworkGraph,
    inputs: Mapping[str, NDArray[Any]],
    output: Callable[[Operation, list[NDArray[Any]]], NDArray[Any]],
) -> dict[str, NDArray[Any]]:
    """Execute a network operation by operation, and return its outputs by name.

    Parameters
    ----------
    inputs : shape (images, C, H, W)
        Of the network, by name.
    output
        Returns what an operation computes of what it reads. Arrays are dropped when all have read them.
    """
    held: dict[int, NDArray[Any]] = {OWN: inputs[OWN_INPUT]}
    last = {source: op.number for op in graph.ops for source in op.producers}
    for op in graph.ops:
        if op.accesses:
            held[op.number] = output(op, [_read(held, access) for access in op.accesses])
        else:
            held[op.number] = inputs[op.name]
        for source in {*op.producers}:
            if last[source] == op.number and not (source != OWN and graph.ops[source].leaves):
                del held[source]
    return {op.name: held[op.number] for op in graph.ops if op.leaves}


def _read(held: Mapping[int, NDArray[Any]], access: Access) -> NDArray[Any]:
    values = held[access.source]
    return values if access.channels is None else values[:, slice(*access.channels)]


def layer_output(
    layer: AnyLayer, given: Sequence[NDArray[Any]], compute: Compute, *, integers: bool = False
) -> NDArray[Any]:
    """Return what a layer computes of whole maps, shape (images, C, H, W).

    Parameters
    ----------
    given
        What it reads, each of shape (images, C, H, W); may be in another shape of as many values.
    compute
        Computes convolutions and fully connected layers.
    integers
        Whether values are plain integers, without formats. Then an average is the sum over its window, as the
        division is a scale, and so are functions of single values, which are passed on.
    """
    if isinstance(layer, Add):
        return reduce(np.add, given)
    if isinstance(layer, Mul):
        return reduce(np.multiply, given)
    parts = [values.reshape(len(values), -1, *layer.input[1:]) for values in given]
    values = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
    if isinstance(layer, NamedLayer):
        return compute(layer, values)
    if isinstance(layer, Pool):
        return _pooled(layer, values, integers)
    if isinstance(layer, Slice):
        cut = (slice(first, first + size) for first, size in zip(layer.first, layer.output, strict=True))
        return values[(slice(None), *cut)]
    if isinstance(layer, Padding):
        top, bottom, left, right = layer.padding
        return np.pad(values, ((0, 0), (0, 0), (top, bottom), (left, right)))
    if isinstance(layer, Reshape):
        return values.reshape(len(values), *layer.output)
    if isinstance(layer, Map) and not integers:
        return FUNCTIONS[layer.op](values) if layer.response is None else normalise(layer.response, values)
    return values


def convolve(layer: NamedLayer, values: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
    """Return the sums of a convolution, without bias.

    Parameters
    ----------
    values : shape (images, C, H, W)
    weights : shape (N, C / groups, H_K, W_K)

    Returns
    -------
    shape (images, N, H_out, W_out)
    """
    seen = windows(layer, values)
    channels, maps = layer.input[0] // layer.groups, layer.kernels // layer.groups
    parts = [
        np.tensordot(
            seen[:, group * channels : (group + 1) * channels],
            weights[group * maps : (group + 1) * maps],
            axes=([1, 4, 5], [1, 2, 3]),
        )
        for group in range(layer.groups)
    ]
    return np.concatenate(parts, axis=3).transpose(0, 3, 1, 2)


def windows(layer: NamedLayer | Pool, values: NDArray[Any], border: float = 0.0) -> NDArray[Any]:
    """Return a view of what lies under each window, shape (images, C, H_out, W_out, H_K, W_K)."""
    top, bottom, left, right = layer.padding
    padded = np.pad(values, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=border)
    seen = np.lib.stride_tricks.sliding_window_view(padded, layer.kernel_extent, axis=(2, 3))
    return seen[:, :, :: layer.stride[0], :: layer.stride[1], :: layer.dilation[0], :: layer.dilation[1]]


def _pooled(layer: Pool, values: NDArray[Any], integers: bool) -> NDArray[Any]:
    """Return the largest value under each window, or the average, the sum of integers."""
    if layer.op == "max":
        least = np.iinfo(np.int64).min if integers else -np.inf
        largest: NDArray[Any] = windows(layer, values, least).max(axis=(4, 5))
        return largest
    sums: NDArray[Any] = windows(layer, values).sum(axis=(4, 5))
    return sums if integers else sums / prod(layer.kernel)


def _softmax(values: Floats) -> Floats:
    grown = np.exp(values - values.max(axis=1, keepdims=True))
    shares: Floats = grown / grown.sum(axis=1, keepdims=True)
    return shares
