"""Pictures of a bitwidth plan: the bits of each layer below what its accumulator leaves, and their noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright import plotting
from tilewright.bitwidth.measures import BitwidthLayer, BitwidthMeasures
from tilewright.bitwidth.noise import decibels
from tilewright.bitwidth.plan import Plan
from tilewright.bitwidth.problem import Problem
from tilewright.bitwidth.summary import front_of, rows
from tilewright.plotting import (
    BLUE,
    INK,
    ORANGE,
    SHEET_WIDTH,
    VERMILION,
    Sheet,
    axes_or_new,
    draw_front,
    explain_colours,
    leave_blank,
    shortened,
    stack_bars,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tilewright.simulator import Report

ACCEPTED = plotting.ACCEPTED
"""Suffixes of the files that `draw` writes."""

COLOURS = {"inputs": BLUE, "weights": ORANGE}
LEFT, GAP, PITCH = 1.6, 1.9, 0.32
"""Inches to the left of the axes, between them, and from layer to layer."""

MOST_LAYERS = 60
"""Most layers that are drawn."""


def _described(problem: Problem) -> str:
    name = problem.network.name or "network"
    layers, bits = len(problem.layers), problem.machine.accumulator_bits
    return f"{name}: {layers} layer{'s' if layers > 1 else ''}, accumulators of {bits} bits"


@plotting.style()
def sheet(problem: Problem, plan: Plan, report: Report, *, title: str | None = None) -> Figure:
    """Return the sheet of a plan: bits and noise of each layer, or a front; see `core.room.Pictures`."""
    what = _described(problem)
    broken = report.violation is not None
    labelled = [] if broken else rows(problem, report.measures)
    page = Sheet(title or what, [what] if title else [], report, labelled=labelled)
    height = PITCH * min(len(problem.layers), MOST_LAYERS) + 0.4
    if plan.front:
        height = 4.0
    page.create(SHEET_WIDTH, page.top + height + 1.4)
    width = (SHEET_WIDTH - LEFT - GAP - 0.4) / 2
    top = page.top + 0.6
    if broken:
        leave_blank(page.axes(LEFT, top, width, height), "Bits of each layer", plotting.warning(report))
    elif plan.front:
        _front(page.axes(LEFT, top, SHEET_WIDTH - LEFT - 0.6, height), report)
    else:
        _bits(page.axes(LEFT, top, width, height), report)
        _noise(page.axes(LEFT + width + GAP, top, width, height), report)
    return page.figure


draw = plotting.writer(sheet)


@plotting.style()
def plot(problem: Problem, plan: Plan, report: Report, *, ax: Axes | None = None) -> Axes:
    """Draw the bits of each layer, or a front; see `core.room.Pictures.plot`."""
    if report.violation is not None:
        ax = axes_or_new(ax, 5.0, 2.0)
        leave_blank(ax, "Bits of each layer", plotting.warning(report))
        return ax
    height = PITCH * min(len(problem.layers), MOST_LAYERS) + 0.4
    ax = axes_or_new(ax, 5.0, 4.0 if plan.front else height, left=LEFT, above=0.5)
    (_front if plan.front else _bits)(ax, report)
    return ax


def _layers(axes: Axes, measures: BitwidthMeasures) -> list[BitwidthLayer]:
    """Name the layers at the axis, the first on top; return what was measured of them."""
    found = list(measures.layers.items())[:MOST_LAYERS]
    axes.set_yticks(range(len(found)), [shortened(name, 22) for name, _ in found])
    axes.set_ylim(len(found) - 0.4, -0.6)
    return [layer for _, layer in found]


def _bits(axes: Axes, report: Report) -> None:
    layers = _layers(axes, report.measures)
    for place, layer in enumerate(layers):
        parts = [(layer.input_format[0], COLOURS["inputs"]), (layer.weights_format[0], COLOURS["weights"])]
        stack_bars(axes, place, parts, height=0.6)
        limit = layer.available_bits
        axes.plot([limit, limit], [place - 0.42, place + 0.42], color=INK, linewidth=1.6)
    axes.set_xlim(0, 1.05 * max(layer.available_bits for layer in layers))
    axes.set_xlabel("bits of inputs and weights; the line is what the accumulator leaves them")
    explain_colours(axes, COLOURS.items())


def _noise(axes: Axes, report: Report) -> None:
    layers = _layers(axes, report.measures)
    model = [decibels(layer.noise_ppb) for layer in layers]
    axes.barh(range(len(layers)), model, height=0.6, color=BLUE, linewidth=0)
    handles = [("by the model", BLUE)]
    if report.measures.measured is not None:
        seen = [(place, layer.measured) for place, layer in enumerate(layers)]
        ratios = [(place, None if each is None else each.signal_to_noise_db) for place, each in seen]
        known = [(place, ratio) for place, ratio in ratios if ratio is not None]
        axes.plot([ratio for _, ratio in known], [place for place, _ in known], "D", color=VERMILION)
        handles.append(("measured, this layer alone quantised", VERMILION))
    axes.set_xlabel("signal to noise in dB")
    explain_colours(axes, handles)


def _front(axes: Axes, report: Report) -> None:
    draw_front(axes, front_of(report.measures))
