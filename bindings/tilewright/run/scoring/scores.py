"""How far runs of a comparison got, as operations research measures it: gaps, times, integrals, means.

All is computed from rows, the entries of a comparison as JSON. Every measure is relative to a reference: the
best objective that is known of an instance, or that one of the runs has found, whichever is less.

- The primal gap of an objective is |objective - reference| / max(|objective|, |reference|); it is 1 without a
  plan (T. Berthold, Measuring the impact of primal heuristics, Operations Research Letters 41, 2013).
- The primal integral is that of the gap from 0 to the time limit, in seconds: 0 for a run that has the
  reference at once, the time limit for one that finds nothing.
- A shifted geometric mean is exp(mean(log(value + shift))) - shift. The shift is 1 s for times and
  integrals and 1 for gaps in percent, so that what is tiny does not decide. A run without a proof counts with
  the time limit, one without a plan with a gap of 100 %.
- A proof counts for what has made it: a run that a bound of the room had closed before the method did
  anything counts for no method, neither in numbers nor in means or pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log
from statistics import median
from typing import Any

from tilewright.plotting.profiles import Profile
from tilewright.run.best_known import BestKnown
from tilewright.run.solving.phases import PHASES

Row = Mapping[str, Any]
"""An entry of a comparison: a result as JSON, or ``room``, ``instance``, ``method``, ``seed``, ``error``."""

SHIFT = 1.0
"""Of shifted geometric means: seconds, or percent."""


@dataclass(frozen=True)
class Score:
    """How far one run got.

    Attributes
    ----------
    row
        The run.
    limit
        Its time limit, in seconds.
    reference, reference_known
        The objective that it is measured by, None if nobody has a plan; and whether it was known before.
    gap
        The primal gap of its plan, from 0 to 1.
    proof_seconds
        When it had proven its answer; infinite if it has not.
    target_seconds
        When its plan was within the target; infinite if it never was.
    integral
        The primal integral, in seconds.
    known
        What was known of the instance before.
    """

    row: Row
    limit: float
    reference: int | None
    reference_known: bool
    gap: float
    proof_seconds: float
    target_seconds: float
    integral: float
    known: BestKnown | None = None

    @property
    def problem(self) -> tuple[str, int]:
        """The instance and the seed: what methods are compared on."""
        return self.row["instance"], self.row.get("seed") or 0

    @property
    def method(self) -> str:
        """Of the run."""
        return str(self.row["method"])

    @property
    def failed(self) -> bool:
        """Whether there is no result: a crash, a missing solver, a method that refuses the instance."""
        return self.row.get("error") is not None

    @property
    def has_plan(self) -> bool:
        """Whether it has found a plan."""
        return self.row["objective"] is not None

    @property
    def ran(self) -> bool:
        """Whether the method was run: no bound had closed the run before."""
        return self.row.get("proved_by") is None

    @property
    def proven(self) -> bool:
        """Whether its answer is proven, also that there is none."""
        return self.proof_seconds < inf

    @property
    def proven_itself(self) -> bool:
        """Whether the method has proven it, rather than a bound of the room that its plan meets."""
        by = self.method if self.row.get("status") == "infeasible" else self.row.get("bound_by")
        return self.proven and self.ran and (self.method == "auto" or by == self.method)

    @property
    def ratio(self) -> float:
        """Objective over reference, infinite without a plan."""
        if not self.has_plan or self.reference is None:
            return inf
        objective = float(self.row["objective"])
        return objective / self.reference if self.reference else 1.0 + objective

    def columns(self) -> dict[str, Any]:
        """Return the run as a line of a table."""
        spent = self.row.get("spent") or {}
        told = {name: self.row.get(name) for name in COLUMNS if name in _OF_RESULTS}
        told |= {f"{phase}_seconds": spent.get(phase) for phase in PHASES}
        return {name: told.get(name) for name in COLUMNS} | {
            "time_limit": self.limit,
            "reference": self.reference,
            "reference_known": self.reference_known,
            "gap_to_reference": None if self.reference is None else self.gap,
            "proof_seconds": _finite(self.proof_seconds),
            "target_seconds": _finite(self.target_seconds),
            "primal_integral_seconds": None if self.reference is None else round(self.integral, 3),
            "proved_by_itself": self.proven_itself,
        }


_OF_RESULTS = (
    *("room", "instance", "method", "status", "minimise", "unit", "objective", "bound", "gap", "seconds"),
    *("seed", "simulated", "error", "threads", "bound_by", "proved_by"),
)
COLUMNS = (
    *_OF_RESULTS,
    *("time_limit", *(f"{phase}_seconds" for phase in PHASES)),
    *("reference", "reference_known", "gap_to_reference", "proof_seconds", "target_seconds"),
    *("primal_integral_seconds", "proved_by_itself"),
)
"""Of a comparison as a table."""


def _finite(seconds: float) -> float | None:
    return None if seconds == inf else seconds


def primal_gap(objective: int | None, reference: int | None) -> float:
    """Return the primal gap after Berthold, 1 without a plan."""
    if objective is None or reference is None or objective * reference < 0:
        return 1.0
    largest = max(abs(objective), abs(reference))
    return abs(objective - reference) / largest if largest else 0.0


def primal_integral(trace: Sequence[Sequence[Any]], reference: int | None, limit: float) -> float:
    """Return the integral of the primal gap over ``[0, limit]``, of which a trace tells the steps."""
    area, since, gap = 0.0, 0.0, 1.0
    for seconds, objective, _bound in trace:
        moment = min(max(float(seconds), since), limit)
        area += gap * (moment - since)
        since, gap = moment, min(gap, primal_gap(objective, reference))
    return area + gap * (limit - since)


def shifted_mean(values: Iterable[float], shift: float = SHIFT) -> float | None:
    """Return the shifted geometric mean, None of nothing."""
    shifted = [log(value + shift) for value in values]
    return exp(sum(shifted) / len(shifted)) - shift if shifted else None


def scores(
    rows: Sequence[Row],
    time_limit: float,
    *,
    known: Mapping[str, BestKnown] | None = None,
    target: float = 0.0,
) -> list[Score]:
    """Return how far each run got.

    Parameters
    ----------
    rows
        Of one comparison.
    time_limit
        Of the runs, in seconds.
    known
        What is known of instances, by their digests.
    target
        By how much a plan may be worse than the reference to be within the target, in percent.
    """
    references: dict[tuple[str, str], tuple[int | None, bool]] = {}
    before_by: dict[tuple[str, str], BestKnown] = {}
    for row in rows:
        key = row.get("room") or "", row["instance"]
        best, by_others = references.get(key, (None, False))
        before = (known or {}).get(row.get("instance_sha256") or "")
        if before is not None:
            before_by[key] = before
        if before is not None and before.objective is not None and (best is None or before.objective <= best):
            best, by_others = before.objective, True
        if row["objective"] is not None and (best is None or row["objective"] < best):
            best, by_others = row["objective"], False
        references[key] = best, by_others
    found = []
    for row in rows:
        key = row.get("room") or "", row["instance"]
        scored = _score(row, time_limit, *references[key], target)
        found.append(replace(scored, known=before_by.get(key)))
    return found


def _score(row: Row, limit: float, reference: int | None, by_others: bool, target: float) -> Score:
    trace = row.get("trace") or []
    proof = reached = inf
    if row.get("status") in ("optimal", "infeasible"):
        closed = [
            at for at, objective, bound in trace if None not in (objective, bound) and objective <= bound
        ]
        proof = float(min(closed, default=row["seconds"]))
    if reference is not None:
        within = reference + abs(reference) * target / 100
        reached = min(
            (float(at) for at, found, _ in trace if found is not None and found <= within), default=inf
        )
    return Score(
        row,
        limit,
        reference,
        by_others,
        primal_gap(row["objective"], reference),
        proof,
        reached,
        primal_integral(trace, reference, limit),
    )


def by_method(found: Iterable[Score]) -> dict[str, list[Score]]:
    """Return the runs of each method."""
    grouped: dict[str, list[Score]] = {}
    for score in found:
        grouped.setdefault(score.method, []).append(score)
    return grouped


def shared(found: Sequence[Score]) -> list[str]:
    """Return the instances on which every method has found a plan with every seed, of those that take part.

    A method takes part if it has found any plan and does not fail on more than half of its runs, as one that
    is for another kind of problem does: nothing would be left to compare the others on.
    """

    def succeeds(score: Score) -> bool:
        return score.ran and score.has_plan

    methods = {
        name
        for name, own in by_method(found).items()
        if any(map(succeeds, own)) and 2 * sum(score.failed for score in own) <= len(own)
    }
    lacking = {score.row["instance"] for score in found if score.method in methods and not succeeds(score)}
    run: dict[str, set[str]] = {}
    for score in found:
        run.setdefault(score.row["instance"], set()).add(score.method)
    return [name for name, had in run.items() if methods and methods <= had and name not in lacking]


@dataclass(frozen=True)
class Means:
    """Shifted geometric means over some runs, None over none.

    Attributes
    ----------
    proof, target
        Of the seconds to the proof, and to the target.
    gap, integral
        Of the primal gap in percent, and of the primal integral in seconds.
    """

    proof: float | None
    target: float | None
    gap: float | None
    integral: float | None


@dataclass(frozen=True)
class MethodSummary:
    """How far one method got on all instances.

    Attributes
    ----------
    runs, idle
        Numbers of runs: all, and those that a bound had closed before the method was run.
    plans, proven, proven_itself, best, reached, failed
        Of the others, those with a plan, with a proof, with one that the method has made, with the reference
        or better, within the target, and without a result.
    over_all, over_shared
        Means over all these others, and over those on the instances that all methods have solved.
    """

    method: str
    runs: int
    idle: int
    plans: int
    proven: int
    proven_itself: int
    best: int
    reached: int
    failed: int
    over_all: Means
    over_shared: Means


def summaries(found: Sequence[Score]) -> list[MethodSummary]:
    """Return how far each method got on the instances of a room."""
    common = set(shared(found))
    return [_summary(method, own, common) for method, own in by_method(found).items()]


def _summary(method: str, own: Sequence[Score], common: set[str]) -> MethodSummary:
    run = [score for score in own if score.ran]

    def count(what: Callable[[Score], bool]) -> int:
        return sum(map(what, run))

    return MethodSummary(
        method,
        len(own),
        len(own) - len(run),
        count(lambda score: score.has_plan),
        count(lambda score: score.proven),
        count(lambda score: score.proven_itself),
        count(lambda score: score.has_plan and score.gap == 0),
        count(lambda score: score.target_seconds < inf),
        count(lambda score: score.failed),
        _means(run),
        _means([score for score in run if score.row["instance"] in common]),
    )


def _means(some: Sequence[Score]) -> Means:
    measured = [score for score in some if score.reference is not None]
    return Means(
        shifted_mean(min(score.proof_seconds, score.limit) for score in some),
        shifted_mean(min(score.target_seconds, score.limit) for score in measured),
        shifted_mean(100 * score.gap for score in measured),
        shifted_mean(score.integral for score in measured),
    )


def profile(found: Sequence[Score], title: str) -> Profile:
    """Return the runs of a room as pictures over many instances take them."""
    problems = list(dict.fromkeys(score.problem for score in found))
    runs = {(score.method, score.problem): score for score in found if score.ran}

    def of_each(what: Callable[[Score], float]) -> dict[str, list[float]]:
        return {
            method: [
                what(runs[method, problem]) if (method, problem) in runs else inf for problem in problems
            ]
            for method in by_method(found)
        }

    limit = max(score.limit for score in found)
    return Profile(
        title, limit, of_each(lambda score: score.proof_seconds), of_each(lambda score: score.ratio)
    )


def typical(found: Sequence[Score]) -> list[Row]:
    """Return a row for each instance and method: that of the seed with the median objective."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for score in found:
        groups.setdefault((score.row["instance"], score.method), []).append(score.row)
    return [
        sorted(own, key=lambda row: inf if row["objective"] is None else row["objective"])[
            (len(own) - 1) // 2
        ]
        for own in groups.values()
    ]


def by_room(found: Iterable[Score]) -> dict[str, list[Score]]:
    """Return the runs of each room."""
    grouped: dict[str, list[Score]] = {}
    for score in found:
        grouped.setdefault(score.row.get("room") or "", []).append(score)
    return grouped


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, the least and the largest value; those that are infinite count."""
    return median(values), min(values), max(values)
