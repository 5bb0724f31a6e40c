"""Which of the plans of equal objective is taken: the one that moves least, then the fastest, and so on.

What breaks ties is minimised in turn, each time among the plans that cost no more of all before it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from tilewright.spec.layer import Layer
from tilewright.tiling.hierarchy.cost import cost_of
from tilewright.tiling.hierarchy.exact.search import BestPlan, best_plan
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.nest import Nest

TIES = ("traffic", "cycles", "energy", "memory")
"""What breaks ties: bits that the outermost memory moves, cycles, attojoules, bits that others reserve."""

LEAST_SECONDS = 1.0
"""How long ties may take at least; else as long as it took to find the optimum."""


def break_ties(
    layer: Layer,
    machine: HierarchyMachine,
    minimise: str,
    level: str,
    found: BestPlan,
    seconds: float,
    deadline: float,
    at_most: Mapping[str, int],
) -> BestPlan:
    """Return the first of the plans that cost as much as the best one, in the order of their ranks.

    Of steps that divide, beside the best one itself. Where there is no time for that, a good one. The memory
    of machines with uneven tiles is left as it is.

    Parameters
    ----------
    seconds
        How long it took to find the optimum.
    deadline
        ``time.monotonic()``.
    at_most
        What plans may cost, besides.
    """
    deadline = min(deadline, time.monotonic() + max(LEAST_SECONDS, seconds))
    given = ("energy", "cycles") if minimise == "edp" else (minimise,)
    uneven = any(level.uneven for level in machine.levels)
    plan, limits = found.plan, dict(at_most)
    for name in (*given, *(name for name in TIES if name not in given)):
        nest = Nest(layer, machine, plan)
        cost = nest.reserved if name == "memory" else cost_of(nest).value(name, level)
        if name not in given and not (name == "memory" and uneven):
            known = BestPlan(cost, plan, False)
            best = best_plan(layer, machine, name, level, deadline, limits, start=known) or known
            plan, cost = best.plan, best.value
        limits[name] = cost
    return found._replace(plan=plan)
