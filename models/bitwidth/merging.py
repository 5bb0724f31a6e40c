"""The room's own exact method: trade-offs of noise and bits, merged layer by layer.

Why nothing is lost is argued in the module that it stands on: ``tilewright.bitwidth.exact.search``.
"""

from __future__ import annotations

from tilewright.bitwidth import Plan, Problem
from tilewright.bitwidth.exact.search import best_of, front_of, priced_bound
from tilewright.core.context import Outcome, RunContext
from tilewright.spec.errors import OutOfTimeError

IN_PROCESS = True


def solve(problem: Problem, search: RunContext) -> Outcome:
    """Find and prove the optimum; of ``pareto``, the whole front."""
    try:
        found = _found(problem, search.deadline)
    except OutOfTimeError:
        if problem.minimise == "pareto":
            return Outcome("unknown")
        bound = priced_bound(problem)
        search.on_bound(bound)
        return Outcome("unknown", bound=bound)
    if found is None:
        return Outcome("infeasible")
    plan, bound = found
    search.on_plan(plan)
    search.on_bound(bound)
    return Outcome("optimal", plan, bound)


def _found(problem: Problem, deadline: float) -> tuple[Plan, int] | None:
    """Return the best plan and its cost; of a front the least noise."""
    if problem.minimise == "pareto":
        front = front_of(problem, deadline)
        return (Plan.joined(tuple(point.plan for point in front)), front[0].noise) if front else None
    best = best_of(problem, deadline)
    if best is None:
        return None
    return best.plan, best.bits if problem.minimise == "bits" else best.noise
