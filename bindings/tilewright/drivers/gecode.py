"""Gecode, through MiniZinc, for ``.mzn`` formulations.

One thread runs four stages, each a process of its own: the start is checked and becomes the incumbent; a
short complete search ends what is easy; large-neighbourhood search improves the incumbent for a part of
the time; a complete search for anything better ends with the proof. With two threads or more
large-neighbourhood and complete search run side by side.

A formulation declares, beside what its room's data has: ``start`` (a known plan, or empty), ``below`` (only
better objectives are wanted), ``hint`` (begin with the start), ``relax`` (percent that large-neighbourhood
search keeps, 0 for a complete search), and the variable ``objective``.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import time
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import minizinc
from minizinc.error import Location

from tilewright.core import catalogue
from tilewright.core.context import Outcome, RunContext
from tilewright.core.room import room_of
from tilewright.drivers._constraints import uses, without_each_constraint
from tilewright.drivers._run import Run, interrupted_at_deadline
from tilewright.spec.errors import InputError, OutOfTimeError, SolverMissingError, TilewrightError

MAX_SIZE = 400_000
"""Most links of a model that is flattened: about a minute and 2 GiB of MiniZinc."""

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

EXPECTED_WARNINGS = r"(?s).*(overrides a global constraint file|model inconsistency detected)"
"""Of MiniZinc: one on every run with Gecode, one where nothing is better than the incumbent."""


def versions() -> dict[str, str]:
    """Return the versions of Gecode, MiniZinc and the Python interface.

    Raises
    ------
    SolverMissingError
        If MiniZinc or Gecode is missing.
    """
    driver = minizinc.default_driver
    if driver is None:
        raise SolverMissingError("MiniZinc is missing")
    try:
        gecode = minizinc.Solver.lookup("gecode")
    except LookupError as error:
        raise SolverMissingError("MiniZinc knows no Gecode") from error
    return {
        "gecode": gecode.version,
        "minizinc": ".".join(str(part) for part in driver.parsed_version),
        "minizinc-python": minizinc.__version__,
    }


def solve(
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
    bridge = room_of(problem).minizinc
    size = bridge.size(problem)
    if size > MAX_SIZE:
        limit = f"gives {size} constraints here, at most {MAX_SIZE} are built"
        raise InputError("method", f"{Path(formulation).stem}@gecode", limit)
    run = Run(problem, search)
    try:
        with interrupted_at_deadline(search):
            stages = _Stages(run, bridge, Path(formulation), extras)
    except OutOfTimeError:
        return run.outcome(versions=versions())
    try:
        return asyncio.run(stages.run_all(bridge.relax(problem) if relax is None else relax))
    except minizinc.MiniZincError as error:
        error.location = error.location or Location(None)
        error.location.file = _of_user(Path(formulation), Path(error.location.file or formulation))
        raise


def _of_user(formulation: Path, file: Path) -> Path:
    """Return the file of which a formulation's folder has the original, else the file itself."""
    original = formulation.parent / file.name
    return original if original.exists() else file


Known = dict[Path, tuple[list[tuple[str, int]], dict[str, Any]]]


class _Instance(minizinc.Instance):  # type: ignore[misc]
    """A formulation and its data; MiniZinc says once what the formulation takes and gives.

    It takes as long for that as for an easy search.
    """

    _known: Known = {}  # noqa: RUF012

    def __init__(self, formulation: Path) -> None:
        self._formulation = formulation
        super().__init__(minizinc.Solver.lookup("gecode"), minizinc.Model(formulation))

    def analyse(self) -> None:
        """Ask MiniZinc, unless it has said it of these very files."""
        folder = self._formulation.parent
        files = sorted((file.name, file.stat().st_mtime_ns) for file in folder.glob("*.mzn"))
        asked, said = self._known.get(self._formulation, ([], {}))
        if asked == files:
            self.__dict__.update(said)
            return
        before = dict(self.__dict__)
        super().analyse()
        said = {name: value for name, value in self.__dict__.items() if before.get(name) is not value}
        self._known[self._formulation] = files, said


class _Stages:
    """The processes of one call of `solve` and what they have found together."""

    def __init__(self, run: Run, bridge: Any, formulation: Path, extras: bool) -> None:
        self.run, self.bridge, self.extras = run, bridge, extras
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self.formulation = self._beside_core(formulation)
        self.offset, self.unit = bridge.scale(run.problem)
        self.data = bridge.data(run.problem)
        start = run.search.start
        self.start = None if start is None else bridge.start(run.problem, start)
        self.first: list[int] | None = None  # decisions of the first solution
        self.warm_start: str | None = None
        self.error: Exception | None = None
        self.versions = versions()

    def _beside_core(self, formulation: Path) -> Path:
        """Return the formulation where it finds its room's core.mzn, which may stand in another folder."""
        if (formulation.parent / "core.mzn").exists():
            return formulation
        self._scratch = tempfile.TemporaryDirectory()
        folder = Path(self._scratch.name)
        name = room_of(self.run.problem).name
        for source in (formulation.parent, *catalogue.folders("models", name)):
            for file in source.glob("*.mzn"):
                if not (folder / file.name).exists():
                    shutil.copy(file, folder / file.name)
        return folder / formulation.name

    async def run_all(self, relax: int) -> Outcome:
        """Run the stages and report."""
        search = self.run.search
        proven = False
        if self.start is not None:
            proven = await self._process(START_SHARE * search.remaining(), hint=True, first_only=True)
            if self.run.start_valid and self._excludes(proven):
                raise self.run.rejected(self.formulation.stem, await self._excluded_by())
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

        The first solution has them wherever there is one, in formulations that use `hint`.
        """
        if self.first is None:
            return proven
        return self.first != self.start and uses(self.formulation, "hint")

    async def _excluded_by(self) -> str:
        """Name the constraint without which the start is a solution."""
        search = self.run.search
        until = time.monotonic() + min(SUSPECT_SECONDS, search.remaining() / 2)
        for name, formulation in without_each_constraint(self.formulation):
            alone = RunContext(start=search.start, seed=search.seed, deadline=until)
            trial = _Stages(Run(self.run.problem, alone), self.bridge, formulation, self.extras)
            # A model that lacks a constraint need not count right.
            with contextlib.suppress(TilewrightError, minizinc.MiniZincError):
                await trial._process(alone.remaining(), hint=True, first_only=True)
            if trial.first == self.start:
                return f'constraint "{name}"'
            if alone.remaining() <= 0:
                break
        return "it has no solution with these decisions"

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
        instance = _Instance(self.formulation)
        value = best = self.run.value
        known = self.start if value is None else self.bridge.start(self.run.problem, self.run.plan)
        parameters = {
            **self.data,
            "start": known or [],
            "hint": hint and known is not None,
            "relax": relax,
            "below": NOTHING_BELOW if value is None else (value - self.offset) // self.unit,
        }
        for name, content in parameters.items():
            instance[name] = content
        flags: dict[str, Any] = {}
        switched_off = []
        if not self.extras:
            switched_off.append("mzn_ignore_redundant_constraints=true")
        if not self.extras or relax:  # neighbourhoods are larger without symmetry breaking
            switched_off.append("mzn_ignore_symmetry_breaking_constraints=true")
        if switched_off:
            flags["-D"] = ";".join(switched_off)
        if seconds != float("inf"):
            flags["time_limit"] = timedelta(seconds=seconds)
        status = minizinc.Status.UNKNOWN
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=EXPECTED_WARNINGS)
            results = instance.solutions(
                intermediate_solutions=True, random_seed=self.run.search.seed % 2**31, **flags
            )
            async for result in results:
                status = result.status
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
            raise TilewrightError("MiniZinc ended with an error")
        if relax or status not in (minizinc.Status.OPTIMAL_SOLUTION, minizinc.Status.UNSATISFIABLE):
            return False
        if self.run.value is not None and (best is None or self.run.value < best):
            raise TilewrightError(f"Gecode finds nothing below {best}, but {self.run.value} is known")
        return True

    def _take(self, solution: Any, hint: bool) -> None:
        """Turn a solution into a plan."""
        plan = self.bridge.plan(self.run.problem, solution)
        self.run.found(plan, self.offset + self.unit * solution.objective)
        if hint and self.first == self.start:
            self.warm_start = f"first solution is the start, objective {self.run.value}"
