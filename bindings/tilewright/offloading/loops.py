"""Plans of nests of loops: which fit, the best of several, and what a quick one says of the steps."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from tilewright.core.cutoffs import narrow
from tilewright.offloading.bounds import best_bound
from tilewright.offloading.cost import objective
from tilewright.offloading.keeping import duration, planned
from tilewright.offloading.placing import placed
from tilewright.offloading.plan import Numbers, Plan
from tilewright.offloading.problem import Problem
from tilewright.offloading.sequences import (
    ORDERS,
    Loops,
    block_sizes,
    largest_groups,
    rounds_of,
    row_by_row,
    stretched,
    zigzag,
)

TRIED = 12
"""Sizes of blocks for which a baseline looks for a plan."""


def sizes_on(problem: Problem, path: Numbers) -> list[tuple[int, int, int]]:
    """Return sizes of blocks that fit, with groups cut from a path, those with most cells first."""
    found = []
    for kernels, channels in block_sizes(problem):
        patches = largest_groups(problem, path, kernels, channels)
        if patches:
            found.append((patches, kernels, channels))
    return sorted(found, key=lambda sizes: (-sizes[0] * sizes[1] * sizes[2], sizes))


def baseline(problem: Problem, path: Numbers, turning: bool) -> Plan | None:
    """Return the best plan of loops over a path, in all orders, for the largest blocks that give one."""
    for sizes in sizes_on(problem, path)[:TRIED]:
        found = best_of(problem, [Loops(path, sizes, order, turning) for order in ORDERS])
        if found is not None:
            return found
    return None


def plan_of(problem: Problem, loops: Loops) -> Plan | None:
    """Return the plan of a nest of loops, with addresses if they are asked for; None where there is none."""
    rounds = stretched(problem, rounds_of(problem, loops))
    plan = None if rounds is None else planned(problem, rounds)
    return None if plan is None else placed(problem, plan)


def cost_of(problem: Problem, loops: Loops) -> int | None:
    """Return what the plan of a nest of loops costs but for bursts; None where there is none."""
    rounds = stretched(problem, rounds_of(problem, loops))
    return None if rounds is None else duration(problem, rounds)


def best_of(problem: Problem, tried: Iterable[Loops]) -> Plan | None:
    """Return the best plan of some nests of loops; None where none of them gives one."""
    costs = []
    for place, loops in enumerate(tried):
        cost = cost_of(problem, loops)
        if cost is not None:
            costs.append((cost, place, loops))
    for _, _, loops in sorted(costs, key=lambda each: each[:2]):
        plan = plan_of(problem, loops)
        if plan is not None:
            return plan
    return None


def last_useful_step(problem: Problem) -> int:
    """Return the most steps that a plan has which is no worse than a quick one, counting from 1."""
    most = problem.steps_range[1]
    return most if narrow() or problem.constraints else _last_useful_step(problem)


@lru_cache(maxsize=8)
def _last_useful_step(problem: Problem) -> int:
    fewest, most = problem.steps_range
    compute = problem.machine.compute
    if fewest == most or not compute or problem.machine.burst:
        return most
    plans = (baseline(problem, row_by_row(problem), False), baseline(problem, zigzag(problem), True))
    known = [objective(problem, plan) for plan in plans if plan is not None]
    if not known:
        return most
    bound = best_bound(problem)
    rest = bound.value - compute * bound.steps
    return max(fewest, min(most, (min(known) - rest) // compute))
