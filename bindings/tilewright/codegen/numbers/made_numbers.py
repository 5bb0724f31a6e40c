"""A coarse network in integers: its numbers made from a seed, and executed operation by operation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import ceil, log2, prod, sqrt
from typing import NamedTuple

import numpy as np

from tilewright.simulator.arithmetic.fixed_point import Format, Integers, wrap
from tilewright.simulator.arithmetic.integer_network import divide_to_format
from tilewright.simulator.arithmetic.network_executor import layer_output
from tilewright.simulator.arithmetic.reference import reference_convolution
from tilewright.spec.coarsening import PERMUTES
from tilewright.spec.errors import InputError
from tilewright.spec.graph import NetworkGraph, Operation
from tilewright.spec.network import (
    AFFINE,
    OWN_INPUT,
    UNCHANGED,
    Add,
    AnyLayer,
    Concat,
    Map,
    Mul,
    NamedLayer,
    Network,
    Padding,
    Pool,
    Reshape,
)

MOST_BYTES = 3
"""Most bytes of a value, however wide the elements are, so that sums and products fit 64 bits."""

NARROW = 2
"""Most bytes of a value whose sums are kept in 32 bits, and wrap around there."""

SUM_BITS, WIDE_SUM_BITS = 32, 62
"""Bits of the sums of narrow values, and of others, which never leave them."""

SATURATED = 0.01
"""Share of the values of an output that may be saturated, at most."""


class Form(NamedTuple):
    """An operation in integers.

    Attributes
    ----------
    kind
        What the C calls it.
    relu
        Whether negative values become 0.
    parameters : shape (kernels, parameters of each)
        The bias of each kernel comes first, if there is one.
    bias_shift
        A bias is multiplied by two to the power of this.
    shift
        Results are divided by two to the power of this, rounded once, halves away from zero, and saturated.
    """

    kind: str
    relu: bool
    parameters: Integers
    bias_shift: int
    shift: int


class Numbers:
    """The numbers of a network, all of them as wide as elements are.

    Parameters
    ----------
    network
        As it is in its file.
    graph
        What it becomes, operation by operation.
    element_bytes
        Of a value and a parameter, of which `MOST_BYTES` are used at most.
    images
        How many are made.
    left_out
        Names of operations that are not executed.

    Attributes
    ----------
    format
        Of all values.
    sum_bits
        Of the accumulators.
    forms
        Of each operation that is executed, by name.
    maps : shape (images, C, H, W)
        The network's inputs and what each operation gives, by name.

    Raises
    ------
    InputError
        For an operation that has no form in integers; names the layer.
    """

    def __init__(
        self,
        network: Network,
        graph: NetworkGraph,
        element_bytes: int,
        images: int = 1,
        seed: int = 0,
        left_out: Collection[str] = (),
    ) -> None:
        self.graph, self._images, self._left_out = graph, images, left_out
        size = min(element_bytes, MOST_BYTES)
        self.format = Format(8 * size, 0)
        self.sum_bits = SUM_BITS if size <= NARROW else WIDE_SUM_BITS
        self._rng = np.random.default_rng(seed)
        self._places = {layer.name: place for place, layer in enumerate(network.layers)}
        for layer in network.layers:
            if isinstance(layer, Reshape) and layer.op in PERMUTES:
                raise self.refused(layer)
        self._choose_scales()
        self.forms: dict[str, Form] = {}
        self.maps: dict[str, Integers] = {OWN_INPUT: self._input(OWN_INPUT, graph.own_input)}
        for op in graph.ops:
            if not op.producers:
                self.maps[op.name] = self._input(op.name, op.spec.output)
            elif op.name not in left_out:
                self._add(op)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the network's inputs."""
        return (OWN_INPUT, *(op.name for op in self.graph.ops if not op.producers))

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the operations whose outputs are the network's."""
        found: dict[str, None] = {}
        for op in self.graph.ops:
            if op.leaves:
                found |= dict.fromkeys(self.sources(op) if op.name in self._left_out else (op.name,))
        return tuple(name for name in found if name in self.forms)

    def sources(self, op: Operation) -> tuple[str, ...]:
        """Return the names of what an operation reads."""
        return tuple(map(self.graph.name, op.producers))

    # Forms ----------------------------------------------------------------------------------------------

    def _add(self, op: Operation) -> None:
        """Choose the numbers of an operation, and execute it."""
        spec, inputs = op.spec, [self.maps[name] for name in self.sources(op)]
        if any(access.channels for access in op.accesses):
            raise self.refused(spec, "reads some channels of a map alone; there is no C for it")
        if isinstance(spec, Mul) and len(inputs) * (self.format.bits - 1) > 62:
            raise self.refused(spec, f"multiplies {len(inputs)} values, which 64 bits do not hold")
        parameters, bias_shift = np.zeros((spec.output[0], 0), dtype=np.int64), 0
        if isinstance(spec, NamedLayer):
            parameters, bias_shift = self._parameters(spec)
        form = Form(self._kind(op), self._rectified(op), parameters, bias_shift, 0)
        found = self._executed(spec, form, inputs)
        form = form._replace(shift=self._shift(op, form, found))
        self.forms[op.name] = form
        divisor = prod(spec.kernel) if isinstance(spec, Pool) and spec.op == "average" else 1
        self.maps[op.name] = divide_to_format(found, divisor, form.shift, self.format)

    def _kind(self, op: Operation) -> str:
        spec = op.spec
        if isinstance(spec, NamedLayer):
            return "CONV"
        if isinstance(spec, Pool):
            return "MAX_POOL" if spec.op == "max" else "AVERAGE_POOL"
        if isinstance(spec, Add | Mul):
            return "ADD" if isinstance(spec, Add) else "MULTIPLY"
        last = not self.graph.consumers[op.number]  # where a softmax does not change the class
        passed = ("relu", *UNCHANGED, *(["softmax"] if last else []))
        if isinstance(spec, Concat | Reshape) or (isinstance(spec, Map) and spec.op in passed):
            return "COPY"
        raise self.refused(spec)

    def _rectified(self, op: Operation) -> bool:
        """Return whether a rectifier is part of an operation; refuse other functions."""
        relu = isinstance(op.spec, Map) and op.spec.op == "relu"
        for layer in op.folded:
            if isinstance(layer, Map) and layer.op == "relu":
                relu = True
                continue
            within = isinstance(op.spec, NamedLayer) and not relu  # the weights
            free = isinstance(layer, Padding | Concat | Reshape)
            if isinstance(layer, Map):
                free = layer.op in UNCHANGED or (within and layer.op in AFFINE)
            if isinstance(layer, Add | Mul):
                raise self.refused(layer, "reads a value and functions of it; there is no C for it")
            if not free:
                raise self.refused(layer)
        return relu

    def refused(self, layer: AnyLayer, reason: str = "there is no C for it") -> InputError:
        """Return what says that a layer cannot be executed."""
        what = getattr(layer, "op", layer.kind)
        return InputError(
            f"network.layers[{self._places[layer.name]}]", what, f"layer {layer.name}: {reason}"
        )

    # Numbers --------------------------------------------------------------------------------------------

    def _choose_scales(self) -> None:
        """Choose scales of what is computed before anything is; numbers that are made have none."""

    def _shift(self, op: Operation, form: Form, found: Integers) -> int:
        """Return the power of two that results are divided by, so that few saturate."""
        if form.kind not in ("CONV", "ADD", "MULTIPLY"):
            return 0
        largest = int(np.quantile(np.abs(found), 1 - SATURATED))
        return max(0, largest.bit_length() - self.format.bits + 1)

    def _input(self, name: str, shape: Sequence[int]) -> Integers:
        """Return what the network is given under a name."""
        least, largest = self.format.range
        return self._rng.integers(least, largest + 1, (self._images, *shape), dtype=np.int64)

    def _wide(self, layer: NamedLayer) -> int:
        """Return the bits of a layer's weights with which no sum leaves the accumulators."""
        bits = self.format.bits
        return max(2, min(bits, self.sum_bits - bits - ceil(log2(layer.macs_per_output))))

    def _parameters(self, layer: NamedLayer) -> tuple[Integers, int]:
        """Return parameters with which no sum leaves the accumulators, and the biases' shift."""
        bits, deep, wide = self.format.bits, layer.macs_per_output, self._wide(layer)
        half = 1 << (wide - 1)
        kernels = self._rng.integers(-half, half, (layer.kernels, deep), dtype=np.int64)
        if layer.weights is not None:
            kernels = self.forms[layer.weights].parameters[:, -deep:]
        if not layer.bias:
            return kernels, 0
        # Biases are about as large as the sums are.
        spread = sqrt(deep) / 3 * 2 ** (bits - 1 + wide - 1)
        least, largest = self.format.range
        biases = self._rng.integers(least, largest + 1, (layer.kernels, 1), dtype=np.int64)
        return np.hstack([biases, kernels]), max(0, int(log2(spread)) - bits + 1)

    def _executed(self, spec: AnyLayer, form: Form, inputs: Sequence[Integers]) -> Integers:
        """Return what an operation gives of whole maps, before it is scaled."""

        def compute(layer: NamedLayer, joined: Integers) -> Integers:
            bias = int(layer.bias)
            layer = layer.model_copy(update={"batch": len(joined)})
            sums = reference_convolution(
                layer, joined, form.parameters[:, bias:].reshape(layer.kernels_shape)
            )
            if bias:
                sums += form.parameters[:, 0, None, None] << form.bias_shift
            return wrap(sums, self.sum_bits)

        found = layer_output(spec, inputs, compute, integers=True)
        return np.maximum(found, 0) if form.relu else found
