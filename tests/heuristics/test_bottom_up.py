"""Bottom up: a valid plan of every layer on every hierarchy, never better than the optimum."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from conftest import examples

import tilewright
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.heuristics.tiling import bottom_up
from tilewright.models.tiling import exhaustive
from tilewright.run.instance import read
from tilewright.spec.errors import InputError
from tilewright.tiling import (
    Plan,
    Problem,
    best_bound,
    measured_objective,
    objective,
    simulate,
    violation,
)
from tilewright.tiling.hierarchy.batch import Batch, Nests
from tilewright.tiling.hierarchy.cost import cost_of
from tilewright.tiling.hierarchy.exact.search import best_plan
from tilewright.tiling.hierarchy.loops import LETTERS, STILL
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.hierarchy.task import Task

sys.path.insert(0, str(Path(__file__).parents[1] / "tiling"))
import hierarchies


def drawn(seed: int, *, roomy: bool = False, most: int = 64, **rest: Any) -> Problem | None:
    """Draw a problem, None where not even the smallest tile fits."""
    rng = Random(seed)
    machine = hierarchies.machine(
        rng, roomy=roomy, choosing=seed % 3 == 0, sliding=seed % 2 == 0, uneven=seed % 5 == 0
    )
    layer = hierarchies.layer(rng, rng.choice([8, most // 4, most]))
    level = rng.choice([level.name for level in machine.levels if not level.fanout])
    goal = rng.choice(["accesses", "cycles", "energy", "edp"])
    try:
        return Problem.model_validate(
            {
                "layer": layer.model_dump(mode="json"),
                "machine": machine.model_dump(mode="json"),
                "objective": {"minimise": goal, "level": level},
                **rest,
            }
        )
    except InputError:
        return None


def test_plans_are_valid_and_never_better_than_the_optimum() -> None:
    compared = best = 0
    for seed in range(examples(150)):
        problem = drawn(seed)
        if problem is None:
            continue
        assert bottom_up.suits(problem)
        plan = bottom_up.plan(problem)
        assert bottom_up.plan(problem) == plan
        assert violation(problem, plan) is None, seed
        optimum = best_plan(Task.of(problem))
        assert optimum is not None
        report = simulate(problem, plan, numeric=True)
        assert report.valid and report.numeric
        cost = objective(problem, plan)
        assert measured_objective(problem, report) == cost
        value = cost_of(_nest(problem, plan))
        found = value.value(problem.minimise, problem.level)
        assert found >= optimum.value, seed
        compared, best = compared + 1, best + (found == optimum.value)
    assert compared > examples(150) // 3
    assert best > compared // 3


def test_where_steps_need_not_divide_those_that_do_are_valid() -> None:
    compared = 0
    for seed in range(1, 24, 2):  # without halos
        problem = drawn(seed, limits={"factors": "any"})
        if problem is not None:
            plan = bottom_up.plan(problem)
            assert violation(problem, plan) is None
            assert best_bound(problem).value <= objective(problem, plan)
            compared += 1
    assert compared > 5


def _nest(problem: Problem, plan: Plan) -> Nest:
    (layer,) = plan.layers
    assert isinstance(layer, HierarchyPlan)
    return Nest(problem.one_layer, problem.machine, layer)


def test_costs_of_many_nests_are_those_of_each() -> None:
    """But where an array adds up sums and another fetch of outputs is a gain, which is not looked for."""
    compared = other = 0
    for seed in range(examples(400)):
        rng = Random(seed)
        problem = drawn(seed, roomy=seed % 4 > 0, most=2000)
        if problem is None:
            continue
        layer, kept = problem.one_layer, rng.choice(problem.machine.choices)
        machine = problem.machine.keeping(kept)
        nest = Nest(layer, machine, hierarchies.nest(rng, layer, machine))
        if nest.malformed() or nest.outside_of_space():
            continue
        mapper = bottom_up._Mapper(problem, "accesses", kept)
        batch = mapper.batch = Batch(layer, machine, ("accesses", "cycles", "energy"), problem.level)
        blocks = np.array([[[block[loop] for loop in LETTERS] for block in nest.blocks]])
        stays = np.array([[_staying(rng, loops) for loops in nest.plan.nest]])
        nest = Nest(layer, problem.machine, mapper.plan(bottom_up.State(blocks[0], stays[0], 0.0)))
        assert nest.malformed() is None and nest.outside_of_space() is None, seed
        elements = batch.elements(blocks)
        assert batch.fit(Nests(blocks, stays), elements).tolist() == [nest.overflow() is None], seed
        costs = batch.costs(Nests(blocks, stays), elements)
        measure = cost_of(nest)
        true = measure.accesses(problem.level), measure.energy, measure.cycles
        found = *costs.spent[0], np.ceil(costs.cycles[0] * (1 - 1e-12))
        compared += 3
        other += 3 - int(np.isclose(found, true, rtol=1e-9).sum())
    assert compared > 3 * examples(400) // 4
    assert other <= compared // 50


def _staying(rng: Random, loops: tuple[tuple[str, int], ...]) -> int:
    """Return the number of an operand that some of a node's loops leave in place."""
    able = [o for o, still in enumerate(STILL.values()) if any(loop in still for loop, _ in loops)]
    return rng.choice(able or [0])


@pytest.mark.parametrize("machine", ["eyeriss", "gap8", "nvdla"])
def test_close_to_the_optimum(machine: str) -> None:
    """The third group of ResNet-18: within a third of the optimum of cycles."""
    table = {
        "layer": {"input": [128, 28, 28], "kernels": 128, "kernel": [3, 3], "padding": [1, 1, 1, 1]},
        "machine": catalogue.shared("machines", machine),
        "objective": {"minimise": "cycles"},
    }
    problem = Problem.model_validate(table)
    best = best_plan(Task.of(problem))
    assert best is not None
    assert best.value <= objective(problem, bottom_up.plan(problem)) <= 1.34 * best.value


def test_limits_of_cost_are_kept_where_that_is_known() -> None:
    table = catalogue.shared("machines", "eyeriss")
    layer = {"input": [16, 14, 14], "kernels": 32, "kernel": [3, 3]}
    problem = Problem.model_validate({"layer": layer, "machine": table, "objective": {"minimise": "energy"}})
    fast = problem.with_(objective={"minimise": "cycles"})
    least = {
        name: objective(one, bottom_up.plan(one)) for name, one in (("energy", problem), ("cycles", fast))
    }
    at_least = objective(fast, bottom_up.plan(problem))
    assert least["cycles"] < at_least
    limited = problem.with_(limits={"at_most": {"cycles": least["cycles"]}})
    plan = bottom_up.plan(limited)
    assert violation(limited, plan) is None
    assert objective(limited, plan) >= least["energy"]
    impossible = problem.with_(limits={"at_most": {"cycles": 1}})
    assert str(violation(impossible, bottom_up.plan(impossible))).startswith("limit of cycles")


def test_a_front_of_one_plan() -> None:
    problem = drawn(4, objective={"minimise": "pareto", "between": ["cycles", "energy"]})
    assert problem is not None
    plan = bottom_up.plan(problem)
    assert plan.front and len(plan.layers) == 1
    assert violation(problem, plan) is None
    assert simulate(problem, plan).valid
    assert objective(problem, plan) > best_bound(problem).value


def test_what_it_does_not_take() -> None:
    problem = drawn(4, objective={"minimise": ["cycles", "energy"]})
    assert problem is not None
    assert not bottom_up.suits(problem)
    layer, dsp = {"input": [2, 4, 4], "kernels": 2, "kernel": [1, 1]}, {"kind": "dsp", "memory_bytes": 999}
    assert not bottom_up.suits(Problem.model_validate({"layer": layer, "machine": dsp}))


# Where the search has no time ----------------------------------------------------------------------------


def test_a_layer_has_a_plan_when_the_search_has_no_time() -> None:
    for seed in range(12):
        problem = drawn(seed)
        if problem is None:
            continue
        told: list[Plan] = []
        outcome = exhaustive.solve(problem, RunContext(deadline=0.0, on_plan=told.append))
        assert outcome.status == "feasible"
        assert {outcome.plan, *told} == {bottom_up.smallest(problem)}
        assert violation(problem, outcome.plan) is None


def test_it_plans_a_layer_whatever_the_time_limit() -> None:
    problem = read(catalogue.instance("tiling", "resnet18-conv2-eyeriss")).problem
    result = tilewright.solve(problem, "bottom_up", time_limit=0.001)
    assert (result.status, result.plan) == ("feasible", bottom_up.plan(problem))
    best = 786_157_568_000_000
    assert objective(problem, bottom_up.smallest(problem)) // best == 93


def test_a_layer_with_too_many_blocks_has_a_plan_and_a_bound() -> None:
    layer = {"input": [5040, 720, 720], "kernels": 5040, "kernel": [1, 1], "batch": 60}
    table = {
        "layer": layer,
        "machine": catalogue.shared("machines", "gap8"),
        "objective": {"minimise": "cycles"},
    }
    problem = Problem.model_validate(table)
    outcome = exhaustive.solve(problem, RunContext())
    assert outcome.status == "feasible"
    assert violation(problem, outcome.plan) is None
    assert 0 < best_bound(problem).value <= objective(problem, outcome.plan)


def test_networks_with_a_limit_for_all_layers() -> None:
    layers = [
        {"name": "one", "kind": "conv", "input": [4, 8, 8], "kernels": 8, "kernel": [3, 3]},
        {"name": "two", "kind": "pool", "input": [8, 6, 6], "kernel": [2, 2], "stride": [2, 2]},
        {"name": "three", "kind": "conv", "input": [8, 3, 3], "kernels": 4, "kernel": [1, 1]},
    ]
    table = {
        "network": {"name": "small", "layers": layers},
        "machine": catalogue.shared("machines", "gap8"),
        "objective": {"minimise": "accesses"},
        "limits": {"at_most": {"cycles": 10**6}},
    }
    problem = Problem.model_validate(table)
    assert problem.coupled and bottom_up.suits(problem)
    plan = bottom_up.plan(problem)
    assert violation(problem, plan) is None
    assert simulate(problem, plan).valid
