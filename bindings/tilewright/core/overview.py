"""What a room tells a report for people of one plan: tables and series of numbers, of which a page is made.

A room says what there is; how it looks is the affair of ``tilewright.report``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Cell = str | int | float | None

NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?( ?%)?")


class Column(NamedTuple):
    """A column of a table.

    Attributes
    ----------
    key
        Of the cells in the lines.
    kind
        How its cells are written and sorted; ``share`` is a part of one, shown in percent.
    group
        What it stands under together with its neighbours.
    summed
        Whether the table's last line has the sum.
    """

    key: str
    title: str
    kind: Literal["text", "count", "number", "share"] = "text"
    group: str = ""
    summed: bool = False


class Decisions(NamedTuple):
    """What a plan decides for each part, as a table.

    Attributes
    ----------
    right
        Of each column, whether its cells stand to the right.
    note
        Which parts are left out of the lines; nothing where none is.
    """

    header: tuple[str, ...]
    lines: list[tuple[str, ...]]
    right: tuple[bool, ...]
    note: str = ""


def said_once(lines: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return lines without the first two cells where they are those of the line before."""
    befores: list[tuple[str, ...]] = [(), *lines]
    return [
        ("", "", *line[2:]) if line[:2] == before[:2] else line
        for line, before in zip(lines, befores[:-1], strict=True)
    ]


class LeftOut(NamedTuple):
    """A layer whose cost the plan does not count.

    Attributes
    ----------
    moved_bytes
        Of its inputs and its output, if each is moved once.
    """

    name: str
    kind: str
    macs: int
    moved_bytes: int


class Roof(NamedTuple):
    """What a machine does in a second at most: operations, and bytes of its outermost memory."""

    gops: float
    memory: str
    gigabytes: float | None


class Point(NamedTuple):
    """A layer below the roof.

    Attributes
    ----------
    intensity
        Operations for each byte of the outermost memory.
    """

    name: str
    intensity: float
    gops: float
    share: float
    limited_by: str


class Traffic(NamedTuple):
    """Bytes of an operand that a layer moves from and to the outermost memory.

    Attributes
    ----------
    least_bytes
        The least of any plan.
    simple_bytes
        What a simple plan moves, None where none is told (`Overview.simple`).
    """

    name: str
    operand: str
    moved_bytes: float
    least_bytes: float
    simple_bytes: float | None = None


class Moved(NamedTuple):
    """What a memory reads or writes of an operand, for all layers together.

    Attributes
    ----------
    microjoules
        None where it is not priced.
    """

    memory: str
    operand: str
    moved_bytes: float
    microjoules: float | None


class Span(NamedTuple):
    """What works from a start to an end; its height is the share of the multipliers that is used."""

    name: str
    start_ms: float
    end_ms: float
    utilisation: float
    limited_by: str


class GraphNode(NamedTuple):
    """A layer of a network; `reads` are indices of earlier ones, -1 is the network's own input.

    Attributes
    ----------
    share
        Of the whole cost, None where it is not counted.
    """

    name: str
    kind: str
    reads: tuple[int, ...]
    share: float | None


@dataclass(frozen=True)
class Front:
    """Points of a trade-off: what is traded for what, and how much of both.

    Attributes
    ----------
    marked
        Where the plan that the report is about stands, if it is one among others.
    about
        What the points are; by default plans than which none is better in both.
    """

    across: str
    up: str
    points: Sequence[tuple[float, float]]
    marked: tuple[float, float] | None = None
    about: str = ""


@dataclass(frozen=True)
class Overview:
    """What there is to show of a plan; a field that a room has nothing for stays empty.

    Attributes
    ----------
    what
        What a line of the table is.
    about
        What its columns mean, where their titles do not tell.
    costs, bounds
        Of each part by its name the objective, and the bound on it that needs no search; nothing where
        parts do not add up to the whole.
    simple
        What the simple plan is that traffic is compared with: its name, and how it is made.
    picture
        Whether the room's own sheet shows what is not shown here.
    """

    what: str = "part"
    about: str = ""
    columns: Sequence[Column] = ()
    lines: Sequence[Mapping[str, Cell]] = ()
    costs: Mapping[str, int] = field(default_factory=dict)
    bounds: Mapping[str, int] = field(default_factory=dict)
    decisions: Decisions | None = None
    left_out: Sequence[LeftOut] = ()
    roof: Roof | None = None
    points: Sequence[Point] = ()
    traffic: Sequence[Traffic] = ()
    simple: tuple[str, str] | None = None
    memories: Sequence[Moved] = ()
    spans: Sequence[Span] = ()
    graph: Sequence[GraphNode] = ()
    front: Front | None = None
    picture: bool = True


def of_table(table: Sequence[Sequence[str]] | None) -> Overview:
    """Return the overview of a plan of which there is a table of texts: a header, and lines."""
    if not table:
        return Overview()
    header, *lines = table
    columns = [Column(str(i), title, _kind(line[i] for line in lines)) for i, title in enumerate(header)]
    read = [
        {column.key: _read(cell, column) for column, cell in zip(columns, line, strict=True)}
        for line in lines
    ]
    return Overview(what=header[0] or "part", columns=columns, lines=read)


def _kind(cells: Iterable[str]) -> Literal["text", "count", "number"]:
    given = [cell for cell in cells if cell]
    if not given or not all(NUMBER.fullmatch(cell) and "%" not in cell for cell in given):
        return "text"
    return "number" if any("." in cell for cell in given) else "count"


def _read(cell: str, column: Column) -> Cell:
    if column.kind == "text":
        return cell
    if not cell:
        return None
    return float(cell.replace(",", "")) if column.kind == "number" else int(cell.replace(",", ""))
