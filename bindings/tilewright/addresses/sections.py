"""Sections of time: the largest sets of buffers that live together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Sections:
    """The largest sets of buffers that live together, in the order of time.

    Two buffers live at the same time if and only if there is a section that has both.

    Attributes
    ----------
    times : shape (sections,)
        A time at which exactly the buffers of a section live.
    first, last : shape (buffers,)
        The sections that a buffer lives in, the last exclusive.
    """

    times: Numbers
    first: Numbers
    last: Numbers

    @classmethod
    def of(cls, lower: Numbers, upper: Numbers) -> Sections:
        """Return the sections of buffers that live from `lower` to `upper`, exclusive."""
        starts, ends = np.unique(lower), np.sort(upper)
        ended = np.searchsorted(ends, starts, side="right")
        # With a start after which none ends before the next one, there is a larger set at that next one.
        times = starts[np.append(ended[1:] > ended[:-1], True)] if len(starts) else starts
        return cls(times, np.searchsorted(times, lower), np.searchsorted(times, upper))

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self.times)

    @cached_property
    def members(self) -> tuple[Numbers, Numbers]:
        """Buffers of all sections, one section after the other, and where each one's begin."""
        live = [np.flatnonzero((self.first <= one) & (one < self.last)) for one in range(self.number)]
        return _joined(live)

    @cached_property
    def neighbours(self) -> tuple[Numbers, Numbers]:
        """The other buffers that each one lives with, and where each one's begin."""
        found = []
        for buffer, (first, last) in enumerate(zip(self.first, self.last, strict=True)):
            together = (self.first < last) & (first < self.last)
            together[buffer] = False
            found.append(np.flatnonzero(together))
        return _joined(found)

    def totals(self, amounts: Numbers) -> Numbers:
        """Return the sum of an amount of each section's buffers."""
        change = np.zeros(self.number + 1, dtype=np.int64)
        np.add.at(change, self.first, amounts)
        np.subtract.at(change, self.last, amounts)
        return np.cumsum(change[:-1])

    def largest(self, amounts: Numbers) -> Numbers:
        """Return the largest amount of each section's buffers."""
        members, begins = self.members
        return np.maximum.reduceat(amounts[members], begins[:-1]) if len(members) else np.zeros(0, np.int64)

    def most_over(self, amounts: Numbers) -> Numbers:
        """Return for each buffer the largest amount of the sections that it lives in."""
        return np.array(
            [amounts[first:last].max() for first, last in zip(self.first, self.last, strict=True)],
            dtype=np.int64,
        )


def _joined(lists: list[Numbers]) -> tuple[Numbers, Numbers]:
    begins = np.zeros(len(lists) + 1, dtype=np.int64)
    np.cumsum([len(one) for one in lists], out=begins[1:])
    return (np.concatenate(lists) if lists else np.zeros(0, dtype=np.int64)), begins
