"""A memory with addresses: every cell knows which element it holds, so that a lost one is noticed when read.

Elements have numbers: those of all tensors one after the other. A cell that something else has been written
to holds another number, whatever the plan believes to be there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.program import Values

Numbers = NDArray[np.int64]

NOTHING = -1
"""What a cell holds that nothing has been written to."""


class LostError(Exception):
    """An element is not where it is read.

    Attributes
    ----------
    tensor
        Whose element is read.
    needed, found
        The element and its address, and what is there.
    """

    def __init__(self, tensor: str, needed: str, found: str) -> None:
        super().__init__(f"{tensor}: needed {needed}, found {found}")
        self.tensor, self.needed, self.found = tensor, needed, found


class Elements:
    """Numbers of the elements of some tensors, one tensor after the other.

    Parameters
    ----------
    names, sizes
        Of the tensors.
    """

    def __init__(self, names: Sequence[str], sizes: Sequence[int]) -> None:
        self.names = tuple(names)
        self.firsts = [0]
        for size in sizes:
            self.firsts.append(self.firsts[-1] + size)

    def of(self, tensor: int, places: Any) -> Numbers:
        """Return the numbers of places in a tensor."""
        return np.asarray(places, dtype=np.int64) + self.firsts[tensor]

    def told(self, number: int) -> tuple[str, str]:
        """Return a tensor's name and which of its elements a number stands for."""
        if number == NOTHING:
            return "nothing", "nothing"
        tensor = bisect_right(self.firsts, number) - 1
        name = self.names[tensor]
        return name, f"element {number - self.firsts[tensor]} of {name}"


class AddressedMemory:
    """The memory on chip.

    Parameters
    ----------
    capacity
        Cells, of an element each.
    elements
        What they can hold.
    valued
        Whether their values are kept, too; else all are zero.
    """

    def __init__(self, capacity: int, elements: Elements, *, valued: bool = True) -> None:
        self.capacity, self.elements, self.valued = capacity, elements, valued
        self._held = np.full(0, NOTHING, dtype=np.int64)
        self._values = np.zeros(0, dtype=np.int64)

    def store(self, cells: Numbers, numbers: Numbers, values: Values | None = None) -> None:
        """Put elements into cells, over whatever was there.

        Raises
        ------
        LostError
            If a cell lies outside of the memory.
        """
        if not cells.size:
            return
        low, high = int(cells.min()), int(cells.max())
        if low < 0 or high >= self.capacity:
            name, what = self.elements.told(int(numbers.flat[0]))
            outside = low if low < 0 else high
            raise LostError(name, f"addresses from 0 to {self.capacity - 1} for {what}", f"address {outside}")
        if high >= len(self._held):  # a large memory that is hardly used takes no room here
            more = max(high + 1, min(self.capacity, 2 * len(self._held))) - len(self._held)
            self._held = np.concatenate([self._held, np.full(more, NOTHING, dtype=np.int64)])
            self._values = np.concatenate([self._values, np.zeros(more, dtype=np.int64)])
        self._held[cells] = numbers
        if values is not None and self.valued:
            self._values[cells] = values

    def forget(self, kept: Sequence[range]) -> None:
        """Have nothing in any cell but those of some ranges."""
        held = np.full_like(self._held, NOTHING)
        for cells in kept:
            held[cells.start : cells.stop] = self._held[cells.start : cells.stop]
        self._held = held

    def fetch(self, cells: Numbers, numbers: Numbers) -> Values:
        """Return the values of elements that must be in cells.

        Raises
        ------
        LostError
            If something else is there.
        """
        if not cells.size:
            return np.zeros(cells.shape, dtype=np.int64)
        if int(cells.min()) >= 0 and int(cells.max()) < len(self._held):
            there = self._held[cells]
            wrong = there != numbers
            if not wrong.any():
                return self._values[cells] if self.valued else np.zeros(cells.shape, dtype=np.int64)
            place = np.unravel_index(int(wrong.argmax()), wrong.shape)
            found = self.elements.told(int(there[place]))[1]
        else:
            outside = (cells < 0) | (cells >= len(self._held))
            place, found = np.unravel_index(int(outside.argmax()), outside.shape), "nothing"
        name, needed = self.elements.told(int(numbers[place]))
        raise LostError(name, f"{needed} at address {int(cells[place])}", found)


class Dram:
    """What is behind it: which elements have been written, and what is moved."""

    def __init__(self, elements: Elements, *, valued: bool = True) -> None:
        self.elements, self.valued = elements, valued
        self._there = np.zeros(elements.firsts[-1], dtype=bool)
        self._values = np.zeros(elements.firsts[-1], dtype=np.int64)
        self.loaded: dict[str, int] = {}
        self.written: dict[str, int] = {}

    def give(self, tensor: int, values: Values | None = None) -> None:
        """Have a tensor there from the beginning."""
        span = slice(self.elements.firsts[tensor], self.elements.firsts[tensor + 1])
        self._there[span] = True
        if values is not None:
            self._values[span] = values.reshape(-1)

    def forget(self, tensor: int) -> None:
        """Have nothing of a tensor."""
        self._there[self.elements.firsts[tensor] : self.elements.firsts[tensor + 1]] = False

    def load(self, numbers: Numbers) -> Values:
        """Return the values of elements of one tensor, which must be there.

        Raises
        ------
        LostError
            If one is not.
        """
        if not numbers.size:
            return np.zeros(numbers.shape, dtype=np.int64)
        name, _ = self.elements.told(int(numbers.flat[0]))
        there = self._there[numbers]
        if not there.all():
            missing = int(numbers.reshape(-1)[int((~there).reshape(-1).argmax())])
            raise LostError(name, f"{self.elements.told(missing)[1]} in DRAM", "it was not written there")
        self.loaded[name] = self.loaded.get(name, 0) + numbers.size
        return self._values[numbers] if self.valued else np.zeros(numbers.shape, dtype=np.int64)

    def write(self, numbers: Numbers, values: Values) -> None:
        """Take elements of one tensor."""
        if not numbers.size:
            return
        name, _ = self.elements.told(int(numbers.flat[0]))
        self.written[name] = self.written.get(name, 0) + numbers.size
        self._there[numbers] = True
        if self.valued:
            self._values[numbers] = values

    def values(self, tensor: int) -> Values | None:
        """Return all values of a tensor, None if some are missing."""
        span = slice(self.elements.firsts[tensor], self.elements.firsts[tensor + 1])
        return self._values[span] if self._there[span].all() else None
