"""The coarse graph of a network (DNNVM paper, sections 3.2 and 4.1): what costs nothing extra is folded away.

Each stage takes the graph of the one before:

- *intrinsic fusion*: batch normalisations, scales, biases and padding become part of the convolution or fully
  connected layer beside them, whose weights can be computed beforehand;
- *point-wise fusion*: activations are computed on the way out of the operation before them;
- *pruning*: what only moves values is done as others store and load them; whoever reads a concatenation then
  reads its inputs, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import networkx as nx
from pydantic import ValidationError

from tilewright.spec.errors import InputError
from tilewright.spec.network import (
    ACTIVATIONS,
    AFFINE,
    FREE,
    OPERANDS,
    OWN_INPUT,
    AnyLayer,
    Map,
    NamedLayer,
    Network,
    Padding,
    Reshape,
)

COMPUTES = ("conv", "fc", "matmul", "pool", "add", "mul", "map")
"""Kinds whose outputs an activation can be computed on before they are stored."""

WHOLE = ("matmul", "function", "opaque")
"""Kinds that take each of their inputs in one piece."""

PERMUTES = ("transpose", "space_to_depth", "depth_to_space")
"""Reshapes that change the order of values in memory."""


@dataclass(frozen=True)
class CoarseOperation:
    """A node of the graph.

    Attributes
    ----------
    layer
        What it does; its geometry and bias are those after fusion.
    inputs
        Names of the nodes that it reads, in order.
    folded
        The layers that became part of it.
    """

    layer: AnyLayer
    inputs: tuple[str, ...]
    folded: tuple[AnyLayer, ...] = ()


class CoarseningStage(NamedTuple):
    """The graph after a stage.

    Its nodes are names of layers, in an order of execution, and ``input``, the network's own input. Each but
    that has its `CoarseOperation` as the attribute ``operation``. The graph's attribute ``outputs`` names
    those whose values leave the network, ``input`` is the shape in which its own input is stored.
    """

    name: str
    graph: nx.DiGraph


def stages(network: Network) -> tuple[CoarseningStage, ...]:
    """Return the graphs of a network, from the finest to the coarsest."""
    graph = _raw(network)
    found = [CoarseningStage("raw", graph)]
    for name, fuse in (
        ("intrinsic fusion", _fuse_intrinsic),
        ("point-wise fusion", _fuse_pointwise),
        ("pruned", _prune),
    ):
        graph = graph.copy()
        fuse(graph)
        found.append(CoarseningStage(name, graph))
    return tuple(found)


def coarse(network: Network) -> Network:
    """Return the network after all stages; layers keep their names."""
    graph = stages(network)[-1].graph
    layers: list[AnyLayer] = []
    before = OWN_INPUT
    for name in _in_order(graph):
        operation = _operation(graph, name)
        changes: dict[str, Any] = {"inputs": None if operation.inputs == (before,) else operation.inputs}
        if _is_affine(operation.layer):
            changes["op"] = "fused"  # an activation that is not told may stand between it and a convolution
        layers.append(operation.layer.model_copy(update=changes))
        before = name
    found = Network(
        name=network.name, source=network.source, layers=tuple(layers), input=graph.graph["input"]
    )
    if found.layers[0].kind != "input" and found.layers[0].input == found.input:
        found = found.with_(input=None)
    outputs = graph.graph["outputs"]
    if set(outputs) == {found.layers[index].name for index in found.results}:
        return found
    return found.with_(outputs=outputs)


def _in_order(graph: nx.DiGraph) -> list[str]:
    """Return the names of the operations, one that reads the network's own input first."""
    names = _names(graph)
    if _operation(graph, names[0]).layer.kind == "input":
        first = next((name for name in names if set(_operation(graph, name).inputs) == {OWN_INPUT}), None)
        names.sort(key=lambda name: name != first)
    return names


def _raw(network: Network) -> nx.DiGraph:
    outputs = tuple(network.layers[index].name for index in network.results)
    graph = nx.DiGraph(outputs=outputs, input=network.own_input)
    graph.add_node(OWN_INPUT)
    for layer, producers in zip(network.layers, network.producers, strict=True):
        inputs = tuple(OWN_INPUT if each < 0 else network.layers[each].name for each in producers)
        graph.add_node(layer.name, operation=CoarseOperation(layer, inputs))
        graph.add_edges_from((each, layer.name) for each in inputs)
    return graph


def _names(graph: nx.DiGraph) -> list[str]:
    """Return the names of the operations, in order."""
    return [name for name in graph if name != OWN_INPUT]


def _operation(graph: nx.DiGraph, name: str) -> CoarseOperation:
    found: CoarseOperation = graph.nodes[name]["operation"]
    return found


def _change(graph: nx.DiGraph, name: str, **changes: Any) -> None:
    graph.nodes[name]["operation"] = replace(_operation(graph, name), **changes)


# Folding -------------------------------------------------------------------------------------------


def _fold(graph: nx.DiGraph, name: str, into: Iterable[str]) -> None:
    """Make an operation part of others; its consumers read what it read, which are outputs if it was one."""
    folded = _operation(graph, name)
    outputs = (each for one in graph.graph["outputs"] for each in (folded.inputs if one == name else (one,)))
    graph.graph["outputs"] = tuple(dict.fromkeys(outputs))
    for other in into:
        known = _operation(graph, other).folded
        _change(graph, other, folded=(*known, folded.layer, *folded.folded))
    for consumer in list(graph.successors(name)):
        _change(graph, consumer, inputs=_inputs_without(graph, name, consumer))
        graph.add_edges_from((source, consumer) for source in folded.inputs)
    graph.remove_node(name)


def _inputs_without(graph: nx.DiGraph, name: str, consumer: str) -> tuple[str, ...]:
    """Return what a consumer reads when it reads the inputs of an operation instead of the operation."""
    instead = _operation(graph, name).inputs
    inputs = _operation(graph, consumer).inputs
    return tuple(source for each in inputs for source in (instead if each == name else (each,)))


def _is_given(graph: nx.DiGraph, name: str) -> bool:
    """Whether this is an input of the network."""
    return name == OWN_INPUT or _operation(graph, name).layer.kind == "input"


def _is_output(graph: nx.DiGraph, name: str) -> bool:
    """Whether the values of an operation leave the network."""
    return name in graph.graph["outputs"]


def _only_read_by(graph: nx.DiGraph, name: str, reader: str) -> bool:
    """Whether nobody but one operation gets the values of another."""
    return set(graph.successors(name)) == {reader} and not _is_output(graph, name)


def _can_skip(graph: nx.DiGraph, name: str) -> bool:
    """Whether all consumers of an operation can read its inputs instead."""
    several = len(_operation(graph, name).inputs) > 1
    for consumer in graph.successors(name):
        kind = _operation(graph, consumer).layer.kind
        inputs = _inputs_without(graph, name, consumer)
        if kind not in OPERANDS and len(set(inputs)) < len(inputs):
            return False
        if several and kind in (*OPERANDS, *WHOLE):
            return False
    return True


def _writers(graph: nx.DiGraph, name: str, through: Sequence[str] = ("concat",)) -> list[str]:
    """Return the operations whose outputs this one alone reads, directly or through others of some kinds.

    There are none if some of what it reads has other readers, is an output, or is the network's input.
    """
    found: list[str] = []
    readers = [name]
    while readers:
        reader = readers.pop()
        for source in _operation(graph, reader).inputs:
            if _is_given(graph, source) or not _only_read_by(graph, source, reader):
                return []
            passes = _operation(graph, source).layer.kind in through
            (readers if passes else found).append(source)
    return found


# Intrinsic fusion ----------------------------------------------------------------------------------


def _fuse_intrinsic(graph: nx.DiGraph) -> None:
    for name in _names(graph):
        layer = _operation(graph, name).layer
        if _is_affine(layer):
            _fuse_before(graph, name)
    for name in _names(graph):
        layer = _operation(graph, name).layer
        if _is_affine(layer):
            _fuse_after(graph, name)
        elif isinstance(layer, Padding):
            _fuse_padding(graph, name, layer)
    _part_shared_weights(graph)


def _part_shared_weights(graph: nx.DiGraph) -> None:
    """Give layers weights of their own where something was folded into them that others do not share."""
    for name in _names(graph):
        operation = _operation(graph, name)
        layer = operation.layer
        if isinstance(layer, NamedLayer) and layer.weights is not None:
            folded = (*operation.folded, *_operation(graph, layer.weights).folded)
            if any(map(_is_affine, folded)):
                _change(graph, name, layer=layer.model_copy(update={"weights": None}))


def _is_affine(layer: AnyLayer) -> bool:
    return isinstance(layer, Map) and layer.op in AFFINE


def _fuse_before(graph: nx.DiGraph, name: str) -> None:
    """Fold an affine function into the weights, or into the affine function, before it."""
    writers = _writers(graph, name)
    before = [_operation(graph, writer).layer for writer in writers]
    if before and all(isinstance(layer, NamedLayer) or _is_affine(layer) for layer in before):
        _add_bias(graph, name, writers)
        _fold(graph, name, writers)


def _fuse_after(graph: nx.DiGraph, name: str) -> None:
    """Fold an affine function into the weights of all that read it.

    What it adds is not added to padding, so that only convolutions without any can take it over.
    """
    readers = list(graph.successors(name))
    if not readers or _is_output(graph, name) or not _can_skip(graph, name):
        return
    for reader in readers:
        operation = _operation(graph, reader)
        if not isinstance(operation.layer, NamedLayer) or operation.inputs != (name,):
            return
        if _adds(_operation(graph, name)) and any(operation.layer.padding):
            return
    _add_bias(graph, name, readers)
    _fold(graph, name, readers)


def _adds(operation: CoarseOperation) -> bool:
    """Whether an affine function does more than multiply."""
    layers = (operation.layer, *operation.folded)
    return any(isinstance(layer, Map) and layer.op in ("batch_norm", "bias") for layer in layers)


def _add_bias(graph: nx.DiGraph, name: str, into: Iterable[str]) -> None:
    """Give those layers a bias that take over an affine function that adds."""
    if not _adds(_operation(graph, name)):
        return
    for other in into:
        layer = _operation(graph, other).layer
        if isinstance(layer, NamedLayer):
            _change(graph, other, layer=layer.model_copy(update={"bias": True}))


def _fuse_padding(graph: nx.DiGraph, name: str, pad: Padding) -> None:
    """Fold padding into all convolutions that read it, if their windows are large enough."""
    padded = {}
    if _is_output(graph, name):
        return
    for reader in graph.successors(name):
        operation = _operation(graph, reader)
        layer = operation.layer
        if layer.kind != "conv" or operation.inputs != (name,):
            return
        padding = tuple(map(sum, zip(pad.padding, layer.padding, strict=True)))
        try:
            padded[reader] = NamedLayer.model_validate(
                {**layer.model_dump(), "input": pad.input, "padding": padding}
            )
        except (InputError, ValidationError):
            return
    if padded:
        for reader, convolution in padded.items():
            _change(graph, reader, layer=convolution)
        _fold(graph, name, padded)


# Point-wise fusion ---------------------------------------------------------------------------------


def _fuse_pointwise(graph: nx.DiGraph) -> None:
    for name in _names(graph):
        layer = _operation(graph, name).layer
        if isinstance(layer, Map) and layer.op in FREE:
            _skip(graph, name)
        elif _is_pointwise(layer):
            writers = _writers(graph, name, ("concat", "reshape"))
            if writers and all(_computes(graph, writer) for writer in writers):
                _fold(graph, name, writers)
        elif layer.kind in OPERANDS:
            _fuse_product(graph, name)


def _is_pointwise(layer: AnyLayer) -> bool:
    """Whether a layer is a function of single values that takes no parameters for each channel."""
    return isinstance(layer, Map) and (
        layer.op in (*ACTIVATIONS, *FREE) or (layer.op in ("scale", "bias") and not layer.parameters)
    )


def _computes(graph: nx.DiGraph, name: str) -> bool:
    return name != OWN_INPUT and _operation(graph, name).layer.kind in COMPUTES


def _fuse_product(graph: nx.DiGraph, name: str) -> None:
    """Fold a product or sum of functions of one value, as x * sigmoid(x), into what computes the value."""
    chains = [_chain(graph, source) for source in _operation(graph, name).inputs]
    for source in chains[0]:
        if not _computes(graph, source) or any(source not in chain for chain in chains):
            continue
        inside = {name}.union(*(chain[: chain.index(source)] for chain in chains))
        hidden = {source, *inside} - {name}
        if all(inside.issuperset(graph.successors(each)) and not _is_output(graph, each) for each in hidden):
            for each in [each for each in _names(graph) if each in inside]:
                _change(graph, each, inputs=(source,))
                _fold(graph, each, (source,))
            return


def _chain(graph: nx.DiGraph, name: str) -> list[str]:
    """Return an operation and, while it is a function of single values, those that it is computed from."""
    found = [name]
    while name != OWN_INPUT:
        operation = _operation(graph, name)
        if not _is_pointwise(operation.layer) or len(operation.inputs) > 1:
            break
        (name,) = operation.inputs
        found.append(name)
    return found


# Pruning -------------------------------------------------------------------------------------------


def _prune(graph: nx.DiGraph) -> None:
    left = -1
    while left != (left := len(graph)):  # what is pruned may make what is before it free
        for name in _names(graph):
            layer = _operation(graph, name).layer
            if isinstance(layer, Reshape) and _is_order_of_input(graph, name):
                _store_input_as(graph, name, layer.output)
            elif layer.kind == "concat" or (isinstance(layer, Reshape) and _is_free(graph, name, layer)):
                _skip(graph, name)


def _is_order_of_input(graph: nx.DiGraph, name: str) -> bool:
    """Whether an input of the network can be stored at once as a reshape wants it, which alone reads it."""
    inputs = _operation(graph, name).inputs
    return (
        len(inputs) == 1
        and _is_given(graph, inputs[0])
        and set(graph.successors(inputs[0])) == {name}
        and not _is_output(graph, name)
    )


def _store_input_as(graph: nx.DiGraph, name: str, shape: tuple[int, int, int]) -> None:
    """Fold a reshape into the input that it reads."""
    (source,) = _operation(graph, name).inputs
    if source == OWN_INPUT:
        graph.graph["input"] = shape
    else:
        layer = _operation(graph, source).layer.model_copy(update={"input": shape})
        _change(graph, source, layer=layer)
    _fold(graph, name, [source] if source != OWN_INPUT else [])


def _is_free(graph: nx.DiGraph, name: str, layer: Reshape) -> bool:
    """Whether values can be stored at once as the readers of a reshape want them."""
    sources = _operation(graph, name).inputs
    readers = [_operation(graph, reader).layer for reader in graph.successors(name)]
    if layer.op in PERMUTES:
        if any(not _only_read_by(graph, source, name) for source in sources):
            return False  # others get the same values in the order that they have
        if any(isinstance(reader, Map) and not _is_pointwise(reader) for reader in readers):
            return False  # which tells channels apart
    # A fully connected layer takes values in any shape, but a network's input has one shape for all.
    given = any(_is_given(graph, source) for source in sources)
    flat = all(reader.kind == "fc" for reader in readers) and not given
    return flat or layer.input == layer.output


def _skip(graph: nx.DiGraph, name: str) -> None:
    """Fold an operation that computes nothing into the stores of those before it, if nobody minds."""
    inputs = _operation(graph, name).inputs
    if _is_output(graph, name) and not _writers(graph, name, ()):
        return  # an output of the network, which those before it do not become in its place
    if _can_skip(graph, name):
        _fold(graph, name, [each for each in inputs if not _is_given(graph, each)])
