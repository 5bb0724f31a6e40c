"""Wander: PEs change their layers under simulated annealing, each round twice as long as the one before."""

from __future__ import annotations

import time

from tilewright.allocation import Plan, Problem, violation
from tilewright.allocation.placement import floor as placement
from tilewright.core.context import RunContext
from tilewright.heuristics.allocation import snake
from tilewright.heuristics.allocation.snake import suits

__all__ = ["plan", "suits"]

FIRST = 0.5
"""Seconds of the first round: others hear of progress after each."""


def plan(problem: Problem, search: RunContext) -> Plan:
    """Improve the start, or the snake without one, until time is up or a bound is met."""
    best: Plan = search.start or snake.plan(problem)
    if violation(problem, best) is not None:
        return best
    floor, seconds, seed = problem.floor(best), FIRST, search.seed
    least = max(placement.lower_bound(floor), search.bound or 0)
    hops = placement.distance(floor, best.regions)
    while search.remaining() and hops > least:
        until = min(search.deadline, time.monotonic() + seconds)
        found = best.placed(placement.improve(floor, best.regions, until, seed))
        now = placement.distance(floor, found.regions)
        if now < hops:
            best, hops = found, now
            search.on_plan(best)
        seconds, seed = 2 * seconds, seed + 1
    return best
