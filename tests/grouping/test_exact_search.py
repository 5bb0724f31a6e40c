"""How the exact search takes turns: several costs at once, objectives, deadlines and memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import examples, processor_time
from enumeration import optimum
from exact_cases import all_plans, best_start, followed, layer_of, soon, tiny
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tilewright.core.context import RunContext
from tilewright.grouping import Problem, best_bound, objective, violation
from tilewright.grouping.exact import layered_search, search
from tilewright.grouping.exact.by_steps import prove_by_steps
from tilewright.grouping.exact.cost_to_go import CostToGo
from tilewright.grouping.exact.layered_search import LayeredParams, LayeredSearch, TooLargeError
from tilewright.grouping.exact.objective_levels import ObjectiveLevels
from tilewright.grouping.exact.stages import StateSpace
from tilewright.grouping.exact.turns import SearchParams
from tilewright.grouping.structure import last_useful_step
from tilewright.models.grouping import exact
from tilewright.spec.errors import OutOfTimeError

# Several costs at once -----------------------------------------------------------------------------------


@settings(max_examples=examples(80))
@given(problem=tiny(work=1000), above=st.integers(1, 40), patient=st.booleans())
def test_dearer_plans_may_be_looked_for_first(problem: Problem, above: int, patient: bool) -> None:
    """A search that skips costs below a poor plan's proves no more than holds and finds the optimum."""
    expected = optimum(problem)
    assume(expected is not None)
    # Where the next cost seems to take no more time than the last, the highest is refuted at once.
    params = SearchParams(growth=50.0 if patient else 1.0)
    last = None
    for found in search.prove(problem, soon(), 0, expected + above, params=params):
        last = found
        assert not found.impossible
        assert found.bound <= expected, found
        if found.plan is not None:
            assert violation(problem, found.plan) is None
            assert objective(problem, found.plan) == found.bound == expected
    if last is not None and problem.limits.reloads < 3:
        assert last.bound == expected


# Objectives that plans can have --------------------------------------------------------------------------


@settings(max_examples=examples(80))
@given(problem=tiny())
def test_no_possible_objective_is_skipped(problem: Problem) -> None:
    levels = ObjectiveLevels(StateSpace(problem))
    fewest, most = problem.steps_range
    least = len(problem.needed_pixels)
    useful = range(fewest, last_useful_step(problem) + 1)
    top = problem.cost(least + 6, fewest)
    possible = sorted({
        problem.cost(loads, steps) for steps in useful for loads in range(least, least + 7 + top)
        if problem.cost(loads, steps) <= top + 5
    }) if top < 3000 else []  # fmt: skip
    for low, high in zip([0, *possible], possible, strict=False):
        assert {levels.up(value) for value in (low + 1, (low + high + 1) // 2, high)} == {high}
    # In the halves that searches count in, totals compare as objectives do.
    space = StateSpace(problem)
    for value in possible:
        assert levels.value(levels.total(value)) == value
        for loads in range(least, least + 8):
            for steps in range(fewest, most + 1):
                halves = 2 * space.load * loads + space.step * steps
                assert (halves <= levels.total(value)) == (problem.cost(loads, steps) <= value)
    expected = optimum(problem)
    if expected is not None:
        assert levels.up(expected) == expected <= levels.highest
        assert all(levels.up(value) <= expected for value in range(max(0, expected - 40), expected + 1))


# Deadlines and memory ------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize("steps", ["kmin", "free"])
@pytest.mark.parametrize(
    ("side", "group", "threads"), [(12, 5, 1), (12, 5, 2), (7, 9, 1)], ids=["12x12", "12x12, threads", "7x7"]
)
def test_time_is_kept(side: int, group: int, threads: int, steps: str) -> None:
    exact.solve(layer_of(), RunContext(deadline=soon()))  # compiled before the clock starts
    problem = layer_of((side, side), group, steps=steps)
    bounds: list[int] = []
    context = RunContext(threads=threads, on_bound=lambda bound, _grounds: bounds.append(bound))
    with processor_time(2 * threads + 1.5):
        context.deadline = time.monotonic() + 2
        outcome = exact.solve(problem, context)
    start = best_start(problem)
    assert start is not None
    assert best_bound(problem).value <= outcome.bound <= objective(problem, start)
    assert bounds == sorted(set(bounds))


@pytest.mark.by_day(6)
@pytest.mark.parametrize("rows", [0, 1, 20_000, 60_000])
def test_what_does_not_fit_ends_with_a_valid_bound(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever search runs out of memory first, what was proven stands and the other goes on."""
    monkeypatch.setattr(layered_search, "PARAMS", LayeredParams(max_rows=rows))
    for problem, expected in ((layer_of((7, 7)), 72), (layer_of((6, 6), 3, steps="free"), 42)):
        outcome = exact.solve(problem, RunContext(deadline=soon()))
        assert outcome.bound is not None
        assert best_bound(problem).value <= outcome.bound <= expected
        assert outcome.status in ("unknown", "optimal")
        assert (outcome.status == "optimal") == (outcome.plan is not None)
        if rows == 0:
            # Not even the stage that is begun fits, but tables of a few rows never ask.
            assert outcome.bound < 73


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("leading", "following"), [(0, 0.6), (1e9, 0.6), (1e9, 0)], ids=["none leads", "one leads", "too far"]
)
@pytest.mark.parametrize(("side", "group", "expected"), [(7, 2, 72), (8, 3, 82)], ids=["7x7 g2", "8x8 g3"])
def test_searches_for_all_numbers_of_steps_agree(
    side: int, group: int, expected: int, leading: float, following: float
) -> None:
    """However far one goes ahead, and however often others give up and aim at less."""
    params = SearchParams(leading=leading, following=following)
    problem = layer_of((side, side), group, steps="free")
    for known in (None, expected, expected + 5):
        plans = []
        bound = 0
        for found in prove_by_steps(problem, soon(), best_bound(problem).value, known, params=params):
            assert bound <= found.bound <= expected
            bound = found.bound
            if found.plan is not None:
                assert violation(problem, found.plan) is None
                plans.append(objective(problem, found.plan))
        assert bound == expected
        assert plans == sorted(plans, reverse=True)
        assert (plans[-1] == expected) if known != expected else not plans


def test_a_search_too_large_for_memory_aims_at_less(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = layer_of((8, 8), 3, steps="free")
    totals: dict[int, list[int]] = {}
    plans_within = search.plans_within

    def full(
        space: StateSpace, cost_to_go: CostToGo, total: int, *rest: Any, **options: Any
    ) -> LayeredSearch:
        layered = plans_within(space, cost_to_go, total, *rest, **options)
        asked = totals.setdefault(space.steps, [])
        asked.append(total)
        if space.steps == problem.kmin + 1 and len(asked) == 1:
            monkeypatch.setattr(layered, "run", lambda: too_large())
        return layered

    def too_large() -> Iterator[None]:
        raise TooLargeError
        yield

    monkeypatch.setattr(search, "plans_within", full)
    params = SearchParams(leading=1e9)
    *_, last = prove_by_steps(problem, soon(), best_bound(problem).value, 82, params=params)
    assert last.bound == 82
    first, second, *_ = totals[problem.kmin + 1]
    assert second < first


def test_too_many_partial_plans_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layered_search, "PARAMS", LayeredParams(max_rows=1000))
    space = StateSpace(layer_of((7, 7)))
    cost_to_go = CostToGo(space)
    before = {key: table.copy() for key, table in cost_to_go.anchored.items()}
    with pytest.raises(TooLargeError):
        followed(cost_to_go.improve(10**6, soon()))
    assert all((cost_to_go.anchored[key] >= before[key]).all() for key in before)
    with pytest.raises(TooLargeError):
        all_plans(space, cost_to_go, ObjectiveLevels(space).total(80), soon())
    with pytest.raises(OutOfTimeError):
        all_plans(space, cost_to_go, ObjectiveLevels(space).total(80), time.monotonic() - 1)
    check_total(space, cost_to_go)


def check_total(space: StateSpace, cost_to_go: CostToGo) -> None:
    assert ObjectiveLevels(space).value(cost_to_go.total) <= 72
