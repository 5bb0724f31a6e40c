"""The sheet of a network: traffic, time and rate or energy, a row for each layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.core.quantities import written
from tilewright.plotting import (
    GREEN,
    INK,
    OPERAND_COLOURS,
    PALE,
    PURPLE,
    SHEET_WIDTH,
    SKY,
    YELLOW,
    explain_colours,
    in_bytes,
    ratio,
    shortened,
    stack_bars,
    with_prefix,
)
from tilewright.tiling import best_bound
from tilewright.tiling.dsp.measures import core_cycles
from tilewright.tiling.measures import CycledBetween, TimedBetween, duration
from tilewright.tiling.panels import ExecutedPart, ExecutedParts
from tilewright.tiling.plan import Plan
from tilewright.tiling.plots.page import create_page, table_of_tiles
from tilewright.tiling.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tilewright.simulator import Report

LEGEND_COLUMNS = 3
"""Words beside each other above a network's times."""
MOST_LAYERS = 60
"""Most rows of a network's picture."""


def network_sheet(problem: Problem, plan: Plan, report: Report, title: str | None) -> Figure:
    """Return the sheet of a network."""
    rows = rows_of(problem, report)
    page = create_page(problem, report, _network_numbers(problem, report), title)
    top, height = page.top + 0.65, row_pitch(rows) * len(rows) + 0.1
    table = table_of_tiles(problem, plan, report)
    below = 0.75 + table.height if table else 0.0
    figure = page.create(max(SHEET_WIDTH, table.width + 0.6 if table else 0), top + height + 0.5 + below)
    if table:
        table.draw(page.axes(0.3, top + height + 0.9, table.width, table.height), "(d) Tiles")
    left = names_width(rows)
    width = (SHEET_WIDTH - left - 2.35) / 3
    traffic, time, rate = (page.axes(left + i * (width + 0.8), top, width, height) for i in range(3))
    parts = executed_parts(problem, report)
    draw_network_traffic(traffic, rows, parts, "(a) ")
    _draw_network_time(time, rows, executed_layers(report), problem)
    if problem.machine.kind == "hierarchy" and problem.machine.priced:
        _draw_network_energy(rate, rows, parts.layers)
    else:
        _draw_network_rate(rate, rows, parts.layers)
    for axes in (traffic, time, rate):
        draw_layer_rows(axes, rows, label=axes is traffic)
    return figure


class _LayerRow(NamedTuple):
    """A row of a network's picture: a layer, or what small ones have together."""

    words: str
    layers: tuple[str, ...]


def rows_of(problem: Problem, report: Report) -> list[_LayerRow]:
    """Return a row for each layer in order; of many layers those that take longest, and the rest as one."""
    executed = executed_layers(report)
    names = [name for name, _ in report.layers] or [name for name, _ in problem.parts]
    if len(names) <= MOST_LAYERS:
        return [_LayerRow(name, (name,)) for name in names]
    duration = {name: sum(_time_split(one, problem).values()) for name, one in executed.items()}
    names.sort(key=lambda name: -duration.get(name, 0))
    kept, rest = names[: MOST_LAYERS - 1], names[MOST_LAYERS - 1 :]
    return [*(_LayerRow(name, (name,)) for name in kept), _LayerRow(f"{len(rest)} other layers", tuple(rest))]


def executed_layers(report: Report) -> dict[str, Report]:
    """Return the reports of the layers that break no rule, by their names."""
    return {name: layer for name, layer in report.layers if layer.violation is None}


def executed_parts(problem: Problem, report: Report) -> ExecutedParts:
    """Return what the layers that break no rule move and spend."""
    return ExecutedParts(problem, {name: one.measures for name, one in executed_layers(report).items()})


def row_pitch(rows: Sequence[_LayerRow]) -> float:
    """Return the inches from one layer's row to the next."""
    return 0.2 if len(rows) > 20 else 0.26


def names_width(rows: Sequence[_LayerRow]) -> float:
    """Return the inches that names take to the left of the axes."""
    return 0.35 + 0.072 * min(max(len(row.words) for row in rows), 34)


def draw_layer_rows(axes: Axes, rows: Sequence[_LayerRow], *, label: bool) -> None:
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
    moved = _moved_elements(report)
    numbers = [f"{macs:,} MACs", f"{moved:,} accesses"]
    if problem.machine.kind == "hierarchy":  # which counts no transfers and has no timeline
        return [*numbers, f"{report.measures.duration_cycles:,} cycles"]
    numbers.append(f"{report.transfers:,} transfers")
    cycles = _timeline_cycles(report)
    if cycles and problem.machine.kind == "dsp":
        seconds = cycles / problem.machine.clock_mhz / 1e6
        numbers += [f"{cycles:,} cycles, {1e3 * seconds:,.2f} ms", f"{2 * macs / seconds / 1e9:.2f} GOps/s"]
        numbers.append(written(report.measures.energy_fj, "fJ"))
    return numbers


def _moved_elements(report: Report) -> int:
    return sum(report.total(counts) for table in (report.loaded, report.written) for counts in table.values())


def _timeline_cycles(report: Report) -> int:
    """Cycles of the timeline that the machine has, 0 where there is none."""
    line = report.lockstep or report.sequential
    return 0 if line is None else line.cycles


def draw_network_traffic(
    axes: Axes, rows: Sequence[_LayerRow], parts: ExecutedParts, letter: str = ""
) -> None:
    """Stack the bytes that each layer moves by operand, with a tick for what every plan moves."""
    traffic, needed = parts.traffic, _least_traffic(parts)
    operands = [name for name in OPERAND_COLOURS if any(each.operand == name for each in traffic)]
    moved, least = 0.0, 0.0
    for at, row in enumerate(rows):
        own = [each for each in traffic if each.name in row.layers]
        if not own:
            continue
        sizes = [sum(each.moved_bytes for each in own if each.operand == name) for name in operands]
        colours = [OPERAND_COLOURS[name] for name in operands]
        moved += stack_bars(axes, at, zip(sizes, colours, strict=True), height=0.72)
        least += _draw_tick(axes, at, [needed[name] for name in row.layers if name in needed])
    compared = f", {ratio(moved / least)} the least (ticks)" if least else ""
    axes.set_title(f"{letter}Traffic: {in_bytes(round(moved))}{compared}", pad=20)
    explain_colours(axes, [(name, OPERAND_COLOURS[name]) for name in operands])


def _draw_tick(axes: Axes, row: int, least: Sequence[float]) -> Any:
    """Mark in a row what no plan goes below, of all its layers together; return it."""
    total = sum(least)
    axes.plot([total, total], [row - 0.42, row + 0.42], color=INK, linewidth=1.3)
    return total


def _least_traffic(parts: ExecutedParts) -> dict[str, float]:
    """Return the bytes that no plan of each layer moves less than: the bound, where that is of accesses."""
    problem = parts.problem
    if problem.machine.kind == "npu" and problem.unit == "elements":
        size = problem.machine.unit_bits / 8
        return {name: size * bound for name, bound in _layer_bounds(problem).items()}
    return {part.name: sum(part.least.values()) for part in parts.layers}


def _layer_bounds(problem: Problem) -> dict[str, int]:
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
    "attention": GREEN,
    "between layers": PURPLE,
}
"""Of what a layer's time consists, and its colours."""


def _draw_network_time(
    axes: Axes, rows: Sequence[_LayerRow], executed: Mapping[str, Report], problem: Problem
) -> None:
    """Stack each layer's time: computing, setting up transfers, waiting; with a tick for its bound."""
    seen: set[str] = set()
    npu = problem.machine.kind == "npu"
    bounds = _layer_bounds(problem) if npu and problem.minimise == "time" else {}
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
            least += _draw_tick(axes, at, [1e-6 * bounds[name] for name in layers])
    compared = f": {ratio(spent / least)} the bound (ticks)" if least else ""
    two_lines = len(seen) > LEGEND_COLUMNS
    axes.set_title(f"(b) {'Microseconds' if npu else 'Cycles'}{compared}", pad=34 if two_lines else 20)
    explain_colours(axes, [pair for pair in SPLIT.items() if pair[0] in seen], ncols=LEGEND_COLUMNS)


def _time_split(report: Report, problem: Problem) -> dict[str, float]:
    """Return of what a layer's time consists: microseconds of an NPU, cycles of other machines."""
    total = _timeline_cycles(report)
    if isinstance(report.measures, CycledBetween | TimedBetween):
        time = duration(report.measures)
        if isinstance(report.measures, CycledBetween) and report.measures.attention is not None:
            return {"attention": time}
        return {"between layers": time * 1e-6 if problem.machine.kind == "npu" else time}
    if problem.machine.kind == "npu":
        # One stage after the other: what DRAM does not take, the cores do.
        transfers = 0 if report.sequential is None else report.sequential.busy().get("dram", 0)
        return {"computing": 1e-6 * (total - transfers), "transfers": 1e-6 * transfers}
    if problem.machine.kind == "hierarchy":
        cycles, computing = report.measures.duration_cycles, report.measures.multiplying_cycles
        return {"computing": computing, "waiting for a memory": cycles - computing}
    compute, setup = core_cycles(problem, report)
    waiting = max(total - compute - setup, 0)
    return {"computing": compute, "DMA set-up": setup, "waiting for the bus": waiting}


def _draw_network_rate(axes: Axes, rows: Sequence[_LayerRow], parts: Sequence[ExecutedPart]) -> None:
    """Draw the operations of each layer for a byte of its traffic, if it has MACs."""
    rates = []
    for row in rows:
        own = [part for part in parts if part.name in row.layers]
        macs, moved = sum(part.macs for part in own), sum(sum(part.outermost.values()) for part in own)
        rates.append(2 * macs / moved if macs and moved else None)
    _draw_bars(axes, rates)
    axes.set_title("(c) Ops per byte", pad=20)


def _draw_network_energy(axes: Axes, rows: Sequence[_LayerRow], parts: Sequence[ExecutedPart]) -> None:
    """Draw each layer's energy on a hierarchy with prices."""
    energies = []
    for row in rows:
        own = [part.microjoules or 0.0 for part in parts if part.name in row.layers]
        energies.append(sum(own) if own else None)
    _draw_bars(axes, energies)
    axes.set_title(f"(c) Energy: {sum(filter(None, energies)):,.1f} µJ", pad=20)


def _draw_bars(axes: Axes, values: Sequence[float | None]) -> None:
    """Draw a bar with its number for each row that has a value."""
    highest = max((value for value in values if value is not None), default=1)
    for row, value in enumerate(values):
        if value is not None:
            axes.barh(row, value, height=0.72, color=SKY, linewidth=0)
            axes.text(
                value + 0.012 * highest,
                row,
                f"{value:,.0f}" if value >= 1000 else f"{value:.3g}",
                va="center",
                fontsize=7.5,
            )
    axes.set_xlim(0, highest * 1.12)
