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

TOO_MUCH = 8 * GROWTH
"""How many times more work it may be: then it is given up, and one that goes less far is begun."""

LITTLE = 2000
"""Work of which it does not matter how much it is."""


class Deepening:
    """The limits of searches, one after the other.

    Attributes
    ----------
    most_work
        Work after which the next search is to be given up.
    """

    def __init__(self) -> None:
        self.most_work = 2**60
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
        if not ended:
            self._given_up, self.most_work = limit, GROWTH * self.most_work
            return
        work = max(work, LITTLE)
        if self._last is not None:
            before, cost = self._last
            growth = log(max(work, 2 * cost) / cost)
            self._step = int((limit - before) * log(GROWTH) / growth)
        self._last = limit, work
        self.most_work = TOO_MUCH * work
