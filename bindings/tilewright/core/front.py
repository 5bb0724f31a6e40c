"""A Pareto front executed plan by plan, and the claim that no plan is missing from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from tilewright.simulator import Report, Violation

PlanT = TypeVar("PlanT")


def simulate_front(
    plans: Iterable[PlanT],
    execute: Callable[[PlanT], Report],
    judge: Callable[[list[Report]], dict[str, Any] | Violation],
) -> Report:
    """Execute plans of a front; the report is that of the first one, with the facts of all.

    Parameters
    ----------
    plans
        Those to execute, the first of the front before all others.
    execute
        Executes one of them.
    judge
        Called with the reports of valid plans: returns what the front's report says besides the facts of its
        first plan, or what is wrong with the front.

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
    first.facts = {**first.facts, **judged}
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
