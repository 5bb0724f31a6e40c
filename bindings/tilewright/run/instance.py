"""Read instance files: TOML, every field checked before any solver starts."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from tilewright.core import catalogue
from tilewright.core.files import exists, read_text
from tilewright.run.machines import with_own_machine
from tilewright.spec.errors import InputError, InputErrors, did_you_mean, like
from tilewright.spec.validation import validated

NETWORK_SUFFIXES = (".onnx", ".tflite", ".prototxt")
"""Of files of other programs that hold a network alone."""

MAX_BYTES = 1_000_000
"""Largest instance file that is read."""

LONG_KEY = re.compile(r"""(?<![\w"'-])(?:[\w"'-]+[ \t]*\.[ \t]*){32}""")

TABLES = ("layer", "machine", "network", "templates")
"""Tables that may stand in a file of their own, named by a relative path; a room may have more."""


@dataclass(frozen=True)
class Instance:
    """A problem with its name and origin.

    Attributes
    ----------
    sha256
        Digest of the problem itself: comments, order of keys and the name do not change it.
    files
        What it was read from: its file, and those that this names.
    """

    room: str
    name: str
    source: str
    problem: Any
    sha256: str
    path: Path | None = None
    files: tuple[Path, ...] = ()


def answered(instance: Instance, plan: Any) -> Instance:
    """Return an instance with the problem that a plan answers: see `tilewright.core.room.Room.answered`."""
    problem = catalogue.room(instance.room).answered(instance.problem, plan)
    return instance if problem is instance.problem else replace(instance, problem=problem)


def read(path: str | Path) -> Instance:
    """Read an instance file, or a bundled instance by its name.

    Raises
    ------
    InputError
        For anything that is wrong with the file; names file, field, value and limit.
    """
    path = located(Path(path))
    origins: dict[str, Path] = {}
    try:
        if path.suffix.lower() in NETWORK_SUFFIXES:
            raise _network_alone(path)
        table, files, origins = tables(path)
        if is_network(table):
            raise _network_alone(path)
        return parse(table, path, files)
    except InputError as error:
        raise in_own_file(error, path, origins) from None


def in_own_file(error: InputError, path: Path, origins: Mapping[str, Path | None]) -> InputError:
    """Return an error that names the file from which what is wrong was read.

    Parameters
    ----------
    path
        The file of the instance.
    origins
        Files of single tables, or of fields by their dotted paths; None for what stands in no file.
    """
    if isinstance(error, InputErrors):
        return InputErrors([in_own_file(each, path, origins) for each in error.errors])
    parts = re.split(r"[.\[]", error.field)
    paths = [".".join(parts[:many]) for many in range(len(parts), 0, -1)]
    file = next((origins[each] for each in paths if each in origins), path)
    return error if error.file or file is None else error.in_file(str(file))


def located(path: Path, others: Iterable[Path] = ()) -> Path:
    """Find the file, or the bundled instance of that name, or one of other bundled files."""
    if path.suffix or (exists(path) and not path.is_dir()):
        return path
    bundled = chain.from_iterable(map(catalogue.instances, catalogue.ROOMS))
    return next((file for file in chain(bundled, others) if file.stem == str(path)), path)


def tables(path: Path) -> tuple[dict[str, Any], list[Path], dict[str, Path]]:
    """Read a file with those that it names; return its tables, the files, and those of single tables."""
    table = load(path)
    origins: dict[str, Path] = {}
    files = [] if is_network(table) else _include(table, path, origins)
    return table, [path, *files], origins


def _include(table: dict[str, Any], path: Path | None, origins: dict[str, Path]) -> list[Path]:
    """Put tables that stand in files of their own in the places where these are named; return the files."""
    files = []
    room = catalogue.room(table["room"]) if table.get("room") in catalogue.ROOMS else None
    own = {room.file_table: room.file_suffix} if room is not None and room.file_table else {}
    for key in (*TABLES, *own):
        if isinstance(table.get(key), str):
            if path is not None:
                origins[key] = path.parent / table[key]
                files.append(origins[key])
            table[key] = _included(table[key], key, path, own.get(key, ".toml"))
    if isinstance(table.get("data"), dict):
        files += _beside(table["data"], path)
    return files


def _beside(data: dict[str, Any], path: Path | None) -> list[Path]:
    """Replace relative names of files of numbers by where they lie; return the files."""
    files = []
    for key, name in data.items():
        if not isinstance(name, str):  # what has been replaced already is a Path
            continue
        if path is None or Path(name).is_absolute() or Path(name).suffix != ".npz":
            raise InputError(f"data.{key}", name, "must be the relative path of an .npz file")
        files.append(path.parent / name)
        data[key] = path.parent / name
    return files


def is_network(table: dict[str, Any]) -> bool:
    """Whether a table is that of a network alone, without a room."""
    return "room" not in table and bool({"layers", "network"} & table.keys())


def _refuse_no_file(path: Path) -> None:
    """Refuse what is not there, or no file."""
    if not exists(path):
        known = "`tilewright list instances` names those that come with it"
        raise InputError("instance", str(path), f"no such file; {known}", _short(path))
    if not path.is_file():
        raise InputError("instance", str(path), "is not a file", str(path))


def load(path: Path) -> dict[str, Any]:
    """Read a file, guarded against what is no instance at all: TOML, or of a room's own format."""
    _refuse_no_file(path)
    suffix = path.suffix.lower()
    if suffix != ".toml" and (room := catalogue.room_of_file(suffix)) is not None:
        return room.read_file(path)
    text = read_text(path, MAX_BYTES)
    if LONG_KEY.search(text):
        # The parser of the standard library takes quadratic time for them.
        raise InputError("file", path.name, "has a dotted key of more than 32 parts", str(path))
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError("file", path.name, f"is not valid TOML: {str(error)[:200]}", str(path)) from None


def _short(path: Path) -> str:
    return str(path) if len(str(path)) <= 200 else str(path)[:200] + "..."


def parse(table: dict[str, Any], path: Path | None = None, files: Sequence[Path] = ()) -> Instance:
    """Build an instance from the tables of a file, and of those that it names."""
    table = dict(table)
    room = _text(table, "room", None)
    if room not in catalogue.ROOMS:
        told = did_you_mean(room, catalogue.ROOMS)
        raise InputError("room", room, f"must be one of: {', '.join(catalogue.ROOMS)}{told}")
    name = _text(table, "name", path.stem if path else "unnamed")
    source = _text(table, "source", "")
    files = [*files, *_include(table, path, {})]
    if isinstance(table.get("templates"), dict):  # a file of them, which holds nothing else
        table["templates"] = _list_of(table["templates"], "templates")
    problem = build(room, table)
    return Instance(room, name, source, problem, digest(room, problem), path, tuple(files))


def _network_alone(path: Path) -> InputError:
    """Return the error of a network that is given where an instance is needed; it says how to make one."""
    made = "is a network, no instance; `--machine MACHINE` makes it one"
    if path.suffix.lower() in NETWORK_SUFFIXES:
        return InputError("instance", str(path), made)
    names = f'`room = "tiling"`, `network = "{path.name}"` and a machine'
    return InputError("instance", str(path), f"{made}, and so does a file beside it that names {names}")


def _text(table: dict[str, Any], key: str, default: str | None) -> str:
    value = table.pop(key, default)
    if value is None:
        misspelt = like(key, list(table))
        if misspelt is not None:
            raise InputError(misspelt, table[misspelt], f"unknown key; did you mean {key}?")
        raise InputError(key, None, "is missing")
    if not isinstance(value, str) or len(value) > 1000 or not value.isprintable():
        raise InputError(key, value, "must be a text of at most 1000 characters, all printable")
    return value


def _included(name: str, key: str, path: Path | None, suffix: str) -> dict[str, Any]:
    """Return the table that a file holds which an instance names in its place."""
    if path is None or Path(name).is_absolute() or Path(name).suffix != suffix:
        raise InputError(key, name, f"must be a table, or the relative path of a {suffix} file that holds it")
    file = path.parent / name
    if not exists(file) or not file.is_file():
        told = "is not a file" if exists(file) else "no such file"
        raise InputError(key, name, f"{told}; it is looked for at {_short(file)}")
    found = load(file)
    return found if suffix == ".toml" else found[key]


def _list_of(table: dict[str, Any], key: str) -> Any:
    """Return the list of tables of one name which is all that a file holds."""
    other = next((name for name in table if name != key), None)
    if other is not None or not isinstance(table.get(key), list):
        raise InputError(f"{key}.{other or key}", None, f"the file must hold tables [[{key}]] only")
    return table[key]


def build(room: str, table: dict[str, Any]) -> Any:
    """Build a room's problem from its tables, with errors that name field, value and limit."""
    return validated(catalogue.room(room).problem_type, with_own_machine(room, table))


def digest(room: str, problem: Any) -> str:
    """Return the SHA-256 of a problem's canonical JSON."""
    canonical = json.dumps({"room": room, **problem.told()}, sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
