"""The ring bound: each step of its proof by brute force, and the whole beside proven optima."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, pairwise

import numpy as np
import pytest
from conftest import make_problem
from numpy.typing import NDArray

from tilewright.grouping import Problem, best_bound
from tilewright.grouping.bounds.best import compulsory, fewest_pixels, fewest_waiting, ring
from tilewright.grouping.exact import search

Patch = tuple[int, int]


def layer(rows: int, cols: int, kernel: int, group: int = 1, memory: int | None = None) -> Problem:
    machine = {"group_size": group, "compute": 0} | ({"memory": memory} if memory else {})
    plane = {"input": [1, rows + kernel - 1, cols + kernel - 1], "kernels": 1, "kernel": [kernel] * 2}
    return make_problem(plane, machine, {"reloads": 0})


def around(rows: int, cols: int) -> list[Patch]:
    """Return the patches at the border in cyclic order."""
    top, right = [(0, c) for c in range(cols)], [(r, cols - 1) for r in range(1, rows)]
    bottom, left = [(rows - 1, c) for c in range(cols - 1)], [(r, 0) for r in range(1, rows - 1)]
    return top + right + bottom[::-1] + left[::-1]


def users(rows: int, cols: int, kernel: int, pixel: Patch) -> set[Patch]:
    """Return the patches that need a pixel."""
    ys, xs = (
        range(max(0, at - kernel + 1), min(at, count - 1) + 1)
        for at, count in zip(pixel, (rows, cols), strict=True)
    )
    return {(y, x) for y in ys for x in xs}


def plane(rows: int, cols: int, kernel: int) -> list[Patch]:
    return [(y, x) for y in range(rows + kernel - 1) for x in range(cols + kernel - 1)]


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("rows", "cols", "kernel"), [(4, 4, 2), (4, 6, 2), (6, 6, 3)])
def test_a_middle_step_has_two_patches_of_the_ring_or_loses_gaps(rows: int, cols: int, kernel: int) -> None:
    """All states of the ring before a step, and all steps with at most one of its patches."""
    order = around(rows, cols)
    assert len(set(order)) == len(order) == 2 * (rows + cols) - 4
    few = 2 * kernel - 3
    before = np.arange(1 << len(order), dtype=np.int64)
    outermost = [
        [order.index(patch) for patch in users(rows, cols, kernel, pixel)]
        for pixel in plane(rows, cols, kernel)
        if pixel[0] in (0, rows + kernel - 2) or pixel[1] in (0, cols + kernel - 2)
    ]

    def fewest_lost(patch: int | None) -> int:
        after, held = before, 0
        if patch is not None:
            held = 1 << patch
            after = before | held
        middle = (np.bitwise_count(after) > few) & (len(order) - np.bitwise_count(before) > few)
        middle &= before & held == 0
        lost = np.zeros(len(before), np.int64)
        for needing in outermost:
            mask = sum(1 << index for index in needing)
            if not mask & held:
                lost += (before & mask != 0) & (before & mask != mask)
        return int(lost[middle].min())

    assert fewest_lost(None) == 2 * (kernel - 1)
    assert min(fewest_lost(patch) for patch in range(len(order))) == kernel - 1


@pytest.mark.parametrize(("rows", "cols", "kernel"), [(4, 4, 2), (5, 4, 2), (6, 6, 3), (7, 6, 3), (8, 8, 4)])
def test_few_patches_of_the_ring_close_few_pixels_at_the_edges(rows: int, cols: int, kernel: int) -> None:
    """All sets of so few patches of the ring, with all other patches done."""
    order = around(rows, cols)
    edges = []
    for pixel in plane(rows, cols, kernel):
        needing = users(rows, cols, kernel, pixel)
        if len(needing) < kernel**2:
            edges.append(sum(1 << order.index(patch) for patch in needing & set(order)))
    for size in range(2 * kernel - 2):
        sets = np.array([sum(1 << i for i in chosen) for chosen in combinations(range(len(order)), size)])
        closed = sum((sets & edge == edge).astype(np.int64) for edge in edges)
        assert np.max(closed) == (size + 1) ** 2 // 4


def waiting_pixels(problem: Problem, done: set[Patch], group: set[Patch]) -> tuple[int, int]:
    """Return the pixels that wait in the step of a group that is done after it, and those of the group."""
    rows, cols = problem.grid
    kernel = problem.layer.kernel[0]
    waiting = held = 0
    for pixel in plane(rows, cols, kernel):
        needing = users(rows, cols, kernel, pixel)
        waiting += bool(needing & done) and not needing <= done - group
        held += bool(needing & group)
    return waiting, held


def check_waiting(problem: Problem, least: NDArray[np.int64], done: set[Patch], group: set[Patch]) -> None:
    bordering = len(done & set(around(*problem.grid)))
    waiting, held = waiting_pixels(problem, done, group)
    assert waiting - held >= least[len(done)] - (bordering + 1) ** 2 // 4


@pytest.mark.nightly
def test_waiting_pixels_of_all_early_steps_of_a_small_grid() -> None:
    problem = layer(4, 5, 2, 20)
    least = fewest_waiting(problem, fewest_pixels(problem), 20)
    border = around(4, 5)
    inner = sorted(set(np.ndindex(4, 5)) - set(border))
    for some in range(1 << len(inner)):
        base = {patch for i, patch in enumerate(inner) if some >> i & 1}
        for done in [base, *(base | {patch} for patch in border)]:
            for size in range(1, min(4, len(done)) + 1):
                for group in combinations(sorted(done), size):
                    check_waiting(problem, least, done, set(group))


@pytest.mark.parametrize(("side", "kernel", "group"), [(7, 3, 4), (9, 3, 6), (12, 4, 9)])
def test_waiting_pixels_of_compact_sets(side: int, kernel: int, group: int) -> None:
    """Near-discs with a few patches at the border: as few pixels wait as may be."""
    rng = random.Random(side)
    problem = layer(side, side, kernel, group)
    least = fewest_waiting(problem, fewest_pixels(problem), group)
    border = around(side, side)
    inner = sorted(set(np.ndindex(side, side)) - set(border))
    for _ in range(150):
        y, x, p = rng.uniform(0, side), rng.uniform(0, side), rng.choice([1.0, 2.0, 9.0])
        size = rng.randrange(1, len(inner))
        nearest = sorted(inner, key=lambda patch: abs(patch[0] - y) ** p + abs(patch[1] - x) ** p)
        start, stretch = rng.randrange(len(border)), rng.randrange(2 * kernel - 2)
        done = set(nearest[:size]) | {border[(start + i) % len(border)] for i in range(stretch)}
        last = set(nearest[max(0, size - rng.randint(1, group)) : size])
        check_waiting(problem, least, done, last)


def loads_of(groups: list[list[Patch]], kernel: int) -> int:
    loads, held = 0, set[Patch]()
    for group in groups:
        need = {(y + i, x + j) for y, x in group for i in range(kernel) for j in range(kernel)}
        loads += len(need - held)
        held = need
    return loads


def check_middle_steps(groups: list[list[Patch]], rows: int, cols: int, kernel: int, extra: int) -> None:
    border, few = set(around(rows, cols)), 2 * kernel - 3
    of_ring = [len(border & set(group)) for group in groups]
    before = np.cumsum([0, *of_ring])
    after, left = before[1:], len(border) - before[:-1]
    middle = int(((after > few) & (left > few)).sum())
    here = sum(number for number, a, b in zip(of_ring, after, left, strict=True) if a > few and b > few)
    lost = extra // (kernel - 1)
    assert 2 * middle <= here + lost * (extra + lost * (kernel - 1))


def improved(
    rng: random.Random, rows: int, cols: int, kernel: int
) -> Iterator[tuple[list[list[Patch]], int]]:
    """Sweeps in any direction and discs that grow, made better one patch after the other."""
    slope, y, x = rng.uniform(-1, 1), rng.uniform(0, rows), rng.uniform(0, cols)
    sweep = rng.random() < 0.7
    order = sorted(
        np.ndindex(rows, cols),
        key=lambda patch: patch[0] + slope * patch[1] if sweep else max(abs(patch[0] - y), abs(patch[1] - x)),
    )
    steps = -(-len(order) // rng.randint(3, 8))
    cuts = [round(i * len(order) / steps) for i in range(steps + 1)]
    groups = [order[a:b] for a, b in pairwise(cuts)]
    loads = loads_of(groups, kernel)
    for _ in range(400):
        moved = [list(group) for group in groups]
        a, b = rng.sample(range(steps), 2)
        i = rng.randrange(len(moved[a]))
        if len(moved[a]) > 1 and rng.random() < 0.5:
            moved[b].append(moved[a].pop(i))
        else:
            j = rng.randrange(len(moved[b]))
            moved[a][i], moved[b][j] = moved[b][j], moved[a][i]
        after = loads_of(moved, kernel)
        if after <= loads + (rng.random() < 0.1):
            groups, loads = moved, after
            yield groups, loads


def test_middle_steps_of_plans_with_few_reloads() -> None:
    checked = Counter[tuple[int, int]]()
    for seed in range(30):
        rng = random.Random(seed)
        kernel = rng.choice([2, 3, 3])
        rows, cols = (rng.randint(2 * kernel, 2 * kernel + 2) for _ in range(2))
        needed = (rows + kernel - 1) * (cols + kernel - 1)
        for groups, loads in improved(rng, rows, cols, kernel):
            if loads - needed < min(3, kernel) * (kernel - 1):
                check_middle_steps(groups, rows, cols, kernel, loads - needed)
                checked[kernel, loads - needed] += 1
    assert set(checked) == {(2, extra) for extra in range(2)} | {(3, extra) for extra in range(6)}


@pytest.mark.by_day(9)
@pytest.mark.parametrize(
    ("rows", "cols", "kernel", "group", "extra"),
    [(4, 5, 2, 1, 2), (5, 5, 2, 2, 1), (6, 6, 2, 2, 2), (6, 6, 3, 2, 2), (6, 7, 3, 2, 4), (7, 7, 3, 2, 4)],
)
def test_no_optimum_is_below(rows: int, cols: int, kernel: int, group: int, extra: int) -> None:
    problem = layer(rows, cols, kernel, group)
    bound = ring(problem)
    assert bound is not None
    assert bound.loads == compulsory(problem).loads + extra
    found = list(search.prove(problem, time.monotonic() + 600, 0))[-1]
    assert found.plan is not None
    assert bound.value <= found.bound


def test_a_short_memory_makes_it_stronger() -> None:
    free, tight = layer(12, 12, 3, 5), layer(12, 12, 3, 5, memory=30 + 9 + 5)
    bound, tighter = ring(free), ring(tight)
    assert tighter is not None
    assert bound is None or bound.loads < tighter.loads


@pytest.mark.parametrize(("group", "loads"), [(6, 1036), (7, 1036), (8, 1032)])
def test_the_first_layer_of_lenet(group: int, loads: int) -> None:
    for steps in ("free", "kmin"):
        problem = make_problem(
            {"input": [1, 32, 32], "kernel": [5, 5]}, {"group_size": group}, {"steps": steps}
        )
        bound = best_bound(problem)
        assert str(bound) == f"ring bound: at least {loads} pixel loads (ring 108)"
        assert bound.value == loads + problem.kmin


@pytest.mark.parametrize(
    ("change", "machine"),
    [
        ({"stride": [1, 2]}, {}),
        ({"dilation": [2, 1]}, {}),
        ({"kernel": [5, 4]}, {}),
        ({"kernel": [1, 1]}, {}),
        ({"input": [1, 13, 60]}, {}),
        ({"padding": [1, 1, 1, 1]}, {"padding": "generated"}),
    ],
)
def test_where_it_is_not_proven(change: dict, machine: dict) -> None:
    table = {"input": [1, 32, 32], "kernel": [5, 5]}
    assert ring(make_problem(table, {"group_size": 2})) is not None
    assert ring(make_problem(table | change, {"group_size": 2} | machine)) is None
