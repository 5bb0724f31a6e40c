"""Pareto fronts: their points, the execution of their plans, and the claim that no plan is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator import Report, Violation

PlanT = TypeVar("PlanT")
PointT = TypeVar("PointT")


def undominated(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.intp]:
    """Return which of many pairs of costs no other is as good as, one of equal ones, by ascending first.

    Parameters
    ----------
    first, second : int, shape (pairs,)
    """
    order = np.lexsort((second, first))
    ordered = second[order]
    better = np.ones(len(ordered), dtype=bool)
    better[1:] = ordered[1:] < np.minimum.accumulate(ordered)[:-1]
    return order[better]


def thinned(points: Sequence[PointT], most: int) -> list[PointT]:
    """Return about so many points of a front at most, evenly spread, the first and the last among them."""
    step = -(-len(points) // most)
    return [points[place] for place in sorted({*range(0, len(points), step), len(points) - 1})]


def simulate_front(
    plans: Iterable[PlanT],
    execute: Callable[[PlanT], Report],
    judge: Callable[[list[Report]], dict[str, Any] | Violation],
) -> Report:
    """Execute plans of a front; the report is that of the first one, with the points of all.

    Parameters
    ----------
    plans
        Those to execute, the first of the front before all others.
    execute
        Executes one of them.
    judge
        Called with the reports of valid plans: returns what the front's measures say besides those of its
        first plan, by field, or what is wrong with the front.

    Returns
    -------
    Report
        That of the first plan that breaks a rule, if one does. A numeric simulation counts as wrong if it is
        for any plan.
    """
    reports = []
    for plan in plans:
        report = execute(plan)
        if report.violation is not None:
            return report
        reports.append(report)
    judged = judge(reports)
    if isinstance(judged, Violation):
        return Report.refused(judged)
    first = reports[0]
    first.measures = replace(first.measures, **judged)
    if any(report.numeric is False for report in reports):
        first.numeric = False
    return first


def recheck(claimed: Sequence[Any], again: Sequence[Any], proven: bool) -> list[tuple[str, bool | None, str]]:
    """Compare a front with what another search has found.

    Parameters
    ----------
    claimed, again
        Points of both fronts, in their order.
    proven
        Whether the other search has ended in time.

    Returns
    -------
    list of (what, holds, detail)
        It is not known whether the claim holds where the other search has not ended.
    """
    detail = f"{len(claimed)} points claimed, {len(again)} found anew{'' if proven else ', not in time'}"
    return [("front", list(claimed) == list(again) if proven else None, detail)]
