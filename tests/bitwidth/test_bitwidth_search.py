"""Costs, limits and the exact search: against enumeration on tiny random problems."""

from __future__ import annotations

import pytest
from bits_at_random import THESIS, points, problems, thesis_problem
from conftest import examples, tells
from hypothesis import given, settings

from tilewright.bitwidth import Plan, Problem, best_bound, costs, objective, simulate, violation
from tilewright.bitwidth.exact import search as search_module
from tilewright.bitwidth.exact.search import front_of, priced_bound
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.core.room import room_of
from tilewright.models.bitwidth import merging
from tilewright.run.solve import solve
from tilewright.spec.errors import InputError


def least(problem: Problem) -> int | None:
    """Return the optimum by enumeration."""
    found = [bits if problem.minimise == "bits" else noise for noise, bits in points(problem)]
    return min(found, default=None)


@pytest.mark.nightly
@settings(max_examples=examples(100))
@given(problems())
def test_the_exact_search_agrees_with_enumeration(problem: Problem) -> None:
    outcome, expected = merging.solve(problem, RunContext()), least(problem)
    if expected is None:
        assert (outcome.status, outcome.plan) == ("infeasible", None)
        return
    assert best_bound(problem).impossible is None
    assert best_bound(problem).value <= priced_bound(problem) <= expected
    assert violation(problem, outcome.plan) is None
    assert objective(problem, outcome.plan) == outcome.bound == expected
    report = simulate(problem, outcome.plan)
    assert report.violation is None
    assert room_of(problem).measured_objective(problem, report) == expected


def test_what_is_too_large_leaves_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = thesis_problem("output_range").with_(limits={"bits": 310_000})
    expected = least(problem)
    monkeypatch.setattr(search_module, "MOST_PAIRS", 1)
    bounds: list[int] = []
    outcome = merging.solve(problem, RunContext(on_bound=bounds.append))
    assert (outcome.status, outcome.plan, bounds) == ("unknown", None, [outcome.bound])
    assert outcome.bound is not None and expected is not None
    assert best_bound(problem).value < outcome.bound <= expected
    front = merging.solve(problem.with_(objective={"minimise": "pareto"}), RunContext())
    assert (front.status, front.bound) == ("unknown", None)


@settings(max_examples=examples(60))
@given(problems("pareto"))
def test_the_front_agrees_with_enumeration(problem: Problem) -> None:
    every = points(problem)
    expected = sorted(
        {one for one in every if not any(o[0] <= one[0] and o[1] <= one[1] and o != one for o in every)}
    )
    outcome = merging.solve(problem, RunContext())
    if not every:
        assert outcome.status == "infeasible"
        return
    assert [costs(problem, plan) for plan in outcome.plan.front] == expected
    assert violation(problem, outcome.plan) is None
    front = simulate(problem, outcome.plan).measures.front
    assert [(point.noise_ppb, point.moved_bits) for point in front] == expected
    [(what, holds, _)] = room_of(problem).recheck(problem, outcome.plan, float("inf"))
    assert (what, holds) == ("front", True)
    if len(expected) > 1:
        part = Plan.joined(outcome.plan.front[1:])
        assert room_of(problem).recheck(problem, part, float("inf"))[0][1] is False


@settings(max_examples=examples(60))
@given(problems())
def test_claims_of_infeasibility_are_right(problem: Problem) -> None:
    if best_bound(problem).impossible is not None:
        assert least(problem) is None


@pytest.mark.nightly
@settings(max_examples=examples(60))
@given(problems())
def test_heuristics_choose_plans_no_better_than_the_optimum(problem: Problem) -> None:
    expected = least(problem)
    for name in catalogue.heuristics("bitwidth"):
        module = catalogue.heuristic("bitwidth", name)
        if catalogue.suits(module, problem):
            plan = module.plan(problem)
            if violation(problem, plan) is None:
                assert expected is not None
                assert objective(problem, plan) >= expected


def test_auto_solves_and_a_second_method_may_be_asked() -> None:
    result = solve(thesis_problem("absolute_weights"), time_limit=10, confirm=False)
    assert (result.status, result.gap) == ("optimal", 0)
    assert result.objective == least(thesis_problem("absolute_weights"))


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (Plan(("conv2",), ((8, 7),)), "accumulator .. layer conv2 .. 8 + 7 bits .. 14"),
        (Plan(("conv1",), ((4, 4),)), "layers .. conv1"),
        (Plan(("conv2",), ((2, 9),)), "noise .. layer conv2"),
        (Plan.joined((Plan(("conv2",), ((7, 7),)),)), "kind of plan"),
    ],
)
def test_broken_plans_are_refused(plan: Plan, told: str) -> None:
    quiet = {"conv2": THESIS | {"input_power": 0.01}}
    problem = thesis_problem("output_range").with_(ranges=quiet)
    assert tells(violation(problem, plan), told)
    assert simulate(problem, plan).violation is not None


def test_plans_are_read_back() -> None:
    for plan in (Plan(("a", "b"), ((1, 2), (3, 4))), Plan.joined((Plan(("a",), ((1, 2),)),))):
        assert Plan.from_json(plan.to_json()) == plan
    for data in ({}, {"bits": {}}, {"bits": {"a": [0, 2]}}, {"bits": {"a": [1]}}, {"front": []}, [1]):
        with pytest.raises(InputError, match="plan"):
            Plan.from_json(data)


def test_a_front_is_found_once_for_each_point() -> None:
    problem = thesis_problem("output_range").with_(objective={"minimise": "pareto"})
    assert len(front_of(problem)) == len({(point.noise, point.bits) for point in front_of(problem)}) > 3


# Instances that are refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranges", "told"),
    [
        ({}, "ranges.conv2"),
        ({"conv2": THESIS, "conv3": THESIS}, "did you mean conv2?"),
        ({"conv2": THESIS | {"output": None}}, "ranges.conv2.output"),
        ({"conv2": THESIS | {"wieghts": 1.0}}, "ranges.conv2.wieghts = 1.0: unknown key"),
        ({"conv2": 3}, "ranges.conv2 = 3: must be a table"),
        ({"conv2": THESIS | {"weights": float("nan")}}, "ranges.conv2.weights"),
        ({"conv2": THESIS | {"input": -1.0}}, "ranges.conv2.input"),
        ({"conv2": THESIS | {"absolute_weights": 0.1}}, "ranges.conv2.absolute_weights"),
        ({"conv2": THESIS | {"input_power": 17.0}}, "ranges.conv2.input_power"),
    ],
)
def test_ranges_that_nothing_has_are_refused(ranges: object, told: str) -> None:
    with pytest.raises(InputError) as caught:
        thesis_problem("output_range").with_(ranges=ranges)
    assert told in str(caught.value)
