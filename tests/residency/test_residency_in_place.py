"""Sums that take the place of an operand, in passes of any size; held against an oracle of its own."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from conftest import examples
from test_residency_search import SMALL, Json
from tests.fuzz.campaigns import residency_problems
from tests.fuzz.problems import refused
from tests.oracles import residency as oracle

from tilewright.core import catalogue
from tilewright.residency import Plan, Problem, Step, objective, simulate, violation
from tilewright.run.instance import parse
from tilewright.run.solve import solve
from tilewright.run.verify import check
from tilewright.spec.errors import InputError


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


@pytest.mark.by_day(3)
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
