"""What the accesses of a core to its memories cost, without DRAM: waits, energy, and traffic of a memory.

All of it depends on which memory a thing lies in. See docs/microcontrollers.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import add
from typing import NamedTuple

from tilewright.residency.cost import Prices, Spent
from tilewright.residency.machine import AccessPrices, OneMemory, memory_in


class Touched(NamedTuple):
    """What is read and written in a memory.

    Attributes
    ----------
    read, written
        Elements.
    reading, writing
        Accesses in which this is done.
    """

    read: int = 0
    written: int = 0
    reading: int = 0
    writing: int = 0

    def plus(self, other: Touched) -> Touched:
        """Return both."""
        return Touched(*map(add, self, other))


class MemoryCosts:
    """What accesses cost, in the parts of cycles and femtojoules that `Prices` tells.

    Attributes
    ----------
    names
        Of the memories: those that maps lie in, and flash as the last.
    regions
        Numbers of those that maps lie in.
    """

    def __init__(self, machine: OneMemory, prices: Prices) -> None:
        self.names, self.regions = machine.names_of_memories, range(len(machine.regions))
        self._width, self._sum = machine.element_bytes, machine.sum_elements
        self._of = (*(region.prices for region in machine.regions), machine.flash_prices)
        self._moved = 0 if prices.core_time is None else prices.core_time.prices["moved"]
        parts, finer = prices.cycle, prices.femtojoule
        self._time = [(round(each.reading * parts), round(each.writing * parts)) for each in self._of]
        self._energy = [(each.read_fj * finer, each.write_fj * finer) for each in self._of]
        self._core = prices.core_energy if machine.has_energy else 0

    def prices_of(self, memory: int, names: Sequence[str]) -> tuple[AccessPrices, tuple[int, ...]]:
        """Return what an access takes, and adds to objectives."""
        return self._of[memory], tuple(self.cost(name, memory, Touched(1, 1, 1, 1)) for name in names)

    def values(self, memory: int, reads: int, writes: int, each: int = 1) -> Touched:
        """Return what it is to read and write elements value by value in a memory, by its number.

        Parameters
        ----------
        each
            Elements of a value.
        """
        accesses = self._of[memory].accesses(each * self._width)
        return Touched(reads, writes, reads // each * accesses, writes // each * accesses)

    def rows_read(self, memory: int, rows: Sequence[int]) -> Touched:
        """Return what it is to read rows of values that lie side by side, one after the other."""
        return Touched(read=sum(rows), reading=self._accesses(memory, rows))

    def rows_written(self, memory: int, rows: Sequence[int]) -> Touched:
        """Return what it is to write rows of values side by side."""
        return Touched(written=sum(rows), writing=self._accesses(memory, rows))

    def _accesses(self, memory: int, rows: Sequence[int]) -> int:
        return sum(self._of[memory].accesses(size * self._width) for size in rows)

    def holds_whole_accesses(self, size: int) -> bool:
        """Whether a row of values takes whole accesses to each memory, as then all rows of several do."""
        return all(size * self._width % each.width == 0 for each in self._of)

    def spent(self, memory: int, touched: Touched) -> Spent:
        """Return the time and energy of accesses to a memory."""
        (reading, writing), (read, written) = self._time[memory], self._energy[memory]
        time = touched.reading * reading + touched.writing * writing
        energy = touched.reading * read + touched.writing * written
        return Spent(time=time, energy=energy + time * self._core)

    def spent_in_all(self, touched: Sequence[Touched]) -> Spent:
        """Return the time and energy of accesses to each of the memories, flash the last of them."""
        total = Spent()
        for memory, each in enumerate(touched):
            total = total.plus(self.spent(memory, each))
        return total

    def to_copy(self, size: int) -> Spent:
        """Return the time and energy that copying values takes besides accesses."""
        time = size * self._moved
        return Spent(time=time, energy=time * self._core)

    def cost(self, name: str, memory: int, touched: Touched) -> int:
        """Return how much accesses to a memory add to an objective, in the parts that steps count."""
        if (counted := memory_in(name)) is not None:
            return touched.read + touched.written if counted == self.names[memory] else 0
        spent = self.spent(memory, touched)
        return {"cycles": spent.time, "energy": spent.energy}.get(name, 0)

    def matter(self, name: str) -> bool:
        """Whether accesses add to an objective."""
        every = range(len(self.names))
        return any(self.cost(name, memory, Touched(1, 1, 1, 1)) for memory in every)

    def may_copy(self, names: Iterable[str]) -> bool:
        """Whether a copy of weights may lower any of some objectives: what is read in flash adds to it."""
        return any(self.cost(name, len(self.regions), self.values(-1, 1, 0)) for name in names)

    def placed(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return to which of some objectives accesses add, if any of them is of memories or depends on these.

        It depends on these if it matters what lies where, or what is copied.
        """
        copies = self.may_copy(names)
        if not copies and all(memory_in(name) is None and self._is_same_anywhere(name) for name in names):
            return ()
        moved = ("cycles", "energy") if copies else ()
        return tuple(name for name in names if name in moved or self.matter(name))

    def _is_same_anywhere(self, name: str) -> bool:
        return len({self._of_values(name, region) for region in self.regions}) == 1

    def is_best(self, name: str, region: int) -> bool:
        """Whether nothing costs less of an objective in another memory that maps lie in."""
        own = self._of_values(name, region)
        every = [self._of_values(name, other) for other in self.regions]
        return all(cost == min(others) for cost, others in zip(own, zip(*every, strict=True), strict=True))

    def is_best_for_copies(self, name: str, region: int) -> bool:
        """Whether the same holds of copies, too: rows take fewer accesses to a wider memory."""
        own = self.cost(name, region, Touched(written=1, writing=1))
        return self.is_best(name, region) and (
            own == 0
            or memory_in(name) is not None
            or all(self._of[region].width >= self._of[other].width for other in self.regions)
        )

    def _of_values(self, name: str, region: int) -> tuple[int, ...]:
        """Return what values, and running values, that are read and written add to an objective."""
        touched = [
            self.values(region, read * each, (1 - read) * each, each)
            for each in {1, self._sum}
            for read in (0, 1)
        ]
        return tuple(self.cost(name, region, each) for each in touched)
