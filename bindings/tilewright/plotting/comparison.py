"""How methods compare: their objectives and bounds, instance by instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.plotting.style import (
    BLUE,
    GREY,
    INK,
    PALE,
    SKY,
    VERMILION,
    add_axes,
    checked_suffix,
    new_figure,
    save,
    style,
)
from tilewright.plotting.text import shortened
from tilewright.spec.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@style()
def draw_comparison(rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Draw how far each method stays above the best objective, one panel per instance.

    Parameters
    ----------
    rows
        One mapping per instance and method, with the keys ``instance``, ``method``, ``objective`` and
        ``bound``; objective and bound are integers or None.
    path
        Where to write; PNG, SVG or PDF by its suffix.

    Raises
    ------
    InputError
        If there are no rows, the suffix is another one or the file cannot be written.
    """
    checked_suffix(path)
    if not rows:
        raise InputError("rows", [], "there is nothing to compare")
    panels: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        panels.setdefault(str(row["instance"]), []).append(row)
    across = 1 if len(panels) == 1 else 2
    names = list(panels)
    lines = [names[i : i + across] for i in range(0, len(names), across)]
    pitch, header = 0.23, 0.62
    heights = [max(len(panels[name]) for name in line) * pitch + 0.12 for line in lines]
    longest = max(len(shortened(str(row["method"]), 26)) for row in rows)
    left, wide = 0.25 + 0.072 * longest, 3.55
    cell = left + wide + 1.15
    top = 0.15
    figure = new_figure(cell * across + 0.1, top + sum(heights) + header * len(lines) + 0.5)
    scaled = {name: _scale(panel) for name, panel in panels.items()}
    span = [x for scale in scaled.values() for pair in scale for x in pair if x is not None]
    low, high = min([0.0, *span]), max([0.0, *span])
    low, high = (low, high) if high - low >= 1 else (low - 1, high + 1)
    pad = (high - low) * 0.05
    for line, height in zip(lines, heights, strict=True):
        top += header
        for column, name in enumerate(line):
            axes = add_axes(figure, column * cell + left, top, wide, height)
            _panel(axes, name, panels[name], scaled[name], height / pitch - 0.12 / pitch)
            axes.set_xlim(low - pad, high + pad)
            if line is lines[-1] or (column == 1 and line is lines[-2] and len(lines[-1]) == 1):
                axes.set_xlabel("% above the best objective of the instance")
        top += height
    _comparison_legend(figure)
    save(figure, path)


def _scale(panel: Sequence[Mapping[str, Any]]) -> list[tuple[float | None, float | None]]:
    """Return objective and bound of each row, in percent above the best objective of the panel."""
    objectives = [row["objective"] for row in panel if row["objective"] is not None]
    bounds = [row["bound"] for row in panel if row["bound"] is not None]
    best = min(objectives) if objectives else max(bounds, default=1)
    unit = abs(best) or 1

    def percent(value: int | None) -> float | None:
        return None if value is None else 100 * (value - best) / unit

    return [(percent(row["objective"]), percent(row["bound"])) for row in panel]


def _panel(
    axes: Axes,
    name: str,
    panel: Sequence[Mapping[str, Any]],
    scaled: Sequence[tuple[float | None, float | None]],
    rows: float,
) -> None:
    """Draw one instance: a dot per objective, a tick per bound, the numbers beside them."""
    from matplotlib.ticker import MaxNLocator

    objectives = [row["objective"] for row in panel if row["objective"] is not None]
    best = min(objectives, default=None)
    axes.axvline(0, color=GREY, linewidth=0.8)
    for y, (row, (objective, bound)) in enumerate(zip(panel, scaled, strict=True)):
        first = row["objective"] is not None and row["objective"] == best
        if bound is not None:
            axes.plot([bound], [y], "|", color=VERMILION, markersize=10, markeredgewidth=1.8, zorder=3)
        if objective is not None:
            if bound is not None:
                axes.plot([bound, objective], [y, y], color=PALE, linewidth=1.2, zorder=1)
            axes.plot([objective], [y], "o", color=BLUE if first else SKY, markersize=6, zorder=2)
            text = f"{row['objective']:,}" + (f"  +{_percent(objective)} %" if objective else "")
        else:
            text = "no plan"
        axes.text(
            1.01,
            y,
            text,
            transform=axes.get_yaxis_transform(),
            va="center",
            fontsize=7.5,
            color=GREY if objective is None else INK,
            fontweight="bold" if first else "normal",
        )
    axes.set_yticks(range(len(panel)), [shortened(str(row["method"]), 26) for row in panel])
    axes.set_ylim(rows - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=PALE, linewidth=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
    axes.set_title(shortened(name, 48), fontweight="bold", fontsize=9.5)


def _percent(value: float) -> str:
    """Write a positive percentage with about two significant digits."""
    if value < 0.01:
        return "<0.01"
    return f"{value:.{0 if value >= 9.95 else 1 if value >= 0.995 else 2}f}"


def _comparison_legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], marker="o", linestyle="", color=BLUE, label="best objective"),
        Line2D([], [], marker="o", linestyle="", color=SKY, label="objective"),
        Line2D(
            [],
            [],
            marker="|",
            linestyle="",
            color=VERMILION,
            markersize=10,
            markeredgewidth=1.8,
            label="proven lower bound",
        ),
    ]
    height = figure.get_figheight()
    figure.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.02, 1 - 0.18 / height), ncols=3)
