"""Plans that cost as little: of these one that moves least, then takes fewest cycles, energy and memory."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

from tilewright.core.branch_and_bound import ignore
from tilewright.residency.derived_problems import add_staying, problem_of_plan, residual_problem, weights_of
from tilewright.residency.evaluation import best_bound, costs_of, violation
from tilewright.residency.exact.time_and_energy import least_cost, search_one_objective
from tilewright.residency.machine import ONE
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.spec.errors import OutOfTimeError

TIES = ("traffic", "cycles", "energy", "memory")
"""What is minimised among plans of equal objective, one after the other."""

SECONDS = 5.0
"""How long such plans are looked for, at most."""


def break_ties(problem: Problem, plan: Plan, deadline: float) -> Plan:
    """Return a plan that costs no more, and as little of all else as is found within some seconds.

    Without DRAM the search itself breaks ties: towards fewer multiply-accumulates, or less memory. Which
    weights stay, and which operations are executed twice, is left as it is.
    """
    if not problem.machine.dram:
        return plan
    if problem.limits.frames != ONE or problem.limits.executions != 1:
        if problem.constraints:  # which speak of what stays, too
            return plan
        return _of_one_frame(problem, plan, deadline)
    until = min(deadline, time.monotonic() + SECONDS)
    limits, memory, before = problem.objective.limits, problem.machine.memory_bytes, problem.minimise
    for name in TIES:
        if name == problem.minimise:
            continue
        spent = costs_of(problem, plan)
        if before == "memory":
            memory = spent[before]
        else:
            limits[before] = spent[before]
        stage, before = problem.alone(name, limits, memory), name
        if spent[name] <= best_bound(stage).value:
            continue
        search = search_one_objective if name == "memory" or not limits else least_cost
        with suppress(OutOfTimeError):
            better = search(stage, until, ignore, ignore, plan).plan
            if better is not None and violation(stage, better) is None:
                plan = min(plan, better, key=lambda each: costs_of(problem, each)[name])
    return plan


def _of_one_frame(problem: Problem, plan: Plan, deadline: float) -> Plan:
    """Return a plan in which the same weights stay, and the same operations are executed twice."""
    numbers = [op.number for op in problem.graph.operations if op.name in plan.staying]
    many = problem.limits.frames != ONE
    alike = residual_problem(problem, numbers) if many else problem_of_plan(problem, plan)
    below = weights_of(problem.graph, numbers)
    if len(problem.machine.regions) > 1 or any(address >= below for address in plan.staying.values()):
        return plan  # not below all else, as the search places them in one memory
    bare = replace(
        plan,
        steps=tuple(step.moved_up(-below) for step in plan.steps),
        staying={},
        again={},
    )
    found = break_ties(alike.with_(limits={"frames": ONE, "executions": 1}), bare, deadline)
    return replace(add_staying(problem, numbers, found), again=plan.again)
