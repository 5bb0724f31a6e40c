"""A network as a graph: its operations in an order of execution, and where each finds what it reads.

Every room reads networks in this form: as they are in their files (`NetworkGraph.of`), or coarse, as
`tilewright.spec.coarsening` leaves them. An operation of a coarse graph knows which layers of the file
became part of it, so that nothing of the network is lost on the way to emitted code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from tilewright.spec.layer import Layer
from tilewright.spec.network import AFFINE, OWN_INPUT, AnyLayer, Map, Network, Shape

if TYPE_CHECKING:
    import networkx as nx

OWN = -1
"""What stands for the network's own input among the numbers of operations."""


class Access(NamedTuple):
    """What an operation reads of a tensor, without a copy.

    Attributes
    ----------
    source
        Number of the operation that computes the tensor; `OWN` for the network's own input.
    channels : (first, end), optional
        The channels that are read, where these are not all.
    at : (row, column), optional
        Where what is read lies in an operand that is put together of parts: its first row and column there.
        The part at (0, 0) begins the operand, and the parts that follow belong to it.
    copies : (C, H, W), optional
        How often each channel, row and column stands in the operand, one copy after the other.
    shape : (C, H, W), optional
        The shape in which all of the tensor is read, where that is another one: its values stand in the same
        order, columns first.
    """

    source: int
    channels: tuple[int, int] | None = None
    at: tuple[int, int] | None = None
    copies: Shape | None = None
    shape: Shape | None = None


def shape_of_operand(operand: Sequence[Access], shapes: Iterable[Shape]) -> Shape:
    """Return the shape (C, H, W) of an operand from those of what its accesses read."""
    ends = []
    for access, shape in zip(operand, shapes, strict=True):
        copies, (row, column) = access.copies or (1, 1, 1), access.at or (0, 0)
        channels, height, width = map(mul, shape, copies)
        ends.append((channels, row + height, column + width))
    channels, height, width = map(max, zip(*ends, strict=True))
    return (channels, height, width)


@dataclass(frozen=True)
class Operation:
    """An operation and the tensor that it computes.

    Attributes
    ----------
    number
        Place in the order of execution, from 0.
    spec
        What it does; of a coarse graph with what was folded into its weights and padding.
    accesses
        What it reads, in order: concatenated along channels, or operand by operand; see `operands`. A further
        input of the network reads nothing.
    leaves
        Whether what it computes is an output of the network, perhaps read inside as well.
    folded
        The layers of the network that became part of it, in the order in which they were folded.
    together
        Values of a pixel that a function along channels takes together, where that is known; there may be
        several such parts of a pixel.
    picks
        Of an operation that computes a pixel from those at its place: the channel of what it reads, all
        operands joined, that each of its channels comes of. It may need others of the pixel beside it.
    spread
        Of one that picks: how many of its pixels, one behind the other, come of each pixel that is read. It
        then picks for each channel as many times.
    causal
        Of a softmax of scores: n where query i sees keys up to i + n, and gives later ones nothing.
    """

    number: int
    spec: AnyLayer
    accesses: tuple[Access, ...]
    leaves: bool
    folded: tuple[AnyLayer, ...] = ()
    together: int | None = None
    picks: tuple[int, ...] | None = None
    spread: int = 1
    causal: int | None = None

    @property
    def name(self) -> str:
        """Its name, and that of its output."""
        return self.spec.name

    @cached_property
    def producers(self) -> tuple[int, ...]:
        """Numbers of the operations that it reads; `OWN` for the network's own input."""
        return tuple(access.source for access in self.accesses)

    @cached_property
    def operands(self) -> tuple[tuple[Access, ...], ...]:
        """Its accesses, those together that are parts of one operand."""
        found: list[tuple[Access, ...]] = []
        for access in self.accesses:
            if access.at in (None, (0, 0)):
                found.append((access,))
            else:
                found[-1] = (*found[-1], access)
        return tuple(found)

    @property
    def has_views(self) -> bool:
        """Whether an operand is put together of parts, or of copies of what is read."""
        return any(access.at is not None or access.copies is not None for access in self.accesses)

    @property
    def depthwise(self) -> bool:
        """Whether it is a convolution in which each output channel has an input channel of its own."""
        return isinstance(self.spec, Layer) and self.spec.groups == self.spec.input[0] == self.spec.kernels

    @property
    def macs(self) -> int:
        """MACs of a convolution or fully connected layer for one image, else 0."""
        return self.spec.macs // self.spec.batch if isinstance(self.spec, Layer) else 0


@dataclass(frozen=True)
class NetworkGraph:
    """The operations of a network, and who reads whom.

    Attributes
    ----------
    ops
        In an order of execution; a further input of the network has a place among them.
    own_input : (C, H, W)
        Shape in which the network's own input is stored.
    """

    ops: tuple[Operation, ...]
    own_input: Shape

    @classmethod
    def of(cls, network: Network) -> NetworkGraph:
        """Return the graph of a network as it is in its file."""
        ops = []
        for number, (layer, producers) in enumerate(zip(network.layers, network.producers, strict=True)):
            ops.append(Operation(number, layer, tuple(map(Access, producers)), number in network.results))
        return cls(tuple(ops), network.own_input)

    def name(self, number: int) -> str:
        """Return the name of what an operation computes, or of the network's own input."""
        return OWN_INPUT if number == OWN else self.ops[number].name

    def shape(self, access: Access) -> Shape:
        """Return the shape (C, H, W) of what an access reads."""
        if access.shape is not None:
            return access.shape
        channels, *plane = self.own_input if access.source == OWN else self.ops[access.source].spec.output
        if access.channels is not None:
            channels = access.channels[1] - access.channels[0]
        return (channels, plane[0], plane[1])

    def operand_shape(self, operand: Sequence[Access]) -> Shape:
        """Return the shape (C, H, W) of an operand: see `Operation.operands`."""
        return shape_of_operand(operand, map(self.shape, operand))

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of the operations that read each operation, ascending, each once."""
        readers: list[list[int]] = [[] for _ in self.ops]
        for op in self.ops:
            for producer in dict.fromkeys(op.producers):
                if producer != OWN:
                    readers[producer].append(op.number)
        return tuple(map(tuple, readers))

    @cached_property
    def reads(self) -> nx.DiGraph:
        """The operations' numbers and `OWN`, with an edge to every reader."""
        import networkx as nx  # start-up time

        graph = nx.DiGraph()
        graph.add_node(OWN)
        graph.add_nodes_from(op.number for op in self.ops)
        graph.add_edges_from((producer, op.number) for op in self.ops for producer in op.producers)
        return graph

    @cached_property
    def ancestors(self) -> tuple[int, ...]:
        """For each operation, a bit mask of all that it depends on, directly or through others."""
        masks: list[int] = []
        for op in self.ops:
            mask = 0
            for producer in op.producers:
                if producer != OWN:
                    mask |= masks[producer] | 1 << producer
            masks.append(mask)
        return tuple(masks)

    @cached_property
    def descendants(self) -> tuple[int, ...]:
        """For each operation, a bit mask of all that depend on it, directly or through others."""
        masks = [0] * len(self.ops)
        for number in reversed(range(len(masks))):
            for consumer in self.consumers[number]:
                masks[number] |= masks[consumer] | 1 << consumer
        return tuple(masks)

    def network(self, name: str = "", source: str = "") -> Network:
        """Return the graph, whose operations read all channels, as a network; layers keep their names."""
        layers = []
        for op in self.ops:
            names = tuple(map(self.name, op.producers))
            before = self.name(op.number - 1)
            changes: dict[str, object] = {"inputs": None if names == (before,) else names}
            if isinstance(op.spec, Map) and op.spec.op in AFFINE:
                # An activation that is not told may stand between it and a convolution.
                changes["op"] = "fused"
            layers.append(op.spec.model_copy(update=changes))
        found = Network(name=name, source=source, layers=tuple(layers), input=self.own_input)
        if layers[0].kind != "input" and layers[0].input == self.own_input:
            found = found.with_(input=None)
        outputs = tuple(op.name for op in self.ops if op.leaves)
        if set(outputs) == {found.layers[index].name for index in found.results}:
            return found
        return found.with_(outputs=outputs)
