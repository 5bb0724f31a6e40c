"""Tables of text: aligned, and made narrower until they fit the columns that there are."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from tilewright.core.narrowing import AS_IT_IS, Narrowing
from tilewright.plotting.text import shortened_in_middle

if TYPE_CHECKING:
    from tilewright.core.overview import Decisions

GAP = "  "

NUMBER = re.compile(r"[-+<]?[\d.,x]+( ?%| [pnum]?[sJ]| of [\d,]+)?|[-+., %x]*")
"""Cells of a column that stands to the right: numbers, in percent or with a unit of time or energy."""

FLOORS = (16, 10, 6)
"""Characters to which texts are cut, one after the other; columns are left out after the first."""

BEGINS = (0.5, 0.25, 0.75, 0.0)
"""Shares of a name's beginning in what is left of it: the first by which most names differ."""

LEAST_PROSE = 24
"""Fewest columns of a sentence."""


@dataclass
class _Column:
    """A column: its title, which is its name or a shorter one, on one or several lines, and its cells."""

    name: str
    cells: list[str]
    right: bool
    stacked: bool = False
    broken: int | None = None
    """Characters of a line, where cells are broken into lines."""

    def __post_init__(self) -> None:
        self.title = self.name

    @property
    def titles(self) -> list[str]:
        """The lines of the title: a word each, joined as far as that makes the column no wider."""
        if not self.stacked:
            return [self.title]
        words = self.title.split()
        return textwrap.wrap(self.title, max(map(len, [*self.cells, *words])), break_on_hyphens=False) or [""]

    @property
    def width(self) -> int:
        lines = (line for row in range(len(self.cells)) for line in self.lines(row))
        return max(map(len, [*self.titles, *lines]))

    def cut(self, width: int) -> None:
        """Leave out the middle of what is wider."""
        if any(len(cell) > width for cell in self.cells):
            cuts = ([shortened_in_middle(cell, width, begin) for cell in self.cells] for begin in BEGINS)
            self.cells = max(cuts, key=lambda cells: len(set(cells)))
        if max(map(len, self.titles)) > width:
            self.title = shortened_in_middle(self.title, width)

    def lines(self, row: int) -> list[str]:
        """Return the lines of a cell."""
        return paragraph(self.cells[row], self.broken) or [""]


def aligned(
    rows: Iterable[Sequence[object]],
    header: Sequence[str] | None = None,
    columns: int | None = None,
    narrowing: Narrowing = AS_IT_IS,
) -> list[str]:
    """Return the lines of a table.

    Parameters
    ----------
    header
        Titles; columns of numbers then stand to the right. Without, the last column is broken into lines.
    columns
        The most characters of a line; no limit by default.
    narrowing
        How the table becomes narrower where it must.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    if header is None:
        return _wrapped(cells, columns)
    body = [_Column(title, [row[place] for row in cells], False) for place, title in enumerate(header)]
    for column in body:
        column.right = bool(cells) and all(NUMBER.fullmatch(cell) for cell in column.cells)
    return _fitted(body, columns, narrowing)


def decided(decisions: Decisions, columns: int | None = None, narrowing: Narrowing = AS_IT_IS) -> list[str]:
    """Return the lines of a table of what a plan decides; `aligned` says what comes in."""
    from tilewright.core.overview import said_once  # for start-up time

    lines = said_once(decisions.lines)
    body = [
        _Column(title, [line[place] for line in lines], right)
        for place, (title, right) in enumerate(zip(decisions.header, decisions.right, strict=True))
    ]
    headed = columns is not None and _width(body) > columns and any(not line[0] for line in lines)
    if headed:  # what the first two columns say of several lines stands above these
        heads = [": ".join(filter(None, line[:2])) for line in lines]
        shown = _fitted(body[2:], columns, narrowing, heads, _width(body))
    else:
        shown = _fitted(body, columns, narrowing)
    return [*shown, *paragraph(decisions.note, columns)]


def paragraph(text: str, columns: int | None) -> list[str]:
    """Return the lines of a text, which is not broken where there is no limit."""
    if columns is None or len(text) <= columns:
        return [text] if text else []
    return textwrap.wrap(text, columns, break_long_words=False, break_on_hyphens=False)


def _wrapped(cells: list[list[str]], columns: int | None) -> list[str]:
    """Return the lines of a table without a header, each row on as many as its last cell needs."""
    if not cells:
        return []
    widths = [max(len(row[place]) for row in cells) for place in range(len(cells[0]) - 1)]
    indent = sum(widths) + len(GAP) * len(widths)
    lines = []
    for *first, last in cells:
        before = GAP.join([*(cell.ljust(width) for cell, width in zip(first, widths, strict=True)), ""])
        parts = paragraph(last, None if columns is None else max(LEAST_PROSE, columns - indent)) or [""]
        lines += [f"{before}{parts[0]}".rstrip(), *(" " * indent + part for part in parts[1:])]
    return lines


def _width(body: Sequence[_Column]) -> int:
    return sum(column.width for column in body) + len(GAP) * (len(body) - 1)


def _fitted(
    body: list[_Column],
    columns: int | None,
    narrowing: Narrowing,
    heads: Sequence[str] = (),
    enough: int = 0,
) -> list[str]:
    """Return the lines of columns, narrowed step by step until they fit: what tells least goes first.

    `heads` are lines above the rows, empty where a row has none; then `enough` columns show everything.
    """
    if columns is None or _width(body) <= columns:
        return list(_lines(body, heads))
    enough = enough or _width(body)
    for column in body:
        column.stacked = True
    if _width(body) > columns:
        _abbreviate(body, narrowing.words)
    if _width(body) > columns:
        body = [column for column in body if any(column.cells)] or body
    kept = _kept(body, columns, narrowing)
    prose = [column for column in kept if column.name in narrowing.prose]
    for column, width in _reduced(prose, LEAST_PROSE, _width(kept) - columns):
        column.broken = width
    others = [column for column in kept if column.name not in narrowing.prose]
    for floor in FLOORS:
        for column, width in _reduced(others, floor, _width(kept) - columns):
            column.cut(width)
    left_out = [column.name for column in body if all(column is not other for other in kept)]
    told = f"left out here: {', '.join(left_out)}; COLUMNS={enough} shows all, --json has all"
    return [*_lines(kept, heads), *(paragraph(told, columns) if left_out else [])]


def _reduced(some: Sequence[_Column], floor: int, excess: int) -> list[tuple[_Column, int]]:
    """Return columns of texts with the widths that take so many characters less, off the widest first."""
    widths = {place: column.width for place, column in enumerate(some) if not column.right}
    for _ in range(excess):
        wide = [place for place, width in widths.items() if width > floor]
        if not wide:
            break
        widths[max(wide, key=widths.__getitem__)] -= 1
    return [(some[place], width) for place, width in widths.items()]


def _least(body: Sequence[_Column], floor: int, prose: Sequence[str]) -> int:
    """Return the width of columns if texts are cut to so many characters."""
    least = [LEAST_PROSE if column.name in prose else floor for column in body]
    widths = [
        column.width if column.right else min(column.width, n) for column, n in zip(body, least, strict=True)
    ]
    return sum(widths) + len(GAP) * (len(body) - 1)


def _abbreviate(body: Sequence[_Column], words: Mapping[str, str]) -> None:
    """Put shorter words for longer ones, but not in the cells of the first column, which are names."""
    for place, column in enumerate(body):
        for long, short in words.items():
            column.title = column.title.replace(long, short)
            if place:
                column.cells = [cell.replace(long, short) for cell in column.cells]


def _kept(body: Sequence[_Column], columns: int, narrowing: Narrowing) -> list[_Column]:
    """Return the columns that there is room for: without those that are named, then without the last ones."""
    kept = list(body)
    named = [column for title in narrowing.last for column in body if column.name == title]
    others = [column for column in reversed(body) if column.name not in narrowing.last]
    for floor, column in [(FLOORS[0], each) for each in named] + [(FLOORS[-1], each) for each in others]:
        if _least(kept, floor, narrowing.prose) <= columns or len(kept) <= 2:
            break
        kept = [other for other in kept if other is not column]
    return kept


def _lines(body: Sequence[_Column], heads: Sequence[str] = ()) -> Iterator[str]:
    """Yield titles, a rule, and cells, below their heads."""

    def beside(cells: Sequence[Sequence[str]]) -> Iterator[str]:
        for line in zip_longest(*cells, fillvalue=""):
            yield GAP.join(
                part.rjust(width) if column.right else part.ljust(width)
                for part, width, column in zip(line, widths, body, strict=True)
            ).rstrip()

    widths = [column.width for column in body]
    high = max(len(column.titles) for column in body)
    yield from beside([[""] * (high - len(column.titles)) + column.titles for column in body])
    yield GAP.join("-" * width for width in widths)
    for row in range(len(body[0].cells)):
        if heads and heads[row]:
            yield heads[row]
        yield from beside([column.lines(row) for column in body])
