"""The problem without its constraints: its cost is a bound, and some of its plans keep the constraints."""

from __future__ import annotations

import time
from typing import Any

from tilewright.run.solving.incumbent import Incumbent
from tilewright.run.solving.portfolio import run_portfolio
from tilewright.run.solving.run import Run
from tilewright.run.solving.second_route import honouring
from tilewright.run.solving.start import starting_plan
from tilewright.spec.errors import TilewrightError

SHARE = 0.3
"""Share of the time for the problem without its constraints, where there is a method that honours them."""

MOST_METHODS = 2
"""How many methods that honour the constraints run side by side at most."""


def run_constrained(run: Run, warm_start: Any) -> dict[str, Any] | None:
    """Run ``auto`` on a problem with constraints.

    First the room's portfolio runs without them: its bound holds, and of its plans those count that keep the
    constraints. Then the methods run that honour them.

    Returns
    -------
    dict, optional
        ``objective``, ``bound`` and ``seconds`` of the problem without its constraints; None without a plan.
    """
    methods = honouring(run.incumbent.problem)
    start = starting_plan(run, warm_start)
    relaxed = _search_without(run, SHARE if methods else 1.0)
    if methods and not run.incumbent.closed:
        run.optional = True
        run.phase(methods[: max(1, min(MOST_METHODS, run.threads))], run.incumbent.plan or start)
    return relaxed


def _search_without(run: Run, share: float) -> dict[str, Any] | None:
    incumbent, began = run.incumbent, time.monotonic()
    problem = incumbent.problem.without_constraints()
    found = Incumbent(run.room, problem, began, lambda plan, _objective: incumbent.offer(plan))
    own = run.room.best_bound(problem)
    found.raise_bound(own.value, str(own))
    found.infeasible = own.impossible is not None
    again = Run(found, run.quiet_options)
    again.part_bounds, again.simulation_seconds = own.parts, run.simulation_seconds
    again.deadline = again.latest = began + share * (run.deadline - began)
    try:
        with run.in_phase("relaxing"):
            run_portfolio(again, incumbent.plan or "auto")
    except TilewrightError as error:  # what is asked for may be found all the same
        run.failures.append(f"without the constraints: {error}")
    finally:
        run.let_clock_stand(again.stood)
        run.versions |= again.versions
        if found.plan is not None:  # also one of equal cost, which replaced that which was told
            incumbent.offer(found.plan)
        if found.infeasible:
            incumbent.infeasible, incumbent.infeasible_by = True, found.infeasible_by
        if found.bound is not None and found.bound_by is not None and not found.infeasible:
            incumbent.raise_bound(found.bound, found.bound_by, found.grounds)
    if found.objective is None or found.bound is None:
        return None
    seconds = round(time.monotonic() - began - again.stood, 3)
    return {"objective": found.objective, "bound": found.bound, "seconds": seconds}
