"""Limits of searches that go further and further: all of them together cost little more than the last one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from tilewright.residency.exact.deepening import Deepening


def searched(cost: Callable[[int], float], optimum: int, most: int) -> tuple[list[int], float]:
    """Search with a cost until the optimum is within the limit; return the limits, and what all cost."""
    deepening, least, total, limits = Deepening(), 0, 0.0, []
    while least <= optimum:
        limit = deepening.limit(least, most)
        assert least <= limit <= most
        limits.append(limit)
        work = min(int(cost(limit)), deepening.most_work + 1)
        total += work
        ended = work <= deepening.most_work
        deepening.told(limit, work, ended=ended)
        if ended:
            least = limit + 1
    return limits, total


@pytest.mark.parametrize("doubling", [50, 1_000, 20_000])
@pytest.mark.parametrize("optimum", [10_000, 50_000, 99_000])
def test_all_searches_cost_little_more_than_the_last_one(doubling: int, optimum: int) -> None:
    def cost(limit: int) -> float:
        return 2.0 ** min(limit / doubling, 100.0)

    _, total = searched(cost, optimum, 100_000)
    assert total <= 40 * max(cost(optimum), 100_000)


def test_where_work_jumps_a_search_is_given_up_and_the_next_goes_less_far() -> None:
    limits, _ = searched(lambda limit: 10_000 if limit < 5_000 else 10**8, 4_990, 100_000)
    assert any(later < earlier for earlier, later in pairwise(limits))


def test_if_all_is_much_work_it_is_done_in_the_end() -> None:
    limits, _ = searched(lambda limit: 10**9 if limit else 1, 3, 4)
    assert limits[-1] >= 3


def test_nothing_is_sought_beyond_what_is_worth_it() -> None:
    deepening = Deepening()
    assert deepening.limit(7, 7) == 7
    deepening.told(7, 10, ended=True)
    assert deepening.limit(8, 9) in (8, 9)
