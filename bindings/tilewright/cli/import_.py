"""``tilewright import``."""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import completion
from tilewright.cli.arguments import ALLOW_UNKNOWN, SIZES, print_json
from tilewright.cli.outputs import printing
from tilewright.cli.tables import print_table
from tilewright.spec.errors import InputError

if TYPE_CHECKING:
    from tilewright.bitwidth.calibration import Executor


@click.command(name="import", short_help="Turn a NETWORK in ONNX or of Caffe into files.")
@click.argument("network", type=click.Path())
@click.option("-o", "--output", type=click.Path(), required=True, metavar="DIR", help="Folder for the files.")
@click.option(
    "--room",
    default=None,
    metavar="ROOM",
    shell_complete=completion.rooms,
    help="Also write an instance of this room.",
)
@click.option(
    "--machine",
    default=None,
    metavar="FILE",
    shell_complete=completion.machines,
    help="Its machine: a file or a bundled one's name.",
)
@click.option(
    "--layers", is_flag=True, help="Also write an instance of each layer that differs from all others."
)
@click.option(
    "--calibration",
    type=click.Path(),
    default=None,
    metavar="FILE|FOLDER",
    help="Samples that ranges are of, for room bitwidth: an .npz of inputs, perhaps labels; or images.",
)
@click.option(
    "--scale",
    type=float,
    default=None,
    help="Multiplies pixels less the mean; 1/255 by default.",
)
@click.option("--mean", type=float, default=None, help="Taken off pixels, from 0 to 255; 0 by default.")
@click.option(
    "--executor",
    type=click.Choice(["auto", "onnxruntime", "reference"]),
    default="auto",
    help="Runs the network on the samples; auto is onnxruntime where it is installed, else our own. [auto]",
)
@SIZES
@ALLOW_UNKNOWN
@print_json("JSON")
def import_(
    network: str,
    output: str,
    room: str | None,
    machine: str | None,
    calibration: str | None,
    scale: float | None,
    mean: float | None,
    executor: Executor,
    layers: bool,
    sizes: tuple[tuple[str, tuple[int, ...]], ...],
    allow_unknown: bool,
    as_json: bool,
) -> None:
    """Turn a NETWORK in ONNX or of Caffe into a network file, and into an instance of a room."""
    from tilewright import importing
    from tilewright.importing import files

    if (room is None) != (machine is None):
        raise InputError("--machine", machine, "goes with --room, and --room with it")
    if (room == "bitwidth") != (calibration is not None):
        raise InputError("--calibration", calibration, "goes with --room bitwidth, which needs it")
    if layers and (room is None or calibration is not None):
        told = "goes with --room and --machine" + (", and not with --calibration" if calibration else "")
        raise InputError("--layers", None, told)
    if executor != "auto" and calibration is None:
        raise InputError("--executor", executor, "goes with --calibration")
    given = {"scale": scale, "mean": mean}
    for name, value in given.items():
        if value is None:
            continue
        if calibration is None or not Path(calibration).is_dir():
            raise InputError(f"--{name}", value, "goes with --calibration and a folder of images")
        if not isfinite(value) or (name == "scale" and value == 0):
            raise InputError(f"--{name}", value, "must be a finite number, and a scale not 0")
    inputs: list[str | Path] = [network]
    texts: dict[str, str | bytes] = {}
    if machine is not None and calibration is not None:
        found, parameters = importing.with_parameters(network, dict(sizes))
        texts |= files.bitwidth_files(
            found, parameters, machine, calibration, Path(output), scale=scale, mean=mean, executor=executor
        )
        inputs.append(calibration)
    else:
        found = importing.network(network, dict(sizes), allow_unknown=allow_unknown)
    if room is not None and machine is not None and calibration is None:
        texts |= files.instance_files(found, room, machine, layers=layers)
    if machine is not None:
        inputs.append(files.machine_file(machine))
    written = files.write(Path(output), {**texts, **files.network_file(found)}, inputs)
    summary = {**importing.summary(found), "written": list(map(str, written))}
    with printing():
        if as_json:
            click.echo(json.dumps(summary))
        else:
            _print(summary)


def _print(summary: dict[str, Any]) -> None:
    """Print what a network holds, and where it was written."""
    written = summary["written"]
    print_table(
        [
            (name, *(f"{number:,}" for number in numbers.values()))
            for name, numbers in summary["operations"].items()
        ],
        ("operation", "layers", "MACs", "parameters"),
    )
    click.echo()
    print_table([tuple(stage.values()) for stage in summary["stages"]], ("graph", "nodes", "edges"))
    click.echo()
    print_table(
        [
            ("network", summary["network"]),
            ("source", summary["source"]),
            (
                "layers",
                f"{summary['layers']:,}, {summary['unique']:,} unique convolutions and fully connected",
            ),
            ("MACs", f"{summary['macs']:,}"),
            ("parameters", f"{summary['parameters']:,}"),
            (
                "written",
                written[0] if len(written) == 1 else f"{len(written)} files, {written[-1]} last",
            ),
        ]
    )
