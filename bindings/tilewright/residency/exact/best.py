"""Least traffic and least memory, with addresses: what the searches for live sizes become."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from tilewright.residency.exact.layers import Layers
from tilewright.residency.exact.search import Found, Search
from tilewright.residency.lowering import planned, widened
from tilewright.residency.placement import soon
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.residency.reading import told
from tilewright.residency.transitions import Transitions
from tilewright.spec.errors import InputError, OutOfTimeError

REPEAT = 4
"""Ways to a state that are looked at where the first plan has no addresses."""

TRIED = 200
"""Plans for which addresses are sought."""

PATIENCE = 0.05
"""Share of the time that is left in which addresses are sought for a plan, while better ones may be found."""

SHARE = 0.05
"""Share of the time in which plans without tiles are looked for first."""

MANY = 100
"""Operations of a network from which on plans without tiles are not looked for first: it takes too long."""

FEW = 20
"""Operations of a network of which many plans are tried."""

LESS = (995, 980, 950, 900, 800)
"""Thousandths of the memory in which plans are sought that have addresses in all of it."""

WIDENED = (100, 95, 85)
"""Percentages of the memory that buffers are widened to fill, the first for which there are addresses."""


FINENESS = 64
"""At first plans are looked for that move this part more than they must."""


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


def layers_of(
    problem: Problem,
    capacity: int,
    most: int,
    deadline: float,
    on_bound: Callable[[int], None] | None = None,
) -> Layers:
    """Return the search layer by layer, within the limits of a problem; the same as `search_of`."""
    limits = problem.limits
    return Layers(
        Transitions(problem.graph, capacity, groups=problem.groups),
        most=most,
        given_order=limits.order == "given",
        most_operations=limits.most_operations,
        deadline=deadline,
        on_bound=on_bound,
    )


def least_traffic(
    problem: Problem,
    deadline: float,
    on_bound: Callable[[int], None],
    on_plan: Callable[[Plan], None],
    known: int | None = None,
) -> Answer:
    """Return the plan that moves least, if it moves less than the elements that are known to do.

    The search counts sizes of what is on chip at a time. If there are addresses for its last answer, that is
    a best plan; if not, what it moves is a bound, and plans are sought that take less memory.
    """
    width, capacity = problem.machine.element_bytes, problem.machine.capacity
    most = sum(problem.layer_by_layer.values())
    bound, last = problem.graph.compulsory, None
    plan = _without_tiles(problem, deadline, on_plan, known)
    if plan is not None:
        known = moved(problem, plan)

    def proven(elements: int) -> None:
        nonlocal bound
        if elements > bound:
            bound = elements
            on_bound(bound * width)

    if known == bound:
        return Answer(plan, bound * width)
    try:
        less = most if known is None else min(most, known - 1)
        for found in layers_of(problem, capacity, less, deadline, proven).plans():
            last, better = found, addressed(problem, found, capacity, soon(deadline, PATIENCE))
            if better is not None:
                plan, known = better, found.moved
                on_plan(better)
    except OutOfTimeError:
        pass
    if last is not None and (known is None or last.moved < known):
        better = addressed(problem, last, capacity, soon(deadline, 0.5))
        if better is not None:
            return Answer(better, bound * width)
        another = placeable(problem, capacity, deadline, last.moved, known)
        if another is not None:
            return Answer(another, bound * width)
    return Answer(plan, bound * width)


def moved(problem: Problem, plan: Plan) -> int:
    """Return the elements that a plan moves."""
    return sum(step.moved for step in told(problem, plan))


def _without_tiles(
    problem: Problem, deadline: float, on_plan: Callable[[Plan], None], known: int | None
) -> Plan | None:
    """Return a better plan without tiles: there is less to look at, and nothing is computed again.

    So tiles are only in plans that move less with them.
    """
    if not problem.limits.tiles or len(problem.graph.operations) >= MANY:
        return None
    try:
        plain = problem.with_(limits={"tiles": False})
    except InputError:  # without tiles it does not run in this memory
        return None
    return least_traffic(plain, soon(deadline, SHARE), lambda _bound: None, on_plan, known).plan


def addressed(problem: Problem, found: Found, capacity: int, deadline: float) -> Plan | None:
    """Return the plan of some steps: in few passes if that has addresses, else with the least buffers."""
    for part in WIDENED:
        wide = widened(problem.graph, found.choices, capacity * part // 100)
        plan = planned(problem.graph, wide, capacity, deadline)
        if plan is not None:
            return plan
    return planned(problem.graph, found.choices, capacity, deadline, exact=True)


def placeable(problem: Problem, capacity: int, deadline: float, least: int, most: int | None) -> Plan | None:
    """Return a plan with addresses that moves less than `most`, where there are none for the best steps.

    Steps that take a little less memory have addresses more often. For small networks all that move little
    are tried, one after the other.
    """
    best, limit = None, sum(problem.layer_by_layer.values()) if most is None else most - 1
    try:
        for part in LESS:
            for found in layers_of(problem, capacity * part // 1000, limit, deadline).plans():
                plan = addressed(problem, found, capacity, deadline)
                if plan is not None:
                    best, limit = plan, found.moved - 1
            if best is not None:
                break
        if limit >= least and len(problem.graph.operations) <= FEW:
            search = search_of(problem, capacity, limit, deadline, repeat=REPEAT)
            for number, found in enumerate(search.paths()):
                plan = planned(problem.graph, found.choices, capacity, deadline, exact=True)
                if plan is not None:
                    return plan
                if number > TRIED:
                    break
    except OutOfTimeError:
        pass
    return best


def least_memory(problem: Problem, deadline: float, on_bound: Callable[[int], None]) -> Answer:
    """Return the plan of the least memory that moves no more than is allowed."""
    limit, low = problem.objective.most_traffic, max(problem.least.values())
    most = sum(problem.one_by_one(low).values()) if limit is None else limit // problem.machine.element_bytes
    return bisected(
        problem,
        lambda capacity: next(layers_of(problem, capacity, most, deadline).plans(), None),
        deadline,
        on_bound,
    )


def bisected(
    problem: Problem,
    within: Callable[[int], Found | None],
    deadline: float,
    on_bound: Callable[[int], None],
) -> Answer:
    """Return the plan of the least memory by bisection, as more memory never costs more.

    Parameters
    ----------
    within
        Returns allowed steps for a memory of some elements; None if there are none.
    """
    width, low, high = problem.machine.element_bytes, max(problem.least.values()), problem.machine.capacity
    best: Found | None = None
    on_bound(low * width)
    try:
        best = within(high)
        if best is None:
            return Answer(None, low * width, impossible=True)
        while low < high:
            middle = (low + high) // 2
            found = within(middle)
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
