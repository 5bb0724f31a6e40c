"""Which constraints and limits contradict each other, where a problem has no plan."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from tilewright.core.room import room_of
from tilewright.run.solving.second_route import honouring
from tilewright.spec.errors import TilewrightError

LEAST_SECONDS = 0.2
"""Time that one try gets at least."""

ROUNDS = 2
"""How often what is unknown is tried: solvers that have been loaded once answer faster."""

MOST_METHODS = 2
"""How many methods one try asks at most, one after the other."""

SHARE = 0.5
"""Share of what is left of the time for tries; the rest is for the second route."""

Solve = Callable[..., Any]
"""`tilewright.solve`."""


def contradiction(problem: Any, solve: Solve, until: float, **options: Any) -> dict[str, Any] | None:
    """Return what contradicts each other of a problem without a plan.

    What can be lifted is left out, one after the other: where there is still no plan, it stays out; where
    there is one, it is needed. What is not known in time counts as needed, and the set may be larger then
    than it must be.

    Parameters
    ----------
    until
        ``time.monotonic()``.

    Returns
    -------
    dict, optional
        ``of``, the names of what contradicts; ``minimal``, whether with any one of them left out there is a
        plan; ``confirmed_by``, the second method that finds no plan within them alone. None where there is
        nothing to lift.
    """
    needed = problem.leaving_out
    if not needed:
        return None
    plans: list[Any] = []
    open_ = list(needed)
    for _ in range(ROUNDS):
        unknown = []
        for number, name in enumerate(open_):
            rest = problem.keeping_only([each for each in needed if each != name])
            seconds = SHARE * (until - time.monotonic()) / (len(open_) - number)
            found = _has_plan(rest, solve, seconds, options, plans)
            if found is None:
                unknown.append(name)
            elif not found:
                needed.remove(name)
        open_ = unknown
    told: dict[str, Any] = {"of": needed, "minimal": not open_}
    left = until - time.monotonic()
    if left > LEAST_SECONDS:
        alone = problem.keeping_only(needed)
        again = solve(alone, next(iter(_methods(alone))), time_limit=left, **options)
        if again.status == "infeasible" and again.confirmed_by is not None:
            told["confirmed_by"] = again.confirmed_by
    return told


def _methods(problem: Any) -> list[str]:
    """Return whom to ask whether a problem has a plan: who honours its constraints."""
    return (honouring(problem)[:MOST_METHODS] if problem.constraints else []) or ["auto"]


def _has_plan(
    problem: Any, solve: Solve, seconds: float, options: dict[str, Any], plans: list[Any]
) -> bool | None:
    """Return whether a problem has a plan, which is added to others; None where time does not tell."""
    if any(room_of(problem).violation(problem, plan) is None for plan in plans):
        return True
    if seconds < LEAST_SECONDS:
        return None
    methods = _methods(problem)
    for method in methods:
        stop, limit = threading.Event(), seconds / len(methods)
        try:
            found = solve(
                problem,
                method,
                time_limit=limit,
                confirm=False,
                on_plan=lambda *_, stop=stop: stop.set(),
                stop=stop,
                **options,
            )
        except TilewrightError:  # as one that does not take the problem
            continue
        if found.plan is not None:
            plans.append(found.plan)
            return True
        if found.status == "infeasible":
            return False
    return None
