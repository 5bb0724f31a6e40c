"""The operations of a network as the accelerator sees them, and who reads whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import networkx as nx

from tilewright.fusion.machine import CONV, HOST, MISC, POOL
from tilewright.spec.coarsening import coarse
from tilewright.spec.layer import Layer
from tilewright.spec.network import Add, AnyLayer, Concat, Map, Mul, Network, Pool

MOST_ORDERS = 24
"""Orders of a group's operations that are all tried; of more, those in which each branch stays together."""


@dataclass(frozen=True)
class Op:
    """An operation of the coarse graph (XGraph).

    Attributes
    ----------
    number
        Place in the order of execution, from 0.
    engine
        ``CONV``, ``POOL``, ``MISC``, or ``HOST`` for what the accelerator does not compute.
    producers
        Numbers of the operations that it reads; -1 for the network's input.
    leaves
        Whether what it computes is an output of the network, perhaps read inside as well.
    """

    number: int
    name: str
    spec: AnyLayer
    engine: str
    producers: tuple[int, ...]
    leaves: bool

    @property
    def dense(self) -> bool:
        """Whether an output channel needs other input channels than that of its number."""
        if isinstance(self.spec, Map):
            return self.spec.op == "lrn"  # which reads neighbours
        return isinstance(self.spec, Layer) and not self.depthwise

    @property
    def depthwise(self) -> bool:
        """Whether it is a convolution in which each output channel has an input channel of its own."""
        return isinstance(self.spec, Layer) and self.spec.groups == self.spec.input[0] == self.spec.kernels

    @property
    def macs(self) -> int:
        """MACs of a convolution for one image, else 0."""
        return self.spec.macs // self.spec.batch if isinstance(self.spec, Layer) else 0


class Orders(NamedTuple):
    """Orders in which the operations of a group may be executed; whether there are no others."""

    listed: tuple[tuple[int, ...], ...]
    every: bool


@dataclass(frozen=True)
class OpGraph:
    """The coarse graph of a network.

    Attributes
    ----------
    ops
        Its operations, in an order of execution.
    own_input : (C, H, W)
        Shape in which the network's own input is stored.
    """

    ops: tuple[Op, ...]
    own_input: tuple[int, int, int]

    @classmethod
    def of(cls, network: Network) -> OpGraph:
        """Return the graph of a network: what costs nothing extra is folded away."""
        graph = coarse(network)
        return cls(
            tuple(
                Op(number, layer.name, layer, _engine(layer), producers, number in graph.results)
                for number, (layer, producers) in enumerate(zip(graph.layers, graph.producers, strict=True))
            ),
            graph.own_input,
        )

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of the operations that read each operation, ascending, each once."""
        readers: list[list[int]] = [[] for _ in self.ops]
        for op in self.ops:
            for producer in dict.fromkeys(op.producers):
                if producer >= 0:
                    readers[producer].append(op.number)
        return tuple(map(tuple, readers))

    def orders(self, nodes: Sequence[int]) -> Orders:
        """Return the orders in which the operations of a group may be executed; see docs/fusion.md."""
        key = tuple(sorted(nodes))
        if key not in self._orders:
            self._orders[key] = _orders({node: {*self.ops[node].producers} & {*nodes} for node in key})
        return self._orders[key]

    @cached_property
    def _orders(self) -> dict[tuple[int, ...], Orders]:
        return {}

    @cached_property
    def reads(self) -> nx.DiGraph:
        """The operations' numbers, and -1 for the network's input, with an edge to every reader."""
        graph = nx.DiGraph()
        graph.add_node(-1)
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
                if producer >= 0:
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


def _orders(before: dict[int, set[int]]) -> Orders:
    """Return the orders of operations that may be tried, from what each reads of the others."""
    for by_branch in (False, True):
        found = list(islice(_sequences(before, (), by_branch), MOST_ORDERS + 1))
        if len(found) <= MOST_ORDERS:
            return Orders(tuple(found), not by_branch)
    return Orders((tuple(before),), False)


def _sequences(
    before: dict[int, set[int]], done: tuple[int, ...], by_branch: bool
) -> Iterator[tuple[int, ...]]:
    """Yield orders in which all are after what they read, or those in which each branch stays together.

    Then next is what reads the latest of what has been computed, as far as anything is ready that reads it.
    """
    if len(done) == len(before):
        yield done
    place = {node: number for number, node in enumerate(done)}
    latest = {
        node: max((place[read] for read in reads), default=-1)
        for node, reads in before.items()
        if node not in place and reads <= place.keys()
    }
    for node, newest in latest.items():
        if not by_branch or newest == max(latest.values()):
            yield from _sequences(before, (*done, node), by_branch)


def _engine(layer: AnyLayer) -> str:
    if isinstance(layer, Layer):
        return CONV if layer.kind == "conv" else HOST
    if isinstance(layer, Pool):
        return POOL
    if isinstance(layer, Add | Mul | Concat) or (
        isinstance(layer, Map) and layer.op not in ("softmax", "log_softmax")
    ):
        return MISC
    return HOST
