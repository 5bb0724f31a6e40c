"""The compiled kernel of simulated annealing over placements that keep every rule.

The array has a wall around it and its PEs are numbered row by row with the wall. What no layer uses is one more
layer, "unused", which may be in pieces. A move hands PEs around a ring of layers: each gives one and takes one.
"""

# Numba infers the types of compiled functions; docstrings state them where it matters.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

inner = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""For functions that only compiled ones call: without the ways in from Python they compile faster."""

HOPS, BEST = range(2)
"""Places of `State.totals`: hops of the present placement and of the best so far."""

LONGEST = 4
"""Most layers that exchange PEs in one move."""

ANY_PE = 32
"""One in so many PEs is drawn without asking whether its neighbourhood says that it can go."""

Layers = NDArray[np.int32]


class State(NamedTuple):
    """A placement under change; all arrays are changed in place.

    Attributes
    ----------
    layer : int32, shape (PEs with the wall,)
        Layer of each PE; after the layers come "unused" and the wall.
    best : int32, shape (PEs with the wall,)
        The best placement so far.
    row, column : int32, shape (PEs with the wall,)
    around : int32, shape (8,)
        What leads from a PE to those around it, clockwise; the even ones are its neighbours.
    pes : int32, shape (PEs,)
        PEs of each layer, those that may leave it first, then those of the next layer.
    place : int32, shape (PEs with the wall,)
        Where in `pes` each PE stands.
    first : int32, shape (layers + 2,)
        Where in `pes` each layer begins.
    movable : int32, shape (layers + 1,)
        How many PEs of each layer may leave it, as far as their neighbourhood tells.
    contacts : int32, shape (layers + 1,)
        Pairs of neighbours of which one computes a layer and the other the next one; the last one counts nothing.
    on_border : bool, shape (PEs with the wall,)
    at_border : int32, shape (layers + 1,)
        PEs of each layer on the border; a large number more for layers that need none.
    edges : int32, shape (edges, 2)
        Producer and consumer.
    inward, outward : int32, shape (layers + 2 + edges,)
        Edges of each consumer and of each producer: where its own begin, for each layer, then all of them.
    distance : int32, shape (edges, PEs with the wall)
        Hops from the edge's producer, for the PEs of its consumer.
    mark : int64, shape (PEs with the wall,)
        Scratch of `_connected`; the first entry is the current mark.
    stack : int32, shape (PEs with the wall,)
        Scratch of `_connected`.
    undo : int32, shape (n, 3)
        Edge, PE and former value of distances that a move has changed.
    totals : int64, shape (2,)
        See the constants above.
    """

    layer: Layers
    best: Layers
    row: Layers
    column: Layers
    around: Layers
    pes: Layers
    place: Layers
    first: Layers
    movable: Layers
    contacts: Layers
    on_border: NDArray[np.bool_]
    at_border: Layers
    edges: Layers
    inward: Layers
    outward: Layers
    distance: Layers
    mark: NDArray[np.int64]
    stack: Layers
    undo: Layers
    totals: NDArray[np.int64]


@inner
def _below(n):
    return int(np.random.random() * n)  # noqa: NPY002  (what compiled code has)


@inner
def _touches(layer, around, pe, of):
    """Whether a neighbour of a PE computes a layer."""
    for side in range(0, 8, 2):
        if layer[pe + around[side]] == of:
            return True
    return False


@inner
def _holds_without(layer, around, pe, of):
    """Whether the PEs of a layer around one are connected without it, and there are some."""
    groups = 0
    for side in range(0, 8, 2):
        if layer[pe + around[side]] == of:
            groups += 1
            if layer[pe + around[(side + 2) % 8]] == of and layer[pe + around[side + 1]] == of:
                groups -= 1
    return groups == 1


@inner
def _connected(layer, around, mark, stack, pe, of, size):
    """Whether a layer's PEs are connected; one of them is given."""
    mark[0] += 1
    mark[pe] = mark[0]
    stack[0] = pe
    waiting, reached = 1, 0
    while waiting > 0:
        waiting -= 1
        pe = stack[waiting]
        reached += 1
        for side in range(0, 8, 2):
            other = pe + around[side]
            if layer[other] == of and mark[other] != mark[0]:
                mark[other] = mark[0]
                stack[waiting] = other
                waiting += 1
    return reached == size


@inner
def _nearest(layer, row, column, around, pe, of, least):
    """Return the hops from a PE to the nearest of a layer, which are known to be at least so many."""
    if least == 1 and _touches(layer, around, pe, of):
        return 1
    width = around[4]
    rows, columns = row[-1], column[-1]  # of the wall's last corner: one more than the last of the array
    hops = least
    while True:
        for down in range(max(-hops, -row[pe]), min(hops, rows - 1 - row[pe]) + 1):
            right = hops - abs(down)
            at = pe + down * width
            if column[pe] + right < columns and layer[at + right] == of:
                return hops
            if column[pe] >= right and layer[at - right] == of:
                return hops
        hops += 1


@inner
def _assign(layer, around, contacts, on_border, at_border, pe, new):
    """Let a PE compute another layer; count contacts and PEs on the border."""
    old = layer[pe]
    for side in range(0, 8, 2):
        other = layer[pe + around[side]]
        if abs(other - old) == 1:
            contacts[min(other, old)] -= 1
        if abs(other - new) == 1:
            contacts[min(other, new)] += 1
    if on_border[pe]:
        at_border[old] -= 1
        at_border[new] += 1
    layer[pe] = new


@inner
def _draw(pes, first, movable, of):
    """Return a random PE of a layer that may leave it, -1 if there is none."""
    if _below(ANY_PE) == 0:
        return pes[first[of] + _below(first[of + 1] - first[of])]
    if movable[of] == 0:
        return -1
    return pes[first[of] + _below(movable[of])]


@inner
def _swap(pes, place, one, other):
    """Let two PEs change places in the list."""
    at, there = place[one], place[other]
    pes[at], pes[there] = other, one
    place[one], place[other] = there, at


@inner
def _sort_in(layer, around, pes, place, first, movable, pe):
    """Put a PE among those of its layer that may leave it, or among the others."""
    of, unused = layer[pe], movable.shape[0] - 1
    if of > unused:
        return
    alone = first[of + 1] - first[of] == 1
    may_leave = of == unused or alone or _holds_without(layer, around, pe, of)
    end = first[of] + movable[of]
    if may_leave and place[pe] >= end:
        movable[of] += 1
        _swap(pes, place, pe, pes[end])
    elif not may_leave and place[pe] < end:
        movable[of] -= 1
        _swap(pes, place, pe, pes[end - 1])


@inner
def _propose(layer, around, pes, first, movable, moved, layers):
    """Draw a move: PEs, each of which goes to the layer of the next one; return how many, 0 for none."""
    unused = movable.shape[0] - 1
    layers[0] = layer[pes[_below(pes.shape[0])]]
    moved[0] = _draw(pes, first, movable, layers[0])
    for n in range(1, LONGEST):
        if moved[n - 1] < 0:
            return 0
        to = layer[moved[n - 1] + around[2 * _below(4)]]
        if to > unused or (n == 1 and to == unused):
            return 0
        for i in range(n):
            if layers[i] == to:
                return 0
        layers[n] = to
        moved[n] = _draw(pes, first, movable, to)
        if moved[n] >= 0 and (layers[0] == unused or _touches(layer, around, moved[n], layers[0])):
            return n + 1
    return 0


@inner
def _exchange(s, moved, n, back):
    """Carry a move out, or take it back."""
    for i in range(n - 1):
        one = n - 2 - i if back else i
        a, b = moved[one], moved[one + 1]
        of_a, of_b = s.layer[a], s.layer[b]
        _assign(s.layer, s.around, s.contacts, s.on_border, s.at_border, a, of_b)
        _assign(s.layer, s.around, s.contacts, s.on_border, s.at_border, b, of_a)
        _swap(s.pes, s.place, a, b)


@inner
def _allowed(s, moved, layers, n):
    """Whether a move that was carried out has kept every rule."""
    unused = s.movable.shape[0] - 1
    for i in range(n):
        of = layers[i]
        if of == unused:
            continue
        if s.contacts[of] == 0 or (of > 0 and s.contacts[of - 1] == 0) or s.at_border[of] == 0:
            return False
        size = s.first[of + 1] - s.first[of]
        came, went = moved[(i + n - 1) % n], moved[i]
        if size > 1 and not _touches(s.layer, s.around, came, of):
            return False
        if (
            size > 1
            and not _holds_without(s.layer, s.around, went, of)
            and not _connected(s.layer, s.around, s.mark, s.stack, came, of, size)
        ):
            return False
    return True


@inner
def _travel(s, moved, layers, n):
    """Update distances after a move; return by how much they have grown and how many have changed."""
    more, changes = 0, 0
    for i in range(n):
        of, came = layers[i], moved[(i + n - 1) % n]
        for k in range(s.inward[of], s.inward[of + 1]):
            edge = s.inward[k]
            hops = _nearest(s.layer, s.row, s.column, s.around, came, s.edges[edge, 0], 1)
            more += hops - s.distance[edge, moved[i]]
            s.undo[changes, 0], s.undo[changes, 1], s.undo[changes, 2] = edge, came, s.distance[edge, came]
            s.distance[edge, came] = hops
            changes += 1
    for i in range(n):
        of, came, went = layers[i], moved[(i + n - 1) % n], moved[i]
        for k in range(s.outward[of], s.outward[of + 1]):
            edge = s.outward[k]
            consumer = s.edges[edge, 1]
            for at in range(s.first[consumer], s.first[consumer + 1]):
                pe = s.pes[at]
                before = s.distance[edge, pe]
                hops = abs(s.row[pe] - s.row[came]) + abs(s.column[pe] - s.column[came])
                if hops > before:
                    if abs(s.row[pe] - s.row[went]) + abs(s.column[pe] - s.column[went]) > before:
                        continue
                    hops = _nearest(s.layer, s.row, s.column, s.around, pe, of, before)
                if hops != before:
                    more += hops - before
                    s.undo[changes, 0], s.undo[changes, 1], s.undo[changes, 2] = edge, pe, before
                    s.distance[edge, pe] = hops
                    changes += 1
    return more, changes


@njit(cache=True)
def seed(number):
    """Seed the random choices of compiled code in this thread."""
    np.random.seed(number)  # noqa: NPY002


@njit(cache=True)
def sort_in_all(s):
    """Find out which PEs may leave their layers."""
    for pe in range(s.place.shape[0]):
        _sort_in(s.layer, s.around, s.pes, s.place, s.first, s.movable, pe)


@njit(cache=True, nogil=True)
def anneal(s, moves, temperature):
    """Try a number of moves at a temperature, in hops; keep the best placement.

    Parameters
    ----------
    s : State
    moves : int
    temperature : float
    """
    moved, layers = np.empty(LONGEST, np.int64), np.empty(LONGEST, np.int64)
    for _ in range(moves):
        n = _propose(s.layer, s.around, s.pes, s.first, s.movable, moved, layers)
        if n == 0:
            continue
        _exchange(s, moved, n, False)
        if not _allowed(s, moved, layers, n):
            _exchange(s, moved, n, True)
            continue
        more, changes = _travel(s, moved, layers, n)
        if more > -temperature * math.log(1.0 - np.random.random()):  # noqa: NPY002
            for i in range(changes - 1, -1, -1):
                s.distance[s.undo[i, 0], s.undo[i, 1]] = s.undo[i, 2]
            _exchange(s, moved, n, True)
            continue
        for i in range(n):
            _sort_in(s.layer, s.around, s.pes, s.place, s.first, s.movable, moved[i])
            for k in range(8):
                _sort_in(s.layer, s.around, s.pes, s.place, s.first, s.movable, moved[i] + s.around[k])
        s.totals[HOPS] += more
        if s.totals[HOPS] < s.totals[BEST]:
            s.totals[BEST] = s.totals[HOPS]
            s.best[:] = s.layer


PLENTY = 2**30
"""Contacts and PEs on the border of those that need none."""


def build(
    shape: tuple[int, int],
    regions: Sequence[Sequence[tuple[int, int]]],
    edges: Sequence[tuple[int, int]],
    border: Sequence[int],
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
    unused = len(regions)
    walled = np.full((shape[0] + 2, shape[1] + 2), unused + 1, np.int32)
    walled[1:-1, 1:-1] = unused
    for of, region in enumerate(regions):
        walled[tuple(np.array(region).T + 1)] = of
    row, column = (index.astype(np.int32).ravel() - 1 for index in np.indices(walled.shape))
    layer, n, width = walled.ravel(), walled.size, shape[1] + 2
    pes = np.argsort(layer, kind="stable")[: shape[0] * shape[1]].astype(np.int32)
    place = np.full(n, -1, np.int32)
    place[pes] = np.arange(len(pes))
    contacts = np.zeros(unused + 1, np.int32)
    for one, other in ((walled[1:], walled[:-1]), (walled[:, 1:], walled[:, :-1])):
        np.add.at(contacts, np.minimum(one, other)[np.abs(one - other) == 1], 1)
    contacts[unused - 1 :] += PLENTY
    inside = layer <= unused
    on_border = inside & ((row == 0) | (row == shape[0] - 1) | (column == 0) | (column == shape[1] - 1))
    at_border = np.bincount(layer[on_border], minlength=unused + 1).astype(np.int32)
    at_border[[of for of in range(unused + 1) if of not in border]] += PLENTY
    ends = np.array(edges, np.int32).reshape(-1, 2)
    distance = np.zeros((len(ends), n), np.int32)
    for edge, (producer, consumer) in enumerate(ends):
        here, there = np.flatnonzero(layer == producer), np.flatnonzero(layer == consumer)
        rows = np.abs(row[here][:, None] - row[there])
        distance[edge, there] = (rows + np.abs(column[here][:, None] - column[there])).min(axis=0)
    hops = int(distance.sum())
    sizes = np.array([len(region) for region in regions])
    state = State(
        layer=layer,
        best=layer.copy(),
        row=row,
        column=column,
        around=np.array([-width, 1 - width, 1, width + 1, width, width - 1, -1, -width - 1], np.int32),
        pes=pes,
        place=place,
        first=np.cumsum([0, *sizes, len(pes) - sizes.sum()]).astype(np.int32),
        movable=np.zeros(unused + 1, np.int32),
        contacts=contacts,
        on_border=on_border,
        at_border=at_border,
        edges=ends,
        inward=_by(ends[:, 1], unused),
        outward=_by(ends[:, 0], unused),
        distance=distance,
        mark=np.zeros(n, np.int64),
        stack=np.zeros(n, np.int32),
        undo=np.zeros((int(sizes[ends[:, 1]].sum()) + len(ends), 3), np.int32),
        totals=np.array([hops, hops], np.int64),
    )
    sort_in_all(state)
    return state


def _by(layers: Layers, unused: int) -> Layers:
    """Return where the edges of each layer begin and then, layer by layer, the edges."""
    begins = np.searchsorted(np.sort(layers), np.arange(unused + 2)) + unused + 2
    return np.concatenate([begins, np.argsort(layers, kind="stable")]).astype(np.int32)
