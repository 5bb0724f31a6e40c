"""The errors that tilewright raises on purpose: one family, one exit status each."""

from __future__ import annotations


class TilewrightError(Exception):
    """Base of every error that is reported to the user without a traceback."""

    exit_status = 2


class InputError(TilewrightError):
    """Something that the user gave is refused before any solver starts.

    Parameters
    ----------
    field
        Dotted name of the offending field, for example ``layer.kernel``.
    value
        What stood there.
    limit
        What would have been accepted.
    file
        Path of the file, when it came from one.
    """

    def __init__(self, field: str, value: object, limit: str, file: str | None = None) -> None:
        self.field, self.value, self.limit, self.file = field, value, limit, file
        try:
            shown = repr(value)
        except (ValueError, RecursionError):  # integers of thousands of digits, tables nested as deep
            shown = f"<{type(value).__name__} too large to show>"
        if len(shown) > 80:
            shown = shown[:77] + "..."
        where = f"{file}: " if file else ""
        super().__init__(f"{where}{field} = {shown}: {limit}")

    def in_file(self, file: str) -> InputError:
        """Return the same error, naming the file that it came from."""
        return type(self)(self.field, self.value, self.limit, file)


class UnknownNameError(TilewrightError):
    """A method, model, heuristic, solver or figure that does not exist; lists those that do."""

    def __init__(self, kind: str, name: str, choices: list[str]) -> None:
        super().__init__(f"unknown {kind} {name!r}; there are: {', '.join(choices) or 'none'}")


class Disagreement(TilewrightError):
    """Two computations of one thing differ, or a claim contradicts a plan: a defect, never a rounding."""

    exit_status = 4


class SolverMissingError(TilewrightError):
    """A solver that was named is not installed; says how to get it."""

    exit_status = 3


class OutOfTimeError(Exception):
    """A deadline passed before there was an answer; never shown to a user."""
