"""Operations that may stand for each other: of plans that differ in their names alone, one is looked at.

Twins differ in nothing but tensors of their own: they read the same ones otherwise, cost the same, make
tensors of one size, and the same operations read these in the same way. Swapping two of them turns a plan
into one that costs the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import pairwise
from typing import Any

from tilewright.scheduling.graph import Graph

Move = dict[int, int]
"""Where operations go that do not keep their place."""


def find_twins(graph: Graph, results: Collection[int]) -> list[tuple[int, ...]]:
    """Return groups of operations of which any two are twins; `results` lie in slow memory in the end."""
    groups: dict[Any, list[int]] = {}
    for op in range(len(graph.inputs)):
        groups.setdefault(_signature(graph, op, results), []).append(op)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def _signature(graph: Graph, op: int, results: Collection[int]) -> Any:
    made, read, matmul = graph.made[op], graph.inputs[op], graph.op_types[op] == "MatMul"
    reads: list[tuple[int, ...]] = []
    for tensor in read:
        own = tensor not in graph.maker and graph.readers[tensor] == (op,)
        shape = graph.widths[tensor], graph.heights[tensor]
        reads.append((1, *shape, read.index(tensor)) if own else (0, tensor))
    readers = []
    for reader in graph.readers.get(made, ()):
        places = [place for place, tensor in enumerate(graph.inputs[reader]) if tensor == made]
        # Operands of a Pointwise operation have no order.
        readers.append((reader, tuple(places) if graph.op_types[reader] == "MatMul" else len(places)))
    return (
        graph.op_types[op],
        graph.base_costs[op],
        graph.widths[made],
        graph.heights[made],
        tuple(reads if matmul else sorted(reads)),
        tuple(readers),
        made in results,
    )


def in_order(groups: Iterable[tuple[int, ...]], profile: Callable[[int], Any]) -> Move:
    """Return the move that puts twins into the order of what a state says of each."""
    move: Move = {}
    for group in groups:
        for op, place in zip(sorted(group, key=profile), group, strict=True):
            if op != place:
                move[op] = place
    return move


def apply_move(bits: int, move: Move) -> int:
    """Return a set of operations, as bits, after a move."""
    found = bits
    for op in move:
        found &= ~(1 << op)
    for op, place in move.items():
        found |= (bits >> op & 1) << place
    return found


def equal_pairs(groups: Iterable[tuple[int, ...]], profile: Callable[[int], Any]) -> list[tuple[int, int]]:
    """Return pairs of twins, neighbours in their order, between which a state in order makes no difference.

    Of the subgraphs to come it is enough to look at those that have the first one, or neither.
    """
    return [
        (one, other) for group in groups for one, other in pairwise(group) if profile(one) == profile(other)
    ]


def restore_names(path: Iterable[tuple[Iterable[int], Move]], count: int) -> list[list[int]]:
    """Return the names, before all moves, of operations of each step, after which there has been a move.

    Parameters
    ----------
    path
        Operations and the move behind them, step by step.
    """
    names = list(range(count))
    found = []
    for ops, move in path:
        found.append([names[op] for op in ops])
        before = list(names)
        for op, place in move.items():
            names[place] = before[op]
    return found
