"""How numbers and tables are written for people, in a terminal and in a notebook."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.core.files import as_text
from tilewright.core.narrowing import AS_IT_IS, Narrowing
from tilewright.core.quantities import written_apart
from tilewright.core.room import Rows
from tilewright.run.tables import aligned, decided

if TYPE_CHECKING:
    from tilewright.core.overview import Decisions


def flat(table: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return a table without tables in it; keys of nested ones are joined by dots."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        found |= flat(value, f"{path}{key}.") if isinstance(value, Mapping) else {f"{path}{key}": value}
    return found


def csv_text(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV with a header: numbers as they are, lists as JSON, what a row lacks empty.

    A text that a spreadsheet would run begins with an apostrophe, which makes it one.
    """
    told = [{as_text(key): _cell(value) for key, value in row.items()} for row in rows]
    columns = list(dict.fromkeys(key for row in told for key in row))
    writer = csv.DictWriter(file := io.StringIO(), columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(told)
    return file.getvalue()


def _cell(value: Any) -> Any:
    value = json.dumps(value) if isinstance(value, list | dict) else value
    return as_text(value) if isinstance(value, str) else value


def shown(value: int | None) -> str:
    """Return a number with thousands marked, a dash for none."""
    return "-" if value is None else f"{value:,}"


def known(objective: int | None, bound: int | None, unit: str = "") -> str:
    """Say in a line where a search stands."""
    best, proven = written_apart([objective, bound], unit)
    return f"best {best}, bound {proven}, gap {gap_shown(objective, bound)}"


def relative_gap(objective: int | None, bound: int | None) -> float | None:
    """Return (objective - bound) / objective, None where either is unknown.

    An objective of nothing counts as one.
    """
    if objective is None or bound is None:
        return None
    return (objective - bound) / (objective or 1)


def gap_shown(objective: int | None, bound: int | None) -> str:
    """Return the relative gap in percent, a dash where there is none; one that is not 0 does not look so."""
    gap = relative_gap(objective, bound)
    if gap is not None and 0 < 100 * gap < 0.005:
        return "<0.01 %"
    return "-" if gap is None else f"{100 * gap:.2f} %"


def text(
    rows: Rows,
    table: Sequence[Sequence[str]],
    decisions: Decisions | None = None,
    columns: int | None = None,
    narrowing: Narrowing = AS_IT_IS,
) -> str:
    """Return a summary as a person reads it in a terminal: tables, headers first, and rows."""
    lines = [*aligned(table[1:], table[0], columns, narrowing), ""] if table else []
    lines += [*decided(decisions, columns, narrowing), ""] if decisions else []
    return "\n".join([*lines, *aligned(rows, columns=columns)])


def html(rows: Rows, table: Sequence[Sequence[str]], decisions: Decisions | None = None) -> str:
    """Return a summary as a person reads it in a notebook."""
    from html import escape  # for start-up time

    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    left = "style='text-align: left'"
    shown = [(escape(what), escape(much)) for what, much in rows]
    summary = "".join(f"<tr><th {left}>{what}</th><td {left}>{much}</td></tr>" for what, much in shown)
    parts = ""
    for each in (table, [decisions.header, *decisions.lines] if decisions else []):
        if each:
            body = "".join(line(cells, "td") for cells in each[1:])
            parts += f"<table><thead>{line(each[0], 'th')}</thead><tbody>{body}</tbody></table>"
    if decisions and decisions.note:
        parts += f"<p>{escape(decisions.note)}</p>"
    return f"{parts}<table>{summary}</table>"
