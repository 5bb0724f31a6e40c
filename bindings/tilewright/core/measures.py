"""What was measured of an executed plan: a typed class for each room, of which all else is derived.

A room's ``measures.py`` says once what there is: a field's name ends with its unit, the text below it says
what it means. The JSON of results, its schema, the tables of docs/formats.md and the columns of CSV files
follow from the classes; summaries, pictures and reports read their fields. A field that is added later has
the default None, so that older files can be read.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from textwrap import dedent
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    dataclass_transform,
    get_args,
    get_type_hints,
)

from pydantic import Field, TypeAdapter, ValidationError

from tilewright.simulator import Report
from tilewright.simulator.program import Counts
from tilewright.spec.errors import InputError

Count = Annotated[int, Field(ge=0)]
NonNegative = Annotated[int | float, Field(ge=0)]
Amounts = dict[str, Count]

TableT = TypeVar("TableT")

Duration = Literal["serial", "lockstep", "scheduled"]


@dataclass_transform(kw_only_default=True, frozen_default=True)
def measures(table: type[TableT]) -> type[TableT]:
    """Make a class of measures a dataclass that is built by keywords and never changed.

    That is quicker to make than a frozen dataclass with methods of its own: many are made at start-up.
    """
    return dataclass(kw_only=True, repr=False, eq=False)(table)


@measures
class Table:
    """A table of a result file: these keys and no others.

    Attributes
    ----------
    PARTS
        Fields that hold tables of parts, with what a part is called: a table of text, as CSV, has a line for
        each part of the first of them that there is, and an overview of a whole plan leaves them out.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}
    PARTS: ClassVar[Mapping[str, str]] = {}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in vars(self).items() if value is not None)
        return f"{type(self).__name__}({', '.join(shown)})"

    def to_json(self) -> dict[str, Any]:
        """Return the table as JSON has it; what may be missing and is None is left out."""
        return {
            field.name: as_json(value)
            for field in fields(self)
            if (value := getattr(self, field.name)) is not None or field.default is MISSING
        }

    def records(self) -> list[dict[str, Any]]:
        """Return a table for each part of the plan, its name or number first; without parts one of it all."""
        for name, part in self.PARTS.items():
            parts = getattr(self, name)
            if parts:
                named = parts.items() if isinstance(parts, Mapping) else enumerate(parts, 1)
                return [({part: key} if part else {}) | each.to_json() for key, each in named]
        return [self.totals()]

    @property
    def has_parts(self) -> bool:
        """Whether `records` are of parts."""
        return any(getattr(self, name) for name in self.PARTS)

    def totals(self) -> dict[str, Any]:
        """Return what is measured of the whole plan, without its parts."""
        return {key: value for key, value in self.to_json().items() if key not in self.PARTS}


@measures
class Executed(Table):
    """What the simulator counts in every room."""

    steps: Count
    """Steps that compute something."""
    macs: Count
    """Multiply-accumulates; in `fusion` those of convolutions only."""
    transfers: Count
    """Load actions and write-back actions."""
    loaded_elements: Amounts
    """Elements loaded from external memory, by operand or tensor, those without any left out."""
    written_elements: Amounts
    """Elements written to external memory."""
    streamed_elements: Count
    """Elements that engines exchanged with on-chip memories while they computed."""
    peak_elements: Count
    """Most elements on chip at one time."""
    most_loads_of_an_element: Count
    """How often the most loaded element was loaded."""


@measures
class InCycles(Executed):
    """Executed on a machine whose times are cycles."""

    serial_cycles: Count | None = None
    """One action after the other, without any overlap."""
    lockstep_cycles: Count | None = None
    """Double-buffered, tile by tile: transfers of the next tile beside the computation of this one."""
    scheduled_cycles: Count | None = None
    """By the static schedule that the plan has; in `allocation` of all `executed_frames` together."""
    overlapped_cycles: Count | None
    """Every engine on a clock of its own; null where that was not simulated."""


@measures
class Lasting(InCycles):
    """A plan that takes a number of cycles."""

    duration_cycles: Count
    """What the plan takes on its machine, of a network all layers together."""
    duration_of: Duration
    """Which of the other numbers of cycles the duration is."""


@measures
class InPicoseconds(Executed):
    """Executed on a machine whose times are picoseconds."""

    serial_ps: Count
    """One action after the other, as the cores go on together."""
    overlapped_ps: Count | None
    """Every engine on a clock of its own; null where that was not simulated."""


def counted(
    report: Report, clock: str = "cycles", operand: Callable[[str], str] = lambda tensor: tensor
) -> dict[str, Any]:
    """Return the fields of `InCycles`, or of `InPicoseconds`, from the report of an executed plan.

    Parameters
    ----------
    clock : {"cycles", "ps"}
        What the program's times count.
    operand
        Returns the operand that a tensor is a part of.
    """
    lines = {
        "serial": report.sequential,
        "lockstep": report.lockstep,
        "scheduled": report.scheduled,
        "overlapped": report.overlapped,
    }
    return {
        "steps": report.n_steps,
        "macs": report.total(report.macs),
        "transfers": report.transfers,
        "loaded_elements": _elements(report, report.loaded, operand),
        "written_elements": _elements(report, report.written, operand),
        "streamed_elements": report.streamed,
        "peak_elements": report.peak,
        "most_loads_of_an_element": max(report.most_loads.values(), default=0),
        **{
            f"{name}_{clock}": None if line is None else line.cycles
            for name, line in lines.items()
            if line is not None or name == "overlapped"
        },
    }


def _elements(report: Report, table: Mapping[str, Counts], operand: Callable[[str], str]) -> dict[str, int]:
    """Return the elements of each operand that has any."""
    found: dict[str, int] = {}
    for tensor, counts in table.items():
        if total := report.total(counts):
            found[operand(tensor)] = found.get(operand(tensor), 0) + total
    return found


def as_json(value: Any) -> Any:
    """Return a value as JSON has it: tables, and lists and tables of names that hold such."""
    if isinstance(value, Table):
        return value.to_json()
    if isinstance(value, Mapping):
        return {key: as_json(each) for key, each in value.items()}
    return [as_json(each) for each in value] if isinstance(value, list | tuple) else value


def joined(names: Iterable[str]) -> str:
    """Return one key of several names: others give another key, whatever they are."""
    return "+".join(name.replace("\\", "\\\\").replace("+", "\\+") for name in names)


def separated(key: str) -> list[str]:
    """Return the names that `joined` has made one key of."""
    return [re.sub(r"\\(.)", r"\1", name) for name in re.findall(r"(?:\\.|[^+\\])+", key)]


def read_measures(kinds: Any, data: Any, file: str | None = None) -> Any:
    """Return the measures that JSON holds.

    Parameters
    ----------
    kinds
        The class of measures, or the union of several.
    data
        A table as JSON has it.

    Raises
    ------
    InputError
        If it is of none of these classes; names a field that is wrong and the file.
    """
    text, wrong = json.dumps(data), []
    for kind in get_args(kinds) or (kinds,):
        try:
            return _adapter(kind).validate_json(text, strict=True)
        except ValidationError as error:
            wrong.append(error.errors(include_url=False))
    first = min(wrong, key=len)[0]
    limits = {"unexpected_keyword_argument": "unknown key", "missing": "is missing"}
    field = ".".join(["report", "measures", *map(str, first["loc"])])
    given = None if first["type"] == "missing" else first["input"]
    raise InputError(field, given, limits.get(first["type"], "must be as docs/formats.md says"), file)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


# Meanings -------------------------------------------------------------------------------------------


def tables_of(kinds: Any) -> list[type[Table]]:
    """Return the classes of measures in a type, with those of their fields, each once."""
    found: dict[type[Table], None] = {}
    waiting = [kinds]
    while waiting:
        kind = waiting.pop(0)
        if isinstance(kind, type) and issubclass(kind, Table):
            if kind in found:
                continue
            found[kind] = None
            waiting += get_type_hints(kind).values()
        waiting += get_args(kind)
    return list(found)


def fields_of(table: type[Table]) -> list[str]:
    """Return the fields that a class of measures has beside those of its bases."""
    return [name for name, kind in vars(table).get("__annotations__", {}).items() if "ClassVar" not in kind]


def meanings(table: type[Any]) -> Mapping[str, str]:
    """Return what each field of a dataclass means: the text below it, in its class or a base."""
    found: dict[str, str] = {}
    for each in reversed(table.__mro__):
        if is_dataclass(each):
            found |= _texts(each)
    return found


def _texts(table: type[Any]) -> dict[str, str]:
    """Return the text below each field in the body of a class."""
    (body,) = ast.parse(dedent(inspect.getsource(table))).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for statement, below in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            found[statement.target.id] = inspect.cleandoc(str(below.value.value))
    return found
