"""Least traffic and least memory: first the best steps, then addresses for all that they place."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from tilewright.core.branch_and_bound import ignore, share_of
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.exact.addresses import Addresses
from tilewright.residency.exact.labels import LabelSearch, StepSequence
from tilewright.residency.exact.layers import Layers
from tilewright.residency.exact.packed_steps import PackedSteps
from tilewright.residency.exact.priced_steps import PricedSteps
from tilewright.residency.placement import peak_elements, place_steps, placed_items
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.residency.transitions import StepChoice, Transitions
from tilewright.spec.errors import InputError, OutOfTimeError


@dataclass(frozen=True)
class TrafficParams:
    """How the search divides its time, and when it is content.

    Attributes
    ----------
    fineness
        At first plans are looked for that move this part more than they must.
    plain_share
        Share of the time in which plans without tiles are looked for first.
    plain_most
        Operations of a network from which on they are not looked for first: it takes too long.
    address_share
        Share of the time left in which addresses are sought for a plan, while better ones may be found. Half
        of the share of traffic that the plan saves is added: what saves much is worth waiting for.
    kept_share
        Share of the time left that is kept for addresses, as long as the best plan has none.
    roomier_share
        Share of that in which plans with less memory are looked for.
    roomier_parts
        Of what they may move beyond the best plan, the parts in which they are sought, one after the other.
    least_free
        Parts of the memory of which at least one is left free where there are no addresses.
    few
        Operations of a network up to which many plans are tried.
    tried, repeat
        Plans for which addresses are sought then, and ways to a state that are looked at for that.
    """

    fineness: int = 64
    plain_share: float = 0.05
    plain_most: int = 100
    address_share: float = 0.05
    kept_share: float = 0.1
    roomier_share: float = 0.3
    roomier_parts: tuple[int, ...] = (64, 16, 4, 1)
    least_free: int = 400
    few: int = 20
    tried: int = 200
    repeat: int = 4


PARAMS = TrafficParams()


class Answer(NamedTuple):
    """The best plan found, a proven lower bound in bytes, and whether it is proven that there is none."""

    plan: Plan | None
    bound: int
    impossible: bool = False


def label_search(
    problem: Problem, capacity: int, most: int, deadline: float, *, repeat: int = 1
) -> LabelSearch:
    """Return a search state by state for least traffic in a memory of some elements.

    Parameters
    ----------
    most
        Elements that a plan may move.
    """
    most_again = max(0, most - problem.graph.compulsory)
    priced = PricedSteps(problem, capacity, most_again=most_again)
    return LabelSearch(priced, (most,), repeat=repeat, deadline=deadline)


def layered_search(
    problem: Problem,
    capacity: int,
    most: int,
    deadline: float,
    on_bound: Callable[[int], None] = ignore,
) -> Layers:
    """Return a search layer by layer for least traffic; the same as `label_search`."""
    return Layers(Transitions(problem.groups, capacity, problem.limits), most, deadline, on_bound)


def moved_by(problem: Problem, plan: Plan) -> int:
    """Return the elements that a plan moves."""
    return sum(step.moved for step in decode_plan(problem, plan))


def addresses_in(problem: Problem, capacity: int) -> Addresses:
    """Return what finds addresses for plans that take so many elements of a problem's memories."""
    return Addresses(problem.groups, capacity, problem.machine.regions)


def place_sequence(problem: Problem, found: StepSequence, capacity: int, deadline: float) -> Plan | None:
    """Return the plan of some steps: in few passes if that has addresses, else with the least buffers."""
    return addresses_in(problem, capacity).place(found.choices, deadline)


# Least traffic ------------------------------------------------------------------------------------------


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
    plan = _plan_without_tiles(problem, deadline, on_plan, known)
    if plan is not None:
        known = moved_by(problem, plan)

    def prove(elements: int) -> None:
        nonlocal bound
        if elements > bound:
            bound = elements
            on_bound(bound * width)

    if known == bound:
        return Answer(plan, bound * width)
    addresses = addresses_in(problem, capacity)
    try:
        less = most if known is None else min(most, known - 1)
        layers = layered_search(problem, capacity, less, deadline, prove)
        roomier = RoomierPlans(layers, addresses)
        for last in layers.plans():
            saved = 1 - last.cost / (most if known is None else known)
            until = share_of(deadline, PARAMS.address_share + saved / 2)
            better = addresses.place(last.choices, until, last=False)
            if better is None:
                layers.deadline = share_of(deadline, 1 - PARAMS.kept_share)
                continue
            plan, known, layers.deadline = better, last.cost, deadline
            on_plan(better)
    except OutOfTimeError:
        pass
    if last is not None and (known is None or last.cost < known):
        plan = search_placeable(problem, roomier, last, known, deadline) or plan
    return Answer(plan, bound * width)


def _plan_without_tiles(
    problem: Problem, deadline: float, on_plan: Callable[[Plan], None], known: int | None
) -> Plan | None:
    """Return a better plan without tiles: there is less to look at, and nothing is computed again.

    So tiles are only in plans that move less with them.
    """
    if not problem.limits.tiles or len(problem.graph.operations) >= PARAMS.plain_most:
        return None
    try:
        plain = problem.with_(limits={"tiles": False})
    except InputError:  # without tiles it does not run in this memory
        return None
    return least_traffic(plain, share_of(deadline, PARAMS.plain_share), ignore, on_plan, known).plan


# Plans that have addresses ------------------------------------------------------------------------------


def search_placeable(
    problem: Problem, roomier: RoomierPlans, last: StepSequence, known: int | None, deadline: float
) -> Plan | None:
    """Return a plan with addresses that moves less than what is known, after a search.

    If none are found for the last plan of the search, plans are looked for that take less memory where that
    one has too little. For small networks all that move little are tried, one after the other.
    """
    addresses, few = roomier.addresses, len(problem.graph.operations) <= PARAMS.few
    limit = sum(problem.layer_by_layer.values()) if known is None else known - 1
    best = addresses.place(last.choices, deadline) if few else None
    if best is not None:
        return best
    if few and len(problem.machine.regions) > 1:
        most = None if known is None else known - 1  # all by themselves, steps may move more than in one
        search = LabelSearch(PackedSteps(problem), (most,), repeat=PARAMS.repeat, deadline=deadline)
        return first_placeable(problem, search, deadline)
    another = roomier.search(last, limit, share_of(deadline, PARAMS.roomier_share))
    if another is not None:
        limit, best = another[0] - 1, another[1]
    if limit < last.cost:
        return best
    if not few:
        return addresses.place(last.choices, deadline) or best
    search = label_search(problem, addresses.capacity, limit, deadline, repeat=PARAMS.repeat)
    return first_placeable(problem, search, deadline) or best


def first_placeable(problem: Problem, search: LabelSearch, deadline: float) -> Plan | None:
    """Return the first plan of a search that has addresses, None if many have none."""
    with suppress(OutOfTimeError):
        for number, found in enumerate(search.paths()):
            machine = problem.machine
            plan = place_steps(
                *(problem.groups, found.choices, machine.capacity, deadline),
                exact=True,
                regions=machine.regions,
            )
            if plan is not None or number > PARAMS.tried:
                return plan
    return None


class RoomierPlans:
    """Plans that take less memory where those of a search have no addresses.

    Attributes
    ----------
    left_free
        Elements that are left free by the step after what has been executed.
    """

    def __init__(self, layers: Layers, addresses: Addresses) -> None:
        self.layers, self.addresses = layers, addresses
        self.left_free: dict[int, int] = {}

    def search(self, found: StepSequence, most: int, deadline: float) -> tuple[int, Plan] | None:
        """Return what a plan with addresses moves, and it, after steps for which there are none; or None.

        Parameters
        ----------
        most
            Elements that it may move.
        """
        until, self.layers.deadline = self.layers.deadline, deadline
        another: StepSequence | None = found
        tried = set[tuple[StepChoice, ...]]()
        try:
            while another is not None and another.choices not in tried:
                tried.add(another.choices)
                self._leave_more(another)
                another = self._next(found.cost, most)
                if another is not None:
                    plan = self.addresses.place(another.choices, deadline, last=False)
                    if plan is not None:
                        return another.cost, plan
        except OutOfTimeError:
            pass
        finally:
            self.layers.deadline = until
        return None

    def _leave_more(self, found: StepSequence) -> None:
        """Leave more free where there are no addresses: the step that takes most takes less then."""
        capacity, left_free = self.addresses.capacity, self.left_free
        placed = placed_items(self.layers.steps.groups, found.choices)
        done = [state.done for state in self.addresses.exchanges.states(found.choices)]
        for begin, end in self.addresses.failed:
            taken = [
                sum(item.size for item in placed if item.begin <= n < item.end) for n in range(begin, end)
            ]
            before = done[begin + taken.index(max(taken))]
            least = max(capacity // PARAMS.least_free, capacity - max(taken) + 1)
            left_free[before] = max(least, 2 * left_free.get(before, 0))

    def _next(self, least: int, most: int) -> StepSequence | None:
        for part in PARAMS.roomier_parts:
            found = self.layers.plan_leaving_free(self.left_free, least + (most - least) // part)
            if found is not None:
                return found
        return None


# Least memory -------------------------------------------------------------------------------------------


def least_memory(problem: Problem, deadline: float, on_bound: Callable[[int], None]) -> Answer:
    """Return the plan of the least memory that moves no more than is allowed."""
    limit, low = problem.objective.most_traffic, problem.least_memory
    most = sum(problem.one_by_one(low).values()) if limit is None else limit // problem.machine.element_bytes
    return bisect_memory(
        problem,
        lambda capacity: next(layered_search(problem, capacity, most, deadline).plans(), None),
        deadline,
        on_bound,
    )


def bisect_memory(
    problem: Problem,
    search: Callable[[int], StepSequence | None],
    deadline: float,
    on_bound: Callable[[int], None],
    most: int | None = None,
    place: Callable[[StepSequence, int], Plan | None] | None = None,
) -> Answer:
    """Return the plan of the least memory by bisection, as more memory never costs more.

    Parameters
    ----------
    search
        Returns allowed steps for a memory of some elements; None if there are none.
    most
        Elements of the memory, where it may not be as large as the machine's.
    place
        Returns the plan of some steps in a memory, None where none is found; by default in few passes.
    """
    width, low = problem.machine.element_bytes, problem.least_memory
    high = top = problem.machine.capacity if most is None else most
    best: StepSequence | None = None
    on_bound(low * width)
    try:
        best = search(high)
        if best is None:
            return Answer(None, low * width, impossible=True)
        while low < high:
            middle = (low + high) // 2
            found = search(middle)
            if found is None:
                low = middle + 1
                on_bound(low * width)
            else:
                best, high = found, peak_elements(placed_items(problem.groups, found.choices))
    except OutOfTimeError:
        pass
    if best is None:
        return Answer(None, low * width)
    plan, capacity, several = None, high, len(problem.machine.regions) > 1
    while plan is None and capacity <= top and time.monotonic() < deadline:
        if place is not None:
            plan = place(best, capacity)
        else:
            last = not several or capacity == top
            plan = addresses_in(problem, capacity).place(best.choices, deadline, last=last)
        more = capacity + max(1, capacity // 100)
        capacity = min(top, more) if several and capacity < top else more
    return Answer(plan, low * width)
