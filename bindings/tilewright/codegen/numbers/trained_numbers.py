"""A coarse network in integers of one width, with the numbers that it was trained to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod

import networkx as nx
import numpy as np

from tilewright.codegen.numbers.made_numbers import MadeNumbers
from tilewright.codegen.numbers.network_numbers import NetworkNumbers
from tilewright.codegen.numbers.trained_network import SMALLEST, TrainedNetwork, magnitude, refuse_another
from tilewright.simulator.arithmetic.fixed_point import Floats, Format, Integers, integer_length
from tilewright.simulator.arithmetic.integer_operation import IntegerOperation
from tilewright.simulator.arithmetic.network_executor import refuse_quantised
from tilewright.spec.errors import Disagreement
from tilewright.spec.graph import NetworkGraph, Operation
from tilewright.spec.network import OWN_INPUT, Mul, NamedLayer, Network, Pool

CHECKED_BYTES = 3
"""Bytes of the values with which a coarse graph is held against what is expected of the network."""

CHECKED_DB = 50.0
"""Signal to noise of these values at least; one function that is left out costs far more."""


class TrainedNumbers(MadeNumbers):
    """The numbers of a network that was trained, as wide as elements are.

    What is added, concatenated or passed on has one scale, the finest in which none of these values saturates
    for the inputs; a convolution, an average and a product give values of another.

    Parameters
    ----------
    trained
        The network in floating point.

    Attributes
    ----------
    fractions
        Fractional length of what each operation gives, and of the inputs, by name.
    """

    def __init__(
        self,
        network: Network,
        graph: NetworkGraph,
        element_bytes: int,
        trained: TrainedNetwork,
        left_out: Collection[str] = (),
    ) -> None:
        refuse_another(trained.network, network, trained.origin)
        self.trained, self._values = trained, trained.values()
        self.fractions: dict[str, int] = {}
        self._weight_fractions: dict[str, int] = {}
        super().__init__(network, graph, element_bytes, len(trained.inputs[OWN_INPUT]), 0, left_out)
        self.origin = trained.origin

    @property
    def noise_db(self) -> float:
        """Signal to noise of the network's outputs beside what is expected, in decibels."""
        signal = noise = 0.0
        for name, expected in self.expected.items():
            found = np.ldexp(self.maps[name].astype(np.float64), -self.fractions[name])
            signal += float(np.square(expected).sum())
            noise += float(np.square(found.reshape(expected.shape) - expected).sum())
        return float(10 * np.log10(max(signal, SMALLEST) / max(noise, SMALLEST * SMALLEST)))

    @property
    def expected(self) -> dict[str, Floats]:
        """What others compute of the network's outputs, by the operations that give them here.

        Where an output is put together of several operations, our own executor tells them apart.
        """
        found = {}
        for op in self.graph.ops:
            if op.leaves:
                (name,) = self.sources(op) if op.name in self._left_out else (op.name,)
                became = (op.name, *(layer.name for layer in op.folded))
                outputs = [self.trained.expected[each] for each in became if each in self.trained.expected]
                alike = [each for each in outputs if each[0].size == prod(op.spec.output)]
                found[name] = alike[0] if alike else self._value(op)
        return found

    def numbers(self, outputs: Collection[str] = ()) -> NetworkNumbers:
        """Return all numbers, with what others compute; inside of the network that is our own executor."""
        expected = self.expected
        if outputs:
            inside = {op.name: op for op in self.graph.ops if op.name in outputs}
            expected = {name: expected.get(name, self._value(inside[name])) for name in outputs}
        return replace(super().numbers(outputs), expected=expected, fractions=self.fractions)

    def _value(self, op: Operation) -> Floats:
        """Return what an operation gives, with what is folded into it, as our own executor computes it."""
        found = self._values[op.name]
        return np.maximum(found, 0) if self._rectified(op) else found

    def _choose_scales(self) -> None:
        largest = {name: magnitude(values) for name, values in self.trained.inputs.items()}
        alike = nx.Graph()
        alike.add_nodes_from(largest)
        for op in self.graph.ops:
            alike.add_node(op.name)
            read = self.sources(op)
            if read:
                largest[op.name] = magnitude(self._value(op))
            if isinstance(op.spec, Mul):
                continue
            alike.add_edges_from((read[0], other) for other in read[1:])
            is_average = isinstance(op.spec, Pool) and op.spec.op == "average"
            if read and not isinstance(op.spec, NamedLayer) and not is_average:
                alike.add_edge(read[0], op.name)
        for same in nx.connected_components(alike):
            most = max(largest[name] for name in same)
            self.fractions |= dict.fromkeys(same, Format.of(self.format.bits, most).fraction)

    def _input(self, name: str, shape: Sequence[int]) -> Integers:
        return Format(self.format.bits, self.fractions[name]).quantise(self.trained.inputs[name])

    def _shift(self, op: Operation, made: IntegerOperation, results: Integers) -> int:
        read = [self.fractions[name] for name in self.sources(op)]
        if made.kind == "MULTIPLY":
            return sum(read) - self.fractions[op.name]
        return read[0] + self._weight_fractions.get(op.name, 0) - self.fractions[op.name]

    def _parameters(self, layer: NamedLayer) -> tuple[Integers, Integers | None, int]:
        own, bits = self.trained.parameters[layer.name], self.format.bits
        if own.bias.any() and not layer.bias:
            raise self._refused(layer, "has biases that are not planned")
        weights = Format.of(self._wide(layer), magnitude(own.weights))
        first = next(op for op in self.graph.ops if op.name == layer.name)
        read = self.fractions[self.sources(first)[0]]
        # A bias takes as much of the accumulator as the sums do, at most.
        over = read + weights.fraction + integer_length(magnitude(own.bias))
        weights = weights._replace(fraction=weights.fraction - max(0, over - (self.sum_bits - 2)))
        self._weight_fractions[layer.name] = weights.fraction
        kernels = weights.quantise(own.weights).reshape(layer.kernels, -1)
        if not layer.bias:
            return kernels, None, 0
        sums = read + weights.fraction
        shift = max(0, over - max(0, over - (self.sum_bits - 2)) - (bits - 1))
        return kernels, Format(bits, sums - shift).quantise(own.bias), shift


def coarse_numbers(
    network: Network,
    graph: NetworkGraph,
    element_bytes: int,
    images: int,
    seed: int,
    trained: TrainedNetwork | None,
    left_out: Collection[str] = (),
    outputs: Collection[str] = (),
) -> NetworkNumbers:
    """Return numbers that were trained, for some images, or else made from a seed.

    Parameters
    ----------
    outputs
        Names of the operations whose outputs are wanted, where these are not the network's.

    Raises
    ------
    InputError
        For what there is no C for.
    Disagreement
        Where the coarse graph does not compute what is expected of the network.
    """
    refuse_quantised(network)
    if trained is None:
        return MadeNumbers(network, graph, element_bytes, images, seed, left_out).numbers(outputs)
    trained = trained.first(images)
    fine = TrainedNumbers(network, graph, CHECKED_BYTES, trained, left_out)
    if fine.noise_db < CHECKED_DB:
        raise Disagreement(
            f"the operations planned of {network.name or 'the network'} do not compute what it does: "
            f"{fine.noise_db:.1f} dB signal to noise in {8 * CHECKED_BYTES} bits ({trained.origin})"
        )
    return TrainedNumbers(network, graph, element_bytes, trained, left_out).numbers(outputs)
