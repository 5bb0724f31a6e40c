"""Pictures of an addresses plan: buffers as boxes, time to the right and addresses upwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright import plotting
from tilewright.addresses.plan import Plan
from tilewright.addresses.problem import Problem
from tilewright.addresses.summary import rows
from tilewright.plotting import (
    BLUE,
    INK,
    SHEET_WIDTH,
    VERMILION,
    Sheet,
    axes_or_new,
    leave_blank,
    shortened,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tilewright.simulator import Report

ACCEPTED = plotting.ACCEPTED
"""Suffixes of the files that `draw` writes."""

HEIGHT, LEFT = 5.2, 1.1
"""Inches of the axes, and to their left."""

NAMED_WIDTH, NAMED_HEIGHT = 0.05, 0.035
"""Part of the axes that a box must have in both directions for its name to fit."""

SHADES = (0.25, 0.45, 0.65)
"""How strong the colours of neighbouring boxes are."""


def _described(problem: Problem) -> str:
    capacity = problem.memory.capacity
    memory = "one memory" if capacity is None else f"{capacity:,} addresses"
    number = len(problem.buffers)
    return f"{number:,} buffer{'s' if number > 1 else ''} in {memory}"


@plotting.style()
def sheet(problem: Problem, plan: Plan, report: Report, *, title: str | None = None) -> Figure:
    """Return the sheet of a plan; see `core.room.Pictures`."""
    what = _described(problem)
    broken = report.violation is not None
    labelled = [] if broken else rows(problem, report.measures)
    page = Sheet(title or what, [what] if title else [], report, labelled=labelled)
    page.create(SHEET_WIDTH, page.top + HEIGHT + 1.2)
    axes = page.axes(LEFT, page.top + 0.4, SHEET_WIDTH - LEFT - 0.5, HEIGHT)
    if len(plan.offsets) == len(problem.buffers):
        _boxes(axes, problem, plan)
    else:
        leave_blank(axes, "Buffers", plotting.warning(report))
    return page.figure


draw = plotting.writer(sheet)


@plotting.style()
def plot(problem: Problem, plan: Plan, report: Report, *, ax: Axes | None = None) -> Axes:
    """Draw the buffers; see `core.room.Pictures.plot`."""
    ax = axes_or_new(ax, 7.0, 4.0, left=LEFT, above=0.5)
    if len(plan.offsets) == len(problem.buffers):
        _boxes(ax, problem, plan)
    else:
        leave_blank(ax, "Buffers", plotting.warning(report))
    return ax


def _boxes(axes: Axes, problem: Problem, plan: Plan) -> None:
    """Draw a box for each buffer: those of the same shade may touch, as they have edges."""
    from matplotlib.patches import Rectangle  # start-up time

    # Time is drawn as the number of times at which anything changes: long waits would hide the rest.
    times = sorted({*problem.lower.tolist(), *problem.upper.tolist()})
    place = {time: number for number, time in enumerate(times)}
    height = max(offset + int(size) for offset, size in zip(plan.offsets, problem.size, strict=True))
    for number, (buffer, offset) in enumerate(zip(problem.buffers, plan.offsets, strict=True)):
        first, last = place[buffer.lower], place[buffer.upper]
        box = Rectangle(
            (first, offset),
            last - first,
            buffer.size,
            facecolor=BLUE,
            alpha=SHADES[number % len(SHADES)],
            edgecolor="none",
        )
        axes.add_patch(box)
        axes.add_patch(
            Rectangle(
                (first, offset), last - first, buffer.size, facecolor="none", edgecolor=INK, linewidth=0.4
            )
        )
        if last - first > NAMED_WIDTH * len(times) and buffer.size > NAMED_HEIGHT * height:
            middle = (first + last) / 2, offset + buffer.size / 2
            axes.text(*middle, shortened(buffer.id, 12), ha="center", va="center", fontsize=7)
    top = height
    if problem.memory.capacity is not None and problem.memory.capacity <= 2 * height:
        axes.axhline(problem.memory.capacity, color=VERMILION, linewidth=1.4)
        top = max(top, problem.memory.capacity)
    step = max(1, len(times) // 12)
    axes.set_xticks(
        range(0, len(times), step), [f"{time:,}" for time in times[::step]], rotation=30, ha="right"
    )
    axes.set_xlim(0, len(times) - 1)
    axes.set_ylim(0, 1.04 * top)
    axes.set_xlabel("time; each change is as far from the next")
    axes.set_ylabel("address")
    axes.yaxis.set_major_formatter("{x:,.0f}")
