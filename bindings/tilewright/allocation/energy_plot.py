"""Picture of a front of interval and energy: what a frame takes, over how many there are in a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.allocation.measures import PipelinePoint
from tilewright.allocation.plan import Plan
from tilewright.allocation.problem import Problem
from tilewright.plotting import BLUE, GREY, INK, PALE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

FEMTOJOULES = 1e9
"""In a microjoule."""

MAX_LISTED = 20
"""Most plans that are numbered and listed."""


def draw_energies(axes: Axes, problem: Problem, front: Sequence[PipelinePoint], letter: str = "") -> None:
    """Draw the energy of a frame over the rate of each plan, and the least energy of each rate."""
    rates, energies = _rates(problem, front), _energies(front)
    # A rate below that of a plan is kept by this plan, too.
    axes.step(rates, energies, where="pre", color=INK, linewidth=0.9)
    axes.scatter(rates, energies, color=BLUE, edgecolors=GREY, linewidths=0.3, s=36, zorder=3)
    for number, at in enumerate(_listed(front)):
        where = rates[at], energies[at]
        axes.annotate(
            str(number + 1), where, xytext=(-3, 4), textcoords="offset points", ha="right", fontsize=7.5
        )
    axes.grid(color=PALE, linewidth=0.6)
    axes.margins(0.06, 0.08)
    axes.set_title(f"{letter}Energy against rate; line: the least")
    axes.set_xlabel("frames per second")
    axes.set_ylabel("energy of a frame, uJ")


def list_energies(axes: Axes, problem: Problem, front: Sequence[PipelinePoint], plan: Plan | None) -> None:
    """List the numbered plans, with the PEs of all layers if a plan is given."""
    rates, energies = _rates(problem, front), _energies(front)
    axes.set_axis_off()
    axes.set_title("(b) The numbered plans")
    axes.set_xlim(0, 1)
    axes.set_ylim(MAX_LISTED + 1.5, -0.5)
    lines = [("", "PEs", "frames/s", "uJ", "PEs of the layers" if plan else "")]
    for number, at in enumerate(_listed(front)):
        each = " ".join(str(share.pes) for share in plan.front[at].splits) if plan else ""
        lines.append(
            (f"{number + 1}", f"{front[at].pes:,}", f"{rates[at]:,.1f}", f"{energies[at]:,.4g}", each)
        )
    for row, cells in enumerate(lines):
        for x, words in zip((0.07, 0.28, 0.6, 0.97, 1.06), cells, strict=True):
            side = "right" if x < 1 else "left"
            axes.text(x, row, words, ha=side, va="center", fontsize=8.5, color=INK if row else GREY)


def _rates(problem: Problem, front: Sequence[PipelinePoint]) -> list[float]:
    return [problem.machine.frames_per_second(point.interval_cycles) for point in front]


def _energies(front: Sequence[PipelinePoint]) -> list[float]:
    return [(point.energy_fj or 0) / FEMTOJOULES for point in front]


def _listed(front: Sequence[PipelinePoint]) -> list[int]:
    """Return the numbers of plans that are listed, of many some at equal steps."""
    count = min(len(front), MAX_LISTED)
    chosen: list[int] = np.unique(np.linspace(0, len(front) - 1, count).round().astype(int)).tolist()
    return chosen
