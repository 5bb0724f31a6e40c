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

from pydantic import ValidationError

from tilewright.spec.errors import InputError
from tilewright.spec.graph import Access, NetworkGraph, Operation
from tilewright.spec.network import (
    ACTIVATIONS,
    AFFINE,
    FREE,
    OPERANDS,
    OWN_INPUT,
    AnyLayer,
    Map,
    MatMul,
    NamedLayer,
    Network,
    Padding,
    Reshape,
    Shape,
    Slice,
    is_normalisation,
    parameters_of,
)

COMPUTES = ("conv", "fc", "matmul", "pool", "add", "mul", "map")
"""Kinds whose outputs an activation can be computed on before they are stored."""

WHOLE = ("matmul", "function", "opaque")
"""Kinds that take each of their inputs in one piece."""

PERMUTES = ("transpose", "space_to_depth", "depth_to_space")
"""Reshapes that change the order of values in memory."""


class CoarseningStage(NamedTuple):
    """The graph after a stage."""

    name: str
    graph: NetworkGraph


def stages(network: Network) -> tuple[CoarseningStage, ...]:
    """Return the graphs of a network, from the finest to the coarsest."""
    draft = _Draft(network)
    found = [CoarseningStage("raw", draft.graph())]
    for name, fuse in (
        ("intrinsic fusion", _fuse_intrinsic),
        ("point-wise fusion", _fuse_pointwise),
        ("pruned", _prune),
    ):
        fuse(draft)
        found.append(CoarseningStage(name, draft.graph()))
    return tuple(found)


def coarse_graph(network: Network, *, numbers: bool = False) -> NetworkGraph:
    """Return the graph of a network after all stages; operations keep the names of their layers.

    Operations find the channels of a slice where they are, so that it is none itself.

    Parameters
    ----------
    numbers
        Whether stored numbers of pixels are an operand. What they are combined with then is one, too: it is
        read in one piece.
    """
    draft = _coarse(network, numbers=numbers)
    _read_slices(draft)
    return draft.graph()


def coarse(network: Network) -> Network:
    """Return the network after all stages; layers keep their names, and slices are layers."""
    return _coarse(network).graph().network(network.name, network.source)


def _coarse(network: Network, *, numbers: bool = False) -> _Draft:
    draft = _Draft(network, numbers=numbers)
    for fuse in (_fuse_intrinsic, _fuse_pointwise, _prune):
        fuse(draft)
    return draft


# A graph that is being changed ---------------------------------------------------------------------


class Read(NamedTuple):
    """What an operation reads: of whom, by name, and which channels where these are not all."""

    name: str
    channels: tuple[int, int] | None = None


@dataclass(frozen=True)
class _Node:
    """An operation, as `tilewright.spec.graph.Operation` describes it; what it reads goes by names."""

    layer: AnyLayer
    reads: tuple[Read, ...]
    folded: tuple[AnyLayer, ...] = ()


class _Draft:
    """A network's graph, while stages fold its operations into one another.

    Attributes
    ----------
    nodes
        By name, in an order of execution.
    readers
        Names of those that read each, and the network's own input.
    outputs
        Names of those whose values leave the network.
    own_input : (C, H, W)
        Shape in which the network's own input is stored.
    numbers
        Whether stored numbers of pixels are an operand.
    """

    def __init__(self, network: Network, *, numbers: bool = False) -> None:
        self.numbers = numbers
        self.own_input: Shape = network.own_input
        self.outputs = tuple(network.layers[index].name for index in network.results)
        self.nodes: dict[str, _Node] = {}
        self.readers: dict[str, dict[str, None]] = {OWN_INPUT: {}}
        graph = NetworkGraph.of(network)
        for op in graph.ops:
            reads = tuple(Read(graph.name(producer)) for producer in op.producers)
            self.nodes[op.name] = _Node(op.spec, reads)
            self.readers[op.name] = {}
            for read in reads:
                self.readers[read.name][op.name] = None

    def graph(self) -> NetworkGraph:
        """Return the graph as it is now, an operation that reads the network's own input first."""
        names = list(self.nodes)
        if self.nodes[names[0]].layer.kind == "input":
            own = (name for name in names if {read.name for read in self.nodes[name].reads} == {OWN_INPUT})
            first = next(own, None)
            names.sort(key=lambda name: name != first)
        number = {name: place for place, name in enumerate((OWN_INPUT, *names), -1)}
        ops = []
        for name in names:
            node = self.nodes[name]
            accesses = tuple(Access(number[read.name], read.channels) for read in node.reads)
            ops.append(Operation(number[name], node.layer, accesses, name in self.outputs, node.folded))
        return NetworkGraph(tuple(ops), self.own_input)

    def layer(self, name: str) -> AnyLayer:
        """Return what an operation does."""
        return self.nodes[name].layer

    def change(self, name: str, **changes: Any) -> None:
        """Change an operation's layer, what it reads, or what was folded into it."""
        self.nodes[name] = replace(self.nodes[name], **changes)

    def fold(self, name: str, into: Iterable[str]) -> None:
        """Make an operation part of others; its readers read what it read, which leaves if it left."""
        folded = self.nodes.pop(name)
        sources = tuple(read.name for read in folded.reads)
        outputs = (each for one in self.outputs for each in (sources if one == name else (one,)))
        self.outputs = tuple(dict.fromkeys(outputs))
        for other in into:
            known = self.nodes[other].folded
            self.change(other, folded=(*known, folded.layer, *folded.folded))
        for source in sources:
            self.readers[source].pop(name, None)
        for reader in self.readers.pop(name):
            self.change(reader, reads=self._reads_without(name, folded, reader))
            for source in sources:
                self.readers[source][reader] = None

    def reads_without(self, name: str, reader: str) -> tuple[Read, ...]:
        """Return what a reader reads when it reads what an operation reads instead of the operation."""
        return self._reads_without(name, self.nodes[name], reader)

    def _reads_without(self, name: str, node: _Node, reader: str) -> tuple[Read, ...]:
        found: list[Read] = []
        for read in self.nodes[reader].reads:
            if read.name != name:
                found.append(read)
            elif read.channels is None and not isinstance(node.layer, Slice):
                found += node.reads
            else:
                first, end = read.channels or (0, node.layer.output[0])
                offset = node.layer.first[0] if isinstance(node.layer, Slice) else 0
                found += self._part(node.reads, offset + first, offset + end)
        return tuple(found)

    def _part(self, reads: Sequence[Read], first: int, end: int) -> list[Read]:
        """Return what some channels are of what is read one after the other."""
        found, begin = [], 0
        for read in reads:
            offset, last = read.channels or (0, self.channels(read.name))
            low, high = max(first - begin, 0), min(end - begin, last - offset)
            if low < high:
                all_of_it = (low, high) == (0, last - offset)
                found.append(read if all_of_it else Read(read.name, (offset + low, offset + high)))
            begin += last - offset
        return found

    def channels(self, name: str) -> int:
        """Return the channels of what an operation computes, or of the network's own input."""
        return self.own_input[0] if name == OWN_INPUT else self.nodes[name].layer.output[0]

    def is_given(self, name: str) -> bool:
        """Whether this is an input of the network."""
        return name == OWN_INPUT or self.layer(name).kind == "input"

    def only_reads(self, reader: str, name: str) -> bool:
        """Whether an operation reads another alone, and all of it."""
        return self.nodes[reader].reads == (Read(name),)

    def only_read_by(self, name: str, reader: str) -> bool:
        """Whether nobody but one operation gets the values of another, and that gets all of them."""
        whole = all(read.channels is None for read in self.nodes[reader].reads if read.name == name)
        return whole and self.readers[name].keys() == {reader} and name not in self.outputs

    def has_operands(self, name: str) -> bool:
        """Whether an operation takes each of its inputs as an operand, instead of all concatenated."""
        layer = self.layer(name)
        numbers = layer.numbers_of_pixels if self.numbers and isinstance(layer, Map) else None
        return layer.kind in OPERANDS or numbers is not None

    def can_skip(self, name: str) -> bool:
        """Whether all readers of an operation can read what it reads instead."""
        node = self.nodes[name]
        several = len(node.reads) > 1
        layer = node.layer
        reorders = isinstance(layer, Reshape) and (layer.op in PERMUTES or layer.input != layer.output)
        for reader in self.readers[name]:
            kind, reads = self.layer(reader).kind, self.reads_without(name, reader)
            if kind not in OPERANDS and len(set(reads)) < len(reads):
                return False
            if several and (kind in WHOLE or self.has_operands(reader)):
                return False
            if reorders and any(read.channels for read in self.nodes[reader].reads if read.name == name):
                return False
        return True

    def writers(self, name: str, through: Sequence[str] = ("concat",)) -> list[str]:
        """Return the operations whose outputs this one alone reads, directly or through others of some kinds.

        There are none if some of what it reads has other readers, is an output, or is the network's input.
        """
        found: list[str] = []
        readers = [name]
        while readers:
            reader = readers.pop()
            for read in self.nodes[reader].reads:
                if self.is_given(read.name) or not self.only_read_by(read.name, reader):
                    return []
                passes = self.layer(read.name).kind in through
                (readers if passes else found).append(read.name)
        return found


# Intrinsic fusion ----------------------------------------------------------------------------------


def _fuse_intrinsic(draft: _Draft) -> None:
    for name in list(draft.nodes):
        layer = draft.layer(name)
        if _is_affine(layer):
            _fuse_before(draft, name)
    for name in list(draft.nodes):
        layer = draft.layer(name)
        if _is_affine(layer):
            _fuse_after(draft, name)
        elif isinstance(layer, Padding):
            _fuse_padding(draft, name, layer)
    _part_shared_weights(draft)


def _part_shared_weights(draft: _Draft) -> None:
    """Give layers weights of their own where something was folded into them that others do not share."""
    for name in list(draft.nodes):
        operation = draft.nodes[name]
        layer = operation.layer
        if isinstance(layer, NamedLayer) and layer.weights is not None:
            folded = (*operation.folded, *draft.nodes[layer.weights].folded)
            if any(map(_is_affine, folded)):
                draft.change(name, layer=layer.model_copy(update={"weights": None}))


def _is_affine(layer: AnyLayer) -> bool:
    """Whether a layer multiplies by a number of each channel or of all, or adds one; not of each place."""
    return isinstance(layer, Map) and layer.op in AFFINE and layer.parameters <= 2 * layer.input[0]


def _fuse_before(draft: _Draft, name: str) -> None:
    """Fold an affine function into the weights, or into the affine function, before it."""
    writers = draft.writers(name)
    before = [draft.layer(writer) for writer in writers]
    if before and all(isinstance(layer, NamedLayer) or _is_affine(layer) for layer in before):
        _hand_over(draft, name, writers)
        draft.fold(name, writers)


def _fuse_after(draft: _Draft, name: str) -> None:
    """Fold an affine function into the weights of all that read it.

    What it adds is not added to padding, so that only convolutions without any can take it over.
    """
    readers = list(draft.readers[name])
    if not readers or name in draft.outputs or not draft.can_skip(name):
        return
    for reader in readers:
        operation = draft.nodes[reader]
        if not isinstance(operation.layer, NamedLayer) or not draft.only_reads(reader, name):
            return
        if _adds(draft.nodes[name]) and any(operation.layer.padding):
            return
    _hand_over(draft, name, readers)
    draft.fold(name, readers)


def _adds(operation: _Node) -> bool:
    """Whether an affine function does more than multiply."""
    layers = (operation.layer, *operation.folded)
    return any(isinstance(layer, Map) and layer.op in ("batch_norm", "bias") for layer in layers)


def _hand_over(draft: _Draft, name: str, into: Iterable[str]) -> None:
    """Give those that take over an affine function the numbers that it adds and multiplies by.

    Layers have a bias then. Two affine functions are one, with a factor or a summand of each channel, or
    both. A single number, of all channels, is none of its parameters.
    """
    adds, numbers = _adds(draft.nodes[name]), parameters_of(draft.layer(name))
    for other in into:
        layer = draft.layer(other)
        if isinstance(layer, NamedLayer) and adds:
            draft.change(other, layer=layer.model_copy(update={"bias": True}))
        elif isinstance(layer, Map) and numbers:
            own, most = layer.parameters, 2 * layer.input[0]
            alike = _adds(draft.nodes[other]) == adds and max(numbers, own) < most
            both = max(numbers, own) if alike else min(numbers + own, most)
            draft.change(other, layer=layer.model_copy(update={"parameters": both}))


def _fuse_padding(draft: _Draft, name: str, pad: Padding) -> None:
    """Fold padding into all convolutions that read it, if their windows are large enough."""
    padded = {}
    if name in draft.outputs:
        return
    for reader in draft.readers[name]:
        operation = draft.nodes[reader]
        layer = operation.layer
        if layer.kind != "conv" or not draft.only_reads(reader, name):
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
            draft.change(reader, layer=convolution)
        draft.fold(name, padded)


# Point-wise fusion ---------------------------------------------------------------------------------


def _fuse_pointwise(draft: _Draft) -> None:
    for name in list(draft.nodes):
        layer = draft.layer(name)
        if isinstance(layer, Map) and layer.op in FREE:
            _skip(draft, name)
        elif _is_pointwise(layer):
            writers = draft.writers(name, ("concat", "reshape"))
            if writers and all(_computes(draft, writer) for writer in writers):
                draft.fold(name, writers)
        elif layer.kind in OPERANDS:
            _fuse_product(draft, name)


def _is_pointwise(layer: AnyLayer) -> bool:
    """Whether a layer is a function of single values that takes no parameters for each channel."""
    return isinstance(layer, Map) and (
        layer.op in (*ACTIVATIONS, *FREE) or (layer.op in ("scale", "bias") and not layer.parameters)
    )


def _computes(draft: _Draft, name: str) -> bool:
    return name != OWN_INPUT and draft.layer(name).kind in COMPUTES


def _fuse_product(draft: _Draft, name: str) -> None:
    """Fold a product or sum of functions of one value, as x * sigmoid(x), into what computes the value."""
    chains = [_chain(draft, read) for read in draft.nodes[name].reads]
    for source in chains[0]:
        if source.channels or not _computes(draft, source.name):
            continue
        if any(source not in chain for chain in chains):
            continue
        inside = {name}.union(*({each.name for each in chain[: chain.index(source)]} for chain in chains))
        hidden = {source.name, *inside} - {name}
        if all(inside.issuperset(draft.readers[each]) and each not in draft.outputs for each in hidden):
            for each in [each for each in draft.nodes if each in inside]:
                draft.change(each, reads=(source,))
                draft.fold(each, (source.name,))
            return


def _chain(draft: _Draft, read: Read) -> list[Read]:
    """Return what is read and, while it is a function of single values, what that is computed from."""
    found = [read]
    while read.name != OWN_INPUT and read.channels is None:
        node = draft.nodes[read.name]
        if not _is_pointwise(node.layer) or len(node.reads) > 1:
            break
        (read,) = node.reads
        found.append(read)
    return found


# Pruning -------------------------------------------------------------------------------------------


def _prune(draft: _Draft) -> None:
    left = -1
    while left != (left := len(draft.nodes)):  # what is pruned may make what is before it free
        for name in list(draft.nodes):
            _join_views(draft, name)
            layer = draft.layer(name)
            if isinstance(layer, Reshape) and _is_order_of_input(draft, name):
                _store_input_as(draft, name, layer.output)
            elif layer.kind == "concat" or (isinstance(layer, Reshape) and _is_free(draft, name, layer)):
                _skip(draft, name)


def _join_views(draft: _Draft, name: str) -> None:
    """Make one reshape of two that leave values in their order, the first of which nobody else reads."""
    layer = draft.layer(name)
    sources = [read.name for read in draft.nodes[name].reads] if _is_view(layer) else []
    if len(sources) == 1 and sources[0] != OWN_INPUT and draft.only_read_by(sources[0], name):
        before = draft.layer(sources[0])
        if _is_view(before):
            draft.change(name, layer=layer.model_copy(update={"input": before.input}))
            draft.fold(sources[0], [name])


def _is_view(layer: AnyLayer) -> bool:
    return isinstance(layer, Reshape) and layer.op not in PERMUTES


def _is_order_of_input(draft: _Draft, name: str) -> bool:
    """Whether an input of the network can be stored at once as a reshape wants it, which alone reads it."""
    reads = draft.nodes[name].reads
    source = reads[0].name
    return (
        len(reads) == 1
        and draft.is_given(source)
        and draft.only_read_by(source, name)
        and (name not in draft.outputs)
    )


def _store_input_as(draft: _Draft, name: str, shape: Shape) -> None:
    """Fold a reshape into the input that it reads."""
    ((source, _),) = draft.nodes[name].reads
    if source == OWN_INPUT:
        draft.own_input = shape
        draft.fold(name, [])
    else:
        draft.change(source, layer=draft.layer(source).model_copy(update={"input": shape}))
        draft.fold(name, [source])


def _is_free(draft: _Draft, name: str, layer: Reshape) -> bool:
    """Whether values can be stored at once as the readers of a reshape want them."""
    sources = [read.name for read in draft.nodes[name].reads]
    readers = [draft.layer(reader) for reader in draft.readers[name]]
    if layer.op in PERMUTES:
        if any(not draft.only_read_by(source, name) for source in sources):
            return False  # others get the same values in the order that they have
        if any(isinstance(reader, Map) and not _is_pointwise(reader) for reader in readers):
            return False  # which tells channels apart
        if _tells_rows_apart(draft, name, sources):
            return False
    # A fully connected layer takes values in any shape, but a network's input has one shape for all.
    given = any(map(draft.is_given, sources))
    flat = all(reader.kind == "fc" for reader in readers) and not given
    return flat or layer.input == layer.output


def _tells_rows_apart(draft: _Draft, name: str, sources: Sequence[str]) -> bool:
    """Whether products or normalisations give or take rows of what is transposed, in their order.

    A product takes those of its first operand; of the second one it needs all.
    """
    readers = [
        reader
        for reader in draft.readers[name]
        if not isinstance(draft.layer(reader), MatMul) or draft.nodes[reader].reads[0].name == name
    ]
    around = [*readers, *(source for source in sources if source != OWN_INPUT)] if readers else []
    return any(isinstance(layer, MatMul) or is_normalisation(layer) for layer in map(draft.layer, around))


def _skip(draft: _Draft, name: str) -> None:
    """Fold an operation that computes nothing into the stores of those before it, if nobody minds."""
    sources = [read.name for read in draft.nodes[name].reads]
    if name in draft.outputs and not draft.writers(name, ()):
        return  # an output of the network, which those before it do not become in its place
    if draft.can_skip(name):
        draft.fold(name, dict.fromkeys(each for each in sources if not draft.is_given(each)))


# Slices --------------------------------------------------------------------------------------------


def _read_slices(draft: _Draft) -> None:
    """Let those that read some channels of a tensor find them there, instead of in a copy."""
    for name in list(draft.nodes):
        layer = draft.layer(name)
        if isinstance(layer, Slice) and layer.input[1:] == layer.output[1:] and name not in draft.outputs:
            readers = {reader: draft.reads_without(name, reader) for reader in draft.readers[name]}
            if all(_can_read(draft, reader, reads) for reader, reads in readers.items()):
                sources = {read.name for read in draft.nodes[name].reads}
                draft.fold(name, [each for each in sources if not draft.is_given(each)])


def _can_read(draft: _Draft, name: str, reads: Sequence[Read]) -> bool:
    """Whether an operation can read these instead: as many where they are operands, else each once."""
    kind, as_many = draft.layer(name).kind, len(reads) == len(draft.nodes[name].reads)
    apart = kind in WHOLE or draft.has_operands(name)
    alike = as_many if apart else len(set(reads)) == len(reads)
    return alike and kind in (*COMPUTES, "concat", "slice")
