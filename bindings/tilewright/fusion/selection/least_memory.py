"""The least memory: a binary search on the bytes of all buffers, each step an exact search for cycles."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from tilewright.fusion.graph import engine_of
from tilewright.fusion.group.best_tile import cycle_limit, evaluate_tile, tile_peaks
from tilewright.fusion.machine import HOST
from tilewright.fusion.problem import Problem
from tilewright.fusion.selection.candidates import (
    Candidate,
    complete_candidates,
    dearer_than_any,
    fitting_groups,
    most_copied,
)
from tilewright.fusion.selection.downset_search import Shared, search_downsets
from tilewright.spec.errors import OutOfTimeError


class LeastMemory(NamedTuple):
    """The best plan so far, and what every plan takes.

    Attributes
    ----------
    chosen
        Candidates of the best known plan, empty if there is none.
    memory, bound
        Bytes that its largest group takes, and bytes that every plan takes.
    proven
        Whether that is all.
    """

    chosen: tuple[Candidate, ...]
    memory: int
    bound: int
    proven: bool


def minimise_memory(problem: Problem, deadline: float = inf) -> Iterator[LeastMemory]:
    """Find plans of less and less memory that need no more cycles than the limit.

    A plan takes the most bytes that any of its groups takes, which is one of finitely many numbers. For each
    of them the exact search says whether the groups that take no more make up a fast enough plan.
    """
    levels = sorted(
        {
            peak
            for nodes, tiled in problem.allowed.items()
            if engine_of(problem.ops[nodes[0]]) != HOST
            for peak in tile_peaks(problem, nodes, not tiled)
        }
    )
    low, high = 0, len(levels)  # the least level that is enough is at low or above, and below high if known
    best: tuple[Candidate, ...] = ()
    first = True
    while low < high:
        middle = high - 1 if first else (low + high) // 2
        first = False
        try:
            chosen = _fast(problem, levels[middle], deadline)
        except OutOfTimeError:
            break
        if chosen:
            best = chosen
            high = bisect_left(levels, _memory(problem, best))
        else:
            low = middle + 1
        if low < len(levels):
            memory = levels[high] if best else 0
            yield LeastMemory(best, memory, levels[low], low == high and bool(best))
    if not best and low == len(levels):
        yield LeastMemory((), 0, 0, True)


def _fast(problem: Problem, max_bytes: int, deadline: float) -> tuple[Candidate, ...]:
    """Return groups of at most `max_bytes` bytes each that are fast enough, none where there are none."""
    fitting = fitting_groups(problem, max_bytes, every_layout=True)
    # An operation that does not fit by itself is as if it took too long.
    never = min(cycle_limit(problem) + 1, dearer_than_any(fitting) + most_copied(problem))
    allowed = complete_candidates(len(problem.ops), fitting, never)
    start = {one.nodes: one for one in reversed(allowed) if len(one.nodes) == 1}
    found = search_downsets(
        [op.producers for op in problem.ops], allowed, [*start.values()], deadline, 0, Shared.of(problem)
    )
    for incumbent in found:
        if incumbent.cost < never:
            return incumbent.chosen
        if incumbent.bound >= never:
            return ()
    if incumbent.proven:
        return ()
    raise OutOfTimeError


def _memory(problem: Problem, chosen: tuple[Candidate, ...]) -> int:
    """Return the bytes of the largest group."""
    tiles = [(candidate.order, candidate.tile) for candidate in chosen if candidate.tile is not None]
    return max(evaluate_tile(problem, problem.fused(nodes), tile).peak for nodes, tile in tiles)
