"""Constraints of users' own, against all plans of tiny layers from which predicates filter."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from conftest import examples, nightly
from hypothesis import assume, given, settings
from numbered import randoms
from offloading_at_random import Json, table_at_random
from tests.constrained import Case, hold_to
from tests.oracles import TooLarge
from tests.oracles import offloading as oracle

import tilewright as tw
from tilewright.spec.errors import InputError

LOADS = ("load_inputs", "load_kernels", "load_sums")


def problem_of(table: Json) -> tw.OffloadingProblem:
    """Return the problem of a table; some are refused."""
    try:
        return tw.OffloadingProblem(**table)
    except InputError:
        assume(False)
        raise


def listed(plans: Iterator[tuple[Json, int]]) -> list[tuple[Json, int]]:
    """Return plans; problems with too many are not tried."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracle, "MOST_MOVES", 15_000)
        try:
            return list(plans)
        except TooLarge:
            assume(False)
            raise


def step_of(plan: Json, cell: tuple[int, int, int]) -> int:
    """Return the step of a patch, a kernel and a channel."""
    return 1 + next(
        k
        for k, step in enumerate(plan["steps"])
        for block in step["blocks"]
        if block is not None
        and all(
            any(first <= at < end for first, end in block[axis])
            for axis, at in zip(("patches", "kernels", "channels"), cell, strict=True)
        )
    )


def loads_of(plan: Json) -> int:
    """Return the elements that are loaded."""
    return sum(
        end - first
        for step in plan["steps"]
        for moves in step["moves"]
        for key in LOADS
        for first, end in moves.get(key, [])
    )


def cell_at_random(random: Random, problem: tw.OffloadingProblem) -> tuple[str, tuple[int, int, int]]:
    """Return what a constraint says of a cell, and its patch, kernel and channel."""
    rows, columns = problem.layer.output_plane
    layer = oracle.Layer(problem.model_dump(mode="json"))
    row, column = random.randrange(rows), random.randrange(columns)
    kernel, channel = random.randrange(layer.kernels), random.randrange(layer.channels)
    return f"{row}, {column}, {kernel}, {channel}", (row * columns + column, kernel, channel)


def cases_of_steps(random: Random, problem: tw.OffloadingProblem) -> list[Case]:
    """Return constraints on the steps of cells."""
    (a, one), (b, other) = (cell_at_random(random, problem) for _ in range(2))
    rows, columns = problem.layer.output_plane
    kernels = problem.layer.kernels
    most = random.randint(1, 3)
    return [
        (f"step({a}) == {most}", lambda p: step_of(p, one) == most),
        (f"same_step({a}, {b})", lambda p: step_of(p, one) == step_of(p, other)),
        (f"before({a}, {b})", lambda p: step_of(p, one) < step_of(p, other)),
        (f"steps >= {most + 1}", lambda p: len(p["steps"]) >= most + 1),
        ("steps % 2 == 0", lambda p: len(p["steps"]) % 2 == 0),
        (
            f"step({a}) + step({b}) in {{3, 5}} implies steps <= {most}",
            lambda p: step_of(p, one) + step_of(p, other) not in (3, 5) or len(p["steps"]) <= most,
        ),
        (
            "for all r in rows: for all c in columns: step(r, c, 0, 0) % 2 == 1",
            lambda p: all(step_of(p, (n, 0, 0)) % 2 for n in range(rows * columns)),
        ),
        (
            "for some k in kernels: step(0, 0, k, 0) == steps",
            lambda p: any(step_of(p, (0, k, 0)) == len(p["steps"]) for k in range(kernels)),
        ),
    ]


@settings(max_examples=examples(200, 3))
@given(randoms)
def test_steps(random: Random) -> None:
    table = table_at_random(random, cells=6, bursts=False)
    table["machine"].pop("placement")
    problem = problem_of(table)
    cases = random.sample(cases_of_steps(random, problem), random.randint(1, 2))
    plans = listed(oracle.sequences(table))
    assume(plans)
    methods = ["held@highs", "blocks@cpsat", "auto", "reference@gecode"]
    hold_to(problem, cases, iter(plans), methods, random.randint(0, 3))


@settings(max_examples=examples(200, 3))
@given(randoms)
def test_loads_and_costs(random: Random) -> None:
    table = table_at_random(random, cells=4)
    table["machine"].pop("placement")
    problem = problem_of(table)
    plans = listed(oracle.plans(table))
    assume(plans)
    least = min(loads_of(plan) for plan, _ in plans)
    best = min(cost for _, cost in plans)
    lot: list[Case] = [
        (f"loads == {least}", lambda p: loads_of(p) == least),
        (f"loads >= {least + 2}", lambda p: loads_of(p) >= least + 2),
        ("loads % 3 == 1", lambda p: loads_of(p) % 3 == 1),
        (f"cost > {best}", lambda p: oracle.cost(table, p) > best),
        ("cost % 3 == 1", lambda p: oracle.cost(table, p) % 3 == 1),
        (
            f"loads > {least} implies steps == 2",
            lambda p: loads_of(p) <= least or len(p["steps"]) == 2,
        ),
    ]
    cases = random.sample(lot, 1) + random.sample(cases_of_steps(random, problem), random.randint(0, 1))
    hold_to(problem, cases, iter(plans), ["reference@gecode", "auto"], random.randint(0, 1))


@nightly
def test_what_contradicts_is_named() -> None:
    """A cell of the first step is not behind another; the limit on steps and the third are innocent."""
    problem = tw.OffloadingProblem(
        layer=tw.Layer(input=(2, 1, 2), kernels=1, kernel=1),
        machine=tw.OffloadingMachine(macs_per_step=1, memory=3),
        limits=tw.OffloadingLimits(steps=4),
    )
    said = ("step(0, 0, 0, 0) == 1", "before(0, 1, 0, 1, 0, 0, 0, 0)", "loads >= 5")
    result = tw.solve(problem.where(*said), time_limit=60)
    assert result.status == "infeasible"
    assert result.contradiction is not None
    assert result.contradiction["minimal"]
    assert sorted(result.contradiction["of"]) == ["constraints[0]", "constraints[1]"]
