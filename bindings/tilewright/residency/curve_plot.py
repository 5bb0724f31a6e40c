"""A picture of the curve of traffic over memory, with the plan that was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright import plotting
from tilewright.plotting import (
    BLUE,
    INK,
    ORANGE,
    PALE,
    VERMILION,
    axes_or_new,
    new_figure,
    scale_curve,
)
from tilewright.residency.exact.traffic_curve import Curve, Point
from tilewright.spec.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEYOND = 2.0
"""How much further than the last corner the memory is drawn."""

MARKED = 80
"""Steps up to which each has a marker."""


@plotting.style()
def draw_curve(curve: Curve, path: str | Path, *, point: Point | None = None, title: str = "") -> None:
    """Draw a curve into a file: PNG, SVG or PDF by its suffix.

    Parameters
    ----------
    point
        The memory and the traffic of a plan, to be marked.

    Raises
    ------
    InputError
        If there is nothing to draw yet, the suffix is another one or the file cannot be written.
    """
    plotting.checked_suffix(path)
    figure = new_figure(7.6, 4.8)
    _draw(curve, figure.add_axes((0.11, 0.12, 0.86, 0.78)), point, title)
    plotting.save(figure, path)


def plot_curve(curve: Curve, *, point: Point | None = None, title: str = "", ax: Axes | None = None) -> Axes:
    """Draw a curve on axes, on a figure of its own if there are none; see `draw_curve`."""
    with plotting.style():
        axes = axes_or_new(ax, 7.6, 4.8)
        _draw(curve, axes, point, title)
    return axes


def _draw(curve: Curve, axes: Axes, point: Point | None, title: str) -> None:
    """Draw what plans move, and what no plan goes below; both as steps."""
    if not curve.corners:
        raise InputError("plot", None, "no plan of any memory was found in time")
    memory = [corner.memory_bytes for corner in curve.corners]
    traffic = [corner.traffic_bytes for corner in curve.corners]
    first = memory[0] if point is None else min(memory[0], point[0])
    end = BEYOND * max(memory[-1], point[0] if point else 0)
    proven = sum(corner.proven for corner in curve.corners)
    known = "all proven" if curve.proven else f"{proven} of them proven"
    looks: dict[str, Any] = {"marker": "o", "markersize": 3.5} if len(memory) <= MARKED else {}
    axes.step(
        [*memory, end],
        [*traffic, traffic[-1]],
        where="post",
        color=BLUE,
        linewidth=1.6,
        markevery=range(len(memory)),
        label=f"plans: {len(memory)} steps, {known}",
        zorder=3,
        **looks,
    )
    sizes, bounds = zip(*curve.bounds, (end, curve.compulsory_bytes), strict=True)
    sizes, bounds = (first, *sizes), (bounds[0], *bounds)
    if not curve.proven:
        axes.step(sizes, bounds, where="pre", color=VERMILION, linewidth=1.0, zorder=2)
    below = "no plan moves less"
    axes.fill_between(sizes, 1, bounds, step="pre", color=PALE, linewidth=0, label=below, zorder=1)
    if point is not None:
        axes.plot(
            *point,
            "D",
            color=ORANGE,
            markeredgecolor=INK,
            markersize=7,
            label=f"asked for: {point[0]:,} bytes, {point[1]:,} moved",
            zorder=4,
        )
    if traffic[-1] == curve.compulsory_bytes:
        last = f"compulsory: {traffic[-1]:,}, from {memory[-1]:,} bytes on"
        axes.plot(memory[-1], traffic[-1], "o", color=INK, markersize=5, label=last, zorder=4)
    scale_curve(axes, first, int(end))
    axes.set_xlim(first / 1.05, end)
    axes.set_ylim(curve.compulsory_bytes / 1.4, max(traffic[0], bounds[0]) * 1.4)
    axes.set_xlabel("memory")
    axes.set_ylabel("least traffic with DRAM, bytes")
    axes.set_title(title or "What each memory makes possible")
    axes.legend(loc="upper right", frameon=True, framealpha=0.9, edgecolor="none", fontsize=8)
