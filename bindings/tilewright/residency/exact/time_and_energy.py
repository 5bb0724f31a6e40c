"""Least time and energy, limits on them, and lists of objectives: what the search with labels becomes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from tilewright.core.branch_and_bound import ignore, share_of
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.evaluation import objective, violation
from tilewright.residency.exact import search
from tilewright.residency.exact.labels import Found, Labels
from tilewright.residency.exact.recompute import search_recompute
from tilewright.residency.exact.resident_weights import search_resident_weights
from tilewright.residency.exact.timed_steps import TimedSteps
from tilewright.residency.exact.traffic import (
    FINENESS,
    REPEAT,
    TRIED,
    Answer,
    bisect_memory,
    elements_moved_by,
    least_memory,
    least_traffic,
    place_found,
)
from tilewright.residency.lowering import place_steps
from tilewright.residency.machine import ONE
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.spec.errors import OutOfTimeError


def best(
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
    limits = problem.objective.limits
    if problem.minimise == "memory":
        if limits.keys() <= {"traffic"}:
            return least_memory(problem, deadline, on_bound)
        return _least_memory(problem, deadline, on_bound)
    if problem.limits.frames != ONE:
        return search_resident_weights(problem, deadline, on_bound, on_plan, start)
    if problem.limits.executions != 1:
        return search_recompute(problem, deadline, on_bound, on_plan, start)
    if problem.minimise == "traffic" and not limits:
        known = None if start is None else elements_moved_by(problem, start)
        return least_traffic(problem, deadline, on_bound, on_plan, known)
    return least_spent(problem, deadline, on_bound, on_plan)


LIMITED = ("traffic", "cycles", "energy")
"""What the fields ``most_traffic`` and so on limit; memory is limited by the machine."""


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
    limits, memory, proven = problem.objective.limits, problem.machine.memory_bytes, True
    for name, tolerance in problem.before:
        stage = alone(problem, name, limits, memory)
        answer = best(stage, deadline, ignore, ignore)
        if answer.impossible:
            return Stages(None, proven)
        if answer.plan is None:
            raise OutOfTimeError
        value = objective(stage, answer.plan)
        proven &= value <= answer.bound
        most = value + int(value * Fraction(str(tolerance)))
        if name == "memory":
            memory = min(memory, most)
        else:
            limits[name] = min(most, limits.get(name, most))
    return Stages(alone(problem, problem.minimise, limits, memory), proven)


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


def alone(problem: Problem, name: str, limits: dict[str, int], memory: int) -> Problem:
    """Return a problem with one objective, and limits on others."""
    most = {f"most_{each}": None if each == name else limits.get(each) for each in LIMITED}
    return problem.with_(
        objective={"minimise": name, "tolerance": 0.0, **most}, machine={"memory_bytes": memory}
    )


class _Scales:
    """Units of objectives in the parts that the search counts."""

    def __init__(self, problem: Problem) -> None:
        prices = problem.priced
        self.parts = {"cycles": prices.cycle, "energy": prices.femtojoule}
        self.width = problem.machine.element_bytes

    def most(self, name: str, limit: int) -> int:
        """Return the most parts of which no more than so many units become."""
        return limit // self.width if name == "traffic" else limit * self.parts[name]

    def units(self, name: str, parts: int) -> int:
        """Return the units that parts become."""
        return parts * self.width if name == "traffic" else -(-parts // self.parts[name])


def _labels(
    problem: Problem, ways: TimedSteps, first: int | None, deadline: float, repeat: int = 1
) -> Labels:
    scales, limits = _Scales(problem), problem.objective.limits
    most = (first, *(scales.most(name, limits[name]) for name in ways.names[1:]))
    return Labels(problem, ways, most, repeat=repeat, deadline=deadline)


def _names(problem: Problem) -> tuple[str, ...]:
    """Return what the search counts: what is minimised, then what is limited."""
    limited = tuple(problem.objective.limits)
    return limited if problem.minimise == "memory" else (problem.minimise, *limited)


def least_spent(
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
    scales, name, capacity = _Scales(problem), problem.minimise, problem.machine.capacity
    ways = TimedSteps(problem, capacity, _names(problem))
    compulsory = _labels(problem, ways, None, deadline).bound
    bound, more = compulsory, max(1, compulsory // FINENESS)

    def proven(parts: int) -> None:
        nonlocal bound
        if parts > bound:
            bound = parts
            on_bound(scales.units(name, bound))

    first = _first(problem, ways, deadline) if start is None else start
    if first is not None:
        on_plan(first)
        if objective(problem, first) <= scales.units(name, bound):
            return Answer(first, scales.units(name, bound))
    found: Found | None = None
    while found is None:
        limit = compulsory + more
        # Of interest are plans that cost at least a unit less than the first.
        below = None if first is None else scales.most(name, objective(problem, first) - 1)
        last = below is not None and below <= limit
        labels = _labels(problem, ways, below if last else limit, deadline)
        try:
            found = next(labels.paths(), None)
        except OutOfTimeError:
            proven(labels.bound)
            return Answer(first, scales.units(name, bound))
        if found is None and last:
            assert first is not None
            return Answer(first, objective(problem, first))
        if found is None and not labels.limited:
            return Answer(first, scales.units(name, bound), impossible=first is None)
        proven(limit + 1 if found is None else found.costs[0])
        more *= 2
    plan = place_found(problem, search.StepSequence(0, found.choices), capacity, deadline)
    plans = [each for each in (plan or _another(problem, ways, deadline), first) if each is not None]
    best_plan = min(plans, key=lambda plan: objective(problem, plan), default=None)
    return Answer(best_plan, scales.units(name, bound))


FIRST = 0.25
"""Share of the time in which a plan is looked for that moves least, to begin with."""


def _first(problem: Problem, ways: TimedSteps, deadline: float) -> Plan | None:
    """Return the plan that moves least, its steps cut up as is best, if that is within all limits."""
    traffic = problem.with_(objective={"minimise": "traffic", **{f"most_{each}": None for each in LIMITED}})
    found = least_traffic(traffic, share_of(deadline, FIRST), ignore, ignore).plan
    if found is None:
        return None
    choices = [step.choice for step in decode_plan(problem, found)]
    better = place_found(
        problem, search.StepSequence(0, tuple(ways.improved(choices))), ways.capacity, deadline
    )
    plans = [plan for plan in (better, found) if plan is not None and violation(problem, plan) is None]
    return min(plans, key=lambda plan: objective(problem, plan), default=None)


def _another(problem: Problem, ways: TimedSteps, deadline: float) -> Plan | None:
    """Return the first plan with addresses of those that follow."""
    labels = _labels(problem, ways, None, deadline, REPEAT)
    try:
        for number, found in enumerate(labels.paths()):
            plan = place_steps(problem.graph, found.choices, problem.machine.capacity, deadline, exact=True)
            if plan is not None or number > TRIED:
                return plan
    except OutOfTimeError:
        pass
    return None


def _least_memory(problem: Problem, deadline: float, on_bound: Callable[[int], None]) -> Answer:
    """Return the plan of the least memory that stays within all limits."""
    scales, names = _Scales(problem), _names(problem)
    first = scales.most(names[0], problem.objective.limits[names[0]])

    def within(capacity: int) -> search.StepSequence | None:
        ways = TimedSteps(problem, capacity, names)
        found = next(_labels(problem, ways, first, deadline).paths(), None)
        return None if found is None else search.StepSequence(0, found.choices)

    return bisect_memory(problem, within, deadline, on_bound)
