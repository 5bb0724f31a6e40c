"""Shortest paths where plans keep constraints: what these tell apart is a part of the state.

A state is what lies in slow memory, what the last subgraph has kept, and the values so far of the terms on
which something that must hold still depends. Any subgraph may follow that finds what it reads, in any tiles
that some term speaks of, also one that computes nothing new. A way ends where something can hold no more.
What is left costs at least the prices of the operations that must still be run, as without constraints.

Of the time of a plan it is known only that a faster way to a state is no worse. So constraints may say how
long a plan takes at most, in whatever connection, and no more than that.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from typing import NamedTuple

from tilewright.scheduling.exact.arc_prices import best_prices
from tilewright.scheduling.exact.subgraph_candidates import Candidates, connected_sets
from tilewright.scheduling.lowering import whole_units
from tilewright.scheduling.plan import Plan, Subgraph
from tilewright.scheduling.problem import Problem
from tilewright.scheduling.subgraph.cost import Pricer, SubgraphCost, best_order, deepest_step
from tilewright.scheduling.subgraph.structure import LONGEST
from tilewright.scheduling.vocabulary import SIZES
from tilewright.spec.constraints import Term
from tilewright.spec.constraints.parts import Constant, Ground, Operation, terms
from tilewright.spec.constraints.ranges import Range, value_range
from tilewright.spec.errors import OutOfTimeError

MANY = 2**60
"""More than any count of a plan."""

Axes = tuple[int | None, int | None, int | None]
"""Width, height and depth that are given; None of what is free."""

FREE: Axes = (None, None, None)

Block = frozenset[int]
Values = tuple[int | None, ...]
"""Of terms; None of what is not decided."""

SETTLED = -1
"""What stands for a value on which nothing depends any more."""


def no_more_than(part: Ground, word: str) -> bool:
    """Whether something that holds still holds where a word has a lower value."""
    return _sense(part, word) <= {-1}


def _sense(part: Ground, word: str) -> set[int]:
    """Return in which sense a word changes a part: 1 with it, -1 against it; nothing if it is not in it."""
    if isinstance(part, Term):
        return {1} if part.word == word else set()
    if not isinstance(part, Operation):
        return set()
    senses = [_sense(each, word) for each in part.operands]
    match part.operator:
        case "+" | "min" | "max" | "and" | "or" | "count":
            return set().union(*senses)
        case "neg" | "not":
            return _turned(senses[0])
        case "implies" | "<=" | "<":
            return _turned(senses[0]) | senses[1]
        case "//":
            return senses[0]
        case "*" if all(isinstance(each, Constant) for each in part.operands[1:]):
            factor = prod(int(each.value) for each in part.operands[1:] if isinstance(each, Constant))
            return senses[0] if factor > 0 else _turned(senses[0]) if factor else set()
    return {-1, 1} if any(senses) else set()


def _turned(sense: set[int]) -> set[int]:
    return {-each for each in sense}


@dataclass(frozen=True)
class Step:
    """A subgraph with what it keeps and its granularity."""

    block: Block
    kept: Block
    size: tuple[int, int, int]


class Answer(NamedTuple):
    """What the search has found.

    Attributes
    ----------
    plan
        None where none is found.
    bound
        Ticks that no plan is below.
    proven
        Whether the search has come to its end.
    """

    plan: Plan | None
    bound: int
    proven: bool


class _State(NamedTuple):
    """Where a way has come to.

    Attributes
    ----------
    written
        Operations whose tensors are in slow memory, as bits.
    resident
        Tensors that the last subgraph has kept.
    values
        Of the terms, so far: None of what is not decided, `SETTLED` where nothing depends on it any more.
    """

    written: int
    resident: Block
    values: Values


def search(
    problem: Problem, below: int, deadline: float, on_bound: Callable[[int], None] = lambda _bound: None
) -> Answer | None:
    """Look for the fastest plan of fewer than `below` ticks that keeps the constraints.

    Returns
    -------
    None where there are too many sets of operations to look at, or prices take too long.
    """
    bits = connected_sets(problem, None, deadline)
    if bits is None:
        return None
    pricer = Pricer(problem)
    try:
        candidates = Candidates(pricer, bits, keeps_results=True)
        if not candidates.serves.any(axis=0).all():
            return Answer(None, LONGEST, True)
        prices = best_prices(candidates, deadline, arcs=False)
    except OutOfTimeError:
        return None
    return _Search(pricer, candidates, [int(each) for each in prices], below, deadline, on_bound).answer()


class _Search:
    """The search itself."""

    def __init__(
        self,
        pricer: Pricer,
        candidates: Candidates,
        prices: list[int],
        below: int,
        deadline: float,
        on_bound: Callable[[int], None],
    ) -> None:
        self.pricer, self.graph, self.problem = pricer, pricer.graph, pricer.problem
        self.prices, self.below, self.deadline, self.on_bound = prices, below, deadline, on_bound
        graph = self.graph
        self.parts = self.problem.must_hold_in_numbers
        found = {term for part in self.parts for term in terms(part)}
        self.terms = sorted(found, key=str)
        self.place = {term: place for place, term in enumerate(self.terms)}
        self.of_part = [frozenset(self.place[term] for term in terms(part)) for part in self.parts]
        self.results = sum(1 << graph.maker[tensor] for tensor in graph.results)
        self.before = [
            sum(1 << graph.maker[tensor] for tensor in {*graph.inputs[op]} if tensor in graph.maker)
            for op in range(len(graph.inputs))
        ]
        self.blocks = [candidates.ops(row) for row in range(len(candidates.bits))]
        self.ends = [self._ends(block) for block in self.blocks]
        self.needs = [self._needs(block) for block in self.blocks]
        self.keeps: dict[int, list[Block]] = {}
        self.costs: dict[tuple[int, Block, Block, Axes], SubgraphCost | None] = {}

    def _ends(self, block: Block) -> int:
        graph = self.graph
        return sum(1 << op for op in block if block.isdisjoint(graph.readers.get(graph.made[op], ())))

    def _needs(self, block: Block) -> int:
        found = 0
        for op in block:
            found |= self.before[op]
        return found & ~sum(1 << op for op in block)

    # Terms -----------------------------------------------------------------------------------------

    def _first_values(self) -> Values:
        """Return the values before anything runs."""
        decided = ("before", *SIZES)
        return tuple(None if term.word in decided else 0 for term in self.terms)

    def _after(self, values: Values, block: Block, kept: Block) -> list[int | None]:
        """Return the values behind a subgraph, but for what its granularity decides."""
        new = list(values)
        for place, term in enumerate(self.terms):
            value, of = new[place], term.arguments
            match term.word:
                case "together":
                    new[place] = int(bool(value) or set(of) <= block)
                case "retained":
                    new[place] = int(bool(value) or of[0] in kept)
                case "runs":
                    new[place] = (value or 0) + (of[0] in block)
                case "subgraphs":
                    new[place] = (value or 0) + 1
                case "kept":
                    new[place] = (value or 0) + len(kept)
                case "before" if value is None and not block.isdisjoint(of):  # none of them has run
                    new[place] = int(of[0] in block and of[1] not in block)
        return new

    def _told(self, state: _State, block: Block) -> list[int]:
        """Return the terms that the granularity of a subgraph decides: the first to run an operation."""
        return [
            place
            for place, term in enumerate(self.terms)
            if term.word in SIZES and state.values[place] is None and term.arguments[0] in block
        ]

    def _range(self, values: Values, spent: int, ended: bool) -> Callable[[Term], Range]:
        """Return what terms can still be."""

        def found(term: Term) -> Range:
            if term.word == "latency":
                least = whole_units(spent, self.graph.scale)
                return least, least if ended else MANY
            value = values[self.place[term]]
            if value is None:
                return (0, 1) if term.word == "before" else (1, max(self.graph.native_granularity))
            if ended or term.word in ("before", *SIZES):
                return value, value
            return value, 1 if term.word in ("together", "retained") else MANY

        return found

    def _open(self, values: Values, spent: int) -> Values | None:
        """Return the values on which something still depends, None where something can hold no more."""
        found: set[int] = set()
        ranges = self._range(values, spent, False)
        for part, places in zip(self.parts, self.of_part, strict=True):
            low, high = value_range(part, ranges)
            if not high:
                return None
            if not low:
                found |= places
        time_ = self.place.get(Term("latency"))
        return tuple(
            value if place in found and place != time_ else SETTLED for place, value in enumerate(values)
        )

    # Subgraphs -------------------------------------------------------------------------------------

    def _keeps(self, row: int) -> list[Block]:
        """Return all sets of tensors that a subgraph may keep."""
        if row not in self.keeps:
            graph, block = self.graph, self.blocks[row]
            made = [graph.made[op] for op in sorted(block)]
            sets = (frozenset(some) for many in range(len(made) + 1) for some in combinations(made, many))
            self.keeps[row] = [
                kept
                for kept in sets
                if sum(map(graph.elements, kept)) < graph.fast_memory_capacity
                and not isinstance(self.pricer.structure(block, frozenset(), kept), str)
            ]
        return self.keeps[row]

    def _cost(self, row: int, resident: Block, kept: Block, axes: Axes) -> SubgraphCost | None:
        """Return the fastest granularity of a subgraph of which some sides are given."""
        key = row, resident, kept, axes
        if key not in self.costs:
            if axes == FREE:
                self.costs[key] = self.pricer.best(self.blocks[row], resident, kept)
            else:
                self.costs[key] = self.pricer.best_of(self.blocks[row], resident, kept, axes)
        return self.costs[key]

    def _axes(self, row: int, resident: Block, kept: Block, told: list[int]) -> Iterator[Axes]:
        """Yield all values of the sides on which terms depend."""
        found = self.pricer.structure(self.blocks[row], resident, kept)
        assert not isinstance(found, str)
        asked = {SIZES.index(self.terms[place].word) for place in told}
        least = found.least_width, found.least_height, 1
        most = (*self.graph.native_granularity, deepest_step(self.graph, found))
        sides = [range(least[axis], most[axis] + 1) if axis in asked else (None,) for axis in range(3)]
        yield from product(*sides)

    # The search ------------------------------------------------------------------------------------

    def _left(self, there: int) -> int:
        """Return the prices of the operations that must still be run."""
        found, waiting = 0, self.results & ~there
        while waiting:
            bit = waiting & -waiting
            waiting ^= bit
            found |= bit
            waiting |= self.before[bit.bit_length() - 1] & ~there & ~found
        return sum(price for op, price in enumerate(self.prices) if found >> op & 1)

    def answer(self) -> Answer:
        """Run until the end, or until time is up."""
        values = self._open(self._first_values(), 0)
        if values is None:
            return Answer(None, self.below, True)
        start = _State(0, frozenset(), values)
        best, exact = {start: 0}, {start: self._first_values()}
        came: dict[_State, tuple[_State, Step]] = {}
        heap: list[tuple[int, int, int, _State]] = [(self._left(0), 0, 0, start)]
        number = told = 0
        while heap:
            least, minus, _, state = heapq.heappop(heap)
            spent = -minus
            if spent > best[state]:
                continue
            if least > told + self.graph.scale:
                told = least
                self.on_bound(told)
            if self.results & ~state.written == 0 and self._ends_well(exact[state], spent):
                return Answer(self._plan(came, state), spent, True)
            try:
                for after, values, ticks, step in self._successors(state, exact[state], spent):
                    total = spent + ticks
                    if total >= best.get(after, self.below):
                        continue
                    there = after.written | sum(1 << self.graph.maker[tensor] for tensor in after.resident)
                    whole = total + self._left(there)
                    if whole >= self.below:
                        continue
                    best[after], came[after], exact[after] = total, (state, step), values
                    number += 1
                    heapq.heappush(heap, (max(whole, least), -total, number, after))
            except OutOfTimeError:
                return Answer(None, min(least, self.below), False)
        return Answer(None, self.below, True)

    def _ends_well(self, values: Values, spent: int) -> bool:
        """Whether all holds if nothing more runs."""
        ranges = self._range(values, spent, True)
        return all(value_range(part, ranges)[0] for part in self.parts)

    def _successors(
        self, state: _State, values: Values, spent: int
    ) -> Iterator[tuple[_State, Values, int, Step]]:
        """Yield what a subgraph leads to, with the values there, its ticks, and itself."""
        graph, resident = self.graph, state.resident
        there = state.written | sum(1 << graph.maker[tensor] for tensor in resident)
        for row, block in enumerate(self.blocks):
            if self.needs[row] & ~there:
                continue
            if time.monotonic() > self.deadline:
                raise OutOfTimeError
            told = self._told(state, block)
            for kept in self._keeps(row):
                if isinstance(self.pricer.structure(block, resident, kept), str):
                    continue
                new = self._after(values, block, kept)
                written = state.written | self.ends[row] & ~sum(1 << graph.maker[tensor] for tensor in kept)
                for axes in self._axes(row, resident, kept, told):
                    for place in told:
                        new[place] = axes[SIZES.index(self.terms[place].word)]
                    if self._open(tuple(new), spent) is None:
                        continue
                    choice = self._cost(row, resident, kept, axes)
                    depends = None if choice is None else self._open(tuple(new), spent + choice.least)
                    if choice is None or depends is None:
                        continue
                    step = Step(block, kept, (choice.width, choice.height, choice.depth))
                    yield _State(written, kept, depends), tuple(new), choice.least, step

    def _plan(self, came: dict[_State, tuple[_State, Step]], state: _State) -> Plan:
        steps = []
        while state in came:
            state, step = came[state]
            steps.append(step)
        graph, resident, subgraphs = self.graph, frozenset[int](), []
        for step in reversed(steps):
            found = self.pricer.structure(step.block, resident, step.kept)
            assert not isinstance(found, str)
            ops = tuple(sorted(step.block, key=graph.place.__getitem__))
            order = best_order(graph, found, step.size)
            subgraphs.append(Subgraph(ops, step.size, tuple(sorted(step.kept)), order))
            resident = step.kept
        return Plan(tuple(subgraphs))
