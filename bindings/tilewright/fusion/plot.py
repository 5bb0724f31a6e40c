"""Pictures of a fusion plan: the graph in groups, what they move from and to DRAM, and one group over time.

Totals are the report's; what they consist of, and what operations alone would take, is the schedules'.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from tilewright import plotting
from tilewright.fusion.fused_group import FusedGroup
from tilewright.fusion.machine import CONV, ENGINES, HOST, MISC, POOL
from tilewright.fusion.plan import Group, Plan, Tile
from tilewright.fusion.problem import Problem
from tilewright.fusion.schedule import GroupSchedule
from tilewright.fusion.summary import rows
from tilewright.fusion.tiles import Choice, best
from tilewright.plotting import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    PURPLE,
    SKY,
    TENSORS,
    VERMILION,
    YELLOW,
    shortened,
    text_colour,
    text_width,
)
from tilewright.plotting.layered_graph import Item, LayeredGraph, Segment

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
LEAST_WIDTH, BARS = 13.0, 6.1
"""Inches of the sheet, and of the panel of what groups move."""
SIZES = ((8.5, 24, 5.5), (8.5, 22, 8.5), (7.5, 20, 8.5), (6.5, 18, 8.5), (6.0, 18, 11.0))
"""Points and characters of names, and inches of height: the first are taken whose graph is not wide."""
MOST_WIDTH, MOST_INCHES = 11.0, 80.0
"""Inches of a graph that is not wide, and of the largest one: what is larger is drawn smaller."""
MOST_ROWS = 64
"""Most groups that are drawn in rows of their own; those that move less are added up."""
LANE = 0.23
"""Inches of an engine over time."""


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
    """Return the sheet of a plan; of one that breaks a rule, no more than its graph."""
    what = _described(problem)
    lines = plotting.heading(title or what, [what] if title else [], report)
    drawn = Drawing(problem, plan)
    key = drawn.key_height
    if report.violation is not None:
        figure, top = _headed(lines, (), max(LEAST_WIDTH, drawn.width + 2 * LEFT), key + drawn.height)
        _graph(plotting.place(figure, LEFT, top + key, drawn.width, drawn.height), problem, drawn)
        return figure
    moved = _Moved.of(problem, plan, drawn.colours)
    runs = _runs(problem, most_saved(problem, plan))
    width = max(LEAST_WIDTH, LEFT + drawn.width + GAP + BARS + LEFT)
    tall = max(key + drawn.height, moved.least_height) + 0.6
    figure, top = _headed(
        lines, rows(problem, {"facts": report.facts}), width, tall + _time_height(runs, width)
    )
    _graph(plotting.place(figure, LEFT, top + key, drawn.width, drawn.height), problem, drawn)
    left = LEFT + drawn.width + GAP
    _traffic(figure, left, top + 0.3, width - LEFT - left, tall - 0.9, moved)
    _time(figure, top + tall, width, problem, runs, "(c) ")
    return figure


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
    plotting.suffix(path, ACCEPTED)
    chosen = [most_saved(problem, groups)] if isinstance(groups, Plan) else list(groups)
    told = [_runs(problem, group) for group in chosen]
    lines = [(words, 0.26, 12.5, "bold", INK) for words in [title or _described(problem)]]
    figure, top = _headed(
        lines, (), LEAST_WIDTH, sum(_time_height(runs, LEAST_WIDTH) for runs in told) + 0.75 * (len(told) - 1)
    )
    for runs in told:
        _time(figure, top, LEAST_WIDTH, problem, runs)
        top += _time_height(runs, LEAST_WIDTH) + 0.75
    plotting.save(figure, path)


# Words -------------------------------------------------------------------------------------------------


def _described(problem: Problem) -> str:
    """Say what runs on what."""
    machine, count = problem.machine, len(problem.ops)
    arrays = f"{machine.arrays} × " if machine.arrays > 1 else ""
    return (
        f"{count} operation{'s' * (count > 1)} of {problem.network.name or 'a network'} on "
        f"{arrays}{plotting.times(*machine.conv_array)} MACs, {machine.clock_mhz} MHz, "
        f"{machine.buffer_bytes / 1000:,.6g} kB on chip"
    )


def _headed(
    lines: Sequence[plotting.Line], told: Sequence[tuple[str, str]], width: float, tall: float
) -> tuple[Figure, float]:
    """Return a figure with its heading and labelled lines below it, and where drawings of a height begin."""
    start, half = plotting.heading_height(lines), -(-len(told) // 2)
    top = start + 0.2 * half + 0.1
    height = top + tall + 0.55
    figure = plotting.new_figure(width, height)
    plotting.write_heading(figure, lines)
    for number, (label, words) in enumerate(told):
        column, row = divmod(number, half)
        x, y = 0.3 + 6.8 * column, 1 - (start + 0.2 * row) / height
        figure.text(x / width, y, label, va="center", color=GREY)
        figure.text((x + 0.75) / width, y, shortened(words, 92), va="center")
    return figure, top


def _tint(colour: str, share: float) -> tuple[float, ...]:
    """Return a colour mixed with white."""
    from matplotlib.colors import to_rgb

    return tuple(1 - share * (1 - part) for part in to_rgb(colour))


def _ending(name: str, most: int) -> str:
    """Return the end of a name, which tells more than its beginning, if possible in whole parts."""
    if len(name) <= most:
        return name
    parts = (match.start() for match in re.finditer(r"[^\W_]+", name))
    return "…" + name[next((at for at in parts if 0.6 * most < len(name) - at < most), 1 - most) :]


# The graph -----------------------------------------------------------------------------------------------


class Drawing:
    """The graph of a problem with the groups of a plan, on as little paper as can be read.

    Attributes
    ----------
    layers
        Where all is.
    points, scale
        Size of names, and of all else.
    groups
        Numbers of the operations of each group; what a plan that breaks a rule has twice is in the first,
        what it leaves out is alone.
    colours
        Of each group; that of operations alone is pale.
    key, key_columns, key_height
        What is told of shapes and lines, in how many columns, and the inches of it and of a title.
    """

    def __init__(self, problem: Problem, plan: Plan) -> None:
        numbers = {op.name: op.number for op in problem.ops}
        left = dict.fromkeys(numbers.values())
        self.groups: list[list[int]] = []
        for group in plan.groups:
            nodes = [numbers[name] for name in dict.fromkeys(group.nodes) if numbers.get(name) in left]
            self.groups.append(sorted(nodes))
            for number in nodes:
                del left[number]
        self.groups += [[number] for number in left]
        self.group_of = [0] * len(problem.ops)
        for place, nodes in enumerate(self.groups):
            for number in nodes:
                self.group_of[number] = place
        self.colours = self._colours(problem)
        engines = {op.engine for op in problem.ops}
        self.key = [words for words, engine in SHAPES.items() if engine in engines]
        self.key += [words for words in LINES if "chip" not in words or max(map(len, self.groups)) > 1]
        for self.points, most, height in SIZES:
            self.names = [_ending(op.name, most) for op in problem.ops]
            tall = self.points / 72 * 1.3 + 0.06
            wide = self.points / 72 * max(map(text_width, self.names)) + 0.22
            ranks = nx.dag_longest_path_length(problem.graph.reads) + 1
            columns = -(-ranks * 2 * tall // height)
            self.layers = LayeredGraph(
                [op.producers for op in problem.ops],
                self.group_of,
                int(columns),
                (wide, tall),
                (0.17, 0.8 * tall),
            )
            if self.layers.width < MOST_WIDTH:
                break
        self.scale = min(1.0, MOST_INCHES / max(self.layers.width, self.layers.height))
        self.points *= self.scale
        self.width = max(self.scale * self.layers.width + 2 * MARGIN, 3.7)  # inches of the title
        self.height = self.scale * self.layers.height + 2 * MARGIN
        self.key_columns = max(2, int(self.width / 1.15))
        self.key_height = 0.34 + 0.19 * -(-len(self.key) // self.key_columns)

    def _colours(self, problem: Problem) -> list[str]:
        """Choose a colour for each group of several operations, another one than those of its neighbours."""
        touching = nx.Graph()
        touching.add_nodes_from(range(len(self.groups)))
        touching.add_edges_from(
            (self.group_of[producer], self.group_of[op.number])
            for op in problem.ops
            for producer in op.producers
            if producer >= 0
        )
        fused = [place for place, nodes in enumerate(self.groups) if len(nodes) > 1]
        touching.add_edges_from(pairwise(fused))
        colours = [ALONE] * len(self.groups)
        for turn, place in enumerate(fused):
            taken = {colours[other] for other in touching[place]}
            choices = [GROUPS[(turn + step) % len(GROUPS)] for step in range(len(GROUPS))]
            colours[place] = next((colour for colour in choices if colour not in taken), choices[0])
        return colours


def _graph(axes: Axes, problem: Problem, drawn: Drawing) -> None:
    """Draw operations in groups; what stays on chip in their colours, what goes through DRAM in grey."""
    axes.set_xlim(-MARGIN / drawn.scale, (drawn.width - MARGIN) / drawn.scale)
    axes.set_ylim((drawn.height - MARGIN) / drawn.scale, -MARGIN / drawn.scale)
    axes.set_axis_off()
    curves = {segment: drawn.layers.curve(segment) for segment in drawn.layers.segments}
    _hulls(axes, drawn, curves)
    _edges(axes, drawn, curves)
    _operations(axes, problem, drawn)
    _badges(axes, drawn)
    _key(axes, drawn)


def _hulls(axes: Axes, drawn: Drawing, curves: Mapping[Segment, Any]) -> None:
    """Draw what encloses each group of several operations."""
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path as Curve

    layers = drawn.layers
    for group, nodes in enumerate(drawn.groups):
        if len(nodes) < 2:
            continue
        ways = [curve for segment, curve in curves.items() if segment.group == group]
        ways += layers.links(nodes)
        bodies = [Curve(_outline(layers, number, CONV), closed=False) for number in nodes]
        for tint, wider in ((_tint(drawn.colours[group], share), wider) for share, wider in HULL):
            style: dict[str, Any] = {"linewidths": wider * drawn.scale, "edgecolors": [tint], "zorder": 1}
            style |= {"joinstyle": "round", "capstyle": "round"}
            axes.add_collection(PathCollection(bodies, facecolors=[tint], **style))
            axes.add_collection(PathCollection(ways, facecolors="none", **style))


def _edges(axes: Axes, drawn: Drawing, curves: Mapping[Segment, Any]) -> None:
    """Draw what goes through DRAM, and what stays on chip above it."""
    from matplotlib.collections import PathCollection

    outside = [curve for segment, curve in curves.items() if segment.group is None]
    inside = [
        (curve, drawn.colours[segment.group])
        for segment, curve in curves.items()
        if segment.group is not None
    ]
    axes.add_collection(
        PathCollection(outside, facecolors="none", edgecolors=EDGE, linewidths=0.7 * drawn.scale, zorder=2)
    )
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
    """Draw each operation in the shape of its engine, with its name."""
    from matplotlib.collections import PolyCollection

    layers = drawn.layers
    for op in problem.ops:
        colour = drawn.colours[drawn.group_of[op.number]]
        fused = colour != ALONE
        axes.add_collection(
            PolyCollection(
                [_outline(layers, op.number, op.engine)],
                facecolors=[_tint(colour, PALER) if fused else "white" if op.engine == HOST else ALONE],
                edgecolors=[colour if fused else GREY],
                linewidths=0.7 * drawn.scale,
                linestyles=["--" if op.engine == HOST else "-"],
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


def _badges(axes: Axes, drawn: Drawing) -> None:
    """Write the number of each group of several operations beside it."""
    layers = drawn.layers
    wide, tall = layers.box
    for group, nodes in enumerate(drawn.groups):
        if len(nodes) > 1:
            corner = layers.x[Item(nodes[0])] - 0.5 * wide, layers.y[layers.row[nodes[0]]] - 0.5 * tall
            _badge(axes, corner, group, drawn.colours[group], 0.85 * drawn.points)


def _key(axes: Axes, drawn: Drawing) -> None:
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
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1.0), "ncols": drawn.key_columns}
    axes.legend(handles=handles, fontsize=8, handletextpad=0.6, **place)
    fused = sum(len(nodes) > 1 for nodes in drawn.groups)
    alone = len(drawn.groups) - fused
    counts = [(fused, "group"), (alone, "operation")]
    told = [
        f"{count} {what}{'s' * (count > 1)}" + " alone" * (what == "operation")
        for count, what in counts
        if count
    ]
    axes.set_title(f"(a) The graph: {', '.join(told)}", y=1 + (drawn.key_height - 0.3) / drawn.height)


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
    axes: Axes, place: tuple[float, float], number: int, colour: str, points: float, transform: Any = None
) -> None:
    """Write the number of a group on its colour."""
    axes.text(
        *place,
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
    place
        Of the group in the plan; None for what several groups move.
    """

    place: int | None
    words: str
    colour: str
    before: Numbers
    after: Numbers


class _Moved(NamedTuple):
    """What all groups of a plan move."""

    rows: list[_Row]
    before: Numbers
    after: Numbers

    @classmethod
    def of(cls, problem: Problem, plan: Plan, colours: Sequence[str]) -> _Moved:
        numbers = {op.name: op.number for op in problem.ops}
        known: dict[object, Numbers] = {}

        def moved(nodes: tuple[int, ...], tile: Tile) -> Numbers:
            fused = problem.fused(nodes)
            key = fused.key, tile
            if key not in known:
                known[key] = traffic_of(fused, tile)
            return known[key]

        found = []
        for place, group in enumerate(plan.groups):
            if group.tile is None:
                continue
            nodes = tuple(numbers[name] for name in group.nodes)
            alone = [moved((number,), _alone(problem, number).tile) for number in nodes]
            after = moved(nodes, group.tile)
            found.append(_Row(place, " + ".join(group.nodes), colours[place], np.sum(alone, axis=0), after))
        return cls(_most(found), *_sums(found))

    @property
    def least_height(self) -> float:
        """Inches below which the rows cannot be read."""
        return 1.5 + 0.14 * len(self.rows)


def _most(found: Sequence[_Row]) -> list[_Row]:
    """Keep the rows that move most, groups of several operations first; add up the others."""
    if len(found) <= MOST_ROWS:
        return [*found]
    order = sorted(found, key=lambda row: (row.colour == ALONE, -int(max(row.before.sum(), row.after.sum()))))
    kept = [row for row in order[: MOST_ROWS - 1] if row.colour != ALONE] or order[: MOST_ROWS - 1]
    others = [row for row in found if all(row is not other for other in kept)]
    kept.sort(key=lambda row: row.place or 0)
    return [*kept, _Row(None, f"{len(others)} other groups", GREY, *_sums(others))]


def _sums(found: Sequence[_Row]) -> tuple[Numbers, Numbers]:
    before: Numbers = np.sum([row.before for row in found], axis=0)
    after: Numbers = np.sum([row.after for row in found], axis=0)
    return before, after


def traffic_of(fused: FusedGroup, tile: Tile) -> Numbers:
    """Return the bytes of each of `PARTS` that a group moves."""
    machine = fused.machine
    found = np.zeros(len(PARTS), dtype=np.int64)
    for i in GroupSchedule(fused, tile).instructions():
        channels = i.channels[1] - i.channels[0]
        plane = (i.rows[1] - i.rows[0]) * (i.columns[1] - i.columns[0])
        if i.what == "fetch":
            found[1] += channels * fused.parameters(i.feature, i.summed)
        elif i.what in ("load", "save"):
            found[0 if i.what == "load" else 2] += machine.arrays * channels * plane
    return found * machine.element_bytes


def _alone(problem: Problem, number: int) -> Choice:
    """Return what an operation costs alone, with its best tile."""
    found = best(problem, (number,))
    assert found is not None  # or the problem would have been refused
    return found


def _traffic(figure: Figure, left: float, top: float, width: float, tall: float, moved: _Moved) -> None:
    """Draw what each group moves, below what all of them do: operations alone above the plan."""
    from matplotlib.patches import Patch

    words, wide, under = 2.75, width - 3.1, 0.95
    axes = plotting.place(figure, left + words, top, wide, 0.5)
    for place, (label, parts) in enumerate((("layer by layer", moved.before), ("as planned", moved.after))):
        _stack(axes, np.array([place]), 0.78, parts[None], 1.0 if place else PALER)
        told = " " + _bytes(int(parts.sum())) + (f", {_change(moved.before, parts)}" if place else "")
        style: dict[str, Any] = {"va": "center_baseline", "fontsize": 8}
        axes.text(int(parts.sum()), place, told, fontweight="bold" if place else "normal", **style)
        axes.text(-0.02, place, label, transform=axes.get_yaxis_transform(), ha="right", **style)
    axes.set_xlim(0, 1.35 * max(int(moved.before.sum()), int(moved.after.sum()), 1))
    axes.set_ylim(1.6, -0.6)
    axes.set_axis_off()
    axes.set_title("(b) DRAM traffic of all groups, and of each", x=-words / wide)
    handles = [Patch(color=colour, label=part) for part, colour in PARTS.items()]
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(0, -0.04), ncols=3, fontsize=8)

    count = len(moved.rows)
    pitch = min(0.42, (tall - under) / count)
    axes = plotting.place(figure, left + words, top + under, wide, pitch * count)
    _moved_rows(axes, moved, words, wide, min(8.0, 58 * pitch))


def _moved_rows(axes: Axes, moved: _Moved, words: float, wide: float, points: float) -> None:
    """Draw what each group moves: `wide` inches of bars, left of them `words` inches of names."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    shown = moved.rows if moved.rows[-1].place is not None else moved.rows[:-1]
    before, after = (np.array([row[at] for row in shown]) for at in (3, 4))
    _stack(axes, np.arange(len(shown)) - 0.2, 0.34, before, PALER)
    _stack(axes, np.arange(len(shown)) + 0.2, 0.34, after, 1.0)
    longest = np.maximum(before.sum(axis=1), after.sum(axis=1)).tolist()
    style: dict[str, Any] = {"va": "center_baseline", "fontsize": points}
    for place, row in enumerate(moved.rows):
        across = axes.get_yaxis_transform()
        name = _fitting(row.words, words - 0.47, points)
        axes.text(-0.08 / wide, place, name, transform=across, ha="right", **style)
        if row.place is not None and row.colour != ALONE:
            _badge(axes, ((0.12 - words) / wide, place), row.place, row.colour, points - 0.5, across)
        if row.place is None:
            totals = [_bytes(int(each.sum())) for each in (row.before, row.after)]
            axes.text(0, place, f" {totals[0]} layer by layer, {totals[1]} as planned", **style)
        elif (row.before != row.after).any():
            axes.text(longest[place], place, " " + _change(row.before, row.after), **style)
    size, unit = _unit(max(longest))
    axes.set_xlim(0, 1.16 * max(*longest, 1))
    axes.set_ylim(len(moved.rows) - 0.5, -0.5)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=PALE, linewidth=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / size:g}"))
    axes.set_xlabel(f"{unit}; pale: each operation alone, with its best tile", loc="left")


def _stack(axes: Axes, y: NDArray[Any], height: float, parts: Numbers, share: float) -> None:
    """Draw bars of several parts each, shape (bars, parts)."""
    ends = np.cumsum(parts, axis=1)
    for part, colour in enumerate(PARTS.values()):
        left = ends[:, part] - parts[:, part]
        axes.barh(y, parts[:, part], left=left, height=height, color=_tint(colour, share), linewidth=0)


def _unit(size: int) -> tuple[float, str]:
    return (1e6, "MB") if size >= 1e6 else (1e3, "kB")


def _bytes(size: int) -> str:
    each, unit = _unit(size)
    return f"{size / each:,.2f} {unit}"


def _change(before: Numbers, after: Numbers) -> str:
    """Say by how much a sum changes."""
    first, then = int(before.sum()), int(after.sum())
    percent = 100 * (then - first) / max(first, 1)
    return "±0 %" if abs(percent) < 0.5 else f"{'−' if percent < 0 else '+'}{abs(percent):.0f} %"


def _fitting(words: str, inches: float, points: float) -> str:
    """Return a name, its middle left out if it is longer than some inches."""
    most = 72 * inches / points

    def cut(left: int) -> str:
        return words[: -(-left // 2)] + "…" + words[len(words) - left // 2 :]

    if len(words) < 200 and text_width(words) <= most:
        return words
    longest = min(len(words) - 1, 200)
    return cut(max(1, bisect_right(range(longest), most, key=lambda left: text_width(cut(left))) - 1))


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

    @property
    def before(self) -> int:
        """Cycles of all operations, one after the other."""
        return sum(work.cycles for work in self.alone)

    @property
    def engines(self) -> list[int]:
        """Numbers of the engines that work at all."""
        return sorted(set().union(*(work.used for work in (self.fused, *self.alone))))


def _runs(problem: Problem, group: Group) -> _Runs:
    assert group.tile is not None
    numbers = {op.name: op.number for op in problem.ops}
    nodes = [numbers[name] for name in group.nodes]
    fused = _Work.of(problem.fused(nodes), group.tile)
    alone = [
        _Work.of(problem.fused([number]), _alone(problem, number).tile, first)
        for first, number in enumerate(nodes)
    ]
    return _Runs(group.nodes, fused, alone)


def most_saved(problem: Problem, plan: Plan) -> Group:
    """Return the group that saves the most cycles; without groups of several operations, the longest one."""
    numbers = {op.name: op.number for op in problem.ops}

    def told(group: Group) -> tuple[bool, int]:
        assert group.tile is not None
        nodes = [numbers[name] for name in group.nodes]
        cycles = GroupSchedule(problem.fused(nodes), group.tile).cycles
        if len(nodes) == 1:
            return False, cycles
        return True, sum(_alone(problem, number).cycles for number in nodes) - cycles

    return max((group for group in plan.groups if group.tile is not None), key=told)


def _time_height(runs: _Runs, width: float) -> float:
    """Return the inches that `_time` takes."""
    several = len(runs.names) > 1
    return (
        _legend_height(runs, width - LEFT - 1.1) + (1 + several) * LANE * len(runs.engines) + 0.12 * several
    )


def _time(figure: Figure, top: float, width: float, problem: Problem, runs: _Runs, letter: str = "") -> None:
    """Draw when engines work on the operations of a group: alone, one after the other, and fused."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    several = len(runs.names) > 1
    left, right = LEFT + 1.1, 0.85
    legend = _legend_height(runs, width - left)
    tall = LANE * len(runs.engines)
    until = max(runs.before, runs.fused.cycles) if several else runs.fused.cycles
    milliseconds = problem.machine.milliseconds(until)
    scale, unit = (milliseconds / until, "ms") if milliseconds >= 0.5 else (1e3 * milliseconds / until, "µs")
    panels = (
        [("one after\nthe other", runs.alone), ("fused", [runs.fused])] if several else [("", [runs.fused])]
    )
    for number, (words, works) in enumerate(panels):
        panel_top = top + legend + number * (tall + 0.12)
        axes = plotting.place(figure, left, panel_top, width - left - right, tall)
        _panel(axes, problem, runs, works, scale, until)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=12))
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
            x, y = -(left - LEFT) / (width - left - right), 1 + (legend - 0.2) / tall
            axes.set_title(_time_title(problem, runs, letter), x=x, y=y)
            _time_legend(axes, problem, runs, 1 + 0.06 / tall, _legend_columns(runs, width - left))
        if number < len(panels) - 1:
            axes.tick_params(axis="x", labelbottom=False)
        else:
            axes.set_xlabel(
                f"{unit}; what is too short to be drawn one by one is as high as the engine is busy"
            )
            axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))


def _panel(
    axes: Axes, problem: Problem, runs: _Runs, works: Sequence[_Work], scale: float, until: int
) -> None:
    """Draw when engines work, one work after the other, and how busy they are."""
    offset = 0
    for work in works:
        _lanes(axes, problem, work, runs.engines, scale, until, offset)
        offset += work.cycles
        axes.axvline(offset * scale, color=INK, linewidth=0.8, linestyle=(0, (3, 2)))
    for row, engine in enumerate(runs.engines):
        share = sum(work.busy(engine) for work in works) / offset
        busy = "< 1 % busy" if 0 < share < 0.01 else f"{share:.0%} busy".replace("%", " %")
        across = axes.get_yaxis_transform()
        axes.text(1.006, row, busy, transform=across, va="center_baseline", fontsize=8, color=GREY)
    axes.set_ylim(len(runs.engines) - 0.45, -0.55)
    axes.set_xlim(0, until * scale * 1.001)
    axes.set_yticks(range(len(runs.engines)), [ENGINES[engine] for engine in runs.engines])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=PALE, linewidth=0.6)


def _time_legend(axes: Axes, problem: Problem, runs: _Runs, y: float, columns: int) -> None:
    """Say which colours mean which operations."""
    from matplotlib.patches import Patch

    handles = [
        Patch(color=colour, label=_ending(name, 30))
        for name, colour in zip(runs.names, _cycled(len(runs.names)), strict=True)
    ]
    if any(work.parameters.any() for work in (runs.fused, *runs.alone)):
        handles.append(Patch(color="#BBBBBB", label="parameters: pale"))
    if problem.machine.issue_cycles:
        handles.append(Patch(facecolor=ISSUE, edgecolor="#CCCCCC", hatch="////", label="issue"))
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, y), ncols=columns, fontsize=8)


def _time_title(problem: Problem, runs: _Runs, letter: str) -> str:
    def told(cycles: int) -> str:
        return f"{problem.machine.milliseconds(cycles):.3g} ms"

    names = shortened(" + ".join(runs.names), 90)
    if len(runs.names) == 1:
        return f"{letter}{names}: {told(runs.fused.cycles)}"
    faster = runs.before / runs.fused.cycles
    return (
        f"{letter}{names}: {told(runs.before)} one after the other, {told(runs.fused.cycles)} fused, "
        f"{faster:.2f} times as fast"
    )


def _legend_columns(runs: _Runs, width: float) -> int:
    """Return how many names of operations stand side by side."""
    longest = max(text_width(_ending(name, 30)) for name in [*runs.names, "parameters: pale"])
    return max(1, int(width / (8 / 72 * longest + 0.35)))


def _legend_height(runs: _Runs, width: float) -> float:
    """Return the inches of a title, and of the names of operations below it."""
    return 0.42 + 0.17 * -(-(len(runs.names) + 2) // _legend_columns(runs, width))


def _cycled(count: int) -> list[str]:
    return [OPERATIONS[place % len(OPERATIONS)] for place in range(count)]


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
                fill = _tint(colour, PALER if parameters else 1.0)
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
