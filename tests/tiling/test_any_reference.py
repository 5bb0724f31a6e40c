"""Steps that need not divide: the reference model, all plans of an oracle and the room's search agree."""

from __future__ import annotations

from itertools import islice, pairwise
from random import Random
from typing import Any

import hierarchies
from conftest import examples
from formulations import need, solve
from hypothesis import assume, given, settings
from numbered import randoms
from tests.oracles import Refused
from tests.oracles import hierarchy as oracle

from tilewright.core import catalogue
from tilewright.spec.errors import InputError
from tilewright.spec.layer import Layer
from tilewright.tiling import Plan, Problem, kind_of, objective, violation
from tilewright.tiling.hierarchy.loops import LETTERS, LOOPS, extents
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.plan import HierarchyPlan

MODEL = catalogue.model("tiling", "reference.hierarchy")

MOST_PLANS = 400
"""Plans of a layer that are walked through."""

GOALS = ("accesses", "energy", "cycles", "edp")


def problem_of(random: Random, layer: Layer, machine: HierarchyMachine) -> Problem:
    """Return the problem with any steps and some objective."""
    asked = {"minimise": random.choice(GOALS)}
    if asked["minimise"] == "accesses":
        asked["level"] = random.choice([level.name for level in machine.levels if not level.fanout])
    table = {"layer": layer.model_dump(), "machine": machine.model_dump(), "objective": asked}
    try:
        return Problem.model_validate({**table, "limits": {"factors": "any"}})
    except InputError:  # a memory is too small for the smallest tile
        assume(False)
        raise


def machine_at_random(random: Random) -> HierarchyMachine:
    choosing = random.random() < 0.3
    if random.random() < 0.4:
        return hierarchies.tight(random, choosing=choosing)
    return hierarchies.machine(random, choosing=choosing)


@settings(max_examples=examples(400, 6))
@given(randoms)
def test_the_optimum_is_that_of_all_plans(random: Random) -> None:
    need("gecode")
    few = random.random() < 0.5
    layer = hierarchies.layer(random, 24) if few else hierarchies.long_layer(random, 40)
    problem = problem_of(random, layer, machine_at_random(random))
    assume(catalogue.suits(MODEL, problem))
    table = problem.model_dump(mode="json")
    assume(sum(1 for _ in islice(oracle.plans(table), MOST_PLANS + 1)) <= MOST_PLANS)
    least = oracle.best(table)
    found = solve(problem, MODEL, "gecode")
    ours = kind_of(problem).exhaustive(problem, float("inf"))
    if least is None:
        assert (found.status, ours) == ("infeasible", None)
        return
    assert (found.status, found.bound) == ("optimal", least)
    assert violation(problem, found.plan) is None
    assert objective(problem, found.plan) == least
    assert ours is not None and ours.bound is not None
    assert ours.bound <= least <= ours.value
    if random.random() < 0.3:
        again = solve(problem, MODEL, "gecode", start=Plan(ours.layers))
        assert (again.status, again.bound) == ("optimal", least)
        assert again.warm_start is not None and "is the start" in again.warm_start


def sayings(plan: HierarchyPlan, layer: Layer, machine: HierarchyMachine) -> list[str]:
    """Return constraints that no plan keeps but this one."""
    block, said = dict(extents(layer)), []
    for node, loops in zip(machine.nodes, plan.nest, strict=True):
        said += [f"tile('{node.name}', {LOOPS[loop]}) == {block[loop]}" for loop in LETTERS]
        block |= dict(loops)
        order = [LOOPS[loop] for loop, _ in loops] if node.axis is None else []
        said += [f"outside('{node.name}', {outer}, {inner})" for outer, inner in pairwise(order)]
    kept = dict(plan.kept)
    for level in machine.levels:
        for operand in level.may_hold:
            holds = f"holds({level.name}, {operand})"
            said.append(holds if operand in kept.get(level.name, ()) else f"not {holds}")
    return said


def drawn_plan(
    random: Random, problem: Problem, layer: Layer, machine: HierarchyMachine
) -> tuple[HierarchyPlan, oracle.Walk] | None:
    """Draw a plan; return it with a walk through it, None where it breaks a rule."""
    kept = random.choice(machine.choices)
    drawn = hierarchies.nest(random, layer, machine.keeping(kept), ragged=True).nest
    # Loops of an axis have no order.
    nest = [
        loops if node.axis is None else tuple(sorted(loops, key=lambda loop: LETTERS.index(loop[0])))
        for node, loops in zip(machine.nodes, drawn, strict=True)
    ]
    plan = HierarchyPlan(tuple(nest), kept)
    try:
        return plan, oracle.walked(problem.model_dump(mode="json"), plan.to_json())
    except Refused:
        return None


@settings(max_examples=examples(600, 5))
@given(randoms)
def test_each_plan_costs_what_a_walk_through_it_counts(random: Random) -> None:
    """All accesses, cycles and the objective at once, also of layers too large for trying all plans."""
    need("gecode")
    few = random.random() < 0.5
    layer = hierarchies.layer(random, 100) if few else hierarchies.long_layer(random, 120)
    machine = machine_at_random(random)
    problem = problem_of(random, layer, machine)
    drawn = (drawn_plan(random, problem, layer, machine) for _ in range(20))
    plan, walk = next((each for each in drawn if each is not None), (None, None))
    assume(plan is not None)
    assert plan is not None and walk is not None
    memories = [node.name for node in machine.nodes if node.axis is None]
    costs = [f"accesses({name}) == {walk.accesses(name)}" for name in memories]
    only = problem.where(*sayings(plan, layer, machine), *costs, f"cycles == {walk.cycles()}")
    assume(catalogue.suits(MODEL, only))
    assert violation(problem, Plan((plan,))) is None
    found = solve(only, MODEL, "gecode")
    assert (found.status, found.bound) == ("optimal", walk.value(problem.minimise, problem.level))
    assert found.plan == Plan((plan,))


def test_large_layers_are_left_to_the_search() -> None:
    levels = [{"name": "dram"}, {"name": "buffer", "capacity_bytes": 9}]
    table: dict[str, Any] = {
        "layer": {"input": [16, 1, 16], "kernels": 16, "kernel": [1, 1]},
        "machine": {"kind": "hierarchy", "levels": levels},
    }
    assert catalogue.suits(MODEL, Problem.model_validate(table))
    more = Problem.model_validate({**table, "limits": {"factors": "any"}})
    reason = catalogue.why_not(MODEL, more)
    assert reason == "the layer has 4,096 MACs, with any steps the model takes 1,024"
