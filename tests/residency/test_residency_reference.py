"""The reference model of residency agrees with all plans that an oracle lists: objectives, limits, words."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from conftest import examples
from residency_cases import problem_of
from test_residency_constraints import Case, Json, cases, least, placed_problem, random_problem, totals
from tests.oracles import residency as oracle

import tilewright as tw
from tilewright.residency import Problem, reference
from tilewright.residency.vocabulary import vocabulary
from tilewright.run import instance
from tilewright.spec.constraints import Term
from tilewright.spec.errors import SolverMissingError

METHOD = "reference@gecode"


def solved(problem: Problem) -> tw.Result:
    """Return what the model proves, without any plan to begin with."""
    try:
        return tw.solve(problem, METHOD, time_limit=120, confirm=False, warm_start="none")
    except SolverMissingError as error:
        pytest.skip(str(error))


def taken_problem(rng: random.Random) -> tuple[Problem, Json, list[tuple[Json, dict[str, int]]]]:
    """Return a problem that the model takes, with all of its plans, now and then one with a limit."""
    while True:
        problem, told, plans = random_problem(rng)
        names = {"traffic", "cycles", "energy"} - {problem.minimise}
        if rng.random() < 0.3 and problem.limits.frames == "one" and not problem.before:
            name = rng.choice(sorted(names))
            limit = max(1, rng.choice(plans)[1][name])
            problem = problem.with_(objective={f"most_{name}": limit})
            plans = [each for each in plans if each[1][name] <= limit]
            told = problem.model_dump(mode="json")
        if reference.why_not(problem) is None:
            return problem, told, plans


@pytest.mark.parametrize("seed", range(examples(200) // 3))
def test_the_reference_model_agrees_with_all_plans(seed: int) -> None:
    rng = random.Random(f"reference {seed}")
    problem, told, plans = taken_problem(rng)
    plans = [(plan | {"costs": costs}, costs) for plan, costs in plans]
    chosen: list[Case] = []
    if rng.random() < 0.7:
        chosen = cases(rng, problem)
        if rng.random() < 0.25:
            chosen += totals(rng, [costs for _, costs in plans])
    says = [text for text, _ in chosen]
    result = solved(problem.where(*says) if says else problem)
    expected = least(problem, [costs for plan, costs in plans if all(keeps(plan) for _, keeps in chosen)])
    shown = f"{says}: {json.dumps({'room': 'residency', **told})}"
    if expected is None:
        assert result.status == "infeasible", shown
        return
    assert (result.status, result.objective) == ("optimal", expected), shown
    plan = json.loads(json.dumps(result.plan.to_json()))
    found = oracle.told(told, plan) | {"costs": oracle.costs(told, plan)}
    assert all(keeps(found) for _, keeps in chosen), shown


@pytest.mark.parametrize("seed", range(examples(100) // 4))
def test_the_reference_model_proves_what_constraints_say_of_addresses(seed: int) -> None:
    rng = random.Random(f"addresses {seed}")
    problem, told, expected, says, keeps = placed_problem(rng)
    while reference.why_not(problem) is not None:
        problem, told, expected, says, keeps = placed_problem(rng)
    result = solved(problem.where(says))
    shown = f"{says}: {json.dumps({'room': 'residency', **told})}"
    assert (result.status == "infeasible") == (expected is None), shown
    assert result.objective == expected, shown
    if result.plan is not None:
        assert keeps(oracle.told(told, json.loads(json.dumps(result.plan.to_json()))))


def test_every_word_is_stated() -> None:
    layers = [
        {"name": "a", "input": [1, 2, 2], "kernels": 1, "kernel": [1, 1]},
        {"name": "b", "kind": "map", "op": "softmax", "inputs": ["a"], "input": [1, 2, 2]},
    ]
    problem = problem_of({"layers": layers}, 40, limits={"frames": "many"})
    for word in vocabulary(problem).words.values():
        names = tuple("a" for _ in word.takes)
        assert reference.term(problem, Path(), Term(word.name, names)), word.name


def test_it_says_what_it_does_not_take() -> None:
    for name, told in {
        "mb28-list": "list of objectives",
        "resnet8-again": "second executions",
        "resnet8-cycles": "second buffers",
        "ds-cnn-16k": "490 pixels, the model takes 64",
    }.items():
        assert told in str(reference.why_not(instance.read(name).problem))
