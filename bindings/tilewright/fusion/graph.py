"""What the accelerator sees of a network's operations: which engine each runs on, and orders of a group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from tilewright.fusion.machine import CONV, HOST, MISC, POOL
from tilewright.spec.graph import NetworkGraph, Operation
from tilewright.spec.layer import Layer
from tilewright.spec.network import Add, Concat, Map, Mul, Pool

MOST_ORDERS = 24
"""Orders of a group's operations that are all tried; of more, those in which each branch stays together."""


def engine_of(op: Operation) -> str:
    """Return ``CONV``, ``POOL``, ``MISC``, or ``HOST`` for what the accelerator does not compute."""
    layer = op.spec
    if isinstance(layer, Layer):
        return CONV if layer.kind == "conv" else HOST
    if isinstance(layer, Pool):
        return POOL
    if isinstance(layer, Add | Mul | Concat) or (
        isinstance(layer, Map) and layer.op not in ("softmax", "log_softmax")
    ):
        return MISC
    return HOST


def mixes_channels(op: Operation) -> bool:
    """Whether an output channel needs other input channels than that of its number."""
    if isinstance(op.spec, Map):
        return op.spec.op == "lrn"  # which reads neighbours
    return isinstance(op.spec, Layer) and not op.depthwise


class Orders(NamedTuple):
    """Orders in which the operations of a group may be executed; whether there are no others."""

    listed: tuple[tuple[int, ...], ...]
    every: bool


def orders_of(graph: NetworkGraph, nodes: Sequence[int]) -> Orders:
    """Return the orders in which the operations of a group may be executed; see docs/fusion.md."""
    return _orders({node: {*graph.ops[node].producers} & {*nodes} for node in sorted(nodes)})


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
