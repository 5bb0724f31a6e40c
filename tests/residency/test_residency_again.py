"""Operations that are executed twice: which ones is proven, and what they compute is the same."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest
from conftest import examples, thorough
from residency_cases import copies, enumerated, problem_of, random_network

from tilewright.residency import Plan, Problem, best_bound, objective, simulate, violation
from tilewright.residency.again import repeated
from tilewright.residency.exact.best import least_traffic
from tilewright.residency.exact.twice import least_traffic_of_two
from tilewright.spec.errors import InputError

NEVER = float("inf")
TWICE = {"executions": 2}

BRANCH = {
    "layers": [
        {"name": "a", "input": [1, 6, 6], "kernels": 4, "kernel": [1, 1]},
        {"name": "b", "input": [4, 6, 6], "kernels": 1, "kernel": [5, 5]},
        {"name": "c", "input": [1, 2, 2], "kernels": 4, "kernel": [1, 1]},
        {"name": "d", "inputs": ["a"], "input": [4, 6, 6], "kernels": 4, "kernel": [5, 5], "groups": 4},
        {"name": "e", "kind": "add", "inputs": ["c", "d"], "input": [4, 2, 2]},
    ]
}
"""A map of 144 elements, made of an input of 36 by 4 weights, that two convolutions read."""


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
        least = max(whole.least.values())
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
    assert report.facts["traffic"] == objective(problem, plan)
    assert report.facts.get("again", []) == list(plan.again)
    assert report.facts["compulsory"] == problem.graph.compulsory * problem.machine.element_bytes
    assert Plan.from_json(plan.to_json()) == plan


def agrees(problem: Problem, *, first: bool = True) -> bool:
    """Compare with the search for each set of copies; return whether it is worth having any."""
    bounds: list[int] = []
    answer = least_traffic_of_two(problem, NEVER, bounds.append, ignore)
    moved = {
        tuple(again): least_traffic(repeated(problem, again), NEVER, ignore, ignore).bound
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
    answer = least_traffic_of_two(problem, NEVER, ignore, ignore)
    moved = [enumerated(repeated(problem, again)) for again in copies(problem, first=True)]
    assert answer.bound == min(each for each in moved if each is not None)
