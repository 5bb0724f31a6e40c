"""Greedy: at each operation the group that saves most there and then, as compilers do (DNNVM paper, 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from tilewright.fusion import Plan, Problem
from tilewright.fusion.selection.candidates import Candidate, candidates
from tilewright.fusion.selection.execution_order import order_groups


def plan(problem: Problem) -> Plan:
    """Choose groups along the order of execution, and never take one back."""
    return order_groups(problem, choose([op.producers for op in problem.ops], candidates(problem)))


def choose(producers: Sequence[Sequence[int]], candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates that hold each operation once, in groups that do not wait for each other.

    Each operation, in the order of execution, begins a group unless one holds it already: of all candidates
    that begin with it, the one that saves most against its members alone. Left out are those with a member
    that a group holds already, and those that would wait for themselves if what no group holds yet were
    executed one operation at a time.
    """
    alone = {candidate.nodes[0]: candidate.cost for candidate in candidates if len(candidate.nodes) == 1}
    beginning: list[list[Candidate]] = [[] for _ in producers]
    for candidate in candidates:
        beginning[candidate.nodes[0]].append(candidate)
    waits = _Waits(producers)
    chosen: list[Candidate] = []
    held: set[int] = set()
    for number, allowed in enumerate(beginning):
        if number not in held:
            candidate = min(
                (
                    candidate
                    for candidate in allowed
                    if held.isdisjoint(candidate.nodes) and waits.allow(candidate.nodes)
                ),
                key=lambda candidate: candidate.cost - sum(alone[member] for member in candidate.nodes),
            )
            waits.join(candidate.nodes)
            held.update(candidate.nodes)
            chosen.append(candidate)
    return chosen


class _Waits:
    """For each operation, a bit mask of all that must be executed before it, with the groups so far."""

    def __init__(self, producers: Sequence[Sequence[int]]) -> None:
        self.before: list[int] = []
        for sources in producers:
            read = [source for source in sources if source >= 0]
            self.before.append(reduce(or_, (self.before[source] | 1 << source for source in read), 0))

    def allow(self, nodes: Sequence[int]) -> bool:
        """Whether operations can be one group: no other is both before a member and after one."""
        members, before = self._masks(nodes)
        return not any(before >> other & 1 and mask & members for other, mask in enumerate(self.before))

    def join(self, nodes: Sequence[int]) -> None:
        """Make operations one group: what waits for a member waits for all, and for what they wait for."""
        members, before = self._masks(nodes)
        for other, mask in enumerate(self.before):
            if members >> other & 1:
                self.before[other] = before
            elif mask & members:
                self.before[other] = mask | members | before

    def _masks(self, nodes: Sequence[int]) -> tuple[int, int]:
        members = sum(1 << number for number in nodes)
        return members, reduce(or_, (self.before[number] for number in nodes)) & ~members
