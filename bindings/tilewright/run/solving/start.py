"""The plan that methods start from."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tilewright.core import catalogue
from tilewright.core.room import check_plan
from tilewright.run.instance import digest
from tilewright.run.result import Result
from tilewright.run.solving.run import Run
from tilewright.spec.errors import (
    InputError,
    UnknownNameError,
)

CONSTRUCTION_SHARE, CONSTRUCTION_SECONDS = 0.3, 2.0
"""Share of the time, or seconds, that constructive heuristics may take before what starts from them."""

PATIENCE_SHARE = 0.5
"""Share of the time that they may take as long as there is no plan at all, as on a busy machine."""


def starting_plan(run: Run, warm_start: Any) -> Any:
    """Turn what the user named into a plan, or None."""
    incumbent = run.incumbent
    if warm_start is None or warm_start == "none":
        return None
    if isinstance(warm_start, Result | str | Path):
        # Heuristics must leave time for what starts from them.
        now = time.monotonic()
        until = now + max(CONSTRUCTION_SECONDS, CONSTRUCTION_SHARE * (run.deadline - now))
        if isinstance(warm_start, str) and warm_start == "auto":
            run.construct(until, max(until, now + PATIENCE_SHARE * (run.deadline - now)))
            return incumbent.plan
        if isinstance(warm_start, str) and warm_start in catalogue.heuristics(run.room.name):
            run.phase([warm_start], None, until)
            if incumbent.plan is None and incumbent.violation:
                raise InputError("warm_start", warm_start, f"gives no valid plan here: {incumbent.violation}")
            return incumbent.plan
        if not isinstance(warm_start, Result):
            if not Path(warm_start).is_file():
                raise UnknownNameError(
                    "warm start",
                    str(warm_start),
                    [*catalogue.heuristics(run.room.name), "auto", "none", "or a result file"],
                )
            warm_start = Result.read(warm_start, incumbent.problem)
        if warm_start.instance_sha256 != digest(run.room.name, incumbent.problem):
            raise InputError("warm_start", warm_start.instance, "is a result of another instance")
        if warm_start.plan is None:
            raise InputError("warm_start", warm_start.instance, "is a result without a plan")
        warm_start = warm_start.plan
    check_plan(incumbent.problem, warm_start)
    violation = incumbent.room.violation(incumbent.problem, warm_start)
    if violation is not None:
        raise InputError("warm_start", "plan", f"breaks a limit: {violation}")
    incumbent.offer(warm_start)
    return warm_start
