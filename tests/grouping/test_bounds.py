"""No bound is ever above an optimum: tiny layers exhaustively, larger ones against every plan at hand."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import permutations

import enumeration
import numpy as np
import pytest
from axes import axes, layer_table
from conftest import examples, make_problem, tells
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tilewright.core import catalogue
from tilewright.grouping import Plan, Problem, best_bound, measured_objective, objective, simulate, violation
from tilewright.grouping.bounds.best import (
    Bound,
    compulsory,
    crossing,
    excess_loads,
    fewest_pixels,
    most_pixels,
    window_overlap,
    windows,
    with_more_steps,
)
from tilewright.grouping.problem import GroupingLimits


@st.composite
def problems(draw: st.DrawFn, most_patches: int, side: int) -> Problem:
    rows = draw(st.integers(1, side))
    cols = draw(st.integers(1, min(side, most_patches // rows)))
    up_to_4 = st.integers(1, 4)
    down, across = (
        draw(axes(st.just(outputs), kernel=up_to_4, stride=up_to_4, dilation=st.integers(1, 3), padding=3))
        for outputs in (rows, cols)
    )
    machine = {
        "group_size": draw(st.integers(1, 4)),
        "load": draw(st.integers(0, 3)),
        "compute": draw(st.integers(0, 3)),
        "kernels": draw(st.sampled_from(["preloaded", "step1"])),
        "padding": draw(st.sampled_from(["loaded", "generated"])),
    }
    layer = layer_table(draw(st.integers(1, 3)), down, across, kernels=draw(st.integers(1, 2)))
    limits = {"steps": draw(st.sampled_from(["free", "kmin"])), "reloads": 0}
    objective = {
        "minimise": draw(st.sampled_from(["loads", "duration"])),
        "count": draw(st.sampled_from(["elements", "pixels"])),
    }
    problem = make_problem(layer, machine, limits, objective)
    assert problem.grid == (rows, cols)
    if draw(st.booleans()):
        # Between what one patch needs and what the largest group may need.
        least = problem.memory_needed(int(problem.patch_sizes.max()), 1)
        most = problem.memory_needed(len(problem.needed_pixels), problem.group_size)
        memory = draw(st.integers(least, max(least, most)))
        problem = make_problem(layer, machine | {"memory": memory}, limits, objective)
    if draw(st.booleans()):
        limits["steps"] = draw(st.integers(problem.kmin, problem.kmax))
        problem = make_problem(layer, problem.machine.model_dump(), limits, objective)
    return problem


def least_loads(problem: Problem) -> dict[int, int]:
    """Fewest loads by number of steps, over all ordered partitions that the memory allows.

    Naive but for one thing: what a plan can do next depends only on what is done and on the last group.
    """
    pixels = [{int(p) for p in patch if p >= 0} for patch in problem.patch_pixels]
    everyone = (1 << problem.n_patches) - 1
    needs = {0: frozenset[int]()}
    for group in range(1, everyone + 1):
        members = [i for i in range(problem.n_patches) if group >> i & 1]
        if len(members) <= problem.group_size:
            need = frozenset[int]().union(*(pixels[i] for i in members))
            used = problem.memory_needed(len(need), len(members))
            if problem.machine.memory is None or used <= problem.machine.memory:
                needs[group] = need
    groups = [group for group in needs if group]
    front, found = {(0, 0): 0}, {}
    for step in range(1, problem.n_patches + 1):
        following: dict[tuple[int, int], int] = {}
        for (done, last), loads in front.items():
            for group in groups:
                if not group & done:
                    state, now = (done | group, group), loads + len(needs[group] - needs[last])
                    if now < following.get(state, now + 1):
                        following[state] = now
        front = following
        ends = [loads for (done, _), loads in front.items() if done == everyone]
        if ends:
            found[step] = min(ends)
    return found


def optimum(problem: Problem) -> tuple[int, int] | None:
    """Fewest loads and least objective over the numbers of steps that are allowed."""
    low, high = problem.steps_range
    by_steps = {steps: loads for steps, loads in least_loads(problem).items() if low <= steps <= high}
    if not by_steps:
        return None
    return min(by_steps.values()), min(problem.cost(loads, steps) for steps, loads in by_steps.items())


def bounds(problem: Problem) -> Iterator[Bound]:
    yield compulsory(problem)
    for count in range(2, problem.n_patches // problem.group_size + 1):
        yield windows(problem, count)
        if (bound := window_overlap(problem, count)) is not None:
            yield bound
    yield crossing(problem)
    if (bound := excess_loads(problem)) is not None:
        yield bound
    yield best_bound(problem)


def ordered_partitions(n: int) -> Iterator[tuple[int, ...]]:
    """Every way to give n patches steps 0, 1, .. with none left empty."""
    seen = set()
    for steps in np.ndindex(*([n] * n)):
        if set(steps) == set(range(max(steps) + 1)) and steps not in seen:
            seen.add(steps)
            yield steps


@pytest.mark.by_day(3)
@pytest.mark.parametrize("memory", [None, 41])
@pytest.mark.parametrize("steps", ["free", "kmin", 3])
def test_the_optimum_here_is_that_of_the_simulator(steps: int | str, memory: int | None) -> None:
    """What `least_loads` finds is what simulating each of the 75 ordered partitions finds."""
    machine = {"group_size": 2, "load": 3, "compute": 2} | ({"memory": memory} if memory else {})
    problem = make_problem(
        {"input": [1, 4, 4], "kernels": 2}, machine, {"steps": steps, "reloads": 0}, {"minimise": "loads"}
    )
    plans = [Plan.from_steps(problem, steps) for steps in ordered_partitions(4)]
    assert len(plans) == 75
    reports = [simulate(problem, plan) for plan in plans]
    values = [measured_objective(problem, report) for report in reports if report.valid]
    found = optimum(problem)
    assert found is not None
    assert found[1] == min(values)
    assert best_bound(problem).value <= min(values)


def check_bounds(problem: Problem, best: tuple[int, int]) -> None:
    """No bound is above the optimum, and none calls a problem with a plan impossible."""
    for bound in bounds(problem):
        assert bound.loads <= best[0], bound
        assert bound.value <= best[1], bound
        assert bound.impossible is None, bound


@given(problems(most_patches=6, side=6))
@settings(max_examples=examples(250))
def test_bounds_are_never_above_the_optimum(problem: Problem) -> None:
    best = optimum(problem)
    assume(best is not None)
    check_bounds(problem, best)


@given(problems(most_patches=9, side=4))
@settings(max_examples=examples(12))
def test_bounds_are_never_above_the_optimum_of_larger_layers(problem: Problem) -> None:
    assume(problem.n_patches >= 7)
    assume(problem.group_size <= 3)
    best = optimum(problem)
    assume(best is not None)
    check_bounds(problem, best)


@given(problems(most_patches=5, side=5))
@settings(max_examples=examples(150))
def test_plans_with_more_steps_than_the_fewest_have_a_bound_of_their_own(problem: Problem) -> None:
    fewest, most = best_bound(problem).steps, problem.steps_range[1]
    best: int | None = None
    for steps in range(most, fewest, -1):
        found = enumeration.optimum(problem.with_steps(steps))
        best = min((cost for cost in (best, found) if cost is not None), default=None)
        bound = with_more_steps(problem, steps)
        assert bound is not None
        assert best is None or bound <= best
    assert with_more_steps(problem, most + 1) is None


@given(problems(most_patches=5, side=5), st.integers(1, 2))
@settings(max_examples=examples(100))
def test_what_is_called_impossible_is(problem: Problem, reloads: int) -> None:
    limited = problem.model_copy(
        update={"limits": GroupingLimits(steps=problem.limits.steps, reloads=reloads)}
    )
    if best_bound(limited).impossible is not None:
        assert enumeration.optimum(limited) is None


def test_one_patch_a_step_loads_pixels_more_than_twice() -> None:
    bound = best_bound(make_problem({"input": [1, 12, 12], "kernels": 1}, {"group_size": 1}))
    assert tells(bound.impossible, "loads .. 2 .. 144 pixels")


def test_memory_for_one_patch_forbids_the_fewest_steps() -> None:
    machine = {"group_size": 2, "memory": 2 * 9 + 36 + 3}
    bound = best_bound(make_problem({}, machine, {"steps": "kmin"}))
    assert tells(bound.impossible, "memory .. 9 steps .. 5")
    assert best_bound(make_problem({}, machine)).steps == 9


def unions(problem: Problem) -> np.ndarray:
    """Pixels of every subset of the patches, by the subset as a binary number."""
    numbers = np.unique(problem.patch_pixels, return_inverse=True)[1].reshape(problem.patch_pixels.shape)
    words = int(numbers.max()) // 64 + 1
    bits = np.zeros((problem.n_patches, words), np.uint64)
    for patch, (pixels, names) in enumerate(zip(problem.patch_pixels, numbers, strict=True)):
        for name in names[pixels >= 0]:
            bits[patch, name // 64] |= np.uint64(1 << int(name % 64))
    held = np.zeros((1, words), np.uint64)
    for patch in range(problem.n_patches):
        held = np.concatenate([held, held | bits[patch]])
    return np.bitwise_count(held).sum(axis=1, dtype=np.int64)


def true_fewest(problem: Problem) -> np.ndarray:
    """Fewest pixels of m patches, over all subsets of that size."""
    counts = unions(problem)
    sizes = np.bitwise_count(np.arange(len(counts)))
    fewest = np.full(problem.n_patches + 1, np.iinfo(np.int64).max)
    np.minimum.at(fewest, sizes, counts)
    return fewest


@given(problems(most_patches=16, side=4))
@settings(max_examples=examples(150))
def test_m_patches_never_need_fewer_pixels_than_lemma_1_says(problem: Problem) -> None:
    assert (fewest_pixels(problem) <= true_fewest(problem)).all()


@pytest.mark.by_day(8)
@pytest.mark.parametrize("padding", ["loaded", "generated"])
@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_lemma_1_on_a_four_by_four_grid(kernel: int, stride: int, dilation: int, padding: str) -> None:
    extent = dilation * (kernel - 1) + 1
    pad = min(2, extent - 1, (3 * stride + extent - 1) // 2)
    side = 3 * stride + extent - 2 * pad
    problem = make_problem(
        {
            "input": [1, side, side],
            "kernel": [kernel] * 2,
            "stride": [stride] * 2,
            "dilation": [dilation] * 2,
            "padding": [pad] * 4,
        },
        {"group_size": 2, "padding": padding},
    )
    assert problem.grid == (4, 4)
    proven, true = fewest_pixels(problem), true_fewest(problem)
    assert (proven <= true).all()
    if padding == "loaded" and (dilation == 1 or stride == dilation):
        # Rectangles of patches are best, and for them the lemma is exact.
        squares = [m for m in range(17) if m in (0, 1, 2, 4, 6, 9, 12, 16)]
        assert list(proven[squares]) == list(true[squares])


@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
@pytest.mark.parametrize("stride", [1, 2, 3, 7])
@pytest.mark.parametrize("grid", [(1, 9), (9, 1), (5, 7), (12, 3)])
def test_lemma_1_is_exact_for_all_patches(grid: tuple[int, int], kernel: int, stride: int) -> None:
    problem = make_problem(
        {
            "input": [1, *((outputs - 1) * stride + kernel for outputs in grid)],
            "kernel": [kernel] * 2,
            "stride": [stride] * 2,
        }
    )
    assert problem.grid == grid
    fewest = fewest_pixels(problem)
    assert fewest[-1] == len(problem.needed_pixels)
    assert fewest[1] == kernel**2
    assert (np.diff(fewest) >= 0).all()


def test_tall_layers_are_bounded_as_fast_as_wide_ones() -> None:
    """A line of many patches: the lemma looks at the shorter side of the grid."""
    tall = make_problem({"input": [1, 60_000, 1], "kernel": [3, 1]}, {"group_size": 64})
    wide = make_problem({"input": [1, 1, 60_000], "kernel": [1, 3]}, {"group_size": 64})
    assert list(fewest_pixels(tall)[[1, 10, -1]]) == [3, 12, 60_000]
    assert (fewest_pixels(tall) == fewest_pixels(wide)).all()


def test_all_bounds_of_a_problem_share_one_table() -> None:
    """It has an entry for each number of patches, and each takes all numbers of rows to fill in."""
    layer = {"input": [1, 9, 7], "kernel": [3, 3]}
    found = fewest_pixels(make_problem(layer))
    assert fewest_pixels(make_problem(layer)) is found
    assert not found.flags.writeable


@given(problems(most_patches=9, side=4))
@settings(max_examples=examples(60))
def test_no_group_holds_more_than_lemma_2_says(problem: Problem) -> None:
    counts = unions(problem)
    sizes = np.bitwise_count(np.arange(len(counts)))
    most = most_pixels(problem)
    for m in range(1, problem.group_size + 1):
        allowed = counts[(sizes == m) & (counts <= problem.max_group_pixels(m))]
        assert allowed.max(initial=0) <= max(most[m], 0)


# Plans of larger layers --------------------------------------------------------------------------

LARGER = [
    ({"input": [1, 10, 10], "kernel": [3, 3]}, 2),
    ({"input": [2, 14, 14], "kernel": [3, 3]}, 4),
    ({"input": [1, 12, 14], "kernel": [5, 5]}, 3),
    ({"input": [1, 20, 20], "kernel": [3, 3], "stride": [2, 2]}, 4),
    ({"input": [1, 12, 12], "kernel": [3, 3], "padding": [1, 1, 1, 1]}, 8),
    ({"input": [1, 9, 16], "kernel": [3, 3], "dilation": [2, 2]}, 2),
    ({"input": [1, 8, 8], "kernel": [2, 4], "padding": [1, 0, 3, 2]}, 1),
    ({"input": [1, 40, 3], "kernel": [3, 3]}, 2),
]


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("layer", "group_size", "padding"),
    [
        (layer, group_size, padding)
        for layer, group_size in LARGER
        for padding in (["loaded", "generated"] if "padding" in layer else ["loaded"])
    ],
)
@pytest.mark.parametrize("tight", [False, True], ids=["unlimited", "tight"])
def test_no_heuristic_beats_the_bound(layer: dict, group_size: int, padding: str, tight: bool) -> None:
    machine = {"group_size": group_size, "padding": padding, "compute": 0}
    problem = make_problem(layer, machine, {"reloads": 0})
    if tight:
        memory = problem.memory_needed(int(1.3 * problem.patch_sizes.max()), group_size)
        problem = make_problem(layer, machine | {"memory": memory}, {"reloads": 0})
    strongest = best_bound(problem).value
    tried = 0

    def check(plan: Plan) -> None:
        nonlocal tried
        if violation(problem, plan) is None:
            tried += 1
            assert objective(problem, plan) >= strongest

    for name in catalogue.heuristics("grouping"):
        heuristic = catalogue.heuristic("grouping", name)
        if not catalogue.searches(heuristic) and (found := heuristic.plan(problem)) is not None:
            check(found)
    # Blocks of every shape in every scan order, and a little local search on top.
    rows, cols = problem.grid
    index = np.arange(problem.n_patches).reshape(rows, cols)
    rng = random.Random(7)
    for band in range(1, min(rows, 6) + 1):
        order: list[int] = []
        for number, top in enumerate(range(0, rows, band)):
            columns = index[top : top + band].T
            order += list((columns[::-1] if number % 2 else columns).ravel())
        for group in {1, group_size // 2 or 1, group_size}:
            steps = np.empty(problem.n_patches, np.int64)
            steps[order] = np.arange(problem.n_patches) // group
            check(Plan.from_steps(problem, steps))
            for _ in range(10):
                a, b = rng.sample(range(problem.n_patches), 2)
                steps[a], steps[b] = steps[b], steps[a]
            check(Plan.from_steps(problem, steps))
    assert tried


def test_the_bounds_of_a_layer_by_hand() -> None:
    """One row of four patches, kernel 1x2, one patch a step: five pixels, and each step reuses one.

    Two windows of two patches: the first loads three pixels. The second needs with the patch before it
    at least four pixels, of which two may be there: two more. That is five, the optimum.
    """
    problem = make_problem(
        {"input": [1, 1, 5], "kernels": 1, "kernel": [1, 2]}, {"group_size": 1, "compute": 10}
    )
    assert list(fewest_pixels(problem)) == [0, 2, 3, 4, 5]
    assert list(most_pixels(problem)) == [0, 2]
    assert compulsory(problem).loads == 5
    assert [windows(problem, count).loads for count in (2, 3, 4)] == [5, 5, 5]
    assert best_bound(problem).value == 5 + 4 * 10
    assert str(windows(problem, 2)) == "windows bound: at least 5 pixel loads (windows 2)"


def test_windows_can_be_stronger_than_compulsory() -> None:
    problem = make_problem({"input": [1, 62, 62], "kernel": [3, 3], "dilation": [2, 2]}, {"group_size": 1})
    assert best_bound(problem).name == "windows"
    assert best_bound(problem).loads > compulsory(problem).loads


def test_seams_ask_for_more_than_windows() -> None:
    """Figures of docs/bounds.md, theorem 2b."""
    problem = make_problem({"input": [1, 58, 58], "kernel": [3, 3]}, {"group_size": 4})
    assert (best_bound(problem).name, best_bound(problem).loads) == ("seams", 3657)
    assert max(windows(problem, count).loads for count in range(2, 60)) == 3646


@pytest.mark.parametrize(
    ("grid", "kernel", "stride", "group_size", "count"),
    [
        ((8, 8), (3, 3), (1, 1), 2, 2),
        ((8, 8), (3, 3), (1, 1), 4, 2),
        ((5, 5), (3, 3), (1, 1), 2, 3),
        ((9, 5), (2, 3), (1, 1), 2, 4),
        ((7, 7), (4, 4), (2, 1), 3, 2),
        ((6, 6), (5, 5), (2, 2), 2, 3),
    ],
)
def test_no_windows_and_seams_beat_the_bound(
    grid: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int], group_size: int, count: int
) -> None:
    """A local search over all that theorem 2b looks at, not only over plans, stays above its bound."""
    shape = [(n - 1) * s + k for n, s, k in zip(grid, stride, kernel, strict=True)]
    layer = {"input": [1, *shape], "kernel": list(kernel), "stride": list(stride)}
    problem = make_problem(layer, {"group_size": group_size, "compute": 0})
    bound = window_overlap(problem, count)
    assert bound is not None
    total = problem.n_patches
    pixels = [frozenset(row.tolist()) for row in problem.patch_pixels]
    random_ = random.Random(0)

    def loads(window: list[int], seam: list[bool]) -> int:
        """Pixels of all windows with the seams before them, less those of the seams."""
        shapes: list[set[int]] = [set() for _ in range(count + 1)]
        held: list[set[int]] = [set() for _ in range(count)]
        for patch in range(total):
            shapes[window[patch]] |= pixels[patch]
            if seam[patch]:
                shapes[window[patch] + 1] |= pixels[patch]
                held[window[patch]] |= pixels[patch]
        return sum(map(len, shapes[:count])) - sum(map(len, held))

    for _ in range(3):
        ends = [total * i // count + random_.randrange(group_size) for i in range(1, count)]
        window = [sum(patch >= end for end in ends) for patch in range(total)]
        seam = [any(end - group_size <= patch < end for end in ends) for patch in range(total)]
        best = loads(window, seam)
        for _ in range(1500):
            one, other = random_.randrange(total), random_.randrange(total)
            for array in (window, seam):
                array[one], array[other] = array[other], array[one]
            if (now := loads(window, seam)) <= best + (random_.random() < 0.1):
                best = now
                assert best >= bound.loads
                continue
            for array in (window, seam):
                array[one], array[other] = array[other], array[one]


def test_the_crossing_bound_by_hand() -> None:
    """Four patches of 2x2 pixels, one a step: of three rows of pixels one is not touched."""
    problem = make_problem(
        {"input": [1, 3, 3], "kernels": 1, "kernel": [2, 2]}, {"group_size": 1, "compute": 0}
    )
    bound = crossing(problem)
    assert str(bound) == "crossing bound: at least 10 pixel loads (rows 1, columns 1)"
    assert bound.loads == min(least_loads(problem).values())


@pytest.mark.by_day(18)
@pytest.mark.parametrize("grid", [(1, 6), (2, 2), (2, 4), (3, 3)])
@pytest.mark.parametrize("kernel", [(2, 2), (3, 3), (4, 4), (4, 2)])
@pytest.mark.parametrize("group_size", [1, 2])
def test_the_crossing_bound_holds_and_is_not_idle(
    grid: tuple[int, int], kernel: tuple[int, int], group_size: int
) -> None:
    """Where a group cannot touch all rows or all columns of pixels, the bound is above compulsory loads."""
    layer = {"input": [1, *(g + k - 1 for g, k in zip(grid, kernel, strict=True))], "kernel": list(kernel)}
    problem = make_problem(layer, {"group_size": group_size, "compute": 0}, {"reloads": 0})
    bound = crossing(problem)
    assert bound.loads <= min(least_loads(problem).values())
    spans = [g + k - 1 <= k * group_size for g, k in zip(grid, kernel, strict=True)]
    assert (bound.loads > compulsory(problem).loads) == (not any(spans))


def test_crossing_is_stronger_than_windows_where_layers_are_small() -> None:
    for size, group_size in ((34, 8), (58, 16)):
        problem = make_problem({"input": [1, size, size], "kernel": [3, 3]}, {"group_size": group_size})
        assert best_bound(problem).loads == size**2 + 2 * (size - 3 * group_size)


@pytest.mark.nightly
@pytest.mark.parametrize("layer", [{"input": [1, 24, 24]}, {"input": [1, 5, 120]}])
def test_the_search_for_a_good_number_of_windows_is_not_bad(layer: dict) -> None:
    for group_size in (2, 4, 9):
        problem = make_problem(layer, {"group_size": group_size, "compute": 0})
        every = max(bound.loads for bound in bounds(problem))
        assert best_bound(problem).loads >= 0.99 * every


def test_patches_of_padding_alone_cost_nothing() -> None:
    """With dilation a window may lie beside the input with all its positions."""
    problem = make_problem(
        {"input": [1, 1, 1], "kernel": [1, 2], "dilation": [1, 2], "padding": [0, 0, 1, 1]},
        {"group_size": 1, "padding": "generated", "compute": 0},
    )
    assert best_bound(problem).value == 0
    assert objective(problem, Plan((((0, 0),),))) == 0


def test_all_small_layers_of_one_row_have_bounds_below_their_optimum() -> None:
    """Exhaustive where hypothesis samples: rows of five patches."""
    tight = Counter[bool]()
    for kernel in (1, 2, 3):
        for stride in (1, 2, 3):
            for dilation in (1, 2) if kernel > 1 else (1,):
                for group_size in (1, 2, 3):
                    width = 4 * stride + dilation * (kernel - 1) + 1
                    layer = {"input": [1, 1, width], "kernel": [1, kernel], "stride": [1, stride]}
                    layer["dilation"] = [1, dilation]
                    machine = {"group_size": group_size, "compute": 0}
                    problem = make_problem(layer, machine, {"reloads": 0})
                    best = optimum(problem)
                    assert best is not None
                    check_bounds(problem, best)
                    tight[best_bound(problem).value == best[1]] += 1
    assert tight[True] > tight[False]


def test_reversing_a_plan_costs_the_same() -> None:
    """Loads are counted per maximal run of steps, and runs have no direction."""
    problem = make_problem({"input": [1, 4, 5], "kernel": [2, 2]}, {"group_size": 3})
    rng = random.Random(3)
    for _ in range(50):
        steps = np.array([rng.randrange(5) for _ in range(problem.n_patches)])
        plan = Plan.from_steps(problem, steps)
        assert objective(problem, plan) == objective(problem, Plan(plan.groups[::-1]))


def test_enumeration_of_orders_agrees_on_one_patch_a_step() -> None:
    problem = make_problem({"input": [1, 4, 5], "kernel": [3, 3]}, {"group_size": 1}, {"reloads": 0})
    orders = permutations(range(problem.n_patches))
    best = min(objective(problem, Plan.from_steps(problem, order)) for order in orders)
    found = optimum(problem)
    assert found is not None
    assert found[1] == best
    assert best_bound(problem).value <= best
