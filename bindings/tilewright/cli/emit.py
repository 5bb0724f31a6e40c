"""``tilewright emit``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli.arguments import on_instances, read_both
from tilewright.cli.outputs import Saving, check_outputs, note, printing

if TYPE_CHECKING:
    from tilewright.run.instance import Instance


@click.command()
@click.argument("instance")
@click.argument("result", type=click.Path())
@click.option(
    "--as",
    "form",
    type=click.Choice(["c", "schedule"]),
    default=None,
    help="C, or a schedule in JSON. [schedule where FILE ends in .json, else c]",
)
@click.option("-o", "--output", type=click.Path(), default=None, metavar="FILE", help="[standard output]")
@on_instances
@click.option("--json", "as_json", is_flag=True, help="Print JSON: C with its memory figures, or a schedule.")
def emit(
    instance: str,
    result: str,
    form: str | None,
    output: str | None,
    as_json: bool,
    changes: Mapping[str, Any],
) -> None:
    """Write the plan of a RESULT for a compiler: as C, or as a schedule that any program can read.

    C is a loop nest with calls to get and put data by DMA. A warning says where its buffers, whose sums are
    wider than the plan counts, exceed the memory.
    """
    problem, answer = read_both(instance, changes, result)
    check_outputs(output, None, inputs=[*problem.files, result])
    by_suffix = "schedule" if output is not None and Path(output).suffix.lower() == ".json" else "c"
    emitting = _emit_schedule if (form or by_suffix) == "schedule" else _emit_c
    emitting(problem, answer.plan, output, as_json)


def _emit_c(problem: Instance, plan: Any, output: str | None, as_json: bool) -> None:
    from tilewright import codegen

    source = codegen.emit(problem.name, problem.source, problem.problem, plan)
    memory = codegen.memory(problem.problem, plan)
    warning = memory.warning()
    told = None
    if as_json:
        figures = {**asdict(memory), "emitted_bytes": memory.emitted_bytes, "fits": memory.fits}
        told = {"instance": problem.name, "memory": figures, "warning": warning, "source": source}
    saving = _saved(output, source)
    _print(saving, source, told)
    if warning is not None:
        note(f"warning: {output or 'the emitted program'} {warning}")
    saving.finish()


def _emit_schedule(problem: Instance, plan: Any, output: str | None, as_json: bool) -> None:
    from tilewright.codegen.schedule import schedule, text

    told = schedule(problem.name, problem.sha256, problem.problem, plan)
    shown = text(told) + "\n"
    saving = _saved(output, shown)
    _print(saving, shown, told if as_json else None)
    saving.finish()


def _saved(output: str | None, text: str) -> Saving:
    """Write a file, if there is to be one."""
    from tilewright.core.files import write_atomically

    saving = Saving()
    if output is not None:
        saving.save(output, lambda: write_atomically(Path(output), text))
    return saving


def _print(saving: Saving, text: str, told: dict[str, Any] | None) -> None:
    """Print what is told as JSON, or else what has been written, or else the text."""
    with printing():
        if told is not None:
            click.echo(json.dumps(told))
        elif saving.written:
            click.echo(f"written: {saving.written[0]}")
        else:
            click.echo(text, nl=False)
