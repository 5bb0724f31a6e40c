"""The sheet of a layer on a hierarchy: the machine at work, energy or traffic, time, and a roofline.

Numbers are the report's; those of single boundaries are the closed form's, which equals the simulator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.core.overview import Moved
from tilewright.plotting import (
    GREY,
    INK,
    LIMIT_LINE,
    OPERAND_COLOURS,
    PALE,
    PURPLE,
    SHEET_WIDTH,
    SKY,
    VERMILION,
    YELLOW,
    Sheet,
    explain_colours,
    shortened,
    size_in_inches,
    stack_bars,
    with_prefix,
)
from tilewright.tiling.hierarchy.cost import TICKS, cost_of
from tilewright.tiling.hierarchy.machine_picture import MachinePicture, in_bytes
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.measures import HierarchyLayer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BROWN, OLIVE, VIOLET = "#8C564B", "#8A8D00", "#5E3C99"
MULTIPLIERS = "multipliers"
"""The row below those of the memories."""
MULTIPLYING, WAITING, PORT = "#AEBAC6", YELLOW, SKY
"""Colours of what takes time."""
LEVELS = (
    *((PURPLE, "o"), (VERMILION, "s"), (INK, "^"), (BROWN, "D")),
    *((GREY, "v"), (OLIVE, "P"), (VIOLET, "X"), (PALE, "*")),
)
"""Colours and marks of the levels in a roofline; none is that of an operand."""
CLOSE: dict[str, Any] = {"columnspacing": 0.9, "handletextpad": 0.5}
"""How words above narrow axes stand."""
LEFT = 0.3
"""Inches left and right of the drawings."""


def draw_sheet(page: Sheet, nest: Nest, measures: HierarchyLayer, moved: Sequence[Moved]) -> Figure:
    """Draw a valid nest below a heading.

    Parameters
    ----------
    page
        With its heading; the figure is made here.
    moved
        What the memories read and write of each operand.
    """
    machine = MachinePicture(nest, measures)
    panels = page.top + 0.3 + machine.height + 0.75
    height = max(1.9, 0.34 * (1 + len(measures.levels_bytes)))
    roof = Roofline.of(nest, measures)
    figure = page.create(SHEET_WIDTH, panels + height + 0.6 + 0.17 * (1 + (len(roof.points) + 1) // 2))
    width = SHEET_WIDTH - 2 * LEFT
    drawing = page.axes(LEFT, page.top + 0.3, width, machine.height)
    machine.draw(drawing, width)
    drawing.set_title("(a) The machine, and what crosses each boundary (dots: where it is held)", pad=6)
    draw_amounts(page.axes(1.6, panels, 2.9, height), moved, "(b) ")
    _draw_cycles(page.axes(5.75, panels, 2.3, height), measures, "(c) ")
    _draw_roofline(page.axes(9.45, panels, 3.2, height), roof, measures, "(d) ")
    return figure


def draw_amounts(axes: Axes, moved: Sequence[Moved], letter: str = "") -> None:
    """Stack the energy of each memory by operand, or the bytes that it moves where nothing has a price."""
    priced = any(each.microjoules is not None for each in moved)
    rows: dict[str, dict[str, float]] = {}
    for each in moved:
        amount = each.moved_bytes if each.microjoules is None else 1e12 * each.microjoules
        rows.setdefault(each.memory, {})[each.operand] = amount
    totals = [sum(amounts.values()) for amounts in rows.values()]
    everything, longest = sum(totals) or 1, max(totals) or 1
    for row, (amounts, total) in enumerate(zip(rows.values(), totals, strict=True)):
        parts = [(amounts.get(operand, 0), colour) for operand, colour in OPERAND_COLOURS.items()]
        stack_bars(axes, row, parts, height=0.66)
        words = f"{_energy(total)}, {_percent(total / everything)}" if priced else in_bytes(total)
        words = words if total else "no price"
        axes.text(total + 0.02 * longest, row, words, va="center", fontsize=8)
    _level_rows(axes, [name for name in rows if name != MULTIPLIERS])
    axes.set_xlim(0, longest * 1.02)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    what = f"Energy: {_energy(sum(totals))}" if priced else f"Read and written: {in_bytes(sum(totals))}"
    axes.set_title(letter + what, pad=20)
    present = {each.operand for each in moved}
    explain_colours(axes, [pair for pair in OPERAND_COLOURS.items() if pair[0] in present], **CLOSE)


def _level_rows(axes: Axes, levels: Iterable[str], *, label: bool = True) -> None:
    """Give axes a row for each memory and one for the multipliers."""
    names = [shortened(name, 16) for name in levels] + [MULTIPLIERS]
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)), names if label else [], parse_math=False)
    axes.tick_params(axis="y", length=0, labelsize=8.5)


def _energy(attojoules: float) -> str:
    """Write an energy with three digits, in the unit that suits it."""
    units = ((1e15, "mJ"), (1e12, "µJ"), (1e9, "nJ"), (1e6, "pJ"))
    size, unit = next((pair for pair in units if attojoules >= pair[0]), units[-1])
    value = attojoules / size
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"


def _percent(share: float) -> str:
    """Write a share with three digits at most."""
    return "< 0.1 %" if 0 < share < 0.001 else f"{100 * share:.{1 if share < 0.1 else 0}f} %"


def _draw_cycles(axes: Axes, measures: HierarchyLayer, letter: str) -> None:
    """Draw for how long multipliers work and wait, and ports are busy beside them."""
    levels, cycles = measures.levels_bytes, measures.duration_cycles
    waiting, ports = measures.waiting_cycles, measures.port_cycles
    for row, name in enumerate(levels):
        busy = ports.get(name)
        words = "no limit" if busy is None else _percent(busy / cycles)
        axes.barh(row, busy or 0, height=0.66, color=PORT, linewidth=0)
        # Words do not stand on the line at the end.
        at = 1.0 if 0.7 * cycles < (busy or 0) else (busy or 0) / cycles
        axes.text((at + 0.02) * cycles, row, words, va="center", fontsize=8, color=INK if busy else GREY)
    last, working = len(levels), measures.multiplying_cycles
    parts = [(working, MULTIPLYING), (sum(waiting.values()), WAITING)]
    end = stack_bars(axes, last, parts, height=0.66)
    axes.text(end + 0.02 * cycles, last, _percent(end / cycles), va="center", fontsize=8)
    axes.plot([cycles, cycles], [-0.5, last + 0.4], **LIMIT_LINE)
    _level_rows(axes, levels, label=False)
    axes.set_xlim(0, cycles * 1.02)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.set_title(f"{letter}{cycles:,} cycles", pad=20)
    handles = [("ports", PORT), ("multiplying", MULTIPLYING)]
    if sum(waiting.values()):
        handles.append(("waiting", WAITING))
    explain_colours(axes, handles, **CLOSE)


class Point(NamedTuple):
    """A level in a roofline.

    Attributes
    ----------
    intensity
        MACs of the layer for each byte that the busier ports of all used instances move.
    rate
        Bytes per cycle of these ports; None without a limit.
    """

    name: str
    intensity: float
    rate: float | None


class Roofline(NamedTuple):
    """What limits how many MACs a cycle has.

    Attributes
    ----------
    reached, used, peak
        MACs per cycle: of the plan, of the PEs that it uses, of all PEs.
    """

    points: list[Point]
    reached: float
    used: int
    peak: int

    @classmethod
    def of(cls, nest: Nest, measures: HierarchyLayer) -> Roofline:
        """Return the roofline of a nest: levels with ports, and the outermost."""
        machine, macs = nest.machine, nest.layer.macs
        cost = cost_of(nest)
        instances, points = 1, []
        for i, node in enumerate(machine.nodes):
            if node.axis is not None:
                instances *= prod(nest.trips(i, letter) for letter, _ in nest.plan.nest[i])
                continue
            if i not in machine.memories:
                continue
            level = machine.levels[node.level]
            read, written = cost.reading_and_writing(i)
            busier = level.read_bytes_per_cycle if read >= written else level.write_bytes_per_cycle
            cycles, rate = cost.ports[i] / TICKS, level.bytes_per_cycle or busier
            if cycles and rate:
                points.append(Point(level.name, macs / (cycles * rate * instances), rate * instances))
            elif i == 0:
                moved = measures.levels_bytes[node.name]
                size = sum(moved.read.values()) + sum(moved.written.values())
                points.append(Point(node.name, macs / size, None))
        used = instances * machine.macs_per_cycle
        return cls(points, macs / measures.duration_cycles, used, machine.most_macs_per_cycle)


def _rate(value: float) -> str:
    """Write a rate with a decimal where it is small."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _draw_roofline(axes: Axes, roof: Roofline, measures: HierarchyLayer, letter: str) -> None:
    """Draw the layer under the roofs of the machine: its multipliers, and the ports of each level."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    rates = [point.intensity for point in roof.points]
    ridges = [roof.peak / point.rate for point in roof.points if point.rate]
    near = [ridge for ridge in ridges if ridge > min(rates) / 50]
    left, right = min(rates + near) / 4, max(rates + ridges) * 5
    low = min(roof.reached / 3, *(left * point.rate for point in roof.points if point.rate), roof.peak / 20)
    low = max(low, roof.reached / 60)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(left, right)
    axes.set_ylim(low, roof.peak * 2.2)
    axes.axhline(roof.peak, color=INK, linewidth=1.2)
    axes.text(right / 1.1, roof.peak * 1.08, f"all PEs: {roof.peak:,}", fontsize=8, va="bottom", ha="right")
    if roof.used < roof.peak:
        axes.axhline(roof.used, **LIMIT_LINE, label=f"PEs in use: {roof.used:,}")
    for number, (point, (colour, mark)) in enumerate(zip(roof.points, LEVELS, strict=False)):
        rate = "no limit" if point.rate is None else f"{_rate(point.rate)} B/cycle"
        label = f"{shortened(point.name, 14)}, {rate}"
        if point.rate is not None and roof.peak / point.rate > left:
            ends = left, roof.peak / point.rate
            axes.plot(ends, [end * point.rate for end in ends], color=colour, linewidth=1.2, zorder=2)
            axes.plot(
                [point.intensity] * 2,
                [roof.reached, min(roof.peak, point.intensity * point.rate)],
                color=colour,
                linewidth=0.8,
                linestyle=":",
                zorder=2,
            )
        axes.plot(
            [point.intensity],
            [roof.reached],
            mark,
            color=colour,
            markersize=max(4, 12 - 3 * number),  # so that points of the same place are all seen
            markeredgewidth=0,
            label=label,
            zorder=3,
        )
    axes.set_xlabel("MACs per byte at each level")
    axes.set_ylabel("MACs per cycle")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=6))
        axis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value:g}" if value < 1000 else with_prefix(value))
        )
        axis.set_minor_formatter(NullFormatter())
    axes.grid(color=PALE, linewidth=0.6)
    axes.set_title(f"{letter}{_rate(roof.reached)} MACs per cycle", pad=20)
    words = f"limited by {shortened(measures.limited_by, 36)}"
    axes.text(0, 1.04, words, fontsize=8, transform=axes.transAxes)
    below = -0.48 / size_in_inches(axes)[1]
    axes.legend(loc="upper left", bbox_to_anchor=(-0.1, below), ncols=2, fontsize=8, handletextpad=0.6)
