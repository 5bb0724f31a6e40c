"""Which of the plans of equal objective is taken: the one that moves least, then the fastest, and so on.

What breaks ties is minimised in turn, each time among the plans that cost no more of all before it.
"""

from __future__ import annotations

import time
from dataclasses import replace

from tilewright.tiling.hierarchy.exact.search import PARAMS, BestPlan, best_plan
from tilewright.tiling.hierarchy.task import Task

TIES = ("traffic", "cycles", "energy", "memory")
"""What breaks ties: bits that the outermost memory moves, cycles, attojoules, bits that others reserve."""


def break_ties(task: Task, found: BestPlan, seconds: float, deadline: float) -> BestPlan:
    """Return the first of the plans that cost as much as the best one, in the order of their ranks.

    Of steps that divide, beside the best one itself. Where there is no time for that, a good one. The memory
    of machines with uneven tiles is left as it is.

    Parameters
    ----------
    seconds
        How long it took to find the optimum.
    deadline
        ``time.monotonic()``.
    """
    deadline = min(deadline, time.monotonic() + max(PARAMS.tie_seconds, seconds))
    given = ("energy", "cycles") if task.minimise == "edp" else (task.minimise,)
    uneven = any(level.uneven for level in task.machine.levels)
    plan, limits = found.plan, dict(task.at_most)
    for name in (*given, *(name for name in TIES if name not in given)):
        one = replace(task, minimise=name, at_most=limits)
        cost = one.value(plan)
        if name not in given and not (name == "memory" and uneven):
            known = BestPlan(cost, plan, False)
            best = best_plan(one, deadline, start=known) or known
            plan, cost = best.plan, best.value
        limits = {**limits, name: cost}
    return found._replace(plan=plan)
