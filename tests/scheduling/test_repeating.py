"""Improvement that runs operations twice: whatever it reports is a plan, and takes less time than before."""

from __future__ import annotations

import pytest
from graphs_at_random import problem_at_random

from tilewright.scheduling import Plan, Problem, measured_objective, objective, simulate, violation
from tilewright.scheduling.exact.search import search
from tilewright.scheduling.improvement.partition import Steps, merge_greedily
from tilewright.scheduling.improvement.recompute import Recompute
from tilewright.scheduling.improvement.sequencing import Links, Sequencing, plan_of
from tilewright.scheduling.improvement.windows import Windows
from tilewright.scheduling.rules import latencies
from tilewright.scheduling.subgraph.cost import Pricer

FOREVER = float("inf")


def narrow(seed: int, operations: int) -> Problem:
    """Return a graph whose tensors are large for its memory."""
    problem = problem_at_random(seed, operations, most=40, native=8)
    return problem.with_(graph={"fast_memory_capacity": max(60, problem.graph.fast_memory_capacity // 4)})


def improved(problem: Problem, improver: Recompute | Windows) -> list[Plan]:
    """Improve the greedy arrangement, check all that is reported, and return it as plans."""
    pricer = improver.pricer
    first = Sequencing(pricer).arranged(merge_greedily(pricer).blocks)
    if first is None:
        return []
    totals, plans = [first[0]], []

    def on_better(total: int, steps: Steps) -> None:
        plan = plan_of(pricer, steps)
        assert violation(problem, plan) is None
        assert sum(latencies(problem, plan)) == total < totals[-1]
        totals.append(total)
        plans.append(plan)

    improver.run(*first, FOREVER, on_better)
    return plans


def repeats(plan: Plan) -> bool:
    run = [op for step in plan.subgraphs for op in step.operations]
    return len(run) > len(set(run))


def test_operations_are_run_once_more_where_that_wins_time() -> None:
    found = []
    for seed in range(30):
        problem = narrow(seed, 12)
        plans = improved(problem, Recompute(Pricer(problem)))
        found += [(problem, plan) for plan in plans[-1:] if repeats(plan)]
    assert len(found) >= 5
    problem, plan = found[0]
    report = simulate(problem, plan, numeric=True)
    assert report.numeric
    assert measured_objective(problem, report) == objective(problem, plan)


@pytest.mark.nightly
def test_windows_run_operations_once_more_where_that_wins_time() -> None:
    repeated = best = 0
    for seed in range(18):
        problem = narrow(seed, 9)
        plans = improved(problem, Windows(Pricer(problem), seed))
        if plans:
            repeated += repeats(plans[-1])
            answer = search(Pricer(problem), 2**61)
            assert answer is not None
            best += sum(latencies(problem, plans[-1])) == answer.ticks
    assert repeated >= 2
    assert best >= 2


def test_who_writes_for_whom() -> None:
    table = {
        "widths": [4] * 4,
        "heights": [4] * 4,
        "inputs": [[0], [1], [1, 2]],
        "outputs": [[1], [2], [3]],
        "base_costs": [1] * 3,
        "op_types": ["Pointwise"] * 3,
        "fast_memory_capacity": 100,
        "slow_memory_bandwidth": 1,
        "native_granularity": [4, 4],
    }
    graph = Problem(graph=table).graph
    once = Links(graph, [frozenset((0,)), frozenset((1,)), frozenset((2,))])
    assert (once.giver, once.takers) == ({0: 0, 1: 1, 2: 2}, {0: {1, 2}, 1: {2}, 2: set()})
    # The second subgraph reads the tensor of operation 0 itself, so it is the first one that gives it.
    twice = Links(graph, [frozenset((0, 1)), frozenset((0,)), frozenset((2,))])
    assert (twice.giver, twice.takers) == ({0: 1, 1: 0, 2: 2}, {0: {2}, 1: {2}, 2: set()})


@pytest.mark.parametrize("seed", range(4))
def test_what_nobody_reads_is_left_out(seed: int) -> None:
    problem = narrow(seed, 6)
    pricer = Pricer(problem)
    everything = frozenset(range(6))
    alone = [frozenset((op,)) for op in problem.graph.order]
    needed = Recompute(pricer).needed([*alone, everything])
    run = [op for block in needed for op in block]
    assert set(run) == everything
    links = Links(problem.graph, needed)
    for number, block in enumerate(needed):
        for op in block:
            inside = block & set(problem.graph.readers.get(problem.graph.made[op], ()))
            given = links.giver[op] == number and (
                links.takers[op] or problem.graph.made[op] in problem.graph.results
            )
            assert inside or given
