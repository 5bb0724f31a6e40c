"""Grouping and MiniZinc: the data of ``models/grouping/core.mzn``, and plans from its solutions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

import numpy as np

from tilewright.core.room import MiniZincBridge
from tilewright.grouping import reference
from tilewright.grouping.bounds.best import best_bound, fewest_pixels
from tilewright.grouping.plan import Plan
from tilewright.grouping.problem import Problem
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
from tilewright.spec.errors import InputError

__all__ = ["bridge_of", "data", "decisions", "plan", "relax", "scale", "size", "start", "suits"]


LARGEST = 2**31 - 2
"""The largest number that Gecode can handle."""


def bridge_of(_problem: Problem, formulation: Path) -> MiniZincBridge:
    """Return what knows the data of a formulation: of the reference model, or what is built on the core."""
    built_on_it = 'include "reference.mzn"' in formulation.read_text("utf-8")
    chosen = reference if formulation.stem == "reference" or built_on_it else sys.modules[__name__]
    return cast(MiniZincBridge, chosen)


def suits(_problem: Problem, _formulation: Path) -> bool:
    """Whether a formulation takes a problem: they take all."""
    return True


def size(problem: Problem) -> int:
    """Return about how many constraints a formulation gives: the links between patches, cells and steps."""
    return last_useful_step(problem) * problem.patch_pixels.size


def relax(problem: Problem) -> int:
    """Return the percentage of patches that large-neighbourhood search keeps: all but about fifteen."""
    return min(95, max(70, 100 - 1500 // problem.n_patches))


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that core.mzn declares, all but those of the search."""
    parts = cells(problem)
    images = symmetries(problem, parts)
    fewest, _ = problem.steps_range
    load_units, step_units = scaled_costs(problem)
    most = last_useful_step(problem)
    worst = load_units * len(problem.needed_pixels) * min(problem.max_loads, most) + step_units * most
    if worst >= LARGEST:
        limit = f"gives objectives up to {worst} units, and MiniZinc counts to {LARGEST}"
        raise InputError("machine.load", problem.machine.load, limit)
    return {
        "n_patches": problem.n_patches,
        "n_cells": len(parts),
        "pixels": [len(part.pixels) for part in parts],
        "needed_by": [{patch + 1 for patch in part.patches} for part in parts],
        "fewest_steps": fewest,
        "most_steps": most,
        "group_size": problem.group_size,
        "max_pixels": np.maximum(-1, problem.max_pixels_by_size).tolist(),
        "max_loads": min(problem.max_loads, problem.n_patches),
        "load_units": load_units,
        "step_units": step_units,
        "fewest_pixels": fewest_pixels(problem).tolist(),
        "fewest_loads": best_bound(problem).loads,
        "equal_corners": [corner + 1 for corner in equal_corners(images) if corner],
        "swapped_corners": [corner + 1 for pair in swapped_corners(problem, images) for corner in pair],
    }


def term(problem: Problem, _formulation: Path, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc."""
    match one.word:
        case "step":
            row, column = map(int, one.arguments)
            return f"step[{row * problem.grid[1] + column + 1}]"
        case "steps":
            return "n_steps"
        case "loads":
            return "all_loads"
        case "cost" if reference.largest(problem) <= LARGEST:
            offset, unit = scale(problem)
            return f"{offset} + {unit} * objective"
    return None


def start(problem: Problem, plan: Plan) -> list[int]:
    """Return the step of each patch, from 1, in the image of a plan that symmetry breaking leaves."""
    if problem.constraints:  # which may tell the images apart
        return [int(step) + 1 for step in plan.steps(problem)]
    if last_useful_step(problem) < problem.steps_range[1]:
        plan = merged(problem, plan)
    image = canonical(problem, plan, symmetries(problem, cells(problem)))
    return [int(step) + 1 for step in image.steps(problem)]


def decisions(_problem: Problem, solution: Any) -> list[int]:
    """Return the step of each patch in a solution, in the order of `start`."""
    return list(solution.step)


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution of core.mzn."""
    return Plan.from_steps(problem, np.array(solution.step) - 1)
