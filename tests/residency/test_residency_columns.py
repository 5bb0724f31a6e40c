"""Formulations that choose among listed steps agree with the search: any order, costs, limits."""

from __future__ import annotations

import random
from typing import Any

import pytest
from conftest import examples, in_turn
from residency_cases import random_problem
from tests.fuzz.campaigns import residency_problems

import tilewright as tw
from tilewright.residency import Problem
from tilewright.residency.enumerated_steps import CERTAIN, Columns, places_of, takes
from tilewright.residency.evaluation import costs_of
from tilewright.run import instance
from tilewright.spec.errors import InputError, SolverMissingError, TilewrightError

METHODS = ["columns_intervals@highs", "columns_divide@gecode"]


def with_objective(rng: random.Random, problem: Problem) -> Problem:
    """Return a problem, perhaps with another objective and a limit about where it matters."""
    changes: dict[str, Any] = {}
    name = rng.choice(["traffic", "traffic", "cycles", "energy"])
    if name != "traffic":
        changes = {"machine": residency_problems.rates(rng), "objective": {"minimise": name}}
    problem = problem.with_(**changes) if changes else problem
    if rng.random() < 0.3:
        other = rng.choice(sorted({"traffic", "cycles", "energy"} - {name}))
        plan = tw.solve(problem, "states", time_limit=60, confirm=False).plan
        if plan is not None:
            limit = max(1, int(costs_of(problem, plan)[other] * rng.choice([0.9, 1.0, 1.1])))
            problem = problem.with_(objective={f"most_{other}": limit})
    return problem


@pytest.mark.parametrize("seed", range(examples(160)))
def test_columns_agree_with_the_search(seed: int) -> None:
    rng = random.Random(f"columns {seed}")
    problem = random_problem(rng, rng.choice([3, 4, 5]))
    try:
        problem = with_objective(rng, problem)
    except InputError:
        pytest.skip("no plan keeps such a limit")
    assert len(places_of(problem)) < 40
    if not takes(problem):
        assert problem.minimise == "energy"  # in femtojoules that is too much to be told apart
        return
    expected = tw.solve(problem, "states", time_limit=60, confirm=False)
    for method in in_turn(METHODS, seed):
        for start in in_turn(["none", "auto"], seed // 2):
            try:
                found = tw.solve(problem, method, time_limit=60, confirm=False, warm_start=start)
            except SolverMissingError as error:
                pytest.skip(str(error))
            except TilewrightError as error:
                assert "can be told apart" in str(error) or "MiniZinc counts to" in str(error)
                continue
            told = f"{method} {start}: {problem.model_dump_json()}"
            assert found.status in {expected.status, "optimal", "feasible"}, told
            if "optimal" in (found.status, expected.status) and found.objective is not None:
                assert found.objective == expected.objective, told
            if found.bound is not None and expected.objective is not None:
                assert found.bound <= expected.objective, told


def test_networks_of_the_page_are_taken() -> None:
    """Those with branches, and with more than a dozen operations."""
    for name in ("mb28-64k", "resnet8-64k", "vww-32k", "ds-cnn-16k", "lenet5-64k", "resnet8-cycles"):
        assert takes(instance.read(name).problem), name
    found = Columns(instance.read("resnet8-64k").problem)
    assert len(found.places) == 19
    assert len(found.columns) < 1_000
    assert found.allowed <= CERTAIN


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["mb28-64k", "resnet8-64k", "vww-32k", "ds-cnn-16k", "lenet5-64k"])
def test_bundled_instances_are_proven_by_columns(name: str) -> None:
    result = tw.solve(name, METHODS[0], time_limit=60, warm_start="none")
    assert result.status == "optimal"
