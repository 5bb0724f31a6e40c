"""``tilewright list`` and ``tilewright doctor``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tilewright.cli.tables import print_table

if TYPE_CHECKING:
    pass


@click.command(name="list")
@click.argument(
    "what", type=click.Choice(["rooms", "models", "heuristics", "solvers", "instances"]), required=False
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def list_(what: str | None, as_json: bool) -> None:
    """List what there is to work with."""
    from tilewright.cli import inventory

    tables = {kind: inventory.TABLES[kind]() for kind in ([what] if what else inventory.TABLES)}
    if as_json:
        click.echo(json.dumps(tables if what is None else tables[what]))
        return
    for number, (kind, rows) in enumerate(tables.items()):
        if what is None:
            click.echo(("\n" if number else "") + kind)
        print_table([tuple(row.values()) for row in rows], tuple(rows[0]))


@click.command()
def doctor() -> None:
    """Tell which solvers are here, and how to get those that are not."""
    from tilewright.cli import inventory

    rows = inventory.solvers()
    print_table(
        [
            (
                row["solver"],
                "yes" if row["installed"] else "no",
                row["version"] or f"to get it: {row['install']}",
            )
            for row in rows
        ],
        ("solver", "installed", "version"),
    )
