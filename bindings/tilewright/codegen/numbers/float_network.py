"""A coarse network in floating point: numbers of a file, or made from a seed, executed on whole maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.codegen.numbers.folded_layers import FoldedLayers
from tilewright.codegen.numbers.network_numbers import Arrange, refusal
from tilewright.codegen.numbers.operands import COPIES, can_be_read, operands_of, read
from tilewright.codegen.numbers.pixel_function import PixelFunction
from tilewright.codegen.numbers.point_function import JOINED, KNOWN, PointFunction, PointStep
from tilewright.codegen.numbers.recurrent_layer import (
    KINDS,
    RecurrentLayer,
    made_numbers,
    recurrent_layer,
    why_not,
)
from tilewright.codegen.numbers.trained_network import refuse_another
from tilewright.simulator.arithmetic.fixed_point import Floats
from tilewright.simulator.arithmetic.integer_operation import divisor_of, kind_of
from tilewright.simulator.arithmetic.network_executor import convolve, layer_output
from tilewright.spec.access import RECURRENT, reads_place
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
    Slice,
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
"""Functions that take some values together, and what C calls them."""

OF_PLANES = {"instance_normalization": "NORMALISE", "group_normalization": "NORMALISE"}
"""Normalisations of whole planes, and what C calls them."""

NEAREST = {("asymmetric", "floor"), ("half_pixel", "round_prefer_floor")}
"""How a map is enlarged by whole numbers so that each value stands as often: coordinates, and rounding."""


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
    numbers
        Of a function, those of the file by the places at which it reads them.
    """

    factor: Floats
    summand: Floats
    attributes: Mapping[str, Any] = field(default_factory=dict)
    numbers: Mapping[int, Floats] = field(default_factory=dict)


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
        As they lie in DRAM: of each kernel its bias, if there is one, and its weights; factors and summands;
        of a function of each channel its summand and its factor.
    divisor
        Of an average.
    after
        What is computed of each of its values.
    epsilon
        Of a normalisation.
    has_summand
        Whether a normalisation, or function of each channel, adds numbers.
    together, inner
        Of a softmax or normalisation: how many values it takes together, and how far these are apart, of
        values that are counted channel by channel.
    pixel
        What is computed of the channels of a pixel.
    permutation
        Of a reshape that changes the order of values: sizes of what is given, the outermost first, and for
        each how far values are apart in what is read.
    within
        Whether an average is one of the values under its window alone, without zeros around the map.
    recurrent
        What computes states, point in time by point in time.
    """

    kind: str
    parameters: Floats
    divisor: int = 1
    after: PointFunction = field(default_factory=PointFunction)
    epsilon: float = 0.0
    has_summand: bool = False
    together: int = 1
    inner: int = 1
    pixel: PixelFunction | None = None
    permutation: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    within: bool = False
    recurrent: RecurrentLayer | None = None


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
            limit = "this network is emitted in floating point, whose elements are of 4 or 8 bytes"
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
        self._folded = FoldedLayers(network, graph, self._step, self._refused)
        self.stored = frozenset(op.name for op in graph.ops if not op.producers and self._is_stored(op))
        given_by = (op.name for op in graph.ops if not op.producers and op.name not in self.stored)
        self.inputs = (OWN_INPUT, *given_by)
        self.outputs = tuple(op.name for op in graph.ops if op.leaves)
        self.operations: dict[str, FloatOperation] = {}
        self.maps: dict[str, Floats] = {OWN_INPUT: self._input(OWN_INPUT, graph.own_input)}
        for op in graph.ops:
            if not op.producers:
                stored = op.name in self.stored
                self.maps[op.name] = self._numbers(op) if stored else self._input(op.name, op.spec.output)
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

    def _is_stored(self, op: Operation) -> bool:
        """Whether an input of the graph has numbers of the file."""
        place = self._places.get(op.name)
        return place is None or self.network.layers[place].kind != "input"

    def _numbers(self, op: Operation) -> Floats:
        """Return numbers of the file that are added to values, multiply these, or stand beside them."""
        if op.name in self._places:
            values = self._joined_numbers(op, self._layer(op.name))
        else:
            values = self._numbers_of_places(op)
        shaped = np.broadcast_to(values.reshape(op.spec.output), (self.images, *op.spec.output))
        stored: Floats = shaped.astype(self._width).astype(np.float64)
        return stored

    def _joined_numbers(self, op: Operation, layer: AnyLayer) -> Floats:
        """Return the numbers that are concatenated with what a layer reads."""
        if self.given is None:
            return self._rng.standard_normal(op.spec.output)
        numbers = self._constants(layer).numbers
        if len(numbers) != 1:
            raise self._refused(layer, "there is no C for several tensors of the file that are concatenated")
        ((_, values),) = numbers.items()
        return values

    def _numbers_of_places(self, op: Operation) -> Floats:
        (reader,) = self.graph.consumers[op.number]
        layer = self._layer(self.graph.ops[reader].name)
        assert isinstance(layer, Map) and layer.numbers is not None
        own = self._constants(layer)
        return own.factor if layer.numbers.op == "mul" else own.summand

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
            if isinstance(layer, Map) and layer.numbers is not None:
                factor = summand = rng.standard_normal(layer.numbers.shape)
            found = Constants(factor, summand)
        self._made[layer.name] = found
        return found

    # Operations -----------------------------------------------------------------------------------------

    def _refused(self, layer: AnyLayer, reason: str = "there is no C for it in floating point") -> InputError:
        return refusal(self.network, layer, reason)

    def _layer(self, name: str) -> AnyLayer:
        return self.network.layers[self._places[name]]

    def _refuse_moved(self, op: Operation) -> None:
        """Refuse to give values in another order, unless all that read them find them in the first one."""
        readers = [self.graph.ops[reader] for reader in self.graph.consumers[op.number]]
        moved = [*op.folded] if not all(map(_follows_channels, readers)) else []
        moved += [] if _follows_channels(op) else self._folded.left_out(op)
        for layer in filter(self._folded.shuffles, moved):
            limit = "there is no C for a change of the order of values that is part of another operation"
            raise self._refused(layer, limit)

    def _operation(self, op: Operation) -> FloatOperation:
        spec, nothing = op.spec, np.zeros(0)
        self._refuse_moved(op)
        if not can_be_read(self.graph, op):
            raise self._refused(spec, "there is no C for parts or copies of several tensors")
        if isinstance(spec, NamedLayer):
            parameters, after = self._named(op, spec)
            return FloatOperation("CONV", parameters, after=self._after(op, after))
        if op.picks is not None:
            return FloatOperation("PICK", nothing, pixel=self._folded.pixel_function(op))
        if isinstance(spec, MatMul):
            if spec.transposed is None:
                raise self._refused(spec, "does not say how its second operand is stored (transposed)")
            return FloatOperation("PRODUCT", nothing, after=self._after(op))
        if isinstance(spec, Pool):
            within = spec.op == "average" and any(spec.padding) and not self._counts_border(spec)
            return FloatOperation(kind_of(spec), nothing, divisor_of(spec), self._after(op), within=within)
        if isinstance(spec, Add | Mul):
            kind = "ADD" if isinstance(spec, Add) else "MULTIPLY"
            return FloatOperation(kind, nothing, after=self._after(op))
        if isinstance(spec, Map | Function) and (spec.op in ROWS or spec.op in OF_PLANES):
            return self._rowwise(op, spec)
        if isinstance(spec, Map) and spec.op in AFFINE and spec.parameters:
            return self._affine(op, spec)
        if isinstance(spec, Reshape) and spec.op in PERMUTES:
            return FloatOperation("COPY", nothing, after=self._after(op), permutation=self._moved(spec))
        if isinstance(spec, Function) and spec.op in COPIES:
            self._refuse_sampling(spec)
            return FloatOperation("COPY", nothing, after=self._after(op))
        if isinstance(spec, Map | Concat | Reshape | Slice):
            return FloatOperation("COPY", nothing, after=self._after(op))
        if isinstance(spec, Function) and spec.op in RECURRENT:
            return self._recurrent(op, spec)
        raise self._refused(spec)

    def _recurrent(self, op: Operation, spec: Function) -> FloatOperation:
        """Return a recurrent layer whose state begins with zeros."""
        if self.given is None:
            attributes, numbers = dict[str, Any](), dict[int, Floats]()
            if spec.recurrence is not None:
                numbers = made_numbers(spec, self._rng)
        else:
            own = self._constants(self._layer(op.name))
            # Other numbers of the file are states of zeros, with which it begins anyway.
            attributes, numbers = (
                dict(own.attributes),
                {p: n for p, n in own.numbers.items() if p in (1, 2, 3, 7)},
            )
        reason = why_not(spec, attributes, [*numbers])
        if reason is not None:
            raise self._refused(spec, reason)
        layer = recurrent_layer(spec, attributes, numbers)
        if layer.parameters.size != spec.parameters:
            raise self._refused(
                spec, f"has {spec.parameters} parameters, of which {layer.parameters.size} are used"
            )
        return FloatOperation(KINDS[spec.op], layer.parameters, after=self._after(op), recurrent=layer)

    def _shapes(self, op: Operation) -> list[tuple[int, int, int]]:
        return [self.graph.operand_shape(operand) for operand in op.operands]

    def _counts_border(self, spec: Pool) -> bool:
        """Whether zeros around a map are part of an average; they are where no file tells."""
        told = {} if self.given is None else self._constants(self._layer(spec.name)).attributes
        return self.given is None or bool(told.get("count_include_pad", 0))

    def _moved(self, spec: Reshape) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the sizes of what a reshape gives, and how far values are apart in what it reads."""
        if spec.permutation is None:
            raise self._refused(spec, "does not say in which order it gives values (permutation)")
        sizes, axes = spec.permutation.merged.sizes, spec.permutation.merged.axes
        apart = [prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
        return tuple(sizes[axis] for axis in axes), tuple(apart[axis] for axis in axes)

    def _refuse_sampling(self, spec: Function) -> None:
        """Refuse to enlarge a map in another way than by copies of each value."""
        if spec.op != "resize_nearest" or self.given is None:
            return
        told = self._constants(self._layer(spec.name)).attributes
        coordinates = told.get("coordinate_transformation_mode", "half_pixel")
        if (coordinates, told.get("nearest_mode", "round_prefer_floor")) not in NEAREST:
            raise self._refused(spec, f"there is no C for coordinates {coordinates} with this rounding")

    def _affine(self, op: Operation, spec: Map) -> FloatOperation:
        """Return a function that multiplies each channel by a number, or adds one, or does both."""
        inside = {layer.name for layer in op.folded}
        factor, summand, last = np.ones(spec.input[0]), np.zeros(spec.input[0]), op.name
        follower: AnyLayer | None = self._layer(op.name)
        while follower is not None:
            numbers = self._constants(follower)
            factor, more = factor * numbers.factor.ravel(), numbers.summand.ravel()
            summand = summand * numbers.factor.ravel() + more
            last = follower.name
            readers = self._readers[last]
            follower = self.network.layers[readers[0]] if len(readers) == 1 else None
            if not isinstance(follower, Map) or follower.op not in AFFINE or follower.name not in inside:
                follower = None
        several = spec.parameters // spec.input[0]
        if spec.parameters != several * spec.input[0] or several not in (1, 2):
            raise self._refused(spec, f"has {spec.parameters} parameters, and {spec.input[0]} channels")
        if several == 1 and summand.any() and (factor != 1).any():
            raise self._refused(spec, "has summands that are not planned")
        has_summand = several == 2 or bool(summand.any())
        arrays = [summand, factor] if several == 2 else [summand if has_summand else factor]
        parameters = np.stack([np.broadcast_to(each, spec.input[0]) for each in arrays], axis=1).ravel()
        return FloatOperation(
            "AFFINE", parameters, after=self._after(op, last, begun=True), has_summand=has_summand
        )

    def _rowwise(self, op: Operation, spec: Map | Function) -> FloatOperation:
        """Return a softmax or normalisation of some values that lie equally far apart."""
        together, inner = self._together(op, spec)
        kind = OF_PLANES.get(spec.op) or ROWS[spec.op]
        count, channels = spec.parameters, spec.input[0]
        normalises = kind.startswith("NORMALISE")
        epsilon = self._epsilon(spec) if normalises else 0.0
        if not count:
            found = FloatOperation(kind, np.zeros(0), after=self._after(op), epsilon=epsilon)
            return replace(found, together=together, inner=inner)
        of_channels = spec.op in OF_PLANES or (inner == prod(spec.output[1:]) and together == channels)
        if count not in (channels, 2 * channels) or not normalises or not of_channels:
            raise self._refused(spec, f"has {count} parameters, and {channels} channels")
        own, several = self._constants(self._layer(op.name)), count == 2 * channels
        arrays = [own.factor, own.summand][: 1 + several]
        parameters = np.concatenate([np.broadcast_to(each.ravel(), channels) for each in arrays])
        found = FloatOperation(kind, parameters, 1, self._after(op), epsilon, has_summand=several)
        return replace(found, together=together, inner=inner)

    def _together(self, op: Operation, spec: Map | Function) -> tuple[int, int]:
        """Return how many values a function takes together, and how far they are apart."""
        channels, height, width = spec.output
        if isinstance(spec, Map):
            return channels, height * width
        if spec.op in OF_PLANES:
            groups = channels
            if spec.op == "group_normalization":
                groups = int(self._constants(self._layer(op.name)).attributes.get("num_groups", channels))
            return channels // groups * height * width, 1
        if reads_place(op, self._shapes(op))[0] and op.together is not None:
            return op.together, height * width
        along = [axis in (spec.along or ()) for axis in ("channels", "rows", "columns")]
        axes = [axis for axis in range(3) if along[axis]]
        gaps = [axis for axis in range(3) if not along[axis] and spec.output[axis] > 1]
        if not axes or any(axes[0] < gap < axes[-1] for gap in gaps):
            raise self._refused(spec, "there is no C for it along these axes")
        inside = spec.output[axes[0] : axes[-1] + 1]
        return prod(inside), prod(spec.output[axes[-1] + 1 :])

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
        order = self._folded.order(op)
        if order is not None:
            kernels = self._in_order(spec, kernels, order)
        rows = kernels.reshape(spec.kernels, -1)
        if spec.bias:
            rows = np.concatenate([bias[:, None], rows], axis=1)
        return rows.ravel(), last

    def _in_order(self, spec: NamedLayer, kernels: Floats, order: tuple[int, ...]) -> Floats:
        """Return kernels for channels, or values, that are read in another order than the file's."""
        if spec.groups > 1:
            raise self._refused(spec, "there is no C for groups of channels that are shuffled before")
        whole = kernels.reshape(spec.kernels, len(order), -1)
        found = np.empty_like(whole)
        found[:, list(order)] = whole
        return found.reshape(kernels.shape)

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

    def _after(self, op: Operation, last: str | None = None, *, begun: bool = False) -> PointFunction:
        """Return what is computed of each value of an operation, behind the last layer that is part of it.

        Parameters
        ----------
        begun
            Whether the operation's own function is computed.
        """
        inside = {layer.name for layer in op.folded}
        known, steps = {last or op.name: 0}, list[PointStep]()
        spec = op.spec
        if isinstance(spec, Map) and spec.op not in (*ROWS, *FREE) and not begun:
            steps.append(self._step(spec, (0,)))
            known[op.name] = 1
        if not inside:  # one that joins what a layer reads is no layer of the file
            return PointFunction(tuple(steps))
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
        if isinstance(layer, Function) and layer.op in JOINED:
            return PointStep(layer.op, read, self._number(layer))
        if not isinstance(layer, Map | Function):
            raise self._refused(layer)
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

    def _number(self, layer: Function) -> Mapping[str, float]:
        """Return the number of the file that a function of several values reads beside these, if any."""
        given = len(self.network.producers[self._places[layer.name]])
        numbers = {} if self.given is None else self.given.constants_of(layer).numbers
        if self.given is None and given == 1:
            raise self._refused(layer, "does not tell the number that it reads; a file in ONNX does")
        if not numbers:
            return {}
        if len(numbers) > 1 or any(each.size != 1 for each in numbers.values()):
            raise self._refused(layer, "there is no C for several numbers of the file in it")
        ((place, number),) = numbers.items()
        return {"number" if place else "before": float(number.ravel()[0])}

    # Values ---------------------------------------------------------------------------------------------

    def _computed(self, op: Operation) -> Floats:
        """Return what an operation gives, of whole maps."""
        own, spec = self.operations[op.name], op.spec
        given = [read(self.graph, operand, self.maps) for operand in operands_of(self.graph, op)]
        if isinstance(spec, MatMul):
            found = _product(spec, *given)
        elif own.pixel is not None:
            joined = np.concatenate([each.reshape(*each.shape[:2], -1) for each in given], axis=1)
            picked = own.pixel(joined).reshape(len(joined), -1, op.spread, joined.shape[2])
            found = picked.transpose(0, 1, 3, 2)
        elif own.recurrent is not None:
            found = own.recurrent(given[0].reshape(len(given[0]), -1)).reshape(len(given[0]), *spec.output)
        elif own.kind in ROWS.values():
            found = _of_rows(own, given[0] if len(given) == 1 else np.concatenate(given, axis=1), op.causal)
        elif own.kind == "AFFINE":
            found = _by_channel(own, np.concatenate(given, axis=1))
        elif isinstance(spec, Add | Mul):
            alike = [each[:, np.arange(spec.input[0]) % each.shape[1]] for each in given]
            found = layer_output(spec, alike, lambda _, values: values)
        elif own.permutation is not None:
            sizes, apart = own.permutation
            places = sum(
                np.arange(size).reshape([-1 if n == axis else 1 for n in range(len(sizes))]) * apart[axis]
                for axis, size in enumerate(sizes)
            )
            found = given[0].reshape(len(given[0]), -1)[:, np.ravel(places)]
        elif own.kind == "COPY":
            found = np.concatenate([each.reshape(len(each), -1) for each in given], axis=1)
        else:
            found = layer_output(spec, given, lambda layer, values: _convolved(layer, values, own.parameters))
        if own.within:
            ones = [np.ones_like(each) for each in given]
            found = found / layer_output(spec, ones, lambda _, values: values)
        return own.after(found)


def _follows_channels(op: Operation) -> bool:
    """Whether it is known for each channel that an operation reads where it lies before it is shuffled."""
    return isinstance(op.spec, NamedLayer) or op.picks is not None


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


def _of_rows(own: FloatOperation, values: Floats, causal: int | None) -> Floats:
    """Return a softmax or normalisation of values that lie equally far apart.

    Parameters
    ----------
    causal
        Of a softmax: see `tilewright.spec.graph.Operation`.
    """
    rows = values.reshape(len(values), -1, own.together, own.inner)
    if own.kind in ("SOFTMAX", "LOG_SOFTMAX"):
        if causal is not None:
            keys, queries = np.arange(own.together)[:, None], np.arange(own.inner)
            rows = np.where(keys <= queries + causal, rows, -np.inf)
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


def _by_channel(own: FloatOperation, values: Floats) -> Floats:
    """Return values times a factor of their channel, and a summand of it."""
    numbers = own.parameters.reshape(values.shape[1], -1)
    if own.has_summand and numbers.shape[1] == 1:
        return values + numbers[:, :1, None]
    found = values * numbers[:, -1:, None]
    return found + numbers[:, :1, None] if own.has_summand else found
