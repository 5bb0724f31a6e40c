"""Every formulation of the room residency: against its exact search on small random networks."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from conftest import examples
from formulations import methods, need, solve, with_each

sys.path.insert(0, str(Path(__file__).parents[1] / "residency"))
from residency_cases import problem_of, random_problem

from tilewright.residency import objective, simulate, violation
from tilewright.residency.exact.traffic import least_traffic

GIVEN = {"order": "given"}
SAMPLE = problem_of({"layers": [{"name": "a", "input": [2, 4, 4], "kernels": 3, "kernel": [3, 3]}]}, 200)
FOUND = methods(SAMPLE)


def test_there_are_formulations() -> None:
    assert {solver for _, solver in FOUND} == {"cpsat", "gecode", "highs"}


@pytest.mark.by_day(12)
@pytest.mark.parametrize("seed", range(examples(40, 6)))
@with_each(FOUND)
def test_formulations_agree_with_the_search(seed: int, path: Path, solver: str) -> None:
    need(solver)
    problem = random_problem(random.Random(30_000 + seed), limits=GIVEN)
    expected = least_traffic(problem, float("inf"), lambda _bound: None, lambda _plan: None)
    assert expected.plan is not None
    outcome = solve(problem, path, solver, start=expected.plan if seed % 2 else None)
    assert outcome.status == "optimal"
    assert violation(problem, outcome.plan) is None
    assert objective(problem, outcome.plan) == outcome.bound == expected.bound
    assert simulate(problem, outcome.plan, numeric=True).valid
