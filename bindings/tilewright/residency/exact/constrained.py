"""The search where the problem has constraints: shortest paths, but what constraints tell apart is kept.

A label is a state with what constraints still ask (`residuals`). It is given up only for one of which they
ask the same. Constraints are looked at as soon as a step decides what they speak of. Addresses are sought
when a path is complete. If it has none, its cost is still a bound, but there may be better plans than
what is found then. Weights that stay, and second executions, are gone through one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from typing import NamedTuple

from tilewright.core.branch_and_bound import NEVER
from tilewright.residency.derived_problems import (
    add_staying,
    names_of_copies,
    residual_problem,
    weights_of,
    with_copies_of,
)
from tilewright.residency.evaluation import objective
from tilewright.residency.exact.constrained_addresses import place_constrained
from tilewright.residency.exact.constrained_steps import ConstrainedSteps
from tilewright.residency.exact.labels import LabelSearch, StepSequence
from tilewright.residency.exact.priced_steps import most_parts, units_of
from tilewright.residency.exact.residuals import limits_in
from tilewright.residency.exact.traffic import Answer, bisect_memory
from tilewright.residency.graph import members
from tilewright.residency.machine import ONE
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.spec.constraints.parts import Constant, Ground, Term, conjuncts, substituted
from tilewright.spec.errors import InputError, OutOfTimeError

REPEAT = 4
"""Ways to a state that are followed where the first path has no addresses."""

MOST_PATHS = 200
"""Paths for which addresses are sought."""


class _Variant(NamedTuple):
    """A choice of weights that stay, or of operations that are executed twice.

    Attributes
    ----------
    problem
        What is left: of one frame, each operation executed once, without constraints.
    complete
        Makes a plan for that problem one for the whole.
    staying
        Numbers of the operations whose weights stay.
    following
        Elements that all variants move at least that come later; none where there are none.
    """

    problem: Problem
    complete: Callable[[Plan], Plan]
    staying: tuple[int, ...] = ()
    following: int = NEVER


class Proven(NamedTuple):
    """A plan, what all plans of a variant cost at least, and whether its search was complete."""

    plan: Plan | None
    bound: int
    complete: bool = True


def search_constrained(
    problem: Problem,
    deadline: float,
    on_bound: Callable[[int], None],
    on_plan: Callable[[Plan], None],
    start: Plan | None = None,
) -> Answer:
    """Return the plan that costs least among those that keep the constraints, for one objective.

    Parameters
    ----------
    start
        A valid plan. If no better one is returned, and it costs no more than the bound, it is best.
    """
    best, least, bound = start, NEVER if start is None else objective(problem, start), NEVER
    width = problem.machine.element_bytes
    for variant in _variants(problem):
        if variant.problem.graph.compulsory * width >= least and problem.minimise == "traffic":
            bound = min(bound, least)
            continue
        search = _Search(problem, variant, deadline)
        found = search.least_memory(on_bound) if problem.minimise == "memory" else search.run(least, on_plan)
        bound = min(bound, found.bound)
        if found.plan is not None and objective(problem, found.plan) < least:
            best, least = found.plan, objective(problem, found.plan)
        if not found.complete or time.monotonic() > deadline:
            bound = min(bound, variant.following * width)
            break
    if best is None and bound >= NEVER:
        return Answer(None, 0, impossible=True)
    bound = min(bound, least)
    on_bound(bound)
    return Answer(best, bound)


def _variants(problem: Problem) -> Iterator[_Variant]:
    """Return all choices of what stays, and of what is executed twice, those that move least first."""
    plain = problem.without_constraints()
    if problem.limits.frames != ONE:
        return _by_staying(problem, plain)
    if problem.limits.executions != 1:
        return _by_copies(plain)
    return iter([_Variant(problem, lambda plan: plan)])


def _by_staying(problem: Problem, plain: Problem) -> Iterator[_Variant]:
    """Return what the weights of each set of operations that may stay leave, the heaviest sets first."""
    graph = problem.graph
    heavy = sorted((op.weights, op.number) for op in graph.operations if op.weights)
    numbers = {number for _, number in heavy}
    # Sets of weights that are loaded, the lightest first: each has one that follows it with its heaviest
    # member exchanged for the next one, and one that has the next one, too.
    open_: list[tuple[int, tuple[int, ...]]] = [(0, ())]
    while open_:
        loaded, places = heappop(open_)
        after = places[-1] + 1 if places else 0
        if after < len(heavy):
            heappush(open_, (loaded + heavy[after][0], (*places, after)))
            if places:
                heappush(open_, (loaded - heavy[after - 1][0] + heavy[after][0], (*places[:-1], after)))
        staying = tuple(sorted(numbers - {heavy[place][1] for place in places}))
        if weights_of(graph, staying) >= problem.machine.capacity:
            continue
        try:
            left = residual_problem(plain, staying)
        except InputError:  # too little memory is left
            continue
        complete = partial(_with_staying, problem, staying)
        yield _Variant(left, complete, staying, left.graph.compulsory)


def _with_staying(problem: Problem, staying: tuple[int, ...], plan: Plan) -> Plan:
    return add_staying(problem, staying, plan)


def _by_copies(plain: Problem) -> Iterator[_Variant]:
    """Return the networks in which operations are executed twice, with all who may read the second time."""
    graph, copies = plain.graph, names_of_copies(plain.network_graph)

    def further(number: int, again: dict[str, tuple[str, ...]]) -> Iterator[dict[str, tuple[str, ...]]]:
        if number < 0:
            yield again
            return
        yield from further(number - 1, again)
        if graph.begin >> number & 1:
            return
        names = [graph.operations[reader].name for reader in members(graph.readers[number + 1])]
        readers = [each for name in names for each in ((name, copies[name]) if name in again else (name,))]
        for mask in range(1, (1 << len(readers)) - 1):
            some = tuple(reader for place, reader in enumerate(readers) if mask >> place & 1)
            yield from further(number - 1, {graph.operations[number].name: some, **again})

    for again in further(len(graph.operations) - 1, {}):
        problem = with_copies_of(plain, again) if again else plain.with_(limits={"executions": 1})
        yield _Variant(problem, partial(_with_again, again), (), graph.compulsory)


def _with_again(again: dict[str, tuple[str, ...]], plan: Plan) -> Plan:
    return replace(plan, again=again)


class _Search:
    """The search of one variant."""

    def __init__(self, problem: Problem, variant: _Variant, deadline: float) -> None:
        self.problem, self.variant, self.deadline = problem, variant, deadline
        width, graph = problem.machine.element_bytes, problem.graph
        self.below = weights_of(graph, variant.staying)
        stays = {graph.operations[number].name for number in variant.staying}

        def of_weights(term: Term) -> Ground | None:
            return Constant(term.arguments[0] in stays) if term.word == "staying" else None

        told = (substituted(part, of_weights) for part in problem.must_hold_in_numbers)
        most, self.parts = limits_in(each for part in told for each in conjuncts(part))
        self.capacity = variant.problem.machine.capacity
        if "memory" in most:
            self.capacity = min(self.capacity, most.pop("memory") // width - self.below)
        limits = problem.objective.limits
        self.most = limits | {name: min(value, limits.get(name, value)) for name, value in most.items()}
        minimised = [] if problem.minimise == "memory" else [problem.minimise]
        self.names = (*minimised, *(name for name in self.most if name not in minimised)) or ("traffic",)

    def _steps(self, capacity: int) -> ConstrainedSteps:
        return ConstrainedSteps(
            self.variant.problem, self.parts, capacity, self.names, self.below, self.deadline
        )

    def _labels(self, steps: ConstrainedSteps, below: int, repeat: int = 1) -> LabelSearch:
        """Return a search for plans that cost less than some of what is minimised."""
        most = [
            None if name not in self.most else most_parts(self.problem, name, self.most[name])
            for name in self.names
        ]
        if below < NEVER:
            less = most_parts(self.problem, self.names[0], below - 1)
            most[0] = less if most[0] is None else min(less, most[0])
        return LabelSearch(steps, most, repeat=repeat, deadline=self.deadline)

    def run(self, least: int, on_plan: Callable[[Plan], None]) -> Proven:
        """Return the best plan that costs less than the least one known."""
        steps = self._steps(self.capacity)
        if steps.residuals.first is None or self.capacity < 1:
            return Proven(None, NEVER)
        first: int | None = None
        for repeat in (1, REPEAT):
            labels = self._labels(steps, least, repeat)
            try:
                for number, path in enumerate(labels.paths()):
                    cost = units_of(self.problem, self.names[0], path.cost)
                    first = cost if first is None else first
                    plan = self._placed(steps, path, self.capacity)
                    if plan is not None:
                        on_plan(plan)
                        return Proven(plan, first)
                    if number >= MOST_PATHS:
                        break
            except OutOfTimeError:
                proven = units_of(self.problem, self.names[0], labels.bound)
                return Proven(None, min(least, proven if first is None else first), False)
            if first is None:
                return Proven(None, least if labels.limited and least < NEVER else NEVER)
        assert first is not None
        return Proven(None, first)

    def _placed(self, steps: ConstrainedSteps, path: StepSequence, capacity: int) -> Plan | None:
        left = steps.left_after(path.choices)
        assert left is not None
        plan = place_constrained(
            self.variant.problem,
            path.choices,
            steps.residuals.sets[left],
            capacity,
            self.below,
            self.deadline,
        )
        return None if plan is None else self.variant.complete(plan)

    def least_memory(self, on_bound: Callable[[int], None]) -> Proven:
        """Return the plan of the least memory."""
        problem = self.problem
        if self.capacity < problem.least_memory:
            return Proven(None, NEVER)

        def within(capacity: int) -> StepSequence | None:
            steps = self._steps(capacity)
            return None if steps.residuals.first is None else next(self._labels(steps, NEVER).paths(), None)

        def placed(path: StepSequence, capacity: int) -> Plan | None:
            return self._placed(self._steps(capacity), path, capacity)

        found = bisect_memory(problem, within, self.deadline, on_bound, self.capacity, placed)
        return Proven(found.plan, NEVER if found.impossible else found.bound)
