"""What was measured of an executed grouping."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.core.measures import Lasting, counted
from tilewright.simulator import Report


@dataclass(frozen=True, kw_only=True)
class GroupingMeasures(Lasting):
    """Of a grouping; what it takes is one stage of a step after the other."""


def measures(report: Report) -> GroupingMeasures:
    """Return the measures of a valid plan."""
    assert report.sequential is not None
    return GroupingMeasures(**counted(report), duration_cycles=report.sequential.cycles, duration_of="serial")
