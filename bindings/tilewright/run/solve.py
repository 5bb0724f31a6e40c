"""Solve a problem with one method, or with all that the room knows, and judge the answer by simulation."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilewright import drivers
from tilewright.core import catalogue
from tilewright.core.context import CONSTRUCT, MAX_SECONDS, Status
from tilewright.core.room import Room, room_of
from tilewright.run import supervisor
from tilewright.run.instance import Instance, digest
from tilewright.run.result import Result, relative_gap, versions
from tilewright.spec.errors import (
    Disagreement,
    InputError,
    OutOfTimeError,
    SolverMissingError,
    TilewrightError,
    UnknownNameError,
)

Progress = Callable[[float, int | None, int | None], None]
"""Called now and then with seconds, incumbent and bound."""

CONSTRUCTION_SHARE, CONSTRUCTION_SECONDS = 0.3, 2.0
"""Share of the time, or seconds, that constructive heuristics may take before what starts from them."""

JUDGING_SHARE = 0.01
"""Share of the time that is left for the simulation of the answer, at least."""

ENDING_SECONDS = 0.2
"""What a method has between its deadline and its killing."""


class _Interrupted(Exception):
    """The caller's stop event is set."""


class Incumbent:
    """The best valid plan and the best bound so far, with their history."""

    def __init__(self, room: Room[Any, Any], problem: Any, started: float) -> None:
        self.room, self.problem, self.started = room, problem, started
        self.plan: Any = None
        self.objective: int | None = None
        self.bound: int | None = None
        self.bound_by: str | None = None
        self.grounds: str | None = None
        self.violation: str | None = None
        self.infeasible = False
        self.trace: list[tuple[float, int | None, int | None]] = []

    def offer(self, plan: Any, *, proven: bool = False) -> None:
        """Take a plan if it is valid and better, or as good and from a method that proves.

        What such a method calls valid must be.
        """
        violation = self.room.violation(self.problem, plan)
        if violation is not None:
            if proven:
                raise Disagreement(f"a solver's plan breaks a limit: {violation}")
            self.violation = self.violation or violation
            return
        objective = self.room.objective(self.problem, plan)
        if self.objective is None or objective < self.objective:
            self.plan, self.objective = plan, objective
            self._note()
        elif proven and objective == self.objective:
            self.plan = plan  # methods that prove choose among the best

    def raise_bound(self, bound: int, by: str, grounds: str | None = None) -> None:
        """Take a proven bound if it is better."""
        if self.bound is None or bound > self.bound:
            self.bound, self.bound_by, self.grounds = bound, by, grounds
            self._note()

    @property
    def closed(self) -> bool:
        """Whether nothing is left to search for."""
        return self.optimal or self.infeasible

    @property
    def optimal(self) -> bool:
        """Whether plan and bound meet."""
        return self.objective is not None and self.bound is not None and self.objective <= self.bound

    def _note(self) -> None:
        if self.objective is not None and self.bound is not None and self.bound > self.objective:
            raise Disagreement(f"bound {self.bound} ({self.bound_by}) above a valid plan of {self.objective}")
        self.trace.append((round(time.monotonic() - self.started, 3), self.objective, self.bound))


def check_method(room: str, method: str) -> None:
    """Refuse a method that does not exist before any work; a missing solver is found when it is called.

    Raises
    ------
    UnknownNameError
        With the names that do exist.
    """
    if method == "auto":
        return
    if "@" not in method:
        if method not in (*catalogue.heuristics(room), *catalogue.exact_methods(room)):
            raise UnknownNameError("method", method, methods(room))
        return
    name, solver = method.split("@", 1)
    suited = suited_solvers(catalogue.model(room, name))
    if solver not in suited:
        raise UnknownNameError(f"solver for the model {name}", solver, suited)


def suited_solvers(formulation: Path) -> list[str]:
    """Names of the solvers that take a formulation; none takes one that solves itself."""
    if catalogue.solves_itself(formulation):
        return []
    return [driver.name for driver in drivers.DRIVERS if driver.suffix == formulation.suffix]


def methods(room: str) -> list[str]:
    """Every method of a room, as `solve` takes them."""
    formulations = [
        f"{path.stem}@{solver}" for path in catalogue.models(room) for solver in suited_solvers(path)
    ]
    return ["auto", *catalogue.heuristics(room), *catalogue.exact_methods(room), *formulations]


def proves(room: str, method: str) -> bool:
    """Whether a method proves bounds, and its plans valid, rather than choosing without proof."""
    return "@" in method or method in catalogue.exact_methods(room)


def solve(
    problem: Any,
    method: str = "auto",
    *,
    warm_start: Any = "auto",
    time_limit: float = 60.0,
    threads: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    started: float | None = None,
) -> Result:
    """Solve a problem or an instance.

    Parameters
    ----------
    problem : Problem, Instance
        What to solve.
    method
        ``auto``, a heuristic's name, or ``MODEL@SOLVER``.
    warm_start : str, Plan, Result, optional
        A heuristic's name, a plan, a result of the same problem, ``auto`` for the best constructive
        heuristic, or ``none``.
    time_limit
        Seconds for everything, counted from `started`.
    threads
        Most processes and threads that work at a time; by default one per core.
    seed
        Seed of all random choices.
    progress
        Called several times a second.
    stop
        When set, the best plan so far is returned; so it is on KeyboardInterrupt.
    started
        ``time.monotonic()`` from which the time limit counts.

    Returns
    -------
    Result
        Its plan has survived the simulator, and its objective is the simulator's.
    """
    started = time.monotonic() if started is None else started
    if not 0 < time_limit <= MAX_SECONDS:
        raise InputError("time_limit", time_limit, f"more than 0 and at most {MAX_SECONDS:.0f} seconds")
    threads = threads or os.cpu_count() or 1
    name = problem.name if isinstance(problem, Instance) else "unnamed"
    if isinstance(problem, Instance):
        problem = problem.problem
    room = room_of(problem)
    room_name = room.name
    check_method(room_name, method)
    incumbent = Incumbent(room, problem, started)
    run = _Run(room_name, incumbent, threads, seed, progress, stop)
    interrupted = False
    try:
        bound = room.best_bound(problem)
        judging = max(room.simulation_seconds(problem, bound.steps), JUDGING_SHARE * time_limit)
        run.deadline = started + time_limit - min(0.25 * time_limit, judging)
        incumbent.raise_bound(bound.value, str(bound))
        incumbent.infeasible = bound.impossible is not None
        if incumbent.infeasible and (method == "auto" or proves(room_name, method)):
            pass
        elif method == "auto":
            # Heuristics come first, unless the room's portfolio begins with what needs no start.
            starts = warm_start != "auto" or room.constructs_first
            _auto(run, room, _resolve(run, warm_start) if starts else None)
        elif proves(room_name, method) or catalogue.searches(catalogue.heuristic(room_name, method)):
            run.phase([method], _resolve(run, warm_start))
        elif warm_start not in ("auto", "none", None):
            raise InputError("warm_start", str(warm_start), f"{method} takes no start")
        else:
            run.phase([method], None)
    except (KeyboardInterrupt, _Interrupted):
        interrupted = True
    until = started + time_limit
    try:
        return _judge(incumbent, room_name, name, method, seed, run, interrupted, until)
    except KeyboardInterrupt:
        if interrupted:
            raise  # asked twice
        return _judge(incumbent, room_name, name, method, seed, run, True, until)


class _Run:
    """What the phases of one solve share."""

    def __init__(
        self,
        room: str,
        incumbent: Incumbent,
        threads: int,
        seed: int,
        progress: Progress | None,
        stop: threading.Event | None,
    ) -> None:
        self.room, self.incumbent, self.threads, self.seed = room, incumbent, threads, seed
        self.progress, self.stop = progress, stop
        self.deadline = float("inf")
        self.optional = self.alone = False
        self.failures: list[str] = []
        self.warm_start: str | None = None
        self.versions: dict[str, str] = {}
        self._problem = incumbent.problem.model_dump(mode="json")
        self._last = 0.0

    def phase(
        self, methods: list[str], start: Any, until: float | None = None, *, optional: bool = False
    ) -> None:
        """Run methods side by side until they end, time is up, or plan and bound meet.

        Optional methods are left out silently when their solver is not installed.
        """
        self.optional = optional
        self.alone = len(methods) == 1 and methods != [CONSTRUCT] and not optional
        if self.incumbent.closed:
            return
        deadline = self.deadline if until is None else min(until, self.deadline)
        share = max(1, self.threads // len(methods))
        jobs = [
            {
                "room": self.room,
                "problem": self._problem,
                "method": method,
                "start": None if start is None else start.to_json(),
                "seed": self.seed + number,
                # A method that ends by itself can still say what it proved.
                "deadline": deadline - ENDING_SECONDS,
                "threads": share,
                "bound": self.incumbent.bound,
            }
            for number, method in enumerate(methods)
        ]
        if deadline > time.monotonic():
            supervisor.run(jobs, deadline, self._on_event, self._on_tick)

    def _on_event(self, job: dict[str, Any], event: dict[str, Any]) -> bool:
        incumbent, method = self.incumbent, job["method"]
        kind = event["event"]
        if kind == "plan":
            incumbent.offer(
                incumbent.room.plan_type.from_json(event["plan"]), proven=proves(self.room, method)
            )
        elif kind == "bound":
            incumbent.raise_bound(event["bound"], method, event["grounds"])
        elif kind == "started":
            self.versions |= event["versions"]
        elif kind == "failure":
            self.failures.append(event["message"])
        elif kind == "error":
            missing = event["exit_status"] == SolverMissingError.exit_status
            if event["exit_status"] == Disagreement.exit_status:
                raise Disagreement(event["message"])
            if not self.optional and method != CONSTRUCT:
                raise (SolverMissingError if missing else TilewrightError)(event["message"])
            if not missing:
                self.failures.append(event["message"])
        else:
            self.versions |= event["versions"]
            self.warm_start = event["warm_start"] or self.warm_start
            if event["bound"] is not None:
                incumbent.raise_bound(event["bound"], method)
            if event["status"] == "infeasible":
                if incumbent.plan is not None:
                    raise Disagreement(f"{method} calls a problem infeasible that has a valid plan")
                incumbent.infeasible = True
        # The only method ends by itself, and still has to say how.
        return incumbent.closed and not self.alone

    def _on_tick(self) -> None:
        if self.stop is not None and self.stop.is_set():
            raise _Interrupted
        now = time.monotonic()
        if self.progress is not None and now - self._last > 0.2:
            self._last = now
            self.progress(now - self.incumbent.started, self.incumbent.objective, self.incumbent.bound)


def _resolve(run: _Run, warm_start: Any) -> Any:
    """Turn what the user named into a plan, or None."""
    incumbent = run.incumbent
    if warm_start is None or warm_start == "none":
        return None
    if isinstance(warm_start, Result | str | Path):
        # Heuristics must leave time for what starts from them.
        now = time.monotonic()
        until = now + max(CONSTRUCTION_SECONDS, CONSTRUCTION_SHARE * (run.deadline - now))
        if isinstance(warm_start, str) and warm_start == "auto":
            run.phase([CONSTRUCT], None, until)
            return incumbent.plan
        if isinstance(warm_start, str) and warm_start in catalogue.heuristics(run.room):
            run.phase([warm_start], None, until)
            if incumbent.plan is None and incumbent.violation:
                raise InputError("warm_start", warm_start, f"gives no valid plan here: {incumbent.violation}")
            return incumbent.plan
        if not isinstance(warm_start, Result):
            if not Path(warm_start).is_file():
                raise UnknownNameError(
                    "warm start",
                    str(warm_start),
                    [*catalogue.heuristics(run.room), "auto", "none", "or a result file"],
                )
            warm_start = Result.read(warm_start)
        if warm_start.instance_sha256 != digest(run.room, incumbent.problem):
            raise InputError("warm_start", warm_start.instance, "is a result of another instance")
        if warm_start.plan is None:
            raise InputError("warm_start", warm_start.instance, "is a result without a plan")
        warm_start = warm_start.plan
    violation = incumbent.room.violation(incumbent.problem, warm_start)
    if violation is not None:
        raise InputError("warm_start", "plan", f"breaks a limit: {violation}")
    incumbent.offer(warm_start)
    return warm_start


def _auto(run: _Run, room: Room[Any, Any], start: Any) -> None:
    """Run the room's portfolio, phase by phase, each from the best plan so far."""
    begin = time.monotonic()
    total = run.deadline - begin
    spent = 0.0
    for share, methods in room.portfolio(run.incumbent.problem, run.threads):
        spent += share
        run.phase(methods, run.incumbent.plan or start, begin + spent * total, optional=True)


def _judge(
    incumbent: Incumbent,
    room_name: str,
    name: str,
    method: str,
    seed: int,
    run: _Run,
    interrupted: bool,
    until: float,
) -> Result:
    """Simulate the best plan and write down what holds; what cannot be simulated in time is no answer."""
    room, problem = incumbent.room, incumbent.problem
    plan, objective = incumbent.plan, incumbent.objective
    status: Status
    if plan is not None:
        status = "optimal" if incumbent.optimal else "feasible"
    else:
        status = "infeasible" if incumbent.infeasible else "unknown"
    summary: dict[str, Any] | None = None
    if plan is not None:
        try:
            report = room.simulate(problem, plan, overlapped=False, deadline=until)
        except OutOfTimeError:
            told = (
                f"a plan of objective {objective} was found and takes longer than the time left to simulate"
            )
            run.failures.append(told)
            plan, objective, status = None, None, "unknown"
        else:
            if report.violation is not None:
                raise Disagreement(f"the simulator refuses a plan of {method}: {report.violation}")
            measured = room.measured_objective(problem, report)
            if measured != objective:
                raise Disagreement(f"the simulator measured {measured}, the closed form says {objective}")
            summary = report.summary()
    elif incumbent.violation is not None and status == "unknown":
        # A heuristic that ignores a limit: say which.
        summary = {"valid": False, "violation": incumbent.violation}
    return Result(
        room=room_name,
        instance=name,
        instance_sha256=digest(room_name, problem),
        method=method,
        status=status,
        objective=objective,
        bound=incumbent.bound,
        gap=relative_gap(objective, incumbent.bound),
        seconds=round(time.monotonic() - incumbent.started, 3),
        seed=seed,
        warm_start=run.warm_start,
        plan=plan,
        report=summary,
        bound_by=incumbent.bound_by,
        grounds=incumbent.grounds,
        failures=run.failures,
        interrupted=interrupted,
        trace=incumbent.trace,
        versions=versions(run.versions),
    )
