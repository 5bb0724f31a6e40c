"""Least time and energy, limits on them, and lists of objectives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from tilewright.core.branch_and_bound import Incumbent, ignore, share_of
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.evaluation import objective, violation
from tilewright.residency.exact.constrained import search_constrained
from tilewright.residency.exact.labels import LabelSearch, StepSequence
from tilewright.residency.exact.packed_steps import PackedSteps
from tilewright.residency.exact.priced_steps import PricedSteps, most_parts, units_of
from tilewright.residency.exact.recompute import search_recompute
from tilewright.residency.exact.resident_weights import search_resident_weights
from tilewright.residency.exact.traffic import PARAMS as TRAFFIC_PARAMS
from tilewright.residency.exact.traffic import (
    Answer,
    bisect_memory,
    first_placeable,
    least_memory,
    least_traffic,
    moved_by,
    place_sequence,
)
from tilewright.residency.exact.without_dram import best_without_dram
from tilewright.residency.machine import ONE
from tilewright.residency.plan import Plan
from tilewright.residency.problem import LIMITED, Problem
from tilewright.spec.errors import InputError, OutOfTimeError


@dataclass(frozen=True)
class CostParams:
    """How the search divides its time.

    Attributes
    ----------
    first_share
        Share of the time in which a plan is looked for that moves least, to begin with.
    fineness
        At first plans are looked for that cost this part more than they must.
    largest_share
        Share of the time that is kept for plans in the largest of several memories, in case that of plans
        with the least sum of sizes none has addresses.
    """

    first_share: float = 0.25
    fineness: int = 64
    largest_share: float = 0.3


PARAMS = CostParams()


def search_one_objective(
    problem: Problem,
    deadline: float,
    on_bound: Callable[[int], None],
    on_plan: Callable[[Plan], None],
    start: Plan | None = None,
) -> Answer:
    """Return the plan that is best in the one objective of a problem, within its limits.

    Parameters
    ----------
    start
        A valid plan. If no better one is returned, and it costs no more than the bound, it is best.
    """
    if not problem.machine.dram:
        return best_without_dram(problem, deadline, on_bound, on_plan)
    if len(problem.machine.regions) == 1:
        return _search_one_objective(problem, deadline, on_bound, on_plan, start)
    until = share_of(deadline, 1 - PARAMS.largest_share)
    answer = _search_one_objective(problem, until, on_bound, on_plan, start)
    if answer.plan is not None or answer.impossible or problem.constraints:
        return answer
    if start is not None and objective(problem, start) <= answer.bound:
        return answer
    return answer._replace(plan=_plan_in_largest(problem, deadline))


def _plan_in_largest(problem: Problem, deadline: float) -> Plan | None:
    """Return the best plan that the largest of several memories holds, or None."""
    machine = problem.machine
    largest = max(machine.regions, key=lambda region: region.elements)
    room = min(machine.capacity, largest.elements) * machine.element_bytes
    try:
        alone = problem.with_(machine={"memory": largest.name, "memory_bytes": room})
    except InputError:
        return None
    found = _search_one_objective(alone, deadline, ignore, ignore).plan
    if found is None:
        return None
    staying = {name: at + largest.begin for name, at in found.staying.items()}
    plan = replace(found.moved_up(largest.begin), staying=staying)
    return plan if violation(problem, plan) is None else None


def _search_one_objective(
    problem: Problem,
    deadline: float,
    on_bound: Callable[[int], None],
    on_plan: Callable[[Plan], None],
    start: Plan | None = None,
) -> Answer:
    """Return the plan that is best: see `search_one_objective`; bounds are those of one memory."""
    if problem.constraints:
        return search_constrained(problem, deadline, on_bound, on_plan, start)
    limits = problem.objective.limits
    if problem.minimise == "memory":
        if limits.keys() <= {"traffic"}:
            return least_memory(problem, deadline, on_bound)
        return _least_memory_within_limits(problem, deadline, on_bound)
    if problem.limits.frames != ONE:
        return search_resident_weights(problem, deadline, on_bound, on_plan, start)
    if problem.limits.executions != 1:
        return search_recompute(problem, deadline, on_bound, on_plan, start)
    if problem.minimise == "traffic" and not limits:
        known = None if start is None else moved_by(problem, start)
        return least_traffic(problem, deadline, on_bound, on_plan, known)
    return least_cost(problem, deadline, on_bound, on_plan)


class Stages(NamedTuple):
    """What is left of a list of objectives.

    Attributes
    ----------
    last
        The last objective, with limits on those before it; None if there is no plan.
    proven
        Whether these are known to be the least and the tolerances, not more.
    """

    last: Problem | None
    proven: bool


def stages(problem: Problem, deadline: float) -> Stages:
    """Minimise all objectives of a list but the last; each may then cost its least and the tolerance.

    Raises
    ------
    OutOfTimeError
        When the deadline passes before there is a plan.
    """
    least, proven = dict[str, int](), True
    for name, _ in problem.before:
        stage = problem.stage(least)
        answer = search_one_objective(stage, deadline, ignore, ignore)
        if answer.impossible:
            return Stages(None, proven)
        if answer.plan is None:
            raise OutOfTimeError
        least[name] = objective(stage, answer.plan)
        proven &= least[name] <= answer.bound
    return Stages(problem.stage(least), proven)


def recheck(problem: Problem, plan: Plan, deadline: float) -> list[tuple[str, bool | None, str]]:
    """Verify that no objective of a list before the last costs more than its tolerance allows."""
    if not problem.before:
        return []
    try:
        last, proven = stages(problem, deadline)
    except OutOfTimeError:
        last, proven = None, False
    if last is None or not proven:
        return [("tolerance", None, "the objectives before the last are not proven in time")]
    broken = violation(last, plan)
    if broken is not None:
        return [("tolerance", False, broken)]
    return [("tolerance", True, f"{', '.join(name for name, _ in problem.before)}: within it")]


class _Search:
    """The searches for a memory of some elements, and units of objectives in the parts that they count."""

    def __init__(self, problem: Problem, capacity: int) -> None:
        self.problem = problem
        limited = tuple(problem.objective.limits)
        self.names = limited if problem.minimise == "memory" else (problem.minimise, *limited)
        self.steps: PricedSteps = PricedSteps(problem, capacity, self.names)

    def labels(self, most: int | None, deadline: float, repeat: int = 1) -> LabelSearch:
        """Return a search for plans that cost no more than `most` of what is minimised."""
        limits = self.problem.objective.limits
        others = (most_parts(self.problem, name, limits[name]) for name in self.names[1:])
        return LabelSearch(self.steps, (most, *others), repeat=repeat, deadline=deadline)


def least_cost(
    problem: Problem,
    deadline: float,
    on_bound: Callable[[int], None],
    on_plan: Callable[[Plan], None],
    start: Plan | None = None,
) -> Answer:
    """Return the plan that costs least.

    What it may cost beyond what is compulsory is little at first and doubled until there is a plan, or it is
    as much as that of the plan which moves least, or of another valid one to start from.
    """
    if problem.constraints:
        return search_constrained(problem, deadline, on_bound, on_plan, start)
    search, name = _Search(problem, problem.machine.capacity), problem.minimise
    compulsory = search.labels(None, deadline).bound
    incumbent: Incumbent[Plan] = Incumbent(
        on_plan, lambda parts: on_bound(units_of(problem, name, parts)), bound=compulsory
    )

    def offer(plan: Plan) -> None:
        incumbent.offer(most_parts(problem, name, objective(problem, plan)), plan)

    def answer(*, impossible: bool = False) -> Answer:
        return Answer(incumbent.plan, units_of(problem, name, incumbent.bound), impossible)

    first = _first_plan(search, deadline) if start is None else start
    if first is not None:
        offer(first)
        if objective(problem, first) <= units_of(problem, name, incumbent.bound):
            return answer()
    found: StepSequence | None = None
    more = max(1, compulsory // PARAMS.fineness)
    while found is None:
        limit = compulsory + more
        # Of interest are plans that cost at least a unit less than the first.
        below = None if first is None else most_parts(problem, name, objective(problem, first) - 1)
        last = below is not None and below <= limit
        labels = search.labels(below if last else limit, deadline)
        try:
            found = next(labels.paths(), None)
        except OutOfTimeError:
            incumbent.prove(labels.bound)
            return answer()
        if found is None and last:
            assert first is not None
            return Answer(first, objective(problem, first))
        if found is None and not labels.limited:
            return answer(impossible=first is None)
        incumbent.prove(limit + 1 if found is None else found.cost)
        more *= 2
    plan = place_sequence(problem, found, problem.machine.capacity, deadline)
    if plan is None:
        if len(problem.machine.regions) > 1:
            search.steps = PackedSteps(problem, search.names)
        labels = search.labels(None, deadline, TRAFFIC_PARAMS.repeat)
        plan = first_placeable(problem, labels, deadline)
    if plan is not None:
        offer(plan)
    return answer()


def _first_plan(search: _Search, deadline: float) -> Plan | None:
    """Return the plan that moves least, its steps cut up as is best, if that is within all limits."""
    problem = search.problem
    traffic = problem.with_(objective={"minimise": "traffic", **{f"most_{each}": None for each in LIMITED}})
    found = least_traffic(traffic, share_of(deadline, PARAMS.first_share), ignore, ignore).plan
    if found is None:
        return None
    choices = search.steps.improve([step.choice for step in decode_plan(problem, found)])
    better = place_sequence(problem, StepSequence(0, tuple(choices)), search.steps.capacity, deadline)
    plans = [plan for plan in (better, found) if plan is not None and violation(problem, plan) is None]
    return min(plans, key=lambda plan: objective(problem, plan), default=None)


def _least_memory_within_limits(problem: Problem, deadline: float, on_bound: Callable[[int], None]) -> Answer:
    """Return the plan of the least memory that stays within all limits."""

    def within(capacity: int) -> StepSequence | None:
        search = _Search(problem, capacity)
        name = search.names[0]
        most = most_parts(problem, name, problem.objective.limits[name])
        return next(search.labels(most, deadline).paths(), None)

    return bisect_memory(problem, within, deadline, on_bound)
