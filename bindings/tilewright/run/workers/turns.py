"""Let workers take turns on one thread: one works at a time, and the others are suspended as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

SLICE = 0.5
"""Seconds of a turn."""


class Suspendable(Protocol):
    """What can be suspended and resumed, until it has ended."""

    ended: bool

    def suspend(self) -> None:
        """Stop working, and keep everything."""

    def resume(self) -> None:
        """Go on."""


class Turns:
    """Who works, and until when.

    The first worker has the first turn and the last. So, at every moment, it has had at least its share of
    the time that is over; another has had at least that less the length of two turns.

    Parameters
    ----------
    workers
        Who takes turns; all are at work, and all but the first are suspended.
    now, deadline
        Of one clock, in seconds.
    """

    def __init__(self, workers: Sequence[Suspendable], now: float, deadline: float) -> None:
        self.first, self.queue, self.deadline = workers[0], list(workers), deadline
        self.until = now + SLICE
        for worker in workers[1:]:
            worker.suspend()

    def look(self, now: float) -> None:
        """End the turn if it is over or its worker has ended."""
        at_work = self.queue[0]
        if not at_work.ended and now < self.until:
            return
        waiting = self.queue[1:]
        last = now >= self.deadline - 2 * SLICE
        if last and not self.first.ended:
            self.queue = [self.first, *(worker for worker in self.queue if worker is not self.first)]
            self.until = self.deadline
        elif waiting:
            self.queue = [*waiting, at_work]
            self.until = now + SLICE
        self.queue = [worker for worker in self.queue if not worker.ended]
        if self.queue and self.queue[0] is not at_work:
            # In this order: one of them is always awake, and notices if the process that waits is gone.
            self.queue[0].resume()
            if not at_work.ended:
                at_work.suspend()
