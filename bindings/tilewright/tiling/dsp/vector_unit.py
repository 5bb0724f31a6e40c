"""The vector unit of the DSP: lanes, issue slots, latencies and registers of the inner loop of a tile."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tilewright.spec.base import Spec

Slots = Annotated[int, Field(ge=1, le=64)]
Latency = Annotated[int, Field(ge=0, le=1000)]


class VectorUnit(Spec):
    """What the inner loop of a tile runs on (thesis, sections 2.2.1, 7.5; docs/dsp-compute.md).

    Attributes
    ----------
    lanes
        Elements of a vector: 32 of two bytes are the access of 64 bytes of table 7.9.
    mac_slots, memory_slots, shuffle_slots
        Instructions that begin in a cycle: multiply-accumulates of a vector, vector loads and stores
        together, shuffles. One MAC of 32 lanes is table 7.2's throughput of the DSP, one vector its bus.
    read_ports, write_ports
        Vector registers that are read and written in a cycle. By default all slots can be busy at once.
    mac_latency, load_latency, store_latency, shuffle_latency
        Cycles until a result can be used. The thesis says that they are significant, not how long they are.
    registers
        Vector registers that a loop can use. The file of 4 KB has 64, not all of which the compiler uses.
    unrolled_macs
        Most multiply-accumulates of vectors in the unrolled body of the pipelined loop.
    sums : {"reloaded", "kept"}
        Whether a loop over input maps loads and stores its sums in every iteration, as the thesis's compiler
        does, or keeps them in registers until it ends.
    instruction_cache
        Instructions that stay from one run of a loop to the next; a longer loop is fetched anew whenever it
        is entered. None leaves that out, as the thesis does.
    refill_cycles
        Cycles to fetch an instruction.
    """

    table_name: ClassVar[str] = "machine.vector_unit"

    lanes: Annotated[int, Field(ge=1, le=4096)] = 32
    mac_slots: Slots = 1
    memory_slots: Slots = 1
    shuffle_slots: Slots = 1
    read_ports: Slots = 6
    write_ports: Slots = 3
    mac_latency: Annotated[int, Field(ge=1, le=1000)] = 8
    load_latency: Latency = 8
    store_latency: Latency = 4
    shuffle_latency: Latency = 2
    registers: Annotated[int, Field(ge=2, le=65536)] = 28
    unrolled_macs: Annotated[int, Field(ge=1, le=4096)] = 128
    sums: Literal["reloaded", "kept"] = "reloaded"
    instruction_cache: Annotated[int, Field(ge=1, le=2**30)] | None = None
    refill_cycles: Latency = 1

    @property
    def most_cycles_per_mac(self) -> int:
        """Bound what a MAC takes, with begin and end of its output, in a loop of its own."""
        ways = self.load_latency + self.shuffle_latency + self.mac_latency + self.store_latency
        body = self.unrolled_macs * (self.mac_latency + 8) + ways
        refill = 0 if self.instruction_cache is None else self.refill_cycles
        return 3 * body * (1 + refill) + 8 * (ways + 8)
