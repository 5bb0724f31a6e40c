"""What plans are made of, and what each part takes: what the formulations choose from.

A part is a run of subgraphs, one after the other, each of which keeps tensors for the next one, but for the
last: mostly a single subgraph. So the price of a part depends on nothing outside. A plan is a set of parts:
each tensor that one reads is written by another one before it, and all results are. Of parts that read no
more, write no less and take no longer than another one, that one is left out.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations
from math import gcd
from typing import NamedTuple

from tilewright.core.cutoffs import narrow
from tilewright.scheduling.exact.subgraph_candidates import Candidates, connected_sets
from tilewright.scheduling.improvement.partition import Steps, merge_greedily
from tilewright.scheduling.improvement.sequencing import NOTHING, Block, Kept, Sequencing, plan_of
from tilewright.scheduling.lowering import whole_units
from tilewright.scheduling.plan import Plan
from tilewright.scheduling.problem import Problem
from tilewright.scheduling.subgraph.cost import Pricer
from tilewright.scheduling.subgraph.structure import LONGEST, sinks
from tilewright.spec.constraints import Term
from tilewright.spec.constraints.parts import terms

MOST_CANDIDATES = 2000
"""Subgraphs, and runs of them, of which formulations still choose."""

MOST_RUNS = 20_000
"""Runs that are looked at for these."""

CERTAIN, LARGEST = 10**7, 2**31 - 2
"""Largest amount whose last unit the tolerances of HiGHS leave certain, and largest number of Gecode."""


Told = frozenset[tuple[str, int, int]]
"""Terms of constraints that hold in a run."""


class Run(NamedTuple):
    """Subgraphs that run one after the other, with what each keeps for the next.

    Attributes
    ----------
    needs, ends
        Operations that make what they read of slow memory, and those whose tensors they write there.
    told
        Terms of constraints that hold in it.
    last
        Whether its last subgraph keeps something, so that nothing can follow; constraints may ask for it.
    """

    ticks: int
    steps: tuple[tuple[Block, Kept], ...]
    needs: frozenset[int]
    ends: frozenset[int]
    told: Told = frozenset()
    last: bool = False


class Cover:
    """Runs of a problem, with whole numbers for what they take.

    Attributes
    ----------
    blocks
        The operations of each run.
    amounts
        What each takes; `per_unit` of them are a unit of time.
    needs, ends
        Operations that make what a run reads, and those whose tensors it writes.
    last
        Runs of which a plan has one at most, the last.
    results
        Operations that make the results.
    known
        Numbers of the runs of a plan, None where none is known.
    worst
        Its time, or a time that no set of runs exceeds.
    """

    def __init__(self, problem: Problem, runs: list[Run], pricer: Pricer, known: Steps | None) -> None:
        self.problem, self.pricer, graph = problem, pricer, problem.graph
        self.runs = sorted(runs, key=lambda run: [sorted(block) for block, _ in run.steps])
        self.blocks = [frozenset(op for block, _ in run.steps for op in block) for run in self.runs]
        unit = gcd(graph.scale, *(run.ticks for run in self.runs))
        self.per_unit = graph.scale // unit
        self.amounts = [run.ticks // unit for run in self.runs]
        self.needs = [run.needs for run in self.runs]
        self.ends = [run.ends for run in self.runs]
        self.last = {number for number, run in enumerate(self.runs) if run.last}
        self.results = {graph.maker[tensor] for tensor in graph.results}
        self.known: list[int] | None = None
        self.worst = whole_units(sum(run.ticks for run in self.runs), graph.scale)
        if known is not None:
            self.known = self.numbers(plan_of(pricer, known))
        if self.known is not None:
            best = whole_units(sum(self.runs[number].ticks for number in self.known), graph.scale)
            most = min(self.worst, LARGEST // 2 // self.per_unit)
            self.worst = max(best, most) if narrow() or problem.constraints else best

    def numbers(self, plan: Plan) -> list[int] | None:
        """Return the numbers of a plan's runs, or of such that do as much in less; else None."""
        graph = self.problem.graph
        if self.problem.constraints:
            return self._same(plan)
        found: set[int] = set()
        ticks, needs, ends, resident = 0, frozenset[int](), frozenset[int](), NOTHING
        for step in plan.subgraphs:
            block, kept = frozenset(step.operations), frozenset(step.retained)
            choice = self.pricer.best(block, resident, kept)
            if choice is None:
                return None
            there = ends | {graph.maker[tensor] for tensor in resident}
            ticks += choice.ticks
            needs |= _needs(self.pricer, block) - there
            ends |= _written(self.pricer, block, kept)
            resident = kept
            if kept:
                continue
            number = next(
                (
                    number
                    for number, run in enumerate(self.runs)
                    if run.needs <= needs and run.ends >= ends and run.ticks <= ticks
                ),
                None,
            )
            if number is None:
                return None
            found.add(number)
            ticks, needs, ends = 0, frozenset(), frozenset()
        return None if resident else sorted(found)

    def holding(self, term: Term) -> list[int]:
        """Return the numbers of the runs in which ``together`` or ``retained`` holds."""
        of = {int(argument) for argument in term.arguments}
        place = 0 if term.word == "together" else 1
        return [
            number for number, run in enumerate(self.runs) if any(of <= step[place] for step in run.steps)
        ]

    def _same(self, plan: Plan) -> list[int] | None:
        """Return the numbers of the very runs of a plan; None where one is none of these."""
        number = {run.steps: place for place, run in enumerate(self.runs)}
        found, steps = set(), []
        for step in plan.subgraphs:
            steps.append((frozenset(step.operations), frozenset(step.retained)))
            if not step.retained:
                found.add(number.get(tuple(steps), -1))
                steps = []
        if steps:
            found.add(number.get(tuple(steps), -1))
        return None if -1 in found else sorted(found)

    def started(self, plan: Plan) -> list[int] | None:
        """Return the numbers of a plan's runs, or of the known plan where that is faster."""
        found = self.numbers(plan)
        if found is None or sum(self.amounts[number] for number in found) > self.worst * self.per_unit:
            return self.known
        return found

    def ordered(self, chosen: list[int]) -> list[int]:
        """Return runs in an order in which each comes after those that write what it reads."""
        there: set[int] = set()
        left, order = [number for number in chosen if number not in self.last], []
        while left:
            number = next((one for one in left if self.needs[one] <= there), left[0])
            left.remove(number)
            order.append(number)
            there |= self.ends[number]
        return order + [number for number in chosen if number in self.last]

    def writers(self, chosen: list[int]) -> dict[int, int]:
        """Return which of the chosen runs writes each operation's tensor first, in the order of that."""
        found: dict[int, int] = {}
        for number in self.ordered(chosen):
            for op in sorted(self.ends[number]):
                found.setdefault(op, number)
        return found

    def turns(self, chosen: list[int]) -> dict[int, int]:
        """Return in which round each operation's tensor is written, from 1 on, if these runs run."""
        found: dict[int, int] = {}
        for op, number in self.writers(chosen).items():
            found[op] = 1 + max((found.get(need, 0) for need in self.needs[number]), default=0)
        return found

    def plan(self, chosen: list[int]) -> Plan:
        """Return the plan of chosen runs, each as soon as all that it reads is written."""
        return plan_of(self.pricer, [step for run in self.ordered(chosen) for step in self.runs[run].steps])


def _needs(pricer: Pricer, block: Block) -> frozenset[int]:
    """Return the operations outside of a subgraph that make what it reads."""
    graph = pricer.graph
    read = {tensor for op in block for tensor in graph.inputs[op]}
    return frozenset(graph.maker[tensor] for tensor in read if tensor in graph.maker) - block


def _written(pricer: Pricer, block: Block, kept: Kept) -> frozenset[int]:
    """Return the operations whose tensors a subgraph writes."""
    graph = pricer.graph
    return frozenset(graph.maker[tensor] for tensor in sinks(graph, block) if tensor not in kept)


def _keeps(pricer: Pricer, block: Block) -> Iterator[Kept]:
    """Yield the sets of tensors that a subgraph may keep, nothing first.

    What nothing reads is kept in vain, unless a constraint asks for it.
    """
    graph = pricer.graph
    may = [
        graph.made[op]
        for op in sorted(block)
        if graph.elements(graph.made[op]) < graph.fast_memory_capacity
        and (pricer.problem.constraints or graph.made[op] in graph.readers)
    ]
    for many in range(len(may) + 1):
        for some in combinations(may, many):
            if not isinstance(pricer.structure(block, NOTHING, frozenset(some)), str):
                yield frozenset(some)


def _told(problem: Problem, block: Block, kept: Kept) -> Told:
    """Return the terms of constraints that hold in a subgraph."""
    found = {term for part in problem.must_hold for term in terms(part)}
    return frozenset(
        (term.word, int(term.arguments[0]), int(term.arguments[-1]))
        for term in found
        if (term.word == "together" and block.issuperset(map(int, term.arguments)))
        or (term.word == "retained" and term.arguments[0] in kept)
    )


def _runs(pricer: Pricer, blocks: list[Block], below: int) -> list[Run] | None:
    """Return all runs that take no more than some ticks; None where they are too many, or loosely bounded.

    Those that begin take least are continued first, so that each way to read, write and keep the same, and to
    mean the same to constraints, is looked at once.
    """
    graph = pricer.graph
    parts = [(block, _needs(pricer, block), list(_keeps(pricer, block))) for block in blocks]
    results = {graph.maker[tensor] for tensor in graph.results}
    looked: set[tuple[frozenset[int], frozenset[int], Kept, Told]] = set()
    found: list[Run] = []
    heap: list[tuple[int, int, Run]] = [(0, 0, Run(0, (), frozenset(), frozenset()))]
    number = 0
    while heap:
        _, _, run = heapq.heappop(heap)
        resident = run.steps[-1][1] if run.steps else NOTHING
        key = run.needs, run.ends, resident, run.told
        if run.steps:
            if key in looked:
                continue
            looked.add(key)
            if not resident:
                found.append(run)
                continue
            if pricer.problem.constraints:
                # Of what it writes nothing is read, as nothing follows.
                found.append(run._replace(ends=run.ends & results, last=True))
        there = run.ends | {graph.maker[tensor] for tensor in resident}
        for block, needs, keeps in parts:
            for kept in keeps:
                choice = pricer.best(block, resident, kept)
                if choice is None or run.ticks + choice.least > below:
                    continue
                if choice.least < choice.ticks:  # what it takes is not known for sure
                    return None
                after = Run(
                    run.ticks + choice.ticks,
                    (*run.steps, (block, kept)),
                    run.needs | (needs - there),
                    run.ends | _written(pricer, block, kept),
                    run.told | _told(pricer.problem, block, kept),
                )
                if (after.needs, after.ends, kept, after.told) in looked:
                    continue
                number += 1
                if number > MOST_RUNS:
                    return None
                heapq.heappush(heap, (after.ticks, number, after))
    return found


def _best(runs: list[Run]) -> list[Run]:
    """Return the runs that no other one can stand for."""
    found: list[Run] = []
    for run in sorted(runs, key=lambda one: (one.ticks, len(one.needs), -len(one.ends))):
        if not any(one.needs <= run.needs and one.ends >= run.ends and one.told == run.told for one in found):
            found.append(run)
    return found


def find_cover(problem: Problem) -> Cover | None:
    """Return the runs of a problem; None where there are too many of them, or of subgraphs."""
    return _cover(problem, narrow() or bool(problem.constraints))


@lru_cache(maxsize=8)
def _cover(problem: Problem, all_runs: bool) -> Cover | None:
    bits = connected_sets(problem, MOST_CANDIDATES)
    if bits is None:
        return None
    pricer = Pricer(problem)
    candidates = Candidates(pricer, bits)
    arranged = Sequencing(pricer).arranged(merge_greedily(pricer).blocks)
    known = arranged[1] if arranged is not None else None
    below = arranged[0] if arranged is not None else LONGEST
    blocks = [candidates.ops(row) for row in range(len(bits))]
    runs = _runs(pricer, blocks, LONGEST) if all_runs else None
    if runs is None and not problem.constraints:
        # Where all are too many, those that may be part of a plan as good as the known one.
        runs = _runs(pricer, blocks, below)
    if runs is None or len(best := _best(runs)) > MOST_CANDIDATES:
        return None
    return Cover(problem, best, pricer, known)


def takes(problem: Problem, largest: int = LARGEST) -> bool:
    """Whether the formulations take a problem: there are not too many runs, and amounts are not too large."""
    found = find_cover(problem)
    return found is not None and (
        sum(found.amounts) <= largest or found.worst * found.per_unit <= largest // 2
    )


def require_cover(problem: Problem) -> Cover:
    """Return the runs of a problem that the formulations take."""
    found = find_cover(problem)
    assert found is not None, "suits() refuses such a problem"
    return found
