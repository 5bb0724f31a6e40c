"""What a report tells of a residency plan beside its picture: a line for each step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.core.overview import Overview, of_table
from tilewright.residency.problem import Problem
from tilewright.residency.summary import table

ABOUT = (
    "Operations of a step run together, depth-first: pixel by pixel of the last one's output, or of one "
    "operation block by block of its output channels. Loaded, saved and on chip are bytes; whole maps are "
    "those that are on chip as a whole during the step."
)


def overview(problem: Problem, plan: Any, report: dict[str, Any]) -> Overview:
    """Return the table of steps."""
    return replace(of_table(table(problem, report)), what="step", about=ABOUT)
