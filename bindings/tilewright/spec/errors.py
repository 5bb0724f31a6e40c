"""The errors that tilewright raises on purpose: one family, one exit status each."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence

LONGEST_VALUE = 80
"""Most characters of a value that a message shows."""

MOST_ERRORS = 8
"""Most errors of one file that are told at once."""


class TilewrightError(Exception):
    """Base of every error that is reported to the user without a traceback."""

    exit_status = 2


class InputError(TilewrightError, ValueError):
    """Something that the user gave is refused before any solver starts.

    It is a ``ValueError``, so that pydantic goes on to the other fields and tells all errors at once.

    Parameters
    ----------
    field
        Dotted name of the offending field, for example ``layer.kernel``.
    value
        What stood there; None where nothing did.
    limit
        What would have been accepted.
    file
        Path of the file, when it came from one.
    """

    def __init__(self, field: str, value: object, limit: str, file: str | None = None) -> None:
        self.field, self.value, self.limit, self.file = field, value, limit, file
        where = f"{file}: " if file else ""
        given = "" if value is None else f" = {shown_value(value)}"
        super().__init__(f"{where}{field}{given}: {limit}")

    def in_file(self, file: str) -> InputError:
        """Return the same error, naming the file that it came from."""
        return type(self)(self.field, self.value, self.limit, file)


class InputErrors(InputError):
    """Several errors of one file, told on a line each; field, value and limit are those of the first."""

    def __init__(self, errors: Sequence[InputError]) -> None:
        first = errors[0]
        super().__init__(first.field, first.value, first.limit, first.file)
        self.errors = tuple(one for error in errors for one in getattr(error, "errors", (error,)))
        lines = list(dict.fromkeys(map(str, errors)))
        left = len(lines) - MOST_ERRORS
        more = [f"{first.file}: and {left} more" if first.file else f"and {left} more"] if left > 0 else []
        self.args = ("\n".join([*lines[:MOST_ERRORS], *more]),)

    def in_file(self, file: str) -> InputErrors:
        """Return the same errors, naming the file that they came from."""
        return InputErrors([error.in_file(file) for error in self.errors])


class OutputError(InputError):
    """A file that cannot be written: which, and why."""


def shown_value(value: object) -> str:
    """Return a value as it stands in an instance file, cut off where it is long."""
    try:
        text = _toml(value)
    except (ValueError, RecursionError):  # integers of thousands of digits, tables nested as deep
        return "(too large to show)"
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."


def _toml(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        plain = value.isprintable() and "'" not in value and "\\" not in value
        return f"'{value}'" if plain else json.dumps(value, ensure_ascii=not value.isprintable())
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml(member)}" for key, member in value.items()) + "}"
    if isinstance(value, list | tuple | set | frozenset):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return str(value)


def like(name: str, known: Sequence[str]) -> str | None:
    """Return the one of the known names that a misspelt one probably stands for."""
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.7)), None)


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return the end of a sentence that offers a known name for a misspelt one, or nothing."""
    found = like(name, known)
    return f"; did you mean {found}?" if found else ""


class UnknownNameError(TilewrightError):
    """A method, model, heuristic, solver or figure that does not exist; lists those that do."""

    def __init__(self, kind: str, name: str, choices: list[str]) -> None:
        there_are = f"there are: {', '.join(choices) or 'none'}"
        super().__init__(f"unknown {kind} {shown_value(name)}; {there_are}{did_you_mean(name, choices)}")


class Disagreement(TilewrightError):
    """Two computations of one thing differ, or a claim contradicts a plan: a defect, never a rounding."""

    exit_status = 4


class SolverMissingError(TilewrightError):
    """A solver that was named is not installed; says how to get it."""

    exit_status = 3


class SolverBrokenError(SolverMissingError):
    """A solver is installed and does not work; says why."""


class OutOfTimeError(TilewrightError):
    """A deadline passed before there was an answer."""

    exit_status = 1

    def __init__(self, message: str = "the deadline has passed") -> None:
        super().__init__(message)


def of_status(exit_status: int, message: str) -> TilewrightError:
    """Return an error that another process has told, of the family that the command's exit status names."""
    families = {kind.exit_status: kind for kind in (SolverMissingError, Disagreement)}
    return families.get(exit_status, TilewrightError)(message)
