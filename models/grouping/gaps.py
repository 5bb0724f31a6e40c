"""A constraint model for CP-SAT that counts the gaps in the lives of cells, rather than loads.

Each cell of pixels, those that the same patches need, is loaded once; and once more for each gap, in which
a patch of it has been computed, another has not, and it is not on chip. A cell of one patch has no gaps and
no variables.

Extras: symmetry breaking, isoperimetric cuts, the bound of `best_bound`, and a horizon by dominance.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from tilewright.core.neighbourhood import neighbourhood
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
    """Return the model, with or without its extras; around a plan, of a part of its patches."""
    m: Any = cp_model.CpModel()
    m.problem, m.extras = problem, extras
    m.parameters = {"linearization_level": 0}  # the relaxation is weak, and takes half of the time
    n_min, n_max = problem.steps_range
    m.n_steps = last_useful_step(problem) if extras else n_max
    m.steps, m.fixed = range(m.n_steps), {}  # steps of patches that are free, and those of the others
    part = neighbourhood()
    if part is not None:  # free patches stay within the steps of all of them
        steps = dict(enumerate(part.plan.steps(problem).tolist()))
        window = [steps[i] for i in part.free]
        m.n_steps, m.steps = part.plan.n_steps, range(min(window), max(window) + 1)
        m.fixed = {i: k for i, k in steps.items() if i not in part.free}
    m.parts = cells(problem)
    _compute_patches(m)
    m.held, m.seen, reloads = _count_gaps(m)
    _fit_on_chip(m)
    load_units, step_units = scaled_costs(problem)
    first_loads = sum(len(part.pixels) for part in m.parts)
    offset, m.unit = scale(problem)
    m.offset = offset + m.unit * load_units * first_loads
    n_used = sum(m.used) + m.n_steps - len(m.steps)
    m.minimize(load_units * reloads + step_units * (n_used - n_min))  # (13, 15)
    if extras:
        if m.parts:  # else patches are padding alone, and there is nothing to count
            _add_cuts(m, m.seen, reloads + first_loads)
        _break_symmetry(m, sum(m.used))
    return m


def _compute_patches(m: Any) -> None:
    """Compute each patch once: say which are done in each step, and by then, and which steps there are."""
    problem: Problem = m.problem
    n_min, _ = problem.steps_range
    free = [i for i in range(problem.n_patches) if i not in m.fixed]
    m.at = {i: [m.new_bool_var(f"at[{i},{k}]") for k in m.steps] for i in free}  # (2)
    m.done = {i: [m.new_bool_var(f"done[{i},{k}]") for k in m.steps] for i in free}
    m.used = [m.new_constant(1) if k < n_min else m.new_bool_var(f"used[{k}]") for k in m.steps]
    for i in free:
        m.add_exactly_one(m.at[i]).with_name(f"each patch once (3): {i}")
        for k, now, before, done in zip(m.steps, m.at[i], [0, *m.done[i]], m.done[i], strict=False):
            m.add(done == before + now).with_name(f"done by now: {i}, {k}")
    m.members, others = {}, Counter(m.fixed.values())
    for number, (k, used) in enumerate(zip(m.steps, m.used, strict=True)):
        members = sum(m.at[i][number] for i in free) + others[k]
        m.members[k] = members
        m.add(members <= problem.group_size * used).with_name(f"group is not too large (4): {k}")
        m.add(members >= used).with_name(f"used step is not empty: {k}")
    for k, used, before in zip(m.steps[1:], m.used[1:], m.used, strict=False):
        if k >= n_min:
            m.add_implication(used, before).with_name(f"unused steps come last: {k}")
    if m.steps.stop < m.n_steps:
        m.add(m.used[-1] == 1).with_name("steps follow that are used")


def _any_of(m: Any, literals: list[Any], name: str) -> Any:
    """Return a variable that says whether one of the literals holds."""
    if len(literals) == 1:
        return literals[0]
    some = m.new_bool_var(name)
    m.add_bool_or([*literals, ~some]).with_name(f"{name} only if one of it is")
    for one in literals:
        m.add_implication(one, some).with_name(f"{name} if one of it is")
    return some


def _not(literal: Any) -> Any:
    return not literal if isinstance(literal, bool) else ~literal


def _life(m: Any, c: int, fixed: set[int], free: list[int]) -> tuple[dict[int, Any], dict[int, Any]]:
    """Return of a cell in which steps it is on chip, and by which it has been; True or False where known.

    Parameters
    ----------
    fixed
        Steps of patches that stay.
    free
        Patches that do not.
    """
    # By then all free patches are computed, or one that stays is.
    known = min(m.steps.stop - 1, min(fixed, default=m.n_steps))
    on_chip: dict[int, Any] = dict.fromkeys(fixed, True)
    born: dict[int, Any] = {k - 1: k - 1 >= known for k in (*fixed, *m.steps)}
    for number, k in enumerate(m.steps):
        if k not in fixed:
            on_chip[k] = _any_of(m, [m.at[i][number] for i in free], f"on_chip[{c},{k}]")
        born[k] = True if k >= known else _any_of(m, [m.done[i][number] for i in free], f"born[{c},{k}]")
    return on_chip, born


def _count_gaps(m: Any) -> tuple[dict[int, list[Any]], dict[int, list[Any]], Any]:
    """Let each gap of a cell cost a load.

    Returns
    -------
    held, seen
        Of each step, the pixels on chip (6), and those that have been needed by then.
    reloads
        Loads beside the first one of each pixel.
    """
    most, open_ = m.problem.max_loads, m.steps
    reloads: Any = 0
    held: dict[int, list[Any]] = {k: [] for k in open_}
    seen: dict[int, list[Any]] = {k: [] for k in open_}
    for c, part in enumerate(m.parts):
        weight = len(part.pixels)
        fixed = {m.fixed[i] for i in part.patches if i in m.fixed}
        free = [i for i in part.patches if i not in m.fixed]
        if not free:
            reloads += weight * sum(k - 1 not in fixed for k in fixed - {min(fixed)})
            for k in fixed & held.keys():
                held[k].append(weight)
            continue
        on_chip, born = _life(m, c, fixed, free)
        for k in open_:
            held[k].append(weight * on_chip[k])
            seen[k].append(weight * born[k])
        if len(part.patches) == 1:
            continue
        ends: list[Any] = []
        for k in sorted(k for k in on_chip if k > 1):
            # Needed now, not in the step before, but in one before that (7, 8).
            without_gap = [_not(on_chip[k]), on_chip.get(k - 1, False), _not(born[k - 1])]
            if any(one is True for one in without_gap):
                continue
            literals = [one for one in without_gap if one is not False]
            ends.append(m.new_bool_var(f"gap_ends[{c},{k}]") if literals else 1)
            if literals:
                m.add_bool_or(*literals, ends[-1]).with_name(f"gap costs a load: {c}, {k}")
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
        outputs = problem.patch_outputs * m.members[k]
        inputs = problem.pixel_elements * sum(m.held[k])
        m.add(inputs + outputs <= room).with_name(f"fits on chip (12): {k}")


def _add_cuts(m: Any, seen: dict[int, list[Any]], loads: Any) -> None:
    """Fewest pixels of any set of patches of a size: needed by step k, and in all."""
    problem: Problem = m.problem
    fewest = fewest_pixels(problem)
    for k, pixels in seen.items():
        patches = max(0, problem.n_patches - problem.group_size * (len(seen) - 1 - k))
        m.add(sum(pixels) >= int(fewest[patches])).with_name(f"pixels seen so far: {k}")
    m.add(loads >= best_bound(problem).loads).with_name("no fewer loads than proven")


def _break_symmetry(m: Any, n_steps: Any) -> None:
    """Admit one of the images of a plan under flips, transposition and reversal, see `canonical`."""
    problem: Problem = m.problem
    m.images = symmetries(problem, cells(problem))

    def step(patch: int) -> Any:
        return sum(k * one for k, one in zip(m.steps, m.at[patch], strict=True))

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
    return sum(k * one for k, one in enumerate(m.at[row * m.problem.grid[1] + column], start=1))


def start(m: Any, plan: Plan) -> None:
    """Hint the image of a plan that symmetry breaking admits."""
    problem: Problem = m.problem
    if m.extras:
        if plan.n_steps > m.n_steps:
            plan = merged(problem, plan)
        plan = canonical(problem, plan, m.images)
    steps = plan.steps(problem).tolist()
    for i, literals in m.at.items():
        for k, one in zip(m.steps, literals, strict=True):
            m.add_hint(one, steps[i] == k)


def read(m: Any, value: Any) -> Plan:
    """Return the plan that the variables ``at`` describe."""
    steps = m.fixed | {
        i: next(k for k, one in zip(m.steps, literals, strict=True) if value(one))
        for i, literals in m.at.items()
    }
    return Plan.from_steps(m.problem, np.array([steps[i] for i in range(m.problem.n_patches)]))
