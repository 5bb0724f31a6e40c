"""A memory in which buffers are allocated, written, read back and freed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.report import Violation

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class PlacedBuffers:
    """Buffers with lifetimes and places.

    Attributes
    ----------
    lower, upper : shape (buffers,)
        First time unit in which each lives, and the first in which it does not any more.
    size, offsets : shape (buffers,)
        Addresses that each takes, from which one on.
    """

    names: Sequence[str]
    lower: Numbers
    upper: Numbers
    size: Numbers
    offsets: Numbers


class BufferMemory:
    """The memory and what lives in it.

    Parameters
    ----------
    capacity
        Its addresses; None for any number.
    alignment
        Every buffer begins at a multiple of this.
    seed
        Of random integers that are written to each buffer when it is allocated, and must be read back when it
        is freed; None for none.

    Attributes
    ----------
    height
        One more than the highest address in use so far.
    footprint
        Addresses in use after each allocation of buffers that begin together.
    unchanged
        Whether all that was read back is what was written.
    """

    def __init__(
        self, buffers: PlacedBuffers, capacity: int | None, alignment: int, seed: int | None = None
    ) -> None:
        self.buffers, self.capacity, self.alignment = buffers, capacity, alignment
        self.height, self.unchanged = 0, True
        self.footprint: list[int] = []
        self._live: list[int] = []
        self._random = None if seed is None else np.random.default_rng(seed)
        # Addresses between two multiples of this belong together: one value is enough for them.
        self._cell = gcd(*buffers.offsets.tolist(), *buffers.size.tolist())
        highest = int((buffers.offsets + buffers.size).max())
        self._cells = np.zeros(0 if seed is None else highest // self._cell, dtype=np.int64)
        self._written: dict[int, Any] = {}

    def _place(self, buffer: int) -> tuple[int, int]:
        begin = int(self.buffers.offsets[buffer])
        return begin, begin + int(self.buffers.size[buffer])

    def free(self, now: int) -> None:
        """Free the buffers that do not live any more, reading them back."""
        for buffer in [one for one in self._live if self.buffers.upper[one] <= now]:
            self._live.remove(buffer)
            if self._random is not None:
                begin, end = (address // self._cell for address in self._place(buffer))
                self.unchanged &= np.array_equal(self._cells[begin:end], self._written.pop(buffer))

    def allocate(self, now: int, step: int) -> Violation | None:
        """Allocate the buffers that begin to live in a step; return what is in their way."""
        for buffer in np.flatnonzero(self.buffers.lower == now).tolist():
            hindrance = self._hindrance(buffer, step)
            if hindrance is not None:
                return hindrance
            begin, end = self._place(buffer)
            self._live.append(buffer)
            self.height = max(self.height, end)
            if self._random is not None:
                first, last = begin // self._cell, end // self._cell
                self._written[buffer] = self._random.integers(-(2**31), 2**31, last - first)
                self._cells[first:last] = self._written[buffer]
        self.footprint.append(sum(int(self.buffers.size[one]) for one in self._live))
        return None

    def _hindrance(self, buffer: int, step: int) -> Violation | None:
        """Say why a buffer cannot be allocated."""
        name, (begin, end) = self.buffers.names[buffer], self._place(buffer)
        if begin % self.alignment:
            needed = f"a multiple of {self.alignment}"
            return Violation("alignment", step, name, needed, f"address {begin}")
        if self.capacity is not None and end > self.capacity:
            needed = f"addresses below {self.capacity}"
            return Violation("capacity", step, name, needed, f"{begin} to {end - 1}")
        for other in self._live:
            first, last = self._place(other)
            if begin < last and first < end:
                needed = f"addresses {begin} to {end - 1} free at time {self.buffers.lower[buffer]}"
                found = f"{self.buffers.names[other]} at {first} to {last - 1}"
                return Violation("overlap", step, name, needed, found)
        return None
