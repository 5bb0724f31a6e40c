"""A quantised network in elements of one width, operation by operation of a coarse graph."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from tilewright.codegen.numbers.network_numbers import NetworkNumbers, refusal
from tilewright.codegen.numbers.quantised_network import QuantisedNetwork
from tilewright.codegen.numbers.quantised_operations import WIDE, QuantisedOperations
from tilewright.codegen.numbers.trained_network import refuse_another
from tilewright.simulator.arithmetic.fixed_point import Format, Integers
from tilewright.simulator.arithmetic.integer_network import divide_to_format
from tilewright.simulator.arithmetic.integer_operation import AS_STORED, IntegerOperation
from tilewright.spec.graph import NetworkGraph, Operation
from tilewright.spec.network import OWN_INPUT, Map, NamedLayer, Network


def element_numbers(
    network: Network,
    graph: NetworkGraph,
    element_bytes: int,
    quantised: QuantisedNetwork,
    executed: Collection[str] = (),
    outputs: Collection[str] = (),
) -> NetworkNumbers:
    """Return the numbers of a quantised network, whose biases are rounded to what an element holds.

    Parameters
    ----------
    executed
        Names of the operations that are executed, where these are not all.
    outputs
        Names of those whose outputs are wanted, where that is not the network's.

    Raises
    ------
    InputError
        For numbers of another network, or that are wider than elements, and for what there is no C for.
    """
    refuse_another(quantised.network.network, network, quantised.origin)
    made = _ElementNumbers(network, graph, 8 * element_bytes, quantised)
    return made.part(executed, outputs) if executed else made.numbers()


class _ElementNumbers:
    def __init__(self, network: Network, graph: NetworkGraph, bits: int, quantised: QuantisedNetwork) -> None:
        self._planned, self._graph, self._bits = network, graph, bits
        given = quantised.network
        self._shifts = {name: self._bias_shift(biases) for name, biases in given.biases.items()}
        biases = {
            name: divide_to_format(each, 1, self._shifts[name], Format(bits, 0)) << self._shifts[name]
            for name, each in given.biases.items()
        }
        self._quantised = replace(quantised, network=replace(given, biases=biases)).stored(bits, bits)
        self._network = self._quantised.network
        operations = QuantisedOperations(self._network).operations
        self._operations = {each.name: each for each in operations}
        self._names = {each.tensor: each.name for each in operations}

    def _bias_shift(self, biases: Integers) -> int:
        return max(0, int(np.abs(biases).max(initial=0)).bit_length() - self._bits + 1)

    def numbers(self) -> NetworkNumbers:
        """Return all numbers."""
        computed = [op for op in self._graph.ops if op.producers]
        operations = {op.name: self._operation(op) for op in computed}
        last = computed[-1]
        if [op for op in computed if op.leaves] != [last] or len(computed) < len(self._graph.ops):
            reason = "numbers are for networks of one input and one output"
            raise refusal(self._planned, computed[0].spec, reason)
        quantised = self._quantised
        maps = {OWN_INPUT: quantised.images, last.name: quantised.outputs}
        return NetworkNumbers(
            operations, (OWN_INPUT,), (last.name,), maps, quantised.origin, quantised.labels
        )

    def part(self, executed: Collection[str], outputs: Collection[str]) -> NetworkNumbers:
        """Return those of some operations, whose outputs are what the integer network has there."""
        operations = {op.name: self._operation(op) for op in self._graph.ops if op.name in executed}
        stored: dict[str, Integers] = {}
        self._network.run(self._quantised.images, stored=stored.__setitem__)
        maps = {OWN_INPUT: self._quantised.images}
        maps |= {name: stored[self._operations[name].tensor] for name in outputs}
        return NetworkNumbers(operations, (OWN_INPUT,), tuple(outputs), maps, self._quantised.origin)

    def _operation(self, op: Operation) -> IntegerOperation:
        spec, read = op.spec, [self._graph.name(each) for each in op.producers]
        if isinstance(spec, Map) and spec.op == "softmax" and not self._graph.consumers[op.number]:
            stored = self._operations[read[0]].tensor if read[0] in self._operations else read[0]
            bits = self._network.formats[stored].bits
            return IntegerOperation("COPY", False, (AS_STORED,), bits, sum_bits=WIDE, bias_within=False)
        own = self._operations.get(op.name)
        apart = any(layer.name in self._operations for layer in op.folded)  # it would be left out
        if own is None or apart or [self._names.get(e.tensor, e.tensor) for e in own.sources] != read:
            raise refusal(
                self._planned, spec, "is planned together with other layers than it is computed with"
            )
        if not isinstance(spec, NamedLayer):
            return own.operation
        width, biases = self._network.layers[spec.name].weights.bits, own.operation.biases
        if width > self._bits:
            raise refusal(self._planned, spec, f"weights of {width} bits do not fit its elements")
        assert biases is not None
        if biases.any() and not spec.bias:
            raise refusal(self._planned, spec, "has biases that are not planned")
        shift = self._shifts[spec.name]
        return own.operation._replace(biases=biases >> shift if spec.bias else None, bias_shift=shift)
