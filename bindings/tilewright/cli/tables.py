"""How numbers and tables are printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tilewright.run.instance import Instance


def print_table(rows: Iterable[Sequence[object]], header: Sequence[str] | None = None) -> None:
    """Print aligned columns, numbers to the right."""
    cells = [[str(cell) for cell in row] for row in ([header] if header else [])] + [
        [str(cell) for cell in row] for row in rows
    ]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    body = cells[1:] if header else cells
    numeric = [
        header is not None and bool(body) and all(row[i].strip("-+., %x0123456789") == "" for row in body)
        for i in range(len(widths))
    ]
    for number, row in enumerate(cells):
        line = "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        click.echo(line.rstrip())
        if header and number == 0:
            click.echo("  ".join("-" * width for width in widths))


def shown(value: int | None) -> str:
    """Return a number with thousands marked, a dash for none."""
    return "-" if value is None else f"{value:,}"


def gap_shown(objective: int | None, bound: int | None) -> str:
    """Return the relative gap in percent, a dash where there is none."""
    from tilewright.run.result import relative_gap

    gap = relative_gap(objective, bound)
    return "-" if gap is None else f"{100 * gap:.2f} %"


def unit_shown(problem: Instance) -> str:
    """Name what the objective counts, where a room has several objectives."""
    unit = problem.problem.unit
    return f" {unit}" if unit else ""
