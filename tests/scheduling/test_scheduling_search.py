"""The exact search against all plans of tiny graphs; heuristics never beat it."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from conftest import nightly
from graphs_at_random import least_ticks, problem_at_random, twins_at_random
from tests.oracles import TooLarge

from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.models.scheduling import ideals
from tilewright.run.instance import parse
from tilewright.run.solve import solve
from tilewright.scheduling import (
    Plan,
    Problem,
    best_bound,
    measured_objective,
    objective,
    simulate,
    violation,
)
from tilewright.scheduling.exact.piece_bound import _pieces, pieces_bound
from tilewright.scheduling.exact.search import search
from tilewright.scheduling.exact.subgraph_candidates import Candidates, connected_sets
from tilewright.scheduling.exact.symmetry import find_twins
from tilewright.scheduling.improvement.sequencing import plan_of
from tilewright.scheduling.plan import ORDERS
from tilewright.scheduling.rules import latencies, rank
from tilewright.scheduling.subgraph.cost import Pricer
from tilewright.scheduling.subgraph.structure import sinks

INSTANCES = Path(__file__).parents[2] / "instances/scheduling"


def check(seed: int, operations: int, most: int) -> None:
    problem = problem_at_random(seed, operations, most=most, native=3)
    expected = least_ticks(problem)
    answer = search(Pricer(problem), 2**61)
    assert answer is not None
    assert answer.proven
    assert answer.ticks == expected, (seed, answer, expected)
    if expected is None:
        context = RunContext(deadline=time.monotonic() + 600)
        assert ideals.solve(problem, context).status == "infeasible"
        return
    plan = plan_of(Pricer(problem), answer.steps)
    assert violation(problem, plan) is None
    assert sum(latencies(problem, plan)) == expected
    report = simulate(problem, plan, numeric=True, seed=seed)
    assert report.numeric
    assert measured_objective(problem, report) == objective(problem, plan)
    bound = best_bound(problem)
    assert bound.impossible is None
    assert bound.value <= objective(problem, plan)
    assert pieces_bound(Pricer(problem)) <= expected
    outcome = ideals.solve(problem, RunContext(deadline=time.monotonic() + 600))
    assert (outcome.status, outcome.bound) == ("optimal", objective(problem, plan))
    for name in ("one_by_one", "greedy"):
        try:
            found = catalogue.heuristic("scheduling", name).plan(problem)
        except ValueError:
            continue
        assert violation(problem, found) is None
        assert sum(latencies(problem, found)) >= expected


def check_without_keeping(seed: int, operations: int, most: int) -> None:
    """Compare both searches with all plans where no tensor can stay, for limits above and at the optimum."""
    agree_without_keeping(problem_at_random(seed, operations, most=most, native=3), seed)


def agree_without_keeping(problem: Problem, seed: int) -> None:
    graph = problem.graph
    capacity = min((graph.elements(tensor) for tensor in graph.made if tensor in graph.readers), default=9)
    changed = graph.model_copy(update={"fast_memory_capacity": capacity})
    agree(Problem(graph=changed, limits=problem.limits), seed)


def agree(problem: Problem, seed: int) -> None:
    expected = least_ticks(problem)
    answer = search(Pricer(problem), 2**61)
    assert answer is not None
    assert (answer.proven, answer.ticks) == (True, expected), seed
    if expected is not None:
        plan = plan_of(Pricer(problem), answer.steps)
        assert violation(problem, plan) is None
        assert sum(latencies(problem, plan)) == expected
        for below, found in ((expected + 1, expected), (2 * expected, expected), (expected, None)):
            answer = search(Pricer(problem), below)
            assert answer is not None
            assert (answer.proven, answer.ticks, answer.bound) == (True, found, expected), seed


def ties(problem: Problem) -> tuple[int, ...]:
    """Solve a problem and hold the plan against simple ones; return its rank."""
    result = solve(problem, time_limit=600)
    assert result.status == "optimal"
    own = rank(problem, result.plan)
    report = simulate(problem, result.plan)
    assert own[0] == sum(
        int(each.sum()) for table in (report.loaded, report.written) for each in table.values()
    )
    assert own[2] == max(step.peak_elements for step in report.measures.subgraphs)
    simple = [catalogue.heuristic("scheduling", name).plan(problem) for name in ("one_by_one", "greedy")]
    for place, step in enumerate(result.plan.subgraphs):
        for w, h, order in product((1, 2, 3, 5, 8), (1, 2, 3, 5, 8), ORDERS):
            other = replace(step, granularity=(w, h, step.granularity[2]), order=order)
            steps = result.plan.subgraphs
            simple.append(Plan((*steps[:place], other, *steps[place + 1 :])))
    for other in simple:
        if violation(problem, other) is None and objective(problem, other) == result.objective:
            assert own <= rank(problem, other)
    return own


@pytest.mark.by_day(1)
@pytest.mark.parametrize("seed", range(12))
def test_no_simple_plan_of_equal_objective_comes_before(seed: int) -> None:
    problem = problem_at_random(seed, 4, most=8, native=3)
    costs = [cost * (1, 30)[seed % 2] for cost in problem.graph.base_costs]
    room = 1000 if seed % 3 else problem.graph.fast_memory_capacity
    problem = problem.with_(graph={"base_costs": costs, "fast_memory_capacity": room})
    if least_ticks(problem) is not None:
        ties(problem)


def test_what_computes_all_the_time_moves_no_more_than_it_must() -> None:
    """Three functions in a row, and another one of the first: each tile takes longer than its transfers."""
    graph = {
        "widths": [16] * 5, "heights": [16] * 5, "inputs": [[0], [1], [2], [1]],
        "outputs": [[1], [2], [3], [4]], "base_costs": [10_000] * 4, "op_types": ["Pointwise"] * 4,
        "fast_memory_capacity": 2_000, "slow_memory_bandwidth": 1, "native_granularity": [8, 8],
    }  # fmt: skip
    problem = parse({"room": "scheduling", "graph": graph}).problem
    assert ties(problem)[:2] == (3 * 16 * 16, 4 * 4 * 10_000 * problem.graph.scale)  # one load, two results


@pytest.mark.by_day(3)
@pytest.mark.parametrize("native", [3, 8])
def test_no_set_takes_less_than_it_is_said_to_at_least(native: int) -> None:
    tight = 0
    for seed in range(40):
        problem = problem_at_random(seed, 5, most=5 * native, native=native)
        room = max(12, problem.graph.fast_memory_capacity // (1 + seed % 4))
        problem = problem.with_(graph={"fast_memory_capacity": room})
        pricer = Pricer(problem)
        bits = connected_sets(problem)
        assert bits is not None
        candidates = Candidates(pricer, bits)
        said = candidates.ticks.copy()
        for row in range(len(bits)):
            ops = candidates.ops(row)
            read = {tensor for op in ops for tensor in problem.graph.inputs[op]}
            resident = frozenset(read & candidates.may_stay) - {problem.graph.made[op] for op in ops}
            kept = frozenset(sinks(problem.graph, ops)) & candidates.may_stay
            needs = pricer.structure(ops, resident, kept)
            choice = None if isinstance(needs, str) else pricer.fastest(ops, needs, room)
            if choice is not None:
                assert said[row] <= choice.ticks, (seed, sorted(ops))
                tight += said[row] > 0.999 * choice.ticks
    assert tight > 50


@pytest.mark.by_day(12)
@pytest.mark.parametrize("seed", range(30))
def test_subgraphs_are_chosen_as_well_as_the_best_of_all_plans(seed: int) -> None:
    check_without_keeping(seed, 3 + seed % 2, 5)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("seed", range(24))
def test_twins_are_told_apart_where_it_matters(seed: int) -> None:
    problem = twins_at_random(seed, 1)
    (agree if seed % 4 < 2 else agree_without_keeping)(problem, seed)


@nightly
@pytest.mark.parametrize("seed", range(24, 600))
def test_twins_are_told_apart_where_it_matters_of_more(seed: int) -> None:
    problem = twins_at_random(seed, 1 + seed % 2)
    with suppress(TooLarge):  # to be enumerated
        (agree if seed % 4 < 2 else agree_without_keeping)(problem, seed)


def test_twins_differ_in_nothing_but_tensors_of_their_own() -> None:
    graph = problem_at_random(0, 1).graph.model_copy(
        update={
            "widths": (2,) * 12,
            "heights": (2,) * 12,
            # Four products of one input; the sum of the first two, in either order; one more reads the third.
            "inputs": ((0, 1), (0, 2), (0, 3), (0, 4), (5, 6), (6, 5), (7, 4)),
            "outputs": ((5,), (6,), (7,), (8,), (9,), (10,), (11,)),
            "base_costs": (1, 1, 1, 1, 2, 2, 1),
            "op_types": ("MatMul",) * 4 + ("Pointwise",) * 2 + ("MatMul",),
        }
    )
    assert find_twins(graph, graph.results) == [(0, 1), (4, 5)]
    changed = graph.model_copy(update={"base_costs": (1, 2, 1, 1, 2, 3, 1)})
    assert find_twins(changed, graph.results) == []


def test_no_piece_is_left_out() -> None:
    """All sets of operations that hang together by operands of MatMuls, of which some have several ends."""
    for seed in range(30):
        graph = problem_at_random(seed, 6).graph
        links = [
            {op, graph.maker[tensor]}
            for op, read in enumerate(graph.inputs)
            for tensor in read
            if graph.op_types[op] == "MatMul" and tensor in graph.maker
        ]
        found = {frozenset((op,)) for op in range(6)}
        while wider := {piece | link for piece in found for link in links if piece & link} - found:
            found |= wider
        pieces = _pieces(graph)
        assert pieces is not None
        assert (len(pieces), set(pieces)) == (len(found), found), seed


def test_pieces_take_no_more_than_any_plan_where_flow_connects() -> None:
    tight = 0
    for seed in range(60):
        problem = problem_at_random(seed, 3 + seed % 3, most=6, native=3).with_(limits={"connected": "flow"})
        answer = search(Pricer(problem), 2**61)
        assert answer is not None
        if answer.ticks is not None:
            bound = pieces_bound(Pricer(problem))
            assert bound <= answer.ticks, seed
            tight += bound > 0.999 * answer.ticks
    assert tight > 2


def test_the_stricter_reading_of_connected_has_a_better_bound() -> None:
    table = json.loads((INSTANCES / "mlsys-2026-13.json").read_text())
    loose, strict = (Problem(graph=table, limits={"connected": one}) for one in ("shared", "flow"))
    assert pieces_bound(Pricer(strict)) > 1.4 * pieces_bound(Pricer(loose))


@pytest.mark.by_day(6)
@pytest.mark.parametrize("seed", range(12))
def test_what_is_not_tried_proves_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_at_random(seed, 3, most=4, native=3)
    expected = least_ticks(problem)
    monkeypatch.setattr("tilewright.scheduling.exact.search.MOST_KEPT", 0)
    told: list[int] = []
    answer = search(Pricer(problem), 2**61, on_bound=told.append)
    assert answer is not None
    if expected is not None:
        assert max(answer.bound, *told) <= expected
        assert not answer.proven or answer.ticks == expected


@nightly
@pytest.mark.parametrize("seed", range(30, 600))
def test_subgraphs_are_chosen_as_well_as_the_best_of_all_plans_of_more(seed: int) -> None:
    check_without_keeping(seed, 3 + seed % 3, 5)


@pytest.mark.by_day(3)
@pytest.mark.parametrize("seed", range(10))
def test_the_search_finds_the_best_of_all_plans(seed: int) -> None:
    check(seed, 3, 4)


@nightly
@pytest.mark.parametrize("seed", range(10, 200))
def test_the_search_finds_the_best_of_all_plans_of_more(seed: int) -> None:
    check(seed, 3 + seed % 2, 6)
