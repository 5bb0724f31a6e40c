"""Benchmark sets: ``instances/benchmarks/NAME.toml`` lists instances, small to large, and methods.

    methods = ["greedy", "auto"]
    instances = ["mnist-tcpa", { name = "mnist-64", of = "mnist-tcpa", set = { "machine.array" = [8, 8] } }]

An instance is a bundled one, a file beside the list, or one of these with other values of fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.core import catalogue
from tilewright.importing.assembly import Changes, assemble
from tilewright.run.instance import Instance, load
from tilewright.spec.errors import InputError, UnknownNameError

FOLDER = "benchmarks"


@dataclass(frozen=True)
class Benchmark:
    """Instances that methods are compared on, and the methods.

    Attributes
    ----------
    file
        What it has been read from.
    """

    instances: tuple[Instance, ...]
    methods: tuple[str, ...]
    file: Path


def names() -> list[str]:
    """Return the names of the bundled sets, which are those of the rooms."""
    return [path.stem for path in catalogue.instances(FOLDER)]


def benchmark(chosen: Sequence[str]) -> list[Benchmark]:
    """Read sets by name, ``all`` of them, or from files.

    Raises
    ------
    InputError, UnknownNameError
        For a set that does not exist or is none.
    """
    paths = [path for name in chosen for path in _files(name)]
    return [_read(path) for path in dict.fromkeys(paths)]


def _files(name: str) -> list[Path]:
    bundled = {path.stem: path for path in catalogue.instances(FOLDER)}
    if name == "all":
        return list(bundled.values())
    if name in bundled:
        return [bundled[name]]
    if not name.endswith(".toml"):
        raise UnknownNameError("benchmark", name, ["all", *bundled])
    return [Path(name)]


def _read(path: Path) -> Benchmark:
    table = load(path)
    methods, listed = table.pop("methods", []), table.pop("instances", None)
    if table:
        raise InputError("keys", sorted(table), "a benchmark has `methods` and `instances`", str(path))
    if not _is_list(methods, str) or not _is_list(listed, str | dict) or not listed:
        limit = "must be lists of names of methods, and of names or tables of instances"
        raise InputError("benchmark", path.name, limit, str(path))
    return Benchmark(tuple(_instance(one, path) for one in listed), tuple(methods), path)


def _is_list(value: Any, kind: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, kind) for one in value)


def _instance(told: str | dict[str, Any], path: Path) -> Instance:
    entry: dict[str, Any] = {"of": told} if isinstance(told, str) else told
    name, base, values = entry.get("name"), entry.get("of"), entry.get("set", {})
    named = name is None or (isinstance(name, str) and name)
    if not isinstance(base, str) or not named or not isinstance(values, dict) or entry.keys() - KEYS:
        limit = (
            'must be a name, or like { name = "mine", of = "mnist-tcpa", set = { "machine.array" = [8, 8] } }'
        )
        raise InputError("instances", told, limit, str(path))
    source = path.parent / base if base.endswith((".toml", ".onnx")) else base
    instance = assemble(source, Changes(values=tuple(values.items())))
    return instance if name is None else replace(instance, name=name)


KEYS = {"name", "of", "set"}
