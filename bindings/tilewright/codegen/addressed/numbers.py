"""The numbers of a network in one memory: made from a seed, or those of a plan of bit widths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import NamedTuple

import numpy as np

from tilewright.codegen.numbers.quantised_network import Values
from tilewright.codegen.numbers.trained_network import Trained, refuse_another
from tilewright.codegen.numbers.trained_numbers import TrainedNumbers, coarse_numbers
from tilewright.codegen.project.nodes import EmittedNode, NodeInput, Nodes
from tilewright.residency import Problem
from tilewright.residency.graph import Operation
from tilewright.residency.machine import ONE
from tilewright.simulator.arithmetic.fixed_point import Floats, Format, Integers
from tilewright.simulator.arithmetic.integer_network import divide_to_format
from tilewright.spec.errors import InputError
from tilewright.spec.layer import Window
from tilewright.spec.network import OWN_INPUT, Add, Map, NamedLayer, Pool

AS_STORED = 0, 0
"""What is done to a value that is read as it is stored."""

WIDE = 62
"""Bits at which nothing that is only multiplied by a power of two saturates."""


class Form(NamedTuple):
    """An operation in integers.

    Attributes
    ----------
    kind
        What the C calls it.
    relu
        Whether negative values become 0.
    parameters : flat
        For each unit the bias, if there is one, then the numbers of its kernel.
    reads : (shift, bits) of each operand
        Values are divided by two to the power of the shift, rounded, and saturate at some bits, as they are
        read; `AS_STORED` where nothing is done.
    sum_bits
        Of the accumulator, in which sums wrap around.
    bias_shift, bias_within
        A bias is multiplied by two to the power of the shift, and added within the accumulator or outside.
    shift, divisor, bits
        Results are divided by the divisor and by two to the power of the shift, rounded once, halves away
        from zero, and saturate at some bits.
    """

    kind: str
    relu: bool
    parameters: Integers
    reads: tuple[tuple[int, int], ...]
    sum_bits: int
    bias_shift: int
    bias_within: bool
    shift: int
    divisor: int
    bits: int


@dataclass(frozen=True)
class NetworkNumbers:
    """What is computed.

    Attributes
    ----------
    forms
        Of each operation, by name.
    maps : shape (images, C, H, W)
        Inputs and outputs of the network, by name.
    labels : shape (images,), optional
        The right class of each image.
    origin
        Where the numbers are from.
    right
        Images in the right class, where these are known.
    expected : shape (images, C, H, W)
        What others compute of the network, by output; empty where nobody does.
    fractions
        Fractional length of these outputs.
    """

    forms: Mapping[str, Form]
    maps: Mapping[str, Integers]
    labels: Integers | None
    origin: str
    right: int | None = None
    expected: Mapping[str, Floats] = field(default_factory=dict)
    fractions: Mapping[str, int] = field(default_factory=dict)


def images_of(problem: Problem) -> int:
    """Return how many images there are where none are given."""
    return 1 if problem.limits.frames == ONE else 2


def make_numbers(problem: Problem, seed: int, trained: Trained | None = None) -> NetworkNumbers:
    """Return numbers that were trained, or made from a seed.

    Raises
    ------
    InputError
        For an operation that there is no C for.
    """
    size = problem.machine.element_bytes
    numbers = coarse_numbers(problem.network, problem.graph.ops, size, images_of(problem), seed, trained)
    forms = {}
    for operation in problem.graph.numbers(problem.graph.all & ~problem.graph.begin):
        own, spec = numbers.forms[operation.name], operation.op.spec
        forms[operation.name] = Form(
            own.kind,
            own.relu,
            own.parameters.reshape(-1),
            (AS_STORED,) * len(operation.op.producers),
            numbers.sum_bits,
            own.bias_shift,
            True,
            own.shift,
            prod(spec.kernel) if isinstance(spec, Pool) and spec.op == "average" else 1,
            numbers.format.bits,
        )
    found = NetworkNumbers(forms, numbers.maps, None, f"made from seed {seed}")
    if not isinstance(numbers, TrainedNumbers):
        return found
    origin = numbers.trained.origin
    return replace(found, origin=origin, expected=numbers.expected, fractions=numbers.fractions)


def bitwidth_numbers(problem: Problem, values: Values) -> NetworkNumbers:
    """Return the numbers of a plan of bit widths, whose biases are rounded to what an element holds.

    Raises
    ------
    InputError
        For numbers of another network, or that are wider than elements, and for what there is no C for.
    """
    refuse_another(values.network.network, problem.network, values.origin)
    return _Given(problem, values).numbers()


def refusal_of(problem: Problem, operation: Operation, reason: str) -> InputError:
    """Return what says that an operation cannot be written in C."""
    layers = problem.network.layers
    place = next(at for at, layer in enumerate(layers) if layer.name == operation.name)
    limit = f"layer {operation.name}: {reason}"
    return InputError(f"network.layers[{place}]", operation.op.spec.kind, limit)


class _Given:
    def __init__(self, problem: Problem, values: Values) -> None:
        self._problem, self._bits = problem, 8 * problem.machine.element_bytes
        network = values.network
        self._shifts = {name: self._bias_shift(biases) for name, biases in network.biases.items()}
        biases = {
            name: self._bias(biases, self._shifts[name]) << self._shifts[name]
            for name, biases in network.biases.items()
        }
        changed = replace(values, network=replace(network, biases=biases))
        self._values = changed.stored(self._bits, self._bits)
        self._network = self._values.network
        nodes = Nodes(self._network.network, {}, self._values)
        self._nodes = {node.name: node for node in nodes.nodes}
        self._names = {node.tensor: node.name for node in nodes.nodes}

    def _bias_shift(self, biases: Integers) -> int:
        return max(0, int(np.abs(biases).max(initial=0)).bit_length() - self._bits + 1)

    def _bias(self, biases: Integers, shift: int) -> Integers:
        return divide_to_format(biases, 1, shift, Format(self._bits, 0))

    def numbers(self) -> NetworkNumbers:
        """Return all numbers."""
        operations = self._problem.graph.numbers(self._problem.graph.all & ~self._problem.graph.begin)
        forms = {operation.name: self._form(operation) for operation in operations}
        first, last = operations[0], operations[-1]
        alone = [each for each in operations if each.op.leaves] == [last]
        if not alone or len(self._problem.graph.numbers(self._problem.graph.begin)):
            raise self._refused(first, "numbers are for networks of one input and one output")
        values = self._values
        maps = {OWN_INPUT: values.images, last.name: values.outputs}
        return NetworkNumbers(forms, maps, values.labels, values.origin, values.right)

    def _refused(self, operation: Operation, reason: str) -> InputError:
        return refusal_of(self._problem, operation, reason)

    def _form(self, operation: Operation) -> Form:
        spec, ops = operation.op.spec, self._problem.graph.operations
        read = [OWN_INPUT if each < 0 else ops[each].name for each in operation.op.producers]
        last = not self._problem.graph.readers[operation.number + 1]
        if isinstance(spec, Map) and spec.op == "softmax" and last:
            return self._copied(self._format(read[0]).bits)
        node = self._nodes.get(operation.name)
        if node is None or [self._names.get(each.tensor, each.tensor) for each in node.sources] != read:
            raise self._refused(operation, "is planned together with other layers than it is computed with")
        if isinstance(spec, NamedLayer):
            return self._summed(operation, spec, node)
        return self._moved(operation, node)

    def _format(self, name: str) -> Format:
        """Return the format of what an operation gives."""
        return self._network.formats[self._nodes[name].tensor if name in self._nodes else name]

    def _copied(self, bits: int) -> Form:
        nothing = np.zeros(0, dtype=np.int64)
        return Form("COPY", False, nothing, (AS_STORED,), WIDE, 0, False, 0, 1, bits)

    def _summed(self, operation: Operation, spec: NamedLayer, node: EmittedNode) -> Form:
        """Return the form of a convolution or fully connected layer."""
        own, to = self._network.layers[spec.name], self._network.formats[node.tensor]
        if own.weights.bits > self._bits:
            raise self._refused(operation, f"weights of {own.weights.bits} bits do not fit its elements")
        shift, biases = self._shifts[spec.name], self._network.biases[spec.name]
        if biases.any() and not spec.bias:
            raise self._refused(operation, "has biases that are not planned")
        kernels = self._network.kernels[spec.name].reshape(spec.kernels, -1)
        rows = np.hstack([biases[:, None] >> shift, kernels]) if spec.bias else kernels
        reads = tuple(
            AS_STORED
            if source.formats[0] == own.inputs
            else (source.formats[0].fraction - own.inputs.fraction, own.inputs.bits)
            for source in node.sources
        )
        return Form(
            "CONV",
            node.relu,
            rows.reshape(-1),
            reads,
            own.accumulator,
            shift,
            False,
            own.fraction - to.fraction,
            1,
            to.bits,
        )

    def _moved(self, operation: Operation, node: EmittedNode) -> Form:
        """Return the form of a pool, a sum, or a copy."""
        spec, to = operation.op.spec, self._network.formats[node.tensor]
        finest = max(source.formats[-1].fraction for source in node.sources)
        kind, divisor = "ADD" if isinstance(spec, Add) else "COPY", 1
        if isinstance(spec, Pool):
            kind = "MAX_POOL" if spec.op == "max" else "AVERAGE_POOL"
            divisor = prod(spec.kernel) if spec.op == "average" else 1
        assert isinstance(spec, Window)
        return Form(
            kind,
            node.relu,
            np.zeros(0, dtype=np.int64),
            tuple(self._aligned(operation, source, finest) for source in node.sources),
            WIDE,
            0,
            False,
            finest - to.fraction,
            divisor,
            to.bits,
        )

    def _aligned(self, operation: Operation, source: NodeInput, finest: int) -> tuple[int, int]:
        """Return how values are read so that all operands have the finest scale."""
        first, last = source.formats
        if first == last:
            return AS_STORED if first.fraction == finest else (first.fraction - finest, WIDE)
        if last.fraction != finest:
            raise self._refused(operation, f"the values of {source.tensor} are rounded on their way")
        return first.fraction - last.fraction, last.bits
