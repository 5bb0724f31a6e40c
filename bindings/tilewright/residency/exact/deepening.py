"""Limits for searches that go further and further: what plans may move beyond what they must.

What a search of all states costs grows exponentially with its limit. So the limits are chosen such that each
search is some times the work of the one before: together they cost little more than the last one, which looks
no further than it must.
"""

from __future__ import annotations

from math import log

FIRST = 64
"""At first a search goes this part of the way to the best plan known further than the one before."""

GROWTH = 3
"""How many times more work a search shall be than the one before."""

TOO_MUCH = 4 * GROWTH
"""How many times more work it may be: then it is given up, and one that goes less far is begun."""

LITTLE = 32
"""Work that is less than this part of all that has been done is little, however much it is."""

LEAST_GROWTH = 1.5
"""How many times more work than the one before a search is taken to have been, at least."""

AT_FIRST = 10**5
"""Work that the first search may be."""


class Deepening:
    """The limits of searches, one after the other.

    Attributes
    ----------
    most_work
        Work after which the next search is to be given up.
    """

    def __init__(self) -> None:
        self.most_work, self._all = AT_FIRST, 1
        self._last: tuple[int, int] | None = None
        self._step: int | None = None
        self._given_up = -1

    def limit(self, least: int, most: int) -> int:
        """Return the limit of the next search.

        Parameters
        ----------
        least
            No plan moves less.
        most
            More is not worth looking for.
        """
        if self._given_up > least:
            return (least + self._given_up) // 2
        step = (most - least) // FIRST if self._step is None else self._step
        return min(most, least + max(1, step))

    def told(self, limit: int, work: int, *, ended: bool) -> None:
        """Take what a search with a limit has cost, and whether it has ended or was given up."""
        self._all += work
        if not ended:
            self._given_up, self.most_work = limit, GROWTH * self.most_work
            return
        work = max(work, self._all // LITTLE, 1)
        if self._last is not None:
            before, cost = self._last
            self._step = int((limit - before) * log(GROWTH) / log(max(work / cost, LEAST_GROWTH)))
        self._last, self._given_up = (limit, work), -1
        self.most_work = TOO_MUCH * work
