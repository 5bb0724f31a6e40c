"""What commands write and print, so that neither is lost when the other fails."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Self

import click

from tilewright.spec.errors import InputError, TilewrightError

LONGEST = 60
"""Most characters of the names of what is compiled."""


def check_outputs(
    output: str | Sequence[str] | None,
    plot: str | None,
    room: str | None = None,
    *,
    inputs: Iterable[Path | str] = (),
) -> None:
    """Refuse paths that cannot be written, or that are read, before any work is done for them.

    A plan is drawn by its `room`, a comparison by none.
    """
    from tilewright import plotting
    from tilewright.core import catalogue
    from tilewright.core.files import check_writable, refuse_inputs, same_file

    inputs = list(inputs)
    outputs = [output] if isinstance(output, str) else list(output or ())
    for what, path in (*(("output", path) for path in outputs), ("plot", plot)):
        if path is not None:
            refuse_inputs(path, inputs, what)
    for path in outputs:
        check_writable(Path(path))
    for first, second in combinations(outputs, 2):
        if same_file(first, second):
            raise InputError("output", second, "is given twice")
    if plot is not None and any(same_file(path, plot) for path in outputs):
        raise InputError("plot", plot, "is the result's file, too")
    if plot is not None:
        plotting.checked_suffix(
            plot, plotting.ACCEPTED if room is None else catalogue.room(room).plot.ACCEPTED
        )


def check_report(
    report: str | None, *, inputs: Iterable[Path | str] = (), others: Iterable[str | None] = ()
) -> None:
    """Refuse the path of a report that cannot be written, or is another file's, before any work is done."""
    if report is None:
        return
    from tilewright.core.files import refuse_inputs, same_file
    from tilewright.report import check_path

    refuse_inputs(report, inputs, "report")
    for other in others:
        if other is not None and same_file(other, report):
            raise InputError("report", report, "is another output's file, too")
    check_path(report)


def is_table(path: str) -> bool:
    """Whether a file is to have a table rather than JSON."""
    return Path(path).suffix.lower() == ".csv"


class Saving:
    """Files that a command writes; what fails is told when the answer has been printed.

    Attributes
    ----------
    written
        Paths of what was written.
    """

    def __init__(self) -> None:
        self.written: list[str] = []
        self._errors: list[TilewrightError] = []

    def save(self, path: str, write: Callable[[], object]) -> None:
        """Write a file, or note why it cannot be written."""
        from tilewright.core.files import unwritable

        try:
            write()
        except TilewrightError as error:
            self._errors.append(error)
        except OSError as error:
            self._errors.append(unwritable(path, error))
        else:
            self.written.append(path)

    def finish(self) -> None:
        """Raise what has failed.

        Raises
        ------
        TilewrightError
            With a line for each file that could not be written.
        """
        if self._errors:
            raise TilewrightError("\n".join(map(str, self._errors))) from self._errors[0]


@contextlib.contextmanager
def printing() -> Iterator[None]:
    """Print in the block; a reader that has gone changes nothing, so that the exit status stays.

    Raises
    ------
    TilewrightError
        If standard output cannot be written for another reason, as where a disk is full.
    """
    from tilewright.core.files import reason

    try:
        yield
    except BrokenPipeError:
        forget_output()
    except OSError as error:
        forget_output()
        raise TilewrightError(f"standard output cannot be written: {reason(error)}") from error


def forget_output() -> None:
    """Send all that is still to be printed nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


class StatusLine:
    """A line at the end of a terminal that says what goes on; where there is no terminal, none."""

    def __init__(self, enabled: bool) -> None:
        self.enabled, self.terminal = enabled, enabled and sys.stderr.isatty()
        self.text = "starting"
        self._status: Any = None

    def __rich__(self) -> str:
        """Return the line as it is now: what is compiled, and for how long, goes on beside all else."""
        from rich.markup import escape  # for start-up time

        compiled = compiling_now()
        return escape(", ".join(filter(None, (compiled, self.text))))

    def __enter__(self) -> Self:
        if self.terminal:
            from rich.console import Console

            self._status = Console(stderr=True).status(self)
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()


def compiling_now() -> str:
    """Say what is being compiled, for how many seconds, and what is done meanwhile; nothing if nothing is."""
    from tilewright.core import jit
    from tilewright.plotting.text import shortened
    from tilewright.run.solving.uncompiled import AS_PYTHON
    from tilewright.run.workers import compiling

    found = compiling.in_hand()
    if found is None:
        return ""
    names, seconds = found
    meanwhile = f"; meanwhile {AS_PYTHON}" if jit.runs_uncompiled() else ""
    return f"compiling {shortened(names, LONGEST)} for {seconds:.0f} s{meanwhile}"


def note(message: str) -> None:
    """Tell people something beside the answer; nothing depends on its arrival."""
    with contextlib.suppress(OSError):
        click.echo(message, err=True)


def note_compiling(message: str) -> None:
    """Tell people what they wait for before anything else goes on."""
    note(f"tilewright: {message}")
