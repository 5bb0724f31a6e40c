"""What a formulation, an exact search and a solver driver must have; checked when one is loaded.

These are protocols of modules: what they call methods are functions of a file. A signature here tells what
a function is called with; it may take more, as long as that has defaults.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from tilewright.core.context import Outcome, RunContext
from tilewright.spec.errors import InputError

PYOMO, MINIZINC, CPSAT = ".py", ".mzn", "cpsat"
"""What formulations are written for, and what drivers say that they take."""


class PyomoFormulation(Protocol):
    """A file ``models/<room>/<name>.py`` that builds a Pyomo model; it may also have ``suits(problem)``.

    The model may say what its objective counts:

    - ``model.offset``, ``model.unit``: a plan costs ``offset + unit * objective``, whole numbers, 0 and 1
      where the model does not say. The objective of a plan must be a whole number of units.
    - ``model.largest``: about the largest amount, in units, that is added up, from which a solver's
      tolerances are taken; that of the objective where the model does not say.
    - ``model.bounds_only``: true where a solution's plan may cost more than its objective, or break a limit,
      as where addresses are sought afterwards. The objective then bounds what plans cost.
    """

    def build(self, problem: Any) -> Any:
        """Return a ``ConcreteModel`` with one objective, which is minimised.

        It takes ``extras=False``, too, where there is something to leave out: symmetry breaking and
        redundant constraints.
        """

    def start(self, model: Any, plan: Any) -> None:
        """Set every variable to its value in a plan."""

    def read(self, model: Any) -> Any:
        """Return the plan that the values of the variables are."""


class CpSatFormulation(Protocol):
    """A file ``models/<room>/<name>.py`` with a line ``WRITTEN_FOR = "cpsat"`` that builds a model of CP-SAT.

    It may also have ``suits(problem)``. The model is a ``CpModel`` with an objective of whole numbers, which
    is minimised. It may have ``model.offset``, ``model.unit`` and ``model.bounds_only``, as those of
    `PyomoFormulation`, and ``model.parameters``, a dictionary of CP-SAT's parameters that suit it. What else
    ``start`` and ``read`` need may be attributes of it, too.
    """

    def build(self, problem: Any) -> Any:
        """Return a ``CpModel``.

        It takes ``extras=False``, too, where there is something to leave out: symmetry breaking and
        redundant constraints.
        """

    def start(self, model: Any, plan: Any) -> None:
        """Hint the decisions of a plan by ``model.add_hint``; the driver derives all other variables."""

    def read(self, model: Any, value: Any) -> Any:
        """Return the plan of a solution, in which a variable has the value ``value(variable)``."""


BY_FORM: dict[str, type] = {PYOMO: PyomoFormulation, CPSAT: CpSatFormulation}
"""The contract of a Python formulation, by what it is written for."""


class SizedFormulation(Protocol):
    """What a formulation should have beside its contract, so that nothing too large is built."""

    def size(self, problem: Any) -> int:
        """Return about how many constraints `build` gives."""


class ExactSearch(Protocol):
    """A file ``models/<room>/<name>.py`` that solves a problem by itself."""

    def solve(self, problem: Any, search: RunContext) -> Outcome:
        """Report better plans and bounds to the context, keep its deadline, and return what is proven."""


class SolverDriver(Protocol):
    """A solver: a driver's file, or what the function ``solver(name)`` of one for many solvers returns.

    A file says which formulations it takes by a line ``TAKES = ".py"`` (Pyomo), ``TAKES = ".mzn"``
    (MiniZinc) or ``TAKES = "cpsat"`` (models of CP-SAT), how to get the solver by ``INSTALL = "..."``, and by
    ``SPAWNS = True`` that the solver runs in processes of its own. These lines are read without running the
    file, so they are literals.
    """

    def versions(self) -> dict[str, str]:
        """Return the versions that an answer depends on.

        Raises ImportError or `SolverMissingError` where something is missing.
        """

    def solve(self, problem: Any, formulation: Any, search: RunContext, *, extras: bool = True) -> Outcome:
        """Solve a problem with a formulation: a module, or the path of a ``.mzn`` file.

        Each better plan is reported to the context as soon as it is known, and each better proven bound.
        """


def check(kind: str, name: str, module: Any, contract: type, *, optional: bool = False) -> None:
    """Refuse a module that lacks a function of a contract, or whose function takes other arguments.

    Parameters
    ----------
    kind, name
        What it is called in messages.
    optional
        Whether a function may be missing.

    Raises
    ------
    InputError
        With the file, and the line of the function.
    """
    for function, wanted in vars(contract).items():
        if function.startswith("_") or not inspect.isfunction(wanted):
            continue
        asked = list(inspect.signature(wanted).parameters.values())[1:]
        shown = f"`{function}({', '.join(parameter.name for parameter in asked)})`"
        found = getattr(module, function, None)
        if found is None and optional:
            continue
        if not callable(found):
            raise InputError(kind, name, f"has no function {shown} ({place(module)})")
        try:
            signature = inspect.signature(found)
        except (TypeError, ValueError):
            continue  # of compiled code, which does not tell
        named = {parameter.name: None for parameter in asked if parameter.kind is parameter.KEYWORD_ONLY}
        try:
            signature.bind(*[None] * (len(asked) - len(named)), **named)
        except TypeError:
            raise InputError(
                kind, name, f"must have {shown}, not `{function}{signature}` ({place(found)})"
            ) from None


def place(what: Any) -> str:
    """Return the file in which a module or function is, and the line of a function."""
    if isinstance(what, ModuleType):
        return str(what.__file__)
    code = getattr(inspect.unwrap(what), "__code__", None) if callable(what) else None
    if code is not None:
        return f"{code.co_filename}, line {code.co_firstlineno}"
    file = inspect.getsourcefile(type(what))
    return str(Path(file)) if file else repr(what)
