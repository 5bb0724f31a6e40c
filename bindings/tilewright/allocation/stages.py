"""What of a network runs on the array, in the order of execution, and what on the host.

Layers on the array are the *stages* of a pipeline. A map that they read and that does not come from another
stage, pixel by pixel, is *given*: the network's input, what the host has computed, and channels of a map, for
which that goes off the chip as a whole first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from tilewright.allocation.machine import INPUT
from tilewright.spec.coarsening import coarse_graph
from tilewright.spec.graph import OWN, Access, NetworkGraph, Operation
from tilewright.spec.host import host_work
from tilewright.spec.layer import Layer
from tilewright.spec.network import Add, AnyLayer, Input, Map, NamedLayer, Network, Pool, Shape


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
        Numbers of the layers that it reads; of maps that are given -1, the network's input, and below: -1 - k
        for the one in place k.
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


class Given(NamedTuple):
    """A map that layers read from outside of the array.

    Attributes
    ----------
    name
        Of its tensor.
    shape : (C, H, W)
    step, stage
        The operation of the host, or the layer on the array, that must have computed all of it first; None
        for both of what is there from the beginning.
    """

    name: str
    shape: Shape
    step: int | None = None
    stage: int | None = None

    @property
    def waits(self) -> bool:
        """Whether it must be computed first."""
        return self.step is not None or self.stage is not None


class HostStep(NamedTuple):
    """An operation that the host computes.

    Attributes
    ----------
    name
    words
        Of its inputs, parameters and outputs.
    stages, steps
        Numbers of the layers, and of the operations of the host, whose outputs it reads.
    place
        How many layers on the array come before it in the order of execution.
    """

    name: str
    words: int
    stages: tuple[int, ...]
    steps: tuple[int, ...]
    place: int


class Division(NamedTuple):
    """A network, divided between the array and its host.

    Attributes
    ----------
    stages
        The layers that run on the array, in the order of execution.
    given
        Maps that they read from outside, the network's input first.
    hosted
        What the host computes, in the order of execution.
    """

    stages: tuple[Stage, ...]
    given: tuple[Given, ...]
    hosted: tuple[HostStep, ...]

    @property
    def waits(self) -> bool:
        """Whether a layer of the array reads what the host computes."""
        return any(each.step is not None for each in self.given)


OnArray = NamedLayer | Pool | Add | Map

OF_HOST = ("softmax", "log_softmax")
"""Maps that PEs, which multiply and add, do not compute."""


def divide(network: Network) -> Division:
    """Return what of a network runs on the array and what on its host.

    PEs compute convolutions, pools, sums and functions of single values. Fully connected layers run elsewhere
    (section 5), and so do all other operations, layers whose input is put together of parts, and functions of
    what the host has computed, which is beside it.
    """
    graph = coarse_graph(network)  # activations and the like are part of the layer before
    number: dict[int, int] = {}
    step: dict[int, int] = {}
    for op in graph.ops:
        if isinstance(op.spec, Input):
            continue
        if _runs_on_array(graph, op, step):
            number[op.number] = len(number)
        else:
            step[op.number] = len(step)
    given: dict[Access, int] = {Access(OWN): 0}

    def source(access: Access) -> int:
        if access.source in number and access.channels is None:
            return number[access.source]
        return -1 - given.setdefault(Access(access.source, access.channels), len(given))

    producers = {op: tuple(map(source, graph.ops[op].accesses)) for op in number}
    leaving = {each for op in step for each in graph.ops[op].producers}
    leaving |= {access.source for access in given}
    stages = tuple(
        _stage(place, graph.ops[op].spec, producers[op], graph.ops[op].leaves or op in leaving)
        for op, place in number.items()
    )
    maps = tuple(_given(graph, access, number, step, stages) for access in given)
    return Division(stages, maps, tuple(_step(graph, graph.ops[op], number, step) for op in step))


def _runs_on_array(graph: NetworkGraph, op: Operation, step: Mapping[int, int]) -> bool:
    """Whether PEs compute an operation; `step` has those before it that they do not."""
    layer = op.spec
    if not isinstance(layer, OnArray) or layer.kind == "fc" or op.has_views:
        return False
    if isinstance(layer, Map):
        behind = any(each in step or _is_input(graph, each) for each in op.producers)
        if layer.op in OF_HOST or behind:
            return False
    # A reshape may stand between a layer and the network's input, which is stored as the layer reads it.
    return all(graph.shape(each)[1:] == layer.input[1:] for each in op.accesses if each.source != OWN)


def _is_input(graph: NetworkGraph, number: int) -> bool:
    return number != OWN and isinstance(graph.ops[number].spec, Input)


def _step(graph: NetworkGraph, op: Operation, number: Mapping[int, int], step: Mapping[int, int]) -> HostStep:
    read = sorted(set(op.producers))
    return HostStep(
        op.name,
        host_work(graph, op).words(),
        tuple(number[each] for each in read if each in number),
        tuple(step[each] for each in read if each in step),
        sum(other < op.number for other in number),
    )


def _given(
    graph: NetworkGraph,
    access: Access,
    number: Mapping[int, int],
    step: Mapping[int, int],
    stages: Sequence[Stage],
) -> Given:
    source, channels = access.source, access.channels
    name = INPUT if source == OWN else graph.name(source)
    if channels is not None:
        name = f"{name}[{channels[0]}:{channels[1]}]"
    shape = graph.shape(access)
    if source == OWN and channels is None:
        reader = next((stage for stage in stages if OWN in stage.producers), None)
        if reader is not None and set(reader.producers) == {OWN}:
            shape = reader.spec.input  # as it is stored, whatever reshapes stand before
    return Given(name, shape, step.get(source), number.get(source))


def _stage(number: int, layer: AnyLayer, producers: tuple[int, ...], leaves: bool) -> Stage:
    assert isinstance(layer, OnArray)
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
