"""Least traffic and least memory, with addresses: what the searches for live sizes become."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from tilewright.core.branch_and_bound import ignore, share_of
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.exact.addresses import Addresses
from tilewright.residency.exact.layers import Layers
from tilewright.residency.exact.search import Search, StepSequence
from tilewright.residency.lowering import place_steps
from tilewright.residency.placement import peak_elements, placed_items
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.residency.transitions import Transitions
from tilewright.spec.errors import InputError, OutOfTimeError

REPEAT = 4
"""Ways to a state that are looked at where the first plan has no addresses."""

TRIED = 200
"""Plans for which addresses are sought."""

PATIENCE = 0.05
"""Share of the time that is left in which addresses are sought for a plan, while better ones may be found.

Half of the share that the plan saves is added: what saves much is worth waiting for.
"""

SHARE = 0.05
"""Share of the time in which plans without tiles are looked for first."""

MANY = 100
"""Operations of a network from which on plans without tiles are not looked for first: it takes too long."""

FEW = 20
"""Operations of a network of which many plans are tried."""

LESS = 400
"""Parts of the memory of which at least one is left free where there are no addresses."""

NEAR = (64, 16, 4, 1)
"""Plans with less room are sought that move no more than this part of what they may beyond the best."""

KEPT = 0.1
"""Share of the time that is left that is kept for addresses, as long as the best plan has none."""

BESIDE = 0.3
"""Share of that in which plans with less room are looked for."""

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
    on_bound: Callable[[int], None] = ignore,
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
        known = elements_moved_by(problem, plan)

    def proven(elements: int) -> None:
        nonlocal bound
        if elements > bound:
            bound = elements
            on_bound(bound * width)

    if known == bound:
        return Answer(plan, bound * width)
    addresses = Addresses(problem.graph, capacity)
    try:
        less = most if known is None else min(most, known - 1)
        layers = layers_of(problem, capacity, less, deadline, proven)
        beside = RoomierPlans(layers, addresses)
        for last in layers.plans():
            saved = 1 - last.moved / (most if known is None else known)
            better = addresses.plan(last.choices, share_of(deadline, PATIENCE + saved / 2), last=False)
            if better is None:
                layers.deadline = share_of(deadline, 1 - KEPT)
                continue
            plan, known, layers.deadline = better, last.moved, deadline
            on_plan(better)
    except OutOfTimeError:
        pass
    if last is not None and (known is None or last.moved < known):
        plan = search_placeable(problem, beside, last, known, deadline) or plan
    return Answer(plan, bound * width)


def elements_moved_by(problem: Problem, plan: Plan) -> int:
    """Return the elements that a plan moves."""
    return sum(step.moved for step in decode_plan(problem, plan))


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
    return least_traffic(plain, share_of(deadline, SHARE), ignore, on_plan, known).plan


def place_found(problem: Problem, found: StepSequence, capacity: int, deadline: float) -> Plan | None:
    """Return the plan of some steps: in few passes if that has addresses, else with the least buffers."""
    return Addresses(problem.graph, capacity).plan(found.choices, deadline)


def search_placeable(
    problem: Problem, beside: RoomierPlans, last: StepSequence, known: int | None, deadline: float
) -> Plan | None:
    """Return a plan with addresses that moves less than what is known, after a search.

    If none are found for the last plan of the search, plans are looked for that take less memory where that
    one has too little. For small networks all that move little are tried, one after the other.
    """
    addresses, few = beside.addresses, len(problem.graph.operations) <= FEW
    limit = sum(problem.layer_by_layer.values()) if known is None else known - 1
    best = addresses.plan(last.choices, deadline) if few else None
    if best is not None:
        return best
    another = beside.plan(last, limit, share_of(deadline, BESIDE))
    if another is not None:
        limit, best = another[0] - 1, another[1]
    if limit < last.moved:
        return best
    if not few:
        return addresses.plan(last.choices, deadline) or best
    search = search_of(problem, addresses.capacity, limit, deadline, repeat=REPEAT)
    with suppress(OutOfTimeError):
        for number, found in enumerate(search.paths()):
            plan = place_steps(problem.graph, found.choices, addresses.capacity, deadline, exact=True)
            if plan is not None:
                return plan
            if number > TRIED:
                break
    return best


class RoomierPlans:
    """Plans that take less memory where those of a search have no addresses.

    Attributes
    ----------
    less
        Elements that are left free by the step after what has been executed.
    """

    def __init__(self, layers: Layers, addresses: Addresses) -> None:
        self.layers, self.addresses = layers, addresses
        self.less: dict[int, int] = {}

    def plan(self, found: StepSequence, most: int, deadline: float) -> tuple[int, Plan] | None:
        """Return a plan with addresses after one without, and what it moves, or None.

        Parameters
        ----------
        most
            Elements that it may move.
        """
        until, self.layers.deadline = self.layers.deadline, deadline
        another: StepSequence | None = found
        try:
            while another is not None:
                self._leave_more(another)
                another = self._next(found.moved, most)
                if another is not None:
                    plan = self.addresses.plan(another.choices, deadline, last=False)
                    if plan is not None:
                        return another.moved, plan
        except OutOfTimeError:
            pass
        finally:
            self.layers.deadline = until
        return None

    def _leave_more(self, found: StepSequence) -> None:
        """Leave more free where there are no addresses: the step that takes most takes less then."""
        capacity = self.addresses.capacity
        placed = placed_items(self.layers.graph, found.choices)
        done = [state.done for state in self.addresses.alike.states(found.choices)]
        for begin, end in self.addresses.failed:
            taken = [
                sum(item.size for item in placed if item.begin <= n < item.end) for n in range(begin, end)
            ]
            before = done[begin + taken.index(max(taken))]
            self.less[before] = max(capacity // LESS, capacity - max(taken) + 1, 2 * self.less.get(before, 0))

    def _next(self, least: int, most: int) -> StepSequence | None:
        for part in NEAR:
            found = self.layers.beside(self.less, least + (most - least) // part)
            if found is not None:
                return found
        return None


def least_memory(problem: Problem, deadline: float, on_bound: Callable[[int], None]) -> Answer:
    """Return the plan of the least memory that moves no more than is allowed."""
    limit, low = problem.objective.most_traffic, max(problem.least.values())
    most = sum(problem.one_by_one(low).values()) if limit is None else limit // problem.machine.element_bytes
    return bisect_memory(
        problem,
        lambda capacity: next(layers_of(problem, capacity, most, deadline).plans(), None),
        deadline,
        on_bound,
    )


def bisect_memory(
    problem: Problem,
    within: Callable[[int], StepSequence | None],
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
    best: StepSequence | None = None
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
                best, high = found, peak_elements(placed_items(problem.graph, found.choices))
    except OutOfTimeError:
        pass
    if best is None:
        return Answer(None, low * width)
    plan, capacity = None, high
    while plan is None and capacity <= problem.machine.capacity and time.monotonic() < deadline:
        plan = place_found(problem, best, capacity, deadline)
        capacity += max(1, capacity // 100)
    return Answer(plan, low * width)
