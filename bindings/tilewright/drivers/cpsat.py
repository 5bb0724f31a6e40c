"""CP-SAT of OR-Tools, in this process, for formulations that build its models."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import ortools
from ortools.sat.python import cp_model

from tilewright.core.context import Outcome, RunContext
from tilewright.core.stated import must_hold
from tilewright.drivers._built import BuiltModel
from tilewright.drivers._run import Run
from tilewright.drivers._stated import Whole
from tilewright.spec.errors import OutOfTimeError, TilewrightError

START_SHARE = 0.3
"""Most of the time in which a start is made complete, which takes as long as presolving the model."""

ARRIVED = "The solution hint is complete and is feasible"
"""What CP-SAT writes into its log when it has taken a start."""

LARGEST_SEED = 2**31 - 1


def versions() -> dict[str, str]:
    """Return the version of OR-Tools."""
    return {"ortools": ortools.__version__}


def solve(
    problem: Any,
    formulation: Any,
    search: RunContext,
    *,
    extras: bool = True,
    options: dict[str, Any] | None = None,
    log: Callable[[str], None] | None = None,
) -> Outcome:
    """Solve a problem with a formulation for CP-SAT.

    Parameters
    ----------
    problem
        Of any room.
    formulation
        Module of a formulation, as `core.contracts.CpSatFormulation` says.
    search
        Start, seed, deadline, threads; told about every better plan and bound.
    extras
        Whether to keep symmetry breaking and redundant constraints.
    options
        More parameters of CP-SAT.
    log
        Receives the lines of CP-SAT's log.
    """
    run = Run(problem, search)
    search.on_phase("building")
    try:
        built = Built(run, formulation, "cpsat", extras=extras)
    except OutOfTimeError:
        return run.outcome(versions=versions())
    return _Solve(built, options or {}, log).run_to_the_end()


def look_at(problem: Any, formulation: Any, search: RunContext) -> None:
    """Refuse what `solve` would refuse, without solving it."""
    Built.look_at(problem, formulation, search, "cpsat")


class Built(BuiltModel):
    """A formulation's model of a problem, and what its objective counts, as `CpSatFormulation` says."""

    def _wrong(self) -> str | None:
        if not isinstance(self.model, cp_model.CpModel):
            return f"no CpModel but {type(self.model).__name__}"
        invalid = self.model.validate().strip()
        if invalid:
            return f"a model that CP-SAT does not take: {invalid.splitlines()[0]}"
        proto = self.model.proto
        if proto.has_floating_point_objective():
            return "a model whose objective is no sum of whole numbers"
        if not proto.has_objective() or proto.objective.scaling_factor < 0:
            return "a model without an objective to be minimised"
        return None

    def _state(self) -> None:
        stated = Whole(self.model, self._term)
        for part in must_hold(self.run.problem):
            stated.add(part)

    def _start(self) -> None:
        # A start that breaks a limit is no solution, and as a hint would lead astray.
        if self.run.start_valid:
            self.formulation.start(self.model, self.run.search.start)

    def cost(self, objective: float) -> int:
        """Return the cost of a number of units; CP-SAT's numbers are whole."""
        return int(self.offset + self.unit * round(objective))

    def take(self, objective: float, value: Callable[[Any], int]) -> None:
        """Turn a solution into a plan, which may cost less than the objective says."""
        self.found(self.cost(objective), value)

    def bounded(self, bound: float) -> None:
        """Take a bound on the objective."""
        if 0 <= bound < float("inf"):
            self.run.proved(self.cost(bound))


class _Solutions(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
    """Hands each better solution on."""

    def __init__(self, solve: _Solve) -> None:
        super().__init__()
        self.solve = solve

    def on_solution_callback(self) -> None:
        """Take the solution that has just been found."""
        self.solve.guard(self.solve.built.take, self.objective_value, self.value)
        if self.solve.ended:
            self.stop_search()


class _Solve:
    """CP-SAT on one model, and what its callbacks report.

    Parameters
    ----------
    built
        The model, and who takes its plans and bounds.
    options
        Parameters of CP-SAT, on top of ours.
    log
        Receives the lines of its log.
    """

    def __init__(self, built: Built, options: dict[str, Any], log: Callable[[str], None] | None) -> None:
        self.built, self.run, self.log = built, built.run, log
        self.options = options
        self.warm_start: str | None = None
        self.error: BaseException | None = None
        self.solver = self._solver()
        self._lock = threading.Lock()

    def _solver(self, seconds: float | None = None, **more: Any) -> Any:
        """Return a solver that is set up for at most so many seconds."""
        search = self.run.search
        solver = cp_model.CpSolver()
        seconds = search.remaining() if seconds is None else seconds
        settings: dict[str, Any] = {
            "num_workers": search.threads,
            "random_seed": search.seed % LARGEST_SEED,
            "catch_sigint_signal": False,  # Ctrl-C is for whoever waits for this process
            "relative_gap_limit": 0.0,
            "absolute_gap_limit": 0.0,
            "log_to_stdout": False,
            **getattr(self.built.model, "parameters", {}),
            **self.options,
            **more,
        }
        if seconds != float("inf"):
            settings["max_time_in_seconds"] = seconds
        for name, value in settings.items():
            try:
                setattr(solver.parameters, name, value)
            except (AttributeError, TypeError, ValueError):
                raise TilewrightError(f"CP-SAT refuses the parameter {name} = {value!r}") from None
        return solver

    def run_to_the_end(self) -> Outcome:
        """Run CP-SAT and report."""
        self.run.search.on_phase("solving")
        if self.run.start_valid:
            self._complete_start()
        if self.run.over:
            return self._outcome(infeasible=False)
        solver = self.solver = self._solver(log_search_progress=True)
        solver.log_callback = lambda line: self.guard(self._log, line)
        solver.best_bound_callback = lambda bound: self.guard(self._bounded, bound)
        status = solver.solve(self.built.model, _Solutions(self))
        if self.error is not None:
            raise self.error
        if status == cp_model.MODEL_INVALID:
            raise TilewrightError(
                f"CP-SAT refuses the model {self.built.name}: {self.built.model.validate()}"
            )
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            self.built.take(solver.objective_value, solver.value)
        if status != cp_model.INFEASIBLE:
            self.built.bounded(solver.best_objective_bound)
        return self._outcome(infeasible=status == cp_model.INFEASIBLE)

    def _outcome(self, *, infeasible: bool) -> Outcome:
        return self.run.outcome(infeasible=infeasible, warm_start=self.warm_start, versions=versions())

    def guard(self, callback: Callable[..., None], *arguments: Any) -> None:
        """Call back; an exception must not pass through CP-SAT, so it is kept and CP-SAT is stopped."""
        with self._lock:  # CP-SAT's threads call when they like
            try:
                callback(*arguments)
            except BaseException as error:
                self.error = self.error or error
        if self.ended:
            self.solver.stop_search()

    @property
    def ended(self) -> bool:
        """Whether there is nothing to search for any more."""
        return self.error is not None or self.run.over

    def _log(self, line: str) -> None:
        if ARRIVED in line:
            self.warm_start = line.strip()
        if self.log is not None:
            self.log(line.rstrip("\n"))

    def _bounded(self, bound: float) -> None:
        self.built.bounded(bound)

    # The start ----------------------------------------------------------------------------------------

    def _complete_start(self) -> None:
        """Give every variable a value: CP-SAT begins with a start only if it is a complete solution.

        Raises
        ------
        Disagreement
            If the model has no solution with the decisions of a start that is valid.
        """
        model = self.built.model
        if not len(model.proto.solution_hint.vars):
            return  # the formulation has nothing that stands for this start
        seconds = self.run.search.remaining()
        solver = self._solver(
            seconds if seconds == float("inf") else START_SHARE * seconds,
            fix_variables_to_their_hinted_value=True,
        )
        status = solver.solve(model)
        if status == cp_model.INFEASIBLE:
            self.warm_start = self.run.excluded(self.built.name, self._broken())
            model.clear_hints()
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return
        self.built.take(solver.objective_value, solver.value)
        model.clear_hints()
        for number, value in enumerate(solver.response_proto.solution):
            hint = model.proto.solution_hint
            hint.vars.append(number)
            hint.values.append(value)

    def _broken(self) -> str:
        """Name a constraint without which the start would be a solution, by halving: O(log n) models."""
        model = self.built.model
        constraints = list(model.proto.constraints)

        def excluded(many: int) -> bool:
            """Whether the first so many constraints exclude the start."""
            part = model.clone()
            part.proto.constraints.clear()
            part.proto.constraints.extend(constraints[:many])
            part.clear_objective()
            solver = self._solver(fix_variables_to_their_hinted_value=True)
            return bool(solver.solve(part) == cp_model.INFEASIBLE)

        if excluded(0):
            return "a value of it is none of its variable"
        low, high = 0, len(constraints)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if excluded(middle) else (middle, high)
        name = constraints[high - 1].name
        return f"it breaks constraint {name or f'{high} of {len(constraints)}'}"
