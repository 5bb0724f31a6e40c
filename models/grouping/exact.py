"""The room's own exact method: partial plans stage by stage, and tables of how short chains of groups can be.

Why nothing is lost is proven in docs/bounds.md; the search is ``tilewright.grouping.exact``.
"""

from __future__ import annotations

from tilewright.grouping import Problem, best_bound, fault, objective
from tilewright.grouping.bitsets import fits
from tilewright.grouping.exact import answers
from tilewright.search import Outcome, Search


def suits(problem: Problem) -> bool:
    """Whether the method takes a problem: its sets fit into a few words, and there are loads to save."""
    return fits(problem)


def solve(problem: Problem, search: Search) -> Outcome:
    """Find and prove the optimum, or raise the bound until time is up."""
    plan, bound = search.start, best_bound(problem).value
    if plan is not None and fault(problem, plan) is not None:
        plan = None
    value = None if plan is None else objective(problem, plan)
    bound = max(bound, search.bound or bound)
    for found in answers(problem, search.deadline, bound, value, search.threads):
        if found.impossible:
            return Outcome("infeasible")
        if found.bound > bound:
            bound = found.bound
            search.on_bound(bound, found.grounds)
        if found.plan is not None:
            plan, value = found.plan, found.bound
            search.on_plan(plan)
    if value is None:
        return Outcome("unknown", bound=bound)
    return Outcome("optimal" if value <= bound else "feasible", plan, bound)
