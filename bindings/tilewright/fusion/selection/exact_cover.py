"""The choice of groups as an exact cover of the operations, as formulations state it.

Of all candidates some are chosen that hold each operation exactly once, such that no group waits for itself
through others. Costs are counted from prices of operations: as each operation is paid for once whatever is
chosen, only *premiums*, what candidates cost beyond the prices of their members, distinguish plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from tilewright.core.cutoffs import narrow
from tilewright.fusion.group.best_tile import cycle_limit
from tilewright.fusion.plan import Plan
from tilewright.fusion.problem import Problem
from tilewright.fusion.selection.candidates import Candidate, candidates, fast_and_small, told_apart
from tilewright.fusion.selection.dual_prices import dual_prices
from tilewright.spec.constraints.parts import terms

__all__ = ["LARGEST", "Cover", "adds_up", "find_cover", "no_layouts", "started"]

LARGEST = 2**31 - 2
"""The largest number that Gecode can handle."""


def no_layouts(problem: Problem) -> str | None:
    """Say that a choice of groups leaves layouts open, None where there are none to decide."""
    if problem.machine.layouts is None:
        return None
    return "machine.layouts: what a group costs depends on layouts, which are not among its columns"


def adds_up(problem: Problem) -> bool:
    """Whether a problem is such a choice: whether its objective is the sum of what groups cost."""
    return problem.minimise != "memory"


class Cover:
    """The choice of groups: candidates, what they cost, and which of them wait for each other.

    Parameters
    ----------
    ancestors
        For each operation, a bit mask of all that it depends on; numbers are an order of execution.
    candidates
        Convex sets of operations with their costs; each operation is one by itself, if only to say what is
        dearer than any plan where it does not fit. Of a set there may be several, with tiles that
        constraints tell apart.
    ordered
        Whether all operations have positions, as constraints speak of their order.
    most
        What a plan may cost, where that is limited; else what the known plan costs.

    Attributes
    ----------
    candidates
        Those that fit and are no dearer than all of a known plan, the least premium first.
    prices
        Of operations: no candidate costs less than those of its members together, so that no plan costs less
        than all of them. Next to the highest such prices, which are the dual of the linear relaxation.
    premiums
        Of candidates.
    worst
        Premiums of a known plan, one operation after the other, or more than any plan has: nothing above it
        is worth finding. What any plan has, where no known one counts (`core.cutoffs`).
    """

    def __init__(
        self,
        ancestors: Sequence[int],
        candidates: Sequence[Candidate],
        *,
        ordered: bool = False,
        most: int | None = None,
    ) -> None:
        self.ancestors, self.ordered = ancestors, ordered
        never = [candidate.cost - 1 for candidate in candidates if not candidate.fits]
        alone = sum(candidate.cost for candidate in candidates if len(candidate.nodes) == 1)
        known = min([alone, *never])
        self.prices = dual_prices(len(ancestors), candidates, known)
        premium = {
            candidate: candidate.cost - sum(self.prices[member] for member in candidate.nodes)
            for candidate in candidates
            if candidate.fits
        }
        self.worst = max(0, known - sum(self.prices))
        if narrow() or most is not None:
            largest = sum(
                max((value for candidate, value in premium.items() if number in candidate.nodes), default=0)
                for number in range(len(ancestors))
            )  # of any plan
            self.worst = max(self.worst, min(largest, LARGEST))
        if most is not None:
            self.worst = min(largest, min([most, *never]) - sum(self.prices))
        self.candidates = sorted(
            (candidate for candidate, value in premium.items() if value <= self.worst),
            key=lambda candidate: (premium[candidate], candidate.nodes),
        )
        self.premiums = [premium[candidate] for candidate in self.candidates]
        self.index_of: dict[tuple[int, ...], int] = {}
        for index, candidate in enumerate(self.candidates):
            self.index_of.setdefault(candidate.nodes, index)

    @property
    def base(self) -> int:
        """All prices: what no plan costs less than."""
        return sum(self.prices)

    @cached_property
    def holders(self) -> list[list[int]]:
        """For each operation, the indices of the candidates that hold it."""
        holders: list[list[int]] = [[] for _ in self.ancestors]
        for index, candidate in enumerate(self.candidates):
            for member in candidate.nodes:
                holders[member].append(index)
        return holders

    # Order ---------------------------------------------------------------------------------------------

    @cached_property
    def _ahead(self) -> NDArray[np.bool_]:
        """Whether a candidate must be executed before another one: an operation of that depends on it."""
        count, n = len(self.candidates), len(self.ancestors)
        members = np.zeros((count, n), np.float32)
        for index, candidate in enumerate(self.candidates):
            members[index, list(candidate.nodes)] = 1
        before = np.array([[mask >> i & 1 for mask in self.ancestors] for i in range(n)], np.float32)
        disjoint = members @ members.T == 0
        ahead: NDArray[np.bool_] = ((members @ before) @ members.T > 0) & disjoint
        return ahead

    @cached_property
    def tangled(self) -> list[int]:
        """Indices of the candidates that may be on a cycle, in which each group waits for the one before.

        Groups are convex, so an operation that is executed alone only links those before and after it, of
        which one is ahead of the other then. What is ahead of nothing that is left, or behind nothing, is on
        no cycle; neither is what cannot be reached from what it reaches.
        """
        if self.ordered:
            return [index for index, candidate in enumerate(self.candidates) if len(candidate.nodes) > 1]
        left = np.array([len(candidate.nodes) > 1 for candidate in self.candidates], np.bool_)
        for ahead in (self._ahead, self._ahead.T):
            degrees = ahead[left].sum(axis=0)
            while (peeled := np.flatnonzero(left & (degrees == 0))).size:
                left[peeled] = False
                degrees -= ahead[peeled].sum(axis=0)
        indices = np.flatnonzero(left)
        parts = nx.strongly_connected_components(nx.DiGraph(self._ahead[np.ix_(indices, indices)]))
        return sorted(int(indices[i]) for part in parts if len(part) > 1 for i in part)

    @cached_property
    def clashes(self) -> list[tuple[int, int]]:
        """Pairs of candidates, by index, that wait for each other."""
        indices = np.array(self.tangled, np.intp)
        mutual = self._ahead[np.ix_(indices, indices)]
        first, second = np.nonzero(np.triu(mutual & mutual.T))
        return [(int(indices[i]), int(indices[j])) for i, j in zip(first, second, strict=True)]

    @cached_property
    def placed(self) -> list[int]:
        """Operations that need a position in the order: members of tangled candidates."""
        if self.ordered:
            return [*range(len(self.ancestors))]
        return sorted({member for index in self.tangled for member in self.candidates[index].nodes})

    @cached_property
    def links(self) -> list[tuple[int, int]]:
        """Pairs of operations of which the first has the lower position, or they are in the same group.

        These are the placed operations that depend on each other, without pairs that follow from others.
        Where groups waited for each other in a cycle, positions would ascend along it without end.
        """
        among = sum(1 << number for number in self.placed)
        links = []
        for number in self.placed:
            direct = [i for i in self.placed if self.ancestors[number] >> i & 1]
            behind = 0
            for i in direct:
                behind |= self.ancestors[i] & among
            links += [(i, number) for i in direct if not behind >> i & 1]
        return links

    @cached_property
    def ties(self) -> list[tuple[int, int]]:
        """Pairs of operations that have the same position if they are in the same group."""
        return sorted({pair for index in self.tangled for pair in pairwise(self.candidates[index].nodes)})

    def positions(self, chosen: Iterable[int]) -> dict[int, int]:
        """Return the positions of operations in a choice.

        Raises
        ------
        networkx.NetworkXUnfeasible
            If groups wait for each other in a cycle.
        """
        group = self.group_of(chosen)
        graph = nx.DiGraph((group[i], group[j]) for i, j in self.links if group[i] != group[j])
        graph.add_nodes_from(group[number] for number in self.placed)
        rank = {candidate: number for number, candidate in enumerate(nx.topological_sort(graph))}
        return {number: rank[group[number]] for number in self.placed}

    # Dominance -----------------------------------------------------------------------------------------

    @cached_property
    def split(self) -> dict[int, tuple[int, int]]:
        """For candidates that cost no less than two others with the same members: those two.

        They may stand for it in any plan: what waits for one of them has waited for it, and they do not wait
        for each other.
        """
        split = {}
        for index, candidate in enumerate(self.candidates):
            members, least = set(candidate.nodes), self.premiums[index]
            for part in self.holders[candidate.nodes[0]]:
                inside = self.candidates[part]
                if len(inside.nodes) < len(members) and members.issuperset(inside.nodes):
                    other = self.index_of.get(tuple(sorted(members - set(inside.nodes))))
                    if other is None or (self._ahead[part, other] and self._ahead[other, part]):
                        continue
                    premium = self.premiums[part] + self.premiums[other]
                    if premium < least or (premium == least and index not in split):
                        split[index], least = (part, other), premium
        return split

    # Plans ---------------------------------------------------------------------------------------------

    @property
    def alone(self) -> list[int]:
        """Indices of the operations as candidates, which are a plan if each of them fits."""
        numbers = range(len(self.ancestors))
        return [self.index_of[number,] for number in numbers if (number,) in self.index_of]

    def chosen(self, groups: Iterable[tuple[int, ...]]) -> list[int] | None:
        """Return the candidates, by index, that stand for groups.

        What is no candidate gives way to its operations, what two others dominate to these. None where that
        is no plan, or a worse one than the known one.
        """
        chosen, left = [], list(groups)
        while left:
            nodes = left.pop()
            index = self.index_of.get(nodes)
            if index is None and len(nodes) > 1:
                left += [(number,) for number in nodes]
            elif index is None:
                return None
            elif index in self.split:
                left += [self.candidates[part].nodes for part in self.split[index]]
            else:
                chosen.append(index)
        covered = sorted(number for index in chosen for number in self.candidates[index].nodes)
        total = sum(self.premiums[index] for index in chosen)
        if covered != [*range(len(self.ancestors))] or total > self.worst:
            return None
        try:
            self.positions(chosen)
        except nx.NetworkXUnfeasible:
            return None
        return chosen

    def group_of(self, chosen: Iterable[int]) -> list[int]:
        """Return the index of the candidate to which each operation belongs."""
        group_of = {member: index for index in chosen for member in self.candidates[index].nodes}
        return [group_of[number] for number in range(len(self.ancestors))]


def find_cover(problem: Problem) -> Cover:
    """Return the choice of groups of a problem."""
    return _cover(problem, narrow())


@lru_cache(maxsize=4)
def _cover(problem: Problem, _narrow: bool) -> Cover:
    if problem.minimise == "memory":
        return Cover(problem.ancestors, fast_and_small(problem), most=cycle_limit(problem))
    if not problem.constraints:
        return Cover(problem.ancestors, candidates(problem))
    ordered = any(term.word == "before" for part in problem.must_hold for term in terms(part))
    return Cover(problem.ancestors, told_apart(problem), ordered=ordered)


def started(problem: Problem, plan: Plan) -> list[int] | None:
    """Return the candidates, by index, that stand for a plan, None where it is of no use."""
    number = {op.name: op.number for op in problem.ops}
    choice = find_cover(problem)
    groups = [tuple(number.get(name, -1) for name in group.nodes) for group in plan.groups]
    if not problem.constraints:
        return choice.chosen(tuple(sorted(nodes)) for nodes in groups)
    index_of = {(one.order, one.tile): index for index, one in enumerate(choice.candidates)}
    tiles = [group.tile for group in plan.groups]
    chosen = [index_of.get(each) for each in zip(groups, tiles, strict=True)]
    return None if None in chosen else [index for index in chosen if index is not None]
