"""Pictures of a scheduling plan: how long each subgraph computes and moves, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright import plotting
from tilewright.plotting import (
    BLUE,
    INK,
    ORANGE,
    SHEET_WIDTH,
    Sheet,
    axes_or_new,
    explain_colours,
    leave_blank,
)
from tilewright.scheduling.plan import Plan
from tilewright.scheduling.problem import Problem
from tilewright.scheduling.summary import listed, rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tilewright.simulator import Report

ACCEPTED = plotting.ACCEPTED
"""Suffixes of the files that `draw` writes."""

LEFT, PITCH = 2.0, 0.3
"""Inches to the left of the axes, and from subgraph to subgraph."""

MOST_SUBGRAPHS = 60
"""Most subgraphs that are drawn."""

TITLE = "Time of each subgraph"


def _described(problem: Problem) -> str:
    graph = problem.graph
    return f"{len(graph.inputs)} operations, fast memory of {graph.fast_memory_capacity:,} elements"


@plotting.style()
def sheet(problem: Problem, plan: Plan, report: Report, *, title: str | None = None) -> Figure:
    """Return the sheet of a plan; see `core.room.Pictures`."""
    what = _described(problem)
    broken = report.violation is not None
    labelled = [] if broken else rows(problem, report.measures)
    page = Sheet(title or what, [what] if title else [], report, labelled=labelled)
    height = PITCH * min(len(plan.subgraphs), MOST_SUBGRAPHS) + 0.4
    page.create(SHEET_WIDTH, page.top + height + 1.4)
    axes = page.axes(LEFT, page.top + 0.6, SHEET_WIDTH - LEFT - 0.5, height)
    if broken:
        leave_blank(axes, TITLE, plotting.warning(report))
    else:
        _times(axes, report)
    return page.figure


draw = plotting.writer(sheet)


@plotting.style()
def plot(problem: Problem, plan: Plan, report: Report, *, ax: Axes | None = None) -> Axes:
    """Draw the times of each subgraph; see `core.room.Pictures.plot`."""
    if report.violation is not None:
        ax = axes_or_new(ax, 5.0, 2.0)
        leave_blank(ax, TITLE, plotting.warning(report))
        return ax
    height = PITCH * min(len(plan.subgraphs), MOST_SUBGRAPHS) + 0.4
    ax = axes_or_new(ax, 5.0, height, left=LEFT, above=0.5)
    _times(ax, report)
    return ax


def _times(axes: Axes, report: Report) -> None:
    """Draw latency as a line beyond which neither compute nor transfers alone reach."""
    steps = report.measures.subgraphs[:MOST_SUBGRAPHS]
    axes.set_yticks(range(len(steps)), [listed(step.operations) for step in steps])
    axes.set_ylim(len(steps) - 0.4, -0.6)
    for shift, key, colour in ((-0.17, "compute", BLUE), (0.17, "transfer", ORANGE)):
        places = [place + shift for place in range(len(steps))]
        axes.barh(places, [getattr(step, key) for step in steps], height=0.3, color=colour, linewidth=0)
    for place, step in enumerate(steps):
        axes.plot([step.latency] * 2, [place - 0.42, place + 0.42], color=INK, linewidth=1.6)
    axes.set_xlim(0, 1.05 * max(1e-9, *(step.latency for step in steps)))
    axes.set_xlabel("time; the line is the latency of the subgraph")
    explain_colours(axes, [("computing alone", BLUE), ("moving alone", ORANGE)])
