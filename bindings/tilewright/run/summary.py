"""A result in a few lines: what the command line prints and what notebooks show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from tilewright.core.room import Rows, room_of
from tilewright.run.methods import methods

if TYPE_CHECKING:
    from tilewright.run.result import Result


def shown(value: int | None) -> str:
    """Return a number with thousands marked, a dash for none."""
    return "-" if value is None else f"{value:,}"


def relative_gap(objective: int | None, bound: int | None) -> float | None:
    """Return (objective - bound) / objective, None where either is unknown."""
    if objective is None or bound is None:
        return None
    return 0.0 if objective == bound else (objective - bound) / objective


def gap_shown(objective: int | None, bound: int | None) -> str:
    """Return the relative gap in percent, a dash where there is none."""
    gap = relative_gap(objective, bound)
    return "-" if gap is None else f"{100 * gap:.2f} %"


def aligned(rows: Iterable[Sequence[object]], header: Sequence[str] | None = None) -> list[str]:
    """Return the lines of a table: aligned columns, under a header those of numbers to the right."""
    cells = [[str(cell) for cell in row] for row in ([header] if header else [])] + [
        [str(cell) for cell in row] for row in rows
    ]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    body = cells[1:] if header else cells
    numeric = [
        header is not None and bool(body) and all(row[i].strip("-+., %x0123456789") == "" for row in body)
        for i in range(len(widths))
    ]
    lines = []
    for row in cells:
        line = "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        lines.append(line.rstrip())
    if header:
        lines.insert(1, "  ".join("-" * width for width in widths))
    return lines


def rows_of(result: Result) -> Rows:
    """Return the lines on a result as (what, how much)."""
    unit = "" if result.problem is None or not result.problem.unit else f" {result.problem.unit}"
    rows = [
        ("instance", result.instance),
        ("method", result.method),
        ("status", result.status + (" (interrupted)" if result.interrupted else "")),
        ("objective", shown(result.objective) + unit),
        ("bound", shown(result.bound) + _proven_by(result)),
        ("gap", gap_shown(result.objective, result.bound)),
    ]
    report = result.report
    if report is not None and report["violation"]:
        rows.append(("refused", report["violation"]))
    elif report is not None and result.problem is not None:
        rows += room_of(result.problem).rows(result.problem, report)
    if result.warm_start:
        rows.append(("warm start", result.warm_start))
    if result.grounds is not None:
        rows.append(("grounds", result.grounds))
    rows += [("failure", message) for message in result.failures]
    rows.append(("time", f"{result.seconds:.1f} s"))
    return rows


def table_of(result: Result) -> list[tuple[str, ...]]:
    """Return a header and a line for each part of a result's plan; nothing where it has no parts."""
    report = result.report
    if report is None or report["violation"] or result.problem is None:
        return []
    return room_of(result.problem).table(result.problem, report) or []


def text_of(result: Result) -> str:
    """Return a result as a person reads it in a terminal."""
    table = table_of(result)
    lines = [*aligned(table[1:], table[0]), ""] if table else []
    return "\n".join([*lines, *aligned(rows_of(result))])


def html_of(result: Result) -> str:
    """Return a result as a person reads it in a notebook."""
    left = "style='text-align: left'"
    rows = "".join(
        f"<tr><th {left}>{escape(what)}</th><td {left}>{escape(much)}</td></tr>"
        for what, much in rows_of(result)
    )
    parts = ""
    if table := table_of(result):
        head = "".join(f"<th>{escape(cell)}</th>" for cell in table[0])
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table[1:]
        )
        parts = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"{parts}<table>{rows}</table>"


def _proven_by(result: Result) -> str:
    """Say what proves the bound: a method, or a bound with its parameters."""
    if result.bound_by is None:
        return ""
    return f"   {'proven by' if result.bound_by in methods(result.room) else 'from the'} {result.bound_by}"
