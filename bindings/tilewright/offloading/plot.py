"""Pictures of an offloading plan: which step computes what, what the chip holds, and what is moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright import plotting
from tilewright.offloading.plan import Plan, numbers
from tilewright.offloading.problem import Problem
from tilewright.offloading.state import states
from tilewright.offloading.summary import rows
from tilewright.plotting import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    SHEET_WIDTH,
    VERMILION,
    Sheet,
    axes_or_new,
    dimensions,
    explain_colours,
    leave_blank,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tilewright.simulator import Report

ACCEPTED = plotting.ACCEPTED
"""Suffixes of the files that `draw` writes."""

COLOURS = {"input": BLUE, "kernels": ORANGE, "output": GREEN}
HEIGHT, LEFT = 2.6, 0.9
"""Inches of a panel, and to its left."""
BLOCKS = {"patches": 1.6, "kernels": 0.6, "channels": 0.6}
"""Inches of the panels that show what steps compute."""


def _described(problem: Problem) -> str:
    layer = problem.layer
    form = "as a matrix product" if problem.limits.form == "gemm" else "direct"
    kernels = f"{layer.kernels} kernel{'s' * (layer.kernels > 1)} {dimensions(*layer.kernel)}"
    return f"convolution of {dimensions(*layer.input)} ({dimensions(*'CHW')}) with {kernels}, {form}"


@plotting.style()
def sheet(problem: Problem, plan: Plan, report: Report, *, title: str | None = None) -> Figure:
    """Return the sheet of a plan; see `core.room.Pictures`."""
    what = _described(problem)
    broken = report.violation is not None
    labelled = [] if broken else rows(problem, report.measures)
    page = Sheet(title or what, [what] if title else [], report, labelled=labelled)
    page.create(SHEET_WIDTH, page.top + (1 if broken else 3) * (HEIGHT + 0.9))
    top, width = page.top + 0.4, SHEET_WIDTH - LEFT - 0.5
    if broken:
        leave_blank(page.axes(LEFT, top, width, HEIGHT), "Steps", plotting.warning(report))
        return page.figure
    for name, height in BLOCKS.items():
        _blocks(page.axes(LEFT, top, width, height), problem, plan, name)
        top += height + 0.1
    top += 0.5
    for panel in (_held, _moved):
        panel(page.axes(LEFT, top, width, HEIGHT), problem, plan)
        top += HEIGHT + 0.9
    return page.figure


draw = plotting.writer(sheet)


@plotting.style()
def plot(problem: Problem, plan: Plan, report: Report, *, ax: Axes | None = None) -> Axes:
    """Draw what the chip holds step by step; see `core.room.Pictures.plot`."""
    ax = axes_or_new(ax, 6.0, HEIGHT, left=LEFT, above=0.5)
    if report.violation is not None:
        leave_blank(ax, "On chip", plotting.warning(report))
        return ax
    _held(ax, problem, plan)
    return ax


def _blocks(axes: Axes, problem: Problem, plan: Plan, name: str) -> None:
    """Mark which patches, kernels or channels each step computes."""
    many = {"patches": "n_patches", "kernels": "n_kernels", "channels": "n_channels"}
    marked = np.zeros((getattr(problem.elements, many[name]), plan.n_steps))
    for k, step in enumerate(plan.steps):
        for part, block in enumerate(step.blocks):
            if block is not None:
                marked[numbers(getattr(block, name)), k] = part + 1
    extent = (0.5, plan.n_steps + 0.5, len(marked) - 0.5, -0.5)
    shown = np.ma.masked_equal(marked, 0)
    axes.imshow(
        shown, aspect="auto", extent=extent, interpolation="nearest", vmin=0, vmax=problem.machine.parts + 1
    )
    axes.locator_params(axis="y", integer=True, nbins=4)
    axes.set_ylabel(name)
    axes.set_xticks([])


def _held(axes: Axes, problem: Problem, plan: Plan) -> None:
    """Stack what is on chip at the end of each step, the fullest memory where there are several."""
    amounts = np.zeros((3, plan.n_steps))
    for k, state in enumerate(states(problem, plan)):
        held = np.stack([each.sum(axis=1) for each in (state.inputs, state.kernels, state.outputs)])
        amounts[:, k] = held[:, held.sum(axis=0).argmax()]
    edges = np.arange(plan.n_steps + 1) + 0.5
    axes.stackplot(
        np.repeat(edges, 2)[1:-1], np.repeat(amounts, 2, axis=1), colors=list(COLOURS.values()), linewidth=0
    )
    if problem.machine.memory is not None:
        axes.axhline(problem.machine.memory, color=VERMILION, linewidth=1.2)
    axes.set_xlim(0.5, plan.n_steps + 0.5)
    axes.set_ylim(0, 1.1 * max(problem.machine.memory or 0, float(amounts.sum(axis=0).max())))
    axes.set_xlabel("step; what is on chip while it computes, and as a line the memory")
    axes.set_ylabel("elements")
    explain_colours(axes, COLOURS.items())


def _moved(axes: Axes, problem: Problem, plan: Plan) -> None:
    """Draw what each step loads above, and writes below."""
    loaded, written = np.zeros((3, plan.n_steps)), np.zeros(plan.n_steps)
    for k, step in enumerate(plan.steps):
        for moves in step.moves:
            for row, found in enumerate((moves.load_inputs, moves.load_kernels, moves.load_sums)):
                loaded[row, k] += len(numbers(found))
            written[k] += len(numbers(moves.write))
    at, below = np.arange(plan.n_steps) + 1, np.zeros(plan.n_steps)
    for amounts, colour in zip(loaded, COLOURS.values(), strict=True):
        axes.bar(at, amounts, bottom=below, width=0.9, color=colour, linewidth=0)
        below = below + amounts
    axes.bar(at, -written, width=0.9, color=COLOURS["output"], linewidth=0)
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_xlim(0.5, plan.n_steps + 0.5)
    axes.set_xlabel("step; above the line what it loads, below what it writes before")
    axes.set_ylabel("elements")
    explain_colours(axes, COLOURS.items())
