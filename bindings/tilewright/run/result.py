"""Result files: JSON, written atomically, read with suspicion."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.core import catalogue, json_file
from tilewright.core.context import MAX_SECONDS, Status
from tilewright.core.files import write_atomically
from tilewright.core.measures import read_measures
from tilewright.core.narrowing import AS_IT_IS
from tilewright.core.quantities import written_apart
from tilewright.core.room import Rows, room_of
from tilewright.core.version import __version__
from tilewright.run.formats import format_1
from tilewright.run.instance import Instance, answered, read
from tilewright.run.methods import is_method
from tilewright.run.solving.phases import PHASES
from tilewright.run.summary import csv_text, flat, gap_shown, html, text
from tilewright.simulator.report import Verdict
from tilewright.spec.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tilewright.core.overview import Decisions

FORMAT = 2
"""What files say that are written; format 1 is read, too (`run.formats.format_1`)."""

MAX_BYTES = 64_000_000
"""Largest result file that is read."""

FREE_BYTES, VALUE_BYTES = 4_000_000, 64
"""Largest result file of an instance: for the trace and texts, and for each value of plan and report."""

FREE_VALUES = 400_000
"""Most values beside those of plan and report."""


NOT_SIMULATED = (
    "there was no time to execute the plan, so the objective is the closed form's; "
    "`tilewright check` or `tilewright simulate` executes it"
)
"""What a reader is told of a plan that the simulator has not executed."""

LATER = (
    *("proved_by", "minimise", "unit", "space", "wider", "unverified", "at_least"),
    *("time_limit", "threads", "spent"),
    *("constraints", "without_constraints", "contradiction"),
)
"""Fields that files leave out where there is nothing to say, as older ones do."""

STATUSES = ("optimal", "feasible", "infeasible", "unknown")


@dataclass
class Result:
    """The answer of one method to one instance; the fields stand in docs/formats.md.

    Attributes
    ----------
    minimise, unit
        What `objective` and `bound` are of, and what they count; None in files that do not say so.
    space
        The plans that status, bound and gap are about, where a limit of the problem chooses them.
    wider
        What ``auto`` has found in a larger space: `space`, the setting (`set`) that asks for it, `objective`,
        `bound` and `seconds`.
    simulated
        Whether `objective` is the simulator's; where a simulation did not fit the time, it is the closed
        form's, and there is no report.
    confirmed_by
        A second method that proved the same, where the claim rests on a method's proof.
    proved_by
        The room's bound that closed the run before `method` had done anything; None where the method was run.
    unverified
        What a method claims that tilewright does not answer for, and that no other has proven; it counts for
        nothing.
    at_least
        The operations whose cost is but a lower bound, and why: the objective is then one, too.
    time_limit, threads
        What the run was given; None in older files.
    spent
        Seconds by what was done in them (`run.solving.phases`), so that a solver's own time is told apart
        from that of starting processes and building models; None in older files.
    constraints
        Those of the problem: what each says (`say`), why (`because`), and its `slack` in the plan, where it
        compares numbers.
    without_constraints
        What ``auto`` has found without them: `objective`, `bound` and `seconds`.
    contradiction
        Where there is no plan, what contradicts each other: `of`, names of constraints and limits; `minimal`,
        whether with any one of them left out there is a plan; and `confirmed_by`, the second method that
        finds no plan within them alone, where there is one.
    problem
        What the answer is to. Files do not hold it: a result that is read has it from `of`.
    format
        That of the file that it was read from; it is written in the newest.
    """

    room: str
    instance: str
    instance_sha256: str
    method: str
    status: Status
    objective: int | None
    bound: int | None
    gap: float | None
    seconds: float
    seed: int
    warm_start: str | None
    plan: Any
    report: Verdict | None
    bound_by: str | None = None
    grounds: str | None = None
    failures: list[str] = field(default_factory=list)
    interrupted: bool = False
    trace: list[tuple[float, int | None, int | None]] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    simulated: bool = True
    confirmed_by: str | None = None
    proved_by: str | None = None
    unverified: str | None = None
    at_least: dict[str, str] | None = None
    minimise: str | None = None
    unit: str | None = None
    space: str | None = None
    wider: dict[str, Any] | None = None
    time_limit: float | None = None
    threads: int | None = None
    spent: dict[str, float] | None = None
    constraints: list[dict[str, Any]] | None = None
    without_constraints: dict[str, Any] | None = None
    contradiction: dict[str, Any] | None = None
    problem: Any = field(default=None, repr=False, compare=False)
    format: int = field(default=FORMAT, repr=False, compare=False)

    @property
    def measures(self) -> Any:
        """What was measured of a valid plan, an object of its room's class; None where that is not known."""
        found = None if self.report is None or self.report.violation else self.report.measures
        kinds = catalogue.room(self.room).measures_type
        return found if isinstance(found, kinds) else None

    def of(self, instance: Instance) -> Result:
        """Return the result with the problem that it answers, so that it can be shown and drawn.

        Raises
        ------
        InputError
            If it is a result of another instance.
        """
        if self.room != instance.room or self.instance_sha256 != instance.sha256:
            shown = self.instance_sha256[:12]
            raise InputError(
                "instance_sha256", shown, f"is a result of another instance than {instance.name}"
            )
        return replace(self, problem=answered(instance, self.plan).problem)

    def summary(self, columns: int | None = None) -> str:
        """Return what the command line prints: parts, if there are several, what is decided, and totals.

        Parameters
        ----------
        columns
            The most characters of a line: tables leave out what does not fit, and say so. No limit by
            default.
        """
        narrowing = AS_IT_IS if self.problem is None else room_of(self.problem).narrowing
        return text(self._rows(), self._table(), self._decisions(), columns, narrowing)

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        """Return what notebooks show."""
        return html(self._rows(), self._table(), self._decisions())

    def _rows(self) -> Rows:
        """Return the lines of a summary as (what, how much)."""
        unit = self._unit
        objective, bound = written_apart([self.objective, self.bound], unit)
        least = "at least " if self.at_least else ""
        rows = [
            ("instance", self.instance),
            ("method", self.method),
            ("status", self.status + (" (interrupted)" if self.interrupted else "") + self.among),
            ("objective", least + objective),
            ("bound", bound + self._proven_by()),
            ("gap", self.gap_shown + self.among),
        ]
        rows += [("constraint", line) for line in self.constraints_shown]
        if self.without_constraints is not None:
            rows.append(("without them", self._free_of_constraints()))
        if self.contradiction is not None:
            rows.append(("contradiction", self._contradicting()))
        if self.wider is not None:
            rows.append((self.wider["space"], self.gained))
        rows += [("at least", line) for line in self.understated]
        if self.report is not None and self.report.violation:
            rows.append(("refused", self.report.violation))
        elif self.measures is not None and self.problem is not None:
            rows += room_of(self.problem).rows(self.problem, self.measures)
        if not self.simulated:
            rows.append(("not simulated", NOT_SIMULATED))
        if self.warm_start:
            rows.append(("warm start", self.warm_start))
        if self.grounds is not None:
            rows.append(("grounds", self.grounds))
        if self.proved_by is not None:
            rows.append(("proved by", f"the {self.proved_by}; {self.method} was not run"))
        if self.confirmed_by is not None:
            rows.append(("confirmed by", self.confirmed_by))
        if self.unverified is not None:
            rows.append(("unverified", self.unverified))
        rows += [("failure", message) for message in self.failures]
        rows.append(("time", f"{self.seconds:.1f} s"))
        return rows

    @property
    def _unit(self) -> str:
        """What the objective counts; nothing where that is not known."""
        return self.unit or getattr(self.problem, "unit", None) or ""

    @property
    def gap_shown(self) -> str:
        """The gap in percent; a dash where none is known, as where the objective is but a lower bound."""
        return "-" if self.at_least else gap_shown(self.objective, self.bound)

    @property
    def among(self) -> str:
        """The space of plans that status and gap are about, as words behind these."""
        return "" if self.space is None or self.status == "unknown" else f", among {self.space}"

    @property
    def gained(self) -> str:
        """What a larger space of plans gains, as far as it was looked at."""
        if self.wider is None:
            return ""
        least, bound, ours = self.wider["objective"], self.wider["bound"], self.objective
        cost, none_below = written_apart([least, bound], self._unit)
        if ours is not None and least >= ours:
            seconds = self.wider["seconds"]
            tried = f"nothing better in {seconds:.1f} s; none costs less than {none_below}"
            return "nothing better, proven" if bound >= ours else tried
        less = "" if ours is None else f", {100 * (1 - least / ours):.1f} % less"
        return f"{cost}{less}: --set {self.wider['set']}"

    @property
    def constraints_shown(self) -> list[str]:
        """A line for each constraint: what it says, why, and how much is left until it is broken."""
        lines = []
        for each in self.constraints or []:
            slack = each.get("slack")
            left = "" if slack is None else f"; {slack} left" if slack else "; nothing left"
            why = f" ({each['because']})" if each.get("because") else ""
            lines.append(f"{each['say']}{why}{left}")
        return lines

    def _free_of_constraints(self) -> str:
        """Say what the problem costs without its constraints, as far as that is known."""
        assert self.without_constraints is not None
        least, bound = self.without_constraints["objective"], self.without_constraints["bound"]
        cost, proven = written_apart([least, bound], self._unit)
        ours = self.objective
        more = (
            ""
            if not ours or ours <= least
            else f"; they cost {100 * (ours / least - 1) if least else 100:.1f} %"
        )
        return f"{cost}{', optimal' if bound >= least else f', at least {proven}'}{more}"

    def _contradicting(self) -> str:
        """Say what contradicts each other, by name."""
        assert self.contradiction is not None
        told = self.contradiction
        said = {f"constraints[{n}]": f"`{each['say']}`" for n, each in enumerate(self.constraints or [])}
        names = ", ".join(said.get(name, name) for name in told["of"])
        least = "without any one of them there is a plan" if told["minimal"] else "perhaps not all of them"
        return f"{names}; {least}" if len(told["of"]) > 1 else f"{names} alone"

    @property
    def understated(self) -> list[str]:
        """Lines that tell which operations cost at least what is counted, and why."""
        names: dict[str, list[str]] = {}
        for name, why in (self.at_least or {}).items():
            names.setdefault(why, []).append(name)
        return [f"{', '.join(each)}: {why}" for why, each in names.items()]

    def _table(self) -> list[tuple[str, ...]]:
        """Return a header and a line for each part of the plan; nothing where it has no parts."""
        if self.measures is None or self.problem is None:
            return []
        return room_of(self.problem).table(self.problem, self.measures) or []

    def _decisions(self) -> Decisions | None:
        """Return the table of what the plan decides; None where its room has none."""
        refused = self.report is not None and self.report.violation
        if refused or self.problem is None or self.plan is None:
            return None
        return room_of(self.problem).decisions(self.problem, self.plan, self.measures)

    def _proven_by(self) -> str:
        """Say what proves the bound: a method, or a bound with its parameters."""
        if self.bound_by is None:
            return ""
        return f"   {'proven by' if is_method(self.room, self.bound_by) else 'from the'} {self.bound_by}"

    def records(self) -> list[dict[str, Any]]:
        """Return what was measured of each layer, step, group or point of a front, as flat dictionaries.

        A plan without parts has one. Keys are the measures' names (docs/formats.md, Measures), those of
        nested tables joined by dots, as in ``loaded_elements.input``.
        """
        return [] if self.measures is None else [flat(record) for record in self.measures.records()]

    def csv(self) -> str | None:
        """Return `records` as CSV, None where nothing was measured; `records` of one part name the instance.

        In rooms whose plans are tables themselves, it is the plan.
        """
        if self.plan is not None and self.problem is not None:
            lines = room_of(self.problem).lines(self.problem, self.plan)
            if lines is not None:
                return csv_text(lines)
        records = self.records()
        whole = len(records) == 1 and not self.measures.has_parts
        return csv_text([{"instance": self.instance} | records[0]] if whole else records) if records else None

    def to_dataframe(self) -> Any:
        """Return `records` as a pandas DataFrame, or as they are where pandas is not installed."""
        try:
            import pandas
        except ImportError:
            return self.records()
        return pandas.DataFrame(self.records())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the most telling part of the plan.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; on a figure of its own if left out.

        A result that was read from a file is drawn with the bundled instance that it is of; `of` gives it
        another.

        Raises
        ------
        InputError
            If there is no plan to draw, or its instance is not known.
        """
        if self.plan is None:
            raise InputError("plan", None, f"the result has no plan (status {self.status})")
        problem = self.problem if self.problem is not None else self._of_bundled().problem
        room = room_of(problem)
        return room.plot.plot(problem, self.plan, room.simulate(problem, self.plan), ax=ax)

    def _of_bundled(self) -> Result:
        """Return the result with the problem of the bundled instance that has its name and its digest."""
        for path in catalogue.instances(self.room):
            if path.stem == self.instance:
                return self.of(read(path))
        limit = "is no bundled instance: `of(tilewright.read(FILE))` tells the result what it is of"
        raise InputError("instance", self.instance, limit)

    @property
    def exit_status(self) -> int:
        """0 with a plan, 1 without."""
        return 0 if self.plan is not None else 1

    def to_json(self) -> dict[str, Any]:
        """Return the content of a result file."""
        data = {"format": FORMAT} | {f.name: getattr(self, f.name) for f in _stored()}
        data["plan"] = None if self.plan is None else self.plan.to_json()
        report = None if self.report is None else replace(self.report, measures=self.measures)
        data["report"] = None if report is None else report.to_json()
        data["trace"] = [list(entry) for entry in self.trace]
        # Nothing is said where an older file says nothing.
        return {key: value for key, value in data.items() if key not in LATER or value is not None}

    def write(self, path: str | Path) -> None:
        """Write the file atomically."""
        write_atomically(Path(path), json.dumps(self.to_json(), allow_nan=False) + "\n")

    @classmethod
    def read(cls, path: str | Path, problem: Any = None) -> Result:
        """Read a result file; its claims are not believed, only well-formed.

        Parameters
        ----------
        problem
            What it should be a result of, if that is known: a file far larger than its results can be is
            refused before it is parsed.

        Raises
        ------
        InputError
            If the file is not a result of a known format.
        """
        return cls.from_json(_load(Path(path), problem), str(path))

    @classmethod
    def from_json(cls, data: dict[str, Any], file: str | None = None) -> Result:
        """Return what `to_json` has told, read as suspiciously as a file of that content.

        Raises
        ------
        InputError
            If it is not a result of a known format; names the file.
        """
        written = data.get("format")
        if type(written) is not int or written not in (1, FORMAT):
            raise InputError("format", written, f"this version reads formats 1 and {FORMAT}", file)
        known = {f.name: f for f in _stored()}
        optional = {
            name for name, f in known.items() if f.default is not MISSING or f.default_factory is not MISSING
        }
        unknown, missing = set(data) - set(known) - {"format"}, set(known) - set(data) - optional
        if unknown or missing:
            what = "unknown keys" if unknown else "missing keys"
            raise InputError("keys", sorted(unknown or missing), what, file)
        for key, (accepts, wanted) in _TYPES.items():
            if key in data and not accepts(data[key]):
                raise InputError(key, data[key], f"must be {wanted}", file)
        json_file.refuse_depth("report", data["report"], file)
        room = catalogue.room(data["room"])
        values = {key: data[key] for key in known if key in data} | {"format": written}
        if data["report"] is not None:
            read = _verdict if written == FORMAT else format_1.verdict
            values["report"] = read(room.measures_type, data["report"], file)
        values["plan"] = None if data["plan"] is None else room.plan_type.from_json(data["plan"], file)
        if "trace" in data:
            values["trace"] = [tuple(entry) for entry in data["trace"]]
        elif (data["objective"], data["bound"]) != (None, None):
            values["trace"] = [(data["seconds"], data["objective"], data["bound"])]
        return cls(**values)


def _verdict(kinds: Any, data: dict[str, Any], file: str | None) -> Verdict:
    """Return what a file says of an executed plan."""
    unknown = set(data) - {"valid", "violation", "numeric", "measures"}
    if unknown:
        raise InputError(f"report.{min(unknown)}", None, "unknown key", file)
    measures = None if data.get("measures") is None else read_measures(kinds, data["measures"], file)
    return Verdict(data["valid"], data.get("violation"), data.get("numeric"), measures)


def _stored() -> list[Field[Any]]:
    """Return the fields that a file holds."""
    return [field for field in fields(Result) if field.name not in ("problem", "format")]


def _is_int(value: Any) -> bool:
    return type(value) is int and abs(value) < 2**63


def _is_number(value: Any) -> bool:
    return _is_int(value) or (isinstance(value, float) and math.isfinite(value))


def _is_seconds(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 100 * MAX_SECONDS


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 1000 and value.isprintable()


def _is_report(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("valid"), bool)
        and (value.get("violation") is None or isinstance(value["violation"], str))
        and (value.get("numeric") is None or isinstance(value["numeric"], bool))
    )


def _is_constraint(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) - {"because", "slack"} == {"say"}
        and _is_text(value["say"])
        and _is_text(value.get("because", ""))
        and _is_int(value.get("slack", 0))
    )


def _is_trace_point(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 3
        and _is_seconds(value[0])
        and all(v is None or _is_int(v) for v in value[1:])
    )


def _or_null(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or accepts(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_NAME = "a printable text of at most 1000 characters"
_INTEGER = "an integer below 2^63"
_SECONDS = "a number of seconds, not negative"

_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "room": (lambda v: v in catalogue.ROOMS, f"one of: {', '.join(catalogue.ROOMS)}"),
    "instance": (_is_name, _NAME),
    "instance_sha256": (_is_name, _NAME),
    "method": (_is_name, _NAME),
    "status": (lambda v: v in STATUSES, f"one of: {', '.join(STATUSES)}"),
    "objective": (_or_null(_is_int), f"{_INTEGER}, or null"),
    "bound": (_or_null(_is_int), f"{_INTEGER}, or null"),
    "gap": (_or_null(_is_number), "a number, or null"),
    "seconds": (_is_seconds, _SECONDS),
    "seed": (_is_int, _INTEGER),
    "warm_start": (_or_null(_is_text), "a text, or null"),
    "report": (_or_null(_is_report), "an object with `valid` and `violation`, or null"),
    "bound_by": (_or_null(_is_name), f"{_NAME}, or null"),
    "grounds": (_or_null(_is_text), "a text, or null"),
    "failures": (lambda v: isinstance(v, list) and all(map(_is_text, v)), "a list of texts"),
    "interrupted": (lambda v: isinstance(v, bool), "true or false"),
    "trace": (
        lambda v: isinstance(v, list) and all(map(_is_trace_point, v)),
        "a list of [seconds, objective or null, bound or null]",
    ),
    "versions": (lambda v: isinstance(v, dict) and all(map(_is_text, v.values())), "an object of texts"),
    "simulated": (lambda v: isinstance(v, bool), "true or false"),
    "confirmed_by": (_or_null(_is_name), f"{_NAME}, or null"),
    "proved_by": (_or_null(_is_name), f"{_NAME}, or null"),
    "unverified": (_or_null(_is_text), "a text, or null"),
    "at_least": (
        lambda v: isinstance(v, dict) and all(map(_is_text, v.values())) and v != {},
        "an object of texts, by the names of operations",
    ),
    "minimise": (_is_name, _NAME),
    "unit": (_is_name, _NAME),
    "space": (_is_name, _NAME),
    "wider": (
        lambda v: (
            isinstance(v, dict)
            and set(v) == {"space", "set", "objective", "bound", "seconds"}
            and _is_name(v["space"])
            and _is_name(v["set"])
            and _is_int(v["objective"])
            and _is_int(v["bound"])
            and _is_seconds(v["seconds"])
        ),
        "an object with space, set, objective, bound and seconds",
    ),
    "time_limit": (_is_seconds, _SECONDS),
    "threads": (_is_int, _INTEGER),
    "constraints": (
        lambda v: isinstance(v, list) and v != [] and all(map(_is_constraint, v)),
        "a list of objects with say, and perhaps because and slack",
    ),
    "without_constraints": (
        lambda v: (
            isinstance(v, dict)
            and set(v) == {"objective", "bound", "seconds"}
            and _is_int(v["objective"])
            and _is_int(v["bound"])
            and _is_seconds(v["seconds"])
        ),
        "an object with objective, bound and seconds",
    ),
    "contradiction": (
        lambda v: (
            isinstance(v, dict)
            and {"of", "minimal"} <= set(v) <= {"of", "minimal", "confirmed_by"}
            and isinstance(v["of"], list)
            and all(map(_is_name, v["of"]))
            and isinstance(v["minimal"], bool)
            and _is_name(v.get("confirmed_by", "a method"))
        ),
        "an object with of, minimal and perhaps confirmed_by",
    ),
    "spent": (
        lambda v: isinstance(v, dict) and set(v) <= set(PHASES) and all(map(_is_seconds, v.values())),
        f"seconds by what was done: {', '.join(PHASES)}",
    ),
}


def told_constraints(problem: Any, plan: Any) -> list[dict[str, Any]] | None:
    """Return what a result says of the constraints of its problem, None where there are none."""
    if not problem.constraints:
        return None
    judged = [] if plan is None else problem.judge_constraints(plan)
    slacks = [each.slack for each in judged] or [None] * len(problem.constraints)
    return [
        {"say": str(each)}
        | ({"because": each.because} if each.because else {})
        | ({"slack": slack} if slack is not None else {})
        for each, slack in zip(problem.constraints, slacks, strict=True)
    ]


def _load(path: Path, problem: Any) -> dict[str, Any]:
    """Read a file that is not larger than results of the problem can be, whatever their layout."""
    if problem is None:
        return json_file.load(path, MAX_BYTES)
    values = room_of(problem).most_values(problem)
    most = min(MAX_BYTES, FREE_BYTES + VALUE_BYTES * values)
    return json_file.load(path, most, FREE_VALUES + values)


def versions(extra: dict[str, str] | None = None) -> dict[str, str]:
    """Return the versions that a result depends on."""
    return {"tilewright": __version__, "python": platform.python_version(), **(extra or {})}
