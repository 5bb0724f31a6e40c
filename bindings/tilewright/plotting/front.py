"""A trade-off of two amounts: a dot for each plan, and steps at what no plan reaches; axes of curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.core.overview import Front
from tilewright.plotting.style import BLUE, GREY, PALE, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MANY = 60
"""Points of a front above which they are drawn small."""


@style()
def draw_front(axes: Axes, front: Front, title: str = "") -> None:
    """Draw the points of a front, from left to right."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    across, up = zip(*sorted(front.points), strict=True)
    axes.step(across, up, where="post", color=GREY, linewidth=1.2, zorder=2)
    size, edge = (6, "white") if len(across) <= MANY else (2.5, "none")
    axes.plot(across, up, "o", color=BLUE, markersize=size, markeredgecolor=edge, zorder=3)
    axes.set_xlabel(front.across)
    axes.set_ylabel(front.up)
    axes.grid(color=PALE, linewidth=0.6)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.set_title(title)


def scale_curve(axes: Axes, low: int, high: int) -> None:
    """Give the axes of a curve of traffic over memory logarithmic scales, the memory in powers of two."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    powers = range((low - 1).bit_length(), high.bit_length())
    axes.xaxis.set_major_locator(FixedLocator([2**power for power in powers[:: 1 + len(powers) // 12]]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value, 1024, "B KiB MiB GiB TiB")))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value, 1000, "_ k M G")))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.grid(color=PALE, linewidth=0.6)


def _short(value: float, thousand: int, units: str) -> str:
    """Return an amount in the unit that has few digits for it."""
    for power, unit in reversed(list(enumerate(units.split()))):
        if value >= thousand**power:
            return f"{value / thousand**power:g} {unit}".removesuffix(" _")
    return f"{value:g}"
