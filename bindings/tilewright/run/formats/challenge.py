"""A room's instances as others can take them: MiniZinc models, a checker, data by size, best-known costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.core import catalogue
from tilewright.core.cutoffs import of_model
from tilewright.core.files import write_atomically
from tilewright.core.room import bridge_of
from tilewright.drivers.export import checker, data, dzn, takes, whole
from tilewright.run.instance import read
from tilewright.run.solve import solve
from tilewright.run.summary import csv_text
from tilewright.spec.errors import InputError, TilewrightError

CLASSES = (("small", 500), ("medium", 50_000), ("large", None))
"""Classes of instances, and up to how many constraints of a formulation each goes."""

MAX_SIZE = 25_000_000
"""Most constraints of a formulation of which there is an instance: no solver is near that now."""

COLUMNS = ("model", "class", "instance", "best", "bound", "status", "cost", "offset", "unit", "by")


@dataclass(frozen=True)
class _Entry:
    """An instance for a formulation, or a layer of one."""

    name: str
    size: int
    problem: Any
    data: dict[str, Any]

    @property
    def size_class(self) -> str:
        return next(name for name, most in CLASSES if most is None or self.size <= most)


def write(room: str, folder: Path, *, model: str | None = None, seconds: float = 2.0) -> Iterator[str]:
    """Write the folder; yield a line for each thing written.

    Parameters
    ----------
    room
        The room's name.
    folder
        Where; it must be empty or not exist.
    model
        One formulation, or all of the room.
    seconds
        Time limit of ``auto`` for the best-known cost of an instance.

    Raises
    ------
    InputError
        If the folder cannot be taken.
    """
    offered = catalogue.room(room)
    formulations = [path for path in catalogue.models(room) if path.suffix == ".mzn"]
    if model is not None:
        formulations = [path for path in formulations if path == catalogue.model(room, model)]
    if not formulations:
        raise InputError("model", model, f"is no MiniZinc formulation of {room}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError("output", str(folder), "must be a folder that is empty or does not exist")
    solved: dict[int, dict[str, Any]] = {}
    rows = []
    for formulation in formulations:
        entries = sorted(_entries(room, formulation), key=lambda entry: (entry.size, entry.name))
        if not entries:
            continue
        at = folder / formulation.stem
        at.mkdir(parents=True, exist_ok=True)
        source = whole(formulation, room)
        write_atomically(at / f"{formulation.stem}.mzn", source)
        cores = [at / "core.mzc.mzn" for at in (formulation.parent, *catalogue.folders("models", room))]
        checking = next((core for core in cores if core.is_file()), None)
        if checking is not None and takes(checking, source):
            write_atomically(at / f"{formulation.stem}.mzc.mzn", checker(checking, entries[0].data))
        for entry in entries:
            (at / entry.size_class).mkdir(exist_ok=True)
            write_atomically(at / entry.size_class / f"{entry.name}.dzn", dzn(entry.data, source))
            if id(entry.problem) not in solved:
                solved[id(entry.problem)] = _best(entry.problem, seconds)
            offset, unit = bridge_of(entry.problem, formulation).scale(entry.problem)
            known = solved[id(entry.problem)]
            rows.append(
                {
                    "model": formulation.stem,
                    "class": entry.size_class,
                    "instance": entry.name,
                    "best": _units(known["cost"], offset, unit),
                    "bound": _units(known["bound"], offset, unit),
                    "offset": offset,
                    "unit": unit,
                    **{name: known[name] for name in ("cost", "status", "by")},
                }
            )
            yield f"{formulation.stem}/{entry.size_class}/{entry.name}.dzn"
    table = csv_text({column: row[column] for column in COLUMNS} for row in rows)
    write_atomically(folder / "best-known.csv", table)
    write_atomically(
        folder / "README.md", _readme(room, offered.decides, formulations[0].stem, rows, seconds)
    )
    yield "best-known.csv"
    yield "README.md"


def _entries(room: str, formulation: Path) -> Iterator[_Entry]:
    """Return the bundled instances that a formulation takes, each layer of a network once."""
    offered = catalogue.room(room)
    for path in catalogue.instances(room):
        problem = _problem(path)
        parts = {id(part): (name, part) for name, part in reversed(offered.parts(problem))}
        for name, part in parts.values():
            listed = getattr(part, "in_turn", False)
            if listed or offered.only_method(part) is not None or not catalogue.suits(formulation, part):
                continue
            try:
                if bridge_of(part, formulation).size(part) > MAX_SIZE:
                    continue
                with of_model(foreign=not catalogue.bundled(formulation)):
                    values = data(part, formulation)
            except TilewrightError:
                continue  # beyond the numbers of MiniZinc, or of another objective
            whole_one = f"{path.stem}-{name}" if len(parts) > 1 else path.stem
            safe = "".join(sign if sign.isalnum() or sign in "-_." else "_" for sign in whole_one)
            yield _Entry(safe, bridge_of(part, formulation).size(part), part, values)


_problems: dict[Path, Any] = {}


def _problem(path: Path) -> Any:
    """Read an instance once, so that its parts are the same objects for every formulation."""
    if path not in _problems:
        _problems[path] = read(path).problem
    return _problems[path]


def _best(problem: Any, seconds: float) -> dict[str, Any]:
    """Solve a problem by all that the room knows; return what is told of it."""
    found = solve(problem, time_limit=seconds)
    by = f"tilewright {found.versions.get('tilewright')}, auto, {seconds:g} s"
    return {"cost": found.objective, "bound": found.bound, "status": found.status, "by": by}


def _units(cost: int | None, offset: int, unit: int) -> int | None:
    """Return a cost in units of the model's objective, a bound rounded up."""
    return None if cost is None else max(0, -(-(cost - offset) // unit))


def _readme(room: str, decides: str, first: str, rows: list[dict[str, Any]], seconds: float) -> str:
    example = next(row for row in rows if row["model"] == first)
    classes = ", ".join(f"{name} (up to {most:,})" if most else f"{name} (more)" for name, most in CLASSES)
    return f"""# {room}: instances for constraint solvers

{decides}. Each folder has one formulation in MiniZinc, which minimises `objective`, and its instances.

    minizinc {first}/{first}.mzn {first}/{example["class"]}/{example["instance"]}.dzn

Where there is a checker, it is given before the model and says CORRECT or what is wrong:

    minizinc {first}/{first}.mzc.mzn {first}/{first}.mzn {first}/{example["class"]}/{example["instance"]}.dzn

Classes of instances, by links between variables, about as many as constraints: {classes}.

`best-known.csv`: `best` and `bound` are values of `objective`; what it stands for costs
`offset + unit * objective`, which is `cost` for the best. `status` is `optimal` where best and bound are
known to meet. They were found by `tilewright solve` within {seconds:g} s each, so most of those that are
not optimal can be improved.
"""
