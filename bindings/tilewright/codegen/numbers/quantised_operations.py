"""A quantised network as operations in integers, in order, and the tensors between them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tilewright.simulator.arithmetic.fixed_point import Format
from tilewright.simulator.arithmetic.integer_network import IntegerNetwork
from tilewright.simulator.arithmetic.integer_operation import (
    AS_STORED,
    IntegerOperation,
    divisor_of,
    kind_of,
)
from tilewright.spec.errors import InputError
from tilewright.spec.network import (
    OWN_INPUT,
    Add,
    AnyLayer,
    Concat,
    Map,
    NamedLayer,
    Padding,
    Pool,
    Reshape,
)
from tilewright.tiling.operations.operation import VIEWS

WIDE = 62
"""Bits at which nothing that is only multiplied by a power of two saturates."""


@dataclass(frozen=True)
class OperationInput:
    """A tensor that is read, and the formats that its values pass through until they are used."""

    tensor: str
    shape: tuple[int, int, int]
    formats: tuple[Format, ...]


@dataclass(frozen=True)
class QuantisedOperation:
    """A layer, or a layer with the rectifier that follows it, as it is executed.

    Attributes
    ----------
    layer
        What it does.
    tensor
        The layer of the network whose output it gives: its own, or that of the rectifier.
    sources
        What it reads, concatenated along the channels, or operand by operand.
    operation
        The same in integers. Biases are added outside of the accumulator, in the scale of the sums.
    """

    layer: AnyLayer
    tensor: str
    sources: tuple[OperationInput, ...]
    operation: IntegerOperation

    @property
    def name(self) -> str:
        """The layer's name."""
        return self.layer.name


class QuantisedOperations:
    """The operations of a quantised network.

    Parameters
    ----------
    planned
        Names of the layers that are executed by themselves: no part of the layer before or after them.

    Attributes
    ----------
    operations
        In the order of execution.
    result
        The tensor that is the network's output.

    Raises
    ------
    InputError
        For a layer that there is no C for.
    """

    def __init__(self, integers: IntegerNetwork, planned: Collection[str] = ()) -> None:
        self._network, self._integers, self._planned = integers.network, integers, planned
        shape = self._network.own_input
        own = OperationInput(OWN_INPUT, shape, (self._integers.formats[OWN_INPUT],))
        self._tensors: dict[str, tuple[OperationInput, ...]] = {OWN_INPUT: (own,)}
        self.operations: list[QuantisedOperation] = []
        absorbed: set[str] = set()
        for index, layer in enumerate(self._network.layers):
            if layer.name in absorbed:
                continue
            field = f"network.layers[{index}]"
            names = [
                OWN_INPUT if each < 0 else self._network.layers[each].name
                for each in self._network.producers[index]
            ]
            sources = tuple(source for name in names for source in self._tensors[name])
            if self._is_view(layer):
                self._tensors[layer.name] = self._passed(layer, sources)
                continue
            self._refuse(field, layer, sources, len(names))
            relu = self._rectifier(index)
            if relu is not None:
                absorbed.add(relu)
            self._add(layer, relu, sources, field)
        last = self._tensors[self._network.layers[-1].name]
        if len(last) > 1 or last[0].tensor == OWN_INPUT or len(set(last[0].formats)) > 1:
            limit = "the last layer that computes must give the network's output"
            raise InputError("network", self._network.layers[-1].name, limit)
        self.result = last[0].tensor

    @cached_property
    def _readers(self) -> list[list[int]]:
        readers: list[list[int]] = [[] for _ in self._network.layers]
        for index, producers in enumerate(self._network.producers):
            for producer in set(producers) - {-1}:
                readers[producer].append(index)
        return readers

    def _is_view(self, layer: AnyLayer) -> bool:
        """Whether a layer computes nothing: its readers read what it reads."""
        if isinstance(layer, Map):
            return layer.op in ("identity", "dropout") or (
                layer.op == "softmax" and layer is self._network.layers[-1]
            )
        if isinstance(layer, Padding):
            return layer.name not in self._planned  # part of the layers that read it
        return isinstance(layer, Concat) or (isinstance(layer, Reshape) and layer.op in VIEWS)

    def _passed(self, layer: AnyLayer, sources: Sequence[OperationInput]) -> tuple[OperationInput, ...]:
        """Return what readers of a layer read that computes nothing."""
        form = self._integers.formats[layer.name]
        shape = layer.output if isinstance(layer, Reshape) and len(sources) == 1 else None
        return tuple(
            replace(source, formats=(*source.formats, form), shape=shape or source.shape)
            for source in sources
        )

    def _rectifier(self, index: int) -> str | None:
        """Return the rectifier that alone reads a layer, and is computed as its output is stored."""
        readers = self._readers[index]
        layer = self._network.layers[readers[0]] if len(readers) == 1 else None
        if not isinstance(layer, Map) or layer.op != "relu" or layer.name in self._planned:
            return None
        return layer.name

    def _add(
        self, layer: AnyLayer, relu: str | None, sources: tuple[OperationInput, ...], field: str
    ) -> None:
        tensor = relu or layer.name
        own = self._integers.layers.get(layer.name)
        read = tuple(
            self._direct(field, source, own.inputs if own else source.formats[-1]) for source in sources
        )
        if isinstance(layer, Add) and any(source.formats[0] != source.formats[1] for source in read):
            limit = f"layer {layer.name} adds values that are rounded before: there is no C for that"
            raise InputError(field, layer.kind, limit)
        operation = self._operation(layer, tensor, read)
        if relu is not None or (isinstance(layer, Map) and layer.op == "relu"):
            operation = operation._replace(relu=True)
        self.operations.append(QuantisedOperation(layer, tensor, read, operation))
        form = self._integers.formats[tensor]
        self._tensors[tensor] = (OperationInput(tensor, layer.output, (form,)),)

    def _operation(self, layer: AnyLayer, tensor: str, sources: Sequence[OperationInput]) -> IntegerOperation:
        """Return a layer in integers, whose operands are brought to one scale, the finest of them."""
        to = self._integers.formats[tensor]
        finest = max(source.formats[-1].fraction for source in sources)
        reads = tuple(_alignment(source, finest) for source in sources)
        if isinstance(layer, NamedLayer):
            own, kernels = self._integers.layers[layer.name], self._integers.kernels[layer.name]
            return IntegerOperation(
                kind_of(layer),
                False,
                reads,
                to.bits,
                shift=own.fraction - to.fraction,
                kernels=kernels.reshape(layer.kernels, -1),
                biases=self._integers.biases[layer.name],
                sum_bits=own.accumulator,
                bias_within=False,
            )
        kind = kind_of(layer) if isinstance(layer, Pool) else "ADD" if isinstance(layer, Add) else "COPY"
        shift, divisor = finest - to.fraction, divisor_of(layer)
        return IntegerOperation(kind, False, reads, to.bits, shift, divisor, sum_bits=WIDE, bias_within=False)

    def _direct(self, field: str, source: OperationInput, wanted: Format) -> OperationInput:
        """Return a source with its own format and the one that it is read in, if once rounded is enough."""
        passed = [source.formats[0]]
        for form in (*source.formats[1:], wanted):
            if form != passed[-1]:
                passed.append(form)
        if len(passed) > 2:
            limit = f"the values of {source.tensor} are rounded twice on their way: there is no C for that"
            raise InputError(field, source.tensor, limit)
        return replace(source, formats=(passed[0], passed[-1]))

    def _refuse(self, field: str, layer: AnyLayer, sources: Sequence[OperationInput], operands: int) -> None:
        """Refuse what there is no C for; name it."""
        known = isinstance(layer, NamedLayer | Pool | Add) or (isinstance(layer, Map) and layer.op == "relu")
        if not known:
            what = getattr(layer, "op", layer.kind)
            raise InputError(field, what, f"layer {layer.name}: there is no C for it")
        if isinstance(layer, Add) and len(sources) != operands:
            raise InputError(
                field, layer.kind, f"layer {layer.name} adds concatenations: there is no C for that"
            )
        flat = isinstance(layer, NamedLayer) and layer.kind == "fc"
        planes = {source.shape[1:] for source in sources}
        if len(sources) > 1 and len(planes) > 1 and not flat:
            raise InputError(field, layer.kind, f"layer {layer.name} reads maps of several sizes")


def _alignment(source: OperationInput, finest: int) -> tuple[int, int]:
    """Return how values are read so that all operands have the finest scale."""
    first, last = source.formats
    if first == last:
        return AS_STORED if first.fraction == finest else (first.fraction - finest, WIDE)
    assert last.fraction == finest  # operands of a sum are read as they are; others share a format
    return first.fraction - last.fraction, last.bits
