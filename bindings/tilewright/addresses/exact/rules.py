"""What the searches that take turns prefer."""

from __future__ import annotations

from typing import NamedTuple

LOWEST, TIGHTEST, FULLEST = 0, 1, 2
"""Which of the lowest places is taken first: any; one in the section with the least room to spare; or one in
the section that had the most to be placed when the buffers fell apart into parts."""


class SearchRule(NamedTuple):
    """What a search prefers.

    Attributes
    ----------
    place
        Which place is taken first.
    order
        Of the buffers that may lie there, the one that has the most of these, one after the other.
    raises
        Most offsets raised between two decisions, for each buffer: bounds can chase each other for long.
    """

    place: int
    order: str
    raises: float


RULES = (
    SearchRule(FULLEST, "length area", 1 / 8),
    SearchRule(LOWEST, "area length size", 1 / 8),
    SearchRule(TIGHTEST, "area total length", 4),
    SearchRule(FULLEST, "area length", 1 / 8),
    SearchRule(LOWEST, "total length area", 4),
    SearchRule(TIGHTEST, "total length area", 4),
    SearchRule(TIGHTEST, "size length area", 4),
)
"""The searches that take turns: no single one is good everywhere.

Few raises make many decisions a second, many raises make few decisions. The orders by the fullest section
are MiniMalloc's (Moffitt 2023).
"""
