"""An instance from its parts: an instance or a network, a machine, and other values of single fields."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tilewright.core import catalogue
from tilewright.importing.files import machine_file, network_table, suited_objective
from tilewright.run.instance import (
    NETWORK_SUFFIXES,
    Instance,
    build,
    digest,
    in_own_file,
    located,
    parse,
    tables,
)
from tilewright.run.machines import room_of_machine, rooms_of_networks, takes_networks
from tilewright.spec.errors import InputError, did_you_mean

Table = dict[str, Any]


@dataclass(frozen=True)
class Changes:
    """What is asked for besides an instance or a network.

    Attributes
    ----------
    machine
        A file with the table of a machine, or the name of a bundled one; replaces that of an instance.
    room
        The room of a network; by default the first one that knows such a machine.
    minimise
        The objective, or a list of them.
    values
        Other values of fields, by their dotted paths; tables in a list are found by their ``name``.
    where
        More constraints.
    sizes, allow_unknown
        See `tilewright.importing.network`.
    """

    machine: str | None = None
    room: str | None = None
    minimise: tuple[str, ...] = ()
    values: tuple[tuple[str, Any], ...] = ()
    where: tuple[str, ...] = ()
    sizes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    allow_unknown: bool = False


def assemble(path: str | Path, changes: Changes) -> Instance:
    """Read an instance or a network, in TOML, in ONNX or of Caffe, and change what is asked for.

    Raises
    ------
    InputError
        For anything that is wrong with a file, a change, or what comes out.
    """
    return assembler_of(path, changes)({})


def assembler_of(path: str | Path, changes: Changes) -> Callable[[Mapping[str, Any]], Instance]:
    """Read as `assemble` does, and return what makes an instance with other values of more fields.

    Files are read once. The function, too, raises InputError.
    """
    path = located(Path(path), catalogue.instances("networks") if changes.machine is not None else [])
    # What is asked for stands in no file.
    origins: dict[str, Path | None] = {key: None for key, _ in changes.values}
    origins |= {f"--where {number}": None for number in range(1, len(changes.where) + 1)}
    if changes.minimise:
        origins["objective.minimise"] = None
    try:
        base, files, joined = _base(path, changes, origins)
    except InputError as error:
        raise in_own_file(error, path, origins) from None

    def make(values: Mapping[str, Any]) -> Instance:
        table = copy.deepcopy(base)
        try:
            for key, value in (*changes.values, *values.items()):
                _set(table, key, value)
            if changes.minimise:
                objective = table.setdefault("objective", {})
                objective["minimise"] = (
                    changes.minimise[0] if len(changes.minimise) == 1 else list(changes.minimise)
                )
            instance = parse(table, path, files)
            if joined and (objective := suited_objective(table, instance)):
                instance = parse(table | objective, path, files)
            return constrained(instance, changes.where)
        except InputError as error:
            raise in_own_file(error, path, origins | dict.fromkeys(values)) from None

    return make


def constrained(instance: Instance, where: Sequence[str]) -> Instance:
    """Return an instance with more constraints, those of ``--where``."""
    for number, say in enumerate(where, start=1):
        try:
            problem = instance.problem.where(say)
        except InputError as error:
            # The constraints of the file have been checked.
            raise InputError(f"--where {number}", say, error.limit) from None
        instance = replace(instance, problem=problem, sha256=digest(instance.room, problem))
    return instance


def variation_of(instance: Instance) -> Callable[[Mapping[str, Any]], Instance]:
    """Return what makes an instance like one that has been read or built, with other values of fields."""
    base = instance.problem.model_dump(mode="json", exclude_unset=True)

    def make(values: Mapping[str, Any]) -> Instance:
        table = copy.deepcopy(base)
        for key, value in values.items():
            _set(table, key, value)
        problem = build(instance.room, table)
        return replace(instance, problem=problem, sha256=digest(instance.room, problem))

    return make


def _base(path: Path, changes: Changes, origins: dict[str, Path | None]) -> tuple[Table, list[Path], bool]:
    """Return the tables of an instance, with the machine asked for, and the files that were read.

    The last value is whether a network and a machine have been joined. Files of single tables are noted in
    `origins`.
    """
    if path.suffix.lower() in NETWORK_SUFFIXES:
        from tilewright import importing  # for start-up time: onnx

        network = importing.network(path, changes.sizes, allow_unknown=changes.allow_unknown)
        table, files = network_table(network), [path]
    else:
        if changes.sizes or changes.allow_unknown:
            option = "--input" if changes.sizes else "--allow-unknown"
            raise InputError(option, None, "is for networks in ONNX and of Caffe")
        table, files, own = tables(path)
        origins |= {key: file for key, file in own.items() if key not in origins}
    machine = None
    if changes.machine is not None:
        file = machine_file(changes.machine)
        origins["machine"] = file
        machine, read, _ = tables(file)
        files += read
    if "room" in table or "layers" not in table:
        if changes.room not in (None, table.get("room")):
            raise InputError("--room", changes.room, "is for networks; an instance has a room")
        return (table if machine is None else {**table, "machine": machine}), files, False
    if machine is None:
        bundled = [file.stem for file in catalogue.instances("machines")]
        limit = f"a network needs one: a file, or one of {', '.join(bundled)}"
        raise InputError("--machine", None, limit)
    if changes.room in catalogue.ROOMS and not takes_networks(changes.room):
        takers = rooms_of_networks()
        raise InputError("--room", changes.room, f"takes a layer; rooms of networks are {', '.join(takers)}")
    name = table.get("name") or path.stem
    joined = {
        "room": changes.room or room_of_machine(machine),
        "name": f"{name}-{Path(str(changes.machine)).stem}",
        "source": table.get("source") or f"the network of {path.name}",
        "network": table,
        "machine": machine,
    }
    return joined, files, True


def parse_change(text: str) -> tuple[str, Any]:
    """Read ``path.of.a.field=value``, with a value as TOML has it; what is none is a text.

    Raises
    ------
    InputError
        If there is no path or no value.
    """
    key, equals, value = text.partition("=")
    if not equals or not all(key.strip().split(".")):
        raise InputError("--set", text, "must be like machine.memory_bytes=65536")
    try:
        found = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError):
        return key.strip(), value.strip()
    return key.strip(), found["value"]


def _set(table: Table, key: str, value: Any) -> None:
    """Give a field another value, making the tables around it where they are missing."""
    at: Any = table
    *path, last = key.split(".")
    for number, part in enumerate(path):
        so_far = ".".join(path[: number + 1])
        at = _named(at, part, ".".join(path[:number])) if isinstance(at, list) else at.setdefault(part, {})
        if not isinstance(at, dict | list):
            raise InputError(f"--set {key}", value, f"{so_far} holds no other fields")
    if isinstance(at, list):
        raise InputError(
            f"--set {key}", value, f"{'.'.join(path)} is a list; name a field of one of its tables"
        )
    at[last] = value


def _named(tables: list[Any], name: str, path: str) -> Any:
    """Return the table of a list that has a name."""
    names = [each["name"] for each in tables if isinstance(each, dict) and isinstance(each.get("name"), str)]
    for each in tables:
        if isinstance(each, dict) and each.get("name") == name:
            return each
    limit = (
        f"{path} has {', '.join(names[:20])}{did_you_mean(name, names)}" if names else f"{path} has no names"
    )
    raise InputError(f"--set {path}", name, limit)
