"""The reference model of grouping and MiniZinc: a layer as it is, a machine as it is, and plans back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tilewright.grouping.plan import Plan
from tilewright.grouping.problem import Problem
from tilewright.spec.constraints import Term

__all__ = ["data", "decisions", "plan", "relax", "scale", "size", "start", "suits", "term"]

LARGEST = 2**31 - 2
"""The largest number that Gecode can handle."""

MOST_PATCHES = 64
"""Most patches of a layer: every pixel has a variable for each step, of which there may be as many."""


def why_not(problem: Problem, _formulation: Path | None = None) -> str | None:
    """Say why the model does not take a problem, or None."""
    if problem.n_patches > MOST_PATCHES:
        return f"the layer has {problem.n_patches:,} patches, the model takes {MOST_PATCHES}"
    if (most := largest(problem)) > LARGEST:
        return f"numbers up to {most:,} may occur, the solvers of MiniZinc count to {LARGEST:,}"
    return None


def suits(problem: Problem, _formulation: Path) -> bool:
    """Whether the model takes a problem."""
    return why_not(problem) is None


def largest(problem: Problem) -> int:
    """Return a cost that no plan exceeds: that of all pixels in all steps."""
    most = problem.steps_range[1]
    return problem.cost(problem.n_pixels * most, most)


def size(problem: Problem) -> int:
    """Return about how many constraints the model gives: the links of pixels, patches and steps."""
    return problem.steps_range[1] * (problem.patch_pixels.size + 2 * problem.n_pixels)


def relax(_problem: Problem) -> int:
    """Return 0: without large-neighbourhood search."""
    return 0


def scale(_problem: Problem) -> tuple[int, int]:
    """Return (0, 1): the model's objective is what a plan costs."""
    return 0, 1


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that reference.mzn declares, all but those of the search."""
    layer, machine = problem.layer, problem.machine
    memory = machine.memory
    limited = memory is not None and memory < problem.memory_needed(problem.n_pixels, problem.group_size)
    fewest, most = problem.steps_range
    return {
        "channels": problem.pixel_elements,
        "kernels": problem.patch_outputs,
        "kernel_elements": problem.kernel_elements,
        "height": layer.input[1],
        "width": layer.input[2],
        "padding": list(layer.padding),
        "kernel": list(layer.kernel),
        "stride": list(layer.stride),
        "dilation": list(layer.dilation),
        "group_size": problem.group_size,
        "memory_limited": limited,
        "memory": memory if limited else 0,
        "load": machine.load,
        "write": machine.write,
        "compute": machine.compute,
        "kernels_loaded": machine.kernels == "step1",
        "padding_generated": machine.padding == "generated",
        "duration_minimised": problem.objective.minimise == "duration",
        "pixels_counted": problem.objective.count == "pixels",
        "fewest_steps": fewest,
        "most_steps": most,
        "max_loads": min(problem.max_loads, problem.n_patches),
    }


def term(problem: Problem, _formulation: Path, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc."""
    if one.word == "step":
        row, column = map(int, one.arguments)
        return f"step[{row * problem.grid[1] + column + 1}]"
    return {"steps": "n_steps", "loads": "loads", "cost": "objective"}.get(one.word)


def start(problem: Problem, plan: Plan) -> list[int]:
    """Return the step of each patch, from 1."""
    return [int(step) + 1 for step in plan.steps(problem)]


def decisions(_problem: Problem, solution: Any) -> list[int]:
    """Return the step of each patch in a solution, in the order of `start`."""
    return list(solution.step)


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution."""
    return Plan.from_steps(problem, np.array(solution.step) - 1)
