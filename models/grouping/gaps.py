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
from tilewright.spec.constraints import Term

WRITTEN_FOR = "cpsat"
WORDS = ("step", "steps")


def size(problem: Problem) -> int:
    """Return the number of constraints, about: two for every patch, pixel of it, and step."""
    return 2 * last_useful_step(problem) * problem.patch_pixels.size


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    m: Any = cp_model.CpModel()
    m.problem, m.extras = problem, extras
    m.parameters = {"linearization_level": 0}  # the relaxation is weak, and takes half of the time
    n_min, n_max = problem.steps_range
    m.steps = range(last_useful_step(problem) if extras else n_max)
    m.parts = cells(problem)
    m.done, m.used = _compute_patches(m)
    m.held, m.seen, reloads = _count_gaps(m)
    _fit_on_chip(m)
    load_units, step_units = scaled_costs(problem)
    first_loads = sum(len(part.pixels) for part in m.parts)
    offset, m.unit = scale(problem)
    m.offset = offset + m.unit * load_units * first_loads
    m.minimize(load_units * reloads + step_units * (sum(m.used) - n_min))  # (13, 15)
    if extras:
        if m.parts:  # else patches are padding alone, and there is nothing to count
            _add_cuts(m, m.seen, reloads + first_loads)
        _break_symmetry(m, sum(m.used))
    return m


def _compute_patches(m: Any) -> tuple[list[list[Any]], list[Any]]:
    """Compute each patch once; return which patches are done by each step, and which steps there are."""
    problem: Problem = m.problem
    n_min, _ = problem.steps_range
    patches = range(problem.n_patches)
    m.at = [[m.new_bool_var(f"at[{i},{k}]") for k in m.steps] for i in patches]  # (2)
    done = [[m.new_bool_var(f"done[{i},{k}]") for k in m.steps] for i in patches]
    used = [m.new_constant(1) if k < n_min else m.new_bool_var(f"used[{k}]") for k in m.steps]
    for i in patches:
        m.add_exactly_one(m.at[i]).with_name(f"each patch once (3): {i}")
        for k in m.steps:
            before = done[i][k - 1] if k else 0
            m.add(done[i][k] == before + m.at[i][k]).with_name(f"done by now: {i}, {k}")
    for k in m.steps:
        members = sum(m.at[i][k] for i in patches)
        m.add(members <= problem.group_size * used[k]).with_name(f"group is not too large (4): {k}")
        m.add(members >= used[k]).with_name(f"used step is not empty: {k}")
        if k >= n_min:
            m.add_implication(used[k], used[k - 1]).with_name(f"unused steps come last: {k}")
    return done, used


def _any_of(m: Any, literals: list[Any], name: str) -> Any:
    """Return a variable that says whether one of the literals holds."""
    if len(literals) == 1:
        return literals[0]
    some = m.new_bool_var(name)
    m.add_bool_or([*literals, ~some]).with_name(f"{name} only if one of it is")
    for one in literals:
        m.add_implication(one, some).with_name(f"{name} if one of it is")
    return some


def _count_gaps(m: Any) -> tuple[list[list[Any]], list[list[Any]], Any]:
    """Let each gap of a cell cost a load.

    Returns
    -------
    held, seen
        Of each step, the pixels on chip (6), and those that have been needed by then.
    reloads
        Loads beside the first one of each pixel.
    """
    most, steps = m.problem.max_loads, m.steps
    reloads: Any = 0
    held: list[list[Any]] = [[] for _ in steps]
    seen: list[list[Any]] = [[] for _ in steps]
    for c, part in enumerate(m.parts):
        weight = len(part.pixels)
        on_chip = [_any_of(m, [m.at[i][k] for i in part.patches], f"on_chip[{c},{k}]") for k in steps]
        born = [_any_of(m, [m.done[i][k] for i in part.patches], f"born[{c},{k}]") for k in steps]
        for k in steps:
            held[k].append(weight * on_chip[k])
            seen[k].append(weight * born[k])
        if len(part.patches) == 1:
            continue
        ends = [m.new_bool_var(f"gap_ends[{c},{k}]") for k in steps[2:]]
        for k, end in zip(steps[2:], ends, strict=True):
            # Needed now, not in the step before, but in one before that (7, 8).
            gap = m.add_bool_or(~on_chip[k], on_chip[k - 1], ~born[k - 1], end)
            gap.with_name(f"gap costs a load: {c}, {k}")
        reloads += weight * sum(ends)
        if most <= len(ends):
            m.add(sum(ends) < most).with_name(f"pixel is not loaded too often (9): {c}")
    return held, seen, reloads


def _fit_on_chip(m: Any) -> None:
    """Let the pixels and outputs of each step fit on chip."""
    problem: Problem = m.problem
    if problem.machine.memory is None:
        return
    room = problem.machine.memory - problem.kernel_elements
    for k in m.steps:
        outputs = problem.patch_outputs * sum(m.at[i][k] for i in range(problem.n_patches))
        inputs = problem.pixel_elements * sum(m.held[k])
        m.add(inputs + outputs <= room).with_name(f"fits on chip (12): {k}")


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


def term(m: Any, one: Term) -> Any:
    """Return a term of the vocabulary; loads may be counted too high before the optimum, so they are none."""
    if one.word == "steps":
        return sum(m.used)
    row, column = one.arguments
    return sum((k + 1) * m.at[row * m.problem.grid[1] + column][k] for k in m.steps)


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
