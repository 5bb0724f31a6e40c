"""The room's own exact method: orders of whole patches, step by step, where kernels stay on chip.

Why nothing is lost is proven in docs/offloading.md; the search is ``tilewright.offloading.exact``.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.core.context import Outcome, RunContext
from tilewright.offloading import Problem, best_bound, objective, violation
from tilewright.offloading.exact.search import prove
from tilewright.offloading.exact.tables import why_not

__all__ = ["compile_kernels", "solve", "suits", "why_not"]


def suits(problem: Problem) -> bool:
    """Whether the method takes a problem: an order of patches is all that there is to decide."""
    return why_not(problem) is None


def solve(problem: Problem, search: RunContext) -> Outcome:
    """Find and prove the optimum, or raise the bound until time is up.

    The limit on reloads is looked at in the plan that is found. Where the plan breaks it, or costs more for
    its sake, the bound holds, and nothing more is proven.
    """
    plan = search.start
    if plan is not None and violation(problem, plan) is not None:
        plan = None
    value = None if plan is None else objective(problem, plan)
    bound = max(best_bound(problem).value, search.bound or 0)
    for found in prove(problem, value, search.deadline):
        if found.bound is None:
            return Outcome("infeasible")
        if found.bound > bound:
            bound = found.bound
            search.on_bound(bound, "a search of all orders of patches, by the number of reloads")
        if found.plan is not None:
            plan, value = found.plan, objective(problem, found.plan)
            search.on_plan(plan)
        if value is not None and value <= bound:
            return Outcome("optimal", plan, bound)
    if value is None:
        return Outcome("unknown", bound=bound)
    return Outcome("optimal" if value <= bound else "feasible", plan, bound)


def compile_kernels(_bundled: Callable[[str], Problem]) -> None:
    """Compile what it runs; see `tilewright.core.catalogue.kernel_file`."""
    # A layer on which tables of states have to grow.
    layer = {"input": [1, 7, 7], "kernels": 1, "kernel": 3}
    machine = {"macs_per_step": 18, "memory": 29, "kernels": "preloaded"}
    limits = {"steps": 13}
    solve(Problem.model_validate({"layer": layer, "machine": machine, "limits": limits}), RunContext())
