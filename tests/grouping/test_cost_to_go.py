"""Tables of chains, by which the exact search prunes, against brute force."""

from __future__ import annotations

from itertools import combinations

import pytest
from conftest import examples
from exact_cases import followed, layer_of, soon, tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.grouping import Problem, best_bound
from tilewright.grouping.exact.cost_to_go import CostToGo
from tilewright.grouping.exact.objective_levels import ObjectiveLevels
from tilewright.grouping.exact.stages import Key, StateSpace


def shortest_chains(space: StateSpace, *, free: bool) -> dict[Key, dict[tuple[int, int], int]]:
    """Length of the shortest chain by its stage and by the patches and pixels of its last group."""
    problem = space.problem
    masks = [sum({1 << p for p in row if p >= 0}) for row in problem.patch_pixels.tolist()]
    groups: list[tuple[int, int, int]] = []
    for size in range(1, problem.group_size + 1):
        for members in combinations(range(problem.n_patches), size):
            pixels = 0
            for patch in members:
                pixels |= masks[patch]
            if pixels.bit_count() <= problem.max_group_pixels(size):
                groups.append((sum(1 << p for p in members), pixels, size))
    shortest: dict[Key, dict[tuple[int, int], int]] = {}
    states = {
        (done, pixels, size): 0 if free else space.load * pixels.bit_count() for done, pixels, size in groups
    }
    for step in range(1, problem.n_patches + 1):
        following: dict[tuple[int, int, int], int] = {}
        for (done, pixels, size), length in states.items():
            key = (step if space.fixed else 0, done.bit_count())
            ends = shortest.setdefault(key, {})
            end = (size, pixels.bit_count())
            ends[end] = min(ends.get(end, length), length)
            for more, others, number in groups:
                if not done & more:
                    state = (done | more, others, number)
                    longer = length + space.step + space.load * (pixels ^ others).bit_count()
                    following[state] = min(following.get(state, longer), longer)
        states = following
    return shortest


def check_tables(cost_to_go: CostToGo, wide: bool) -> None:
    """Check that no entry is above the shortest chain, and that each is just that after a wide search."""
    space = cost_to_go.space
    for free, tables in ((True, cost_to_go.free), (False, cost_to_go.anchored)):
        shortest = shortest_chains(space, free=free)
        for key, table in tables.items():
            reachable = not space.fixed or space.steps - key[0] <= space.n_patches - key[1]
            for (size, pixels), length in shortest.get(key, {}).items():
                if not space.fixed or fits_in_a_plan(space, key, size):
                    assert table[size, pixels] <= length, (free, key, size, pixels)
                    if wide and reachable:
                        assert table[size, pixels] == length, (free, key, size, pixels)


def fits_in_a_plan(space: StateSpace, key: Key, size: int) -> bool:
    """Whether a chain of so many steps and patches may end in a group of so many where no group is empty."""
    return (size == key[1]) == (key[0] == 1) and key[0] * space.size - key[1] >= space.size - size


@settings(max_examples=examples(60))
@given(problem=tiny(work=1000), slacks=st.lists(st.sampled_from([0, 0, 1, 1, 2, 3, 5, 9, 20]), max_size=4))
def test_no_table_is_above_the_shortest_chain(problem: Problem, slacks: list[int]) -> None:
    cost_to_go = CostToGo(StateSpace(problem))
    check_tables(cost_to_go, wide=False)
    for slack in slacks:
        followed(cost_to_go.improve(slack, soon()))
        check_tables(cost_to_go, wide=False)
    followed(cost_to_go.improve(10**6, soon()))
    check_tables(cost_to_go, wide=True)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("problem", "slacks"),
    [
        (layer_of((3, 10), 2), (0, 0, 0, 1, 1)),
        (layer_of((3, 10), 3, steps="free"), (0, 1, 2, 2)),
        (layer_of((4, 6), 3, steps="free"), (0, 0, 1, 2)),
        (layer_of((4, 6), 3, steps=4), (0, 0, 2, 2)),
        (layer_of((5, 5), 2, steps=6), (0, 0, 1)),
        (layer_of((6, 7), 2, kernel=(5, 5), steps="free"), (0, 0, 1, 4)),
    ],
    ids=["row", "row, free", "2x4, free", "2x4, four steps", "3x3, six steps", "5x5 kernel"],
)
def test_tables_of_longer_chains(problem: Problem, slacks: tuple[int, ...]) -> None:
    """With eight patches and more, bounds are composed of shorter chains' too."""
    cost_to_go = CostToGo(StateSpace(problem))
    for slack in slacks:
        followed(cost_to_go.improve(slack, soon()))
        check_tables(cost_to_go, wide=False)


def test_tables_only_rise() -> None:
    cost_to_go = CostToGo(StateSpace(layer_of((6, 6))))
    before = cost_to_go.total
    for slack in (0, 1, 1, 2):
        tables = [*cost_to_go.free.values(), *cost_to_go.anchored.values()]
        followed(cost_to_go.improve(slack, soon()))
        after = [*cost_to_go.free.values(), *cost_to_go.anchored.values()]
        assert all((new >= old).all() for new, old in zip(after, tables, strict=True))
        assert cost_to_go.total >= before
        before = cost_to_go.total


@pytest.mark.parametrize(("size", "group", "steps"), [(9, 2, "kmin"), (12, 3, "kmin"), (12, 3, 37)])
def test_the_tables_begin_with_what_searches_of_the_plane_say(
    size: int, group: int, steps: int | str
) -> None:
    space = StateSpace(layer_of((size, size), group, steps=steps))
    cost_to_go = CostToGo(space)
    assert best_bound(space.problem).name == "surplus"
    assert ObjectiveLevels(space).value(cost_to_go.total) == best_bound(space.problem).value
    if group == 3:
        # Patches that share no pixel begin no plan of the least cost.
        together, apart = (cost_to_go.anchored[space.end][3, pixels] + pixels for pixels in (15, 27))
        assert apart >= together + 2 * 5


def test_the_tables_prove_what_counting_does_not() -> None:
    """7x7 pixels in groups of two: 72, where counting says 62."""
    space = StateSpace(layer_of((7, 7)))
    cost_to_go = CostToGo(space)
    levels = ObjectiveLevels(space)
    assert best_bound(space.problem).value <= levels.value(cost_to_go.total) <= 72
    for slack in (0, 0, 1, 1, 2, 2, 3, 3):
        followed(cost_to_go.improve(slack, soon()))
    assert 62 < levels.value(cost_to_go.total) <= 72
