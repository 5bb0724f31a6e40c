"""The least memory: a binary search on the bytes of all buffers, each step an exact search for cycles."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from tilewright.fusion.candidates import Candidate, candidates
from tilewright.fusion.exact.search import answers
from tilewright.fusion.fused_group import Structure
from tilewright.fusion.problem import HOST, Problem
from tilewright.fusion.tiles import choice, peaks
from tilewright.spec.errors import OutOfTimeError


class Least(NamedTuple):
    """What is known so far.

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


def least(problem: Problem, deadline: float = inf) -> Iterator[Least]:
    """Find plans of less and less memory that need no more than `Problem.most_cycles`.

    A plan takes the most bytes that any of its groups takes, which is one of finitely many numbers. For each
    of them the exact search says whether the groups that take no more make up a fast enough plan.
    """
    levels = sorted(
        {
            peak
            for nodes, tiled in problem.allowed.items()
            if problem.ops[nodes[0]].engine != HOST
            for peak in peaks(problem, nodes, not tiled)
        }
    )
    low, high = 0, len(levels)  # the least level that is enough is at low or above, and below high if known
    found: tuple[Candidate, ...] = ()
    first = True
    while low < high:
        middle = high - 1 if first else (low + high) // 2
        first = False
        try:
            chosen = _fast(problem, levels[middle], deadline)
        except OutOfTimeError:
            break
        if chosen:
            found = chosen
            high = bisect_left(levels, _memory(problem, found))
        else:
            low = middle + 1
        if low < len(levels):
            known = levels[high] if found else 0
            yield Least(found, known, levels[low], low == high and bool(found))
    if not found and low == len(levels):
        yield Least((), 0, 0, True)


def _fast(problem: Problem, most: int, deadline: float) -> tuple[Candidate, ...]:
    """Return groups of no more than so many bytes that are fast enough, none if there are no such groups."""
    known = list(candidates(problem, most))
    alone = {one.nodes[0] for one in known if len(one.nodes) == 1}
    # An operation that does not fit by itself is as if it took too long.
    never = problem.most_cycles + 1
    known += [Candidate((op.number,), never, "", None) for op in problem.ops if op.number not in alone]
    for found in answers([op.producers for op in problem.ops], known, None, deadline):
        if found.cost < never:
            return found.chosen
        if found.bound >= never:
            return ()
    if found.proven:
        return ()
    raise OutOfTimeError


def _memory(problem: Problem, chosen: tuple[Candidate, ...]) -> int:

    tiles = [(one.nodes, one.tile) for one in chosen if one.tile is not None]
    return max(choice(problem, Structure(problem, nodes), tile).peak for nodes, tile in tiles)
