"""Parts that this process has solved to the optimum: equal ones of a later problem need no search.

Used where many problems are alike, as the points of a sweep, and never where times are compared.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from typing import Any

from tilewright.core.context import Outcome, RunContext
from tilewright.core.room import room_of
from tilewright.run.instance import digest

MOST = 10_000
"""Parts that are remembered."""

_known: OrderedDict[tuple[str, str], tuple[Any, int]] = OrderedDict()
_lock = Lock()


def remembered(
    method: str, part: Any, context: RunContext, run: Callable[[Any, RunContext], Outcome]
) -> Outcome:
    """Return what a method says of a part: what it said of an equal one, if it proved that optimal."""
    room = room_of(part)
    key = method, digest(room.name, part)
    with _lock:
        known = _known.get(key)
    if known is not None:
        plan, value = known
        context.on_plan(plan)
        return Outcome("optimal", plan, value)
    best = context.start

    def take(plan: Any) -> None:
        nonlocal best
        if best is None or room.objective(part, plan) <= room.objective(part, best):
            best = plan
        context.on_plan(plan)

    outcome = run(part, replace(context, on_plan=take))
    if outcome.status == "optimal" and best is not None and room.violation(part, best) is None:
        with _lock:
            _known[key] = best, room.objective(part, best)
            if len(_known) > MOST:
                _known.popitem(last=False)
    return outcome
