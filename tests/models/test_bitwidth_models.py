"""Every formulation that chooses bit widths: against enumeration on tiny random problems."""

from __future__ import annotations

from pathlib import Path

import pytest
from bits_at_random import points, problems, thesis_problem
from conftest import examples
from formulations import methods, need, solve, with_each
from hypothesis import given, settings

from tilewright.bitwidth import Problem, best_bound, objective, violation
from tilewright.bitwidth.selection import CERTAIN, Selection, takes
from tilewright.core import catalogue
from tilewright.core.room import room_of
from tilewright.run.solve import solve as run
from tilewright.spec.errors import Disagreement

SAMPLE = thesis_problem("output_range")
FOUND = methods(SAMPLE)

PAIR = Problem(
    network={
        "layers": [
            {"name": "a", "kind": "fc", "inputs": 20, "outputs": 6},
            {"name": "b", "kind": "fc", "inputs": 6, "outputs": 30},
        ]
    },
    ranges={
        "a": {"input": 3.0, "weights": 0.4, "output": 5.0},
        "b": {"input": 5.0, "weights": 0.2, "output": 2.0},
    },
    machine={"accumulator_bits": 20, "widths": [4, 5, 6, 7, 8, 9, 10]},
    limits={"bits": 2000},
)
LIMITED = {
    "noise": PAIR,
    "bits": PAIR.with_(objective={"minimise": "bits"}, limits={"signal_to_noise_db": 27.0, "bits": None}),
    "both": PAIR.with_(objective={"minimise": "bits"}, limits={"signal_to_noise_db": 26.0}),
    "free": PAIR.with_(limits={"bits": None}),
    "none": PAIR.with_(limits={"signal_to_noise_db": 60.0}),
}


def least(problem: Problem) -> int | None:
    return min((point[problem.minimise == "bits"] for point in points(problem)), default=None)


def check(problem: Problem, path: Path, solver: str, extras: bool) -> None:
    expected = least(problem)
    outcome = solve(problem, path, solver, extras=extras)
    if expected is None:
        assert (outcome.status, outcome.plan) == ("infeasible", None)
        return
    assert outcome.status == "optimal"
    assert violation(problem, outcome.plan) is None
    assert objective(problem, outcome.plan) == outcome.bound == expected


def test_there_are_formulations_of_both_kinds() -> None:
    assert {solver for _, solver in FOUND} == {"gecode", "highs"}


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", LIMITED)
@with_each(FOUND)
def test_formulations_prove_the_optimum(name: str, path: Path, solver: str) -> None:
    for extras in (True, False):
        check(LIMITED[name], path, solver, extras)


@settings(max_examples=examples(60), deadline=None)
@given(problems())
def test_knapsack_agrees_with_enumeration(problem: Problem) -> None:
    need("highs")
    if takes(problem, CERTAIN):
        check(problem, catalogue.model("bitwidth", "columns_knapsack"), "highs", True)


@settings(max_examples=examples(20), deadline=None)
@given(problems())
def test_choose_agrees_with_enumeration(problem: Problem) -> None:
    need("gecode")
    if takes(problem):
        check(problem, catalogue.model("bitwidth", "columns_choose"), "gecode", True)


@pytest.mark.nightly
@with_each(FOUND)
def test_the_start_arrives(path: Path, solver: str) -> None:
    sizes = [7 + n % 5 for n in range(13)]
    layers = [
        {"name": f"fc{n}", "kind": "fc", "inputs": sizes[n], "outputs": sizes[n + 1]} for n in range(12)
    ]
    known = {"input": 3.0, "weights": 0.4, "output": 5.0}
    ranges = {f"fc{n}": known | {"input": 2.0 + n / 5, "weights_power": 0.01 + n / 500} for n in range(12)}
    machine = {"accumulator_bits": 20}
    problem = Problem(network={"layers": layers}, ranges=ranges, machine=machine, limits={"bits": 9_000})
    assert takes(problem)
    start = catalogue.heuristic("bitwidth", "greedy").plan(problem)
    assert violation(problem, start) is None
    outcome = solve(problem, path, solver, start=start, seconds=5)
    assert outcome.warm_start
    assert objective(problem, outcome.plan) <= objective(problem, start)


@pytest.mark.by_day(1)
@with_each(FOUND)
def test_starts_that_cost_more_than_what_is_known_do_no_harm(path: Path, solver: str) -> None:
    problem = LIMITED["noise"]
    layers = problem.layers
    fewest = [problem.choices[number][-1] for number in range(len(layers))]
    start = (
        Selection(problem)
        .plan([0, 0])
        .__class__(tuple(layer.name for layer in layers), tuple((one.inputs, one.weights) for one in fewest))
    )
    assert violation(problem, start) is None
    assert objective(problem, start) > Selection(problem).worst + Selection(problem).offset
    assert solve(problem, path, solver, start=start).bound == least(problem)


def test_large_problems_and_fronts_are_left_to_the_search() -> None:
    bridge = room_of(SAMPLE).minizinc
    path = catalogue.model("bitwidth", "columns_choose")
    assert not bridge.suits(SAMPLE.with_(objective={"minimise": "pareto"}), path)
    loud = PAIR.with_(machine={"accumulator_bits": 9}, limits={"bits": 1300})
    assert takes(loud) and not takes(loud, CERTAIN)


def test_a_solver_that_lies_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan of a solution is judged by its own costs, not by what the solver said."""
    need("highs")
    monkeypatch.setattr(Selection, "cost", lambda self, number, one: one.inputs)
    with pytest.raises(Disagreement):
        solve(LIMITED["noise"], catalogue.model("bitwidth", "columns_knapsack"), "highs")


def test_auto_confirms_nothing_impossible() -> None:
    assert best_bound(LIMITED["none"]).impossible
    assert run(LIMITED["none"], time_limit=20).status == "infeasible"
