"""Sweep: a front crosses the whole layer, from one place on its border to the opposite one, by a timetable.

A pixel in the first row of a layer is needed by a few patches side by side on the border, as many as the
kernel is wide. If no pixel is loaded twice, these take consecutive steps, so along the border the step of a
patch grows by no more than one a patch, on average: each end of a front uses up at least one patch of the
border in every step. Inside, a front may be slower by far, because scattered patches, a kernel's width
apart, can keep it on chip. So a sweep lets each end of its front run along one half of the border at an
even pace, and the front between them move by what a group computes. Half the border has about as many
patches as such a plan can have steps; where it has no more than these, few pixels or none need be loaded
twice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping import Plan, Problem
from tilewright.heuristics.grouping import strips
from tilewright.heuristics.grouping._measure import Group, best, near
from tilewright.heuristics.grouping._sweep_kernel import SweepStyle
from tilewright.heuristics.grouping._window import Window, draw_sweep_style

SLOW = True
"""On large layers this takes seconds: the others go first."""

WIDTH, TRIES = 8, 6
"""Plans kept side by side, and groups tried for each: a further taste helps more than either."""

WORK = 4e8
"""Pixels that all sweeps together may look at, in some three seconds."""


class Taste(NamedTuple):
    """Where a sweep begins, and what it prefers.

    Attributes
    ----------
    place
        Where the front first meets the border: a fraction of its length, clockwise from the top left corner.
    lead
        Steps before the front meets the border, and after it leaves it at the opposite place.
    style
        Taste of the kernel.
    """

    place: float
    lead: float
    style: SweepStyle


TASTES: tuple[Taste, ...] = (
    Taste(1 / 16, 1.5, SweepStyle(pull=2.1, hold=0.1, crowd=1.0, noise=0.3, length=0.001)),
    Taste(1 / 20, 1.0, SweepStyle(pull=4.5, hold=0.02, crowd=0.65, noise=4.0, length=0.002)),
    Taste(1 / 16, 1.5, SweepStyle(pull=2.8, hold=0.1, crowd=0.4, noise=0.4, length=0.001)),
    Taste(1 / 20, 0.5, SweepStyle(pull=2.6, hold=0.03, crowd=0.5, noise=2.0, length=0.03)),
)
"""Tastes that did well on several layers, the most reliable first."""


def plan(problem: Problem) -> Plan:
    """Sweep the layer with some tastes and return the best plan, or that of `strips` if it is better.

    Where the border allows no sweep, or one would take too long, the answer is that of `strips`.
    """
    plans = [strips.plan(problem)]
    n_steps = plans[0].n_steps
    if border_lasts(problem, n_steps):
        window = Window.of(problem, near(problem), np.arange(problem.n_patches))
        for taste in TASTES[: int(WORK / work(problem, n_steps))]:
            plans.append(Plan.from_groups(problem, sweep(problem, window, n_steps, taste, 0)))
    chosen: Plan = best(problem, plans)
    return chosen


def compile_kernels(bundled: Callable[[str], Problem]) -> None:
    """Compile what it runs; see `tilewright.core.catalogue.kernel_file`."""
    plan(bundled("s1-example2"))


def border_lasts(problem: Problem, n_steps: int) -> bool:
    """Return whether half the border lasts for nearly `n_steps` steps, and memory is unlimited."""
    height, width = problem.grid
    if problem.machine.memory is not None:
        return False
    return min(height, width) > 2 and 1 < n_steps <= height + width


def work(problem: Problem, n_steps: int) -> float:
    """Estimate the pixels that a sweep looks at."""
    candidates = 60 * problem.layer.kernel[0] * problem.layer.kernel[1]
    pixels = problem.n_patches * candidates + n_steps * (problem.n_patches + problem.n_pixels)
    return float(WIDTH * TRIES * pixels)


def sweep(problem: Problem, window: Window, n_steps: int, taste: Taste, seed: int) -> list[Group]:
    """Sweep the layer once; `window` holds all its patches."""
    table = timetable(problem.grid, n_steps, taste.place, taste.lead)
    groups: list[Group] = window.cover(problem.group_size, n_steps, table, WIDTH, TRIES, taste.style, seed)
    return groups


def draw_taste(rng: np.random.Generator) -> Taste:
    """Draw a taste; begun away from corners and from the middles between them, sweeps do best."""
    place = float(rng.choice(np.arange(1, 11) / 80))
    return Taste(place, float(rng.choice(np.arange(0.0, 3.0, 0.5))), draw_sweep_style(rng))


def vary(taste: Taste, rng: np.random.Generator) -> Taste:
    """Change a taste a little."""
    other = draw_taste(rng)
    change = np.exp(rng.normal(0, 0.4, 5) * (rng.random(5) < 0.3))
    return Taste(
        other.place if rng.random() < 0.2 else taste.place,
        other.lead if rng.random() < 0.2 else taste.lead,
        SweepStyle(*(float(value) for value in change * taste.style)),
    )


@lru_cache(maxsize=100)
def timetable(grid: tuple[int, int], n_steps: int, place: float, lead: float) -> NDArray[np.float64]:
    """Return when a sweep should compute each patch, shape ``(n_patches,)``.

    Along the border the pace is constant. Inside, the table is as smooth as it can be while every step has
    about the same number of patches: smoothing and levelling take turns.

    Parameters
    ----------
    grid
        Rows and columns of patches, more than two of each.
    n_steps
        Number of steps.
    place, lead
        See `Taste`.
    """
    height, width = grid
    rows, cols = border(grid)
    length = len(rows)
    away = np.abs((np.arange(length) / length - place + 0.5) % 1 - 0.5) * 2
    lead = min(lead, n_steps / 4)
    along = lead + away * (n_steps - 2 * lead)
    levels = (np.arange(height * width) + 0.5) * (n_steps / (height * width))
    table = np.full(grid, n_steps / 2)
    for passes in [max(grid) ** 2] + [5] * 400:
        for _ in range(passes):
            table[rows, cols] = along
            table = smooth(table)
        table.ravel()[np.argsort(table, axis=None, kind="stable")] = levels
    found: NDArray[np.float64] = table.ravel() - 0.5
    found.setflags(write=False)
    return found


def border(grid: tuple[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows and columns of the patches along the border, clockwise from the top left corner."""
    height, width = grid
    down, across = np.arange(height - 1), np.arange(width - 1)
    rows = np.concatenate([0 * across, down, 0 * across + height - 1, height - 1 - down])
    cols = np.concatenate([across, 0 * down + width - 1, width - 1 - across, 0 * down])
    return rows, cols


def smooth(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of each place and its neighbours; along the border, of those along the border."""
    upright, lying = table.copy(), table.copy()
    upright[1:-1] = (table[:-2] + table[2:]) / 2
    lying[:, 1:-1] = (table[:, :-2] + table[:, 2:]) / 2
    smoothed: NDArray[np.float64] = (table + upright + lying) / 3
    return smoothed
