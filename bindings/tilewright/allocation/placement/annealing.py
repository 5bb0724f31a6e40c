"""The compiled kernel of simulated annealing over placements that keep every rule.

The array has a wall around it, and its PEs are numbered row by row with the wall. PEs that no layer uses
make up one more layer, "unused", which may be in pieces. A move hands PEs around a ring of layers: each
gives one and takes one.
"""

# Numba infers the types of compiled functions; docstrings state them where it matters.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.jit import inner, kernel


class Cell(IntEnum):
    """Columns of `State.cells`."""

    LAYER = 0
    """The layer; "unused" and the wall come after all layers."""
    ROW = 1
    COLUMN = 2
    INDEX = 3
    """Where the PE stands in `State.pes`."""
    ON_BORDER = 4
    """Whether it is on the border of the array."""
    MARK = 5
    """Number of the last flood that reached it: scratch."""


class Count(IntEnum):
    """Columns of `State.per_layer`."""

    FIRST = 0
    """Where the layer's PEs begin in `State.pes`."""
    MOVABLE = 1
    """How many of them come first because their neighbourhood lets them leave."""
    CONTACTS = 2
    """Pairs of neighbours with the next layer."""
    AT_BORDER = 3
    """PEs on the border of the array."""
    INWARD = 4
    """Where the edges begin in `State.linked` of which the layer is the consumer."""
    OUTWARD = 5
    """Where those begin of which it is the producer."""


class Edge(IntEnum):
    """Columns of `State.edges`."""

    PRODUCER = 0
    CONSUMER = 1


class Undo(IntEnum):
    """Columns of `State.undo`."""

    EDGE = 0
    PE = 1
    """A PE of the edge's consumer."""
    HOPS = 2
    """Its distance before the move."""


class Total(IntEnum):
    """Indices of `State.totals`."""

    HOPS = 0
    """Hops of the present placement."""
    BEST = 1
    """Hops of the best placement so far."""
    MARKS = 2
    """How often PEs were marked."""


LONGEST = 5
"""Most layers that exchange PEs in one move."""

ANY_PE = 32
"""One of ANY_PE draws is of all PEs of a layer, not only of those whose neighbourhood lets them leave."""

PLENTY = 2**30
"""Contacts and PEs on the border of layers that need none."""

Table = NDArray[np.int32]


class PlacementState(NamedTuple):
    """A placement under change; all arrays are changed in place.

    Attributes
    ----------
    cells : int32, shape (PEs with the wall, 6)
        What is known of each PE: see `Cell`.
    per_layer : int32, shape (layers + 2, 6)
        What is known of each layer, "unused" and the wall: see `Count`.
    pes : int32, shape (PEs,)
        PEs of each layer, one layer after the other.
    around : int32, shape (8,)
        What leads from a PE to those around it, clockwise; the even ones are its neighbours.
    edges : int32, shape (edges, 2)
        See `Edge`.
    linked : int32, shape (2 * edges,)
        Edges of each consumer, then those of each producer.
    distance : int32, shape (edges, PEs with the wall)
        Hops from the edge's producer, for the PEs of its consumer.
    stack : int32, shape (PEs,)
        Scratch.
    undo : int32, shape (n, 3)
        The distances that a move has changed, as they were: see `Undo`.
    best : int32, shape (PEs with the wall,)
        Layers in the best placement so far.
    totals : int64, shape (3,)
        See `Total`.
    """

    cells: Table
    per_layer: Table
    pes: Table
    around: Table
    edges: Table
    linked: Table
    distance: Table
    stack: Table
    undo: Table
    best: Table
    totals: NDArray[np.int64]


@inner
def _below(n):
    """Return a random integer from 0 to n - 1."""
    return int(np.random.random() * n)  # noqa: NPY002  (what compiled code has)


@inner
def _touches(cells, around, pe, layer):
    """Whether a neighbour of a PE computes a layer."""
    found = False
    for side in range(0, 8, 2):
        found |= cells[pe + around[side], Cell.LAYER] == layer
    return found


@inner
def _holds_without(cells, around, pe, layer):
    """Whether the neighbours of a PE that compute a layer, at least one, are connected around it."""
    groups = 0
    for side in range(0, 8, 2):
        if cells[pe + around[side], Cell.LAYER] == layer:
            groups += 1
            corner, turned = pe + around[side + 1], pe + around[(side + 2) % 8]
            if cells[corner, Cell.LAYER] == layer and cells[turned, Cell.LAYER] == layer:
                groups -= 1
    return groups == 1


@inner
def _connected(cells, around, stack, mark, pe, layer, size):
    """Whether the PEs of a layer are connected; one of them is given."""
    cells[pe, Cell.MARK] = mark
    stack[0] = pe
    waiting, reached = 1, 0
    while waiting > 0:
        waiting -= 1
        pe = stack[waiting]
        reached += 1
        for side in range(0, 8, 2):
            other = pe + around[side]
            if cells[other, Cell.LAYER] == layer and cells[other, Cell.MARK] != mark:
                cells[other, Cell.MARK] = mark
                stack[waiting] = other
                waiting += 1
    return reached == size


@inner
def _nearest(cells, around, pe, layer, least):
    """Return the hops from a PE to the nearest one of a layer, known to be at least `least`."""
    if least == 1 and _touches(cells, around, pe, layer):
        return 1
    last, row, column = cells.shape[0] - 1, cells[pe, Cell.ROW], cells[pe, Cell.COLUMN]
    rows, columns = cells[last, Cell.ROW], cells[last, Cell.COLUMN]  # of the wall's last corner
    hops = least
    while True:
        for down in range(max(-hops, -row), min(hops, rows - 1 - row) + 1):
            right = hops - abs(down)
            at = pe + down * around[4]
            if column + right < columns and cells[at + right, Cell.LAYER] == layer:
                return hops
            if column >= right and cells[at - right, Cell.LAYER] == layer:
                return hops
        hops += 1


@inner
def _assign(cells, per_layer, around, pe, layer):
    """Let a PE compute another layer; count contacts and PEs on the border."""
    before = cells[pe, Cell.LAYER]
    for side in range(0, 8, 2):
        other = cells[pe + around[side], Cell.LAYER]
        if abs(other - before) == 1:
            per_layer[min(other, before), Count.CONTACTS] -= 1
        if abs(other - layer) == 1:
            per_layer[min(other, layer), Count.CONTACTS] += 1
    per_layer[before, Count.AT_BORDER] -= cells[pe, Cell.ON_BORDER]
    per_layer[layer, Count.AT_BORDER] += cells[pe, Cell.ON_BORDER]
    cells[pe, Cell.LAYER] = layer


@inner
def _swap(cells, pes, pe, other):
    """Let two PEs change places in the list."""
    here, there = cells[pe, Cell.INDEX], cells[other, Cell.INDEX]
    pes[here], pes[there] = other, pe
    cells[pe, Cell.INDEX], cells[other, Cell.INDEX] = there, here


@inner
def _sort_in(cells, per_layer, pes, around, pe):
    """Put a PE among those of its layer that may leave it, or among the others."""
    layer, unused = cells[pe, Cell.LAYER], per_layer.shape[0] - 2
    if layer > unused:
        return
    alone = per_layer[layer + 1, Count.FIRST] - per_layer[layer, Count.FIRST] == 1
    may_leave = layer == unused or alone or _holds_without(cells, around, pe, layer)
    end = per_layer[layer, Count.FIRST] + per_layer[layer, Count.MOVABLE]
    if may_leave and cells[pe, Cell.INDEX] >= end:
        per_layer[layer, Count.MOVABLE] += 1
        _swap(cells, pes, pe, pes[end])
    elif not may_leave and cells[pe, Cell.INDEX] < end:
        per_layer[layer, Count.MOVABLE] -= 1
        _swap(cells, pes, pe, pes[end - 1])


@inner
def _draw(per_layer, pes, layer):
    """Return a random PE of a layer that may leave it, -1 if there is none."""
    first, movable = per_layer[layer, Count.FIRST], per_layer[layer, Count.MOVABLE]
    if _below(ANY_PE) == 0:
        return pes[first + _below(per_layer[layer + 1, Count.FIRST] - first)]
    return pes[first + _below(movable)] if movable > 0 else -1


@inner
def _propose(cells, per_layer, pes, around, moved, layers):
    """Draw a move: PEs, each of which goes to the layer of the next one; return how many, 0 for none."""
    unused = per_layer.shape[0] - 2
    layers[0] = cells[pes[_below(pes.shape[0])], Cell.LAYER]
    moved[0] = _draw(per_layer, pes, layers[0])
    for n in range(1, LONGEST):
        if moved[n - 1] < 0:
            return 0
        layer = cells[moved[n - 1] + around[2 * _below(4)], Cell.LAYER]
        if layer > unused:
            return 0
        for i in range(n):
            if layers[i] == layer:
                return 0
        layers[n] = layer
        moved[n] = _draw(per_layer, pes, layer)
        if moved[n] >= 0 and (layers[0] == unused or _touches(cells, around, moved[n], layers[0])):
            return n + 1
    return 0


@inner
def _exchange(cells, per_layer, pes, around, pe, other):
    """Let two PEs compute what the other one does."""
    here, there = cells[pe, Cell.LAYER], cells[other, Cell.LAYER]
    _assign(cells, per_layer, around, pe, there)
    _assign(cells, per_layer, around, other, here)
    _swap(cells, pes, pe, other)


@inner
def _allowed(cells, per_layer, around, stack, totals, moved, layers, n):
    """Whether a move that was carried out has kept every rule."""
    for i in range(n):
        layer = layers[i]
        if layer == per_layer.shape[0] - 2:
            continue
        if per_layer[layer, Count.CONTACTS] == 0 or per_layer[layer, Count.AT_BORDER] == 0:
            return False
        if layer > 0 and per_layer[layer - 1, Count.CONTACTS] == 0:
            return False
        size = per_layer[layer + 1, Count.FIRST] - per_layer[layer, Count.FIRST]
        came = moved[(i + n - 1) % n]
        if size == 1:
            continue
        if not _touches(cells, around, came, layer):
            return False
        if not _holds_without(cells, around, moved[i], layer):
            totals[Total.MARKS] += 1
            if not _connected(cells, around, stack, totals[Total.MARKS], came, layer, size):
                return False
    return True


@inner
def _note(undo, changes, edge, pe, hops):
    """Remember a distance before it changes; return how many changes are remembered."""
    undo[changes, Undo.EDGE], undo[changes, Undo.PE], undo[changes, Undo.HOPS] = edge, pe, hops
    return changes + 1


@inner
def _measure_arrival(state, changes, layer, came, went):
    """Update the distances of a layer's new PE, instead of the old one, from all producers.

    Returns
    -------
    more, changes
        By how much distances have grown, and how many changes are remembered.
    """
    per_layer, distance = state.per_layer, state.distance
    more = 0
    for k in range(per_layer[layer, Count.INWARD], per_layer[layer + 1, Count.INWARD]):
        edge = state.linked[k]
        hops = _nearest(state.cells, state.around, came, state.edges[edge, Edge.PRODUCER], 1)
        more += hops - distance[edge, went]
        changes = _note(state.undo, changes, edge, came, distance[edge, came])
        distance[edge, came] = hops
    return more, changes


@inner
def _measure_consumers(state, changes, layer, came, went):
    """Update the distances of the consumers of a layer that has got one PE and lost another one.

    Returns
    -------
    more, changes
        By how much distances have grown, and how many changes are remembered.
    """
    cells, per_layer, distance = state.cells, state.per_layer, state.distance
    more = 0
    row, column = cells[came, Cell.ROW], cells[came, Cell.COLUMN]
    old_row, old_column = cells[went, Cell.ROW], cells[went, Cell.COLUMN]
    for k in range(per_layer[layer, Count.OUTWARD], per_layer[layer + 1, Count.OUTWARD]):
        edge = state.linked[k]
        consumer = state.edges[edge, Edge.CONSUMER]
        for at in range(per_layer[consumer, Count.FIRST], per_layer[consumer + 1, Count.FIRST]):
            pe = state.pes[at]
            before = distance[edge, pe]
            hops = abs(cells[pe, Cell.ROW] - row) + abs(cells[pe, Cell.COLUMN] - column)
            if hops > before:
                if abs(cells[pe, Cell.ROW] - old_row) + abs(cells[pe, Cell.COLUMN] - old_column) > before:
                    continue  # the PE that is lost was not the nearest one
                hops = _nearest(cells, state.around, pe, layer, before)
            if hops != before:
                more += hops - before
                changes = _note(state.undo, changes, edge, pe, before)
                distance[edge, pe] = hops
    return more, changes


@inner
def _measure(state, moved, layers, n):
    """Update distances after a move; return by how much they have grown and how many have changed."""
    total, changes = 0, 0
    for i in range(n):
        more, changes = _measure_arrival(state, changes, layers[i], moved[(i + n - 1) % n], moved[i])
        total += more
    for i in range(n):
        more, changes = _measure_consumers(state, changes, layers[i], moved[(i + n - 1) % n], moved[i])
        total += more
    return total, changes


@kernel()
def seed(number):
    """Seed the random choices of compiled code in this thread."""
    np.random.seed(number)  # noqa: NPY002


@kernel()
def sort_in_all(state):
    """Find out which PEs may leave their layers."""
    cells, per_layer, pes, around = state.cells, state.per_layer, state.pes, state.around
    for pe in state.pes.copy():
        _sort_in(cells, per_layer, pes, around, pe)


@kernel(nogil=True)
def anneal(state, moves, temperature):
    """Try a number of moves and keep the best placement.

    Parameters
    ----------
    state : State
    moves : int
    temperature : float
        In hops.
    """
    cells, per_layer, pes, around = state.cells, state.per_layer, state.pes, state.around
    distance, undo, totals = state.distance, state.undo, state.totals
    moved, layers = np.empty(LONGEST, np.int64), np.empty(LONGEST, np.int64)
    for _ in range(moves):
        n = _propose(cells, per_layer, pes, around, moved, layers)
        if n == 0:
            continue
        for i in range(n - 1):
            _exchange(cells, per_layer, pes, around, moved[i], moved[i + 1])
        more, changes = 0, 0
        accepted = _allowed(cells, per_layer, around, state.stack, totals, moved, layers, n)
        if accepted:
            more, changes = _measure(state, moved, layers, n)
            accepted = more <= -temperature * math.log(1.0 - np.random.random())  # noqa: NPY002
        if not accepted:
            for i in range(changes - 1, -1, -1):
                distance[undo[i, Undo.EDGE], undo[i, Undo.PE]] = undo[i, Undo.HOPS]
            for i in range(n - 2, -1, -1):
                _exchange(cells, per_layer, pes, around, moved[i], moved[i + 1])
            continue
        for i in range(n):
            _sort_in(cells, per_layer, pes, around, moved[i])
            for k in range(8):
                _sort_in(cells, per_layer, pes, around, moved[i] + around[k])
        totals[Total.HOPS] += more
        if totals[Total.HOPS] < totals[Total.BEST]:
            totals[Total.BEST] = totals[Total.HOPS]
            for pe in pes:
                state.best[pe] = cells[pe, Cell.LAYER]


def build(
    shape: tuple[int, int],
    regions: Sequence[Sequence[tuple[int, int]]],
    edges: Sequence[tuple[int, int]],
    border: Collection[int],
) -> PlacementState:
    """Lay out a valid placement for the kernel.

    Parameters
    ----------
    shape
        Rows and columns of the array.
    regions
        PEs of each layer.
    edges
        Producer and consumer of each.
    border
        Layers that must reach the array's border.
    """
    (rows, columns), unused = shape, len(regions)
    walled = np.full((rows + 2, columns + 2), unused + 1, np.int32)
    walled[1:-1, 1:-1] = unused
    for layer, region in enumerate(regions):
        walled[tuple(np.array(region).T + 1)] = layer
    layers, width = walled.ravel(), columns + 2
    pes = np.argsort(layers, kind="stable")[: rows * columns].astype(np.int32)
    cells = _cells(walled, pes, unused)
    ends = np.array(edges, np.int32).reshape(-1, 2)
    distance = _distances(cells, ends)
    state = PlacementState(
        cells=cells,
        per_layer=_counts(walled, cells, pes, ends, border),
        pes=pes,
        around=np.array([-width, 1 - width, 1, width + 1, width, width - 1, -1, -width - 1], np.int32),
        edges=ends,
        linked=np.argsort(ends, axis=0, kind="stable")[:, ::-1].T.ravel().astype(np.int32),
        distance=distance,
        stack=np.zeros(len(pes), np.int32),
        undo=np.zeros((sum(len(regions[consumer]) + 1 for _, consumer in edges), len(Undo)), np.int32),
        best=layers.copy(),
        totals=np.array([distance.sum(), distance.sum(), 0], np.int64),
    )
    sort_in_all(state)
    return state


def _cells(walled: Table, pes: Table, unused: int) -> Table:
    """Return `State.cells` for an array with its wall that holds the layer of each PE."""
    layers = walled.ravel()
    cells = np.zeros((walled.size, len(Cell)), np.int32)
    cells[:, Cell.LAYER] = layers
    cells[:, Cell.ROW], cells[:, Cell.COLUMN] = (axis.ravel() - 1 for axis in np.indices(walled.shape))
    cells[pes, Cell.INDEX] = np.arange(len(pes))
    inside = np.zeros(walled.shape, np.bool_)
    inside[2:-2, 2:-2] = True
    cells[:, Cell.ON_BORDER] = (layers <= unused) & ~inside.ravel()
    return cells


def _counts(walled: Table, cells: Table, pes: Table, ends: Table, border: Collection[int]) -> Table:
    """Return `State.per_layer`, but for what `sort_in_all` counts."""
    layers, wall = walled.ravel(), int(walled[0, 0])
    unused = wall - 1
    counts = np.zeros((wall + 1, len(Count)), np.int32)
    counts[:, Count.FIRST] = np.searchsorted(layers[pes], np.arange(wall + 1))
    counts[:wall, Count.AT_BORDER] = np.bincount(layers, cells[:, Cell.ON_BORDER], wall + 1)[:wall]
    counts[[layer for layer in range(wall) if layer not in border], Count.AT_BORDER] += PLENTY
    counts[unused - 1 :, Count.CONTACTS] = PLENTY
    for these, others in ((walled[1:], walled[:-1]), (walled[:, 1:], walled[:, :-1])):
        np.add.at(counts[:, Count.CONTACTS], np.minimum(these, others)[np.abs(these - others) == 1], 1)
    for column, end, offset in (
        (Count.INWARD, Edge.CONSUMER, 0),
        (Count.OUTWARD, Edge.PRODUCER, len(ends)),
    ):
        counts[:, column] = np.searchsorted(np.sort(ends[:, end]), np.arange(wall + 1)) + offset
    return counts


def _distances(cells: Table, ends: Table) -> Table:
    """Return `State.distance`."""
    layers, positions = cells[:, Cell.LAYER], cells[:, [Cell.ROW, Cell.COLUMN]]
    distance = np.zeros((len(ends), len(cells)), np.int32)
    for edge, (producer, consumer) in enumerate(ends):
        here, there = np.flatnonzero(layers == producer), np.flatnonzero(layers == consumer)
        apart = np.abs(positions[here][:, None] - positions[there])
        distance[edge, there] = apart.sum(axis=2).min(axis=0)
    return distance


def regions(state: PlacementState) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return the PEs of each layer in the best placement."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(len(state.per_layer) - 2)]
    for pe in np.flatnonzero(state.best < len(found)):
        found[state.best[pe]].append((int(state.cells[pe, Cell.ROW]), int(state.cells[pe, Cell.COLUMN])))
    return tuple(tuple(region) for region in found)
