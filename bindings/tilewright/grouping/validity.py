"""Whether a plan respects the limits of its problem, by closed forms; the simulator is the judge."""

from __future__ import annotations

import numpy as np

from tilewright.grouping.plan import Plan, count_loads, group_pixels
from tilewright.grouping.problem import Problem
from tilewright.simulator import Violation


def misfit(problem: Problem, plan: Plan) -> Violation | None:
    """Return what keeps a plan from being lowered, or breaks a limit on the plan as a whole."""
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
            twice = next(patch for patch in group if group.count(patch) > 1)
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
    violation = misfit(problem, plan)
    if violation is not None:
        return str(violation)
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
