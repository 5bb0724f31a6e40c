"""What attention moves in any schedule beyond what is compulsory: proofs in docs/residency-bounds.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import isqrt, sqrt
from typing import NamedTuple

import numpy as np

from tilewright.residency.attention import Attention
from tilewright.residency.graph import Graph, Span, count_channels, merged
from tilewright.spec.graph import Access
from tilewright.spec.network import MatMul

GROWTH = 1.04
"""From one size of segments to the next that is tried."""

PARTS = 256
"""Intervals of a segment's room for scores, for each of which its products are bounded."""

SLACK = 1e-9
"""By how much, of itself, what is computed in floating point is moved to the safe side."""


class Game(NamedTuple):
    """Pairs of queries and keys, and what is counted of all that they need.

    Attributes
    ----------
    pairs
        Of all heads.
    query, key
        What one query, and what one key, needs on chip, in elements.
    first
        All of that together: it comes on chip once in any case.
    charge
        What the heaviest event counts.
    products
        The weight of a pair's products whose operands and sums are counted; 0 for none.
    """

    pairs: int
    query: int
    key: int
    first: int
    charge: int
    products: float


class Side(NamedTuple):
    """Queries, keys or values of all heads.

    Attributes
    ----------
    depth
        Elements of a row.
    matrices
        Those that differ, as heads may share one.
    read
        Of each tensor, by number, the channels that are read, without overlaps.
    elements
        All of them; 0 if some stand in several rows, which are not counted then.
    """

    depth: int
    matrices: int
    read: dict[int, tuple[Span, ...]]
    elements: int


def attention_excess(graph: Graph, memory: int) -> int:
    """Return the elements that every schedule moves for attention beyond the compulsory ones.

    Where several attentions read a tensor as queries, keys or values, one of them counts.

    Parameters
    ----------
    memory
        What the memory holds, in elements.
    """
    found = []
    for attention in graph.attentions:
        sides = sides_of(graph, attention)
        excess = (arrivals(game, memory) - game.first for game in games(graph, attention, sides))
        found.append((max(excess, default=0), {tensor for side in sides for tensor in side.read}))
    taken, total = set[int](), 0
    for more, tensors in sorted(found, key=lambda each: -each[0]):
        if more > 0 and not taken & tensors:
            taken |= tensors
            total += more
    return total


def sides_of(graph: Graph, attention: Attention) -> tuple[Side, Side, Side]:
    """Return queries, keys and values of attention."""
    scores, context = graph.operations[attention.scores], graph.operations[attention.context]
    assert isinstance(scores.op.spec, MatMul) and scores.second is not None and context.second is not None
    depth, rows = scores.op.spec.depth, scores.op.spec.rows
    queries, keys = scores.op.operands
    return (
        _side(graph, queries, depth, attention.groups, rows),
        _side(graph, keys, depth, scores.second.matrices, attention.keys),
        _side(graph, context.op.operands[1], attention.values, context.second.matrices, attention.keys),
    )


def _side(graph: Graph, operand: Sequence[Access], depth: int, matrices: int, rows: int) -> Side:
    read: dict[int, list[Span]] = {}
    for access in operand:
        every = 0, graph.tensors[access.source + 1].channels
        read.setdefault(access.source + 1, []).append(access.channels or every)
    spans = {tensor: merged(each) for tensor, each in read.items()}
    found = sum(graph.tensors[tensor].pixels * count_channels(each) for tensor, each in spans.items())
    whole = depth * matrices * rows
    in_parts = any(access.shape is not None and access.channels is not None for access in operand)
    return Side(depth, matrices, spans, whole if found == whole and not in_parts else 0)


def games(graph: Graph, attention: Attention, sides: Sequence[Side]) -> Iterator[Game]:
    """Return all ways to count: with or without queries, keys, values and partial sums of the context."""
    rows = graph.tensors[attention.context + 1].size // (attention.groups * attention.values)
    pairs, sums = attention.count_pairs(rows), graph.tensors[attention.context + 1].size
    widths = sorted({0, 1, graph.sum_elements})
    for *counted, width in product((False, True), (False, True), (False, True), widths):
        chosen = [side for side, each in zip(sides, counted, strict=True) if each]
        queries, keys, values = (side.depth if each else 0 for side, each in zip(sides, counted, strict=True))
        shared = bool(keys and values) and sides[1].matrices != sides[2].matrices
        query, key = queries + width * attention.values, keys + values
        if not query or not key or shared or not _apart(chosen):
            continue
        first = sum(side.elements for side in chosen) + width * sums
        weight = (queries if keys else 0) + (sqrt(width) * values if width else 0)
        yield Game(pairs, query, key, first, max(1, width), weight)


def _pairs_of_head(graph: Graph, attention: Attention, rows: int) -> int:
    """Return the pairs of a head whose products must be done: of causal attention those that are seen."""
    causal = graph.operations[attention.softmax].op.causal
    if causal is None:
        return rows * attention.keys
    seen = np.arange(1, rows + 1, dtype=np.int64) + causal
    return int(np.clip(seen, 0, attention.keys).sum())


def _apart(sides: Sequence[Side]) -> bool:
    """Whether each element is in one row of one side."""
    read: dict[int, list[Span]] = {}
    for side in sides:
        for tensor, spans in side.read.items():
            read.setdefault(tensor, []).extend(spans)
    once = all(count_channels(merged(spans)) == count_channels(spans) for spans in read.values())
    return once and all(side.elements for side in sides)


@lru_cache(maxsize=1024)
def arrivals(game: Game, memory: int) -> int:
    """Return the least weight of all events of a schedule: what comes on chip, and scores that are moved."""
    return max(_by_pairs(game, memory), _by_products(game, memory))


def _by_pairs(game: Game, memory: int) -> int:
    """Return what theorem 1 proves: a segment completes few pairs."""
    unit = 4 * game.query * game.key

    def most(moved: int) -> int:
        """Return the most pairs of a segment, in units."""
        alone, scores = moved**2 + unit * memory, unit // 2 * moved
        return max((memory + moved) ** 2, alone, memory**2 + scores, unit * memory + scores)

    left, found = game.pairs * unit - most(0), 0
    if left <= 0:
        return 0
    for moved in _sizes(game, memory):
        whole = moved - game.charge + 1
        found = max(found, memory + -(-whole * left // most(moved)))
    return found


def _by_products(game: Game, memory: int) -> int:
    """Return what theorem 2 proves: a segment has few products."""
    if not game.products:
        return 0
    total, found = game.products * game.pairs * (1 - SLACK), 0
    unit = 4.0 * game.query * game.key
    cuts = np.linspace(0, 1, PARTS + 1)
    for moved in _sizes(game, memory):
        every = memory + moved
        left, shared = every * (1 - cuts[:-1]), np.sqrt(memory + every * cuts[1:])
        most = float((game.products * left**2 / unit + left / 2 * shared).max()) * (1 + SLACK)
        if total > most:
            found = max(found, memory + (moved - game.charge + 1) * (int(-(-total // most)) - 1))
    return found


def _sizes(game: Game, memory: int) -> Iterable[int]:
    """Return the weights of segments that are tried."""
    size, end = float(game.charge), 64 * memory + 8 * game.query * game.key
    found = {memory, 2 * memory, isqrt(4 * game.query * game.key * memory)}
    while size < end:
        found.add(int(size))
        size *= GROWTH
    return [size for size in found if size >= game.charge]
