"""How tables are printed."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tilewright.core.narrowing import Narrowing

NARROWEST = 60
"""Columns below which a table is not made narrower."""


def columns() -> int:
    """Return the columns that there are: those of the terminal, or COLUMNS of the environment, else 80."""
    return max(NARROWEST, shutil.get_terminal_size((80, 24)).columns)


def print_table(
    rows: Iterable[Sequence[object]],
    header: Sequence[str] | None = None,
    narrowing: Narrowing | None = None,
) -> None:
    """Print aligned columns, under a header those of numbers to the right; no line is too wide."""
    from tilewright.core.narrowing import AS_IT_IS  # for start-up time
    from tilewright.run.tables import aligned

    for line in aligned(rows, header, columns(), narrowing or AS_IT_IS):
        click.echo(line)


def table_width(rows: Iterable[Sequence[object]], header: Sequence[str]) -> int:
    """Return the columns of a table that is not made narrower."""
    from tilewright.run.tables import aligned  # for start-up time

    return max(map(len, aligned(rows, header)))


def print_text(text: str) -> None:
    """Print a paragraph; no line is too wide."""
    from tilewright.run.tables import paragraph  # for start-up time

    for line in paragraph(text, columns()):
        click.echo(line)
