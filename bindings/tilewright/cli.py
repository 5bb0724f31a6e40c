"""The command line. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from tilewright import __version__
from tilewright.errors import InputError, SolverMissingError, TilewrightError
from tilewright.search import MAX_SECONDS

if TYPE_CHECKING:
    from tilewright.comparing import Entry
    from tilewright.instance import Instance
    from tilewright.result import Result

STARTED = time.monotonic()

EXIT_FOUND_NOTHING = 1

PLOT_SECONDS = 3.0
"""About how long a picture of a large layer takes."""


def main() -> None:
    """Run the command line and turn errors into messages and exit statuses."""
    signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        commands.main(standalone_mode=False)
    except TilewrightError as error:
        _fail(str(error), error.exit_status)
    except click.exceptions.Abort:
        _fail("interrupted", 130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except BrokenPipeError:
        # The reader has gone, as `tilewright ... | head` does; that is no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _as_interrupt(_signal: int, _frame: Any) -> NoReturn:
    """SIGTERM ends a command as Ctrl-C does: with the best plan so far."""
    raise KeyboardInterrupt


def _fail(message: str, status: int) -> NoReturn:
    click.echo(f"tilewright: {message}", err=True)
    sys.exit(status)


class _Seconds(click.ParamType[float]):
    """A positive, finite number of seconds."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        if not 0 < number <= MAX_SECONDS:
            self.fail(f"{value!r} must be more than 0 and at most {MAX_SECONDS:.0f} (a week)", param, ctx)
        return number


SECONDS = _Seconds()
WITH_HELP = "auto, a heuristic's name, or MODEL@SOLVER; `tilewright list` names them."


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="tilewright")
def commands() -> None:
    """Decide, optimally and checkably, how convolutional layers run on a small on-chip memory."""


# solve ---------------------------------------------------------------------------------------------


@commands.command()
@click.argument("instance")
@click.option("--with", "method", default="auto", metavar="METHOD", help=WITH_HELP)
@click.option(
    "--warm-start", default="auto", metavar="START", help="A heuristic, a result file, auto or none."
)
@click.option("--time-limit", type=SECONDS, default=60.0, metavar="S", help="Seconds for everything. [60]")
@click.option("--threads", type=click.IntRange(1, 256), default=None, metavar="N", help="[one per core]")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, metavar="N", help="[0]")
@click.option(
    "-o", "--output", type=click.Path(), default=None, metavar="FILE", help="Write the result as JSON."
)
@click.option(
    "--plot", type=click.Path(), default=None, metavar="FILE", help="Draw the plan: .png, .svg or .gif."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON and nothing else.")
def solve(
    instance: str,
    method: str,
    warm_start: str,
    time_limit: float,
    threads: int | None,
    seed: int,
    output: str | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """Solve an INSTANCE: a file, or the name of a bundled one.

    Exit status: 0 solved, 1 infeasible or nothing found in time, 2 bad input, 3 solver not installed.
    """
    from tilewright.instance import read
    from tilewright.solving import solve as run

    problem = read(instance)
    _check_outputs(output, plot, problem.room)
    if output is not None and problem.path is not None and Path(output).resolve() == problem.path.resolve():
        raise InputError("output", output, "is the instance itself")
    with _Progress(enabled=not as_json) as progress:
        result = run(
            problem,
            method,
            warm_start=warm_start,
            # The limit covers drawing, too.
            time_limit=time_limit - (min(0.25 * time_limit, PLOT_SECONDS) if plot else 0.0),
            threads=threads,
            seed=seed,
            progress=progress.show,
            started=STARTED,
        )
    written = _save(problem, result, output, plot)
    if as_json:
        click.echo(json.dumps(result.to_json(), allow_nan=False))
    else:
        _print_result(problem, result)
        for path in written:
            click.echo(f"written: {path}")
    sys.exit(result.exit_status)


def _check_outputs(output: str | None, plot: str | None, room: str | None = None) -> None:
    """Refuse paths that cannot be written before any work is done for them.

    A plan is drawn by its `room`, a comparison by none.
    """
    from tilewright import pictures
    from tilewright.result import check_writable

    if output is not None:
        check_writable(Path(output))
    if output is not None and plot is not None and Path(output).resolve() == Path(plot).resolve():
        raise InputError("plot", plot, "is the result's file, too")
    if plot is not None:
        pictures.suffix(plot, pictures.ACCEPTED if room is None else _pictures(room).ACCEPTED)


def _pictures(room: str) -> Any:
    """Import the module that draws a room's plans."""
    import importlib

    return importlib.import_module(f"tilewright.{room}.pictures")


def _save(problem: Instance, result: Result, output: str | None, plot: str | None) -> list[str]:
    """Write what was asked for; return what was written."""
    from tilewright import catalogue

    written = []
    if output is not None:
        result.write(output)
        written.append(output)
    if plot is not None and result.plan is not None:
        written.append(plot)
        report = catalogue.room(problem.room).simulate(problem.problem, result.plan)
        _pictures(problem.room).draw(problem.problem, result.plan, report, Path(plot))
    return written


class _Progress:
    """A line with time, incumbent, bound and gap, on a terminal only."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled and sys.stderr.isatty()
        self.status: Any = None

    def __enter__(self) -> _Progress:
        if self.enabled:
            from rich.console import Console

            self.status = Console(stderr=True).status("starting")
            self.status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is not None:
            self.status.stop()

    def show(self, seconds: float, objective: int | None, bound: int | None) -> None:
        if self.status is not None:
            gap = _gap(objective, bound)
            found = f"best {_shown(objective)}   bound {_shown(bound)}"
            self.status.update(f"{seconds:5.0f} s   {found}   gap {gap}")


def _shown(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _gap(objective: int | None, bound: int | None) -> str:
    from tilewright.result import relative_gap

    gap = relative_gap(objective, bound)
    return "-" if gap is None else f"{100 * gap:.2f} %"


def _print_result(problem: Instance, result: Result) -> None:
    from tilewright import catalogue

    room = catalogue.room(result.room)
    rows = [
        ("instance", result.instance),
        ("method", result.method),
        ("status", result.status + (" (interrupted)" if result.interrupted else "")),
        ("objective", _shown(result.objective) + _unit(problem)),
        ("bound", _shown(result.bound) + _by(result)),
        ("gap", _gap(result.objective, result.bound)),
    ]
    report = result.report
    if report is not None:
        if report["violation"]:
            rows.append(("refused", report["violation"]))
        elif hasattr(room, "rows"):
            rows += room.rows(problem.problem, report)
        else:
            rows += [
                ("steps", _shown(report["steps"])),
                (
                    "loaded",
                    ", ".join(f"{name} {count:,}" for name, count in report["loaded"].items() if count),
                ),
                ("peak memory", f"{report['peak_memory']:,} elements"),
                ("duration", f"{report['cycles']:,} cycles"),
            ]
    if result.warm_start:
        rows.append(("warm start", result.warm_start))
    if result.grounds is not None:
        rows.append(("grounds", result.grounds))
    rows += [("failure", message) for message in result.failures]
    rows.append(("time", f"{result.seconds:.1f} s"))
    if report is not None and not report["violation"] and hasattr(room, "table"):
        lines = room.table(problem.problem, report)
        if lines:
            _table(lines[1:], lines[0])
            click.echo()
    _table(rows)


def _by(result: Result) -> str:
    """Say what proves the bound: a method, or a bound with its parameters."""
    from tilewright.solving import methods

    if result.bound_by is None:
        return ""
    return f"   {'proven by' if result.bound_by in methods(result.room) else 'from the'} {result.bound_by}"


def _unit(problem: Instance) -> str:
    """Name what the objective counts, where a room has several objectives."""
    unit = getattr(problem.problem, "unit", "")
    return f" {unit}" if unit else ""


def _table(rows: Iterable[Sequence[object]], header: Sequence[str] | None = None) -> None:
    """Print aligned columns, numbers to the right."""
    cells = [[str(cell) for cell in row] for row in ([header] if header else [])] + [
        [str(cell) for cell in row] for row in rows
    ]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    body = cells[1:] if header else cells
    numeric = [
        header is not None and bool(body) and all(row[i].strip("-+., %x0123456789") == "" for row in body)
        for i in range(len(widths))
    ]
    for number, row in enumerate(cells):
        line = "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        click.echo(line.rstrip())
        if header and number == 0:
            click.echo("  ".join("-" * width for width in widths))


# compare -------------------------------------------------------------------------------------------


@commands.command()
@click.argument("instances", nargs=-1, required=True)
@click.option(
    "--with",
    "methods",
    default=None,
    metavar="A,B,...",
    help="Methods, or `all`. [the constructive heuristics and auto]",
)
@click.option("--time-limit", type=SECONDS, default=60.0, metavar="S", help="Seconds for each run. [60]")
@click.option("--jobs", type=click.IntRange(1, 256), default=1, metavar="N", help="Runs at a time. [1]")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, metavar="N", help="[0]")
@click.option(
    "-o", "--output", type=click.Path(), default=None, metavar="FILE", help="Write all results as JSON."
)
@click.option(
    "--plot", type=click.Path(), default=None, metavar="FILE", help="Draw the comparison: .png or .svg."
)
@click.option("--json", "as_json", is_flag=True, help="Print all results as JSON and nothing else.")
def compare(
    instances: tuple[str, ...],
    methods: str | None,
    time_limit: float,
    jobs: int,
    seed: int,
    output: str | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """Compare methods on INSTANCES under the same time limit, with cores / jobs threads each."""
    import threading

    from tilewright import catalogue, comparing
    from tilewright.instance import read
    from tilewright.result import write_atomically
    from tilewright.solving import check_method
    from tilewright.solving import methods as all_methods

    problems = [read(name) for name in instances]
    room = problems[0].room
    if methods is None:
        quick = catalogue.constructive(room, lambda name, error: click.echo(f"{name}: {error}", err=True))
        suited = [
            module for module in quick if all(catalogue.suits(module, each.problem) for each in problems)
        ]
        names = [*(module.__name__.rpartition(".")[2] for module in suited), "auto"]
    else:
        names = all_methods(room) if methods == "all" else [name.strip() for name in methods.split(",")]
    for problem in problems:
        for name in names:
            check_method(problem.room, name)
    _check_outputs(output, plot)
    entries = comparing.compare(
        problems,
        names,
        time_limit=time_limit,
        jobs=jobs,
        threads=max(1, (os.cpu_count() or 1) // jobs),
        seed=seed,
        on_entry=lambda entry: click.echo(f"{entry.instance} {entry.method}: done", err=True),
        stop=threading.Event(),
    )
    content = json.dumps([_entry_json(entry) for entry in entries], allow_nan=False)
    if output is not None:
        write_atomically(Path(output), content + "\n")
    if plot is not None:
        from tilewright.pictures import draw_comparison

        draw_comparison([_entry_json(entry) for entry in entries], Path(plot))
    if as_json:
        click.echo(content)
    else:
        units = {_unit(problem).strip() for problem in problems}
        _print_comparison(entries, units.pop() if len(units) == 1 else "")
    missing = [entry.error for entry in entries if isinstance(entry.error, SolverMissingError)]
    found = any(entry.result is not None and entry.result.exit_status == 0 for entry in entries)
    sys.exit(SolverMissingError.exit_status if missing and not found else 0 if found else EXIT_FOUND_NOTHING)


def _entry_json(entry: Entry) -> dict[str, Any]:
    if entry.result is not None:
        return entry.result.to_json()
    return {
        "instance": entry.instance,
        "method": entry.method,
        "objective": None,
        "bound": None,
        "error": str(entry.error),
    }


def _print_comparison(entries: list[Entry], unit: str) -> None:
    from math import exp, log

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
                _shown(objective),
                _shown(result.bound if result else None),
                _gap(objective, bounds.get(entry.instance)),
                f"{result.seconds:.1f}" if result else "-",
                result.status if result else "failed",
                entry.remark,
            )
        )
    _table(
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
    _table(
        [
            (method, f"{exp(sum(map(log, values)) / len(values)):.4f}", len(values))
            for method, values in ratios.items()
        ],
        ("method", "mean", "solved"),
    )


# check, simulate -----------------------------------------------------------------------------------


@commands.command()
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

    from tilewright.checking import check as run
    from tilewright.instance import read
    from tilewright.result import Result

    findings = run(read(instance), Result.read(result), time_limit=time_limit)
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings]))
    else:
        _table([("ok" if finding.holds else "WRONG", finding.what, finding.detail) for finding in findings])
    sys.exit(0 if all(finding.holds for finding in findings) else 1)


@commands.command()
@click.argument("instance")
@click.argument("result", type=click.Path())
@click.option("--numeric", is_flag=True, help="Move real integers and compare with the reference.")
@click.option("--steps", type=click.IntRange(0, 10**6), default=12, metavar="N", help="Steps to print. [12]")
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), default=0, metavar="N", help="Of the integers. [0]"
)
@click.option(
    "--plot", type=click.Path(), default=None, metavar="FILE", help="Draw the plan: .png, .svg or .gif."
)
@click.option("--json", "as_json", is_flag=True, help="Print totals and every step as JSON and nothing else.")
def simulate(
    instance: str, result: str, numeric: bool, steps: int, seed: int, plot: str | None, as_json: bool
) -> None:
    """Execute the plan of a RESULT step by step. Exit status 0, or 1 if it breaks a rule."""
    from tilewright import catalogue

    problem, answer = _instance_and_result(instance, result)
    _check_outputs(None, plot, problem.room)
    report = catalogue.room(problem.room).simulate(problem.problem, answer.plan, numeric=numeric, seed=seed)
    if plot is not None:
        _pictures(problem.room).draw(problem.problem, answer.plan, report, Path(plot))
    if as_json:
        click.echo(json.dumps({**report.summary(), "per_step": report.per_step()}))
    else:
        clock = "ps" if _unit(problem).strip() == "ps" else "cycles"
        _print_steps(report.per_step(), steps, clock)
        _print_totals(report, clock)
        if plot is not None:
            click.echo(f"written: {plot}")
    sys.exit(0 if report.valid else 1)


def _instance_and_result(instance: str, result: str) -> tuple[Instance, Result]:
    """Read both and refuse a result without a plan, or of another instance."""
    from tilewright.instance import read
    from tilewright.result import Result

    problem, answer = read(instance), Result.read(result)
    if answer.room != problem.room or answer.instance_sha256 != problem.sha256:
        raise InputError(
            "instance_sha256",
            answer.instance_sha256[:12],
            f"is a result of another instance than {problem.name}",
            result,
        )
    if answer.plan is None:
        raise InputError("plan", None, "the result has no plan", result)
    return problem, answer


def _amounts(counts: dict[str, int]) -> str:
    """Show how many elements of each operand; tensors of several cores have its name and theirs."""
    total: dict[str, int] = {}
    for tensor, count in counts.items():
        operand = tensor.split()[0]
        total[operand] = total.get(operand, 0) + count
    return ", ".join(f"{operand} {count:,}" for operand, count in total.items()) or "-"


def _print_steps(rows: list[dict[str, Any]], limit: int, clock: str) -> None:
    if not limit or not rows:
        return
    shown = rows if len(rows) <= limit else [*rows[: limit - 1], rows[-1]]
    lines = [
        (
            row["step"],
            row["label"][:40],
            _amounts(row["freed"]),
            _amounts(row["written"]),
            _amounts(row["loaded"]),
            f"{sum(row['footprint'].values()):,}",
            "-" if row["cycles"] is None else f"{row['cycles']:,}",
        )
        for row in shown
    ]
    if len(rows) > limit:
        lines.insert(-1, ("...",) * 7)
    _table(lines, ("step", "computes", "freed", "written", "loaded", "on chip", clock))
    click.echo()


def _print_totals(report: Any, clock: str) -> None:
    summary = report.summary()
    rows = [("valid", "yes" if report.valid else f"no: {summary['violation'] or 'the numbers are wrong'}")]
    if report.sequential is not None:
        rows += [
            ("loaded", _amounts({k: v for k, v in summary["loaded"].items() if v})),
            ("written", _amounts({k: v for k, v in summary["written"].items() if v})),
            ("peak memory", f"{report.peak:,} elements"),
            ("loads of one element", f"at most {max(report.most_loads.values(), default=0)}"),
            ("sequential", f"{report.sequential.cycles:,} {clock}"),
        ]
    if report.scheduled is not None:
        rows += [
            ("peak memory", f"{report.peak:,} elements"),
            ("as scheduled", f"{report.scheduled.cycles:,} {clock}"),
        ]
    if report.lockstep is not None:
        rows.append(("double-buffered", f"{report.lockstep.cycles:,} cycles, tile by tile"))
    if report.overlapped is not None:
        line = report.overlapped
        busy = ", ".join(
            f"{engine} {cycles / max(1, line.cycles):.0%}" for engine, cycles in line.busy().items()
        )
        rows.append(("overlapped", f"{line.cycles:,} {clock} ({busy} busy), peak {line.peak:,} elements"))
    if report.numeric is not None:
        rows.append(
            (
                "numbers",
                "equal to the reference, bit for bit" if report.numeric else "DIFFER from the reference",
            )
        )
    _table(rows)


# emit ----------------------------------------------------------------------------------------------


@commands.command()
@click.argument("instance")
@click.argument("result", type=click.Path())
@click.option("-o", "--output", type=click.Path(), default=None, metavar="FILE", help="[standard output]")
def emit(instance: str, result: str, output: str | None) -> None:
    """Write the schedule of a RESULT as a C loop nest with calls to get and put data by DMA."""
    from tilewright import catalogue
    from tilewright.result import write_atomically

    _check_outputs(output, None)
    problem, answer = _instance_and_result(instance, result)
    room = catalogue.room(problem.room)
    if not hasattr(room, "emit"):
        raise InputError("room", problem.room, "its plans are no loop nests, so there is nothing to emit")
    source = room.emit(problem.name, problem.source, problem.problem, answer.plan)
    if output is None:
        click.echo(source, nl=False)
    else:
        write_atomically(Path(output), source)
        click.echo(f"written: {output}")


# import --------------------------------------------------------------------------------------------


class _Sizes(click.ParamType[tuple[str, tuple[int, ...]]]):
    """The name of an input and its sizes."""

    name = "sizes"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[int, ...]]:
        name, _, sizes = value.rpartition("=")
        if not name or not re.fullmatch(r"[1-9]\d{0,9}(,[1-9]\d{0,9})*", sizes):
            self.fail(f"{value!r} is not like data=1,3,224,224: batch, channels, height, width", param, ctx)
        return name, tuple(map(int, sizes.split(",")))


@commands.command(name="import")
@click.argument("network", type=click.Path())
@click.option("-o", "--output", type=click.Path(), required=True, metavar="DIR", help="Folder for the files.")
@click.option("--room", default=None, metavar="ROOM", help="Also write instances of this room.")
@click.option(
    "--machine", default=None, metavar="FILE", help="Their machine: a file or a bundled one's name."
)
@click.option(
    "--input",
    "sizes",
    type=_Sizes(),
    multiple=True,
    metavar="NAME=N,C,H,W",
    help="Sizes of an input that the file leaves open.",
)
@click.option("--allow-unknown", is_flag=True, help="Keep operations that no layer does as opaque ones.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def import_(
    network: str,
    output: str,
    room: str | None,
    machine: str | None,
    sizes: tuple[tuple[str, tuple[int, ...]], ...],
    allow_unknown: bool,
    as_json: bool,
) -> None:
    """Turn a NETWORK in ONNX into a network file, and into instances of a room."""
    from tilewright import importing
    from tilewright.importing import files

    if (room is None) != (machine is None):
        raise InputError("--machine", machine, "goes with --room, and --room with it")
    found = importing.network(network, dict(sizes), allow_unknown=allow_unknown)
    texts = {} if room is None or machine is None else files.instance_files(found, room, machine)
    written = files.write(Path(output), {**texts, **files.network_file(found)})
    summary = {**importing.summary(found), "written": list(map(str, written))}
    if as_json:
        click.echo(json.dumps(summary))
        return
    _table(
        [
            (name, *(f"{number:,}" for number in numbers.values()))
            for name, numbers in summary["operations"].items()
        ],
        ("operation", "layers", "MACs", "parameters"),
    )
    click.echo()
    _table([tuple(stage.values()) for stage in summary["stages"]], ("graph", "nodes", "edges"))
    click.echo()
    _table(
        [
            ("network", summary["network"]),
            (
                "layers",
                f"{summary['layers']:,}, {summary['unique']:,} unique convolutions and fully connected",
            ),
            ("MACs", f"{summary['macs']:,}"),
            ("parameters", f"{summary['parameters']:,}"),
            (
                "written",
                str(written[0]) if len(written) == 1 else f"{len(written)} files, {written[-1]} last",
            ),
        ]
    )


# list, reproduce, doctor ---------------------------------------------------------------------------


@commands.command(name="list")
@click.argument(
    "what", type=click.Choice(["rooms", "models", "heuristics", "solvers", "instances"]), required=False
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def list_(what: str | None, as_json: bool) -> None:
    """List what there is to work with."""
    from tilewright import listing

    tables = {kind: listing.TABLES[kind]() for kind in ([what] if what else listing.TABLES)}
    if as_json:
        click.echo(json.dumps(tables if what is None else tables[what]))
        return
    for number, (kind, rows) in enumerate(tables.items()):
        if what is None:
            click.echo(("\n" if number else "") + kind)
        _table([tuple(row.values()) for row in rows], tuple(rows[0]))


@commands.command()
@click.argument("figure", required=False)
@click.option("--time-limit", type=SECONDS, default=60.0, metavar="S", help="Seconds for each instance. [60]")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    default="out",
    metavar="FOLDER",
    help="Results and plots; finished parts are not run again. [out]",
)
def reproduce(figure: str | None, time_limit: float, output: str) -> None:
    """Print a paper's table or FIGURE beside ours; without a name, list what can be reproduced."""
    from tilewright import reproducing

    if figure is None:
        known = [(name, text) for name, (_, text) in reproducing.figures().items()]
        _table(known, ("figure", "what it shows"))
        return
    reproducing.run(figure, time_limit=time_limit, folder=Path(output))


@commands.command()
def doctor() -> None:
    """Tell which solvers are here, and how to get those that are not."""
    from tilewright import listing

    rows = listing.solvers()
    _table(
        [
            (
                row["solver"],
                "yes" if row["installed"] else "no",
                row["version"] or f"to get it: {row['install']}",
            )
            for row in rows
        ],
        ("solver", "installed", "version"),
    )


if __name__ == "__main__":
    main()
