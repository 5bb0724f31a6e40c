"""The frame of exact searches: what it proves is what enumeration finds, and nothing is proven too early."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import pairwise, product

import pytest

from tilewright.core.branch_and_bound import NEVER, BestFirst, GrowingLimit, GrowingShare, Incumbent
from tilewright.spec.errors import OutOfTimeError

Items = list[tuple[int, int]]
"""Costs and weights: chosen items must weigh enough together, and cost as little as possible."""


def cover(items: Items, enough: int, incumbent: Incumbent[tuple[int, ...]]) -> BestFirst[tuple[int, ...]]:
    """Choose items by branch and bound: a node says of the first items whether each is taken."""
    tree: BestFirst[tuple[int, ...]] = BestFirst(incumbent)
    tree.push(0, ())
    for _, taken in tree:
        if len(taken) == len(items):
            weight = sum(items[place][1] for place, one in enumerate(taken) if one)
            if weight >= enough:
                incumbent.offer(sum(items[place][0] for place, one in enumerate(taken) if one), taken)
            continue
        for one in (0, 1):
            child = (*taken, one)
            cost = sum(cost for (cost, _), chosen in zip(items, child, strict=False) if chosen)
            tree.push(cost, child, rank=-len(child))
    return tree


@pytest.mark.parametrize("seed", range(20))
def test_the_least_cost_is_found_and_proven(seed: int) -> None:
    rng = random.Random(seed)
    items = [(rng.randint(0, 9), rng.randint(1, 9)) for _ in range(rng.randint(1, 7))]
    enough = rng.randint(0, 45)
    costs = [
        sum(cost for (cost, _), one in zip(items, taken, strict=True) if one)
        for taken in product((0, 1), repeat=len(items))
        if sum(weight for (_, weight), one in zip(items, taken, strict=True) if one) >= enough
    ]
    bounds: list[int] = []
    incumbent: Incumbent[tuple[int, ...]] = Incumbent(on_bound=bounds.append)
    tree = cover(items, enough, incumbent)
    assert tree.exhausted
    assert incumbent.value == min(costs, default=NEVER)
    assert incumbent.proven == bool(costs)
    assert bounds == sorted(set(bounds)) and all(bound <= incumbent.value for bound in bounds)


def test_nothing_is_proven_beyond_what_was_left_out() -> None:
    incumbent: Incumbent[tuple[int, ...]] = Incumbent()
    incumbent.leave_out(4)
    cover([(5, 1)], 1, incumbent)
    assert (incumbent.value, incumbent.bound, incumbent.proven) == (5, 4, False)


def test_a_search_for_better_plans_proves_the_known_value() -> None:
    """Of three items of cost 5 none is chosen below 5: the loop ends at once, with that bound."""
    incumbent: Incumbent[tuple[int, ...]] = Incumbent()
    incumbent.leave_from(5)
    cover([(5, 1)] * 3, 1, incumbent)
    assert (incumbent.plan, incumbent.bound) == (None, 5)


def test_what_is_known_when_time_is_up_is_kept() -> None:
    incumbent: Incumbent[str] = Incumbent()
    tree: BestFirst[str] = BestFirst(incumbent, time.monotonic() - 1)
    tree.push(3, "root")
    with pytest.raises(OutOfTimeError):
        next(iter(tree))
    assert (incumbent.bound, tree.exhausted) == (3, False)


def test_bounds_of_children_are_no_less_than_those_of_parents() -> None:
    incumbent: Incumbent[str] = Incumbent()
    tree: BestFirst[str] = BestFirst(incumbent)
    tree.push(3, "root")
    found = []
    for bound, node in tree:
        found.append((bound, node))
        if node == "root":
            tree.push(1, "second", rank=2)
            tree.push(2, "first", rank=1)
    assert found == [(3, "root"), (3, "first"), (3, "second")]


def test_bounds_are_told_when_they_have_risen_enough() -> None:
    bounds: list[int] = []
    incumbent: Incumbent[str] = Incumbent(on_bound=bounds.append, bound=10, least_rise=5)
    for bound in (9, 12, 15, 18, 20):
        incumbent.prove(bound)
    assert (bounds, incumbent.bound) == ([15, 20], 20)


def test_a_share_grows_until_it_is_all_that_is_left() -> None:
    shares = GrowingShare(time.monotonic() + 1000, 0.25)
    assert shares.until() - time.monotonic() == pytest.approx(250, abs=1)
    for _ in range(3):
        shares.grow()
    assert shares.until() == pytest.approx(shares.deadline, abs=1)
    late = GrowingShare(time.monotonic() - 1, 0.25)
    for step in (late.until, late.grow):
        with pytest.raises(OutOfTimeError):
            step()


# Limits that grow ------------------------------------------------------------------------------------------


def searched(cost: Callable[[int], float], optimum: int, most: int) -> tuple[list[int], float]:
    """Search with a cost until the optimum is within the limit; return the limits, and what all cost."""
    growing, least, total, limits = GrowingLimit(), 0, 0.0, []
    while least <= optimum:
        limit = growing.next(least, most)
        assert least <= limit <= most
        limits.append(limit)
        work = min(int(cost(limit)), growing.most_work + 1)
        total += work
        ended = work <= growing.most_work
        growing.learn(limit, work, ended=ended)
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
    growing = GrowingLimit()
    assert growing.next(7, 7) == 7
    growing.learn(7, 10, ended=True)
    assert growing.next(8, 9) in (8, 9)
