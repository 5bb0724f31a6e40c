"""What a report tells of an allocation beside its picture: the table, and the front where there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.allocation.measures import PipelineMeasures
from tilewright.allocation.problem import Problem
from tilewright.allocation.summary import table
from tilewright.core.overview import Front, Overview, of_table

ABOUT = (
    "All layers work at the same time, each on PEs of its own. Split: into which parts its PEs divide a "
    "layer. Work, pace: cycles from one output position to the next, without and with waits. Start: cycles "
    "after the begin of a frame. Busy, load: cycles for which a frame keeps a layer busy, with and without "
    "waits; the largest load sets the rate. Buffer: words that a layer's output takes."
)


def overview(problem: Problem, plan: Any, measures: PipelineMeasures) -> Overview:
    """Return the table with what its columns mean; of a front its points, too."""
    told = of_table(table(problem, measures))
    if not measures.front:
        return replace(told, about=ABOUT)
    traded = [(float(point.pes), float(point.interval_cycles)) for point in measures.front]
    return replace(told, what="plan of the front", front=Front("PEs", "cycles per frame", traded))
