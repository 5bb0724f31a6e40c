"""The exact search: its answers, its bounds and every table it prunes by, against brute force."""

from __future__ import annotations

import json
import math
import random
import time
from collections import deque
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import verifier
from conftest import make_problem, processor_time
from enumeration import optimum
from hypothesis import HealthCheck, assume, currently_in_test_context, event, given, settings
from hypothesis import strategies as st
from numba import njit

from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.grouping import Plan, Problem, best_bound, measured_objective, objective, simulate, violation
from tilewright.grouping.exact import layered_search, search
from tilewright.grouping.exact.bitsets import NEVER, Bits, pack, unpack
from tilewright.grouping.exact.cost_to_go import CostToGo
from tilewright.grouping.exact.expansion_kernel import Rules, Table, expand, undominated
from tilewright.grouping.exact.layered_search import LayeredSearch, TooLargeError
from tilewright.grouping.exact.pruning_kernel import DeadlineScratch, Delay, overcommitted
from tilewright.grouping.exact.reload_intervals import NO_PREFIX_LIMITS
from tilewright.grouping.exact.stages import Key, StateSpace
from tilewright.grouping.exact.workspace import Workspace
from tilewright.grouping.structure import cells, last_useful_step, symmetries
from tilewright.models.grouping import exact
from tilewright.spec.errors import OutOfTimeError

SECONDS = 600.0
"""For what takes none: a search that does not end fails its test."""


def soon() -> float:
    return time.monotonic() + SECONDS


def followed(stages: Iterator[object]) -> None:
    """Follow a search to its end."""
    deque(stages, maxlen=0)


def all_plans(*arguments: Any, **options: Any) -> LayeredSearch:
    layered = search.plans_within(*arguments, **options)
    followed(layered.run())
    return layered


# Layers ----------------------------------------------------------------------------------------------------


@cache
def ordered_partitions(patches: int, most: int, steps: int) -> int:
    """Number of ways to compute so many patches in at most so many steps: the work of an enumeration."""
    if patches == 0:
        return 1
    if steps == 0:
        return 0
    return sum(
        math.comb(patches, size) * ordered_partitions(patches - size, most, steps - 1)
        for size in range(1, min(most, patches) + 1)
    )


@st.composite
def tiny(draw: st.DrawFn, side: int = 4, work: int = 3000) -> Problem:
    """Draw a layer of a few patches with whatever the room allows.

    Parameters
    ----------
    work
        Most ordered partitions of its patches.
    """
    rows = draw(st.integers(1, side))
    cols = draw(st.integers(1, 8 // rows))
    kernel = draw(st.sampled_from([(1, 1), (5, 5), None, None, None]))
    axes = []
    for axis, outputs in enumerate((rows, cols)):
        length = kernel[axis] if kernel else draw(st.integers(1, 3))
        stride = draw(st.sampled_from([1, 1, 2, 3]))
        dilation = draw(st.sampled_from([1, 1, 2]))
        extent = dilation * (length - 1) + 1
        pads = [draw(st.integers(0, min(2, extent - 1))) for _ in range(2)]
        plane = (outputs - 1) * stride + extent + draw(st.integers(0, stride - 1)) - sum(pads)
        assume(plane >= 1)
        axes.append((plane, length, stride, dilation, pads))
    down, across = axes
    layer = {
        "input": [draw(st.integers(1, 3)), down[0], across[0]],
        "batch": draw(st.integers(1, 2)),
        "kernels": draw(st.integers(1, 2)),
        "kernel": [down[1], across[1]],
        "stride": [down[2], across[2]],
        "dilation": [down[3], across[3]],
        "padding": [*down[4], *across[4]],
    }
    machine = {
        "group_size": draw(st.integers(1, 4)),
        "load": draw(st.sampled_from([1, 1, 2, 3, 7])),
        "compute": draw(st.sampled_from([0, 1, 1, 2, 5])),
        "kernels": draw(st.sampled_from(["preloaded", "step1"])),
        "padding": draw(st.sampled_from(["loaded", "generated"])),
    }
    limits: dict[str, Any] = {
        "steps": draw(st.sampled_from(["free", "kmin", "number"])),
        "reloads": draw(st.sampled_from([0, 1, 2, 2, 2, 3])),
    }
    goal = {
        "minimise": draw(st.sampled_from(["loads", "duration"])),
        "count": draw(st.sampled_from(["elements", "pixels"])),
    }
    free = make_problem(layer, machine, limits | {"steps": "free"}, goal)
    assert free.grid == (rows, cols)
    if limits["steps"] == "number":
        limits["steps"] = draw(st.integers(free.kmin, free.kmax))
    if draw(st.sampled_from([False, False, True])):
        # Between what one patch needs and what the largest group may need.
        least = free.memory_needed(int(free.patch_sizes.max()), 1)
        largest = free.memory_needed(len(free.needed_pixels), free.group_size)
        machine["memory"] = draw(st.integers(least, max(least, largest)))
    problem = make_problem(layer, machine, limits, goal)
    assume(exact.suits(problem))
    assume(ordered_partitions(problem.n_patches, problem.group_size, problem.steps_range[1]) <= work)
    return problem


def layer_of(
    size: tuple[int, int] = (5, 5),
    group: int = 2,
    *,
    kernel: tuple[int, int] = (3, 3),
    steps: Any = "kmin",
    reloads: int = 2,
    machine: dict[str, Any] | None = None,
    **layer: Any,
) -> Problem:
    """Build a layer of one channel, by default the S1 paper's 3x3 kernel with the fewest steps."""
    return make_problem(
        {"input": [1, *size], "kernels": 1, "kernel": list(kernel), **layer},
        {"group_size": group} | (machine or {}),
        {"steps": steps, "reloads": reloads},
    )


# Answers ---------------------------------------------------------------------------------------------------


def some_plan(problem: Problem, seed: int) -> Plan:
    """Cut patches in a random order into groups, whether that is a valid plan or not."""
    random_order = random.Random(seed)
    order = list(range(problem.n_patches))
    random_order.shuffle(order)
    least, most = problem.steps_range
    n = random_order.randint(least, most)
    cuts = sorted(random_order.sample(range(1, len(order)), n - 1))
    return Plan.from_groups(problem, [order[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)])


def check_answer(problem: Problem, start: Plan | None, expected: int | None) -> None:
    bounds: list[int] = []
    plans: list[Plan] = []
    outcome = exact.solve(
        problem,
        RunContext(
            start=start,
            deadline=soon(),
            on_bound=lambda bound, _grounds: bounds.append(bound),
            on_plan=plans.append,
        ),
    )
    if currently_in_test_context():
        event(outcome.status)
    assert bounds == sorted(set(bounds))
    assert all(violation(problem, plan) is None for plan in plans)
    if expected is None:
        assert outcome.plan is None
        # Where three loads or more are allowed it may not be told.
        assert outcome.status == "infeasible" or (outcome.status == "unknown" and problem.limits.reloads > 2)
        return
    assert max(bounds, default=0) <= expected
    assert outcome.bound is not None
    assert best_bound(problem).value <= outcome.bound <= expected
    if outcome.status == "optimal":
        report = simulate(problem, outcome.plan)
        assert report.violation is None
        assert violation(problem, outcome.plan) is None
        assert measured_objective(problem, report) == objective(problem, outcome.plan) == expected
        assert outcome.bound == expected
    else:
        # Cheaper plans that break the limit hide what the others cost.
        assert problem.limits.reloads > 2
        assert outcome.status == ("unknown" if outcome.plan is None else "feasible")
        if outcome.plan is not None:
            assert violation(problem, outcome.plan) is None
            assert objective(problem, outcome.plan) >= expected


@settings(max_examples=200)
@given(problem=tiny(), seed=st.integers(0, 99))
def test_agrees_with_enumeration(problem: Problem, seed: int) -> None:
    expected = optimum(problem)
    check_answer(problem, None, expected)
    check_answer(problem, some_plan(problem, seed), expected)


@pytest.mark.parametrize("steps", ["free", 4])
def test_a_memory_that_is_full_of_outputs_still_takes_patches_of_padding_alone(steps: Any) -> None:
    """Three of the five patches need no real pixel; two outputs fit on chip when there is none."""
    machine = {"padding": "generated", "memory": 4}
    layer = {"kernel": (1, 2), "padding": [0, 0, 4, 4], "dilation": [1, 4]}
    problem = layer_of((1, 1), 5, steps=steps, reloads=0, machine=machine, **layer)
    assert problem.max_pixels_by_size[:3].tolist() == [2, 1, 0]
    expected = optimum(problem)
    assert expected == 1 + 4
    check_answer(problem, None, expected)


@pytest.mark.parametrize("channels", [3, 100, 300])
def test_costs_of_any_size_are_counted(channels: int) -> None:
    """Costs are counted in 32 bits: as many cycles as the room allows must not run out of them."""
    layer = {"input": [channels, 5, 5], "kernels": 1, "kernel": [3, 3]}
    machine = {"group_size": 2, "load": 1_000_000}
    problem = make_problem(layer, machine, {"steps": "free", "reloads": 2})
    if not exact.suits(problem):
        return  # nothing claimed, nothing wrong
    bounds: list[int] = []
    outcome = exact.solve(
        problem, RunContext(deadline=soon(), on_bound=lambda bound, _: bounds.append(bound))
    )
    # Known of the same layer with cheap loads: 26 loads in 5 steps.
    expected = problem.cost(26, 5)
    assert (outcome.status, outcome.bound) == ("optimal", expected)
    assert max(bounds) <= expected


def test_what_is_known_already_ends_the_search() -> None:
    """A start that meets the bound is optimal at once; a bound from elsewhere is believed."""
    problem = layer_of()
    best = exact.solve(problem, RunContext(deadline=soon()))
    assert (best.status, best.bound) == ("optimal", 31)
    again = exact.solve(problem, RunContext(start=best.plan, bound=31, deadline=soon()))
    assert (again.status, again.bound, again.plan) == ("optimal", 31, best.plan)


@settings(max_examples=60)
@given(problem=tiny())
def test_a_search_for_less_than_the_optimum_finds_nothing(problem: Problem) -> None:
    """Tables of any quality prune no best plan, and let none through that does not exist."""
    expected = optimum(problem)
    assume(expected is not None)
    assert expected is not None
    space = StateSpace(problem)
    levels = search.ObjectiveLevels(space)
    cost_to_go = CostToGo(space)
    watched = problem.max_loads == 2
    for slack in (None, 0, 0, 1, 3):
        if slack is not None:
            followed(cost_to_go.improve(slack, soon()))
        assert levels.value(cost_to_go.total) <= expected
        layered = all_plans(space, cost_to_go, levels.total(expected), soon(), watched=watched)
        assert layered.complete
        found = layered.plan()
        if problem.limits.reloads <= 2:
            assert violation(problem, found) is None
            assert objective(problem, found) == expected
            # One half of a unit below, too.
            less = all_plans(space, cost_to_go, levels.total(expected) - 1, soon(), watched=watched)
            assert not less.complete
        else:
            assert objective(problem, found) <= expected
        if watched:
            relaxed = all_plans(space, cost_to_go, levels.total(expected), soon())
            assert relaxed.complete
            assert objective(problem, relaxed.plan()) <= expected


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layered_search, "FEW", 2)
    monkeypatch.setattr(layered_search, "CHUNK", 3)
    for problem, expected in ((layer_of((6, 6)), 48), (layer_of((5, 6), steps="free"), None)):
        alone = exact.solve(problem, RunContext(deadline=soon()))
        shared = exact.solve(problem, RunContext(deadline=soon(), threads=threads))
        assert shared.status == alone.status == "optimal"
        assert shared.bound == alone.bound == objective(problem, shared.plan)
        assert expected in (None, shared.bound)


def test_a_table_that_gets_too_small_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that were cut short are extended again, into the larger table."""
    sizes: list[int] = []
    original = LayeredSearch._table

    def small(self: LayeredSearch, size: int) -> Table:
        sizes.append(size)
        # Four times as large each time, 32 never gets to be what is made smaller here.
        return original(self, 32 if size == 1 << 12 else size)

    monkeypatch.setattr(LayeredSearch, "_table", small)
    outcome = exact.solve(layer_of((6, 6)), RunContext(deadline=soon()))
    assert (outcome.status, outcome.bound) == ("optimal", 48)
    assert any(size not in (1, 1 << 12) for size in sizes)


# Tables of chains ------------------------------------------------------------------------------------------


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


@settings(max_examples=60)
@given(problem=tiny(work=1000), slacks=st.lists(st.sampled_from([0, 0, 1, 1, 2, 3, 5, 9, 20]), max_size=4))
def test_no_table_is_above_the_shortest_chain(problem: Problem, slacks: list[int]) -> None:
    cost_to_go = CostToGo(StateSpace(problem))
    check_tables(cost_to_go, wide=False)
    for slack in slacks:
        followed(cost_to_go.improve(slack, soon()))
        check_tables(cost_to_go, wide=False)
    followed(cost_to_go.improve(10**6, soon()))
    check_tables(cost_to_go, wide=True)


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
    assert search.ObjectiveLevels(space).value(cost_to_go.total) == best_bound(space.problem).value
    if group == 3:
        # Patches that share no pixel begin no plan of the least cost.
        together, apart = (cost_to_go.anchored[space.end][3, pixels] + pixels for pixels in (15, 27))
        assert apart >= together + 2 * 5


def test_the_tables_prove_what_counting_does_not() -> None:
    """7x7 pixels in groups of two: 72, where counting says 62."""
    space = StateSpace(layer_of((7, 7)))
    cost_to_go = CostToGo(space)
    levels = search.ObjectiveLevels(space)
    assert best_bound(space.problem).value <= levels.value(cost_to_go.total) <= 72
    for slack in (0, 0, 1, 1, 2, 2, 3, 3):
        followed(cost_to_go.improve(slack, soon()))
    assert 62 < levels.value(cost_to_go.total) <= 72


# Several costs at once -------------------------------------------------------------------------------------


@settings(max_examples=80)
@given(problem=tiny(work=1000), above=st.integers(1, 40), patient=st.booleans())
def test_dearer_plans_may_be_looked_for_first(problem: Problem, above: int, patient: bool) -> None:
    """A search that skips costs below a poor plan's proves no more than holds and finds the optimum."""
    expected = optimum(problem)
    assume(expected is not None)
    with pytest.MonkeyPatch.context() as patch:
        # Where the next cost seems to take no more time than the last, the highest is refuted at once.
        patch.setattr(search, "GROWTH", 50.0 if patient else 1.0)
        last = None
        for found in search.prove(problem, soon(), 0, expected + above):
            last = found
            assert not found.impossible
            assert found.bound <= expected, found
            if found.plan is not None:
                assert violation(problem, found.plan) is None
                assert objective(problem, found.plan) == found.bound == expected
    if last is not None and problem.limits.reloads < 3:
        assert last.bound == expected


# A second proof --------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(problem=tiny())
def test_the_verifier_agrees_with_enumeration(problem: Problem) -> None:
    assume(len(problem.needed_pixels) <= 64 and problem.limits.reloads in (0, 2))
    watched, expected = problem.limits.reloads == 2, optimum(problem)
    if expected is None:
        most = problem.cost(problem.max_loads * len(problem.needed_pixels), problem.steps_range[1])
        assert not verifier.cheaper(problem, most + 1, watched=watched)
        return
    assert not verifier.cheaper(problem, expected, watched=watched)
    assert verifier.cheaper(problem, expected + 1, watched=watched)


def best_start(problem: Problem) -> Plan | None:
    """Return the best plan of the constructive heuristics: what `auto` starts from."""
    plans = []
    for name in catalogue.heuristics("grouping"):
        method = catalogue.heuristic("grouping", name)
        if not catalogue.searches(method):
            plans.append(method.plan(problem))
    valid = [plan for plan in plans if violation(problem, plan) is None]
    return min(valid, key=lambda plan: objective(problem, plan), default=None)


def claim(problem: Problem) -> int:
    """Return the optimum that the method claims from the start that `auto` gives it."""
    outcome = exact.solve(problem, RunContext(start=best_start(problem), deadline=soon()))
    assert outcome.status == "optimal"
    assert outcome.bound == objective(problem, outcome.plan)
    report = simulate(problem, outcome.plan)
    assert report.violation is None
    assert measured_objective(problem, report) == outcome.bound
    return int(outcome.bound)


KNOWN = {(5, 2): 31, (6, 2): 48, (7, 2): 72, (7, 3): 60}
"""Optima of square inputs that are above the compulsory loads and the fewest steps."""


@pytest.mark.parametrize("group", range(2, 11))
@pytest.mark.parametrize("side", [4, 5, 6, 7])
def test_the_grid_of_s1_is_proven_twice(side: int, group: int) -> None:
    for steps in ("kmin", "free"):
        problem = layer_of((side, side), group, steps=steps)
        claimed = claim(problem)
        counted = problem.cost(side * side, problem.kmin)
        assert claimed == KNOWN.get((side, group), counted)
        # All pixels once in the fewest steps: nothing is cheaper, and nothing is left to prove.
        if claimed > counted:
            assert not verifier.cheaper(problem, claimed)


OTHERS = {
    "5x5 kernel": layer_of((8, 8), 2, kernel=(5, 5)),
    "5x5 kernel, groups of three": layer_of((7, 9), 3, kernel=(5, 5), steps="free"),
    "5x5 kernel, row": layer_of((5, 12), 2, kernel=(5, 5)),
    "5x3 kernel": layer_of((7, 8), 2, kernel=(5, 3), steps="free"),
    "1x1 kernel": layer_of((3, 5), 2, kernel=(1, 1), steps="free"),
    "1x1 kernel, full": layer_of((4, 5), 4, kernel=(1, 1)),
    "2x2 kernel": layer_of((6, 7), 2, kernel=(2, 2)),
    "2x2 kernel, one by one": layer_of((5, 6), 1, kernel=(2, 2)),
    "stride": layer_of((7, 9), 2, stride=(2, 2)),
    "stride, steps free": layer_of((7, 9), 3, stride=(2, 2), steps="free"),
    "uneven stride": layer_of((6, 9), 2, stride=(1, 2)),
    "uneven stride, upright": layer_of((9, 6), 3, stride=(2, 1), steps="free"),
    "stride and 5x5": layer_of((7, 9), 2, kernel=(5, 5), stride=(2, 1)),
    "stride beyond the kernel": layer_of((8, 7), 2, kernel=(2, 2), stride=(3, 2), steps="free"),
    "stripe": layer_of((4, 12), 2),
    "long row": layer_of((3, 18), 2),
    "wide": layer_of((5, 9), 3, steps="free"),
    "one more step": layer_of((5, 6), 2, steps=7),
    "two more steps": layer_of((6, 6), 3, steps=8),
    "dilation": layer_of((8, 7), 2, dilation=(2, 1)),
    "dilation, both": layer_of((7, 8), 2, dilation=(2, 2), steps="free"),
    "dilation and stride": layer_of((7, 9), 2, dilation=(2, 1), stride=(1, 2)),
    "padding loaded": layer_of((4, 5), 2, padding=[1, 1, 1, 1]),
    "padding generated": layer_of((4, 5), 2, padding=[1, 1, 1, 1], machine={"padding": "generated"}),
    "uneven padding": layer_of((5, 5), 2, padding=[1, 0, 0, 1], machine={"padding": "generated"}),
    "memory": layer_of((5, 7), 4, steps="free", machine={"memory": 9 + 14 + 3}),
    "dear steps": layer_of((6, 6), 2, steps="free", machine={"compute": 4}),
    "free steps": layer_of((5, 6), 3, steps="free", machine={"compute": 0}),
    "dear loads": layer_of((5, 6), 2, steps="free", machine={"load": 3, "compute": 2}),
    "no limit": layer_of((6, 6), 1, reloads=0),
    "one by one": layer_of((6, 6), 1),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_layers_are_proven_twice(name: str) -> None:
    problem = OTHERS[name]
    claimed = claim(problem)
    assert not verifier.cheaper(problem, claimed)


# Here cheaper plans load some pixel three times, or other best ones do, and the search must watch.
WATCHED = {
    "one by one": layer_of(
        (5, 4), 1, steps="free", padding=[1, 1, 0, 1], machine={"padding": "generated", "memory": 25}
    ),
    "large kernel": layer_of(
        (6, 11), 3, kernel=(4, 5), steps="free", stride=[2, 2], padding=[1, 0, 0, 0],
        machine={"padding": "generated", "memory": 45, "compute": 3},
    ),
    "dilation": layer_of(
        (5, 11), 1, kernel=(3, 4), steps="free", stride=[1, 2], dilation=[1, 2], padding=[1, 0, 0, 0],
        machine={"padding": "generated", "memory": 57, "compute": 1},
    ),
    "dilation and stride": layer_of(
        (6, 11), 1, steps="free", stride=[1, 2], dilation=[1, 2],
        machine={"padding": "generated", "memory": 37, "compute": 1},
    ),
    "none": layer_of((7, 7), 3, kernel=(4, 4), steps="free", machine={"memory": 33, "compute": 3}),
}  # fmt: skip


@pytest.mark.parametrize("name", WATCHED)
def test_the_limit_of_two_loads_is_proven_twice(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    watched: dict[tuple[int, int], list[bool]] = {}
    original = search.plans_within

    def noted(space: StateSpace, *arguments: Any, **options: Any) -> LayeredSearch:
        watched.setdefault(space.problem.steps_range, []).append(options["watched"])
        return original(space, *arguments, **options)

    monkeypatch.setattr(search, "plans_within", noted)
    problem = WATCHED[name]
    outcome = exact.solve(problem, RunContext(deadline=soon()))
    # Of each number of steps: once it watches, it goes on doing so.
    assert all(found == sorted(found) for found in watched.values())
    assert any(found[-1] for found in watched.values())
    if outcome.status == "infeasible":
        most = problem.cost(2 * len(problem.needed_pixels), problem.n_patches)
        assert not verifier.cheaper(problem, most + 1, watched=True)
        return
    assert outcome.status == "optimal"
    assert violation(problem, outcome.plan) is None
    assert objective(problem, outcome.plan) == outcome.bound
    assert not verifier.cheaper(problem, int(outcome.bound), watched=True)


def test_many_of_these_claims_need_more_than_counting() -> None:
    """Otherwise the second proofs would say little."""
    hard = [name for name, problem in OTHERS.items() if best_bound(problem).value < claim(problem)]
    assert len(hard) >= len(OTHERS) // 3


# Bits and children -----------------------------------------------------------------------------------------


@given(data=st.data(), n=st.integers(1, 200))
def test_packing_is_undone(data: st.DataObject, n: int) -> None:
    members = np.array([data.draw(st.lists(st.booleans(), min_size=n, max_size=n)) for _ in range(2)])
    words = pack(members)
    assert words.shape == (2, -(-n // 64))
    assert (unpack(words, n) == members).all()
    for row, flags in zip(words.tolist(), members.tolist(), strict=True):
        assert sum(word << 64 * i for i, word in enumerate(row)) == sum(1 << i for i in range(n) if flags[i])


def to_int(words: Any) -> int:
    return sum(int(word) << 64 * i for i, word in enumerate(words))


def permutation(table: Any, n: int) -> list[int]:
    """Read from a table of images where each member of a set goes."""
    return [to_int(table[i // 8, 1 << i % 8]).bit_length() - 1 for i in range(n)]


def bits_of(problem: Problem) -> Bits:
    parts = cells(problem)
    return Bits.of(problem, parts, symmetries(problem, parts))


LARGER = [
    layer_of((5, 5)),
    layer_of((10, 10), 3),
    layer_of((4, 30), 3),
    layer_of((8, 8), 3, padding=[1, 0, 0, 1], machine={"padding": "generated"}),
    layer_of((9, 9), 3, kernel=(2, 2), stride=(3, 3)),
    layer_of((9, 9), 3, kernel=(3, 3), stride=(2, 2), dilation=(2, 2)),
]


@pytest.mark.parametrize("problem", LARGER, ids=lambda problem: str(problem.layer.input))
def test_images_keep_the_layer(problem: Problem) -> None:
    check_images(problem)


@settings(max_examples=50)
@given(problem=tiny())
def test_images_of_tiny_layers_keep_the_layer(problem: Problem) -> None:
    check_images(problem)


def check_images(problem: Problem) -> None:
    """Check that images are permutations of patches and of pixels that keep who needs what."""
    bits = bits_of(problem)
    needed = problem.needed_pixels.tolist()
    rows = [{needed.index(p) for p in row if p >= 0} for row in problem.patch_pixels.tolist()]
    assert [to_int(row) for row in bits.patch_pixels] == [sum(1 << p for p in row) for row in rows]
    for pixel, patches in enumerate(bits.pixel_patches):
        assert to_int(patches) == sum(1 << i for i, row in enumerate(rows) if pixel in row)
    assert permutation(bits.patch_images[0], len(rows)) == list(range(len(rows)))
    seen = set()
    for of_patches, of_pixels in zip(bits.patch_images, bits.pixel_images, strict=True):
        patches, pixels = permutation(of_patches, len(rows)), permutation(of_pixels, len(needed))
        assert sorted(patches) == list(range(len(rows)))
        assert sorted(pixels) == list(range(len(needed)))
        assert all(rows[patches[i]] == {pixels[p] for p in row} for i, row in enumerate(rows))
        seen.add(tuple(patches))
        # Every byte is the union of its bits.
        for table, image in ((of_patches, patches), (of_pixels, pixels)):
            for byte in range(len(table)):
                for value in (0x55, 0xE1, 0xFF):
                    members = [8 * byte + i for i in range(8) if value >> i & 1 and 8 * byte + i < len(image)]
                    assert to_int(table[byte, value]) == sum(1 << image[i] for i in members)
    # With the identity and all that they lead to, images are a group.
    assert all(tuple(a[i] for i in b) in seen for a in seen for b in seen)


class Drawn:
    """A random partial plan of a layer, and its children by brute force."""

    def __init__(self, problem: Problem, draw: random.Random, watched: bool) -> None:
        self.problem, self.watched = problem, watched
        self.space = StateSpace(problem)
        self.n = problem.n_patches
        self.masks = [to_int(row) for row in self.space.bits.patch_pixels]
        self.done = sum(1 << p for p in draw.sample(range(self.n), draw.randint(0, self.n - 1)))
        seen = self.pixels(self.done)
        shared = seen & self.pixels(~self.done)
        # Any of the shared pixels may be on chip, and any of these may be there for the second time.
        self.held = shared & draw.getrandbits(64)
        self.kept = self.held & draw.getrandbits(64) & draw.getrandbits(64) if watched else 0
        self.seen = seen
        self.cost = draw.randint(0, 40)
        self.later: dict[tuple[int, int], int] = {}

    def pixels(self, patches: int) -> int:
        """Return the pixels of a set of patches."""
        found = 0
        for patch in range(self.n):
            if patches >> patch & 1:
                found |= self.masks[patch]
        return found

    def row(self) -> Any:
        held = [self.held, self.kept] if self.watched else [self.held]
        parts = [self.words(self.done), *(self.words(pixels, pixels=True) for pixels in held)]
        return np.concatenate(parts)[np.newaxis]

    def words(self, members: int, pixels: bool = False) -> Any:
        """Pack a set of patches, or one of pixels, as the search does."""
        bits = self.space.bits
        n, words = (len(bits.pixel_patches), bits.pixel_words) if pixels else (self.n, bits.patch_words)
        return pack(np.array([members >> i & 1 for i in range(n)], bool), len(words))

    def canonical(self, done: int, held: int, kept: int) -> tuple[int, ...]:
        """Return one image for all images of a partial plan."""
        bits = self.space.bits
        n_pixels = len(bits.pixel_patches)

        def moved(value: int, image: list[int]) -> int:
            return sum(1 << image[i] for i in range(len(image)) if value >> i & 1)

        images = []
        for of_patches, of_pixels in zip(bits.patch_images, bits.pixel_images, strict=True):
            patches, pixels = permutation(of_patches, self.n), permutation(of_pixels, n_pixels)
            images.append((moved(done, patches), moved(held, pixels), moved(kept, pixels)))
        # The lowest words are compared first.
        return min(images, key=lambda sets: [value >> 64 * w & 2**64 - 1 for value in sets for w in range(4)])

    def children(self, size: int, longest: list[int]) -> list[tuple[tuple[int, ...], int, int, int]]:
        """Return (row, cost, pixels thrown away, fewest thrown away later) of each group that may follow."""
        space, found = self.space, []
        for members in combinations([p for p in range(self.n) if not self.done >> p & 1], size):
            group = sum(1 << p for p in members)
            pixels = self.pixels(group)
            lost = (self.held & ~pixels).bit_count()
            fresh = (pixels & ~self.held).bit_count()
            walk = self.cost + space.step + space.load * (fresh + lost - self.held.bit_count())
            number = pixels.bit_count()
            if number > max_pixels(self.problem, size) or walk > longest[number] or self.kept & ~pixels:
                continue
            done = self.done | group
            still = pixels & self.pixels(~done)
            kept = (self.kept | pixels & self.seen & ~self.held) & still if self.watched else 0
            row = self.canonical(done, still, kept)
            found.append((row, walk + space.load * number, lost, self.thrown_later(done, still)))
        return found

    def thrown_later(self, done: int, held: int) -> int:
        """Return how many pixels any plan that goes on throws away at least, in however many steps."""
        key = done, held & self.pixels(~done)
        if key not in self.later:
            left = [p for p in range(self.n) if not done >> p & 1]
            # The room that a group would need does not matter: more plans may throw away less.
            self.later[key] = min(
                (
                    (key[1] & ~self.pixels(group)).bit_count()
                    + self.thrown_later(done | group, self.pixels(group))
                    for size in range(1, min(self.space.size, len(left)) + 1)
                    for members in combinations(left, size)
                    for group in [sum(1 << p for p in members)]
                ),
                default=0,
            )
        return self.later[key]


def max_pixels(problem: Problem, size: int) -> int:
    return int(problem.max_group_pixels(size))


def expanded(drawn: Drawn, rules: Rules) -> dict[tuple[int, ...], int]:
    """Let the product extend the partial plan; return its rows as sets, with their costs."""
    space = drawn.space
    row = drawn.row()
    table = Table(
        np.zeros((1 << 10, row.shape[1]), np.uint64),
        np.full(1 << 10, -NEVER, np.int32),
        np.zeros(1 << 10, np.int32),
        np.zeros(1 << 10, np.int32),
        np.zeros(1 << 10, np.int16),
        np.zeros(1, np.int64),
        np.full((space.size + 1, space.most_pixels + 1), NEVER, np.int32),
    )
    start = np.array([drawn.cost], np.int32), np.zeros(1, np.int16)
    workspace = Workspace.of(space.bits, space.size, row.shape[1])
    assert expand(space.bits, rules, row, *start, 0, 1, 7, table, workspace) == 1
    used = table.cost > -NEVER
    assert used.sum() == table.used[0]
    assert (table.parent[used] == 0).all()
    assert (table.stage[used] == 7).all()
    a, b = space.n_done, space.n_done + space.n_held
    return {
        (to_int(row[:a]), to_int(row[a:b]), to_int(row[b:])): int(cost)
        for row, cost in zip(table.rows[used], table.cost[used], strict=True)
    }


def rules_of(space: StateSpace, size: int, most: Any, *, watched: bool = False) -> Rules:
    """Return rules for groups of `size` patches after any partial plan, as chains are followed."""
    member, left_out = space.anywhere[0]
    return Rules(
        size=size,
        step=space.step,
        load=space.load,
        coming=space.step,
        free=False,
        watched=watched,
        spare=2**30,
        following=0,
        ahead=99,
        excess=-1,
        below=0,
        delays=int(Delay.NONE),
        most=most,
        total=-1,
        member=member,
        left_out=left_out,
        near=NO_PREFIX_LIMITS.near,
        stop=np.zeros(1, bool),
    )


def cheapest(children: list[tuple[tuple[int, ...], int]]) -> dict[tuple[int, ...], int]:
    found: dict[tuple[int, ...], int] = {}
    for row, cost in children:
        found[row] = min(found.get(row, cost), cost)
    return found


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(
    problem=tiny(work=20_000), seed=st.integers(0, 10**6), watched=st.booleans(), budget=st.integers(0, 60)
)
def test_children_are_all_that_brute_force_finds(
    problem: Problem, seed: int, watched: bool, budget: int
) -> None:
    """Within a length, as chains are extended, and within a total, as partial plans are."""
    draw = random.Random(seed)
    drawn = Drawn(problem, draw, watched)
    space = drawn.space
    size = draw.randint(1, min(space.size, drawn.n - drawn.done.bit_count()))
    # A longest walk for each number of pixels, as the tables of chains give it.
    allowed = [budget + space.load * draw.randint(0, 3) for _ in space.pixels]
    most = np.where(space.pixels <= max_pixels(problem, size), np.array(allowed), -NEVER).astype(np.int64)
    children = drawn.children(size, [int(value) for value in most])
    rules = rules_of(space, size, most, watched=watched)
    found = expanded(drawn, rules)
    assert found == cheapest([(row, cost) for row, cost, _, _ in children])
    # The first group of a chain costs nothing, whatever was done.
    if not watched and drawn.done == 0:
        of_chains = expanded(drawn, rules._replace(free=True))
        everything = drawn.children(size, [NEVER if value >= 0 else -1 for value in most.tolist()])
        assert set(of_chains) == {row for row, *_ in everything}
        # But for symmetry it has one of the patches that are given, and none of those before.
        if size > 1:
            divided = [
                expanded(drawn, rules._replace(free=True, member=member, left_out=left_out))
                for member, left_out in space.starts
            ]
            assert {row for rows in divided for row in rows} == set(of_chains)

    # The same where pixels thrown away must fit into a total, with a look at the groups after.
    missing = (drawn.pixels(~drawn.done) & ~drawn.held).bit_count()
    spare = draw.randint(0, 4)
    total = drawn.cost + 2 * space.load * (missing + spare) + space.step
    found = expanded(drawn, rules._replace(total=total))
    within = cheapest([(row, cost) for row, cost, lost, _ in children if lost <= spare])
    assert found == within
    following = min(space.size, drawn.n - drawn.done.bit_count() - size)
    looked = expanded(drawn, rules._replace(total=total, following=following))
    can_go_on = [(row, cost) for row, cost, lost, after in children if lost + after <= spare]
    assert set(looked) <= set(within)
    for row, cost in cheapest(can_go_on).items():
        assert looked[row] <= cost


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(problem=tiny(work=20_000))
def test_first_groups_that_begin_a_plan_are_found(problem: Problem) -> None:
    """Whatever may be thrown away later, no first group is lost that this is enough for."""
    drawn = Drawn(problem, random.Random(0), watched=False)
    drawn.done = drawn.held = drawn.seen = drawn.cost = 0
    space = drawn.space
    for size in range(1, min(space.size, drawn.n) + 1):
        most = np.where(space.pixels <= max_pixels(problem, size), NEVER, -NEVER).astype(np.int64)
        children = drawn.children(size, [int(value) for value in most])
        following = min(space.size, drawn.n - size)
        rules = rules_of(space, size, most)._replace(following=following)
        for spare in range(4):
            total = 2 * space.load * len(problem.needed_pixels) + space.step + 2 * space.load * spare
            found: dict[tuple[int, ...], int] = {}
            for member, left_out in space.starts if size > 1 else space.anywhere:
                found |= expanded(drawn, rules._replace(total=total, member=member, left_out=left_out))
            assert set(found) <= {row for row, *_ in children}
            can_go_on = {row for row, _, _, later in children if later <= spare}
            assert can_go_on <= set(found)
            event(f"hopeless first groups left out: {len(found) < len({row for row, *_ in children})}")


@njit
def is_overcommitted(
    bits: Any, done: Any, covered: Any, waiting: Any, slots: int, size: int, ahead: int, scratch: Any
) -> Any:
    return overcommitted(bits, done, covered, waiting, slots, size, ahead, scratch)


@settings(max_examples=150)
@given(
    side=st.tuples(st.integers(2, 8), st.integers(2, 8)),
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.sampled_from([1, 1, 1, 2]), st.sampled_from([1, 1, 1, 2])),
    dilation=st.tuples(st.sampled_from([1, 1, 1, 2]), st.sampled_from([1, 1, 1, 2])),
    group=st.integers(1, 8),
    seed=st.integers(0, 10**6),
)
def test_no_plan_is_overcommitted(
    side: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    group: int,
    seed: int,
) -> None:
    """Each part of a group of a sweep passes where the sweep throws nothing away in the steps that follow."""
    draw = random.Random(seed)
    height, width = (
        (n - 1) * s + d * (k - 1) + 1 for n, k, s, d in zip(side, kernel, stride, dilation, strict=True)
    )
    layer = {"stride": stride, "dilation": dilation}
    problem = layer_of((height, width), group, kernel=kernel, steps="free", **layer)
    drawn = Drawn(problem, draw, watched=False)
    slope = draw.choice([(0, 1), (1, 0), (1, 1), (1, 2), (9, 1), (1, 9)])
    noise = draw.choice([0.0, 0.5, 2.0])
    place = {p: slope[0] * (p // side[1]) + slope[1] * (p % side[1]) for p in range(drawn.n)}
    order = sorted(place, key=lambda p: place[p] + noise * draw.random())
    groups = []
    while order:
        cut = group if draw.random() < 0.9 else draw.randint(1, group)
        groups.append(order[:cut])
        order = order[cut:]
    done, held = 0, 0
    steps = []
    for members in groups:
        mask = sum(1 << p for p in members)
        needed = held & drawn.pixels(~done)
        steps.append((done, needed, members, needed & ~drawn.pixels(mask)))
        done, held = done | mask, drawn.pixels(mask)
    ahead, longest = len(steps), 0
    scratch = DeadlineScratch.of(drawn.space.bits)
    for done, needed, members, thrown in reversed(steps):
        for taken in range(len(members) + 1):
            part = sum(1 << p for p in draw.sample(members, taken))
            covered = drawn.pixels(part)
            on_chip = [covered, needed & ~covered & ~thrown]
            words = [drawn.words(done | part), *(drawn.words(pixels, pixels=True) for pixels in on_chip)]
            assert not is_overcommitted(drawn.space.bits, *words, len(members) - taken, group, ahead, scratch)
            assert not sum(1 << p for p in members) & ~part & ~to_int(scratch.only)
        longest = max(longest, ahead)
        # What is thrown away here is thrown away by the group before.
        ahead = 0 if thrown else ahead + 1
    event(f"steps: {min(longest, 5)} or more")


@settings(max_examples=60)
@given(problem=tiny(), seed=st.integers(0, 10**6), watched=st.booleans())
def test_what_is_dominated_has_a_substitute(problem: Problem, seed: int, watched: bool) -> None:
    """Whoever is left out is replaced by a row with the same patches that is kept and no worse."""
    draw = random.Random(seed)
    first = Drawn(problem, draw, watched)
    rows, costs = [], []
    shared = first.pixels(first.done) & first.pixels(~first.done)
    for cost in sorted(draw.randint(0, 12) for _ in range(30)):
        first.held = shared & draw.getrandbits(64)
        first.kept = first.held & draw.getrandbits(64) if watched else 0
        rows.append(first.row()[0])
        costs.append(cost)
    space = first.space
    stacked = np.array(rows)
    kept = undominated(space.bits, stacked, np.array(costs, np.int32), space.load, watched)
    assert kept[0]
    for i in np.flatnonzero(~kept):
        assert any(
            replaces(space, stacked[j], costs[j], stacked[i], costs[i], watched) for j in np.flatnonzero(kept)
        )


def replaces(space: StateSpace, row: Any, cost: int, other: Any, more: int, watched: bool) -> bool:
    """Whether a plan may go on from a row instead of the other, for no more."""
    a, b = space.n_done, space.n_done + space.n_held
    lacks = (to_int(other[a:b]) & ~to_int(row[a:b])).bit_count()
    if not watched:
        return cost + 2 * space.load * lacks <= more
    return cost <= more and lacks == 0 and not to_int(row[b:]) & ~to_int(other[b:])


# Objectives that plans can have ----------------------------------------------------------------------------


@settings(max_examples=80)
@given(problem=tiny())
def test_no_possible_objective_is_skipped(problem: Problem) -> None:
    levels = search.ObjectiveLevels(StateSpace(problem))
    fewest, most = problem.steps_range
    least = len(problem.needed_pixels)
    useful = range(fewest, last_useful_step(problem) + 1)
    top = problem.cost(least + 6, fewest)
    possible = sorted({
        problem.cost(loads, steps) for steps in useful for loads in range(least, least + 7 + top)
        if problem.cost(loads, steps) <= top + 5
    }) if top < 3000 else []  # fmt: skip
    for low, high in zip([0, *possible], possible, strict=False):
        assert {levels.up(value) for value in (low + 1, (low + high + 1) // 2, high)} == {high}
    # In the halves that searches count in, totals compare as objectives do.
    space = StateSpace(problem)
    for value in possible:
        assert levels.value(levels.total(value)) == value
        for loads in range(least, least + 8):
            for steps in range(fewest, most + 1):
                halves = 2 * space.load * loads + space.step * steps
                assert (halves <= levels.total(value)) == (problem.cost(loads, steps) <= value)
    expected = optimum(problem)
    if expected is not None:
        assert levels.up(expected) == expected <= levels.highest
        assert all(levels.up(value) <= expected for value in range(max(0, expected - 40), expected + 1))


# Deadlines and memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", ["kmin", "free"])
@pytest.mark.parametrize(
    ("side", "group", "threads"), [(12, 5, 1), (12, 5, 2), (7, 9, 1)], ids=["12x12", "12x12, threads", "7x7"]
)
def test_time_is_kept(side: int, group: int, threads: int, steps: str) -> None:
    exact.solve(layer_of(), RunContext(deadline=soon()))  # compiled before the clock starts
    problem = layer_of((side, side), group, steps=steps)
    bounds: list[int] = []
    context = RunContext(threads=threads, on_bound=lambda bound, _grounds: bounds.append(bound))
    with processor_time(2 * threads + 1.5):
        context.deadline = time.monotonic() + 2
        outcome = exact.solve(problem, context)
    start = best_start(problem)
    assert start is not None
    assert best_bound(problem).value <= outcome.bound <= objective(problem, start)
    assert bounds == sorted(set(bounds))


@pytest.mark.parametrize("rows", [0, 1, 20_000, 60_000])
def test_what_does_not_fit_ends_with_a_valid_bound(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever search runs out of memory first, what was proven stands and the other goes on."""
    monkeypatch.setattr(layered_search, "MAX_ROWS", rows)
    for problem, expected in ((layer_of((7, 7)), 72), (layer_of((6, 6), 3, steps="free"), 42)):
        outcome = exact.solve(problem, RunContext(deadline=soon()))
        assert outcome.bound is not None
        assert best_bound(problem).value <= outcome.bound <= expected
        assert outcome.status in ("unknown", "optimal")
        assert (outcome.status == "optimal") == (outcome.plan is not None)
        if rows == 0:
            # Not even the stage that is begun fits, but tables of a few rows never ask.
            assert outcome.bound < 73


@pytest.mark.parametrize(
    ("leading", "following"), [(0, 0.6), (1e9, 0.6), (1e9, 0)], ids=["none leads", "one leads", "too far"]
)
@pytest.mark.parametrize(("side", "group", "expected"), [(7, 2, 72), (8, 3, 82)], ids=["7x7 g2", "8x8 g3"])
def test_searches_for_all_numbers_of_steps_agree(
    side: int, group: int, expected: int, leading: float, following: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However far one goes ahead, and however often others give up and aim at less."""
    monkeypatch.setattr(search, "LEADING", leading)
    monkeypatch.setattr(search, "FOLLOWING", following)
    problem = layer_of((side, side), group, steps="free")
    for known in (None, expected, expected + 5):
        plans = []
        bound = 0
        for found in search.prove_by_steps(problem, soon(), best_bound(problem).value, known):
            assert bound <= found.bound <= expected
            bound = found.bound
            if found.plan is not None:
                assert violation(problem, found.plan) is None
                plans.append(objective(problem, found.plan))
        assert bound == expected
        assert plans == sorted(plans, reverse=True)
        assert (plans[-1] == expected) if known != expected else not plans


def test_a_search_too_large_for_memory_aims_at_less(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = layer_of((8, 8), 3, steps="free")
    totals: dict[int, list[int]] = {}
    plans_within = search.plans_within

    def full(
        space: StateSpace, cost_to_go: CostToGo, total: int, *rest: Any, **options: Any
    ) -> LayeredSearch:
        layered = plans_within(space, cost_to_go, total, *rest, **options)
        asked = totals.setdefault(space.steps, [])
        asked.append(total)
        if space.steps == problem.kmin + 1 and len(asked) == 1:
            monkeypatch.setattr(layered, "run", lambda: too_large())
        return layered

    def too_large() -> Iterator[None]:
        raise TooLargeError
        yield

    monkeypatch.setattr(search, "plans_within", full)
    monkeypatch.setattr(search, "LEADING", 1e9)
    *_, last = search.prove_by_steps(problem, soon(), best_bound(problem).value, 82)
    assert last.bound == 82
    first, second, *_ = totals[problem.kmin + 1]
    assert second < first


def test_too_many_partial_plans_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layered_search, "MAX_ROWS", 1000)
    space = StateSpace(layer_of((7, 7)))
    cost_to_go = CostToGo(space)
    before = {key: table.copy() for key, table in cost_to_go.anchored.items()}
    with pytest.raises(TooLargeError):
        followed(cost_to_go.improve(10**6, soon()))
    assert all((cost_to_go.anchored[key] >= before[key]).all() for key in before)
    with pytest.raises(TooLargeError):
        all_plans(space, cost_to_go, search.ObjectiveLevels(space).total(80), soon())
    with pytest.raises(OutOfTimeError):
        all_plans(space, cost_to_go, search.ObjectiveLevels(space).total(80), time.monotonic() - 1)
    check_total(space, cost_to_go)


def check_total(space: StateSpace, cost_to_go: CostToGo) -> None:
    assert search.ObjectiveLevels(space).value(cost_to_go.total) <= 72


# The command line ------------------------------------------------------------------------------------------

CELL = """
room = "grouping"
[layer]
input = [1, 5, 5]
kernels = 1
kernel = [3, 3]
[machine]
group_size = 2
[limits]
steps = "kmin"
reloads = 2
"""


@pytest.fixture
def result(solved: Any, tmp_path: Any) -> Any:
    (tmp_path / "cell.toml").write_text(CELL)
    return solved("cell.toml", "--with", "exact", "--time-limit", "300")


def test_check_tells_the_grounds(tilewright: Any, result: Any, tmp_path: Any) -> None:
    assert (result["status"], result["objective"], result["bound"]) == ("optimal", 31, 31)
    assert result["bound_by"] == "exact"
    assert json.loads((tmp_path / "result.json").read_text())["grounds"] == result["grounds"]
    assert "no plan costs 30 or less" in result["grounds"] or "chains" in result["grounds"]
    checked = tilewright("check", "cell.toml", "result.json", "--time-limit", "300")
    assert checked.returncode == 0, checked.stdout
    told = " ".join(checked.stdout.split())
    assert "claimed by 'exact'" in told
    assert "it proves 31" in told
    assert "no plan costs" in told or "chains" in told
    assert "WRONG" not in told


@pytest.mark.parametrize("plan", [True, False], ids=["with the plan", "without"])
def test_a_bound_that_is_raised_is_refused(tilewright: Any, result: Any, tmp_path: Any, plan: bool) -> None:
    result["bound"] = 32
    if plan:
        result["gap"] = (31 - 32) / 31
    else:
        result |= {"plan": None, "report": None, "objective": None, "gap": None, "status": "unknown"}
    (tmp_path / "r.json").write_text(json.dumps(result))
    checked = tilewright("check", "cell.toml", "r.json", "--time-limit", "300")
    assert checked.returncode == 1, checked.stdout
    told = " ".join(checked.stdout.split())
    assert "WRONG" in told
    assert "32, claimed by 'exact'" in told
    assert "it proves 31" in told


def test_grounds_that_are_no_text_are_refused(tilewright: Any, result: Any, tmp_path: Any) -> None:
    result["grounds"] = 31
    (tmp_path / "r.json").write_text(json.dumps(result))
    checked = tilewright("check", "cell.toml", "r.json")
    assert checked.returncode == 2
    assert "grounds" in checked.stderr
