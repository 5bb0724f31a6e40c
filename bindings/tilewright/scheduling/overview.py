"""What a report tells of a scheduling plan beside its picture: the table, with what its columns mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.core.overview import Overview, of_table
from tilewright.scheduling.measures import SchedulingMeasures
from tilewright.scheduling.problem import Problem
from tilewright.scheduling.summary import table

ABOUT = (
    "Operations of a subgraph run as one on tiles of w x h, and add up k products in a step. Kept: tensors "
    "that stay in fast memory for the next subgraph. A step takes as long as computing or moving, whichever "
    "is longer; latency is the sum of all steps."
)


def overview(problem: Problem, plan: Any, measures: SchedulingMeasures) -> Overview:
    """Return the table with what its columns mean."""
    return replace(of_table(table(problem, measures)), what="subgraph", about=ABOUT)
