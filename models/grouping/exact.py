"""The room's own exact method: partial plans stage by stage, and tables of how short chains of groups can be.

Why nothing is lost is proven in docs/bounds.md; the search is ``tilewright.grouping.exact``.
"""

from __future__ import annotations

import time

from tilewright.grouping import Problem, best_bound, fault, objective
from tilewright.grouping.bitsets import fits
from tilewright.grouping.bounds import with_more_steps
from tilewright.grouping.exact import answers
from tilewright.search import Outcome, Search


def suits(problem: Problem) -> bool:
    """Whether the method takes a problem: its sets fit into a few words, and there are loads to save."""
    return fits(problem)


def solve(problem: Problem, search: Search) -> Outcome:
    """Find and prove the optimum, or raise the bound until time is up.

    Where the number of steps is free, plans with the fewest steps come first, until their bound is that of
    all others (docs/bounds.md, "Any number of steps").
    """
    plan, facts = search.start, best_bound(problem)
    if plan is not None and fault(problem, plan) is not None:
        plan = None
    value = None if plan is None else objective(problem, plan)
    bound = max(facts.value, search.bound or facts.value)
    others = with_more_steps(problem)
    if others is not None and bound < others and (value is None or bound < value):
        part, deadline = problem.with_steps(facts.steps), time.monotonic() + search.remaining() / 2
        enough = others if value is None else min(others, value)
        for found in answers(part, min(deadline, search.deadline), bound, enough, search.threads):
            reached = others if found.impossible else min(others, found.bound)
            if reached > bound:
                bound = reached
                search.on_bound(
                    bound, f"{found.grounds}; with more than {facts.steps} steps: {others} or more"
                )
            if found.plan is not None and (value is None or found.bound < value):
                plan, value = found.plan, found.bound
                search.on_plan(plan)
    if value is not None and value <= bound:
        return Outcome("optimal", plan, bound)
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
