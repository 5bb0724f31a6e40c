"""How the searches for grouping share the time: each advances in turns, and the one that is due goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class SearchParams:
    """How the searches share the time; no choice changes what is proven.

    Attributes
    ----------
    max_groups
        Most first groups of chains, up to symmetry, for which tables are computed.
    first_slack
        Slack of the first tables: how far above the expected bounds chains are followed, in half units.
    growth, wider
        Expected ratio of the durations of two successive turns: of the search for plans, and of tables.
    idle, brief
        Penalise an unproductive turn for tables: if it took more than `brief` seconds, the expected duration
        of the next is `idle` times the last.
    patience
        A turn that takes longer than this times its expected duration is late: the other search goes on, and
        a turn that would refute several objectives at once is abandoned.
    leading
        The search for the fewest steps goes ahead while its next turn is expected to take at most this share
        of the remaining time.
    early
        After this share of the time it waits once for the others, so that a bound on all is proven soon.
    following
        A search for more steps that takes more than this share of the remaining time aims at a lower
        objective.
    """

    max_groups: int = 600_000
    first_slack: int = 0
    growth: float = 2.4
    wider: float = 4.0
    idle: float = 40.0
    brief: float = 1.0
    patience: float = 5.0
    leading: float = 0.15
    early: float = 0.01
    following: float = 0.6


PARAMS = SearchParams()


class TimedSearch:
    """A search that advances in turns, stage by stage, and its use of time in seconds.

    Attributes
    ----------
    patience
        A turn that takes longer than this times its expected duration is late.
    expected
        Expected duration of the present turn, or of the next one.
    used, spent
        Time used by the present turn, and spent on earlier ones.
    """

    def __init__(self, patience: float) -> None:
        self.patience, self.expected = patience, 0.1
        self.used = self.spent = 0.0
        self._stages: Iterator[object] | None = None

    @property
    def begun(self) -> bool:
        """Whether a turn has begun."""
        return self._stages is not None

    @property
    def due(self) -> float:
        """Time spent when this turn, or the next, will be over; a late turn may take as long again."""
        late = self.used > self.patience * self.expected
        return self.spent + (2 * self.used if late else self.expected)

    def begin(self, stages: Iterator[object]) -> None:
        """Begin a turn."""
        self._stages = stages

    def go_on(self) -> bool:
        """Advance the turn by a stage; return False if it was over.

        Raises
        ------
        OutOfTimeError, TooLargeError
        """
        began = time.monotonic()
        try:
            return self._stages is not None and next(self._stages, None) is not None
        finally:
            self.used += time.monotonic() - began

    def leave(self) -> None:
        """Abandon the turn, and keep the expected duration."""
        self.spent += self.used
        self.used = 0.0
        self._stages = None

    def end(self, growth: float) -> None:
        """End the turn, and expect the next one to take `growth` times as long."""
        self.expected = max(0.1, growth * self.used)
        self.leave()
