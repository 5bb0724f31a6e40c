"""Gaps, integrals, means and profiles, against figures worked out by hand, and their laws on random runs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import exp, inf, log
from typing import Any

import pytest

from tilewright.plotting.profiles import performance
from tilewright.run.best_known import BestKnown
from tilewright.run.scoring.scores import (
    primal_gap,
    primal_integral,
    profile,
    scores,
    shared,
    shifted_mean,
    summaries,
    typical,
)
from tilewright.run.solving.phases import Phases

LIMIT = 10.0


def run(
    method: str, objective: int | None, trace: Sequence[Any] = (), instance: str = "a", **more: Any
) -> dict[str, Any]:
    status = "unknown" if objective is None else "feasible"
    row = {"room": "grouping", "instance": instance, "instance_sha256": instance, "method": method, "seed": 0}
    return (
        row | {"objective": objective, "bound": None, "status": status, "seconds": 9.0, "trace": trace} | more
    )


def failed(method: str, instance: str = "a") -> dict[str, Any]:
    return {
        "room": "grouping",
        "instance": instance,
        "method": method,
        "seed": 0,
        "error": "no such solver",
        "objective": None,
        "bound": None,
    }


def test_primal_gap_is_berthold_s() -> None:
    assert primal_gap(None, 10) == 1 and primal_gap(5, None) == 1 and primal_gap(-5, 5) == 1
    assert primal_gap(0, 0) == 0 and primal_gap(10, 10) == 0
    assert primal_gap(20, 10) == primal_gap(10, 20) == 0.5


def test_primal_integral_by_hand() -> None:
    trace = [[1.0, None, 5], [2.0, 20, 5], [6.0, 10, 5]]
    assert primal_integral(trace, 10, LIMIT) == pytest.approx(2 * 1 + 4 * 0.5)
    assert primal_integral([], 10, LIMIT) == LIMIT
    assert primal_integral([[0.0, 10, None]], 10, LIMIT) == 0
    assert primal_integral([[12.0, 10, None]], 10, LIMIT) == LIMIT  # found when time was over


def test_primal_integral_lies_between_nothing_and_the_limit() -> None:
    chance = random.Random(7)
    for _ in range(200):
        moments = sorted(chance.uniform(0, LIMIT) for _ in range(chance.randrange(6)))
        objectives = sorted((chance.randrange(10, 90) for _ in moments), reverse=True)
        trace = [[at, objective, None] for at, objective in zip(moments, objectives, strict=True)]
        area = primal_integral(trace, 10, LIMIT)
        assert 0 <= area <= LIMIT
        # Riemann's sum of the same function
        steps = 2000
        middle = [(number + 0.5) * LIMIT / steps for number in range(steps)]
        best = [min((o for at, o, _ in trace if at <= moment), default=None) for moment in middle]
        assert area == pytest.approx(sum(primal_gap(o, 10) for o in best) * LIMIT / steps, abs=0.05)
        later = [[at + 0.5, *rest] for at, *rest in trace]
        assert primal_integral(later, 10, LIMIT) >= area


def test_shifted_means_by_hand() -> None:
    assert shifted_mean([]) is None
    assert shifted_mean([3.0]) == pytest.approx(3)
    assert shifted_mean([0.0, 3.0]) == pytest.approx(1)  # sqrt(1 * 4) - 1
    assert shifted_mean([0.0, 8.0, 8.0], 1) == pytest.approx(exp(2 * log(9) / 3) - 1)


def test_the_reference_is_what_is_known_or_what_is_better() -> None:
    rows = [run("x", 20, [[1.0, 20, None]]), run("y", 12, [[4.0, 15, None], [5.0, 12, None]]), failed("z")]
    known = {"a": BestKnown(10, 9, {"method": "lns"}, None)}
    x, y, z = scores(rows, LIMIT, known=known, target=50)
    assert [s.reference for s in (x, y, z)] == [10, 10, 10] and x.reference_known
    assert (x.gap, y.gap, z.gap) == (0.5, pytest.approx(1 / 6), 1)
    assert (x.target_seconds, y.target_seconds, z.target_seconds) == (inf, 4.0, inf)
    assert z.integral == LIMIT and z.failed and not x.failed
    x, y, z = scores(rows, LIMIT, known={"a": BestKnown(13, 9, None, None)})
    assert (y.reference, y.reference_known, y.gap, y.target_seconds) == (12, False, 0, 5.0)
    assert x.columns()["gap_to_reference"] == 0.4 and x.columns()["proof_seconds"] is None


def test_a_proof_counts_from_when_plan_and_bound_met() -> None:
    trace = [[1.0, 12, 3], [2.5, 12, 12]]
    (proven,) = scores([run("x", 12, trace, status="optimal", bound=12)], LIMIT)
    assert proven.proof_seconds == 2.5 and proven.row["seconds"] == 9.0
    (none,) = scores([run("x", None, status="infeasible")], LIMIT)
    assert none.proof_seconds == 9.0 and none.columns()["primal_integral_seconds"] is None


def test_a_method_for_other_problems_leaves_something_to_share() -> None:
    """It fails on two of three; one that fails on half of its runs takes part."""
    rows = [run("good", 10, [[1.0, 10, 10]], instance=name) for name in "abc"]
    other = [failed("other", "a"), failed("other", "b"), run("other", 10, [[1.0, 10, 10]], instance="c")]
    assert shared(scores(rows + other, LIMIT)) == ["a", "b", "c"]
    assert shared(scores(rows[1:] + other[1:], LIMIT)) == ["c"]


def test_who_fails_stays_and_counts_as_the_worst() -> None:
    rows = [
        run("good", 10, [[1.0, 10, 10]], status="optimal", bound=10),
        run("good", 30, [[1.0, 30, None]], instance="b"),
        run("some", 20, [[2.0, 20, None]]),
        run("some", None, instance="b"),
        failed("missing"),
        failed("missing", "b"),
    ]
    found = scores(rows, LIMIT)
    assert shared(found) == ["a"]  # "missing" has no plan at all, and shares nothing
    good, some, missing = summaries(found)
    assert (good.plans, good.proven, good.best, good.failed) == (2, 1, 2, 0)
    assert (some.plans, some.proven, some.best, some.failed) == (1, 0, 0, 0)
    assert (missing.runs, missing.plans, missing.failed) == (2, 0, 2)
    assert good.over_all.proof == pytest.approx((2 * 11) ** 0.5 - 1)
    assert good.over_shared.proof == pytest.approx(1)
    assert some.over_all.gap == pytest.approx((51 * 101) ** 0.5 - 1)
    assert some.over_shared.gap == pytest.approx(50)
    assert missing.over_all.gap == pytest.approx(100) and missing.over_all.integral == pytest.approx(LIMIT)
    drawn = profile(found, "grouping")
    assert drawn.seconds == {"good": [1.0, inf], "some": [inf, inf], "missing": [inf, inf]}
    assert drawn.ratios == {"good": [1.0, 1.0], "some": [2.0, inf], "missing": [inf, inf]}


def test_the_typical_run_has_the_median_objective() -> None:
    rows = [run("x", objective, seed=seed) for seed, objective in enumerate((9, None, 7, 8, 5))]
    rows += [run("y", None, seed=seed) for seed in range(2)]
    assert [row["objective"] for row in typical(scores(rows, LIMIT))] == [8, None]


def test_performance_profiles_by_hand() -> None:
    ratios = performance({"x": [1.0, 4.0, inf], "y": [2.0, 2.0, inf]})
    assert ratios == {"x": [1, 2, inf], "y": [1, 2, inf]}


def test_each_moment_of_a_run_counts_once() -> None:
    phases = Phases()
    for source, phase, at in (
        ("first", "starting", 0.0),
        ("second", "starting", 1.0),
        ("first", "building", 2.0),
        ("first", "solving", 5.0),
        ("second", "solving", 4.0),
        ("second", None, 6.0),
        ("first", None, 9.0),
        ("here", "simulating", 9.5),
        ("here", None, 10.0),
    ):
        phases.tell(source, phase, at)
    assert phases.seconds() == {"solving": 5.0, "building": 2.0, "starting": 2.0, "simulating": 0.5}


def test_what_a_bound_has_closed_counts_for_no_method() -> None:
    """The model proves two of three itself; the third was closed before it was run."""
    trace = [[1.0, 10, 10]]
    proven = {"status": "optimal", "bound": 10}
    rows = [
        run("m@s", 10, trace, "a", **proven, bound_by="m@s"),
        run("m@s", 10, trace, "b", **proven, bound_by="area"),
        run("m@s", 10, trace, "c", **proven, bound_by="area", proved_by="area"),
        run("m@s", None, (), "d", status="infeasible"),
        *(run("auto", 10, trace, name, **proven, bound_by="area") for name in "abc"),
    ]
    found = scores(rows, LIMIT)
    model, auto = summaries(found)
    assert (model.runs, model.idle, model.plans, model.proven, model.proven_itself) == (4, 1, 2, 3, 2)
    assert (auto.runs, auto.idle, auto.proven, auto.proven_itself) == (3, 0, 3, 3)
    assert shared(found) == ["a", "b"]
    drawn = profile(found[:3] + found[4:], "title")
    assert drawn.seconds["m@s"] == [1.0, 1.0, inf] and drawn.ratios["m@s"] == [1.0, 1.0, inf]
    assert [score.columns()["proved_by_itself"] for score in found[:4]] == [True, False, False, True]
