"""What was measured of an executed pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tilewright.core.measures import Count, InCycles, Table, measures


@measures
class PipelinePoint(Table):
    """A plan of a Pareto front."""

    interval_cycles: Count
    """From frame to frame."""
    pes: Count
    latency_cycles: Count
    """From a frame's first pixel to its last output."""
    energy_fj: Count | None = None
    """Of a frame, where the machine has prices."""


@measures
class PipelineEnergy(Table):
    """Of a frame, by what takes it, with what was counted (docs/allocation.md)."""

    total_fj: Count
    macs_fj: Count
    registers_fj: Count
    hops_fj: Count
    buffers_fj: Count
    """Words that buffers give and take."""
    off_chip_fj: Count
    leakage_fj: Count | None = None
    """Of all PEs; not counted where it has no price."""
    register_accesses: Count
    hops: Count
    """Of words."""
    buffer_reads: Count
    """Words."""
    buffer_writes: Count
    off_chip_bytes: Count
    """Across the border of the chip."""


@measures
class WholeNetwork(Table):
    """The array with its configuration, and the host beside it, as far as the machine has their prices."""

    interval_cycles: Count
    """From frame to frame: the longer of what array and host take, which work on different frames."""
    latency_cycles: Count
    """Of a frame, the array first and then the host."""
    frames_per_second: float
    host_cycles: Count | None = None
    """Of a frame; not counted where the host has no price."""
    configuration_cycles: Count | None = None
    """Once for a pipeline, in turn for all layers of each frame; not counted where it has no price."""
    hosted: list[str]
    """Layers that run on the host."""


@measures
class PipelineTraffic(Table):
    """What crosses the chip's border, where plans decide what stays on chip."""

    bytes_per_frame: Count
    transfer_cycles: Count
    """In which these bytes cross it."""
    streamed: list[str]
    """Layers whose weights come as they are used."""
    spilled: list[str]
    """Maps that are written off chip and read again."""


@measures
class PublishedPipeline(Table):
    """As the paper's equations 3 to 13 have it."""

    interval_cycles: Count
    latency_cycles: Count
    frames_per_second: float


@measures
class PipelineLayer(Table):
    """Of a layer of a pipeline, on its first frame."""

    pes: Count
    split: list[int]
    """Among how many PEs filters, input maps and rows are divided."""
    units: list[int]
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


@measures
class PipelineMeasures(InCycles):
    """Of an allocation; of a front those of its first plan, with the points of all."""

    PARTS: ClassVar[Mapping[str, str]] = {"front": "", "layers": "layer"}

    interval_cycles: Count
    """From frame to frame."""
    latency_cycles: Count
    """From a frame's first pixel to its last output."""
    pes: Count
    executed_frames: Count
    frames_per_second: float
    storage_words: Count
    """All buffers and weights."""
    program_words: Count | None = None
    """The same with all copies of weights that a pipeline's PEs hold, one for each group of rows."""
    pacing: str
    """Whether a layer waits for the slowest before it (`matched`) or of all (`uniform`)."""
    published: PublishedPipeline
    """What the paper's equations 3 to 13 say of it."""
    distance_hops: Count | None = None
    """Between the regions of consecutive layers, where they are placed."""
    least_distance_hops: Count | None = None
    """On any array."""
    energy_fj: Count | None = None
    """Of a frame, where the machine has prices."""
    energy: PipelineEnergy | None = None
    """By what takes it."""
    network: WholeNetwork | None = None
    """With configuration and host, where one of them has a price."""
    off_chip: PipelineTraffic | None = None
    """Across the chip's border, where that has a rate."""
    layers: dict[str, PipelineLayer]
    """By name, in order."""
    front: list[PipelinePoint] | None = None
    """Points of a Pareto front; the other measures are of its first plan."""
    executed_plans: Count | None = None
    """How many of them were executed."""
