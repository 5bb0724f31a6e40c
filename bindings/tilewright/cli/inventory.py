"""Tables of what there is: rooms, models, heuristics, solvers, instances."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from tilewright import drivers
from tilewright.core import catalogue
from tilewright.core.locations import OWN
from tilewright.run.instance import read
from tilewright.run.methods import suited_solvers
from tilewright.spec.errors import SolverBrokenError, SolverMissingError, TilewrightError

Rows = list[dict[str, Any]]


def rooms() -> Rows:
    """Return the rooms with what each decides."""
    return [{"room": room, "decides": catalogue.room(room).decides} for room in catalogue.ROOMS]


def models() -> Rows:
    """Return the formulations with the solvers that take them."""
    return [
        {
            "room": room,
            "model": path.stem,
            "solvers": ", ".join(suited_solvers(path)) or "its own",
            "what": _summary(path),
        }
        for room in catalogue.ROOMS
        for path in catalogue.models(room)
    ]


def heuristics() -> Rows:
    """Return the heuristics."""
    return [
        {"room": room, "heuristic": path.stem, "what": _summary(path)}
        for room in catalogue.ROOMS
        for path in catalogue.heuristic_files(room)
    ]


def solvers() -> Rows:
    """Return the solvers, installed or not."""
    rows = []
    for driver in drivers.DRIVERS:
        try:
            found = drivers.versions(driver.name)
            wrong, broken = "", False
        except SolverMissingError as error:
            found, wrong, broken = {}, str(error), isinstance(error, SolverBrokenError)
        rows.append(
            {
                "solver": driver.name,
                "installed": bool(found),
                "version": ", ".join(f"{name} {version}" for name, version in found.items()),
                "install": driver.install,
                "wrong": wrong,
                "broken": broken,
            }
        )
    return rows


def instances() -> Rows:
    """Return the bundled instances."""
    return [
        {"room": room, "instance": path.stem, "source": _source(path)}
        for room in catalogue.ROOMS
        for path in catalogue.instances(room)
    ]


DETAILS = ("wrong", "broken")
"""Columns that only JSON has."""

TABLES = {
    "rooms": rooms,
    "models": models,
    "heuristics": heuristics,
    "solvers": solvers,
    "instances": instances,
}


def _summary(path: Path) -> str:
    """First line of a file's own description, without running it."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            return _first_line(ast.get_docstring(ast.parse(text)) or "")
    except SyntaxError as error:
        return f"cannot be read: {error.msg} ({path}, line {error.lineno})"
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        return f"cannot be read: {error} ({path})"
    return _first_line(text.lstrip("% \n"))


def _source(path: Path) -> str:
    """Where an instance comes from, or what is wrong with it."""
    try:
        return read(path).source
    except TilewrightError as error:
        return _first_line(str(error))


def broken_files() -> list[str]:
    """Import every heuristic and formulation; return a sentence for each that cannot be used."""
    found = []
    for room in catalogue.ROOMS:
        tries = [(catalogue.heuristic, path) for path in catalogue.heuristic_files(room)]
        for load, path in [*tries, *((catalogue.formulation, path) for path in catalogue.models(room))]:
            if path.is_relative_to(OWN):
                continue
            try:
                load(room, path.stem)
            except TilewrightError as error:
                found.append(f"{room}: {error}")
    return found


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0]
