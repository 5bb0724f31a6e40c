"""What plans and results say: ties, keys that no name forges, outputs read inside, lists, what is proven."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from conftest import examples, tells
from residency_cases import optimum, problem_of
from tests.fuzz.campaigns import residency_problems
from tests.fuzz.networks import summed
from tests.oracles import TooLarge

from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.residency import Plan, objective, simulate, violation
from tilewright.residency.evaluation import costs_of
from tilewright.residency.plan import key_of, kind_of
from tilewright.run.instance import parse
from tilewright.run.solve import solve
from tilewright.spec.errors import InputError

Json = dict[str, Any]


@pytest.mark.by_day(3)
@pytest.mark.parametrize("seed", range(examples(100)))
def test_ties_are_broken(seed: int) -> None:
    """No plan of equal objective moves less, or as much in fewer cycles, and so on: all are looked at."""
    rng = random.Random(f"ties {seed}")
    layers = summed(rng, 4, 4, 2)
    for _ in range(20):
        machine = {"memory_bytes": rng.randint(20, 120), **residency_problems.rates(rng)}
        table = {"network": {"layers": layers}, "machine": machine}
        table["objective"] = {"minimise": rng.choice(["cycles", "cycles", "energy", "traffic"])}
        try:
            problem = parse({"room": "residency", **table}).problem
        except InputError:
            continue
        outcome = catalogue.formulation("residency", "states").solve(problem, RunContext())  # type: ignore[union-attr]
        if outcome.status != "optimal":  # it has no addresses
            continue
        try:
            residency_problems.tied(problem, problem.model_dump(mode="json"), outcome.plan)
        except TooLarge:
            continue
        return
    pytest.skip("no memory is large enough")


FORGED = ["lines of c", "weights of c", "block of c", "partial sums of c", "state of c", "map of c", "c"]


def test_no_name_forges_a_key() -> None:
    kinds = ("map", "lines", "weights", "block", "partial sums", "state")
    names = [*FORGED, "lines", "lines of", "map", "map of map of c", "lines of map of c"]
    keys = {key_of(kind, name): (kind, name) for kind in kinds for name in names}
    assert len(keys) == len(kinds) * len(names)
    assert all(kind_of(key) == kind for key, (kind, _) in keys.items())
    assert key_of("map", "c") == "c"


@pytest.mark.by_day(2)
@pytest.mark.parametrize("memory", [60, 120, 400])
def test_layers_may_be_called_like_keys(memory: int) -> None:
    """Each name but the last is read by the next layer and, two further on, by a sum: maps stay on chip."""
    layers: list[Json] = [
        {"name": name, "input": [2, 4, 4], "kernels": 2, "kernel": [3, 3], "padding": [1, 1, 1, 1]}
        for name in ["c", *FORGED[:-1]]
    ]
    layers.append({"name": "c+lines of c", "kind": "add", "inputs": ["c", "map of c"], "input": [2, 4, 4]})
    problem = problem_of({"layers": layers}, memory)
    plan = optimum(problem)
    assert violation(problem, plan) is None
    report = simulate(problem, Plan.from_json(json.loads(json.dumps(plan.to_json()))), numeric=True)
    assert report.violation is None and report.numeric
    told = report.measures
    assert len(told.steps_of_plan) == len(plan.steps)
    weights = {f"weights of {layer['name']}" for layer in layers[:-1]}
    assert sum(told.loaded_elements[key] for key in weights) == len(FORGED) * 2 * 2 * 9
    for step, row in zip(plan.steps, told.steps_of_plan.values(), strict=True):
        assert set(step.addresses) <= set(row.on_chip_bytes)


def test_steps_of_other_operations_have_other_keys() -> None:
    layers = [
        {"name": name, "inputs": ["input"], "input": [1, 2, 2], "kernels": 1, "kernel": [1, 1]}
        for name in ("a", "a+b")
    ]
    layers.append({"name": "b", "inputs": ["a"], "input": [1, 2, 2], "kernels": 1, "kernel": [1, 1]})
    problem = problem_of({"layers": layers}, 100)
    measured = simulate(problem, optimum(problem)).measures.steps_of_plan
    assert set(measured) == {"a+b", r"a\+b"}


CHAIN: list[Json] = [
    {"name": "a", "input": [1, 6, 6], "kernels": 4, "kernel": [1, 1]},
    {"name": "b", "input": [4, 6, 6], "kernels": 1, "kernel": [1, 1]},
]


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("outputs", "least"), [(None, 36 + 4 + 4 + 36), (["a", "b"], 36 + 4 + 4 + 36 + 144)])
@pytest.mark.parametrize("method", ["states", "columns_intervals@highs", "columns_divide@gecode"])
def test_outputs_that_are_read_inside_are_written(outputs: Any, least: int, method: str) -> None:
    table = {"network": {"layers": CHAIN} | ({"outputs": outputs} if outputs else {})}
    instance = parse({"room": "residency", **table, "machine": {"memory_bytes": 400}})
    assert instance.problem.graph.compulsory == least
    result = solve(instance, method, time_limit=60)
    assert (result.status, result.objective) == ("optimal", least)
    written = {name for step in result.plan.steps for name in step.written}
    assert written == set(outputs or ["b"])


def test_a_plan_that_does_not_write_an_output_is_refused() -> None:
    problem = problem_of({"layers": CHAIN, "outputs": ["a", "b"]}, 400, limits={"most_operations": 1})
    plan = optimum(problem)
    first, second = plan.steps
    assert first.resident == first.written == ("a",)
    told = violation(problem, Plan((replace(first, written=()), second)))
    assert tells(told, "residency .. step 1 (a) .. write a .. output")


COSTS = ("traffic", "cycles", "energy", "memory")
"""What is minimised with DRAM."""


@pytest.mark.by_day(6)
@pytest.mark.parametrize("names", [*permutations(COSTS, 2), COSTS])
def test_every_list_of_objectives_has_an_answer(names: tuple[str, ...]) -> None:
    problem = problem_of({"layers": CHAIN}, 400, objective={"minimise": list(names)})
    plan = optimum(problem)
    alone = problem_of({"layers": CHAIN}, 400, objective={"minimise": names[0]})
    assert costs_of(problem, plan)[names[0]] == objective(alone, optimum(alone))


POOLED: list[Json] = [
    {"name": "c", "input": [2, 8, 8], "kernels": 8, "kernel": [3, 3], "padding": [1, 1, 1, 1]},
    {"name": "gap", "kind": "pool", "op": "average", "input": [8, 8, 8], "stride": [8, 8]},
]
PADDED = {"kernel": [10, 10], "padding": [1, 1, 1, 1]}
"""Of such a window there are no running values."""


@pytest.mark.parametrize(
    ("memory", "window", "told"),
    [(400, PADDED, True), (2000, PADDED, False), (400, {"kernel": [8, 8]}, False)],
)
def test_what_is_proven_is_said_where_running_values_might_move_less(
    memory: int, window: Json, told: bool
) -> None:
    layers = [POOLED[0], POOLED[1] | window]
    instance = parse(
        {"room": "residency", "network": {"layers": layers}, "machine": {"memory_bytes": memory}}
    )
    result = solve(instance, "states", time_limit=60)
    assert result.status == "optimal"
    assert (result.objective > instance.problem.graph.compulsory) == told
    said = "plans in which gap has a whole plane on chip at a time, without running values"
    assert result.grounds == (said if told else None)
