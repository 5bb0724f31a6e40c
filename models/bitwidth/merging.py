"""The room's own exact method: trade-offs of noise and bits, merged layer by layer.

Why nothing is lost is argued in the module that it stands on: ``tilewright.bitwidth.exact.search``.
"""

from __future__ import annotations

from tilewright.bitwidth import Plan, Problem
from tilewright.bitwidth.exact import constrained
from tilewright.bitwidth.exact.search import best_of, front_of, priced_bound
from tilewright.bitwidth.problem import of_one_layer
from tilewright.core.context import Outcome, RunContext
from tilewright.spec.constraints.parts import Ground
from tilewright.spec.errors import OutOfTimeError

IN_PROCESS = True


def honours(_problem: Problem, _part: Ground) -> bool:
    """Whether the method honours what must hold: where it relates layers, another search takes it."""
    return True


def solve(problem: Problem, search: RunContext) -> Outcome:
    """Find and prove the optimum; of ``pareto``, the whole front."""
    if problem.impossible is not None:
        return Outcome("infeasible")
    if any(of_one_layer(part) is None for part in problem.must_hold):
        plan, cost, proven = constrained.search(problem, search.deadline, search.on_plan)
        if plan is None:
            return Outcome("infeasible" if proven else "unknown")
        if proven:
            search.on_bound(cost)
        return Outcome("optimal" if proven else "feasible", plan, cost if proven else None)
    try:
        found = _found(problem, search.deadline)
    except OutOfTimeError:
        if problem.minimise == "pareto":
            return Outcome("unknown")
        bound = priced_bound(problem)
        search.on_bound(bound)
        return Outcome("unknown", bound=bound)
    if found is None:
        return Outcome("infeasible")
    plan, bound = found
    search.on_plan(plan)
    search.on_bound(bound)
    return Outcome("optimal", plan, bound)


def _found(problem: Problem, deadline: float) -> tuple[Plan, int] | None:
    """Return the best plan and its cost; of a front the least noise."""
    if problem.minimise == "pareto":
        front = front_of(problem, deadline)
        return (Plan.joined(tuple(point.plan for point in front)), front[0].noise) if front else None
    best = best_of(problem, deadline)
    if best is None:
        return None
    return best.plan, best.bits if problem.minimise == "bits" else best.noise
