"""``tilewright list``."""

from __future__ import annotations

import json

import click

from tilewright.cli.arguments import print_json
from tilewright.cli.outputs import printing
from tilewright.cli.tables import print_table
from tilewright.core.narrowing import Narrowing

NARROWING = Narrowing(
    {"macs_per_cycle": "macs per cycle", "clock_mhz": "MHz"},
    last=("source", "kind"),
    prose=("what", "decides", "source", "solvers", "version", "install", "memories", "rooms"),
)
"""What becomes of a list where columns are few; JSON has all of it."""


@click.command(name="list")
@click.argument(
    "what",
    type=click.Choice(["rooms", "models", "heuristics", "solvers", "instances", "machines", "networks"]),
    required=False,
)
@print_json("JSON")
def list_(what: str | None, as_json: bool) -> None:
    """List what there is to work with."""
    from tilewright.cli import inventory

    tables = {kind: inventory.TABLES[kind]() for kind in ([what] if what else inventory.TABLES)}
    with printing():
        if as_json:
            click.echo(json.dumps(tables if what is None else tables[what]))
            return
        for number, (kind, rows) in enumerate(tables.items()):
            if what is None:
                click.echo(("\n" if number else "") + kind)
            columns = [name for name in rows[0] if name not in inventory.DETAILS]
            cells = [["" if row[name] is None else row[name] for name in columns] for row in rows]
            print_table(cells, columns, NARROWING)
