"""Tables of what there is: rooms, models, heuristics, solvers, instances."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from tilewright import drivers
from tilewright.core import catalogue
from tilewright.run.instance import read
from tilewright.run.methods import suited_solvers
from tilewright.spec.errors import SolverMissingError

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
        except SolverMissingError:
            found = {}
        rows.append(
            {
                "solver": driver.name,
                "installed": bool(found),
                "version": ", ".join(f"{name} {version}" for name, version in found.items()),
                "install": driver.install,
            }
        )
    return rows


def instances() -> Rows:
    """Return the bundled instances."""
    return [
        {"room": room, "instance": path.stem, "source": read(path).source}
        for room in catalogue.ROOMS
        for path in catalogue.instances(room)
    ]


TABLES = {
    "rooms": rooms,
    "models": models,
    "heuristics": heuristics,
    "solvers": solvers,
    "instances": instances,
}


def _summary(path: Path) -> str:
    """First line of a file's own description, without running it."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        try:
            return _first_line(ast.get_docstring(ast.parse(text)) or "")
        except SyntaxError as error:
            return f"cannot be read: {error}"
    return _first_line(text.lstrip("% \n"))


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0]
