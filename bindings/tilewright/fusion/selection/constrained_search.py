"""The best groups where constraints relate several of them: every tile counts that a constraint tells apart.

Groups are chosen operation by operation, the first that is left: those that hold it, and none that is left
out. A choice ends where it costs too much, where something that must hold can hold no more, or where groups
wait for each other. When all operations are in groups, the order of execution is chosen, as far as
constraints speak of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import networkx as nx

from tilewright.fusion.group.best_tile import cycle_limit
from tilewright.fusion.group.told_apart import decided
from tilewright.fusion.matching import Nodes
from tilewright.fusion.plan import Plan
from tilewright.fusion.problem import Problem
from tilewright.fusion.selection.candidates import Candidate, told_apart
from tilewright.fusion.selection.dual_prices import dual_prices
from tilewright.fusion.selection.execution_order import order_groups, quotient
from tilewright.fusion.selection.terms import value_of
from tilewright.spec.constraints import Term
from tilewright.spec.constraints.parts import Constant, Ground, compared, terms
from tilewright.spec.constraints.ranges import Range, can_hold

PARTS = 27_720
"""What a total is counted in, so that each member of a group has a whole part of it: 1 / 1, ..., 1 / 12."""


class Found(NamedTuple):
    """The best plan and its cost, None where none is known; whether all has been looked at."""

    plan: Plan | None
    cost: int | None
    proven: bool


def relates_groups(problem: Problem, part: Ground) -> bool:
    """Whether something that must hold is about several groups, so that none of them decides it."""
    found = terms(part)
    first = {str(argument) for term in found for argument in term.arguments}
    return not any(all(decided(term, {name}) for term in found) for name in first)


def search(problem: Problem, deadline: float, on_plan: Callable[[Plan], None]) -> Found:
    """Return the best plan.

    Parameters
    ----------
    deadline
        ``time.monotonic()`` after which the best plan so far is returned.
    on_plan
        Called with every better plan.
    """
    found = _Search(problem, deadline, on_plan)
    try:
        found.descend(0)
    except _OutOfTime:
        return Found(found.plan, found.cost, False)
    return Found(found.plan, found.cost, True)


class _OutOfTime(Exception):
    """The deadline has passed."""


class _Search:
    def __init__(self, problem: Problem, deadline: float, on_plan: Callable[[Plan], None]) -> None:
        self.problem, self.deadline, self.on_plan = problem, deadline, on_plan
        self.sums = problem.minimise != "memory"
        self.parts = [*problem.must_hold_in_numbers]
        if not self.sums:
            self.parts.append(compared("<=", Term("cycles"), Constant(cycle_limit(problem))))
        every = told_apart(problem)
        self.candidates = [one for one in every if one.fits]
        self.number = {op.name: op.number for op in problem.ops}
        self.producers = [op.producers for op in problem.ops]
        self.plan: Plan | None = None
        self.cost: int | None = None
        # Groups are told by their numbers among the candidates.
        self.chosen: list[int] = []
        self.group: list[int | None] = [None] * len(problem.ops)
        self.holders: list[list[int]] = [[] for _ in problem.ops]
        for place, one in enumerate(self.candidates):
            for node in one.nodes:
                self.holders[node].append(place)
        self._values: dict[tuple[Term, int], int] = {}
        self._price(every)
        self._ordered: dict[tuple[int, int], Range] = {}
        self._totals = {
            term: self._ends(term) for part in self.parts for term in terms(part) if not term.arguments
        }
        self._ranges: dict[Term, Range] = {}

    def _price(self, every: Sequence[Candidate]) -> None:
        """Set what each group costs beyond what its members cost in any case, and sort by that."""
        problem = self.problem
        if self.sums:
            known = sum(max((self.candidates[one].cost for one in held), default=0) for held in self.holders)
            price = dual_prices(len(problem.ops), every, known)
            self.base = sum(price)
            self.own = [one.cost - sum(price[node] for node in one.nodes) for one in self.candidates]
            self.least = [0] * len(problem.ops)
        else:
            self.base = 0
            self.own = [value_of(problem, one, Term("memory")) for one in self.candidates]
            self.least = [min((self.own[one] for one in held), default=0) for held in self.holders]
        for held in self.holders:
            held.sort(key=self.own.__getitem__)

    def value(self, term: Term, one: int) -> int:
        """Return the value of a term that a group decides, of a total what it adds."""
        key = term, one
        if key not in self._values:
            self._values[key] = value_of(self.problem, self.candidates[one], term)
        return self._values[key]

    # What may still hold ---------------------------------------------------------------------------

    def _ends(self, term: Term) -> list[Range]:
        """Return, for each operation, the least and the most that it adds to a total, in `PARTS`."""
        ends = []
        for held in self.holders:
            each = [(self.value(term, one), len(self.candidates[one].nodes)) for one in held]
            if term.word == "memory":
                shares = [(cost, cost) for cost, _ in each]
            else:
                shares = [(PARTS * cost // size, PARTS * cost) for cost, size in each]
            low, high = (
                min((low for low, _ in shares), default=0),
                max((high for _, high in shares), default=0),
            )
            ends.append((low, high))
        return ends

    def _total(self, term: Term) -> Range:
        there = [self.value(term, one) for one in self.chosen]
        left = [ends for ends, one in zip(self._totals[term], self.group, strict=True) if one is None]
        if term.word == "memory":
            return max(there + [low for low, _ in left]), max(there + [high for _, high in left])
        low, high = (sum(each) for each in zip(*left, strict=True)) if left else (0, 0)
        return sum(there) - -low // PARTS, sum(there) + high // PARTS

    def _range(self, term: Term) -> Range:
        if not term.arguments:
            return self._total(term)
        if term.word == "before":
            return self._before(term)
        for argument in term.arguments if term.word == "together" else term.arguments[:1]:
            one = self.group[self.number[str(argument)]]
            if one is not None:
                found = self.value(term, one)
                return found, found
        if term not in self._ranges:
            held = self.holders[self.number[str(term.arguments[0])]]
            values = [self.value(term, one) for one in held] or [0]
            self._ranges[term] = min(values), max(values)
        return self._ranges[term]

    def _before(self, term: Term) -> Range:
        first, second = (self.number[str(argument)] for argument in term.arguments)
        if first == second or self.problem.ancestors[first] >> second & 1:
            return 0, 0
        if self.problem.ancestors[second] >> first & 1:
            return 1, 1
        one = self.group[first]
        if one is not None and second in self.candidates[one].nodes:
            found = self.value(term, one)
            return found, found
        return self._ordered.get((first, second), (0, 1))

    # The search ------------------------------------------------------------------------------------

    def descend(self, spent: int) -> None:
        """Choose groups for what is left."""
        if time.monotonic() > self.deadline:
            raise _OutOfTime
        if not all(can_hold(part, self._range) for part in self.parts):
            return
        if None not in self.group:
            self._complete(spent)
            return
        number = self.group.index(None)
        for one in self.holders[number]:
            further = spent + self.own[one] if self.sums else max(spent, self.own[one])
            if self._too_dear(further):
                break
            nodes = self.candidates[one].nodes
            if any(self.group[node] is not None for node in nodes):
                continue
            self._take(one, one)
            if len(nodes) == 1 or nx.is_directed_acyclic_graph(self._graph()):
                self.descend(further)
            self._take(one, None)

    def _take(self, one: int, group: int | None) -> None:
        """Let a group hold its operations, or none again."""
        for node in self.candidates[one].nodes:
            self.group[node] = group
        if group is None:
            self.chosen.pop()
        else:
            self.chosen.append(group)

    def _too_dear(self, spent: int) -> bool:
        if self.cost is None:
            return False
        if self.sums:
            return self.base + spent >= self.cost
        left = (least for least, one in zip(self.least, self.group, strict=True) if one is None)
        return max([spent, *left]) >= self.cost

    def _graph(self) -> nx.DiGraph:
        """Return the graph of the groups so far, and of each other operation alone."""
        alone: list[Nodes] = [(number,) for number, one in enumerate(self.group) if one is None]
        return quotient(self.producers, [self.candidates[one].nodes for one in self.chosen] + alone)

    def _complete(self, spent: int) -> None:
        """Take a choice of groups for a plan, if they have an order in which all holds."""
        position = next(self._orders(), None)
        self._ordered = {}
        if position is not None:
            groups = map(self.candidates.__getitem__, self.chosen)
            self.plan, self.cost = order_groups(self.problem, groups, position), self.base + spent
            self.on_plan(self.plan)

    def _orders(self) -> Iterator[dict[tuple[int, ...], int]]:
        """Yield orders of execution of the groups in which all holds: of each its place."""
        graph = self._graph()
        groups = [self.candidates[one].nodes for one in self.chosen]
        index = {node: place for place, nodes in enumerate(groups) for node in nodes}
        named = {term for part in self.parts for term in terms(part) if term.word == "before"}
        pairs = {tuple(self.number[str(each)] for each in term.arguments) for term in named}
        apart = sorted({tuple(sorted((index[a], index[b]))) for a, b in pairs if index[a] != index[b]})

        def decide(place: int) -> Iterator[dict[tuple[int, ...], int]]:
            if not all(can_hold(part, self._range) for part in self.parts):
                return
            if place == len(apart):
                order = nx.lexicographical_topological_sort(graph, key=groups.__getitem__)
                yield {groups[each]: at for at, each in enumerate(order)}
                return
            one, other = apart[place]
            for first, second in ((one, other), (other, one)):
                new = not graph.has_edge(first, second)
                graph.add_edge(first, second)
                if nx.is_directed_acyclic_graph(graph):
                    told = {
                        (a, b): (int(index[a] == first),) * 2
                        for a, b in pairs
                        if {index[a], index[b]} == {first, second}
                    }
                    self._ordered |= told
                    yield from decide(place + 1)
                    for pair in told:
                        del self._ordered[pair]
                if new:
                    graph.remove_edge(first, second)

        yield from decide(0)
