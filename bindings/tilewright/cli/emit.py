"""``tilewright emit``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from tilewright.cli.arguments import on_instances, read_both
from tilewright.cli.outputs import Saving, check_outputs, note, printing


@click.command()
@click.argument("instance")
@click.argument("result", type=click.Path())
@click.option("-o", "--output", type=click.Path(), default=None, metavar="FILE", help="[standard output]")
@on_instances
@click.option("--json", "as_json", is_flag=True, help="Print memory figures and the source as JSON.")
def emit(instance: str, result: str, output: str | None, as_json: bool, changes: Mapping[str, Any]) -> None:
    """Write the schedule of a RESULT as a C loop nest with calls to get and put data by DMA.

    A warning says where the C buffers, whose sums are wider than the plan counts, exceed the memory.
    """
    from tilewright import codegen
    from tilewright.core.files import write_atomically

    problem, answer = read_both(instance, changes, result)
    check_outputs(output, None, inputs=[*problem.files, result])
    source = codegen.emit(problem.name, problem.source, problem.problem, answer.plan)
    memory = codegen.memory(problem.problem, answer.plan)
    warning = memory.warning()
    saving = Saving()
    if output is not None:
        saving.save(output, lambda: write_atomically(Path(output), source))
    with printing():
        if as_json:
            figures = {**asdict(memory), "emitted_bytes": memory.emitted_bytes, "fits": memory.fits}
            told = {"instance": problem.name, "memory": figures, "warning": warning, "source": source}
            click.echo(json.dumps(told))
        elif saving.written:
            click.echo(f"written: {output}")
        else:
            click.echo(source, nl=False)
    if warning is not None:
        note(f"warning: {output or 'the emitted program'} {warning}")
    saving.finish()
