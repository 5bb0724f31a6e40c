"""Sums that take the place of an operand, in passes of any size; held against an oracle of its own."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import THOROUGH, examples
from tests.fuzz.campaigns import residency_problems
from tests.fuzz.problems import refused
from tests.fuzz.trials import Skip
from tests.oracles import residency as oracle

from tilewright.core import catalogue
from tilewright.residency import Plan, Problem, Step, objective, simulate, violation
from tilewright.run.instance import parse
from tilewright.run.solve import solve
from tilewright.run.verify import check
from tilewright.spec.errors import InputError, SolverMissingError

Json = dict[str, Any]


def block(side: int, kernel: list[int], kernels: int, **limits: Any) -> Json:
    """Return a block whose second convolution reads rows, so that the sum can take its input's place."""
    plane = [side, side]
    padding = [kernel[0] // 2, kernel[0] // 2, kernel[1] // 2, kernel[1] // 2]
    layers = [
        {"name": "c0", "input": [2, *plane], "kernels": 8, "kernel": kernel, "padding": padding},
        {"name": "a", "inputs": ["c0"], "input": [8, *plane], "kernels": 8, "kernel": [1, 3], "groups": 8}
        | {"padding": [0, 0, 1, 1]},
        {"name": "s", "kind": "add", "inputs": ["c0", "a"], "input": [8, *plane]},
        {"name": "d", "inputs": ["s"], "input": [8, *plane], "kernels": kernels, "kernel": kernel}
        | {"padding": padding},
    ]
    return {"room": "residency", "network": {"layers": layers}, "limits": limits}


LARGE = block(12, [3, 3], 32) | {"machine": {"memory_bytes": 1300}}
SMALL = block(6, [1, 1], 2, most_operations=2) | {"machine": {"memory_bytes": 400}}

BEST = [
    # Found by the enumeration of tests/oracles; plans of former versions moved 9,672 and 776 bytes.
    (LARGE, "traffic", {}, 7656),
    (SMALL, "traffic", {}, 200),
    (SMALL, "memory", {"most_traffic": 200}, 360),
    (SMALL, "cycles", {}, 820),
    (SMALL, "energy", {}, 119_757_350),
]


@pytest.mark.parametrize("method", ["states", "intervals@highs", "divide@gecode"])
@pytest.mark.parametrize(("table", "minimise", "limits", "least"), BEST)
def test_passes_of_whole_rows_may_be_needed(
    table: Json, minimise: str, limits: Json, least: int, method: str
) -> None:
    if method != "states" and minimise != "traffic":
        pytest.skip("formulations are for least traffic")
    instance = parse(table | {"objective": {"minimise": minimise, **limits}})
    try:
        result = solve(instance, method, time_limit=120)
    except SolverMissingError as error:
        pytest.skip(str(error))
    assert (result.status, result.objective) == ("optimal", least)


def test_the_oracle_finds_the_same() -> None:
    problem = parse(SMALL | {"objective": {"minimise": ["traffic", "cycles", "memory"]}}).problem
    assert isinstance(problem, Problem)
    if THOROUGH:  # it takes five seconds
        found = oracle.least(problem.model_dump(mode="json"))
        assert found == {"traffic": 200, "cycles": 820, "memory": 360}


def test_what_is_no_optimum_is_refuted() -> None:
    """A plan that was called optimal before, of four operations one by one: another one moves 200 bytes."""
    instance = parse(SMALL)
    best = solve(instance, "states", time_limit=60)
    worse = catalogue.heuristic("residency", "layer_by_layer").plan(instance.problem)
    cost = objective(instance.problem, worse)
    assert cost > 200
    claimed = solve(instance, lambda _problem: worse, time_limit=60)
    told = replace(
        claimed,
        method="states",
        status="optimal",
        bound=cost,
        bound_by="states",
        gap=0.0,
        trace=[(0.0, cost, cost)],
    )
    wrong = {found.what for found in check(instance, told, time_limit=60) if found.holds is False}
    assert wrong == {"bound"}, wrong
    assert best.objective == 200


def two_of(pixels: int) -> Step:
    """Return the step in which a sum takes the place of an operand that a convolution reads, too."""
    addresses = {"s": 0, "lines of a": 288, "weights of a": 288 + 8 * pixels}
    return Step(("a", "s"), "pixels", pixels, 8, ("a",), (), (), ("s",), (), "c0", addresses)


@pytest.mark.parametrize(("pixels", "valid"), [(6, True), (12, True), (36, True), (1, False), (5, False)])
def test_a_sum_may_overwrite_what_nobody_needs_any_more(pixels: int, valid: bool) -> None:
    """By the closed forms, and by the cells of the memory, if the plan is executed all the same."""
    problem = parse(SMALL | {"machine": {"memory_bytes": 700}}).problem
    assert isinstance(problem, Problem)
    first = Step(
        ("c0",),
        "kernels",
        1,
        8,
        (),
        (),
        (),
        ("c0",),
        (),
        None,
        {"c0": 0, "lines of input": 288, "weights of c0": 290},
    )
    last = Step(
        ("d",), "kernels", 1, 2, (), (), (), (), ("d",), None, {"weights of d": 290, "block of d": 288}
    )
    plan = Plan((first, two_of(pixels), last))
    assert (violation(problem, plan) is None) == valid
    report = simulate(problem, plan, numeric=True)
    assert (report.violation is None and report.numeric) == valid


@pytest.mark.parametrize("seed", range(examples(80)))
def test_the_search_agrees_with_an_oracle_apart(seed: int, tmp_path: Path) -> None:
    """Every objective, limits and lists, strips, tiles, second buffers, outputs that are read inside."""
    try:
        residency_problems.trial(random.Random(f"oracle {seed}"), tmp_path)
    except Skip:
        pytest.skip("too large for the oracle")


@pytest.mark.parametrize("seed", range(examples(80)))
def test_sums_in_place_agree_with_an_oracle_apart(seed: int) -> None:
    """Two readers of a map of which one is a sum: kernels of a row or column, padding on one side."""
    rng = random.Random(f"in place {seed}")
    kernels, plane = rng.randint(2, 5), [rng.randint(2, 4), rng.randint(2, 4)]
    shape = [kernels, *plane]
    layers: list[Json] = [
        {"name": "c", "input": [rng.randint(1, 3), *plane], "kernels": kernels, "kernel": [1, 1]}
    ]
    for name in rng.choice(["a", "ab"]):
        kernel = rng.choice([[1, 2], [1, 3], [2, 1], [3, 1], [2, 2]])
        before = [rng.choice([0, size - 1, rng.randrange(size)]) for size in kernel]
        padding = [before[0], kernel[0] - 1 - before[0], before[1], kernel[1] - 1 - before[1]]
        layers.append(
            {"name": name, "input": shape, "kernels": kernels, "kernel": kernel, "padding": padding}
        )
        layers[-1] |= {"groups": kernels} if rng.random() < 0.7 else {}
    sums = rng.sample(["c", layers[-1]["name"]], 2)
    layers.append({"name": "s", "kind": "add", "inputs": sums, "input": shape})
    if rng.random() < 0.7:
        layers.append({"name": "d", "input": shape, "kernels": rng.randint(1, 5), "kernel": [1, 1]})
    size = kernels * plane[0] * plane[1]
    table = {
        "network": {"layers": layers},
        "machine": {"memory_bytes": size + rng.randint(0, size // 2), "double_buffering": rng.random() < 0.3},
        "limits": {"tiles": rng.random() < 0.5} | ({"most_operations": 2} if rng.random() < 0.5 else {}),
        "objective": {"minimise": rng.choice(["traffic", "traffic", "cycles", "energy"])},
    }
    try:
        problem = parse({"room": "residency", **table}).problem
    except InputError as error:
        refused("residency", table, oracle, error)
    else:
        residency_problems.compared(rng, problem)
