"""Pictures of a fusion plan: the graph in groups, what they move from and to DRAM, and one group over time.

Totals are the report's; what they consist of, and what operations alone would take, is the schedules'.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright import plotting
from tilewright.fusion.evaluation import decided_layouts
from tilewright.fusion.graph import engine_of
from tilewright.fusion.group.best_tile import TileChoice, best_tile, least_buffers
from tilewright.fusion.group.fused_group import FusedGroup
from tilewright.fusion.group.schedule import GroupSchedule
from tilewright.fusion.layouts import Decided
from tilewright.fusion.machine import CONV, ENGINES, HOST, MISC, POOL
from tilewright.fusion.measures import FusedGroupMeasures
from tilewright.fusion.plan import Group, Plan, Tile
from tilewright.fusion.problem import FusionLimits, Problem
from tilewright.fusion.summary import rows
from tilewright.plotting import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    PURPLE,
    SHEET_WIDTH,
    SKY,
    TENSORS,
    VERMILION,
    YELLOW,
    FactColumns,
    Sheet,
    axes_or_new,
    busy_share,
    byte_unit,
    colour_patches,
    common_prefix,
    dimensions,
    explain_colours,
    in_bytes,
    joined_names,
    leave_blank,
    relative_change,
    shortened,
    shortened_to_end,
    shortened_to_fit,
    size_in_inches,
    stack_bars,
    text_colour,
    text_width,
    tint,
)
from tilewright.plotting.layered_graph import Item, LayeredGraph, ranks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tilewright.simulator import Report

Numbers = NDArray[np.int64]

ACCEPTED = plotting.ACCEPTED
"""Suffixes of the files that `draw` writes."""

GROUPS = (BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY)
"""Colours of groups that neighbours do not share."""
OPERATIONS = (*GROUPS, "#332288", "#999933", "#882255", "#8A8A8A", YELLOW, INK)
"""Colours of the operations of one group."""
ALONE, EDGE = "#EDEDED", "#8A8A8A"
HULL = ((1.0, 8.1), (0.25, 6.5))
"""Shares of its colour in which a group is outlined and filled, and points around its operations."""
ISSUE = "#F4F4F4"
PALER = 0.45
"""How much of a colour is in its pale tint."""
SHAPES = {"convolution": CONV, "pooling": POOL, "other": MISC, "host": HOST}
LINES = {"stays on chip": (BLUE, 1.8), "through DRAM": (EDGE, 0.7)}
"""What shapes and lines mean."""

LEFT, GAP, MARGIN = 0.35, 0.5, 0.1
"""Inches left of the drawings, between them, and around the graph."""
BARS, NAMES, TIMES = 7.4, 2.75, 1.6
"""Inches of the panel of what groups move, of the names in it, and of how long they take."""
FACT_COLUMNS = FactColumns(pitch=6.8, label_width=0.75, max_length=92)
SIZES = ((8.5, 24, 5.5), (8.5, 22, 8.5), (7.5, 20, 8.5), (6.5, 18, 8.5), (6.0, 18, 11.0))
"""Points and characters of names, and inches of height: the first are taken whose graph is not wide."""
MAX_WIDTH, MAX_INCHES = 11.0, 80.0
"""Inches of a graph that is not wide, and of the largest one: what is larger is drawn smaller."""
MAX_ROWS = 64
"""Largest number of groups with rows of their own; those that move less are added up."""
LANE = 0.23
"""Inches of an engine over time."""


@plotting.style()
def sheet(problem: Problem, plan: Plan, report: Report, *, title: str | None = None) -> Figure:
    """Return the sheet of a plan; of one that breaks a rule, no more than its graph."""
    what = _described(problem)
    drawn = Drawing(problem, plan)
    key = drawn.key_height
    if report.violation is not None:
        page = Sheet(title or what, [what] if title else [], report)
        top = _create(page, max(SHEET_WIDTH, drawn.width + 2 * LEFT), key + drawn.height)
        _graph(page.axes(LEFT, top + key, drawn.width, drawn.height), problem, drawn)
        return page.figure
    labelled = rows(problem, report.measures)
    page = Sheet(title or what, [what] if title else [], report, labelled=labelled, columns=FACT_COLUMNS)
    moved = _Moved.of(problem, plan, drawn.groups.colours, report)
    runs = _Runs.of(problem, most_saved(problem, plan), decided_layouts(problem, plan))
    width = max(SHEET_WIDTH, LEFT + drawn.width + GAP + BARS + LEFT)
    height = max(key + drawn.height, moved.least_height) + 0.6
    top = _create(page, width, height + runs.height(width))
    _graph(page.axes(LEFT, top + key, drawn.width, drawn.height), problem, drawn)
    left = LEFT + drawn.width + GAP
    _traffic(page, left, top + 0.3, width - LEFT - left, height - 0.9, moved)
    _time(page, top + height, width, problem, runs, "(c) ")
    return page.figure


draw = plotting.writer(sheet)


@plotting.style()
def plot(problem: Problem, plan: Plan, report: Report, *, ax: Axes | None = None) -> Axes:
    """Draw what each group moves from and to DRAM, and above it what its operations move alone.

    Names of groups stand to the left of the axes, `NAMES` inches wide, and what they take to the right.

    See `core.room.Pictures.plot`.
    """
    title = "DRAM traffic of each group"
    if report.violation is not None:
        ax = axes_or_new(ax, 5.0, 2.0)
        leave_blank(ax, title, textwrap.fill(plotting.warning(report), 60))
        return ax
    moved = _Moved.of(problem, plan, Groups.of(problem, plan).colours, report)
    if ax is None:
        height = max(0.3 * len(moved.rows), 1.0)
        ax = axes_or_new(None, 4.5, height, left=NAMES + 0.2, right=TIMES + 0.2, above=0.7)
    _group_traffic(ax, moved)
    ax.set_title(title, pad=20)
    explain_colours(ax, PARTS.items())
    return ax


@plotting.style()
def timeline(
    problem: Problem, groups: Plan | Sequence[Group], path: str | Path, *, title: str | None = None
) -> None:
    """Draw when the engines work on groups, and on the same operations one after the other.

    Parameters
    ----------
    groups
        Of a plan, the group is drawn that saves the most cycles.
    title
        Heading; a description of the problem when left out.

    Raises
    ------
    InputError
        If the suffix is not one of `ACCEPTED` or the file cannot be written.
    """
    plotting.checked_suffix(path, ACCEPTED)
    chosen = [most_saved(problem, groups)] if isinstance(groups, Plan) else list(groups)
    layouts = decided_layouts(problem, groups) if isinstance(groups, Plan) else {}
    runs_of_groups = [_Runs.of(problem, group, layouts) for group in chosen]
    page = Sheet(title or _described(problem))
    height = sum(runs.height(SHEET_WIDTH) for runs in runs_of_groups) + 0.75 * (len(chosen) - 1)
    top = _create(page, SHEET_WIDTH, height)
    for runs in runs_of_groups:
        _time(page, top, SHEET_WIDTH, problem, runs)
        top += runs.height(SHEET_WIDTH) + 0.75
    page.save(path)


# Words -------------------------------------------------------------------------------------------------


def _described(problem: Problem) -> str:
    """Say what runs on what."""
    machine, count = problem.machine, len(problem.ops)
    hosted = sum(engine_of(op) == HOST for op in problem.ops)
    arrays = f"{machine.arrays} × " if machine.arrays > 1 else ""
    return (
        f"{count} operation{'s' * (count > 1)} of {problem.network.name or 'a network'}"
        f"{f', {hosted} of them for the host,' * bool(hosted)} on "
        f"{arrays}{dimensions(*machine.conv_array)} MACs, {machine.clock_mhz} MHz, "
        f"{machine.buffer_bytes / 1000:,.6g} kB on chip"
    )


def _create(page: Sheet, width: float, drawings: float) -> float:
    """Make a sheet for drawings of a height; return where they begin."""
    top = page.top + 0.1
    page.create(width, top + drawings + 0.55)
    return top


# The graph -----------------------------------------------------------------------------------------------


class Groups(NamedTuple):
    """The groups of a plan, as they are drawn.

    Attributes
    ----------
    members
        Numbers of the operations of each group; what a plan that breaks a rule has twice is in the first,
        what it leaves out is alone.
    of_op
        Number of the group of each operation.
    colours
        Of each group; that of operations alone is pale.
    """

    members: list[list[int]]
    of_op: list[int]
    colours: list[str]

    @classmethod
    def of(cls, problem: Problem, plan: Plan) -> Groups:
        """Return the groups of a plan, which may break rules."""
        numbers = {op.name: op.number for op in problem.ops}
        left = dict.fromkeys(numbers.values())
        members: list[list[int]] = []
        for group in plan.groups:
            nodes = [numbers[name] for name in dict.fromkeys(group.nodes) if numbers.get(name) in left]
            members.append(sorted(nodes))
            for number in nodes:
                del left[number]
        members += [[number] for number in left]
        of_op = [0] * len(problem.ops)
        for group_number, nodes in enumerate(members):
            for number in nodes:
                of_op[number] = group_number
        return cls(members, of_op, cls._colours(problem, members, of_op))

    @staticmethod
    def _colours(problem: Problem, members: Sequence[Sequence[int]], of_op: Sequence[int]) -> list[str]:
        """Choose a colour for each group of several operations, another one than those of its neighbours."""
        fused = [number for number, nodes in enumerate(members) if len(nodes) > 1]
        pairs = [
            (of_op[producer], of_op[op.number])
            for op in problem.ops
            for producer in op.producers
            if producer >= 0
        ]
        touching: list[set[int]] = [set() for _ in members]
        for one, other in [*pairs, *pairwise(fused)]:
            touching[one].add(other)
            touching[other].add(one)
        colours = [ALONE] * len(members)
        for turn, number in enumerate(fused):
            taken = {colours[other] for other in touching[number]}
            choices = [GROUPS[(turn + step) % len(GROUPS)] for step in range(len(GROUPS))]
            colours[number] = next((colour for colour in choices if colour not in taken), choices[0])
        return colours


class Drawing:
    """The graph of a problem with the groups of a plan, on as little paper as can be read.

    Attributes
    ----------
    groups
        The groups and their colours.
    layers
        Where all is.
    names
        Of the operations, as they are written.
    points, scale
        Size of names, and of all else.
    key, key_columns, key_height
        Which shapes and lines are explained, in how many columns, and the inches of that and of a title.
    """

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.groups = Groups.of(problem, plan)
        engines = {engine_of(op) for op in problem.ops}
        self.key = [words for words, engine in SHAPES.items() if engine in engines]
        several = max(map(len, self.groups.members)) > 1
        self.key += [words for words in LINES if "chip" not in words or several]
        producers = [op.producers for op in problem.ops]
        shared = len(common_prefix([op.name for op in problem.ops]))
        for self.points, max_length, height in SIZES:
            self.names = [shortened_to_end(op.name[shared:], max_length) for op in problem.ops]
            tall = self.points / 72 * 1.3 + 0.06
            wide = self.points / 72 * max(map(text_width, self.names)) + 0.22
            columns = -(-max(ranks(producers)) * 2 * tall // height)
            box, gap = (wide, tall), (0.17, 0.8 * tall)
            self.layers = LayeredGraph(producers, self.groups.of_op, int(columns), box, gap)
            if self.layers.width < MAX_WIDTH:
                break
        self.scale = min(1.0, MAX_INCHES / max(self.layers.width, self.layers.height))
        self.points *= self.scale
        self.width = max(self.scale * self.layers.width + 2 * MARGIN, 3.7)  # inches of the title
        self.height = self.scale * self.layers.height + 2 * MARGIN
        self.key_columns = max(2, int(self.width / 1.15))
        self.key_height = 0.34 + 0.19 * -(-len(self.key) // self.key_columns)


def _graph(axes: Axes, problem: Problem, drawn: Drawing) -> None:
    """Draw operations in groups; what stays on chip in their colours, what goes through DRAM in grey."""
    layers, groups = drawn.layers, drawn.groups
    wide, tall = layers.box
    axes.set_xlim(-MARGIN / drawn.scale, (drawn.width - MARGIN) / drawn.scale)
    axes.set_ylim((drawn.height - MARGIN) / drawn.scale, -MARGIN / drawn.scale)
    axes.set_axis_off()
    _edges(axes, drawn)
    _operations(axes, problem, drawn)
    for number, nodes in enumerate(groups.members):
        if len(nodes) > 1:
            first = layers.x[Item(nodes[0])] - 0.5 * wide, layers.y[layers.row[nodes[0]]] - 0.5 * tall
            _badge(axes, first, number, groups.colours[number], 0.85 * drawn.points)
    _key(axes, problem, drawn)


def _edges(axes: Axes, drawn: Drawing) -> None:
    """Draw what operations read, and below it hulls around groups."""
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path as Curve

    layers, groups = drawn.layers, drawn.groups
    curves = {segment: layers.curve(segment) for segment in layers.segments}
    outside = [curve for segment, curve in curves.items() if segment.group is None]
    for number, nodes in enumerate(groups.members):
        if len(nodes) < 2:
            continue
        ways = [curve for segment, curve in curves.items() if segment.group == number]
        ways += layers.links(nodes)
        bodies = [Curve(_outline(layers, node, CONV), closed=False) for node in nodes]
        for share, wider in HULL:
            pale = tint(groups.colours[number], share)
            style: dict[str, Any] = {"linewidths": wider * drawn.scale, "edgecolors": [pale], "zorder": 1}
            style |= {"joinstyle": "round", "capstyle": "round"}
            axes.add_collection(PathCollection(bodies, facecolors=[pale], **style))
            axes.add_collection(PathCollection(ways, facecolors="none", **style))
    axes.add_collection(
        PathCollection(outside, facecolors="none", edgecolors=EDGE, linewidths=0.7 * drawn.scale, zorder=2)
    )
    inside = [
        (curve, groups.colours[segment.group])
        for segment, curve in curves.items()
        if segment.group is not None
    ]
    axes.add_collection(
        PathCollection(
            [curve for curve, _ in inside],
            facecolors="none",
            edgecolors=[colour for _, colour in inside],
            linewidths=1.8 * drawn.scale,
            zorder=3,
        )
    )


def _operations(axes: Axes, problem: Problem, drawn: Drawing) -> None:
    """Draw the operations, their shapes telling their engines, and write their names."""
    from matplotlib.collections import PolyCollection

    layers, groups = drawn.layers, drawn.groups
    for op in problem.ops:
        colour = groups.colours[groups.of_op[op.number]]
        fused, hosted = colour != ALONE, engine_of(op) == HOST
        axes.add_collection(
            PolyCollection(
                [_outline(layers, op.number, engine_of(op))],
                facecolors=[tint(colour, PALER) if fused else "white" if hosted else ALONE],
                edgecolors=[colour if fused else GREY],
                linewidths=0.7 * drawn.scale,
                linestyles=["--" if hosted else "-"],
                zorder=4,
            )
        )
    for number, name in [*enumerate(drawn.names), (-1, "input")]:
        axes.text(
            layers.x[Item(number)],
            layers.y[layers.row[number]],
            name,
            ha="center",
            va="center_baseline",
            fontsize=drawn.points,
            zorder=5,
        )


def _key(axes: Axes, problem: Problem, drawn: Drawing) -> None:
    """Say above the graph what shapes and lines mean."""
    from matplotlib.lines import Line2D

    handles: list[Line2D] = []
    for words in drawn.key:
        if words in SHAPES:
            shape: dict[str, Any] = {"marker": _corners(0.6, 0.3, SHAPES[words]), "markersize": 13}
            shape |= {"markerfacecolor": "white" if SHAPES[words] == HOST else ALONE, "markeredgecolor": GREY}
            handles.append(Line2D([], [], linestyle="", label=words, **shape))
        else:
            handles.append(Line2D([], [], color=LINES[words][0], linewidth=LINES[words][1], label=words))
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=drawn.key_columns,
        fontsize=8,
        handletextpad=0.6,
    )
    members = drawn.groups.members
    hosted = sum(len(nodes) == 1 and engine_of(problem.ops[nodes[0]]) == HOST for nodes in members)
    fused = sum(len(nodes) > 1 for nodes in members)
    counts = [
        (fused, "fused group", ""),
        (len(members) - fused - hosted, "operation", " alone"),
        (hosted, "operation", " on the host"),
    ]
    counted = [f"{count} {what}{'s' * (count > 1)}{where}" for count, what, where in counts if count]
    axes.set_title(f"(a) The graph: {', '.join(counted)}", y=1 + (drawn.key_height - 0.3) / drawn.height)


def _outline(layers: LayeredGraph, number: int, engine: str) -> list[tuple[float, float]]:
    """Return the shape of an operation, which tells its engine."""
    x, y = layers.x[Item(number)], layers.y[layers.row[number]]
    return [(x + across, y + down) for across, down in _corners(*layers.box, engine)]


def _corners(width: float, height: float, engine: str) -> list[tuple[float, float]]:
    """Return the corners of an engine's shape around its middle, the first one again at the end."""
    wide, tall, cut = 0.5 * width, 0.5 * height, 0.25 * height
    if engine == POOL:  # narrower at its end
        corners = [(-wide, -tall), (wide, -tall), (wide - 1.5 * cut, tall), (1.5 * cut - wide, tall)]
    elif engine in (CONV, HOST):
        corners = [(-wide, -tall), (wide, -tall), (wide, tall), (-wide, tall)]
    else:
        edge = wide - cut
        corners = [(-wide, 0.0), (-edge, -tall), (edge, -tall), (wide, 0.0), (edge, tall), (-edge, tall)]
    return [*corners, corners[0]]


def _badge(
    axes: Axes, at: tuple[float, float], number: int, colour: str, points: float, transform: Any = None
) -> None:
    """Write the number of a group on its colour."""
    axes.text(
        *at,
        str(number + 1),
        transform=transform or axes.transData,
        ha="center",
        va="center_baseline",
        fontsize=points,
        fontweight="bold",
        color=text_colour(colour),
        bbox={"facecolor": colour, "edgecolor": "none", "boxstyle": "round,pad=0.14"},
        zorder=6,
    )


# Traffic with DRAM ---------------------------------------------------------------------------------------


PARTS = {"maps loaded": TENSORS["input"], "parameters": TENSORS["kernels"], "maps saved": TENSORS["output"]}
"""Of what traffic consists, and its colours."""


class _Row(NamedTuple):
    """What a group moves: bytes of each of `PARTS`, of its operations one by one and of the group.

    Attributes
    ----------
    number
        Of the group in the plan; None for what several groups move.
    time
        How long it takes, and the engine that limits it.
    """

    number: int | None
    words: str
    time: str
    colour: str
    before: Numbers
    after: Numbers


class _Moved(NamedTuple):
    """What all groups of a plan move."""

    rows: list[_Row]
    before: Numbers
    after: Numbers

    @classmethod
    def of(cls, problem: Problem, plan: Plan, colours: Sequence[str], report: Report) -> _Moved:
        numbers = {op.name: op.number for op in problem.ops}
        moved_by_key: dict[object, Numbers] = {}

        def moved(nodes: tuple[int, ...], tile: Tile) -> Numbers:
            fused = problem.fused(nodes)
            key = fused.key, tile
            if key not in moved_by_key:
                moved_by_key[key] = traffic_of(fused, tile)
            return moved_by_key[key]

        shown, executed = [], iter(report.measures.groups.values())
        for number, group in enumerate(plan.groups):
            if group.tile is None:
                continue
            time = _time_and_limit(next(executed))
            nodes = tuple(numbers[name] for name in group.nodes)
            alone = [moved((node,), _alone(problem, node).tile) for node in nodes]
            after = moved(nodes, group.tile)
            words, before = joined_names(group.nodes), np.sum(alone, axis=0)
            shown.append(_Row(number, words, time, colours[number], before, after))
        return cls(_largest(shown), *_sums(shown))

    @property
    def least_height(self) -> float:
        """Inches below which the rows cannot be read."""
        return 1.6 + 0.14 * len(self.rows)


def _time_and_limit(executed: FusedGroupMeasures) -> str:
    """Say how many cycles a group takes, and which engine is busy for most of them."""
    busy, cycles = executed.busy_cycles, executed.duration_cycles
    engine = max(busy, key=busy.__getitem__)
    return f"{cycles:,}  {engine} {100 * busy[engine] / cycles:.0f} %"


def _largest(moved: Sequence[_Row]) -> list[_Row]:
    """Keep the rows that move most, groups of several operations first; add up the others."""
    if len(moved) <= MAX_ROWS:
        return [*moved]
    order = sorted(moved, key=lambda row: (row.colour == ALONE, -int(max(row.before.sum(), row.after.sum()))))
    kept = [row for row in order[: MAX_ROWS - 1] if row.colour != ALONE] or order[: MAX_ROWS - 1]
    others = [row for row in moved if all(row is not other for other in kept)]
    kept.sort(key=lambda row: row.number or 0)
    return [*kept, _Row(None, f"{len(others)} other groups", "", GREY, *_sums(others))]


def _sums(moved: Sequence[_Row]) -> tuple[Numbers, Numbers]:
    before: Numbers = np.sum([row.before for row in moved], axis=0)
    after: Numbers = np.sum([row.after for row in moved], axis=0)
    return before, after


def traffic_of(fused: FusedGroup, tile: Tile) -> Numbers:
    """Return the bytes of each of `PARTS` that a group moves."""
    machine = fused.machine
    moved = np.zeros(len(PARTS), dtype=np.int64)
    for i in GroupSchedule(fused, tile).instructions():
        channels = i.channels[1] - i.channels[0]
        plane = (i.rows[1] - i.rows[0]) * (i.columns[1] - i.columns[0])
        if i.what == "fetch":
            moved[1] += channels * fused.parameters(i.feature, i.summed)
        elif i.what in ("load", "save"):
            moved[0 if i.what == "load" else 2] += machine.arrays * channels * plane
    return moved * machine.element_bytes


def _alone(problem: Problem, number: int) -> TileChoice:
    """Return what an operation costs alone, with its best tile.

    If the limits and buffers leave it none, it is that of any halo, or in buffers that are large enough.
    """
    choice = best_tile(problem, (number,))
    if choice is None:
        free = problem.model_copy(update={"limits": FusionLimits()})
        choice = best_tile(free, (number,))
    if choice is None:
        sizes = {f"{name}_bytes": size for name, size in least_buffers(free, (number,)).items()}
        larger = free.machine.model_copy(update=sizes)
        choice = best_tile(free.model_copy(update={"machine": larger}), (number,))
    assert choice is not None  # `least_buffers` is
    return choice


def _traffic(page: Sheet, left: float, top: float, width: float, height: float, moved: _Moved) -> None:
    """Draw what each group moves, below what all of them do: operations alone above the plan."""
    wide, under = width - NAMES - TIMES - 0.1, 1.05
    axes = page.axes(left + NAMES, top, wide, 0.5)
    _total_traffic(axes, moved)
    axes.set_title("(b) DRAM traffic of all groups, and of each", x=-NAMES / wide)
    count = len(moved.rows)
    pitch = min(0.42, (height - under) / count)
    _group_traffic(page.axes(left + NAMES, top + under, wide, pitch * count), moved)


def _total_traffic(axes: Axes, moved: _Moved) -> None:
    """Draw what all groups move together."""
    style: dict[str, Any] = {"va": "center_baseline", "fontsize": 8}
    for row, (label, parts) in enumerate((("layer by layer", moved.before), ("as planned", moved.after))):
        total, planned = int(parts.sum()), row > 0
        _stack_parts(axes, row, 0.78, parts, 1.0 if planned else PALER)
        words = " " + in_bytes(total)
        if planned:
            words += f", {relative_change(int(moved.before.sum()), total)}"
        axes.text(total, row, words, fontweight="bold" if planned else "normal", **style)
        axes.text(-0.02, row, label, transform=axes.get_yaxis_transform(), ha="right", **style)
    axes.set_xlim(0, 1.35 * max(int(moved.before.sum()), int(moved.after.sum()), 1))
    axes.set_ylim(1.6, -0.6)
    axes.set_axis_off()
    handles = colour_patches(PARTS.items())
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(0, -0.04), ncols=3, fontsize=8)


def _group_traffic(axes: Axes, moved: _Moved) -> None:
    """Draw what each group moves, in a row of its own, and write names to the left."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    wide, height = size_in_inches(axes)
    count = len(moved.rows)
    points = min(8.0, 58 * height / count)
    shown = [row for row in moved.rows if row.number is not None]
    before, after = np.array([row.before for row in shown]), np.array([row.after for row in shown])
    _stack_parts(axes, np.arange(len(shown)) - 0.2, 0.34, before, PALER)
    _stack_parts(axes, np.arange(len(shown)) + 0.2, 0.34, after, 1.0)
    longest = np.maximum(before.sum(axis=1), after.sum(axis=1)).tolist()
    style: dict[str, Any] = {"va": "center_baseline", "fontsize": points}
    across = axes.get_yaxis_transform()
    for at, row in enumerate(moved.rows):
        name = shortened_to_fit(row.words, NAMES - 0.47, points)
        axes.text(-0.08 / wide, at, name, transform=across, ha="right", **style)
        if row.number is not None and row.colour != ALONE:
            _badge(axes, ((0.12 - NAMES) / wide, at), row.number, row.colour, points - 0.5, across)
        total, planned = int(row.before.sum()), int(row.after.sum())
        if row.number is None:
            words = f" {in_bytes(total)} layer by layer, {in_bytes(planned)} as planned"
            axes.text(0, at, words, **style)
        elif (row.before != row.after).any():
            axes.text(longest[at], at, " " + relative_change(total, planned), **style)
        axes.text(1 + TIMES / wide, at, row.time, transform=across, ha="right", **style)
    unit_bytes, unit = byte_unit(max(longest))
    axes.set_xlim(0, 1.16 * max(*longest, 1))
    axes.set_ylim(count - 0.5, -0.5)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=PALE, linewidth=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / unit_bytes:g}"))
    axes.set_xlabel(f"{unit}; pale: each operation alone, with its best tile", loc="left")
    axes.text(
        1 + TIMES / wide,
        -0.75,
        "cycles, busiest engine",
        transform=across,
        ha="right",
        va="bottom",
        fontsize=8,
        color=GREY,
    )


def _stack_parts(axes: Axes, y: Any, height: float, parts: Numbers, share: float) -> None:
    """Draw a bar, or one for each row of `parts`, in colours of which a share is mixed with white."""
    colours = [tint(colour, share) for colour in PARTS.values()]
    stack_bars(axes, y, zip(parts.T, colours, strict=True), height=height)


# Over time -----------------------------------------------------------------------------------------------


class _Work(NamedTuple):
    """What engines do for a group: numbers of operations and engines, and whether it is about parameters."""

    cycles: int
    operation: Numbers
    engine: Numbers
    parameters: NDArray[np.bool_]
    start: Numbers
    finish: Numbers

    @classmethod
    def of(cls, fused: FusedGroup, tile: Tile, first: int = 0) -> _Work:
        """Return the work of a group, whose operations are numbered from the first."""
        schedule = GroupSchedule(fused, tile)
        table = []
        for i in schedule.instructions():
            if i.engine is None:
                continue
            # What is loaded belongs to its first reader.
            owner = fused.readers[i.feature][0] if i.what == "load" else i.feature
            operation = first + owner - fused.loaded
            table.append((operation, ENGINES.index(i.engine), i.what == "fetch", i.start, i.finish))
        operation, engine, parameters, start, finish = np.array(table, dtype=np.int64).T
        return cls(schedule.cycles, operation, engine, parameters > 0, start, finish)

    @property
    def used(self) -> set[int]:
        """Numbers of the engines that work at all."""
        return set(self.engine.tolist())

    def busy(self, engine: int) -> int:
        """Cycles that an engine works."""
        chosen = self.engine == engine
        return int((self.finish - self.start)[chosen].sum())


class _Runs(NamedTuple):
    """The work of a group, and of each of its operations alone."""

    names: tuple[str, ...]
    fused: _Work
    alone: list[_Work]

    @classmethod
    def of(cls, problem: Problem, group: Group, layouts: Decided) -> _Runs:
        assert group.tile is not None
        numbers = {op.name: op.number for op in problem.ops}
        nodes = [numbers[name] for name in group.nodes]
        fused = _Work.of(problem.fused(nodes, layouts), group.tile)
        alone = [
            _Work.of(problem.fused([number]), _alone(problem, number).tile, first)
            for first, number in enumerate(nodes)
        ]
        return cls(group.nodes, fused, alone)

    @property
    def before(self) -> int:
        """Cycles of all operations, one after the other."""
        return sum(work.cycles for work in self.alone)

    @property
    def engines(self) -> list[int]:
        """Numbers of the engines that work at all."""
        return sorted(set().union(*(work.used for work in (self.fused, *self.alone))))

    @property
    def several(self) -> bool:
        """Whether the group has several operations."""
        return len(self.names) > 1

    @property
    def until(self) -> int:
        """Cycles of the longer run that is drawn."""
        return max(self.before, self.fused.cycles) if self.several else self.fused.cycles

    def height(self, width: float) -> float:
        """Return the inches that `_time` takes on a sheet of a width."""
        lanes = (1 + self.several) * LANE * len(self.engines)
        return self.legend_height(width - LEFT - 1.1) + lanes + 0.12 * self.several

    def legend_height(self, width: float) -> float:
        """Return the inches of a title, and of the names of operations below it."""
        return 0.42 + 0.17 * -(-(len(self.names) + 2) // self.legend_columns(width))

    def legend_columns(self, width: float) -> int:
        """Return how many names of operations stand side by side."""
        names = [shortened_to_end(name, 30) for name in [*self.names, "parameters: pale"]]
        return max(1, int(width / (8 / 72 * max(map(text_width, names)) + 0.35)))


def most_saved(problem: Problem, plan: Plan) -> Group:
    """Return the group that saves the most cycles; without groups of several operations, the longest one."""
    numbers, layouts = {op.name: op.number for op in problem.ops}, decided_layouts(problem, plan)

    def fused_and_cycles(group: Group) -> tuple[bool, int]:
        assert group.tile is not None
        nodes = [numbers[name] for name in group.nodes]
        cycles = GroupSchedule(problem.fused(nodes, layouts), group.tile).cycles
        if len(nodes) == 1:
            return False, cycles
        return True, sum(_alone(problem, number).cycles for number in nodes) - cycles

    return max((group for group in plan.groups if group.tile is not None), key=fused_and_cycles)


def _time(page: Sheet, top: float, width: float, problem: Problem, runs: _Runs, letter: str = "") -> None:
    """Draw when engines work on the operations of a group: alone, one after the other, and fused."""
    left, right = LEFT + 1.1, 0.85
    legend = runs.legend_height(width - left)
    height = LANE * len(runs.engines)
    drawn = [("", [runs.fused])]
    if runs.several:
        drawn = [("one after\nthe other", runs.alone), ("fused", [runs.fused])]
    for number, (words, works) in enumerate(drawn):
        down = top + legend + number * (height + 0.12)
        axes = page.axes(left, down, width - left - right, height)
        _draw_run(axes, problem, runs, works, last=number == len(drawn) - 1)
        axes.annotate(
            words,
            (0, 0.5),
            xycoords="axes fraction",
            xytext=(-72 * (left - LEFT), 0),
            textcoords="offset points",
            va="center",
            fontweight="bold",
            fontsize=8.5,
        )
        if number == 0:
            x, y = -(left - LEFT) / (width - left - right), 1 + (legend - 0.2) / height
            axes.set_title(_time_title(problem, runs, letter), x=x, y=y)
            _time_legend(axes, problem, runs, runs.legend_columns(width - left), height)


def _draw_run(axes: Axes, problem: Problem, runs: _Runs, works: Sequence[_Work], *, last: bool) -> None:
    """Draw what engines do for some works, one after the other; the last axes say what is on theirs."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    milliseconds = problem.machine.milliseconds(runs.until)
    factor, unit = (1.0, "ms") if milliseconds >= 0.5 else (1e3, "µs")
    scale = factor * milliseconds / runs.until
    offset = 0
    for work in works:
        _lanes(axes, problem, work, runs.engines, scale, runs.until, offset)
        offset += work.cycles
        axes.axvline(offset * scale, color=INK, linewidth=0.8, linestyle=(0, (3, 2)))
    across = axes.get_yaxis_transform()
    for row, engine in enumerate(runs.engines):
        words = busy_share(sum(work.busy(engine) for work in works) / offset)
        axes.text(1.006, row, words, transform=across, va="center_baseline", fontsize=8, color=GREY)
    axes.set_ylim(len(runs.engines) - 0.45, -0.55)
    axes.set_xlim(0, runs.until * scale * 1.001)
    axes.set_yticks(range(len(runs.engines)), [ENGINES[engine] for engine in runs.engines])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=PALE, linewidth=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=12))
    if last:
        axes.set_xlabel(f"{unit}; what is too short to be drawn one by one is as high as the engine is busy")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    else:
        axes.tick_params(axis="x", labelbottom=False)


def _time_legend(axes: Axes, problem: Problem, runs: _Runs, columns: int, height: float) -> None:
    """Say above the first axes, which are `height` inches high, what colours mean."""
    from matplotlib.patches import Patch

    names = [shortened_to_end(name, 30) for name in runs.names]
    handles = colour_patches(zip(names, _cycled(len(names)), strict=True))
    if any(work.parameters.any() for work in (runs.fused, *runs.alone)):
        handles.append(Patch(color="#BBBBBB", label="parameters: pale"))
    if problem.machine.issue_cycles:
        handles.append(Patch(facecolor=ISSUE, edgecolor="#CCCCCC", hatch="////", label="issue"))
    anchor = (0, 1 + 0.06 / height)
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=anchor, ncols=columns, fontsize=8)


def _time_title(problem: Problem, runs: _Runs, letter: str) -> str:
    def duration(cycles: int) -> str:
        return f"{problem.machine.milliseconds(cycles):.3g} ms"

    names = shortened(joined_names(runs.names), 90)
    if len(runs.names) == 1:
        return f"{letter}{names}: {duration(runs.fused.cycles)}"
    faster = runs.before / runs.fused.cycles
    return (
        f"{letter}{names}: {duration(runs.before)} one after the other, {duration(runs.fused.cycles)} fused, "
        f"{faster:.2f} times as fast"
    )


def _cycled(count: int) -> list[str]:
    return [OPERATIONS[number % len(OPERATIONS)] for number in range(count)]


class _Span(NamedTuple):
    """From when until when an engine works, for which share of that, and whether in several short spans."""

    begin: int
    end: int
    share: float
    joined: bool


def _lanes(
    axes: Axes, problem: Problem, work: _Work, engines: Sequence[int], scale: float, until: int, offset: int
) -> None:
    """Draw what each engine does from a cycle on, what is too short to be told apart as one low bar."""
    from matplotlib.collections import PolyCollection

    if issue := problem.machine.issue_cycles:
        begin, end = offset * scale, (offset + issue) * scale
        axes.axvspan(begin, end, facecolor=ISSUE, edgecolor=PALE, hatch="////", linewidth=0)
    pixel = until / axes.bbox.width
    bars: list[tuple[float, list[tuple[float, float]], tuple[float, ...], bool]] = []
    for row, engine in enumerate(engines):
        for operation, colour in enumerate(_cycled(int(work.operation.max()) + 1)):
            for parameters in (False, True):
                chosen = (
                    (work.engine == engine) & (work.operation == operation) & (work.parameters == parameters)
                )
                fill = tint(colour, PALER if parameters else 1.0)
                for span in _spans(work.start[chosen], work.finish[chosen], pixel):
                    left, right = (offset + span.begin) * scale, (offset + span.end) * scale
                    low, high = row + 0.4, row + 0.4 - 0.8 * span.share
                    corners = [(left, low), (right, low), (right, high), (left, high)]
                    parted = not span.joined and span.end - span.begin > 10 * pixel
                    bars.append((span.share, corners, fill, parted))
    bars.sort(key=lambda bar: -bar[0])  # low ones in front
    # White edges part what follows on each other, but would hide what is short.
    edges = ["white" if parted else fill for _, _, fill, parted in bars]
    boxes, fills = [bar[1] for bar in bars], [bar[2] for bar in bars]
    axes.add_collection(PolyCollection(boxes, facecolors=fills, edgecolors=edges, linewidths=0.4, zorder=3))


def _spans(begins: Numbers, ends: Numbers, pixel: float) -> Iterator[_Span]:
    """Join spans that are too short to be told apart."""
    first = last = busy = 0
    joins = False
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        short = end - begin <= 2 * pixel
        if busy and not (short and joins and begin - last <= 1.5 * pixel and last - first <= 12 * pixel):
            yield _Span(first, last, busy / (last - first), joins)
            busy = 0
        first = first if busy else begin
        last, joins = end, short
        busy += end - begin
    if busy:
        yield _Span(first, last, busy / (last - first), joins)
