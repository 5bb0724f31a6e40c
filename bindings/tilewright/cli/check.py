"""``tilewright check``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from tilewright.cli.arguments import SECONDS
from tilewright.cli.tables import print_table

if TYPE_CHECKING:
    pass


@click.command()
@click.argument("instance")
@click.argument("result", type=click.Path())
@click.option(
    "--time-limit",
    type=SECONDS,
    default=None,
    metavar="S",
    help="Seconds to prove a solver's claim again. [60, or twice what the result took]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON and nothing else.")
def check(instance: str, result: str, time_limit: float | None, as_json: bool) -> None:
    """Verify a RESULT anew: plan, numbers, objective, bound and status. Exit status 0 or 1."""
    from dataclasses import asdict

    from tilewright.run.instance import read
    from tilewright.run.result import Result
    from tilewright.run.verify import check as run

    findings = run(read(instance), Result.read(result), time_limit=time_limit)
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings]))
    else:
        print_table(
            [("ok" if finding.holds else "WRONG", finding.what, finding.detail) for finding in findings]
        )
    sys.exit(0 if all(finding.holds for finding in findings) else 1)
