"""One memory without partitions, what is minimised, and what plans may do."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from tilewright.core.machines import OPERANDS, MachineReading, OnChip
from tilewright.spec.base import Spec

MAX_BYTES = 2**40
"""Largest memory."""

MAX_TRAFFIC = 2**50
"""The highest limit on traffic."""

Bytes = Annotated[int, Field(ge=1, le=MAX_BYTES)]


class OneMemory(Spec):
    """A memory on chip that maps, weights and buffers of all operations share, and DRAM behind it.

    Attributes
    ----------
    memory_bytes
        Of all that is on chip at a time.
    element_bytes
        Of a value of a map, of a weight and of a bias.
    """

    table_name: ClassVar[str] = "machine"

    memory_bytes: Bytes
    element_bytes: Annotated[int, Field(ge=1, le=8)] = 1

    @property
    def capacity(self) -> int:
        """Elements that the memory holds."""
        return self.memory_bytes // self.element_bytes


class ResidencyObjective(Spec):
    """What is minimised.

    Attributes
    ----------
    minimise : {"traffic", "memory"}
        Bytes moved from and to DRAM; or bytes of the memory that a plan takes.
    most_traffic : int, optional
        For ``memory``: most bytes moved; by default any number, so that the answer is the least memory in
        which the network runs at all.
    """

    table_name: ClassVar[str] = "objective"

    minimise: Literal["traffic", "memory"] = "traffic"
    most_traffic: Annotated[int, Field(ge=1, le=MAX_TRAFFIC)] | None = None


class ResidencyLimits(Spec):
    """What plans may do.

    Attributes
    ----------
    order : {"any", "given"}
        Any order of the operations in which each comes after those that it reads, or that of the file.
    most_operations : int, optional
        Operations of a step; 1 leaves depth-first execution out.
    """

    table_name: ClassVar[str] = "limits"

    order: Literal["any", "given"] = "any"
    most_operations: Annotated[int, Field(ge=1, le=10_000)] | None = None


def machine_from(table: dict[str, Any]) -> MachineReading:
    """Read a DSP or a hierarchy: its outermost memory on chip, if all operands share that."""
    chip = OnChip.of(table)
    lacking = {"memory_bytes": "or a memory on chip that inputs, weights and outputs share"}
    if chip is None:
        return MachineReading({}, lacking)
    found = {"element_bytes": -(-chip.bits // 8)}
    shared = [memory for memory in chip.memories if set(memory.holds) == set(OPERANDS)]
    if not shared or not isinstance(shared[0].capacity, int):
        return MachineReading(found, lacking)
    instances = 1
    for axis in shared[0].outside:
        instances *= axis.size
    return MachineReading({**found, "memory_bytes": shared[0].capacity * instances})
