"""What a report tells of a residency plan beside its picture: a line for each step."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from tilewright.core.overview import Front, Overview, of_table
from tilewright.residency.exact.traffic_curve import point_of, traffic_curve
from tilewright.residency.machine import ONE
from tilewright.residency.measures import ResidencyMeasures
from tilewright.residency.problem import Problem
from tilewright.residency.summary import table

ABOUT = (
    "Operations of a step run together, depth-first: pixel by pixel of the last one's output, or of one "
    "operation block by block of its output channels; tiles and channels add up its input channels block by "
    "block, tile by tile or plane by plane. Strips cut the last one's output into columns. Loaded, saved and "
    "on chip are bytes; whole maps are those that are on chip as a whole during the step."
)


CURVE = (
    "The least traffic of any plan for every size of the memory, all of it proven. Each point is a memory "
    "from which on less has to be moved; the diamond is the plan of this report."
)

CURVE_SECONDS = 5.0
"""How long the curve may take to be shown: all of it or nothing."""


def overview(problem: Problem, plan: Any, measures: ResidencyMeasures) -> Overview:
    """Return the table of steps, and traffic over memory where that can be had within some seconds."""
    front = _curve(problem, plan) if problem.limits.frames == ONE and problem.limits.executions == 1 else None
    return replace(of_table(table(problem, measures)), what="step", about=ABOUT, front=front)


def _curve(problem: Problem, plan: Any) -> Front | None:
    """Return the curve if all of it is proven in time."""
    curve = traffic_curve(problem, time.monotonic() + CURVE_SECONDS, plans=[plan])
    if not curve.proven:
        return None
    points = [(corner.memory_bytes, corner.traffic_bytes) for corner in curve.corners]
    marked = point_of(problem, plan)
    end = 2 * max(points[-1][0], marked[0]), points[-1][1]
    return Front("bytes of memory", "bytes of traffic", [*points, end], marked, CURVE)
