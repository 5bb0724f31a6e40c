"""The reference models of tiling and the searches agree: on random layers, machines, objectives, limits."""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any

import hierarchies
import pytest
from conftest import examples
from formulations import need, solve
from hypothesis import assume, given, settings
from layers import make
from numbered import randoms
from test_inner_loops_of_plans import some_problem as vector_problem

from tilewright.core import catalogue
from tilewright.core.room import bridge_of
from tilewright.models.tiling.columns_tiles import size
from tilewright.spec.errors import InputError
from tilewright.tiling import Plan, Problem, kind_of, objective, violation
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.objectives import SCHEDULES

DSP = catalogue.model("tiling", "reference.dsp")
HIERARCHY = catalogue.model("tiling", "reference.hierarchy")

Json = dict[str, Any]

SAYS = {"gecode": "is the start", "highs": "MIP start solution is feasible", "cpsat": "hint"}
"""What a solver says of a start that has arrived."""

NO_LIMITS: Json = dict.fromkeys(("accesses", "cycles", "energy"))


def dsp_at_random(random: Random, most_tiles: int = 24) -> Problem | None:
    """Return a layer of few tiles on a machine that is slow enough for everything to matter."""
    pick = random.randint
    groups = random.choice([1, 1, 1, 2])
    kernel, dilation = [pick(1, 2), pick(1, 3)], [pick(1, 2), pick(1, 2)]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    layer: Json = {
        "input": [groups * pick(1, 3), reach[0] + pick(0, 4), reach[1] + pick(0, 3)],
        "kernels": groups * pick(1, 3),
        "kernel": kernel,
        "stride": [pick(1, 3), pick(1, 2)],
        "dilation": dilation,
        "padding": [pick(0, reach[i // 2] - 1) for i in range(4)],
        "groups": groups,
        "batch": random.choice([1, 1, 2]),
    }
    output = random.choice([4, 8])
    bits = {"input": random.choice([4, 8]), "weights": random.choice([3, 8]), "output": output}
    machine: Json = ({"bits": bits | {"partial": output + 8}} if random.random() < 0.3 else {}) | {
        "memory_bytes": pick(30, 300),
        "double_buffering": random.random() < 0.5,
        "padding": random.choice(["loaded", "generated"]),
        "dma_step": random.random() < 0.3,
        "bus_elements_per_cycle": pick(1, 3),
        "macs_per_cycle": random.choice([1, 3, 8]),
        "dma_setup_cycles": random.choice([0, 2, 11]),
        "register_file_bytes": random.choice([0, 0, 200]),
    }
    minimise = random.choice(["accesses", "cycles", "energy"])
    schedules = [limit for limit in SCHEDULES["dsp"] if limit != "any+weights" or minimise == "accesses"]
    limits: Json = {"schedule": random.choice(["any", *schedules])}
    try:
        problem = make(layer, machine, minimise=minimise)
        nest = nest_of(problem.one_layer, problem.machine)  # type: ignore[arg-type]
        if not 2 <= prod(nest.sizes) <= most_tiles:
            return None
        if limits["schedule"] != "any+weights" and random.random() < 0.4:
            limits["at_most"] = at_most_at_random(random, problem)
        return problem.with_(limits=limits)
    except InputError:
        return None


def at_most_at_random(random: Random, problem: Problem) -> Json:
    """Return a limit on a cost, somewhere above the least that any plan has of it."""
    name = random.choice(["accesses", "cycles", "energy"])
    least = kind_of(problem).exhaustive(problem.minimising(name), float("inf"))
    if least is None:
        return {}
    return {name: int(least.value * random.choice([0.95, 1, 1.05, 1.3]))}


def held_equal(
    problem: Problem, path: Any, *, extras: bool, started: bool, solver: str = "gecode", **options: Any
) -> None:
    """Compare a model's outcome with that of the exact search."""
    need(solver)
    assume(catalogue.suits(catalogue.formulation("tiling", path.stem), problem))
    expected = kind_of(problem).exhaustive(problem, float("inf"))
    found = solve(problem, path, solver, extras=extras)
    if expected is None:
        assert (found.status, found.plan) == ("infeasible", None)
        return
    assert expected.proven
    assert (found.status, found.bound) == ("optimal", expected.value)
    assert violation(problem, found.plan) is None
    assert objective(problem, found.plan) == expected.value
    report = kind_of(problem).simulate(problem, found.plan.layers[0])
    assert report.violation is None
    assert kind_of(problem).measured_objective(problem, report) == expected.value
    if started:
        again = solve(problem, path, solver, start=Plan(expected.layers), **options)
        assert (again.status, again.bound) == ("optimal", expected.value)
        assert again.warm_start is not None and SAYS[solver] in again.warm_start


@settings(max_examples=examples(1000, 6), deadline=None)
@given(randoms)
def test_the_reference_of_a_dsp_and_the_search_agree(random: Random) -> None:
    problem = dsp_at_random(random)
    assume(problem is not None)
    held_equal(problem, DSP, extras=random.random() < 0.8, started=random.random() < 0.3)


@pytest.mark.parametrize(
    ("name", "solver"), [("tiles", "highs"), ("products", "cpsat"), ("columns_tiles", "highs")]
)
@settings(max_examples=examples(150, 3), deadline=None)
@given(randoms)
def test_models_of_a_dsp_keep_limits_and_weights_that_stay(name: str, solver: str, random: Random) -> None:
    """Those of accesses alone limit these, too; the model of columns takes all costs."""
    problem = dsp_at_random(random, 12)
    assume(problem is not None)
    assert problem is not None
    if name != "columns_tiles":
        limits: Json = {"schedule": random.choice(["any", "any+weights"])}
        problem = problem.with_(objective={"minimise": "accesses"}, limits=limits | {"at_most": NO_LIMITS})
        least = kind_of(problem).exhaustive(problem, float("inf"))
        if limits["schedule"] == "any" and least is not None and random.random() < 0.7:
            most = int(least.value * random.choice([0.95, 1, 1.05, 1.3]))
            problem = problem.with_(limits={"at_most": {"accesses": most}})
    held_equal(
        problem,
        catalogue.model("tiling", name),
        solver=solver,
        extras=random.random() < 0.7,
        started=random.random() < 0.5,
        options={"presolve": "off"} if solver == "highs" else None,
    )


@pytest.mark.parametrize(("name", "solver"), [("columns_tiles", "highs"), ("reference.dsp", "gecode")])
@settings(max_examples=examples(300, 3), deadline=None)
@given(randoms)
def test_models_have_the_inner_loops_of_a_vector_unit(name: str, solver: str, random: Random) -> None:
    """Within limits and constraints, too; without extras every loop that takes something else is a column."""
    try:
        problem = vector_problem(random)
    except InputError:  # nothing fits
        assume(False)
    assume(not problem.traded)
    if random.random() < 0.3:
        problem = problem.with_(limits={"at_most": at_most_at_random(random, problem)})
    if random.random() < 0.3:
        least = kind_of(problem).exhaustive(problem.minimising("cycles"), float("inf"))
        assume(least is not None)
        assert least is not None
        sense = random.choice([">", ">", "<="])  # what takes longer than it could is no best loop
        problem = problem.where(f"cycles {sense} {int(least.value * random.choice([1, 1.1]))}")
    small = size(problem) <= 20
    started = problem.limits.at_most.given == {} and not problem.constraints
    if name == "reference.dsp":
        assume(prod(nest_of(problem.one_layer, problem.machine).sizes) <= 20)  # type: ignore[arg-type]
    held_equal(
        problem,
        catalogue.model("tiling", name),
        solver=solver,
        extras=not small or random.random() < 0.6,
        started=started and random.random() < 0.5,
        options={"presolve": "off"} if solver == "highs" else None,
    )


def hierarchy_at_random(random: Random) -> Problem | None:
    """Return a layer of few multiplications on a machine of two to four memories and arrays anywhere."""
    choosing, few = random.random() < 0.4, random.random() < 0.5
    if random.random() < 0.4:
        machine = hierarchies.tight(random, choosing=choosing)
    else:
        machine = hierarchies.machine(random, choosing=choosing, sliding=random.random() < 0.5)
    overlap = hierarchies.overlapping if random.random() < 0.5 else hierarchies.layer
    one = overlap(random, 18) if few else hierarchies.long_layer(random, 30)
    memories = [level.name for level in machine.levels if not level.fanout]
    asked = {"minimise": random.choice(["accesses", "cycles", "energy", "edp"])}
    if asked["minimise"] == "accesses":
        asked["level"] = random.choice(memories)
    table: Json = {"layer": one.model_dump(), "machine": machine.model_dump(), "objective": asked}
    try:
        problem = Problem.model_validate(table)
        if asked["minimise"] != "edp" and random.random() < 0.4:
            problem = problem.with_(limits={"at_most": at_most_at_random(random, problem)})
        return problem
    except InputError:
        return None


@settings(max_examples=examples(1000, 6), deadline=None)
@given(randoms)
def test_the_reference_of_a_hierarchy_and_the_search_agree(random: Random) -> None:
    problem = hierarchy_at_random(random)
    assume(problem is not None)
    assert problem is not None
    held_equal(problem, HIERARCHY, extras=True, started=random.random() < 0.3)


@settings(max_examples=examples(150, 3), deadline=None)
@given(randoms)
def test_chains_keep_limits(random: Random) -> None:
    problem = hierarchy_at_random(random)
    assume(problem is not None)
    assert problem is not None
    assume(problem.limits.at_most.given and problem.minimise != "edp")
    assume(not any(level.halo or level.uneven for level in problem.machine.levels))
    held_equal(
        problem,
        catalogue.model("tiling", "chains"),
        solver="highs",
        extras=random.random() < 0.7,
        started=random.random() < 0.5,
        options={"presolve": "off"},
    )


def test_large_layers_and_fronts_are_left_to_the_search() -> None:
    small = make({"input": [2, 4, 4], "kernels": 3, "kernel": [2, 2]})
    suits = bridge_of(small, DSP).suits
    assert suits(small, DSP)
    assert not suits(small.with_(objective={"minimise": "pareto"}), DSP)
    assert not suits(make({"input": [8, 14, 14], "kernels": 4, "kernel": [3, 3]}), DSP)
