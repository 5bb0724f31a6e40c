"""A coarse network in floating point: numbers of a file, or made from a seed, executed on whole maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.codegen.numbers.network_numbers import Arrange, refusal
from tilewright.codegen.numbers.point_function import KNOWN, PointFunction, PointStep
from tilewright.codegen.numbers.trained_network import refuse_another
from tilewright.simulator.arithmetic.fixed_point import Floats
from tilewright.simulator.arithmetic.integer_operation import divisor_of, kind_of
from tilewright.simulator.arithmetic.network_executor import convolve, layer_output
from tilewright.spec.access import reads_place
from tilewright.spec.coarsening import PERMUTES
from tilewright.spec.errors import Disagreement, InputError
from tilewright.spec.graph import NetworkGraph, Operation
from tilewright.spec.network import (
    AFFINE,
    FREE,
    OWN_INPUT,
    Add,
    AnyLayer,
    Concat,
    Function,
    Map,
    MatMul,
    Mul,
    NamedLayer,
    Network,
    Pool,
    Reshape,
)

WIDTHS = {4: "<f4", 8: "<f8"}
"""How numpy calls floats of so many bytes."""

CLOSE = 1e-3
"""Share of the largest output by which others' may differ, which are computed in single precision."""

EPSILON = 1e-5
"""What is added to variances where a normalisation does not tell it."""

ROWS = {
    "softmax": "SOFTMAX",
    "log_softmax": "LOG_SOFTMAX",
    "layer_normalization": "NORMALISE",
    "rms_normalization": "NORMALISE_ROOT",
}
"""Functions of the channels of a pixel, and what C calls them."""


@dataclass(frozen=True)
class Constants:
    """The numbers of a layer.

    Attributes
    ----------
    factor
        Kernels; of an affine function or a normalisation what it multiplies by, of each channel or of all.
    summand
        Biases, or what it adds.
    attributes
        Of a function, by ONNX's names.
    """

    factor: Floats
    summand: Floats
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FloatNetwork:
    """A network's numbers in floating point, and what others say that it gives.

    Attributes
    ----------
    network
        As it is in its file.
    constants_of
        Returns the numbers of a layer that has any.
    inputs, expected : shape (images, C, H, W)
        By name of the operation, in the order in which values are stored.
    origin
        Where the numbers are from.
    """

    network: Network
    constants_of: Callable[[AnyLayer], Constants]
    inputs: Mapping[str, Floats]
    expected: Mapping[str, Floats]
    origin: str


@dataclass(frozen=True)
class FloatOperation:
    """An operation in floating point.

    Attributes
    ----------
    kind
        As the engine calls it.
    parameters
        As they lie in DRAM: of each kernel its bias, if there is one, and its weights; factors and summands.
    divisor
        Of an average.
    after
        What is computed of each of its values.
    epsilon
        Of a normalisation.
    has_summand
        Whether a normalisation adds numbers.
    """

    kind: str
    parameters: Floats
    divisor: int = 1
    after: PointFunction = field(default_factory=PointFunction)
    epsilon: float = 0.0
    has_summand: bool = False


class FloatNumbers:
    """The numbers of a network in floating point, and its outputs, computed operation by operation.

    Parameters
    ----------
    network
        As it is in its file.
    graph
        What it becomes.
    element_bytes
        Of a value and a parameter.
    images
        How many there are.
    given
        Its numbers; made from a seed by default.

    Raises
    ------
    InputError
        For an operation that there is no C for, and elements that hold no floats.
    Disagreement
        Where the operations do not compute what others say of the network.
    """

    labels = right = None
    labels_data = b""

    def __init__(
        self,
        network: Network,
        graph: NetworkGraph,
        element_bytes: int,
        images: int,
        seed: int,
        given: FloatNetwork | None,
    ) -> None:
        if element_bytes not in WIDTHS:
            limit = "products of computed matrices and softmax are emitted in floating point: of 4 or 8 bytes"
            raise InputError("machine.element_bytes", element_bytes, limit)
        self.network, self.graph, self.images, self.given = network, graph, images, given
        if given is not None:
            refuse_another(given.network, network, given.origin)
        self._rng, self._made = np.random.default_rng(seed), dict[str, Constants]()
        self._width = WIDTHS[element_bytes]
        self.origin = f"made from seed {seed}, in floating point" if given is None else given.origin
        self._readers = {
            layer.name: readers for layer, readers in zip(network.layers, network.consumers, strict=True)
        }
        self._places = {layer.name: place for place, layer in enumerate(network.layers)}
        self.inputs = (OWN_INPUT, *(op.name for op in graph.ops if not op.producers))
        self.outputs = tuple(op.name for op in graph.ops if op.leaves)
        self.operations: dict[str, FloatOperation] = {}
        self.maps: dict[str, Floats] = {OWN_INPUT: self._input(OWN_INPUT, graph.own_input)}
        for op in graph.ops:
            if not op.producers:
                self.maps[op.name] = self._input(op.name, op.spec.output)
                continue
            self.operations[op.name] = self._operation(op)
            self.maps[op.name] = self._computed(op).reshape(images, *op.spec.output)
        self.expected = {} if given is None else self._expected(given)

    # What the project asks for --------------------------------------------------------------------------

    def packed(self, values: NDArray[Any]) -> bytes:
        """Return values as they lie in memory."""
        return values.astype(self._width).tobytes()

    def reference_data(self, _bits: int, arrange: Arrange) -> dict[str, bytes]:
        """Return what the program compares its outputs with, by the names of files.

        That is what others compute of the network, where they do, or else what is computed here.
        """
        maps = {name: self.expected.get(name, self.maps[name]) for name in self.outputs}
        others = arrange(maps).astype("<f4").tobytes() if self.expected else b""
        return {"reference.bin": self.packed(arrange(maps)), "expected.bin": others}

    # Numbers --------------------------------------------------------------------------------------------

    def _input(self, name: str, shape: tuple[int, ...]) -> Floats:
        if self.given is None:
            values = self._rng.standard_normal((self.images, *shape))
        else:
            values = self.given.inputs[name][np.arange(self.images) % len(self.given.inputs[name])]
        stored: Floats = values.reshape(self.images, *shape).astype(self._width).astype(np.float64)
        return stored

    def _expected(self, given: FloatNetwork) -> dict[str, Floats]:
        """Return what others compute of the outputs, which must be what is computed here."""
        found = {}
        for name in self.outputs:
            if name not in given.expected:
                return {}
            theirs = given.expected[name][np.arange(self.images) % len(given.expected[name])]
            ours, most = self.maps[name], float(np.abs(theirs).max(initial=0))
            found[name] = theirs.reshape(ours.shape)
            apart = float(np.abs(ours - found[name]).max(initial=0))
            if not apart <= CLOSE * max(most, CLOSE):
                raise Disagreement(
                    f"the operations planned of {self.network.name or 'the network'} do not compute what it "
                    f"does: {name} is up to {apart:.3g} from values up to {most:.3g} ({given.origin})"
                )
        return found

    def _constants(self, layer: AnyLayer) -> Constants:
        """Return the numbers of a layer: of the file, or made."""
        if self.given is not None:
            return self.given.constants_of(layer)
        if layer.name in self._made:
            return self._made[layer.name]
        rng = self._rng
        if isinstance(layer, NamedLayer):
            if layer.weights is not None:
                shared = next(each for each in self.network.layers if each.name == layer.weights)
                return self._constants(shared)
            deep = max(1, layer.macs_per_output)
            kernels = rng.standard_normal(layer.kernels_shape) / sqrt(deep)
            summand = rng.standard_normal(layer.kernels) / 2 if layer.bias else np.zeros(layer.kernels)
            found = Constants(kernels, summand)
        else:
            count = layer.input[0] if getattr(layer, "parameters", 0) else 1
            factor, summand = rng.uniform(0.2, 1.0, count), rng.standard_normal(count) / 2
            if isinstance(layer, Map) and layer.op in ("scale", "bias"):
                factor = np.ones(count) if layer.op == "bias" else factor
                summand = np.zeros(count) if layer.op == "scale" else summand
            found = Constants(factor, summand)
        self._made[layer.name] = found
        return found

    # Operations -----------------------------------------------------------------------------------------

    def _refused(self, layer: AnyLayer, reason: str = "there is no C for it in floating point") -> InputError:
        return refusal(self.network, layer, reason)

    def _layer(self, name: str) -> AnyLayer:
        return self.network.layers[self._places[name]]

    def _operation(self, op: Operation) -> FloatOperation:
        spec, nothing = op.spec, np.zeros(0)
        if isinstance(spec, NamedLayer):
            parameters, after = self._named(op, spec)
            return FloatOperation("CONV", parameters, after=self._after(op, after))
        if isinstance(spec, MatMul):
            if spec.transposed is None:
                raise self._refused(spec, "does not say how its second operand is stored (transposed)")
            if not reads_place(op, self._shapes(op))[0]:
                raise self._refused(spec, "there is no C for a product that is not executed row by row")
            return FloatOperation("PRODUCT", nothing, after=self._after(op))
        if isinstance(spec, Pool):
            if spec.op == "average" and any(spec.padding):
                raise self._refused(spec, "there is no C for averages of a border in floating point")
            return FloatOperation(kind_of(spec), nothing, divisor_of(spec), self._after(op))
        if isinstance(spec, Add | Mul):
            kind = "ADD" if isinstance(spec, Add) else "MULTIPLY"
            return FloatOperation(kind, nothing, after=self._after(op))
        if isinstance(spec, Map | Function) and spec.op in ROWS:
            return self._rowwise(op, spec)
        if isinstance(spec, Map):
            return FloatOperation("COPY", nothing, after=self._after(op))
        if isinstance(spec, Concat) or (isinstance(spec, Reshape) and spec.op not in PERMUTES):
            return FloatOperation("COPY", nothing, after=self._after(op))
        raise self._refused(spec)

    def _shapes(self, op: Operation) -> list[tuple[int, int, int]]:
        return [self.graph.operand_shape(operand) for operand in op.operands]

    def _rowwise(self, op: Operation, spec: Map | Function) -> FloatOperation:
        """Return a softmax or normalisation of a pixel's channels."""
        if isinstance(spec, Function) and (not reads_place(op, self._shapes(op))[0] or op.together is None):
            raise self._refused(spec, "there is no C for it along rows or columns")
        count = spec.parameters
        if not count:
            kind = ROWS[spec.op]
            epsilon = self._epsilon(spec) if kind.startswith("NORMALISE") else 0.0
            return FloatOperation(kind, np.zeros(0), after=self._after(op), epsilon=epsilon)
        channels = spec.input[0]
        if count not in (channels, 2 * channels) or spec.op not in (
            "layer_normalization",
            "rms_normalization",
        ):
            raise self._refused(spec, f"has {count} parameters, and {channels} channels")
        own, several = self._constants(self._layer(op.name)), count == 2 * channels
        arrays = [own.factor, own.summand][: 1 + several]
        parameters = np.concatenate([np.broadcast_to(each.ravel(), channels) for each in arrays])
        return FloatOperation(
            ROWS[spec.op], parameters, 1, self._after(op), self._epsilon(spec), has_summand=several
        )

    def _epsilon(self, spec: AnyLayer) -> float:
        own = self._constants(self._layer(spec.name)).attributes
        return float(own.get("epsilon", EPSILON))

    def _named(self, op: Operation, spec: NamedLayer) -> tuple[Floats, str]:
        """Return weights with the affine functions that became part of them, and the last one after them."""
        layer = self._layer(op.name)
        own = self._constants(layer)
        kernels, bias = own.factor.reshape(spec.kernels_shape).copy(), own.summand.copy()
        inside = {each.name for each in op.folded}
        deep = spec.input[0] // spec.groups
        before = self._before(op.name)
        while before is not None:
            if before.name in inside and isinstance(before, Map) and before.op in AFFINE:
                numbers = self._constants(before)
                factor, summand = (
                    np.broadcast_to(each.ravel(), spec.input[0]).reshape(spec.groups, 1, deep, 1, 1)
                    for each in (numbers.factor, numbers.summand)
                )
                grouped = kernels.reshape(spec.groups, -1, *kernels.shape[1:])
                bias = bias + (grouped * summand).sum(axis=(2, 3, 4)).ravel()
                kernels = (grouped * factor).reshape(kernels.shape)
            elif not isinstance(before, Reshape) and getattr(before, "op", "") not in FREE:
                break
            before = self._before(before.name)
        last = op.name
        while (follower := self._affine_after(last, inside, spec)) is not None:
            numbers = self._constants(follower)
            factor, summand = (
                np.broadcast_to(each.ravel(), spec.kernels) for each in (numbers.factor, numbers.summand)
            )
            kernels, bias = kernels * factor[:, None, None, None], bias * factor + summand
            last = follower.name
        if bias.any() and not spec.bias:
            raise self._refused(spec, "has biases that are not planned")
        rows = kernels.reshape(spec.kernels, -1)
        if spec.bias:
            rows = np.concatenate([bias[:, None], rows], axis=1)
        return rows.ravel(), last

    def _before(self, name: str) -> AnyLayer | None:
        """Return the only layer that a layer reads, None where there is none."""
        read = self.network.producers[self._places[name]]
        return self.network.layers[read[0]] if len(read) == 1 and read[0] >= 0 else None

    def _affine_after(self, name: str, inside: set[str], spec: NamedLayer) -> Map | None:
        """Return the affine function that alone reads a layer, and whose numbers weights can take over."""
        readers = self._readers[name]
        if len(readers) != 1 or self._places[name] in self.network.results:
            return None
        layer = self.network.layers[readers[0]]
        if layer.name not in inside or not isinstance(layer, Map) or layer.op not in AFFINE:
            return None
        numbers = self._constants(layer)
        fits = all(each.size in (1, spec.kernels) for each in (numbers.factor, numbers.summand))
        return layer if fits and (spec.bias or not numbers.summand.any()) else None

    def _after(self, op: Operation, last: str | None = None) -> PointFunction:
        """Return what is computed of each value of an operation, behind the last layer that is part of it."""
        inside = {layer.name for layer in op.folded}
        known, steps = {last or op.name: 0}, list[PointStep]()
        spec = op.spec
        if isinstance(spec, Map) and spec.op not in (*ROWS, *FREE):
            steps.append(self._step(spec, (0,)))
            known[op.name] = 1
        place = self._places[last or op.name] + 1
        for layer, producers in zip(self.network.layers[place:], self.network.producers[place:], strict=True):
            names = [self.network.layers[each].name if each >= 0 else OWN_INPUT for each in producers]
            read = [known[name] for name in names if name in known]
            if layer.name not in inside or not read:
                continue
            if isinstance(layer, Map | Add | Mul) and getattr(layer, "op", "") not in FREE:
                if len(read) < len(names):
                    raise self._refused(layer)
                steps.append(self._step(layer, tuple(read)))
                known[layer.name] = len(steps)
            else:
                known[layer.name] = read[0]
        return PointFunction(tuple(steps))

    def _step(self, layer: AnyLayer, read: tuple[int, ...]) -> PointStep:
        """Return a function of single values."""
        if isinstance(layer, Add | Mul):
            return PointStep(layer.kind, read)
        assert isinstance(layer, Map)
        if layer.op in ("scale", "bias") and not layer.parameters:
            numbers = self._constants(layer)
            number = numbers.factor if layer.op == "scale" else numbers.summand
            return PointStep(layer.op, read, {"number": float(number.ravel()[0])})
        known = KNOWN.get(layer.op)
        if known is None or layer.parameters:
            raise self._refused(layer)
        told = {} if self.given is None else self.given.constants_of(layer).attributes
        if told.get("approximate", "none") != "none":
            raise self._refused(layer, "there is no C for an approximation of it")
        return PointStep(
            layer.op, read, {name: float(told.get(name, value)) for name, value in known.attributes.items()}
        )

    # Values ---------------------------------------------------------------------------------------------

    def _computed(self, op: Operation) -> Floats:
        """Return what an operation gives, of whole maps."""
        own, spec = self.operations[op.name], op.spec
        given = [
            self.maps[self.graph.name(access.source)][:, slice(*(access.channels or (None,)))]
            for access in op.accesses
        ]
        if isinstance(spec, MatMul):
            found = _product(spec, *given)
        elif own.kind in ROWS.values():
            found = _of_rows(own, given, op.together or spec.input[0])
        elif isinstance(spec, Map):
            found = np.concatenate(given, axis=1)
        else:
            found = layer_output(spec, given, lambda layer, values: _convolved(layer, values, own.parameters))
        return own.after(found)


def _convolved(layer: NamedLayer, values: Floats, parameters: Floats) -> Floats:
    rows = parameters.reshape(layer.kernels, -1)
    bias = rows[:, 0] if layer.bias else np.zeros(layer.kernels)
    sums: Floats = convolve(layer, values, rows[:, int(layer.bias) :].reshape(layer.kernels_shape))
    return sums + bias[:, None, None]


def _product(spec: MatMul, first: Floats, second: Floats) -> Floats:
    """Return the product of two matrices, group by group, shape (images, columns of all groups, rows)."""
    left = first.reshape(len(first), spec.groups, spec.depth, -1)
    if spec.transposed:
        right = second.reshape(len(first), spec.groups, spec.columns, spec.depth)
    else:
        right = second.reshape(len(first), spec.groups, spec.depth, spec.columns).transpose(0, 1, 3, 2)
    found: Floats = (right @ left).reshape(len(first), -1, left.shape[3])
    return found


def _of_rows(own: FloatOperation, given: list[Floats], together: int) -> Floats:
    """Return a softmax or normalisation of the channels of each pixel, so many together."""
    values = np.concatenate(given, axis=1)
    rows = values.reshape(len(values), -1, together, prod(values.shape[2:]))
    if own.kind in ("SOFTMAX", "LOG_SOFTMAX"):
        rows = rows - rows.max(axis=2, keepdims=True)
        total = np.exp(rows).sum(axis=2, keepdims=True)
        rows = np.exp(rows) / total if own.kind == "SOFTMAX" else rows - np.log(total)
    else:
        if own.kind == "NORMALISE":
            rows = rows - rows.mean(axis=2, keepdims=True)
        rows = rows / np.sqrt(np.square(rows).mean(axis=2, keepdims=True) + own.epsilon)
    found: Floats = rows.reshape(values.shape)
    if own.parameters.size:
        channels = values.shape[1]
        found = found * own.parameters[:channels, None, None]
        if own.has_summand:
            found = found + own.parameters[channels:, None, None]
    return found
