"""A mixed integer program in which every cell of pixels leads a life: unborn, on chip, in a gap, dead.

Against the paper's program (s1.py):

- pixels that the same patches need are one cell, and only patch variables are binary: the others follow;
- ``done[i, k]`` says that patch i is computed by step k. A cell is unborn until its first patch and dead
  after its last, which ties *all* its patches, not two neighbouring steps, to each moment of its life;
- the moves between the four states form a network whose flow is integral for each cell on its own; a
  cell that is neither unborn, nor on chip, nor dead is in a gap and pays for another load at its end.

Extras: symmetry breaking, isoperimetric cuts, the bound of `best_bound`, and a horizon by dominance.
"""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from tilewright.grouping import Plan, Problem
from tilewright.grouping.bounds.best import best_bound, fewest_pixels
from tilewright.grouping.structure import (
    canonical,
    cells,
    equal_corners,
    last_useful_step,
    merged,
    swapped_corners,
    symmetries,
)
from tilewright.spec.constraints import Term

from ._shared import minimise, plan_of

WORDS = ("step", "steps")


def size(problem: Problem) -> int:
    """Return the number of constraints, about: three for every patch, pixel of it, and step."""
    return 3 * last_useful_step(problem) * problem.patch_pixels.size


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    m = pyo.ConcreteModel(name="lives")
    m.problem, m.extras = problem, extras
    n_max = problem.steps_range[1]
    m.last = (last_useful_step(problem) if extras else n_max) - 1
    m.parts = cells(problem)
    m.weight = [len(part.pixels) for part in m.parts]

    m.PATCHES = pyo.RangeSet(0, problem.n_patches - 1)
    m.CELLS = pyo.RangeSet(0, len(m.parts) - 1)
    m.STEPS = pyo.RangeSet(0, m.last)
    m.NEEDS = pyo.Set(dimen=2, initialize=[(c, i) for c, part in enumerate(m.parts) for i in part.patches])

    m.at = pyo.Var(m.PATCHES, m.STEPS, domain=pyo.Binary)  # step k computes patch i (2)
    m.done = pyo.Var(m.PATCHES, m.STEPS, domain=pyo.UnitInterval)  # ... or one before it does
    m.used = pyo.Var(m.STEPS, domain=pyo.Binary)  # step k exists
    m.unborn = pyo.Var(m.CELLS, m.STEPS, domain=pyo.UnitInterval)  # first needed after step k
    m.on_chip = pyo.Var(m.CELLS, m.STEPS, domain=pyo.UnitInterval)  # needed by step k (5)
    m.dead = pyo.Var(m.CELLS, m.STEPS, domain=pyo.UnitInterval)  # last needed before step k
    m.kept = pyo.Var(m.CELLS, m.STEPS, domain=pyo.UnitInterval)  # on chip in steps k and k + 1 (7)

    _compute_patches(m)
    _tie_cells_to_patches(m)
    _let_cells_live_once(m)
    _limit_loads_and_memory(m)
    loads = sum(m.weight[c] * _loaded(m, c, k) for c in m.CELLS for k in m.STEPS)  # (13)
    minimise(m, problem, loads, sum(m.used[k] for k in m.STEPS))  # (15)
    if extras:
        if m.weight:  # else patches are padding alone, and there is nothing to count
            _add_cuts(m, loads)
        _break_symmetry(m)
    return m


def _loaded(m: Any, c: int, k: int) -> Any:
    """Whether step k loads a cell (8)."""
    return m.on_chip[c, k] - (m.kept[c, k - 1] if k else 0)


def _compute_patches(m: Any) -> None:
    """Compute each patch once, in one of the steps, none of which is too large or empty."""
    problem: Problem = m.problem
    n_min, _ = problem.steps_range

    @m.Constraint(m.PATCHES, m.STEPS)
    def done_by_now(m: Any, i: int, k: int) -> Any:
        return m.done[i, k] == (m.done[i, k - 1] if k else 0) + m.at[i, k]

    @m.Constraint(m.PATCHES)  # (3)
    def each_patch_once(m: Any, i: int) -> Any:
        return m.done[i, m.last] == 1

    @m.Constraint(m.STEPS)  # (4)
    def group_is_not_too_large(m: Any, k: int) -> Any:
        return sum(m.at[i, k] for i in m.PATCHES) <= problem.group_size * m.used[k]

    @m.Constraint(m.STEPS)
    def used_step_is_not_empty(m: Any, k: int) -> Any:
        return sum(m.at[i, k] for i in m.PATCHES) >= m.used[k]

    @m.Constraint(m.STEPS)
    def unused_steps_come_last(m: Any, k: int) -> Any:
        return m.used[k] == 1 if k < n_min else m.used[k] <= m.used[k - 1]


def _tie_cells_to_patches(m: Any) -> None:
    """Have a cell on chip when one of its patches is computed, unborn before all of them, dead after all."""

    @m.Constraint(m.NEEDS, m.STEPS)  # (6)
    def on_chip_when_needed(m: Any, c: int, i: int, k: int) -> Any:
        return m.on_chip[c, k] >= m.at[i, k]

    @m.Constraint(m.CELLS, m.STEPS)  # (6)
    def on_chip_only_when_needed(m: Any, c: int, k: int) -> Any:
        return m.on_chip[c, k] <= sum(m.at[i, k] for i in m.parts[c].patches)

    @m.Constraint(m.NEEDS, m.STEPS)
    def unborn_before_all_patches(m: Any, c: int, i: int, k: int) -> Any:
        return m.unborn[c, k] + m.done[i, k] <= 1

    @m.Constraint(m.NEEDS, m.STEPS)
    def dead_after_all_patches(m: Any, c: int, i: int, k: int) -> Any:
        return m.dead[c, k] <= (m.done[i, k - 1] if k else 0)


def _let_cells_live_once(m: Any) -> None:
    """Let a cell be unborn, then on chip or in a gap, then dead; loaded, or kept since the last step."""

    @m.Constraint(m.CELLS, m.STEPS)
    def one_state_at_a_time(m: Any, c: int, k: int) -> Any:
        return m.unborn[c, k] + m.on_chip[c, k] + m.dead[c, k] <= 1  # the rest is in a gap

    @m.Constraint(m.CELLS, m.STEPS)
    def birth_is_a_load(m: Any, c: int, k: int) -> Any:
        return (m.unborn[c, k - 1] if k else 1) - m.unborn[c, k] <= _loaded(m, c, k)

    @m.Constraint(m.CELLS, m.STEPS)
    def death_is_a_release(m: Any, c: int, k: int) -> Any:
        return (m.dead[c, k + 1] if k < m.last else 1) - m.dead[c, k] <= m.on_chip[c, k] - m.kept[c, k]

    @m.Constraint(m.CELLS, m.STEPS)
    def nobody_is_born_again(m: Any, c: int, k: int) -> Any:
        return m.unborn[c, k] <= m.unborn[c, k - 1] if k else pyo.Constraint.Skip

    @m.Constraint(m.CELLS, m.STEPS)
    def nobody_rises_again(m: Any, c: int, k: int) -> Any:
        return m.dead[c, k] >= m.dead[c, k - 1] if k else pyo.Constraint.Skip

    @m.Constraint(m.CELLS, m.STEPS)  # (7)
    def kept_for_the_next_step(m: Any, c: int, k: int) -> Any:
        return m.kept[c, k] <= (m.on_chip[c, k + 1] if k < m.last else 0)

    @m.Constraint(m.CELLS, m.STEPS)  # (7); no optimum needs it, but it makes every objective exact
    def kept_if_needed_next(m: Any, c: int, k: int) -> Any:
        if k == m.last:
            return pyo.Constraint.Skip
        return m.kept[c, k] >= m.on_chip[c, k] + m.on_chip[c, k + 1] - 1


def _limit_loads_and_memory(m: Any) -> None:
    """Load no cell too often, and let each step's cells and outputs fit on chip."""
    problem: Problem = m.problem

    @m.Constraint(m.CELLS)  # (9)
    def pixel_is_not_loaded_too_often(m: Any, c: int) -> Any:
        if problem.max_loads > m.last:
            return pyo.Constraint.Skip
        return sum(_loaded(m, c, k) for k in m.STEPS) <= problem.max_loads

    @m.Constraint(m.STEPS)  # (12)
    def fits_on_chip(m: Any, k: int) -> Any:
        if problem.machine.memory is None:
            return pyo.Constraint.Skip
        inputs = problem.pixel_elements * sum(m.weight[c] * m.on_chip[c, k] for c in m.CELLS)
        outputs = problem.patch_outputs * sum(m.at[i, k] for i in m.PATCHES)
        return inputs + outputs <= problem.machine.memory - problem.kernel_elements


def _add_cuts(m: Any, loads: Any) -> None:
    """Fewest pixels of any set of patches of a size: seen by step k, needed from step k on, and in all."""
    problem: Problem = m.problem
    fewest = fewest_pixels(problem)

    def patches_without(steps: int) -> int:
        return max(0, problem.n_patches - problem.group_size * steps)

    @m.Constraint(m.STEPS)
    def pixels_seen_so_far(m: Any, k: int) -> Any:
        least = int(fewest[patches_without(m.last - k)])
        return sum(m.weight[c] * (1 - m.unborn[c, k]) for c in m.CELLS) >= least

    @m.Constraint(m.STEPS)
    def pixels_needed_from_now(m: Any, k: int) -> Any:
        least = int(fewest[patches_without(k)])
        return sum(m.weight[c] * (1 - m.dead[c, k]) for c in m.CELLS) >= least

    m.no_fewer_loads_than_proven = pyo.Constraint(expr=loads >= best_bound(problem).loads)


def _break_symmetry(m: Any) -> None:
    """Admit one of the images of a plan under flips, transposition and reversal, see `canonical`."""
    problem: Problem = m.problem
    m.images = symmetries(problem, m.parts)
    m.CORNERS = pyo.Set(initialize=equal_corners(m.images))
    m.SWAPPED = pyo.Set(dimen=2, initialize=swapped_corners(problem, m.images))

    def step(i: int) -> Any:
        return sum(k * m.at[i, k] for k in m.STEPS)

    @m.Constraint(m.CORNERS)
    def top_left_comes_first(m: Any, corner: int) -> Any:
        return step(0) <= step(corner) if corner else pyo.Constraint.Skip

    @m.Constraint(m.CORNERS)
    def sooner_than_the_last_from_the_end(m: Any, corner: int) -> Any:
        return step(0) + step(corner) <= sum(m.used[k] for k in m.STEPS) - 1

    @m.Constraint(m.SWAPPED)
    def right_comes_before_left(m: Any, right: int, left: int) -> Any:
        return step(right) <= step(left)


def term(m: Any, one: Term) -> Any:
    """Return a term of the vocabulary; loads may be counted too high before the optimum, so they are none."""
    if one.word == "steps":
        return sum(m.used[k] for k in m.STEPS)
    i = one.arguments[0] * m.problem.grid[1] + one.arguments[1]
    return sum((k + 1) * m.at[i, k] for k in m.STEPS)


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in the image of a plan that symmetry breaking admits."""
    problem: Problem = m.problem
    if m.extras:
        if plan.n_steps > len(m.STEPS):
            plan = merged(problem, plan)
        plan = canonical(problem, plan, m.images)
    steps = plan.steps(problem).tolist()
    for k in m.STEPS:
        m.used[k] = int(k < plan.n_steps)
        for i in m.PATCHES:
            m.at[i, k] = int(steps[i] == k)
            m.done[i, k] = int(steps[i] <= k)
    for c in m.CELLS:
        needed = {steps[i] for i in m.parts[c].patches}
        for k in m.STEPS:
            m.unborn[c, k] = int(k < min(needed))
            m.on_chip[c, k] = int(k in needed)
            m.dead[c, k] = int(k > max(needed))
            m.kept[c, k] = int(k in needed and k + 1 in needed)


def read(m: Any) -> Plan:
    """Return the plan that the variables ``at`` describe."""
    return plan_of(m.problem, m.at)
