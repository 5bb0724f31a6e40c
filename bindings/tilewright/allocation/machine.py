"""The array machine, what is minimised on it, and what plans for it may do."""

from __future__ import annotations

from math import prod
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from tilewright.core.machines import MachineReading, OnChip, clock_of
from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError
from tilewright.spec.host import Host
from tilewright.spec.network import Name
from tilewright.spec.objectives import Objective, SingleObjective, by_name

MAX_SIDE = 1024
"""Most rows and columns of an array."""

OBJECTIVES = by_name(
    Objective("interval", "cycles per frame", "interval_cycles"),
    Objective("pes", "PEs", "pes"),
    Objective("latency", "cycles", "latency_cycles"),
    Objective("pareto", "cycles per frame", "interval_cycles"),
    Objective("distance", "hops", "distance_hops"),
    Objective("energy", "fJ", "energy_fj"),
)
"""What can be minimised; of a front the first plan has the least interval."""

INPUT = "input"
"""Name of the network's input, which no layer has."""

HOST = "host"
"""Engine of what the host computes while layers wait for it."""

ENERGY_FRONT = ("interval", "energy")
"""What `AllocationObjective.between` may name instead of interval, PEs and latency."""

Side = Annotated[int, Field(ge=1, le=MAX_SIDE)]
Femtojoules = Annotated[int, Field(ge=0, le=10**9)]
Axis = Literal["filters", "maps", "rows"]
"""What a layer's work can be divided over."""


class OffChip(Spec):
    """The way across the chip's border: with it plans decide what stays on chip.

    Attributes
    ----------
    mb_per_s
        Megabytes (10**6) that cross it in a second, in both directions together.
    """

    table_name: ClassVar[str] = "machine.off_chip"

    mb_per_s: Annotated[int, Field(ge=1, le=10**7)]


class EnergyPrices(Spec):
    """What the work of a frame takes, in femtojoules; docs/allocation.md says what is counted.

    Attributes
    ----------
    mac_fj
        A multiply-accumulate operation, or one of a pool or an addition.
    register_fj
        An access to a register of a PE.
    hop_fj
        A word on its way from one PE to a neighbour, or between a PE and the buffers.
    buffer_read_fj, buffer_write_fj
        A word that the buffers give or take.
    off_chip_fj_per_byte
        A byte that crosses the border of the chip.
    pe_fj_per_cycle, idle_pe_fj_per_cycle : optional
        A cycle of a PE that some layer has, whether it computes or waits, and of one that none has: leakage,
        which is not counted without the first. The second is 0 where such PEs are switched off.
    """

    table_name: ClassVar[str] = "machine.energy"

    mac_fj: Femtojoules
    register_fj: Femtojoules
    hop_fj: Femtojoules
    buffer_read_fj: Femtojoules
    buffer_write_fj: Femtojoules
    off_chip_fj_per_byte: Femtojoules
    pe_fj_per_cycle: Femtojoules | None = None
    idle_pe_fj_per_cycle: Femtojoules | None = None

    def model_post_init(self, _context: object) -> None:
        """Refuse PEs without a layer that take more than others, or whose price stands alone."""
        idle, busy = self.idle_pe_fj_per_cycle, self.pe_fj_per_cycle
        if (idle is None) != (busy is None):
            name = "pe_fj_per_cycle" if busy is None else "idle_pe_fj_per_cycle"
            raise InputError(name, None, "is needed beside the other price of a PE")
        if idle is not None and busy is not None and idle > busy:
            raise InputError("idle_pe_fj_per_cycle", idle, f"must be at most pe_fj_per_cycle, {busy}")

    def most(self, operations: int, cycles: int, pes: int) -> int:
        """Return what a frame of some operations and cycles takes at most: each moves a few words at most."""
        moved = 8 * (self.register_fj + self.hop_fj + self.buffer_read_fj + self.buffer_write_fj)
        return operations * (self.mac_fj + moved + 64 * self.off_chip_fj_per_byte) + cycles * self.leakage(
            pes, 0
        )

    def leakage(self, pes: int, idle: int) -> int:
        """Return what PEs with a layer and others take in a cycle; 0 where that is not counted."""
        return pes * (self.pe_fj_per_cycle or 0) + idle * (self.idle_pe_fj_per_cycle or 0)


class ArrayMachine(Spec):
    """A processor array with on-chip buffers at its border (TCPA paper, section 1).

    Attributes
    ----------
    array : (rows, columns)
        PEs.
    functional_units : int
        Multiply-accumulate units of each PE that work at a time (delta).
    clock_mhz : int
    buffer_bytes : int, optional
        On-chip buffers together (B_max); unlimited when left out.
    word_bits : int
        Bits of a weight and of a value of a feature map.
    energy : optional
        Prices; without them no energy is known.
    host : optional
        The processor that computes fully connected layers (section 5); without it their time is not counted.
    configuration_cycles : int, optional
        In which the array gets the programs of its PEs: once for a pipeline, in turn for each layer of each
        frame; without it that is not counted.
    off_chip : optional
        The way to DRAM; without it that is never waited for, and what plans need is on chip.
    """

    table_name: ClassVar[str] = "machine"
    later: ClassVar[tuple[str, ...]] = ("energy", "off_chip", "host", "configuration_cycles")

    array: tuple[Side, Side]
    functional_units: Annotated[int, Field(ge=1, le=1024)] = 1
    clock_mhz: Annotated[int, Field(ge=1, le=100_000)]
    buffer_bytes: Annotated[int, Field(ge=1, le=2**40)] | None = None
    word_bits: Annotated[int, Field(ge=1, le=64)] = 8
    energy: EnergyPrices | None = None
    off_chip: OffChip | None = None
    host: Host | None = None
    configuration_cycles: Annotated[int, Field(ge=0, le=10**9)] | None = None

    @property
    def pes(self) -> int:
        """Number of PEs."""
        return prod(self.array)

    @property
    def buffer_words(self) -> int | None:
        """Words that the buffers hold."""
        return None if self.buffer_bytes is None else 8 * self.buffer_bytes // self.word_bits

    def bytes(self, words: int) -> int:
        """Return the bytes that a number of words takes, rounded up."""
        return -(-words * self.word_bits // 8)

    def frames_per_second(self, interval: int) -> float:
        """Return the rate of frames that follow each other every `interval` cycles (equations 5 and 13)."""
        return self.clock_mhz * 1e6 / interval


def machine_from(table: dict[str, Any]) -> MachineReading:
    """Read a hierarchy or a DSP: the outermost array is one of PEs, what is inside of it are their units."""
    chip = OnChip.of(table)
    if chip is None:
        return MachineReading(clock_of(table), {"array": "or levels of a hierarchy"})
    outer, *inner = chip.arrays or ((),)
    sizes = [axis.size for axis in outer]
    rows, columns = (1, prod(sizes)) if len(sizes) < 2 else (sizes[0], prod(sizes[1:]))
    found = {
        "array": (rows, columns),
        "functional_units": chip.macs_per_cycle * prod(axis.size for array in inner for axis in array),
        "clock_mhz": chip.clock_mhz,
        "buffer_bytes": chip.total_bytes,
        "word_bits": chip.bits,
    }
    if table.get("host") is not None:
        found["host"] = table["host"]
    return MachineReading(found)


class AllocationObjective(SingleObjective):
    """What is minimised.

    Attributes
    ----------
    minimise : {"interval", "pes", "latency", "pareto", "distance", "energy"}
        Cycles between two frames, so the most frames per second; PEs; cycles from a frame's first pixel to
        its last output; every trade-off of these three; hops between the regions of consecutive layers;
        energy of a frame.
    frames_per_second : float, optional
        The rate that must be kept.
    between : ("interval", "energy"), optional
        Of ``pareto``, that these two are traded instead of interval, PEs and latency.
    """

    later: ClassVar[tuple[str, ...]] = ("between",)

    minimise: Literal["interval", "pes", "latency", "pareto", "distance", "energy"] = "interval"
    frames_per_second: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False, strict=False)] | None = None
    between: tuple[Literal["interval"], Literal["energy"]] | None = None


class AllocationLimits(Spec):
    """What plans may do.

    Attributes
    ----------
    execution : {"layer-parallel", "layer-by-layer"}
        All layers at the same time on PEs of their own, or one after the other, each on up to all PEs.
    splits
        Over what a layer's work is divided among its PEs: ``filters`` as in the paper, input ``maps``,
        ``rows`` of the output.
    functional_units : {"maps", "any"}
        What the units of a PE work on in parallel: input maps as in the paper, or maps or filters.
    scan : {"rows", "fields"}
        Order of a layer's output pixels: row by row, or in the order in which the windows of its consumers
        need them (the paper's receptive fields).
    pes
        PEs of some layers, when they are given.
    """

    table_name: ClassVar[str] = "limits"
    lifted: ClassVar[dict[str, Any]] = {"pes": {}}
    """What only leaves plans out, with the value that leaves none out."""

    execution: Literal["layer-parallel", "layer-by-layer"] = "layer-parallel"
    splits: Annotated[tuple[Axis, ...], Field(min_length=1, max_length=3)] = ("filters",)
    functional_units: Literal["maps", "any"] = "maps"
    scan: Literal["rows", "fields"] = "rows"
    pes: dict[Name, Annotated[int, Field(ge=1, le=MAX_SIDE**2)]] = Field(default_factory=dict)
