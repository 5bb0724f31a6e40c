"""Shortest paths from nothing to all results: A* over what lies in slow memory and what has been kept.

A state is the set of tensors in slow memory and the set that the last subgraph has kept. A step runs any
subgraph that finds what it reads, with any tensors that it may keep. What is left costs at least the prices
of the operations that must still be run, which is never more than it does cost and shrinks by no more than a
step costs. So the first time that all results lie in slow memory, nothing is faster. Operations may run
twice. States that differ in the names of twins alone are one state, and the prices of twins may differ: so a
state is looked at again where a faster way to it is found later.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.scheduling.exact.arc_prices import best_prices
from tilewright.scheduling.exact.set_cover import RowSets, SetCover
from tilewright.scheduling.exact.subgraph_candidates import Candidates, connected_sets
from tilewright.scheduling.exact.symmetry import (
    Move,
    apply_move,
    equal_pairs,
    find_twins,
    in_order,
    restore_names,
)
from tilewright.scheduling.improvement.sequencing import Block, Kept
from tilewright.scheduling.subgraph.cost import Pricer
from tilewright.scheduling.subgraph.structure import LONGEST
from tilewright.spec.errors import OutOfTimeError

MOST_KEPT = 10
"""Most tensors of a subgraph of which all sets are tried to be kept."""

PARTS = (4, 2, 1)
"""Plans are first looked for that are better than the known one by most of what can be won: fewer come into
question. What is looked for first is a part of the way from the bound to the known plan."""

Steps = list[tuple[Block, Kept]]
State = tuple[int, Kept]


@dataclass
class SearchResult:
    """What the search found.

    Attributes
    ----------
    ticks, steps
        Of the fastest plan, where it is faster than asked for.
    bound
        No plan takes fewer ticks.
    proven
        Whether the search has come to its end.
    """

    bound: int
    ticks: int | None = None
    steps: Steps = field(default_factory=list)
    proven: bool = False


def search(
    pricer: Pricer,
    below: int,
    deadline: float = float("inf"),
    on_bound: Callable[[int], None] = lambda _bound: None,
    *,
    results: Iterable[int] | None = None,
    most_sets: int | None = None,
) -> SearchResult | None:
    """Look for the fastest plan of fewer than `below` ticks.

    Parameters
    ----------
    results
        Tensors that must lie in slow memory in the end; by default those that nothing reads.
    most_sets
        Beyond so many sets of operations with one grid nothing is looked for.

    Returns
    -------
    None where there are too many sets of operations to look at, or prices take too long.
    """
    bits = connected_sets(pricer.problem, most_sets, deadline)
    if bits is None:
        return None
    try:
        candidates = Candidates(pricer, bits)
        if not candidates.serves.any(axis=0).all():
            return SearchResult(LONGEST, proven=True)
        prices = best_prices(candidates, deadline)
    except OutOfTimeError:
        return None
    bound = int(prices.sum())
    on_bound(bound)
    wanted = pricer.graph.results if results is None else results
    answer = SearchResult(min(bound, below))
    for part in PARTS if below < LONGEST else (1,):
        top = bound + max(below - bound, 0) // part if part > 1 else below
        if top <= answer.bound and part > 1:
            continue
        try:
            whole = _Search(pricer, candidates, prices, top, deadline, on_bound, wanted)
        except OutOfTimeError:
            return answer
        found = None if candidates.may_stay else whole.chosen()
        if found is None or not (found.proven or time.monotonic() > deadline):
            try:
                found = whole.answer()
            except OutOfTimeError:
                return answer
        found.bound = max(found.bound, answer.bound)
        answer = found
        if not answer.proven or answer.ticks is not None:
            return answer
        on_bound(answer.bound)
    return answer


class _Successor(NamedTuple):
    """A state that a subgraph leads to.

    Attributes
    ----------
    state
        With twins in order.
    there
        Operations whose tensors are in one of the memories then, as bits.
    ticks
        What the subgraph takes.
    block, kept
        Its operations, and the tensors that it keeps.
    move
        Where twins go for the order.
    """

    state: State
    there: int
    ticks: int
    block: Block
    kept: Kept
    move: Move


class _Search:
    """The search itself."""

    def __init__(
        self,
        pricer: Pricer,
        candidates: Candidates,
        prices: NDArray[np.int64],
        below: int,
        deadline: float,
        on_bound: Callable[[int], None],
        results: Iterable[int],
    ) -> None:
        self.pricer, self.graph, self.below, self.deadline = pricer, pricer.graph, below, deadline
        self.candidates, self.all_prices, self.on_bound = candidates, prices, on_bound
        graph = self.graph
        self.prices = prices[: len(graph.inputs)]
        self.results = sum(1 << graph.maker[tensor] for tensor in set(results))
        self.before = [
            sum(1 << graph.maker[tensor] for tensor in set(graph.inputs[op]) if tensor in graph.maker)
            for op in range(len(graph.inputs))
        ]
        spare = candidates.ticks - candidates.serves @ prices
        self.rows = np.flatnonzero(spare + int(prices.sum()) < below)
        self.needs: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        for number, row in enumerate(map(int, self.rows)):
            if number % 1024 == 0 and time.monotonic() > deadline:
                raise OutOfTimeError
            ops = candidates.bits[row]
            needs = ends = 0
            for op in candidates.ops(row):
                needs |= self.before[op]
                readers = graph.readers.get(graph.made[op], ())
                if not any(ops >> reader & 1 for reader in readers):
                    ends |= 1 << op
            self.needs[row], self.ends[row] = needs & ~ops, ends
        self.has = candidates.has[self.rows]
        self.groups = find_twins(graph, set(results))
        self.options: dict[int, list[Kept]] = {}
        self.complete = True
        self.lefts: dict[int, tuple[int, int]] = {}

    def left(self, there: int) -> tuple[int, int]:
        """Return the operations that must still be run, as bits, and their prices together."""
        if there not in self.lefts:
            self.lefts[there] = self._left(there)
        return self.lefts[there]

    def _left(self, there: int) -> tuple[int, int]:
        found, waiting = 0, self.results & ~there
        while waiting:
            bit = waiting & -waiting
            waiting ^= bit
            found |= bit
            waiting |= self.before[bit.bit_length() - 1] & ~there & ~found
        total, rest = 0, found
        while rest:
            bit = rest & -rest
            rest ^= bit
            total += int(self.prices[bit.bit_length() - 1])
        return found, total

    def chosen(self) -> SearchResult:
        """Choose subgraphs where no tensor can be kept."""
        sets = RowSets(self.rows, self.needs, self.ends, self.results, self.before, self.groups)
        choosing = SetCover(self.candidates, self.all_prices, sets, self.below)
        found = choosing.answer(self.deadline, self.on_bound)
        nothing: Kept = frozenset()
        steps = [(block, nothing) for block in found.blocks]
        return SearchResult(found.bound, found.ticks, steps, found.proven)

    def keeping(self, row: int) -> list[Kept]:
        """Return the sets of tensors that a subgraph may keep."""
        if row not in self.options:
            graph = self.graph
            may = [
                graph.made[op]
                for op in sorted(self.candidates.ops(row))
                if graph.made[op] in self.candidates.may_stay
            ]
            if len(may) > MOST_KEPT:
                self.complete = False
                may = may[:MOST_KEPT]
            sets = [
                frozenset(some)
                for many in range(len(may) + 1)
                for some in combinations(may, many)
                if sum(map(graph.elements, some)) < graph.fast_memory_capacity
            ]
            block = self.candidates.ops(row)
            self.options[row] = [
                kept for kept in sets if not isinstance(self.pricer.structure(block, frozenset(), kept), str)
            ]
        return self.options[row]

    def answer(self) -> SearchResult:
        """Run until the end, or until time is up."""
        if self.candidates.arcs:
            self.prices = best_prices(self.candidates, self.deadline, arcs=False)
        start: State = (0, frozenset())
        best: dict[State, int] = {start: 0}
        came: dict[State, tuple[State, Block, Kept, Move]] = {}
        rest = self.left(0)
        heap: list[tuple[int, int, int, State]] = [(rest[1], 0, 0, start)]
        told, number, bound = rest[1], 0, rest[1]
        while heap:
            least, minus, _, state = heapq.heappop(heap)
            spent = -minus
            if spent > best[state]:
                continue
            if self.complete:
                bound = max(bound, least)
            if bound > told + self.graph.scale:
                told = bound
                self.on_bound(bound)
            if self.results & ~state[0] == 0:
                return SearchResult(
                    spent if self.complete else bound, spent, self._steps(came, state), self.complete
                )
            try:
                for way in self._successors(state, spent):
                    total = spent + way.ticks
                    if total >= best.get(way.state, self.below):
                        continue
                    whole = total + self.left(way.there)[1]
                    if whole >= self.below:
                        continue
                    best[way.state] = total
                    came[way.state] = state, way.block, way.kept, way.move
                    number += 1
                    heapq.heappush(heap, (max(whole, least), -total, number, way.state))
            except OutOfTimeError:
                return SearchResult(min(bound, self.below))
        return SearchResult(self.below if self.complete else min(bound, self.below), proven=self.complete)

    def _successors(self, state: State, spent: int) -> Iterator[_Successor]:
        """Yield states one subgraph further on; raise OutOfTimeError when the deadline comes."""
        graph, candidates, (written, resident) = self.graph, self.candidates, state
        self._check_time()
        there = written | sum(1 << graph.maker[tensor] for tensor in resident)
        needed, ahead = self.left(there)
        wanted = np.array([bool(needed >> op & 1) for op in range(len(graph.inputs))])
        saved = self.has @ (self.prices * wanted)
        lows = spent + candidates.ticks[self.rows] + ahead - saved
        needless = ~(self.has & wanted).any(axis=1)  # of use if they keep something for the next one
        looked = (lows < self.below) & ~(needless & (not candidates.may_stay))
        for one, other in equal_pairs(self.groups, self._profile(state)):
            looked &= self.has[:, one] | ~self.has[:, other]
        for place in np.flatnonzero(looked):
            row = int(self.rows[place])
            if self.needs[row] & ~there:
                continue
            if not candidates.exact[row]:
                self._check_time()
                beside = spent + ahead - int(saved[place])
                candidates.price(row, self.below - beside)
                if beside + int(candidates.ticks[row]) >= self.below:
                    continue
            block = candidates.ops(row)
            for kept in self.keeping(row):
                choice = self.pricer.best(block, resident, kept) if kept or not needless[place] else None
                if choice is not None:
                    keeps = sum(1 << graph.maker[tensor] for tensor in kept)
                    after, move = self._in_order((written | self.ends[row] & ~keeps, kept))
                    yield _Successor(
                        after, after[0] | apply_move(keeps, move), choice.least, block, kept, move
                    )

    def _check_time(self) -> None:
        if time.monotonic() > self.deadline:
            raise OutOfTimeError

    def _profile(self, state: State) -> Callable[[int], tuple[bool, bool]]:
        """Return what a state says of an operation, but for its name."""
        written, resident = state
        return lambda op: (not written >> op & 1, self.graph.made[op] not in resident)

    def _in_order(self, state: State) -> tuple[State, Move]:
        """Return the state with twins in order, and where they go for that."""
        move = in_order(self.groups, self._profile(state)) if self.groups else {}
        if not move:
            return state, move
        graph, (written, resident) = self.graph, state
        makers = [graph.maker[tensor] for tensor in resident]
        return (apply_move(written, move), frozenset(graph.made[move.get(op, op)] for op in makers)), move

    def _steps(self, came: dict[State, tuple[State, Block, Kept, Move]], state: State) -> Steps:
        graph, path = self.graph, []
        while state in came:
            state, block, kept, move = came[state]
            path.append((block, [graph.maker[tensor] for tensor in kept], move))
        path.reverse()
        count = len(graph.inputs)
        blocks = restore_names([(block, move) for block, _, move in path], count)
        keeps = restore_names([(kept, move) for _, kept, move in path], count)
        return [
            (frozenset(block), frozenset(graph.made[op] for op in kept))
            for block, kept in zip(blocks, keeps, strict=True)
        ]
