"""What all drivers do alike: keep the best plan and bound, compare numbers, watch the clock."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tilewright.core.context import Outcome, RunContext, Status
from tilewright.core.cutoffs import foreign
from tilewright.core.room import room_of
from tilewright.spec.errors import Disagreement, OutOfTimeError


class Run:
    """The state of one run of a solver.

    Parameters
    ----------
    problem, search
        As the driver got them; the problem's room gives ``objective(problem, plan)``.
    """

    def __init__(self, problem: Any, search: RunContext) -> None:
        self.problem, self.search = problem, search
        self.room = room_of(problem)
        self.objective = self.room.objective
        self.start_valid = search.start is not None and self.room.violation(problem, search.start) is None
        self.plan: Any = None
        self.value: int | None = None
        self.bound: int | None = search.bound

    def found(self, plan: Any, value: int | None, *, at_most: bool = False) -> None:
        """Take a solution: recompute its objective, pass it on if it is better.

        Parameters
        ----------
        value
            What the solver said it costs; None if it said nothing.
        at_most
            Whether the plan may cost less: the solver's variables need not be tight before the optimum.
        """
        cost = self.objective(self.problem, plan)
        if value is not None and (cost > value or (cost < value and not at_most)):
            raise Disagreement(f"the solver's objective is {value}, but its plan costs {cost}")
        if self.value is None or cost < self.value:
            self.plan, self.value = plan, cost
            self.search.on_plan(plan)

    def excluded(self, model: str, where: str) -> str:
        """Return what is told of a valid start that a model of the user's own excludes, as it may.

        Parameters
        ----------
        model
            Name of the formulation.
        where
            The constraint that the start breaks, or what else is known.

        Raises
        ------
        Disagreement
            If the model is ours, which must not.
        """
        if foreign():
            return f"the model {model} excludes it: {where}"
        raise Disagreement(f"the model {model} excludes a start that is valid: {where}")

    def proved(self, bound: int) -> None:
        """Take a lower bound; pass it on if it is better."""
        if self.bound is None or bound > self.bound:
            self.bound = bound
            self.search.on_bound(bound)

    @property
    def closed(self) -> bool:
        """Whether the best plan meets the best bound."""
        return self.value is not None and self.bound is not None and self.value <= self.bound

    @property
    def over(self) -> bool:
        """Whether to stop: everything is proven or the time is up."""
        return self.closed or self.search.remaining() <= 0

    def outcome(self, *, infeasible: bool = False, **facts: Any) -> Outcome:
        """Return what is known at the end."""
        status: Status = "unknown"
        if self.plan is not None:
            status = "optimal" if self.closed else "feasible"
        elif infeasible:
            status = "infeasible"
        # A narrower problem than that of the plan may have a bound above what the plan costs.
        if self.bound is not None and self.value is not None and self.bound > self.value and not foreign():
            raise Disagreement(f"a bound of {self.bound} was proven, but a plan costs {self.value}")
        return Outcome(status=status, plan=self.plan, bound=self.bound, **facts)


@contextmanager
def interrupted_at_deadline(search: RunContext) -> Iterator[None]:
    """Raise `OutOfTimeError` in the block when the deadline passes.

    Building a model is Python code of the formulation, which knows no clock; an alarm ends it. Outside
    the main thread, where alarms cannot be had, the block runs to its end. No garbage is collected in
    the block: what is built lives on, and an exception out of a collection would be lost.
    """
    seconds = search.remaining()
    if seconds <= 0:
        raise OutOfTimeError
    if threading.current_thread() is not threading.main_thread() or seconds == float("inf"):
        yield
        return

    passed = False

    def stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal passed
        passed = True
        raise OutOfTimeError

    before = signal.signal(signal.SIGALRM, stop)
    collecting = gc.isenabled()
    gc.disable()
    # Again and again, since an exception out of a destructor is lost as well.
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)
    try:
        yield
    except Exception as error:
        if passed:  # libraries make errors of their own of what interrupts them
            raise OutOfTimeError from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if collecting:
            gc.enable()
