"""The exact search against enumeration: its answers, and searches for less than the optimum."""

from __future__ import annotations

import random
from typing import Any

import pytest
from conftest import examples, make_problem
from enumeration import optimum
from exact_cases import all_plans, followed, layer_of, soon, tiny
from hypothesis import assume, currently_in_test_context, event, given, settings
from hypothesis import strategies as st

from tilewright.core.context import RunContext
from tilewright.grouping import Plan, Problem, best_bound, measured_objective, objective, simulate, violation
from tilewright.grouping.exact import layered_search
from tilewright.grouping.exact.cost_to_go import CostToGo
from tilewright.grouping.exact.expansion_kernel import Table
from tilewright.grouping.exact.layered_search import LayeredParams, LayeredSearch
from tilewright.grouping.exact.objective_levels import ObjectiveLevels
from tilewright.grouping.exact.stages import StateSpace
from tilewright.models.grouping import exact


def some_plan(problem: Problem, seed: int) -> Plan:
    """Cut patches in a random order into groups, whether that is a valid plan or not."""
    random_order = random.Random(seed)
    order = list(range(problem.n_patches))
    random_order.shuffle(order)
    least, most = problem.steps_range
    n = random_order.randint(least, most)
    cuts = sorted(random_order.sample(range(1, len(order)), n - 1))
    return Plan.from_groups(problem, [order[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)])


def check_answer(problem: Problem, start: Plan | None, expected: int | None) -> None:
    bounds: list[int] = []
    plans: list[Plan] = []
    outcome = exact.solve(
        problem,
        RunContext(
            start=start,
            deadline=soon(),
            on_bound=lambda bound, _grounds: bounds.append(bound),
            on_plan=plans.append,
        ),
    )
    if currently_in_test_context():
        event(outcome.status)
    assert bounds == sorted(set(bounds))
    assert all(violation(problem, plan) is None for plan in plans)
    if expected is None:
        assert outcome.plan is None
        # Where three loads or more are allowed it may not be told.
        assert outcome.status == "infeasible" or (outcome.status == "unknown" and problem.limits.reloads > 2)
        return
    assert max(bounds, default=0) <= expected
    assert outcome.bound is not None
    assert best_bound(problem).value <= outcome.bound <= expected
    if outcome.status == "optimal":
        report = simulate(problem, outcome.plan)
        assert report.violation is None
        assert violation(problem, outcome.plan) is None
        assert measured_objective(problem, report) == objective(problem, outcome.plan) == expected
        assert outcome.bound == expected
    else:
        # Cheaper plans that break the limit hide what the others cost.
        assert problem.limits.reloads > 2
        assert outcome.status == ("unknown" if outcome.plan is None else "feasible")
        if outcome.plan is not None:
            assert violation(problem, outcome.plan) is None
            assert objective(problem, outcome.plan) >= expected


@pytest.mark.nightly
@settings(max_examples=examples(200))
@given(problem=tiny(), seed=st.integers(0, 99))
def test_agrees_with_enumeration(problem: Problem, seed: int) -> None:
    expected = optimum(problem)
    check_answer(problem, None, expected)
    check_answer(problem, some_plan(problem, seed), expected)


@pytest.mark.parametrize("steps", ["free", 4])
def test_a_memory_that_is_full_of_outputs_still_takes_patches_of_padding_alone(steps: Any) -> None:
    """Three of the five patches need no real pixel; two outputs fit on chip when there is none."""
    machine = {"padding": "generated", "memory": 4}
    layer = {"kernel": (1, 2), "padding": [0, 0, 4, 4], "dilation": [1, 4]}
    problem = layer_of((1, 1), 5, steps=steps, reloads=0, machine=machine, **layer)
    assert problem.max_pixels_by_size[:3].tolist() == [2, 1, 0]
    expected = optimum(problem)
    assert expected == 1 + 4
    check_answer(problem, None, expected)


@pytest.mark.parametrize("channels", [3, 100, 300])
def test_costs_of_any_size_are_counted(channels: int) -> None:
    """Costs are counted in 32 bits: as many cycles as the room allows must not run out of them."""
    layer = {"input": [channels, 5, 5], "kernels": 1, "kernel": [3, 3]}
    machine = {"group_size": 2, "load": 1_000_000}
    problem = make_problem(layer, machine, {"steps": "free", "reloads": 2})
    if not exact.suits(problem):
        return  # nothing claimed, nothing wrong
    bounds: list[int] = []
    outcome = exact.solve(
        problem, RunContext(deadline=soon(), on_bound=lambda bound, _: bounds.append(bound))
    )
    # Known of the same layer with cheap loads: 26 loads in 5 steps.
    expected = problem.cost(26, 5)
    assert (outcome.status, outcome.bound) == ("optimal", expected)
    assert max(bounds) <= expected


def test_what_is_known_already_ends_the_search() -> None:
    """A start that meets the bound is optimal at once; a bound from elsewhere is believed."""
    problem = layer_of()
    best = exact.solve(problem, RunContext(deadline=soon()))
    assert (best.status, best.bound) == ("optimal", 31)
    again = exact.solve(problem, RunContext(start=best.plan, bound=31, deadline=soon()))
    assert (again.status, again.bound, again.plan) == ("optimal", 31, best.plan)


@settings(max_examples=examples(60))
@given(problem=tiny())
def test_a_search_for_less_than_the_optimum_finds_nothing(problem: Problem) -> None:
    """Tables of any quality prune no best plan, and let none through that does not exist."""
    expected = optimum(problem)
    assume(expected is not None)
    assert expected is not None
    space = StateSpace(problem)
    levels = ObjectiveLevels(space)
    cost_to_go = CostToGo(space)
    watched = problem.max_loads == 2
    for slack in (None, 0, 0, 1, 3):
        if slack is not None:
            followed(cost_to_go.improve(slack, soon()))
        assert levels.value(cost_to_go.total) <= expected
        layered = all_plans(space, cost_to_go, levels.total(expected), soon(), watched=watched)
        assert layered.complete
        found = layered.plan()
        if problem.limits.reloads <= 2:
            assert violation(problem, found) is None
            assert objective(problem, found) == expected
            # One half of a unit below, too.
            less = all_plans(space, cost_to_go, levels.total(expected) - 1, soon(), watched=watched)
            assert not less.complete
        else:
            assert objective(problem, found) <= expected
        if watched:
            relaxed = all_plans(space, cost_to_go, levels.total(expected), soon())
            assert relaxed.complete
            assert objective(problem, relaxed.plan()) <= expected


@pytest.mark.by_day(1)
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layered_search, "PARAMS", LayeredParams(few=2, chunk=3))
    for problem, expected in ((layer_of((6, 6)), 48), (layer_of((5, 6), steps="free"), None)):
        alone = exact.solve(problem, RunContext(deadline=soon()))
        shared = exact.solve(problem, RunContext(deadline=soon(), threads=threads))
        assert shared.status == alone.status == "optimal"
        assert shared.bound == alone.bound == objective(problem, shared.plan)
        assert expected in (None, shared.bound)


def test_a_table_that_gets_too_small_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that were cut short are extended again, into the larger table."""
    sizes: list[int] = []
    original = LayeredSearch._table

    def small(self: LayeredSearch, size: int) -> Table:
        sizes.append(size)
        # Four times as large each time, 32 never gets to be what is made smaller here.
        return original(self, 32 if size == 1 << 12 else size)

    monkeypatch.setattr(LayeredSearch, "_table", small)
    outcome = exact.solve(layer_of((6, 6)), RunContext(deadline=soon()))
    assert (outcome.status, outcome.bound) == ("optimal", 48)
    assert any(size not in (1, 1 << 12) for size in sizes)
