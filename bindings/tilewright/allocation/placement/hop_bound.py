"""A lower bound on the hops of every placement, from the sizes of the regions and the shape of the array."""

from __future__ import annotations

from collections import defaultdict
from itertools import count, pairwise

from tilewright.allocation.placement.floor import Floor


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
    """Return the most PEs within `hops` of one PE, which is on the border if the layer must reach that."""
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
    # Of each node's links: layers as producers, layers as consumers, source, sink.
    capacity: list[dict[int, int]] = [defaultdict(int) for _ in range(2 * n + 2)]
    source, sink = 2 * n, 2 * n + 1
    for layer in range(n):
        capacity[source][layer] = capacity[n + layer][sink] = sides[layer]
    for producer, consumer in floor.edges:
        capacity[producer][n + consumer] = capacity[consumer][n + producer] = sizes[consumer]
    used = sum(sizes)
    half = min(rows + -(-used // rows) for rows in range(1, floor.rows + 1) if rows * floor.columns >= used)
    return min(_flow(capacity, source, sink) // 2, used + n - half - len(touching))


def _flow(capacity: list[dict[int, int]], source: int, sink: int) -> int:
    """Return the value of a maximum flow; the capacity of each link becomes what is left of it."""
    flow = 0
    while True:
        before, reached = {source: source}, [source]
        for node in reached:
            new = [other for other, most in capacity[node].items() if most and other not in before]
            before.update(dict.fromkeys(new, node))
            reached += new
        if sink not in before:
            return flow
        path = [sink]
        while path[-1] != source:
            path.append(before[path[-1]])
        links = [(node, other) for other, node in pairwise(path)]
        more = min(capacity[node][other] for node, other in links)
        for node, other in links:
            capacity[node][other] -= more
            capacity[other][node] += more
        flow += more
