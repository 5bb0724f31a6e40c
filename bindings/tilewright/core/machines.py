"""The tables of machines as rooms share them: what one room's machine tells another room.

A room reads the plain table of a machine that is another room's, complete with defaults, and gives the fields
of its own machine that it finds there (`Room.machine_from`). What several rooms look for in a hierarchy of
memories and arrays is found here, once; a scratchpad DSP is a hierarchy of two memories without an array.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import floor, prod
from typing import Any, NamedTuple

__all__ = ["OPERANDS", "Axis", "MachineReading", "Memory", "OnChip", "clock_of", "megabytes_per_second"]

Table = dict[str, Any]

OPERANDS = ("input", "weights", "output")

MOVED_BY = {
    "input": {"groups", "batch", "rows", "columns", "input_maps", "kernel_rows", "kernel_columns"},
    "weights": {"groups", "output_maps", "input_maps", "kernel_rows", "kernel_columns"},
    "output": {"groups", "batch", "output_maps", "rows", "columns"},
}
"""The loops of which each iteration takes another part of an operand."""


class MachineReading(NamedTuple):
    """What a room finds in another room's machine.

    Attributes
    ----------
    found
        Fields of the room's own machine.
    lacking
        Fields that it does not find, each with what would tell it.
    """

    found: Table
    lacking: Mapping[str, str] = {}


class Axis(NamedTuple):
    """Instances side by side, and the loops that may be unrolled over them."""

    size: int
    over: tuple[str, ...]


class Memory(NamedTuple):
    """A memory on chip.

    Attributes
    ----------
    holds
        The operands that it holds, or may hold.
    capacity
        Bytes of one instance: for all operands together, or for each.
    outside
        The axes of all arrays that it is inside of.
    read_rate
        Bytes that one instance gives in a cycle; None without a limit.
    """

    holds: tuple[str, ...]
    capacity: int | Mapping[str, int]
    outside: tuple[Axis, ...]
    read_rate: float | None


class OnChip(NamedTuple):
    """A machine's external memory, memories on chip, and arrays.

    Attributes
    ----------
    clock_mhz, macs_per_cycle
        The latter of one innermost instance.
    bits
        Of the widest operand; sums that are not complete are not looked at.
    rates
        Bytes that external memory gives, and takes, in a cycle; None without a limit.
    outermost
        Its name.
    memories
        On chip, outermost first.
    arrays
        The axes of each array, outermost first.
    """

    clock_mhz: int
    macs_per_cycle: int
    bits: int
    rates: tuple[float | None, float | None]
    outermost: str
    memories: tuple[Memory, ...]
    arrays: tuple[tuple[Axis, ...], ...]

    @classmethod
    def of(cls, table: Table) -> OnChip | None:
        """Return what a machine of kind hierarchy or dsp is made of; None for any other one."""
        if table.get("kind") == "dsp":
            table = _as_hierarchy(table)
        if table.get("kind") != "hierarchy":
            return None
        first, *others = table["levels"]
        memories, arrays = [], []
        for level in others:
            if level["fanout"]:
                arrays.append(tuple(Axis(axis["size"], tuple(axis["over"])) for axis in level["fanout"]))
                continue
            outside = tuple(axis for array in arrays for axis in array)
            holds = tuple(name for name in OPERANDS if name in (*level["holds"], *level["may_hold"]))
            memories.append(Memory(holds, level["capacity_bytes"], outside, _rate(level, "read")))
        return cls(
            table["clock_mhz"],
            table["macs_per_cycle"],
            max(table["bits"][name] for name in OPERANDS),
            (_rate(first, "read"), _rate(first, "write")),
            first["name"],
            tuple(memories),
            tuple(arrays),
        )

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of all arrays."""
        return tuple(axis for array in self.arrays for axis in array)

    @property
    def homes(self) -> dict[str, Memory]:
        """The outermost memory on chip that holds each operand; those further in hold parts of that."""
        return {name: memory for memory in reversed(self.memories) for name in memory.holds}

    @property
    def total_bytes(self) -> int:
        """Bytes of the homes of all operands, of all instances together."""
        homes, total = self.homes, 0
        for memory in self.memories:
            living = [name for name, home in homes.items() if home is memory]
            size = memory.capacity
            one = size * bool(living) if isinstance(size, int) else sum(size[name] for name in living)
            total += one * prod(axis.size for axis in memory.outside)
        return total

    def buffer(self, operand: str, unrolled: Mapping[Axis, str]) -> int:
        """Return the bytes of an operand's home, of all instances that hold different parts of it.

        A memory is divided in equal parts among the operands whose home it is, where they share it.

        Parameters
        ----------
        unrolled
            The loop that is unrolled over each axis.
        """
        homes = self.homes
        home = homes[operand]
        sharing = sum(other is home for other in homes.values())
        one = home.capacity // sharing if isinstance(home.capacity, int) else home.capacity[operand]
        return one * self.instances(operand, unrolled)

    def instances(self, operand: str, unrolled: Mapping[Axis, str]) -> int:
        """Return how many instances of an operand's home hold different parts of it."""
        outside = self.homes[operand].outside
        return prod(axis.size for axis in outside if unrolled.get(axis) in MOVED_BY[operand])


def clock_of(table: Table) -> Table:
    """Return the clock of any machine that has one: it means the same in all rooms."""
    return {key: table[key] for key in ("clock_mhz",) if key in table}


def megabytes_per_second(bytes_per_cycle: float, clock_mhz: int) -> int:
    """Return a rate in 10^6 bytes per second, rounded down, so that no room's machine is faster than told."""
    return floor(Fraction(repr(bytes_per_cycle)) * clock_mhz)


def _rate(level: Table, direction: str) -> float | None:
    rate: float | None = level["bytes_per_cycle"] or level[f"{direction}_bytes_per_cycle"]
    return rate


def _as_hierarchy(table: Table) -> Table:
    """Return a scratchpad DSP as a hierarchy; its transfers and local traffic have the same bus."""
    memory = {"holds": OPERANDS, "may_hold": (), "fanout": (), "read_bytes_per_cycle": None}
    rate = table["bus_elements_per_cycle"] * table["element_bytes"]
    dram = {**memory, "name": "external memory", "bytes_per_cycle": rate, "write_bytes_per_cycle": None}
    return {
        "kind": "hierarchy",
        "clock_mhz": table["clock_mhz"],
        "macs_per_cycle": table["macs_per_cycle"],
        "bits": table.get("bits") or dict.fromkeys(OPERANDS, 8 * table["element_bytes"]),
        "levels": (dram, {**dram, "name": "memory", "capacity_bytes": table["memory_bytes"]}),
    }
