"""The sheet of one layer: the tile in its plane, traffic, memory and time."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright import plotting
from tilewright.core.quantities import written
from tilewright.plotting import (
    GREEN,
    GREY,
    INK,
    SHEET_WIDTH,
    VERMILION,
    dimensions,
    ratio,
    stack_bars,
    with_prefix,
)
from tilewright.simulator.report import Names
from tilewright.tiling import objective
from tilewright.tiling.dsp.nest import C, G, K, N, Nest, X, Y, nest_of
from tilewright.tiling.dsp.plan import LOOPS, DspPlan
from tilewright.tiling.hierarchy.nest import Nest as LevelNest
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.hierarchy.plot import draw_sheet
from tilewright.tiling.panels import ExecutedParts, operand_of, scale_of
from tilewright.tiling.plan import Plan
from tilewright.tiling.plots.page import (
    LEFT,
    TILES,
    add_up,
    colour_of,
    create_page,
    table_of_tiles,
)
from tilewright.tiling.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tilewright.simulator import Report


def layer_sheet(problem: Problem, plan: Plan, report: Report, title: str | None) -> Figure:
    """Return the sheet of a layer."""
    page = create_page(problem, report, _layer_numbers(problem, plan, report), title)
    if problem.machine.kind == "hierarchy" and report.violation is None:
        moved = list(ExecutedParts(problem, {"": report.measures}).memories())
        return draw_sheet(page, _level_nest(problem, plan), report.measures, moved)
    top = page.top + 0.35
    layer = plan.layers[0]
    dsp = problem.machine.kind == "dsp" and isinstance(layer, DspPlan)
    nest = dsp_nest(problem)
    upper = 3.6 if dsp else 2.1
    bottom = top + upper + 0.75
    height = bottom + (1.75 if problem.machine.kind != "hierarchy" else -0.5)
    # The drawings show the tile of a DSP and of a hierarchy.
    table = table_of_tiles(problem, plan, report) if problem.machine.kind == "npu" else None
    figure = page.create(SHEET_WIDTH, height + (0.5 + table.height if table else 0.0))
    if table:
        table.draw(page.axes(0.3, height + 0.2, table.width, table.height), "(c) Tile")
    right = LEFT + 0.75
    if nest is not None and isinstance(layer, DspPlan):
        plane = page.axes(LEFT, top, 3.0, upper - 0.25)
        _draw_plane(plane, nest, layer)
        loops = page.axes(LEFT + 3.35, top, 2.9, upper)
        _draw_loops(loops, nest, layer)
        right = LEFT + 3.35 + 3.1 + 1.2
    half = 1.35 if nest is not None else upper - 0.3
    traffic = page.axes(right, top, SHEET_WIDTH - right - 1.7, half)
    draw_traffic(traffic, report, nest.needed if nest else {}, "(b) " if nest is not None else "(a) ")
    if nest is not None and isinstance(layer, DspPlan):
        memory = page.axes(right, top + half + 1.0, SHEET_WIDTH - right - 1.7, upper - half - 1.25)
        _draw_memory(memory, nest, layer)
    if problem.machine.kind == "hierarchy":  # which is counted, not timed
        return figure
    timeline = page.axes(LEFT, bottom, SHEET_WIDTH - LEFT - 0.9, 0.95)
    _draw_timeline(timeline, problem, report, "(d) " if nest is not None else "(b) ")
    return figure


def _layer_numbers(problem: Problem, plan: Plan, report: Report) -> list[str]:
    if report.violation is not None:
        return [f"{report.n_steps:,} tiles were computed"]
    scale, unit = scale_of(problem, problem.minimise)
    value = objective(problem, plan) * scale
    words = f"{value:,.0f}" if scale == 1 else f"{value:,.1f}"
    numbers = [f"objective {words} {unit}"]
    if problem.machine.kind != "hierarchy":
        numbers.append(f"{report.n_steps:,} tiles")
    shown = report.measures.to_json()
    for key, minimised, form in (
        ("duration_cycles", "cycles", "{:,} cycles"),
        ("accesses_elements", "accesses", "{:,} accesses"),
        ("ops_per_byte", "", "{:.1f} Ops/byte"),
        ("gops_per_second", "", "{:.2f} GOps/s"),
    ):
        if key in shown and problem.minimise != minimised:
            numbers.append(form.format(shown[key]))
    if "energy_fj" in shown and problem.minimise != "energy":
        numbers.append(written(shown["energy_fj"], "fJ"))
    return numbers


def _level_nest(problem: Problem, plan: Plan) -> LevelNest:
    """Return the loop nest of a plan on a hierarchy."""
    layer = plan.layers[0]
    assert problem.machine.kind == "hierarchy" and isinstance(layer, HierarchyPlan)
    return LevelNest(problem.one_layer, problem.machine, layer)


def dsp_nest(problem: Problem) -> Nest | None:
    """Return the loop nest of a layer on a DSP, None on another machine."""
    return nest_of(problem.one_layer, problem.machine) if problem.machine.kind == "dsp" else None


def _draw_plane(axes: Axes, nest: Nest, plan: DspPlan) -> None:
    """Draw the output plane with its grid of tiles, and under the first tile the input that it needs."""
    from matplotlib.patches import Rectangle

    step = nest.step(plan.tile)
    rows, columns = nest.sizes[Y], nest.sizes[X]
    tall, wide = step[Y], step[X]
    shown = max(rows, columns) / min(rows, columns) <= 6
    axes.set_aspect("equal" if shown else "auto", anchor="NW")
    # A hair's breadth between tiles is a line; too many of them would be a grey plane.
    for size, width, line in ((rows, tall, axes.axhline), (columns, wide, axes.axvline)):
        if size // width <= 60:
            for at in range(width, size, width):
                line(at, color="white", linewidth=1.2, zorder=2)
    axes.add_patch(Rectangle((0, 0), columns, rows, facecolor=TILES, edgecolor="none", zorder=1))
    axes.add_patch(Rectangle((0, 0), wide, tall, facecolor=GREEN, edgecolor="none", zorder=1.5))
    axes.set_xlim(0, columns)
    axes.set_ylim(rows, 0)
    axes.set_xlabel(f"{columns:,} columns" + _describe_tiles(columns, wide))
    axes.set_ylabel(f"{rows:,} rows" + _describe_tiles(rows, tall))
    axes.set_xticks([0, wide, columns] if wide < columns * 0.9 else [0, columns])
    axes.set_yticks([0, tall, rows] if tall < rows * 0.9 else [0, rows])
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title("(a) Output plane, its first tile")
    if wide > columns / 4 and tall > rows / 8:
        axes.text(
            wide / 2, tall / 2, dimensions(tall, wide), ha="center", va="center", color="white", fontsize=11
        )


def _describe_tiles(size: int, step: int) -> str:
    trips = -(-size // step)
    if trips == 1:
        return ", all in a tile" if size > 1 else ""
    return f", {trips:,} tiles of {step:,}"


def _draw_loops(axes: Axes, nest: Nest, plan: DspPlan) -> None:
    """Draw the tile loops, outermost first, as bars of their iterations, and say what stays on chip."""
    names: dict[int, str] = {
        G: "channel groups",
        N: "images On",
        C: "output maps Oc",
        Y: "rows Oy",
        X: "columns Ox",
        K: "input maps Kc",
    }
    step, trips = nest.step(plan.tile), nest.trips(plan.tile)
    order = [LOOPS.index(loop) for loop in "g" + plan.order if loop != "g" or nest.sizes[G] > 1]
    axes.set_xlim(0, 1)
    axes.set_ylim(7.2, -0.2)
    axes.set_axis_off()
    axes.set_title("Tile loops, outermost first")
    depth = 0
    moving = [d for d in order if trips[d] > 1]
    for row, d in enumerate(order):
        looped = trips[d] > 1
        left = 0.045 * depth
        words = f"{names[d]}  {nest.sizes[d]:,}" + (
            f" = {trips[d]:,} tiles of {step[d]:,}" if looped else ", whole" if nest.sizes[d] > 1 else ""
        )
        colour = INK if looped else GREY
        axes.text(left, row + 0.22, words, fontsize=8.5, color=colour, va="center")
        count = min(trips[d], 60)
        gap = 0.006 if count < 30 else 0
        width = (1 - left + gap) / count
        for number in range(count):
            axes.barh(
                row + 0.55,
                width - gap,
                left=left + number * width,
                align="center",
                height=0.16,
                color=GREEN if number == 0 else TILES,
                linewidth=0,
            )
        depth += looped
    words = _describe_staying(plan, moving)
    axes.text(0, 6.95, "\n".join(textwrap.wrap(words, 50)), fontsize=8.5, color=INK, va="center")


def _describe_staying(plan: DspPlan, moving: Sequence[int]) -> str:
    """Say which operands stay on chip from one tile to the next."""
    if plan.reuse == "none":
        return "Nothing stays from tile to tile."
    if not moving:
        return "One tile: everything is moved once."
    weights = {G} if plan.reuse == "weights" else {G, C, K}
    relevant = {"input": {G, N, Y, X, K}, "weights": weights, "output": {G, N, C, Y, X}}
    stay = [name for name, loops in relevant.items() if moving[-1] not in loops]
    many = len(stay) > 1 or stay == ["weights"]
    words = f"{' and '.join(stay)} stay{'' if many else 's'} in the innermost loop" if stay else ""
    halo = next((d for d in reversed(moving) if d in relevant["input"]), None)
    if plan.keeps_halo and halo in (Y, X):
        words += ("; " if words else "") + f"neighbours along {'Oy' if halo == Y else 'Ox'} share their halo"
    return (words[:1].upper() + words[1:] or "Nothing stays from tile to tile") + "."


def draw_traffic(axes: Axes, report: Report, compulsory: Mapping[str, int], letter: str = "") -> None:
    """Draw what is moved of each tensor, beside what every plan moves."""
    rows: list[tuple[str, int, str, int | None]] = []
    for name, total in add_up(report, report.loaded).items():
        if total or name in ("input", "weights"):
            partial = name == "output"
            label = "partial sums, loaded" if partial else f"{name}, loaded"
            rows.append((label, total, colour_of(name), 0 if partial else compulsory.get(name)))
    for name, total in add_up(report, report.written).items():
        if total:
            rows.append((f"{name}, written", total, colour_of(name), compulsory.get(name)))
    moved = sum(total for _, total, _, _ in rows)
    least = sum(compulsory.values())
    longest = max((max(total, needed or 0) for _, total, _, needed in rows), default=1) or 1
    for row, (_, total, colour, needed) in enumerate(rows):
        axes.barh(row, total, height=0.66, color=colour, linewidth=0)
        words = with_prefix(total)
        if needed:
            axes.plot([needed, needed], [row - 0.42, row + 0.42], color=INK, linewidth=1.6)
            words += f"   {ratio(total / needed)}"
        axes.text(max(total, needed or 0) + 0.015 * longest, row, words, va="center", fontsize=8.5)
    axes.set_yticks(range(len(rows)), [label for label, *_ in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, longest * 1.02)
    axes.tick_params(axis="y", length=0)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    title = f"{letter}Traffic: {with_prefix(moved)} elements"
    if least and moved:
        title += f", {ratio(moved / least)} compulsory (ticks)"
    axes.set_title(title)


def _draw_memory(axes: Axes, nest: Nest, plan: DspPlan) -> None:
    """Draw the buffers side by side in the memory that they share."""
    machine = nest.machine
    capacity, size, copies = machine.capacity, machine.unit_bits / 8, machine.copies
    step = nest.step(plan.tile)
    buffers = {operand_of(name): copies * units for name, units in nest.held(step, plan.reuse).items()}
    used = sum(buffers.values())
    axes.barh(0, capacity, height=0.7, color="#F0F0F0", linewidth=0)
    stack_bars(axes, 0, [(elements, colour_of(name)) for name, elements in buffers.items()], height=0.7)
    longest = max(capacity, used)
    for number, (name, elements) in enumerate(buffers.items()):
        words = f"{name}\n{elements * size / 1024:,.3g} KB"
        x = longest * number / len(buffers)
        axes.text(x, 0.55, words, va="top", fontsize=8.5, color=colour_of(name), linespacing=1.3)
    axes.plot([capacity, capacity], [-0.55, 0.55], color=INK, linewidth=1.6, clip_on=False)
    axes.set_xlim(0, longest * 1.02)
    axes.set_ylim(1.5, -0.6)
    axes.set_axis_off()
    twice = ", every buffer twice" if copies == 2 else ""
    over = used > capacity
    axes.set_title(
        f"(c) Memory: {used * size / 1024:,.4g} of {capacity * size / 1024:,.4g} KB, "
        f"{100 * used / capacity:.0f} %{twice}",
        color=VERMILION if over else INK,
    )


def _draw_timeline(axes: Axes, problem: Problem, report: Report, letter: str) -> None:
    """Draw the timeline that the machine has; an NPU's counts in picoseconds."""
    from matplotlib.ticker import FuncFormatter

    lines = {
        "Double buffering, each tile beside its neighbours' transfers": report.lockstep,
        "One action after the other": report.sequential,
    }
    words = next((words for words, line in lines.items() if line is not None), "Timeline")
    line = lines.get(words)
    if line is not None:
        operands = map(operand_of, line.tensor.names)
        shared = ["kernels" if name == "weights" else name for name in operands]
        line = replace(line, tensor=Names(shared, line.tensor.codes))
    plotting.timeline(axes, line, title=letter + words)
    if line is not None and problem.machine.kind == "npu":
        axes.set_title(axes.get_title(loc="left").replace("cycles", "ps"), loc="left")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x * 1e-6:,g}"))
        axes.set_xlabel("microseconds")
