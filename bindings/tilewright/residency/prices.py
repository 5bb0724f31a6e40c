"""Time and energy of steps, in integers: parts of cycles and of femtojoules, so that sums are exact."""

from __future__ import annotations

from math import lcm
from typing import NamedTuple

from tilewright.residency.machine import OneMemory
from tilewright.residency.work import Work


class Spent(NamedTuple):
    """What a step spends.

    Attributes
    ----------
    moved
        Elements from and to DRAM.
    time, energy
        In the parts that `Prices` tells.
    """

    moved: int = 0
    time: int = 0
    energy: int = 0

    def plus(self, other: Spent) -> Spent:
        """Return what both spend."""
        return Spent(self.moved + other.moved, self.time + other.time, self.energy + other.energy)


class Prices:
    """The rates and prices of a machine.

    Attributes
    ----------
    cycle, femtojoule
        Parts that a cycle, and a femtojoule, has.
    """

    def __init__(self, machine: OneMemory) -> None:
        bus, macs, setup = machine.rates
        vectors = machine.vector_ops_per_cycle
        self.cycle = lcm(bus, macs, vectors or 1)
        self._bus, self._mac, self._vector = (
            self.cycle // bus,
            self.cycle // macs,
            self.cycle // vectors if vectors else 0,
        )
        self._setup = setup * self.cycle
        price, width = machine.prices, machine.element_bytes
        self.femtojoule = lcm(price.dram_access_bytes, price.local_access_bytes, self.cycle)
        self._dram = width * price.dram_fj_per_access * (self.femtojoule // price.dram_access_bytes)
        self._local = width * price.local_fj_per_access * (self.femtojoule // price.local_access_bytes)
        self._core = price.core_fj_per_cycle * (self.femtojoule // self.cycle)

    def transfer(self, elements: int) -> int:
        """Return the time in which the bus moves elements."""
        return elements * self._bus

    def core(self, work: Work) -> int:
        """Return the time in which the core does some work."""
        return work.macs * self._mac + work.vectors * self._vector

    def setup(self, transfers: int) -> int:
        """Return the time in which the core sets up transfers."""
        return transfers * self._setup

    def energy(self, moved: int, work: Work, transfers: int) -> int:
        """Return the energy of elements moved, each of which is one access on chip, too, and of the core."""
        accesses = work.accesses + moved
        busy = self.core(work) + self.setup(transfers)
        return moved * self._dram + accesses * self._local + busy * self._core

    def cycles(self, time: int) -> int:
        """Return whole cycles, the last one begun."""
        return -(-time // self.cycle)

    def femtojoules(self, energy: int) -> int:
        """Return whole femtojoules, the last one begun."""
        return -(-energy // self.femtojoule)
