"""What was measured of an executed grouping."""

from __future__ import annotations

from tilewright.core.measures import Lasting, counted, measures
from tilewright.simulator import Report


@measures
class GroupingMeasures(Lasting):
    """Of a grouping; what it takes is one stage of a step after the other."""


def measured(report: Report) -> GroupingMeasures:
    """Return the measures of a valid plan."""
    assert report.sequential is not None
    return GroupingMeasures(**counted(report), duration_cycles=report.sequential.cycles, duration_of="serial")
