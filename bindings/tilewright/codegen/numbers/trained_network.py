"""A network with the numbers that it was trained to, and what others say that it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tilewright.simulator.arithmetic.fixed_point import Floats
from tilewright.simulator.arithmetic.integer_layer import Parameters
from tilewright.simulator.arithmetic.network_executor import convolve, outputs
from tilewright.spec.coarsening import coarse
from tilewright.spec.errors import InputError
from tilewright.spec.network import AnyLayer, Map, NamedLayer, Network

SMALLEST = 1e-9
"""What stands for magnitudes of 0."""


@dataclass(frozen=True)
class TrainedNetwork:
    """A network in floating point.

    Attributes
    ----------
    network
        All of its layers; batch normalisations are part of the weights.
    parameters
        Of each convolution and fully connected layer, by name.
    inputs : shape (images, C, H, W)
        By name.
    expected : shape (images, C, H, W)
        What the network gives for the inputs, by layer; of a softmax at the end what it reads.
    origin
        Where the numbers are from, and who computed what is expected.
    """

    network: Network
    parameters: Mapping[str, Parameters]
    inputs: Mapping[str, Floats]
    expected: Mapping[str, Floats]
    origin: str

    def first(self, images: int) -> TrainedNetwork:
        """Return the same with some of the images; from the first again where there are fewer."""

        def part(arrays: Mapping[str, Floats]) -> dict[str, Floats]:
            return {name: array[np.arange(images) % len(array)] for name, array in arrays.items()}

        return replace(self, inputs=part(self.inputs), expected=part(self.expected))

    def values(self) -> dict[str, Floats]:
        """Return what each layer gives for the inputs, by name, as our own executor computes it."""
        found = dict(self.inputs)

        def compute(layer: NamedLayer, given: Floats) -> Floats:
            own = self.parameters[layer.name]
            return convolve(layer, given, own.weights) + own.bias[:, None, None]

        outputs(self.network, self.inputs, compute, found.__setitem__)
        return found


def magnitude(values: Floats) -> float:
    """Return the largest magnitude of values, never 0."""
    return max(float(abs(values).max()), SMALLEST)


def refuse_another(network: Network, planned: Network, origin: str) -> None:
    """Refuse numbers of a network that computes something else than the one that is planned.

    Biases and names of functions aside, the coarse graphs and what is folded into them must be equal.

    Raises
    ------
    InputError
        Names the first layer that differs.
    """
    ours, theirs = ([_shown(layer) for layer in coarse(each).layers] for each in (planned, network))
    if ours == theirs and _functions(planned) == _functions(network):
        return
    names = (one[0] for one, other in zip(ours, theirs, strict=False) if one != other)
    where = next(names, "")
    limit = f"is another network than that of the numbers ({origin}){where and f': layer {where} differs'}"
    raise InputError("network", planned.name, limit)


def _shown(layer: AnyLayer) -> tuple[str, object]:
    """Return what a layer is, without what numbers may differ in."""
    return layer.name, layer.model_dump(exclude={"bias", "bits", "weights", "parameters"})


def _functions(network: Network) -> list[tuple[str, str]]:
    """Return the functions of a network that are computed with data."""
    return [
        (layer.name, layer.op)
        for layer in network.layers
        if isinstance(layer, Map) and layer.op not in ("batch_norm", "identity", "dropout")
    ]
