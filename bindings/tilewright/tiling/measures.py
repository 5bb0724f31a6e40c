"""What was measured of executed tilings: of a layer, of an operation between layers, of a network.

Each kind of machine has classes for what a layer and a network have in common (totals), for either of them,
and for a point of a Pareto front.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from tilewright.core.measures import (
    Amounts,
    Count,
    Duration,
    Executed,
    InCycles,
    InPicoseconds,
    Lasting,
    NonNegative,
    Table,
    measures,
)

OF_LAYER: Mapping[str, str] = {"front": ""}
OF_NETWORK: Mapping[str, str] = {"front": "", "layers": "layer"}
"""Parts, as `core.measures.Table.PARTS` has them."""


@measures
class PlanOfFront(Table):
    """A plan of a Pareto front, with what it trades."""

    plans: list[Count] | None = None
    """Of a network's: which plan of each layer's front makes it, counted from 0."""


@measures
class NotModelled(Table):
    """Operations of a network that nothing on the machine is told to do."""

    operations: Count
    elements: Count
    """What they read and write at least, if none is fused."""
    bytes: Count
    macs: Count
    names: list[str]


@measures
class OfNetwork(Table):
    """What the measures of a network have on any machine, with which points of its front they have."""

    PARTS: ClassVar[Mapping[str, str]] = OF_NETWORK

    not_modelled: NotModelled | None = None
    """The operations between layers that nothing on the machine does; they are not in the totals."""
    front_points: Count | None = None
    """Points of the whole front; missing where those on its convex hull were found."""
    front_every: Count | None = None
    """Of the points that were found, `front` has each so many-th, and the last."""


# A DSP ----------------------------------------------------------------------------------------------


@measures
class DspPoint(PlanOfFront):
    """A plan of a Pareto front on a DSP."""

    duration_cycles: Count | None = None
    accesses_elements: Count | None = None
    accesses_bits: Count | None = None
    """In place of elements on a machine that gives widths."""
    energy_fj: Count | None = None


@measures
class DspTotals(Lasting):
    """Of tiles on a DSP, of one layer or of all layers of a network."""

    PARTS: ClassVar[Mapping[str, str]] = OF_LAYER

    accesses_elements: Count
    """Elements moved from and to external memory."""
    energy_fj: Count
    """Energy of core, external memory and local traffic, in femtojoules."""
    energy_prices: str
    """Whose prices of energy these are: the instance's, or those of the thesis's DSP."""
    gops_per_second: float
    """10^9 operations per second; a MAC is two operations (thesis, equation 5.22)."""
    ops_per_byte: float
    """Operations for each byte moved from or to external memory (thesis, equation 5.23)."""
    least_accesses_elements: Count
    """Fewest accesses of any schedule."""
    least_accesses_by: str
    """What proves them."""
    accesses_bits: Count | None = None
    """Bits moved from and to external memory, on a machine that gives widths."""
    front: list[DspPoint] | None = None
    """Points of a Pareto front, from the least of the first number on; all else is of its first plan."""


@measures
class DspLayer(DspTotals):
    """Of one layer on a DSP."""

    limited_by: str | None = None
    """What works longest: multipliers or inner loop, set-up of transfers, or bus. Missing in older files."""
    schedule: str
    tile: Amounts
    """Iterations of each loop in a tile."""
    buffers_elements: Amounts
    """Elements of one copy of each buffer."""
    moved_bits: Amounts | None = None
    """Bits moved of each operand, on a machine that gives widths; so are the following."""
    buffers_bits: Amounts | None = None
    """Bits of one copy of each buffer."""
    least_accesses_bits: Count | None = None
    """Fewest bits that any schedule moves."""
    published_accesses_bits: float | None = None
    """Accesses as the thesis's formulas count them, in bits."""
    published_accesses_elements: float | None = None
    """Accesses as the thesis's formulas count them, edge tiles as full ones; for its schedules."""
    published_cycles: float | None = None
    """Cycles, likewise."""
    inner_loop: str | None = None
    """The loop inside of a tile, on a machine with a vector unit."""


# An NPU ---------------------------------------------------------------------------------------------


@measures
class NpuPoint(PlanOfFront):
    """A plan of a Pareto front on an NPU."""

    duration_ps: Count | None = None
    accesses_elements: Count | None = None
    accesses_bits: Count | None = None
    """In place of elements on a machine that gives widths."""


@measures
class NpuTotals(InPicoseconds):
    """Of tiles on a multicore NPU, whose times are picoseconds; of one layer or of all of a network."""

    PARTS: ClassVar[Mapping[str, str]] = OF_LAYER

    duration_ps: Count
    """What the plan takes on its machine."""
    duration_of: Duration
    """Which of the other times the duration is."""
    accesses_elements: Count
    """Elements moved from and to external memory."""
    bursts: Count
    """Of external memory."""
    published_ps: Count
    """Time as the paper's formulas count it, edge tiles as full ones."""
    published_bursts: Count
    """Bursts, likewise."""
    accesses_bits: Count | None = None
    """Bits moved from and to external memory, on a machine that gives widths."""
    front: list[NpuPoint] | None = None
    """Points of a Pareto front, from the least of the first number on; all else is of its first plan."""


@measures
class NpuLayer(NpuTotals):
    """Of one layer on an NPU."""

    partition: str
    schedule: str
    tile: Amounts
    limited_by: str | None = None
    """What takes longest: multipliers, dram, or bursts of dram. Missing in older files."""
    moved_bits: Amounts | None = None
    """Bits moved of each operand, on a machine that gives widths."""
    buffers_bits: Amounts | None = None
    """Bits of a tile in each memory of the core that has most."""


# A hierarchy ----------------------------------------------------------------------------------------


@measures
class Loops(Table):
    """The loops of a memory or of an axis of an array."""

    node: str
    loops: Amounts
    """Iterations, outermost first."""


@measures
class MovedElements(Table):
    """What all instances of a memory read and write."""

    read: Amounts
    """By what it is: input, weights, output, or partial sums."""
    written: Amounts


@measures
class MovedBytes(Table):
    """What all instances of a memory read and write, without what is not moved; elements may be narrow."""

    read: dict[str, NonNegative]
    """By what it is: input, weights, output, or partial sums."""
    written: dict[str, NonNegative]


@measures
class MovedEnergy(Table):
    """What it costs to read and to write all instances of a memory, in attojoules."""

    read: Amounts
    written: Amounts


@measures
class HierarchyPoint(PlanOfFront):
    """A plan of a Pareto front on a hierarchy."""

    duration_cycles: Count | None = None
    accesses_elements: Count | None = None
    energy_aj: Count | None = None
    capacity_bytes: Count | None = None
    """What the memory on chip needs."""
    least_accesses_elements: Count | None = None
    """Beside a capacity, a lower bound on the accesses of every schedule that has no more."""


@measures
class HierarchyTotals(InCycles):
    """Of tiles on a hierarchy of memories, of one layer or of all layers of a network."""

    PARTS: ClassVar[Mapping[str, str]] = OF_LAYER

    duration_cycles: Count
    """What the plan takes on its machine."""
    accesses_elements: Count
    """Elements read from and written to the memory that the objective names, or the outermost one."""
    energy_aj: Count
    """Energy of memories and MACs by the instance's prices, in attojoules."""
    utilisation: float
    """Share of all multipliers' cycles in which they multiply."""
    filled_cycles: Count | None = None
    """What the plan takes at least with filling and draining, which `duration_cycles` leaves out."""
    front: list[HierarchyPoint] | None = None
    """Points of a Pareto front, from the least of the first number on; all else is of its first plan."""


@measures
class HierarchyLayer(HierarchyTotals):
    """Of one layer on a hierarchy."""

    edp_nj_cycles: Count
    """Energy times delay, in nanojoules times cycles."""
    capacity_bytes: Count | None = None
    """What the memory on chip needs, where a front trades it."""
    nest: list[Loops]
    """The loop nest, outermost first."""
    levels_elements: dict[str, MovedElements]
    """By memory."""
    levels_bytes: dict[str, MovedBytes]
    """By memory; an element takes its width in bits."""
    levels_aj: dict[str, MovedEnergy] | None = None
    """By memory; with `mac_aj` they add up to `energy_aj`. Missing where nothing has a price."""
    mac_aj: Count | None = None
    """Energy of all MACs."""
    held_bytes: dict[str, dict[str, NonNegative]]
    """By memory but the first, by operand: what one instance reserves for all copies of a tile."""
    kept: dict[str, list[str]] | None = None
    """What the plan holds of what levels may hold; missing where it has nothing to decide."""
    multiplying_cycles: Count
    """In which the multipliers work."""
    waiting_cycles: dict[str, NonNegative]
    """In which they wait until a memory is filled or drained, by memory."""
    port_cycles: dict[str, NonNegative]
    """In which the busier port of a memory's first instance works, beside the multipliers."""
    limited_by: str
    """What takes longest: `multipliers`, `transfers of` a memory that they wait for, or a `port of` one."""
    filling_cycles: NonNegative | None = None
    """Before the first step, at least; the duration leaves it out."""
    draining_cycles: NonNegative | None = None
    """After the last step, at least; the duration leaves it out."""


# Operations between layers, and networks --------------------------------------------------------------


@measures
class AttentionBlocks(Table):
    """How attention is one step, whose tile tells queries, heads and keys."""

    level: str
    """The memory at which scores stay."""
    order: Literal["online", "rows"]
    """Whether softmax is computed block by block, with running maxima and sums, or of whole rows."""
    stay: list[str]
    """Of keys and values, those that are there as a whole."""


@measures
class Between(Executed):
    """Of an operation between layers, on any machine."""

    operation: str
    """What it does."""
    on: Literal["vector", "host", "multipliers"]
    """The unit that does it; of attention `multipliers`, and the vector unit where there is one."""
    tile: Amounts
    """Maps, rows and columns of a tile of outputs."""
    tiles: Count
    """Their number."""
    buffers_elements: Amounts
    """Elements that are reserved for each tensor of a tile."""
    vector_operations: Count
    least_accesses_elements: Count
    """What it reads and writes at least."""
    limited_by: str
    """What the time is spent on, most of all."""
    accesses_elements: Count
    """Elements moved from and to external memory."""
    accesses_bits: Count | None = None
    """On a DSP or an NPU that gives widths."""


@measures
class CycledBetween(Between, InCycles):
    """Of an operation on a machine whose time is in cycles."""

    PARTS: ClassVar[Mapping[str, str]] = OF_LAYER

    duration_cycles: Count
    """What the plan takes on its machine."""
    duration_of: Duration | None = None
    """Which of the other numbers of cycles the duration is; missing on a hierarchy."""
    energy_fj: Count | None = None
    """On a DSP."""
    energy_prices: str | None = None
    """Whose prices of energy these are."""
    energy_aj: Count | None = None
    """On a hierarchy."""
    edp_nj_cycles: Count | None = None
    """Energy times delay, on a hierarchy."""
    levels_bytes: dict[str, MovedBytes] | None = None
    """By memory, on a hierarchy."""
    levels_aj: dict[str, MovedEnergy] | None = None
    """By memory; with `vector_aj` and `mac_aj` they add up to `energy_aj`. Missing if nothing has a price."""
    vector_aj: Count | None = None
    """Energy of the operations themselves."""
    mac_aj: Count | None = None
    """Of attention, the energy of all MACs."""
    attention: AttentionBlocks | None = None
    """Of attention that is one step; missing where its operations are executed one after the other."""
    inner_loop: str | None = None
    """The loop inside of a tile, on a DSP with a vector unit."""
    front: list[DspPoint | HierarchyPoint] | None = None
    """Points of a Pareto front."""


@measures
class TimedBetween(Between, InPicoseconds):
    """Of an operation on an NPU."""

    PARTS: ClassVar[Mapping[str, str]] = OF_LAYER

    duration_ps: Count
    """What the plan takes on its machine."""
    duration_of: Duration
    """Which of the other times the duration is."""
    front: list[NpuPoint] | None = None
    """Points of a Pareto front."""


@measures
class DspNetwork(OfNetwork, DspTotals):
    """Of a network on a DSP."""

    layers: dict[str, DspLayer | CycledBetween]
    """By name, in order."""


@measures
class NpuNetwork(OfNetwork, NpuTotals):
    """Of a network on an NPU."""

    layers: dict[str, NpuLayer | TimedBetween]
    """By name, in order."""


@measures
class HierarchyNetwork(OfNetwork, HierarchyTotals):
    """Of a network on a hierarchy."""

    layers: dict[str, HierarchyLayer | CycledBetween]
    """By name, in order."""


LayerMeasures = DspLayer | NpuLayer | HierarchyLayer | CycledBetween | TimedBetween
NetworkMeasures = DspNetwork | NpuNetwork | HierarchyNetwork
TilingMeasures = LayerMeasures | NetworkMeasures


def duration(layer: LayerMeasures) -> int:
    """Return what a layer takes in the clock of its machine: cycles, or picoseconds of an NPU."""
    return layer.duration_ps if isinstance(layer, NpuLayer | TimedBetween) else layer.duration_cycles
