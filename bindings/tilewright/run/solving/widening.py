"""What a larger space of plans gains than the one that was declared."""

from __future__ import annotations

import time
from typing import Any

from tilewright.core.room import Wider
from tilewright.run.solving.incumbent import Incumbent
from tilewright.run.solving.portfolio import run_portfolio
from tilewright.run.solving.run import Interrupted, Run
from tilewright.spec.errors import TilewrightError


def search_wider(run: Run, wider: Wider, kept: float) -> dict[str, Any] | None:
    """Return what is found in a larger space, in as long as the run took, or the time that was kept for it.

    Nothing where there is no plan, neither there nor here, or no time.
    """
    incumbent, began = run.incumbent, time.monotonic()
    if began >= run.deadline:
        return None
    bound = run.room.best_bound(wider.problem)
    found = Incumbent(run.room, wider.problem, began, None)
    found.raise_bound(bound.value, str(bound))
    if incumbent.plan is not None:
        found.offer(incumbent.plan)
    again = Run(found, run.quiet_options)
    again.part_bounds, again.simulation_seconds = bound.parts, run.simulation_seconds
    now = time.monotonic()
    again.deadline = min(run.deadline, now + max(kept, now - incumbent.started))
    try:
        with run.in_phase("widening"):
            run_portfolio(again, incumbent.plan)
    except TilewrightError as error:  # its own fault: what is declared has its answer
        run.failures.append(f"among {wider.space}: {error}")
    except (KeyboardInterrupt, Interrupted):
        pass  # which has its answer then, too
    finally:
        run.let_clock_stand(again.stood)
    if found.objective is None or found.bound is None:
        return None
    seconds = round(time.monotonic() - began - again.stood, 3)
    told = {"space": wider.space, "set": wider.setting}
    return told | {"objective": found.objective, "bound": found.bound, "seconds": seconds}
