"""Pictures of a tiling plan: the tile in its layer, traffic, memory and time; a network's layers; a front.

Every number is the report's. Reports that say nothing of a DSP's tile get bars for each of their tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright import plotting
from tilewright.plotting import (
    axes_or_new,
)
from tilewright.tiling.hierarchy.plot import draw_amounts
from tilewright.tiling.panels import ExecutedParts
from tilewright.tiling.plan import Plan
from tilewright.tiling.plots.front import (
    RooflineFront,
    capacity_sheet,
    draw_capacities,
    draw_roofline,
    draw_traded,
    has_roofs,
    roofline_sheet,
    traded_sheet,
)
from tilewright.tiling.plots.layer import draw_traffic, dsp_nest, layer_sheet
from tilewright.tiling.plots.network import (
    draw_layer_rows,
    draw_network_traffic,
    executed_parts,
    names_width,
    network_sheet,
    row_pitch,
    rows_of,
)
from tilewright.tiling.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tilewright.simulator import Report

ACCEPTED = plotting.ACCEPTED
"""Suffixes of the files that `draw` writes."""


@plotting.style()
def sheet(problem: Problem, plan: Plan, report: Report, *, title: str | None = None) -> Figure:
    """Return the sheet of a layer, of a network, or of a front."""
    if problem.trades_capacity and report.violation is None:
        return capacity_sheet(problem, report, title)
    if problem.traded and report.violation is None:
        if has_roofs(problem):
            return roofline_sheet(problem, plan, report, title)
        return traded_sheet(problem, report, title)
    if problem.network is not None:
        return network_sheet(problem, plan, report, title)
    return layer_sheet(problem, plan, report, title)


draw = plotting.writer(sheet)


@plotting.style()
def plot(problem: Problem, plan: Plan, report: Report, *, ax: Axes | None = None) -> Axes:
    """Draw the traffic of a layer's tensors or of a network's layers; of a front, its trade-off.

    See `core.room.Pictures.plot`.
    """
    if problem.trades_capacity and report.violation is None:
        ax = axes_or_new(ax, 6.3, 3.6)
        draw_capacities(ax, problem, report)
    elif problem.traded and report.violation is None:
        ax = axes_or_new(ax, 6.3, 3.6)
        if has_roofs(problem):
            draw_roofline(ax, RooflineFront.of(problem, report))
        else:
            draw_traded(ax, problem, report)
    elif problem.network is not None:
        rows = rows_of(problem, report)
        left, height = names_width(rows), row_pitch(rows) * len(rows) + 0.1
        ax = axes_or_new(ax, 5.5, height, left=left, above=0.7)
        draw_network_traffic(ax, rows, executed_parts(problem, report))
        draw_layer_rows(ax, rows, label=True)
    elif report.violation is None and problem.machine.kind == "hierarchy":
        height = 0.3 * (1 + len(report.measures.levels_bytes))
        ax = axes_or_new(ax, 4.0, height, left=1.5, right=1.2, above=0.6, below=0.2)
        draw_amounts(ax, list(ExecutedParts(problem, {"": report.measures}).memories()))
    else:
        ax = axes_or_new(ax, 5.0, 1.35, left=1.5, right=1.2, below=0.2)
        nest = dsp_nest(problem)
        draw_traffic(ax, report, nest.needed if nest else {})
    return ax
