"""Pictures of a tiling plan: the tile in its layer, traffic, memory and time; a network's layers; a front.

Every number is the report's. Reports that say nothing of a DSP's tile get bars for each of their tensors.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import plotting
from tilewright.plotting import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    SKY,
    VERMILION,
    Line,
    heading_height,
    shortened,
    times,
    with_unit,
    write_heading,
)
from tilewright.simulator.report import Names
from tilewright.tiling import objective
from tilewright.tiling.dsp import nest_of
from tilewright.tiling.dsp.nest import C, G, K, N, Nest, X, Y
from tilewright.tiling.dsp.plan import LOOPS, DspPlan
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tilewright.simulator import Report

ACCEPTED = plotting.ACCEPTED
"""Suffixes of the files that `draw` writes."""

TENSORS = {"input": BLUE, "weights": ORANGE, "output": GREEN}
WIDTH, LEFT = 13.0, 0.75
UNITS = {
    "accesses": (1.0, "elements"),
    "cycles": (1.0, "cycles"),
    "energy": (1e-9, "µJ"),
    "pareto": (1.0, "cycles of the fastest"),
    "time": (1e-6, "µs"),
}
"""What objectives are shown in."""


def draw(problem: Problem, plan: Plan, report: Report, path: str | Path, *, title: str | None = None) -> None:
    """Draw a plan on one sheet, PNG or SVG by the path's suffix.

    Parameters
    ----------
    report
        What the simulator says of the plan.
    title
        Heading, for example the instance's name; a description of the problem when left out.

    Raises
    ------
    InputError
        If the suffix is not one of `ACCEPTED` or the file cannot be written.
    """
    plotting.suffix(path, ACCEPTED)
    plotting.save(sheet(problem, plan, report, title=title), path)


@plotting.style()
def sheet(problem: Problem, plan: Plan, report: Report, *, title: str | None = None) -> Figure:
    """Return the sheet of a layer, of a network, or of a front."""
    if problem.network is not None:
        return _network_sheet(problem, report, title)
    if report.violation is None and "front" in report.facts:
        return _front_sheet(problem, plan, report, title)
    return _layer_sheet(problem, plan, report, title)


# Words -------------------------------------------------------------------------------------------------


def _described(problem: Problem) -> str:
    """Say what is tiled, and on what."""
    if problem.network is not None:
        layers = f"{len(problem.parts)} layers"
        what = f"{problem.network.name}, {layers}" if problem.network.name else f"network of {layers}"
        batch = problem.parts[0].problem.one_layer.batch
    else:
        layer = problem.one_layer
        batch = layer.batch
        if layer.kind == "fc":
            what = f"fully connected layer, {layer.input[0]:,} → {layer.kernels:,}"
        else:
            rows, columns = layer.output_plane
            what = (
                f"{times(*layer.kernel)} convolution, {layer.input[0]:,} → {layer.kernels:,} maps of "
                f"{times(rows, columns)}"
            )
            if layer.stride != (1, 1):
                what += f", stride {times(*layer.stride)}"
            if layer.groups > 1:
                what += f", {layer.groups:,} channel groups"
    return what + (f", batch of {batch}" if batch > 1 else "")


def _heading(problem: Problem, report: Report, numbers: Sequence[str], title: str | None) -> list[Line]:
    """Return the lines above the drawings."""
    what = _described(problem)
    below = ["; ".join(numbers)]
    if title is not None:
        below.insert(0, what)
    return plotting.heading(title or (what if problem.network else what[0].upper() + what[1:]), below, report)


def _ratio(value: float) -> str:
    return f"{value:.2f}×" if value < 9.95 else f"{value:.0f}×"


# One layer ---------------------------------------------------------------------------------------------


def _layer_sheet(problem: Problem, plan: Plan, report: Report, title: str | None) -> Figure:
    lines = _heading(problem, report, _layer_numbers(problem, plan, report), title)
    top = heading_height(lines) + 0.35
    layer = plan.layers[0]
    dsp = problem.machine.kind == "dsp" and isinstance(layer, DspPlan)
    nest = nest_of(problem.one_layer, problem.machine) if problem.machine.kind == "dsp" else None
    upper = 3.6 if dsp else 2.1
    bottom = top + upper + 0.75
    figure = plotting.new_figure(WIDTH, bottom + 1.75)
    write_heading(figure, lines)
    right = LEFT + 0.75
    if nest is not None and isinstance(layer, DspPlan):
        plane = plotting.place(figure, LEFT, top, 3.0, upper - 0.25)
        _tile_in_plane(plane, nest, layer)
        loops = plotting.place(figure, LEFT + 3.35, top, 2.9, upper)
        _loop_nest(loops, nest, layer)
        right = LEFT + 3.35 + 3.1 + 1.2
    half = 1.35 if nest is not None else upper - 0.3
    traffic = plotting.place(figure, right, top, WIDTH - right - 1.7, half)
    _traffic(traffic, report, _compulsory(nest, report))
    if nest is not None and isinstance(layer, DspPlan):
        memory = plotting.place(figure, right, top + half + 1.0, WIDTH - right - 1.7, upper - half - 1.25)
        _memory(memory, nest, layer)
    timeline = plotting.place(figure, LEFT, bottom, WIDTH - LEFT - 0.9, 0.95)
    _timeline(timeline, problem, report, "(d) " if nest is not None else "(b) ")
    return figure


def _layer_numbers(problem: Problem, plan: Plan, report: Report) -> list[str]:
    if report.violation is not None:
        return [f"{int((report.macs > 0).sum()):,} tiles were computed"]
    scale, unit = UNITS[problem.minimise]
    value = objective(problem, plan) * scale
    words = f"{value:,.0f}" if scale == 1 else f"{value:,.1f}"
    numbers = [f"objective {words} {unit}", f"{report.n_steps:,} tiles"]
    facts = report.facts
    for key, form in (
        ("cycles", "{:,} cycles"),
        ("accesses", "{:,} accesses"),
        ("ops_per_byte", "{:.1f} Ops/byte"),
        ("gops_per_second", "{:.2f} GOps/s"),
    ):
        if key in facts and key != problem.minimise:
            numbers.append(form.format(facts[key]))
    if "energy_fj" in facts and problem.minimise != "energy":
        numbers.append(f"{facts['energy_fj'] / 1e9:,.1f} µJ")
    return numbers


def _compulsory(nest: Nest | None, report: Report) -> dict[str, int]:
    """Return what every plan moves of each tensor; empty where it is not known."""
    if nest is None:
        return {}
    return {
        "input": nest.compulsory - nest.n_weights - nest.n_outputs,
        "weights": nest.n_weights,
        "output": nest.n_outputs,
    }


def _operand(tensor: str) -> str:
    """Return what a tensor is a part of: cores have tensors of their own, named after them."""
    name = tensor.split()[0]
    return "weights" if name == "kernels" else name


def _totals(table: Mapping[str, Any]) -> dict[str, int]:
    """Add up elements over steps and cores."""
    totals: dict[str, int] = {}
    for tensor, counts in table.items():
        name = _operand(tensor)
        totals[name] = totals.get(name, 0) + int(counts.sum())
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
    axes.add_patch(Rectangle((0, 0), columns, rows, facecolor="#CDE8DF", edgecolor="none", zorder=1))
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
        axes.text(wide / 2, tall / 2, times(tall, wide), ha="center", va="center", color="white", fontsize=11)


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
                color=GREEN if number == 0 else "#CDE8DF",
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
    relevant = {"input": {G, N, Y, X, K}, "weights": {G, C, K}, "output": {G, N, C, Y, X}}
    stay = [name for name, loops in relevant.items() if moving[-1] not in loops]
    many = len(stay) > 1 or stay == ["weights"]
    words = f"{' and '.join(stay)} stay{'' if many else 's'} in the innermost loop" if stay else ""
    halo = next((d for d in reversed(moving) if d in relevant["input"]), None)
    if plan.reuse == "halo" and halo in (Y, X):
        words += ("; " if words else "") + f"neighbours along {'Oy' if halo == Y else 'Ox'} share their halo"
    return (words[:1].upper() + words[1:] or "Nothing stays from tile to tile") + "."


def _traffic(axes: Axes, report: Report, compulsory: Mapping[str, int]) -> None:
    """Draw what is moved of each tensor, beside what every plan moves."""
    rows: list[tuple[str, int, str, int | None]] = []
    for name, total in _totals(report.loaded).items():
        if total or name in ("input", "weights"):
            partial = name == "output"
            label = "partial sums, loaded" if partial else f"{name}, loaded"
            rows.append((label, total, _colour(name), 0 if partial else compulsory.get(name)))
    for name, total in _totals(report.written).items():
        if total:
            rows.append((f"{name}, written", total, _colour(name), compulsory.get(name)))
    moved = sum(total for _, total, _, _ in rows)
    least = sum(compulsory.values())
    most = max((max(total, needed or 0) for _, total, _, needed in rows), default=1) or 1
    for row, (_, total, colour, needed) in enumerate(rows):
        axes.barh(row, total, height=0.66, color=colour, linewidth=0)
        words = with_unit(total)
        if needed:
            axes.plot([needed, needed], [row - 0.42, row + 0.42], color=INK, linewidth=1.6)
            words += f"   {_ratio(total / needed)}"
        axes.text(max(total, needed or 0) + 0.015 * most, row, words, va="center", fontsize=8.5)
    axes.set_yticks(range(len(rows)), [label for label, *_ in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, most * 1.02)
    axes.tick_params(axis="y", length=0)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    title = f"{'(b)' if compulsory else '(a)'} Traffic: {with_unit(moved)} elements"
    if least and moved:
        title += f", {_ratio(moved / least)} compulsory (ticks)"
    axes.set_title(title)


def _colour(tensor: str) -> str:
    return TENSORS.get(tensor, SKY)


def _memory(axes: Axes, nest: Nest, plan: DspPlan) -> None:
    """Draw the buffers side by side in the memory that they share."""
    machine = nest.machine
    capacity, size, copies = machine.capacity, machine.element_bytes, machine.copies
    step = nest.step(plan.tile)
    buffers = {_operand(name): copies * elements for name, elements in nest.buffers(step).items()}
    used = sum(buffers.values())
    left = 0
    axes.barh(0, capacity, height=0.7, color="#F0F0F0", linewidth=0)
    most = max(capacity, used)
    for number, (name, elements) in enumerate(buffers.items()):
        axes.barh(0, elements, left=left, height=0.7, color=_colour(name), linewidth=0)
        words = f"{name}\n{elements * size / 1024:,.3g} KB"
        place = most * number / len(buffers)
        axes.text(place, 0.55, words, va="top", fontsize=8.5, color=_colour(name), linespacing=1.3)
        left += elements
    axes.plot([capacity, capacity], [-0.55, 0.55], color=INK, linewidth=1.6, clip_on=False)
    axes.set_xlim(0, most * 1.02)
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


def _network_sheet(problem: Problem, report: Report, title: str | None) -> Figure:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    names = [name for name, _ in report.layers] or [name for name, _ in problem.parts]
    found = dict(report.layers)
    lines = _heading(problem, report, _network_numbers(problem, report), title)
    pitch = 0.2 if len(names) > 20 else 0.26
    top, tall = heading_height(lines) + 0.65, pitch * len(names) + 0.1
    figure = plotting.new_figure(WIDTH, top + tall + 0.5)
    write_heading(figure, lines)
    longest = max(len(name) for name in names)
    left = 0.35 + 0.072 * min(longest, 34)
    wide = (WIDTH - left - 2.35) / 3
    axes = [plotting.place(figure, left + i * (wide + 0.8), top, wide, tall) for i in range(3)]
    valid = {name: one for name, one in found.items() if one.violation is None}
    _network_traffic(axes[0], names, valid, problem)
    _network_time(axes[1], names, valid, problem)
    _network_rate(axes[2], names, valid)
    for number, one in enumerate(axes):
        one.set_ylim(len(names) - 0.4, -0.6)
        shown = [shortened(name, 34) for name in names]
        one.set_yticks(range(len(names)), shown if number == 0 else [])
        one.tick_params(axis="y", length=0, labelsize=7.5 if len(names) > 20 else 8.5)
        one.grid(axis="x", color=PALE, linewidth=0.6)
        one.xaxis.set_major_locator(MaxNLocator(nbins=5))
        one.xaxis.set_major_formatter(FuncFormatter(lambda x, _: with_unit(x) if x else "0"))
    return figure


def _network_numbers(problem: Problem, report: Report) -> list[str]:
    if report.violation is not None or not report.layers:
        return []
    macs = int(report.macs.sum())
    moved = _moved(report)
    numbers = [f"{macs:,} MACs", f"{moved:,} accesses", f"{report.transfers:,} transfers"]
    cycles = _cycles(report)
    if cycles and problem.machine.kind == "dsp":
        seconds = cycles / problem.machine.clock_mhz / 1e6
        numbers += [f"{cycles:,} cycles, {1e3 * seconds:,.2f} ms", f"{2 * macs / seconds / 1e9:.2f} GOps/s"]
        if all("energy_fj" in one.facts for _, one in report.layers):
            energy = sum(one.facts["energy_fj"] for _, one in report.layers)
            numbers.append(f"{energy / 1e9:,.1f} µJ")
    return numbers


def _moved(report: Report) -> int:
    return sum(int(counts.sum()) for table in (report.loaded, report.written) for counts in table.values())


def _cycles(report: Report) -> int:
    """Cycles of the timeline that the machine has, 0 where there is none."""
    line = report.lockstep or report.sequential
    return 0 if line is None else line.cycles


def _network_traffic(axes: Axes, names: Sequence[str], found: Mapping[str, Report], problem: Problem) -> None:
    """Stack the traffic of each layer by tensor, with a tick for what every plan moves."""
    from matplotlib.patches import Patch

    parts = {part.name: part.problem for part in problem.parts}
    totals = {name: [_totals(table) for table in (one.loaded, one.written)] for name, one in found.items()}
    present = dict.fromkeys(tensor for pair in totals.values() for table in pair for tensor in table)
    known = [*(name for name in TENSORS if name in present), *(n for n in present if n not in TENSORS)]
    least, moved = 0, 0
    for row, name in enumerate(names):
        if name not in found:
            continue
        left = 0
        for tensor in known:
            size = sum(table.get(tensor, 0) for table in totals[name])
            axes.barh(row, size, left=left, height=0.72, color=_colour(tensor), linewidth=0)
            left += size
        if problem.machine.kind == "dsp":
            needed = nest_of(parts[name].one_layer, problem.machine).compulsory
            axes.plot([needed, needed], [row - 0.42, row + 0.42], color=INK, linewidth=1.3)
            least += needed
        moved += left
    ratio = f": {_ratio(moved / least)} compulsory (ticks)" if least else ", elements"
    axes.set_title(f"(a) Traffic{ratio}", pad=20)
    handles = [Patch(color=_colour(name), label=name) for name in known]
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, fontsize=8)


SPLIT = {"computing": "#AEBAC6", "DMA set-up": "#3F4D5C", "waiting for the bus": "#F0E442", "other": SKY}


def _network_time(axes: Axes, names: Sequence[str], found: Mapping[str, Report], problem: Problem) -> None:
    """Stack each layer's cycles: computing, setting up transfers, waiting."""
    from matplotlib.patches import Patch

    dsp = problem.machine.kind == "dsp"
    seen: dict[str, None] = {}
    for row, name in enumerate(names):
        if name not in found:
            continue
        one = found[name]
        total = _cycles(one)
        split: dict[str, float] = {"other": one.facts.get("time_ps", total) * 1e-6}
        if problem.machine.kind == "dsp":
            compute = int((-(-one.macs // problem.machine.macs_per_cycle)).sum())
            setup = problem.machine.dma_setup_cycles * one.transfers
            split = {
                "computing": compute,
                "DMA set-up": setup,
                "waiting for the bus": max(total - compute - setup, 0),
            }
        left = 0.0
        for part, cycles in split.items():
            if cycles:
                axes.barh(row, cycles, left=left, height=0.72, color=SPLIT[part], linewidth=0)
                seen[part] = None
            left += cycles
    axes.set_title("(b) Cycles" if dsp else "(b) Microseconds", pad=20)
    if dsp:
        handles = [Patch(color=SPLIT[part], label=part) for part in SPLIT if part in seen]
        axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, fontsize=8)


def _network_rate(axes: Axes, names: Sequence[str], found: Mapping[str, Report]) -> None:
    """Draw each layer's Ops per byte, or MACs per element where bytes are not known."""
    rates = {}
    for name, one in found.items():
        moved = _moved(one)
        rates[name] = one.facts.get("ops_per_byte", int(one.macs.sum()) / moved if moved else 0.0)
    in_bytes = any("ops_per_byte" in one.facts for one in found.values())
    most = max(rates.values(), default=1)
    for row, name in enumerate(names):
        if name in rates:
            axes.barh(row, rates[name], height=0.72, color=SKY, linewidth=0)
            axes.text(rates[name] + 0.012 * most, row, f"{rates[name]:.3g}", va="center", fontsize=7.5)
    axes.set_xlim(0, most * 1.12)
    axes.set_title("(c) Ops per byte" if in_bytes else "(c) MACs per element", pad=20)


# A front -----------------------------------------------------------------------------------------------


def _front_sheet(problem: Problem, plan: Plan, report: Report, title: str | None) -> Figure:
    """Draw all trade-offs under the roofs of the machine, and list them."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    assert problem.machine.kind == "dsp"
    machine = problem.machine
    front: list[dict[str, int]] = report.facts["front"]
    nest = nest_of(problem.one_layer, machine)
    rate = [2 * nest.macs / (point["accesses"] * machine.element_bytes) for point in front]
    speed = [machine.clock_mhz * 2 * nest.macs / point["cycles"] / 1000 for point in front]
    first, last = front[0], front[-1]
    numbers = [
        f"{len(front)} plans that no other dominates in both throughput and memory efficiency",
        f"from the first to the last {100 * (1 - speed[-1] / speed[0]):.1f} % slower with "
        f"{first['accesses'] / last['accesses']:.2f}× fewer accesses",
    ]
    lines = _heading(problem, report, numbers, title)
    top = heading_height(lines) + 0.4
    listed = min(len(front), 26)
    tall = max(3.6, 0.21 * listed + 0.5)
    figure = plotting.new_figure(WIDTH, top + tall + 0.75)
    write_heading(figure, lines)
    axes = plotting.place(figure, LEFT, top, 6.3, tall)
    peak = machine.clock_mhz * 2 * machine.macs_per_cycle / 1000
    axes.step([0, *rate], [speed[0], *speed], where="pre", color=GREY, linewidth=1.2, zorder=2)
    axes.plot(rate, speed, "o", color=BLUE, markersize=7, markeredgecolor="white", zorder=3)
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
    ideal = 2 * nest.macs / (nest.compulsory * machine.element_bytes)
    if ideal < max(rate) + 0.5 * span:
        axes.axvline(ideal, color=INK, linewidth=1, linestyle=(0, (4, 2)))
    room = max(high - low, 0.004 * peak)
    axes.set_xlim(
        min(rate) - 0.07 * span, max(max(rate), ideal if ideal < max(rate) + 0.5 * span else 0) + 0.08 * span
    )
    axes.set_ylim(low - 0.13 * room, high + 0.1 * room)
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
    axes.set_xlabel(f"memory efficiency, Ops/byte ({ideal:,.0f} if everything is moved once)")
    axes.set_ylabel("throughput, GOps/s")
    axes.grid(color=PALE, linewidth=0.6)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=7))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.set_title("(a) Throughput against memory efficiency")
    table = plotting.place(figure, LEFT + 6.9, top, WIDTH - LEFT - 7.1, tall)
    _front_table(table, nest, plan, rate, speed, listed)
    return figure


def _spread(rate: Sequence[float], speed: Sequence[float], axes: Axes) -> list[int]:
    """Choose points to number so that the numbers do not touch."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    chosen: list[int] = []
    for number in [0, len(rate) - 1, *range(1, len(rate) - 1)]:
        place = np.array([(rate[number] - left) / (right - left), (speed[number] - low) / (high - low)])
        if all(
            np.abs(place - [(rate[c] - left) / (right - left), (speed[c] - low) / (high - low)]).max() > 0.035
            for c in chosen
        ):
            chosen.append(number)
    return chosen


def _front_table(
    axes: Axes, nest: Nest, plan: Plan, rate: Sequence[float], speed: Sequence[float], listed: int
) -> None:
    """List the plans of a front: numbers, order of the loops and tile."""
    columns = (
        (0.05, "right", ""),
        (0.2, "right", "GOps/s"),
        (0.36, "right", "Ops/byte"),
        (0.4, "left", "loops"),
    )
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
            f"{speed[row]:.3f}",
            f"{rate[row]:.1f}",
            layer.order if layer.reuse == "halo" else layer.schedule,
            " × ".join(str(step[loop]) for loop in loops),
        )
        for (x, side, _), words in zip(head, cells, strict=True):
            colour = BLUE if x == columns[0][0] else INK
            axes.text(x, row + 1.5, words, ha=side, va="center", fontsize=8.5, color=colour)
    if len(plan.layers) > listed:
        axes.text(0.05, listed + 1.5, f"and {len(plan.layers) - listed} more", fontsize=8.5, color=GREY)
