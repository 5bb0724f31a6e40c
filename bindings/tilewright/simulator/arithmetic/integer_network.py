"""Execute a network in integers only: what the emitted C of a quantised network must equal, bit for bit.

Every tensor has a format. A convolution or fully connected layer reads its inputs in a format of its own,
adds up products in an accumulator that wraps around, adds the bias outside of it, and stores its output in
the format that the readers need. Pools, sums and rectifiers work on the integers as they are stored; other
functions are computed in floating point, from and to these formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import prod

import numpy as np

from tilewright.simulator.arithmetic.fixed_point import Floats, Format, Integers, integer_length, wrap
from tilewright.simulator.arithmetic.integer_layer import IntegerLayer, Parameters
from tilewright.simulator.arithmetic.network_executor import FUNCTIONS, execute_graph, layer_output
from tilewright.simulator.arithmetic.response import PowerTable
from tilewright.spec.graph import NetworkGraph, Operation
from tilewright.spec.network import OWN_INPUT, Add, Map, NamedLayer, Network, Pool

MOST_BITS = 32
"""Bits of the widest tensor."""

UNKNOWN = 2.0**15
"""What stands for the largest magnitude of a tensor of which nothing is known."""

AS_STORED = ("identity", "dropout")
"""Functions that leave integers as they are."""

Summed = Callable[[IntegerLayer, Integers, Integers, Integers], None]
"""Is told of a layer with its inputs, whole sums, and sums as the accumulator keeps them."""

Saturated = Callable[[str, int], None]
"""Is told how many values a format did not hold that a layer reads or stores, by the layer's name."""

Count = Callable[[int], None]


@dataclass(frozen=True)
class IntegerNetwork:
    """A network with numbers.

    Attributes
    ----------
    layers, kernels, biases
        Of each convolution and fully connected layer, by name: its formats, and its numbers as integers.
    largest
        Magnitudes that outputs of layers, and the network's ``input``, do not exceed, where they are known:
        what is averaged or added up may be larger than what comes of it.
    most_bits
        Of outputs of layers, and of the network's ``input``, where these are fewer than `MOST_BITS`.
    given
        The format of the network's output, where it is not the accumulator's.
    """

    network: Network
    layers: Mapping[str, IntegerLayer]
    kernels: Mapping[str, Integers]
    biases: Mapping[str, Integers]
    largest: Mapping[str, float] = field(default_factory=dict)
    most_bits: Mapping[str, int] = field(default_factory=dict)
    given: Format | None = None

    @classmethod
    def of(
        cls,
        network: Network,
        layers: Mapping[str, IntegerLayer],
        parameters: Mapping[str, Parameters],
        largest: Mapping[str, float],
    ) -> IntegerNetwork:
        """Return a network with numbers in floating point, quantised."""
        kernels = {name: each.weights.quantise(parameters[name].weights) for name, each in layers.items()}
        biases = {name: each.bias(parameters[name]) for name, each in layers.items()}
        return cls(network, layers, kernels, biases, largest)

    # Formats --------------------------------------------------------------------------------------------

    @cached_property
    def formats(self) -> dict[str, Format]:
        """The format of each layer's output, and of the network's ``input``: the one that readers need.

        A convolution needs its own input format, a function without an integer form all bits that hold what
        it reads. A sum and an average need values as fine as their own output, and all bits that hold what
        they read, where that is known. Everything else needs what its own output needs. Unless its format is
        given, the last output has the accumulator's bits and, if there are biases, one bit more in front of
        the point, or as many as are known to be needed there.
        """
        network = self.network
        readers: list[list[int]] = [[] for _ in range(len(network.layers) + 1)]  # the last are of the input
        for place, producers in enumerate(network.producers):
            for producer in producers:
                readers[producer].append(place)
        needed: dict[int, Format] = {}
        names = [*(layer.name for layer in network.layers), OWN_INPUT]
        for place in [*reversed(range(len(network.layers))), -1]:
            asked = [self._asked(reader, place, needed) for reader in readers[place]]
            most = self.most_bits.get(names[place], MOST_BITS)
            needed[place] = common_format(asked, most) if asked else self._last
        return {names[place]: form for place, form in needed.items()}

    def _asked(self, reader: int, place: int, needed: Mapping[int, Format]) -> Format:
        layer = self.network.layers[reader]
        name = self.network.layers[place].name if place >= 0 else OWN_INPUT
        if self._is_function(reader):
            return Format.of(MOST_BITS, self.largest.get(name, UNKNOWN))
        if layer.name in self.layers:
            return self.layers[layer.name].inputs
        wanted = needed[reader]
        if not (isinstance(layer, Add) or (isinstance(layer, Pool) and layer.op == "average")):
            return wanted
        # Coarser by at most what the other operands, or the number of values, make of a rounding.
        integer = integer_length(self.largest[name]) if name in self.largest else wanted.integer
        return Format(1 + max(integer, wanted.integer) + wanted.fraction, wanted.fraction)

    def _is_function(self, place: int) -> bool:
        """Whether a layer is a function without an integer form; a softmax that comes last is left out."""
        layer = self.network.layers[place]
        if not isinstance(layer, Map) or layer.op in AS_STORED or layer.op == "relu":
            return False
        return layer.op != "softmax" or place < len(self.network.layers) - 1

    @property
    def _last(self) -> Format:
        if self.given is not None:
            return self.given
        network = self.network
        summed = [self.layers[each.name] for each in network.layers if each.name in self.layers]
        if not summed:
            return Format.of(MOST_BITS, self.largest.get(network.layers[-1].name, UNKNOWN))
        last = summed[-1]
        fraction = last.fraction - bool(self.biases[last.layer.name].any())
        if (name := network.layers[-1].name) in self.largest:
            fraction = min(fraction, Format.of(last.accumulator, self.largest[name]).fraction)
        return Format(last.accumulator, fraction)

    def format_of(self, producer: int) -> Format:
        """Return the format of the output of the layer at a place; of the network's input for -1."""
        return self.formats[self.network.layers[producer].name if producer >= 0 else OWN_INPUT]

    # Execution ------------------------------------------------------------------------------------------

    def quantise(self, images: Floats) -> Integers:
        """Return images as integers."""
        return self.formats[OWN_INPUT].quantise(images)

    def run(
        self,
        images: Integers,
        summed: Summed | None = None,
        stored: Callable[[str, Integers], None] | None = None,
        saturated: Saturated | None = None,
    ) -> Integers:
        """Return the output of the last layer, but for a softmax, which is left out there.

        Parameters
        ----------
        images : shape (images, C, H, W)
        summed
            Is told of the sums of each convolution and fully connected layer.
        stored
            Is told of each layer's output, by name.
        saturated
            Is told of all values that leave their format, as they are read or stored.
        """

        def output(op: Operation, given: list[Integers]) -> Integers:
            found = self._output(op.number, given, summed, saturated and partial(saturated, op.name))
            if stored is not None:
                stored(op.name, found)
            return found

        graph = NetworkGraph.of(self.network)
        return execute_graph(graph, {OWN_INPUT: images}, output)[self.network.layers[-1].name]

    def values(self, output: Integers) -> Floats:
        """Return the numbers that the integers of the last layer stand for, with its softmax if it is one."""
        last = self.network.layers[-1]
        values = self.format_of(len(self.network.layers) - 1).value(output)
        return FUNCTIONS["softmax"](values) if isinstance(last, Map) and last.op == "softmax" else values

    def _output(
        self, place: int, given: Sequence[Integers], summed: Summed | None, count: Count | None
    ) -> Integers:
        layer, to = self.network.layers[place], self.format_of(place)
        fractions = [self.format_of(producer).fraction for producer in self.network.producers[place]]
        finest = max(fractions)
        aligned = [values << (finest - fraction) for values, fraction in zip(given, fractions, strict=True)]
        if isinstance(layer, Map) and self._is_function(place):
            values = np.ldexp(aligned[0].astype(np.float64), -finest)
            return self._mapped(layer, values, place, to, count)

        def compute(layer: NamedLayer, values: Integers) -> Integers:
            return self._summed(layer, values, finest, to, summed, count)

        found = layer_output(layer, aligned, compute, integers=True)
        if isinstance(layer, NamedLayer):
            return found
        if isinstance(layer, Map) and layer.op == "relu":
            found = np.maximum(found, 0)
        divisor = prod(layer.kernel) if isinstance(layer, Pool) and layer.op == "average" else 1
        return divide_to_format(found, divisor, finest, to, count)

    def _summed(
        self,
        layer: NamedLayer,
        values: Integers,
        fraction: int,
        to: Format,
        summed: Summed | None,
        count: Count | None,
    ) -> Integers:
        """Return the output of a convolution or fully connected layer."""
        own = self.layers[layer.name]
        inputs = requantise(values, fraction, own.inputs, count)
        sums = own.sums(inputs, self.kernels[layer.name])
        kept = wrap(sums, own.accumulator)
        if summed is not None:
            summed(own, inputs, sums, kept)
        return requantise(kept + self.biases[layer.name][:, None, None], own.fraction, to, count)

    def _mapped(self, layer: Map, values: Floats, place: int, to: Format, count: Count | None) -> Integers:
        """Return what a function without an integer form gives, in floating point from and to formats."""
        if layer.response is None:
            found = FUNCTIONS[layer.op](values)
        else:
            read = self.network.producers[place]
            largest = max(2.0 ** self.format_of(producer).integer for producer in read)
            found = PowerTable.of(layer.response, largest).normalised(layer.response, values)
        if count is not None:
            count(to.beyond(found))
        return to.quantise(found)


def common_format(formats: Sequence[Format], most: int = MOST_BITS) -> Format:
    """Return the format that holds numbers of several, as finely as some bits allow.

    What an operation reads has at least the format that the operation needs, so that all of it, brought to
    one fractional length, fits into 64 bits.
    """
    fraction, integer = max(each.fraction for each in formats), max(each.integer for each in formats)
    bits = min(most, 1 + integer + fraction)
    return Format(max(1, bits), max(1, bits) - 1 - integer)


def requantise(values: Integers, fraction: int, to: Format, count: Count | None = None) -> Integers:
    """Bring integers of some fractional length to a format: halves away from zero, then saturated."""
    return divide_to_format(values, 1, fraction, to, count)


def divide_to_format(
    values: Integers, divisor: int, fraction: int, to: Format, count: Count | None = None
) -> Integers:
    """Divide integers of some fractional length and bring them to a format, rounded once, as `requantise`.

    Parameters
    ----------
    count
        Is told how many values saturate.
    """
    least, largest = to.range
    shift = fraction - to.fraction
    if shift < 0:
        # What is beyond the format stays so, and does not leave 64 bits when it is shifted.
        values = np.clip(values, (least - 1) * divisor, (largest + 1) * divisor) << -shift
        shift = 0
    if shift or divisor > 1:
        by = divisor << shift
        values = np.sign(values) * ((2 * np.abs(values) + by) // (2 * by))
    found: Integers = np.clip(values, least, largest)
    if count is not None:
        count(int(np.count_nonzero(found != values)))
    return found
