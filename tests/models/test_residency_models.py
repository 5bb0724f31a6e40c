"""Every formulation of the room residency: against its exact search on small random networks."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from conftest import examples
from formulations import methods, need, solve, with_each

sys.path.insert(0, str(Path(__file__).parents[1] / "residency"))
from residency_cases import problem_of, random_network

from tilewright.residency import Problem, objective, simulate, violation
from tilewright.residency.exact.traffic import least_traffic
from tilewright.spec.errors import InputError

GIVEN = {"order": "given"}
SAMPLE = problem_of({"layers": [{"name": "a", "input": [2, 4, 4], "kernels": 3, "kernel": [3, 3]}]}, 200)
FOUND = methods(SAMPLE)


def random_problem(seed: int) -> Problem:
    """Return a problem with the file's order."""
    rng = random.Random(seed)
    while True:
        network = random_network(rng, 4)
        try:
            whole = problem_of(network, 10_000)
        except InputError:
            continue
        least = whole.least_memory
        room = sum(tensor.size for tensor in whole.graph.tensors) // 2 + 1
        return problem_of(network, rng.randint(least, least + room), limits=GIVEN)


def test_there_are_formulations() -> None:
    assert {solver for _, solver in FOUND} == {"gecode", "highs"}


@pytest.mark.by_day(12)
@pytest.mark.parametrize("seed", range(examples(40)))
@with_each(FOUND)
def test_formulations_agree_with_the_search(seed: int, path: Path, solver: str) -> None:
    need(solver)
    problem = random_problem(30_000 + seed)
    expected = least_traffic(problem, float("inf"), lambda _bound: None, lambda _plan: None)
    assert expected.plan is not None
    outcome = solve(problem, path, solver, start=expected.plan if seed % 2 else None)
    assert outcome.status == "optimal"
    assert violation(problem, outcome.plan) is None
    assert objective(problem, outcome.plan) == outcome.bound == expected.bound
    assert simulate(problem, outcome.plan, numeric=True).valid
