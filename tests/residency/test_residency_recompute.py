"""Operations that are executed twice: which ones is proven, and what they compute is the same."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import Any

import pytest
from conftest import examples, nightly, tells
from residency_cases import NEVER, copies, ignore, optimum, problem_of, random_problem, search, survives

from tilewright.residency import Plan, Problem, best_bound, objective, simulate, traffic_curve, violation
from tilewright.residency.derived_problems import problem_with_copies
from tilewright.residency.exact.recompute import search_recompute
from tilewright.run import instance
from tilewright.spec.errors import InputError

BRANCH = {
    "layers": [
        {"name": "a", "input": [1, 8, 6], "kernels": 4, "kernel": [1, 1]},
        {"name": "b", "input": [4, 8, 6], "kernels": 1, "kernel": [3, 3], "stride": [2, 1]},
        {"name": "d", "kind": "pool", "inputs": ["a"], "input": [4, 8, 6], "kernel": [2, 2]},
    ]
}
"""A map of 192 elements, made of an input of 48 by 4 weights, that a convolution and a pool read."""


def branch(memory: int, **limits: Any) -> Problem:
    """Return the branch in a memory."""
    return problem_of(BRANCH, memory, limits={"executions": 2} | limits)


def branches(seed: int, most: int, **limits: Any) -> Problem:
    """Return a network with branches, in a memory in which little stays."""
    rng = random.Random(seed)
    machine = {"sum_bytes": rng.choice([1, 4])}
    return random_problem(rng, most, branches=True, machine=machine, limits={"executions": 2} | limits)


def agrees(problem: Problem, *, first: bool = True) -> None:
    """Compare with the search for each set of copies."""
    bounds: list[int] = []
    answer = search_recompute(problem, NEVER, bounds.append, ignore)
    moved = [search(problem_with_copies(problem, again)).bound for again in copies(problem, first=first)]
    assert answer.bound == min(moved) >= best_bound(problem).value
    assert bounds == sorted(bounds) and bounds[-1] == answer.bound
    survives(problem, answer.plan)


@pytest.mark.by_day(6)
@pytest.mark.parametrize("seed", range(examples(40)))
def test_branch_and_bound_finds_the_best_of_all_copies(seed: int) -> None:
    agrees(branches(30_000 + seed, 4))


@nightly
@pytest.mark.parametrize("seed", range(300))
def test_branch_and_bound_finds_the_best_of_all_copies_of_more(seed: int) -> None:
    rng = random.Random(40_000 + seed)
    limits: dict[str, Any] = {"tiles": rng.random() < 0.7}
    if rng.random() < 0.3:
        limits |= {"order": "given"}
    if rng.random() < 0.3:
        limits |= {"most_operations": rng.randint(1, 3)}
    agrees(branches(40_000 + seed, 5, **limits), first="order" in limits)


def test_a_map_that_is_cheap_to_compute_is_computed_twice() -> None:
    """The input of 48 and four weights are loaded again instead of writing and reading 192."""
    problem = branch(140)
    plan = optimum(problem)
    assert plan.again == {"a": ("d",)} and plan.to_json()["again"] == {"a": ["d"]}
    assert [step.operations for step in plan.steps] == [("a again", "d"), ("a", "b")]
    assert objective(problem, plan) == problem.graph.compulsory + 4  # the whole input stays on chip
    assert objective(branch(100), optimum(branch(100))) == problem.graph.compulsory + 48 + 4 + 48
    assert search(branch(140, executions=1)).bound == problem.graph.compulsory + 2 * 192
    report = simulate(problem, plan)
    assert report.measures.compulsory_bytes == problem.graph.compulsory
    assert report.loaded["weights of a"].tolist() == [4, 4] and "weights of a again" not in report.loaded


def test_nothing_is_computed_twice_where_there_is_room() -> None:
    assert not optimum(branch(10_000)).again


def test_names_of_copies_are_new() -> None:
    table = {"layers": [dict(layer) for layer in BRANCH["layers"]]}
    table["layers"][0]["name"], table["layers"][1]["name"] = "d again", "d again again"
    table["layers"][2]["inputs"] = ["d again"]
    plan = optimum(branch(140).with_(network=table))
    assert plan.again == {"d again": ("d",)}
    assert plan.steps[0].operations == ("d again again again", "d")


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("again", "broken"),
    [
        ({"a": ("d",), "b": ("d",)}, "again .. d .. b"),
        ({"a": ("b", "d")}, "again .. first execution of a"),
        ({"a": ()}, "again .. second execution of a"),
        ({"a": ("d", "d")}, "again .. d .. a .. twice"),
        ({"a": ("nobody",)}, "again .. nobody .. a"),
        ({"input": ("a",)}, "again .. unknown operation input"),
        ({"d": ("a",)}, "again .. a .. d"),
        ({"a": ("d",), "a again": ("d",)}, "again .. unknown operation a again"),
        ({"a": ("b",)}, "order .. step 1 (a again, d) .. a .. earlier"),
        ({}, "operations .. step 1 (a again, d) .. operation a again"),
    ],
)
def test_copies_that_cannot_be_are_refused(again: dict[str, tuple[str, ...]], broken: str) -> None:
    problem = branch(140)
    plan = replace(optimum(problem), again=again)
    assert tells(violation(problem, plan), broken)
    report = simulate(problem, plan)
    assert report.violation is not None and not report.valid


def test_mistakes_in_steps_of_copies_are_found() -> None:
    problem = branch(140)
    plan = optimum(problem)
    first, second = plan.steps
    swapped = replace(first, operations=("a again", "a", "d"))
    moved = replace(first, addresses=first.addresses | {"weights of a again": 139})
    for steps, broken in (
        ((first, second, first), "operations .. step 3 (a again, d) .. a again .. executed"),
        ((second,), "operations .. no step .. a again, d"),
        ((swapped, second), "operations .. step 1 .. a .. later"),
        ((moved, second), "weights of a again .. 139"),
    ):
        assert tells(violation(problem, replace(plan, steps=steps)), broken)
    assert "limits.executions" in str(violation(branch(140, executions=1), plan))


@pytest.mark.parametrize(
    ("wrong", "field"),
    [([], r"plan\.again"), ({"a": "d"}, r"plan\.again\.a"), ({"a": [1]}, r"plan\.again\.a")],
)
def test_files_say_who_reads_a_copy(wrong: Any, field: str) -> None:
    data = optimum(branch(140)).to_json()
    with pytest.raises(InputError, match=field):
        Plan.from_json({**data, "again": wrong})


@pytest.mark.parametrize(
    "tables",
    [
        {"objective": {"minimise": "cycles"}},
        {"objective": {"minimise": "memory"}},
        {"objective": {"minimise": ["traffic", "cycles"]}},
        {"objective": {"most_cycles": 10**6}},
        {"limits": {"frames": "many"}},
        {"limits": {"executions": 3}},
    ],
)
def test_what_is_not_searched_for_is_refused(tables: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"limits\.executions"):
        branch(140).with_(**tables)
    with pytest.raises(InputError, match=r"limits\.executions.*no curve"):
        traffic_curve(branch(140))


@pytest.mark.nightly
def test_bounds_hold_at_any_time() -> None:
    problem = instance.read("resnet8-again").problem
    for seconds in (0.0, 0.5, 2.0):
        bounds: list[int] = []
        plans: list[Plan] = []
        answer = search_recompute(problem, time.monotonic() + seconds, bounds.append, plans.append)
        assert 80_788 <= answer.bound <= 122_868 and bounds == sorted(bounds)
        assert all(objective(problem, plan) >= 122_868 for plan in plans)


@nightly
@pytest.mark.parametrize(("memory", "traffic"), [(16_384, 122_868), (32_768, 85_876), (65_536, 80_788)])
def test_resnet8_computes_its_first_block_twice(memory: int, traffic: int) -> None:
    problem = instance.read("resnet8-again").problem.with_(machine={"memory_bytes": memory})
    plan = optimum(problem)
    assert objective(problem, plan) == traffic
    assert bool(plan.again) == (traffic > 80_788)
