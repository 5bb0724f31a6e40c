"""A quantised network with what it is run on: of a plan of bit widths, a trained one, or made from a seed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import ceil, log2, sqrt

import numpy as np

from tilewright.bitwidth import Plan, Problem
from tilewright.bitwidth.measurement import integer_network
from tilewright.codegen.numbers.network_numbers import NetworkNumbers
from tilewright.codegen.numbers.quantised_operations import QuantisedOperations
from tilewright.codegen.numbers.trained_network import TrainedNetwork, magnitude
from tilewright.simulator.arithmetic.fixed_point import Floats, Format, Integers, integer_length
from tilewright.simulator.arithmetic.integer_layer import BIAS_BITS, IntegerLayer
from tilewright.simulator.arithmetic.integer_network import IntegerNetwork, requantise
from tilewright.simulator.arithmetic.network_executor import refuse_unknown
from tilewright.spec.errors import InputError
from tilewright.spec.network import OWN_INPUT, NamedLayer, Network
from tilewright.tiling.widths import Widths

IMAGES = 4
"""Images that are made."""

MOST_MADE, MOST_SUM = 16, 32
"""Bits of inputs and weights that are made, and of the accumulators that they do not leave, at most."""


@dataclass(frozen=True)
class QuantisedNetwork:
    """A network with numbers, and what it is run on.

    Attributes
    ----------
    images : int, shape (images, C, H, W)
        In the format of the network's input.
    labels : int, shape (images,), optional
        The right class of each.
    origin
        Where the numbers are from.
    expected : shape (images, C, H, W), optional
        What others compute of the network, in floating point.
    """

    network: IntegerNetwork
    images: Integers
    labels: Integers | None
    origin: str
    expected: Floats | None = None

    @classmethod
    def of_plan(cls, problem: Problem, plan: Plan, name: str) -> QuantisedNetwork:
        """Return the numbers of a plan of bit widths, whose problem has data.

        Raises
        ------
        InputError
            Where it has none.
        """
        if problem.data is None:
            raise InputError("data", None, f"{name} has no weights and samples, so there are no numbers")
        network = integer_network(problem, plan.front[0] if plan.front else plan)
        samples, most = problem.samples, problem.data.images
        labels = None if samples.labels is None else samples.labels[:most]
        return cls(network, network.quantise(samples.inputs[:most]), labels, name)

    @classmethod
    def made(cls, network: Network, widths: Widths, seed: int = 0) -> QuantisedNetwork:
        """Return numbers for a network that fit some widths, and whose sums do not leave the accumulators."""
        rng = np.random.default_rng(seed)
        layers, kernels, biases = {}, {}, {}
        accumulator = min(MOST_SUM, widths.partial)
        for layer in network.layers:
            if not isinstance(layer, NamedLayer):
                continue
            wide = _wide(layer, widths, accumulator)
            # So that outputs are about as large as the inputs that the next layer has.
            spread = sqrt(layer.macs_per_output / 3) * 2 ** (wide[1] - 1)
            own = IntegerLayer(
                layer, Format(wide[0], 0), Format(wide[1], max(0, round(log2(spread)))), accumulator
            )
            layers[layer.name] = own
            kernels[layer.name] = _drawn(rng, own.weights.range, layer.kernels_shape)
            bias = 2 ** (wide[0] - 2) << max(0, own.fraction) if layer.bias else 0
            biases[layer.name] = rng.integers(-bias, bias + 1, layer.kernels)
        found = IntegerNetwork(network, layers, kernels, biases)
        shape = (IMAGES, *network.own_input)
        return cls(found, _drawn(rng, found.formats["input"].range, shape), None, f"made from seed {seed}")

    @classmethod
    def of_trained(
        cls, trained: TrainedNetwork, widths: Widths, leaving: Collection[str]
    ) -> QuantisedNetwork:
        """Return the numbers that a network was trained to, as finely as some widths allow.

        Formats hold what comes of the inputs, and no sum leaves the accumulators.

        Parameters
        ----------
        leaving
            Names of the layers whose sums are stored before they are complete.

        Raises
        ------
        InputError
            For layers that have no form in integers, and networks of several inputs.
        """
        network, parameters = trained.network, trained.parameters
        refuse_unknown(network)
        values = trained.values()
        largest = {name: magnitude(each) for name, each in values.items()}
        layers = {}
        for layer, producers in zip(network.layers, network.producers, strict=True):
            if not isinstance(layer, NamedLayer):
                continue
            read = max(largest[OWN_INPUT if each < 0 else network.layers[each].name] for each in producers)
            accumulator = min(MOST_SUM, widths.partial) if layer.name in leaving else MOST_SUM
            weights = magnitude(parameters[layer.name].weights)
            wide = _wide(layer, widths, accumulator)
            own = IntegerLayer.of(layer, wide, (read, weights), accumulator)
            bias = integer_length(magnitude(parameters[layer.name].bias))
            over = max(0, own.fraction + bias - (BIAS_BITS - 1))
            finest = own.weights.fraction - over
            layers[layer.name] = replace(own, weights=own.weights._replace(fraction=finest))
        found = IntegerNetwork.of(network, layers, parameters, largest)
        images, (expected,) = trained.inputs[OWN_INPUT], trained.expected.values()
        return cls(found, found.quantise(images), None, trained.origin, expected)

    def first(self, count: int) -> QuantisedNetwork:
        """Return the numbers with the first images only."""
        labels = None if self.labels is None else self.labels[:count]
        expected = None if self.expected is None else self.expected[:count]
        return replace(self, images=self.images[:count], labels=labels, expected=expected)

    def stored(self, image: int, output: int) -> QuantisedNetwork:
        """Return the numbers with images and outputs of layers in some bits at most.

        What has more loses the last ones. The network's output, which has the accumulator's, gets the finest
        format that holds what comes of the images.
        """
        network, shown = self.network, self.network.network.layers[-1].name
        most = {layer.name: output for layer in network.network.layers} | {OWN_INPUT: image}
        changed = replace(network, most_bits=most)
        images = requantise(self.images, network.formats[OWN_INPUT].fraction, changed.formats[OWN_INPUT])
        if (form := changed.formats[shown]).bits > output:
            largest = np.abs(form.value(changed.run(images))).max(initial=0)
            changed = replace(changed, given=Format.of(output, float(largest)))
        return replace(self, network=changed, images=images)

    def numbers(self, operations: QuantisedOperations) -> NetworkNumbers:
        """Return the numbers of a project that executes all operations."""
        result = operations.result
        known = {} if self.expected is None else {result: self.expected}
        return NetworkNumbers(
            {each.name: each.operation for each in operations.operations},
            (OWN_INPUT,),
            (result,),
            {OWN_INPUT: self.images, result: self.outputs},
            self.origin,
            self.labels,
            known,
            {result: self.network.format_of(len(self.network.network.layers) - 1).fraction},
        )

    @property
    def outputs(self) -> Integers:
        """What the network gives."""
        return self.network.run(self.images)


GivenNumbers = QuantisedNetwork | TrainedNetwork
"""What a user has of a network: integers, or weights in floating point."""


def _wide(layer: NamedLayer, widths: Widths, accumulator: int) -> tuple[int, int]:
    """Return bits of inputs and weights whose sums do not leave an accumulator."""
    most = min(MOST_MADE, widths.input), min(MOST_MADE, widths.weights)
    free = accumulator + 1 - ceil(log2(layer.macs_per_output))
    first = max(min(2, most[0]), min(most[0], free // 2))
    return first, max(min(2, most[1]), min(most[1], free - first))


def _drawn(rng: np.random.Generator, ends: tuple[int, int], shape: tuple[int, ...]) -> Integers:
    return rng.integers(ends[0], ends[1] + 1, shape, dtype=np.int64)
