"""Timelines: what every engine does, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilewright.plotting.footprint import tensor_colours
from tilewright.plotting.style import GREY, PALE, leave_blank, style, text_colour
from tilewright.plotting.text import busy_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tilewright.simulator.report import Report, Timeline


def readable_steps(line: Timeline, max_steps: int = 40, max_actions: int = 400) -> int:
    """Return how many first steps of a timeline can be drawn readably; a few more are not left out."""
    total = int(line.step.max(initial=-1)) + 1
    steps = total if total <= 1.2 * max_steps else max_steps
    while steps > 1 and int((line.step < steps).sum()) > max_actions:
        steps -= 1
    return steps


@style()
def timeline(
    axes: Axes,
    line: Timeline | None,
    *,
    title: str = "Timeline",
    steps: int | None = None,
    until: int | None = None,
) -> None:
    """Draw when each engine works: one row per engine, coloured by the tensor it moves or computes.

    Parameters
    ----------
    line
        Sequential or overlapped; None leaves the axes empty.
    title
        What the title begins with; cycles and the steps that are drawn are added.
    steps
        How many first steps are drawn; by default as many as are readable (`readable_steps`).
    until
        End of the axis in cycles, to compare two timelines on one scale.
    """
    if line is None or not len(line.step):
        leave_blank(axes, title)
        return
    total = int(line.step.max()) + 1
    steps = min(total, readable_steps(line) if steps is None else steps)
    shown = line.step < steps
    end = int(line.finish[shown].max())
    until = max(until or end, 1)
    engines = sorted(dict.fromkeys(line.engine), key=_engine_order)
    _draw_actions(axes, line, np.flatnonzero(shown), engines, until)
    _write_busy_shares(axes, line, engines)
    if end < until * 0.999:
        axes.axvline(end, color=GREY, linewidth=0.8, linestyle=(0, (4, 2)))
    part = ""
    if steps < total:
        part = f"; only the first {steps:,} of {total:,} steps ({end:,} cycles) are drawn"
    axes.set_title(f"{title}: {line.cycles:,} cycles{part}")
    _prepare_axes(axes, engines, until)


def _draw_actions(
    axes: Axes, line: Timeline, actions: NDArray[np.intp], engines: Sequence[str], until: int
) -> None:
    """Draw bars for actions, in the rows of their engines; wide ones have their step's number."""
    row = {name: number for number, name in enumerate(engines)}
    colours = tensor_colours(dict.fromkeys(line.tensor, 1))
    figure = axes.get_figure(root=True)
    assert figure is not None
    points_per_cycle = axes.get_position().width * figure.get_figwidth() * 72 / until
    bars: dict[tuple[str, str, bool], list[tuple[int, int]]] = {}
    for i in actions:
        start, length = int(line.start[i]), int(line.finish[i] - line.start[i])
        colour = colours.get(line.tensor[i], GREY)
        wide = length * points_per_cycle > 2
        bars.setdefault((line.engine[i], colour, wide), []).append((start, length))
        text = str(int(line.step[i]) + 1)
        if length * points_per_cycle > 5.5 * len(text) + 3:
            axes.text(
                start + length / 2,
                row[line.engine[i]],
                text,
                ha="center",
                va="center",
                fontsize=7.5,
                color=text_colour(colour),
            )
    for (engine, colour, wide), spans in bars.items():
        # A white edge parts what follows on each other; it would hide short actions.
        axes.broken_barh(
            spans,
            (row[engine] - 0.38, 0.76),
            facecolors=colour,
            edgecolors="white" if wide else colour,
            linewidth=0.6,
        )


def _write_busy_shares(axes: Axes, line: Timeline, engines: Sequence[str]) -> None:
    """Write to the right of each row for which share of the time its engine works."""
    busy = line.busy()
    across = axes.get_yaxis_transform()
    for row, engine in enumerate(engines):
        words = busy_share(busy[engine] / line.cycles if line.cycles else 0)
        axes.text(1.008, row, words, transform=across, va="center", fontsize=8, color=GREY)


def _prepare_axes(axes: Axes, engines: Sequence[str], until: int) -> None:
    """Give axes a row for each engine, and an axis of cycles."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axes.set_yticks(range(len(engines)), engines)
    axes.set_ylim(len(engines) - 0.5, -0.5)
    axes.set_xlim(0, until * 1.004)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.grid(axis="x", color=PALE, linewidth=0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("cycles")


@style()
def timelines(sequential: Axes, overlapped: Axes, report: Report, *, titles: tuple[str, str]) -> None:
    """Draw both timelines of a report on one scale, the same steps in each, with one axis label."""
    if report.sequential is None and report.violation is not None:
        for axes, title in zip((sequential, overlapped), titles, strict=True):
            leave_blank(axes, title, "a program that breaks a rule has no timeline")
        return
    lines = [line for line in (report.sequential, report.overlapped) if line is not None]
    steps = min((readable_steps(line) for line in lines), default=0)
    until = max((int(line.finish[line.step < steps].max(initial=0)) for line in lines), default=0)
    timeline(sequential, report.sequential, title=titles[0], steps=steps, until=until)
    timeline(overlapped, report.overlapped, title=titles[1], steps=steps, until=until)
    if len(lines) == 2:
        sequential.set_xlabel("")
        overlapped.set_xlabel("cycles; numbers are steps" if overlapped.texts else "cycles")


def _engine_order(name: str) -> tuple[int, str]:
    """Engines in the order in which data passes through them."""
    order = ("load", "compute", "write")
    return next((number for number, word in enumerate(order) if word in name), len(order)), name
