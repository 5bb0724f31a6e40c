"""One problem at many values of its fields: each point solved, or refused with the reason."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tilewright.core.narrowing import Narrowing
from tilewright.core.quantities import is_scaled, written_apart
from tilewright.plotting.sweep import plot_sweep
from tilewright.plotting.text import shortened
from tilewright.run.batch.journal import Journal
from tilewright.run.batch.tasks import Answer, Executor, Task, compiled, perform_all
from tilewright.run.instance import Instance
from tilewright.run.result import Result
from tilewright.run.summary import flat, html
from tilewright.run.tables import aligned
from tilewright.run.workers import compiling
from tilewright.spec.errors import InputError, TilewrightError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST_REMARK = 70
"""Letters of a remark in a summary; a file has all."""

Values = dict[str, Any]
"""What a point gives to each swept field."""

MOST_POINTS = 1_000_000

SUFFIXES = {"K": 2**10, "M": 2**20, "G": 2**30}

MOST_SHOWN = 40
"""Points that a summary shows; a file has all."""


NARROWING = Narrowing({"machine.": "", "levels.": ""}, ("remark", "gap"))


@dataclass(frozen=True)
class Point:
    """Values of the swept fields, and what has become of the problem with them.

    Attributes
    ----------
    result
        None where there is none.
    error
        Why there is none: the values are refused, or the solve has failed.
    """

    values: Values
    result: Result | None
    error: TilewrightError | None = None

    @property
    def status(self) -> str:
        """The result's, or ``refused`` for values that are no problem, or ``failed``."""
        if self.result is not None:
            return self.result.status
        return "refused" if isinstance(self.error, InputError) else "failed"

    def record(self) -> dict[str, Any]:
        """Return values, answer and measures of the whole as one flat dictionary."""
        found = self.result
        measures = None if found is None else found.measures
        why = None if self.error is None else _in_a_line(self.error)
        if found is not None and found.report is not None and found.report.violation:
            why = found.report.violation
        elif found is not None and found.at_least:
            why = f"at least: {'; '.join(found.understated)}"
        answer = {
            "status": self.status,
            "minimise": None if found is None else found.minimise,
            "unit": None if found is None else found.unit,
            "objective": None if found is None else found.objective,
            "bound": None if found is None else found.bound,
            "gap": None if found is None else found.gap,
            "seconds": None if found is None else found.seconds,
            "reason": why,
        }
        whole = {} if measures is None else flat(measures.totals())
        told = self.values | answer
        return told | {name: value for name, value in whole.items() if name not in told}


@dataclass(frozen=True)
class Sweep:
    """The points of a sweep, in the order in which they were asked for."""

    name: str
    method: str
    fields: tuple[str, ...]
    points: tuple[Point, ...]

    def __iter__(self) -> Iterator[Point]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, place: int) -> Point:
        return self.points[place]

    def records(self) -> list[dict[str, Any]]:
        """Return a flat dictionary for each point: values of fields, answer, measures."""
        return [point.record() for point in self.points]

    def to_dataframe(self) -> Any:
        """Return `records` as a pandas DataFrame, or as they are where pandas is not installed."""
        try:
            import pandas
        except ImportError:
            return self.records()
        return pandas.DataFrame(self.records())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the objective over the swept field that has most values, a line for each of the others.

        Raises
        ------
        InputError
            If no point has a plan.
        """
        return plot_sweep(self.records(), self.fields, self.name, ax)

    def to_json(self) -> list[dict[str, Any]]:
        """Return an object for each point: values, and result or reason."""
        return [
            {
                "values": point.values,
                "status": point.status,
                "result": None if point.result is None else point.result.to_json(),
                "reason": None if point.error is None else _in_a_line(point.error),
            }
            for point in self.points
        ]

    def _table(self, most: int) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        header = (*self.fields, "status", "objective", "bound", "gap", "remark")
        lines = [
            (
                *(_written(point.values.get(field)) for field in self.fields),
                point.status,
                *_objective_and_bound(point.result),
                point.result.gap_shown if point.result else "-",
                shortened(point.record()["reason"] or "", LONGEST_REMARK),
            )
            for point in self.points[:most]
        ]
        return header, lines

    def _totals(self) -> list[tuple[str, str]]:
        counts: dict[str, int] = {}
        for point in self.points:
            counts[point.status] = counts.get(point.status, 0) + 1
        told = ", ".join(f"{number} {status}" for status, number in counts.items())
        return [("instance", self.name), ("method", self.method), ("points", f"{len(self.points)}: {told}")]

    def summary(self, columns: int | None = None) -> str:
        """Return the table that the command line prints, in lines of at most so many characters."""
        header, lines = self._table(MOST_SHOWN)
        more = len(self.points) - len(lines)
        rest = [f"and {more} more: -o FILE.csv has all"] if more > 0 else []
        return "\n".join(
            [
                *aligned(lines, header, columns, NARROWING),
                *rest,
                "",
                *aligned(self._totals(), columns=columns),
            ]
        )

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        """Return what notebooks show."""
        header, lines = self._table(MOST_SHOWN)
        return html(self._totals(), [header, *lines])


Making = Callable[[Values], Instance]
"""Makes the instance of a point; raises InputError for values that are no problem."""


def sweep(
    make: Making,
    points: Sequence[Values],
    method: str,
    executor: Executor,
    *,
    name: str,
    time_limit: float,
    threads: int = 1,
    seed: int = 0,
    journal: Journal | None = None,
    on_point: Callable[[Point], None] = lambda _point: None,
    on_compile: compiling.Tell | None = None,
) -> Sweep:
    """Solve a problem at many points; KeyboardInterrupt ends it with what there is.

    Parameters
    ----------
    make
        Makes the instance of a point.
    points
        Values of fields.
    executor
        Where the points are solved.
    time_limit, threads, seed
        Of each point.
    journal
        Where results are kept as they come, and those that stand in it are not searched again.
    on_point
        Called when a point has been solved or refused.
    on_compile
        Called with a sentence before something is compiled.

    Raises
    ------
    TilewrightError
        If the executor is lost, when all that it has answered is in the journal.
    """
    with _file_of_parts(journal) as parts:
        return _swept(
            points,
            lambda values: Task(make(values), method, time_limit, threads, seed, remember=parts),
            executor,
            name=name,
            method=method,
            journal=journal,
            on_point=on_point,
            on_compile=on_compile,
        )


def _swept(
    points: Sequence[Values],
    task_of: Callable[[Values], Task],
    executor: Executor,
    *,
    name: str,
    method: str,
    journal: Journal | None,
    on_point: Callable[[Point], None],
    on_compile: compiling.Tell | None,
) -> Sweep:
    refused: dict[int, Point] = {}
    tasks: list[Task] = []
    numbers: list[int] = []
    for number, values in enumerate(points):
        try:
            tasks.append(task_of(values))
            numbers.append(number)
        except InputError as error:
            refused[number] = Point(values, None, error)
            on_point(refused[number])
    if tasks:
        compiling.ensure(compiled(tasks[0]), on_compile)  # once, before several processes would
    answers = perform_all(
        tasks,
        executor,
        journal=journal,
        on_answer=lambda number, answer: on_point(_point(points[numbers[number]], answer)),
    )
    done = {
        number: _point(points[number], answer) for number, answer in zip(numbers, answers, strict=True)
    } | refused
    fields = tuple(dict.fromkeys(field for values in points for field in values))
    return Sweep(name, method, fields, tuple(done[number] for number in range(len(points))))


@contextlib.contextmanager
def _file_of_parts(journal: Journal | None) -> Iterator[str]:
    """Give the file in which processes keep what they find of layers: beside the journal, if there is one."""
    if journal is not None:
        yield os.path.abspath(journal.path) + ".parts"
        return
    with tempfile.TemporaryDirectory(prefix="tilewright-sweep-") as folder:
        yield os.path.join(folder, "parts")


def _point(values: Values, answer: Answer) -> Point:
    return Point(values, answer.result, answer.error)


def product(axes: Mapping[str, Iterable[Any]], points: Sequence[Values] = ({},)) -> list[Values]:
    """Return points with all combinations of the values of some fields, the last of which changes fastest.

    Raises
    ------
    InputError
        If a field has no values, or there are more than `MOST_POINTS`.
    """
    lists = {field: list(values) for field, values in axes.items()}
    many = len(points)
    for field, values in lists.items():
        if not values:
            raise InputError(field, values, "must have at least one value")
        many *= len(values)
    if not 0 < many <= MOST_POINTS:
        raise InputError("points", many, f"must be at least 1 and at most {MOST_POINTS}")
    return [
        {**point, **dict(zip(lists, chosen, strict=True))}
        for point in points
        for chosen in itertools.product(*lists.values())
    ]


def axis(text: str) -> tuple[str, list[Any]]:
    """Read ``field=8K,16K,...,1M``: a field, and the list of its values.

    K, M and G are 2^10, 2^20 and 2^30. ``...`` continues what stands before it up to what stands after it, by
    the constant factor of these numbers, or where that does not lead there, by their constant difference.

    Raises
    ------
    InputError
        If it is not like that.
    """
    field, equals, listed = text.partition("=")
    field = field.strip()
    if not equals or not all(field.split(".")):
        raise InputError("--set", text, "must be like machine.memory_bytes=8K,16K,...,1M")
    items = _split(listed)
    if "..." not in items:
        return field, [value(item) for item in items]
    at = items.index("...")
    if items.count("...") > 1 or at < 2 or at != len(items) - 2:
        limit = "`...` stands once, after two numbers or more and before the last one"
        raise InputError(f"--set {field}", listed, limit)
    return field, _continued(field, listed, [value(item) for item in (*items[:at], items[-1])])


def value(text: str) -> Any:
    """Read one value: a number with K, M or G, or what TOML has; what is none of these is a text."""
    text = text.strip()
    if found := re.fullmatch(r"(\d+(?:\.\d+)?)([KMG])", text):
        exact = Fraction(found[1]) * SUFFIXES[found[2]]
        return int(exact) if exact.denominator == 1 else float(exact)
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError, KeyError):
        return text


def _split(text: str) -> list[str]:
    """Split at the commas that stand in no brackets and no quotes."""
    items, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "[{") - (letter in "]}")
        if letter == "," and not depth and not quote:
            items.append("")
        else:
            items[-1] += letter
    return [item.strip() for item in items]


def _continued(field: str, listed: str, given: list[Any]) -> list[Any]:
    """Return the numbers from the first to the last, which the others begin to count."""
    where = f"--set {field}"
    if not all(type(number) in (int, float) for number in given):
        raise InputError(where, listed, "`...` stands between numbers")
    try:
        exact = [Fraction(Decimal(str(number))) for number in given]
    except (InvalidOperation, ValueError, OverflowError):
        raise InputError(where, listed, "`...` stands between finite numbers") from None
    *begun, last = exact
    for grown in (_by_factor, _by_difference):
        numbers = grown(begun, last)
        if numbers is not None:
            whole = all(type(number) is int for number in given)
            return [int(n) if whole and n.denominator == 1 else float(n) for n in numbers]
    limit = f"{given[-1]} is reached neither by a constant factor nor by a constant difference"
    raise InputError(where, listed, f"{limit}, in at most {MOST_POINTS} steps")


def _by_factor(begun: list[Fraction], last: Fraction) -> list[Fraction] | None:
    first, second = begun[:2]
    if not (first and second and last) or abs(first) == abs(second) or first * last < 0 or first * second < 0:
        return None
    factor = second / first
    return _grown(begun, last, lambda number: number * factor)


def _by_difference(begun: list[Fraction], last: Fraction) -> list[Fraction] | None:
    step = begun[1] - begun[0]
    if not step or abs((last - begun[0]) / step) > MOST_POINTS:
        return None
    return _grown(begun, last, lambda number: number + step)


def _grown(
    begun: list[Fraction], last: Fraction, following: Callable[[Fraction], Fraction]
) -> list[Fraction] | None:
    """Return the numbers up to the last; None where that is missed, or what was begun is."""
    numbers = [begun[0]]
    while numbers[-1] != last:
        number = following(numbers[-1])
        if abs(number - last) >= abs(numbers[-1] - last) or len(numbers) >= MOST_POINTS:
            return None  # it comes no nearer
        numbers.append(number)
    return numbers if numbers[: len(begun)] == begun else None


def _in_a_line(error: TilewrightError) -> str:
    """Return what an error says; the file is the same for all points."""
    file = getattr(error, "file", None)
    lines = str(error).splitlines()
    return "; ".join(line.removeprefix(f"{file}: ") if file else line for line in lines)


def _objective_and_bound(result: Result | None) -> tuple[str, ...]:
    """Return both as people read them."""
    if result is None:
        return "-", "-"
    unit = result.unit or ""
    return tuple(written_apart([result.objective, result.bound], unit if is_scaled(unit) else ""))


def _written(given: Any) -> str:
    return "-" if given is None else str(given)
