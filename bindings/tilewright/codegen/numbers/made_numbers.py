"""A coarse network in integers of one width: numbers made from a seed, executed operation by operation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import ceil, log2, sqrt

import numpy as np

from tilewright.codegen.numbers.network_numbers import NetworkNumbers, refusal
from tilewright.simulator.arithmetic.fixed_point import Format, Integers
from tilewright.simulator.arithmetic.integer_operation import (
    AS_STORED,
    IntegerOperation,
    divisor_of,
    kind_of,
)
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


class MadeNumbers:
    """The numbers of a network, all of them as wide as elements are, made from a seed.

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
    operations
        Those that are executed, by name.
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
        self.network, self.graph, self._images, self._left_out = network, graph, images, left_out
        self.origin = f"made from seed {seed}"
        size = min(element_bytes, MOST_BYTES)
        self.format = Format(8 * size, 0)
        self.sum_bits = SUM_BITS if size <= NARROW else WIDE_SUM_BITS
        self._rng = np.random.default_rng(seed)
        for layer in network.layers:
            if isinstance(layer, Reshape) and layer.op in PERMUTES:
                raise refusal(network, layer)
        self._choose_scales()
        self.operations: dict[str, IntegerOperation] = {}
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
        return tuple(name for name in found if name in self.operations)

    def sources(self, op: Operation) -> tuple[str, ...]:
        """Return the names of what an operation reads."""
        return tuple(map(self.graph.name, op.producers))

    def numbers(self, outputs: Collection[str] = ()) -> NetworkNumbers:
        """Return all numbers; outputs are the network's, or those of operations that are named."""
        named = tuple(outputs) or self.outputs
        return NetworkNumbers(self.operations, self.inputs, named, self.maps, self.origin)

    # Operations -----------------------------------------------------------------------------------------

    def _add(self, op: Operation) -> None:
        """Choose the numbers of an operation, and execute it."""
        spec, inputs = op.spec, [self.maps[name] for name in self.sources(op)]
        if any(access.channels for access in op.accesses):
            raise self._refused(spec, "reads some channels of a map alone; there is no C for it")
        if isinstance(spec, Mul) and len(inputs) * (self.format.bits - 1) > 62:
            raise self._refused(spec, f"multiplies {len(inputs)} values, which 64 bits do not hold")
        made = IntegerOperation(
            self._kind(op),
            self._rectified(op),
            (AS_STORED,) * len(inputs),
            self.format.bits,
            divisor=divisor_of(spec),
            sum_bits=self.sum_bits,
        )
        if isinstance(spec, NamedLayer):
            kernels, biases, bias_shift = self._parameters(spec)
            made = made._replace(kernels=kernels, biases=biases, bias_shift=bias_shift)
        results = made.results(spec, inputs)
        made = made._replace(shift=self._shift(op, made, results))
        self.operations[op.name] = made
        self.maps[op.name] = made.scaled(results)

    def _kind(self, op: Operation) -> str:
        spec = op.spec
        if isinstance(spec, NamedLayer | Pool):
            return kind_of(spec)
        if isinstance(spec, Add | Mul):
            return "ADD" if isinstance(spec, Add) else "MULTIPLY"
        last = not self.graph.consumers[op.number]  # where a softmax does not change the class
        passed = ("relu", *UNCHANGED, *(["softmax"] if last else []))
        if isinstance(spec, Concat | Reshape) or (isinstance(spec, Map) and spec.op in passed):
            return "COPY"
        raise self._refused(spec)

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
                raise self._refused(layer, "reads a value and functions of it; there is no C for it")
            if not free:
                raise self._refused(layer)
        return relu

    def _refused(self, layer: AnyLayer, reason: str = "there is no C for it") -> InputError:
        return refusal(self.network, layer, reason)

    # Numbers --------------------------------------------------------------------------------------------

    def _choose_scales(self) -> None:
        """Choose scales of what is computed before anything is; numbers that are made have none."""

    def _shift(self, op: Operation, made: IntegerOperation, results: Integers) -> int:
        """Return the power of two that results are divided by, so that few saturate."""
        if made.kind not in ("CONV", "ADD", "MULTIPLY"):
            return 0
        largest = int(np.quantile(np.abs(results), 1 - SATURATED))
        return max(0, largest.bit_length() - self.format.bits + 1)

    def _input(self, name: str, shape: Sequence[int]) -> Integers:
        """Return what the network is given under a name."""
        least, largest = self.format.range
        return self._rng.integers(least, largest + 1, (self._images, *shape), dtype=np.int64)

    def _wide(self, layer: NamedLayer) -> int:
        """Return the bits of a layer's weights with which no sum leaves the accumulators."""
        bits = self.format.bits
        return max(2, min(bits, self.sum_bits - bits - ceil(log2(layer.macs_per_output))))

    def _parameters(self, layer: NamedLayer) -> tuple[Integers, Integers | None, int]:
        """Return kernels and biases with which no sum leaves the accumulators, and the biases' shift."""
        bits, deep, wide = self.format.bits, layer.macs_per_output, self._wide(layer)
        half = 1 << (wide - 1)
        kernels = self._rng.integers(-half, half, (layer.kernels, deep), dtype=np.int64)
        if layer.weights is not None:
            kernels = self.operations[layer.weights].kernels
        if not layer.bias:
            return kernels, None, 0
        # Biases are about as large as the sums are.
        spread = sqrt(deep) / 3 * 2 ** (bits - 1 + wide - 1)
        least, largest = self.format.range
        biases = self._rng.integers(least, largest + 1, layer.kernels, dtype=np.int64)
        return kernels, biases, max(0, int(log2(spread)) - bits + 1)
