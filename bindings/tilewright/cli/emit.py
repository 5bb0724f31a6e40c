"""``tilewright emit``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli.arguments import check_outputs, read_both

if TYPE_CHECKING:
    pass


@click.command()
@click.argument("instance")
@click.argument("result", type=click.Path())
@click.option("-o", "--output", type=click.Path(), default=None, metavar="FILE", help="[standard output]")
def emit(instance: str, result: str, output: str | None) -> None:
    """Write the schedule of a RESULT as a C loop nest with calls to get and put data by DMA."""
    from tilewright.codegen import emit as print_program
    from tilewright.core.files import write_atomically

    check_outputs(output, None)
    problem, answer = read_both(instance, result)
    source = print_program(problem.name, problem.source, problem.problem, answer.plan)
    if output is None:
        click.echo(source, nl=False)
    else:
        write_atomically(Path(output), source)
        click.echo(f"written: {output}")
