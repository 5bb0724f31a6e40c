"""``tilewright list`` and ``tilewright doctor``."""

from __future__ import annotations

import json
import sys

import click

from tilewright.cli.outputs import printing
from tilewright.cli.tables import print_table
from tilewright.spec.errors import SolverMissingError, TilewrightError


@click.command(name="list")
@click.argument(
    "what", type=click.Choice(["rooms", "models", "heuristics", "solvers", "instances"]), required=False
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
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
            print_table([tuple(row[name] for name in columns) for row in rows], tuple(columns))


@click.command()
def doctor() -> None:
    """Tell which solvers are here and work, how to get the others, and which files of yours are broken.

    Exit status: 0, also where a solver is not installed; 2 if a file of yours or an entry of TILEWRIGHT_PATH
    cannot be used; 3 if a solver is there and does not work.
    """
    from tilewright.cli import inventory
    from tilewright.core import locations

    rows = inventory.solvers()
    broken = [row for row in rows if row["broken"]]
    wrong_files = inventory.broken_files()
    with printing():
        print_table(
            [
                (
                    row["solver"],
                    "broken" if row["broken"] else "yes" if row["installed"] else "no",
                    row["version"] or row["wrong"],
                )
                for row in rows
            ],
            ("solver", "installed", "version"),
        )
        for line in wrong_files:
            click.echo(line)
    if broken:
        sys.exit(SolverMissingError.exit_status)
    sys.exit(TilewrightError.exit_status if wrong_files or locations.unusable() else 0)
