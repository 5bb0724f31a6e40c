"""Pictures of a tiling plan: the tile in its layer, traffic, memory and time; a network's layers; a front.

Every number is the report's. Reports that say nothing of a DSP's tile get bars for each of their tensors.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tilewright import plotting
from tilewright.core.overview import said_once
from tilewright.plotting import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    SHEET_WIDTH,
    SKY,
    VERMILION,
    YELLOW,
    PlacedTable,
    Sheet,
    axes_or_new,
    colour_patches,
    dimensions,
    ratio,
    shortened,
    stack_bars,
    with_prefix,
)
from tilewright.simulator.report import Names
from tilewright.tiling import best_bound, objective
from tilewright.tiling.dsp.exact import THROUGHPUT
from tilewright.tiling.dsp.kind import nest_of
from tilewright.tiling.dsp.nest import C, G, K, N, Nest, X, Y
from tilewright.tiling.dsp.plan import LOOPS, DspPlan
from tilewright.tiling.hierarchy.curve import least_accesses
from tilewright.tiling.hierarchy.nest import Nest as LevelNest
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.hierarchy.plot import draw_amounts, draw_sheet
from tilewright.tiling.measures import CycledBetween, TimedBetween, duration
from tilewright.tiling.operations.units import Machine
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem
from tilewright.tiling.summary import costs_of_front, found_of_front
from tilewright.tiling.tiles import decisions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tilewright.simulator import Report

LEGEND_COLUMNS = 3
"""Words beside each other above a network's times."""
MOST_LAYERS = 60
"""Most rows of a network's picture."""
ACCEPTED = plotting.ACCEPTED
"""Suffixes of the files that `draw` writes."""

TENSORS = {"input": BLUE, "weights": ORANGE, "output": GREEN}
"""Colours of what is moved."""
TILES = "#CDE8DF"
"""Colour of all tiles but the first."""
LEFT = 0.75
"""Inches left of the drawings."""
UNITS = {
    "accesses": (1.0, "elements"),
    "cycles": (1.0, "cycles"),
    "energy": (1e-9, "µJ"),
    "time": (1e-6, "µs"),
    "edp": (1.0, "nJ cycles"),
}
"""What objectives are shown in."""
MANY = 60
"""Points of a front above which they are drawn small."""


def draw(problem: Problem, plan: Plan, report: Report, path: str | Path, *, title: str | None = None) -> None:
    """Draw a plan on one sheet, PNG, SVG or PDF by the path's suffix; see `core.room.Pictures.draw`."""
    plotting.checked_suffix(path, ACCEPTED)
    plotting.save(sheet(problem, plan, report, title=title), path)


@plotting.style()
def sheet(problem: Problem, plan: Plan, report: Report, *, title: str | None = None) -> Figure:
    """Return the sheet of a layer, of a network, or of a front."""
    if problem.trades_capacity and report.violation is None:
        return _capacity_sheet(problem, report, title)
    if problem.traded and report.violation is None:
        if _has_roofs(problem):
            return _front_sheet(problem, plan, report, title)
        return _traded_sheet(problem, report, title)
    if problem.network is not None:
        return _network_sheet(problem, plan, report, title)
    return _layer_sheet(problem, plan, report, title)


@plotting.style()
def plot(problem: Problem, plan: Plan, report: Report, *, ax: Axes | None = None) -> Axes:
    """Draw the traffic of a layer's tensors or of a network's layers; of a front, its trade-off.

    See `core.room.Pictures.plot`.
    """
    if problem.trades_capacity and report.violation is None:
        ax = axes_or_new(ax, 6.3, 3.6)
        _capacities(ax, problem, report)
    elif problem.traded and report.violation is None:
        ax = axes_or_new(ax, 6.3, 3.6)
        if _has_roofs(problem):
            _trade_off(ax, _Front.of(problem, report))
        else:
            _traded(ax, problem, report)
    elif problem.network is not None:
        rows = _rows(problem, report)
        left, height = _names_width(rows), _row_pitch(rows) * len(rows) + 0.1
        ax = axes_or_new(ax, 5.5, height, left=left, above=0.7)
        _network_traffic(ax, rows, _executed(report), problem)
        _layer_rows(ax, rows, label=True)
    elif report.violation is None and problem.machine.kind == "hierarchy":
        height = 0.3 * (1 + len(report.measures.levels_bytes))
        ax = axes_or_new(ax, 4.0, height, left=1.5, right=1.2, above=0.6, below=0.2)
        draw_amounts(ax, report.measures)
    else:
        ax = axes_or_new(ax, 5.0, 1.35, left=1.5, right=1.2, below=0.2)
        _traffic(ax, report, _compulsory(_nest(problem), report))
    return ax


# Words -------------------------------------------------------------------------------------------------


def _described(problem: Problem) -> str:
    """Say what is tiled, and on what."""
    if problem.network is not None:
        layers = _counted(problem)
        what = f"{problem.network.name}, {layers}" if problem.network.name else f"network of {layers}"
        batch = next((part.one_layer.batch for _, part in problem.parts if part.operation is None), 1)
    else:
        layer = problem.one_layer
        batch = layer.batch
        if layer.kind == "fc":
            what = f"fully connected layer, {layer.input[0]:,} → {layer.kernels:,}"
        else:
            rows, columns = layer.output_plane
            what = (
                f"{dimensions(*layer.kernel)} convolution, {layer.input[0]:,} → {layer.kernels:,} maps of "
                f"{dimensions(rows, columns)}"
            )
            if layer.stride != (1, 1):
                what += f", stride {dimensions(*layer.stride)}"
            if layer.groups > 1:
                what += f", {layer.groups:,} channel groups"
    return what + (f", batch of {batch}" if batch > 1 else "")


def _counted(problem: Problem) -> str:
    """Return how many layers and operations between them a network has."""
    operations = sum(part.operation is not None for _, part in problem.parts)
    many = {"layer": len(problem.parts) - operations, "operation": operations}
    return ", ".join(f"{count} {what}{'s' * (count != 1)}" for what, count in many.items() if count)


def _page(problem: Problem, report: Report, numbers: Sequence[str], title: str | None) -> Sheet:
    """Return a sheet with a title, the problem's description and some numbers above the drawings."""
    what = _described(problem)
    facts = ["; ".join(numbers)]
    if title is not None:
        facts.insert(0, what)
    return Sheet(title or (what if problem.network else what[0].upper() + what[1:]), facts, report)


# One layer ---------------------------------------------------------------------------------------------


def _layer_sheet(problem: Problem, plan: Plan, report: Report, title: str | None) -> Figure:
    page = _page(problem, report, _layer_numbers(problem, plan, report), title)
    if problem.machine.kind == "hierarchy" and report.violation is None:
        return draw_sheet(page, _levels(problem, plan), report.measures)
    top = page.top + 0.35
    layer = plan.layers[0]
    dsp = problem.machine.kind == "dsp" and isinstance(layer, DspPlan)
    nest = _nest(problem)
    upper = 3.6 if dsp else 2.1
    bottom = top + upper + 0.75
    height = bottom + (1.75 if problem.machine.kind != "hierarchy" else -0.5)
    # The drawings show the tile of a DSP and of a hierarchy.
    table = _tiles(problem, plan, report) if problem.machine.kind == "npu" else None
    figure = page.create(SHEET_WIDTH, height + (0.5 + table.height if table else 0.0))
    if table:
        table.draw(page.axes(0.3, height + 0.2, table.width, table.height), "(c) Tile")
    right = LEFT + 0.75
    if nest is not None and isinstance(layer, DspPlan):
        plane = page.axes(LEFT, top, 3.0, upper - 0.25)
        _tile_in_plane(plane, nest, layer)
        loops = page.axes(LEFT + 3.35, top, 2.9, upper)
        _loop_nest(loops, nest, layer)
        right = LEFT + 3.35 + 3.1 + 1.2
    half = 1.35 if nest is not None else upper - 0.3
    traffic = page.axes(right, top, SHEET_WIDTH - right - 1.7, half)
    _traffic(traffic, report, _compulsory(nest, report), "(b) " if nest is not None else "(a) ")
    if nest is not None and isinstance(layer, DspPlan):
        memory = page.axes(right, top + half + 1.0, SHEET_WIDTH - right - 1.7, upper - half - 1.25)
        _memory(memory, nest, layer)
    if problem.machine.kind == "hierarchy":  # which is counted, not timed
        return figure
    timeline = page.axes(LEFT, bottom, SHEET_WIDTH - LEFT - 0.9, 0.95)
    _timeline(timeline, problem, report, "(d) " if nest is not None else "(b) ")
    return figure


def _layer_numbers(problem: Problem, plan: Plan, report: Report) -> list[str]:
    if report.violation is not None:
        return [f"{report.n_steps:,} tiles were computed"]
    scale, unit = _scale(problem, problem.minimise)
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
        numbers.append(f"{shown['energy_fj'] / 1e9:,.1f} µJ")
    return numbers


def _levels(problem: Problem, plan: Plan) -> LevelNest:
    """Return the loop nest of a plan on a hierarchy."""
    layer = plan.layers[0]
    assert problem.machine.kind == "hierarchy" and isinstance(layer, HierarchyPlan)
    return LevelNest(problem.one_layer, problem.machine, layer)


def _nest(problem: Problem) -> Nest | None:
    """Return the loop nest of a layer on a DSP, None on another machine."""
    return nest_of(problem.one_layer, problem.machine) if problem.machine.kind == "dsp" else None


def _compulsory(nest: Nest | None, report: Report) -> dict[str, int]:
    """Return what every plan moves of each tensor; empty where it is not known."""
    if nest is None:
        return {}
    return {
        "input": nest.n_inputs,
        "weights": nest.n_weights,
        "output": nest.n_outputs,
    }


def _operand(tensor: str) -> str:
    """Return what a tensor is a part of: cores have tensors of their own, named after them."""
    name = tensor.split()[0]
    return "weights" if name == "kernels" else name


def _totals(report: Report, table: Mapping[str, Any]) -> dict[str, int]:
    """Add up elements over steps and cores."""
    totals: dict[str, int] = {}
    for tensor, counts in table.items():
        name = _operand(tensor)
        totals[name] = totals.get(name, 0) + report.total(counts)
    return totals


def _tile_in_plane(axes: Axes, nest: Nest, plan: DspPlan) -> None:
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
    axes.set_xlabel(f"{columns:,} columns" + _in_tiles(columns, wide))
    axes.set_ylabel(f"{rows:,} rows" + _in_tiles(rows, tall))
    axes.set_xticks([0, wide, columns] if wide < columns * 0.9 else [0, columns])
    axes.set_yticks([0, tall, rows] if tall < rows * 0.9 else [0, rows])
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title("(a) Output plane, its first tile")
    if wide > columns / 4 and tall > rows / 8:
        axes.text(
            wide / 2, tall / 2, dimensions(tall, wide), ha="center", va="center", color="white", fontsize=11
        )


def _in_tiles(size: int, step: int) -> str:
    trips = -(-size // step)
    if trips == 1:
        return ", all in a tile" if size > 1 else ""
    return f", {trips:,} tiles of {step:,}"


def _loop_nest(axes: Axes, nest: Nest, plan: DspPlan) -> None:
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
    words = _staying(plan, moving)
    axes.text(0, 6.95, "\n".join(textwrap.wrap(words, 50)), fontsize=8.5, color=INK, va="center")


def _staying(plan: DspPlan, moving: Sequence[int]) -> str:
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


def _traffic(axes: Axes, report: Report, compulsory: Mapping[str, int], letter: str = "") -> None:
    """Draw what is moved of each tensor, beside what every plan moves."""
    rows: list[tuple[str, int, str, int | None]] = []
    for name, total in _totals(report, report.loaded).items():
        if total or name in ("input", "weights"):
            partial = name == "output"
            label = "partial sums, loaded" if partial else f"{name}, loaded"
            rows.append((label, total, _colour(name), 0 if partial else compulsory.get(name)))
    for name, total in _totals(report, report.written).items():
        if total:
            rows.append((f"{name}, written", total, _colour(name), compulsory.get(name)))
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


def _colour(tensor: str) -> str:
    return TENSORS.get(tensor, SKY)


def _memory(axes: Axes, nest: Nest, plan: DspPlan) -> None:
    """Draw the buffers side by side in the memory that they share."""
    machine = nest.machine
    capacity, size, copies = machine.capacity, machine.unit_bits / 8, machine.copies
    step = nest.step(plan.tile)
    buffers = {_operand(name): copies * units for name, units in nest.held(step, plan.reuse).items()}
    used = sum(buffers.values())
    axes.barh(0, capacity, height=0.7, color="#F0F0F0", linewidth=0)
    stack_bars(axes, 0, [(elements, _colour(name)) for name, elements in buffers.items()], height=0.7)
    longest = max(capacity, used)
    for number, (name, elements) in enumerate(buffers.items()):
        words = f"{name}\n{elements * size / 1024:,.3g} KB"
        x = longest * number / len(buffers)
        axes.text(x, 0.55, words, va="top", fontsize=8.5, color=_colour(name), linespacing=1.3)
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


def _timeline(axes: Axes, problem: Problem, report: Report, letter: str) -> None:
    """Draw the timeline that the machine has; an NPU's counts in picoseconds."""
    from matplotlib.ticker import FuncFormatter

    lines = {
        "Double buffering, each tile beside its neighbours' transfers": report.lockstep,
        "One action after the other": report.sequential,
    }
    words = next((words for words, line in lines.items() if line is not None), "Timeline")
    line = lines.get(words)
    if line is not None:
        shared = ["kernels" if _operand(name) == "weights" else _operand(name) for name in line.tensor.names]
        line = replace(line, tensor=Names(shared, line.tensor.codes))
    plotting.timeline(axes, line, title=letter + words)
    if line is not None and problem.machine.kind == "npu":
        axes.set_title(axes.get_title(loc="left").replace("cycles", "ps"), loc="left")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x * 1e-6:,g}"))
        axes.set_xlabel("microseconds")


# A network ---------------------------------------------------------------------------------------------


def _network_sheet(problem: Problem, plan: Plan, report: Report, title: str | None) -> Figure:
    rows = _rows(problem, report)
    page = _page(problem, report, _network_numbers(problem, report), title)
    top, height = page.top + 0.65, _row_pitch(rows) * len(rows) + 0.1
    table = _tiles(problem, plan, report)
    below = 0.75 + table.height if table else 0.0
    figure = page.create(max(SHEET_WIDTH, table.width + 0.6 if table else 0), top + height + 0.5 + below)
    if table:
        table.draw(page.axes(0.3, top + height + 0.9, table.width, table.height), "(d) Tiles")
    left = _names_width(rows)
    width = (SHEET_WIDTH - left - 2.35) / 3
    traffic, time, rate = (page.axes(left + i * (width + 0.8), top, width, height) for i in range(3))
    executed = _executed(report)
    _network_traffic(traffic, rows, executed, problem, "(a) ")
    _network_time(time, rows, executed, problem)
    if problem.machine.kind == "hierarchy" and problem.machine.priced:
        _network_energy(rate, rows, executed)
    else:
        _network_rate(rate, rows, executed, problem.machine)
    for axes in (traffic, time, rate):
        _layer_rows(axes, rows, label=axes is traffic)
    return figure


def _tiles(problem: Problem, plan: Plan, report: Report) -> PlacedTable | None:
    """Return the table of the tiles of a plan that breaks no rule."""
    if report.violation is not None:
        return None
    found = decisions(problem, plan, report.measures)
    if found is None:
        return None
    return PlacedTable.within(
        SHEET_WIDTH - 0.6, found.header, said_once(found.lines), found.right, found.note
    )


class _LayerRow(NamedTuple):
    """A row of a network's picture: a layer, or what small ones have together."""

    words: str
    layers: tuple[str, ...]


def _rows(problem: Problem, report: Report) -> list[_LayerRow]:
    """Return a row for each layer in order; of many layers those that take longest, and the rest as one."""
    executed = _executed(report)
    names = [name for name, _ in report.layers] or [name for name, _ in problem.parts]
    if len(names) <= MOST_LAYERS:
        return [_LayerRow(name, (name,)) for name in names]
    duration = {name: sum(_time_split(one, problem).values()) for name, one in executed.items()}
    names.sort(key=lambda name: -duration.get(name, 0))
    kept, rest = names[: MOST_LAYERS - 1], names[MOST_LAYERS - 1 :]
    return [*(_LayerRow(name, (name,)) for name in kept), _LayerRow(f"{len(rest)} other layers", tuple(rest))]


def _executed(report: Report) -> dict[str, Report]:
    """Return the reports of the layers that break no rule, by their names."""
    return {name: layer for name, layer in report.layers if layer.violation is None}


def _row_pitch(rows: Sequence[_LayerRow]) -> float:
    """Return the inches from one layer's row to the next."""
    return 0.2 if len(rows) > 20 else 0.26


def _names_width(rows: Sequence[_LayerRow]) -> float:
    """Return the inches that names take to the left of the axes."""
    return 0.35 + 0.072 * min(max(len(row.words) for row in rows), 34)


def _layer_rows(axes: Axes, rows: Sequence[_LayerRow], *, label: bool) -> None:
    """Give axes a row for each layer, with its name if they are the leftmost, and an axis of numbers."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_ylim(len(rows) - 0.4, -0.6)
    shown = [shortened(row.words, 34) for row in rows] if label else []
    axes.set_yticks(range(len(rows)), shown, parse_math=False)
    axes.tick_params(axis="y", length=0, labelsize=7.5 if len(rows) > 20 else 8.5)
    axes.grid(axis="x", color=PALE, linewidth=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: with_prefix(x) if x else "0"))


def _network_numbers(problem: Problem, report: Report) -> list[str]:
    if report.violation is not None or not report.layers:
        return []
    macs = report.total(report.macs)
    moved = _moved(report)
    numbers = [f"{macs:,} MACs", f"{moved:,} accesses"]
    if problem.machine.kind == "hierarchy":  # which counts no transfers and has no timeline
        return [*numbers, f"{report.measures.duration_cycles:,} cycles"]
    numbers.append(f"{report.transfers:,} transfers")
    cycles = _cycles(report)
    if cycles and problem.machine.kind == "dsp":
        seconds = cycles / problem.machine.clock_mhz / 1e6
        numbers += [f"{cycles:,} cycles, {1e3 * seconds:,.2f} ms", f"{2 * macs / seconds / 1e9:.2f} GOps/s"]
        numbers.append(f"{report.measures.energy_fj / 1e9:,.1f} µJ")
    return numbers


def _moved(report: Report) -> int:
    return sum(report.total(counts) for table in (report.loaded, report.written) for counts in table.values())


def _cycles(report: Report) -> int:
    """Cycles of the timeline that the machine has, 0 where there is none."""
    line = report.lockstep or report.sequential
    return 0 if line is None else line.cycles


def _network_traffic(
    axes: Axes, rows: Sequence[_LayerRow], executed: Mapping[str, Report], problem: Problem, letter: str = ""
) -> None:
    """Stack the traffic of each layer by tensor, with a tick for what every plan moves."""
    totals = {
        name: [_totals(one, table) for table in (one.loaded, one.written)] for name, one in executed.items()
    }
    present = dict.fromkeys(tensor for pair in totals.values() for table in pair for tensor in table)
    tensors = [*(name for name in TENSORS if name in present), *(n for n in present if n not in TENSORS)]
    needed = _least_traffic(problem)
    least, moved = 0, 0
    for at, row in enumerate(rows):
        tables = [table for name in row.layers if name in executed for table in totals[name]]
        if not tables:
            continue
        sizes = [sum(table.get(tensor, 0) for table in tables) for tensor in tensors]
        moved += stack_bars(axes, at, zip(sizes, map(_colour, tensors), strict=True), height=0.72)
        if needed:
            least += _tick(axes, at, [needed[name] for name in row.layers if name in executed])
    what = "compulsory" if problem.machine.kind == "dsp" else "the bound"
    compared = f": {ratio(moved / least)} {what} (ticks)" if least else ", elements"
    axes.set_title(f"{letter}Traffic{compared}", pad=20)
    handles = colour_patches((name, _colour(name)) for name in tensors)
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, fontsize=8)


def _tick(axes: Axes, row: int, least: Sequence[float]) -> Any:
    """Mark in a row what no plan goes below, of all its layers together; return it."""
    total = sum(least)
    axes.plot([total, total], [row - 0.42, row + 0.42], color=INK, linewidth=1.3)
    return total


def _least_traffic(problem: Problem) -> dict[str, int]:
    """Return what no plan of each layer moves less than; empty where it is not known."""
    machine = problem.machine
    if machine.kind == "dsp":
        return {
            name: nest_of(part.one_layer, machine).compulsory
            if part.operation is None
            else part.operation.least
            for name, part in problem.parts
        }
    bound_is_known = machine.kind == "npu" and problem.unit == "elements"
    return _bounds(problem) if bound_is_known else {}


def _bounds(problem: Problem) -> dict[str, int]:
    """Return the bound of each layer that is known without a search."""
    known = {id(part): part for _, part in problem.parts}
    values = {key: best_bound(part).value for key, part in known.items()}
    return {name: values[id(part)] for name, part in problem.parts}


SPLIT = {
    "computing": "#AEBAC6",
    "transfers": "#3F4D5C",
    "DMA set-up": "#3F4D5C",
    "waiting for the bus": YELLOW,
    "waiting for a memory": YELLOW,
    "between layers": GREEN,
}
"""Of what a layer's time consists, and its colours."""


def _network_time(
    axes: Axes, rows: Sequence[_LayerRow], executed: Mapping[str, Report], problem: Problem
) -> None:
    """Stack each layer's time: computing, setting up transfers, waiting; with a tick for its bound."""
    seen: set[str] = set()
    npu = problem.machine.kind == "npu"
    bounds = _bounds(problem) if npu and problem.minimise == "time" else {}
    spent, least = 0.0, 0.0
    for at, row in enumerate(rows):
        split: dict[str, float] = {}
        layers = [name for name in row.layers if name in executed]
        for name in layers:
            for part, time in _time_split(executed[name], problem).items():
                if time:
                    split[part] = split.get(part, 0) + time
        spent += stack_bars(axes, at, [(time, SPLIT[part]) for part, time in split.items()], height=0.72)
        seen |= split.keys()
        if bounds and layers:
            least += _tick(axes, at, [1e-6 * bounds[name] for name in layers])
    compared = f": {ratio(spent / least)} the bound (ticks)" if least else ""
    two_lines = len(seen) > LEGEND_COLUMNS
    axes.set_title(f"(b) {'Microseconds' if npu else 'Cycles'}{compared}", pad=34 if two_lines else 20)
    handles = colour_patches((part, colour) for part, colour in SPLIT.items() if part in seen)
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=LEGEND_COLUMNS, fontsize=8)


def _time_split(report: Report, problem: Problem) -> dict[str, float]:
    """Return of what a layer's time consists: microseconds of an NPU, cycles of other machines."""
    total = _cycles(report)
    if isinstance(report.measures, CycledBetween | TimedBetween):
        time = duration(report.measures)
        return {"between layers": time * 1e-6 if problem.machine.kind == "npu" else time}
    if problem.machine.kind == "npu":
        # One stage after the other: what DRAM does not take, the cores do.
        transfers = 0 if report.sequential is None else report.sequential.busy().get("dram", 0)
        return {"computing": 1e-6 * (total - transfers), "transfers": 1e-6 * transfers}
    if problem.machine.kind == "hierarchy":
        cycles, computing = report.measures.duration_cycles, report.measures.multiplying_cycles
        return {"computing": computing, "waiting for a memory": cycles - computing}
    compute = report.total(-(-report.macs // problem.machine.macs_per_cycle))
    setup = problem.machine.dma_setup_cycles * report.transfers
    waiting = max(total - compute - setup, 0)
    return {"computing": compute, "DMA set-up": setup, "waiting for the bus": waiting}


def _network_rate(
    axes: Axes, rows: Sequence[_LayerRow], executed: Mapping[str, Report], machine: Machine
) -> None:
    """Draw each layer's Ops per byte, or MACs per element where bytes are not known, if it has MACs."""
    in_bytes = machine.kind == "dsp" or (machine.kind == "npu" and machine.bits is not None)
    scale = 16 / machine.unit_bits if in_bytes and machine.kind != "hierarchy" else 1
    rates = []
    for row in rows:
        layers = [executed[name] for name in row.layers if name in executed]
        work = sum(one.total(one.macs) for one in layers)
        moved = sum(getattr(one.measures, "accesses_bits", None) or _moved(one) for one in layers)
        rates.append(scale * work / moved if work and moved else None)
    _network_bars(axes, rates)
    axes.set_title("(c) Ops per byte" if in_bytes else "(c) MACs per element", pad=20)


def _network_energy(axes: Axes, rows: Sequence[_LayerRow], executed: Mapping[str, Report]) -> None:
    """Draw each layer's energy on a hierarchy with prices."""
    energies = []
    for row in rows:
        layers = [executed[name] for name in row.layers if name in executed]
        energies.append(sum(one.measures.energy_aj for one in layers) / 1e12 if layers else None)
    _network_bars(axes, energies)
    axes.set_title(f"(c) Energy: {sum(filter(None, energies)):,.1f} µJ", pad=20)


def _network_bars(axes: Axes, values: Sequence[float | None]) -> None:
    """Draw a bar with its number for each row that has a value."""
    highest = max((value for value in values if value is not None), default=1)
    for row, value in enumerate(values):
        if value is not None:
            axes.barh(row, value, height=0.72, color=SKY, linewidth=0)
            axes.text(value + 0.012 * highest, row, f"{value:.3g}", va="center", fontsize=7.5)
    axes.set_xlim(0, highest * 1.12)


# A front -----------------------------------------------------------------------------------------------


class _Front(NamedTuple):
    """The trade-offs of a front on a DSP.

    Attributes
    ----------
    rate, speed
        Operations per byte, and GOps per second, of each plan.
    ideal
        Operations per byte if everything is moved once.
    peak
        GOps per second of the machine.
    """

    nest: Nest
    rate: list[float]
    speed: list[float]
    ideal: float
    peak: float

    @classmethod
    def of(cls, problem: Problem, report: Report) -> _Front:
        assert problem.machine.kind == "dsp"
        machine, nest = problem.machine, nest_of(problem.one_layer, problem.machine)
        points = costs_of_front(problem, report.measures)  # cycles and accesses
        return cls(
            nest,
            [16 * nest.macs / (accesses * machine.unit_bits) for _, accesses in points],
            [machine.clock_mhz * 2 * nest.macs / cycles / 1000 for cycles, _ in points],
            16 * nest.macs / (nest.compulsory_units * machine.unit_bits),
            machine.clock_mhz * 2 * machine.macs_per_cycle / 1000,
        )


def _traded_sheet(problem: Problem, report: Report, title: str | None) -> Figure:
    """Draw the front of a network, or of a layer where there is no roofline."""
    assert problem.traded is not None
    first, second = problem.traded
    points = costs_of_front(problem, report.measures)
    more, less = points[-1][0] / max(1, points[0][0]), points[0][1] / max(1, points[-1][1])
    found = f"{len(points)} plan{'s' * (len(points) > 1)}"
    if problem.network is not None:
        found = found_of_front(report.measures)
    numbers = [
        f"{found}, that no other dominates in both {first} and {second}",
        f"from the first to the last {more:.2f}× the {first} for {less:.2f}× less {second}",
    ]
    return _sheet_of(_traded, 3.6, _page(problem, report, numbers, title), problem, report)


def _has_roofs(problem: Problem) -> bool:
    """Whether a front is one of throughput against memory efficiency, with the machine's limits of both."""
    return problem.network is None and problem.machine.kind == "dsp" and problem.traded == THROUGHPUT


def _scale(problem: Problem, name: str) -> tuple[float, str]:
    """Return what a cost is multiplied by to be shown, and in what unit that is."""
    scale, unit = UNITS[name]
    if name == "accesses":
        unit = problem.objectives[name].unit
    return (scale / 1000 if problem.objectives[name].unit == "aJ" else scale), unit


def _sheet_of(
    draw: Callable[[Axes, Problem, Report], None],
    height: float,
    page: Sheet,
    problem: Problem,
    report: Report,
) -> Figure:
    """Return a sheet with one drawing, of a height in inches, below the numbers."""
    top = page.top + 0.4
    figure = page.create(SHEET_WIDTH, top + height + 0.75)
    draw(page.axes(LEFT + 0.2, top, SHEET_WIDTH - LEFT - 0.6, height), problem, report)
    return figure


def _traded(axes: Axes, problem: Problem, report: Report) -> None:
    """Draw what a front trades for each other, with the steps of what no plan reaches."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    assert problem.traded is not None
    values, labels = [], []
    costs = zip(*costs_of_front(problem, report.measures), strict=True)
    for name, amounts in zip(problem.traded, costs, strict=True):
        scale, unit = _scale(problem, name)
        values.append([amount * scale for amount in amounts])
        labels.append(name if name == unit else f"{name}, {unit}")
    axes.step(*values, where="post", color=GREY, linewidth=1.2, zorder=2)
    size, edge = (6, "white") if len(values[0]) <= MANY else (2.5, "none")
    axes.plot(*values, "o", color=BLUE, markersize=size, markeredgecolor=edge, zorder=3)
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.grid(color=PALE, linewidth=0.6)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=6))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.set_title(f"What is possible of {problem.traded[0]} and {problem.traded[1]}")


def _capacity_sheet(problem: Problem, report: Report, title: str | None) -> Figure:
    """Draw the fewest accesses of a layer or a network for every capacity."""
    front = costs_of_front(problem, report.measures)
    numbers = [
        f"{len(front):,} capacities at which accesses fall, all of them",
        f"{front[0][0]:,} accesses from {front[0][1]:,} bytes on",
    ]
    return _sheet_of(_capacities, 4.4, _page(problem, report, numbers, title), problem, report)


def _capacities(axes: Axes, problem: Problem, report: Report) -> None:
    """Draw accesses over capacity, and what no schedule goes below; both as steps."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    assert problem.machine.kind == "hierarchy"
    layers, machine = [part.one_layer for _, part in problem.parts], problem.machine
    front = costs_of_front(problem, report.measures)[::-1]
    accesses, capacities = ([point[place] for point in front] for place in (0, 1))
    capacities[0] = max(1, capacities[0])  # a plan that chooses to hold nothing needs none
    end = 2 * capacities[-1]
    axes.step(
        [*capacities, end], [*accesses, accesses[-1]], where="post", color=BLUE, linewidth=1.6, zorder=3
    )
    # Within a step the bound is that at its end, so that it holds for every capacity of the step.
    grid = np.unique(np.geomspace(capacities[0], end, 200).astype(np.int64)).tolist()
    bound = [least_accesses(layers, machine, capacity) for capacity in grid]
    axes.step(grid, bound, where="pre", color=VERMILION, linewidth=1.4, zorder=2)
    axes.fill_between(grid, 1, bound, step="pre", color=PALE, linewidth=0, zorder=1)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(capacities[0], end)
    axes.set_ylim(bound[-1] / 1.6, accesses[0] * 1.6)
    powers = range((capacities[0] - 1).bit_length(), (end - 1).bit_length())
    axes.xaxis.set_major_locator(FixedLocator([2**power for power in powers if power % 2 == 0]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _bytes(int(value))))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    level = machine.levels[1].name
    axes.set_xlabel(f"capacity of {level}")
    axes.set_ylabel(f"accesses of {problem.level}, elements")
    axes.grid(color=PALE, linewidth=0.6)
    at = len(grid) // 3
    best = next(moved for moved, capacity in reversed(front) if capacity <= grid[at])
    for height, words, colour, side, offset in (
        (best, "fewest accesses of any plan", BLUE, "bottom", 9),
        (bound[at], "no schedule goes below", VERMILION, "top", -9),
    ):
        axes.annotate(
            words,
            (grid[at], height),
            xytext=(9 if side == "bottom" else -9, offset),
            fontsize=9,
            color=colour,
            textcoords="offset points",
            ha="left" if side == "bottom" else "right",
            va=side,
        )
    axes.set_title("What each capacity makes possible" + (", layer by layer" if problem.network else ""))


def _bytes(amount: int) -> str:
    """Return a power of two bytes in its largest unit."""
    power = (amount.bit_length() - 1) // 10
    return f"{amount >> 10 * power} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def _short(value: float) -> str:
    """Return a large number in thousands, millions or billions."""
    for scale, word in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= scale:
            return f"{value / scale:g}{word}"
    return f"{value:g}"


def _front_sheet(problem: Problem, plan: Plan, report: Report, title: str | None) -> Figure:
    """Draw all trade-offs under the roofs of the machine, and list them."""
    front = _Front.of(problem, report)
    points = costs_of_front(problem, report.measures)
    numbers = [
        f"{len(points)} plans that no other dominates in both throughput and memory efficiency",
        f"from the first to the last {100 * (1 - front.speed[-1] / front.speed[0]):.1f} % slower with "
        f"{points[0][1] / points[-1][1]:.2f}× fewer accesses",
    ]
    page = _page(problem, report, numbers, title)
    top = page.top + 0.4
    listed = min(len(points), 26)
    height = max(3.6, 0.21 * listed + 0.5)
    figure = page.create(SHEET_WIDTH, top + height + 0.75)
    _trade_off(page.axes(LEFT, top, 6.3, height), front, "(a) ")
    _front_table(page.axes(LEFT + 6.9, top, SHEET_WIDTH - LEFT - 7.1, height), front, plan, listed)
    return figure


def _trade_off(axes: Axes, front: _Front, letter: str = "") -> None:
    """Draw throughput over memory efficiency, and the roofs of the machine where they are near."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    rate, speed = front.rate, front.speed
    axes.step([0, *rate], [speed[0], *speed], where="pre", color=GREY, linewidth=1.2, zorder=2)
    axes.plot(rate, speed, "o", color=BLUE, markersize=7, markeredgecolor="white", zorder=3)
    _roofs(axes, front)
    for number in _spread(rate, speed, axes):
        axes.annotate(
            str(number + 1),
            (rate[number], speed[number]),
            xytext=(4, 4),
            textcoords="offset points",
            fontsize=8.5,
            color=BLUE,
            fontweight="bold",
        )
    axes.set_xlabel(f"memory efficiency, Ops/byte ({front.ideal:,.0f} if everything is moved once)")
    axes.set_ylabel("throughput, GOps/s")
    axes.grid(color=PALE, linewidth=0.6)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=7))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.set_title(f"{letter}Throughput against memory efficiency")


def _roofs(axes: Axes, front: _Front) -> None:
    """Draw the machine's peak and the ideal efficiency where they are near, and set limits around all."""
    rate, speed, peak, ideal = front.rate, front.speed, front.peak, front.ideal
    span, height = max(rate) - min(rate) or max(rate), max(speed) - min(speed)
    near = peak - max(speed) <= max(3 * height, 0.02 * peak)
    low, high = min(speed), peak if near else max(speed)
    if near:
        axes.axhline(peak, color=INK, linewidth=1.2)
        axes.annotate(
            f"peak {peak:g} GOps/s",
            (max(rate), peak),
            xytext=(0, 3),
            textcoords="offset points",
            ha="right",
            fontsize=8.5,
        )
    reachable = ideal < max(rate) + 0.5 * span
    if reachable:
        axes.axvline(ideal, color=INK, linewidth=1, linestyle=(0, (4, 2)))
    extent = max(high - low, 0.004 * peak)
    axes.set_xlim(min(rate) - 0.07 * span, max(max(rate), ideal if reachable else 0) + 0.08 * span)
    axes.set_ylim(low - 0.13 * extent, high + 0.1 * extent)


def _spread(rate: Sequence[float], speed: Sequence[float], axes: Axes) -> list[int]:
    """Choose points to number so that the numbers do not touch."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    chosen: list[int] = []
    for number in [0, len(rate) - 1, *range(1, len(rate) - 1)]:
        point = np.array([(rate[number] - left) / (right - left), (speed[number] - low) / (high - low)])
        if all(
            np.abs(point - [(rate[c] - left) / (right - left), (speed[c] - low) / (high - low)]).max() > 0.035
            for c in chosen
        ):
            chosen.append(number)
    return chosen


def _front_table(axes: Axes, front: _Front, plan: Plan, listed: int) -> None:
    """List the first `listed` plans of a front: numbers, order of the loops and tile."""
    columns = (
        (0.05, "right", ""),
        (0.2, "right", "GOps/s"),
        (0.36, "right", "Ops/byte"),
        (0.4, "left", "loops"),
    )
    nest = front.nest
    loops = "ncyxk" if nest.sizes[G] == 1 else LOOPS
    axes.set_axis_off()
    axes.set_title("(b) The plans")
    axes.set_xlim(0, 1)
    axes.set_ylim(max(listed + 1.2, 8), 0)
    head = [*columns, (0.6, "left", "tile: " + ", ".join(loops))]
    for x, side, words in head:
        axes.text(x, 0.5, words, ha=side, va="center", fontsize=8.5, color=GREY)
    for row, layer in enumerate(plan.layers[:listed]):
        if not isinstance(layer, DspPlan):
            continue
        step = dict(zip(LOOPS, nest.step(layer.tile), strict=True))
        cells = (
            f"{row + 1}",
            f"{front.speed[row]:.3f}",
            f"{front.rate[row]:.1f}",
            layer.order if layer.reuse == "halo" else layer.schedule,
            " × ".join(str(step[loop]) for loop in loops),
        )
        for (x, side, _), words in zip(head, cells, strict=True):
            colour = BLUE if x == columns[0][0] else INK
            axes.text(x, row + 1.5, words, ha=side, va="center", fontsize=8.5, color=colour)
    if len(plan.layers) > listed:
        axes.text(0.05, listed + 1.5, f"and {len(plan.layers) - listed} more", fontsize=8.5, color=GREY)
