"""The room's own exact method: A* over what is executed and what is where.

Why nothing is lost is argued in the modules that it stands on: ``tilewright.residency.exact.search``, and for
time, energy and lists ``tilewright.residency.exact.labels``.
"""

from __future__ import annotations

from tilewright.core.context import Outcome, RunContext
from tilewright.residency import Problem, best_bound, objective
from tilewright.residency.exact.objectives import best, stages
from tilewright.spec.errors import OutOfTimeError

IN_PROCESS = True


def solve(problem: Problem, search: RunContext) -> Outcome:
    """Find and prove the optimum, of a list that of its last objective when those before it are proven."""
    if best_bound(problem).impossible is not None:
        return Outcome("infeasible")
    last, proven = problem, True
    if problem.before:
        try:
            stage, proven = stages(problem, search.deadline)
        except OutOfTimeError:
            return Outcome("unknown")
        if stage is None:
            return Outcome("infeasible")
        last = stage
    plan, bound, none = best(last, search.deadline, search.on_bound, search.on_plan)
    if none:
        return Outcome("infeasible" if proven else "unknown")
    if plan is None:
        return Outcome("unknown", bound=bound)
    search.on_plan(plan)
    search.on_bound(bound)
    optimal = proven and objective(last, plan) <= bound
    return Outcome("optimal" if optimal else "feasible", plan, bound)
