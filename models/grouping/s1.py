"""The integer program of the S1 paper, equations 2 to 15, with the paper's names.

It is kept literal as the yardstick for other formulations: one variable per pixel and step, OR and AND
linearised in the standard way, no symmetry breaking, no redundancy. What the paper leaves open:

- steps count from 1, since its group g_0 is empty; K_max is the most steps that the limits allow;
- where the number of steps is free, ``used[k]`` tells whether group k exists, and the empty groups are
  the last ones; the paper's n is the number of used groups, and no used group is empty;
- following remark 6 pixels have no channel; equations 11, 12 and 15 count elements all the same;
- padding made on chip belongs to no patch.
"""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from tilewright.grouping import Plan, Problem
from tilewright.spec.constraints import Term

from ._shared import minimise, plan_of

WORDS = ("step", "steps", "loads")


def size(problem: Problem) -> int:
    """Return the number of constraints, about; dominated by the links of equation 6."""
    return problem.steps_range[1] * (problem.patch_pixels.size + 8 * len(problem.needed_pixels))


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the paper's model; it has no extras to leave out."""
    m = pyo.ConcreteModel(name="s1")
    m.problem = problem
    n_min, k_max = problem.steps_range

    m.PATCHES = pyo.RangeSet(0, problem.n_patches - 1)
    m.PIXELS = pyo.Set(initialize=problem.needed_pixels.tolist())
    m.STEPS = pyo.RangeSet(1, k_max)
    pxl_in_P = {(i, j) for i, pixels in enumerate(problem.patch_pixels.tolist()) for j in pixels if j >= 0}
    m.PXL_IN_P = pyo.Set(dimen=2, initialize=sorted(pxl_in_P))
    patches_of: dict[int, list[int]] = {}
    for i, j in m.PXL_IN_P:
        patches_of.setdefault(j, []).append(i)

    m.P_g = pyo.Var(m.PATCHES, m.STEPS, domain=pyo.Binary)  # (2) patch i is in group k
    m.pxl_g = pyo.Var(m.PIXELS, m.STEPS, domain=pyo.Binary)  # (5) pixel j is in group k
    m.pxl_ovlp = pyo.Var(m.PIXELS, m.STEPS, domain=pyo.Binary)  # (7) ... and in the group before
    m.pxl_I = pyo.Var(m.PIXELS, m.STEPS, domain=pyo.Binary)  # (8) pixel j is loaded by step k
    m.used = pyo.Var(m.STEPS, domain=pyo.Binary)  # group k exists

    @m.Constraint(m.PATCHES)  # (3)
    def each_patch_once(m: Any, i: int) -> Any:
        return sum(m.P_g[i, k] for k in m.STEPS) == 1

    @m.Constraint(m.STEPS)  # (4)
    def group_is_not_too_large(m: Any, k: int) -> Any:
        return sum(m.P_g[i, k] for i in m.PATCHES) <= problem.group_size * m.used[k]

    @m.Constraint(m.STEPS)
    def used_group_is_not_empty(m: Any, k: int) -> Any:
        return sum(m.P_g[i, k] for i in m.PATCHES) >= m.used[k]

    @m.Constraint(m.STEPS)
    def empty_groups_come_last(m: Any, k: int) -> Any:
        return m.used[k] == 1 if k <= n_min else m.used[k] <= m.used[k - 1]

    @m.Constraint(m.PXL_IN_P, m.STEPS)  # (6), OR from below
    def group_has_the_pixels_of_its_patches(m: Any, i: int, j: int, k: int) -> Any:
        return m.pxl_g[j, k] >= m.P_g[i, k]

    @m.Constraint(m.PIXELS, m.STEPS)  # (6), OR from above
    def group_has_no_other_pixels(m: Any, j: int, k: int) -> Any:
        return m.pxl_g[j, k] <= sum(m.P_g[i, k] for i in patches_of[j])

    @m.Constraint(m.PIXELS, m.STEPS)  # (7), AND
    def overlap_is_in_this_group(m: Any, j: int, k: int) -> Any:
        return m.pxl_ovlp[j, k] <= m.pxl_g[j, k]

    @m.Constraint(m.PIXELS, m.STEPS)  # (7), AND, or 0 at the first step
    def overlap_is_in_the_group_before(m: Any, j: int, k: int) -> Any:
        return m.pxl_ovlp[j, k] <= (m.pxl_g[j, k - 1] if k > 1 else 0)

    @m.Constraint(m.PIXELS, m.STEPS)  # (7), AND
    def what_is_in_both_groups_overlaps(m: Any, j: int, k: int) -> Any:
        if k == 1:
            return pyo.Constraint.Skip
        return m.pxl_ovlp[j, k] >= m.pxl_g[j, k] + m.pxl_g[j, k - 1] - 1

    @m.Constraint(m.PIXELS, m.STEPS)  # (8), AND
    def only_pixels_of_the_group_are_loaded(m: Any, j: int, k: int) -> Any:
        return m.pxl_I[j, k] <= m.pxl_g[j, k]

    @m.Constraint(m.PIXELS, m.STEPS)  # (8), AND NOT
    def overlap_is_not_loaded(m: Any, j: int, k: int) -> Any:
        return m.pxl_I[j, k] <= 1 - m.pxl_ovlp[j, k]

    @m.Constraint(m.PIXELS, m.STEPS)  # (8), AND NOT
    def the_rest_of_the_group_is_loaded(m: Any, j: int, k: int) -> Any:
        return m.pxl_I[j, k] >= m.pxl_g[j, k] - m.pxl_ovlp[j, k]

    @m.Constraint(m.PIXELS)  # (9)
    def pixel_is_not_loaded_too_often(m: Any, j: int) -> Any:
        return sum(m.pxl_I[j, k] for k in m.STEPS) <= problem.max_loads

    @m.Expression(m.STEPS)  # (10)
    def nb_pxl_ovlp(m: Any, k: int) -> Any:
        return sum(m.pxl_ovlp[j, k] for j in m.PIXELS)

    @m.Expression(m.STEPS)  # (11)
    def size_group(m: Any, k: int) -> Any:
        return problem.pixel_elements * sum(m.pxl_g[j, k] for j in m.PIXELS)

    @m.Constraint(m.STEPS)  # (12)
    def fits_on_chip(m: Any, k: int) -> Any:
        if problem.machine.memory is None:
            return pyo.Constraint.Skip
        outputs = problem.patch_outputs * sum(m.P_g[i, k] for i in m.PATCHES)
        return m.size_group[k] + problem.kernel_elements + outputs <= problem.machine.memory

    @m.Expression(m.STEPS)  # (13)
    def size_I_slice(m: Any, k: int) -> Any:
        return sum(m.pxl_I[j, k] for j in m.PIXELS)

    # (14), (15)
    minimise(m, problem, sum(m.size_I_slice[k] for k in m.STEPS), sum(m.used[k] for k in m.STEPS))
    return m


def term(m: Any, one: Term) -> Any:
    """Return a term of the vocabulary."""
    match one.word:
        case "step":
            i = m.problem.grid[1] * one.arguments[0] + one.arguments[1]
            return sum(k * m.P_g[i, k] for k in m.STEPS)
        case "steps":
            return sum(m.used[k] for k in m.STEPS)
    return sum(m.size_I_slice[k] for k in m.STEPS)


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in a plan."""
    problem: Problem = m.problem
    steps = plan.steps(problem) + 1
    groups: list[set[int]] = [set() for _ in range(max(max(m.STEPS), plan.n_steps) + 1)]
    for i, j in m.PXL_IN_P:
        groups[steps[i]].add(j)
    for k in m.STEPS:
        m.used[k] = int(k <= plan.n_steps)
        for i in m.PATCHES:
            m.P_g[i, k] = int(steps[i] == k)
        for j in m.PIXELS:
            here, before = j in groups[k], j in groups[k - 1]
            m.pxl_g[j, k] = int(here)
            m.pxl_ovlp[j, k] = int(here and before)
            m.pxl_I[j, k] = int(here and not before)


def read(m: Any) -> Plan:
    """Return the plan that the variables P_g describe."""
    return plan_of(m.problem, m.P_g)
