"""What attention moves in any schedule beyond what is compulsory: proofs in docs/residency-bounds.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import sqrt
from typing import NamedTuple

import numpy as np

from tilewright.core.attention_game import Game, arrivals
from tilewright.residency.attention import Attention
from tilewright.residency.graph import Graph, Span, count_channels, merged
from tilewright.spec.graph import Access
from tilewright.spec.network import MatMul


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
