"""Ranges of a network's values: run it on samples, in floating point, and note the largest magnitudes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Literal, get_args

import numpy as np

from tilewright.bitwidth.data import read_parameters, read_samples
from tilewright.bitwidth.machine import LayerRange
from tilewright.simulator.arithmetic.fixed_point import Floats
from tilewright.simulator.arithmetic.integer_layer import Parameters
from tilewright.simulator.arithmetic.network_executor import convolve, refuse_unknown, run
from tilewright.simulator.arithmetic.onnx_executor import OnnxNetwork, Seen, find_unsupported, version
from tilewright.spec.errors import InputError
from tilewright.spec.network import NamedLayer, Network

IMAGES_AT_A_TIME = 20

ELEMENTS_AT_A_TIME = 20_000_000
"""Inputs and sums of all layers that are held at a time, at most, unless an image has more."""

Executor = Literal["auto", "onnxruntime", "reference"]
"""What runs a network: onnxruntime, our own, or `auto`, onnxruntime where it is installed and takes it."""

EXECUTORS: tuple[str, ...] = get_args(Executor)

SMALLEST = 1e-9
"""What is told of magnitudes that are 0, as of a layer whose inputs are."""


def ranges_of(
    network: Network | dict[str, Any],
    weights: str,
    samples: str,
    most_images: int | None = None,
    executor: Executor = "auto",
) -> dict[str, LayerRange]:
    """Return what is known of the values of each convolution and fully connected layer, by name.

    Parameters
    ----------
    weights, samples
        Files as `DataFiles` names them.
    most_images
        The first of the samples that are run; all when left out.
    executor
        ``onnxruntime``, which computes in single precision, ``reference``, our own, in double precision, or
        ``auto``: onnxruntime where it is installed.

    Raises
    ------
    InputError
        If the network has layers that are not executed, or the files do not fit it; if onnxruntime is asked
        for and not installed.
    """
    net = network if isinstance(network, Network) else Network(**network)
    layers = tuple(layer for layer in net.layers if isinstance(layer, NamedLayer))
    parameters = read_parameters(weights, layers)
    images = read_samples(samples, net.own_input).inputs[:most_images]
    return ranges_seen(net, parameters, images, executor)


def executed_by(net: Network, executor: Executor) -> str | None:
    """Return the version of onnxruntime that is to run a network, None for our own executor.

    Raises
    ------
    InputError
        If onnxruntime is asked for and is not installed, or does not take the network.
    """
    if executor not in EXECUTORS:
        raise InputError("executor", executor, f"must be one of: {', '.join(EXECUTORS)}")
    if executor == "reference":
        return None
    known, reason = version(), find_unsupported(net)
    if executor == "onnxruntime" and (known is None or reason is not None):
        raise InputError("executor", executor, reason or "needs `pip install 'tilewright[onnxruntime]'`")
    return known if reason is None else None


def ranges_seen(
    net: Network, parameters: Mapping[str, Parameters], images: Floats, executor: Executor = "auto"
) -> dict[str, LayerRange]:
    """Return the ranges of a network's values for images, shape (images, C, H, W); see `ranges_of`."""
    refuse_unknown(net)
    net.check_shapes()
    runs = _onnxruntime if executed_by(net, executor) is not None else _reference
    layers = tuple(layer for layer in net.layers if isinstance(layer, NamedLayer))
    seen: dict[str, list[float]] = {layer.name: [SMALLEST, SMALLEST, 0.0, 0.0, 0.0] for layer in layers}

    def note(layer: NamedLayer, values: Floats, sums: Floats) -> None:
        known = seen[layer.name]
        known[0] = max(known[0], float(abs(values).max()))
        known[1] = max(known[1], float(abs(sums).max()))
        share = len(values) / len(images)
        known[2] += share * float(np.square(values).mean())
        known[3] += share * float((values != 0).mean())
        known[4] += share * float(np.square(sums).mean())

    runs(net, parameters, images, note)
    found = {}
    for layer in layers:
        own = parameters[layer.name].weights
        largest, output, power, density, output_power = seen[layer.name]
        weights_power = max(float(np.square(own).mean()), SMALLEST**2)
        independent = layer.macs_per_output * max(power, SMALLEST**2) * weights_power
        found[layer.name] = LayerRange(
            input=_shown(largest),
            weights=_shown(max(float(abs(own).max()), SMALLEST)),
            output=_shown(output),
            absolute_weights=_shown(max(float(abs(own).sum(axis=(1, 2, 3)).max()), SMALLEST)),
            input_power=_shown(max(power, SMALLEST**2)),
            weights_power=_shown(weights_power),
            input_density=_shown(max(density, SMALLEST)),
            coherence=_shown(min(max(output_power / independent, SMALLEST), 1 / SMALLEST)),
        )
    return found


def _reference(net: Network, parameters: Mapping[str, Parameters], images: Floats, seen: Seen) -> None:
    """Run a network on images by our own executor."""

    def compute(layer: NamedLayer, values: Floats) -> Floats:
        sums = convolve(layer, values, parameters[layer.name].weights)
        seen(layer, values, sums)
        return sums + parameters[layer.name].bias[:, None, None]

    for first in range(0, len(images), IMAGES_AT_A_TIME):
        run(net, images[first : first + IMAGES_AT_A_TIME], compute)


def _onnxruntime(net: Network, parameters: Mapping[str, Parameters], images: Floats, seen: Seen) -> None:
    """Run a network on images by onnxruntime."""
    layers = [layer for layer in net.layers if isinstance(layer, NamedLayer)]
    each = sum(prod(layer.input) + prod(layer.output) for layer in layers)
    step = max(1, min(IMAGES_AT_A_TIME, ELEMENTS_AT_A_TIME // each))
    network = OnnxNetwork(net, parameters)
    for first in range(0, len(images), step):
        network.run(images[first : first + step], seen)


def _shown(value: float) -> float:
    """Return a number with nine digits, as files have them."""
    return float(f"{value:.9g}")
