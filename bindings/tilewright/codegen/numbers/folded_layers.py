"""Layers that became part of an operation: what they compute of a pixel, in the order of its channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from tilewright.codegen.numbers.pixel_function import (
    MOST_SHARED,
    REDUCTIONS,
    Nodes,
    PixelFunction,
    PixelNodes,
)
from tilewright.codegen.numbers.point_function import PointStep
from tilewright.spec.coarsening import PERMUTES
from tilewright.spec.errors import InputError
from tilewright.spec.graph import OWN, NetworkGraph, Operation
from tilewright.spec.network import (
    AFFINE,
    FREE,
    OWN_INPUT,
    Add,
    AnyLayer,
    Concat,
    Function,
    Input,
    Map,
    Mul,
    NamedLayer,
    Network,
    Reshape,
    Shape,
    Slice,
)

Refused = Callable[[AnyLayer, str], InputError]
Step = Callable[[AnyLayer, tuple[int, ...]], PointStep]
"""Returns a function of single values that a layer is."""

NO_PIXEL = "there is no C for it: it is part of an operation that computes one pixel of those at its place"

VIEWS = (Slice, Reshape, Concat)
"""Layers that only move values."""


class FoldedLayers:
    """Follows layers from what an operation reads to what it gives.

    Parameters
    ----------
    network
        As it is in its file.
    graph
        What it becomes.
    step
        See `Step`.
    refused
        Returns what refuses a layer.
    """

    def __init__(self, network: Network, graph: NetworkGraph, step: Step, refused: Refused) -> None:
        self._network, self._graph, self._step, self._refused = network, graph, step, refused
        self._places = {layer.name: place for place, layer in enumerate(network.layers)}
        self._known = {layer.name for op in graph.ops for layer in (op.spec, *op.folded)}

    def pixel_function(self, op: Operation) -> PixelFunction:
        """Return what an operation that picks channels computes of a pixel.

        Raises
        ------
        InputError
            For layers that do not only compute values of those of the same pixel.
        """
        assert op.picks is not None
        inside = [layer for layer in (op.spec, *op.folded) if _computes(layer)]
        if not inside or op.has_views or op.spread > 1:
            if inside:
                raise self._refused(inside[0], NO_PIXEL)
            return PixelFunction.of_channels(op.picks)
        last = max((op.name, *(layer.name for layer in inside)), key=self._places.__getitem__)
        trace = _Trace(self, op)
        results = tuple(trace.value(last).ravel().tolist())
        found = PixelFunction(tuple(trace.nodes.nodes), results)
        if len(results) != op.spec.output[0] or any(node.channel < 0 for node in found.used):
            raise self._refused(op.spec, NO_PIXEL)
        if len(found.reductions) > MOST_SHARED:
            raise self._refused(op.spec, f"there is no C for more than {MOST_SHARED} sums of a pixel")
        return found

    def order(self, op: Operation) -> tuple[int, ...] | None:
        """Return which channel an operation reads for each one of its layer in the file; None for the same.

        They differ where channels are shuffled in between.
        """
        folded = [*op.folded, *self.left_out(op)]
        for access in op.accesses:
            folded += [] if access.source == OWN else self._graph.ops[access.source].folded
        if not any(map(self.shuffles, folded)):
            return None
        trace = _Trace(self, op)
        parts = [trace.value(name) for name in self.producers(op.name)]
        nodes = np.concatenate([each.ravel() for each in parts]).tolist()
        found = [trace.nodes.nodes[number] for number in nodes]
        channels = tuple(node.channel for node in found)
        if any(node.step is not None for node in found) or sorted(channels) != [*range(len(channels))]:
            raise self._refused(op.spec, "there is no C for the order in which it reads channels")
        return None if channels == tuple(range(len(channels))) else channels

    def left_out(self, op: Operation) -> list[AnyLayer]:
        """Return the layers between inputs of the network and an operation that are part of no operation."""
        found, names = list[AnyLayer](), self.producers(op.name) if op.name in self._places else []
        while names:
            name = names.pop()
            if not self.is_given(name) and name not in self._known:
                found.append(self.layer(name))
                names += self.producers(name)
        return found

    def shuffles(self, layer: AnyLayer) -> bool:
        """Whether a layer gives values in another order, and neither reads an input nor gives an output."""
        if not isinstance(layer, Reshape) or layer.op not in PERMUTES:
            return False
        order = layer.permutation.merged.axes if layer.permutation is not None else None
        if order == tuple(range(len(order or ()))):
            return False
        given = any(self.is_given(name) for name in self.producers(layer.name))
        return not given and self._places[layer.name] not in self._network.results

    def layer(self, name: str) -> AnyLayer:
        """Return a layer of the file."""
        return self._network.layers[self._places[name]]

    def producers(self, name: str) -> list[str]:
        """Return the names of what a layer reads."""
        read = self._network.producers[self._places[name]]
        return [self._network.layers[each].name if each >= 0 else OWN_INPUT for each in read]

    def is_given(self, name: str) -> bool:
        """Whether this is an input of the network."""
        return name == OWN_INPUT or isinstance(self.layer(name), Input)

    def given_shape(self, name: str) -> Shape:
        """Return the shape of what a layer gives in the file."""
        return self._network.own_input if name == OWN_INPUT else self.layer(name).output


def _computes(layer: AnyLayer) -> bool:
    """Whether a layer does more than move values."""
    if isinstance(layer, Function):
        return layer.op not in ("concat", "expand", "slice", "split")
    return not isinstance(layer, VIEWS) and getattr(layer, "op", "") not in FREE


class _Trace:
    """Values of one pixel of an operation, layer by layer, as nodes.

    A tensor of the file has the pixels of the operation as its columns, or as its rows and columns. Of one
    pixel it has the channels, and the rows in the first case.
    """

    def __init__(self, folded: FoldedLayers, op: Operation) -> None:
        self.nodes = PixelNodes()
        self._folded, self._op, self._graph = folded, op, folded._graph
        self._inside = {op.name, *(layer.name for layer in op.folded)}
        self._sources = [(self._graph.name(access.source), access) for access in op.accesses]
        plane = self._graph.shape(op.accesses[0])[1:]
        self._pixels = 1 if isinstance(op.spec, NamedLayer) and op.spec.kind == "fc" else prod(plane)
        self._known: dict[str, Nodes] = {}

    def _refused(self, layer: AnyLayer) -> InputError:
        return self._folded._refused(layer, NO_PIXEL)

    def _reduced(self, shape: Shape) -> Shape:
        """Return the shape that a tensor of the file has of one pixel."""
        channels, height, width = shape
        if height * width == self._pixels:
            return channels, 1, 1
        if width == self._pixels:
            return channels, height, 1
        if self._pixels == 1:
            return shape
        raise self._refused(self._op.spec)

    def value(self, name: str) -> Nodes:
        """Return what a layer gives of a pixel."""
        if name not in self._known:
            self._known[name] = self._leaf(name) if self._is_leaf(name) else self._computed(name)
        return self._known[name]

    def _owner(self, name: str) -> str | None:
        """Return the operation that is read and gives what a layer gives, perhaps in another shape."""
        for source, access in self._sources:
            folded = () if access.source == OWN else self._graph.ops[access.source].folded
            if name == source or name in [layer.name for layer in folded]:
                return source
        return None

    def _is_leaf(self, name: str) -> bool:
        owner = self._owner(name)
        if name == self._op.name or owner is None:
            return self._is_stored(name)
        if name == owner:
            return True
        return not isinstance(self._folded.layer(name), VIEWS)

    def _is_stored(self, name: str) -> bool:
        """Whether a transposition gives an input of the network as it is stored."""
        if name == OWN_INPUT or name == self._op.name or not isinstance(self._folded.layer(name), Reshape):
            return False
        (given, *_) = self._folded.producers(name)
        return self._owner(given) == given and self._folded.is_given(given)

    def _leaf(self, name: str) -> Nodes:
        """Return the channels that are read of an operation, all operands joined."""
        owner = self._owner(name) or self._folded.producers(name)[0]
        shape, begin = self._folded.given_shape(name), 0
        labels: dict[int, int] = {}
        for (source, access), size in zip(self._sources, self._sizes(), strict=True):
            if source == owner:
                first = (access.channels or (0, 0))[0] * (1 if access.channels is None else size[1])
                labels |= {first + place: begin + place for place in range(size[0])}
            begin += size[0]
        reduced = self._reduced(shape)
        found = [labels.get(place, -1) for place in range(prod(reduced))]
        return self.nodes.read(np.array(found, dtype=np.int64).reshape(reduced))

    def _sizes(self) -> list[tuple[int, int]]:
        """Return how many values of a pixel each access has, and how many of each channel."""
        shapes = [self._graph.shape(access) for access in self._op.accesses]
        return [(prod(shape) // self._pixels, prod(shape[1:]) // self._pixels) for shape in shapes]

    def _computed(self, name: str) -> Nodes:
        layer = self._folded.layer(name)
        names = self._folded.producers(name)
        given = [self.value(each) for each in names]
        if isinstance(layer, Slice):
            return self._cut(layer, given[0])
        if isinstance(layer, Reshape):
            return self._reshaped(layer, given[0])
        if isinstance(layer, Concat) or (isinstance(layer, Function) and layer.op == "concat"):
            return self._joined(layer, [self._folded.given_shape(each) for each in names], given)
        if isinstance(layer, Map | Add | Mul):
            if getattr(layer, "op", "") in FREE:
                return given[0]
            if isinstance(layer, Map) and layer.op in AFFINE and isinstance(self._op.spec, NamedLayer):
                return given[0]  # it is part of the weights
            return self.nodes.apply(self._folded._step(layer, ()), given)
        if isinstance(layer, Function) and layer.op in REDUCTIONS:
            shape, output = self._reduced(layer.input), self._reduced(layer.output)
            axes = tuple(axis for axis in range(3) if output[axis] != shape[axis])
            if any(layer.input[axis] != layer.output[axis] for axis in range(3) if axis not in axes):
                raise self._refused(layer)
            return self.nodes.reduce(layer.op, given[0], axes)
        if isinstance(layer, Function) and not layer.parameters:
            return self.nodes.apply(self._folded._step(layer, ()), given)
        raise self._refused(layer)

    def _cut(self, layer: Slice, values: Nodes) -> Nodes:
        cut = []
        for axis, size in enumerate(values.shape):
            first, count, whole = layer.first[axis], layer.output[axis], layer.input[axis]
            if size != whole and (first, count) != (0, whole):
                raise self._refused(layer)
            cut.append(slice(first, first + count) if size == whole else slice(None))
        return values[tuple(cut)]

    def _reshaped(self, layer: Reshape, values: Nodes) -> Nodes:
        output = self._reduced(layer.output)
        if layer.op not in PERMUTES:
            return values.reshape(output)
        if layer.permutation is None:
            raise self._refused(layer)
        sizes, axes = layer.permutation.sizes, layer.permutation.axes
        kept = len(sizes)
        while kept and prod(sizes[kept:]) < self._pixels:
            kept -= 1
        if prod(sizes[kept:]) != self._pixels or axes[kept:] != tuple(range(kept, len(sizes))):
            raise self._refused(layer)
        return values.reshape(sizes[:kept]).transpose(axes[:kept]).reshape(output)

    def _joined(self, layer: AnyLayer, shapes: Sequence[Shape], given: Sequence[Nodes]) -> Nodes:
        output = layer.output
        for axis in range(3):
            rest = [tuple(size for n, size in enumerate(shape) if n != axis) for shape in (*shapes, output)]
            reduced = self._reduced(output)[axis]
            if len({*rest}) == 1 and sum(shape[axis] for shape in shapes) == output[axis] == reduced:
                return np.concatenate(given, axis=axis)
        raise self._refused(layer)
