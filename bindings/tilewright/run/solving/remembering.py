"""What was found of parts: equal ones of a later problem need no search.

Used where many problems are alike, as the points of a sweep, and never where times are compared. Answers are
kept in this process, and in a file where several processes work on such problems.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple

from tilewright.core.context import Outcome, RunContext
from tilewright.core.room import room_of
from tilewright.core.version import __version__
from tilewright.run.instance import digest
from tilewright.run.solving.shared_answers import shared_answers
from tilewright.spec.errors import TilewrightError

MOST = 10_000
"""Parts that are remembered in this process."""

ALIKE = 1.1
"""By how much more time a run may have and still take what another one has not proven."""


class Known(NamedTuple):
    """What was found of a part.

    Attributes
    ----------
    bound
        The objective where that is proven optimal.
    seconds
        Those that the run had which did not prove it.
    """

    plan: Any
    objective: int
    bound: int
    seconds: float | None = None


_known: OrderedDict[str, Known] = OrderedDict()
_lock = Lock()


class Memory:
    """What is known of parts, for one run of a method.

    Parameters
    ----------
    context
        Of the run: its `remember` says whether anything is kept, and in which file. What is not proven serves
        runs with about the same time, the same seed and as many threads.
    """

    def __init__(self, context: RunContext) -> None:
        self.seconds = context.remaining()
        self.conditions = context.seed, context.threads
        self.file = shared_answers(context.remember) if isinstance(context.remember, str) else None
        self._open: dict[int, tuple[str, Any]] = {}

    def solve(
        self, method: str, part: Any, context: RunContext, run: Callable[[Any, RunContext], Outcome]
    ) -> Outcome:
        """Return what a method says of a part: what it said of an equal one, where that is known.

        Of several processes that ask for the same part, one searches, and the others wait for it.
        """
        key = _key(method, part, self.conditions[0])
        known = self._recall(key, part)
        if known is None:
            if self.file is None:
                return self._search(key, part, context, run)
            with self.file.claimed(key, context.deadline) as free:
                known = self._recall(key, part)
                if known is None:
                    return self._search(key, part, context, run) if free else Outcome("unknown")
        context.on_plan(known.plan)
        if known.seconds is None:
            return Outcome("optimal", known.plan, known.objective)
        return Outcome("feasible", known.plan, known.bound)

    def end(self, found: Callable[[Any], tuple[Any, int | None, int]]) -> None:
        """Remember the parts that were searched for, and not proven, until the run's time was up.

        Parameters
        ----------
        found
            Returns plan, objective and bound of a part.
        """
        for key, part in self._open.values():
            plan, objective, bound = found(part)
            if plan is not None and objective is not None:
                self._keep(self._unproven(key), Known(plan, objective, bound, self.seconds))

    def _search(
        self, key: str, part: Any, context: RunContext, run: Callable[[Any, RunContext], Outcome]
    ) -> Outcome:
        room = room_of(part)
        best = context.start

        def take(plan: Any) -> None:
            nonlocal best
            if best is None or room.objective(part, plan) <= room.objective(part, best):
                best = plan
            context.on_plan(plan)

        outcome = run(part, replace(context, on_plan=take))
        self._open[id(part)] = key, part
        if outcome.status in ("optimal", "infeasible"):
            del self._open[id(part)]
        if outcome.status == "optimal" and best is not None and room.violation(part, best) is None:
            value = room.objective(part, best)
            self._keep(key, Known(best, value, value))
        return outcome

    def _unproven(self, key: str) -> str:
        return _digest([key, "unproven", *self.conditions])

    def _recall(self, key: str, part: Any) -> Known | None:
        """Return what is known of a part under the conditions of this run."""
        known = self._find(key, part)
        if known is not None and known.seconds is None:
            return known
        known = self._find(self._unproven(key), part)
        if known is not None and known.seconds is not None and self.seconds <= ALIKE * known.seconds:
            return known
        return None

    def _find(self, key: str, part: Any) -> Known | None:
        with _lock:
            known = _known.get(key)
        if known is None and self.file is not None:
            known = _checked(self.file.get(key), part)
            if known is not None:
                _remember(key, known)
        return known

    def _keep(self, key: str, known: Known) -> None:
        _remember(key, known)
        if self.file is not None:
            self.file.append(key, {**known._asdict(), "plan": known.plan.to_json()})


def _checked(data: dict[str, Any] | None, part: Any) -> Known | None:
    """Return what a file says of a part, if its plan is one of that cost."""
    if data is None:
        return None
    room = room_of(part)
    try:
        plan = room.plan_type.from_json(data["plan"])
        known = Known(plan, data["objective"], data["bound"], data["seconds"])
        if room.violation(part, plan) is None and room.objective(part, plan) == known.objective:
            return known
    except (TilewrightError, KeyError, TypeError, ValueError):
        pass
    return None


def _remember(key: str, known: Known) -> None:
    with _lock:
        _known.pop(key, None)
        _known[key] = known
        if len(_known) > MOST:
            _known.popitem(last=False)


def _key(method: str, part: Any, seed: int) -> str:
    """Return a digest of all that the answer depends on, if it is proven."""
    return _digest([digest(room_of(part).name, part), method, seed, __version__])


def _digest(content: list[Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
