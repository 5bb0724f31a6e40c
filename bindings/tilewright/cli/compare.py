"""``tilewright compare``."""

from __future__ import annotations

import csv
import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli.arguments import JOURNAL, SCHEDULER, SECONDS, on_instances, opened
from tilewright.cli.outputs import Saving, check_outputs, is_table, note, note_compiling, printing
from tilewright.cli.tables import print_table
from tilewright.spec.errors import SolverMissingError

if TYPE_CHECKING:
    from tilewright.run.compare import Entry
    from tilewright.run.instance import Instance

EXIT_FOUND_NOTHING = 1


@click.command()
@click.argument("instances", nargs=-1, required=True)
@click.option(
    "--with",
    "methods",
    default=None,
    metavar="A,B,...",
    help="Methods, or `all`; each is run where its room has it. [the constructive heuristics and auto]",
)
@click.option("--time-limit", type=SECONDS, default=60.0, metavar="S", help="Seconds for each run. [60]")
@click.option("--jobs", type=click.IntRange(1, 256), default=1, metavar="N", help="Runs at a time. [1]")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, metavar="N", help="[0]")
@click.option(
    "-o",
    "--output",
    "outputs",
    type=click.Path(),
    multiple=True,
    metavar="FILE",
    help="Write all results as JSON, or a table of them as .csv; may be given several times.",
)
@click.option(
    "--plot", type=click.Path(), default=None, metavar="FILE", help="Draw the comparison: .png, .svg or .pdf."
)
@SCHEDULER
@JOURNAL
@on_instances
@click.option("--json", "as_json", is_flag=True, help="Print all results as JSON and nothing else.")
def compare(
    instances: tuple[str, ...],
    methods: str | None,
    time_limit: float,
    jobs: int,
    seed: int,
    outputs: tuple[str, ...],
    plot: str | None,
    scheduler: str | None,
    journal: str | None,
    as_json: bool,
    changes: Mapping[str, Any],
) -> None:
    """Compare methods on INSTANCES under the same time limit, with cores / jobs threads each."""
    from tilewright.run import compare as comparing
    from tilewright.run.executors import executor_of
    from tilewright.run.journal import opened as opened_journal

    problems = [opened(name, changes) for name in instances]
    named = None if methods is None else [name.strip() for name in methods.split(",")]
    runs = comparing.plan_runs(problems, named, lambda name, error: note(f"{name}: {error}"))
    check_outputs(outputs, plot, inputs=[path for problem in problems for path in problem.files])
    executor = executor_of(scheduler, 1) if scheduler is not None else None
    with opened_journal(journal) as kept_results:
        entries = comparing.compare(
            runs,
            time_limit=time_limit,
            jobs=jobs,
            threads=1 if scheduler is not None else max(1, (os.cpu_count() or 1) // jobs),
            seed=seed,
            on_entry=lambda entry: note(f"{entry.instance} {entry.method}: done"),
            stop=threading.Event(),
            on_compile=note_compiling,
            executor=executor,
            journal=kept_results,
        )
    rows = [_entry_json(entry) for entry in entries]
    kept = [path for path in outputs if _holds_more(path, rows)]
    saving = _save(rows, [path for path in outputs if path not in kept], plot)
    with printing():
        if as_json:
            click.echo(json.dumps(rows, allow_nan=False))
        else:
            _print_rooms(problems, entries, named or [])
        for path in kept:
            click.echo(f"kept: {path} holds plans of these instances; this run has found none", err=as_json)
    saving.finish()
    missing = [entry.error for entry in entries if isinstance(entry.error, SolverMissingError)]
    found = any(entry.result is not None and entry.result.exit_status == 0 for entry in entries)
    sys.exit(SolverMissingError.exit_status if missing and not found else 0 if found else EXIT_FOUND_NOTHING)


def _save(rows: list[dict[str, Any]], outputs: Sequence[str], plot: str | None) -> Saving:
    """Write what was asked for."""
    from tilewright.core.files import write_atomically

    saving = Saving()
    for output in outputs:
        content = _table(rows) if is_table(output) else json.dumps(rows, allow_nan=False) + "\n"
        saving.save(output, partial(write_atomically, Path(output), content))
    if plot is not None:
        from tilewright.plotting import draw_comparison

        saving.save(plot, lambda: draw_comparison(rows, Path(plot)))
    return saving


def _holds_more(path: str, rows: list[dict[str, Any]]) -> bool:
    """Whether a file of results has plans of these instances, where a run has found none, as on Ctrl-C."""
    if any(row["objective"] is not None for row in rows) or not Path(path).is_file():
        return False
    names = {row["instance"] for row in rows}
    try:
        text = Path(path).read_text("utf-8")
        before = csv.DictReader(text.splitlines()) if is_table(path) else json.loads(text)
        return any(row["instance"] in names and row["objective"] not in (None, "") for row in before)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):  # none of ours
        return False


COLUMNS = (
    *("room", "instance", "method", "status", "minimise", "unit", "objective", "bound", "gap", "seconds"),
    *("seed", "simulated", "error"),
)
"""Of a comparison as CSV."""


def _table(rows: list[dict[str, Any]]) -> str:
    """Return a line for each run as CSV."""
    from tilewright.run.summary import csv_text

    return csv_text({name: row.get(name) for name in COLUMNS} for row in rows)


def _entry_json(entry: Entry) -> dict[str, Any]:
    if entry.result is not None:
        return entry.result.to_json()
    return {
        "room": entry.room,
        "instance": entry.instance,
        "method": entry.method,
        "objective": None,
        "bound": None,
        "error": str(entry.error),
    }


def _print_rooms(problems: list[Instance], entries: list[Entry], named: list[str]) -> None:
    """Print a table for each room, and which of the named methods it lacks."""
    rooms = list(dict.fromkeys(problem.room for problem in problems))
    for number, room in enumerate(rooms):
        if len(rooms) > 1:
            click.echo(("\n" if number else "") + room)
        own = [entry for entry in entries if entry.room == room]
        units = {problem.problem.unit for problem in problems if problem.room == room}
        if own:
            _print_comparison(own, units.pop() if len(units) == 1 else "")
        lacking = [name for name in named if name != "all" and name not in {entry.method for entry in own}]
        if lacking:
            click.echo(f"not in this room: {', '.join(lacking)}")


def _print_comparison(entries: list[Entry], unit: str) -> None:
    from math import exp, log

    from tilewright.run.summary import gap_shown, shown

    best: dict[str, int] = {}
    bounds: dict[str, int] = {}
    for entry in entries:
        if entry.result is not None and entry.result.objective is not None:
            best[entry.instance] = min(
                best.get(entry.instance, entry.result.objective), entry.result.objective
            )
        if entry.result is not None and entry.result.bound is not None:
            bounds[entry.instance] = max(bounds.get(entry.instance, 0), entry.result.bound)
    rows = []
    ratios: dict[str, list[float]] = {}
    for entry in entries:
        result = entry.result
        objective = result.objective if result else None
        if objective is not None and best[entry.instance]:
            ratios.setdefault(entry.method, []).append(objective / best[entry.instance])
        rows.append(
            (
                entry.instance,
                entry.method,
                shown(objective),
                shown(result.bound if result else None),
                gap_shown(objective, bounds.get(entry.instance)),
                f"{result.seconds:.1f}" if result else "-",
                result.status if result else "failed",
                entry.remark,
            )
        )
    print_table(
        rows,
        (
            "instance",
            "method",
            f"objective, {unit}" if unit else "objective",
            "own bound",
            "gap to best bound",
            "seconds",
            "status",
            "remark",
        ),
    )
    click.echo()
    click.echo("geometric mean of objective / best found, over the instances that a method solved:")
    print_table(
        [
            (method, f"{exp(sum(map(log, values)) / len(values)):.4f}", len(values))
            for method, values in ratios.items()
        ],
        ("method", "mean", "solved"),
    )
