"""The objective over a swept field: a line for each combination of the others, bounds where it is open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.plotting.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PALE,
    PURPLE,
    SKY,
    VERMILION,
    axes_or_new,
    checked_suffix,
    new_figure,
    save,
    style,
)
from tilewright.plotting.text import shortened
from tilewright.spec.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Record = Mapping[str, Any]

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION)
MARKERS = ("o", "s", "^", "D", "v", "P")

MOST_LINES = len(COLOURS) * 2
"""Lines that can be told apart."""

MARKED = 60
"""Points of a line up to which each has its marker."""


@style()
def draw_sweep(records: Sequence[Record], fields: Sequence[str], name: str, path: str | Path) -> None:
    """Draw a sweep into a file: PNG, SVG or PDF by its suffix.

    Raises
    ------
    InputError
        If no point has a plan, the suffix is another one or the file cannot be written.
    """
    checked_suffix(path)
    figure = new_figure(7.6, 4.6)
    _draw(records, fields, name, figure.add_axes((0.11, 0.12, 0.86, 0.78)))
    save(figure, path)


def plot_sweep(records: Sequence[Record], fields: Sequence[str], name: str, ax: Axes | None = None) -> Axes:
    """Draw a sweep on axes, on a figure of its own if there are none."""
    with style():
        axes = axes_or_new(ax, 7.6, 4.6)
        _draw(records, fields, name, axes)
    return axes


def _draw(records: Sequence[Record], fields: Sequence[str], name: str, axes: Axes) -> None:
    solved = [record for record in records if record["objective"] is not None]
    if not solved:
        raise InputError("plot", name, "no point of the sweep has a plan")
    swept = [field for field in fields if len({str(record.get(field)) for record in records}) > 1]
    across = max(swept or fields[:1], key=lambda f: len({str(r.get(f)) for r in records}), default="")
    others = [field for field in swept if field != across]
    places = _places(records, across)
    lines: dict[tuple[Any, ...], list[Record]] = {}
    for record in solved:
        lines.setdefault(tuple(str(record.get(field)) for field in others), []).append(record)
    for number, (key, line) in enumerate(list(lines.items())[:MOST_LINES]):
        label = ", ".join(f"{_last(field)} {value}" for field, value in zip(others, key, strict=True))
        _line(axes, [(places[str(r.get(across))], r) for r in line], number, shortened(label, 40))
    _refused(axes, [places[str(r.get(across))] for r in records if r["objective"] is None])
    _scales(axes, records, across, [r["objective"] for r in solved])
    told = f"; {len(lines) - MOST_LINES} more lines not drawn" if len(lines) > MOST_LINES else ""
    axes.set_title(shortened(name, 60) + told, fontweight="bold")
    what, unit = solved[0].get("minimise") or "objective", solved[0].get("unit")
    axes.set_ylabel(f"{what}, {unit}" if unit and unit != what else str(what))
    axes.grid(color=PALE, linewidth=0.6)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="best", frameon=True, framealpha=0.85, edgecolor="none")


def _places(records: Sequence[Record], across: str) -> dict[str, float]:
    """Return where each value of a field stands: at itself where all are numbers, else in turn."""
    values = list(dict.fromkeys(_key(record, across) for record in records))
    given: dict[str, Any] = {_key(record, across): record.get(across) for record in records}
    if all(_is_number(value) for value in given.values()):
        return {text: float(given[text]) for text in values}
    return {text: float(number) for number, text in enumerate(values)}


def _key(record: Record, across: str) -> str:
    return str(record.get(across))


def _line(axes: Axes, points: list[tuple[float, Record]], number: int, label: str) -> None:
    """Draw a line of objectives; bounds below those that are not proven optimal."""
    points.sort(key=lambda point: point[0])
    colour = COLOURS[number % len(COLOURS)]
    marked = len(points) <= MARKED
    axes.plot(
        [x for x, _ in points],
        [record["objective"] for _, record in points],
        color=colour,
        linewidth=1.4,
        linestyle="-" if number < len(COLOURS) else "--",
        marker=MARKERS[number % len(MARKERS)] if marked else None,
        markersize=4.5,
        label=label or None,
        zorder=3,
    )
    unproven = [(x, r) for x, r in points if r["status"] != "optimal" and r["bound"] is not None]
    told = {text.get_label() for text in axes.collections}
    if unproven:
        bound = "proven bound, where not optimal"
        axes.vlines(
            [x for x, _ in unproven],
            [record["bound"] for _, record in unproven],
            [record["objective"] for _, record in unproven],
            color=colour,
            alpha=0.45,
            linewidth=1.2,
            zorder=1,
        )
        axes.scatter(
            [x for x, _ in unproven],
            [record["bound"] for _, record in unproven],
            marker="_",
            color=colour,
            label=None if bound in told else bound,
            zorder=2,
        )


def _refused(axes: Axes, places: Sequence[float]) -> None:
    """Mark at the foot where there is no plan."""
    if places:
        axes.plot(
            places,
            [0.015] * len(places),
            "x",
            color=GREY,
            markersize=5,
            transform=axes.get_xaxis_transform(),
            label="no plan",
            clip_on=False,
        )


def _scales(axes: Axes, records: Sequence[Record], across: str, objectives: Sequence[int]) -> None:
    """Choose linear or logarithmic scales, and write values as people say them."""
    from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter, NullLocator

    given = {_key(record, across): record.get(across) for record in records}
    values: list[Any] = list(given.values())
    axes.set_xlabel(across)
    if not all(_is_number(value) for value in values):
        axes.set_xticks(range(len(values)), [shortened(str(value), 16) for value in values])
    else:
        if min(values) > 0 and max(values) >= 16 * min(values):
            axes.set_xscale("log", base=2)
        if _last(across).endswith("bytes"):
            axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: _bytes(number)))
        elif len(values) <= 12:
            axes.set_xticks(sorted(values), [f"{value:g}" for value in sorted(values)])
        axes.xaxis.set_minor_locator(NullLocator())
    if min(objectives) > 0 and max(objectives) >= 16 * min(objectives):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(EngFormatter(sep=" "))


def _bytes(number: float) -> str:
    for suffix, size in (("M", 2**20), ("K", 2**10)):
        if number >= size:
            return f"{number / size:g}{suffix}"
    return f"{number:g}"


def _last(field: str) -> str:
    return field.rpartition(".")[2]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
