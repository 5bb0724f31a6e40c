"""``tilewright report``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from tilewright.cli import arguments, completion
from tilewright.cli.arguments import on_instances, read_both, take_seconds
from tilewright.cli.outputs import Saving, check_report, note_compiling, printing


@click.command(short_help="Write a page about the plan of a RESULT, for people.")
@click.argument("instance", shell_complete=completion.instances)
@click.argument("result", type=click.Path())
@click.option("-o", "--output", type=click.Path(), required=True, metavar="FILE", help="The page, .html.")
@click.option(
    "--check", "checked", is_flag=True, help="Verify the result as `check` does; tell what is found."
)
@take_seconds("Of --check. [what it should take, fourfold]", None)
@on_instances
def report(
    instance: str,
    result: str,
    output: str,
    checked: bool,
    time_limit: float | None,
    changes: Mapping[str, Any],
) -> None:
    """Write a page about the plan of a RESULT, for people: one file that a browser shows without a network.

    The plan is executed for it; a result that says something else is refused.
    """
    from tilewright.report import write
    from tilewright.run.solving.uncompiled import until_compiled
    from tilewright.run.verify import check

    problem, answer = read_both(instance, changes, result)
    check_report(output, inputs=[*problem.files, result])
    findings = None
    if checked:
        findings = check(
            problem, answer, time_limit=time_limit, started=arguments.STARTED, on_compile=note_compiling
        )
    saving = Saving()
    with until_compiled(problem.room, problem.problem, note_compiling):
        saving.save(output, lambda: write(problem, answer, output, findings=findings))
    with printing():
        for path in saving.written:
            click.echo(f"written: {path}")
    saving.finish()
