"""The least surplus in the plane, beside all sequences in small boxes and random ones in larger ones."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations

import pytest
from conftest import examples, make_problem, nightly
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.grouping import best_bound
from tilewright.grouping.bounds.best import excess_loads
from tilewright.grouping.bounds.excess_loads import KNOWN, ExcessTheorem, search_plane

Patch = tuple[int, int]


def pixels(patches: tuple[Patch, ...], kernel: int) -> frozenset[Patch]:
    side = range(kernel)
    return frozenset((x + i, y + j) for x, y in patches for i in side for j in side)


def exhaustive(box: tuple[int, int], kernel: int, group: int, rate: Fraction) -> dict[Patch, Fraction]:
    """Least surplus of all sequences in a box, by the patches and pixels of the last group."""
    cells = [(x, y) for x in range(box[0]) for y in range(box[1])]
    needs = {}
    for size in range(1, group + 1):
        for chosen in combinations(range(len(cells)), size):
            needs[sum(1 << i for i in chosen)] = size, pixels(tuple(cells[i] for i in chosen), kernel)
    # What is done only grows, so the least number comes first.
    front = {number: {number: len(need) - size - rate} for number, (size, need) in needs.items()}
    least: dict[Patch, Fraction] = {}
    for done in range(1, 1 << len(cells)):
        for last, value in front.get(done, {}).items():
            size, need = needs[last]
            key = size, len(need)
            least[key] = min(value, least.get(key, value))
            for number, (more, wanted) in needs.items():
                if not number & done:
                    after = value + len(wanted - need) - more - rate
                    states = front.setdefault(done | number, {})
                    if after < states.get(number, after + 1):
                        states[number] = after
    return least


@pytest.mark.by_day(1)
@pytest.mark.parametrize("known", KNOWN)
def test_no_sequence_in_a_box_has_less_than_is_known(known: ExcessTheorem) -> None:
    found = exhaustive((3, 3), known.kernel, known.group, known.rate)
    assert all(Fraction(known.by_last[last], known.parts) <= value for last, value in found.items())


# The search takes most of a minute to compile. Tests that call it stand side by side, so that one of the
# parallel workers has them all.


@nightly
@pytest.mark.parametrize("known", KNOWN)
def test_searches_find_what_is_known(known: ExcessTheorem) -> None:
    least = search_plane(known.kernel, known.group, known.rate, known.held, 100_000)
    assert least == {last: Fraction(parts, known.parts) for last, parts in known.by_last.items()}


@nightly
@pytest.mark.parametrize(
    ("box", "kernel", "group", "rate", "held"),
    [
        ((3, 3), 2, 2, Fraction(1), 1),
        ((2, 5), 2, 2, Fraction(1), 1),
        ((3, 3), 3, 2, Fraction(2), 1),
        ((1, 9), 3, 2, Fraction(2), 1),
        ((2, 4), 3, 2, Fraction(2), 7),
        ((3, 3), 3, 1, Fraction(2), 1),
        ((2, 4), 3, 3, Fraction(1), 1),
        ((1, 8), 3, 3, Fraction(1), 7),
        ((2, 4), 3, 3, Fraction(2, 3), 1),
        ((3, 3), 3, 3, Fraction(3, 2), 7),
    ],
)
def test_no_sequence_in_a_box_has_less(
    box: tuple[int, int], kernel: int, group: int, rate: Fraction, held: int
) -> None:
    least = search_plane(kernel, group, rate, held, 100_000)
    found = exhaustive(box, kernel, group, rate)
    assert all(least[last] <= value for last, value in found.items())
    assert min(found.values()) == min(least.values())


@nightly
def test_a_search_that_does_not_fit_or_is_not_made_for_a_kernel_says_so() -> None:
    with pytest.raises(MemoryError, match="more than 100 states"):
        search_plane(3, 3, Fraction(1), states=100)
    with pytest.raises(ValueError, match="kernel 4, group 2"):
        search_plane(4, 2, Fraction(1))


@given(st.sampled_from(KNOWN), st.integers(2, 8), st.integers(0, 2**32))
@settings(max_examples=examples(150))
def test_no_sequence_at_random_has_less(known: ExcessTheorem, side: int, seed: int) -> None:
    """Greedy sequences: the next group is one of a few that loads least for its size."""
    rng = random.Random(seed)
    left = {(x, y) for x in range(side) for y in range(side)}
    held: frozenset[Patch] = frozenset()
    total = Fraction(0)
    while left and rng.random() > 0.02:
        tried = [
            tuple(rng.sample(sorted(left), min(len(left), rng.randint(1, known.group)))) for _ in range(30)
        ]
        group = min(tried, key=lambda patches: len(pixels(patches, known.kernel) - held) - len(patches))
        need = pixels(group, known.kernel)
        total += len(need - held) - len(group) - known.rate
        left, held = left - set(group), need
        assert total >= Fraction(known.by_last[len(group), len(need)], known.parts)


def test_the_bound_says_what_it_rests_on() -> None:
    problem = make_problem({"input": [1, 12, 12], "kernel": [3, 3]}, {"group_size": 2})
    bound = excess_loads(problem)
    assert bound is not None
    assert str(bound) == "surplus bound: at least 206 pixel loads (rate 2, least 6)"
    assert (bound.value, best_bound(problem).name) == (256, "surplus")
    three = excess_loads(make_problem({"input": [1, 12, 12], "kernel": [3, 3]}, {"group_size": 3}))
    assert str(three) == "surplus bound: at least 161 pixel loads (rate 8/5, least 32/5)"


@pytest.mark.parametrize(
    ("layer", "machine"),
    [
        ({"input": [1, 12, 12], "kernel": [3, 3]}, {"group_size": 4}),
        ({"input": [1, 12, 12], "kernel": [3, 2]}, {"group_size": 2}),
        ({"input": [1, 12, 12], "kernel": [3, 3], "stride": [1, 2]}, {"group_size": 2}),
        ({"input": [1, 12, 12], "kernel": [3, 3], "dilation": [2, 1]}, {"group_size": 2}),
        ({"input": [1, 12, 12], "padding": [1] * 4}, {"group_size": 2, "padding": "generated"}),
    ],
)
def test_nothing_is_claimed_where_nothing_is_proven(layer: dict, machine: dict) -> None:
    assert excess_loads(make_problem(layer, machine)) is None
