"""Arguments that several commands have, and how they are checked before any work is done."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import completion
from tilewright.core.context import MAX_SECONDS
from tilewright.spec.errors import InputError

if TYPE_CHECKING:
    from tilewright.importing.assembly import Changes
    from tilewright.run.instance import Instance
    from tilewright.run.result import Result

Decorator = Callable[[Callable[..., None]], Callable[..., None]]

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


def take_seconds(help: str, default: float | None = 60.0) -> Decorator:
    """Return the option ``--time-limit``."""
    return click.option("--time-limit", type=SECONDS, default=default, metavar="S", help=help)


def take_count(name: str, help: str, default: int | None = None) -> Decorator:
    """Return an option that takes a number of processes or threads."""
    return click.option(name, type=click.IntRange(1, 256), default=default, metavar="N", help=help)


def take_seed(help: str = "[0]", default: int | None = 0) -> Decorator:
    """Return the option ``--seed``."""
    return click.option("--seed", type=SEED, default=default, metavar="N", help=help)


def take_outputs(help: str) -> Decorator:
    """Return the option ``-o``, which may be given several times."""
    return click.option(
        "-o", "--output", "outputs", type=click.Path(), multiple=True, metavar="FILE", help=help
    )


def take_file(name: str, help: str) -> Decorator:
    """Return an option that takes the path of a file to write."""
    return click.option(name, type=click.Path(), default=None, metavar="FILE", help=help)


def print_json(what: str) -> Decorator:
    """Return the option ``--json``, which prints something as JSON and nothing else."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what} and nothing else.")


class _Sizes(click.ParamType[tuple[str, tuple[int, ...]]]):
    """The name of an input and its sizes."""

    name = "sizes"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[int, ...]]:
        name, _, sizes = value.rpartition("=")
        if not name or not re.fullmatch(r"[1-9]\d{0,9}(,[1-9]\d{0,9})*", sizes):
            self.fail(f"{value!r} is not like data=1,3,224,224: batch, channels, height, width", param, ctx)
        return name, tuple(map(int, sizes.split(",")))


SIZES = click.option(
    "--input",
    "sizes",
    type=_Sizes(),
    multiple=True,
    metavar="NAME=N,C,H,W",
    help="ONNX, Caffe: sizes of an input, or of a tensor whose sizes nothing tells.",
)
ALLOW_UNKNOWN = click.option(
    "--allow-unknown", is_flag=True, help="ONNX, Caffe: keep whatever no layer does as opaque layers."
)
SCHEDULER = click.option(
    "--scheduler",
    default=None,
    metavar="ADDRESS",
    help="Work on a Dask cluster: tcp://HOST:8786, or local:N for N processes here. [tilewright[cluster]]",
)
JOURNAL = click.option(
    "--journal",
    type=click.Path(),
    default=None,
    metavar="FILE",
    help="Append results as they come; what stands there is not done again.",
)
SET = click.option(
    "--set",
    "values",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Another value of a field: machine.levels.buffer.capacity_bytes=65536.",
)
WHERE = click.option(
    "--where",
    multiple=True,
    metavar="EXPRESSION",
    help='What every plan must keep: "tile.rows % 8 == 0".',
)
CHANGES = (
    click.option(
        "--machine",
        default=None,
        metavar="FILE",
        shell_complete=completion.machines,
        help="For a network, or instead: a file, or a bundled one's name.",
    ),
    click.option(
        "--room",
        default=None,
        metavar="ROOM",
        shell_complete=completion.rooms,
        help="Of a network. [that of the machine]",
    ),
    click.option(
        "--minimise",
        default=None,
        metavar="OBJECTIVE",
        help="Or several, the most important first: cycles,energy.",
    ),
    SET,
    WHERE,
    SIZES,
    ALLOW_UNKNOWN,
)
"""What an instance is made of, or what is changed of it."""


def on_instances(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `CHANGES`; it gets them as `opened` takes them, as `changes`."""
    return with_changes(CHANGES)(command)


def with_changes(options: Sequence[Callable[..., Any]]) -> Decorator:
    """Give a command options like those of `CHANGES`, some of which may be written in another way."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def changing(*args: Any, **given: Any) -> None:
            names = ("machine", "room", "minimise", "values", "where", "sizes", "allow_unknown")
            command(*args, changes={name: given.pop(name) for name in names}, **given)

        decorated: Callable[..., None] = changing
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def opened(instance: str, changes: Mapping[str, Any]) -> Instance:
    """Read an instance, or make one of a network in TOML, ONNX or of Caffe, with what is to change."""
    if not any(changes.values()):
        from tilewright.run.instance import read

        return read(instance)
    from tilewright.importing.assembly import assemble, parse_change  # for start-up time

    return assemble(instance, asked(changes, tuple(map(parse_change, changes["values"]))))


def asked(changes: Mapping[str, Any], values: tuple[tuple[str, Any], ...] = ()) -> Changes:
    """Return what the options of `CHANGES` ask for, with values that have been read."""
    from tilewright.importing.assembly import Changes  # for start-up time

    return Changes(
        machine=changes["machine"],
        room=changes["room"],
        minimise=tuple(changes["minimise"].split(",")) if changes["minimise"] else (),
        values=values,
        where=changes["where"],
        sizes=dict(changes["sizes"]),
        allow_unknown=changes["allow_unknown"],
    )


def read_both(instance: str, changes: Mapping[str, Any], result: str) -> tuple[Instance, Result]:
    """Read both and refuse a result without a plan, or of another instance."""
    from tilewright.run.result import Result

    problem = opened(instance, changes)
    try:
        answer = Result.read(result, problem.problem).of(problem)
    except InputError as error:
        raise (error if error.file else error.in_file(result)) from None
    if answer.plan is None:
        raise InputError("plan", None, "the result has no plan", result)
    return replace(problem, problem=answer.problem), answer
