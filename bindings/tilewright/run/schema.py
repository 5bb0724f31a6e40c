"""What the command line prints with ``--json`` and writes into result files, as a JSON Schema.

``python -m tilewright.run.schema`` prints the schema that stands in docs/tilewright.schema.json.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from tilewright.codegen.schedule.forms import AnySchedule, FusedTile
from tilewright.core.context import Status
from tilewright.core.forms import Amounts, Count, Counts, NonNegative, RoomName, Table
from tilewright.run.finding import State

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Duration = Literal["serial", "lockstep", "scheduled"]
Former = Field(default=None, deprecated=True, description="Former form; `measures` says it with units.")


# Measures -------------------------------------------------------------------------------------------


class Executed(Table):
    """What the simulator counts in every room."""

    steps: Count
    """Steps that compute something."""
    macs: Count
    """Multiply-accumulates; in `fusion` those of convolutions only."""
    transfers: Count
    """Load actions and write-back actions."""
    loaded_elements: Amounts
    """Elements loaded from external memory, by operand or tensor, those without any left out."""
    written_elements: Amounts
    """Elements written to external memory."""
    streamed_elements: Count
    """Elements that engines exchanged with on-chip memories while they computed."""
    peak_elements: Count
    """Most elements on chip at one time."""
    most_loads_of_an_element: Count
    """How often the most loaded element was loaded."""


class InCycles(Executed):
    """Executed on a machine whose times are cycles."""

    serial_cycles: Count | None = None
    """One action after the other, without any overlap."""
    lockstep_cycles: Count | None = None
    """Double-buffered, tile by tile: transfers of the next tile beside the computation of this one."""
    scheduled_cycles: Count | None = None
    """By the static schedule that the plan has; in `allocation` of all `executed_frames` together."""
    overlapped_cycles: Count | None
    """Every engine on a clock of its own; null where that was not simulated."""


class Lasting(InCycles):
    """A plan that takes a number of cycles."""

    duration_cycles: Count
    """What the plan takes on its machine, of a network all layers together."""
    duration_of: Duration
    """Which of the other numbers of cycles the duration is."""


class Grouping(Lasting):
    """Of a grouping."""


class Point(Table):
    """A point of a Pareto front, with what it trades."""

    plans: list[Count] | None = None
    """Of a network's: which plan of each layer's front makes it, counted from 0."""


class Shown(Table):
    """Which points of its front a network's measures have, where two costs are traded."""

    front_points: Count | None = None
    """Points of the whole front; null where those on its convex hull were found."""
    front_every: Count | None = None
    """Of the points that were found, `front` has each so many-th, and the last."""


class DspPoint(Point):
    """A plan of a Pareto front on a DSP."""

    duration_cycles: Count | None = None
    accesses_elements: Count | None = None
    accesses_bits: Count | None = None
    """In place of elements on a machine that gives widths."""
    energy_fj: Count | None = None


class DspTotals(Lasting):
    """Of tiles on a DSP, of one layer or of all layers of a network."""

    accesses_elements: Count
    """Elements moved from and to external memory."""
    energy_fj: Count
    """Energy of core, external memory and local traffic, in femtojoules."""
    energy_prices: str
    """Whose prices of energy these are: the instance's, or those of the thesis's DSP."""
    gops_per_second: float
    """10^9 operations per second; a MAC is two operations."""
    ops_per_byte: float
    """Operations for each byte moved from or to external memory."""
    least_accesses_elements: Count
    """Fewest accesses of any schedule."""
    least_accesses_by: str
    """What proves them."""
    accesses_bits: Count | None = None
    """Bits moved from and to external memory, on a machine that gives widths."""
    front: list[DspPoint] | None = None
    """Points of a Pareto front, from the least of the first number on; all else is of its first plan."""


class DspLayer(DspTotals):
    """Of one layer on a DSP."""

    limited_by: str | None = None
    """What works longest: multipliers, set-up of transfers, or bus. Missing in older files."""
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


class Between(Executed):
    """Of an operation between layers, on any machine."""

    operation: str
    """What it does."""
    on: Literal["vector", "host"]
    """The unit that does it."""
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
    accesses_bits: Count | None = None
    """On a DSP or an NPU that gives widths."""


class CycledBetween(Between, InCycles):
    """Of an operation on a machine whose time is in cycles."""

    duration_cycles: Count
    duration_of: Duration | None = None
    energy_fj: Count | None = None
    """On a DSP."""
    energy_prices: str | None = None
    energy_aj: Count | None = None
    """On a hierarchy."""
    edp_nj_cycles: Count | None = None
    levels_bytes: dict[str, MovedBytes] | None = None
    """By memory, on a hierarchy."""
    levels_aj: dict[str, MovedEnergy] | None = None
    """By memory; with `vector_aj` they add up to `energy_aj`. Missing where nothing has a price."""
    vector_aj: Count | None = None
    """Energy of the operations themselves."""


class TimedBetween(Between):
    """Of an operation on an NPU."""

    serial_ps: Count
    overlapped_ps: Count | None
    duration_ps: Count
    duration_of: Duration


class NotModelled(Table):
    """Operations of a network that nothing on the machine is told to do."""

    operations: Count
    elements: Count
    """What they read and write at least, if none is fused."""
    bytes: Count
    macs: Count
    names: list[str]


class DspNetwork(DspTotals, Shown):
    """Of a network on a DSP."""

    not_modelled: NotModelled | None = None
    layers: dict[str, DspLayer | CycledBetween]
    """By name, in order."""


class NpuPoint(Point):
    """A plan of a Pareto front on an NPU."""

    duration_ps: Count | None = None
    accesses_elements: Count | None = None
    accesses_bits: Count | None = None
    """In place of elements on a machine that gives widths."""


class NpuTotals(Executed):
    """Of tiles on a multicore NPU, whose times are picoseconds; of one layer or of all of a network."""

    serial_ps: Count
    """One stage after the other, as the cores go on together."""
    overlapped_ps: Count | None
    """Every engine on a clock of its own; null where that was not simulated."""
    duration_ps: Count
    """What the plan takes on its machine."""
    duration_of: Duration
    accesses_elements: Count
    """Elements moved from and to external memory."""
    bursts: Count
    """Of external memory."""
    published_ps: Count
    """Time as the paper's formulas count it, edge tiles as full ones."""
    published_bursts: Count
    accesses_bits: Count | None = None
    """Bits moved from and to external memory, on a machine that gives widths."""
    front: list[NpuPoint] | None = None
    """Points of a Pareto front, from the least of the first number on; all else is of its first plan."""


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


class NpuNetwork(NpuTotals, Shown):
    """Of a network on an NPU."""

    not_modelled: NotModelled | None = None
    layers: dict[str, NpuLayer | TimedBetween]
    """By name, in order."""


class Loops(Table):
    """The loops of a memory or of an axis of an array."""

    node: str
    loops: Amounts
    """Iterations, outermost first."""


class MovedElements(Table):
    """What all instances of a memory read and write."""

    read: Amounts
    """By what it is: input, weights, output, or partial sums."""
    written: Amounts


class MovedBytes(Table):
    """What all instances of a memory read and write, without what is not moved; elements may be narrow."""

    read: dict[str, NonNegative]
    """By what it is: input, weights, output, or partial sums."""
    written: dict[str, NonNegative]


class MovedEnergy(Table):
    """What it costs to read and to write all instances of a memory, in attojoules."""

    read: Amounts
    written: Amounts


class HierarchyPoint(Point):
    """A plan of a Pareto front on a hierarchy."""

    duration_cycles: Count | None = None
    accesses_elements: Count | None = None
    energy_aj: Count | None = None
    capacity_bytes: Count | None = None
    """What the memory on chip needs."""
    least_accesses_elements: Count | None = None
    """Beside a capacity, a lower bound on the accesses of every schedule that has no more."""


class HierarchyTotals(InCycles):
    """Of tiles on a hierarchy of memories, of one layer or of all layers of a network."""

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


class HierarchyNetwork(HierarchyTotals, Shown):
    """Of a network on a hierarchy."""

    not_modelled: NotModelled | None = None
    layers: dict[str, HierarchyLayer | CycledBetween]
    """By name, in order."""


class PipelinePoint(Table):
    """A plan of a Pareto front."""

    interval_cycles: Count
    pes: Count
    latency_cycles: Count


class PipelineLayer(Table):
    """Of a layer of a pipeline, on its first frame."""

    pes: Count
    split: Counts
    """Among how many PEs filters, input maps and rows are divided."""
    units: Counts
    """On how many filters and maps the units of a PE work."""
    work_cycles: Count
    """In which the layer computes a beat."""
    pace_cycles: Count
    """From beat to beat, waits included."""
    start_cycles: Count
    """When it begins."""
    busy_cycles: Count
    """From its start to its end, waits included."""
    load_cycles: Count
    """For which a frame keeps it busy, without waits."""
    weights_elements: Count
    buffer_words: Count
    """Reserved for its output."""
    held_words: Count
    """Most of its output that was held."""


class PublishedPipeline(Table):
    """As the paper's equations 3 to 13 have it."""

    interval_cycles: Count
    latency_cycles: Count
    frames_per_second: float


class Pipeline(InCycles):
    """Of an allocation."""

    interval_cycles: Count
    """From frame to frame."""
    latency_cycles: Count
    """From a frame's first pixel to its last output."""
    pes: Count
    executed_frames: Count
    frames_per_second: float
    storage_words: Count
    """All buffers and weights."""
    pacing: str
    published: PublishedPipeline
    distance_hops: Count | None = None
    """Between the regions of consecutive layers, where they are placed."""
    least_distance_hops: Count | None = None
    layers: dict[str, PipelineLayer]
    """By name, in order."""
    front: list[PipelinePoint] | None = None
    """Points of a Pareto front; the other measures are of its first plan."""
    executed_plans: Count | None = None
    """How many of them were executed."""


class FusedTotals(Table):
    """Of a group of operations, or of all groups."""

    duration_cycles: Count
    """What it takes on its machine."""
    loaded_bytes: Count
    saved_bytes: Count
    traffic_bytes: Count
    """Loaded and saved."""
    energy_nj: Count
    """Energy by the machine's prices, in nanojoules; 0 where nothing has a price."""
    memory_bytes: Count
    """All buffers of the group, of a plan those of its largest group."""
    macs: Count
    """Of convolutions."""


class FusedGroup(FusedTotals):
    """Of a group of operations that run fused."""

    operations: list[str]
    tile: FusedTile
    buffers_bytes: Counts
    """For maps that are loaded, for those that are computed, for parameters."""
    busy_cycles: Amounts
    """By engine."""
    largest_computed: dict[str, Counts]
    """By operation: most rows, columns and channels that are computed at a time."""


class Fusion(Lasting, FusedTotals):
    """Of a fusion."""

    duration_ms: float
    gops_per_second: float
    ops_per_byte: float
    operations: Count
    """Of the coarse graph."""
    on_host: list[str]
    """Operations left to the host; only what they take is in a total, the duration."""
    host_bytes: Count | None = None
    """What they read, write and have as parameters; missing in older files, like the two below."""
    host_macs: Count | None = None
    """As far as they are known."""
    host_cycles: Count | None = None
    """What they take; null where the machine has no price of the host."""
    groups: dict[str, FusedGroup]
    """By the names of their operations, joined by a plus sign (one in a name has a backslash before it)."""


class MeasuredBits(Table):
    """What was seen of integers beside floating point."""

    signal_to_noise_db: float | None
    """Of the sums, in decibels; null where there is no noise."""
    overflows: Count
    """Complete sums that the accumulator does not hold."""


class MeasuredBitsLayer(MeasuredBits):
    """Of a layer: the ratio is that when it alone is quantised."""

    sums: Count
    """Complete sums of all images."""
    first_overflows: list[Counts]
    """Image, map, row and column of the first of them, from 0."""
    saturated: Count
    """Values that the layer read or stored and that their format does not hold."""


class MeasuredBitsNetwork(MeasuredBits):
    """Of a network: the ratio is that of its outputs."""

    images: Count
    """How many were run."""
    right: Count | None
    """Of them in the right class; null without labels."""
    float_right: Count | None
    """Likewise in floating point."""
    agreeing: Count
    """Images that both put into the same class."""
    saturated: Count = 0
    """Values that their format does not hold, wherever they are read or stored."""


class BitsPoint(Table):
    """A plan of a Pareto front of bit widths."""

    noise_ppb: Count
    """Noise of quantisation by the model, in parts per billion of the signal's power."""
    moved_bits: Count
    """Of all inputs and weights, each once."""


BitsFormat = Annotated[list[int], Field(min_length=2, max_length=2)]


class BitsLayer(Table):
    """A layer with its formats: width, and bits behind the point."""

    input_format: BitsFormat
    weights_format: BitsFormat
    sum_format: BitsFormat
    """The fewest bits that the bound lets a sum have."""
    available_bits: int
    """Of inputs and weights together."""
    extra_bits: Count
    """Of a sum beyond a product."""
    products_of_a_sum: Count
    moved_bits: Amounts
    """By operand."""
    noise_ppb: Count
    measured: MeasuredBitsLayer | None = None


class Bits(InCycles):
    """Of bit widths; of a front those of its first plan, with the points of all."""

    noise_ppb: Count
    moved_bits: Count
    measured: MeasuredBitsNetwork | None = None
    """Missing where the instance has no weights and samples."""
    layers: dict[str, BitsLayer]
    """By name, in order."""
    front: list[BitsPoint] | None = None


Tilings = DspNetwork | DspLayer | NpuNetwork | NpuLayer | HierarchyNetwork | HierarchyLayer


class Addressed(InCycles):
    """Of buffers in one memory."""

    memory_addresses: Count
    """The height: addresses from 0 to the highest that is used."""
    live_addresses: Count
    """Most addresses of all buffers that live at one time."""
    buffers: Count
    """How many there are."""


class ResidencyStep(Table):
    """A step of a residency plan."""

    order: Literal["pixels", "kernels", "tiles", "channels"]
    """The outer loop: over pixels of the last operation's output, or over blocks of output channels. Where
    input channels are added up block by block: over tiles, or over blocks of output channels."""
    pixels: Count
    """Of the last operation's output, computed in a pass."""
    kernels: Count
    """Output channels in a block, where weights are not kept."""
    passes: Count
    loaded_bytes: Count
    saved_bytes: Count
    memory_bytes: Count
    """All that is on chip."""
    on_chip_bytes: Amounts
    """What each whole map, line buffer and block takes of it."""
    cycles: Count | None = None
    """Where the machine has rates or prices, or the objective needs them; so is energy."""
    energy_fj: Count | None = None
    double_buffering: bool | None = None
    """Whether what is loaded and written in passes has second buffers."""


class Residency(Executed):
    """Of a network in one memory."""

    traffic_bytes: Count
    """Moved from and to DRAM."""
    memory_bytes: Count
    """Up to the highest address that is used."""
    loaded_bytes: Count
    saved_bytes: Count
    compulsory_bytes: Count
    """Inputs, outputs and weights of the network, each once, but for weights that stay."""
    layer_by_layer_bytes: Count
    """What is moved if every operation runs alone and every map goes out to DRAM, in the same memory."""
    weights_bytes: Count
    staying_bytes: Amounts | None = None
    """Weights that are on chip for good, by operation: loaded once before the first frame. All else is
    told of each later frame."""
    executed_again: list[str] | None = None
    """Operations that are executed twice."""
    cycles: Count | None = None
    """Where the machine has rates or prices, or the objective needs them; so is energy."""
    energy_fj: Count | None = None
    compulsory_cycles: Count | None = None
    """What every plan takes at least."""
    compulsory_energy_fj: Count | None = None
    overlapped_cycles: None = None
    """Steps that overlap with themselves are told in `cycles`."""
    steps_of_plan: dict[str, ResidencyStep]
    """By the names of their operations, joined with +, in order."""


class ScheduledSubgraph(Table):
    """A subgraph; times are in the instance's unit, elements those of fast memory."""

    operations: Counts
    granularity: list[int]
    """Width and height of a tile, and products that a step adds up."""
    retained: Counts
    """Tensors that stay for the next subgraph."""
    order: str
    """Of the tiles."""
    latency: NonNegative
    compute: NonNegative
    """What computing alone takes."""
    transfer: NonNegative
    """What transfers alone take."""
    steps: Count
    steps_bound_by_transfer: Count
    """Steps in which moving takes longer than computing."""
    peak_elements: Count


class Scheduling(InCycles):
    """Of a graph of operations on a small memory."""

    latency: NonNegative
    """Of all subgraphs together."""
    subgraphs: list[ScheduledSubgraph]


Measures = Grouping | Tilings | Pipeline | Fusion | Bits | Addressed | Residency | Scheduling


# Reports --------------------------------------------------------------------------------------------


class Totals(Table):
    """The former form of a report's counts, whose names do not tell units; on an NPU `cycles` are ps."""

    valid: bool
    """Whether no rule was broken, and the numbers, if any, are right."""
    violation: str | None
    """The first rule that was broken: step, tensor, what was needed, what was there."""
    numeric: bool | None = None
    """Whether real integers gave the reference's result; null where none were moved."""
    steps: Annotated[Any, Former]
    cycles: Annotated[Any, Former]
    overlapped_cycles: Annotated[Any, Former]
    lockstep_cycles: Annotated[Any, Former]
    scheduled_cycles: Annotated[Any, Former]
    loaded: Annotated[Any, Former]
    written: Annotated[Any, Former]
    transfers: Annotated[Any, Former]
    streamed: Annotated[Any, Former]
    macs: Annotated[Any, Former]
    peak_memory: Annotated[Any, Former]
    most_loads: Annotated[Any, Former]
    facts: Annotated[Any, Former]
    layers: Annotated[Any, Former]


class Report(Totals):
    """What the simulator says of a plan."""

    measures: Measures | None = None
    """All that was measured of a valid plan; missing in older files, and of a plan that breaks a rule."""


class Step(Table):
    """A step of an executed plan; elements by tensor, those without any left out."""

    step: Count
    label: str
    freed: Amounts
    written: Amounts
    loaded: Amounts
    computed: Amounts
    footprint: Amounts
    """What each tensor occupies when the step holds most."""
    serial_cycles: Count | None = None
    """Without overlap; null where the plan has a static schedule."""
    serial_ps: Count | None = None
    """Likewise, on an NPU."""
    cycles: Annotated[Any, Former]


class Simulation(Report):
    """What ``simulate --json`` prints."""

    per_step: list[Step]


# Results --------------------------------------------------------------------------------------------

TracePoint = Annotated[list[float | int | None], Field(min_length=3, max_length=3)]


class Result(Table):
    """A result file, and what ``solve --json`` prints."""

    format: Literal[1]
    room: RoomName
    instance: str
    """Name of what was solved."""
    instance_sha256: str
    """Of the problem's values."""
    method: str
    """As given with ``--with``."""
    status: Status
    minimise: str | None = None
    """What the objective is, of a list the last; missing in older files."""
    unit: str | None = None
    """What objective and bound count; missing in older files."""
    objective: int | None
    """Cost of the plan; null without one."""
    bound: int | None
    """Proven lower bound of the cost of every plan."""
    gap: float | int | None
    """(objective - bound) / objective."""
    space: str | None = None
    """The plans that status, bound and gap are about, where a limit of the instance chooses them."""
    wider: WiderSpace | None = None
    """What ``auto`` has found among more plans than these."""
    seconds: float | int
    seed: int
    warm_start: str | None
    plan: dict[str, Any] | None
    """Decisions only (docs/formats.md, Plans); of a network in the order of `report.measures.layers`."""
    report: Report | None
    bound_by: str | None = None
    """What proves the bound: a method, or the room's bound."""
    grounds: str | None = None
    """What a method's proof rests on, in a sentence."""
    failures: list[str] = Field(default=[])
    interrupted: bool = False
    trace: list[TracePoint] = Field(default=[])
    """``[seconds, objective, bound]`` from the first plan to the end."""
    versions: dict[str, str] = Field(default={})
    simulated: bool = True
    """Whether the objective is the simulator's; else it is the closed form's, and there is no report."""
    confirmed_by: str | None = None
    """A second method that proved the same."""
    proved_by: str | None = None
    """The bound that closed the run before the method had done anything; missing where the method was run."""
    unverified: str | None = None
    """What a method claims that tilewright does not answer for, and that no other method has proven."""
    at_least: dict[str, str] | None = None
    """The operations whose cost is but a lower bound, as the objective then is, and why."""
    time_limit: float | int | None = None
    """Seconds that the run was given; missing in older files, as are the next two."""
    threads: int | None = None
    """Most processes and threads that worked at a time."""
    spent: Spent | None = None
    """Seconds by what was done in them."""


class WiderSpace(Table):
    """What is known of a larger space of plans than the declared one."""

    space: str
    set: str
    """The setting of the instance that takes it."""
    objective: int
    """Least cost that was found there."""
    bound: int
    """Proven lower bound of the cost of every plan there."""
    seconds: NonNegative
    """How long it was looked for."""


class Spent(Table):
    """Seconds of a run, each counted once: for the first of these that some process did."""

    solving: NonNegative = 0
    """Inside the solver, the search or the heuristic that was asked for."""
    building: NonNegative = 0
    """A solver's model built, flattened and handed over."""
    constructing: NonNegative = 0
    """Heuristics that give a method its start."""
    starting: NonNegative = 0
    """Processes started, and files imported."""
    bounding: NonNegative = 0
    """The room's bound computed."""
    confirming: NonNegative = 0
    """A second method that was asked to confirm a claim."""
    widening: NonNegative = 0
    """What a larger space of plans gains looked for."""
    simulating: NonNegative = 0
    """The answer executed."""


class Failed(Table):
    """An entry of ``compare --json`` without a result."""

    room: RoomName | None = None
    instance: str
    method: str
    seed: int | None = None
    threads: int | None = None
    time_limit: float | int | None = None
    objective: None
    bound: None
    error: str


class SweptPoint(Table):
    """A point of ``sweep -o FILE.json`` and ``sweep --json``."""

    values: dict[str, Any]
    """What the point gives to each swept field."""
    status: Status | Literal["refused", "failed"]
    """The result's; ``refused`` for values that are no problem."""
    result: Result | None
    reason: str | None
    """Why there is no result."""


class Finding(Table):
    """A finding of ``check --json``."""

    what: str
    holds: bool
    state: State
    detail: str


# Other commands -------------------------------------------------------------------------------------


class Memory(Table):
    """Bytes of on-chip buffers of an emitted program."""

    planned_bytes: Count
    """Of all copies, every element as wide as the machine says."""
    emitted_bytes: Count
    """Of the C buffers in as many copies."""
    copy_bytes: Count
    """Of one copy, which the file declares."""
    copies: Count
    memory_bytes: Count
    """What the machine has."""
    fits: bool
    plan_bits: Count
    element_bits: Count
    accumulator_bits: Count
    wider: list[str]
    """What has other widths in C than in the plan, in words."""


class Emitted(Table):
    """What ``emit --json`` prints."""

    instance: str
    memory: Memory
    warning: str | None
    """By how much the emitted buffers exceed the memory, and why."""
    source: str


class RoomRow(Table):
    """A room in ``list``."""

    room: RoomName
    decides: str


class ModelRow(Table):
    """A formulation in ``list``."""

    room: RoomName
    model: str
    solvers: str
    what: str


class HeuristicRow(Table):
    """A heuristic in ``list``."""

    room: RoomName
    heuristic: str
    what: str


class SolverRow(Table):
    """A solver in ``list``."""

    solver: str
    installed: bool
    version: str
    install: str
    wrong: str
    broken: bool


class InstanceRow(Table):
    """A bundled instance in ``list``."""

    room: RoomName
    instance: str
    source: str


class MachineRow(Table):
    """A bundled machine in ``list``."""

    machine: str
    kind: str
    rooms: str
    """Those that take it."""
    memories: str
    memories_bytes: dict[str, Count | Amounts | None]
    """Of an instance of each on-chip memory; null for no limit."""
    pes: Count
    macs_per_cycle: Count
    """Of all of them."""
    clock_mhz: NonNegative
    source: str


class NetworkRow(Table):
    """A bundled network in ``list``."""

    network: str
    layers: Count
    convolutions: Count
    """With fully connected layers and matrix products."""
    macs: Count
    source: str


class Lists(Table):
    """What ``list --json`` prints; with a name, that list alone."""

    rooms: list[RoomRow]
    models: list[ModelRow]
    heuristics: list[HeuristicRow]
    solvers: list[SolverRow]
    instances: list[InstanceRow]
    machines: list[MachineRow]
    networks: list[NetworkRow]


OneList = (
    list[RoomRow]
    | list[ModelRow]
    | list[HeuristicRow]
    | list[SolverRow]
    | list[InstanceRow]
    | list[MachineRow]
    | list[NetworkRow]
)

Document = (
    Result
    | Simulation
    | list[Result | Failed]
    | list[SweptPoint]
    | list[Finding]
    | Emitted
    | AnySchedule
    | Lists
    | OneList
)
"""Anything that is printed or written."""


def schema() -> dict[str, Any]:
    """Return the JSON Schema of anything that is printed or written; each form is one of its ``$defs``."""
    found = TypeAdapter(Document).json_schema(mode="validation")
    _without_titles(found)
    about = {"title": "JSON of tilewright", "description": (__doc__ or "").split("\n")[0]}
    return {"$schema": DIALECT, **about, **found}


def _without_titles(value: Any) -> None:
    """Remove the titles that repeat the names of fields."""
    if isinstance(value, dict):
        if isinstance(value.get("title"), str):
            del value["title"]
        for each in value.values():
            _without_titles(each)
    elif isinstance(value, list):
        for each in value:
            _without_titles(each)


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))
