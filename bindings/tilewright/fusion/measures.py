"""What was measured of executed groups of operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tilewright.core.measures import Amounts, Count, Lasting, Table, measures


@measures
class FusedTile(Table):
    """How a group is cut up (docs/formats.md, Plans)."""

    rows: Count
    columns: Count
    kernels: Count
    channels: Count
    halo: str
    order: str
    parameters: str


@measures
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


@measures
class FusedGroupMeasures(FusedTotals):
    """Of a group of operations that run fused."""

    operations: list[str]
    tile: FusedTile
    buffers_bytes: list[Count]
    """For maps that are loaded, for those that are computed, for parameters."""
    busy_cycles: Amounts
    """By engine."""
    largest_computed: dict[str, list[Count]]
    """By operation: most rows, columns and channels that are computed at a time."""
    bursts: Count | None = None
    """Of LOAD and SAVE; missing where the machine does not tell of layouts."""


@measures
class HostBeside(Table):
    """Where the host works beside the engines instead of between the groups (docs/fusion.md, The host)."""

    latency_cycles: Count
    """Of a batch of images alone."""
    interval_cycles: Count
    """From batch to batch."""
    batches_in_flight: Count
    """That are worked on at a time at this interval."""


@measures
class FusionMeasures(Lasting, FusedTotals):
    """Of a fusion."""

    PARTS: ClassVar[Mapping[str, str]] = {"groups": "group"}

    duration_ms: float
    gops_per_second: float
    """10^9 operations per second; a MAC is two operations."""
    ops_per_byte: float
    """Operations for each byte of traffic."""
    operations: Count
    """Of the coarse graph."""
    on_host: list[str]
    """Operations left to the host; only what they take is in a total, the duration."""
    host_bytes: Count | None = None
    """What they read, write and have as parameters; missing in older files, like the two below."""
    host_macs: Count | None = None
    """As far as they are known."""
    host_cycles: Count | None = None
    """What they take; missing where the machine has no price of the host."""
    host_beside: HostBeside | None = None
    """Missing where the machine has no price of the host, nothing is left to it, or it copies maps, too."""
    bursts: Count | None = None
    """Of LOAD and SAVE; missing where the machine does not tell of layouts, like the two below."""
    copied: list[str] | None = None
    """Maps that the host copies into or from another layout."""
    copy_cycles: Count | None = None
    """What that takes; part of the duration."""
    groups: dict[str, FusedGroupMeasures]
    """By the names of their operations, joined by a plus sign (one in a name has a backslash before it)."""
