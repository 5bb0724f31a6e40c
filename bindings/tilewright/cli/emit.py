"""``tilewright emit``."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.cli.arguments import read_both
from tilewright.cli.outputs import Saving, check_outputs, printing


@click.command()
@click.argument("instance")
@click.argument("result", type=click.Path())
@click.option("-o", "--output", type=click.Path(), default=None, metavar="FILE", help="[standard output]")
def emit(instance: str, result: str, output: str | None) -> None:
    """Write the schedule of a RESULT as a C loop nest with calls to get and put data by DMA."""
    from tilewright.codegen import emit as print_program
    from tilewright.core.files import write_atomically

    problem, answer = read_both(instance, result)
    check_outputs(output, None, inputs=[*problem.files, result])
    source = print_program(problem.name, problem.source, problem.problem, answer.plan)
    saving = Saving()
    if output is not None:
        saving.save(output, lambda: write_atomically(Path(output), source))
    with printing():
        if saving.written:
            click.echo(f"written: {output}")
        else:
            click.echo(source, nl=False)
    saving.finish()
