"""Find rooms, heuristics, formulations and bundled instances by listing folders: no registration."""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from tilewright.core import contracts
from tilewright.core.failures import told
from tilewright.core.locations import OWN, PACKAGE, bases, package_path
from tilewright.core.packages import INSTALL_CPSAT, ORTOOLS, installed
from tilewright.core.room import Room, bridge_of, room_of
from tilewright.spec.errors import InputError, SolverMissingError, UnknownNameError

ROOMS = (
    "grouping",
    "tiling",
    "allocation",
    "fusion",
    "bitwidth",
    "addresses",
    "scheduling",
    "residency",
    "offloading",
)

LARGE = 10**9
"""A limit on costs, to ask whether a method takes any."""


def folders(kind: str, room: str) -> list[Path]:
    """Return the folders of a room's ``models``, ``heuristics`` or ``instances``, our own first."""
    return [found for base in bases() if (found := base / kind / room).is_dir()]


def _files(kind: str, room: str) -> list[Path]:
    """Files of all those folders; the first of a name counts."""
    files: dict[str, Path] = {}
    for folder in folders(kind, room):
        for path in sorted(folder.iterdir()):
            if path.is_file():
                files.setdefault(path.name, path)
    return sorted(files.values(), key=lambda path: path.name)


def room(name: str) -> Room[Any, Any]:
    """Import a room and return what it offers."""
    if name not in ROOMS:
        raise UnknownNameError("room", name, list(ROOMS))
    found: Room[Any, Any] = importlib.import_module(f"tilewright.{name}").ROOM
    return found


def room_of_file(suffix: str) -> Room[Any, Any] | None:
    """Import the room that reads files of an ending other than ``.toml``, and no other; None if none does.

    Parameters
    ----------
    suffix
        As ``.json``, in small letters.
    """
    line = rf"^ +file_suffix = \"{re.escape(suffix)}\"$"
    for name in ROOMS:
        file = PACKAGE / name / "__init__.py"
        if _says(file, file.stat().st_mtime_ns, line):
            return room(name)
    return None


def heuristics(room: str) -> list[str]:
    """Names of a room's heuristics."""
    return [path.stem for path in heuristic_files(room)]


def heuristic_files(room: str) -> list[Path]:
    """Files of a room's heuristics."""
    files = _files("heuristics", room)
    return [path for path in files if path.suffix == ".py" and not path.name.startswith("_")]


def heuristic(room: str, name: str) -> ModuleType:
    """Import a heuristic: a module with ``plan(problem)`` or ``plan(problem, search)``."""
    if name not in heuristics(room):
        raise UnknownNameError("heuristic", name, heuristics(room))
    module = _checked("heuristic", room, name)
    if not callable(getattr(module, "plan", None)):
        raise InputError("heuristic", name, f"has no function `plan` ({module.__file__})")
    return module


def _checked(kind: str, room: str, name: str) -> ModuleType:
    """Import a file that may be a user's own and hold anything; say what is wrong, and where."""
    try:
        return _import(f"{kind}s", room, name)
    except (Exception, SystemExit) as error:
        raise InputError(kind, name, f"cannot be imported: {told(error)}") from error


_imported_at: dict[str, int] = {}
"""Times of the files that have been imported, in nanoseconds."""


def _import(kind: str, room: str, name: str) -> ModuleType:
    """Import a heuristic or formulation from where it is now, again if its file has changed.

    In a notebook a user edits files, and sets ``TILEWRIGHT_PATH``, while this process goes on.
    """
    importlib.import_module(f"tilewright.{kind}").__path__ = package_path(kind)
    module = importlib.import_module(f"tilewright.{kind}.{room}.{name}")
    changed = Path(str(module.__file__)).stat().st_mtime_ns
    if _imported_at.setdefault(module.__name__, changed) != changed:
        module = importlib.reload(module)
        _imported_at[module.__name__] = changed
    return module


def constructive(room: str, on_failure: Callable[[str, Exception], None]) -> Iterator[ModuleType]:
    """Import a room's constructive heuristics one after the other, those with ``SLOW = True`` last.

    So the quick ones have run before what the slow ones need is imported. One that cannot be imported,
    because a user has only just begun it, is reported and left out.
    """
    names = [name for name in heuristics(room) if constructs(room, name)]
    for name in sorted(names, key=lambda name: _file_that_says(room, name, r"^SLOW = True\b") is not None):
        try:
            module = heuristic(room, name)
            improves = searches(module)
        except Exception as error:
            on_failure(name, error)
            continue
        if not improves:
            yield module


def constructed(problem: Any, on_failure: Callable[[str], None]) -> Iterator[Any]:
    """Return the plans of a room's constructive heuristics, as `constructive` orders these.

    Parameters
    ----------
    on_failure
        Called with a sentence when one fails, which leaves the others their turn.
    """
    room = room_of(problem).name

    def failed(name: str, error: Exception) -> None:
        on_failure(str(error) if isinstance(error, InputError) else f"{name} failed: {told(error)}")

    for heuristic in constructive(room, failed):
        try:
            if not suits(heuristic, problem):
                continue
            plan = heuristic.plan(problem)
            refuse_other_than_plans(plan, room, heuristic)
        except AssertionError as error:
            if bundled(heuristic):
                raise
            failed(heuristic.__name__.rpartition(".")[2], error)
            continue
        except Exception as error:
            failed(heuristic.__name__.rpartition(".")[2], error)
            continue
        yield plan


def refuse_other_than_plans(plan: Any, room_name: str, heuristic: ModuleType) -> None:
    """Refuse what a heuristic has returned if that is no plan."""
    if not isinstance(plan, room(room_name).plan_type):
        name = heuristic.__name__.rpartition(".")[2]
        limit = f"`plan` returns no Plan of {room_name} but {type(plan).__name__} ({heuristic.__file__})"
        raise InputError("heuristic", name, limit)


def searches(module: ModuleType) -> bool:
    """Whether a heuristic improves plans until a deadline, rather than constructing one."""
    return "search" in inspect.signature(module.plan).parameters


def suits(method: ModuleType | Path, problem: Any) -> bool:
    """Whether a heuristic or formulation takes a problem.

    A module tells with ``suits(problem)``, without which it takes all; of a MiniZinc file the room's bridge
    tells. Of a list of objectives a formulation is asked for one after the other.
    """
    if isinstance(method, ModuleType):
        takes = getattr(method, "suits", lambda _problem: True)
        return all(takes(each) for each in stages(method, problem))
    return all(bridge_of(problem, method).suits(each, method) for each in stages(method, problem))


def stages(method: ModuleType | Path, problem: Any) -> list[Any]:
    """Return what a method is asked: the problem, or of a list of objectives a formulation one and a limit.

    These are the first objective, and the last one with limits on all before it.
    """
    driven = isinstance(method, Path) or not (hasattr(method, "solve") or hasattr(method, "plan"))
    if not (driven and getattr(problem, "in_turn", False)):
        return [problem]
    return [problem.stage({}), problem.stage(dict.fromkeys(problem.objective.names, LARGE))]


def why_not(method: ModuleType | Path, problem: Any) -> str:
    """Return why a heuristic or formulation does not take a problem.

    A module tells with ``why_not(problem)``, one reason with its number; of a MiniZinc file the bridge tells.
    """
    if isinstance(method, ModuleType):
        tells = getattr(method, "why_not", lambda _problem: None)
        reasons = [tells(each) for each in stages(method, problem)]
    else:
        tells = getattr(bridge_of(problem, method), "why_not", lambda *_: None)
        reasons = [tells(each, method) for each in stages(method, problem)]
    told = next(filter(None, reasons), None)
    return told or "does not take this kind of machine or objective, or a problem of this size"


def models(room: str) -> list[Path]:
    """Files of a room's formulations."""
    return [
        path
        for path in _files("models", room)
        if path.suffix in (".py", ".mzn")
        and not path.name.startswith(("_", "core."))
        and not path.name.endswith(".mzc.mzn")
    ]


def model(room: str, name: str) -> Path:
    """Return the file of a formulation.

    What chooses among columns that are priced beforehand is called ``columns_NAME``, and was once ``NAME``.
    """
    found = {path.stem: path for path in models(room)}
    for known in (name, f"columns_{name}"):
        if known in found:
            return found[known]
    raise UnknownNameError("model", name, list(found))


def exact_methods(room: str) -> list[str]:
    """Names of the formulations that are solved by their own search and need no solver."""
    return [path.stem for path in models(room) if solves_itself(path)]


def bundled(formulation: ModuleType | Path) -> bool:
    """Whether a formulation or heuristic comes with the installation, not from a folder of the user's own."""
    path = formulation if isinstance(formulation, Path) else Path(str(formulation.__file__))
    return any(path.is_relative_to(OWN / kind) for kind in ("models", "heuristics"))


def solves_itself(path: Path) -> bool:
    """Whether a formulation is a Python module with ``solve(problem, search)``, without running it."""
    return path.suffix == ".py" and _says(path, path.stat().st_mtime_ns, r"^def solve\(")


def chooses_columns(path: Path) -> bool:
    """Whether a formulation chooses among columns that are priced beforehand; its name or text says so."""
    if path.stem.startswith("columns_"):
        return True
    return _says(path, path.stat().st_mtime_ns, r"^CHOOSES_COLUMNS = True$")


def written_for(path: Path) -> str:
    """Return what a formulation is written for, as drivers say what they take; without running it.

    MiniZinc is ``.mzn``, Pyomo ``.py``; ``cpsat`` is a Python file that says ``WRITTEN_FOR = "cpsat"``.
    """
    says_so = path.suffix == ".py" and _says(path, path.stat().st_mtime_ns, r"^WRITTEN_FOR = [\"']cpsat[\"']")
    return contracts.CPSAT if says_so else path.suffix


def in_process(room: str, method: str) -> bool:
    """Whether a method says ``IN_PROCESS = True``: that it looks at its deadline often and needs no killing.

    It is found in the text, without importing what may be heavy.
    """
    return _file_that_says(room, method, r"^IN_PROCESS = True$") is not None


def side_by_side(room: str, method: str) -> bool:
    """Whether a method says ``SIDE_BY_SIDE = True``: it may run on several parts of a problem, in threads.

    Found in the text, as by `in_process`.
    """
    return _file_that_says(room, method, r"^SIDE_BY_SIDE = True$") is not None


def kernel_file(room: str, method: str) -> Path | None:
    """Return a method's file if it has a function ``compile_kernels``, without importing it.

    That compiles all that the method runs compiled, on tiny problems: ``compile_kernels(bundled)`` is given a
    function that returns the problem of an instance by its name.
    """
    return _file_that_says(room, method, r"^def compile_kernels\(")


def constructs(room: str, method: str) -> bool:
    """Whether a heuristic is constructive, as far as its text tells without importing it."""
    return _file_that_says(room, method, r"^def plan\([^)]*\bsearch\b") is None


def _file_that_says(room: str, method: str, line: str) -> Path | None:
    """Return the file of a heuristic or an exact method if it has a line."""
    files = [path for path in (*models(room), *heuristic_files(room)) if path.stem == method]
    return next((path for path in files if _says(path, path.stat().st_mtime_ns, line)), None)


@lru_cache(maxsize=1024)
def _says(path: Path, _changed: int, line: str) -> bool:
    """Whether a file has a line, as it was when it was last changed."""
    return re.search(line, path.read_text("utf-8", errors="replace"), re.MULTILINE) is not None


def can_run(path: Path) -> bool:
    """Whether the package that a formulation is written for is installed."""
    return written_for(path) != contracts.CPSAT or installed(ORTOOLS)


def formulation(room: str, name: str) -> ModuleType | Path:
    """Return what a driver takes: the module of a Python formulation, the file of a MiniZinc one."""
    path = model(room, name)
    if path.suffix == ".mzn":
        return path
    if not can_run(path):
        raise SolverMissingError(
            f"{name} is written for CP-SAT, which is missing; to get it: {INSTALL_CPSAT}"
        )
    module = _checked("model", room, path.stem)
    if solves_itself(path):
        contracts.check("model", name, module, contracts.ExactSearch)
    else:
        written = contracts.BY_FORM[written_for(path)]
        contracts.check("model", name, module, written)
        contracts.check("model", name, module, contracts.SizedFormulation, optional=True)
    return module


def instances(room: str) -> list[Path]:
    """Instance files of a room that come with the installation."""
    return [path for path in _files("instances", room) if path.suffix == ".toml"]


def shared(folder: str, name: str) -> dict[str, Any]:
    """Return a table of ``instances`` that rooms share: of machines, networks or published numbers."""
    files = [path / f"{name}.toml" for path in folders("instances", folder)]
    return tomllib.loads(next(file for file in files if file.is_file()).read_text("utf-8"))


def instance(room: str, name: str) -> Path:
    """Return the file of a bundled instance."""
    for path in instances(room):
        if path.stem == name:
            return path
    raise UnknownNameError("instance", name, [path.stem for path in instances(room)])
