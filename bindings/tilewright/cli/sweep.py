"""``tilewright sweep``."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import completion
from tilewright.cli.arguments import (
    CHANGES,
    JOURNAL,
    SCHEDULER,
    SET,
    WITH_HELP,
    asked,
    print_json,
    take_count,
    take_file,
    take_outputs,
    take_seconds,
    take_seed,
    with_changes,
)
from tilewright.cli.outputs import Saving, StatusLine, check_outputs, is_table, note, note_compiling, printing
from tilewright.cli.tables import columns
from tilewright.spec.errors import InputError, SolverMissingError

if TYPE_CHECKING:
    from tilewright.run.sweep import Point, Sweep

MAX_BYTES = 100_000_000
"""Largest file of points."""

SECONDS_BETWEEN_LINES = 30.0
"""Between two lines of progress where there is no terminal."""

SWEPT = click.option(
    "--set",
    "values",
    multiple=True,
    metavar="FIELD=A,B,...,Z",
    help="Values of a field: machine.memory_bytes=8K,16K,...,1M; given several times, all combinations.",
)


@click.command(short_help="Solve an INSTANCE at many values of its fields.")
@click.argument("instance", shell_complete=completion.instances)
@click.option(
    "--with",
    "method",
    default="auto",
    metavar="METHOD",
    shell_complete=completion.methods,
    help=f"[auto] {WITH_HELP}",
)
@take_file("--points", "Points from .csv or .json.")
@take_seconds("Seconds for each point. [60]")
@take_count("--jobs", "Points at a time. [the cores]")
@take_count("--threads", "Of each point. [1]", 1)
@take_seed()
@take_outputs("Write a line for each point as .csv, or all results as JSON; may be given several times.")
@take_file("--plot", "Draw the sweep: .png, .svg or .pdf.")
@SCHEDULER
@JOURNAL
@with_changes([SWEPT if option is SET else option for option in CHANGES])
@print_json("all results as JSON")
def sweep(
    instance: str,
    method: str,
    points: str | None,
    time_limit: float,
    jobs: int | None,
    threads: int,
    seed: int,
    outputs: tuple[str, ...],
    plot: str | None,
    scheduler: str | None,
    journal: str | None,
    as_json: bool,
    changes: Mapping[str, Any],
) -> None:
    """Solve INSTANCE at many values of its fields.

    With -o results are kept in a journal beside the first file as they come, so that the same command again
    goes on where it was ended.
    """
    from tilewright.importing.assembly import assembler_of
    from tilewright.run import sweep as sweeping
    from tilewright.run.batch.executors import executor_of
    from tilewright.run.batch.journal import opened as opened_journal

    axes: dict[str, list[Any]] = {}
    for text in changes["values"]:
        field, values = sweeping.axis(text)
        if field in axes:
            raise InputError(f"--set {field}", text, "is given twice")
        axes[field] = values
    chosen = sweeping.product(axes, [{}] if points is None else _read_points(points))
    make = assembler_of(instance, asked(changes))
    inputs = [instance, *([points] if points is not None else [])]
    journal = journal or (str(Path(outputs[0]).with_suffix(".journal")) if outputs else None)
    check_outputs([*outputs, *([journal] if journal else [])], plot, inputs=inputs)
    executor = executor_of(scheduler, jobs or os.cpu_count() or 1, note_compiling)
    with opened_journal(journal, note) as kept, _Progress(len(chosen), enabled=not as_json) as progress:
        found = sweeping.sweep(
            make,
            chosen,
            method,
            executor,
            name=Path(instance).stem,
            time_limit=time_limit,
            threads=threads,
            seed=seed,
            journal=kept,
            on_point=progress.take,
            on_compile=note_compiling,
        )
    saving = _save(found, outputs, plot)
    with printing():
        click.echo(json.dumps(found.to_json(), allow_nan=False) if as_json else found.summary(columns()))
        for path in () if as_json else saving.written:
            click.echo(f"written: {path}")
    saving.finish()
    sys.exit(_exit_status(found))


def _exit_status(found: Sweep) -> int:
    """Return 0 if some point has a plan; else what is wrong with all of them."""
    if any(point.result is not None and point.result.exit_status == 0 for point in found.points):
        return 0
    errors = [point.error for point in found.points if point.error is not None]
    if len(errors) < len(found.points):
        return 1
    missing = any(isinstance(error, SolverMissingError) for error in errors)
    return SolverMissingError.exit_status if missing else InputError.exit_status


def _read_points(file: str) -> list[dict[str, Any]]:
    """Read a list of points: a CSV file with the fields in its first line, or a JSON list of objects."""
    from tilewright.core.files import read_text
    from tilewright.run.sweep import value

    text = read_text(Path(file), MAX_BYTES)
    if is_table(file):
        fields, *lines = _cells(text, file)
        _refuse_twice(fields, file)
        if any(len(cells) != len(fields) for cells in lines):
            raise InputError("points", file, "has lines of more or fewer values than its first", file)
        rows: Any = [dict(zip(fields, map(value, cells), strict=True)) for cells in lines]
    else:

        def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            _refuse_twice([key for key, _ in pairs], file)
            return dict(pairs)

        try:
            rows = json.loads(text, object_pairs_hook=once)
        except InputError:
            raise
        except (ValueError, RecursionError) as error:
            raise InputError("points", file, f"is not valid JSON: {str(error)[:200]}", file) from None
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) and row for row in rows):
        raise InputError("points", file, "must be a list of objects, each with a value for its fields", file)
    return rows


def _cells(text: str, file: str) -> list[list[str]]:
    """Return the cells of a CSV file: its first line without spaces around them, and all lines with any."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        rows = [cells for cells in reader if cells]
    except csv.Error as error:
        told = f"is no CSV: {error}, in the lines before {reader.line_num + 1}"
        raise InputError("points", file, told, file) from None
    return [[cell.strip() for cell in cells] for cells in rows[:1]] + rows[1:] if rows else [[]]


def _refuse_twice(fields: list[str], file: str) -> None:
    """Refuse a field that has two values."""
    twice = next((field for number, field in enumerate(fields) if field in fields[:number]), None)
    if twice is not None:
        raise InputError("points", twice, "is given twice", file)


def _save(found: Sweep, outputs: tuple[str, ...], plot: str | None) -> Saving:
    """Write what was asked for."""
    from tilewright.core.files import write_atomically
    from tilewright.run.summary import csv_text

    saving = Saving()
    for output in outputs:
        content = csv_text(found.records()) if is_table(output) else json.dumps(found.to_json()) + "\n"
        saving.save(output, partial(write_atomically, Path(output), content))
    if plot is not None:
        from tilewright.plotting.sweep import draw_sweep

        saving.save(plot, lambda: draw_sweep(found.records(), found.fields, found.name, plot))
    return saving


class _Progress(StatusLine):
    """How many points are done: on a terminal one line, elsewhere one every half a minute."""

    def __init__(self, many: int, enabled: bool) -> None:
        super().__init__(enabled)
        self.many = many
        self.done = 0
        self.began = self.told = time.monotonic()
        self.counts: dict[str, int] = {}

    def take(self, point: Point) -> None:
        """Count a point."""
        self.done += 1
        self.counts[point.status] = self.counts.get(point.status, 0) + 1
        now = time.monotonic()
        self.text = self._line(now)
        if self.enabled and not self.terminal and now - self.told > SECONDS_BETWEEN_LINES:
            self.told = now
            note(self.text)

    def _line(self, now: float) -> str:
        counts = ", ".join(f"{number} {status}" for status, number in self.counts.items())
        left = (now - self.began) / self.done * (self.many - self.done)
        return f"{self.done} of {self.many} points, {counts}; about {left:.0f} s left"
