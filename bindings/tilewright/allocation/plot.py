"""Pictures of an allocation plan: the array, the pipeline over time, layers' work and buffers; a front.

Times and amounts are the report's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright import plotting
from tilewright.allocation.energy_plot import draw_energies, list_energies
from tilewright.allocation.geometry import Numbers
from tilewright.allocation.lowering import engines_of
from tilewright.allocation.measures import PipelineLayer, PipelinePoint
from tilewright.allocation.placement.snake import snake
from tilewright.allocation.placement.unplaced import floor_of
from tilewright.allocation.plan import Plan, Region
from tilewright.allocation.problem import Problem
from tilewright.allocation.summary import rows
from tilewright.plotting import (
    BLUE,
    GREEN,
    GREY,
    INK,
    LIMIT_LINE,
    ORANGE,
    PALE,
    PURPLE,
    SHEET_WIDTH,
    SKY,
    TENSORS,
    VERMILION,
    Sheet,
    axes_or_new,
    dimensions,
    leave_blank,
    shortened,
    size_in_inches,
    text_width,
    tint,
    with_prefix,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure

    from tilewright.simulator import Report
    from tilewright.simulator.report import Timeline

ACCEPTED = plotting.ACCEPTED
"""Suffixes of the files that `draw` writes."""

PE = tuple[int, int]
"""Row and column of a processing element."""

LAYERS = ("#F7D08A", "#9CC7E8", "#93D5BF", "#EBC1D8", "#F4B393", "#F6F0A2", "#C6BAE6", "#CBD8A6")
"""Colours of layers, pale enough to write on."""
FRAMES = (BLUE, ORANGE, GREEN, PURPLE, SKY)
WORK, IDLE = "#5F6F7F", "#F0F0F0"

LEFT, GANTT, BARS = 0.35, 4.6, 1.6
"""Inches left of the drawings, and widths of panels."""
ABOVE, BELOW = 0.42, 0.34
"""Inches above the first and below the last layer's row, for what concerns all layers."""
CELL, LARGEST = 0.3, 10.5
"""Inches of a PE in which a number can be read, and of the largest array."""
BORDER = 0.4
"""Inches around the array for its buffers and what comes and goes."""

MAX_LISTED = 30
"""Largest number of plans of a front that are numbered and listed."""
MAX_SPELT = 8
"""Largest number of layers whose PEs are listed for each plan."""


@plotting.style()
def sheet(problem: Problem, plan: Plan, report: Report, *, title: str | None = None) -> Figure:
    """Return the sheet of a plan or of a front; of a plan that breaks a rule, no more than its PEs."""
    what = _described(problem)
    labelled = () if report.violation is not None else rows(problem, report.measures)
    page = Sheet(title or what, [what] if title else [], report, labelled=labelled)
    if report.violation is not None:
        return _broken_sheet(problem, plan, page)
    if plan.front:
        return _front_sheet(problem, plan, report, page)
    return _plan_sheet(problem, plan, report, page)


draw = plotting.writer(sheet)


@plotting.style()
def plot(problem: Problem, plan: Plan, report: Report, *, ax: Axes | None = None) -> Axes:
    """Draw when the layers work on which frame; of a broken plan, its PEs.

    Of a front, rates are drawn against PEs, or energies against rates.

    See `core.room.Pictures.plot`.
    """
    if plan.front:
        ax = axes_or_new(ax, 5.6, 4.0, right=0.75)
        if report.violation is not None:
            leave_blank(ax, "Rate against PEs", "a front that breaks a rule has no rates")
        elif problem.trades_energy:
            draw_energies(ax, problem, report.measures.front)
        else:
            _trade_off(ax, None, _Front.of(problem, report.measures.front), rising=True)
        return ax
    table = _Table.of(plan, _owners(problem, plan.regions or ()))
    if ax is None:
        ax = axes_or_new(None, GANTT, table.height, left=table.width + 0.2)
    table = table.fitted(ax)
    if report.violation is not None:
        _pes(ax, problem, plan, table)
    else:
        _gantt(ax, problem, plan, report, table)
        table.write_names(ax)
    return ax


# Words -------------------------------------------------------------------------------------------------


def _described(problem: Problem) -> str:
    """Say what runs on what."""
    machine, count = problem.machine, len(problem.stages)
    how = "as a pipeline" if problem.parallel else "one after the other"
    units = f"{machine.functional_units} functional unit{'s' * (machine.functional_units > 1)} each"
    layers = f"{count} layer{'s' * (count > 1)} of {problem.network.name or 'a network'}"
    return f"{layers} {how} on {dimensions(*machine.array)} PEs, {units}, {machine.clock_mhz} MHz"


def _create(page: Sheet, width: float, drawings: float) -> float:
    """Make a sheet for drawings of a height; return where they begin."""
    top = page.top + 0.45
    page.create(width, top + drawings + 0.55)
    return top


# One plan ----------------------------------------------------------------------------------------------


class _Table(NamedTuple):
    """The rows that the panels share.

    Attributes
    ----------
    names, colours
        Of the layers.
    pitch
        Inches from one row to the next.
    """

    names: list[str]
    colours: list[str]
    pitch: float

    @classmethod
    def of(cls, plan: Plan, owners: Numbers) -> _Table:
        names = [shortened(name, 32) for name in plan.names]
        # Beyond that height a picture would have more pixels than can be drawn.
        least = min(0.125, 80 / len(names))
        return cls(names, _colours(owners, len(names)), float(np.clip(3.24 / len(names), least, 0.65)))

    def fitted(self, axes: Axes) -> _Table:
        """Return the table with the pitch that fills axes."""
        _, height = size_in_inches(axes)
        return self._replace(pitch=max((height - ABOVE - BELOW) / len(self.names), 0.01))

    @property
    def height(self) -> float:
        """Inches of a panel."""
        return len(self.names) * self.pitch + ABOVE + BELOW

    @property
    def points(self) -> float:
        """Size of what is written into a row."""
        return min(8.5, 56 * self.pitch)

    @property
    def width(self) -> float:
        """Inches of the longest name and the number before it."""
        return 0.36 + self.points / 72 * max(map(text_width, self.names))

    def prepare(self, axes: Axes, title: str, label: str, ticks: int) -> None:
        """Give a panel its rows, with space above and below them, and an axis of numbers."""
        from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

        axes.set_ylim(len(self.names) - 0.5 + BELOW / self.pitch, -0.5 - ABOVE / self.pitch)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x", color=PALE, linewidth=0.6)
        axes.set_title(title)
        axes.set_xlabel(label)
        logarithmic = axes.get_xscale() == "log"
        axes.xaxis.set_major_locator(
            LogLocator(numticks=ticks) if logarithmic else MaxNLocator(nbins=ticks, integer=True)
        )
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: with_prefix(x)))
        axes.xaxis.set_minor_locator(NullLocator())

    def write_names(self, axes: Axes) -> None:
        """Write names to the left of a panel, and before them their numbers on the layers' colours."""
        across = axes.get_yaxis_transform()
        inch = 1 / size_in_inches(axes)[0]
        for row, (name, colour) in enumerate(zip(self.names, self.colours, strict=True)):
            axes.text(
                (0.12 - self.width) * inch,
                row,
                str(row + 1),
                transform=across,
                ha="center",
                va="center_baseline",
                fontsize=self.points - 0.5,
                bbox={"facecolor": colour, "edgecolor": "none", "pad": min(2.0, 9 * self.pitch)},
            )
            left = (0.27 - self.width) * inch
            axes.text(left, row, name, transform=across, va="center_baseline", fontsize=self.points)

    def write_key(self, axes: Axes, words: Sequence[tuple[str, str]]) -> None:
        """Write what the colours of a panel mean, above its first row."""
        across = 0.0
        for word, colour in words:
            axes.annotate(
                word,
                (0, -0.5),
                xycoords=("axes fraction", "data"),
                xytext=(across, 4),
                textcoords="offset points",
                color=colour,
                fontsize=8,
                fontweight="bold",
            )
            across += 8.8 * text_width(word) + 8

    def write_number(self, axes: Axes, row: int, x: float, words: str, colour: str = INK) -> None:
        """Write a number beside the end of a bar."""
        axes.annotate(
            words,
            (x, row),
            xytext=(3, 0),
            textcoords="offset points",
            va="center_baseline",
            fontsize=self.points - 0.5,
            color=colour,
        )


def _plan_sheet(problem: Problem, plan: Plan, report: Report, page: Sheet) -> Figure:
    regions = plan.regions or (snake(floor_of(problem, plan)) if problem.parallel else ())
    owners = _owners(problem, regions)
    table = _Table.of(plan, owners)
    side = BARS
    if problem.parallel:
        side = max(float(np.clip(table.height, 4.0, 6.8)), min(CELL * max(owners.shape), LARGEST))
    first = LEFT + side + table.width + 0.4
    height, width = (
        2 * BORDER + (side - 2 * BORDER) * size / max(owners.shape) if problem.parallel else 0
        for size in owners.shape
    )
    top = _create(page, first + GANTT + 2 * BARS + 1.7, max(height, table.height))
    gantt = page.axes(first, top, GANTT, table.height)
    _gantt(gantt, problem, plan, report, table, "(b) ")
    if problem.parallel:
        _array(page.axes(LEFT, top, width, height), problem, plan, regions, owners, table)
        table.write_names(gantt)
    else:
        _pes(page.axes(LEFT + table.width, top, side, table.height), problem, plan, table, "(a) ")
    layers = list(report.measures.layers.values())
    cycles, buffers = (page.axes(first + GANTT + gap, top, BARS, table.height) for gap in (0.4, BARS + 1.2))
    _cycles(cycles, problem, report.measures.interval_cycles, layers, table)
    _buffers(buffers, problem, report.measures.storage_words, layers, table)
    return page.figure


def _broken_sheet(problem: Problem, plan: Plan, page: Sheet) -> Figure:
    """Draw what a plan that was not executed says of PEs; of a front, nothing."""
    if plan.front:
        _create(page, SHEET_WIDTH, 0)
        return page.figure
    table = _Table.of(plan, _owners(problem, ()))
    top = _create(page, SHEET_WIDTH, table.height)
    _pes(page.axes(LEFT + table.width, top, GANTT, table.height), problem, plan, table, "(a) ")
    return page.figure


def _pes(axes: Axes, problem: Problem, plan: Plan, table: _Table, letter: str = "") -> None:
    """Draw how many PEs each layer has."""
    given = problem.machine.pes
    for row, (share, colour) in enumerate(zip(plan.shares, table.colours, strict=True)):
        axes.barh(row, share.pes, height=0.76, color=colour, linewidth=0)
        table.write_number(axes, row, share.pes, f"{share.pes:,}")
    axes.axvline(given, **LIMIT_LINE)
    axes.set_xlim(0, 1.2 * max(given, *(share.pes for share in plan.shares)))
    table.prepare(axes, f"{letter}PEs of each layer", f"PEs, {given:,} in the array", 4)
    table.write_names(axes)


# The array ---------------------------------------------------------------------------------------------


def _owners(problem: Problem, regions: Sequence[Region]) -> Numbers:
    """Return the number of the layer that each PE works for, -1 for none."""
    owners = np.full(problem.machine.array, -1, dtype=np.int64)
    for number, region in enumerate(regions):
        owners[tuple(np.transpose(region))] = number
    return owners


def _colours(owners: Numbers, count: int) -> list[str]:
    """Choose a colour for each layer, another one than those of its neighbours and of the layer before."""
    touching: list[set[int]] = [{number - 1, number + 1} for number in range(count)]
    for axis in (0, 1):
        pairs = np.stack([np.delete(owners, 0, axis), np.delete(owners, -1, axis)]).reshape(2, -1)
        for one, other in np.unique(pairs, axis=1).T.tolist():
            if min(one, other) >= 0:
                touching[one].add(other)
                touching[other].add(one)
    colours: list[str] = []
    for number in range(count):
        taken = {colours[other] for other in touching[number] if 0 <= other < number}
        turn = [LAYERS[(number + step) % len(LAYERS)] for step in range(len(LAYERS))]
        colours.append(next((colour for colour in turn if colour not in taken), turn[0]))
    return colours


def _array(
    axes: Axes, problem: Problem, plan: Plan, regions: Sequence[Region], owners: Numbers, table: _Table
) -> None:
    """Draw the PEs in the colours of their layers, the flow of data, and the buffers at the border."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgb

    height, width = owners.shape
    cell = 72 * (size_in_inches(axes)[0] - 2 * BORDER) / width
    axes.imshow(np.array([*map(to_rgb, table.colours), to_rgb(IDLE)])[owners], interpolation="nearest")
    if cell > 5:
        grid = [((at - 0.5, -0.5), (at - 0.5, height - 0.5)) for at in range(1, width)]
        grid += [((-0.5, at - 0.5), (width - 0.5, at - 0.5)) for at in range(1, height)]
        axes.add_collection(LineCollection(grid, colors="white", linewidths=min(1.5, cell / 14)))
    axes.add_collection(LineCollection(_outlines(owners), colors=INK, linewidths=min(1.2, 0.3 + cell / 40)))
    margin = 72 * BORDER / cell
    axes.set_xlim(-0.5 - margin, width - 0.5 + margin)
    axes.set_ylim(height - 0.5 + margin, -0.5 - margin)
    axes.set_axis_off()
    _border(axes, problem, owners, cell)
    for producer, consumer in problem.edges:
        _flow(axes, regions[producer], owners == producer, owners == consumer, cell)
    for number, share in enumerate(plan.shares):
        words = f"{table.names[number]}\n{share.pes:,} PE{'s' * (share.pes > 1)}"
        choices = (words, 7), (table.names[number], 6), (str(number + 1), 6), (str(number + 1), 4)
        _name_region(axes, owners == number, choices, cell, table.colours[number])
    idle = problem.machine.pes - plan.pes
    how = "" if plan.regions else ", placed along a snake"
    axes.set_title(f"(a) The array{how}" + (f"; {idle:,} PE{'s' * (idle > 1)} idle" if idle else ""))


def _outlines(owners: Numbers) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Return the lines between PEs of different layers, and around them."""
    padded = np.pad(owners, 1, constant_values=-1)
    across = np.argwhere(padded[1:] != padded[:-1]).tolist()
    down = np.argwhere(padded[:, 1:] != padded[:, :-1]).tolist()
    return [((column - 1.5, row - 0.5), (column - 0.5, row - 0.5)) for row, column in across] + [
        ((column - 0.5, row - 1.5), (column - 0.5, row - 0.5)) for row, column in down
    ]


def _border(axes: Axes, problem: Problem, owners: Numbers, cell: float) -> None:
    """Draw the buffers around the array, and where frames enter and results leave."""
    from matplotlib.patches import Rectangle

    height, width = owners.shape
    gap, thick = 4 / cell, 6 / cell
    for left, upper, wide, tall in (
        (-0.5, -0.5 - gap - thick, width, thick),
        (-0.5, height - 0.5 + gap, width, thick),
        (-0.5 - gap - thick, -0.5, thick, height),
        (width - 0.5 + gap, -0.5, thick, height),
    ):
        axes.add_patch(Rectangle((left, upper), wide, tall, facecolor=PALE, edgecolor="none"))
    for words, (row, column), (down, across) in _gates(problem, owners):
        inner, outer = 0.5 - 3 / cell, 0.5 + gap + thick + 6 / cell
        ends = [(column + by * across, row + by * down) for by in (outer, inner)]
        start, end = ends if words == "input" else ends[::-1]
        _arrow(axes, start, end, 1.4, INK)
        axes.annotate(
            words,
            ends[0],
            xytext=(6 * across, -6 * down),
            textcoords="offset points",
            ha="center",
            va="center",
            rotation=90 * abs(across),
            fontsize=8,
        )


def _gates(problem: Problem, owners: Numbers) -> Iterator[tuple[str, PE, PE]]:
    """Yield where frames enter and results leave: a PE at the border, and the direction outwards."""
    height, width = owners.shape
    border = [
        *(((row, 0), (0, -1)) for row in range(height)),
        *(((0, column), (-1, 0)) for column in range(width)),
        *(((height - 1, column), (1, 0)) for column in range(width)),
        *(((row, width - 1), (0, 1)) for row in range(height)),
    ]
    for stage in problem.stages:
        gates = [(pe, outwards) for pe, outwards in border if owners[pe] == stage.number]
        if gates and min(stage.producers) < 0:
            yield "input", *gates[0]
        if gates and stage.leaves:
            yield "output", *gates[-1]


def _flow(
    axes: Axes, region: Region, producer: NDArray[np.bool_], consumer: NDArray[np.bool_], cell: float
) -> None:
    """Draw an arrow from a layer's PEs to those of a reader, where they are nearest."""
    readers = np.argwhere(consumer)
    hops = _hops(producer)[consumer]
    nearest = readers[hops == hops.min()]
    end = nearest[np.abs(nearest - nearest.mean(axis=0)).sum(axis=1).argmin()]
    start = min(region, key=lambda pe: abs(pe[0] - end[0]) + abs(pe[1] - end[1]))
    direct = hops.min() == 1
    _arrow(
        axes,
        (start[1], start[0]),
        (int(end[1]), int(end[0])),
        float(np.clip(cell / 25, 0.6, 1.4)),
        INK if direct else GREY,
        shrink=(0.3 if cell > 8 else 0.05) * cell,
        bend=0.0 if direct else 0.08,
    )


def _arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    width: float,
    colour: str,
    shrink: float = 0.0,
    bend: float = 0.0,
) -> None:
    axes.annotate(
        "",
        end,
        start,
        arrowprops={
            "arrowstyle": "-|>",
            "connectionstyle": f"arc3,rad={bend}",
            "color": colour,
            "linewidth": width,
            "mutation_scale": 4 + 4 * width,
            "shrinkA": shrink,
            "shrinkB": shrink,
        },
        zorder=5,
    )


def _hops(region: NDArray[np.bool_]) -> Numbers:
    """Return how many hops each PE is away from a region."""
    hops = np.where(region, 0, sum(region.shape))
    for axis in (0, 1):
        lines = np.moveaxis(hops, axis, 0)
        at = np.arange(len(lines))[:, None]
        before = np.minimum.accumulate(lines - at) + at
        after = np.minimum.accumulate((lines + at)[::-1])[::-1] - at
        hops = np.moveaxis(np.minimum(before, after), 0, axis)
    return hops


def _name_region(
    axes: Axes, region: NDArray[np.bool_], choices: Sequence[tuple[str, int]], cell: float, colour: str
) -> None:
    """Write the first of some words that fits into a region, each from 9 points down to its least size."""
    places = np.argwhere(region)
    (top, left), (bottom, right) = places.min(axis=0), places.max(axis=0) + 1
    inside = region[top:bottom, left:right]
    for words, least in choices:
        lines = words.split("\n")
        for turned, points in product((False, True), range(9, least - 1, -1)):
            tall, wide = 1.25 * points * len(lines), points * max(map(text_width, lines)) + 3
            middle = _box_middle(
                inside, *((wide / cell, tall / cell) if turned else (tall / cell, wide / cell))
            )
            if middle is not None:
                axes.text(
                    left + middle[1],
                    top + middle[0],
                    words,
                    ha="center",
                    va="center",
                    fontsize=points,
                    rotation=90 * turned,
                    linespacing=1.1,
                    bbox={"facecolor": colour, "edgecolor": "none", "pad": 0},
                    zorder=4,
                )
                return


def _box_middle(inside: NDArray[np.bool_], tall: float, wide: float) -> NDArray[np.float64] | None:
    """Return the middle of a box in a region, nearest to the region's own middle; None if it does not fit.

    Parameters
    ----------
    inside
        Which PEs are in the region.
    tall, wide
        Size of the box in PEs.
    """
    # Halves of PEs, so that a box can lie across an even number of them.
    halves = inside.repeat(2, axis=0).repeat(2, axis=1)
    rows, columns = (max(2, int(np.ceil(2 * size))) for size in (tall, wide))
    if rows > halves.shape[0] or columns > halves.shape[1]:
        return None
    sums = np.pad(halves.astype(np.int64).cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    held = sums[rows:, columns:] - sums[:-rows, columns:] - sums[rows:, :-columns] + sums[:-rows, :-columns]
    corners = np.argwhere(held == rows * columns)
    if not len(corners):
        return None
    middles = (corners + np.array([rows, columns]) / 2) / 2 - 0.5
    best: NDArray[np.float64] = middles[
        np.abs(middles - np.argwhere(inside).mean(axis=0)).sum(axis=1).argmin()
    ]
    return best


# Layers ------------------------------------------------------------------------------------------------


def _frames(problem: Problem, line: Timeline, frames: int) -> tuple[Numbers, Numbers]:
    """Return when each layer begins and ends with each frame, shape (layers, frames)."""
    begins, ends = np.zeros((2, len(problem.stages), frames), dtype=np.int64)
    computes = line.engine.codes < len(engines_of(problem))  # which come first
    for row, stage in enumerate(problem.stages):
        # A layer computes frame after frame, each in the same number of beats.
        beats = computes & (line.tensor.codes == line.tensor.names.index(stage.name))
        begins[row] = line.start[beats].reshape(frames, -1).min(axis=1)
        ends[row] = line.finish[beats].reshape(frames, -1).max(axis=1)
    return begins, ends


def _gantt(axes: Axes, problem: Problem, plan: Plan, report: Report, table: _Table, letter: str = "") -> None:
    """Draw when each layer works on which frame: the full part of a bar is work, the pale one waits."""
    line, measures = report.scheduled, report.measures
    assert line is not None
    frames, latency = measures.executed_frames, measures.latency_cycles
    begins, ends = _frames(problem, line, frames)
    last = int(ends.max())
    per_cycle = 72 * size_in_inches(axes)[0] / (1.02 * last)
    colours = [FRAMES[frame % len(FRAMES)] for frame in range(frames)]
    pale = [tint(colour, 0.3) for colour in colours]
    for row, layer in enumerate(measures.layers.values()):
        bars = list(zip(begins[row], ends[row] - begins[row], strict=True))
        working = layer.work_cycles / layer.pace_cycles
        axes.broken_barh(bars, (row - 0.4, 0.8), facecolors=pale, linewidth=0)
        axes.broken_barh(bars, (row + 0.4 - 0.8 * working, 0.8 * working), facecolors=colours, linewidth=0)
        axes.vlines(begins[row], row - 0.46, row + 0.46, color=INK, linewidth=0.9)
        if table.pitch > 0.2 and bars[0][1] * per_cycle > 50:
            _write_start(axes, row, int(begins[row, 0]), full=working > 0.6)
    _name_frames(axes, begins[0], ends[0], colours, per_cycle)
    _span(axes, -0.5 - 0.29 / table.pitch, 0, latency, f"latency {latency:,}", per_cycle)
    if frames > 1:
        done = ends.max(axis=0)
        under = len(plan.names) - 0.5 + 0.2 / table.pitch
        _span(axes, under, done[0], done[1], f"interval {measures.interval_cycles:,}", per_cycle)
        axes.vlines(done[:2], ends.argmax(axis=0)[:2], under, color=INK, linewidth=0.6, linestyle=(0, (2, 2)))
    axes.set_xlim(0, 1.02 * last)
    key = ": work full, waits pale, starts marked" if problem.parallel else ", starts marked"
    table.prepare(axes, f"{letter}Layers over time{key}", "cycles", 7)


def _write_start(axes: Axes, row: int, start: int, *, full: bool) -> None:
    """Write into a layer's first bar when it starts, white where most of the bar is full."""
    axes.annotate(
        f"from {start:,}",
        (start, row if full else row - 0.2),
        xytext=(3, 0),
        textcoords="offset points",
        va="center_baseline",
        fontsize=7,
        color="white" if full else INK,
    )


def _name_frames(
    axes: Axes, begins: Numbers, ends: Numbers, colours: Sequence[str], per_cycle: float
) -> None:
    """Write the names of frames above the bars of the first layer, as far as they fit."""
    for frame, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        choices = f"frame {frame + 1}", f"{frame + 1}", ""
        points = (end - begin) * per_cycle - 3
        axes.annotate(
            next((words for words in choices if 7.5 * text_width(words) <= points), ""),
            ((begin + end) / 2, -0.5),
            xytext=(0, 1),
            textcoords="offset points",
            ha="center",
            fontsize=7.5,
            color=colours[frame],
        )


def _span(axes: Axes, y: float, start: int, end: int, words: str, per_cycle: float) -> None:
    """Draw a dimension line, its words in it where they fit, else beside it."""
    axes.annotate(
        "",
        (end, y),
        (start, y),
        arrowprops={"arrowstyle": "<|-|>", "color": INK, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0},
    )
    wide = 8 * text_width(words)
    within = (end - start) * per_cycle > wide + 20
    left = 72 * size_in_inches(axes)[0] - end * per_cycle < wide
    axes.annotate(
        words,
        ((start + end) / 2 if within else start if left else end, y),
        xytext=(0 if within else -4 if left else 4, 0),
        textcoords="offset points",
        ha="center" if within else "right" if left else "left",
        va="center_baseline",
        fontsize=8,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
    )


def _cycles(
    axes: Axes, problem: Problem, interval: int, layers: Sequence[PipelineLayer], table: _Table
) -> None:
    """Draw the cycles for which a frame keeps each layer busy: work, and the waits of a pipeline."""
    slowest = max(layer.load_cycles for layer in layers)
    for row, layer in enumerate(layers):
        colour = VERMILION if layer.load_cycles == slowest else WORK
        axes.barh(row, layer.busy_cycles, height=0.76, color=PALE, linewidth=0)
        axes.barh(row, layer.load_cycles, height=0.76, color=colour, linewidth=0)
        if table.pitch > 0.2 or layer.load_cycles == slowest:
            table.write_number(axes, row, layer.busy_cycles, f"{layer.load_cycles:,}", colour)
    key = [("work", WORK), ("slowest", VERMILION)]
    if problem.parallel:
        key.append(("waits", "#AAAAAA"))
        axes.axvline(interval, color=INK, linewidth=1)
        axes.annotate(
            "interval",
            (interval, -0.5 - ABOVE / table.pitch),
            xytext=(-3, -2),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=8,
        )
    table.write_key(axes, key)
    axes.set_xlim(0, 1.02 * max(layer.busy_cycles for layer in layers))
    table.prepare(axes, "(c) Cycles per frame", "cycles", 4)


def _buffers(
    axes: Axes, problem: Problem, storage: int, layers: Sequence[PipelineLayer], table: _Table
) -> None:
    """Draw the bytes of each layer's weights and of its output's buffer, and below them what all need."""
    machine = problem.machine
    total, capacity = machine.bytes(storage), machine.buffer_bytes
    words_of = [(layer.weights_elements, layer.buffer_words) for layer in layers]
    sizes = np.array([[machine.bytes(words) for words in each] for each in zip(*words_of, strict=True)])
    at = np.arange(len(layers))
    weights, buffer = TENSORS["kernels"], TENSORS["output"]
    for side, lengths, colour in zip((-0.2, 0.2), sizes, (weights, buffer), strict=True):
        axes.barh(at + side, lengths, height=0.4, color=colour, linewidth=0)
    table.write_key(axes, (("weights", weights), ("buffer", buffer)))
    under = len(layers) - 0.5 + 0.18 / table.pitch
    axes.barh(under, total, height=0.17 / table.pitch, color="#BBBBBB", linewidth=0)
    words = ("all " if problem.parallel else "most at a time ") + with_prefix(total)
    largest = total
    if capacity is not None:
        axes.axvline(capacity, **LIMIT_LINE)
        words += f" of {with_prefix(capacity)}"
        largest = max(total, capacity)
    axes.annotate(
        words,
        (0, under),
        xycoords=("axes fraction", "data"),
        xytext=(3, 0),
        textcoords="offset points",
        va="center_baseline",
        fontsize=8,
    )
    least = int(sizes[sizes > 0].min(initial=total))
    if largest > 60 * least:
        axes.set_xscale("log")
        axes.set_xlim(least / 2, largest * 1.3)
    else:
        axes.set_xlim(0, largest * 1.05)
    table.prepare(axes, "(d) On-chip memory", "bytes", 4)


# A front -----------------------------------------------------------------------------------------------


class _Front(NamedTuple):
    """The plans of a front: PEs, frames per second, and latency in milliseconds.

    Attributes
    ----------
    listed
        Numbers of some plans, by PEs: of those that have the best rate of as few PEs, and the one with the
        least latency.
    """

    pes: Numbers
    rate: NDArray[np.float64]
    latency: NDArray[np.float64]
    listed: list[int]

    @classmethod
    def of(cls, problem: Problem, front: Sequence[PipelinePoint]) -> _Front:
        points = [(point.pes, point.interval_cycles, point.latency_cycles) for point in front]
        pes, interval, latency = np.array(points).T
        order = np.lexsort((latency, interval, pes))
        fewest = np.minimum.accumulate(interval[order])
        steps = order[np.append(True, fewest[1:] < fewest[:-1])].tolist()
        listed: list[int] = []
        for number in [int(latency.argmin()), steps[0], steps[-1], *steps]:
            if all(abs(pes[number] - pes[other]) * MAX_LISTED > np.ptp(pes) for other in listed):
                listed.append(number)
        frequency = problem.machine.clock_mhz
        listed.sort(key=lambda number: int(pes[number]))
        return cls(pes, frequency * 1e6 / interval, latency / (1e3 * frequency), listed)


def _front_sheet(problem: Problem, plan: Plan, report: Report, page: Sheet) -> Figure:
    """Draw the trade-offs between rate, PEs and latency, or rate and energy, and list plans."""
    spelt, height = len(problem.stages) <= MAX_SPELT, 4.8
    if problem.trades_energy:
        top = _create(page, 11.3 if spelt else 10.0, height)
        draw_energies(page.axes(0.85, top, 5.6, height), problem, report.measures.front, "(a) ")
        list_energies(
            page.axes(7.1, top, 2.7, height), problem, report.measures.front, plan if spelt else None
        )
        return page.figure
    front = _Front.of(problem, report.measures.front)
    top = _create(page, 17.6 if spelt else 16.3, height)
    for left, rising, letter in ((0.85, True, "(a) "), (7.2, False, "(b) ")):
        axes = page.axes(left, top, 4.6, height)
        _trade_off(axes, page.axes(left + 4.75, top, 0.12, height), front, rising, letter)
    _list(page.axes(13.4, top, 2.7, height), front, plan if spelt else None)
    return page.figure


def _trade_off(axes: Axes, scale: Axes | None, front: _Front, rising: bool, letter: str = "") -> None:
    """Draw all plans, and the best: rates over PEs in the colours of latencies, or the other way round.

    Parameters
    ----------
    scale
        Where the scale of colours is drawn; beside the axes when None.
    rising
        Whether rates are drawn over PEs.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    values = front.rate if rising else front.latency
    order = np.argsort(front.pes)
    best = (np.maximum if rising else np.minimum).accumulate(values[order])
    axes.step(front.pes[order], best, where="post", color=INK, linewidth=0.9)
    dots = _dots(axes, front, rising)
    for number, at in enumerate(front.listed):
        axes.annotate(
            str(number + 1),
            (front.pes[at], values[at]),
            xytext=(-3 if rising else 3, 3),
            textcoords="offset points",
            ha="right" if rising else "left",
            fontsize=7.5,
        )
    if not rising and values.max() > 8 * values.min():
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
    numbers = FuncFormatter(lambda number, _: f"{number:,g}")
    axes.yaxis.set_major_formatter(numbers)
    axes.xaxis.set_major_formatter(numbers)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    axes.grid(color=PALE, linewidth=0.6)
    axes.set_title(f"{letter}{'Rate' if rising else 'Latency'} against PEs; line: the best")
    axes.set_xlabel("PEs")
    labels = "frames per second", "latency, ms"
    axes.set_ylabel(labels[not rising])
    _colour_scale(axes, scale, dots, labels[rising])


def _far_apart(shades: NDArray[np.float64]) -> bool:
    """Whether values need a logarithmic scale of colours."""
    return bool(shades.max() > 4 * shades.min())


def _dots(axes: Axes, front: _Front, rising: bool) -> PathCollection:
    """Draw a dot for each plan; of plans at one place the better one lies on top."""
    from matplotlib.colors import LogNorm, Normalize

    values, shades = (front.rate, front.latency) if rising else (front.latency, front.rate)
    order = np.argsort(-shades if rising else shades)
    return axes.scatter(
        front.pes[order],
        values[order],
        c=shades[order],
        norm=(LogNorm if _far_apart(shades) else Normalize)(shades.min(), shades.max()),
        cmap="viridis_r" if rising else "viridis",
        s=float(np.clip(4000 / len(order), 6, 36)),
        edgecolors=GREY,
        linewidths=0.3,
        zorder=3,
    )


def _colour_scale(axes: Axes, scale: Axes | None, dots: PathCollection, label: str) -> None:
    """Say what the colours of dots mean, on axes of their own or beside the dots' axes."""
    from matplotlib.colorbar import Colorbar, make_axes
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

    if scale is None:
        scale, _ = make_axes(axes, fraction=0.05, pad=0.03)
    far = _far_apart(np.asarray(dots.get_array()))
    ticks = LogLocator(subs=(1, 2, 5)) if far else MaxNLocator()
    bar = Colorbar(scale, dots, ticks=ticks, format=FuncFormatter(lambda number, _: f"{number:,g}"))
    bar.minorticks_off()
    bar.outline.set_visible(False)
    scale.set_ylabel(label)


def _list(axes: Axes, front: _Front, plan: Plan | None) -> None:
    """List the numbered plans, with the PEs of all layers if a plan is given."""
    axes.set_axis_off()
    axes.set_title("(c) The numbered plans")
    axes.set_xlim(0, 1)
    axes.set_ylim(MAX_LISTED + 1.5, -0.5)
    digits = max(0, 2 - int(np.floor(np.log10(front.latency.min()))))
    lines = [("", "PEs", "frames/s", "latency, ms", "PEs of the layers" if plan else "")]
    for number, at in enumerate(front.listed):
        each = " ".join(str(share.pes) for share in plan.front[at].shares) if plan else ""
        pes, rate, latency = front.pes[at], front.rate[at], front.latency[at]
        lines.append((f"{number + 1}", f"{pes:,}", f"{rate:,.1f}", f"{latency:,.{digits}f}", each))
    for row, cells in enumerate(lines):
        for x, words in zip((0.07, 0.28, 0.6, 0.97, 1.06), cells, strict=True):
            side = "right" if x < 1 else "left"
            axes.text(x, row, words, ha=side, va="center", fontsize=8.5, color=INK if row else GREY)
