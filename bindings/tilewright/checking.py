"""Re-verify a result: its plan, its numbers and its claims, believing none of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright import catalogue
from tilewright.instance import Instance
from tilewright.result import Result, relative_gap
from tilewright.search import Status
from tilewright.solving import methods, solve


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
    instance: Instance, result: Result, *, numeric: bool = True, time_limit: float = 60.0
) -> list[Finding]:
    """Check a result against its instance.

    The plan is simulated, with real numbers if `numeric`. A claimed bound is computed anew; where the
    room's own bounds do not reach it, the method that proved it must do so again within the time limit.

    Returns
    -------
    list of Finding
        In the order of checking; the result stands if all hold.
    """
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
    if result.plan is not None:
        findings += _check_plan(room, instance.problem, result, numeric)
    findings.append(_check_status(result))
    if result.bound is not None or result.status == "infeasible":
        findings.append(_check_claim(room, instance, result, time_limit))
    return findings


def _check_plan(room: Any, problem: Any, result: Result, numeric: bool) -> list[Finding]:
    report = room.simulate(problem, result.plan, numeric=numeric, overlapped=False)
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
    measured = room.measured_objective(problem, report)
    findings.append(
        Finding(
            "objective", measured == result.objective, f"simulated {measured}, claimed {result.objective}"
        )
    )
    claimed, ours = result.report or {}, report.summary()
    differing = [
        key
        for key, value in ours.items()
        if key not in ("numeric", "overlapped_cycles") and claimed.get(key) != value
    ]
    findings.append(
        Finding(
            "report", not differing, f"differs in {', '.join(differing)}" if differing else "as simulated"
        )
    )
    return findings


def _check_status(result: Result) -> Finding:
    """Check that status, bound and gap fit each other."""
    objective, bound = result.objective, result.bound
    expected: dict[str, bool] = {
        "optimal": objective is not None and objective == bound,
        "feasible": objective is not None and (bound is None or bound < objective),
        "infeasible": result.plan is None,
        "unknown": objective is None,
    }
    gap = relative_gap(objective, bound)
    same_gap = (gap is None) == (result.gap is None) and abs((gap or 0.0) - (result.gap or 0.0)) < 1e-9
    detail = f"{result.status}: objective {objective}, bound {bound}, gap {result.gap}"
    return Finding("status", expected[result.status] and same_gap, detail)


def _check_claim(room: Any, instance: Instance, result: Result, time_limit: float) -> Finding:
    """Prove a bound, or the claim that nothing is feasible, once more."""
    own = room.best_bound(instance.problem)
    if result.status == "infeasible" and own.impossible is not None:
        return Finding("bound", True, f"infeasible by the {own}")
    if result.bound is not None and result.status != "infeasible" and own.value >= result.bound:
        return Finding("bound", True, f"{result.bound} follows from the {own}")
    method = result.bound_by if result.status != "infeasible" else result.method
    if method not in methods(instance.room):
        return Finding(
            "bound", False, f"{result.bound} is claimed by {method!r}, which is no method of this room"
        )
    again = solve(instance, method, warm_start=result.plan, time_limit=time_limit)
    target: Status = "infeasible"
    if result.status == target:
        return Finding(
            "bound", again.status == target, f"infeasible, claimed by {method}; it says {again.status} now"
        )
    return Finding(
        "bound",
        again.bound is not None and again.bound >= (result.bound or 0),
        f"{result.bound} is claimed by {method}; run again for {again.seconds:.0f} s it proves {again.bound}",
    )
