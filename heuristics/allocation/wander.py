"""Wander: PEs change their layers under simulated annealing, each round twice as long as the one before."""

from __future__ import annotations

import time
from collections.abc import Callable

from tilewright.allocation import Plan, Problem
from tilewright.allocation.evaluation import violation
from tilewright.allocation.placement import annealing
from tilewright.allocation.placement.floor import distance
from tilewright.allocation.placement.hop_bound import lower_bound
from tilewright.allocation.placement.improvement import improve
from tilewright.allocation.placement.unplaced import floor_of, pes_to_place
from tilewright.core.context import RunContext
from tilewright.heuristics.allocation import snake
from tilewright.heuristics.allocation.snake import suits

__all__ = ["plan", "suits"]

FIRST = 0.5
"""Seconds of the first round: others hear of progress after each."""


def plan(problem: Problem, search: RunContext) -> Plan:
    """Improve the start, or the snake without one, until time is up or a bound is met."""
    pes_to_place(problem, search.deadline)  # says what is not known in time; from here on it is
    best: Plan = search.start or snake.placed(problem, search.deadline)
    if violation(problem, best, search.deadline) is not None:
        return best
    floor, seconds, seed = floor_of(problem, best), FIRST, search.seed
    least = max(lower_bound(floor), search.bound or 0)
    hops = distance(floor, best.regions)
    while search.remaining() and hops > least:
        until = min(search.deadline, time.monotonic() + seconds)
        better = best.placed(improve(floor, best.regions, until, seed))
        now = distance(floor, better.regions)
        if now < hops:
            best, hops = better, now
            search.on_plan(best)
        seconds, seed = 2 * seconds, seed + 1
    return best


def compile_kernels(bundled: Callable[[str], Problem]) -> None:
    """Compile what it runs; see `tilewright.core.catalogue.kernel_file`."""
    placed = snake.plan(bundled("mnist-tcpa-placed"))
    floor = floor_of(bundled("mnist-tcpa-placed"), placed)
    annealing.seed(0)
    state = annealing.build((floor.rows, floor.columns), placed.regions, floor.edges, floor.border)
    annealing.anneal(state, 1, 1.0)
