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
from dataclasses import replace
from heapq import heappop, heappush
from itertools import chain, combinations, count
from typing import NamedTuple

from tilewright.residency.again import Readers, with_copies_of
from tilewright.residency.exact.best import Answer, layers_of, least_traffic, moved
from tilewright.residency.graph import members, names_of_copies
from tilewright.residency.placement import soon
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.spec.errors import OutOfTimeError

SHARE = 0.25
"""Share of the time that is left which a single search may take, as long as none takes longer."""

FIRST = 0.4
"""Share of the time in which a plan is looked for that executes all operations once."""

NEAR = 0.5
"""Share of the time that is then left in which copies are tried by a rule."""

NEVER = 2**60
"""More than any plan moves."""


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


class Known(NamedTuple):
    """A bound on what is moved in a network with copies, and whether nothing better is to be found out."""

    bound: int
    final: bool


def least_traffic_of_two(
    problem: Problem,
    deadline: float,
    on_bound: Callable[[int], None],
    on_plan: Callable[[Plan], None],
    start: Plan | None = None,
) -> Answer:
    """Return the plan that moves least, if it moves less than a known one."""
    return _Search(problem, deadline, on_bound, on_plan).answer(start)


class _Search:
    """The search for one problem.

    Attributes
    ----------
    bound
        Elements that every plan moves, as far as that is known.
    moved
        What the best plan moves.
    """

    def __init__(
        self,
        problem: Problem,
        deadline: float,
        on_bound: Callable[[int], None],
        on_plan: Callable[[Plan], None],
    ) -> None:
        self.problem, self.graph, self.deadline = problem, problem.graph, deadline
        self.on_bound, self.on_plan = on_bound, on_plan
        self.width, self.capacity = problem.machine.element_bytes, problem.machine.capacity
        self.names = [op.name for op in self.graph.operations]
        self.copies = names_of_copies(self.graph.ops)
        self.readers = self.graph.readers[1:]  # of each operation's output
        self.weights = [op.weights for op in self.graph.operations]
        self.bound, self.moved, self.closed = 0, NEVER, NEVER
        self.plan: Plan | None = None
        self._share = SHARE
        self._known: dict[tuple[object, int], Known] = {}
        self._heap: list[tuple[int, int, int, Node]] = []
        self._tick = count()

    def answer(self, start: Plan | None) -> Answer:
        """Return the best plan and a bound in bytes."""
        if start is not None:
            self.plan, self.moved = start, moved(self.problem, start)
        self._prove(self.graph.compulsory)
        try:
            if self.moved > self.bound:
                self._executed({}, soon(self.deadline, FIRST))
            if self.moved > self.bound:
                self._near()
            self._search()
        except OutOfTimeError:
            pass
        return Answer(self.plan, self.width * self.bound)

    def _until(self) -> float:
        """Return when a search that begins now has to end."""
        if time.monotonic() > self.deadline:
            raise OutOfTimeError
        return soon(self.deadline, self._share)

    def _prove(self, elements: int) -> None:
        elements = min(elements, self.moved)
        if elements > self.bound:
            self.bound = elements
            self.on_bound(self.width * elements)

    # Plans ---------------------------------------------------------------------------------------------

    def _executed(self, again: Readers, until: float) -> Known:
        """Find the best plan of a network with copies, if it is better than all that are known."""
        split = with_copies_of(self.problem, again) if again else self.problem

        def take(plan: Plan) -> None:
            elements = moved(split, plan)
            if elements < self.moved:
                self.moved = elements
                self.plan = replace(plan, again={name: tuple(readers) for name, readers in again.items()})
                self.on_plan(self.plan)

        known = None if self.plan is None else self.moved
        answer = least_traffic(split, until, _ignored, take, known)
        if answer.plan is not None:
            take(answer.plan)
        bound = answer.bound // self.width
        found = Known(bound, bound >= self.moved or time.monotonic() < until)
        self._known[tuple(sorted(again.items())), 0] = found
        return found

    def _near(self) -> None:
        """Try to execute twice what leads to a map, for its readers but the first; large maps come first."""
        maps = [op.number for op in self.graph.operations if self._several(op.number)]
        maps.sort(key=lambda number: -self.graph.tensors[number + 1].size)
        twice, heads, end = 0, 0, soon(self.deadline, NEAR)
        for number in maps:
            head, better = 1 << number, 0
            for more in self._leading_to(number):
                if self.graph.compulsory + self._size(twice | more) >= self.moved:
                    break
                if time.monotonic() > end:
                    return
                before = self.moved
                self._executed(self._by_rule(twice | more, heads | head), soon(end, self._share))
                better = more if self.moved < before else better
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

    def _by_rule(self, twice: int, heads: int) -> Readers:
        """Return who reads second executions: copies, and of some all readers but the first."""
        again = {}
        for number in members(twice):
            _, *others = self._all_readers(number, twice)
            copies = {self.copies[self.names[each]] for each in members(self.readers[number] & twice)}
            wanted = others if heads >> number & 1 else [name for name in others if name in copies]
            again[self.names[number]] = tuple(wanted)
        return again

    # Bounds --------------------------------------------------------------------------------------------

    def _search(self) -> None:
        self._push(self.bound, Node(self._never(), 0))
        while self._heap:
            value, _, _, node = heappop(self._heap)
            self._prove(min(value, self.closed))
            if value < self.moved:
                self._look(value, node)
        self._prove(self.closed)

    def _push(self, value: int, node: Node) -> None:
        if value < self.moved:
            depth = (node.once | node.twice).bit_count() + len(node.readers)
            heappush(self._heap, (value, -depth, next(self._tick), node))

    def _look(self, value: int, node: Node) -> None:
        """Make the bound of a node closer, or branch."""
        forced = self._forced(value, node)
        if forced is None:
            return
        node = forced
        split = dict(node.readers)
        undecided = sum(1 << number for number in members(node.twice) if self.names[number] not in split)
        free = undecided | self._open(node)
        again = self._size(undecided)
        known = self._known.get((node.readers, free))
        if known is None or not known.final:
            known = self._asked(node, free, again)
        bound = max(value, known.bound + again)
        if not known.final or (bound > value and free):
            self._push(bound, node)
        elif not free:
            self.closed = min(self.closed, bound)
        else:
            self._branch(bound, node, undecided)

    def _asked(self, node: Node, free: int, again: int) -> Known:
        """Look for a bound on what is moved in a network with copies."""
        until = self._until()
        if not free:
            known = self._executed(dict(node.readers), until)
        else:
            names = tuple(self.names[number] for number in members(free))
            relaxed = with_copies_of(self.problem, dict(node.readers), names)
            try:
                layers = layers_of(relaxed, self.capacity, self.moved - 1 - again, until)
            except OutOfTimeError:
                known = Known(relaxed.graph.compulsory, False)
            else:
                final = True
                try:
                    for _ in layers.plans():
                        pass
                except OutOfTimeError:
                    final = False
                known = Known(layers.bound, final)
            self._known[node.readers, free] = known
        if not known.final:
            if time.monotonic() > self.deadline:
                raise OutOfTimeError
            self._share = min(1.0, 2 * self._share)
        return known

    def _size(self, mask: int) -> int:
        """Return the elements of some operations' weights."""
        return sum(self.weights[number] for number in members(mask))

    # Decisions -----------------------------------------------------------------------------------------

    def _never(self) -> int:
        """Return what is executed once in any case: nobody reads it, or it is given."""
        return self.graph.begin | sum(
            1 << number for number, readers in enumerate(self.readers) if not readers
        )

    def _several(self, number: int) -> bool:
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
                if value + cost[number] >= self.moved:
                    once |= bit
        if (once, twice) == (node.once, node.twice):
            return node
        return self._forced(value, Node(once, twice, node.readers))

    def _branch(self, value: int, node: Node, undecided: int) -> None:
        """Decide about an operation, or about the readers of one that is executed twice."""
        opened = self._open(node)
        if opened:
            several = [number for number in members(opened) if self._several(number)]
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


def _ignored(_told: object) -> None:
    """Take what is told of a search."""
