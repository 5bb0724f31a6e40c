"""Which weights stay on chip from frame to frame: branch and bound over operations, best first.

The weights of an operation stay, or they are loaded, or that is open. A bound for all plans is what is moved
at least over all sizes that the weights which stay may have together: the rest of the weights, and what all
else moves beside them, where no operation that is open takes room for its weights (`RoomForWeights`). Where
there are steps that reach the bound, operations are chosen whose weights have that size, first those with
which the steps would need most if they loaded theirs. If the steps fit beside these weights, that is a best
plan. Else one of the operations for which they do not fit stays or loads its weights.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from tilewright.residency.exact.addresses import Addresses
from tilewright.residency.exact.best import Answer, Beside, addressed, layers_of, least_traffic, placeable
from tilewright.residency.exact.loaded_again import Needs
from tilewright.residency.exact.room_for_weights import Relaxed, RoomForWeights
from tilewright.residency.exact.search import Found
from tilewright.residency.frames import in_memory, sums, weights_of, with_staying
from tilewright.residency.graph import members
from tilewright.residency.placement import soon
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.residency.reading import told
from tilewright.spec.errors import InputError, OutOfTimeError

SHARE = 0.25
"""Share of the time that is left which a single search may take, as long as none takes longer."""

FIRST = 0.4
"""Share of the time in which a plan is looked for of which no weights stay."""

PARTS = (3, 2)
"""Fourths of the memory, or of a size that a bound is for, which weights have that are tried first."""

NEVER = 2**60
"""More than any plan moves."""


class Node(NamedTuple):
    """Bit masks of the operations whose weights stay, and of those that load theirs."""

    staying: int
    loading: int


def least_traffic_of_frames(
    problem: Problem,
    deadline: float,
    on_bound: Callable[[int], None],
    on_plan: Callable[[Plan], None],
    start: Plan | None = None,
) -> Answer:
    """Return the plan that moves least for each frame but the first, which may be near a known one."""
    return _Search(problem, deadline, on_bound, on_plan).answer(start)


class _Search:
    """The search for one problem.

    Attributes
    ----------
    bound
        Elements that every plan moves for a frame, as far as that is known.
    moved
        What the best plan moves.
    counted
        What the best steps move, whether addresses are known for them or not.
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
        self.weights = {op.number: op.weights for op in self.graph.operations if op.weights}
        self.bound, self.moved, self.counted = 0, NEVER, NEVER
        self._share = SHARE
        self.plan: Plan | None = None
        self._tried: set[int] = set()
        self._rooms: dict[int, RoomForWeights] = {}
        self._heap: list[tuple[int, int, Node]] = []
        self._tick = count()
        self._near = False

    def answer(self, start: Plan | None) -> Answer:
        """Return the best plan and a bound in bytes."""
        try:
            if start is not None:
                self._begin(start)
            if self.moved > self.graph.compulsory:
                self._without()
            self._beside_loaded()
            self._search()
        except OutOfTimeError:
            pass
        return Answer(self.plan, self.width * self.bound)

    def _until(self, share: float | None = None) -> float:
        """Return when a search that begins now has to end."""
        return soon(self.deadline, self._share if share is None else share)

    def _prove(self, elements: int) -> None:
        elements = min(elements, self.counted)
        if elements > self.bound:
            self.bound = elements
            self.on_bound(self.width * elements)

    # Plans ---------------------------------------------------------------------------------------------

    def _begin(self, start: Plan) -> None:
        """Take a known plan."""
        steps = told(self.problem, start)
        self.plan, self.moved = start, sum(step.moved for step in steps)
        self.counted = self.moved
        needs = Needs(steps[0].group.graph, [step.choice for step in steps], self.capacity)
        self._rounded(Node(0, 0), needs)

    def _without(self) -> None:
        """Find a plan of which no weights stay."""
        alone = in_memory(self.problem, (), self.capacity)
        answer = least_traffic(alone, self._until(FIRST), lambda _bound: None, lambda _plan: None)
        if answer.plan is not None:
            self._take(alone, 0, answer.plan)
            choices = [step.choice for step in told(alone, answer.plan)]
            self._rounded(Node(0, 0), Needs(alone.graph, choices, self.capacity))

    def _take(self, left: Problem, staying: int, plan: Plan) -> None:
        """Take a plan of what is left beside weights that stay."""
        elements = sum(step.moved for step in told(left, plan))
        self.counted = min(self.counted, elements)
        if elements < self.moved:
            self.moved = elements
            self.plan = with_staying(self.problem, members(staying), plan)
            self.on_plan(self.plan)

    def _execute(self, staying: int, needs: Needs, loading: int) -> None:
        """Take known steps, beside weights that stay."""
        loaded = sum(self.weights.values()) - weights_of(self.graph, members(staying))
        self.counted = min(self.counted, needs.maps + loaded)
        if staying in self._tried:
            return
        room = self.capacity - weights_of(self.graph, members(staying))
        left = in_memory(self.problem, members(staying), room)
        plan = addressed(left, Found(0, needs.choices(loading)), room, self._until())
        if plan is not None:
            self._take(left, staying, plan)

    def _try(self, staying: int) -> None:
        """Look for a better plan in which the weights of some operations stay."""
        if staying in self._tried:
            return
        self._tried.add(staying)
        room = self.capacity - weights_of(self.graph, members(staying))
        try:
            left = in_memory(self.problem, members(staying), room)
        except InputError:
            return
        last, until, addresses = None, self._until(), Addresses(left.graph, room)
        try:
            layers = layers_of(left, room, self.moved - 1, until)
            for last in layers.plans():
                self.counted = min(self.counted, last.moved)
                plan = addresses.plan(last.choices, until, last=False)
                if plan is not None:
                    self._take(left, staying, plan)
        except OutOfTimeError:
            if time.monotonic() > self.deadline:
                raise
        if last is None:
            return
        if last.moved < self.moved:
            plan = placeable(left, Beside(layers, addresses), last, self.moved, until)
            if plan is not None:
                self._take(left, staying, plan)
        self._rounded(Node(0, 0), Needs(left.graph, last.choices, self.capacity))

    def _beside_loaded(self) -> None:
        """Try operations beside which steps fit found for part of the memory, all weights loaded."""
        loaded = self._room(sum(1 << number for number in self.weights))
        for parts in PARTS:
            size = min(self.capacity, sum(self.weights.values())) * parts // 4
            worth = self.moved - self.graph.compulsory + size - 1
            if 0 < size <= loaded.most and worth >= 0:
                with suppress(OutOfTimeError):
                    loaded.ask(size, worth, self._until())
                found = loaded.plan(size)
                if found is not None:
                    self._rounded(Node(0, 0), Needs(found.graph, found.choices, self.capacity))

    def _beside_relaxed(self, node: Node, relaxed: Relaxed, size: int) -> None:
        """Try operations of about a size, once: those that most is needed for if their weights are loaded."""
        if self._near:
            return
        self._near = True
        needs = Needs(relaxed.graph, relaxed.choices, self.capacity)
        for parts in (4, *PARTS):
            some = size * parts // 4
            self._try(self._within(node, needs, self.capacity - some, some))

    # Bounds --------------------------------------------------------------------------------------------

    def _search(self) -> None:
        self._push(Node(0, 0))
        while self._heap:
            value, _, node = heappop(self._heap)
            self._prove(value)
            if value < self.counted:
                self._look(node)
        self._prove(NEVER)

    def _push(self, node: Node) -> None:
        """Add a node; of what is open, what has no room loads its weights."""
        while True:
            room = self._room(node.loading)
            left = room.most - weights_of(self.graph, members(node.staying))
            if left < 0:
                return
            large = sum(1 << number for number in self._open(node) if self.weights[number] > left)
            if not large:
                break
            node = Node(node.staying, node.loading | large)
        best = self._best(node, room)
        if best is not None and best[0] < self.counted:
            heappush(self._heap, (best[0], next(self._tick), node))

    def _open(self, node: Node) -> list[int]:
        return [number for number in self.weights if not (node.staying | node.loading) >> number & 1]

    def _room(self, loading: int) -> RoomForWeights:
        if loading not in self._rooms:
            self._rooms[loading] = RoomForWeights(self.problem, loading, self._rooms.values())
        return self._rooms[loading]

    def _sizes(self, node: Node, room: RoomForWeights) -> int:
        """Return the sizes that weights which stay may have together: a bit for each."""
        base = weights_of(self.graph, members(node.staying))
        return sums((self.weights[number] for number in self._open(node)), room.most - base) << base

    def _best(self, node: Node, room: RoomForWeights) -> tuple[int, int, int] | None:
        """Return a bound on what is moved, the size of the weights that stay with it, and where that begins.

        From that size on to this no smaller bound is known on what is moved beyond what must be.
        """
        compulsory = self.graph.compulsory
        return min(
            (
                (compulsory - size + room.bound(begin), -size, begin)
                for begin, size in room.spans(self._sizes(node, room))
            ),
            default=None,
        )

    def _look(self, node: Node) -> None:
        """Make the bound of a node closer, or branch."""
        room = self._room(node.loading)
        best = self._best(node, room)
        if best is None or best[0] >= self.counted:
            return
        size, begin = -best[1], best[2]
        relaxed = room.plan(size)
        if relaxed is not None and relaxed.excess <= room.bound(begin):
            self._beside_relaxed(node, relaxed, size)
            self._branch(node, relaxed, size)
            return
        try:
            worth = self.counted - 1 - self.graph.compulsory + size
            room.ask(self._next(node, room, begin, size), worth, self._until())
        except OutOfTimeError:
            if time.monotonic() > self.deadline:
                raise
            self._share = min(1.0, 2 * self._share)
        self._push(node)

    def _next(self, node: Node, room: RoomForWeights, begin: int, size: int) -> int:
        """Return the size that is looked at next, of those from `begin` to `size`."""
        if not room.asked:
            return size
        begin = max(begin, room.reached(begin) + 1)
        middle = (begin + size) // 2
        sizes = self._sizes(node, room) >> begin
        low = sizes & ((1 << middle - begin + 1) - 1)
        if low:
            return begin + low.bit_length() - 1
        high = sizes >> (middle - begin)
        return middle + (high & -high).bit_length() - 1

    # Operations ----------------------------------------------------------------------------------------

    def _branch(self, node: Node, relaxed: Relaxed, size: int) -> None:
        """Take operations with which the steps fit, or decide about one for which they do not."""
        needs = Needs(relaxed.graph, relaxed.choices, self.capacity)
        self._rounded(node, needs)
        value = self.graph.compulsory - size + relaxed.excess
        if self.counted <= value:
            return
        staying = self._within(node, needs, self.capacity - size, size)
        loading = sum(1 << number for number in self._open(node)) & ~staying
        _, group = needs.most(node.loading | loading)
        alone = {number: needs.most(node.loading | 1 << number)[0] for number in members(loading)}
        wrong = members(loading & group) or members(loading)
        number = max(wrong, key=lambda number: (alone[number], self.weights[number]))
        self._push(Node(node.staying | 1 << number, node.loading))
        self._push(Node(node.staying, node.loading | 1 << number))

    def _rounded(self, node: Node, needs: Needs) -> None:
        """Try the plan with the most weights that stay beside which some steps fit."""
        if time.monotonic() > self.deadline:
            raise OutOfTimeError
        opened = sum(1 << number for number in self._open(node))
        levels = {needs.most(node.loading | 1 << number)[0] for number in members(opened)}
        levels.add(needs.most(node.loading)[0])
        best, most, heap = None, -1, sorted(levels)
        while heap and most + heap[0] < self.capacity:
            level = heappop(heap)
            staying = self._within(node, needs, level, self.capacity - level)
            size = weights_of(self.graph, members(staying))
            need, _ = needs.most(node.loading | opened & ~staying)
            if size > most and need + size <= self.capacity:
                best, most = staying, size
            elif need > level and need not in levels:
                levels.add(need)
                heappush(heap, need)
        if best is not None:
            self._execute(best, needs, node.loading | opened & ~best)
            self._try(best)

    def _within(self, node: Node, needs: Needs, level: int, most: int) -> int:
        """Return operations whose weights stay: first those for which steps need more than some elements.

        They have the largest size up to `most` that is possible with these.
        """
        opened = self._open(node)
        staying, left = node.staying, most - weights_of(self.graph, members(node.staying))
        if left < 0:
            return staying
        alone = {number: needs.most(node.loading | 1 << number)[0] for number in opened}
        order = sorted(opened, key=lambda number: (-alone[number], -self.weights[number]))
        while True:
            need, group = needs.most(node.loading | sum(1 << number for number in opened) & ~staying)
            wrong = [number for number in order if group & ~staying & 1 << number]
            fitting = [number for number in wrong if self.weights[number] <= left]
            if need <= level or not fitting:
                break
            staying, left = staying | 1 << fitting[0], left - self.weights[fitting[0]]
        order = [number for number in order if not staying >> number & 1]
        after = [1]  # sums of the operations from each on
        for number in reversed(order):
            after.append(after[-1] | after[-1] << self.weights[number] & ((1 << left + 1) - 1))
        left = after[-1].bit_length() - 1
        for number, reachable in zip(order, after[-2::-1], strict=True):
            rest = left - self.weights[number]
            if rest >= 0 and reachable >> rest & 1:
                staying, left = staying | 1 << number, rest
        return staying
