"""Least traffic and least memory, with addresses: what the searches for live sizes become."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from tilewright.residency.exact.search import Found, Search
from tilewright.residency.lowering import planned, widened
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.residency.transitions import Transitions
from tilewright.spec.errors import OutOfTimeError

REPEAT = 4
"""Ways to a state that are looked at where the first plan has no addresses."""

TRIED = 200
"""Plans for which addresses are sought."""


WIDENED = (100, 95, 85)
"""Percentages of the memory that buffers are widened to fill, the first for which there are addresses."""


FINENESS = 64
"""Where plans that move only what they must are not found, they may move this part more."""


class Answer(NamedTuple):
    """The best plan found, a proven lower bound in bytes, and whether it is proven that there is none."""

    plan: Plan | None
    bound: int
    impossible: bool = False


def search_of(
    problem: Problem,
    capacity: int,
    most: int,
    deadline: float,
    *,
    given_order: bool = False,
    repeat: int = 1,
) -> Search:
    """Return a search for a memory of some elements, within the limits of a problem.

    Parameters
    ----------
    most
        Elements that a plan may move.
    """
    limits, graph = problem.limits, problem.graph
    steps = Transitions(graph, capacity, max(0, most - graph.compulsory), problem.groups)
    return Search(
        steps,
        given_order=given_order or limits.order == "given",
        most_operations=limits.most_operations,
        most=most,
        repeat=repeat,
        deadline=deadline,
    )


def least_traffic(
    problem: Problem, deadline: float, on_bound: Callable[[int], None], on_plan: Callable[[Plan], None]
) -> Answer:
    """Return the plan that moves least.

    The search counts sizes of what is on chip at a time. Its first answer for which there are addresses is a
    best plan if it moves no more than the first answer of all; until then that is the bound. Where operations
    can have several orders, that of the file is tried first: what it moves is the most that is looked at.
    """
    width, capacity = problem.machine.element_bytes, problem.machine.capacity
    most = sum(problem.layer_by_layer.values())
    any_order = problem.limits.order == "any" and not problem.graph.is_chain
    bound, first = problem.graph.compulsory, None

    def proven(elements: int) -> None:
        nonlocal bound
        if elements > bound:
            bound = elements
            on_bound(bound * width)

    try:
        if any_order:
            found = _deepening(problem, most, deadline, _ignored, given_order=True)
            most, first = found.moved, addressed(problem, found, capacity, deadline)
            if first is not None:
                on_plan(first)
        found = _deepening(problem, most, deadline, proven)
        proven(found.moved)
        if first is not None and found.moved == most:
            return Answer(first, bound * width)
        plan = addressed(problem, found, capacity, deadline)
        return Answer(plan or _another(problem, capacity, deadline) or first, bound * width)
    except OutOfTimeError:
        return Answer(first, bound * width)


def _deepening(
    problem: Problem,
    most: int,
    deadline: float,
    on_bound: Callable[[int], None],
    *,
    given_order: bool = False,
) -> Found:
    """Return the steps that move least, which is no more than `most`.

    What they may move beyond what is compulsory is nothing at first, then little and doubled until there are
    any: so nothing is looked at that is far too expensive.
    """
    compulsory, more = problem.graph.compulsory, 0
    while True:
        limit = min(most, compulsory + more)
        search = search_of(problem, problem.machine.capacity, limit, deadline, given_order=given_order)
        try:
            found = next(search.paths(), None)
        except OutOfTimeError:
            on_bound(search.bound)
            raise
        if found is not None:
            return found
        on_bound(limit + 1)
        more = max(1, compulsory // FINENESS, 2 * more)


def _ignored(_bound: int) -> None:
    """Take a bound that does not hold for all plans."""


def addressed(problem: Problem, found: Found, capacity: int, deadline: float) -> Plan | None:
    """Return the plan of some steps: in few passes if that has addresses, else with the least buffers."""
    for part in WIDENED:
        wide = widened(problem.graph, found.choices, capacity * part // 100)
        plan = planned(problem.graph, wide, capacity, deadline)
        if plan is not None:
            return plan
    return planned(problem.graph, found.choices, capacity, deadline, exact=True)


def _another(problem: Problem, capacity: int, deadline: float) -> Plan | None:
    """Return the first plan with addresses of those that follow."""
    most = 2 * sum(problem.layer_by_layer.values())
    search = search_of(problem, capacity, most, deadline, repeat=REPEAT)
    try:
        for number, found in enumerate(search.paths()):
            plan = planned(problem.graph, found.choices, capacity, deadline, exact=True)
            if plan is not None or number > TRIED:
                return plan
    except OutOfTimeError:
        pass
    return None


def least_memory(problem: Problem, deadline: float, on_bound: Callable[[int], None]) -> Answer:
    """Return the plan of the least memory that moves no more than is allowed."""
    width, limit = problem.machine.element_bytes, problem.objective.most_traffic
    low, high = max(problem.least.values()), problem.machine.capacity
    most = limit // width if limit is not None else sum(problem.one_by_one(low).values())
    best: Found | None = None
    on_bound(low * width)
    try:
        best = _within(problem, high, most, deadline)
        if best is None:
            return Answer(None, low * width, impossible=True)
        while low < high:
            middle = (low + high) // 2
            found = _within(problem, middle, most, deadline)
            if found is None:
                low = middle + 1
                on_bound(low * width)
            else:
                best, high = found, middle
    except OutOfTimeError:
        pass
    if best is None:
        return Answer(None, low * width)
    plan, capacity = None, high
    while plan is None and capacity <= problem.machine.capacity and time.monotonic() < deadline:
        plan = addressed(problem, best, capacity, deadline)
        capacity += max(1, capacity // 100)
    return Answer(plan, low * width)


def _within(problem: Problem, capacity: int, most: int, deadline: float) -> Found | None:
    """Return steps for a memory that move no more than `most`."""
    return next(search_of(problem, capacity, most, deadline).paths(), None)
