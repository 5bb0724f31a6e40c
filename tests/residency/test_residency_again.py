"""Operations that are executed twice: which ones is proven, and what they compute is the same."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from conftest import examples, thorough
from residency_cases import copies, enumerated, problem_of, random_network

from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.residency import Plan, Problem, best_bound, objective, simulate, traffic_curve, violation
from tilewright.residency.exact.recompute import search_recompute
from tilewright.residency.exact.traffic import least_traffic
from tilewright.residency.recompute_graph import problem_with_copies
from tilewright.run import instance
from tilewright.spec.errors import InputError

NEVER = float("inf")
TWICE = {"executions": 2}

BRANCH = {
    "layers": [
        {"name": "a", "input": [1, 8, 6], "kernels": 4, "kernel": [1, 1]},
        {"name": "b", "input": [4, 8, 6], "kernels": 1, "kernel": [3, 3], "stride": [2, 1]},
        {"name": "d", "kind": "pool", "inputs": ["a"], "input": [4, 8, 6], "kernel": [2, 2]},
    ]
}
"""A map of 192 elements, made of an input of 48 by 4 weights, that a convolution and a pool read."""


def ignore(_told: Any) -> None:
    """Take what is told of a search."""


def random_problem(rng: random.Random, most: int, **limits: Any) -> Problem:
    """Return a problem with branches, in a memory in which little stays."""
    while True:
        network = random_network(rng, most)
        try:
            whole = problem_of(network, 10_000)
        except InputError:
            continue
        if not any(mask & (mask - 1) for mask in whole.graph.readers[1:]):
            continue
        least = whole.least_memory
        everything = sum(tensor.size for tensor in whole.graph.tensors)
        memory = rng.randint(least, least + max(1, everything // 2))
        machine = {"memory_bytes": memory, "sum_bytes": rng.choice([1, 4])}
        with suppress(InputError):
            return Problem.model_validate({"network": network, "machine": machine, "limits": TWICE | limits})


def survives(problem: Problem, plan: Plan) -> None:
    """Execute a plan; its cost must be that of the closed form."""
    assert violation(problem, plan) is None
    report = simulate(problem, plan, numeric=True)
    assert report.violation is None and report.numeric is True
    assert report.measures.traffic_bytes == objective(problem, plan)
    assert (report.measures.executed_again or []) == list(plan.again)
    assert report.measures.compulsory_bytes == problem.graph.compulsory * problem.machine.element_bytes
    assert Plan.from_json(plan.to_json()) == plan


def agrees(problem: Problem, *, first: bool = True) -> bool:
    """Compare with the search for each set of copies; return whether it is worth having any."""
    bounds: list[int] = []
    answer = search_recompute(problem, NEVER, bounds.append, ignore)
    moved = {
        tuple(again.items()): least_traffic(problem_with_copies(problem, again), NEVER, ignore, ignore).bound
        for again in copies(problem, first=first)
    }
    assert answer.bound == min(moved.values()) >= best_bound(problem).value
    assert bounds == sorted(bounds) and bounds[-1] == answer.bound
    assert answer.plan is not None
    survives(problem, answer.plan)
    return min(moved.values()) < moved[()]


@pytest.mark.parametrize("seed", range(examples(40)))
def test_branch_and_bound_finds_the_best_of_all_copies(seed: int) -> None:
    agrees(random_problem(random.Random(30_000 + seed), 4))


@thorough
@pytest.mark.parametrize("seed", range(300))
def test_branch_and_bound_finds_the_best_of_all_copies_of_more(seed: int) -> None:
    rng = random.Random(40_000 + seed)
    limits: dict[str, Any] = {"tiles": rng.random() < 0.7}
    if rng.random() < 0.3:
        limits |= {"order": "given"}
    if rng.random() < 0.3:
        limits |= {"most_operations": rng.randint(1, 3)}
    agrees(random_problem(rng, 5, **limits), first="order" in limits)


@thorough
@pytest.mark.parametrize("seed", range(60))
def test_the_bound_agrees_with_enumeration(seed: int) -> None:
    problem = random_problem(random.Random(50_000 + seed), 3)
    answer = search_recompute(problem, NEVER, ignore, ignore)
    moved = [enumerated(problem_with_copies(problem, again)) for again in copies(problem, first=True)]
    assert answer.bound == min(each for each in moved if each is not None)


def branch(memory: int, **limits: Any) -> Problem:
    """Return the branch in a memory."""
    tables = {"network": BRANCH, "machine": {"memory_bytes": memory}, "limits": TWICE | limits}
    return Problem.model_validate(tables)


def best(problem: Problem) -> Plan:
    """Return the best plan."""
    answer = search_recompute(problem, NEVER, ignore, ignore)
    assert answer.plan is not None and objective(problem, answer.plan) == answer.bound
    survives(problem, answer.plan)
    return answer.plan


def test_a_map_that_is_cheap_to_compute_is_computed_twice() -> None:
    """The input of 48 and four weights are loaded again instead of writing and reading 192."""
    problem = branch(140)
    plan = best(problem)
    assert plan.again == {"a": ("d",)}
    assert [step.operations for step in plan.steps] == [("a again", "d"), ("a", "b")]
    assert objective(problem, plan) == problem.graph.compulsory + 4  # the whole input stays on chip
    assert objective(branch(100), best(branch(100))) == problem.graph.compulsory + 48 + 4 + 48
    once = least_traffic(branch(140, executions=1), NEVER, ignore, ignore)
    assert once.bound == problem.graph.compulsory + 2 * 192
    loaded = simulate(problem, plan).loaded
    assert loaded["weights of a"].tolist() == [4, 4] and "weights of a again" not in loaded


def test_nothing_is_computed_twice_where_there_is_room() -> None:
    problem = branch(10_000)
    assert not best(problem).again


def test_names_of_copies_are_new() -> None:
    table = {"layers": [dict(layer) for layer in BRANCH["layers"]]}
    table["layers"][0]["name"], table["layers"][1]["name"] = "d again", "d again again"
    table["layers"][2]["inputs"] = ["d again"]
    problem = branch(140).with_(network=table)
    plan = best(problem)
    assert plan.again == {"d again": ("d",)}
    assert plan.steps[0].operations == ("d again again again", "d")


@pytest.mark.parametrize(
    ("again", "broken"),
    [
        ({"a": ("d",), "b": ("d",)}, "again: d does not read b"),
        ({"a": ("b", "d")}, "again: nobody reads what the first execution of a"),
        ({"a": ()}, "again: nobody reads what the second execution of a"),
        ({"a": ("d", "d")}, "again: d does not read a, or is named twice"),
        ({"a": ("nobody",)}, "again: nobody does not read a"),
        ({"input": ("a",)}, "again: unknown operation input"),
        ({"d": ("a",)}, "again: a does not read d"),
        ({"a": ("d",), "a again": ("d",)}, "again: unknown operation a again"),
        ({"a": ("b",)}, "order: step 1 (a again, d) needs a, which no earlier step"),
        ({}, "operations: step 1 (a again, d) has the unknown operation a again"),
    ],
)
def test_copies_that_cannot_be_are_refused(again: dict[str, tuple[str, ...]], broken: str) -> None:
    problem = branch(140)
    plan = replace(best(problem), again=again)
    assert str(violation(problem, plan)).startswith(broken)
    report = simulate(problem, plan)
    assert report.violation is not None and not report.valid


def test_mistakes_in_steps_of_copies_are_found() -> None:
    problem = branch(140)
    plan = best(problem)
    first, second = plan.steps
    assert violation(problem, replace(plan, steps=(first, second, first))) == (
        "operations: step 3 (a again, d) has a again, which has been executed"
    )
    assert violation(problem, replace(plan, steps=(second,))) == "operations: no step has a again, d"
    third = replace(first, operations=("a again", "a", "d"))
    assert "a behind a later one" in str(violation(problem, replace(plan, steps=(third, second))))
    assert "limits.executions" in str(violation(branch(140, executions=1), plan))
    moved = replace(first, addresses=first.addresses | {"weights of a again": 139})
    assert "weights of a again takes elements 139" in str(
        violation(problem, replace(plan, steps=(moved, second)))
    )


def test_files_say_who_reads_a_copy() -> None:
    data = best(branch(140)).to_json()
    assert data["again"] == {"a": ["d"]}
    for wrong, field in (
        ([], r"plan\.again"),
        ({"a": "d"}, r"plan\.again\.a"),
        ({"a": [1]}, r"plan\.again\.a"),
    ):
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


def test_there_is_no_curve() -> None:
    with pytest.raises(InputError, match=r"limits\.executions.*no curve"):
        traffic_curve(branch(140))


def test_rules_and_the_exact_method_take_it() -> None:
    problem = branch(140)
    for name in catalogue.heuristics("residency"):
        plan = catalogue.heuristic("residency", name).plan(problem)
        assert not plan.again and violation(problem, plan) is None
    method = catalogue.formulation("residency", "states")
    assert method is not None
    outcome = method.solve(problem, RunContext())
    assert outcome.status == "optimal" and outcome.plan.again == {"a": ("d",)}


def test_bounds_hold_at_any_time() -> None:
    problem = instance.read("resnet8-again").problem
    for seconds in (0.0, 0.5, 2.0):
        bounds: list[int] = []
        plans: list[Plan] = []
        answer = search_recompute(problem, time.monotonic() + seconds, bounds.append, plans.append)
        assert 80_788 <= answer.bound <= 122_868 and bounds == sorted(bounds)
        assert all(objective(problem, plan) >= 122_868 for plan in plans)


@thorough
@pytest.mark.parametrize(("memory", "traffic"), [(16_384, 122_868), (32_768, 85_876), (65_536, 80_788)])
def test_resnet8_computes_its_first_block_twice(memory: int, traffic: int) -> None:
    problem = instance.read("resnet8-again").problem.with_(machine={"memory_bytes": memory})
    plan = best(problem)
    assert objective(problem, plan) == traffic
    assert bool(plan.again) == (traffic > 80_788)
