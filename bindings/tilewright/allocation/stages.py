"""The stages of a pipeline: the layers of a network that run on the array, in the order of execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from tilewright.spec.coarsening import coarse_graph
from tilewright.spec.errors import InputError
from tilewright.spec.graph import OWN, NetworkGraph, Operation
from tilewright.spec.layer import Layer
from tilewright.spec.network import Add, Input, Map, NamedLayer, Network, Pool


class Task(NamedTuple):
    """What a layer has to compute for each frame.

    Attributes
    ----------
    filters, maps, window
        M, N and K*K: an output position takes ``filters * maps * window`` operations. A pooling layer has
        one filter that sees all maps (section 6), an addition a window of its inputs.
    rows, columns
        Of the output.
    """

    filters: int
    maps: int
    window: int
    rows: int
    columns: int

    @property
    def operations(self) -> int:
        """Operations for one frame (section 5.1)."""
        return prod(self)


@dataclass(frozen=True)
class Stage:
    """A layer of the pipeline.

    Attributes
    ----------
    number
        Index in the order of execution, from 0.
    spec
        Its geometry.
    channels
        Feature maps of the output.
    producers
        Numbers of the layers that it reads; -1 for the network's input.
    weights
        Words.
    leaves
        Whether its output leaves the array: as the network's, or for a layer that runs elsewhere.
    """

    number: int
    name: str
    spec: Layer | Pool | Add | Map
    task: Task
    channels: int
    producers: tuple[int, ...]
    weights: int
    leaves: bool

    @property
    def weights_shape(self) -> tuple[int, int, int, int]:
        """Shape of the weights as a tensor."""
        return self.spec.kernels_shape if isinstance(self.spec, Layer) else (self.weights, 1, 1, 1)

    @property
    def macs_per_value(self) -> int:
        """Operations for one output value."""
        return self.task.window * (self.task.maps if isinstance(self.spec, Layer) else 1)


def stages_of(network: Network) -> tuple[Stage, ...]:
    """Return the layers that run on the array, in the order of execution.

    Fully connected layers run elsewhere (section 5), so they and what follows them are left out.

    Raises
    ------
    InputError
        If a layer for the array reads one that runs elsewhere.
    """
    number: dict[int, int] = {OWN: OWN}
    chosen, hosted = _divided(coarse_graph(network))  # activations and the like are part of the layer before
    for place, (op, _) in enumerate(chosen):
        number[op.number] = place
    leaving = {op.number for op, _ in chosen if op.leaves}.union(*(op.producers for op in hosted))
    return tuple(
        _stage(number[op.number], layer, tuple(map(number.__getitem__, op.producers)), op.number in leaving)
        for op, layer in chosen
    )


class Hosted(NamedTuple):
    """An operation that does not run on the array, with the words of its inputs, parameters and outputs."""

    name: str
    words: int


def hosted_of(network: Network) -> tuple[Hosted, ...]:
    """Return what runs on the host, in the order of execution."""
    graph = coarse_graph(network)
    found = []
    for op in _divided(graph)[1]:
        if not isinstance(op.spec, Input):  # which is there, and not computed
            read = sum(prod(graph.shape(access)) for access in dict.fromkeys(op.accesses))
            words = read + prod(op.spec.output) + getattr(op.spec, "parameters", 0)
            found.append(Hosted(op.name, words))
    return tuple(found)


OnArray = NamedLayer | Pool | Add | Map


def _divided(graph: NetworkGraph) -> tuple[list[tuple[Operation, OnArray]], list[Operation]]:
    """Return the operations for the array, with their layers, and all others."""
    chosen: list[tuple[Operation, OnArray]] = []
    hosted: list[Operation] = []
    elsewhere: dict[int, str] = {}
    for op in graph.ops:
        layer = op.spec
        blocking = next((elsewhere[each] for each in op.producers if each in elsewhere), None)
        if blocking is None and any(access.channels for access in op.accesses):
            blocking = "some channels of a map alone"
        if not isinstance(layer, NamedLayer | Pool | Add | Map) or layer.kind == "fc" or blocking:
            if blocking and layer.kind in ("conv", "pool", "add"):
                limit = f"reads {blocking}, which does not run on the array, so it has to be among the last"
                raise InputError("network.layers", layer.name, limit)
            elsewhere[op.number] = f"layer {layer.name} of kind {layer.kind}"
            hosted.append(op)
            continue
        chosen.append((op, layer))
    return chosen, hosted


def _stage(
    number: int, layer: NamedLayer | Pool | Add | Map, producers: tuple[int, ...], leaves: bool
) -> Stage:
    filters, maps, window, weights = 1, layer.input[0], prod(layer.kernel), 0
    if isinstance(layer, Layer):
        filters, maps = layer.kernels, layer.input[0] // layer.groups
        weights = prod(layer.kernels_shape)
    elif isinstance(layer, Add):
        window = len(producers)
    elif isinstance(layer, Map):
        weights = layer.parameters
    task = Task(filters, maps, window, *layer.output_plane)
    return Stage(number, layer.name, layer, task, layer.output_channels, producers, weights, leaves)


def consumers_of(stages: Sequence[Stage]) -> tuple[tuple[int, ...], ...]:
    """Return the numbers of the stages that read each stage, ascending."""
    consumers: list[list[int]] = [[] for _ in stages]
    for stage in stages:
        for producer in dict.fromkeys(stage.producers):
            if producer >= 0:
                consumers[producer].append(stage.number)
    return tuple(map(tuple, consumers))
