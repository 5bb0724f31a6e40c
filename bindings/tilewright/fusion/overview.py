"""What a report tells of a fusion plan beside its picture: operations, their groups, what these cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.core.overview import Cell, Overview, of_table
from tilewright.fusion.measures import FusionMeasures
from tilewright.fusion.problem import Problem
from tilewright.fusion.summary import table

ABOUT = (
    "Operations of one group run as one, tile by tile: what one gives the next stays on chip. What a group "
    "costs stands in the line of its first operation: cycles, bytes loaded and saved, and of on-chip buffers."
)


def overview(problem: Problem, plan: Any, measures: FusionMeasures) -> Overview:
    """Return the table with the group in every line, so that it can be sorted, and what the host computes."""
    told = of_table(table(problem, measures))
    group: Cell = None
    lines = []
    for line in told.lines:
        group = group if line["0"] is None else line["0"]
        lines.append({**line, "0": group})
    return replace(told, what="operation", about=ABOUT, lines=lines)
