"""What was measured of an executed graph of operations on a small memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tilewright.core.measures import Count, InCycles, NonNegative, Table, measures


@measures
class SubgraphMeasures(Table):
    """Of a subgraph; times are in the instance's unit, elements those of fast memory."""

    operations: list[int]
    granularity: list[int]
    """Width and height of a tile, and products that a step adds up."""
    retained: list[int]
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


@measures
class SchedulingMeasures(InCycles):
    """Of a graph of operations on a small memory."""

    PARTS: ClassVar[Mapping[str, str]] = {"subgraphs": "subgraph"}

    latency: NonNegative
    """Of all subgraphs together, in the instance's unit."""
    latency_ticks: Count | None = None
    """The same exactly, in the parts of a unit of time that the simulator counts; missing in older files."""
    subgraphs: list[SubgraphMeasures]
    """In the order in which they run."""
