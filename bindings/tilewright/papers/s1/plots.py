"""Figures 11, 12 and 13 of the S1 paper, drawn from our results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.core import catalogue
from tilewright.grouping.cost import objective
from tilewright.papers.s1.rows import Row
from tilewright.plotting import save

COLOURS = {
    "ours": "#0072B2",
    "bound": "#000000",
    "zigzag": "#D55E00",
    "row_by_row": "#009E73",
    "s1_baseline": "#999999",
}
LABELS = {
    "ours": "tilewright",
    "bound": "proven bound",
    "zigzag": "ZigZag",
    "row_by_row": "Row-by-Row",
    "s1_baseline": "S1-baseline",
}


def figure_11(rows: Sequence[Row], path: Path) -> None:
    """Duration over group size for one layer."""
    figure, axes = _axes((8, 4.5))
    groups = [row.label[1] for row in rows]
    for name in ("zigzag", "row_by_row"):
        axes.plot(
            groups, [row.baselines[name] for row in rows], "o-", ms=3, color=COLOURS[name], label=LABELS[name]
        )
    axes.plot(
        groups, [row.objective for row in rows], "o-", ms=3, color=COLOURS["ours"], label=LABELS["ours"]
    )
    axes.plot(
        groups,
        [row.result.bound or 0 for row in rows],
        "--",
        lw=1,
        color=COLOURS["bound"],
        label=LABELS["bound"],
    )
    axes.set(
        xlabel="group size (patches per step)",
        ylabel="loads + steps (cycles)",
        ylim=(0, None),
        title="LeNet-5, first convolution: 32x32, 5x5 kernel",
    )
    axes.legend(frameon=False)
    save(figure, path)


def figure_12(rows: Sequence[Row], path: Path) -> None:
    """Duration over input size at one group size."""
    baseline = catalogue.heuristic("grouping", "s1_baseline")
    figure, axes = _axes((8, 4.5))
    sizes = [row.label[0] for row in rows]
    series = {
        "s1_baseline": [objective(row.problem, baseline.plan(row.problem)) for row in rows],
        "row_by_row": [row.baselines["row_by_row"] for row in rows],
        "zigzag": [row.baselines["zigzag"] for row in rows],
        "ours": [row.objective for row in rows],
    }
    width = 0.8 / len(series)
    for number, (name, values) in enumerate(series.items()):
        places = [x + (number - 1.5) * width for x in range(len(sizes))]
        axes.bar(places, values, width, color=COLOURS[name], label=LABELS[name])
    for x, row in enumerate(rows):
        axes.plot(
            [x - 0.4, x + 0.4],
            [row.result.bound or 0] * 2,
            color=COLOURS["bound"],
            lw=1,
            label=LABELS["bound"] if x == 0 else None,
        )
    axes.set_xticks(range(len(sizes)), sizes)
    axes.set(
        xlabel="input", ylabel="loads + steps (cycles)", title=f"group size {rows[0].label[1]}, 3x3 kernel"
    )
    axes.legend(frameon=False)
    save(figure, path)


def figure_13(rows: Sequence[Row], path: Path) -> None:
    """Gain over the better of ZigZag and Row-by-Row, as a map; bold where proven optimal."""
    sizes = list(dict.fromkeys(row.label[0] for row in rows))
    groups = sorted({row.label[1] for row in rows})
    gains = np.zeros((len(groups), len(sizes)))
    figure, axes = _axes((8, 6))
    for row in rows:
        y, x = groups.index(row.label[1]), sizes.index(row.label[0])
        gains[y, x] = 100 * row.gain
        optimal = row.result.status == "optimal"
        axes.text(
            x,
            y,
            f"{gains[y, x]:.0f}" + ("" if optimal else "\n" + f"gap {100 * row.gap:.1f}"),
            ha="center",
            va="center",
            fontsize=8,
            fontweight="bold" if optimal else "normal",
            color="white" if gains[y, x] > 22 else "black",
        )
    image = axes.imshow(gains, origin="lower", cmap="Blues", vmin=0, vmax=40, aspect="auto")
    axes.set_xticks(range(len(sizes)), sizes)
    axes.set_yticks(range(len(groups)), groups)
    axes.set(
        xlabel="input",
        ylabel="group size (patches per step)",
        title="Gain over the better of ZigZag and Row-by-Row in %; bold: proven optimal",
    )
    figure.colorbar(image, ax=axes, label="gain (%)")
    save(figure, path)


def _axes(size: tuple[float, float]) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.add_subplot()
