"""What people are shown of an offloading plan."""

from __future__ import annotations

from tilewright.core.room import Rows
from tilewright.offloading.measures import OffloadingMeasures
from tilewright.offloading.problem import Problem


def rows(problem: Problem, measures: OffloadingMeasures) -> Rows:
    """Return the lines of a result's summary."""
    loaded = ", ".join(f"{name} {count:,}" for name, count in measures.loaded_elements.items())
    written = ", ".join(f"{name} {count:,}" for name, count in measures.written_elements.items())
    return [
        ("steps", f"{measures.steps:,}"),
        ("loaded", loaded),
        ("written", written),
        ("peak memory", f"{measures.peak_elements:,} elements"),
        ("duration", f"{measures.duration_cycles:,} cycles"),
    ]
