"""The room's own exact method: A* over what is executed and what is where.

Why nothing is lost is argued in the module that it stands on: ``tilewright.residency.exact.search``.
"""

from __future__ import annotations

from tilewright.core.context import Outcome, RunContext
from tilewright.residency import Problem, best_bound, objective
from tilewright.residency.exact.best import least_memory, least_traffic

IN_PROCESS = True


def solve(problem: Problem, search: RunContext) -> Outcome:
    """Find and prove the optimum."""
    impossible = best_bound(problem).impossible
    if impossible is not None:
        return Outcome("infeasible")
    if problem.minimise == "memory":
        plan, bound, none = least_memory(problem, search.deadline, search.on_bound)
        if none:
            return Outcome("infeasible")
    else:
        plan, bound, _ = least_traffic(problem, search.deadline, search.on_bound, search.on_plan)
    if plan is None:
        return Outcome("unknown", bound=bound)
    search.on_plan(plan)
    search.on_bound(bound)
    return Outcome("optimal" if objective(problem, plan) <= bound else "feasible", plan, bound)
