"""The room's own exact method: plans that are pushed down, depth first.

Why nothing is lost is argued in the module that it stands on: ``tilewright.addresses.exact.kernel``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.addresses import Plan, Problem, least_height, objective, violation
from tilewright.core.branch_and_bound import Incumbent
from tilewright.core.context import Outcome, RunContext

IN_PROCESS = True


def solve(problem: Problem, search: RunContext) -> Outcome:
    """Find and prove the least height."""
    start = search.start
    if start is not None and violation(problem, start) is not None:
        start = None
    incumbent: Incumbent[Any] = Incumbent(
        lambda offsets: search.on_plan(Plan(tuple(offsets.tolist()))), search.on_bound, search.bound or 0
    )
    if start is not None:
        incumbent.know(objective(problem, start), np.array(start.offsets))
    found = least_height(
        problem.lower,
        problem.upper,
        problem.size,
        alignment=problem.memory.alignment,
        capacity=problem.memory.capacity,
        deadline=search.deadline,
        incumbent=incumbent,
    )
    warm_start = None if start is None else "as the best plan known"
    if found.offsets is None:
        return Outcome("infeasible" if found.proven else "unknown", None, found.bound, warm_start)
    plan = Plan(tuple(found.offsets.tolist()))
    search.on_plan(plan)
    search.on_bound(found.bound)
    return Outcome("optimal" if found.proven else "feasible", plan, found.bound, warm_start)


def compile_kernels(_bundled: object) -> None:
    """Compile the search, by running it on two buffers."""
    least_height([0, 1], [2, 3], [1, 2])
