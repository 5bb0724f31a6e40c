"""The room's own exact method: every tile and schedule that can matter, enumerated with proof.

What is enumerated and why nothing is lost is argued in docs/tiling.md; the searches are in
``tilewright.tiling.dsp.exact`` and ``tilewright.tiling.npu.exact``. That of hierarchies is in
``tilewright.tiling.hierarchy.exact``, and argued in docs/hierarchy.md.
"""

from __future__ import annotations

from tilewright.core.context import Outcome, RunContext
from tilewright.spec.errors import OutOfTimeError
from tilewright.tiling import Plan, Problem, best_bound, best_of_network, kind_of, last_stage

IN_PROCESS = True
"""It looks at its deadline often and needs no process that can be killed."""


def suits(problem: Problem) -> bool:
    """Whether the search proves anything of a problem: steps that do not divide are none of its own."""
    return problem.operation is not None or problem.limits.factors != "any"


def solve(problem: Problem, search: RunContext) -> Outcome:
    """Find and prove the optimum of a layer, or of a network with one limit; of ``pareto``, the front."""
    try:
        if problem.coupled:
            return _solve_network(problem, search)
        stage = last_stage(problem, search.deadline)
        found = None if stage is None else kind_of(problem).exhaustive(stage, search.deadline)
    except OutOfTimeError:
        return Outcome("unknown")
    if found is None:
        return Outcome("infeasible")
    plan = Plan(found.layers, front=problem.minimise == "pareto")
    if not found.proven and plan.front and found.value <= best_bound(problem).value:
        return Outcome("unknown")  # it would seem to be complete
    search.on_plan(plan)
    if not found.proven:
        return Outcome("feasible", plan)
    search.on_bound(found.value)
    return Outcome("optimal", plan, found.value)


def _solve_network(problem: Problem, search: RunContext) -> Outcome:
    found = best_of_network(problem, search.deadline)
    if found is None:
        return Outcome("infeasible")
    plan, cost, bound = found
    search.on_plan(plan)
    search.on_bound(bound)
    return Outcome("optimal" if cost == bound else "feasible", plan, bound)
