"""The searches that take turns."""

from __future__ import annotations

from typing import NamedTuple

LOWEST, TIGHTEST, FULLEST = 0, 1, 2
"""Which of the lowest places is taken first: any; one in the section with the least room to spare; or one in
the section that had the most to be placed when the buffers fell apart into parts."""


class Way(NamedTuple):
    """A way to search.

    Attributes
    ----------
    rule
        A rule of `kernel`.
    order
        Of the buffers that the rule leaves, the one that has the most of these, one after the other.
    raises
        Most offsets raised between two decisions, for each buffer: bounds can chase each other for long.
    """

    rule: int
    order: str
    raises: float


WAYS = (
    Way(FULLEST, "length area", 1 / 8),
    Way(LOWEST, "area length size", 1 / 8),
    Way(TIGHTEST, "area total length", 4),
    Way(FULLEST, "area length", 1 / 8),
    Way(LOWEST, "total length area", 4),
    Way(TIGHTEST, "total length area", 4),
    Way(TIGHTEST, "size length area", 4),
)
"""The searches that take turns: no single one is good everywhere.

Few raises make many decisions a second, many raises make few decisions. The orders by the fullest section
are MiniMalloc's (Moffitt 2023).
"""
