"""The room's own exact method: a parametric search on the bottleneck, and tables over PEs and levels.

Why nothing is lost is argued in the modules of ``tilewright.allocation.exact`` that it stands on: ``search``,
``options``, ``latency_dp`` and ``timing``, and ``constrained`` where a problem has constraints.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.allocation import Plan, Problem
from tilewright.allocation.exact import constrained
from tilewright.allocation.exact.search import AllocationAnswer, search_splits
from tilewright.allocation.exact.trimming import break_ties
from tilewright.core.context import Outcome, RunContext
from tilewright.spec.constraints.parts import Ground


def suits(problem: Problem) -> bool:
    """Whether the method takes a problem: it chooses splits, and places none."""
    return problem.minimise != "distance"


def honours(problem: Problem, _part: Ground) -> bool:
    """Whether the method honours what must hold: all that constraints say of plans without places."""
    return suits(problem)


def solve(problem: Problem, search: RunContext) -> Outcome:
    """Find and prove the optimum; of ``pareto``, the whole front."""
    if problem.constraints and problem.machine.off_chip is None:
        return constrained.search(problem, search)
    plan, bound, proven = None, None, False
    for found in search_splits(problem, search.deadline):
        proven = found.proven
        answer = _answer(problem, found)
        if answer is not None and answer != plan:
            plan = answer
            search.on_plan(plan)
        # The objective of a front is its least interval: bounds on it say nothing of the other plans.
        if (proven or problem.minimise != "pareto") and found.bound != bound:
            bound = found.bound
            search.on_bound(bound)
    if not proven and not found.cut_short and problem.minimise != "pareto":
        return constrained.search(problem, search, plan, bound)  # rows are divided, and buffers limited
    if plan is None:
        return Outcome("infeasible" if proven else "unknown", bound=bound)
    if proven and not plan.front:
        plan = break_ties(problem, plan, search.deadline)
        search.on_plan(plan)
    return Outcome("optimal" if proven else "feasible", plan, bound)


def compile_kernels(bundled: Callable[[str], Problem]) -> None:
    """Compile what it runs; see `tilewright.core.catalogue.kernel_file`."""
    solve(bundled("mnist-tcpa-latency"), RunContext())


def _answer(problem: Problem, found: AllocationAnswer) -> Plan | None:
    if not found.plans:
        return None
    return Plan.joined(found.plans) if problem.minimise == "pareto" else found.plans[0]
