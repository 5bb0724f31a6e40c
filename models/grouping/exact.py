"""The room's own exact method: partial plans stage by stage, and tables of how short chains of groups can be.

Why nothing is lost is proven in docs/bounds.md; the search is ``tilewright.grouping.exact``.
"""

from __future__ import annotations

import time

from tilewright.grouping import Problem, best_bound, fault, objective
from tilewright.grouping.bitsets import fits
from tilewright.grouping.exact import answers, answers_by_steps
from tilewright.search import Outcome, Search


def suits(problem: Problem) -> bool:
    """Whether the method takes a problem: its sets fit into a few words, and there are loads to save."""
    return fits(problem)


def solve(problem: Problem, search: Search) -> Outcome:
    """Find and prove the optimum, or raise the bound until time is up.

    Where the number of steps is free, every number has a search of its own at first (docs/bounds.md, "Any
    number of steps").
    """
    plan, facts = search.start, best_bound(problem)
    if plan is not None and fault(problem, plan) is not None:
        plan = None
    value = None if plan is None else objective(problem, plan)
    bound = max(facts.value, search.bound or facts.value)
    fewest, most = problem.steps_range
    half = min(search.deadline, time.monotonic() + search.remaining() / 2)
    for method, deadline in ((answers_by_steps, half), (answers, search.deadline)):
        if method is answers_by_steps and fewest == most:
            continue
        for found in method(problem, deadline, bound, value, search.threads):
            if found.impossible:
                return Outcome("infeasible")
            if found.bound > bound:
                bound = found.bound
                search.on_bound(bound, found.grounds)
            if found.plan is not None:
                plan, value = found.plan, objective(problem, found.plan)
                search.on_plan(plan)
    if value is None:
        return Outcome("unknown", bound=bound)
    return Outcome("optimal" if value <= bound else "feasible", plan, bound)
