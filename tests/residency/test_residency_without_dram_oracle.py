"""Machines without DRAM: fronts and plans, held against an enumeration that executes steps pixel by pixel."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from math import prod
from typing import Any

import pytest
from conftest import examples
from test_residency_without_dram import problem_in_flash
from tests.fuzz import networks
from tests.oracles import Refused, TooLarge, microcontroller

from tilewright.residency import Plan, Problem, best_bound, memory_front, violation
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.evaluation import costs_of
from tilewright.residency.graph import InvalidPlanError
from tilewright.residency.plan import Step
from tilewright.spec.errors import InputError

MISTAKES = 5
"""Changes of each plan."""

CHANGED = ("operations", "dropped", "fetched", "resident", "written", "in_place", "addresses")
"""What is changed of a step."""


def network_of_windows(rng: random.Random) -> dict[str, Any]:
    """Return a network of up to five layers on a plane that is large enough for windows to move over it."""
    while True:
        most, side, channels = rng.randint(3, 5), rng.choice([4, 5, 6, 8]), rng.randint(1, 3)
        kind = rng.random()
        if kind < 0.2:
            layers = networks.reduced(rng, most, side, channels)
        elif kind < 0.4:
            layers = branched(rng)
        elif kind < 0.65:
            layers = networks.summed(rng, most, side, channels)
        else:
            kinds = rng.choice(["cccpdajfsx", "cccpda", "ccpdamfsrj", "ccxxxpdam"])
            layers = networks.network(rng, most, side, channels, kinds, twice=False, back=rng.randint(1, 4))
        if len(layers) >= 3 and prod(layers[0]["input"][1:]) >= 9:
            return networks.read_inside(rng, layers)


def branched(rng: random.Random) -> list[dict[str, Any]]:
    """Return layers of which one reads what two or three others compute from the same map."""
    plane, channels = [rng.randint(3, 6), rng.randint(3, 6)], rng.randint(1, 2)
    shape, layers, ends = [channels, *plane], list[dict[str, Any]](), list[str]()

    def window() -> dict[str, Any]:
        kernel = [rng.choice([1, 2, 3]) for _ in plane]
        before = [rng.randrange(size) for size in kernel]
        padding = [before[0], kernel[0] - 1 - before[0], before[1], kernel[1] - 1 - before[1]]
        return {"kernels": channels, "kernel": kernel, "padding": padding}

    source = rng.choice(["input", "l0"])
    if source == "l0":
        layers.append({"name": "l0", "inputs": ["input"], "input": shape, **window()})
    for _ in range(rng.choice([2, 2, 3])):
        read = source
        for _ in range(rng.choice([1, 1, 2])):
            layers.append({"name": f"l{len(layers)}", "inputs": [read], "input": shape, **window()})
            read = layers[-1]["name"]
        ends.append(read)
    rng.shuffle(ends)
    merged: dict[str, Any] = {"name": "merged", "inputs": ends, "input": [channels * len(ends), *plane]}
    stride = [rng.randint(1, 2) for _ in plane]
    kind = rng.choice(["add", "conv", "pool"])
    if kind == "add":
        merged |= {"kind": "add", "input": shape}
    else:
        kernel = [rng.randint(1, 3) for _ in plane]
        merged |= {"kind": kind, "kernel": kernel, "stride": stride}
        merged |= {"kernels": rng.randint(1, 3)} if kind == "conv" else {}
    return [*layers, merged]


def random_problem(rng: random.Random) -> Problem:
    """Return a problem at random, with limits at random."""
    limits: dict[str, Any] = {
        "inputs": rng.choice(["outside", "memory"]),
        "tiles": rng.random() < 0.7,
        "order": rng.choice(["any", "any", "given"]),
    }
    if rng.random() < 0.25:
        limits["most_operations"] = rng.randint(1, 3)
    machine = {"sum_bytes": rng.choice([1, 4]), "element_bytes": rng.choice([1, 1, 2])}
    while True:
        try:
            return problem_in_flash(network_of_windows(rng), machine=machine, limits=limits)
        except InputError:
            continue


@pytest.mark.parametrize("seed", range(examples(300, 8)))
def test_the_front_is_that_of_all_plans(seed: int) -> None:
    rng = random.Random(seed)
    problem = random_problem(rng)
    told = problem.model_dump(mode="json")
    try:
        front = microcontroller.front(told)
    except TooLarge:
        pytest.skip("too large for the oracle")
    corners = memory_front(problem)
    assert [(each.memory_bytes, each.macs) for each in corners] == front
    assert best_bound(problem).value <= front[0][0]
    for corner in corners:
        costs = microcontroller.costs(told, corner.plan.to_json())
        claimed = corner.memory_bytes, corner.macs, corner.taken_bytes
        assert (costs["memory"], costs["macs"], costs["taken"]) == claimed
        moved = costs_of(problem, corner.plan)["traffic"]
        assert costs["read"] + costs["written"] == moved
        for _ in range(MISTAKES):
            judged(problem, told, mistaken(rng, corner.plan))
            steps = list(corner.plan.steps)
            place = rng.randrange(len(steps))
            steps[place] = cut_otherwise(rng, steps[place])
            if steps[place].order == "pixels":  # then all output channels are computed at a time
                steps[place] = replace(steps[place], kernels=1)
            judged(problem, told, json.loads(json.dumps(Plan(tuple(steps)).to_json())))


@pytest.mark.parametrize("seed", range(examples(300, 8)))
def test_no_plan_that_is_accepted_is_better_than_the_front(seed: int) -> None:
    rng = random.Random(seed)
    problem = random_problem(rng)
    width, corners = problem.machine.element_bytes, memory_front(problem)
    for corner in corners:
        for _ in range(8 * MISTAKES):
            steps = list(corner.plan.steps)
            place = rng.randrange(len(steps))
            steps[place] = cut_otherwise(rng, steps[place])
            try:
                decoded = decode_plan(problem, Plan(tuple(steps)))
            except InvalidPlanError:
                continue
            memory = width * max(step.memory for step in decoded)
            macs = sum(step.spent.macs for step in decoded)
            assert any(each.memory_bytes <= memory and each.macs <= macs for each in corners), steps


def cut_otherwise(rng: random.Random, step: Step) -> Step:
    """Return a step that is cut up in another way."""
    changes: dict[str, Any] = {
        "order": rng.choice(["pixels", "pixels", "kernels", "tiles", "channels"]),
        "pixels": rng.randint(1, 4),
        "kernels": rng.randint(1, 4),
        "columns": rng.choice([None, None, 1, 2, 3]),
        "channels": rng.choice([None, None, 1, 2]),
        "in_place": rng.choice([None, step.in_place, *step.fetched, *step.operations]),
        "running": rng.random() < 0.3,
        "interleaved": rng.random() < 0.5,
    }
    if step.order == "pixels" and rng.random() < 0.7:
        changes |= {"order": "pixels", "channels": None}
    if rng.random() < 0.2:
        changes |= {"fetched": (), "written": (*step.written, *step.resident), "resident": ()}
    return replace(step, **changes)


def judged(problem: Problem, told: Any, changed: Any) -> None:
    """Check that a plan is refused if, and only if, the oracle refuses it."""
    try:
        microcontroller.costs(told, changed)
        refused = None
    except Refused as error:
        refused = str(error)
    broken = violation(problem, Plan.from_json(changed))
    assert (broken is None) == (refused is None), f"{broken}, the oracle: {refused}: {json.dumps(changed)}"


def mistaken(rng: random.Random, plan: Plan) -> Any:
    """Return a plan in which something is changed."""
    changed = json.loads(json.dumps(plan.to_json()))
    step = rng.choice(changed["steps"])
    names = sorted({name for each in changed["steps"] for name in each["operations"]} | {"input"})
    key = rng.choice(CHANGED)
    value = step[key]
    if key == "in_place":
        step[key] = rng.choice([None, *names])
    elif key == "addresses":
        name = rng.choice([*value])
        value[name] = max(0, value[name] + rng.choice([-1, 1, 5, -value[name]]))
    elif value and rng.random() < 0.5:
        value.pop(rng.randrange(len(value)))
    else:
        value.append(rng.choice(names))
    return changed
