"""What the command line prints of a grouping."""

from __future__ import annotations

from tilewright.core.room import Rows
from tilewright.grouping.measures import GroupingMeasures
from tilewright.grouping.problem import Problem


def rows(problem: Problem, measures: GroupingMeasures) -> Rows:
    """Return the lines of a result's summary."""
    loaded = ", ".join(f"{name} {count:,}" for name, count in measures.loaded_elements.items())
    return [
        ("steps", f"{measures.steps:,}"),
        ("loaded", loaded),
        ("peak memory", f"{measures.peak_elements:,} elements"),
        ("duration", f"{measures.duration_cycles:,} cycles"),
    ]
