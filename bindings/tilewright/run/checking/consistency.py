"""Whether the fields of a result fit each other and its room, as far as that needs no computing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tilewright.core.bounds import Bound
from tilewright.core.room import room_of, unit_of
from tilewright.core.version import __version__
from tilewright.run.checking.finding import Finding, verdict
from tilewright.run.methods import is_method, proves
from tilewright.run.result import FORMAT, Result, told_constraints
from tilewright.run.summary import relative_gap
from tilewright.simulator.report import Verdict

ROUNDING = 1e-9
"""Largest relative difference of two equal numbers that are no integers."""

CLOCK = 0.0015
"""Seconds by which rounded times may be wrong."""

AUTHORS_WORD = (
    "instance",
    "method",
    "seconds",
    "seed",
    "warm_start",
    "grounds",
    "failures",
    "interrupted",
    "versions",
    "confirmed_by",
    "proved_by",
    "unverified",
    "time_limit",
    "threads",
    "spent",
    "bound_by",
    "the trace before its end",
)
"""Fields that say how a result came about: they must be possible, and nothing in a file can prove them."""

MEANWHILE = {"numeric", "overlapped_cycles", "overlapped_ps"}
"""Keys of a report that depend on how the plan was simulated."""


def authors_word() -> Finding:
    """Name what is not verified, since it cannot be."""
    return Finding("author's word", "told", f"{', '.join(AUTHORS_WORD)}: only the author can know them")


def status(result: Result) -> Finding:
    """Check that status, plan, objective, bound, gap and report fit each other."""
    objective, bound = result.objective, result.bound
    expected = {
        "optimal": result.plan is not None
        and objective is not None
        and objective == bound
        and not result.at_least,
        "feasible": result.plan is not None
        and objective is not None
        and (bound is None or bound < objective or (bound == objective and bool(result.at_least))),
        "infeasible": result.plan is None and objective is None,
        "unknown": result.plan is None and objective is None,
    }
    gap = None if result.at_least else relative_gap(objective, bound)
    right = expected[result.status] and _close(result.gap, gap)
    plan = "a plan" if result.plan is not None else "no plan"
    detail = f"{result.status} with {plan}, objective {objective}, bound {bound}, gap {result.gap}"
    if result.plan is None and not result.simulated:
        return Finding("status", "refuted", f"{detail}: there is nothing that could not be simulated")
    if result.plan is None and result.report is not None:
        # A heuristic's plan that breaks a limit: the report says which, and nothing else.
        only_refused = Verdict(False, result.report.violation)
        refused = result.report.violation is not None and result.report == only_refused
        if result.status != "unknown" or not refused:
            return Finding("status", "refuted", f"{detail}, and a report of a plan that is not there")
    return verdict("status", right, detail)


def at_least(result: Result, problem: Any) -> list[Finding]:
    """Check that what costs but a lower bound of a valid plan is told."""
    ours = room_of(problem).at_least(problem, result.plan)
    told = result.at_least or {}
    older = result.status != "optimal" and not told and result.versions.get("tilewright") != __version__
    if (not ours and not told) or older:
        return []
    names = ", ".join(ours) or "nothing"
    return [
        verdict("at least", ours == told, f"a lower bound: {names}; told: {', '.join(told) or 'nothing'}")
    ]


def naming(result: Result, problem: Any) -> list[Finding]:
    """Check what objective, bound and status are said to be of, where the file says it."""
    found = []
    if result.space is not None:
        ours = room_of(problem).space(problem)
        told = f"plans are compared among {ours}, told is {result.space}"
        found.append(verdict("space", result.space == ours, told))
    for what, ours in (("minimise", problem.minimise), ("unit", unit_of(problem))):
        told = getattr(result, what)
        if told is not None:
            found.append(verdict(what, told == ours, f"the objective is {ours}, told is {told}"))
    return found


def method(result: Result, own: Bound) -> Finding:
    """Check that there is such a method, and that it can have come to that status.

    Parameters
    ----------
    own
        The room's own bound.
    """
    named = result.method
    if not is_method(result.room, named):
        return Finding("method", "refuted", f"{named!r} is no method of the room {result.room}")
    able = named == "auto" or proves(result.room, named)
    if result.status == "infeasible" and own.impossible is None and not able:
        return Finding(
            "method", "refuted", f"{named} is a heuristic: it cannot prove that nothing is feasible"
        )
    return Finding("method", "told", f"{named}, which can have found that")


def bound_by(result: Result, own: Bound) -> Finding:
    """Check that what is said to prove the bound can prove it."""
    by, bound = result.bound_by, result.bound
    if bound is None:
        return verdict("bound_by", by is None, f"{by}, with no bound")
    if by is None:
        return Finding("bound_by", "told", "the file does not say what proves the bound")
    if by == str(own):
        return verdict("bound_by", bound <= own.value, f"the {own} is {own.value}, claimed {bound}")
    if is_method(result.room, by):
        if not proves(result.room, by):
            return Finding("bound_by", "refuted", f"{by} is a heuristic and proves nothing")
        if result.method not in ("auto", by):
            return Finding("bound_by", "refuted", f"{by}, which {result.method} does not run")
        return Finding("bound_by", "told", f"{by}, which {result.method} runs")
    told = f"{by!r} is neither a method of the room {result.room} nor its bound, the {own}"
    return Finding("bound_by", "not verified" if bound <= own.value else "refuted", told)


def proved_by(result: Result, own: Bound) -> list[Finding]:
    """Check that a bound that is said to have closed the run can have done so."""
    by = result.proved_by
    if by is None:
        return []
    right = (
        by == str(own)
        and result.method != "auto"
        and (result.status == "infeasible" or (result.bound_by == by and result.objective == result.bound))
    )
    detail = f"the {by}, before {result.method} was run; the bound is the {own}"
    return [Finding("proved_by", "told" if right else "refuted", detail)]


def confirmed_by(result: Result) -> list[Finding]:
    """Check that a method that is said to have confirmed a claim is one, and that there is a claim."""
    by = result.confirmed_by
    if by is None:
        return []
    claimant = result.bound_by if result.status == "optimal" else result.method
    right = (
        result.status in ("optimal", "infeasible")
        and is_method(result.room, by)
        and proves(result.room, by)
        and by != claimant
    )
    told = f"{by}, of a claim of {claimant} that the problem is solved or infeasible"
    return [Finding("confirmed_by", "told" if right else "refuted", told)]


def trace(result: Result) -> Finding:
    """Check that the history can have happened, and ends with what the result says."""
    points = [tuple(point) for point in result.trace]
    wrong = _impossible(points, result.seconds)
    if wrong is not None:
        return Finding("trace", "refuted", wrong)
    last = points[-1][1:] if points else (None, None)
    if last == (result.objective, result.bound):
        return Finding("trace", "verified", f"{len(points)} entries, the last is objective and bound")
    if result.plan is None and result.objective is None and last[1] == result.bound:
        told = f"it ends with a plan of {last[0]}, which the result does not hold"
        return Finding("trace", "not verified", told)
    told = f"it ends with objective {last[0]} and bound {last[1]}, not {result.objective} and {result.bound}"
    return Finding("trace", "refuted", told)


def _impossible(points: Sequence[tuple[Any, ...]], seconds: float) -> str | None:
    """Say what cannot have happened in a history, or None."""
    for number, (_, objective, bound) in enumerate(points, 1):
        if objective is not None and bound is not None and bound > objective:
            return f"entry {number} has a bound of {bound} above an objective of {objective}"
    for number, (before, after) in enumerate(pairwise(points), 2):
        if after[0] < before[0]:
            return f"entry {number} is earlier than the one before"
        if before[1] is not None and (after[1] is None or after[1] > before[1]):
            return f"entry {number} has a worse objective than the one before: {after[1]} after {before[1]}"
        if before[2] is not None and (after[2] is None or after[2] < before[2]):
            return f"entry {number} has a worse bound than the one before: {after[2]} after {before[2]}"
    if points and points[-1][0] > seconds + CLOCK:
        return f"it ends after {points[-1][0]} s, the run took {seconds} s"
    return None


# The report -------------------------------------------------------------------------------------------


def differences(result: Result, ours: Verdict) -> list[str]:
    """Return the keys of a result's report that differ from ours, dotted.

    Keys that the file lacks count, unless it is of an older format or another version of tilewright wrote it.
    How the plan was simulated does not count where the file says that it was not simulated like that.
    """
    assert result.report is not None
    lenient = result.format != FORMAT or result.versions.get("tilewright") not in (None, __version__)
    # A result that was never in a file may have tuples where that has lists.
    claimed, executed = (json.loads(json.dumps(each.to_json())) for each in (result.report, ours))
    return _differences(claimed, executed, lenient)


def _differences(claimed: Any, ours: Any, lenient: bool, path: str = "") -> list[str]:
    if isinstance(claimed, dict) and isinstance(ours, dict):
        found = []
        for key in dict.fromkeys([*ours, *claimed]):
            if key not in claimed:
                if not lenient:
                    found.append(f"{path}{key} (missing)")
            elif key not in ours:
                found.append(f"{path}{key}")
            elif not (key in MEANWHILE and claimed[key] is None):
                found += _differences(claimed[key], ours[key], lenient, f"{path}{key}.")
        return found
    if isinstance(claimed, list) and isinstance(ours, list) and len(claimed) == len(ours):
        pairs = enumerate(zip(claimed, ours, strict=True))
        return [
            each
            for number, (one, other) in pairs
            for each in _differences(one, other, lenient, f"{path}{number}.")
        ]
    same = type(claimed) is type(ours) and (
        _close(claimed, ours) if isinstance(claimed, float) else claimed == ours
    )
    return [] if same else [path.rstrip(".") or "report"]


def _close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= ROUNDING * max(1.0, abs(one), abs(other))


def constraints(result: Result, problem: Any, plan: Any) -> list[Finding]:
    """Check what a result says of the constraints of its problem; `plan` is valid or None."""
    if not problem.constraints and not result.constraints:
        return []
    expected = told_constraints(problem, plan)
    told = "; ".join(result_line for result_line in result.constraints_shown) or "none is named"
    return [verdict("constraints", result.constraints == expected, told)]
