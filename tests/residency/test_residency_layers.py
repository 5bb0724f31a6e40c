"""The search layer by layer agrees with A* from state to state; its bounds hold whenever it is stopped."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from conftest import examples
from residency_cases import NEVER, ignore, problem_of, random_problem, survives

from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.residency import Problem, objective
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.exact.layers import Layers
from tilewright.residency.exact.traffic import label_search, layered_search, least_traffic
from tilewright.residency.placement import place_steps
from tilewright.residency.shapes.groups import Groups, group_mask
from tilewright.residency.shapes.pareto_shapes import Limits, pareto_shapes


def layers(problem: Problem) -> Layers:
    most = sum(problem.layer_by_layer.values())
    return layered_search(problem, problem.machine.capacity, most, NEVER)


def dense(rng: random.Random, count: int = 4) -> Problem:
    """Return a network in which each layer reads all before it, so that many tensors are alike."""
    names, rows = ["input"], [rng.randint(2, 4), rng.randint(2, 4)]
    found: list[dict[str, Any]] = []
    for number in range(count):
        shape = [2 * len(names), *rows]
        layer = {"name": f"d{number}", "inputs": list(names), "input": shape, "kernels": 2}
        found.append(layer | {"kernel": [1, 1]})
        names.append(f"d{number}")
    least = problem_of({"layers": found}, 10_000).least_memory
    return problem_of({"layers": found}, least + rng.randint(0, 2 * count * rows[0] * rows[1]))


def agrees(problem: Problem) -> None:
    """Compare with A*, at the end and after each search on the way."""
    capacity, most = problem.machine.capacity, sum(problem.layer_by_layer.values())
    least = next(label_search(problem, capacity, most, NEVER).paths()).cost
    search, plans = layers(problem), []
    assert search.bound <= least
    for found in search.plans():
        assert search.bound <= least <= found.cost
        plans.append(found)
    assert search.bound == least == plans[-1].cost
    for found in plans:
        plan = place_steps(problem.groups, found.choices, 20 * capacity)
        assert plan is not None
        steps = decode_plan(problem.with_(machine={"memory_bytes": 20 * capacity}), plan)
        assert sum(step.moved for step in steps) == found.cost
        assert max(step.memory for step in steps) <= capacity
    # All at once, with no bounds on what is still to come but the first ones.
    search = layers(problem)
    search.limit = search.most
    end = search._pass()
    assert end is not None and search.graph.compulsory + end.excess == least


@pytest.mark.by_day(22)
@pytest.mark.parametrize("seed", range(examples(400)))
def test_layers_agree_with_paths(seed: int) -> None:
    limits: list[dict[str, Any]] = [{}, {"order": "given"}, {"most_operations": 2}]
    agrees(random_problem(random.Random(50_000 + seed), 7, limits=limits[seed % 3]))


@pytest.mark.by_day(7)
@pytest.mark.parametrize("seed", range(examples(80)))
def test_tensors_that_are_alike_change_places(seed: int) -> None:
    problem = dense(random.Random(seed))
    search = layers(problem)
    assert any(
        mask.bit_count() > 2 for done in search.order for mask in search.options.interchangeable.sets(done)
    )
    agrees(problem)


@pytest.mark.parametrize("seed", range(examples(40)))
def test_stopped_early_a_plan_and_a_bound_hold(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stops the search after a number of looks at it: never nothing, never worse than a rule."""
    rng = random.Random(60_000 + seed)
    problem = random_problem(rng, 7)
    least = least_traffic(problem, NEVER, ignore, ignore).bound
    looks = iter(range(10**9))
    limit = rng.randrange(200)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(looks)))
    outcome = catalogue.formulation("residency", "states").solve(problem, RunContext(deadline=limit))
    monkeypatch.undo()
    assert outcome.plan is not None and outcome.bound is not None
    survives(problem, outcome.plan)
    assert outcome.bound <= least <= objective(problem, outcome.plan)
    if limit > 20:
        for name in catalogue.heuristics("residency"):
            plan = catalogue.heuristic("residency", name).plan(problem)
            assert objective(problem, outcome.plan) <= objective(problem, plan)


@pytest.mark.parametrize("seed", range(examples(80)))
def test_a_limit_on_what_moves_again_leaves_out_nothing_else(seed: int) -> None:
    """Weights that are loaded once, block by block in a single pass, move nothing again."""
    rng = random.Random(70_000 + seed)
    graph = random_problem(rng, 5).graph
    group = Groups(graph)[group_mask(graph, graph.begin, len(graph.operations) - 1)]
    every = pareto_shapes(group, frozenset(), 100, Limits(10**6, 10**9))
    for worst in {0, 1, *(stair.again for stair in every)}:
        allowed = [stair[:2] for stair in every if stair.again <= worst]
        assert [
            stair[:2] for stair in pareto_shapes(group, frozenset(), 100, Limits(10**6, worst))
        ] == allowed


def test_an_input_is_not_like_what_is_computed() -> None:
    """Both have one shape and one reader that is left; what is computed is paid for where it is read last."""
    layers: list[dict[str, Any]] = [
        {"name": "l0", "inputs": ["input"], "input": [3, 2, 4], "kernels": 5, "kernel": [1, 1]},
        {"name": "l1", "inputs": ["input"], "input": [3, 2, 4], "kernels": 3, "groups": 3}
        | {"kernel": [2, 3], "stride": [2, 1], "padding": [1, 1, 1, 1]},
        {"name": "l2", "inputs": ["l1", "input"], "input": [6, 2, 4], "kernels": 5}
        | {"kernel": [3, 3], "stride": [2, 1], "padding": [2, 1, 0, 0]},
    ]
    agrees(problem_of({"layers": layers}, 101, limits={"tiles": False}))


def test_nothing_is_sought_below_what_must_be_moved() -> None:
    problem = random_problem(random.Random(5), 5)
    search = layered_search(problem, problem.machine.capacity, problem.graph.compulsory - 100, NEVER)
    assert not list(search.plans()) and search.bound == problem.graph.compulsory
