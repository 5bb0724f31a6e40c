"""What the tests of the exact search share: layers to draw, and how to follow a search."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from functools import cache
from typing import Any

from axes import axes, layer_table
from conftest import make_problem
from hypothesis import assume
from hypothesis import strategies as st

from tilewright.core import catalogue
from tilewright.grouping import Plan, Problem, objective, violation
from tilewright.grouping.exact import search
from tilewright.grouping.exact.layered_search import LayeredSearch
from tilewright.models.grouping import exact

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
    down, across = (
        draw(
            axes(
                st.just(outputs),
                kernel=st.just(kernel[axis]) if kernel else st.integers(1, 3),
                stride=st.sampled_from([1, 1, 2, 3]),
                dilation=st.sampled_from([1, 1, 2]),
                padding=2,
            )
        )
        for axis, outputs in enumerate((rows, cols))
    )
    sizes = {"batch": draw(st.integers(1, 2)), "kernels": draw(st.integers(1, 2))}
    layer = layer_table(draw(st.integers(1, 3)), down, across, **sizes)
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


def best_start(problem: Problem) -> Plan | None:
    """Return the best plan of the constructive heuristics: what `auto` starts from."""
    plans = []
    for name in catalogue.heuristics("grouping"):
        method = catalogue.heuristic("grouping", name)
        if not catalogue.searches(method):
            plans.append(method.plan(problem))
    valid = [plan for plan in plans if violation(problem, plan) is None]
    return min(valid, key=lambda plan: objective(problem, plan), default=None)


def to_int(words: Any) -> int:
    return sum(int(word) << 64 * i for i, word in enumerate(words))
