"""Ranges of a network's values: run it on samples, in floating point, and note the largest magnitudes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.bitwidth.data import read_parameters, read_samples
from tilewright.bitwidth.machine import LayerRange
from tilewright.simulator.fixed_point import Floats
from tilewright.simulator.float_network import convolve, refuse_unknown, run
from tilewright.simulator.integer_layer import Parameters
from tilewright.spec.network import NamedLayer, Network

IMAGES_AT_A_TIME = 20

SMALLEST = 1e-9
"""What is told of magnitudes that are 0, as of a layer whose inputs are."""


def ranges_of(
    network: Network | dict[str, Any], weights: str, samples: str, most_images: int | None = None
) -> dict[str, LayerRange]:
    """Return what is known of the values of each convolution and fully connected layer, by name.

    Parameters
    ----------
    weights, samples
        Files as `DataFiles` names them.
    most_images
        The first of the samples that are run; all when left out.

    Raises
    ------
    InputError
        If the network has layers that are not executed, or the files do not fit it.
    """
    net = network if isinstance(network, Network) else Network(**network)
    layers = tuple(layer for layer in net.layers if isinstance(layer, NamedLayer))
    parameters = read_parameters(weights, layers)
    images = read_samples(samples, net.layers[0].input).inputs[:most_images]
    return ranges_seen(net, parameters, images)


def ranges_seen(net: Network, parameters: Mapping[str, Parameters], images: Floats) -> dict[str, LayerRange]:
    """Return the ranges of a network's values for images, shape (images, C, H, W); see `ranges_of`."""
    refuse_unknown(net)
    net.check_shapes()
    layers = tuple(layer for layer in net.layers if isinstance(layer, NamedLayer))
    seen: dict[str, list[float]] = {layer.name: [SMALLEST, SMALLEST, 0.0, 0.0, 0.0] for layer in layers}

    def compute(layer: NamedLayer, values: Floats) -> Floats:
        sums = convolve(layer, values, parameters[layer.name].weights)
        known = seen[layer.name]
        known[0] = max(known[0], float(abs(values).max()))
        known[1] = max(known[1], float(abs(sums).max()))
        share = len(values) / len(images)
        known[2] += share * float(np.square(values).mean())
        known[3] += share * float((values != 0).mean())
        known[4] += share * float(np.square(sums).mean())
        return sums + parameters[layer.name].bias[:, None, None]

    for first in range(0, len(images), IMAGES_AT_A_TIME):
        run(net, images[first : first + IMAGES_AT_A_TIME], compute)
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


def _shown(value: float) -> float:
    """Return a number with nine digits, as files have them."""
    return float(f"{value:.9g}")
