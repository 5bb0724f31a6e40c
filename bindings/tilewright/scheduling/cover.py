"""Which subgraphs there can be, and what each takes: what the formulations choose from.

They take graphs whose tensors are too large to stay between subgraphs, so that each has one price. A plan is
then a set of subgraphs: each tensor that one reads is written by another one before it, and all results are.
"""

from __future__ import annotations

from math import gcd

from tilewright.scheduling.arrangement import NOTHING, Arrangement, Block, plan_of
from tilewright.scheduling.cost import Pricer
from tilewright.scheduling.exact.candidates import Candidates, connected_sets
from tilewright.scheduling.lowering import whole
from tilewright.scheduling.merging import greedy
from tilewright.scheduling.plan import Plan
from tilewright.scheduling.problem import Problem

MOST_CANDIDATES = 2000
"""Subgraphs of which formulations still choose."""

CERTAIN, LARGEST = 10**7, 2**31 - 2
"""Largest amount whose last unit the tolerances of HiGHS leave certain, and largest number of Gecode."""


class Cover:
    """Subgraphs of a problem, with whole numbers for what they take.

    Attributes
    ----------
    blocks
        The subgraphs, in the order of their first operations.
    amounts
        What each takes; `per_unit` of them are a unit of time.
    needs, ends
        Operations that make what a subgraph reads, and those of it whose tensors it writes.
    results
        Operations that make the results.
    known
        Numbers of the subgraphs of a plan, None where none is known.
    worst
        Its time, or a time that no set of subgraphs exceeds.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, graph = problem, problem.graph
        self.pricer = Pricer(problem)
        bits = connected_sets(problem, MOST_CANDIDATES)
        assert bits is not None, "suits() refuses such a problem"
        candidates = Candidates(self.pricer, bits)
        found = [
            (block, choice.ticks)
            for block in map(candidates.ops, range(len(bits)))
            if (choice := self.pricer.best(block)) is not None
        ]
        found.sort(key=lambda pair: sorted(pair[0]))
        self.blocks: list[Block] = [block for block, _ in found]
        unit = gcd(graph.scale, *(ticks for _, ticks in found))
        self.per_unit = graph.scale // unit
        self.amounts = [ticks // unit for _, ticks in found]
        makers = {graph.made[op]: op for op in range(len(graph.inputs))}
        self.needs = [
            {makers[tensor] for op in block for tensor in graph.inputs[op] if tensor in makers} - block
            for block in self.blocks
        ]
        self.ends = [
            {op for op in block if not block.intersection(graph.readers.get(graph.made[op], ()))}
            for block in self.blocks
        ]
        self.results = {graph.maker[tensor] for tensor in graph.results}
        self.known: list[int] | None = None
        arranged = Arrangement(self.pricer).arranged(greedy(self.pricer).blocks)
        self.worst = whole(sum(ticks for _, ticks in found), graph.scale)
        if arranged is not None:
            self.known = self.numbers(plan_of(self.pricer, arranged[1]))
            self.worst = whole(arranged[0], graph.scale)

    def numbers(self, plan: Plan) -> list[int] | None:
        """Return the numbers of a plan's subgraphs; None where it keeps tensors or has others."""
        number = {block: place for place, block in enumerate(self.blocks)}
        if any(step.retained for step in plan.subgraphs):
            return None
        found = [number.get(frozenset(step.operations), -1) for step in plan.subgraphs]
        return None if -1 in found else sorted(set(found))

    def positions(self, chosen: list[int]) -> dict[int, int]:
        """Return in which round each operation's tensor is written, from 1 on, if these subgraphs run."""
        there: dict[int, int] = {}
        left, turn = list(chosen), 0
        while left:
            turn += 1
            ready = [number for number in left if self.needs[number] <= there.keys()]
            if not ready:
                break
            for number in ready:
                for op in self.ends[number]:
                    there.setdefault(op, turn)
            left = [number for number in left if number not in ready]
        return there

    def plan(self, chosen: list[int]) -> Plan:
        """Return the plan of chosen subgraphs, each as soon as all that it reads is written."""
        there: set[int] = set()
        left, steps = list(chosen), []
        while left:
            number = next((one for one in left if self.needs[one] <= there), left[0])
            left.remove(number)
            steps.append((self.blocks[number], NOTHING))
            there |= self.ends[number]
        return plan_of(self.pricer, steps)


def takes(problem: Problem, largest: int = LARGEST) -> bool:
    """Whether the formulations take a problem: no tensor can stay, subgraphs and amounts are not too many."""
    graph = problem.graph
    read = [tensor for tensor in graph.made if tensor in graph.readers]
    if any(graph.elements(tensor) < graph.fast_memory_capacity for tensor in read):
        return False
    if connected_sets(problem, MOST_CANDIDATES) is None:
        return False
    found = Cover(problem)
    return sum(found.amounts) <= largest or found.worst * found.per_unit <= largest // 2
