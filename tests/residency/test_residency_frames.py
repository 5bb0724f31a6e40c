"""Weights that stay on chip from frame to frame: which ones is proven, and they are there in every frame."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from conftest import examples, thorough
from residency_cases import enumerated, problem_of, random_network, subsets

from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.residency import Plan, Problem, best_bound, objective, simulate, traffic_curve, violation
from tilewright.residency.exact.resident_weights import search_resident_weights
from tilewright.residency.exact.traffic import least_traffic
from tilewright.residency.frames import add_staying, largest_subset_sum, residual_problem
from tilewright.run import instance
from tilewright.spec.errors import InputError

NEVER = float("inf")
MANY = {"frames": "many"}

PAIR = {
    "layers": [
        {"name": "a", "input": [2, 6, 6], "kernels": 3, "kernel": [3, 3]},
        {"name": "b", "input": [3, 4, 4], "kernels": 4, "kernel": [3, 3], "bias": True},
    ]
}
"""Weights of 54 and 112 elements; a map of 48 between an input of 72 and an output of 16."""


def ignore(_told: Any) -> None:
    """Take what is told of a search."""


def random_problem(rng: random.Random, most: int) -> Problem:
    """Return a problem with a memory between the least and that of everything."""
    while True:
        network = random_network(rng, most)
        try:
            whole = problem_of(network, 10_000)
        except InputError:
            continue
        least = whole.least_memory
        everything = sum(tensor.size for tensor in whole.graph.tensors)
        everything += sum(operation.weights for operation in whole.graph.operations)
        memory = rng.randint(least, least + max(1, everything // 2))
        machine = {"memory_bytes": memory, "sum_bytes": rng.choice([1, 4])}
        return Problem.model_validate({"network": network, "machine": machine, "limits": MANY})


def choices(problem: Problem) -> list[tuple[int, ...]]:
    """Return all sets of operations whose weights may stay in the memory."""
    found = []
    for numbers in subsets([op.number for op in problem.graph.operations if op.weights]):
        try:
            residual_problem(problem, numbers)
        except InputError:
            continue
        found.append(numbers)
    return found


def survives(problem: Problem, plan: Plan) -> None:
    """Execute two frames of a plan; its cost must be that of the closed form."""
    assert violation(problem, plan) is None
    report = simulate(problem, plan, numeric=True)
    assert report.violation is None and report.numeric is True
    assert report.measures.traffic_bytes == objective(problem, plan)
    assert Plan.from_json(plan.to_json()) == plan
    sizes = {op.name: op.weights for op in problem.graph.operations if op.name in plan.staying}
    assert (report.measures.staying_bytes or {}) == sizes
    assert not any(f"weights of {name}" in report.loaded for name in sizes)


def found(problem: Problem) -> Plan:
    """Return the best plan."""
    answer = search_resident_weights(problem, NEVER, ignore, ignore)
    assert answer.plan is not None
    survives(problem, answer.plan)
    assert objective(problem, answer.plan) == answer.bound >= best_bound(problem).value
    return answer.plan


def enumerates(rng: random.Random, most: int) -> None:
    """Compare with all plans for all sets of weights that stay."""
    problem = random_problem(rng, most)
    answer = search_resident_weights(problem, NEVER, ignore, ignore)
    moved = [enumerated(residual_problem(problem, numbers)) for numbers in choices(problem)]
    assert answer.bound == min(each for each in moved if each is not None)
    assert answer.plan is not None
    survives(problem, answer.plan)


@pytest.mark.parametrize("seed", range(examples(40)))
def test_the_choice_agrees_with_enumeration(seed: int) -> None:
    enumerates(random.Random(2_000 + seed), 3)


@thorough
@pytest.mark.parametrize("seed", range(1000, 1030))
def test_the_choice_agrees_with_enumeration_of_more(seed: int) -> None:
    enumerates(random.Random(seed), 4)


@pytest.mark.parametrize("seed", range(examples(48)))
def test_branch_and_bound_finds_the_best_of_all_sets(seed: int) -> None:
    """Each set by itself is searched as for one frame, in the memory that it leaves."""
    problem = random_problem(random.Random(10_000 + seed), 6)
    answer = search_resident_weights(problem, NEVER, ignore, ignore)
    bounds = [
        least_traffic(residual_problem(problem, numbers), NEVER, ignore, ignore).bound
        for numbers in choices(problem)
    ]
    assert answer.bound == min(bounds) >= best_bound(problem).value
    assert answer.plan is not None
    survives(problem, answer.plan)


@pytest.mark.parametrize("seed", range(examples(80)))
def test_any_weights_that_stay_are_there_in_every_frame(seed: int) -> None:
    rng = random.Random(20_000 + seed)
    problem = random_problem(rng, 6)
    numbers = rng.choice(choices(problem))
    plan = least_traffic(residual_problem(problem, numbers), NEVER, ignore, ignore).plan
    assert plan is not None
    survives(problem, add_staying(problem, numbers, plan))


def test_all_weights_stay_where_there_is_room() -> None:
    problem = problem_of(PAIR, 400, limits=MANY)
    plan = found(problem)
    assert plan.staying.keys() == {"a", "b"}
    assert objective(problem, plan) == best_bound(problem).value == 72 + 64 - 48


def test_single_elements_run_in_the_place_of_an_operand() -> None:
    """A product of single elements takes two of them, not three: the weight can stay in the third."""
    one = {"input": [1, 1, 1], "kernel": [1, 1]}
    layers = [
        {"name": "a", "kind": "pool", "op": "max", "inputs": ["input"], **one},
        {"name": "b", "kind": "mul", "inputs": ["input", "a"], "input": [1, 1, 1]},
        {"name": "c", "kind": "fc", "inputs": ["b"], "kernels": 1, "bias": False, **one},
    ]
    problem = problem_of({"layers": layers}, 3, limits={"frames": "many"})
    answer = search_resident_weights(problem, NEVER, ignore, ignore)
    assert best_bound(problem).value == answer.bound == 2
    assert answer.plan is not None
    assert simulate(problem, answer.plan, numeric=True).numeric and objective(problem, answer.plan) == 2
    with pytest.raises(InputError, match="3 are the least"):  # a result of the network goes out to DRAM
        problem_of({"layers": layers[:2]}, 2)


def test_a_map_goes_out_to_dram_so_that_weights_can_stay() -> None:
    """The map of 48 is written and read, and 112 weights are not loaded."""
    plans = {memory: found(problem_of(PAIR, memory, limits=MANY)) for memory in (200, 210)}
    assert plans[200].staying.keys() == {"a"} and plans[210].staying.keys() == {"a", "b"}
    moved = [objective(problem_of(PAIR, memory, limits=MANY), plan) for memory, plan in plans.items()]
    assert moved == [72 + 16 + 112, 72 + 16 + 2 * 48]
    assert plans[210].steps[0].written == ("a",)


@thorough
@pytest.mark.parametrize(
    ("network", "memory", "traffic"), [("resnet8-64k", 65_536, 40_010), ("ds-cnn-frames", 32_768, 6_466)]
)
def test_bundled_networks(network: str, memory: int, traffic: int) -> None:
    problem = instance.read(network).problem.with_(machine={"memory_bytes": memory}, limits=MANY)
    assert objective(problem, found(problem)) == traffic


def test_what_overwrites_weights_that_stay_is_a_violation() -> None:
    problem = problem_of(PAIR, 190, limits=MANY)
    plan = found(problem)
    for address in (plan.staying["a"] + 30, 189):
        moved = replace(plan, staying={"a": address})
        assert violation(problem, moved) is not None
        report = simulate(problem, moved, numeric=True)
        assert report.violation is not None and report.violation.rule == "address"
        assert "weights of a" in (report.violation.tensor, *report.violation.needed.split(" of ", 1))


def test_weights_stay_for_many_frames_only_and_where_there_are_some() -> None:
    problem = problem_of(PAIR, 190, limits=MANY)
    plan = found(problem)
    assert "for many frames" in str(violation(problem.with_(limits={"frames": "one"}), plan))
    assert "weights: c has none" in str(violation(problem, replace(plan, staying={"c": 0})))
    both = replace(plan, staying={"a": 0, "b": 54})
    problem = problem.with_(machine={"memory_bytes": 170})
    assert "166 bytes of weights stay on chip" in str(violation(problem, both))
    data = plan.to_json()
    data["staying"]["a"] = -1
    with pytest.raises(InputError, match=r"plan\.staying\.a = -1"):
        Plan.from_json(data)


@pytest.mark.parametrize(
    "objective", [{"minimise": "memory"}, {"minimise": ["traffic", "cycles"]}, {"most_cycles": 10**9}]
)
def test_other_objectives_are_for_one_frame(objective: Any) -> None:
    with pytest.raises(InputError, match=r"limits\.frames = .many.*least traffic of a frame"):
        problem_of(PAIR, 400, limits=MANY, objective=objective)


def test_there_is_no_curve_for_many_frames() -> None:
    with pytest.raises(InputError, match=r"limits\.frames.*no curve"):
        traffic_curve(problem_of(PAIR, 400, limits=MANY))


def test_rules_and_the_exact_method_take_many_frames() -> None:
    problem = problem_of(PAIR, 190, limits=MANY)
    for name in catalogue.heuristics("residency"):
        plan = catalogue.heuristic("residency", name).plan(problem)
        assert not plan.staying
        survives(problem, plan)
    outcome = catalogue.formulation("residency", "states").solve(problem, RunContext())
    assert outcome.status == "optimal" and outcome.plan.staying.keys() == {"a"}
    assert not catalogue.formulation("residency", "intervals").suits(problem)


def test_sums_up_to_a_limit() -> None:
    rng = random.Random(3)
    for _ in range(200):
        sizes = [rng.randint(1, 30) for _ in range(rng.randint(0, 7))]
        limit = rng.randint(0, 120)
        assert largest_subset_sum(sizes, limit) == max(
            total for some in subsets(sizes) if (total := sum(some)) <= limit
        )
