"""Models that re-plan a part of a plan: what they say of all parts, of few, and of what must stay."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import pytest
from conftest import examples
from hypothesis import given, settings
from numbered import randoms

import tilewright as tw
from tilewright import drivers
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.core.neighbourhood import around
from tilewright.core.room import room_of
from tilewright.drivers.neighbourhoods import improve
from tilewright.heuristics.grouping import row_by_row, strips, windows

pytest.importorskip("ortools")


def planned(problem: Any, plan: Any, free: set[int], method: str) -> Any:
    """Return the outcome of a model around a plan."""
    name, _, solver = method.partition("@")
    formulation = catalogue.formulation(room_of(problem).name, name)
    context = RunContext(start=plan, deadline=time.monotonic() + 60)
    with around(plan, frozenset(free)):
        return drivers.load(solver).solve(problem, formulation, context, extras=False)


def a_layer(random: Random) -> Any:
    rows, columns = random.choice([(2, 3), (3, 3), (2, 4)])
    machine = {"group_size": random.randint(2, 3), "load": 1, "compute": random.choice([0, 2])}
    layer = {"input": [1, rows + 1, columns + 1], "kernels": 1, "kernel": [2, 2]}
    return tw.GroupingProblem(layer=layer, machine=machine, limits={"steps": "kmin"})


@settings(max_examples=examples(40))
@given(randoms)
def test_around_everything_is_the_whole_model(random: Random) -> None:
    problem = a_layer(random)
    found = planned(problem, row_by_row.plan(problem), set(range(problem.n_patches)), "gaps@cpsat")
    room = room_of(problem)
    assert room.violation(problem, found.plan) is None
    assert room.objective(problem, found.plan) == tw.solve(problem, "exact", time_limit=60).objective


@settings(max_examples=examples(40))
@given(randoms)
def test_what_is_not_free_stays_where_it_is(random: Random) -> None:
    problem = a_layer(random)
    plan = row_by_row.plan(problem)
    free = set(random.sample(range(problem.n_patches), random.randint(1, 4)))
    found = planned(problem, plan, free, "gaps@cpsat")
    before, after = plan.steps(problem), found.plan.steps(problem)
    assert all(before[i] == after[i] for i in range(problem.n_patches) if i not in free)
    room = room_of(problem)
    assert room.violation(problem, found.plan) is None
    assert room.objective(problem, found.plan) <= room.objective(problem, plan)


def test_windows_improve_a_layer_that_is_too_large_for_the_whole_model() -> None:
    problem = tw.read("lenet5-conv1-g20").problem
    start = strips.plan(problem)
    room = room_of(problem)
    better = room.objective(problem, start) - 1  # any better plan ends the search
    context = RunContext(start=start, deadline=time.monotonic() + 60, bound=better, improve=improve)
    found = windows.plan(problem, context)
    assert room.violation(problem, found) is None
    assert room.objective(problem, found) < room.objective(problem, start)
