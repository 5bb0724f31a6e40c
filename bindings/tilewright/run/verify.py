"""Re-verify a result: its plan, its numbers and its claims, believing none of them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from tilewright.core import catalogue
from tilewright.core.context import MAX_SECONDS
from tilewright.run.instance import Instance
from tilewright.run.methods import methods
from tilewright.run.result import Result
from tilewright.run.solve import solve
from tilewright.run.summary import relative_gap
from tilewright.simulator import MAX_NUMERIC_ELEMENTS
from tilewright.spec.errors import OutOfTimeError, TilewrightError


@dataclass(frozen=True)
class Finding:
    """One thing that was checked.

    Attributes
    ----------
    holds
        Whether it is as the result says.
    """

    what: str
    holds: bool
    detail: str


def check(
    instance: Instance, result: Result, *, numeric: bool = True, time_limit: float | None = None
) -> list[Finding]:
    """Check a result against its instance.

    The plan is simulated within the time limit, with real numbers if `numeric`. A claimed bound is computed
    anew; where the room's own bounds do not reach it, the method that proved it must do so again within
    the time limit: by default a minute, or twice as long as the result took.

    Returns
    -------
    list of Finding
        In the order of checking; the result stands if all hold.
    """
    if time_limit is None:
        time_limit = min(max(60.0, 2 * result.seconds), MAX_SECONDS)
    findings = [
        Finding(
            "instance",
            result.room == instance.room and result.instance_sha256 == instance.sha256,
            f"result is of {result.instance}, instance is {instance.name}",
        )
    ]
    if not findings[0].holds:
        return findings
    room = catalogue.room(instance.room)
    plan = None
    if result.plan is not None:
        of_plan = _check_plan(room, instance.problem, result, numeric, time_limit)
        findings += of_plan
        plan = result.plan if of_plan[0].holds else None
    findings.append(_check_status(result))
    return findings + _check_claims(room, instance, result, plan, time_limit)


def _check_plan(room: Any, problem: Any, result: Result, numeric: bool, time_limit: float) -> list[Finding]:
    too_large = numeric and room.numeric_elements(problem) > MAX_NUMERIC_ELEMENTS
    numeric = numeric and not too_large
    try:
        report = room.simulate(
            problem, result.plan, numeric=numeric, overlapped=False, deadline=time.monotonic() + time_limit
        )
    except OutOfTimeError:
        return [Finding("plan", False, f"its simulation takes longer than {time_limit:g} s")]
    if report.violation is not None:
        return [Finding("plan", False, str(report.violation))]
    findings = [Finding("plan", True, f"valid: {report.n_steps} steps, peak {report.peak} elements on chip")]
    if numeric:
        findings.append(
            Finding(
                "numbers",
                bool(report.numeric),
                "equal to the reference" if report.numeric else "differ from the reference",
            )
        )
    if too_large:
        findings.append(Finding("numbers", True, "not checked: the tensors are too large to move real data"))
    measured = room.measured_objective(problem, report)
    findings.append(
        Finding(
            "objective", measured == result.objective, f"simulated {measured}, claimed {result.objective}"
        )
    )
    claimed, ours = _comparable(result.report or {}), _comparable(report.summary())
    differing = [key for key, value in ours.items() if claimed.get(key) != value]
    findings.append(
        Finding(
            "report", not differing, f"differs in {', '.join(differing)}" if differing else "as simulated"
        )
    )
    return findings


def _comparable(summary: dict[str, Any]) -> dict[str, Any]:
    """Leave out what depends on how a plan was simulated, not on the plan."""
    kept = {key: value for key, value in summary.items() if key not in ("numeric", "overlapped_cycles")}
    if isinstance(kept.get("layers"), list):
        kept["layers"] = [
            _comparable(layer) if isinstance(layer, dict) else layer for layer in kept["layers"]
        ]
    return kept


def _check_status(result: Result) -> Finding:
    """Check that status, plan, objective, bound and gap fit each other."""
    objective, bound = result.objective, result.bound
    solved = result.plan is not None and objective is not None
    expected: dict[str, bool] = {
        "optimal": solved and objective == bound,
        "feasible": solved and (bound is None or (objective is not None and bound < objective)),
        "infeasible": result.plan is None and objective is None,
        "unknown": result.plan is None and objective is None,
    }
    gap = relative_gap(objective, bound)
    same_gap = (gap is None) == (result.gap is None) and abs((gap or 0.0) - (result.gap or 0.0)) < 1e-9
    plan = "a plan" if result.plan is not None else "no plan"
    detail = f"{result.status} with {plan}, objective {objective}, bound {bound}, gap {result.gap}"
    return Finding("status", expected[result.status] and same_gap, detail)


def _check_claims(
    room: Any, instance: Instance, result: Result, plan: Any, time_limit: float
) -> list[Finding]:
    """Prove a bound, and that nothing is feasible, once more; `plan` is valid or None."""
    own = room.best_bound(instance.problem)
    findings = []
    if result.bound is not None:
        if own.value >= result.bound:
            findings.append(Finding("bound", True, f"{result.bound} follows from the {own}"))
        else:
            findings.append(_prove_again(instance, result.bound_by, result.bound, plan, time_limit))
    if result.status == "infeasible":
        if own.impossible is not None:
            findings.append(Finding("infeasible", True, f"by the {own}"))
        else:
            findings.append(_prove_again(instance, result.method, None, None, time_limit))
    if result.status == "optimal" and plan is not None:
        findings += [
            Finding(*found) for found in room.recheck(instance.problem, plan, time.monotonic() + time_limit)
        ]
    return findings


def _prove_again(
    instance: Instance, method: str | None, bound: int | None, plan: Any, time_limit: float
) -> Finding:
    """Run the method that claims a bound, or infeasibility where that is None."""
    what = "infeasible" if bound is None else "bound"
    claim = f"{'infeasible' if bound is None else bound}, claimed by {method!r}"
    if method not in methods(instance.room):
        return Finding(what, False, f"{claim}, which is no method of this room")
    try:
        again = solve(instance, method, warm_start=plan, time_limit=time_limit)
    except TilewrightError as error:
        return Finding(what, False, f"{claim}: {error}")
    if bound is None:
        return Finding(what, again.status == "infeasible", f"{claim}; run again it says {again.status}")
    proven = again.bound is not None and again.bound >= bound
    told = f"{claim}; run again for {again.seconds:.0f} s it proves {again.bound}"
    return Finding(what, proven, told + (f" ({again.grounds})" if again.grounds else ""))
