"""Find rooms, heuristics, formulations and bundled instances by listing folders: no registration."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType

import tilewright
from tilewright.errors import UnknownNameError

ROOMS = ("grouping",)


def folder(kind: str, room: str) -> Path:
    """Return the folder of a room's ``models``, ``heuristics`` or ``instances``, installed or editable."""
    for base in tilewright.__path__:
        found = Path(base) / kind / room
        if found.is_dir():
            return found
    raise FileNotFoundError(f"the installation lacks {kind}/{room}")


def room(name: str) -> ModuleType:
    """Import a room: its Problem, Plan, simulator and bounds."""
    if name not in ROOMS:
        raise UnknownNameError("room", name, list(ROOMS))
    return importlib.import_module(f"tilewright.{name}")


def heuristics(room: str) -> list[str]:
    """Names of a room's heuristics."""
    files = folder("heuristics", room).glob("*.py")
    return sorted(path.stem for path in files if not path.name.startswith("_"))


def heuristic(room: str, name: str) -> ModuleType:
    """Import a heuristic: a module with ``plan(problem)`` or ``plan(problem, search)``."""
    if name not in heuristics(room):
        raise UnknownNameError("heuristic", name, heuristics(room))
    return importlib.import_module(f"tilewright.heuristics.{room}.{name}")


def searches(module: ModuleType) -> bool:
    """Whether a heuristic improves plans until a deadline, rather than constructing one."""
    return "search" in inspect.signature(module.plan).parameters


def models(room: str) -> list[Path]:
    """Files of a room's formulations."""
    files = folder("models", room).iterdir()
    return sorted(
        path
        for path in files
        if path.suffix in (".py", ".mzn")
        and not path.name.startswith("_")
        and path.stem != "core"
        and not path.name.endswith(".mzc.mzn")
    )


def model(room: str, name: str) -> Path:
    """Return the file of a formulation."""
    for path in models(room):
        if path.stem == name:
            return path
    raise UnknownNameError("model", name, [path.stem for path in models(room)])


def formulation(room: str, name: str) -> ModuleType | Path:
    """Return what a driver takes: the module of a Pyomo formulation, the file of a MiniZinc one."""
    path = model(room, name)
    return path if path.suffix == ".mzn" else importlib.import_module(f"tilewright.models.{room}.{name}")


def instances(room: str) -> list[Path]:
    """Instance files of a room that come with the installation."""
    return sorted(path for path in folder("instances", room).glob("*.toml"))
