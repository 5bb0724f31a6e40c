"""DNNVM: shortest paths between barriers, with their special cases (DNNVM paper, section 5.2, algorithm 2).

*Barriers.* Operations that depend on several others, and those that several others read, divide the graph
into *branches*: chains of operations from behind one barrier to the next. A concatenation is such a barrier
although it is pruned: its readers begin branches. An element-wise operation with several operands, a *join*,
is a barrier that is no branch's own; nothing is fused with it that comes after it.

*Branches.* Groups of consecutive operations are edges between their ends, and a shortest path chooses among
them. The paper finds it for all ends at once (Floyd and Warshall); along a chain one pass does.

*A join* is executed once: at the end of the branch where that makes all branches together cheapest, by itself
or as a part of that branch's last group. The other branches end before it (cost[v_j][d] is infinite). A
branch takes part if the join alone reads what it computes.

*Siblings*, the first operations of branches between the same two barriers, can be a group; those branches
then begin behind it. All ways to divide the first operations into such groups are compared, of ten branches
at once.

*Whole branches* between two barriers can be a group as well, with the join that ends them or without: the
second condition of section 4.3 allows any number of operations, and such a group passes no barrier.

Its plans are the best among these and only these. It sees no group with a join and an operation after it,
none that holds siblings with only a part of what follows them, and no siblings that lead to different
barriers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from tilewright.fusion import Plan, Problem
from tilewright.fusion.selection.candidates import Candidate, candidates
from tilewright.fusion.selection.execution_order import order_groups
from tilewright.spec.network import OPERANDS

Branch = tuple[int, ...]

MAX_BRANCHES = 10
"""Most branches between two barriers whose siblings are considered together: ways grow exponentially."""


def plan(problem: Problem) -> Plan:
    """Choose the best groups between each two adjacent barriers.

    They never wait for each other. Call an operation's depth the number of operations on the longest way to
    it, and a group's that of its last. Siblings read the same maps and are equally deep; whole branches
    are read by the same operations; of other groups only the last operation is read by others. A group is
    thus deeper than all that it reads from.
    """
    joins = {
        op.number
        for op in problem.ops
        if op.spec.kind in (*OPERANDS, "concat") and len(set(op.producers)) > 1
    }
    return order_groups(problem, choose([op.producers for op in problem.ops], joins, candidates(problem)))


def choose(
    producers: Sequence[Sequence[int]], joins: Collection[int], candidates: Sequence[Candidate]
) -> tuple[Candidate, ...]:
    """Return the cheapest candidates that hold each operation once, among those that the algorithm sees."""
    groups = _Groups(candidates)
    arriving = _branches(producers, joins)
    chosen = [groups.shortest((join,)) for join in joins if frozenset({join}) not in arriving]
    for barrier, pairs in arriving.items():
        if len(barrier) == 1 and barrier <= set(joins):
            ways = [
                _sum(groups.divided(_with_join(branches, last, *barrier)) for branches in pairs)
                for last in (branch for branches in pairs for branch in branches)
            ]
            chosen.append(min(ways, key=lambda way: way.cost))
        else:
            chosen += map(groups.divided, pairs)
    return _sum(chosen).groups


def _branches(
    producers: Sequence[Sequence[int]], joins: Collection[int]
) -> dict[frozenset[int], list[tuple[Branch, ...]]]:
    """Return the branches between each pair of adjacent barriers, by what reads their last operations."""
    readers: list[set[int]] = [set() for _ in producers]
    for number, sources in enumerate(producers):
        for source in sources:
            if source >= 0:
                readers[source].add(number)
    ending: dict[int, Branch] = {}
    for number, sources in enumerate(producers):
        if number not in joins:
            before = sources[0]
            goes_on = set(sources) == {before} and before in ending and len(readers[before]) == 1
            ending[number] = (*(ending.pop(before) if goes_on else ()), number)
    pairs: dict[tuple[frozenset[int], frozenset[int]], list[Branch]] = defaultdict(list)
    for branch in sorted(ending.values()):
        pairs[frozenset(readers[branch[-1]]), frozenset(producers[branch[0]])].append(branch)
    arriving: dict[frozenset[int], list[tuple[Branch, ...]]] = defaultdict(list)
    for (barrier, _), branches in pairs.items():
        arriving[barrier] += (
            tuple(branches[at : at + MAX_BRANCHES]) for at in range(0, len(branches), MAX_BRANCHES)
        )
    return arriving


def _with_join(branches: tuple[Branch, ...], last: Branch, join: int) -> tuple[Branch, ...]:
    return tuple((*branch, join) if branch == last else branch for branch in branches)


class _Way(NamedTuple):
    """Groups, and what they cost together."""

    cost: int
    groups: tuple[Candidate, ...]


def _sum(ways: Iterable[_Way]) -> _Way:
    ways = list(ways)
    return _Way(sum(way.cost for way in ways), tuple(candidate for way in ways for candidate in way.groups))


class _Groups:
    """The groups to choose from."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self.shortest, self.divided = cache(self._shortest), cache(self._divided)
        self.by_nodes = {candidate.nodes: candidate for candidate in candidates}
        self.beginning: dict[int, list[Candidate]] = defaultdict(list)
        for candidate in candidates:
            if len(candidate.nodes) > 1:
                self.beginning[candidate.nodes[0]].append(candidate)

    def _shortest(self, branch: Branch) -> _Way:
        """Return the cheapest way to divide a chain of operations into groups of consecutive ones."""
        ways = [_Way(0, ())]
        for end in range(1, len(branch) + 1):
            last = ((begin, self.by_nodes.get(branch[begin:end])) for begin in range(end))
            further = (
                _sum((ways[begin], _Way(candidate.cost, (candidate,))))
                for begin, candidate in last
                if candidate
            )
            ways.append(min(further, key=lambda way: way.cost))
        return ways[-1]

    def _divided(self, branches: tuple[Branch, ...]) -> _Way:
        """Return the cheapest way for the branches between two barriers, some beginning with siblings."""
        if not branches:
            return _Way(0, ())
        branch, *others = branches
        ways = [_sum((self.shortest(branch), self.divided(tuple(others))))]
        heads = {other[0]: other[1:] for other in branches}
        for candidate in self.beginning[branch[0]]:
            held = [other for other in branches if set(other) <= set(candidate.nodes)]
            if sum(map(len, held)) == len(candidate.nodes):
                rest = tuple(other for other in others if other not in held)
                ways.append(_sum((_Way(candidate.cost, (candidate,)), self.divided(rest))))
            elif heads.keys() >= set(candidate.nodes):
                behind = (self.shortest(heads[number]) for number in candidate.nodes)
                rest = tuple(other for other in others if other[0] not in candidate.nodes)
                ways.append(_sum((_Way(candidate.cost, (candidate,)), *behind, self.divided(rest))))
        return min(ways, key=lambda way: way.cost)
