"""Recurrent layers in one memory: their states have a place, and every plan is one of the oracle's."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from conftest import examples, refused
from residency_cases import agrees_with_an_oracle, in_some_memory, optimum, problem_of, survives
from tests.oracles import residency as oracle

import tilewright as tw
from tilewright.residency import Plan, Problem, simulate, violation
from tilewright.run.instance import parse

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
KEPT = {"lstm": 6, "gru": 4, "rnn": 2}
"""Values on chip for each of a state: the state, an LSTM's cells, what each gate gives."""


def recurrent(
    op: str, features: int, steps: int, hidden: int, *, every: bool = True, **told: Any
) -> dict[str, Any]:
    """Return a recurrent layer, whose values at a point in time are the channels of a column."""
    directions = told.get("directions", 1)
    size = GATES[op] * (features + hidden + 2 * told.pop("biases", True))
    return {
        "name": op, "kind": "function", "op": op, "input": [features, 1, steps],
        "output": [directions * hidden, 1, steps if every else 1], "parameters": directions * hidden * size,
        "macs": directions * steps * hidden * GATES[op] * (features + hidden),
        "recurrence": {"steps": steps, "hidden": hidden, "reads_time_last": True, **told}
        | ({"gives_time_last": True} if every else {}),
    }  # fmt: skip


def network(rng: random.Random) -> dict[str, Any]:
    """Return a chain or branches with one or two recurrent layers."""
    features, steps = rng.randint(1, 3), rng.randint(1, 4)
    layers: list[dict[str, Any]] = [
        {"name": "first", "input": [features, 1, steps], "kernels": 2, "kernel": [1, 1]}
    ]
    if rng.random() < 0.4:
        layers[0] |= {"kernel": [1, 3], "padding": [0, 0, 1, 1]}
    every, directions = rng.random() < 0.7, rng.randint(1, 2)
    hidden = rng.randint(1, 2)
    told: dict[str, Any] = {"directions": directions, "biases": rng.random() < 0.5}
    layers.append(recurrent(rng.choice(["lstm", "gru", "rnn"]), 2, steps, hidden, every=every, **told))
    channels, plane = directions * hidden, [1, steps if every else 1]
    last = {"name": "last", "input": [channels, *plane], "kernels": rng.randint(1, 3), "kernel": [1, 1]}
    if every and rng.random() < 0.4:
        before = rng.choice(["first", layers[-1]["name"]])
        both = channels + (2 if before == "first" else channels)
        last |= {"inputs": [layers[-1]["name"], before], "input": [both, *plane]}
        if before != "first":
            last |= {"inputs": [layers[-1]["name"]], "input": [channels, *plane]}
    return {"layers": [*layers, last]}


@pytest.mark.by_day(4)
@pytest.mark.parametrize("seed", range(examples(100)))
def test_plans_are_those_of_the_oracle(seed: int) -> None:
    rng = random.Random(f"recurrent {seed}")
    agrees_with_an_oracle(rng, in_some_memory(rng, problem_of(network(rng), 10_000)))


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("directions", [1, 2])
def test_the_memory_of_a_state_counts(op: str, directions: int) -> None:
    features, steps, hidden = 3, 5, 4
    layer = recurrent(op, features, steps, hidden, directions=directions)
    fixed = (features + directions * hidden) * steps + KEPT[op] * hidden
    # Weights of one direction are loaded once; those of one value at a time at each point in time.
    needed = fixed + layer["parameters"] // directions
    least = fixed + layer["parameters"] // (directions * hidden)
    problem = problem_of({"layers": [layer]}, needed)
    assert problem.least_memory == least
    assert simulate(problem, optimum(problem)).measures.traffic_bytes == problem.graph.compulsory
    for memory in (least, needed - 1):
        small = simulate(
            problem_of({"layers": [layer]}, memory), optimum(problem_of({"layers": [layer]}, memory))
        )
        more = (steps - 1) * layer["parameters"]
        assert small.measures.traffic_bytes == problem.graph.compulsory + more
    report = simulate(problem, optimum(problem), numeric=True)
    assert report.measures.memory_bytes == needed
    (step,) = report.measures.steps_of_plan.values()
    assert step.on_chip_bytes[f"state of {op}"] == KEPT[op] * hidden
    assert oracle.least(problem.model_dump(mode="json")) is not None
    with refused("machine.memory_bytes", least - 1, f"operation {op} does not fit: 1 bytes are missing"):
        problem_of({"layers": [layer]}, least - 1)


def planned(op: str = "lstm") -> tuple[Problem, Plan]:
    """Return a problem of three operations in ample memory, and its plan."""
    layers = [
        {"name": "first", "input": [3, 1, 4], "kernels": 2, "kernel": [1, 1]},
        recurrent(op, 2, 4, 3),
        {"name": "last", "input": [3, 1, 4], "kernels": 2, "kernel": [1, 1]},
    ]
    problem = problem_of({"layers": layers}, 400)
    return problem, optimum(problem)


def test_each_is_executed_by_itself_in_one_pass() -> None:
    problem, plan = planned()
    assert [step.operations for step in plan.steps] == [("first",), ("lstm",), ("last",)]
    _, step, last = plan.steps

    def changed(**changes: Any) -> str | None:
        return violation(problem, replace(plan, steps=(plan.steps[0], replace(step, **changes), last)))

    assert "one pass of 4" in str(changed(pixels=1))
    assert "one pass of 4" in str(changed(order="kernels"))
    assert "output channels" in str(changed(kept=(), kernels=4)) and changed(kept=(), kernels=3) is None
    assert "a recurrent layer" in str(changed(columns=4))
    assert "a recurrent layer" in str(changed(double_buffering=True))
    together = replace(step, operations=("first", "lstm"), fetched=(), kept=("first", "lstm"))
    assert "by itself" in str(violation(problem, replace(plan, steps=(together, last))))


@pytest.mark.parametrize("what", ["first", "weights of lstm", "lstm"])
def test_states_lie_over_nothing(what: str) -> None:
    """Neither do addresses overlap, nor does a plan survive in which they do."""
    problem, plan = planned()
    first, step, last = plan.steps
    addresses = {**step.addresses, "first": first.addresses["first"]}
    wrong = replace(step, addresses={**step.addresses, "state of lstm": addresses[what]})
    changed = replace(plan, steps=(first, wrong, last))
    assert "overlap" in str(violation(problem, changed))
    assert simulate(problem, changed, numeric=True).violation is not None


def test_its_costs_are_exact_and_proven_among_plans_that_are_told() -> None:
    problem, _ = planned()
    instance = parse({"room": "residency", **problem.model_dump(mode="json", exclude_defaults=True)})
    result = tw.solve(instance, "states")
    assert result.status == "optimal" and not result.at_least
    assert "lstm has all inputs and outputs on chip" in str(problem.grounds)


def test_it_runs_without_dram_beside_weights_in_flash() -> None:
    problem, _ = planned("gru")
    flash = {"name": "flash", "bytes": 10_000, "read_only": True}
    memories = [flash, {"name": "ram", "bytes": 60}]
    table = problem.model_dump(mode="json", exclude_defaults=True)
    table["machine"] = {"memories": memories, "dram": False}
    table["objective"] = {"minimise": "memory"}
    instance = parse({"room": "residency", **table})
    plan = tw.solve(instance, "states").plan
    assert [step.pixels for step in plan.steps][1] == 4
    survives(instance.problem, plan)
