"""Solver drivers: one file and one line of `DRIVERS` per solver; nothing is imported before it is used."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass
from typing import Any

from tilewright.core.silence import nothing_printed
from tilewright.spec.errors import SolverMissingError, UnknownNameError


@dataclass(frozen=True)
class Driver:
    """An entry of the list of solvers.

    Attributes
    ----------
    name
        What users write after the ``@`` of a method.
    module
        Where ``solve(problem, formulation, search, ...)`` and ``versions()`` are.
    suffix
        Which formulations it takes: ``.py`` for Pyomo, ``.mzn`` for MiniZinc.
    install
        How to get the solver.
    spawns
        Whether it runs in processes of its own, which are killed with the worker that has started them.
    check
        A module whose ``check()`` says what is wrong with the solver before the driver is imported.
    """

    name: str
    module: str
    suffix: str
    install: str
    spawns: bool = False
    check: str | None = None


DRIVERS = [
    Driver("highs", "tilewright.drivers.highs", ".py", "pip install 'highspy>=1.16' pyomo"),
    Driver(
        "gecode",
        "tilewright.drivers.gecode",
        ".mzn",
        "apt-get install minizinc (Debian, Ubuntu), brew install minizinc (macOS), "
        "or the bundle from minizinc.org; then pip install minizinc",
        spawns=True,
        check="tilewright.drivers._minizinc",
    ),
]


def find(name: str) -> Driver:
    """Return the entry of a solver's name."""
    for driver in DRIVERS:
        if driver.name == name:
            return driver
    raise UnknownNameError("solver", name, [driver.name for driver in DRIVERS])


def load(name: str) -> Any:
    """Import a solver's driver module.

    Raises
    ------
    SolverMissingError
        If the solver is not installed or does not work; says what is wrong, and how to install it.
    """
    driver = find(name)
    try:
        if driver.check is not None:
            importlib.import_module(driver.check).check()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a missing solver is reported once, by us
            module = importlib.import_module(driver.module)
            with nothing_printed():
                module.versions()
    except (ImportError, SolverMissingError) as error:
        kind = type(error) if isinstance(error, SolverMissingError) else SolverMissingError
        raise kind(f"{name} cannot be used ({error}); to get it: {driver.install}") from error
    return module


def available(name: str) -> bool:
    """Tell whether a solver is installed and answers."""
    try:
        load(name)
    except SolverMissingError:
        return False
    return True


def versions(name: str) -> dict[str, str]:
    """Return the versions of an installed solver and of the packages it is reached through."""
    module = load(name)
    with nothing_printed():
        return dict(module.versions())
