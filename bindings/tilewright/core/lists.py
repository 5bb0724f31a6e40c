"""Lists of objectives, for methods that minimise one: one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilewright.core.context import Outcome, RunContext
from tilewright.core.room import room_of


def solve_in_turn(problem: Any, context: RunContext, solve: Callable[[Any, RunContext], Outcome]) -> Outcome:
    """Minimise the objectives of a list one after the other, with a method that knows one of them.

    Where one before the last is not proven, later ones may cost less than they should: bounds hold, and
    nothing is optimal.
    """
    room, least, proven = room_of(problem), dict[str, int](), True

    def solved(stage: Any, own: RunContext) -> Outcome:
        fits = own.start is not None and room.violation(stage, own.start) is None
        return solve(stage, own if fits else replace(own, start=None))

    quiet = replace(context, bound=None, on_plan=_ignore, on_bound=_ignore)
    for name, _ in problem.before:
        stage = problem.stage(least)
        outcome = solved(stage, quiet)
        if outcome.plan is None:
            impossible = proven and outcome.status == "infeasible"
            return replace(outcome, status="infeasible" if impossible else "unknown", bound=None)
        least[name] = room.objective(stage, outcome.plan)
        proven &= outcome.status == "optimal"
    if not proven:
        context.on_unproven()
    outcome = solved(problem.stage(least), context)
    if proven:
        return outcome
    return replace(outcome, status="feasible" if outcome.plan is not None else "unknown")


def _ignore(*_values: Any) -> None:
    """Take a report that nobody waits for."""
