"""Which weights stay on chip from frame to frame: branch and bound over operations, best first.

The weights of an operation stay, or are loaded in each frame, or that is open. Let the weights that stay have
some size together. Then a plan moves the other weights, and no less of all else than is moved where weights
of open operations take no room (`WeightBudget`). The least of that over all possible sizes is the bound of a
node. Where steps are known that reach it, operations are chosen whose weights have that size, first those
with which the steps would need most memory if they loaded theirs. If the steps fit beside these weights, that
is a best plan. If not, one of the operations for which they do not fit keeps or loads its weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from tilewright.core.branch_and_bound import (
    BestFirst,
    GrowingShare,
    Incumbent,
    check_deadline,
    ignore,
    share_of,
)
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.derived_problems import (
    add_staying,
    residual_beside,
    residual_in,
    subset_sums,
    weights_of,
)
from tilewright.residency.exact.labels import StepSequence
from tilewright.residency.exact.traffic import (
    Answer,
    RoomierPlans,
    addresses_in,
    layered_search,
    least_traffic,
    moved_by,
    place_sequence,
    search_placeable,
)
from tilewright.residency.exact.weight_budget import RelaxedSteps, WeightBudget
from tilewright.residency.exact.weight_needs import WeightNeeds
from tilewright.residency.graph import members
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.spec.errors import InputError, OutOfTimeError


@dataclass(frozen=True)
class ResidentWeightsParams:
    """How the search divides its time.

    Attributes
    ----------
    share
        Share of the time left that a single search may take, as long as none takes longer.
    first_share
        Share of the time in which a plan is looked for of which no weights stay.
    fourths
        Fourths of the memory, or of a size that a bound is for, which weights have that are tried first.
    """

    share: float = 0.25
    first_share: float = 0.4
    fourths: tuple[int, ...] = (3, 2)


PARAMS = ResidentWeightsParams()


class Node(NamedTuple):
    """Bit masks of the operations whose weights stay, and of those that load theirs."""

    staying: int
    loading: int


def search_resident_weights(
    problem: Problem,
    deadline: float,
    on_bound: Callable[[int], None],
    on_plan: Callable[[Plan], None],
    start: Plan | None = None,
) -> Answer:
    """Return the plan that moves least for each frame but the first, and a bound in bytes.

    Parameters
    ----------
    start
        A valid plan: better ones are first looked for among its steps.
    """
    return _Search(problem, deadline, on_bound, on_plan).run(start)


class _Search:
    """The search for one problem; it counts elements.

    Attributes
    ----------
    incumbent
        The best plan. Its `cutoff` is what the best steps move, whether addresses are known for them or not.
    """

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
        self.weights = {op.number: op.weights for op in self.graph.operations if op.weights}
        self._shares = GrowingShare(deadline, PARAMS.share)
        self._tried: set[int] = set()
        self._budgets: dict[int, WeightBudget] = {}
        self._relaxed_steps_tried = False

    def run(self, start: Plan | None) -> Answer:
        """Return the best plan and a bound in bytes."""
        with suppress(OutOfTimeError):
            if start is not None:
                self._begin_with(start)
            if self.incumbent.value > self.graph.compulsory:
                self._plan_without_staying()
            self._plan_beside_loaded_weights()
            self._push(Node(0, 0))
            for _, node in self.tree:
                self._look(node)
        return Answer(self.incumbent.plan, self.width * self.incumbent.bound)

    # Plans ---------------------------------------------------------------------------------------------

    def _begin_with(self, start: Plan) -> None:
        """Take a known plan."""
        steps = decode_plan(self.problem, start)
        self.incumbent.offer(sum(step.moved for step in steps), start)
        needs = WeightNeeds(steps[0].group.groups, [step.choice for step in steps], self.capacity)
        self._keep_most(Node(0, 0), needs)

    def _plan_without_staying(self) -> None:
        """Find a plan of which no weights stay."""
        alone = residual_in(self.problem, (), self.capacity)
        answer = least_traffic(alone, share_of(self.deadline, PARAMS.first_share), ignore, ignore)
        if answer.plan is not None:
            self._take(alone, 0, answer.plan)
            choices = [step.choice for step in decode_plan(alone, answer.plan)]
            self._keep_most(Node(0, 0), WeightNeeds(alone.groups, choices, self.capacity))

    def _plan_beside_loaded_weights(self) -> None:
        """Find steps for part of the memory, all weights loaded, and try which weights stay beside them."""
        loaded = self._budget(sum(1 << number for number in self.weights))
        for fourths in PARAMS.fourths:
            size = min(self.capacity, sum(self.weights.values())) * fourths // 4
            worth = self.incumbent.value - self.graph.compulsory + size - 1
            if 0 < size <= loaded.most and worth >= 0:
                with suppress(OutOfTimeError):
                    loaded.ask(size, worth, self._shares.until())
                found = loaded.plan(size)
                if found is not None:
                    self._keep_most(Node(0, 0), WeightNeeds(found.groups, found.choices, self.capacity))

    def _plan_beside_relaxed(self, node: Node, relaxed: RelaxedSteps, size: int) -> None:
        """Try operations of about a size, once: those that most is needed for if their weights are loaded."""
        if self._relaxed_steps_tried:
            return
        self._relaxed_steps_tried = True
        needs = WeightNeeds(relaxed.groups, relaxed.choices, self.capacity)
        for fourths in (4, *PARAMS.fourths):
            some = size * fourths // 4
            self._try(self._choose_staying(node, needs, self.capacity - some, some))

    def _keep_most(self, node: Node, needs: WeightNeeds) -> None:
        """Try the plan with the most weights that stay beside which some steps fit."""
        check_deadline(self.deadline)
        opened = sum(1 << number for number in self._open(node))
        levels = {needs.most(node.loading | 1 << number)[0] for number in members(opened)}
        levels.add(needs.most(node.loading)[0])
        best, most, heap = None, -1, sorted(levels)
        while heap and most + heap[0] < self.capacity:
            level = heappop(heap)
            staying = self._choose_staying(node, needs, level, self.capacity - level)
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

    def _execute(self, staying: int, needs: WeightNeeds, loading: int) -> None:
        """Take known steps, beside weights that stay."""
        loaded = sum(self.weights.values()) - weights_of(self.graph, members(staying))
        self.incumbent.leave_from(needs.maps + loaded)
        if staying in self._tried:
            return
        try:
            left = residual_beside(self.problem, members(staying))
        except InputError:  # weights fit by size, but not into several memories
            return
        room = left.machine.capacity
        plan = place_sequence(left, StepSequence(0, needs.choices(loading)), room, self._shares.until())
        if plan is not None:
            self._take(left, staying, plan)

    def _try(self, staying: int) -> None:
        """Look for a better plan in which the weights of some operations stay."""
        if staying in self._tried:
            return
        self._tried.add(staying)
        try:
            left = residual_beside(self.problem, members(staying))
        except InputError:
            return
        room = left.machine.capacity
        last, until, addresses = None, self._shares.until(), addresses_in(left, room)
        try:
            layers = layered_search(left, room, self.incumbent.value - 1, until)
            for last in layers.plans():
                self.incumbent.leave_from(last.cost)
                plan = addresses.place(last.choices, until, last=False)
                if plan is not None:
                    self._take(left, staying, plan)
        except OutOfTimeError:
            check_deadline(self.deadline)
        if last is None:
            return
        if last.cost < self.incumbent.value:
            plan = search_placeable(left, RoomierPlans(layers, addresses), last, self.incumbent.value, until)
            if plan is not None:
                self._take(left, staying, plan)
        self._keep_most(Node(0, 0), WeightNeeds(left.groups, last.choices, self.capacity))

    def _take(self, left: Problem, staying: int, plan: Plan) -> None:
        """Take a plan of what is left beside weights that stay."""
        self.incumbent.offer(moved_by(left, plan), add_staying(self.problem, members(staying), plan))

    # Bounds --------------------------------------------------------------------------------------------

    def _push(self, node: Node) -> None:
        """Add a node; of what is open, what has no room loads its weights."""
        while True:
            budget = self._budget(node.loading)
            left = budget.most - weights_of(self.graph, members(node.staying))
            if left < 0:
                return
            large = sum(1 << number for number in self._open(node) if self.weights[number] > left)
            if not large:
                break
            node = Node(node.staying, node.loading | large)
        best = self._least(node, budget)
        if best is not None:
            self.tree.push(best[0], node)

    def _open(self, node: Node) -> list[int]:
        return [number for number in self.weights if not (node.staying | node.loading) >> number & 1]

    def _budget(self, loading: int) -> WeightBudget:
        if loading not in self._budgets:
            self._budgets[loading] = WeightBudget(self.problem, loading, self._budgets.values())
        return self._budgets[loading]

    def _sizes(self, node: Node, budget: WeightBudget) -> int:
        """Return the sizes that weights which stay may have together: a bit for each."""
        base = weights_of(self.graph, members(node.staying))
        return subset_sums((self.weights[number] for number in self._open(node)), budget.most - base) << base

    def _least(self, node: Node, budget: WeightBudget) -> tuple[int, int, int] | None:
        """Return a bound on what is moved, minus the size of the weights that stay with it, and a begin.

        From that begin on up to the size, the same is known about what is moved beyond what must be.
        """
        compulsory = self.graph.compulsory
        return min(
            (
                (compulsory - size + budget.bound(begin), -size, begin)
                for begin, size in budget.spans(self._sizes(node, budget))
            ),
            default=None,
        )

    def _look(self, node: Node) -> None:
        """Raise the bound of a node, or branch."""
        budget = self._budget(node.loading)
        best = self._least(node, budget)
        if best is None or best[0] >= self.incumbent.cutoff:
            return
        size, begin = -best[1], best[2]
        relaxed = budget.plan(size)
        if relaxed is not None and relaxed.excess <= budget.bound(begin):
            self._plan_beside_relaxed(node, relaxed, size)
            self._branch(node, relaxed, size)
            return
        try:
            worth = self.incumbent.cutoff - 1 - self.graph.compulsory + size
            budget.ask(self._next_size(node, budget, begin, size), worth, self._shares.until())
        except OutOfTimeError:
            self._shares.grow()
        self._push(node)

    def _next_size(self, node: Node, budget: WeightBudget, begin: int, size: int) -> int:
        """Return the size that is looked at next, of those from `begin` to `size`."""
        if not budget.asked:
            return size
        begin = max(begin, budget.reached(begin) + 1)
        middle = (begin + size) // 2
        sizes = self._sizes(node, budget) >> begin
        low = sizes & ((1 << middle - begin + 1) - 1)
        if low:
            return begin + low.bit_length() - 1
        high = sizes >> (middle - begin)
        return middle + (high & -high).bit_length() - 1

    # Operations ----------------------------------------------------------------------------------------

    def _branch(self, node: Node, relaxed: RelaxedSteps, size: int) -> None:
        """Take operations with which the steps fit, or decide about one for which they do not."""
        needs = WeightNeeds(relaxed.groups, relaxed.choices, self.capacity)
        self._keep_most(node, needs)
        if self.incumbent.cutoff <= self.graph.compulsory - size + relaxed.excess:
            return
        staying = self._choose_staying(node, needs, self.capacity - size, size)
        loading = sum(1 << number for number in self._open(node)) & ~staying
        _, group = needs.most(node.loading | loading)
        alone = {number: needs.most(node.loading | 1 << number)[0] for number in members(loading)}
        wrong = members(loading & group) or members(loading)
        number = max(wrong, key=lambda number: (alone[number], self.weights[number]))
        self._push(Node(node.staying | 1 << number, node.loading))
        self._push(Node(node.staying, node.loading | 1 << number))

    def _choose_staying(self, node: Node, needs: WeightNeeds, level: int, most: int) -> int:
        """Return operations whose weights stay: first those for which steps need more than `level` elements.

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
        others = [number for number in order if not staying >> number & 1]
        return staying | largest_subset(others, self.weights, left)


def largest_subset(order: Sequence[int], weights: dict[int, int], most: int) -> int:
    """Return numbers whose weights have the largest sum up to `most`, those that come first if possible.

    Returns
    -------
    A bit mask.
    """
    reachable = [1]  # sums of the numbers from each place on, the last place first: a bit for each
    for number in reversed(order):
        reachable.append(reachable[-1] | reachable[-1] << weights[number] & ((1 << most + 1) - 1))
    found, left = 0, reachable[-1].bit_length() - 1
    for number, behind in zip(order, reachable[-2::-1], strict=True):
        rest = left - weights[number]
        if rest >= 0 and behind >> rest & 1:
            found, left = found | 1 << number, rest
    return found
