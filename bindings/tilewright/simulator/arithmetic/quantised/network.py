"""A quantised network that is computed bit for bit as its file says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tilewright.simulator.arithmetic.quantised.operation import Array, ExactOperation, ExactTensor
from tilewright.spec.errors import InputError
from tilewright.spec.graph import NetworkGraph
from tilewright.spec.network import FREE, AnyLayer, Map

KEEP = ("input", "map", "reshape")
"""Kinds of operations that give as many values as they read."""


@dataclass(frozen=True, eq=False)
class ExactNetwork:
    """Operations of a quantised network, in the order in which they are executed.

    Attributes
    ----------
    tensors
        By name: inputs, what operations give, and numbers that operations read as tensors.
    inputs, outputs
        Names of tensors.
    layers
        Layers of the imported network that stand for an operation, by its name, the one that gives its
        result last. An operation that moves nothing may have none.
    borders
        Names of operations between inputs or outputs of the file and the integers inside, as they are
        stored; no layer stands for them.
    """

    tensors: Mapping[str, ExactTensor]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operations: tuple[ExactOperation, ...]
    layers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    borders: frozenset[str] = frozenset()

    def run(self, inputs: Sequence[Array], *, every: bool = False) -> dict[str, Array]:
        """Return what the network gives, by name.

        Parameters
        ----------
        inputs
            In the order of the network's own, in their types and shapes.
        every
            Return all tensors that are computed, and not the outputs alone.

        Raises
        ------
        InputError
            For inputs of other numbers, types or shapes.
        """
        values = {name: each.numbers for name, each in self.tensors.items() if each.numbers is not None}
        values |= self._checked(inputs)
        computed: dict[str, Array] = {}
        last = self._last_readers
        for place, operation in enumerate(self.operations):
            given = operation.compute(*(values[name] for name in operation.inputs))
            computed[operation.name] = values[operation.name] = given
            if not every:
                for name in operation.inputs:
                    if last[name] == place and name not in self.outputs:
                        values.pop(name, None), computed.pop(name, None)
        return computed if every else {name: values[name] for name in self.outputs}

    def _checked(self, inputs: Sequence[Array]) -> dict[str, Array]:
        if len(inputs) != len(self.inputs):
            raise InputError("inputs", len(inputs), f"the network has {len(self.inputs)}")
        for name, given in zip(self.inputs, inputs, strict=True):
            known = self.tensors[name]
            if given.shape != known.shape or given.dtype.name != known.type:
                told = f"{given.dtype.name}{list(given.shape)}"
                raise InputError(f"input {name}", told, f"must be {known.type}{list(known.shape)}")
        return dict(zip(self.inputs, inputs, strict=True))

    @cached_property
    def _last_readers(self) -> dict[str, int]:
        return {name: place for place, each in enumerate(self.operations) for name in each.inputs}

    @cached_property
    def readers(self) -> dict[str, tuple[ExactOperation, ...]]:
        """Operations that read each tensor, by its name."""
        found: dict[str, tuple[ExactOperation, ...]] = {}
        for operation in self.operations:
            for name in dict.fromkeys(operation.inputs):
                found[name] = (*found.get(name, ()), operation)
        return found

    def by_operation(self, graph: NetworkGraph) -> dict[str, tuple[ExactOperation, ...]]:
        """Return what each operation of a graph of the network stands for, by its name, in order.

        An operation of the file that became part of several is among what each of them stands for: a border
        of all convolutions that read it, a concatenation of all operations whose results are its parts. One
        that is only the order in which an input is stored is part of what reads it. An operation of the file
        that is several of the graph is what the first of them that computes stands for. The others stand for
        none, and keep the values. Where all that compute were made of one of its layers, as convolutions of
        a transposed one, it is what each of them stands for.

        Parameters
        ----------
        graph
            Made of the imported network: coarse, or as it is executed.

        Raises
        ------
        InputError
            If an operation of the file is part of none of the graph, or one that computes stands for none.
        """
        owners: dict[str, tuple[str, ...]] = {}
        for op in graph.ops:
            for layer in (op.spec, *op.folded):
                owners[layer.name] = (*owners.get(layer.name, ()), op.name)
        computing = [op.name for op in graph.ops if op.spec.kind not in KEEP or _is_function(op.spec)]
        named = {layer for layers in self.layers.values() for layer in layers}
        unnamed = [name for name in computing if name not in named]
        found: dict[str, list[ExactOperation]] = {op.name: [] for op in graph.ops}
        part_of: dict[str, tuple[str, ...]] = {}
        for operation in reversed(self.operations):
            layers = self.layers.get(operation.name, ())
            own = tuple(name for name in computing if name in layers)[:1]
            own = own or tuple(name for name in unnamed if _is_made_of(name, layers))
            own = own or (owners.get(layers[-1], ()) if layers else ())
            part_of[operation.name] = own or self._of_readers(operation, part_of)
            if operation.name in self.borders:
                part_of[operation.name] = ()
            for name in dict.fromkeys(part_of[operation.name]):
                found[name].insert(0, operation)
        left = [
            each.name for each in self.operations if not part_of[each.name] and each.name not in self.borders
        ]
        if left:
            raise InputError("operations of the file", left, "are part of no operation of the graph")
        empty = [op.name for op in graph.ops if op.spec.kind not in KEEP and not found[op.name]]
        if empty:
            raise InputError("operations of the graph", empty, "stand for no operation of the file")
        return {name: tuple(each) for name, each in found.items()}

    def _of_readers(self, operation: ExactOperation, part_of: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
        readers = self.readers.get(operation.name, ())
        return tuple(name for reader in readers for name in part_of[reader.name])


def _is_made_of(name: str, layers: Iterable[str]) -> bool:
    """Whether an operation is one of several that were made of a layer."""
    return any(name.startswith(f"{layer}/") for layer in layers)


def _is_function(layer: AnyLayer) -> bool:
    """Whether a layer gives other values than it reads, and does not only change their scale."""
    return isinstance(layer, Map) and layer.op not in FREE
