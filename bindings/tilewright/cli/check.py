"""``tilewright check``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import click

from tilewright.cli import arguments, completion
from tilewright.cli.arguments import on_instances, opened, print_json, take_seconds
from tilewright.cli.outputs import note_compiling, printing
from tilewright.cli.tables import print_table

MARKS = {
    "verified": "ok",
    "refuted": "WRONG",
    "not verified": "NOT VERIFIED",
    "unverified": "unverified",
    "told": "told",
}
"""What stands before each finding, by its state."""


@click.command(short_help="Verify a RESULT anew: plan, numbers, bound and status.")
@click.argument("instance", shell_complete=completion.instances)
@click.argument("result", type=click.Path())
@take_seconds(
    "Seconds for everything. [a minute, or more where the simulation or the result took long]", None
)
@on_instances
@print_json("the findings as JSON")
def check(
    instance: str, result: str, time_limit: float | None, as_json: bool, changes: Mapping[str, Any]
) -> None:
    """Verify a RESULT anew: plan, numbers, objective, report, bound and status.

    Of room scheduling it may be a solution of the MLSys 2026 contest: plan and latencies are verified.

    Each finding is ok, WRONG, NOT VERIFIED (in time, or for want of a solver), unverified (not computed, and
    no claim of the file), or told: the author's word, as who has confirmed it, with which seed and versions.

    Exit status: 0 if all is well, 1 if something is wrong, 2 bad input, 5 if nothing is wrong but a claim
    could not be verified.
    """
    from tilewright.run.formats import contest
    from tilewright.run.result import Result
    from tilewright.run.verify import check as run
    from tilewright.run.verify import exit_status

    problem = opened(instance, changes)
    if problem.room == "scheduling" and contest.is_solution(result):
        findings = contest.check(problem, result)
    else:
        answer = Result.read(result, problem.problem)
        findings = run(
            problem, answer, time_limit=time_limit, started=arguments.STARTED, on_compile=note_compiling
        )
    with printing():
        if as_json:
            click.echo(json.dumps([finding.to_json() for finding in findings]))
        else:
            print_table([(MARKS[each.state], each.what, _printable(each.detail)) for each in findings])
    sys.exit(exit_status(findings))


def _printable(text: str) -> str:
    """Return a text of a file as a terminal can show it: without what moves the cursor."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
