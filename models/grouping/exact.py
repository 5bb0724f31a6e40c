"""The room's own exact method: partial plans stage by stage, pruned by lower bounds on the cost to go.

Why nothing is lost is proven in docs/bounds.md; the search is ``tilewright.grouping.exact``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from tilewright.core.context import Outcome, RunContext
from tilewright.grouping import Problem, best_bound, objective, violation
from tilewright.grouping.bounds.best import with_more_steps
from tilewright.grouping.exact.bitsets import fits
from tilewright.grouping.exact.by_steps import prove_by_steps
from tilewright.grouping.exact.search import Progress, prove

Method = Callable[[Problem, float, int, int | None, int], Iterator[Progress]]

FEW = 20
"""If plans with FEW steps more than the fewest cost more than the best known plan, every number of steps has
a search of its own for all of the time; otherwise one search of all numbers takes over after half of it."""


def suits(problem: Problem) -> bool:
    """Whether the method takes a problem: its sets fit into a few words, and there are loads to save."""
    return fits(problem)


def solve(problem: Problem, search: RunContext) -> Outcome:
    """Find and prove the optimum, or raise the bound until time is up.

    Where the number of steps is free, every number has a search of its own at first (docs/bounds.md, "Any
    number of steps").
    """
    plan, facts = search.start, best_bound(problem)
    if plan is not None and violation(problem, plan) is not None:
        plan = None
    value = None if plan is None else objective(problem, plan)
    bound = max(facts.value, search.bound or facts.value)
    turns: list[tuple[Method, float]] = [(prove, search.deadline)]
    fewest, most = problem.steps_range
    if fewest < most:
        deadline = search.deadline
        if value is None or (with_more_steps(problem, facts.steps + FEW) or value) < value:
            deadline = min(deadline, time.monotonic() + search.remaining() / 2)
        turns.insert(0, (prove_by_steps, deadline))
    for method, deadline in turns:
        for found in method(problem, deadline, bound, value, search.threads):
            if found.impossible:
                return Outcome("infeasible")
            if found.bound > bound:
                bound = found.bound
                search.on_bound(bound, found.grounds)
            if found.plan is not None:
                plan, value = found.plan, objective(problem, found.plan)
                search.on_plan(plan)
        if value is not None and value <= bound:
            return Outcome("optimal", plan, bound)
    if value is None:
        return Outcome("unknown", bound=bound)
    return Outcome("feasible", plan, bound)


def compile_kernels(_bundled: Callable[[str], Problem]) -> None:
    """Compile what it runs; see `tilewright.core.catalogue.kernel_file`."""
    # The smallest layer on which tables have to grow.
    layer = {"input": [1, 8, 8], "kernels": 1, "kernel": [3, 3]}
    solve(Problem.model_validate({"layer": layer, "machine": {"group_size": 3}}), RunContext())
