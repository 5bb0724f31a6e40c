"""Weights that stay on chip from frame to frame: which ones is proven, and they are there in every frame."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from conftest import examples, nightly, tells
from residency_cases import (
    NEVER,
    ignore,
    in_some_memory,
    optimum,
    problem_of,
    random_problem,
    search,
    subsets,
    survives,
)
from tests.fuzz import networks

from tilewright.residency import Plan, Problem, best_bound, objective, simulate, traffic_curve, violation
from tilewright.residency.derived_problems import add_staying, largest_subset_sum, residual_problem
from tilewright.residency.exact.resident_weights import search_resident_weights
from tilewright.run import instance
from tilewright.spec.errors import InputError

MANY = {"frames": "many"}

PAIR = {
    "layers": [
        {"name": "a", "input": [2, 6, 6], "kernels": 3, "kernel": [3, 3]},
        {"name": "b", "input": [3, 4, 4], "kernels": 4, "kernel": [3, 3], "bias": True},
    ]
}
"""Weights of 54 and 112 elements; a map of 48 between an input of 72 and an output of 16."""


def pair(memory: int, **rest: Any) -> Problem:
    """Return the pair in a memory."""
    return problem_of(PAIR, memory, limits=MANY, **rest)


def random_frames(rng: random.Random) -> tuple[Problem, dict[tuple[int, ...], Problem]]:
    """Return a problem, and what is left of it for each set of weights that may stay in the memory."""
    problem = random_problem(rng, 6, machine={"sum_bytes": rng.choice([1, 4])}, limits=MANY)
    left = {}
    for numbers in subsets([op.number for op in problem.graph.operations if op.weights]):
        try:
            left[numbers] = residual_problem(problem, numbers)
        except InputError:
            continue
    return problem, left


@pytest.mark.by_day(5)
@pytest.mark.parametrize("seed", range(examples(120)))
def test_branch_and_bound_finds_the_best_of_all_sets(seed: int) -> None:
    """Each set by itself is searched as for one frame, in the memory that it leaves."""
    problem, left = random_frames(random.Random(10_000 + seed))
    answer = search_resident_weights(problem, NEVER, ignore, ignore)
    assert answer.bound == min(search(each).bound for each in left.values()) >= best_bound(problem).value
    survives(problem, answer.plan)


@pytest.mark.by_day(6)
@pytest.mark.parametrize("seed", range(examples(80)))
def test_any_weights_that_stay_are_there_in_every_frame(seed: int) -> None:
    rng = random.Random(20_000 + seed)
    problem, left = random_frames(rng)
    numbers = rng.choice(list(left))
    plan = search(left[numbers]).plan
    assert plan is not None
    survives(problem, add_staying(problem, numbers, plan))


def test_all_weights_stay_where_there_is_room() -> None:
    plan = optimum(pair(400))
    assert plan.staying.keys() == {"a", "b"}
    assert objective(pair(400), plan) == best_bound(pair(400)).value == 72 + 64 - 48


def test_single_elements_run_in_the_place_of_an_operand() -> None:
    """A product of single elements takes two of them, not three: the weight can stay in the third."""
    one = {"input": [1, 1, 1], "kernel": [1, 1]}
    layers = [
        {"name": "a", "kind": "pool", "op": "max", "inputs": ["input"], **one},
        {"name": "b", "kind": "mul", "inputs": ["input", "a"], "input": [1, 1, 1]},
        {"name": "c", "kind": "fc", "inputs": ["b"], "kernels": 1, "bias": False, **one},
    ]
    problem = problem_of({"layers": layers}, 3, limits=MANY)
    assert objective(problem, optimum(problem)) == best_bound(problem).value == 2
    with pytest.raises(InputError, match="3 are the least"):  # a result of the network goes out to DRAM
        problem_of({"layers": layers[:2]}, 2)


def test_a_map_goes_out_to_dram_so_that_weights_can_stay() -> None:
    """The map of 48 is written and read, and 112 weights are not loaded."""
    plans = {memory: optimum(pair(memory)) for memory in (190, 200, 210)}
    assert [set(plan.staying) for plan in plans.values()] == [{"a"}, {"a"}, {"a", "b"}]
    moved = [objective(pair(memory), plans[memory]) for memory in (200, 210)]
    assert moved == [72 + 16 + 112, 72 + 16 + 2 * 48]
    assert plans[210].steps[0].written == ("a",)


@nightly
@pytest.mark.parametrize(
    ("network", "memory", "traffic"), [("resnet8-64k", 65_536, 40_010), ("ds-cnn-frames", 32_768, 6_466)]
)
def test_bundled_networks(network: str, memory: int, traffic: int) -> None:
    problem = instance.read(network).problem.with_(machine={"memory_bytes": memory}, limits=MANY)
    assert objective(problem, optimum(problem)) == traffic


def test_what_overwrites_weights_that_stay_is_a_violation() -> None:
    plan = optimum(pair(190))
    for address in (plan.staying["a"] + 30, 189):
        moved = replace(plan, staying={"a": address})
        assert violation(pair(190), moved) is not None
        report = simulate(pair(190), moved, numeric=True)
        assert report.violation is not None and report.violation.rule == "address"
        assert "weights of a" in (report.violation.tensor, *report.violation.needed.split(" of ", 1))


def test_weights_stay_for_many_frames_only_and_where_there_are_some() -> None:
    problem = pair(190)
    plan = optimum(problem)
    assert tells(violation(problem.with_(limits={"frames": "one"}), plan), "weights .. many frames")
    assert tells(violation(problem, replace(plan, staying={"c": 0})), "weights .. c .. none")
    both = replace(plan, staying={"a": 0, "b": 54})
    assert tells(violation(pair(170), both), "166 bytes of weights")
    data = plan.to_json()
    data["staying"]["a"] = -1
    with pytest.raises(InputError, match=r"plan\.staying\.a = -1"):
        Plan.from_json(data)


@pytest.mark.parametrize(
    "objective", [{"minimise": "memory"}, {"minimise": ["traffic", "cycles"]}, {"most_cycles": 10**9}]
)
def test_other_objectives_and_the_curve_are_for_one_frame(objective: Any) -> None:
    with pytest.raises(InputError, match=r"limits\.frames = .many.*least traffic of a frame"):
        pair(400, objective=objective)
    with pytest.raises(InputError, match=r"limits\.frames.*no curve"):
        traffic_curve(pair(400))


def test_sums_up_to_a_limit() -> None:
    rng = random.Random(3)
    for _ in range(200):
        sizes = [rng.randint(1, 30) for _ in range(rng.randint(0, 7))]
        limit = rng.randint(0, 120)
        assert largest_subset_sum(sizes, limit) == max(
            total for some in subsets(sizes) if (total := sum(some)) <= limit
        )


@pytest.mark.by_day(12)
@pytest.mark.parametrize("seed", range(120))
def test_stored_numbers_of_places_are_weights_that_may_stay(seed: int) -> None:
    rng = random.Random(f"frames of places {seed}")
    network, _ = networks.ByRows(rng).networks()
    problem = in_some_memory(rng, problem_of(network, 2**20, limits=MANY))
    plan = optimum(problem)
    assert best_bound(problem).value <= objective(problem, plan)
