"""Where the layers of a pipeline stand on an array of processing elements (PEs).

How many PEs compute each layer is given; which ones is decided here. A layer's PEs form one region, regions
of layers that follow each other touch, and only PEs on the array's border reach the memory. Pixels travel
from the PEs of one layer to those of the next, hop by hop; the fewer hops the better.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import accumulate, count, pairwise
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tilewright.allocation.placement import annealing
from tilewright.allocation.placement.paths import Path, paths

PE = tuple[int, int]
"""Row and column of a processing element, from 0."""

Regions = tuple[tuple[PE, ...], ...]
"""PEs of each layer, sorted."""


class Floor(NamedTuple):
    """An array and the layers that want a place on it.

    Attributes
    ----------
    rows, columns
        Of the array.
    sizes
        PEs of each layer in the order of execution, at least 1; together no more than the array has.
    edges
        (producer, consumer), once for each layer that reads another one's output; the producer comes first in
        the order of execution.
    border
        Layers that read the network's input or write its output.
    """

    rows: int
    columns: int
    sizes: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]
    border: tuple[int, ...]


def _neighbours(pe: PE) -> tuple[PE, ...]:
    row, column = pe
    return (row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)


def _on_border(floor: Floor, pe: PE) -> bool:
    return pe[0] in (0, floor.rows - 1) or pe[1] in (0, floor.columns - 1)


def _touches(region: Iterable[PE], others: set[PE]) -> bool:
    return any(neighbour in others for pe in region for neighbour in _neighbours(pe))


def _connected(region: set[PE]) -> bool:
    waiting = [next(iter(region))]
    reached = set(waiting)
    while waiting:
        new = [pe for pe in _neighbours(waiting.pop()) if pe in region and pe not in reached]
        reached.update(new)
        waiting += new
    return reached == region


def violation(floor: Floor, regions: Regions) -> str | None:
    """Say which rule a placement breaks, or None for a valid one."""
    if len(regions) != len(floor.sizes):
        return f"{len(regions)} regions for {len(floor.sizes)} layers"
    owner: dict[PE, int] = {}
    for layer, (region, size) in enumerate(zip(regions, floor.sizes, strict=True)):
        if len(region) != size:
            return f"layer {layer}: {len(region)} PEs instead of {size}"
        for row, column in region:
            if not (0 <= row < floor.rows and 0 <= column < floor.columns):
                return f"layer {layer}: PE ({row}, {column}) is outside the array"
            if (row, column) in owner:
                return f"layer {layer}: PE ({row}, {column}) computes layer {owner[row, column]}, too"
            owner[row, column] = layer
    for layer, region in enumerate(regions):
        if not _connected(set(region)):
            return f"layer {layer}: its PEs are not connected"
        if layer and not _touches(region, set(regions[layer - 1])):
            return f"layer {layer}: does not touch layer {layer - 1}"
        if layer in floor.border and not any(_on_border(floor, pe) for pe in region):
            return f"layer {layer}: reads or writes the memory, but has no PE on the border"
    return None


def distance(floor: Floor, regions: Regions) -> int:
    """Return the hops of a placement: for every PE of a consumer, those to the nearest PE of the producer."""
    pes = [np.array(region) for region in regions]
    return sum(
        int(np.abs(pes[producer][:, None] - pes[consumer]).sum(axis=2).min(axis=0).sum())
        for producer, consumer in floor.edges
    )


# A lower bound ---------------------------------------------------------------------------------------------


def lower_bound(floor: Floor) -> int:
    """Return hops that every valid placement needs.

    The hops of a placement are the sum over h = 0, 1, .. of F(h), the number of pairs of an edge and a PE of
    its consumer that is more than h hops away from the edge's producer. Let P be the size of a layer, D the
    PEs of all its consumers, and N the PEs of all L layers.

    F(0) is the sum of D over all layers, since no PE computes two layers.

    F(h) is at least the sum over the layers of what their D exceeds the PEs that consumers can have within h
    hops. Collect a region PE by PE, each a neighbour of an earlier one, beginning at the border if it must
    reach that. Within h hops of the first one are at most 2h(h + 1) + 1 PEs, and the array holds most of
    them where the first one is in its middle, or in the middle of a side. Each further one adds at most a
    front of 2h + 1 PEs, and no more than a row or column of the array has. The region's own P are among
    these PEs, and so are some of other layers: those before it form a connected set that touches it, so that
    within h hops are at least h of them, or all; the same holds for the layers after it, up to its first
    consumer.

    F(1) is also at least F(0) less the number A of pairs within one hop. Such a PE has a side in common with
    its producer, different ones for different pairs, so that sides limit A in two ways. A connected region
    has at least P - 1 sides inside, so at most 2P + 2 outside, less those on the array's border: one where
    it must reach that; one of each PE in an array of two rows, two in one of a single row. A layer that
    touches the next one without an edge spends one more. So the pairs of each layer's edges are limited, and
    the largest sum under such limits (a fractional b-matching) is half of a maximum flow in which each layer
    stands on both sides. And N PEs in r rows and c columns, r * c >= N, have at most 2N - r - c sides in
    common, of which at least N - L are inside of regions.
    """
    pairs = sum(floor.sizes[consumer] for _, consumer in floor.edges)
    excess = [_excess(floor, layer) for layer in range(len(floor.sizes))]
    beyond_one = max(sum(levels[0] for levels in excess), pairs - _most_adjacent(floor))
    return pairs + beyond_one + sum(sum(levels[1:]) for levels in excess)


def fewest_hops(floor: Floor) -> tuple[int, ...]:
    """Return hops that each layer's output needs, after the argument of `lower_bound` for single layers."""
    return tuple(
        sum(floor.sizes[consumer] for consumer in _consumers(floor, layer)) + sum(_excess(floor, layer))
        for layer in range(len(floor.sizes))
    )


def _consumers(floor: Floor, layer: int) -> list[int]:
    return [consumer for producer, consumer in floor.edges if producer == layer]


def _excess(floor: Floor, layer: int) -> list[int]:
    """Return how many PEs of a layer's consumers must be more than 1, 2, .. hops away from it, down to 0."""
    consumers = _consumers(floor, layer)
    size, before = floor.sizes[layer], sum(floor.sizes[:layer])
    after = sum(floor.sizes[layer + 1 : min(consumers, default=len(floor.sizes))])
    wanted, levels = sum(floor.sizes[consumer] for consumer in consumers), []
    for hops in count(1):
        front = min(2 * hops + 1, max(floor.rows, floor.columns))
        near = min(_around(floor, layer, hops) + (size - 1) * front, floor.rows * floor.columns)
        levels.append(max(0, wanted - (near - size - min(before, hops) - min(after, hops))))
        if levels[-1] == 0:
            return levels
    raise AssertionError


def _around(floor: Floor, layer: int, hops: int) -> int:
    """Return the most PEs within so many hops of one, which is on the border if the layer must reach it."""
    row, column = floor.rows // 2, floor.columns // 2
    most = 0
    for here, there in [(0, column), (row, 0)] if layer in floor.border else [(row, column)]:
        widths = [(there, hops - abs(other - here)) for other in range(floor.rows)]
        most = max(most, sum(max(0, min(floor.columns, at + w + 1) - max(0, at - w)) for at, w in widths))
    return most


def _most_adjacent(floor: Floor) -> int:
    """Return the most pairs of an edge and a PE of its consumer that is a neighbour of the producer."""
    sizes, n = floor.sizes, len(floor.sizes)
    outside = max(0, 3 - floor.rows) + max(0, 3 - floor.columns)
    sides = [2 * size + 2 - max(outside * size, layer in floor.border) for layer, size in enumerate(sizes)]
    touching = [layer for layer in range(n - 1) if (layer, layer + 1) not in floor.edges]
    for layer in touching:
        sides[layer] -= 1
        sides[layer + 1] -= 1
    room: list[dict[int, int]] = [defaultdict(int) for _ in range(2 * n + 2)]
    source, sink = 2 * n, 2 * n + 1
    for layer in range(n):
        room[source][layer] = room[n + layer][sink] = sides[layer]
    for producer, consumer in floor.edges:
        room[producer][n + consumer] = room[consumer][n + producer] = sizes[consumer]
    used = sum(sizes)
    half = min(rows + -(-used // rows) for rows in range(1, floor.rows + 1) if rows * floor.columns >= used)
    return min(_flow(room, source, sink) // 2, used + n - half - len(touching))


def _flow(room: list[dict[int, int]], source: int, sink: int) -> int:
    """Return the value of a maximum flow; the room of each link is changed."""
    flow = 0
    while True:
        before, reached = {source: source}, [source]
        for node in reached:
            new = [other for other, most in room[node].items() if most and other not in before]
            before.update(dict.fromkeys(new, node))
            reached += new
        if sink not in before:
            return flow
        path = [sink]
        while path[-1] != source:
            path.append(before[path[-1]])
        links = [(node, other) for other, node in pairwise(path)]
        more = min(room[node][other] for node, other in links)
        for node, other in links:
            room[node][other] -= more
            room[other][node] += more
        flow += more


# Placements ------------------------------------------------------------------------------------------------

OFFSETS = 16
"""Most beginnings of a run along a path that are looked at, evenly spaced, beside the one at a line's end."""


def snake(floor: Floor) -> Regions:
    """Return a run of all layers along a path through the array, the best of many.

    Every run keeps all rules but that of the border, and one along the rows that ends with a row keeps this
    one for the first and the last layer. Where no run that is looked at keeps it for all layers that it
    concerns, `violation` names one of them.
    """
    spare = floor.rows * floor.columns - sum(floor.sizes)
    first = np.array([0, *accumulate(floor.sizes)])
    edges = np.array(floor.edges, np.int64).reshape(-1, 2)
    offsets = {spare % floor.columns, *np.linspace(0, spare, min(spare, OFFSETS) + 1).astype(int).tolist()}
    none = len(floor.edges) * sum(floor.sizes) * (floor.rows + floor.columns) + 1
    best = len(floor.border), none
    chosen: list[Path] = []
    for path in paths(floor.rows, floor.columns):
        pes = np.array(path)
        on_border = np.cumsum([0, *(_on_border(floor, pe) for pe in path)])
        for offset in offsets:
            begins = first + offset
            reached = np.diff(on_border[begins])
            missing = sum(int(reached[layer] == 0) for layer in floor.border)
            if missing <= best[0]:
                enough = best[1] if missing == best[0] else none
                found = missing, _hops_of_run(pes, begins, edges, enough)
                if found < best:
                    best, chosen = found, [path[i:j] for i, j in pairwise(begins)]
    return tuple(tuple(sorted(region)) for region in chosen)


@njit(cache=True)
def _hops_of_run(
    pes: NDArray[np.int64], begins: NDArray[np.int64], edges: NDArray[np.int64], enough: int
) -> int:
    """Return the hops of a run of layers along a path, or any number that is enough."""
    hops = 0
    for edge in range(edges.shape[0]):
        producer, consumer = edges[edge]
        for i in range(begins[consumer], begins[consumer + 1]):
            nearest = enough
            for j in range(begins[producer + 1] - 1, begins[producer] - 1, -1):
                nearest = min(nearest, abs(pes[i, 0] - pes[j, 0]) + abs(pes[i, 1] - pes[j, 1]))
                if nearest == 1:
                    break
            hops += nearest
            if hops >= enough:
                return enough
    return hops


HOT, COLD = 8.0, 0.25
"""First and last temperature of a round of simulated annealing, in hops."""

ROUNDS, MOVES = 4, 15_000
"""Most rounds, and moves of the first one for each PE of the array; each further one has twice as many."""

MOVES_AT_ONCE = 5_000
"""Moves between two looks at the clock."""

SILENCE = 0.5
"""Least seconds between two reports."""


def _ignore(_regions: Regions) -> None:
    """Take a report that nobody waits for."""


def improve(
    floor: Floor,
    regions: Regions,
    deadline: float,
    seed: int = 0,
    on_better: Callable[[Regions], None] = _ignore,
) -> Regions:
    """Return a placement with fewer hops than a given one, or that one, by simulated annealing.

    Parameters
    ----------
    floor, regions
        A valid placement; none on the way breaks a rule.
    deadline
        ``time.monotonic()`` at which to return; earlier if the lower bound is met or all rounds are done.
    seed
        Of all random choices.
    on_better
        Called with better placements on the way, though not with each of them.
    """
    annealing.seed(seed)
    state = annealing.build((floor.rows, floor.columns), regions, floor.edges, floor.border)
    least = lower_bound(floor)
    now, told = time.monotonic(), (time.monotonic(), state.totals[annealing.BEST])
    for number in range(ROUNDS):
        moves = 2**number * MOVES * floor.rows * floor.columns
        begin, done = now, 0
        while done < moves and now < deadline and state.totals[annealing.BEST] > least:
            over = max(done / moves, (now - begin) / (deadline - begin))
            annealing.anneal(state, MOVES_AT_ONCE, HOT * (COLD / HOT) ** over)
            done, now = done + MOVES_AT_ONCE, time.monotonic()
            if state.totals[annealing.BEST] < told[1] and now >= told[0] + SILENCE:
                told = now, state.totals[annealing.BEST]
                on_better(annealing.regions(state))
    return annealing.regions(state)
