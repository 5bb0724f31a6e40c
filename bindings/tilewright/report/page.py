"""What stands on the page of a report, and how it becomes a file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from math import floor, log10
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from tilewright.core import catalogue
from tilewright.core.files import check_writable, write_atomically
from tilewright.core.overview import Cell, Column, Decisions, LeftOut, Overview
from tilewright.core.version import __version__
from tilewright.report.charts import charts
from tilewright.report.drawing import drawn, embedded
from tilewright.run.checking import consistency
from tilewright.run.checking.finding import Finding
from tilewright.run.instance import Instance
from tilewright.run.methods import is_method
from tilewright.run.result import NOT_SIMULATED, Result
from tilewright.run.summary import relative_gap, shown
from tilewright.simulator import Report
from tilewright.simulator.report import Verdict
from tilewright.spec.errors import InputError

SUFFIX = (".html", ".htm")
"""Endings of a page's name."""

LIBRARIES = ("dataTables.min.js", "vega.min.js", "vega-lite.min.js", "vega-embed.min.js")
"""What runs on the page, in this order; licences stand beside them."""

MILLION = 10**6

SCALED = {
    "ps": (10**12, "s"),
    "fJ": (10**15, "J"),
    "aJ": (10**18, "J"),
    "elements": (1, "elements"),
    "bytes": (1, "bytes"),
}
"""How many of a unit are one of the second unit, in which people are told of it with a prefix."""

PREFIXES = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))

STATUS = {
    "optimal": "Proven optimal: no plan of the space of plans that was searched costs less.",
    "feasible": "Valid; whether there is a better plan is not known. The gap says how much better, at most.",
    "infeasible": "Proven: there is no plan within the limits.",
    "unknown": "No plan was found in time, nor a proof that there is none.",
}

UNDERSTATED = "Valid. What some operations cost is but a lower bound, so that no plan is called optimal."

MARKS = {"verified": "ok", "refuted": "WRONG", "not verified": "not verified", "told": "told"}


class Shown(NamedTuple):
    """A cell as people read it, and what it is sorted by."""

    text: str
    order: Cell


class Table(NamedTuple):
    """A table: headings above columns with how many of these they span, columns, lines, and sums."""

    groups: list[tuple[str, int]]
    columns: Sequence[Column]
    lines: list[list[Shown]]
    sums: list[str] | None


def check_path(path: str | Path) -> None:
    """Refuse the path of a page that cannot be written, before any work is done for it.

    Raises
    ------
    InputError
        If its name has another ending, or it cannot be written.
    """
    if Path(path).suffix.lower() not in SUFFIX:
        raise InputError("report", str(path), f"the file's name must end in {' or '.join(SUFFIX)}")
    check_writable(Path(path))


def write(
    instance: Instance, result: Result, path: str | Path, *, findings: Sequence[Finding] | None = None
) -> None:
    """Write the page of a result: complete or not at all.

    Raises
    ------
    InputError
        If the result has no plan, its plan breaks a rule, or the result says something else of it.
    OutputError
        If the file cannot be written.
    """
    write_atomically(Path(path), page(instance, result, findings=findings))


def page(instance: Instance, result: Result, *, findings: Sequence[Finding] | None = None) -> str:
    """Return the page of a result, as HTML.

    The plan is executed for it, so that all numbers are the simulator's, whoever wrote the result.

    Parameters
    ----------
    findings
        What `tilewright.run.verify.check` has found of the result, if it was checked.

    Raises
    ------
    InputError
        If the result has no plan, its plan breaks a rule, or the result says something else of it.
    """
    if result.plan is None:
        raise InputError("plan", None, f"no plan to report (status {result.status})")
    result = result.of(instance)
    room, problem = catalogue.room(instance.room), result.problem
    executed = room.simulate(problem, result.plan)
    _refuse_other(room.measured_objective(problem, executed) if executed.valid else None, executed, result)
    _refuse_contradictions(result, problem, executed.verdict())
    overview = room.overview(problem, result.plan, executed.measures)
    unit = problem.unit or "cycles"
    figure = (
        room.plot.sheet(problem, result.plan, executed, title=instance.name) if overview.picture else None
    )
    scripts = [*_libraries(), _text("start.js")]
    graph = drawn(overview.graph)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            instance=instance,
            result=result,
            room=room,
            version=__version__,
            unit=unit,
            minimised=result.minimise or getattr(problem, "minimise", "cost"),
            objective=_amount(result.objective, unit, problem),
            bound=_amount(result.bound, unit, problem),
            gap=result.gap_shown,
            at_least=result.understated,
            status=UNDERSTATED if result.at_least else STATUS[result.status],
            space=_declared(result),
            not_simulated=None if result.simulated else NOT_SIMULATED,
            rows=room.rows(problem, executed.measures),
            verified=_verified(result, unit),
            findings=[(MARKS[each.state], each.what, each.detail) for each in findings or ()],
            left_out=_by_kind(overview.left_out),
            left_out_layers=overview.left_out,
            table=_table(overview, result),
            decided=_decided(overview.decisions),
            what=overview.what,
            about=overview.about,
            charts=charts(overview, result.trace, unit),
            graph=graph,
            graph_scale=0.6 / (max((node.share or 0.0 for node in overview.graph), default=0.0) or 1.0),
            undrawn=len(overview.graph) if overview.graph and graph is None else 0,
            picture=None if figure is None else embedded(figure),
            asked=_asked(instance, result),
            given=_given(problem),
            style=_text("style.css"),
            scripts=scripts,
            policy=_policy(scripts),
        )
    )


def _refuse_other(measured: int | None, executed: Report, result: Result) -> None:
    """Refuse a result that the simulator contradicts."""
    if not executed.valid:
        raise InputError("plan", str(executed.violation), "the simulator refuses the plan")
    if measured != result.objective:
        limit = f"is not what the plan costs: the simulator finds {shown(measured)}"
        raise InputError("objective", result.objective, limit)


def _refuse_contradictions(result: Result, problem: Any, executed: Verdict) -> None:
    """Refuse a result whose fields contradict each other, its instance, or the simulator."""
    findings = [
        consistency.status(result),
        consistency.trace(result),
        *consistency.naming(result, problem),
        *consistency.at_least(result, problem),
    ]
    for finding in findings:
        if finding.state == "refuted":
            raise InputError(finding.what, None, finding.detail)
    if result.report is not None and result.simulated:
        differing = [
            key
            for key in consistency.differences(result, executed)
            if key.rpartition(".")[2] not in consistency.MEANWHILE
        ]
        if differing:
            raise InputError("report", None, f"is not what the simulator finds: {', '.join(differing[:8])}")


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("tilewright.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _text(name: str) -> str:
    return (files("tilewright.report") / "templates" / name).read_text("utf-8")


def _libraries() -> list[str]:
    """Return the libraries, each below its licence."""
    folder, found = files("tilewright.report") / "vendor", []
    for name in LIBRARIES:
        licence = (folder / name.replace(".min.js", ".LICENSE")).read_text("utf-8")
        found.append(f"/*\n{licence}*/\n{(folder / name).read_text('utf-8')}")
    return found


def _policy(scripts: Sequence[str]) -> str:
    """Return what a browser may do on the page: run these scripts, and fetch nothing."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:"


# Numbers -----------------------------------------------------------------------------------------------


def _amount(value: int | None, unit: str, problem: Any) -> tuple[str, str]:
    """Return an amount of an objective with its unit, and what people would rather know, if there is that."""
    if value is None:
        return "-", ""
    exact = f"{value:,} {unit}"
    clock = getattr(getattr(problem, "machine", None), "clock_mhz", None)
    if unit == "cycles" and clock:
        return exact, _prefixed(value / (clock * MILLION), "s")
    parts, base = SCALED.get(unit, (1, unit))
    return (_prefixed(value / parts, base), exact) if parts > 1 else (exact, "")


def _prefixed(value: float, unit: str) -> str:
    """Return a number in the unit that has few digits for it."""
    size, prefix = next(((size, prefix) for size, prefix in PREFIXES if abs(value) >= size), PREFIXES[-1])
    return f"{value / size:,.4g} {prefix}{unit}"


def _written(value: Cell, column: Column, digits: int) -> Shown:
    if value is None or isinstance(value, str):
        return Shown(value or "", value or "")
    if column.kind == "share":
        return Shown(f"{100 * value:.1f} %", value)
    return Shown(f"{value:,}" if column.kind == "count" else f"{value:,.{digits}f}", value)


def _digits(values: Sequence[Cell]) -> int:
    """Return the decimals with which the largest number of a column has about five digits, at most three."""
    largest = max((abs(value) for value in values if isinstance(value, int | float)), default=0)
    return max(0, min(3, 3 - floor(log10(largest)))) if largest else 0


def _table(overview: Overview, result: Result) -> Table | None:
    """Return the table of parts, with the gap of each where the whole is their sum."""
    if not overview.columns:
        return None
    columns, lines = list(overview.columns), list(overview.lines)
    if overview.costs:
        proven = result.objective == result.bound
        columns.append(Column("gap", "gap, at most", "share"))
        gaps = {
            name: 0.0 if proven else relative_gap(cost, overview.bounds[name])
            for name, cost in overview.costs.items()
        }
        lines = [{**line, "gap": gaps.get(str(line["name"]))} for line in lines]
    digits = {column.key: _digits([line.get(column.key) for line in lines]) for column in columns}
    cells = [
        [_written(line.get(column.key), column, digits[column.key]) for column in columns] for line in lines
    ]
    groups: list[tuple[str, int]] = []
    for column in columns:
        if groups and groups[-1][0] == column.group:
            groups[-1] = column.group, groups[-1][1] + 1
        else:
            groups.append((column.group, 1))
    sums = None
    if len(lines) > 1 and any(column.summed for column in columns):
        sums = [_sum(column, lines, digits[column.key]) for column in columns]
        sums[0] = "sum"
        if overview.costs:
            sums[-1] = result.gap_shown
    return Table(groups, columns, cells, sums)


def _decided(decisions: Decisions | None) -> Table | None:
    """Return the table of what a plan decides; tiles are sorted by their size, not by what they cut."""
    if decisions is None:
        return None

    def cell(text: str) -> Shown:
        number = text.partition("/")[0]
        return Shown(text, int(number) if number.isdigit() else text)

    columns = [
        Column(str(place), title, "number" if right else "text")
        for place, (title, right) in enumerate(zip(decisions.header, decisions.right, strict=True))
    ]
    return Table([("", len(columns))], columns, [list(map(cell, line)) for line in decisions.lines], None)


def _sum(column: Column, lines: Sequence[Mapping[str, Cell]], digits: int) -> str:
    if not column.summed:
        return ""
    values = [value for line in lines if isinstance(value := line.get(column.key), int | float)]
    return _written(sum(values), column, digits).text if values else ""


# What is said ------------------------------------------------------------------------------------------


def _verified(result: Result, unit: str) -> list[str]:
    """Say on what the numbers rest."""
    told = [
        "The simulator executed the plan step by step when this page was made. It found no broken rule, and "
        "all that stands here of the plan is what it measured."
    ]
    if result.bound is not None:
        by = result.bound_by
        proven = (
            "" if by is None else f", proven by {by}" if is_method(result.room, by) else f", from the {by}"
        )
        told.append(f"No plan {_declared(result)} costs less than {result.bound:,} {unit}{proven}.")
        if result.wider is not None:
            told.append(f"Among {result.wider['space']}: {result.gained}.")
    if result.confirmed_by is not None:
        told.append(f"A second method, {result.confirmed_by}, proved the same.")
    if result.grounds is not None:
        told.append(f"Grounds: {result.grounds}.")
    told += [f"A method failed: {failure}" for failure in result.failures]
    if result.interrupted:
        told.append("The search was interrupted.")
    return told


def _declared(result: Result) -> str:
    """Say among which plans one is optimal."""
    return "of the declared space" if result.space is None else f"among {result.space}"


def _by_kind(left_out: Sequence[LeftOut]) -> list[tuple[str, int, int, int]]:
    """Return kind, number, MACs and bytes of what is not counted, and the sums at the end."""
    found: dict[str, list[int]] = {}
    for layer in left_out:
        entry = found.setdefault(layer.kind, [0, 0, 0])
        for place, amount in enumerate((1, layer.macs, layer.moved_bytes)):
            entry[place] += amount
    if len(found) > 1:
        found["all"] = [sum(column) for column in zip(*found.values(), strict=True)]
    return [(kind, many, macs, moved) for kind, (many, macs, moved) in found.items()]


SUBJECTS = ("network", "layer", "layers", "machine", "ranges")
"""Tables of an instance that say what is planned, and on what; the others say what is wanted of a plan."""


def _asked(instance: Instance, result: Result) -> list[tuple[str, str]]:
    """Return what was asked for: of which instance, which objective within which limits, and how."""
    wanted = {key: value for key, value in instance.problem.told().items() if key not in SUBJECTS}
    seconds, threads = result.time_limit, result.threads
    return [
        ("instance", instance.name if instance.path is None else f"{instance.name} ({instance.path.name})"),
        ("room", instance.room),
        *_flat(wanted),
        ("method", result.method),
        ("time limit of the search", "not told" if seconds is None else f"{seconds:g} s"),
        *([] if threads is None else [("threads", str(threads))]),
        ("seed", str(result.seed)),
    ]


def _given(problem: Any) -> list[tuple[str, str]]:
    """Return what is planned, and on what, as it was given or is by default."""
    return _flat({key: value for key, value in problem.told().items() if key in SUBJECTS})


def _flat(table: Mapping[str, Any], path: str = "") -> list[tuple[str, str]]:
    """Return the fields of an instance but for those of its layers, which stand elsewhere."""
    found: list[tuple[str, str]] = []
    for key, value in table.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping):
            found += _flat(value, f"{name}.")
        elif isinstance(value, list | tuple) and any(isinstance(each, Mapping) for each in value):
            if key in ("layers", "templates"):
                found.append((name, f"{len(value)}"))
                continue
            for at, each in enumerate(value):
                found += _flat(each, f"{name}.{each.get('name', at)}.")
        elif value is not None:
            found.append(
                (name, ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
            )
    return found
