"""What a running method is told (start, seed, deadline) and whom it tells (plans, bounds)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from tilewright.spec.errors import InputError

MAX_SECONDS = 7 * 24 * 3600.0
"""Longest time limit that is accepted: a week."""

CONSTRUCT = "construct"
"""Name of the method that runs every constructive heuristic of the room in turn."""

Status = Literal["optimal", "feasible", "infeasible", "unknown"]


def _ignore(*_values: Any) -> None:
    """Take a report that nobody waits for."""


def _no_models(*_: Any) -> Any:
    raise NotImplementedError("models improve plans in a run of `tilewright.solve`")


@dataclass
class RunContext:
    """The conditions of one run of a method, and its line to the outside.

    Attributes
    ----------
    start
        Plan to start from, or None to start from nothing.
    seed
        Seed of every random choice.
    deadline
        ``time.monotonic()`` at which the method must have returned; checked often.
    latest
        Moment until which a method that has proven an optimum may choose among the best plans; by default the
        deadline.
    threads
        Most threads that a solver may use.
    bound
        A proven lower bound on the objective that is known already, or None; a plan that meets it ends
        the search.
    part_bounds
        Of a problem whose parts are solved one by one, the bounds on each that are known already.
    remember
        Whether parts are not solved again that equal one which this process has solved; or the file in which
        it and others keep them, too.
    on_plan, on_bound
        Called with every better plan and every better proven bound, as soon as it is known. A bound may come
        with a sentence on what proves it.
    on_unproven
        Called before plans are told of a list of objectives of which one before the last is not proven: then
        none is optimal, whatever the bound of the last one is.
    on_failure
        Called with a sentence when one of several heuristics fails.
    on_phase
        Called with what is done from now on: ``building`` a solver's model, or ``solving``; with a second
        argument, from that moment (``time.monotonic()``) on.
    improve
        Improves a plan by a model, part after part: `tilewright.drivers.neighbourhoods.improve`.
    """

    start: Any = None
    seed: int = 0
    deadline: float = float("inf")
    latest: float | None = None
    threads: int = 1
    bound: int | None = None
    part_bounds: tuple[int, ...] = ()
    remember: bool | str = False
    on_plan: Callable[[Any], None] = _ignore
    on_bound: Callable[..., None] = _ignore
    on_unproven: Callable[[], None] = _ignore
    on_failure: Callable[[str], None] = _ignore
    on_phase: Callable[..., None] = _ignore
    improve: Callable[..., Any] = _no_models

    def remaining(self) -> float:
        """Seconds until the deadline, never negative."""
        return max(0.0, self.deadline - time.monotonic())

    def until(self, share: float) -> float:
        """Return when a share of the time that is left is over, as ``time.monotonic()``."""
        return time.monotonic() + share * self.remaining()


@dataclass
class Outcome:
    """What a method answers: its best plan and what it proved about it.

    Raises
    ------
    InputError
        For a status that there is not.
    """

    status: Status
    plan: Any = None
    bound: int | None = None
    warm_start: str | None = None
    """How the solver acknowledged the start it was given, or None without one."""
    versions: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status not in get_args(Status):
            raise InputError("status", self.status, f"must be one of: {', '.join(get_args(Status))}")
