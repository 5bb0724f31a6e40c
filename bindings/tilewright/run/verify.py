"""Re-verify a result: its plan, its numbers and its claims, believing none of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tilewright.core import catalogue
from tilewright.core.bounds import Bound
from tilewright.core.context import MAX_SECONDS
from tilewright.core.room import Room
from tilewright.run.checking import claims, consistency
from tilewright.run.checking.finding import Finding, exit_status, verdict
from tilewright.run.instance import Instance, answered
from tilewright.run.methods import is_method
from tilewright.run.result import Result
from tilewright.run.solving.uncompiled import until_compiled
from tilewright.run.workers import compiling
from tilewright.simulator import MAX_NUMERIC_ELEMENTS, Report
from tilewright.spec.errors import InputError, OutOfTimeError

__all__ = ["Finding", "check", "default_seconds", "exit_status"]

LEAST_LIMIT = 60.0
"""Seconds that a check may take by default, at least."""

ELEMENT_SECONDS, MAC_SECONDS = 4e-6, 1e-8
"""What a numeric simulation takes for each element that it holds and for each MAC, about."""

MOST_COUNTED = 10**13
"""Steps and MACs beyond which a report's numbers are not believed when time is allotted."""

NUMERIC_SHARE = 0.5
"""Share of the time for the numbers, where a claim is to be proven after them."""


def check(
    instance: Instance,
    result: Result,
    *,
    numeric: bool = True,
    time_limit: float | None = None,
    started: float | None = None,
    on_compile: compiling.Tell | None = None,
) -> list[Finding]:
    """Check a result against its instance.

    The plan is simulated, with real numbers if `numeric`. A claimed bound is computed anew; where the room's
    own bounds do not reach it, the method that proved it must do so again, and a second route is asked
    besides: the room's exact search, or a formulation on another solver. So it is with a claim that nothing
    is feasible.

    Parameters
    ----------
    numeric
        Also move random integers and compare with the reference.
    time_limit
        Seconds for everything; by default `default_seconds`.
    started
        ``time.monotonic()`` from which the time limit counts.
    on_compile
        Called with a sentence before something is compiled, once, which the time limit does not count.

    Returns
    -------
    list of Finding
        In the order of checking. Each is verified, refuted, not verified in time, unverified as it was not
        computed, or told: the author's word. The result stands if all hold.
    """
    started = time.monotonic() if started is None else started
    same = result.room == instance.room and result.instance_sha256 == instance.sha256
    told = f"result is of {result.instance}, instance is {instance.name}"
    if not same and result.instance == instance.name:
        told = f"result is of another {instance.name}: its digest is that of other tables or values"
    findings = [verdict("instance", same, told)]
    if not same:
        return findings
    instance = answered(instance, result.plan)
    limit = default_seconds(instance, result) if time_limit is None else time_limit
    on_compile = None if on_compile is None else cache(on_compile)  # which says each sentence once
    clock = _Clock(started + limit, limit, on_compile)
    plan = None
    if result.plan is not None:
        of_plan, clock = clock.findings(
            instance, lambda clock: _Executed(instance, result, clock).findings(numeric)
        )
        findings += of_plan
        plan = result.plan if of_plan[0].state == "verified" else None
    findings += _fitting(instance, result, plan)
    if clock.left > 0:
        with until_compiled(instance.room, instance.problem, on_compile):
            own = catalogue.room(instance.room).best_bound(instance.problem)
        findings += _check_claims(instance, result, plan, own, clock)
    else:
        told = f"what it rests on: all before {clock.not_in_time(default_seconds(instance, result))}"
        findings.append(Finding("bound", "not verified", told))
    return [*findings, consistency.authors_word()]


def doubt(instance: Instance, result: Result) -> str | None:
    """Say what is wrong with a result that another process has written, as far as that needs no proof.

    Its plan is executed and its cost and report compared, as `check` does; None where all fits.
    """
    instance = answered(instance, result.plan)
    limit = default_seconds(instance, result)
    clock = _Clock(time.monotonic() + limit, limit).standing(instance, [])
    findings = [] if result.plan is None else _Executed(instance, result, clock).findings(False)
    findings += _fitting(instance, result, result.plan)
    findings += _by_bound(result, catalogue.room(instance.room).best_bound(instance.problem))
    wrong = [finding for finding in findings if finding.state == "refuted"]
    return f"{wrong[0].what}: {wrong[0].detail}" if wrong else None


def default_seconds(instance: Instance, result: Result) -> float:
    """Return how long a check may take if nothing else is said: four times what its work should take.

    That is a simulation of as many steps and MACs as the report claims, the numbers of each part, and as long
    again as the result took; a minute at least.
    """
    room, problem = catalogue.room(instance.room), instance.problem
    measures = None if result.report is None else result.report.measures
    steps, macs = (min(getattr(measures, name, 1), MOST_COUNTED) for name in ("steps", "macs"))
    parts = max(1, len({id(part) for _, part in room.parts(problem)}))
    elements = min(room.numeric_elements(problem), MAX_NUMERIC_ELEMENTS) * parts
    numbers = ELEMENT_SECONDS * elements + MAC_SECONDS * macs
    expected = room.simulation_seconds(problem, steps) + numbers + result.seconds
    return min(max(LEAST_LIMIT, 4 * expected), MAX_SECONDS)


def _fitting(instance: Instance, result: Result, plan: Any) -> list[Finding]:
    """Return whether the fields of a result fit each other; `plan` is valid or None."""
    return [
        *consistency.naming(result, instance.problem),
        consistency.status(result),
        *(consistency.at_least(result, instance.problem) if plan is not None else ()),
        consistency.trace(result),
        *consistency.constraints(result, instance.problem, plan),
        *consistency.confirmed_by(result),
    ]


def _by_bound(result: Result, own: Bound) -> list[Finding]:
    """Return whether what is said to prove the bound, and to have found the plan, can have done so."""
    return [
        consistency.method(result, own),
        consistency.bound_by(result, own),
        *consistency.proved_by(result, own),
    ]


@dataclass(frozen=True)
class _Clock:
    """When time is up, how much of it there was, and who is told when it stands."""

    deadline: float
    limit: float
    on_compile: compiling.Tell | None = None

    def standing(self, instance: Instance, methods: list[str]) -> _Clock:
        """Have compiled what an instance and some methods need; return the clock, which stood meanwhile."""
        needed = compiling.units(instance.room, methods, instance.problem)
        stood = compiling.ensure(needed, self.on_compile)
        return replace(self, deadline=self.deadline + stood)

    def findings(
        self, instance: Instance, look: Callable[[_Clock], list[Finding]]
    ) -> tuple[list[Finding], _Clock]:
        """Return what is found, as Python while what the room needs is compiled, and the clock.

        What is not verified in time that way is looked at once more, compiled; until then the clock stood.
        """
        began = time.monotonic()
        found: list[Finding] | None = None
        with (
            contextlib.suppress(OverflowError),  # compiled, integers have an end
            until_compiled(instance.room, instance.problem, self.on_compile) as uncompiled,
        ):
            found = look(self)
        late = found is None or any(finding.state == "not verified" for finding in found)
        if found is not None and not (uncompiled and late):
            return found, self
        clock = self.standing(instance, [])
        clock = replace(clock, deadline=self.deadline + time.monotonic() - began)
        return look(clock), clock

    @property
    def left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    def not_in_time(self, expected: float) -> str:
        """Say what did not suffice, and what may."""
        enough = max(expected, 4 * self.limit)
        return f"takes longer than {self.limit:g} s; {enough:.0f} s may be enough (--time-limit)"


class _Executed:
    """The plan of a result, as the simulator sees it."""

    def __init__(self, instance: Instance, result: Result, clock: _Clock) -> None:
        self.room: Room[Any, Any] = catalogue.room(instance.room)
        self.instance, self.problem, self.result, self.clock = instance, instance.problem, result, clock
        # A bound of a method's is to be proven after the plan.
        self.share = (
            NUMERIC_SHARE
            if result.bound_by is not None and is_method(instance.room, result.bound_by)
            else 1.0
        )

    def findings(self, numeric: bool) -> list[Finding]:
        """Return what was found of the plan, the first on whether it is valid."""
        try:
            report = self._simulate(self.clock.deadline)
        except OutOfTimeError:
            return self._by_closed_form()
        if report.violation is not None:
            return [Finding("plan", "refuted", str(report.violation))]
        told = f"valid: {report.n_steps} steps, peak {report.peak} elements on chip"
        measured, claimed = self.room.measured_objective(self.problem, report), self.result.objective
        by = "simulated" if self.result.simulated else "simulated now"
        return [
            Finding("plan", "verified", told),
            *(self._numbers() if numeric else []),
            verdict("objective", measured == claimed, f"{by} {measured}, claimed {claimed}"),
            self._report(report),
        ]

    def _simulate(self, deadline: float, *, numeric: bool = False, overlapped: bool = False) -> Report:
        return self.room.simulate(
            self.problem, self.result.plan, numeric=numeric, overlapped=overlapped, deadline=deadline
        )

    def _by_closed_form(self) -> list[Finding]:
        """Say what is certain of a plan whose simulation takes too long: closed forms can refute it."""
        late = Finding("plan", "not verified", f"its simulation {self._not_in_time()}")
        try:
            violation = self.room.violation(self.problem, self.result.plan)
            cost = None if violation else self.room.objective(self.problem, self.result.plan)
        except (OutOfTimeError, InputError):
            return [late]
        if violation is not None:
            return [Finding("plan", "refuted", violation)]
        told, claimed = f"by the closed form {cost}, claimed {self.result.objective}", self.result.objective
        return [late, Finding("objective", "not verified" if cost == claimed else "refuted", told)]

    def _numbers(self) -> list[Finding]:
        """Move real data through the plan."""
        elements = self.room.numeric_elements(self.problem)
        if elements > MAX_NUMERIC_ELEMENTS:
            told = (
                f"not computed: {elements:,} elements are held at a time, of at most {MAX_NUMERIC_ELEMENTS:,}"
            )
            return [Finding("numbers", "unverified", told)]
        try:
            report = self._simulate(time.monotonic() + self.share * self.clock.left, numeric=True)
        except OutOfTimeError:
            told = f"whether they are equal to the reference {self._not_in_time()}"
            return [Finding("numbers", "not verified", told)]
        except MemoryError:
            told = "whether they are equal to the reference: moving real data takes more memory than there is"
            return [Finding("numbers", "not verified", told)]
        found = []
        left = "; ".join(dict.fromkeys(report.not_computed))
        if report.numeric is not None:
            of = "what is computed is " if left and report.numeric else ""
            told = "equal to the reference" if report.numeric else "differ from the reference"
            found.append(verdict("numbers", report.numeric, of + told))
        if left:
            found.append(Finding("numbers", "unverified", f"not computed: {left}"))
        return found or [Finding("numbers", "unverified", "there is nothing to compare")]

    def _report(self, report: Report) -> Finding:
        """Compare the report of the file with that of the simulation."""
        claimed = self.result.report
        if not self.result.simulated:
            told = "none was written" if claimed is None else "there is one of a plan that was not simulated"
            return verdict("report", claimed is None, told)
        if claimed is None:
            return Finding("report", "refuted", "is missing")
        numeric = claimed.numeric is not None
        times = (getattr(claimed.measures, f"overlapped_{clock}", None) for clock in ("cycles", "ps"))
        overlapped = any(time is not None for time in times) and report.overlapped is None
        if numeric or overlapped:
            try:
                report = self._simulate(self.clock.deadline, numeric=numeric, overlapped=overlapped)
            except (OutOfTimeError, MemoryError):
                return Finding("report", "not verified", f"its simulation {self._not_in_time()}")
        differing = consistency.differences(self.result, report.verdict())
        if differing:
            more = ", ..." if len(differing) > 8 else ""
            return Finding("report", "refuted", f"differs in {', '.join(differing[:8])}{more}")
        former = "; the other keys of format 1 are not looked at" if self.result.format == 1 else ""
        return Finding("report", "verified", f"as simulated{former}")

    def _not_in_time(self) -> str:
        return self.clock.not_in_time(default_seconds(self.instance, self.result))


def _claims(result: Result, own: Bound) -> list[tuple[str, int | None, str | None]]:
    """Return what the room's own bound does not prove: (what, bound, method that is said to prove it)."""
    found: list[tuple[str, int | None, str | None]] = []
    if result.bound is not None and result.bound > own.value:
        found.append(("bound", result.bound, result.bound_by or result.method))
    if result.status == "infeasible" and own.impossible is None:
        found.append(("infeasible", None, result.method))
    return found


def _check_claims(instance: Instance, result: Result, plan: Any, own: Bound, clock: _Clock) -> list[Finding]:
    """Prove a bound, and that nothing is feasible, once more; `plan` is valid or None."""
    findings = _by_bound(result, own)
    if result.bound is not None and result.bound <= own.value:
        findings.append(Finding("bound", "verified", f"{result.bound} follows from the {own}"))
    if result.status == "infeasible" and own.impossible is not None:
        findings.append(Finding("infeasible", "verified", f"by the {own}"))
    able = findings[1].state != "refuted"
    rechecked: list[Finding] | None = None
    for what, bound, method in _claims(result, own):
        if what == "bound" and not able:
            findings.append(Finding(what, "refuted", f"{bound} is above the {own}, and nothing proves it"))
            continue
        claim = claims.Claim(what, bound, method, plan)
        if getattr(instance.problem, "minimise", None) == "pareto" and rechecked is None:
            rechecked, clock = clock.findings(instance, lambda clock: _recheck(instance, result, plan, clock))
            begins = _begins_front(instance, bound, plan, rechecked)
            if begins is not None:
                findings.append(begins)
                continue
        stood: list[float] = []
        findings.append(
            claims.prove(
                instance,
                claim,
                clock.deadline,
                clock.limit,
                result.seconds,
                on_compile=clock.on_compile,
                on_stood=stood.append,
            )
        )
        clock = replace(clock, deadline=clock.deadline + sum(stood))
    if rechecked is None:
        rechecked, _ = clock.findings(instance, lambda clock: _recheck(instance, result, plan, clock))
    return findings + rechecked


def _recheck(instance: Instance, result: Result, plan: Any, clock: _Clock) -> list[Finding]:
    """Verify what an optimal plan claims beyond its objective."""
    if result.status != "optimal" or plan is None:
        return []
    found = catalogue.room(instance.room).recheck(instance.problem, plan, clock.deadline)
    return [
        Finding(what, "not verified", detail) if holds is None else verdict(what, holds, detail)
        for what, holds, detail in found
    ]


def _begins_front(
    instance: Instance, bound: int | None, plan: Any, rechecked: list[Finding]
) -> Finding | None:
    """Return that a front proves the bound with which it begins, if all of it was found anew; else None."""
    complete = bool(rechecked) and all(finding.state == "verified" for finding in rechecked)
    if not complete or catalogue.room(instance.room).objective(instance.problem, plan) != bound:
        return None
    told = f"{bound}: the front that was found anew begins with it; this rests on that search alone"
    return Finding("bound", "verified", told)
