"""Any solver that MiniZinc knows, for ``.mzn`` formulations.

Gecode is driven in stages, each a process of its own: the start is checked and becomes the incumbent; a
short complete search ends what is easy; large-neighbourhood search improves the incumbent for a part of
the time; a complete search for anything better ends with the proof. With two threads or more
large-neighbourhood and complete search run side by side. Any other solver searches once, for what is better
than the start, with as many threads as it takes.

A formulation takes its room's data and what ``models/search.mzn`` declares; it minimises the variable
``objective``.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import minizinc
from minizinc.error import Location

from tilewright.core import catalogue
from tilewright.core.context import Outcome, RunContext
from tilewright.core.cutoffs import foreign
from tilewright.core.room import bridge_of, room_of
from tilewright.core.stated import must_hold
from tilewright.drivers import _minizinc
from tilewright.drivers._constraints import (
    SEARCH,
    begins_with_start,
    constraints,
    copy_models,
    files,
    first_constraints,
)
from tilewright.drivers._run import Run, interrupted_at_deadline
from tilewright.drivers._stated import in_minizinc
from tilewright.spec.constraints import Term
from tilewright.spec.errors import Disagreement, OutOfTimeError, SolverBrokenError, SolverMissingError

NOTHING_BELOW = 2**31 - 2
"""Value of ``below`` that excludes nothing."""

START_SHARE = 0.4
"""Share of the time in which the start must be confirmed, with all flattening."""

EASY_SHARE, EASY_SECONDS = 0.1, 3.0
"""Share of the time, and most seconds, of the first complete search."""

IMPROVING_SHARE, IMPROVING_SECONDS = 0.3, 60.0
"""Share of the time, and most seconds, that large-neighbourhood search gets of a single thread."""

SUSPECT_SECONDS = 10.0
"""Most seconds in which the constraint is looked for that excludes a valid start."""

SYMMETRIES_KEPT = "mzn_ignore_symmetry_breaking_constraints=true"
EXTRAS_OFF = ("mzn_ignore_redundant_constraints=true", SYMMETRIES_KEPT)
"""What MiniZinc is told so that it leaves out symmetry breaking, and redundant constraints, too."""

EXPECTED_WARNINGS = r"(?s).*(overrides a global constraint file|model inconsistency detected)"
"""Of MiniZinc: one on every run with Gecode, one where nothing is better than the incumbent."""


def solver(name: str) -> ThroughMiniZinc:
    """Return the driver of a solver by the name that MiniZinc has for it: an id, the end of one, or a tag."""
    return ThroughMiniZinc(name)


def names() -> list[str]:
    """Return the solvers that MiniZinc knows and can start, by the ends of their ids."""
    if minizinc.default_driver is None:
        return []
    found = {one.id: one for each in minizinc.default_driver.available_solvers().values() for one in each}
    return sorted(one.id.split(".")[-1] for one in found.values() if _unusable(one) is None)


def _unusable(configuration: minizinc.Solver) -> str | None:
    """Say why a solver that MiniZinc knows cannot be used, or None."""
    if configuration.isGUIApplication or configuration.id == "org.gecode.gist":
        return "is a program with windows"
    if configuration.requiredFlags and not _answers(configuration.id):
        asked = " and ".join(configuration.requiredFlags)
        return f"needs {asked} among the solverDefaults of MiniZinc's Preferences.json, or a licence"
    if not {"-a", "-i"} & {*configuration.stdFlags}:
        return "cannot tell solutions as it finds them"
    return None


def executable() -> str:
    """Return the path of the MiniZinc that is used."""
    return str(minizinc.default_driver._executable)


@lru_cache(maxsize=32)
def _answers(identity: str) -> bool:
    """Whether a solver whose library MiniZinc has to find solves something small."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.mzn"
        model.write_text("var 1..2: x; solve minimize x;\n", "utf-8")
        try:
            done = subprocess.run(
                [executable(), "--solver", identity, model],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_minizinc.SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
    return b"==========" in done.stdout


class ThroughMiniZinc:
    """A solver that MiniZinc knows.

    Parameters
    ----------
    name
        As MiniZinc has it, for example ``chuffed``, ``cp-sat`` or ``org.gecode.gecode``.
    method
        What users call it.
    tuned
        Whether it is driven as Gecode is, in stages.
    """

    def __init__(self, name: str, method: str | None = None, *, tuned: bool = False) -> None:
        self.name, self.method, self.tuned = name, method or f"minizinc:{name}", tuned

    def configuration(self) -> minizinc.Solver:
        """Return MiniZinc's own description of the solver.

        Raises
        ------
        SolverMissingError
            If MiniZinc or the solver is missing.
        """
        if minizinc.default_driver is None:
            raise SolverMissingError("MiniZinc is missing")
        try:
            found = minizinc.Solver.lookup(self.name)
        except LookupError as error:
            raise SolverMissingError(
                f"MiniZinc knows no solver {self.name}; it has: {', '.join(names()) or 'none'}"
            ) from error
        unusable = _unusable(found)
        if unusable is not None:
            raise SolverMissingError(f"MiniZinc knows {self.name}, which {unusable}")
        return found

    def versions(self) -> dict[str, str]:
        """Return the versions of the solver, MiniZinc and the Python interface."""
        found = self.configuration()
        return {
            self.name: found.version,
            "minizinc": ".".join(str(part) for part in minizinc.default_driver.parsed_version),
            "minizinc-python": minizinc.__version__,
        }

    def solve(
        self,
        problem: Any,
        formulation: str | Path,
        search: RunContext,
        *,
        extras: bool = True,
        relax: int | None = None,
    ) -> Outcome:
        """Solve a problem with a MiniZinc formulation.

        Parameters
        ----------
        problem
            Of any room; ``tilewright.<room>.minizinc`` gives its data, start and plans.
        formulation
            The ``.mzn`` file.
        search
            Start, seed, deadline, threads; told about every better plan.
        extras
            Whether to keep symmetry breaking and redundant constraints.
        relax
            Percent of the decisions that large-neighbourhood search keeps in each round; 0 leaves it out,
            None leaves it to the room.
        """
        bridge = bridge_of(problem, Path(formulation))
        self._refuse_large(problem, Path(formulation))
        run = Run(problem, search)
        search.on_phase("building")
        try:
            with interrupted_at_deadline(search):
                kind = _Stages if self.tuned else _Once
                stages = kind(run, bridge, Path(formulation), extras, self)
        except OutOfTimeError:
            return run.outcome(versions=self.versions())
        with _errors_of(Path(formulation)):
            return asyncio.run(stages.run_all(bridge.relax(problem) if relax is None else relax))

    def look_at(self, problem: Any, formulation: str | Path, search: RunContext) -> None:
        """Refuse what `solve` would refuse, without solving it; MiniZinc reads a model of the user's own."""
        self._refuse_large(problem, Path(formulation))
        if foreign():
            with interrupted_at_deadline(search), _errors_of(Path(formulation)):
                file, _scratch = beside_core(Path(formulation), room_of(problem).name)
                _Instance(self.configuration(), file)

    def _refuse_large(self, problem: Any, formulation: Path) -> None:
        size = bridge_of(problem, formulation).size(problem)
        _minizinc.refuse_large(size, f"{formulation.stem}@{self.method}")


@contextlib.contextmanager
def _errors_of(formulation: Path) -> Iterator[None]:
    """Let errors of MiniZinc name files where they are, rather than copies of them.

    Raises
    ------
    SolverBrokenError
        For an error that is not of a model, as where the solver is killed or says what nobody understands.
    """
    try:
        yield
    except minizinc.MiniZincError as error:
        if type(error) is minizinc.MiniZincError and error.location is None:
            told = " ".join(str(error).split())[:300]
            raise SolverBrokenError(f"MiniZinc, or the solver that it runs, has failed: {told}") from None
        error.location = error.location or Location(None)
        file = Path(error.location.file or formulation)
        original = formulation.parent / file.name
        error.location.file = original if original.exists() else file
        raise


Known = dict[Path, tuple[list[tuple[str, int]], dict[str, Any]]]


class _Instance(minizinc.Instance):  # type: ignore[misc]
    """A formulation and its data; MiniZinc says once what the formulation takes and gives.

    It takes as long for that as for an easy search.
    """

    _known: Known = {}  # noqa: RUF012

    def __init__(self, solver: minizinc.Solver, formulation: Path) -> None:
        self._formulation = formulation
        super().__init__(solver, minizinc.Model(formulation))

    def analyse(self) -> None:
        """Ask MiniZinc, unless it has said it of these very files."""
        times = [(str(file), file.stat().st_mtime_ns) for file in files(self._formulation)]
        asked, said = self._known.get(self._formulation, ([], {}))
        if asked == times:
            self.__dict__.update(said)
            return
        before = dict(self.__dict__)
        super().analyse()
        said = {name: value for name, value in self.__dict__.items() if before.get(name) is not value}
        self._known[self._formulation] = times, said


def beside_core(formulation: Path, room: str) -> tuple[Path, tempfile.TemporaryDirectory[str] | None]:
    """Return the formulation where it finds its room's core.mzn, and that search.mzn.

    Where it does not find them, as they stand in another folder, it is copied into a folder that lives as
    long as the second value.
    """
    if (formulation.parent / "core.mzn").exists() and (formulation.parent.parent / SEARCH).exists():
        return formulation, None
    scratch = tempfile.TemporaryDirectory()
    folders = formulation.parent, *catalogue.folders("models", room)
    return copy_models(folders, Path(scratch.name)) / formulation.name, scratch


class _Stages:
    """The processes of one call of `solve` and what they have found together."""

    def __init__(
        self, run: Run, bridge: Any, formulation: Path, extras: bool, through: ThroughMiniZinc
    ) -> None:
        self.run, self.bridge, self.through = run, bridge, through
        # Symmetries and dominance are broken no more where constraints may tell apart what they equate.
        self.extras = extras and not must_hold(run.problem)
        self.stated = stated(run.problem, formulation)
        self.solver = through.configuration()
        self.formulation, self._scratch = beside_core(formulation, room_of(run.problem).name)
        self.offset, self.unit = bridge.scale(run.problem)
        self.data = bridge.data(run.problem)
        start = run.search.start
        self.start = None if start is None else bridge.start(run.problem, start)
        self.first: list[int] | None = None  # decisions of the first solution
        self.warm_start: str | None = None
        self.error: Exception | None = None
        self.versions = through.versions()

    async def run_all(self, relax: int) -> Outcome:
        """Run the stages and report."""
        search = self.run.search
        proven = False
        if self.start is not None:
            proven = await self._process(START_SHARE * search.remaining(), hint=True, first_only=True)
            if self.run.start_valid and self._excludes(proven):
                told = self.run.excluded(self.formulation.stem, await self._excluded_by())
                self.warm_start, self.start = told, None
            if self.run.plan is None:
                self.start = None  # invalid, or there was no time to take it
        if proven or self.run.over:
            pass
        elif search.threads > 1:
            proven = await self._side_by_side(relax)
        else:
            proven = await self._in_turn(relax)
        # Error streams that have ended mean that no process is left behind.
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=1.0)
        if proven and self.run.value is not None:
            self.run.proved(self.run.value)
        return self.run.outcome(infeasible=proven, warm_start=self.warm_start, versions=self.versions)

    def _excludes(self, proven: bool) -> bool:
        """Whether the model has no solution with the start's decisions.

        The first solution has them wherever there is one, in formulations that begin with a start.
        """
        if self.first is None:
            return proven
        return self.first != self.start and begins_with_start(self.formulation)

    async def _excluded_by(self) -> str:
        """Name the first constraint that excludes the start together with those before it, by halving."""
        search = self.run.search
        until = time.monotonic() + min(SUSPECT_SECONDS, search.remaining() / 2)
        alone = RunContext(start=search.start, seed=search.seed, deadline=until)
        names = constraints(self.formulation)
        low, high = 0, len(names)
        while low < high:
            middle = (low + high) // 2
            with first_constraints(self.formulation, middle) as file:
                trial = _Stages(Run(self.run.problem, alone), self.bridge, file, self.extras, self.through)
                # A model that lacks constraints need not count right, nor read what it finds.
                with contextlib.suppress(Exception):
                    await trial._process(alone.remaining(), hint=True, first_only=True)
            if alone.remaining() <= 0:
                return "it has no solution with these decisions"
            low, high = (middle + 1, high) if trial.first == self.start else (low, middle)
        return f'constraint "{names[high - 1]}"' if high else "a value of it is none of its variable"

    async def _in_turn(self, relax: int) -> bool:
        """Search with a single process at a time; return whether the search was completed."""
        search = self.run.search
        if relax:
            if await self._process(min(EASY_SHARE * search.remaining(), EASY_SECONDS)):
                return True
            if not self.run.over:
                await self._process(min(IMPROVING_SHARE * search.remaining(), IMPROVING_SECONDS), relax=relax)
        return not self.run.over and await self._process(search.remaining())

    async def _side_by_side(self, relax: int) -> bool:
        """Search with two processes; return whether the complete one was completed."""
        search = self.run.search
        helper = asyncio.create_task(self._process(search.remaining(), relax=relax)) if relax else None
        try:
            return await self._process(search.remaining())
        finally:
            if helper is not None:
                helper.cancel()
                await asyncio.gather(helper, return_exceptions=True)

    async def _process(
        self, seconds: float, *, hint: bool = False, first_only: bool = False, relax: int = 0
    ) -> bool:
        """Run one MiniZinc process; return whether it has proved that nothing better exists."""
        if seconds <= 0:
            return False
        task = asyncio.ensure_future(self._solutions(seconds, hint, first_only, relax))
        try:
            # MiniZinc's own limit does not cover all it does; cancelling kills the process.
            proven = await asyncio.wait_for(task, None if seconds == float("inf") else seconds + 0.2)
        except (TimeoutError, asyncio.CancelledError):
            if not task.cancelled():  # somebody cancelled us, not the solver
                raise
            proven = False
        if self.error is not None:
            raise self.error
        return proven

    async def _solutions(self, seconds: float, hint: bool, first_only: bool, relax: int) -> bool:
        """Pass every solution of one process on; its status tells whether the search was complete."""
        instance = _Instance(self.solver, self.formulation)
        value = best = self.run.value
        known = self.start if value is None else self.bridge.start(self.run.problem, self.run.plan)
        parameters = {
            **self.data,
            "start": known or [],
            "hint": hint and known is not None,
            "relax": relax,
            "below": NOTHING_BELOW if value is None else (value - self.offset) // self.unit,
        }
        if self.stated:
            instance.add_string(self.stated)
        for name, content in parameters.items():
            instance[name] = content
        flags: dict[str, Any] = {}
        switched_off = [] if self.extras else [*EXTRAS_OFF]
        if self.extras and relax:  # neighbourhoods are larger without symmetry breaking
            switched_off.append(SYMMETRIES_KEPT)
        if switched_off:
            flags["-D"] = ";".join(switched_off)
        if seconds != float("inf"):
            flags["time_limit"] = timedelta(seconds=seconds)
        flags["--compiler-statistics"] = True  # how long it flattens
        status = minizinc.Status.UNKNOWN
        began, flattening = time.monotonic(), True
        self.run.search.on_phase("building")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=EXPECTED_WARNINGS)
            results = instance.solutions(intermediate_solutions=True, **self._search_flags(), **flags)
            async for result in results:
                status = result.status
                if flattening and (took := result.statistics.get("flatTime")) is not None:
                    self.run.search.on_phase("solving", began + took.total_seconds())
                    flattening = False
                if result.solution is None:
                    continue
                if self.first is None:
                    self.first = self.bridge.decisions(self.run.problem, result.solution)
                best = self.offset + self.unit * result.solution.objective
                try:
                    self._take(result.solution, hint)
                except Exception as error:
                    self.error = error
                if first_only or self.run.over or self.error is not None:
                    # Leaving the loop would leave the process running; a cancelled task kills it.
                    task = asyncio.current_task()
                    assert task is not None
                    task.cancel()
        if status is minizinc.Status.ERROR:
            raise SolverBrokenError(f"{self.through.method}: MiniZinc ended with an error")
        if relax or status not in (minizinc.Status.OPTIMAL_SOLUTION, minizinc.Status.UNSATISFIABLE):
            return False
        if self.run.value is not None and (best is None or self.run.value < best):
            told = f"{self.through.method} finds nothing below {best}, but {self.run.value} is known"
            raise Disagreement(told)
        return True

    def _search_flags(self) -> dict[str, Any]:
        """Return the options of a process that the solver takes."""
        return {"random_seed": self.run.search.seed % 2**31} if "-r" in self.solver.stdFlags else {}

    def _take(self, solution: Any, hint: bool) -> None:
        """Turn a solution into a plan."""
        plan = self.bridge.plan(self.run.problem, solution)
        self.run.found(plan, self.offset + self.unit * solution.objective)
        if hint and self.warm_start is None and self.first == self.start:  # a better one may follow
            self.warm_start = f"first solution is the start, objective {self.run.value}"


def stated(problem: Any, formulation: Path) -> str:
    """Return the constraints of a problem as items of a model."""

    def term(one: Term) -> str:
        said = bridge_of(problem, formulation).term(problem, formulation, one)
        assert said is not None  # or the method would have been refused
        return str(said)

    return "".join(f"constraint {in_minizinc(part, term)};\n" for part in must_hold(problem))


class _Once(_Stages):
    """One process of a solver of which only MiniZinc knows something: for what is better than the start."""

    async def run_all(self, relax: int) -> Outcome:
        """Search once and report; `relax` is for what understands Gecode's annotations."""
        run = self.run
        if run.start_valid:
            run.found(run.search.start, None)
        proven = not run.over and await self._process(run.search.remaining())
        if proven and run.value is not None:
            run.proved(run.value)
        told = None
        if run.start_valid and self.start is not None:
            cost = run.objective(run.problem, run.search.start)
            told = f"only what costs less than the start, {cost}, is searched for"
        return run.outcome(infeasible=proven, warm_start=told, versions=self.versions)

    def _search_flags(self) -> dict[str, Any]:
        threads = self.run.search.threads
        parallel = {"processes": threads} if threads > 1 and "-p" in self.solver.stdFlags else {}
        return super()._search_flags() | parallel
