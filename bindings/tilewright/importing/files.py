"""Networks and instances as TOML files."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.bitwidth.calibration import Executor, executed_by, ranges_seen
from tilewright.bitwidth.data import read_samples
from tilewright.core import catalogue
from tilewright.core.files import check_writable, reason, refuse_inputs, write_atomically
from tilewright.core.room import room_of
from tilewright.importing.images import SCALE, read_folder
from tilewright.importing.naming import UniqueNames
from tilewright.run.instance import MAX_BYTES, Instance, load, parse
from tilewright.simulator.arithmetic.integer_layer import Parameters
from tilewright.simulator.arithmetic.network_executor import refuse_unknown
from tilewright.spec.coarsening import coarse
from tilewright.spec.errors import InputError, OutputError, did_you_mean
from tilewright.spec.layer import Layer
from tilewright.spec.network import AnyLayer, Network

SHOWN = 20
"""Most layers that a comment names."""

Table = dict[str, Any]


def network_file(network: Network) -> dict[str, str]:
    """Return the text of a network's file, by the file's name."""
    return {f"{network.name}.toml": _text(network_table(network))}


def instance_files(network: Network, room: str, machine: str, *, layers: bool = False) -> dict[str, str]:
    """Return the texts of instances of a room, by the files' names.

    A room that takes networks gets one for the whole network, with the operations between its layers. A room
    that takes single layers alone gets one for each that differs from all before it. What costs nothing is
    fused.

    Parameters
    ----------
    machine
        A file with the table of a machine, or the name of a bundled one.
    layers
        Also return instances of the layers where the room takes both.

    Raises
    ------
    InputError
        If the room does not take the machine, a layer on it, or the network.
    """
    fields = catalogue.room(room).problem_type.model_fields
    if layers and "layer" not in fields:
        raise InputError("--layers", room, "this room takes whole networks alone")
    machine_table, fused = load(machine_file(machine)), coarse(network)
    files = {}
    if "layer" in fields and (layers or "network" not in fields):
        files = _layer_files(fused, network.source, room, machine_table)
    if "network" in fields:
        table = {
            "room": room,
            "name": f"{network.name}-{room}",
            "network": network_table(network),
            "machine": machine_table,
        }
        files[f"{table['name']}.toml"] = _instance(table)
    return files


def _layer_files(fused: Network, source: str, room: str, machine: Table) -> dict[str, str]:
    """Return an instance for each layer that differs from all before it, with the names of its equals."""
    kinds, files, names = catalogue.room(room).layer_kinds, {}, UniqueNames()
    names.unique(f"{fused.name}-{room}")  # is the whole network's
    for layer, equal in distinct_layers(fused).items():
        if layer.kind not in kinds:
            continue
        table = {
            "room": room,
            "name": names.unique(f"{fused.name}-{equal[0]}".replace("/", "-")),
            "source": f"layer {equal[0]} of {source}",
            "layer": _layer_table(layer),
            "machine": machine,
        }
        alike = f"# {len(equal)} equal layers: {shorten_list(equal, SHOWN)}\n" if len(equal) > 1 else ""
        files[f"{table['name']}.toml"] = alike + _instance(table)
    return files


def distinct_layers(network: Network) -> dict[Layer, list[str]]:
    """Return the convolutions and fully connected layers that differ, each with the names of its equals."""
    found: dict[Layer, list[str]] = {}
    for layer in network.convolutions:
        found.setdefault(layer.unnamed(), []).append(layer.name)
    return found


def shorten_list(names: Sequence[str], most: int) -> str:
    """List names, and how many more there are than are shown."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def bitwidth_files(
    network: Network,
    parameters: Mapping[str, Parameters],
    machine: str,
    samples: str,
    folder: Path,
    *,
    scale: float | None = None,
    mean: float | None = None,
    executor: Executor = "auto",
) -> dict[str, str | bytes]:
    """Return an instance of the room `bitwidth` and the file of its weights, by the files' names.

    Ranges are of the samples, which the instance names where they lie; those of images are a file beside it.

    Parameters
    ----------
    samples
        An ``.npz`` file; see `tilewright.bitwidth.machine.DataFiles`. Or a folder of images.
    folder
        Where the files are to be written.
    scale, mean
        Of images; see `tilewright.importing.images.read_folder`.
    executor
        What runs the network on the samples; see `tilewright.bitwidth.calibration.ranges_of`.

    Raises
    ------
    InputError
        If the room does not take the network, the machine or the samples, or the executor is not installed.
    """
    name = f"{network.name}-bitwidth"
    refuse_unknown(network)
    shape, classes = network.own_input, prod(network.layers[-1].output)
    found: dict[str, str | bytes] = {}
    if Path(samples).is_dir():
        images = read_folder(Path(samples), shape, classes, SCALE if scale is None else scale, mean or 0.0)
        inputs, named = images.samples.inputs, f"{name}-samples.npz"
        found[named] = _packed(images.arrays())
    elif Path(samples).suffix == ".npz":
        inputs = read_samples(samples, shape, classes).inputs
        named = os.path.relpath(samples, folder).replace(os.sep, "/")
    else:
        limit = "must be an .npz file, as numpy.savez writes it, or a folder of images"
        raise InputError("--calibration", samples, limit)
    known, runtime = ranges_seen(network, parameters, inputs, executor), executed_by(network, executor)
    told = f"ranges of {len(inputs)} samples"
    table: Table = {
        "room": "bitwidth",
        "name": name,
        "source": told if runtime is None else f"{told}, run by onnxruntime {runtime}",
        "network": network_table(network),
        "ranges": {layer: each.model_dump(exclude_none=True) for layer, each in known.items()},
        "machine": load(machine_file(machine)),
    }
    _instance(table)
    table["data"] = {"weights": f"{name}.npz", "samples": named}
    return {**found, f"{name}.npz": _pack_parameters(parameters), f"{name}.toml": _text(table)}


def _pack_parameters(parameters: Mapping[str, Parameters]) -> bytes:
    """Return the ``.npz`` file of weights and biases, by ``layer.weights`` and ``layer.bias``."""
    arrays: dict[str, Any] = {}
    for layer, (weights, bias) in parameters.items():
        arrays[f"{layer}.weights"] = weights.astype(np.float32)
        arrays[f"{layer}.bias"] = bias.astype(np.float32)
    return _packed(arrays)


def _packed(arrays: Mapping[str, Any]) -> bytes:
    """Return what an ``.npz`` file of arrays holds."""
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


def write(folder: Path, files: Mapping[str, str | bytes], inputs: Sequence[Path | str] = ()) -> list[Path]:
    """Write files one by one, each complete or not at all, in the order given; make the folder for them.

    Parameters
    ----------
    inputs
        Files that are read, and so not written over.

    Raises
    ------
    InputError
        If one of them cannot be written, or is too large to be read again; then none is.
    """
    for name, text in files.items():
        if isinstance(text, str) and len(text.encode()) > MAX_BYTES:
            raise InputError("output", name, f"would be larger than {MAX_BYTES} bytes, the most that is read")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError("output", str(folder), f"cannot be made: {reason(error)}") from None
    paths = [folder / name for name in files]
    for path in paths:
        refuse_inputs(path, inputs)
        check_writable(path)
    for path, text in zip(paths, files.values(), strict=True):
        write_atomically(path, text)
    return paths


# Tables --------------------------------------------------------------------------------------------


def machine_file(machine: str) -> Path:
    """Return the file of a machine, one of the user's or a bundled one."""
    bundled = {path.stem: path for path in catalogue.instances("machines")}
    path = bundled.get(machine, Path(machine))
    if machine not in bundled and not path.suffix:
        known = f"must be a .toml file or one of: {', '.join(bundled)}"
        raise InputError("--machine", machine, known + did_you_mean(machine, list(bundled)))
    return path


def _instance(table: Table) -> str:
    """Return the text of an instance that its room takes."""
    try:
        instance = parse(table)
    except InputError as error:
        raise InputError(error.field, error.value, f"{table['name']}: {error.limit}") from None
    return _text(table | suited_objective(table, instance))


def suited_objective(table: Table, instance: Instance) -> Table:
    """Return the table of the objective of a network on a machine, if that is not the room's default.

    It is asked for where the table does not say what is minimised: the fewest cycles where the machine has
    rates; without DRAM the least memory of the plans that compute nothing twice.
    """
    own = table.get("objective", {})
    suited = None if "minimise" in own else room_of(instance.problem).suited_objective(instance.problem)
    if suited is None:
        return {}
    return {"objective": {**own, "minimise": suited[0] if len(suited) == 1 else list(suited)}}


def network_table(network: Network) -> Table:
    """Return what a file has to hold of a network."""
    return {
        "name": network.name,
        "source": network.source,
        **({} if network.input is None else {"input": list(network.input)}),
        **({} if network.outputs is None else {"outputs": list(network.outputs)}),
        "layers": [_layer_table(layer) for layer in network.layers],
    }


def _layer_table(layer: AnyLayer | Layer) -> Table:
    """Return what a file has to hold of a layer, what it is before what it is like."""
    table = layer.model_dump(mode="json", exclude_defaults=True)
    if layer.kind == "fc" and "inputs" not in table:  # else its inputs are names
        (table["inputs"], _, _), table["outputs"] = table.pop("input"), table.pop("kernels")
        del table["kernel"]
    first = ("name", "kind", "op", "inputs", "outputs", "input", "output")
    return {key: table[key] for key in (*first, *table) if key in table}


# TOML ----------------------------------------------------------------------------------------------


def _text(table: Table) -> str:
    return "\n".join(_lines(table)).strip() + "\n"


def _lines(table: Table, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Write a table: its values, then the tables in it, each under its path."""
    tables = {key: value for key, value in table.items() if _is_table(value)}
    for key, value in table.items():
        if key not in tables:
            yield f"{_key(key)} = {_value(value)}"
    for key, value in tables.items():
        inner = (*path, key)
        header = ".".join(map(_key, inner))
        several = isinstance(value, list)
        for each in value if several else [value]:
            yield f"\n[[{header}]]" if several else f"\n[{header}]"
            yield from _lines(each, inner)


def _is_table(value: Any) -> bool:
    return isinstance(value[0] if isinstance(value, list) and value else value, dict)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):  # TOML has JSON's escapes, and wants one more character escaped
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)
