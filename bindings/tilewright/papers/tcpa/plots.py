"""The figures beside the paper's: storage of every layer, and the best plans over the PEs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tilewright import plotting
from tilewright.allocation import PACINGS
from tilewright.papers.tcpa.cases import SPLITS, Case, Storage
from tilewright.plotting import BLUE, GREEN, INK, ORANGE, PALE, VERMILION

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@plotting.style()
def figure_4(found: Storage, path: Path) -> None:
    """Draw the storage of every layer: layer by layer, layer-parallel, and executed."""
    from matplotlib.patches import Patch

    executed = [[found.weights, found.held["rows", pacing]] for pacing in PACINGS]
    panels: dict[str, list[list[tuple[int, ...]]]] = {
        "(a) layer by layer, equation 14": [[found.weights, found.input, found.output]],
        "(b) layer-parallel, equations 16 and 17": [[found.weights, found.lines]],
        "executed, matched (left) and uniform (right)": executed,
    }
    parts = {"weights": ORANGE, "input": BLUE, "output": GREEN}
    width, top = 3.6, max(map(sum, zip(*panels["(a) layer by layer, equation 14"][0], strict=True)))
    figure = plotting.new_figure(0.6 + len(panels) * (width + 0.25), 3.7)
    for number, (title, bars) in enumerate(panels.items()):
        axes = plotting.add_axes(figure, 0.6 + number * (width + 0.25), 0.7, width, 2.6)
        for place, stack in enumerate(bars):
            at = np.arange(len(found.names)) + (place - (len(bars) - 1) / 2) * 0.8 / len(bars)
            bottom = np.zeros(len(at))
            for name, words in zip(parts, stack, strict=False):
                axes.bar(at, words, 0.74 / len(bars), bottom, color=parts[name], linewidth=0)
                bottom += words
            for x, y in zip(at, bottom, strict=True):
                axes.text(x, y + 0.01 * top, f"{y:,.0f}", ha="center", va="bottom", fontsize=6)
        axes.set_xticks(range(len(found.names)), found.names)
        axes.tick_params(axis="x", length=0)
        axes.set_ylim(0, 1.08 * top)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.tick_params(axis="y", labelleft=number == 0, length=0)
        axes.grid(axis="y", color=PALE, linewidth=0.6)
        axes.set_title(title)
        if number == 0:
            axes.set_ylabel("bytes")
            handles = [Patch(color=colour, label=name) for name, colour in parts.items()]
            axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.14), ncols=len(parts))
    plotting.save(figure, path)


@plotting.style()
def figure_pes(fronts: Mapping[bool, Mapping[int, Case]], theirs: Mapping[str, Case], path: Path) -> None:
    """Draw frames per second and latency of the best plans over the PEs, and the paper's plans."""
    figure = plotting.new_figure(11.4, 4.0)
    rates, latencies = (plotting.add_axes(figure, left, 0.45, 4.75, 3.0) for left in (0.7, 6.35))
    for (wider, front), colour in zip(fronts.items(), (BLUE, VERMILION), strict=True):
        pes = [*front, max(front) + 1]
        for axes, values, dashed in (
            (rates, [case.measures.frames_per_second for case in front.values()], False),
            (latencies, [case.measures.latency_cycles for case in front.values()], False),
            (latencies, [case.calculus.latency for case in front.values()], True),
        ):
            axes.step(
                pes,
                [*values, values[-1]],
                where="post",
                color=colour,
                linewidth=1.0 if dashed else 1.8,
                linestyle=(0, (4, 2)) if dashed else "-",
                label=SPLITS[wider],
            )
    for title, case in theirs.items():
        rate = case.problem.machine.frames_per_second(case.calculus.interval)
        _mark(rates, case.plan.pes, rate, f"paper, {title}", (8, -13), "left")
        _mark(latencies, case.plan.pes, case.calculus.latency, f"paper, {title}", (-9, -13), "right")
    for axes, title in (
        (rates, "Most frames per second of so many PEs"),
        (latencies, "Their latency in cycles: executed; by the paper's equations (dashed)"),
    ):
        axes.set_title(title)
        axes.set_xlabel("PEs")
        axes.set_xticks(list(fronts[False]))
        axes.grid(color=PALE, linewidth=0.6)
    rates.set_ylim(0, None)
    rates.legend(loc="upper left")
    latencies.set_yscale("log")
    latencies.set_yticks([30_000, 50_000, 100_000, 200_000, 500_000])
    latencies.minorticks_off()
    for axes in (rates, latencies):
        axes.yaxis.set_major_formatter("{x:,.0f}")
    plotting.save(figure, path)


def _mark(axes: Axes, x: float, y: float, words: str, beside: tuple[float, float], side: str) -> None:
    axes.plot([x], [y], "D", color=INK, markersize=5, zorder=4)
    axes.annotate(
        words,
        (x, y),
        beside,
        textcoords="offset points",
        ha=side,
        fontsize=8,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
    )
