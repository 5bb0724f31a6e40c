"""The room's own exact method: plans that are pushed down, depth first.

Why nothing is lost is argued in the module that it stands on: ``tilewright.addresses.exact.kernel``.
"""

from __future__ import annotations

from tilewright.addresses import Plan, Problem, least_height, violation
from tilewright.core.context import Outcome, RunContext

IN_PROCESS = True


def solve(problem: Problem, search: RunContext) -> Outcome:
    """Find and prove the least height."""
    start = search.start
    if start is not None and violation(problem, start) is not None:
        start = None
    found = least_height(
        problem.lower,
        problem.upper,
        problem.size,
        alignment=problem.memory.alignment,
        capacity=problem.memory.capacity,
        start=None if start is None else start.offsets,
        bound=search.bound or 0,
        deadline=search.deadline,
        on_offsets=lambda offsets: search.on_plan(Plan(tuple(offsets.tolist()))),
        on_bound=search.on_bound,
    )
    told = None if start is None else "as the best plan known"
    if found.offsets is None:
        return Outcome("infeasible" if found.proven else "unknown", None, found.bound, told)
    plan = Plan(tuple(found.offsets.tolist()))
    search.on_plan(plan)
    search.on_bound(found.bound)
    return Outcome("optimal" if found.proven else "feasible", plan, found.bound, told)


def compile_kernels(_bundled: object) -> None:
    """Compile the search, by running it on two buffers."""
    least_height([0, 1], [2, 3], [1, 2])
