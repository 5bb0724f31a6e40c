"""Tables of what there is: rooms, models, heuristics, solvers, instances, machines, networks."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tilewright import drivers
from tilewright.core import catalogue
from tilewright.core.locations import OWN
from tilewright.run.instance import read
from tilewright.run.methods import suited_solvers
from tilewright.spec.errors import SolverBrokenError, SolverMissingError, TilewrightError
from tilewright.spec.network import Network

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
    """Return the solvers with a driver, installed or not, and those that MiniZinc and Pyomo find here."""
    rows = [_solver(driver, driver.name) for driver in drivers.known()]
    for family in drivers.FAMILIES:
        try:
            rows += [_solver(family, name) for name in drivers.installed(family)]
        except SolverMissingError:
            continue  # the row of Gecode or HiGHS says what is wrong with MiniZinc or Pyomo
    return rows


def _solver(driver: drivers.Driver, name: str) -> dict[str, Any]:
    """Return the row of a solver."""
    try:
        found = drivers.versions(name)
        wrong, broken = "", False
    except TilewrightError as error:
        found, wrong, broken = {}, str(error), isinstance(error, SolverBrokenError)
    return {
        "solver": name,
        "installed": bool(found),
        "version": ", ".join(f"{package} {version}" for package, version in found.items()),
        "install": driver.install,
        "wrong": wrong,
        "broken": broken,
    }


def instances() -> Rows:
    """Return the bundled instances."""
    return [
        {"room": room, "instance": path.stem, "source": _source(path)}
        for room in catalogue.ROOMS
        for path in catalogue.instances(room)
    ]


def machines() -> Rows:
    """Return the bundled machines with the rooms that take them, and what they have of everything."""
    rows = []
    for path in catalogue.instances("machines"):
        taken = dict(_readings(tomllib.loads(path.read_text("utf-8"))))
        if not taken:
            continue
        machine = next(iter(taken.values()))
        memories = _memories(machine)
        pes, macs = _pes(machine)
        rows.append(
            {
                "machine": path.stem,
                "kind": getattr(machine, "kind", None) or next(iter(taken)),
                "rooms": ", ".join(taken),
                "memories": ", ".join(f"{name} {_bytes(size)}" for name, size in memories.items()),
                "memories_bytes": memories,
                "pes": pes,
                "macs_per_cycle": macs,
                "clock_mhz": _megahertz(machine),
                "source": _comment(path),
            }
        )
    return rows


def _readings(table: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Return the machine that a table is in each room that takes networks, if it is one there."""
    for room in catalogue.ROOMS:
        fields = catalogue.room(room).problem_type.model_fields
        if "network" not in fields:
            continue
        machine = fields["machine"]
        try:
            yield room, TypeAdapter(machine.annotation).validate_python(table)
        except (TilewrightError, ValidationError):
            continue


def _memories(machine: Any) -> dict[str, Any]:
    """Return the bytes of each on-chip memory, one number or one for each operand, None for no limit."""
    if hasattr(machine, "levels"):
        inner = [level for level in machine.levels[1:] if not level.fanout]
        sizes = {level.name: level.capacity_bytes for level in inner}
        return {
            name: size if isinstance(size, int) else {operand: many for operand, many in size if many}
            for name, size in sizes.items()
        }
    if getattr(machine, "memories", ()):
        return {each.name: each.bytes for each in machine.memories}
    names = [name for name in type(machine).model_fields if name.endswith("_bytes")]
    apart = ("element_bytes", "burst_bytes", "register_file_bytes")
    return {name.removesuffix("_bytes"): getattr(machine, name) for name in names if name not in apart}


def _pes(machine: Any) -> tuple[int, int]:
    """Return the processing elements, and what they multiply and add in a cycle."""
    if hasattr(machine, "levels"):
        many = prod(axis.size for level in machine.levels for axis in level.fanout)
        return many, machine.most_macs_per_cycle
    if hasattr(machine, "tles"):
        return machine.tles * machine.tlts, machine.tles * machine.tlts * machine.macs_per_cycle
    if hasattr(machine, "functional_units"):
        return machine.pes, machine.pes * machine.functional_units
    return getattr(machine, "arrays", 1), machine.macs_per_cycle


def _megahertz(machine: Any) -> float | None:
    """Return the clock of a machine, which may give its cycle instead; None where nothing is told."""
    if hasattr(machine, "cycle_ps"):
        return float(round(1e6 / machine.cycle_ps, 3))
    return getattr(machine, "clock_mhz", None)


def _bytes(size: Any) -> str:
    """Show a capacity for people."""
    if isinstance(size, dict):
        return " + ".join(map(_bytes, size.values()))
    if size is None:
        return "any size"
    for unit, name in ((2**20, "MiB"), (2**10, "KiB"), (1000, "kB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size:,} B"


def _comment(path: Path) -> str:
    """Return the first sentence of the comment with which a file begins."""
    lines = []
    for line in path.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# "))
    return " ".join(lines).split(". ")[0].removesuffix(".")


def networks() -> Rows:
    """Return the bundled networks."""
    rows = []
    for path in catalogue.instances("networks"):
        network = Network.model_validate(tomllib.loads(path.read_text("utf-8")))
        rows.append(
            {
                "network": path.stem,
                "layers": len(network.layers),
                "convolutions": len(network.convolutions),
                "macs": network.macs,
                "source": network.source,
            }
        )
    return rows


DETAILS = ("wrong", "broken", "memories_bytes")
"""Columns that only JSON has."""

TABLES = {
    "rooms": rooms,
    "models": models,
    "heuristics": heuristics,
    "solvers": solvers,
    "instances": instances,
    "machines": machines,
    "networks": networks,
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
    """Import what the user's own files are; return a sentence for each that cannot be used."""
    found = []
    for driver in drivers.others():
        try:
            drivers.load(driver.name)
        except SolverMissingError:
            continue  # nothing is wrong with the file
        except TilewrightError as error:
            found.append(str(error))
    for room in catalogue.ROOMS:
        tries = [(catalogue.heuristic, path) for path in catalogue.heuristic_files(room)]
        for load, path in [*tries, *((catalogue.formulation, path) for path in catalogue.models(room))]:
            if path.is_relative_to(OWN):
                continue
            try:
                load(room, path.stem)
            except SolverMissingError:
                continue
            except TilewrightError as error:
                found.append(f"{room}: {error}")
    return found


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0]
