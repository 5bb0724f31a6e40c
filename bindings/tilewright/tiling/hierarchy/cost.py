"""What a plan costs: energy, cycles and accesses of what the simulator counts level by level."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tilewright.simulator.levels import OUTSIDE, READ, WRITTEN, Counts, Execution, Tally
from tilewright.spec.layer import Layer
from tilewright.tiling.hierarchy.level import Level
from tilewright.tiling.hierarchy.lowering import lower
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.nest import Nest

KINDS = ("input", "weights", "output", "partial")
"""What elements are, in the order of a simulation's columns; each has a width."""

WEIGHTS = KINDS.index("weights")

TICKS = 10**8
"""Parts of a cycle in which times are counted."""

PRODUCT_UNIT = 10**9
"""Attojoules in a nanojoule, in which products of energy and delay are shown."""


class Cost:
    """What a layer costs on a machine, by what was counted.

    Attributes
    ----------
    tally
        What is moved; its first axis goes over the machine's nodes.
    levels
        The level of each memory's node.
    """

    def __init__(self, layer: Layer, machine: HierarchyMachine, tally: Tally) -> None:
        self.layer, self.machine, self.tally = layer, machine, tally
        self.levels = {
            i: machine.levels[node.level] for i, node in enumerate(machine.nodes) if node.axis is None
        }

    def by_memory(self, counts: Counts) -> list[tuple[int, Level, Counts]]:
        """Return what each memory moves, by its node: of shape (2, 2, kinds).

        Weights that pass the first memory by are moved by one further out, whose node is -1.
        """
        beyond = self.machine.beyond
        found = [(i, level, counts[i]) for i, level in self.levels.items()]
        if beyond is not None:
            passed = np.zeros_like(counts[0])
            passed[..., WEIGHTS] = counts[0][..., WEIGHTS]
            found[0] = 0, found[0][1], counts[0] - passed
            found.append((-1, beyond, passed))
        return found

    def accesses(self, name: str) -> int:
        """Return the elements that are read from a memory and written to it."""
        every = self.by_memory(self.tally.every)
        return sum(int(counts.sum()) for _, level, counts in every if level.name == name)

    @property
    def energy(self) -> int:
        """Attojoules of all that is read, written and multiplied."""
        total = self.layer.macs * attojoules(self.machine.mac_pj, 1)
        for _, level, counts in self.by_memory(self.tally.every):
            for way, price in zip((READ, WRITTEN), prices(level), strict=True):
                total += self._bits(counts[:, way].sum(axis=0)) * price
        return total

    @property
    def cycles(self) -> int:
        """Cycles: ports of all memories work beside the multipliers, but for tiles that exist only once.

        Filling and draining a memory without double buffering stops what is further in. Bits of such a
        transfer go one after the other, each as slowly as the slower of the two ports.
        """
        return -(-max(self.computing, *self.ports.values()) // TICKS)

    @property
    def computing(self) -> int:
        """Ticks of the multipliers, and of the transfers that they wait for."""
        return self.multiplying + sum(self.waiting.values())

    @property
    def multiplying(self) -> int:
        """Ticks of the multipliers alone."""
        return -(-self.tally.steps // self.machine.macs_per_cycle) * TICKS

    @property
    def waiting(self) -> dict[int, int]:
        """Ticks in which the multipliers wait until a memory is filled or drained, by its first node."""
        found: dict[int, int] = {}
        first = {node: memory for memory, nodes in self.machine.memories.items() for node in nodes}
        for o, holders in enumerate(self.machine.holders.values()):
            for parent, child in pairwise(holders):
                if self.levels[child].double_buffering:
                    continue
                # Each memory is the outer end of one boundary for each operand.
                kinds = [o] if o < 2 else [2, 3]
                outer = self.levels[parent]
                if o == WEIGHTS and parent == 0 and self.machine.beyond is not None:
                    outer = self.machine.beyond
                for way, price in zip(
                    (READ, WRITTEN), transfer_ticks(outer, self.levels[child]), strict=True
                ):
                    ticks = self._bits(self.tally.first[parent, OUTSIDE, way], kinds) * price
                    found[first[child]] = found.get(first[child], 0) + ticks
        return found

    @property
    def ports(self) -> dict[int, int]:
        """Ticks in which the busier port of each memory moves something, by its first node."""
        found = {}
        for i in self.machine.memories:
            read, written = self.reading_and_writing(i)
            shared = self.levels[i].bytes_per_cycle is not None
            found[i] = read + written if shared else max(read, written)
        if self.machine.beyond is not None:
            _, level, counts = self.by_memory(self.tally.first)[-1]
            found[-1] = self._bits(counts[:, READ].sum(axis=0)) * ticks_per_bit(level)[0]
        return found

    def reading_and_writing(self, memory: int) -> tuple[int, int]:
        """Return the ticks in which a memory, given by its first node, is read and is written.

        Of its first instance, which has the most to do.
        """
        nodes = list(self.machine.memories[memory])
        first = {i: counts for i, _, counts in self.by_memory(self.tally.first)}
        read, written = (
            self._bits(sum(first[node][:, way].sum(axis=0) for node in nodes)) * price
            for way, price in zip((READ, WRITTEN), ticks_per_bit(self.levels[memory]), strict=True)
        )
        return read, written

    @property
    def traffic(self) -> int:
        """Bits that are read from the outermost memory and written to it."""
        return self._bits(self.tally.every[0].sum(axis=(0, 1)))

    def value(self, minimise: str, level: str) -> int:
        """Return what an objective says, without rounding, or the traffic."""
        if minimise == "traffic":
            return self.traffic
        if minimise == "accesses":
            return self.accesses(level)
        if minimise == "edp":
            return self.energy * self.cycles
        return self.energy if minimise == "energy" else self.cycles

    def _bits(self, counts: Counts, kinds: list[int] | None = None) -> int:
        widths = [int(getattr(self.machine.bits, kind)) for kind in KINDS]
        return sum(int(counts[i]) * widths[i] for i in (range(len(KINDS)) if kinds is None else kinds))


def cost_of(nest: Nest) -> Cost:
    """Return what a valid nest costs."""
    return Cost(nest.layer, nest.machine, Execution(lower(nest)).run())


def shown(minimise: str, value: int) -> int:
    """Return the value of an objective in its unit."""
    return -(-value // PRODUCT_UNIT) if minimise == "edp" else value


def attojoules(picojoules: float | None, parts: int) -> int:
    """Return a price as whole attojoules of one of some parts: of a bit where it is that of a byte."""
    return round((picojoules or 0.0) * 1e6 / parts)


def prices(level: Level) -> tuple[int, int]:
    """Return the attojoules of a bit that is read from a memory, and of one that is written."""
    read, write = level.read_pj_per_byte, level.write_pj_per_byte
    return attojoules(read, 8), attojoules(read if write is None else write, 8)


def ticks_per_bit(level: Level) -> tuple[int, int]:
    """Return the ticks of a bit that is read from a memory, and of one that is written; 0 without a limit."""
    shared = level.bytes_per_cycle
    rates = (shared, shared) if shared else (level.read_bytes_per_cycle, level.write_bytes_per_cycle)
    read, written = (0 if rate is None else max(1, round(TICKS / (8 * rate))) for rate in rates)
    return read, written


def transfer_ticks(parent: Level, child: Level) -> tuple[int, int]:
    """Return the ticks of a bit on its way in from one memory to the next, and on its way out."""
    (read, written), (child_read, child_written) = ticks_per_bit(parent), ticks_per_bit(child)
    return max(read, child_written), max(child_read, written)
