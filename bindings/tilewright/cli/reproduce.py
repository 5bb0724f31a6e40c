"""``tilewright reproduce``."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.cli import completion
from tilewright.cli.arguments import take_seconds
from tilewright.cli.outputs import printing
from tilewright.cli.tables import print_table
from tilewright.core.narrowing import Narrowing


@click.command(short_help="Print a paper's table or FIGURE beside ours.")
@click.argument("figure", required=False, shell_complete=completion.figures)
@take_seconds("Seconds for each instance. [60]")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    default="out",
    metavar="FOLDER",
    help="Results and plots; finished parts are not run again. [out]",
)
def reproduce(figure: str | None, time_limit: float, output: str) -> None:
    """Print a paper's table or FIGURE beside ours; without a name, list what can be reproduced."""
    from tilewright.papers import figures

    if figure is None:
        known = [(name, text) for name, (_, text) in figures.figures().items()]
        with printing():
            print_table(known, ("figure", "what it shows"), Narrowing(prose=("what it shows",)))
        return
    with printing():
        figures.run(figure, time_limit=time_limit, folder=Path(output))
