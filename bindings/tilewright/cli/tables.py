"""How tables are printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click


def print_table(rows: Iterable[Sequence[object]], header: Sequence[str] | None = None) -> None:
    """Print aligned columns, under a header those of numbers to the right."""
    from tilewright.run.summary import aligned

    for line in aligned(rows, header):
        click.echo(line)
