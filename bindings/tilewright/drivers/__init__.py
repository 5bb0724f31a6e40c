"""Solver drivers: ours, the user's own, and two for all that MiniZinc or Pyomo know.

Ours are a file and a line of `DRIVERS` each. The user's own are found without registration: in ``drivers/``
of a folder that ``TILEWRIGHT_PATH`` names, or as an entry point of the group ``tilewright.drivers``;
`core.contracts` says what they must have. ``minizinc:SOLVER`` and ``pyomo:SOLVER`` are any solver. Nothing is
imported before it is used.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import warnings
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilewright.core import contracts
from tilewright.core.failures import told
from tilewright.core.locations import package_path
from tilewright.core.packages import INSTALL_CPSAT, ORTOOLS
from tilewright.core.packages import installed as has_package
from tilewright.core.silence import nothing_printed
from tilewright.spec.errors import InputError, SolverMissingError, UnknownNameError

GROUP = "tilewright.drivers"
"""Group of the entry points by which a package offers drivers."""


@dataclass(frozen=True)
class Driver:
    """An entry of the list of solvers.

    Attributes
    ----------
    name
        What users write after the ``@`` of a method.
    module
        Where ``solve(problem, formulation, search, ...)`` and ``versions()`` are.
    takes
        What the formulations that it takes are written for: ``.py`` for Pyomo, ``.mzn`` for MiniZinc,
        ``cpsat`` for CP-SAT.
    install
        How to get the solver.
    spawns
        Whether it runs in processes of its own, which are killed with the worker that has started them.
    needs
        A package that an installation may lack, and without which there is no use in trying.
    check
        A module whose ``check(gecode=...)`` says what is wrong with MiniZinc before the driver is imported.
    solver
        Of a driver for many solvers, the one that is meant; its module has ``solver(name)``, which returns
        what other modules are, and ``names()`` of those that are here.
    tested
        Whether our tests hold the solver to what it proves. What others prove is a claim until a second
        method confirms it.
    file
        Of a driver of the user's own.
    """

    name: str
    module: str
    takes: str
    install: str
    spawns: bool = False
    needs: str | None = None
    check: str | None = None
    solver: str | None = None
    tested: bool = True
    file: str | None = None


FORMS = (contracts.PYOMO, contracts.MINIZINC, contracts.CPSAT)
"""What formulations may be written for."""

MINIZINC = (
    "apt-get install minizinc (Debian, Ubuntu), brew install minizinc (macOS), "
    "or the bundle from minizinc.org; then pip install minizinc"
)

DRIVERS = [
    Driver("highs", "tilewright.drivers.highs", ".py", "pip install 'highspy>=1.16' pyomo"),
    Driver(
        "gecode",
        "tilewright.drivers.gecode",
        ".mzn",
        MINIZINC,
        spawns=True,
        check="tilewright.drivers._minizinc",
    ),
    Driver(
        "cpsat",
        "tilewright.drivers.cpsat",
        contracts.CPSAT,
        INSTALL_CPSAT,
        needs=ORTOOLS,
    ),
]

FAMILIES = [
    Driver(
        "minizinc",
        "tilewright.drivers.minizinc",
        ".mzn",
        f"MiniZinc ({MINIZINC}) and a configuration of the solver, as its own manual says",
        spawns=True,
        check="tilewright.drivers._minizinc",
        solver="SOLVER",
        tested=False,
    ),
    Driver(
        "pyomo",
        "tilewright.drivers.pyomo",
        ".py",
        "the solver's program on the PATH (apt-get install coinor-cbc glpk-utils) "
        "or its Python package (pip install gurobipy), as Pyomo's manual says",
        spawns=True,
        solver="SOLVER",
        tested=False,
    ),
]
"""Drivers for many solvers, which users name with a colon: ``minizinc:chuffed``."""


def others() -> list[Driver]:
    """Return the drivers of the user's own: of folders first, then of packages; nothing is run."""
    taken = {driver.name for driver in (*DRIVERS, *FAMILIES)}
    found = []
    for file in files():
        if file.stem not in taken:
            taken.add(file.stem)
            found.append(_described(file.stem, f"{__name__}.{file.stem}", file))
    for name, module in _entry_points():
        if name not in taken:
            taken.add(name)
            found.append(_described(name, module, _source(module)))
    return found


def files() -> list[Path]:
    """Return the files of drivers in folders of the user's own."""
    folders = [Path(folder) for folder in package_path("drivers")[1:]]
    return [
        file
        for folder in folders
        if folder.is_dir()
        for file in sorted(folder.glob("*.py"))
        if not file.name.startswith("_")
    ]


@lru_cache(maxsize=1)
def _entry_points() -> list[tuple[str, str]]:
    import importlib.metadata  # for start-up time

    return [(point.name, point.value) for point in importlib.metadata.entry_points(group=GROUP)]


def _source(module: str) -> Path | None:
    """Return the file of an installed module, None where there is none."""
    try:
        spec = importlib.util.find_spec(module)
    except (Exception, SystemExit):  # a package may do anything when it is imported
        return None
    return Path(spec.origin) if spec is not None and spec.origin else None


def _described(name: str, module: str, file: Path | None) -> Driver:
    """Return the entry of a driver of the user's own, from what its file says without being run."""
    says = {} if file is None else _literals(file, file.stat().st_mtime_ns)
    return Driver(
        name,
        module,
        says["TAKES"] if says.get("TAKES") in FORMS else "",
        str(says.get("INSTALL", "see its own description")),
        spawns=says.get("SPAWNS") is True,
        tested=False,
        file=str(file) if file else module,
    )


@lru_cache(maxsize=64)
def _literals(file: Path, _changed: int) -> dict[str, Any]:
    """Return the names to which a file assigns literals, as it was when it was last changed."""
    try:
        lines = ast.parse(file.read_text("utf-8")).body
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return {}  # what is wrong shows when it is imported
    return {
        target.id: line.value.value
        for line in lines
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant)
        for target in line.targets
        if isinstance(target, ast.Name)
    }


def worth_trying(driver: Driver) -> bool:
    """Whether what a driver needs is here, as far as can be told without importing it."""
    return driver.needs is None or has_package(driver.needs)


def known() -> list[Driver]:
    """Return the drivers that can be named without a colon."""
    return [*DRIVERS, *others()]


def find(name: str) -> Driver:
    """Return the entry of a solver's name."""
    family, colon, solver = name.partition(":")
    for driver in FAMILIES:
        if colon and solver and driver.name == family:
            return replace(driver, name=name, solver=solver)
    for driver in DRIVERS:
        if driver.name == name:
            return driver
    for driver in others():
        if driver.name == name:
            return driver
    raise UnknownNameError("solver", name, names())


def names(written_for: str | None = None) -> list[str]:
    """Return the names of all solvers, as users write them, or of those that take some formulations."""
    single = [driver.name for driver in known() if written_for in (None, driver.takes)]
    return single + [f"{one.name}:{one.solver}" for one in FAMILIES if written_for in (None, one.takes)]


def load(name: str) -> Any:
    """Import a solver's driver; return what `contracts.SolverDriver` says.

    Raises
    ------
    SolverMissingError
        If the solver is not installed or does not work; says what is wrong, and how to install it.
    InputError
        If it is a driver of the user's own that is not one.
    """
    driver = find(name)
    try:
        if driver.check is not None:
            importlib.import_module(driver.check).check(gecode=driver.solver is None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a missing solver is reported once, by us
            module = _imported(driver)
            found = module.solver(driver.solver) if driver.solver else module
            with nothing_printed():
                found.versions()
    except (ImportError, SolverMissingError) as error:
        kind = type(error) if isinstance(error, SolverMissingError) else SolverMissingError
        raise kind(f"{name} cannot be used ({error}); to get it: {driver.install}") from error
    return found


def _imported(driver: Driver) -> Any:
    """Import the module of a driver; check one of the user's own."""
    if driver.file is None:
        return importlib.import_module(driver.module)
    if not driver.takes:
        limit = (
            f'has no line `TAKES = ".py"`, `TAKES = ".mzn"` or `TAKES = "cpsat"`, '
            f"which tells the formulations ({driver.file})"
        )
        raise InputError("driver", driver.name, limit)
    globals()["__path__"] = package_path("drivers")
    try:
        module = importlib.import_module(driver.module)
    except ImportError:
        raise  # most often the solver that is not installed
    except (Exception, SystemExit) as error:
        raise InputError("driver", driver.name, f"cannot be imported: {told(error)}") from error
    contracts.check("driver", driver.name, module, contracts.SolverDriver)
    return module


def installed(family: Driver) -> list[str]:
    """Return the solvers that a driver for many finds here, as users write them.

    Raises
    ------
    SolverMissingError
        If what it goes through is missing itself.
    """
    try:
        if family.check is not None:
            importlib.import_module(family.check).check(gecode=False)
        with warnings.catch_warnings(), nothing_printed():
            warnings.simplefilter("ignore")
            return [f"{family.name}:{name}" for name in importlib.import_module(family.module).names()]
    except ImportError as error:
        raise SolverMissingError(str(error)) from error


def available(name: str) -> bool:
    """Tell whether a solver is installed and answers."""
    try:
        load(name)
    except SolverMissingError:
        return False
    return True


def versions(name: str) -> dict[str, str]:
    """Return the versions of an installed solver and of the packages it is reached through."""
    found = load(name)
    with nothing_printed():
        return dict(found.versions())
