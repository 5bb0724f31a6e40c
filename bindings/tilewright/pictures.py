"""Pictures that every room can draw from a report, and how a picture becomes a file.

matplotlib is imported when something is drawn, not when this module is imported, and only through its
object API: there is no global figure and no display.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import InputError
from tilewright.result import check_writable, write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tilewright.simulator.report import Report, Timeline

BLUE, ORANGE, GREEN, SKY = "#0072B2", "#E69F00", "#009E73", "#56B4E9"
PURPLE, VERMILION, YELLOW = "#CC79A7", "#D55E00", "#F0E442"
INK, GREY, PALE = "#222222", "#777777", "#DDDDDD"
"""Okabe and Ito's palette, which the colour-blind can tell apart, and the greys of text and lines."""

TENSORS = {"input": BLUE, "kernels": ORANGE, "output": GREEN}
"""Colours of the tensors that every room has; the others take the rest of the palette in turn."""

ACCEPTED = (".png", ".svg")
"""Suffixes of the files that `save` writes."""

DPI = 120
MAX_COLUMNS = 400
"""Most columns of a chart over steps; longer programs are drawn in blocks of steps."""
MAX_TENSORS = 6
"""Most tensors with a colour of their own; the smaller ones are added up."""

_STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "font.size": 9,
    "hatch.linewidth": 0.6,
    "legend.borderaxespad": 0.0,
    "legend.columnspacing": 1.2,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "legend.handlelength": 1.2,
    "svg.hashsalt": "tilewright",
    "text.parse_math": False,  # Names of instances and methods are not formulas.
    "xtick.color": INK,
    "xtick.labelsize": 8,
    "ytick.color": INK,
    "ytick.labelsize": 8,
}


@contextmanager
def style() -> Iterator[None]:
    """Draw in tilewright's style, whatever the user's matplotlibrc says; also a decorator."""
    import matplotlib.style

    with matplotlib.style.context(["default", _STYLE]):
        yield


def suffix(path: str | Path, accepted: Sequence[str] = ACCEPTED) -> str:
    """Return a picture's suffix in lower case, before any work is done for it.

    Raises
    ------
    InputError
        If the suffix is not an accepted one or the file cannot be written.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in accepted:
        raise InputError("plot", str(path), f"the file's name must end in {' or '.join(accepted)}")
    check_writable(path)
    return ending


@style()
def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of that size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=DPI, facecolor="white")


@style()
def place(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Add axes to a figure, measured in inches from its upper left corner."""
    across, down = figure.get_size_inches()
    return figure.add_axes((left / across, 1 - (top + height) / down, width / across, height / down))


@style()
def save(figure: Figure, path: str | Path) -> None:
    """Write a figure as PNG or SVG, by the path's suffix: complete or not at all, the same bytes each time.

    Raises
    ------
    InputError
        If the suffix is another one or the file cannot be written.
    """
    ending = suffix(path)
    content = BytesIO()
    metadata = {"Software": None} if ending == ".png" else {"Date": None}
    figure.savefig(content, format=ending[1:], metadata=metadata)
    write_atomically(Path(path), content.getvalue())


# Words ---------------------------------------------------------------------------------------------

Line = tuple[str, float, float, str, str]
"""A line above the drawings: words, height in inches, size in points, weight, colour."""


def heading(title: str, below: Sequence[str], report: Report) -> list[Line]:
    """Return the lines above the drawings: a title, what stands below it, what is wrong with the plan."""
    lines: list[Line] = [(line, 0.26, 12.5, "bold", INK) for line in textwrap.wrap(title, 110)[:2]]
    lines += [(line, 0.2, 9.5, "normal", INK) for words in below for line in textwrap.wrap(words, 165)]
    wrong = ""
    if report.violation is not None:
        wrong = f"breaks a rule: {report.violation}"
    elif report.numeric is False:
        wrong = "the numbers differ from the reference"
    return lines + [(line, 0.2, 9.5, "bold", VERMILION) for line in textwrap.wrap(wrong, 140)[:3]]


def heading_height(lines: Sequence[Line]) -> float:
    """Return the inches that a heading takes from the top of a figure."""
    return 0.3 + sum(step for _, step, *_ in lines)


def write_heading(figure: Figure, lines: Sequence[Line]) -> None:
    """Write a heading into the upper left corner of a figure."""
    width, height = figure.get_size_inches()
    y = 0.3
    for words, step, points, weight, colour in lines:
        where = 0.3 / width, 1 - y / height
        figure.text(*where, words, va="center", fontsize=points, fontweight=weight, color=colour)
        y += step


def with_unit(value: float) -> str:
    """Write a number with three digits and a unit."""
    for limit, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def shortened(name: str, most: int) -> str:
    """Return a name, cut where it has more than so many characters."""
    return name if len(name) <= most else name[: most - 1] + "…"


@lru_cache(maxsize=4096)
def text_width(words: str) -> float:
    """Return the width of a line of text, as a multiple of its size in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    width, _, _ = text_to_path.get_text_width_height_descent(words, FontProperties(size=100), ismath=False)
    return float(width) / 100


def times(*sizes: object) -> str:
    """Write sizes as a product that no line break parts."""
    return "\u00a0×\u00a0".join(str(size) for size in sizes)


# Footprint and traffic -----------------------------------------------------------------------------


@style()
def footprint_and_traffic(
    footprint: Axes,
    traffic: Axes,
    report: Report,
    *,
    capacity: int | None = None,
    titles: tuple[str, str] = ("On-chip footprint", "Traffic with DRAM"),
) -> None:
    """Draw what is on chip at each step, and what each step loads and writes back.

    Programs of more than `MAX_COLUMNS` steps are drawn in blocks: the footprint of a block is that of
    its fullest step, its traffic the mean.

    Parameters
    ----------
    footprint, traffic
        Axes to draw on; loads go up, write-backs down.
    capacity
        Size of the memory in elements, where there is one.
    titles
        What the two titles begin with.
    """
    n = len(report.macs)
    if n == 0:
        _nothing(footprint, titles[0])
        _nothing(traffic, titles[1])
        return
    broken = report.violation.step if report.violation is not None else 0
    totals = sum(report.footprint.values(), np.zeros(n, dtype=np.int64))
    starts = np.arange(0, n, -(-n // MAX_COLUMNS))
    ends = np.append(starts[1:], n)
    fullest = np.array([a + int(totals[a:b].argmax()) for a, b in zip(starts, ends, strict=True)])
    edges = np.append(starts, n) + 0.5
    held = {name: counts[fullest] for name, counts in report.footprint.items()}
    moved = {
        sign: {
            name: np.add.reduceat(counts, starts) / (ends - starts)
            for name, counts in (report.loaded if sign > 0 else report.written).items()
        }
        for sign in (1, -1)
    }
    weight = {
        name: int(report.footprint[name].sum() + report.loaded[name].sum() + report.written[name].sum())
        for name in report.footprint
    }
    colours = _tensor_colours(weight)

    _stack(footprint, edges, held, colours, 1)
    peak = int(totals.max())
    if peak:
        footprint.set_title(f"{titles[0]}: peak {peak:,} elements, step {int(totals.argmax()) + 1:,}")
    else:
        footprint.set_title(f"{titles[0]}: no step was finished")
    footprint.set_ylabel("elements on chip")
    footprint.set_ylim(0, (peak or capacity or 1) * 1.12)
    if capacity is not None:
        _capacity_line(footprint, capacity, peak)
    _legend(footprint, colours)

    block = int(ends[0] - starts[0])
    lengths = []
    for sign, parts in moved.items():
        _stack(traffic, edges, parts, colours, sign)
        lengths.append(sum(parts.values(), np.zeros(len(starts))))
    loads = sum(int(counts.sum()) for counts in report.loaded.values())
    writes = sum(int(counts.sum()) for counts in report.written.values())
    traffic.set_title(f"{titles[1]}: {loads:,} elements loaded, {writes:,} written back")
    per = "elements per step" if block == 1 else "elements per step, mean"
    traffic.set_ylabel(f"{per}\nwritten ↓   ↑ loaded")
    traffic.axhline(0, color=INK, linewidth=0.7)
    _cut_outlier(traffic, lengths[0], lengths[1], starts)
    note = "" if block == 1 else f", drawn in blocks of {block}"
    if report.macs[-1] == 0 and n > 1 and not broken:
        note += f"; step {n:,} only empties the memory"
    traffic.set_xlabel(f"step{note}")
    for axes in (footprint, traffic):
        _step_axis(axes, n)
        if broken:
            axes.axvline(broken, color=VERMILION, linewidth=1.2, linestyle=(0, (4, 2)))
    if broken:
        low, high = traffic.get_ylim()
        traffic.set_ylim(low, high * 1.12)
        side = "right" if broken > n / 2 else "left"
        traffic.annotate(
            "violation",
            (broken, 1),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            xytext=(-4 if side == "right" else 4, -2),
            ha=side,
            va="top",
            color=VERMILION,
            fontsize=8,
        )


def _tensor_colours(weight: Mapping[str, int]) -> dict[str, str]:
    """Choose a colour for each tensor that matters; the rest, ``others``, share a grey."""
    names = [name for name, total in weight.items() if total]
    if len(names) > MAX_TENSORS:
        kept = set(sorted(names, key=lambda name: -weight[name])[: MAX_TENSORS - 1])
        names = [name for name in names if name in kept] + ["others"]
    rest = iter([SKY, PURPLE, VERMILION, YELLOW, INK, *(c for n, c in TENSORS.items() if n not in names)])
    # Kernels, which mostly stay, lie at the bottom of the stack.
    names.sort(key=lambda name: name != "kernels")
    return {name: GREY if name == "others" else TENSORS.get(name) or next(rest) for name in names}


def _stack(
    axes: Axes, edges: NDArray[Any], parts: Mapping[str, NDArray[Any]], colours: Mapping[str, str], sign: int
) -> None:
    """Stack one column per block, upwards or downwards."""
    base = np.zeros(len(edges) - 1)
    for name, colour in colours.items():
        if name == "others":
            members = [counts for other, counts in parts.items() if other not in colours]
            values = sum(members, np.zeros(len(base)))
        else:
            values = parts[name]
        if not values.any():
            continue
        top = base + sign * values
        if len(base) <= 60:
            axes.bar(
                (edges[:-1] + edges[1:]) / 2,
                sign * values,
                width=0.86 * np.diff(edges),
                bottom=base,
                color=colour,
                linewidth=0,
            )
        else:
            axes.stairs(top, edges, baseline=base, fill=True, color=colour, linewidth=0)
        base = top


def _capacity_line(axes: Axes, capacity: int, peak: int) -> None:
    """Draw the memory's size, or say it where the line would press the rest flat."""
    if peak and capacity > 3 * peak:
        axes.text(
            0.995,
            0.97,
            f"capacity {capacity:,}, far above",
            transform=axes.transAxes,
            ha="right",
            va="top",
            fontsize=8,
            color=INK,
        )
        return
    axes.set_ylim(0, max(capacity, peak) * 1.16)
    axes.axhline(capacity, color=INK, linewidth=1, linestyle=(0, (5, 2)))
    axes.annotate(
        f"capacity {capacity:,}",
        (1, capacity),
        xycoords=("axes fraction", "data"),
        xytext=(-2, 2),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=8,
        color=INK,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
        zorder=4,
    )


def _cut_outlier(axes: Axes, up: NDArray[Any], down: NDArray[Any], starts: NDArray[Any]) -> None:
    """Set the traffic's limits; a single load that dwarfs all others is cut and told in words."""
    low = -float(down.max()) * 1.08
    high = float(up.max())
    second = float(np.partition(up, -2)[-2]) if len(up) > 2 else high
    if second and high > 4 * second:
        where = int(up.argmax())
        axes.annotate(
            f"↑ {up[where]:,.0f} loaded at step {int(starts[where]) + 1:,} (cut off)",
            (starts[where] + 1, 1),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            va="top",
            xytext=(6, -1),
            ha="left" if where < len(up) / 2 else "right",
            fontsize=8,
            color=INK,
        )
        high = second * 1.35
    axes.set_ylim(low or -0.04 * max(high, 1), max(high, 1) * 1.08)


def _step_axis(axes: Axes, n: int) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, StrMethodFormatter

    axes.set_xlim(0.5 - 0.01 * n, n + 0.5 + 0.01 * n)
    ticks = [int(v) for v in MaxNLocator(nbins=9, integer=True).tick_values(1, n) if 1 <= v <= n]
    axes.xaxis.set_major_locator(FixedLocator([1] * (not ticks or ticks[0] > 1) + ticks))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{abs(y):,.0f}"))
    axes.grid(axis="y", color=PALE, linewidth=0.6)


def _legend(axes: Axes, colours: Mapping[str, str]) -> None:
    """Name the tensors: beside the title while they are few, else beside the axes."""
    from matplotlib.patches import Patch

    handles = [Patch(color=colour, label=name) for name, colour in colours.items()]
    if len(handles) <= 3:
        axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1, 1.02), ncols=len(handles))
    else:
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.02, 1))


def _nothing(axes: Axes, title: str, why: str = "not simulated") -> None:
    """Leave axes empty and say so."""
    axes.set_title(title)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", color=GREY)


# Timeline ------------------------------------------------------------------------------------------


def window(line: Timeline, most_steps: int = 40, most_actions: int = 400) -> int:
    """Return how many first steps of a timeline can be drawn readably."""
    steps = min(most_steps, int(line.step.max(initial=-1)) + 1)
    while steps > 1 and int((line.step < steps).sum()) > most_actions:
        steps -= 1
    return steps


@style()
def timeline(
    axes: Axes,
    line: Timeline | None,
    *,
    title: str = "Timeline",
    steps: int | None = None,
    until: int | None = None,
) -> None:
    """Draw when each engine works: one row per engine, coloured by the tensor it moves or computes.

    Parameters
    ----------
    line
        Sequential or overlapped; None leaves the axes empty.
    title
        What the title begins with; cycles and the window are added.
    steps
        Only so many first steps are drawn; by default as many as are readable (`window`).
    until
        End of the axis in cycles, to compare two timelines on one scale.
    """
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    if line is None or not len(line.step):
        _nothing(axes, title)
        return
    total = int(line.step.max()) + 1
    steps = min(total, window(line) if steps is None else steps)
    shown = line.step < steps
    end = int(line.finish[shown].max())
    until = max(until or end, 1)
    engines = sorted(dict.fromkeys(line.engine), key=_engine_order)
    row = {name: number for number, name in enumerate(engines)}
    colours = _tensor_colours(dict.fromkeys(line.tensor, 1))
    figure = axes.get_figure(root=True)
    assert figure is not None
    points_per_cycle = axes.get_position().width * figure.get_figwidth() * 72 / until
    bars: dict[tuple[str, str, bool], list[tuple[int, int]]] = {}
    for i in np.flatnonzero(shown):
        start, length = int(line.start[i]), int(line.finish[i] - line.start[i])
        colour = colours.get(line.tensor[i], GREY)
        wide = length * points_per_cycle > 2
        bars.setdefault((line.engine[i], colour, wide), []).append((start, length))
        text = str(int(line.step[i]) + 1)
        if length * points_per_cycle > 5.5 * len(text) + 3:
            axes.text(
                start + length / 2,
                row[line.engine[i]],
                text,
                ha="center",
                va="center",
                fontsize=7.5,
                color=text_colour(colour),
            )
    for (engine, colour, wide), spans in bars.items():
        # A white edge parts what follows on each other; it would hide short actions.
        axes.broken_barh(
            spans,
            (row[engine] - 0.38, 0.76),
            facecolors=colour,
            edgecolors="white" if wide else colour,
            linewidth=0.6,
        )
    busy = line.busy()
    for engine in engines:
        share = busy[engine] / line.cycles if line.cycles else 0
        words = "< 1 % busy" if 0 < share < 0.01 else f"{100 * share:.0f} % busy"
        across = axes.get_yaxis_transform()
        axes.text(1.008, row[engine], words, transform=across, va="center", fontsize=8, color=GREY)
    if end < until * 0.999:
        axes.axvline(end, color=GREY, linewidth=0.8, linestyle=(0, (4, 2)))
    part = ""
    if steps < total:
        part = f"; only the first {steps:,} of {total:,} steps ({end:,} cycles) are drawn"
    axes.set_title(f"{title}: {line.cycles:,} cycles{part}")
    axes.set_yticks(range(len(engines)), engines)
    axes.set_ylim(len(engines) - 0.5, -0.5)
    axes.set_xlim(0, until * 1.004)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.grid(axis="x", color=PALE, linewidth=0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("cycles")


@style()
def timelines(sequential: Axes, overlapped: Axes, report: Report, *, titles: tuple[str, str]) -> None:
    """Draw both timelines of a report on one scale, the same steps in each, with one axis label."""
    if report.sequential is None and report.violation is not None:
        for axes, title in zip((sequential, overlapped), titles, strict=True):
            _nothing(axes, title, "a program that breaks a rule has no timeline")
        return
    lines = [line for line in (report.sequential, report.overlapped) if line is not None]
    steps = min((window(line) for line in lines), default=0)
    until = max((int(line.finish[line.step < steps].max(initial=0)) for line in lines), default=0)
    timeline(sequential, report.sequential, title=titles[0], steps=steps, until=until)
    timeline(overlapped, report.overlapped, title=titles[1], steps=steps, until=until)
    if len(lines) == 2:
        sequential.set_xlabel("")
        overlapped.set_xlabel("cycles; numbers are steps" if overlapped.texts else "cycles")


def _engine_order(name: str) -> tuple[int, str]:
    """Engines in the order in which data passes through them."""
    known = ("load", "compute", "write")
    return next((number for number, word in enumerate(known) if word in name), len(known)), name


def text_colour(colour: str) -> str:
    """Return black or white, whichever is readable on a colour."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else "black"


# Comparison ----------------------------------------------------------------------------------------


@style()
def draw_comparison(rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Draw how far each method stays above the best objective found, one panel per instance.

    Parameters
    ----------
    rows
        One mapping per instance and method, with the keys ``instance``, ``method``, ``objective`` and
        ``bound``; objective and bound are integers or None.
    path
        Where to write; PNG or SVG by its suffix.

    Raises
    ------
    InputError
        If there are no rows, the suffix is another one or the file cannot be written.
    """
    suffix(path)
    if not rows:
        raise InputError("rows", [], "there is nothing to compare")
    panels: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        panels.setdefault(str(row["instance"]), []).append(row)
    across = 1 if len(panels) == 1 else 2
    names = list(panels)
    lines = [names[i : i + across] for i in range(0, len(names), across)]
    pitch, header = 0.23, 0.62
    heights = [max(len(panels[name]) for name in line) * pitch + 0.12 for line in lines]
    longest = max(len(shortened(str(row["method"]), 26)) for row in rows)
    left, wide = 0.25 + 0.072 * longest, 3.55
    cell = left + wide + 1.15
    top = 0.15
    figure = new_figure(cell * across + 0.1, top + sum(heights) + header * len(lines) + 0.5)
    scaled = {name: _scale(panel) for name, panel in panels.items()}
    span = [x for scale in scaled.values() for pair in scale for x in pair if x is not None]
    low, high = min([0.0, *span]), max([0.0, *span])
    low, high = (low, high) if high - low >= 1 else (low - 1, high + 1)
    pad = (high - low) * 0.05
    for line, height in zip(lines, heights, strict=True):
        top += header
        for column, name in enumerate(line):
            axes = place(figure, column * cell + left, top, wide, height)
            _panel(axes, name, panels[name], scaled[name], height / pitch - 0.12 / pitch)
            axes.set_xlim(low - pad, high + pad)
            if line is lines[-1] or (column == 1 and line is lines[-2] and len(lines[-1]) == 1):
                axes.set_xlabel("% above the best objective of the instance")
        top += height
    _comparison_legend(figure)
    save(figure, path)


def _scale(panel: Sequence[Mapping[str, Any]]) -> list[tuple[float | None, float | None]]:
    """Return objective and bound of each row, in percent above the best objective of the panel."""
    objectives = [row["objective"] for row in panel if row["objective"] is not None]
    bounds = [row["bound"] for row in panel if row["bound"] is not None]
    best = min(objectives) if objectives else max(bounds, default=1)
    unit = abs(best) or 1

    def percent(value: int | None) -> float | None:
        return None if value is None else 100 * (value - best) / unit

    return [(percent(row["objective"]), percent(row["bound"])) for row in panel]


def _panel(
    axes: Axes,
    name: str,
    panel: Sequence[Mapping[str, Any]],
    scaled: Sequence[tuple[float | None, float | None]],
    rows: float,
) -> None:
    """Draw one instance: a dot per objective, a tick per bound, the numbers beside them."""
    from matplotlib.ticker import MaxNLocator

    objectives = [row["objective"] for row in panel if row["objective"] is not None]
    best = min(objectives, default=None)
    axes.axvline(0, color=GREY, linewidth=0.8)
    for y, (row, (objective, bound)) in enumerate(zip(panel, scaled, strict=True)):
        first = row["objective"] is not None and row["objective"] == best
        if bound is not None:
            axes.plot([bound], [y], "|", color=VERMILION, markersize=10, markeredgewidth=1.8, zorder=3)
        if objective is not None:
            if bound is not None:
                axes.plot([bound, objective], [y, y], color=PALE, linewidth=1.2, zorder=1)
            axes.plot([objective], [y], "o", color=BLUE if first else SKY, markersize=6, zorder=2)
            text = f"{row['objective']:,}" + (f"  +{_percent(objective)} %" if objective else "")
        else:
            text = "no plan"
        axes.text(
            1.01,
            y,
            text,
            transform=axes.get_yaxis_transform(),
            va="center",
            fontsize=7.5,
            color=GREY if objective is None else INK,
            fontweight="bold" if first else "normal",
        )
    axes.set_yticks(range(len(panel)), [shortened(str(row["method"]), 26) for row in panel])
    axes.set_ylim(rows - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=PALE, linewidth=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
    axes.set_title(shortened(name, 48), fontweight="bold", fontsize=9.5)


def _percent(value: float) -> str:
    """Write a positive percentage with about two significant digits."""
    if value < 0.01:
        return "<0.01"
    return f"{value:.{0 if value >= 9.95 else 1 if value >= 0.995 else 2}f}"


def _comparison_legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], marker="o", linestyle="", color=BLUE, label="best objective"),
        Line2D([], [], marker="o", linestyle="", color=SKY, label="objective"),
        Line2D(
            [],
            [],
            marker="|",
            linestyle="",
            color=VERMILION,
            markersize=10,
            markeredgewidth=1.8,
            label="proven lower bound",
        ),
    ]
    height = figure.get_figheight()
    figure.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.02, 1 - 0.18 / height), ncols=3)
