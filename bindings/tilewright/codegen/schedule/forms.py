"""The tables of a schedule as JSON; docs/schedule.md says what each key means."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from tilewright.core.forms import Amounts, Count, Counts, RoomName, Table
from tilewright.fusion.measures import FusedTile
from tilewright.tiling.hierarchy.level import LoopName
from tilewright.tiling.hierarchy.loops import Operand

FORMAT = 1

Positive = Annotated[int, Field(ge=1)]
Plane = Annotated[list[Count], Field(min_length=3, max_length=3)]
Range = Annotated[list[Count], Field(min_length=2, max_length=2)]


class Operation(Table):
    """A layer of the network: what it reads and computes."""

    kind: str
    op: str | None = None
    """The function, of kinds that have several, such as ``max`` of a pool."""
    reads: list[str]
    """Names of the layers whose outputs it reads, or ``input`` for the network's own input."""
    channels: list[Range | None] | None = None
    """First and end of the channels that it reads of each, where these are not all."""
    input: Plane
    """Channels, rows and columns before padding."""
    output: Plane
    """Channels, rows and columns."""
    kernels: Positive | None = None
    kernel: Counts | None = None
    """Rows and columns of a kernel or a window."""
    stride: Counts | None = None
    """Vertical and horizontal."""
    padding: Counts | None = None
    """Rows and columns at the top, bottom, left and right."""
    dilation: Counts | None = None
    groups: Positive | None = None
    """Groups of channels."""
    batch: Positive | None = None
    """Images that are processed together."""


class Schedule(Table):
    """What ``emit --as schedule`` writes."""

    format: Literal[1]
    room: RoomName
    instance: str
    """Name of what was solved."""
    instance_sha256: str
    """Of the problem's values; equal to that of the result."""
    minimise: str
    """What the objective is."""
    unit: str
    """What it counts."""
    objective: int
    """What the plan costs, as the simulator counts it."""
    machine: dict[str, Any]
    """The machine's table as in an instance, with every default."""


# Tiling ---------------------------------------------------------------------------------------------


class Loop(Table):
    """A loop that runs more than once."""

    level: str
    """The memory that its tiles come from, or the array over whose instances it is unrolled."""
    loop: LoopName
    trips: Positive
    """Iterations; of an unrolled loop, the instances that it occupies."""
    step: Positive
    """Positions of the layer's dimension that one iteration covers; the last may cover fewer."""
    unrolled: bool
    """Whether its iterations run at the same time, on the instances of an array."""


class Held(Table):
    """The tile of an operand that a memory holds."""

    shape: Counts
    """Input: images, channels, rows, columns. Weights: kernels, channels, rows, columns. Output as input."""
    elements: Count
    """Of one copy of the largest tile, the product of the shape."""
    bits: Positive
    """Of an element; of sums that are not complete their width."""
    bytes: Annotated[int | float, Field(ge=0)]
    """Of all copies."""


class OnChip(Table):
    """One instance of a memory."""

    capacity_bytes: Count | Amounts | None = None
    """For all operands together, or for each; missing where there is no limit."""
    copies: Positive
    """How often each tile is there: 2 with double buffering."""
    tile: dict[LoopName, Positive]
    """Positions of each dimension in the tile that the memory serves."""
    holds: dict[Operand, Held]
    """The buffers, by operand; what is missing passes by. Nothing stands here of external memory."""


class Array(Table):
    """Instances side by side, of everything further in."""

    instances: Positive
    used: Positive


class Costs(Table):
    """What the simulator counts of the layer."""

    macs: Count
    duration_cycles: Count | None = None
    duration_ps: Count | None = None
    """On an NPU instead of cycles."""
    accesses_elements: Count
    accesses_bits: Count | None = None
    """On a DSP or an NPU that gives widths."""
    loaded_elements: Amounts
    """From external memory, by operand."""
    written_elements: Amounts
    """To external memory."""
    energy_fj: Count | None = None
    energy_aj: Count | None = None


class Core(Table):
    """What a core of an NPU computes; ranges are half-open."""

    tle: Count
    """Number of the TLE that it belongs to."""
    rows: Range
    """Of the output."""
    filters: Range
    """Of a group, or of a depthwise layer of all."""


class TiledLayer(Table):
    """The loop nest of a layer."""

    shape: Operation
    dimensions: dict[LoopName, Positive]
    """Positions of each dimension of the layer; output and input maps are those of a group."""
    loops: list[Loop]
    """Outermost first. What no loop here cuts up is computed whole by the innermost level."""
    memories: dict[str, OnChip]
    """By name, external memory first."""
    arrays: dict[str, Array]
    """By name, the outermost first."""
    costs: Costs
    reuse: Literal["none", "tile", "halo", "weights"] | None = None
    """On a DSP: what stays on chip from tile to tile."""
    stationary: Literal["input", "output", "weights"] | None = None
    """On an NPU: the operand that stays."""
    partition: str | None = None
    """On an NPU: what its TLEs divide among them."""
    cores: list[Core] | None = None
    """On an NPU: the share of each core that has one."""
    kept: dict[str, list[Operand]] | None = None
    """On a hierarchy: what the plan holds where it decides that."""


class OperationTile(Table):
    """Outputs of an operation that are done at a time; of a row of values without geometry, columns alone."""

    maps: Positive
    rows: Positive
    columns: Positive


class StateTile(Table):
    """How a recurrent layer goes through its states."""

    hidden: Positive
    """Values of the state that are computed at a time."""
    steps: Positive
    """Points in time whose input is on chip."""
    images: Positive
    """Images whose states are on chip."""
    resident: Count
    """Values of the state, the first ones, whose weights stay from one point in time to the next."""


class TiledOperation(Table):
    """An operation between layers, cut into tiles: images outermost, then maps, columns and rows.

    A recurrent layer goes through its directions, of each through images, points in time and values.
    """

    shape: Operation
    on: Literal["vector", "host"]
    """What does it."""
    tile: OperationTile | StateTile | dict[str, Positive]
    """Of a move that gives values another order, sizes of a box (`dimension_1`, ...) of its input."""
    tiles: Positive
    buffers_elements: Amounts
    """Of the largest tile, by tensor."""
    costs: Costs


class TilingSchedule(Schedule):
    """The loop nests of a layer or a network."""

    room: Literal["tiling"]
    layers: dict[str, TiledLayer]
    """By name, in the order of execution; a single layer has the instance's name."""
    operations: dict[str, TiledOperation] | None = None
    """Operations between the layers that a unit of the machine does, by name, in the order of execution."""
    left_out: dict[str, Operation]
    """Layers of the network that are not tiled."""


# Allocation -----------------------------------------------------------------------------------------


class Split(Table):
    """Among how many PEs the work of a layer is divided; their product is the layer's PEs."""

    filters: Positive
    maps: Positive
    rows: Positive


class Units(Table):
    """On how many filters and input maps the units of a PE work at a time."""

    filters: Positive
    maps: Positive


class PlacedLayer(Table):
    """The PEs of a layer."""

    shape: Operation
    pes: Positive
    split: Split
    units: Units
    region: list[Range] | None = None
    """Its PEs as row and column; missing where the plan places none."""
    start_cycles: Count
    """When it begins, from the first pixel of a frame on."""
    busy_cycles: Count
    """From its start to its end, waits included."""
    work_cycles: Count
    """In which it computes a beat."""
    pace_cycles: Count
    """From beat to beat, waits included."""
    weights_elements: Count
    buffer_words: Count
    """Reserved for its output."""


class AllocationSchedule(Schedule):
    """The pipeline of a network."""

    room: Literal["allocation"]
    execution: Literal["layer-parallel", "layer-by-layer"]
    pacing: str
    pes: Positive
    interval_cycles: Count
    """From frame to frame."""
    latency_cycles: Count
    storage_words: Count
    layers: dict[str, PlacedLayer]
    """By name, in the order of execution."""
    left_out: list[str]
    """Layers that do not run on the array by themselves, or at all."""


# Fusion ---------------------------------------------------------------------------------------------


class GroupBuffers(Table):
    """Bytes of the buffers of a group, all copies."""

    input: Count
    """For maps that are loaded."""
    output: Count
    """For maps that are computed."""
    parameters: Count


class ScheduledGroup(Table):
    """Operations that run fused: what they hand each other never leaves the chip."""

    operations: list[str]
    """In the order of execution."""
    tile: FusedTile
    tiles: Range
    """How many tiles the last output is cut into, down and across."""
    largest_computed: dict[str, Counts]
    """By operation: most rows, columns and channels that are computed at a time."""
    buffers_bytes: GroupBuffers
    duration_cycles: Count
    busy_cycles: Amounts
    """By engine."""
    loaded_bytes: Count
    saved_bytes: Count


class FusionSchedule(Schedule):
    """The fused groups of a network."""

    room: Literal["fusion"]
    duration_cycles: Count
    groups: dict[str, ScheduledGroup]
    """By the names of their operations, joined by a plus sign (one in a name has a backslash before it)."""
    operations: dict[str, Operation]
    """All operations of the coarse graph, by name."""
    on_host: list[str]
    """Operations left to the host, which are counted nowhere."""


AnySchedule = TilingSchedule | AllocationSchedule | FusionSchedule
