"""Times of odd graphs: sizes that share no factors, huge costs, any bandwidth, tiles that are too small."""

from __future__ import annotations

import json
import random
import time
from itertools import islice
from pathlib import Path

import pytest
from conftest import nightly, tells
from graphs_at_random import least_ticks, perturbed, problem_at_random, subgraphs_at_random

from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.models.scheduling import ideals
from tilewright.scheduling import Plan, Problem, best_bound, objective, violation
from tilewright.scheduling.exact.search import search
from tilewright.scheduling.execution import Execution
from tilewright.scheduling.graph import MAX_TICKS, Graph
from tilewright.scheduling.improvement.sequencing import plan_of
from tilewright.scheduling.plan import Subgraph
from tilewright.scheduling.rules import _broken, latencies
from tilewright.scheduling.subgraph.cost import Pricer, evaluate_granularity, ticks
from tilewright.scheduling.subgraph.structure import LONGEST, structure
from tilewright.spec.errors import InputError

INSTANCES = Path(__file__).parents[2] / "instances/scheduling"
BENCHMARKS = 1, 5, 9, 13, 17


def odd(number: int, seed: int) -> Problem:
    table = json.loads((INSTANCES / f"mlsys-2026-{number}.json").read_text())
    return Problem(graph=perturbed(table, 100 * number + seed))


@pytest.mark.by_day(2)
@pytest.mark.parametrize("number", BENCHMARKS)
def test_odd_graphs_have_plans_within_what_is_counted(number: int) -> None:
    for seed in range(5):
        problem = odd(number, seed)
        plan = catalogue.heuristic("scheduling", "one_by_one").plan(problem)
        assert violation(problem, plan) is None
        assert sum(latencies(problem, plan)) <= MAX_TICKS
        bound = best_bound(problem)
        assert 0 < bound.value <= objective(problem, plan)


@nightly
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("number", BENCHMARKS)
def test_odd_graphs_are_solved_in_time(number: int, seed: int) -> None:
    problem = odd(number, seed)
    context = RunContext(deadline=time.monotonic() + 10)
    outcome = ideals.solve(problem, context)
    assert outcome.plan is not None
    assert violation(problem, outcome.plan) is None
    assert outcome.bound is not None
    assert outcome.bound <= objective(problem, outcome.plan)


def small(
    side: int = 1009, depth: int = 1013, cost: int = 1000, bandwidth: int = 7, native: int = 128
) -> Graph:
    """Return a product and what is made of it element by element."""
    return Graph.model_validate(
        {
            "widths": [depth, side, side, side],
            "heights": [side, depth, side, side],
            "inputs": [[0, 1], [2]],
            "outputs": [[2], [3]],
            "base_costs": [cost, cost],
            "op_types": ["MatMul", "Pointwise"],
            "fast_memory_capacity": 100_000,
            "slow_memory_bandwidth": bandwidth,
            "native_granularity": [native, native],
        }
    )


@pytest.mark.by_day(1)
@pytest.mark.parametrize("bandwidth", [1, 7, 2**31 - 1])
@pytest.mark.parametrize("cost", [0, 1000, 10**12])
def test_what_is_hard_to_count_has_a_plan(cost: int, bandwidth: int) -> None:
    problem = Problem(graph=small(cost=cost, bandwidth=bandwidth, native=127))
    outcome = ideals.solve(problem, RunContext(deadline=time.monotonic() + 60))
    assert outcome.status == "optimal"
    assert outcome.plan is not None
    compute = 2 * 64 * cost
    moved = (2 * 1009 * 1013 + 1009**2) // bandwidth
    assert max(compute, moved) <= outcome.bound <= compute + 20 * moved + 1


def test_sizes_that_share_factors_are_counted_exactly() -> None:
    graph = small(side=512, depth=512, native=128)
    assert (graph.scale, graph.unit, graph.per) == (512 * 7, 512, 1)
    assert small().scale == 1013 * 128 * 7


def test_a_time_that_no_plan_undercuts_is_refused() -> None:
    with pytest.raises(InputError, match=r"base_costs.*times may be longer"):
        small(side=2**20, depth=2**20, cost=10**12, native=1)


@pytest.mark.parametrize("size", [(1, 1, 1), (3, 1, 2), (1, 4096, 64), (4096, 4096, 4096)])
def test_what_takes_too_long_is_told_from_what_does_not(size: tuple[int, int, int]) -> None:
    side, cost = 2**20, 10**9
    graph = small(side=side, depth=2**12, cost=cost, native=4096, bandwidth=1)
    found = structure(Problem(graph=graph), [1])
    assert not isinstance(found, str)
    w, h, _ = size
    clipped = -(-side // w) * -(-side // h)
    # Tiles cost more than they move, so every order takes as long.
    exact = clipped * cost * graph.scale
    assert 2 * w * h < cost
    times = evaluate_granularity(graph, found, size)[1:5]
    assert set(times) == ({exact} if exact <= LONGEST else {2**62})
    assert (exact > LONGEST) == (w * h < 4096)
    plan = Plan((Subgraph((0,), (1, 1, 1)), Subgraph((1,), size)))
    assert tells(violation(Problem(graph=graph), plan), "time .. subgraph 1")


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    """Let so little be counted that most times of random graphs are no whole ticks."""
    monkeypatch.setattr("tilewright.scheduling.graph.MAX_TICKS", request.param)
    most: int = request.param
    return most


@pytest.mark.by_day(1)
@pytest.mark.parametrize("coarse", [2**13, 2**17], indirect=True)
def test_begun_ticks_are_counted_alike(coarse: int) -> None:
    seen, tried = set(), 0
    for seed in range(40):
        try:
            problem = problem_at_random(seed, 4, most=7, native=4)
            problem = problem.with_(graph={"slow_memory_bandwidth": 1 + 16 * (seed % 3)})
        except InputError:
            continue
        graph = problem.graph
        seen.add(graph.per > 1)
        for step in islice(subgraphs_at_random(problem, random.Random(seed)), 60):
            if _broken(problem, step, set(graph.maker), frozenset()) is not None:
                continue
            execution = Execution(problem)
            execution.slow |= dict.fromkeys(graph.maker)
            found = structure(problem, step.operations, (), step.retained)
            assert not isinstance(found, str)
            assert execution.run(step).ticks == ticks(graph, found, step.granularity, step.order)
            tried += 1
    assert tried > 100
    assert seen == {False, coarse < 2**15}


@pytest.mark.nightly
@pytest.mark.parametrize("coarse", [2**15], indirect=True)
@pytest.mark.usefixtures("coarse")
def test_the_search_is_right_where_ticks_are_begun() -> None:
    tried = 0
    for seed in range(20):
        try:
            problem = problem_at_random(seed, 3, most=5, native=3)
        except InputError:
            continue
        answer = search(Pricer(problem), LONGEST)
        assert answer is not None
        assert (answer.proven, answer.ticks) == (True, least_ticks(problem))
        if answer.ticks is not None:
            assert best_bound(problem).value <= objective(problem, plan_of(Pricer(problem), answer.steps))
            tried += 1
    assert tried > 5
