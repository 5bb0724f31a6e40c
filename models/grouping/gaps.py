"""A constraint model for CP-SAT that counts the gaps in the lives of cells, rather than loads.

Each cell of pixels, those that the same patches need, is loaded once; and once more for each gap, in which
a patch of it has been computed, another has not, and it is not on chip. A cell of one patch has no gaps and
no variables.

Extras: symmetry breaking, isoperimetric cuts, the bound of `best_bound`, and a horizon by dominance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from tilewright.grouping import Plan, Problem
from tilewright.grouping.bounds.best import best_bound, fewest_pixels
from tilewright.grouping.structure import (
    canonical,
    cells,
    equal_corners,
    last_useful_step,
    merged,
    scale,
    scaled_costs,
    swapped_corners,
    symmetries,
)

WRITTEN_FOR = "cpsat"


def size(problem: Problem) -> int:
    """Return the number of constraints, about: two for every patch, pixel of it, and step."""
    return 2 * last_useful_step(problem) * problem.patch_pixels.size


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    m: Any = cp_model.CpModel()
    m.problem, m.extras = problem, extras
    m.parameters = {"linearization_level": 0}  # the relaxation is weak, and takes half of the time
    n_min, n_max = problem.steps_range
    patches = range(problem.n_patches)
    steps = m.steps = range(last_useful_step(problem) if extras else n_max)
    parts = cells(problem)

    # Patches ------------------------------------------------------------------------------------------

    at = m.at = [[m.new_bool_var(f"at[{i},{k}]") for k in steps] for i in patches]  # (2)
    done = [[m.new_bool_var(f"done[{i},{k}]") for k in steps] for i in patches]
    used = [m.new_constant(1) if k < n_min else m.new_bool_var(f"used[{k}]") for k in steps]
    for i in patches:
        m.add_exactly_one(at[i]).with_name(f"each patch once (3): {i}")
        for k in steps:
            before = done[i][k - 1] if k else 0
            m.add(done[i][k] == before + at[i][k]).with_name(f"done by now: {i}, {k}")
    for k in steps:
        members = sum(at[i][k] for i in patches)
        m.add(members <= problem.group_size * used[k]).with_name(f"group is not too large (4): {k}")
        m.add(members >= used[k]).with_name(f"used step is not empty: {k}")
        if k >= n_min:
            m.add_implication(used[k], used[k - 1]).with_name(f"unused steps come last: {k}")

    # Cells --------------------------------------------------------------------------------------------

    def any_of(literals: list[Any], name: str) -> Any:
        """Return a variable that says whether one of the literals holds."""
        if len(literals) == 1:
            return literals[0]
        some = m.new_bool_var(name)
        m.add_bool_or([*literals, ~some]).with_name(f"{name} only if one of it is")
        for one in literals:
            m.add_implication(one, some).with_name(f"{name} if one of it is")
        return some

    gaps: list[Any] = []
    weights: list[int] = []
    held: list[list[Any]] = [[] for _ in steps]  # (6)
    seen: list[list[Any]] = [[] for _ in steps]
    for c, part in enumerate(parts):
        weight = len(part.pixels)
        on_chip = [any_of([at[i][k] for i in part.patches], f"on_chip[{c},{k}]") for k in steps]
        born = [any_of([done[i][k] for i in part.patches], f"born[{c},{k}]") for k in steps]
        for k in steps:
            held[k].append(weight * on_chip[k])
            seen[k].append(weight * born[k])
        if len(part.patches) == 1:
            continue
        ends = [m.new_bool_var(f"gap_ends[{c},{k}]") for k in steps[2:]]
        for k, end in zip(steps[2:], ends, strict=True):
            # Needed now, not in the step before, but in one before that (7, 8).
            m.add_bool_or(~on_chip[k], on_chip[k - 1], ~born[k - 1], end).with_name(
                f"gap costs a load: {c}, {k}"
            )
        gaps += ends
        weights += [weight] * len(ends)
        if problem.max_loads <= len(ends):
            m.add(sum(ends) < problem.max_loads).with_name(f"pixel is not loaded too often (9): {c}")

    # Limits and objective -----------------------------------------------------------------------------

    if problem.machine.memory is not None:
        room = problem.machine.memory - problem.kernel_elements
        for k in steps:
            outputs = problem.patch_outputs * sum(at[i][k] for i in patches)
            inputs = problem.pixel_elements * sum(held[k])
            m.add(inputs + outputs <= room).with_name(f"fits on chip (12): {k}")

    load_units, step_units = scaled_costs(problem)
    first_loads = sum(len(part.pixels) for part in parts)
    offset, m.unit = scale(problem)
    m.offset = offset + m.unit * load_units * first_loads
    reloads = sum(weight * gap for weight, gap in zip(weights, gaps, strict=True))
    m.minimize(load_units * reloads + step_units * (sum(used) - n_min))  # (13, 15)
    if extras:
        if parts:  # else patches are padding alone, and there is nothing to count
            _add_cuts(m, seen, reloads + first_loads)
        _break_symmetry(m, sum(used))
    return m


def _add_cuts(m: Any, seen: list[list[Any]], loads: Any) -> None:
    """Fewest pixels of any set of patches of a size: needed by step k, and in all."""
    problem: Problem = m.problem
    fewest = fewest_pixels(problem)
    for k, pixels in enumerate(seen):
        patches = max(0, problem.n_patches - problem.group_size * (len(seen) - 1 - k))
        m.add(sum(pixels) >= int(fewest[patches])).with_name(f"pixels seen so far: {k}")
    m.add(loads >= best_bound(problem).loads).with_name("no fewer loads than proven")


def _break_symmetry(m: Any, n_steps: Any) -> None:
    """Admit one of the images of a plan under flips, transposition and reversal, see `canonical`."""
    problem: Problem = m.problem
    m.images = symmetries(problem, cells(problem))

    def step(patch: int) -> Any:
        return sum(k * m.at[patch][k] for k in m.steps)

    for corner in equal_corners(m.images):
        if corner:
            m.add(step(0) <= step(corner)).with_name(f"top left comes before {corner}")
        m.add(step(0) + step(corner) <= n_steps - 1).with_name(f"sooner than {corner} from the end")
    for right, left in swapped_corners(problem, m.images):
        m.add(step(right) <= step(left)).with_name(f"{right} comes before {left}")


def start(m: Any, plan: Plan) -> None:
    """Hint the image of a plan that symmetry breaking admits."""
    problem: Problem = m.problem
    if m.extras:
        if plan.n_steps > len(m.steps):
            plan = merged(problem, plan)
        plan = canonical(problem, plan, m.images)
    for i, step in enumerate(plan.steps(problem).tolist()):
        for k in m.steps:
            m.add_hint(m.at[i][k], step == k)


def read(m: Any, value: Any) -> Plan:
    """Return the plan that the variables ``at`` describe."""
    steps = [next(k for k in m.steps if value(at[k])) for at in m.at]
    return Plan.from_steps(m.problem, np.array(steps))
