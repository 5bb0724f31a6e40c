"""``tilewright solve``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import arguments, completion
from tilewright.cli.arguments import (
    WITH_HELP,
    on_instances,
    opened,
    print_json,
    take_count,
    take_file,
    take_outputs,
    take_seconds,
    take_seed,
)
from tilewright.cli.outputs import (
    Saving,
    StatusLine,
    check_outputs,
    check_report,
    is_table,
    note,
    note_compiling,
    printing,
)
from tilewright.cli.tables import columns
from tilewright.spec.errors import InputError

if TYPE_CHECKING:
    from tilewright.run.instance import Instance
    from tilewright.run.methods import PartInHand
    from tilewright.run.result import Result

PLOT_SECONDS = 3.0
"""About how long a picture of a large layer takes."""

CURVE_SHARE = 0.5
"""Part of the time that is kept for a curve."""


@click.command(short_help="Find a plan for an INSTANCE, a file or a bundled one.")
@click.argument("instance", shell_complete=completion.instances)
@click.option(
    "--with", "method", default="auto", metavar="METHOD", shell_complete=completion.methods, help=WITH_HELP
)
@click.option(
    "--warm-start",
    default="auto",
    metavar="START",
    shell_complete=completion.starts,
    help="A heuristic, a result file, auto or none.",
)
@take_seconds("Seconds for everything. [60]")
@take_count("--threads", "[one per core]")
@take_seed()
@take_outputs("Write the result as JSON, or its layers as .csv; may be given several times.")
@take_file("--plot", "Draw the plan: .png, .svg, .pdf or .gif.")
@click.option(
    "--picture",
    type=click.Choice(["plan", "curve"]),
    default="plan",
    help="What --plot draws; of room residency also the curve of traffic over memory. [plan]",
)
@take_file("--report", "Write a page about the plan, for people: .html.")
@take_file("--contest", "Of room scheduling: write the plan as the MLSys 2026 contest wants it, too.")
@on_instances
@print_json("the result as JSON")
def solve(
    instance: str,
    method: str,
    warm_start: str,
    time_limit: float,
    threads: int | None,
    seed: int,
    outputs: tuple[str, ...],
    plot: str | None,
    picture: str,
    report: str | None,
    contest: str | None,
    as_json: bool,
    changes: Mapping[str, Any],
) -> None:
    """Solve an INSTANCE: a file, or the name of a bundled one.

    Exit status: 0 solved, 1 infeasible or nothing found in time, 2 bad input, 3 solver not installed.
    """
    from tilewright.run.solve import solve as run

    problem = opened(instance, changes)
    if contest is not None and problem.room != "scheduling":
        raise InputError("--contest", contest, f"is for room scheduling; the instance is of {problem.room}")
    if picture != "plan" and problem.room != "residency":
        raise InputError("--picture", picture, f"is for room residency; the instance is of {problem.room}")
    if picture != "plan":
        from tilewright.residency.exact.traffic_curve import refuse_curve  # start-up time

        refuse_curve(problem.problem)
    written = (*outputs, *(() if contest is None else (contest,)))
    check_outputs(written, plot, problem.room if picture == "plan" else None, inputs=problem.files)
    check_report(report, inputs=problem.files, others=(*written, plot))
    with _Progress(time_limit, problem.problem.unit, enabled=not as_json) as progress:
        result = run(
            problem,
            method,
            warm_start=warm_start,
            # The limit covers drawing, too.
            time_limit=time_limit - _drawing_seconds(time_limit, plot, picture, report),
            threads=threads,
            seed=seed,
            progress=progress.show,
            on_part=progress.part,
            on_compile=note_compiling,
            started=arguments.STARTED,
        )
    saving = Saving()
    notes = [line for output in outputs for line in _write(saving, result, output)]
    if contest is not None:
        notes += _write_solution(saving, problem, result, contest)
    with printing():
        # What has been found is told before it is drawn, which may take its time.
        click.echo(json.dumps(result.to_json(), allow_nan=False) if as_json else result.summary(columns()))
    if plot is not None and picture == "curve":
        _draw_curve(saving, problem, result, plot, arguments.STARTED + time_limit - PLOT_SECONDS / 2)
    elif plot is not None and result.plan is not None:
        notes += _draw(saving, problem, result, plot)
    if report is not None:
        notes += _report(saving, problem, result, report)
    with printing():
        for line in notes:
            click.echo(line, err=as_json)
        for path in () if as_json else saving.written:
            click.echo(f"written: {path}")
    saving.finish()
    sys.exit(result.exit_status)


def _write(saving: Saving, result: Result, output: str) -> list[str]:
    """Write the result, unless it is unknown and the file holds a plan of its instance; say so."""
    from tilewright.core.quantities import written_apart
    from tilewright.run.result import Result as Known

    if is_table(output):
        return _write_table(saving, result, output)
    if result.status == "unknown":
        try:
            known = Known.read(output)
        except InputError:  # no result, so nothing that would be missed
            known = None
        if known and known.plan is not None and known.instance_sha256 == result.instance_sha256:
            objective = written_apart([known.objective, known.bound], known.unit or "")[0]
            held = f"a plan of this instance, objective {objective}"
            return [f"kept: {output} holds {held}; this run has found none"]
    saving.save(output, lambda: result.write(output))
    return []


def _write_solution(saving: Saving, problem: Instance, result: Result, path: str) -> list[str]:
    """Write the plan as the contest wants it, unless there is none; say so."""
    from tilewright.run.formats import contest

    if result.plan is None:
        return [f"not written: {path} would be a plan, and there is none"]
    saving.save(path, lambda: contest.write(problem.problem, result.plan, path))
    return []


def _write_table(saving: Saving, result: Result, output: str) -> list[str]:
    """Write the measures of layers or groups, unless nothing has been measured; say so."""
    table = result.csv()
    if table is None:
        return [f"not written: {output} has what was measured, and no plan has been executed"]
    from tilewright.core.files import write_atomically

    saving.save(output, lambda: write_atomically(Path(output), table))
    return []


def _draw(saving: Saving, problem: Instance, result: Result, plot: str) -> list[str]:
    """Draw the plan, unless that takes an execution for which there was no time; say what is left out."""
    from tilewright.core import catalogue

    if not result.simulated:
        return [f"not drawn: {plot} shows an execution; `tilewright simulate --plot` takes its time for it"]
    room, path = catalogue.room(problem.room), Path(plot)
    saving.save(
        plot,
        lambda: room.plot.draw(
            problem.problem, result.plan, room.simulate(problem.problem, result.plan), path
        ),
    )
    return []


def _drawing_seconds(time_limit: float, plot: str | None, picture: str, report: str | None) -> float:
    """Return what is left of a time limit for pictures; a curve takes searches of its own."""
    if plot is not None and picture == "curve":
        return CURVE_SHARE * time_limit
    return min(0.25 * time_limit, PLOT_SECONDS) if plot or report else 0.0


def _draw_curve(saving: Saving, problem: Instance, result: Result, plot: str, deadline: float) -> None:
    """Draw least traffic over memory, as far as it is known by the deadline, and where the plan stands."""
    from tilewright.residency.curve_plot import draw_curve
    from tilewright.residency.exact.traffic_curve import point_of, traffic_curve

    plans = [] if result.plan is None else [result.plan]
    curve = traffic_curve(problem.problem, deadline, plans=plans)
    point = None if result.plan is None else point_of(problem.problem, result.plan)
    saving.save(plot, lambda: draw_curve(curve, plot, point=point, title=problem.name))


def _report(saving: Saving, problem: Instance, result: Result, report: str) -> list[str]:
    """Write the page about the plan, unless there is none or no time to execute it; say what is left out."""
    from tilewright.report import write

    if result.plan is None:
        return [f"not written: {report} would be about a plan, and there is none"]
    if not result.simulated:
        return [f"not written: {report} shows an execution; `tilewright report` takes its time for it"]
    saving.save(report, lambda: write(problem, result, report))
    return []


class _Progress(StatusLine):
    """What goes on: on a terminal one line, elsewhere one for each layer that takes its time."""

    def __init__(self, time_limit: float, unit: str, enabled: bool) -> None:
        super().__init__(enabled)
        self.unit = unit
        self.limit = _clock(time_limit)
        self._part = ""

    def part(self, part: PartInHand) -> None:
        """Show which layer is in hand, or say which has ended."""
        which = f"layer {part.number} of {part.many}"
        if self.terminal:
            self._part = f"{which}, "
        elif self.enabled and part.ended:
            note(f"{which}, {part.name}: {self._known(part.objective, part.bound)}")

    def show(self, seconds: float, objective: int | None, bound: int | None) -> None:
        """Show where the whole stands."""
        self.text = f"{self._part}{_clock(seconds)} of {self.limit}, {self._known(objective, bound)}"

    def _known(self, objective: int | None, bound: int | None) -> str:
        from tilewright.run.summary import known  # for start-up time

        return known(objective, bound, self.unit)


def _clock(seconds: float) -> str:
    """Show a time as minutes and seconds."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes:02}:{rest:02}"
