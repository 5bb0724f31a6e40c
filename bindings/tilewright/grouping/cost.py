"""What a plan costs and whether it respects the limits, by closed forms; the simulator is the judge."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping.plan import Plan
from tilewright.grouping.problem import Problem
from tilewright.simulator import Violation

MAX_TABLE = 50_000_000
"""Most entries of the table by which `count_loads` counts."""


def count_loads(problem: Problem, steps: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Count the loads of each pixel under the S1 rule, the closed form of equations 5 to 8.

    A step holds exactly the pixels of its group, so a pixel is loaded once for every maximal run of
    consecutive steps that need it.

    Parameters
    ----------
    steps : int, shape (n_patches,)
        Step of each patch, from 0.

    Returns
    -------
    int, shape (n_pixels,)
    """
    pixels = problem.patch_pixels
    never = np.iinfo(np.int32).max
    if problem.n_pixels * pixels.shape[1] > MAX_TABLE:
        return _count_loads_sparsely(problem, steps)
    # A pixel stands at each place of the kernel for one patch at most: a table of the steps that need it.
    needed_in = np.full((problem.n_pixels + 1, pixels.shape[1]), never, np.int32)  # last row: no pixel
    needed_in[pixels, np.arange(pixels.shape[1])] = steps[:, None]
    needed_in = needed_in[:-1]
    needed_in.sort(axis=1)
    starts = np.diff(needed_in, axis=1) > 1
    starts &= needed_in[:, 1:] < never
    loads: NDArray[np.int64] = (needed_in[:, 0] < never) + starts.sum(axis=1)
    return loads


def _count_loads_sparsely(problem: Problem, steps: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Count loads by sorting (pixel, step) pairs: slower, but the table would be mostly empty."""
    pixels = problem.patch_pixels
    present = pixels >= 0
    span = int(steps.max()) + 2
    keys = (
        pixels[present].astype(np.int64) * span + np.broadcast_to(steps[:, None] + 1, pixels.shape)[present]
    )
    keys = np.unique(keys)
    starts = np.ones(len(keys), dtype=bool)
    starts[1:] = keys[1:] != keys[:-1] + 1  # the step before a run's first is missing
    return np.bincount(keys[starts] // span, minlength=problem.n_pixels)


def objective(problem: Problem, plan: Plan) -> int:
    """Return the objective of a complete plan; the simulator must find the same."""
    return problem.cost(int(count_loads(problem, plan.steps(problem)).sum()), plan.n_steps)


def group_pixels(problem: Problem, steps: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return the number of pixels that each step needs, shape ``(n_steps,)``."""
    pixels = problem.patch_pixels
    present = pixels >= 0
    keys = (
        np.broadcast_to(steps[:, None], pixels.shape)[present].astype(np.int64) * problem.n_pixels
        + pixels[present]
    )
    return np.bincount(np.unique(keys) // problem.n_pixels, minlength=int(steps.max()) + 1)


def structural_violation(problem: Problem, plan: Plan) -> Violation | None:
    """Return what keeps a plan from being lowered, or a limit that its number of steps breaks, or None."""
    rows, cols = problem.grid
    for step, group in enumerate(plan.groups, start=1):
        if not group:
            return Violation("empty step", step, "group", "at least one patch", "none")
        for row, col in group:
            if not (0 <= row < rows and 0 <= col < cols):
                return Violation(
                    "no such patch",
                    step,
                    f"patch [{row}, {col}]",
                    f"rows 0..{rows - 1}, columns 0..{cols - 1}",
                    "one outside",
                )
        if len(set(group)) < len(group):
            twice = max(Counter(group).items(), key=lambda found: found[1] > 1)[0]
            return Violation(
                "patch doubled", step, f"patch {list(twice)}", "each patch once", "it is there twice"
            )
    if plan.write_back is not None and (
        len(plan.write_back) != plan.n_steps
        or not all(step < when <= plan.n_steps for step, when in enumerate(plan.write_back))
    ):
        return Violation(
            "write-back",
            0,
            "write_back",
            "one later step per group, at most the number of groups",
            str(list(plan.write_back))[:80],
        )
    low, high = problem.steps_range
    if not low <= plan.n_steps <= high:
        return Violation("number of steps", 0, "plan", f"{low} to {high} steps", f"{plan.n_steps}")
    return None


def violation(problem: Problem, plan: Plan) -> str | None:
    """Return the first limit that a plan breaks, or None.

    Fast enough for every incumbent of a search; the simulator finds the same and explains it.
    """
    structural = structural_violation(problem, plan)
    if structural is not None:
        return str(structural)
    steps = plan.steps(problem)
    sizes = np.array([len(group) for group in plan.groups])
    if sizes.sum() != problem.n_patches or (steps < 0).any():
        return "the groups are not a partition of the patches"
    if sizes.max() > problem.group_size:
        step = int(sizes.argmax())
        return f"step {step + 1} has {sizes[step]} patches, at most {problem.group_size} are allowed"
    most = int(count_loads(problem, steps).max())
    if most > problem.max_loads:
        return f"a pixel is loaded {most} times, at most {problem.max_loads} are allowed"
    if problem.machine.memory is not None:
        kept = sizes
        if plan.write_back is not None:
            # Outputs stay until the step that writes them back.
            leaving = np.bincount(plan.write_back, weights=sizes, minlength=plan.n_steps)[: plan.n_steps]
            kept = np.cumsum(sizes - leaving.astype(np.int64))
        pixels = group_pixels(problem, steps)
        for step in range(plan.n_steps):
            needed = problem.memory_needed(int(pixels[step]), int(kept[step]))
            if needed > problem.machine.memory:
                there = problem.machine.memory
                return f"step {step + 1} needs {needed} elements of memory, there are {there}"
    return None
