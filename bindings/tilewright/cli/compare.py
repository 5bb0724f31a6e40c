"""``tilewright compare``."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import completion
from tilewright.cli.arguments import (
    JOURNAL,
    SCHEDULER,
    on_instances,
    opened,
    print_json,
    take_count,
    take_file,
    take_outputs,
    take_seconds,
    take_seed,
)
from tilewright.cli.outputs import Saving, check_outputs, is_table, note, note_compiling, printing
from tilewright.cli.tables import columns, print_table, print_text, table_width
from tilewright.core.narrowing import Narrowing
from tilewright.spec.errors import InputError, SolverMissingError

if TYPE_CHECKING:
    from tilewright.run.compare import Entry
    from tilewright.run.instance import Instance
    from tilewright.run.scoring.scores import Score

EXIT_FOUND_NOTHING = 1

NARROWING = Narrowing({"gap to best bound": "gap"}, last=("of it solving", "own bound"))
"""What becomes of the table of runs where columns are few; JSON has all of it."""


MOST_SEEDS = 1000


class _Seeds(click.ParamType[tuple[int, ...]]):
    """Seeds and ranges of seeds."""

    name = "seeds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if not re.fullmatch(r"\d{1,10}(\.\.\d{1,10})?(,\d{1,10}(\.\.\d{1,10})?)*", value):
            self.fail(f"{value!r} is not like 0..9, or 0,3,7", param, ctx)
        seeds: list[int] = []
        for part in value.split(","):
            first, _, last = part.partition("..")
            low, high = int(first), int(last or first)
            if not low <= high < 2**31:
                self.fail(f"{part!r} must ascend, to less than 2^31", param, ctx)
            if high - low >= MOST_SEEDS or len(seeds) >= MOST_SEEDS:
                self.fail(f"{value!r} has more than {MOST_SEEDS} seeds", param, ctx)
            seeds += range(low, high + 1)
        return tuple(dict.fromkeys(seeds))


@click.command(short_help="Compare methods on INSTANCES under the same conditions.")
@click.argument("instances", nargs=-1, shell_complete=completion.instances)
@click.option(
    "--with",
    "methods",
    default=None,
    metavar="A,B,...",
    shell_complete=completion.methods,
    help="Methods, or `all`; each is run where its room has it. [the constructive heuristics and auto]",
)
@click.option(
    "--benchmark",
    "sets",
    default=None,
    metavar="ROOM,...",
    help="Instances, and methods without --with, of the benchmark sets of rooms, or `all`, or a .toml file.",
)
@take_seconds("Seconds for each run. [60]")
@take_count("--jobs", "Runs at a time. [1]", 1)
@take_count("--threads", "Of each run. [cores / jobs]")
@take_seed(default=None)
@click.option(
    "--seeds", type=_Seeds(), default=None, metavar="A..B", help="Runs with each of several: 0..9, or 0,3,7."
)
@click.option(
    "--target",
    type=click.FloatRange(0, 1000),
    default=0.0,
    metavar="PERCENT",
    help="How much worse than the best known objective is good enough, for the time to target. [0]",
)
@take_outputs("Write all results as JSON, a table as .csv or .parquet, or a page with pictures as .md.")
@take_file("--plot", "Draw the comparison: .png, .svg or .pdf.")
@click.option(
    "--picture",
    type=click.Choice(["gaps", "profile", "cactus"]),
    default="gaps",
    help="What --plot draws: objectives and bounds, performance profiles, or instances over time. [gaps]",
)
@SCHEDULER
@JOURNAL
@on_instances
@print_json("all results as JSON")
def compare(
    instances: tuple[str, ...],
    methods: str | None,
    sets: str | None,
    time_limit: float,
    jobs: int,
    threads: int | None,
    seed: int | None,
    seeds: tuple[int, ...] | None,
    target: float,
    outputs: tuple[str, ...],
    plot: str | None,
    picture: str,
    scheduler: str | None,
    journal: str | None,
    as_json: bool,
    changes: Mapping[str, Any],
) -> None:
    """Compare methods on INSTANCES under the same conditions.

    Processes are started, files imported and kernels loaded before the clock of each run begins.
    """
    from tilewright.run import compare as comparing
    from tilewright.run.batch.executors import executor_of
    from tilewright.run.batch.journal import opened as opened_journal
    from tilewright.run.best_known import best_known
    from tilewright.run.scoring.scores import scores
    from tilewright.run.scoring.tables import legend

    if seed is not None and seeds is not None:
        raise InputError("--seeds", ",".join(map(str, seeds)), "cannot be given with --seed")
    if not instances and sets is None:
        raise click.UsageError("Missing argument 'INSTANCES...', or --benchmark.")
    problems = [opened(name, changes) for name in instances]
    named = None if methods is None else [name.strip() for name in methods.split(",")]
    asked: list[tuple[list[Instance], list[str] | None]] = [(problems, named)] if problems else []
    read: list[Path] = []
    if sets is not None:
        from tilewright.importing.benchmarks import benchmark  # for start-up time

        for chosen in benchmark([name.strip() for name in sets.split(",")]):
            asked.append(([*chosen.instances], named or [*chosen.methods] or None))
            read.append(chosen.file)
    runs = []
    for some, having in asked:
        runs += comparing.plan_runs(some, having, lambda name, error: note(f"{name}: {error}"))
    problems = [problem for some, _ in asked for problem in some]
    check_outputs(outputs, plot, inputs=[*read, *(path for p in problems for path in p.files)])
    _check_parquet(outputs)
    executor = executor_of(scheduler, 1) if scheduler is not None else None
    with opened_journal(journal, note) as kept_results:
        entries = comparing.compare(
            runs,
            time_limit=time_limit,
            jobs=jobs,
            threads=threads or (1 if scheduler is not None else max(1, (os.cpu_count() or 1) // jobs)),
            seeds=seeds or (seed or 0,),
            on_entry=lambda entry: note(f"{entry.instance} {entry.method} seed {entry.seed}: done"),
            stop=threading.Event(),
            on_compile=note_compiling,
            executor=executor,
            journal=kept_results,
        )
    rows = [entry.to_json() for entry in entries]
    found = scores(rows, time_limit, known=best_known({problem.room for problem in problems}), target=target)
    kept = [path for path in outputs if _holds_more(path, rows)]
    saving = _save(
        found, [path for path in outputs if path not in kept and not _is_page(path)], plot, picture
    )
    for page in filter(_is_page, outputs):
        if page not in kept:
            saving.save(page, partial(_write_page, page, problems, entries, found, target))
    with printing():
        if as_json:
            click.echo(json.dumps(rows, allow_nan=False))
        else:
            _print_rooms(problems, list(zip(entries, found, strict=True)), named or [])
            for sentence in legend(time_limit, target):
                print_text(sentence)
        for path in kept:
            click.echo(f"kept: {path} holds plans of these instances; this run has found none", err=as_json)
    saving.finish()
    missing = [entry.error for entry in entries if isinstance(entry.error, SolverMissingError)]
    solved = any(entry.result is not None and entry.result.exit_status == 0 for entry in entries)
    sys.exit(
        SolverMissingError.exit_status if missing and not solved else 0 if solved else EXIT_FOUND_NOTHING
    )


def _is_page(path: str) -> bool:
    return Path(path).suffix.lower() == ".md"


def _write_page(
    page: str, problems: Sequence[Instance], entries: Sequence[Entry], found: list[Score], target: float
) -> None:
    from tilewright.run.scoring.page import Conditions, write_page  # for start-up time

    params = click.get_current_context().params
    conditions = Conditions(
        shlex.join(["tilewright", *_without_journal(sys.argv[1:])]),
        params["time_limit"],
        list(dict.fromkeys(entry.seed for entry in entries)),
        entries[0].threads or 1,
        params["jobs"],
        target,
    )
    remarks = {id(score): entry.remark for entry, score in zip(entries, found, strict=True)}
    write_page(page, found, remarks, _units(problems), conditions)


def _without_journal(arguments: Sequence[str]) -> list[str]:
    """Return what makes a page again: where it is resumed from is no matter."""
    told = list(arguments)
    while "--journal" in told:
        at = told.index("--journal")
        del told[at : at + 2]
    return told


def _units(problems: Sequence[Instance]) -> dict[tuple[str, str], str]:
    """Return the unit of each instance's objective, by its room and its name."""
    return {(problem.room, problem.name): problem.problem.unit for problem in problems}


def _is_parquet(path: str) -> bool:
    return Path(path).suffix.lower() == ".parquet"


def _check_parquet(outputs: Sequence[str]) -> None:
    """Refuse Parquet where it cannot be written, before any work is done for it.

    Raises
    ------
    SolverMissingError
        If pyarrow is not installed.
    """
    import importlib.util

    for path in filter(_is_parquet, outputs):
        if importlib.util.find_spec("pyarrow") is None:
            needs = "a table in Parquet needs pyarrow: pip install 'tilewright[parquet]'"
            raise SolverMissingError(f"{path}: {needs}")


def _save(found: list[Score], outputs: Sequence[str], plot: str | None, picture: str) -> Saving:
    """Write what was asked for."""
    from tilewright.core.files import write_atomically
    from tilewright.run.scoring.tables import parquet
    from tilewright.run.summary import csv_text

    saving = Saving()
    rows = [score.row for score in found]
    content: str | bytes
    for output in outputs:
        if _is_parquet(output):
            content = parquet(found)
        elif is_table(output):
            content = csv_text(score.columns() for score in found)
        else:
            content = json.dumps(rows, allow_nan=False) + "\n"
        saving.save(output, partial(write_atomically, Path(output), content))
    if plot is not None:
        saving.save(plot, lambda: _draw(found, Path(plot), picture))
    return saving


def _draw(found: list[Score], plot: Path, picture: str) -> None:
    from tilewright import plotting
    from tilewright.run.scoring.scores import by_room, profile, typical

    if picture == "gaps":
        plotting.draw_comparison(typical(found), plot)
        return
    profiles = [profile(own, room) for room, own in by_room(found).items()]
    (plotting.draw_profiles if picture == "profile" else plotting.draw_cactus)(profiles, plot)


def _holds_more(path: str, rows: list[dict[str, Any]]) -> bool:
    """Whether a file of results has plans of these instances, where a run has found none, as on Ctrl-C."""
    if any(row["objective"] is not None for row in rows) or not Path(path).is_file():
        return False
    names = {row["instance"] for row in rows}
    try:
        if _is_parquet(path):
            from tilewright.run.scoring.tables import read_parquet

            before: Any = read_parquet(path)
        else:
            text = Path(path).read_text("utf-8")
            before = csv.DictReader(text.splitlines()) if is_table(path) else json.loads(text)
        return any(row["instance"] in names and row["objective"] not in (None, "") for row in before)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):  # none of ours
        return False


def _print_rooms(problems: list[Instance], runs: list[tuple[Entry, Score]], named: list[str]) -> None:
    """Print tables for each room, and which of the named methods it lacks."""
    rooms = list(dict.fromkeys(problem.room for problem in problems))
    for number, room in enumerate(rooms):
        if len(rooms) > 1:
            click.echo(("\n" if number else "") + room)
        own = [(entry, score) for entry, score in runs if entry.room == room]
        if own:
            _print_comparison(own, _units(problems))
        lacking = [name for name in named if name != "all" and name not in {entry.method for entry, _ in own}]
        if lacking:
            click.echo(f"not in this room: {', '.join(lacking)}")


def _print_comparison(runs: list[tuple[Entry, Score]], units: Mapping[tuple[str, str], str]) -> None:
    from tilewright.run.scoring.scores import summaries
    from tilewright.run.scoring.tables import counts, methods_table, runs_table

    found = [score for _, score in runs]
    header, lines = runs_table(found, {id(score): entry.remark for entry, score in runs}, units)
    print_table([line[:-1] for line in lines], header[:-1], NARROWING)
    for name, method, *_, remark in lines:
        if remark:
            print_text(f"{name} {method}: {remark}")
    click.echo()
    header, lines = methods_table(summaries(found))
    if table_width(lines, header) <= columns():
        print_table(lines, header)
    else:  # numbers of runs; what is over all of them; what is over those on shared instances
        for places in (slice(1, 9), slice(9, 17)):
            print_table([(line[0], *line[places]) for line in lines], (header[0], *header[places]))
    print_text(counts(found))
