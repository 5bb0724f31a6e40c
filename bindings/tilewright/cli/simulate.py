"""``tilewright simulate``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from tilewright.cli import completion
from tilewright.cli.arguments import on_instances, print_json, read_both, take_file, take_seed
from tilewright.cli.outputs import Saving, check_outputs, note_compiling, printing
from tilewright.cli.tables import columns, print_table
from tilewright.core.narrowing import Narrowing

NARROWING = Narrowing(last=("computes",), prose=("freed", "written", "loaded"))
"""What becomes of the table of steps where columns are few."""


@click.command(short_help="Execute the plan of a RESULT step by step.")
@click.argument("instance", shell_complete=completion.instances)
@click.argument("result", type=click.Path())
@click.option("--numeric", is_flag=True, help="Move real integers and compare with the reference.")
@click.option("--steps", type=click.IntRange(0, 10**6), default=12, metavar="N", help="Steps to print. [12]")
@take_seed("Of the integers. [0]")
@take_file("--plot", "Draw the plan: .png, .svg, .pdf or .gif.")
@on_instances
@print_json("totals and every step as JSON")
def simulate(
    instance: str,
    result: str,
    numeric: bool,
    steps: int,
    seed: int,
    plot: str | None,
    as_json: bool,
    changes: Mapping[str, Any],
) -> None:
    """Execute the plan of a RESULT step by step. Exit status 0, or 1 if it breaks a rule."""
    from tilewright.core import catalogue
    from tilewright.run.solving.uncompiled import until_compiled

    problem, answer = read_both(instance, changes, result)
    check_outputs(None, plot, problem.room, inputs=[*problem.files, result])
    room = catalogue.room(problem.room)
    with until_compiled(problem.room, problem.problem, note_compiling):
        report = room.simulate(problem.problem, answer.plan, numeric=numeric, seed=seed)
    saving = Saving()
    if plot is not None:
        saving.save(plot, lambda: room.plot.draw(problem.problem, answer.plan, report, Path(plot)))
    clock = "ps" if problem.problem.unit == "ps" else "cycles"
    with printing():
        if as_json:
            click.echo(json.dumps({**report.verdict().to_json(), "per_step": report.per_step(clock)}))
        else:
            _print_steps(report.per_step(clock), steps, clock)
            if report.valid and report.sequential is None and report.scheduled is None:
                _print_summary(problem.problem, report.measures)
            if report.valid:
                _print_decisions(problem.problem, answer.plan, report.measures)
            _print_totals(report, clock, numeric)
            for path in saving.written:
                click.echo(f"written: {path}")
    saving.finish()
    sys.exit(0 if report.valid else 1)


def _print_summary(problem: Any, measures: Any) -> None:
    """Print what the room tells of a plan that has no timeline."""
    from tilewright.core.room import room_of

    room = room_of(problem)
    table = room.table(problem, measures)
    if table:
        print_table(table[1:], table[0], room.narrowing)
        click.echo()
    print_table(room.rows(problem, measures))
    click.echo()


def _print_decisions(problem: Any, plan: Any, measures: Any) -> None:
    """Print what a plan decides, where its room has a table of that."""
    from tilewright.core.room import room_of
    from tilewright.run.tables import decided

    room = room_of(problem)
    table = room.decisions(problem, plan, measures)
    if table is not None:
        click.echo("\n".join([*decided(table, columns(), room.narrowing), ""]))


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
            "-" if row[f"serial_{clock}"] is None else f"{row[f'serial_{clock}']:,}",
        )
        for row in shown
    ]
    if len(rows) > limit:
        lines.insert(-1, ("...",) * 7)
    print_table(lines, ("step", "computes", "freed", "written", "loaded", "on chip", clock), NARROWING)
    click.echo()


def _print_totals(report: Any, clock: str, numeric: bool) -> None:
    rows = [("valid", "yes" if report.valid else f"no: {report.violation or 'the numbers are wrong'}")]
    if report.sequential is not None:
        loaded, written = (
            {tensor: total for tensor, counts in table.items() if (total := report.total(counts))}
            for table in (report.loaded, report.written)
        )
        rows += [
            ("loaded", _amounts(loaded)),
            ("written", _amounts(written)),
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
    elif numeric and report.valid and not report.not_computed:
        rows.append(("numbers", "there is nothing to compare"))
    if report.not_computed:
        rows.append(("not computed", "; ".join(dict.fromkeys(report.not_computed))))
    print_table(rows)
