"""The exact search over orders of patches, beside all plans of tiny layers; what it refuses."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import pytest
from conftest import examples, nightly, tells
from hypothesis import assume, given, settings
from numbered import randoms
from offloading_at_random import Json
from tests.oracles import TooLarge
from tests.oracles import offloading as oracle

import tilewright as tw
from tilewright.core.context import RunContext
from tilewright.heuristics.offloading import zigzag
from tilewright.models.offloading import orders
from tilewright.offloading import Problem, best_bound, objective, violation
from tilewright.offloading.exact import search
from tilewright.papers.s1.wide import wide_cell
from tilewright.spec.errors import InputError, TilewrightError


def layer_at_random(random: Random) -> Json:
    """Return an instance of four to eight patches that overlap, in a memory that is small."""
    while True:
        kernel = [random.choice([1, 2, 2, 3]), random.choice([2, 2, 3])]
        stride = [random.choice([1, 1, 1, 2]) for _ in range(2)]
        size = [random.choice([1, 1, 1, 1, 2]), random.randint(1, 5), random.randint(1, 6)]
        padding = [random.randint(0, kernel[i // 2] - 1) if random.random() < 0.2 else 0 for i in range(4)]
        sides = [(size[1 + i] + sum(padding[2 * i : 2 * i + 2]) - kernel[i]) // stride[i] + 1 for i in (0, 1)]
        if min(sides) > 0 and 4 <= sides[0] * sides[1] <= 8:
            break
    kernels, taps, group = random.choice([1, 1, 2]), kernel[0] * kernel[1] * size[0], random.choice([1, 1, 2])
    limits: Json = {
        "channels": "all" if size[0] > 1 else random.choice(["all", "any"]),
        "reloads": random.choice([2, 2, 2, 2, 0, 0, 1, 3]),
    }
    if random.random() < 0.5:
        patches = sides[0] * sides[1]
        limits["steps"] = random.randint(-(-patches // group), patches)
    machine = {
        "kernels": random.choice(["step1", "preloaded"]),
        "load": random.choice([1, 1, 2, 3]),
        "write": random.choice([1, 0, 2]),
        "compute": random.choice([1, 1, 0, 3]),
        "padding": random.choice(["loaded", "generated"]),
        "macs_per_step": group * kernels * taps,
        "memory": taps + kernels * taps + kernels + random.choice([0, 0, 0, 1, 1, 2, 3, 4]),
    }
    return {
        "layer": {"input": size, "kernels": kernels, "kernel": kernel, "stride": stride, "padding": padding},
        "machine": machine,
        "limits": limits,
        "objective": {"minimise": random.choice(["duration", "loads"])},
    }


@settings(max_examples=examples(400, 4))
@given(randoms)
def test_what_is_proven_holds_for_all_plans(random: Random) -> None:
    """Of every plan; a plan is missing only where the limit on reloads leaves out what the search finds."""
    table = layer_at_random(random)
    try:
        problem = Problem(**table)
    except InputError:
        assume(False)
        raise
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracle, "MOST_MOVES", 15_000)
        try:
            best = oracle.least(table)
        except TooLarge:
            assume(False)
            raise
    outcome = orders.solve(problem, RunContext())
    if outcome.status == "infeasible":
        assert best is None
        return
    assert outcome.bound is not None
    assert best is None or outcome.bound <= best
    if outcome.plan is not None:
        assert violation(problem, outcome.plan) is None
        cost = oracle.cost(table, outcome.plan.to_json())
        assert best is not None
        assert cost == best if outcome.status == "optimal" else cost >= best
    if outcome.status != "optimal":
        assert problem.max_loads is not None


def cell(side: int, group: int = 2) -> Problem:
    """Return the problem of a cell of the S1 paper's grid where pixels may stay."""
    problem: Problem = wide_cell(side, group).problem
    return problem


def test_a_cell_of_the_grid_is_proven_above_the_compulsory_bound() -> None:
    """7x7, two patches a step: 49 pixels, two of them twice, 13 steps."""
    result = tw.solve(cell(7), "orders", time_limit=60)
    assert (result.status, result.objective, best_bound(cell(7)).value) == ("optimal", 64, 62)


def test_no_fewer_reloads_and_the_bound_rises_one_by_one() -> None:
    told: list[int] = []
    start = tw.solve(cell(7), "orders", time_limit=60).plan
    context = RunContext(start=start, on_bound=lambda bound, *_: told.append(bound))
    outcome = orders.solve(cell(7), context)
    assert (outcome.status, outcome.bound, outcome.plan) == ("optimal", 64, start)
    assert told == [63, 64]


def test_states_that_fill_the_memory_or_the_time_leave_the_bound() -> None:
    few = search.OrderParams(widths=(), most_bytes=1 << 20)
    found = list(search.prove(cell(9), None, float("inf"), few))
    assert found
    assert all(each.plan is None for each in found)
    assert best_bound(cell(9)).value < (found[-1].bound or 0) < 114
    began = time.monotonic()
    start = zigzag.plan(cell(12))
    outcome = orders.solve(cell(12), RunContext(start=start, deadline=began + 1))
    assert time.monotonic() - began < 3
    assert outcome.status == "feasible"
    assert outcome.bound is not None
    assert outcome.bound < objective(cell(12), outcome.plan)


@nightly
def test_the_grid_with_two_patches_a_step() -> None:
    """8x8 and 9x9 as docs/results/offloading.md has them."""
    for side, cycles in ((8, 88), (9, 114)):
        result = tw.solve(cell(side), "orders", time_limit=600)
        assert (result.status, result.objective) == ("optimal", cycles)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "kernels in DRAM": ({"machine": {"kernels": "dram"}}, "dram"),
    "two parts": ({"machine": {"parts": 2}}, "2"),
    "bursts": ({"machine": {"burst": 3}}, "3"),
    "addresses": ({"machine": {"placement": "contiguous"}}, "counted"),
    "a matrix product": ({"limits": {"form": "gemm"}}, "gemm"),
    "channels one by one": ({"layer": {"input": [2, 9, 9]}, "limits": {"channels": "any"}}, "2"),
    "many groups": ({"machine": {"macs_per_step": 90, "memory": 109}}, "200,000"),
    "many patches": ({"layer": {"input": [1, 17, 17]}}, "225"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_with_what_it_has_and_what_would_do(name: str) -> None:
    tables, says = REFUSED[name]
    whole = cell(9).model_dump(mode="json")
    whole["limits"]["steps"] = "free"
    for table, changes in tables.items():
        whole[table] |= changes
    whole["machine"]["memory"] = max(whole["machine"]["memory"], 109)
    assert tells(orders.why_not(Problem(**whole)), says)


def test_solve_says_why_it_refuses() -> None:
    whole = cell(9).model_dump(mode="json")
    whole["machine"]["burst"] = 3
    with pytest.raises(TilewrightError) as caught:
        tw.solve(Problem(**whole), "orders", time_limit=5)
    assert tells(caught.value, "method", "orders", "machine.burst", 3)
