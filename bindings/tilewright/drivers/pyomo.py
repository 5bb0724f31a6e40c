"""Any solver that Pyomo knows, for ``.py`` formulations.

A solver that Pyomo reaches through files tells its best solution and bound when it ends, not before.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from math import isfinite
from typing import TYPE_CHECKING, Any

import pyomo
import pyomo.environ as pyo
from pyomo.opt import SolverStatus, TerminationCondition

from tilewright.core.context import Outcome, RunContext
from tilewright.core.silence import nothing_printed
from tilewright.drivers._pyomo import Built
from tilewright.drivers._run import Run
from tilewright.spec.errors import OutOfTimeError, SolverBrokenError, SolverMissingError

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMON = (
    "appsi_highs", "cbc", "cplex", "cplex_direct", "glpk", "gurobi", "gurobi_direct", "highs", "mosek_direct",
    "scip", "scip_direct", "xpress_direct",
)  # fmt: skip
"""Solvers of mixed-integer programs that are looked for; others can be named."""

LISTED = "`tilewright list solvers` has those that are found here"
"""Where to look: to look for them all takes seconds."""

REFUSED = ("neos", "py", "asl", "gams")
"""Names in Pyomo that are no solver, or send the problem to somebody else's machine."""

OPTIONS: dict[str, dict[str, Any]] = {
    "cbc": {"threads": "threads", "seed": "randomCbcSeed", "exact": {}},
    "glpk": {"seed": "seed", "exact": {}},
    "scip": {"seed": "randomization/randomseedshift", "exact": {"limits/gap": 0.0}},
    "gurobi": {"threads": "Threads", "seed": "Seed", "exact": {"MIPGap": 0.0}},
    "cplex": {"threads": "threads", "seed": "randomseed", "exact": {"mip_tolerances_mipgap": 0.0}},
    "xpress": {"threads": "threads", "seed": "randomseed", "exact": {"miprelstop": 0.0}},
    "highs": {"threads": "threads", "seed": "random_seed", "exact": {"mip_rel_gap": 0.0}},
}
"""What solvers call what they are told, by a part of their names; `exact` asks for optima without a gap."""

MARGIN_SHARE, MARGIN_SECONDS = 0.05, 0.5
"""Share of the time, and seconds at least, that are left for reading what the solver has written."""


def solver(name: str) -> ThroughPyomo:
    """Return the driver of a solver by the name that Pyomo has for it."""
    return ThroughPyomo(name)


def names() -> list[str]:
    """Return those common solvers that are installed."""
    return [name for name in COMMON if _is_there(name)]


def _is_there(name: str) -> bool:
    """Whether a solver that Pyomo knows is installed, and has a licence."""
    with _silent():
        try:
            return bool(pyo.SolverFactory(name).available(exception_flag=False))
        except Exception:  # as where a library is there and its licence is not
            return False


@contextmanager
def _silent() -> Iterator[None]:
    """Let neither Pyomo nor a solver say what is told otherwise, or is no matter."""
    log = logging.getLogger("pyomo")
    before, log.disabled = log.disabled, True
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with nothing_printed():
            yield
    finally:
        logging.disable(level)
        log.disabled = before


class ThroughPyomo:
    """A solver that Pyomo knows.

    Parameters
    ----------
    name
        As Pyomo has it, for example ``cbc``, ``glpk`` or ``appsi_highs``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        engine = next((engine for engine in OPTIONS if engine in name), None)
        self.options = OPTIONS.get(engine, {}) if engine is not None else {}

    def versions(self) -> dict[str, str]:
        """Return the versions of the solver and of Pyomo.

        Raises
        ------
        SolverMissingError
            If Pyomo does not know the solver, or does not find it.
        """
        known = self.name in list(pyo.SolverFactory) and not self.name.startswith("_")
        if not known or self.name in REFUSED:
            raise SolverMissingError(f"Pyomo knows no solver {self.name} for this; {LISTED}")
        if not _is_there(self.name):
            raise SolverMissingError(f"Pyomo does not find {self.name}; {LISTED}")
        with _silent():
            version = pyo.SolverFactory(self.name).version()
        said = ".".join(map(str, version)) if isinstance(version, tuple) else "of unknown version"
        return {self.name: said, "pyomo": pyomo.version.version}

    def solve(self, problem: Any, formulation: Any, search: RunContext, *, extras: bool = True) -> Outcome:
        """Solve a problem with a Pyomo formulation.

        Parameters
        ----------
        problem
            Of any room.
        formulation
            Module of a Pyomo formulation, as `core.contracts` says.
        search
            Start, seed, deadline, threads; told about the best plan and bound.
        extras
            Whether to keep symmetry breaking and redundant constraints.
        """
        versions = self.versions()
        run = Run(problem, search)
        search.on_phase("building")
        try:
            built = Built(run, formulation, f"pyomo:{self.name}", extras=extras)
        except OutOfTimeError:
            return run.outcome(versions=versions)
        seconds = search.remaining()
        seconds -= max(MARGIN_SECONDS, MARGIN_SHARE * seconds)
        if seconds <= 0:
            return run.outcome(versions=versions)
        with _silent():
            program = pyo.SolverFactory(self.name)
            how: dict[str, Any] = {"load_solutions": False, "options": self._told(search)}
            if seconds != float("inf"):
                how["timelimit"] = seconds if self.name != "glpk" else max(1, int(seconds))
            warm = search.start is not None and _takes_start(program)
            if warm:
                how["warmstart"] = True
            search.on_phase("solving")
            answer = program.solve(built.model, **how)
            infeasible = self._read(built, answer)
        told = f"given to {self.name}, which does not say whether it uses it" if warm else None
        return run.outcome(infeasible=infeasible, warm_start=told, versions=versions)

    def look_at(self, problem: Any, formulation: Any, search: RunContext) -> None:
        """Refuse what `solve` would refuse, without solving it."""
        Built.look_at(problem, formulation, search, f"pyomo:{self.name}")

    def _told(self, search: RunContext) -> dict[str, Any]:
        """Return the solver's options."""
        told = dict(self.options.get("exact", {}))
        if "threads" in self.options and search.threads > 1:
            told[self.options["threads"]] = search.threads
        if "seed" in self.options and search.seed:
            told[self.options["seed"]] = search.seed % (2**31 - 1)
        return told

    def _read(self, built: Built, answer: Any) -> bool:
        """Take the solution and the bound of an answer; return whether it says that there is no solution."""
        ended = answer.solver.termination_condition
        if ended == TerminationCondition.infeasible:
            return True
        if answer.solver.status in (SolverStatus.error, SolverStatus.unknown) and not len(answer.solution):
            message = str(answer.solver.message or "").strip().split("\n")[0]
            raise SolverBrokenError(f"{self.name} ended with {ended}: {message}")
        objective = None
        if len(answer.solution):
            objective = _loaded(built, answer)
            built.take(objective)
        lower = answer.problem.lower_bound
        if (
            isinstance(lower, int | float)
            and isfinite(lower)
            and (objective is None or lower <= objective + 1)
        ):
            built.bounded(float(lower))
        elif ended == TerminationCondition.optimal and objective is not None and "exact" in self.options:
            built.bounded(objective)
        return False


def _takes_start(program: Any) -> bool:
    """Whether Pyomo can hand a start to a solver."""
    capable = getattr(program, "warm_start_capable", None)
    return bool(capable() if callable(capable) else capable)


def _loaded(built: Built, answer: Any) -> float:
    """Give the variables the values of a solution; return its objective."""
    built.model.solutions.load_from(answer)
    for variable in built.model.component_data_objects(pyo.Var):
        if variable.value is None:  # it is in no constraint, so the solver has not seen it
            variable.set_value(variable.lb or 0, skip_validation=True)
    return float(pyo.value(built.objective))
