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
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

inner = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""For functions that only compiled ones call: without the ways in from Python they compile faster."""

LAYER, ROW, COLUMN, PLACE, ON_BORDER, MARK = range(6)
"""Columns of `State.pe`; the last one is scratch."""

FIRST, MOVABLE, CONTACTS, AT_BORDER, INWARD, OUTWARD = range(6)
"""Columns of `State.of`."""

PRODUCER, CONSUMER = range(2)
"""Columns of `State.edges`."""

HOPS, BEST, MARKS = range(3)
"""Places of `State.totals`: hops of the present placement, of the best one, and how often PEs were marked."""

LONGEST = 5
"""Most layers that exchange PEs in one move."""

ANY_PE = 32
"""One in so many PEs is drawn without asking its neighbourhood whether it can leave its layer."""

PLENTY = 2**30
"""Contacts and PEs on the border of layers that need none."""

Table = NDArray[np.int32]


class State(NamedTuple):
    """A placement under change; all arrays are changed in place.

    Attributes
    ----------
    pe : int32, shape (PEs with the wall, 6)
        Of each PE: layer ("unused" and the wall come after the layers), row, column, where it stands in
        `pes`, whether it is on the border.
    of : int32, shape (layers + 2, 6)
        Of each layer and "unused": where its PEs begin in `pes`, how many of them come first because their
        neighbourhood lets them leave, pairs of neighbours with the next layer, PEs on the border, where its
        edges begin in `linked` as a consumer and as a producer.
    pes : int32, shape (PEs,)
        PEs of each layer.
    around : int32, shape (8,)
        What leads from a PE to those around it, clockwise; the even ones are its neighbours.
    edges : int32, shape (edges, 2)
        Producer and consumer.
    linked : int32, shape (2 * edges,)
        Edges of each consumer, then those of each producer.
    distance : int32, shape (edges, PEs with the wall)
        Hops from the edge's producer, for the PEs of its consumer.
    stack : int32, shape (PEs,)
        Scratch.
    undo : int32, shape (n, 3)
        Edge, PE and former value of the distances that a move has changed.
    best : int32, shape (PEs with the wall,)
        Layers in the best placement so far.
    totals : int64, shape (3,)
        See the constants above.
    """

    pe: Table
    of: Table
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
    return int(np.random.random() * n)  # noqa: NPY002  (what compiled code has)


@inner
def _touches(pe, around, one, layer):
    """Whether a neighbour of a PE computes a layer."""
    found = False
    for side in range(0, 8, 2):
        found |= pe[one + around[side], LAYER] == layer
    return found


@inner
def _holds_without(pe, around, one, layer):
    """Whether the neighbours of a PE that compute a layer, at least one, are connected around it."""
    groups = 0
    for side in range(0, 8, 2):
        if pe[one + around[side], LAYER] == layer:
            groups += 1
            corner, turned = one + around[side + 1], one + around[(side + 2) % 8]
            if pe[corner, LAYER] == layer and pe[turned, LAYER] == layer:
                groups -= 1
    return groups == 1


@inner
def _connected(pe, around, stack, mark, one, layer, size):
    """Whether the PEs of a layer are connected; one of them is given."""
    pe[one, MARK] = mark
    stack[0] = one
    waiting, reached = 1, 0
    while waiting > 0:
        waiting -= 1
        one = stack[waiting]
        reached += 1
        for side in range(0, 8, 2):
            other = one + around[side]
            if pe[other, LAYER] == layer and pe[other, MARK] != mark:
                pe[other, MARK] = mark
                stack[waiting] = other
                waiting += 1
    return reached == size


@inner
def _nearest(pe, around, one, layer, least):
    """Return the hops from a PE to the nearest one of a layer, known to be at least so many."""
    if least == 1 and _touches(pe, around, one, layer):
        return 1
    last, row, column = pe.shape[0] - 1, pe[one, ROW], pe[one, COLUMN]
    rows, columns = pe[last, ROW], pe[last, COLUMN]  # of the wall's last corner
    hops = least
    while True:
        for down in range(max(-hops, -row), min(hops, rows - 1 - row) + 1):
            right = hops - abs(down)
            at = one + down * around[4]
            if column + right < columns and pe[at + right, LAYER] == layer:
                return hops
            if column >= right and pe[at - right, LAYER] == layer:
                return hops
        hops += 1


@inner
def _assign(pe, of, around, one, layer):
    """Let a PE compute another layer; count contacts and PEs on the border."""
    before = pe[one, LAYER]
    for side in range(0, 8, 2):
        other = pe[one + around[side], LAYER]
        if abs(other - before) == 1:
            of[min(other, before), CONTACTS] -= 1
        if abs(other - layer) == 1:
            of[min(other, layer), CONTACTS] += 1
    of[before, AT_BORDER] -= pe[one, ON_BORDER]
    of[layer, AT_BORDER] += pe[one, ON_BORDER]
    pe[one, LAYER] = layer


@inner
def _swap(pe, pes, one, other):
    """Let two PEs change places in the list."""
    here, there = pe[one, PLACE], pe[other, PLACE]
    pes[here], pes[there] = other, one
    pe[one, PLACE], pe[other, PLACE] = there, here


@inner
def _sort_in(pe, of, pes, around, one):
    """Put a PE among those of its layer that may leave it, or among the others."""
    layer, unused = pe[one, LAYER], of.shape[0] - 2
    if layer > unused:
        return
    alone = of[layer + 1, FIRST] - of[layer, FIRST] == 1
    may_leave = layer == unused or alone or _holds_without(pe, around, one, layer)
    end = of[layer, FIRST] + of[layer, MOVABLE]
    if may_leave and pe[one, PLACE] >= end:
        of[layer, MOVABLE] += 1
        _swap(pe, pes, one, pes[end])
    elif not may_leave and pe[one, PLACE] < end:
        of[layer, MOVABLE] -= 1
        _swap(pe, pes, one, pes[end - 1])


@inner
def _draw(of, pes, layer):
    """Return a random PE of a layer that may leave it, -1 if there is none."""
    first, movable = of[layer, FIRST], of[layer, MOVABLE]
    if _below(ANY_PE) == 0:
        return pes[first + _below(of[layer + 1, FIRST] - first)]
    return pes[first + _below(movable)] if movable > 0 else -1


@inner
def _propose(pe, of, pes, around, moved, layers):
    """Draw a move: PEs, each of which goes to the layer of the next one; return how many, 0 for none."""
    unused = of.shape[0] - 2
    layers[0] = pe[pes[_below(pes.shape[0])], LAYER]
    moved[0] = _draw(of, pes, layers[0])
    for n in range(1, LONGEST):
        if moved[n - 1] < 0:
            return 0
        layer = pe[moved[n - 1] + around[2 * _below(4)], LAYER]
        if layer > unused:
            return 0
        for i in range(n):
            if layers[i] == layer:
                return 0
        layers[n] = layer
        moved[n] = _draw(of, pes, layer)
        if moved[n] >= 0 and (layers[0] == unused or _touches(pe, around, moved[n], layers[0])):
            return n + 1
    return 0


@inner
def _exchange(pe, of, pes, around, one, other):
    """Let two PEs compute what the other one does."""
    here, there = pe[one, LAYER], pe[other, LAYER]
    _assign(pe, of, around, one, there)
    _assign(pe, of, around, other, here)
    _swap(pe, pes, one, other)


@inner
def _allowed(pe, of, around, stack, totals, moved, layers, n):
    """Whether a move that was carried out has kept every rule."""
    for i in range(n):
        layer = layers[i]
        if layer == of.shape[0] - 2:
            continue
        if of[layer, CONTACTS] == 0 or of[layer, AT_BORDER] == 0:
            return False
        if layer > 0 and of[layer - 1, CONTACTS] == 0:
            return False
        size = of[layer + 1, FIRST] - of[layer, FIRST]
        came = moved[(i + n - 1) % n]
        if size == 1:
            continue
        if not _touches(pe, around, came, layer):
            return False
        if not _holds_without(pe, around, moved[i], layer):
            totals[MARKS] += 1
            if not _connected(pe, around, stack, totals[MARKS], came, layer, size):
                return False
    return True


@inner
def _travel(pe, of, pes, around, edges, linked, distance, undo, moved, layers, n):
    """Update distances after a move; return by how much they have grown and how many have changed."""
    more, changes = 0, 0
    for i in range(n):
        came = moved[(i + n - 1) % n]
        for k in range(of[layers[i], INWARD], of[layers[i] + 1, INWARD]):
            edge = linked[k]
            hops = _nearest(pe, around, came, edges[edge, PRODUCER], 1)
            more += hops - distance[edge, moved[i]]
            undo[changes, 0], undo[changes, 1], undo[changes, 2] = edge, came, distance[edge, came]
            changes += 1
            distance[edge, came] = hops
    for i in range(n):
        came, went = moved[(i + n - 1) % n], moved[i]
        row, column, old_row, old_column = pe[came, ROW], pe[came, COLUMN], pe[went, ROW], pe[went, COLUMN]
        for k in range(of[layers[i], OUTWARD], of[layers[i] + 1, OUTWARD]):
            edge = linked[k]
            consumer = edges[edge, CONSUMER]
            for at in range(of[consumer, FIRST], of[consumer + 1, FIRST]):
                one = pes[at]
                before = distance[edge, one]
                hops = abs(pe[one, ROW] - row) + abs(pe[one, COLUMN] - column)
                if hops > before:
                    if abs(pe[one, ROW] - old_row) + abs(pe[one, COLUMN] - old_column) > before:
                        continue
                    hops = _nearest(pe, around, one, layers[i], before)
                if hops != before:
                    more += hops - before
                    undo[changes, 0], undo[changes, 1], undo[changes, 2] = edge, one, before
                    changes += 1
                    distance[edge, one] = hops
    return more, changes


@njit(cache=True)
def seed(number):
    """Seed the random choices of compiled code in this thread."""
    np.random.seed(number)  # noqa: NPY002


@njit(cache=True)
def sort_in_all(state):
    """Find out which PEs may leave their layers."""
    pe, of, pes, around = state.pe, state.of, state.pes, state.around
    for one in state.pes.copy():
        _sort_in(pe, of, pes, around, one)


@njit(cache=True, nogil=True)
def anneal(state, moves, temperature):
    """Try a number of moves and keep the best placement.

    Parameters
    ----------
    state : State
    moves : int
    temperature : float
        In hops.
    """
    pe, of, pes, around, edges = state.pe, state.of, state.pes, state.around, state.edges
    linked, distance, undo, totals = state.linked, state.distance, state.undo, state.totals
    moved, layers = np.empty(LONGEST, np.int64), np.empty(LONGEST, np.int64)
    for _ in range(moves):
        n = _propose(pe, of, pes, around, moved, layers)
        if n == 0:
            continue
        for i in range(n - 1):
            _exchange(pe, of, pes, around, moved[i], moved[i + 1])
        more, changes = 0, 0
        accepted = _allowed(pe, of, around, state.stack, totals, moved, layers, n)
        if accepted:
            more, changes = _travel(pe, of, pes, around, edges, linked, distance, undo, moved, layers, n)
            accepted = more <= -temperature * math.log(1.0 - np.random.random())  # noqa: NPY002
        if not accepted:
            for i in range(changes - 1, -1, -1):
                distance[undo[i, 0], undo[i, 1]] = undo[i, 2]
            for i in range(n - 2, -1, -1):
                _exchange(pe, of, pes, around, moved[i], moved[i + 1])
            continue
        for i in range(n):
            _sort_in(pe, of, pes, around, moved[i])
            for k in range(8):
                _sort_in(pe, of, pes, around, moved[i] + around[k])
        totals[HOPS] += more
        if totals[HOPS] < totals[BEST]:
            totals[BEST] = totals[HOPS]
            for one in pes:
                state.best[one] = pe[one, LAYER]


def build(
    shape: tuple[int, int],
    regions: Sequence[Sequence[tuple[int, int]]],
    edges: Sequence[tuple[int, int]],
    border: Collection[int],
) -> State:
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
    layers = walled.ravel()
    pes = np.argsort(layers, kind="stable")[: rows * columns]
    pe = np.zeros((walled.size, 6), np.int32)
    pe[:, LAYER] = layers
    pe[:, ROW], pe[:, COLUMN] = (place.ravel() - 1 for place in np.indices(walled.shape))
    pe[pes, PLACE] = np.arange(len(pes))
    inside = np.zeros(walled.shape, np.bool_)
    inside[2:-2, 2:-2] = True
    pe[:, ON_BORDER] = (layers <= unused) & ~inside.ravel()

    ends = np.array(edges, np.int32).reshape(-1, 2)
    of = np.zeros((unused + 2, 6), np.int32)
    of[:, FIRST] = np.searchsorted(layers[pes], np.arange(unused + 2))
    of[: unused + 1, AT_BORDER] = np.bincount(layers, pe[:, ON_BORDER], unused + 2)[: unused + 1]
    of[[layer for layer in range(unused + 1) if layer not in border], AT_BORDER] += PLENTY
    of[unused - 1 :, CONTACTS] = PLENTY
    for one, other in ((walled[1:], walled[:-1]), (walled[:, 1:], walled[:, :-1])):
        np.add.at(of[:, CONTACTS], np.minimum(one, other)[np.abs(one - other) == 1], 1)
    of[:, INWARD] = np.searchsorted(np.sort(ends[:, CONSUMER]), np.arange(unused + 2))
    of[:, OUTWARD] = np.searchsorted(np.sort(ends[:, PRODUCER]), np.arange(unused + 2)) + len(ends)

    distance = np.zeros((len(ends), walled.size), np.int32)
    for edge, (producer, consumer) in enumerate(ends):
        here, there = np.flatnonzero(layers == producer), np.flatnonzero(layers == consumer)
        apart = np.abs(pe[here, ROW : COLUMN + 1][:, None] - pe[there, ROW : COLUMN + 1])
        distance[edge, there] = apart.sum(axis=2).min(axis=0)
    width = columns + 2
    state = State(
        pe=pe,
        of=of,
        pes=pes.astype(np.int32),
        around=np.array([-width, 1 - width, 1, width + 1, width, width - 1, -1, -width - 1], np.int32),
        edges=ends,
        linked=np.argsort(ends, axis=0, kind="stable")[:, ::-1].T.ravel().astype(np.int32),
        distance=distance,
        stack=np.zeros(len(pes), np.int32),
        undo=np.zeros((sum(len(regions[consumer]) + 1 for _, consumer in edges), 3), np.int32),
        best=layers.copy(),
        totals=np.array([distance.sum(), distance.sum(), 0], np.int64),
    )
    sort_in_all(state)
    return state


def regions(state: State) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return the PEs of each layer in the best placement."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(len(state.of) - 2)]
    for one in np.flatnonzero(state.best < len(found)):
        found[state.best[one]].append((int(state.pe[one, ROW]), int(state.pe[one, COLUMN])))
    return tuple(tuple(region) for region in found)
