"""Every formulation that chooses subgraphs: against the best of all plans of tiny graphs."""

from __future__ import annotations

from pathlib import Path

import pytest
from formulations import methods, solve, with_each
from graphs_at_random import least_ticks, problem_at_random

from tilewright.scheduling import Problem, objective, violation
from tilewright.scheduling.arrangement import Arrangement, plan_of
from tilewright.scheduling.cost import Pricer
from tilewright.scheduling.cover import CERTAIN, takes
from tilewright.scheduling.lowering import whole


def tight(seed: int) -> Problem | None:
    """Return a graph none of whose tensors can stay, or None where there is none of that seed."""
    problem = problem_at_random(seed, 4, most=6, native=3)
    graph = problem.graph
    sizes = [graph.elements(tensor) for tensor in graph.made if tensor in graph.readers]
    if not sizes or min(sizes) < 4:
        return None
    problem = problem.with_(graph={"fast_memory_capacity": min(*sizes, 12, 12)})
    return problem if takes(problem, CERTAIN) else None


SEEDS = [seed for seed in range(80) if tight(seed) is not None][:8]
SAMPLE = tight(SEEDS[0])
FOUND = methods(SAMPLE)


def test_there_are_formulations_of_both_kinds() -> None:
    assert {solver for _, solver in FOUND} == {"gecode", "highs"}


@pytest.mark.parametrize("seed", SEEDS)
@with_each(FOUND)
def test_formulations_prove_the_optimum(seed: int, path: Path, solver: str) -> None:
    problem = tight(seed)
    assert problem is not None
    ticks = least_ticks(problem)
    outcome = solve(problem, path, solver, extras=seed % 2 == 0)
    if ticks is None:
        assert (outcome.status, outcome.plan) == ("infeasible", None)
        return
    assert outcome.status == "optimal"
    assert violation(problem, outcome.plan) is None
    assert objective(problem, outcome.plan) == outcome.bound == whole(ticks, problem.graph.scale)


@with_each(FOUND)
def test_the_start_arrives(path: Path, solver: str) -> None:
    for seed in SEEDS:
        problem = tight(seed)
        assert problem is not None
        pricer = Pricer(problem)
        found = Arrangement(pricer).arranged([frozenset((op,)) for op in range(len(problem.graph.inputs))])
        if found is not None:
            outcome = solve(problem, path, solver, start=plan_of(pricer, found[1]))
            assert outcome.status == "optimal"
            return
    raise AssertionError("no graph of the tests can be run one by one")


def test_tensors_that_can_stay_are_refused() -> None:
    assert SAMPLE is not None
    assert not takes(SAMPLE.with_(graph={"fast_memory_capacity": 1000}))
