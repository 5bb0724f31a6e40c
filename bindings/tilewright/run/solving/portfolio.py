"""Which methods a run is made of, one after the other."""

from __future__ import annotations

from typing import Any

from tilewright.run.methods import (
    proves,
    takes_start,
)
from tilewright.run.solving.options import Method
from tilewright.run.solving.run import Run
from tilewright.run.solving.start import starting_plan
from tilewright.spec.errors import InputError


def run_phases(run: Run, method: str | Method, warm_start: Any) -> None:
    """Run a method, or the room's portfolio, from the start that was asked for."""
    room, incumbent = run.room, run.incumbent
    if callable(method):
        run.call(method, starting_plan(run, "none" if warm_start == "auto" else warm_start))
    elif incumbent.infeasible and (method == "auto" or proves(room.name, method)):
        run.look_at(method)
    elif method == "auto":
        run_portfolio(run, warm_start)
    elif takes_start(room.name, method):
        # Who needs no start gets none, and who has one only where it helps.
        if warm_start != "auto" or not run.try_here(method, None, run.deadline):
            run.phase([method], starting_plan(run, warm_start), here=warm_start != "auto")
    elif warm_start not in ("auto", "none", None):
        raise InputError("warm_start", str(warm_start), f"{method} takes no start")
    else:
        run.phase([method], None)


def run_portfolio(run: Run, warm_start: Any) -> None:
    """Run the room's portfolio, from the start that was asked for."""
    parts = run.room.portfolio(run.incumbent.problem)
    # Heuristics come first, unless they are a part themselves.
    starts = warm_start != "auto" or parts.constructs_first
    start = starting_plan(run, warm_start) if starts else None
    run.portfolio(parts, start)
    if parts.alone and parts.proving is not None and run.incumbent.plan is None and not run.incumbent.closed:
        run.find_any_plan(parts.proving)
