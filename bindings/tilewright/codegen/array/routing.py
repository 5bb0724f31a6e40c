"""Routes between PEs: a tree of links for each stream of values, and the channels that each link needs.

A stream goes from some PEs, of which one sends at a time, to all that receive it. Its tree has a root; what
is sent travels up to the root, and from there down to all receivers, hop by hop. Links are configured before
the array starts, as the interconnect of a TCPA is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tilewright.allocation.placement.floor import PE
from tilewright.codegen.array.words import PORTS, Record, record

Link = tuple[PE, PE]
"""From a PE to a neighbour."""

Channel = tuple[int, int]
"""A port of a PE, and a channel of it."""

MOST_ROOTS = 64
"""Roots of a tree that are tried, at most."""


class End(NamedTuple):
    """A local port of a PE, where a stream begins or ends."""

    pe: PE
    port: int


class Stream(NamedTuple):
    """Where values are sent, and where they are received."""

    sources: tuple[End, ...]
    sinks: tuple[End, ...]


class Tree(NamedTuple):
    """The links of a stream, up to its root and down from it."""

    root: PE
    up: tuple[Link, ...]
    down: tuple[Link, ...]


def hops(pe: PE, other: PE) -> int:
    """Return the links of the shortest way from one PE to another."""
    return abs(pe[0] - other[0]) + abs(pe[1] - other[1])


def _path(root: PE, pe: PE) -> list[Link]:
    """Return the links from a root to a PE: along the root's row, then along a column."""
    found, (row, column) = [], root
    while column != pe[1]:
        step = column + (1 if pe[1] > column else -1)
        found.append(((row, column), (row, step)))
        column = step
    while row != pe[0]:
        step = row + (1 if pe[0] > row else -1)
        found.append(((row, column), (step, column)))
        row = step
    return found


def _tree(stream: Stream, root: PE) -> Tree:
    down = dict.fromkeys(link for end in stream.sinks for link in _path(root, end.pe))
    up = dict.fromkeys((to, at) for end in stream.sources for at, to in _path(root, end.pe))
    return Tree(root, tuple(up), tuple(down))


def tree_of(stream: Stream) -> Tree:
    """Return the tree of a stream with the fewest hops, of those whose root sends or receives.

    For each receiver the hops from the nearest sender count, as for a plan's distance. Of equal trees it is
    the one with the fewest links.
    """
    ends = list(dict.fromkeys(end.pe for end in (*stream.sources, *stream.sinks)))
    roots = ends[:: -(-len(ends) // MOST_ROOTS)]

    def cost(tree: Tree) -> tuple[int, int]:
        nearest = min(hops(end.pe, tree.root) for end in stream.sources)
        total = sum(nearest + hops(tree.root, end.pe) for end in stream.sinks)
        return total, len(tree.up) + len(tree.down)

    return min((_tree(stream, root) for root in roots), key=cost)


def connections(
    stream: Stream, tree: Tree, channels: Counter[Link], hop_cycles: int, way_cycles: int
) -> Iterator[Record]:
    """Yield the connections of a stream at all PEs.

    Parameters
    ----------
    channels
        Those of each link that other streams have taken, to which its own are added.
    hop_cycles
        Of a hop.
    way_cycles
        From the root to each receiver, those in the registers in front of its port among them.
    """
    number: dict[Link, int] = {}
    for link in (*tree.up, *tree.down):
        number[link] = channels[link]
        channels[link] += 1
    local = PORTS.index("local")
    inputs: dict[PE, list[Channel]] = {}
    outputs: dict[PE, list[Channel]] = {}
    for end in stream.sources:
        inputs.setdefault(end.pe, []).append((local, end.port))
    for at, to in tree.up:
        inputs.setdefault(to, []).append((_towards(to, at), number[at, to]))
    for at, to in tree.down:
        outputs.setdefault(at, []).append((_towards(at, to), number[at, to]))
    for end in stream.sinks:
        outputs.setdefault(end.pe, []).append((local, end.port))
    # Up: whatever comes in leaves towards the root. There all of it goes down.
    pairs = [(at, come, (_towards(at, to), number[at, to])) for at, to in tree.up for come in inputs[at]]
    pairs += [(tree.root, come, leave) for come in inputs[tree.root] for leave in outputs[tree.root]]
    for at, to in tree.down:
        pairs += [(to, (_towards(to, at), number[at, to]), leave) for leave in outputs[to]]
    for pe, come, leave in pairs:
        delay = way_cycles - hop_cycles * hops(tree.root, pe) if leave[0] == local else 0
        yield _connection(pe, come, leave, delay)


def _connection(pe: PE, come: Channel, leave: Channel, delay: int) -> Record:
    fields = ("row", "column", "input", "from", "output", "to", "delay")
    return record("connect", dict(zip(fields, (*pe, *come, *leave, delay), strict=True)))


def _towards(pe: PE, neighbour: PE) -> int:
    """Return at which of its ports a PE is connected to a neighbour."""
    steps = {(-1, 0): "north", (0, 1): "east", (1, 0): "south", (0, -1): "west"}
    return PORTS.index(steps[neighbour[0] - pe[0], neighbour[1] - pe[1]])
