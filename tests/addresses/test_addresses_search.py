"""The exact search of addresses against enumeration, and what it says of itself."""

from __future__ import annotations

import time

import numpy as np
import pytest
from buffers_at_random import at_random, enumerated, problem_of
from conftest import thorough

from tilewright.addresses import Problem, least_height, pack, violation
from tilewright.addresses.exact import packing
from tilewright.addresses.exact.ways import WAYS, Way
from tilewright.addresses.plan import Plan
from tilewright.run.instance import read

ENOUGH_SECONDS = 120
"""Each instance takes about a second or less of processor time, once the search is compiled."""


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
