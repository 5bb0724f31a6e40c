"""Gaps: what a long one costs, and that of a plan and its reverse one throws away little at first."""

import time
from itertools import pairwise

import numpy as np
import pytest
from conftest import THOROUGH, examples
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tilewright.grouping import Problem
from tilewright.grouping.exact import search as exact
from tilewright.grouping.exact.bitsets import NEVER
from tilewright.grouping.exact.pruning_kernel import Delay
from tilewright.grouping.exact.reload_intervals import (
    MOST_PATCHES,
    NO_PREFIX_LIMITS,
    ReloadIntervals,
    fewest_with_gaps,
)


def layer(grid, group, *, kernel=(3, 3), stride=(1, 1), steps="kmin") -> Problem:
    height, width = ((n - 1) * s + k for n, s, k in zip(grid, stride, kernel, strict=True))
    return Problem.model_validate(
        {
            "layer": {"input": [1, height, width], "kernels": 1, "kernel": kernel, "stride": stride},
            "machine": {"group_size": group},
            "limits": {"steps": steps, "reloads": 0},
        }
    )


def gaps(problem: Problem, groups: list[list[int]]) -> list[tuple[int, int, int]]:
    """Return (last step on chip, next step on chip, pixel) of all gaps, with steps from 1."""
    steps = [set(problem.patch_pixels[group].ravel().tolist()) for group in groups]
    found = []
    for pixel in problem.needed_pixels.tolist():
        on_chip = [step for step, held in enumerate(steps, start=1) if pixel in held]
        found += [(i, k, pixel) for i, k in pairwise(on_chip) if k > i + 1]
    return found


@st.composite
def swept(draw: st.DrawFn) -> tuple[Problem, list[list[int]]]:
    """Draw a layer and a plan that sweeps over it but for a few patches, so that it has few gaps."""
    grid = draw(st.tuples(st.integers(2, 9), st.integers(1, 5)))
    kernel = draw(st.sampled_from([(3, 3), (3, 3), (2, 2), (2, 3), (4, 4)]))
    stride = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (2, 2)]))
    group = draw(st.integers(1, grid[1] + 1))
    slope = draw(st.sampled_from([0.0, 0.3, 1.0]))
    late = {p: (p // grid[1]) + slope * (p % grid[1]) for p in range(grid[0] * grid[1])}
    for _ in range(draw(st.integers(0, 2))):
        late[draw(st.sampled_from(sorted(late)))] += draw(st.sampled_from([-9, -2, 2, 9]))
    order = sorted(late, key=late.__getitem__)
    groups = [order[i : i + group] for i in range(0, len(order), group)]
    return layer(grid, group, kernel=kernel, stride=stride, steps=len(groups)), groups


@given(swept())
@settings(max_examples=examples(400))
def test_a_long_gap_is_not_alone(drawn: tuple[Problem, list[list[int]]]) -> None:
    problem, groups = drawn
    fewest = fewest_with_gaps(problem)
    assert (np.diff(fewest) >= 0).all()
    found = gaps(problem, groups)
    with_gaps = len({pixel for *_, pixel in found})
    longest = max((k - i - 1 for i, k, _ in found), default=0)
    assert not found or fewest[longest] <= with_gaps
    event(f"tight: {bool(found) and fewest[longest] == with_gaps}, above one: {fewest[longest] > 1}")


@given(swept())
@settings(max_examples=examples(400))
def test_a_plan_or_its_reverse_throws_away_at_most_half_at_first(
    drawn: tuple[Problem, list[list[int]]],
) -> None:
    """But for pixels with gaps that may be long, in the words of docs/bounds.md, theorem 8."""
    problem, groups = drawn
    excess = len(gaps(problem, groups))
    prefix = exact.StateSpace(problem).reload_intervals.prefix_limits(excess)

    def at_first(groups: list[list[int]]) -> int:
        return sum(gap[0] < prefix.steps for gap in gaps(problem, groups))

    groups = min(groups, groups[::-1], key=at_first)
    found = gaps(problem, groups)
    steps = len(groups)
    assert 2 * prefix.steps <= steps
    patches = {
        pixel: {p for p in range(problem.n_patches) if pixel in problem.patch_pixels[p]}
        for pixel in problem.needed_pixels.tolist()
    }
    most_long = 0
    for step in range(1, prefix.steps + 1):
        thrown = [gap for gap in found if gap[0] < step]
        done = {p for group in groups[:step] for p in group}
        off_chip = {pixel for i, k, pixel in found if i < step < k}
        long = 0
        for pixel in off_chip:
            before, after = patches[pixel] & done, patches[pixel] - done
            forced = {
                other
                for other in patches
                if patches[other] & before
                and patches[other] & after
                and len(patches[other] - patches[pixel]) < steps - 2 * prefix.steps + 2
            }
            long += len(forced | off_chip) <= excess
        most_long = max(most_long, long)
        assert 2 * len(thrown) - excess <= long
    event(f"ends: {prefix.steps > 0}, gaps: {min(excess, 9)} or more, long: {min(most_long, 3)} or more")


def test_how_many_pixels_have_gaps_beside_a_long_one() -> None:
    """Counted by hand: a corner of a 3x3 block done apart from the rest, and two columns at a border."""
    assert fewest_with_gaps(layer((10, 10), 5)).tolist()[:10] == [0, 1, 1, 1, 3, 3, 4, 5, 6, 6]
    # All patches of a row of one share their pixels with the next ones only.
    assert fewest_with_gaps(layer((1, 7), 1)).tolist() == [0, 3, 6, 6, 6, 6, 6, 6]
    # Where no two patches share a pixel there is no gap.
    assert fewest_with_gaps(layer((4, 4), 2, kernel=(1, 1))).tolist()[1:] == [NEVER] * 8
    # So many patches are not looked at in all ways: one pixel has a gap, that is certain.
    assert MOST_PATCHES < 25
    assert fewest_with_gaps(layer((9, 9), 9, kernel=(5, 5))).max() == 1


def test_ends_are_as_long_as_few_gaps_may_be_in_both() -> None:
    """Up to five gaps none may be; for more, those that are have as many others beside them as any."""
    problem = layer((9, 9), 8)
    assert fewest_with_gaps(problem).tolist() == [0, 1, 1, 1, 3, 3, 4, 5, 6, 6, 6, 6]
    limits = ReloadIntervals(problem, exact.StateSpace(problem).bits).prefix_limits
    assert [limits(excess).steps for excess in range(8)] == [5, 4, 4, 3, 3, 2, 2, 2]


@pytest.mark.nightly
@given(
    grid=st.sampled_from([(4, 4), (3, 6), (2, 9), *([(4, 5), (3, 7)] if THOROUGH else [])]),
    group=st.integers(1, 3),
    kernel=st.sampled_from([(3, 3), (3, 3), (2, 2), (2, 3)]),
    excess=st.integers(1, 10),
    more=st.integers(0, 3),
)
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
def test_following_one_of_a_plan_and_its_reverse_finds_the_same(
    grid: tuple[int, int], group: int, kernel: tuple[int, int], excess: int, more: int
) -> None:
    n = grid[0] * grid[1]
    problem = layer(grid, group, kernel=kernel, steps=min(n, -(-n // group) + more))
    space = exact.StateSpace(problem)
    total = 2 * space.load * (len(problem.needed_pixels) + excess)
    prefix = space.prefix_limits(total)
    answers = []
    delays = space.delays
    # With patches that wait, with plans followed by their ends; without these; without both.
    for waits, by_ends in ((True, True), (False, True), (True, False), (False, False)):
        space.delays = delays if waits else Delay.NONE
        if not by_ends:
            space.reload_intervals = None
            assert space.prefix_limits(total) is NO_PREFIX_LIMITS
        layered = exact.plans_within(space, exact.CostToGo(space), total, time.monotonic() + 600)
        for _ in layered.run():
            pass
        answers.append(int(layered.stages[-1].costs.min()) if layered.complete else None)
    assert len(set(answers)) == 1
    event(
        f"prefix: {prefix.steps > 0}, patches wait: {delays != Delay.NONE}, found: {answers[0] is not None}"
    )


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("side", "group", "optimum"), [(7, 3, 60), (9, 4, 97), (10, 5, 114)])
def test_plans_with_gaps_are_found_by_their_ends(side: int, group: int, optimum: int) -> None:
    """In these layers of the paper's grid every plan loads some pixel again."""
    problem = layer((side - 2, side - 2), group)
    space = exact.StateSpace(problem)
    total = 2 * space.load * (optimum - problem.cost(0, problem.kmin))
    assert space.prefix_limits(total).steps > 0
    layered = exact.plans_within(space, exact.CostToGo(space), total, time.monotonic() + 600)
    for _ in layered.run():
        pass
    assert layered.complete
    assert int(layered.stages[-1].costs.min()) == total


def test_fewer_groups_are_tried_where_patches_can_wait() -> None:
    """With three patches missing, and fewer still where plans with fewer steps are searched by others."""
    problem = layer((5, 5), 4, steps=8)
    rows = []
    for merged, waits in ((True, True), (False, True), (False, False)):
        space = exact.StateSpace(problem, merged=merged)
        if not waits:
            space.delays = Delay.NONE
        total = 2 * space.load * (len(problem.needed_pixels) + 1)
        layered = exact.plans_within(space, exact.CostToGo(space), total, time.monotonic() + 600)
        for _ in layered.run():
            pass
        rows.append(layered.rows)
    assert rows == sorted(set(rows))


def test_patches_do_not_wait_where_memory_may_lack_room() -> None:
    """A group with a patch more may not fit; where all groups are full, none waits either."""
    problem = layer((4, 4), 3)
    assert exact.StateSpace(problem).delays == Delay.DELAYED
    assert exact.StateSpace(problem, merged=True).delays == Delay.MERGED
    assert exact.StateSpace(layer((4, 4), 4), merged=True).delays == Delay.NONE
    largest = problem.kernel_elements + 3 * problem.patch_outputs + 3 * 9
    for memory, delays in ((largest, Delay.DELAYED), (largest - 1, Delay.NONE)):
        data = problem.model_dump()
        data["machine"]["memory"] = memory
        assert exact.StateSpace(type(problem).model_validate(data)).delays == delays
