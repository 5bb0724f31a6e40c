"""What the Pyomo formulations of grouping share: how an objective is scaled and a plan is read."""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np
import pyomo.environ as pyo

from tilewright.grouping import Plan, Problem


def minimise(model: Any, problem: Problem, loads: Any, steps: Any) -> None:
    """Set the objective of equation 15 in the largest unit in which every plan costs a whole number.

    The driver needs ``model.offset`` and ``model.unit`` to go back: a plan whose objective value is v
    costs ``offset + unit * v`` cycles. With equal numbers of steps the unit is one load.
    """
    fewest, most = problem.steps_range
    model.offset = problem.cost(0, fewest)
    model.unit = max(1, gcd(problem.load_cost, problem.step_cost if fewest < most else 0))
    model.cost = pyo.Objective(
        expr=problem.load_cost // model.unit * loads + problem.step_cost // model.unit * (steps - fewest)
        if fewest < most
        else problem.load_cost // model.unit * loads
    )


def plan_of(problem: Problem, placed: Any) -> Plan:
    """Read the plan off binary variables ``placed[patch, step]``."""
    steps = np.full(problem.n_patches, -1)
    for (patch, step), variable in placed.items():
        if variable.value > 0.5:
            steps[patch] = step
    return Plan.from_steps(problem, steps)
