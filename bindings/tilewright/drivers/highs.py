"""HiGHS, in this process, for Pyomo formulations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import highspy
import numpy as np
import pyomo
from numpy.typing import NDArray
from pyomo.contrib.appsi.solvers import Highs

from tilewright.core.context import Outcome, RunContext
from tilewright.drivers._pyomo import TOLERANCE, Built
from tilewright.drivers._run import Run, interrupted_at_deadline
from tilewright.spec.errors import (
    Disagreement,
    OutOfTimeError,
    SolverMissingError,
    TilewrightError,
)

LARGEST = 10**6
"""Largest amount, in units, whose last unit HiGHS's tolerances leave certain."""

STARTED = "MIP start solution is feasible"
"""What HiGHS writes into its log when it has taken a start."""


SOUND = (1, 15)
"""The first version without a known wrong answer: presolve of 1.14 loses optima."""


def versions() -> dict[str, str]:
    """Return the versions of HiGHS and of Pyomo, through which it is reached.

    Raises
    ------
    SolverMissingError
        If this HiGHS is known to call wrong answers optimal.
    """
    version = highspy.Highs().version()
    if tuple(int(part) for part in version.split(".")[:2]) < SOUND:
        raise SolverMissingError(f"HiGHS {version} calls wrong answers optimal")
    return {"highs": version, "pyomo": pyomo.version.version}


def solve(
    problem: Any,
    formulation: Any,
    search: RunContext,
    *,
    extras: bool = True,
    options: dict[str, Any] | None = None,
    log: Callable[[str], None] | None = None,
) -> Outcome:
    """Solve a problem with a Pyomo formulation.

    Parameters
    ----------
    problem
        Of any room; ``tilewright.<room>.plan.objective`` recomputes what HiGHS says.
    formulation
        Module of a Pyomo formulation, as `core.contracts` says.
    search
        Start, seed, deadline, threads; told about every better plan and bound.
    extras
        Whether to keep symmetry breaking and redundant constraints.
    options
        More options of HiGHS.
    log
        Receives the lines of HiGHS's log.
    """
    run = Run(problem, search)
    search.on_phase("building")
    try:
        built = Built(run, formulation, "highs", extras=extras)
        with interrupted_at_deadline(search):
            solver = Highs()
            solver.set_instance(built.model)
    except OutOfTimeError:
        return run.outcome(versions=versions())
    return _Solve(built, solver).run_to_the_end(options or {}, log)


def look_at(problem: Any, formulation: Any, search: RunContext) -> None:
    """Refuse what `solve` would refuse, without solving it."""
    Built.look_at(problem, formulation, search, "highs")


class _Solve:
    """One call of HiGHS; its callbacks run while it does."""

    def __init__(self, built: Built, solver: Any) -> None:
        self.run, self.built = built.run, built
        self.highs = solver._solver_model
        self.variables: list[Any] = [None] * len(solver._pyomo_var_to_solver_var_map)
        for identity, column in solver._pyomo_var_to_solver_var_map.items():
            self.variables[column] = solver._vars[identity][0]
        self.rows = solver._solver_con_to_pyomo_con_map
        lp = self.highs.getLp()
        self.costs, self.constant = np.array(lp.col_cost_), float(lp.offset_)
        self.warm_start: str | None = None
        self.error: BaseException | None = None

    def run_to_the_end(self, options: dict[str, Any], log: Callable[[str], None] | None) -> Outcome:
        """Set HiGHS up, run it and report."""
        search, highs = self.run.search, self.highs
        highspy.Highs.resetGlobalScheduler(True)  # or a second run with other threads fails
        settings = {
            "log_to_console": False,
            "threads": search.threads,
            "random_seed": search.seed % (2**31 - 1),
            "mip_rel_gap": 0.0,
            # The objective counts units, so a gap below one proves optimality.
            "mip_abs_gap": 1 - 1e-3,
            **options,
        }
        if search.deadline != float("inf"):
            settings["time_limit"] = search.remaining()
        for option, value in settings.items():
            if highs.setOptionValue(option, value) == highspy.HighsStatus.kError:
                raise TilewrightError(f"HiGHS refuses the option {option} = {value!r}")
        if search.start is not None:
            self._give_start()
        highs.cbLogging += lambda event: self._guard(self._log, event.message, log)
        highs.cbMipImprovingSolution += lambda event: self._guard(self._improved, event.data_out)
        highs.cbMipLogging += lambda event: self._guard(self._bounded, event.data_out.mip_dual_bound)
        for interrupt in (highs.cbMipInterrupt, highs.cbSimplexInterrupt):
            interrupt.subscribe(lambda event: event.interrupt() if self.error or self.run.over else None)
        search.on_phase("solving")
        highs.run()
        if self.error is None and self._contradicts_itself():
            highs.clearSolver()  # and the start with it
            self.warm_start = None
            highs.run()
        if self.error is None and highs.getModelStatus() == highspy.HighsModelStatus.kSolveError:
            # Presolve of HiGHS 1.16 was seen to lead to solutions that break what it has taken out.
            highs.clearSolver()
            self.warm_start = None
            highs.setOptionValue("presolve", "off")
            highs.run()
        if self.error is not None:
            raise self.error
        return self._outcome()

    def _contradicts_itself(self) -> bool:
        """Whether an optimum is not what the solution costs, as HiGHS 1.16 was seen to say after a start."""
        if self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return False
        said = float(self.highs.getInfo().objective_function_value)
        cost = float(self.costs @ np.asarray(self.highs.getSolution().col_value)) + self.constant
        return bool(abs(said - cost) > TOLERANCE * max(1.0, self.built.largest, abs(cost)))

    def _give_start(self) -> None:
        """Hand over the values that `formulation.start` gave the variables."""
        unset = [variable.name for variable in self.variables if variable.value is None]
        if unset:
            raise TilewrightError(f"the start leaves {len(unset)} variables unset, {unset[0]} the first")
        start = highspy.HighsSolution()
        start.col_value = values = np.array([float(variable.value) for variable in self.variables])
        broken = self._broken(values) if self.run.start_valid else None
        if broken is not None:
            self.warm_start = self.run.excluded(self.built.name, broken)
            return
        self.highs.setSolution(start)

    def _broken(self, values: NDArray[np.float64]) -> str | None:
        """Name a bound or a constraint that these values of the variables break, if there is one."""
        lp = self.highs.getLp()
        whole = np.array([kind == highspy.HighsVarType.kInteger for kind in lp.integrality_] or False)
        below, above = np.array(lp.col_lower_) - values, values - np.array(lp.col_upper_)
        off = np.maximum(np.maximum(below, above), np.where(whole, abs(values - values.round()), 0.0))
        if off.max(initial=0.0) > TOLERANCE:
            worst = int(off.argmax())
            return f"{self.variables[worst].name} = {values[worst]:g} is no value of that variable"
        matrix = lp.a_matrix_
        rows, columns = np.array(matrix.index_, np.intp), np.array(matrix.start_)
        columns = np.repeat(np.arange(len(columns) - 1), np.diff(columns))
        if matrix.format_ != highspy.MatrixFormat.kColwise:
            rows, columns = columns, rows
        terms = np.array(matrix.value_) * values[columns]
        sums = np.bincount(rows, terms, lp.num_row_)
        scale = np.maximum(1.0, np.bincount(rows, abs(terms), lp.num_row_))
        off = np.maximum(np.array(lp.row_lower_) - sums, sums - np.array(lp.row_upper_)) / scale
        if off.max(initial=0.0) <= TOLERANCE:
            return None
        return f"it breaks constraint {self.rows[int(off.argmax())].name}"

    def _guard(self, callback: Callable[..., None], *arguments: Any) -> None:
        """Call back; an exception must not pass through HiGHS, so it is kept and HiGHS is stopped."""
        try:
            callback(*arguments)
        except BaseException as error:
            self.error = self.error or error

    def _log(self, message: str, log: Callable[[str], None] | None) -> None:
        if STARTED in message:
            self.warm_start = message.strip()
        if log is not None:
            log(message.rstrip("\n"))

    def _improved(self, data: Any) -> None:
        # HiGHS 1.16 was seen to tell another objective here than that of the solution which it gives.
        values = np.asarray(data.mip_solution)
        self._take(values, float(self.costs @ values) + self.constant)

    def _take(self, values: Any, objective: float) -> None:
        """Turn the columns of a solution into a plan."""
        for variable, value in zip(self.variables, values.tolist(), strict=True):
            variable.set_value(value, skip_validation=True)
        self.built.take(objective)

    def _bounded(self, dual_bound: float) -> None:
        """Take a bound, in units."""
        self.built.bounded(dual_bound)  # before the first relaxation it is infinite, and says nothing

    def _outcome(self) -> Outcome:
        status, info = self.highs.getModelStatus(), self.highs.getInfo()
        optimal = status == highspy.HighsModelStatus.kOptimal
        if optimal:
            self._take(np.asarray(self.highs.getSolution().col_value), info.objective_function_value)
        if info.mip_node_count >= 0:
            self._bounded(info.mip_dual_bound)
        elif optimal:  # solved as an LP, without a MIP bound
            self._bounded(info.objective_function_value)
        if optimal and max(self.built.largest, abs(info.objective_function_value)) < LARGEST:
            # Less than a unit is left between HiGHS's bound and objective. The plan costs a whole number of
            # units, no more than the objective; were it below the bound, the outcome would be refused.
            if self.built.bounds_only:
                self.run.proved(self.built.rounded_up(info.objective_function_value))
            else:
                assert self.run.value is not None
                self.run.proved(self.run.value)
        infeasible = status in (
            highspy.HighsModelStatus.kInfeasible,
            highspy.HighsModelStatus.kUnboundedOrInfeasible,
        )
        if infeasible and self.run.plan is not None:
            raise Disagreement("HiGHS calls a problem infeasible to which it has given a plan")
        return self.run.outcome(infeasible=infeasible, warm_start=self.warm_start, versions=versions())
