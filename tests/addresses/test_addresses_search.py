"""The exact search of addresses against enumeration, and what it says of itself."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from conftest import thorough

from tilewright.addresses import Memory, Problem, least_height, objective, pack, violation
from tilewright.addresses.exact import packing
from tilewright.addresses.exact.ways import WAYS, Way
from tilewright.addresses.plan import Plan
from tilewright.core import catalogue
from tilewright.run.instance import read

ENOUGH_SECONDS = 120
"""Each instance takes about a second or less of processor time, once the search is compiled."""


def at_random(rng: np.random.Generator, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lower = rng.integers(0, 6, number)
    return lower, lower + rng.integers(1, 5, number), rng.integers(1, 7, number)


def enumerated(lower: np.ndarray, upper: np.ndarray, size: np.ndarray, alignment: int) -> int:
    """Return the least height of all orders in which buffers are put as low as those before them allow."""
    best = 2**62
    for order in itertools.permutations(range(len(size))):
        offsets: dict[int, int] = {}
        for one in order:
            beside = [o for o in offsets if lower[o] < upper[one] and lower[one] < upper[o]]
            top = max((offsets[o] + int(size[o]) for o in beside), default=0)
            offsets[one] = -(-top // alignment) * alignment
        best = min(best, max(offsets[one] + int(size[one]) for one in order))
    return best


def problem_of(lower: np.ndarray, upper: np.ndarray, size: np.ndarray, **memory: int) -> Problem:
    rows = zip(lower.tolist(), upper.tolist(), size.tolist(), strict=True)
    buffers = [{"id": f"b{i}", "lower": a, "upper": b, "size": c} for i, (a, b, c) in enumerate(rows)]
    return Problem(buffers=buffers, memory=Memory(**memory))


@pytest.mark.parametrize("seed", range(60))
def test_the_least_height_is_that_of_all_orders(seed: int) -> None:
    rng = np.random.default_rng(seed)
    buffers = at_random(rng, int(rng.integers(1, 7)))
    alignment = int(rng.choice([1, 1, 2, 3, 4]))
    least = enumerated(*buffers, alignment)
    found = least_height(*buffers, alignment=alignment)
    assert found.proven and found.offsets is not None
    assert found.bound == least
    problem = problem_of(*buffers, alignment=alignment, capacity=least)
    assert violation(problem, Plan(tuple(found.offsets.tolist()))) is None
    packed = pack(*buffers, least, alignment=alignment)
    assert packed.offsets is not None
    assert violation(problem, Plan(tuple(packed.offsets.tolist()))) is None
    refused = pack(*buffers, least - 1, alignment=alignment)
    assert refused.offsets is None and refused.proven and refused.bound <= least


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_each_way_alone_finds_the_least_height(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "WAYS", (way,))
    for seed in range(2000, 2030):
        rng = np.random.default_rng(seed)
        buffers = at_random(rng, 6)
        found = least_height(*buffers)
        assert found.proven and found.offsets is not None
        assert found.bound == enumerated(*buffers, 1), seed
        assert (
            violation(problem_of(*buffers, capacity=found.bound), Plan(tuple(found.offsets.tolist()))) is None
        )


@thorough
def test_the_least_height_is_that_of_all_orders_of_more_buffers() -> None:
    for seed in range(1000, 1400):
        rng = np.random.default_rng(seed)
        buffers = at_random(rng, 7)
        assert least_height(*buffers).bound == enumerated(*buffers, 1)


def test_the_search_goes_on_when_its_trail_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    lower = rng.integers(0, 20, 25)
    buffers = lower, lower + rng.integers(1, 8, 25), rng.integers(1, 30, 25)
    whole = least_height(*buffers, deadline=time.monotonic() + 30)
    monkeypatch.setattr(packing, "most_entries", lambda *_: 1)
    again = least_height(*buffers, deadline=time.monotonic() + 30)
    assert whole.offsets is not None and again.offsets is not None and whole.proven and again.proven
    assert whole.bound == again.bound


def test_a_search_that_is_out_of_time_claims_nothing() -> None:
    found = pack([0, 0], [1, 1], [1, 1], 2, deadline=time.monotonic() - 1)
    assert found.offsets is None and not found.proven
    least = least_height([0, 0], [1, 1], [1, 1], deadline=time.monotonic() - 1)
    assert least.offsets is None and not least.proven and least.bound == 2


@pytest.mark.parametrize("letter", "abcdefghijk")
def test_all_challenging_instances_of_minimalloc_are_planned(letter: str) -> None:
    problem = read(f"minimalloc-{letter}").problem
    assert isinstance(problem, Problem) and problem.memory.capacity == 1_048_576
    found = pack(
        problem.lower, problem.upper, problem.size, 1_048_576, deadline=time.monotonic() + ENOUGH_SECONDS
    )
    assert found.offsets is not None
    assert violation(problem, Plan(tuple(found.offsets.tolist()))) is None


def test_less_than_what_lives_at_one_time_is_refused_with_what_would_do() -> None:
    found = pack([0, 1], [2, 3], [4, 5], 8)
    assert found.offsets is None and found.proven and found.bound == 9


@pytest.mark.parametrize("seed", range(3))
def test_the_integer_program_agrees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    buffers = at_random(rng, 5)
    problem = problem_of(*buffers, alignment=2)
    module = catalogue.formulation("addresses", "stacking")
    least = enumerated(*buffers, 2)
    import pyomo.environ as pyo

    for extras in (True, False):
        model = module.build(problem, extras)  # type: ignore[union-attr]
        pyo.SolverFactory("appsi_highs").solve(model)
        plan = module.read(model)  # type: ignore[union-attr]
        assert violation(problem, plan) is None and objective(problem, plan) == least
