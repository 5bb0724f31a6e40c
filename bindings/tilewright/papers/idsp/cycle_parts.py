"""Figures 5.9 and 5.10: what the cycles of the best schedule go into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tilewright import plotting
from tilewright.papers.idsp.drawing import short_number, spread
from tilewright.papers.idsp.setting import COLOURS, MEMORIES, NAMES, Values, size_text
from tilewright.plotting import INK, PALE, SKY

PARTS = {
    "compute": ("computing", "#AEBAC6"),
    "setup": ("DMA set-up", "#3F4D5C"),
    "ends": ("prolog, epilog", SKY),
    "waiting": ("waiting for the bus", "#F0E442"),
}
"""What cycles go into, in colours that no schedule has."""

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@plotting.style()
def figure_parts(
    parts: Mapping[str, Sequence[tuple[str, Mapping[str, float]]]],
    titles: Mapping[str, str],
    path: Path,
    *,
    relative: bool,
) -> None:
    """Draw what the cycles of the best schedule go into, over the memory size."""
    width, height = 4.9, 3.2
    figure = plotting.new_figure(len(parts) * (width + 0.85) + (0.1 if relative else 1.25), height + 1.25)
    for number, (name, rows) in enumerate(parts.items()):
        axes = plotting.add_axes(
            figure, 0.75 + number * (width + (0.7 if relative else 1.3)), 0.65, width, height
        )
        known = [i for i, (schedule, _) in enumerate(rows) if schedule]
        values = {part: np.array([rows[i][1][part] for i in known]) for part in PARTS}
        values = {part: counts for part, counts in values.items() if counts.max() > 0}
        if relative:
            _shares(axes, known, values)
        else:
            _amounts(axes, known, values)
        axes.set_xlim(-0.6, len(MEMORIES) - 0.4)
        axes.set_xticks(range(0, len(MEMORIES), 2), [size_text(memory) for memory in MEMORIES[::2]])
        axes.set_xlabel("local memory, double-buffered")
        axes.set_title(f"{name}: {titles[name]}", fontweight="bold", pad=20)
        if number == 0:
            axes.set_ylabel("share of cycles" if relative else "cycles")
        _name_runs(axes, [schedule for schedule, _ in rows])
    plotting.save(figure, path)


def _shares(axes: Axes, places: Sequence[int], values: Mapping[str, Values]) -> None:
    from matplotlib.ticker import FuncFormatter

    total = sum(values.values(), np.zeros(len(places)))
    base = np.zeros(len(places))
    for part, counts in values.items():
        share = counts / total
        words, colour = PARTS[part]
        axes.bar(places, share, 1.0, bottom=base, color=colour, linewidth=0)
        widest = int(share.argmax()) if part != "compute" else len(places) - 3
        if share[widest] > 0.08:
            axes.text(
                places[widest] - (0.38 if part != "compute" else 0),
                base[widest] + share[widest] * (0.5 if part == "compute" else 0.8),
                words,
                color=plotting.text_colour(colour),
                va="center",
                ha="left" if part != "compute" else "center",
                fontsize=8.5,
            )
        base = base + share
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:.0f} %"))


def _amounts(axes: Axes, places: Sequence[int], values: Mapping[str, Values]) -> None:
    from matplotlib.ticker import FuncFormatter

    total = sum(values.values(), np.zeros(len(places)))
    axes.set_yscale("log")
    for part, counts in {**values, "total": total}.items():
        colour = INK if part == "total" else PARTS[part][1]
        under = part == "compute"
        shown = np.where(counts > 0, counts, np.nan)
        axes.plot(places, shown, color=colour, linewidth=3.5 if under else 1.6, zorder=2 if under else 3)
    axes.text(places[0], total[0] * 1.35, "total", color=INK, fontsize=8.5, ha="left", va="bottom")
    axes.set_ylim(None, total.max() * 3)
    low, high = np.log(axes.get_ylim())
    names = sorted(values, key=lambda part: float(values[part][-1]))
    heights = spread(
        [float(np.log(max(values[name][-1], 1))) for name in names], (high - low) / 20, low, high
    )
    for name, height in zip(names, heights, strict=True):
        dark = "#6B7B8C" if name == "compute" else PARTS[name][1]
        right = len(MEMORIES) - 0.75
        axes.text(right, np.exp(height), PARTS[name][0], color=dark, fontsize=8.5, va="center")
    best = int(total.argmin())
    axes.plot([places[best]], [total[best]], "o", color=INK, markersize=5, zorder=4)
    axes.annotate(
        f"fewest at {size_text(MEMORIES[places[best]])}",
        (places[best], total[best]),
        xytext=(0, 9),
        textcoords="offset points",
        ha="center",
        fontsize=8.5,
    )
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    axes.yaxis.set_major_formatter(FuncFormatter(short_number))
    axes.minorticks_off()


def _name_runs(axes: Axes, schedules: Sequence[str]) -> None:
    """Write over the axes which schedule is the best one, memory by memory."""
    place = 0
    for schedule, run in groupby(schedules):
        length = len(list(run))
        if schedule:
            across = axes.get_xaxis_transform()
            colour = COLOURS[schedule]
            axes.plot(
                [place - 0.4, place + length - 0.6],
                [1.02, 1.02],
                color=colour,
                linewidth=2.5,
                transform=across,
                clip_on=False,
                solid_capstyle="butt",
            )
            words = f"best: {NAMES[schedule]}" if length > 3 else NAMES[schedule]
            middle = place + length / 2 - 0.5
            axes.text(middle, 1.035, words, transform=across, color=colour, ha="center", fontsize=8)
        place += length
