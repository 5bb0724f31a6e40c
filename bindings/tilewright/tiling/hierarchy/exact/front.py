"""Pareto fronts: what is traded is minimised in turn, each time below what the last plan has of the other."""

from __future__ import annotations

from dataclasses import replace

from tilewright.spec.errors import OutOfTimeError
from tilewright.spec.network import MAX_LAYERS
from tilewright.tiling.hierarchy.exact.search import best_plan
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.hierarchy.task import Task
from tilewright.tiling.machine_kind import TradeOff


def pareto_front(
    task: Task, traded: tuple[str, str], deadline: float
) -> tuple[list[TradeOff[HierarchyPlan]], bool]:
    """Return the plans of which none is better in one and no worse in the other, and whether these are all.

    The first plan has least of the first, and among those that have, least of the second; the next one has
    least of the first among all with less of the second; and so on, until there is none.

    Parameters
    ----------
    traded
        Two of accesses, cycles and energy.
    deadline
        ``time.monotonic()`` after which the points so far are returned as not all.
    """
    first, second = traded
    points: list[TradeOff[HierarchyPlan]] = []
    while len(points) < MAX_LAYERS:
        below = {second: points[-1].values[1] - 1} if points else {}
        try:
            least = best_plan(replace(task, minimise=first, at_most=below), deadline)
            if least is None:
                return points, True
            if not least.proven:
                return points, False
            among = replace(task, minimise=second, at_most={first: least.value})
            best = best_plan(among, deadline)
        except OutOfTimeError:
            return points, False
        if best is None or not best.proven:
            return points, False
        points.append(TradeOff((least.value, best.value), best.plan))
    return points, False
