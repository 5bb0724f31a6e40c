"""What the seconds of a run were spent on: each moment counts for one thing, so that they add up."""

from __future__ import annotations

import time
from itertools import pairwise

PHASES = (
    "solving",
    "building",
    "constructing",
    "starting",
    "bounding",
    "confirming",
    "widening",
    "relaxing",
    "simulating",
)
"""What a run does. Where processes work side by side, a moment counts for the first of these."""


class Phases:
    """What the processes of a run do, and since when.

    A source is a process, or the part of this one that runs a method; it does one thing at a time.
    """

    def __init__(self) -> None:
        self._told: dict[object, list[tuple[float, str | None]]] = {}

    def tell(self, source: object, phase: str | None, at: float | None = None) -> None:
        """Note what a source does from a moment on, by default from now; None when it has ended."""
        self._told.setdefault(source, []).append((time.monotonic() if at is None else at, phase))

    def end_all(self) -> None:
        """Note that every source has ended."""
        for source, told in self._told.items():
            if told[-1][1] is not None:
                self.tell(source, None)

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each phase that took any."""
        now = time.monotonic()
        spans = []
        for told in self._told.values():
            ordered = sorted(told, key=lambda one: one[0])
            for (begin, phase), (end, _) in zip(ordered, [*ordered[1:], (now, None)], strict=True):
                if phase is not None and end > begin:
                    spans.append((begin, end, PHASES.index(phase)))
        found = dict.fromkeys(PHASES, 0.0)
        moments = sorted({moment for begin, end, _ in spans for moment in (begin, end)})
        for begin, end in pairwise(moments):
            at_work = [phase for first, last, phase in spans if first <= begin and end <= last]
            if at_work:
                found[PHASES[min(at_work)]] += end - begin
        return {phase: round(seconds, 3) for phase, seconds in found.items() if round(seconds, 3)}
