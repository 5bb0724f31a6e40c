"""What ``auto`` runs of a room: one part that improves plans, and one that proves."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.core.context import CONSTRUCT


@dataclass(frozen=True)
class Portfolio:
    """The parts of ``auto`` for one problem; each runs from the beginning to the end, beside the other.

    There are two and no more: each is then as far as it would be alone in half the time.

    Attributes
    ----------
    improving : str
        The heuristic that improves plans until time is up, begun from the best constructive plan; or
        `CONSTRUCT`, where no heuristic improves plans and proving needs no plan to start from.
    proving : str, optional
        The method that proves, None where there is none that takes the problem.
    alone
        Whether what proves needs nothing beside it, as it also gives the plan of a constructive heuristic.
    chooses
        Whether what proves is waited for although plan and bound meet, as it chooses among the best plans.
    """

    improving: str
    proving: str | None = None
    alone: bool = False
    chooses: bool = False

    @property
    def constructs_first(self) -> bool:
        """Whether the constructive heuristics run before both parts, rather than being one of them."""
        return self.improving != CONSTRUCT

    @property
    def methods(self) -> tuple[str, ...]:
        """All that ``auto`` may run, the constructive heuristics as one method."""
        return tuple(dict.fromkeys((CONSTRUCT, self.improving, *((self.proving,) if self.proving else ()))))
