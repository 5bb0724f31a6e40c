"""The exact search of addresses against enumeration, and what it says of itself."""

from __future__ import annotations

import time

import numpy as np
import pytest
from buffers_at_random import at_random, enumerated, problem_of
from conftest import nightly

from tilewright.addresses import Problem, least_height, pack, violation
from tilewright.addresses.exact import packing
from tilewright.addresses.exact.rules import RULES, SearchRule
from tilewright.addresses.plan import Plan
from tilewright.core.branch_and_bound import Incumbent
from tilewright.run.instance import read
from tilewright.run.solve import solve

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


@pytest.mark.by_day(4)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_each_rule_alone_finds_the_least_height(rule: SearchRule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "RULES", (rule,))
    for seed in range(2000, 2030):
        rng = np.random.default_rng(seed)
        buffers = at_random(rng, 6)
        found = least_height(*buffers)
        assert found.proven and found.offsets is not None
        assert found.bound == enumerated(*buffers, 1), seed
        assert (
            violation(problem_of(*buffers, capacity=found.bound), Plan(tuple(found.offsets.tolist()))) is None
        )


@pytest.mark.by_day(1)
@pytest.mark.parametrize("turns", [1, 3])
def test_searches_that_take_turns_find_the_least_height(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With turns as short as a few decisions, all capacities are searched before one search ends."""
    params = packing.PackingParams(work=5, few_turns=turns, first_turns=turns)
    monkeypatch.setattr(packing, "PARAMS", params)
    between = 0
    for seed in range(3000, 3040):
        rng = np.random.default_rng(seed)
        buffers = at_random(rng, 6)
        alignment = int(rng.choice([1, 2, 3]))
        bounds, heights = [packing.height_bound(*buffers, alignment)], [2**62]

        def lower(offsets: np.ndarray, size: np.ndarray = buffers[2], told: list[int] = heights) -> None:
            told.append(int((offsets + size).max()))

        incumbent = Incumbent(lower, bounds.append, bounds[0])
        found = least_height(*buffers, alignment=alignment, incumbent=incumbent)
        assert found.proven and found.bound == enumerated(*buffers, alignment) == heights[-1], seed
        assert bounds == sorted(set(bounds)) and heights == sorted(set(heights), reverse=True)
        between += len(heights) > 2
    assert between


@nightly
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


@pytest.mark.by_day(2)
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


ABOVE_LIVE = {
    (4, 5): [(0, 2, 2), (0, 3, 2), (2, 4, 1), (2, 5, 1), (3, 4, 1), (3, 5, 1), (4, 6, 2), (5, 6, 2)],
    (5, 6): [
        (0, 2, 4),
        (0, 5, 1),
        (2, 3, 2),
        (2, 4, 2),
        (3, 5, 1),
        (3, 6, 1),
        (4, 5, 1),
        (4, 6, 1),
        (5, 6, 3),
    ],
}
"""Buffers of which more is needed than ever lives, by both amounts; found by trying many cases."""


@pytest.mark.by_day(3)
@pytest.mark.parametrize(("live", "least"), ABOVE_LIVE)
def test_more_than_what_lives_is_needed_and_proven_by_search(live: int, least: int) -> None:
    """No bound is above what lives: that nothing lower can be had is the search's own proof."""
    buffers = tuple(map(np.array, zip(*ABOVE_LIVE[live, least], strict=True)))
    assert packing.height_bound(*buffers) == live
    found = least_height(*buffers)
    assert found.proven and found.bound == least
    refused = pack(*buffers, least - 1)
    assert refused.offsets is None and refused.proven and refused.bound == least
    for capacity, status in ((least - 1, "infeasible"), (least, "optimal"), (least + 1, "optimal")):
        result = solve(problem_of(*buffers, capacity=capacity), "canonical", time_limit=60)
        assert result.status == status and result.bound == least


@nightly
@pytest.mark.parametrize(("live", "least"), ABOVE_LIVE)
def test_all_orders_need_more_than_what_lives(live: int, least: int) -> None:
    buffers = tuple(map(np.array, zip(*ABOVE_LIVE[live, least], strict=True)))
    assert enumerated(*buffers, 1) == least


def full(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return buffers that fill some addresses at each time: what begins is as large as what ends."""

    def begun(total: int, time: int) -> list[tuple[int, int]]:
        found = []
        while total:
            found.append((time, int(rng.integers(1, min(largest, total) + 1))))
            total -= found[-1][1]
        return found

    live, largest, times = int(rng.integers(3, 8)), int(rng.integers(2, 5)), int(rng.integers(3, 7))
    part, now, ended = rng.uniform(0.2, 0.6), begun(live, 0), []
    for time_ in range(1, times):
        stays = rng.random(len(now)) >= part
        left = [one for one, stay in zip(now, stays, strict=True) if not stay]
        ended += [(begin, time_, size) for begin, size in left]
        now = [one for one, stay in zip(now, stays, strict=True) if stay]
        now += begun(sum(size for _, size in left), time_)
    ended += [(begin, times, size) for begin, size in now]
    lower, upper, size = map(np.array, zip(*ended, strict=True))
    return lower, upper, size


@nightly
def test_the_least_height_of_full_memories_is_that_of_all_orders() -> None:
    """Where nothing is ever free, little fits: the search has to go back often."""
    checked = 0
    for seed in range(1_000):
        buffers = full(np.random.default_rng(seed))
        if len(buffers[0]) <= 7:
            checked += 1
            least = enumerated(*buffers, 1)
            assert least_height(*buffers).bound == least, seed
            refused = pack(*buffers, least - 1)
            assert refused.offsets is None and refused.proven, seed
    assert checked > 200
