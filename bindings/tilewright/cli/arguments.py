"""Arguments that several commands have, and how they are checked before any work is done."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from tilewright.core.context import MAX_SECONDS
from tilewright.spec.errors import InputError

if TYPE_CHECKING:
    from tilewright.run.instance import Instance
    from tilewright.run.result import Result

STARTED = time.monotonic()
"""When this process began to be a command: time limits count from here."""


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
OUTPUT = click.Path()
SEED = click.IntRange(0, 2**31 - 1)


def read_both(instance: str, result: str) -> tuple[Instance, Result]:
    """Read both and refuse a result without a plan, or of another instance."""
    from tilewright.run.instance import read
    from tilewright.run.result import Result

    problem = read(instance)
    try:
        answer = Result.read(result, problem.problem).of(problem)
    except InputError as error:
        raise (error if error.file else error.in_file(result)) from None
    if answer.plan is None:
        raise InputError("plan", None, "the result has no plan", result)
    return problem, answer
