"""Every formulation that chooses subgraphs: against the best of all plans of tiny graphs."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import nightly
from formulations import methods, solve, with_each
from graphs_at_random import least_ticks, problem_at_random

from tilewright.scheduling import Problem, objective, violation
from tilewright.scheduling.cover import CERTAIN, _cover, find_cover, takes
from tilewright.scheduling.exact.search import search
from tilewright.scheduling.improvement.sequencing import Sequencing, plan_of
from tilewright.scheduling.lowering import whole_units
from tilewright.scheduling.subgraph.cost import Pricer
from tilewright.scheduling.subgraph.structure import LONGEST


def tight(seed: int) -> Problem | None:
    """Return a graph none of whose tensors can stay, or None where there is none of that seed."""
    problem = problem_at_random(seed, 4, most=6, native=3)
    graph = problem.graph
    sizes = [graph.elements(tensor) for tensor in graph.made if tensor in graph.readers]
    if not sizes or min(sizes) < 4:
        return None
    problem = problem.with_(graph={"fast_memory_capacity": min(*sizes, 12, 12)})
    return problem if takes(problem, CERTAIN) else None


def roomy(seed: int) -> Problem:
    """Return a graph some of whose tensors can stay, as they are drawn or with more room."""
    problem = problem_at_random(seed, 3 + seed % 3, most=6, native=3)
    more = 1 + seed % 2
    return problem.with_(graph={"fast_memory_capacity": more * problem.graph.fast_memory_capacity})


SEEDS = [seed for seed in range(80) if tight(seed) is not None][:8]
SAMPLE = tight(SEEDS[0])
FOUND = methods(SAMPLE)


def test_there_are_formulations_of_both_kinds() -> None:
    assert {solver for _, solver in FOUND} == {"gecode", "highs"}


@pytest.mark.by_day(3)
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
    assert objective(problem, outcome.plan) == outcome.bound == whole_units(ticks, problem.graph.scale)


@with_each(FOUND)
def test_the_start_arrives(path: Path, solver: str) -> None:
    for seed in SEEDS:
        problem = tight(seed)
        assert problem is not None
        pricer = Pricer(problem)
        found = Sequencing(pricer).arranged([frozenset((op,)) for op in range(len(problem.graph.inputs))])
        if found is not None:
            outcome = solve(problem, path, solver, start=plan_of(pricer, found[1]))
            assert outcome.status == "optimal"
            return
    raise AssertionError("no graph of the tests can be run one by one")


def agree_where_tensors_stay(seeds: range, path: Path, solver: str) -> int:
    """Compare with the exact search; return in how many plans something is kept."""
    keeping = 0
    for seed in seeds:
        problem = roomy(seed)
        assert takes(problem, CERTAIN)
        answer = search(Pricer(problem), LONGEST)
        assert answer is not None
        assert answer.proven
        outcome = solve(problem, path, solver, extras=seed % 2 == 0)
        if answer.ticks is None:
            assert (outcome.status, outcome.plan) == ("infeasible", None)
            continue
        assert outcome.status == "optimal"
        assert violation(problem, outcome.plan) is None
        expected = whole_units(answer.ticks, problem.graph.scale)
        assert objective(problem, outcome.plan) == outcome.bound == expected, seed
        keeping += any(step.retained for step in outcome.plan.subgraphs)
    return keeping


@pytest.mark.nightly
@with_each(FOUND)
def test_formulations_agree_with_the_search_where_tensors_stay(path: Path, solver: str) -> None:
    assert agree_where_tensors_stay(range(20), path, solver) > 3


@nightly
@with_each(FOUND)
def test_formulations_agree_with_the_search_where_tensors_stay_of_more(path: Path, solver: str) -> None:
    assert agree_where_tensors_stay(range(20, 240), path, solver) > 40


@pytest.mark.by_day(3)
@pytest.mark.parametrize("seed", range(4))
@with_each(FOUND)
def test_formulations_find_the_best_of_all_plans_where_tensors_stay(
    seed: int, path: Path, solver: str
) -> None:
    problem = problem_at_random((3, 5, 7, 16)[seed], 3, most=4, native=3)
    problem = problem.with_(graph={"fast_memory_capacity": 40})
    ticks = least_ticks(problem)
    assert ticks is not None
    outcome = solve(problem, path, solver)
    assert (outcome.status, outcome.bound) == ("optimal", whole_units(ticks, problem.graph.scale))


def test_a_plan_that_keeps_tensors_arrives() -> None:
    tried = 0
    for seed in range(40):
        problem = roomy(seed)
        answer, found = search(Pricer(problem), LONGEST), find_cover(problem)
        assert answer is not None
        assert found is not None
        if not any(kept for _, kept in answer.steps):
            continue
        numbers = found.numbers(plan_of(Pricer(problem), answer.steps))
        assert numbers is not None
        plan = found.plan(numbers)
        assert violation(problem, plan) is None
        assert answer.ticks is not None
        assert objective(problem, plan) == whole_units(answer.ticks, problem.graph.scale)
        tried += 1
    assert tried > 5


@pytest.mark.by_day(1)
@with_each(FOUND)
def test_a_start_may_be_slower_than_a_known_plan(path: Path, solver: str) -> None:
    tried = 0
    for seed in range(60):
        problem = roomy(seed)
        found = find_cover(problem)
        blocks = [frozenset((op,)) for op in range(len(problem.graph.inputs))]
        slow = Sequencing(Pricer(problem)).arranged(blocks)
        if found is None or slow is None or slow[0] <= found.worst * problem.graph.scale:
            continue
        outcome = solve(problem, path, solver, start=plan_of(Pricer(problem), slow[1]))
        assert outcome.status == "optimal"
        tried += 1
        if tried == 3:
            return
    raise AssertionError("no graph of the tests has such a plan")


def test_too_many_runs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = roomy(4)
    _cover.cache_clear()
    monkeypatch.setattr("tilewright.scheduling.cover.MOST_RUNS", 2)
    assert not takes(problem)
    _cover.cache_clear()
    monkeypatch.undo()
    assert takes(problem)
