"""``tilewright doctor``."""

from __future__ import annotations

import sys

import click

from tilewright.cli.outputs import StatusLine, note_compiling, printing
from tilewright.cli.tables import print_table, print_text
from tilewright.core.narrowing import Narrowing
from tilewright.spec.errors import SolverMissingError, TilewrightError


@click.command(short_help="Tell which solvers and files of yours work.")
@click.option(
    "--compile", "compiles", is_flag=True, help="Compile now what searches would compile on first use."
)
def doctor(compiles: bool) -> None:
    """Tell which solvers are here and work, how to get the others, and which files of yours are broken.

    Exit status: 0, also where a solver is not installed; 2 if a file of yours or an entry of TILEWRIGHT_PATH
    cannot be used, or does not compile; 3 if a solver is there and does not work.
    """
    from tilewright.cli import inventory
    from tilewright.core import locations
    from tilewright.run.workers import compiling

    searches = compiling.all_units()
    if compiles:
        with StatusLine(enabled=True) as progress:
            progress.text = ""
            compiling.ensure(searches, note_compiling)
    uncompiled = compiling.missing(searches)

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
            Narrowing(prose=("version",)),
        )
        for line in wrong_files:
            print_text(line)
        hint = "" if compiles or not uncompiled else "; the others are on first use, or by --compile"
        click.echo()
        print_text(f"{len(searches) - len(uncompiled)} of {len(searches)} searches are compiled{hint}")
    if broken:
        sys.exit(SolverMissingError.exit_status)
    wrong = wrong_files or locations.unusable() or (compiles and uncompiled)
    sys.exit(TilewrightError.exit_status if wrong else 0)
