"""Words in pictures: headings, numbers, widths."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from tilewright.plotting.style import INK, VERMILION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tilewright.simulator.report import Report

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
