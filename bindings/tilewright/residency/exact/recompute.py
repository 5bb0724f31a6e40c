"""Which operations are executed twice: branch and bound, best first. Each node is a network.

An operation is executed once, or twice, or that is open. Of one that is executed twice, the first of its
readers in the file reads the first execution, which is but a matter of names, and each other reader one of
the two. Where all this is decided there is a network with copies, which the search for one execution solves.

Before, the output of an operation that may be executed twice has no elements. It is computed once, by all
that is needed for it, takes no room, and is moved for nothing. Nothing moves more than in any plan in which
what is open is decided. For of two executions, leave out the one that comes later. What reads it comes later
still, so that it finds the output of the other; and so it goes with all that is executed for the second one
only: all steps are left with operations of which each leads to the last one, or with none. Copies that are in
the network already are of operations all of whose readers are decided.

Weights of what is executed twice are moved twice. So operations with more weights than a better plan may move
beyond the bound are executed once, and so are those that only such ones read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import NamedTuple

from tilewright.core.branch_and_bound import BestFirst, GrowingShare, Incumbent, ignore, share_of
from tilewright.residency.derived_problems import Readers, names_of_copies, with_copies_of
from tilewright.residency.exact.traffic import Answer, layered_search, least_traffic, moved_by
from tilewright.residency.graph import members
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.spec.errors import OutOfTimeError


@dataclass(frozen=True)
class RecomputeParams:
    """How the search divides its time.

    Attributes
    ----------
    share
        Share of the time left that a single search may take, as long as none takes longer.
    first_share
        Share of the time in which a plan is looked for that executes all operations once.
    rule_share
        Share of the time that is then left in which copies are tried by a rule.
    """

    share: float = 0.25
    first_share: float = 0.4
    rule_share: float = 0.5


PARAMS = RecomputeParams()


class Node(NamedTuple):
    """What is decided.

    Attributes
    ----------
    once, twice
        Bit masks of operations.
    readers
        For some of the latter, by name, who reads the second execution.
    """

    once: int
    twice: int
    readers: tuple[tuple[str, tuple[str, ...]], ...] = ()


class NetworkBound(NamedTuple):
    """A bound on what is moved in a network with copies, and whether nothing better is to be found out."""

    bound: int
    final: bool


def search_recompute(
    problem: Problem,
    deadline: float,
    on_bound: Callable[[int], None],
    on_plan: Callable[[Plan], None],
    start: Plan | None = None,
) -> Answer:
    """Return the plan that moves least with operations executed at most twice, and a bound in bytes.

    Parameters
    ----------
    start
        A valid plan: only better ones are looked for.
    """
    return _Search(problem, deadline, on_bound, on_plan).run(start)


class _Search:
    """The search for one problem; it counts elements."""

    def __init__(
        self,
        problem: Problem,
        deadline: float,
        on_bound: Callable[[int], None],
        on_plan: Callable[[Plan], None],
    ) -> None:
        self.problem, self.graph, self.deadline = problem, problem.graph, deadline
        self.width, self.capacity = problem.machine.element_bytes, problem.machine.capacity
        self.incumbent: Incumbent[Plan] = Incumbent(on_plan, lambda bound: on_bound(self.width * bound))
        self.tree: BestFirst[Node] = BestFirst(self.incumbent, deadline)
        self.names = [op.name for op in self.graph.operations]
        self.copies = names_of_copies(self.graph.ops)
        self.readers = self.graph.readers[1:]  # of each operation's output
        self.weights = [op.weights for op in self.graph.operations]
        self._shares = GrowingShare(deadline, PARAMS.share)
        self._known: dict[tuple[object, int], NetworkBound] = {}

    def run(self, start: Plan | None) -> Answer:
        """Return the best plan and a bound in bytes."""
        incumbent = self.incumbent
        if start is not None:
            incumbent.offer(moved_by(self.problem, start), start)
        incumbent.prove(self.graph.compulsory)
        with suppress(OutOfTimeError):
            if not incumbent.proven:
                self._plan_with_copies({}, share_of(self.deadline, PARAMS.first_share))
            if not incumbent.proven:
                self._try_rule()
            self._push(incumbent.bound, Node(self._never(), 0))
            for bound, node in self.tree:
                self._look(bound, node)
        return Answer(incumbent.plan, self.width * incumbent.bound)

    # Plans ---------------------------------------------------------------------------------------------

    def _plan_with_copies(self, again: Readers, until: float) -> NetworkBound:
        """Find the best plan of a network with copies, if it is better than all that are known."""
        split = with_copies_of(self.problem, again) if again else self.problem

        def take(plan: Plan) -> None:
            readers = {name: tuple(readers) for name, readers in again.items()}
            self.incumbent.offer(moved_by(split, plan), replace(plan, again=readers))

        known = None if self.incumbent.plan is None else self.incumbent.value
        answer = least_traffic(split, until, ignore, take, known)
        if answer.plan is not None:
            take(answer.plan)
        bound = answer.bound // self.width
        found = NetworkBound(bound, bound >= self.incumbent.value or time.monotonic() < until)
        self._known[tuple(sorted(again.items())), 0] = found
        return found

    def _try_rule(self) -> None:
        """Try to execute twice what leads to a map, for its readers but the first; large maps come first."""
        maps = [op.number for op in self.graph.operations if self._has_several_readers(op.number)]
        maps.sort(key=lambda number: -self.graph.tensors[number + 1].size)
        twice, heads, end = 0, 0, share_of(self.deadline, PARAMS.rule_share)
        for number in maps:
            head, better = 1 << number, 0
            for more in self._leading_to(number):
                if self.graph.compulsory + self._weights_of(twice | more) >= self.incumbent.value:
                    break
                if time.monotonic() > end:
                    return
                before = self.incumbent.value
                until = share_of(end, self._shares.share)
                self._plan_with_copies(self._readers_by_rule(twice | more, heads | head), until)
                better = more if self.incumbent.value < before else better
            if better:
                twice, heads = twice | better, heads | head

    def _leading_to(self, number: int) -> Iterator[int]:
        """Return an operation, then more and more of those that it needs."""
        found, more = 0, 1 << number
        while more != found:
            found = more
            yield found
            for each in members(found):
                producers = self.graph.ops.ops[each].producers
                more |= sum(1 << at for at in {*producers} if at >= 0 and self.graph.ops.ops[at].producers)

    def _readers_by_rule(self, twice: int, heads: int) -> Readers:
        """Return who reads second executions: copies, and of some all readers but the first."""
        again = {}
        for number in members(twice):
            _, *others = self._all_readers(number, twice)
            copies = {self.copies[self.names[each]] for each in members(self.readers[number] & twice)}
            wanted = others if heads >> number & 1 else [name for name in others if name in copies]
            again[self.names[number]] = tuple(wanted)
        return again

    # Bounds --------------------------------------------------------------------------------------------

    def _push(self, bound: int, node: Node) -> None:
        decided = (node.once | node.twice).bit_count() + len(node.readers)
        self.tree.push(bound, node, rank=-decided)

    def _look(self, value: int, node: Node) -> None:
        """Raise the bound of a node, or branch."""
        forced = self._forced(value, node)
        if forced is None:
            return
        node = forced
        split = dict(node.readers)
        undecided = sum(1 << number for number in members(node.twice) if self.names[number] not in split)
        free = undecided | self._open(node)
        again = self._weights_of(undecided)
        known = self._known.get((node.readers, free))
        if known is None or not known.final:
            known = self._bound_of(node, free, again)
        bound = max(value, known.bound + again)
        if not known.final or (bound > value and free):
            self._push(bound, node)
        elif not free:
            self.incumbent.leave_out(bound)  # better plans of this network might have no addresses
        else:
            self._branch(bound, node, undecided)

    def _bound_of(self, node: Node, free: int, again: int) -> NetworkBound:
        """Look for a bound on what is moved in a network with copies."""
        until = self._shares.until()
        if not free:
            known = self._plan_with_copies(dict(node.readers), until)
        else:
            names = tuple(self.names[number] for number in members(free))
            relaxed = with_copies_of(self.problem, dict(node.readers), names)
            known = self._bound_of_relaxed(relaxed, self.incumbent.value - 1 - again, until)
            self._known[node.readers, free] = known
        if not known.final:
            self._shares.grow()
        return known

    def _bound_of_relaxed(self, relaxed: Problem, most: int, until: float) -> NetworkBound:
        """Look for a bound on what is moved where some outputs take no room, as far as `most`."""
        try:
            layers = layered_search(relaxed, self.capacity, most, until)
        except OutOfTimeError:
            return NetworkBound(relaxed.graph.compulsory, False)
        try:
            for _ in layers.plans():
                pass
        except OutOfTimeError:
            return NetworkBound(layers.bound, False)
        return NetworkBound(layers.bound, True)

    # Decisions -----------------------------------------------------------------------------------------

    def _weights_of(self, mask: int) -> int:
        """Return the elements of some operations' weights."""
        return sum(self.weights[number] for number in members(mask))

    def _never(self) -> int:
        """Return what is executed once in any case: nobody reads it, or it is given."""
        return self.graph.begin | sum(
            1 << number for number, readers in enumerate(self.readers) if not readers
        )

    def _has_several_readers(self, number: int) -> bool:
        return self.readers[number].bit_count() > 1 and not self.graph.begin >> number & 1

    def _open(self, node: Node) -> int:
        return self.graph.all & ~node.once & ~node.twice

    def _all_readers(self, number: int, twice: int) -> list[str]:
        """Return who reads an operation's output, copies, too: the first of the file comes first."""
        found = []
        for reader in members(self.readers[number]):
            name = self.names[reader]
            found += [name, self.copies[name]] if twice >> reader & 1 else [name]
        return found

    def _forced(self, value: int, node: Node) -> Node | None:
        """Return a node with all that follows from what is decided; None if nothing is left.

        A second execution has readers of its own. So what only one operation reads is executed once if that
        is; if it is executed twice, so is that.
        """
        once, twice = node.once, node.twice
        cost: dict[int, int] = {}  # what is loaded again if an operation is executed twice
        for number in reversed(members(self.graph.all & ~self.graph.begin)):
            bit, readers = 1 << number, self.readers[number]
            single = readers.bit_count() == 1
            if twice & bit:
                if single and once & readers:
                    return None
                if single:
                    twice |= readers
            elif not once & bit:
                cost[number] = self.weights[number]
                if single and once & readers:
                    once |= bit
                elif single and not twice & readers:
                    cost[number] += cost[readers.bit_length() - 1]
                if value + cost[number] >= self.incumbent.value:
                    once |= bit
        if (once, twice) == (node.once, node.twice):
            return node
        return self._forced(value, Node(once, twice, node.readers))

    def _branch(self, value: int, node: Node, undecided: int) -> None:
        """Decide about an operation, or about the readers of one that is executed twice."""
        opened = self._open(node)
        if opened:
            several = [number for number in members(opened) if self._has_several_readers(number)]
            number = max(
                several or members(opened), key=lambda each: (self.graph.tensors[each + 1].size, each)
            )
            self._push(value, node._replace(once=node.once | 1 << number))
            self._push(value, node._replace(twice=node.twice | 1 << number))
            return
        number = undecided.bit_length() - 1
        _, *others = self._all_readers(number, node.twice)
        for readers in chain.from_iterable(combinations(others, size + 1) for size in range(len(others))):
            split = (*node.readers, (self.names[number], readers))
            self._push(value, node._replace(readers=tuple(sorted(split))))
