"""What the exact search on a DSP may do at a time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchParams:
    """How the search divides its work; no choice changes what it proves.

    Attributes
    ----------
    block
        Most tiles, whether they fit or not, that are looked at together, which bounds the memory.
    patience
        Seconds past a deadline for which a first plan is still looked for.
    tie_seconds
        How long it may take, at least, to choose among the best plans; else as long as they took to be found.
    keys
        By how many of the costs, the objective first, tiles are sorted before they are looked at.
    """

    block: int = 4_000_000
    patience: float = 0.2
    tie_seconds: float = 1.0
    keys: int = 3


PARAMS = SearchParams()
