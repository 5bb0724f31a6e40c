"""What of a network lies between its file's inputs and outputs and the integers that plans move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tilewright.simulator.arithmetic.quantised.moves import Rearranged
from tilewright.simulator.arithmetic.quantised.network import ExactNetwork
from tilewright.simulator.arithmetic.quantised.operation import Array, ExactOperation
from tilewright.simulator.arithmetic.quantised.singles import Recoded
from tilewright.simulator.arithmetic.quantised.values import Quantised
from tilewright.spec.errors import InputError


class Border(NamedTuple):
    """An input or an output of a file.

    Attributes
    ----------
    name
        As the file has it.
    operations
        Between it and the integers inside, in order; none where it is these.
    unsigned
        Whether its integers have no sign.
    floats
        Whether it is floats in the file: ``scale * (q - zero_point)``.
    """

    name: str
    operations: tuple[ExactOperation, ...]
    unsigned: bool
    floats: bool
    scale: float
    zero_point: int

    def outside(self, values: Array) -> Array:
        """Return integers with a sign as bytes that a caller has."""
        return (values.view(np.uint8) ^ np.uint8(128)) if self.unsigned else values


class Inside(NamedTuple):
    """A network of integers with a sign, with maps as they are stored, and what lies around it.

    Attributes
    ----------
    shapes
        Of inputs, as the file has them.
    """

    network: ExactNetwork
    inputs: tuple[Border, ...]
    outputs: tuple[Border, ...]
    shapes: Mapping[str, tuple[int, ...]]

    def of_file(self, inputs: Sequence[Array]) -> list[Array]:
        """Return inputs of the file that become given integers inside."""
        found = []
        for border, values in zip(self.inputs, inputs, strict=True):
            for operation in reversed(border.operations):
                values = _undone(operation, values)
            shape = self.shapes[border.name]
            found.append(np.ascontiguousarray(values.reshape(shape)))
        return found

    def results(self, outputs: Sequence[Array]) -> list[Array]:
        """Return what the file gives for outputs of the network inside."""
        found = []
        for border, values in zip(self.outputs, outputs, strict=True):
            for operation in border.operations:
                values = operation.compute(values)
            found.append(values)
        return found


def _undone(operation: ExactOperation, values: Array) -> Array:
    """Return what an operation reads that gives some values; shapes are left as they are."""
    if isinstance(operation, Rearranged):
        found: Array = values.reshape(-1)[np.argsort(operation.places.reshape(-1))]
        return found
    if isinstance(operation, Recoded):
        flipped: Array = values.view(np.uint8) ^ np.uint8(128)
        return flipped
    if isinstance(operation, Quantised):
        centred = (values.astype(np.int64) - operation.zero_point).astype(np.float32)
        floats: Array = np.float32(operation.scale) * centred
        return floats
    return values


def inside(network: ExactNetwork) -> Inside:
    """Return the integers inside of a network; itself where nothing lies around them.

    Raises
    ------
    InputError
        For an input that is read with several scales.
    """
    renamed: dict[str, str] = {}
    tensors = dict(network.tensors)
    inputs = []
    for name in network.inputs:
        chain: list[ExactOperation] = []
        last = name
        while readers := [each for each in network.readers.get(last, ()) if each.name in network.borders]:
            if len(network.readers[last]) > 1:
                raise InputError(f"input {name}", None, "is read with several scales; one would do")
            chain.append(readers[0])
            last = readers[0].name
        renamed[last] = name
        inputs.append(_border(network, name, chain, last))
        tensors[name] = replace(tensors[last], name=name)
    outputs, results = [], []
    by_name = {each.name: each for each in network.operations}
    for name in network.outputs:
        chain, last = [], name
        while last in network.borders and last not in renamed:
            chain.insert(0, by_name[last])
            last = by_name[last].inputs[0]
        outputs.append(_border(network, name, chain, last))
        results.append(renamed.get(last, last))
    operations = tuple(
        replace(each, inputs=tuple(renamed.get(one, one) for one in each.inputs))
        for each in network.operations
        if each.name not in network.borders
    )
    found = replace(
        network, tensors=tensors, outputs=tuple(results), operations=operations, borders=frozenset()
    )
    shapes = {name: network.tensors[name].shape for name in network.inputs}
    return Inside(found, tuple(inputs), tuple(outputs), shapes)


def _border(network: ExactNetwork, name: str, chain: list[ExactOperation], last: str) -> Border:
    tensor, unsigned = network.tensors[last], any(isinstance(each, Recoded) for each in chain)
    floats = network.tensors[name].type == "float32"
    return Border(name, tuple(chain), unsigned, floats, tensor.scale, tensor.zero_point + 128 * unsigned)
