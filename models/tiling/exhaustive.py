"""The room's own exact method: every tile and schedule that can matter, enumerated with proof.

What is enumerated and why nothing is lost is argued in docs/tiling.md; the searches are in
``tilewright.tiling.dsp.exact`` and ``tilewright.tiling.npu.exact``. That of hierarchies is in
``tilewright.tiling.hierarchy.exact``, and argued in docs/hierarchy.md.
"""

from __future__ import annotations

from tilewright.core.bounds import Exact
from tilewright.core.context import Outcome, RunContext
from tilewright.spec.constraints.parts import Ground, terms, without_first
from tilewright.spec.errors import InputError, OutOfTimeError
from tilewright.tiling import (
    Plan,
    Problem,
    best_bound,
    best_of_network,
    kind_of,
    last_stage,
    violation,
)
from tilewright.tiling.hierarchy.plan import HierarchyPlan

IN_PROCESS = True
"""It looks at its deadline often and needs no process that can be killed."""

SIDE_BY_SIDE = True
"""Layers of a network can be searched in threads: what takes long is compiled, or NumPy's."""

LEAST_SECONDS = 0.02
"""Time that is left for which a good first plan is worth its milliseconds; with less any plan will do."""


def honours(problem: Problem, part: Ground) -> bool:
    """Whether the search honours what must hold.

    On a DSP or an NPU, of layers, that is everything; on a hierarchy what is local to a node.
    """
    if problem.machine.kind != "hierarchy":
        return True
    if problem.limits.factors == "any":
        return False
    from tilewright.tiling.hierarchy.exact.admitted import is_local  # for start-up time

    if problem.network is None:
        return is_local(problem, part)
    names = {term.arguments[0] for term in terms(part)}
    of_layer = without_first(part)
    return all(is_local(one.problem, of_layer) for one in problem.unconstrained_parts if one.name in names)


def solve(problem: Problem, search: RunContext) -> Outcome:
    """Find and prove the optimum of a layer, or of a network with one limit; of ``pareto``, the front."""
    start = search.start or _constructed(problem, search)
    try:
        if problem.coupled:
            return _solve_network(problem, search)
        found = _search(problem, search, start)
    except OutOfTimeError:
        return Outcome("unknown" if start is None else "feasible", start)
    if found is None:
        return Outcome("infeasible")
    plan = Plan(found.layers, front=problem.minimise == "pareto")
    if not found.proven and plan.front and found.value <= best_bound(problem).value:
        return Outcome("unknown")  # it would seem to be complete
    search.on_plan(plan)
    if not found.proven:
        if found.bound is not None:
            search.on_bound(found.bound)
        return Outcome("feasible", plan, found.bound)
    search.on_bound(found.value)
    return Outcome("optimal", plan, found.value)


def _constructed(problem: Problem, search: RunContext) -> Plan | None:
    """Return a first plan, where it takes milliseconds; None where there is no valid one."""
    if problem.machine.kind != "hierarchy":
        return None
    from tilewright.heuristics.tiling import bottom_up  # for start-up time

    if not bottom_up.suits(problem):
        return None
    hurried = problem.layer is not None and search.remaining() < LEAST_SECONDS
    try:
        plan: Plan = bottom_up.smallest(problem) if hurried else bottom_up.plan(problem)
    except InputError:  # a memory is too small for the rule
        return None
    if violation(problem, plan) is not None:
        return None
    search.on_plan(plan)
    return plan


def _search(problem: Problem, search: RunContext, start: Plan | None) -> Exact | None:
    """Run the search of a kind of machine, from a plan that is known where it can use one."""

    def told(found: Exact) -> None:
        search.on_plan(Plan(found.layers))
        search.on_bound(found.bound)

    stage = last_stage(problem, search.deadline)
    if stage is None:
        return None
    known = start.layers[0] if start is not None and stage is problem else None
    if stage.machine.kind == "hierarchy" and stage.operation is None:
        plan = known if isinstance(known, HierarchyPlan) else None
        from tilewright.tiling.hierarchy import kind as hierarchy  # for start-up time

        return hierarchy.exhaustive(stage, search.deadline, plan, told, search.latest)
    return kind_of(stage).exhaustive(stage, search.deadline)


def _solve_network(problem: Problem, search: RunContext) -> Outcome:
    found = best_of_network(problem, search.deadline)
    if found is None:
        return Outcome("infeasible")
    plan, cost, bound = found
    search.on_plan(plan)
    search.on_bound(bound)
    return Outcome("optimal" if cost == bound else "feasible", plan, bound)
