"""What the Pyomo formulations of grouping share: how an objective is scaled and a plan is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo

from tilewright.grouping import Plan, Problem
from tilewright.grouping.structure import scale, scaled_costs


def minimise(model: Any, problem: Problem, loads: Any, steps: Any) -> None:
    """Set the objective of equation 15, in the units of `scale` so that it is a small whole number."""
    load_units, step_units = scaled_costs(problem)
    model.offset, model.unit = scale(problem)
    model.cost = pyo.Objective(expr=load_units * loads + step_units * (steps - problem.steps_range[0]))


def plan_of(problem: Problem, placed: Any) -> Plan:
    """Read the plan off binary variables ``placed[patch, step]``."""
    steps = np.full(problem.n_patches, -1)
    for (patch, step), variable in placed.items():
        if variable.value > 0.5:
            steps[patch] = step
    return Plan.from_steps(problem, steps)
