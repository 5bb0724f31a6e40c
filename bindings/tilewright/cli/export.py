"""``tilewright export``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from tilewright.cli import completion
from tilewright.cli.arguments import SECONDS, on_instances, opened
from tilewright.cli.outputs import Saving, check_outputs, printing
from tilewright.spec.errors import InputError


@click.command(short_help="Write a formulation for solvers of your own.")
@click.argument("instance", shell_complete=completion.instances)
@click.option(
    "--with",
    "model",
    default=None,
    metavar="MODEL",
    shell_complete=completion.models,
    help="A formulation; of FlatZinc MODEL@minizinc:SOLVER.",
)
@click.option(
    "--layer", default=None, metavar="NAME", help="Of a network whose layers are solved one by one."
)
@click.option("--challenge", is_flag=True, help="INSTANCE is a room: write a folder of models and instances.")
@click.option(
    "--time-limit",
    "seconds",
    type=SECONDS,
    default=2.0,
    show_default=True,
    help="For the best-known of an instance of --challenge.",
)
@click.option("-o", "--output", type=click.Path(), required=True, metavar="FILE|FOLDER")
@on_instances
def export(
    instance: str,
    model: str | None,
    layer: str | None,
    challenge: bool,
    seconds: float,
    output: str,
    changes: Mapping[str, Any],
) -> None:
    """Write a formulation of an instance for solvers of your own, or a room's instances for everybody.

    A Pyomo model becomes .mps or .lp. A MiniZinc model becomes data, .dzn or .json, for the model in
    `models/`, or .fzn, where both are one. A model for CP-SAT becomes .txtpb. With
    --challenge the folder has models, a solution checker, instances by size and the best-known costs.
    """
    if challenge:
        _challenge(instance, model, output, seconds)
        return
    if model is None:
        raise click.UsageError("--with MODEL names the formulation; `tilewright list models` has them all")
    from tilewright.core.files import write_atomically
    from tilewright.drivers.export import text

    problem = opened(instance, changes)
    check_outputs(output, None, inputs=problem.files)
    name, _, solver = model.partition("@")
    chosen = solver.removeprefix("minizinc:") or "gecode"
    written = text(_part(problem.problem, layer), name, Path(output).suffix.lower(), chosen)
    saving = Saving()
    saving.save(output, lambda: write_atomically(Path(output), written))
    with printing():
        for path in saving.written:
            click.echo(f"written: {path}")
    saving.finish()


def _part(problem: Any, layer: str | None) -> Any:
    """Return what is solved at once: a problem, or a layer of it."""
    from tilewright.core.room import room_of

    parts = room_of(problem).parts(problem)
    if layer is None and len({id(part) for _, part in parts}) == 1:
        return parts[0][1]
    found = [part for name, part in parts if name == layer]
    if not found:
        raise InputError("layer", layer, f"must be one of: {', '.join(name for name, _ in parts)}")
    return found[0]


def _challenge(room: str, model: str | None, output: str, seconds: float) -> None:
    from tilewright.run.formats.challenge import write

    with printing():
        for line in write(room, Path(output), model=model, seconds=seconds):
            click.echo(line)
