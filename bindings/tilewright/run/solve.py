"""Solve a problem with one method, or with all that the room knows, and judge the answer by simulation."""

from __future__ import annotations

import contextlib
import inspect
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from tilewright.core import catalogue
from tilewright.core.bounds import Bound
from tilewright.core.context import CONSTRUCT, Outcome, RunContext, Status
from tilewright.core.portfolio import Portfolio
from tilewright.core.room import Wider, check_plan, room_of, unit_of
from tilewright.run import compiling, second_route
from tilewright.run.arguments import LARGEST, whole
from tilewright.run.arguments import limit as seconds_limit
from tilewright.run.incumbent import Claim, Incumbent
from tilewright.run.instance import Instance, digest, read
from tilewright.run.methods import (
    Listener,
    PartInHand,
    check_method,
    is_narrow,
    is_trusted,
    proves,
    run_method,
    takes_start,
)
from tilewright.run.phases import Phases
from tilewright.run.result import Result, versions
from tilewright.run.shares import Share, alike, shares, successors
from tilewright.run.summary import relative_gap
from tilewright.simulator.report import Verdict
from tilewright.spec.errors import (
    Disagreement,
    InputError,
    OutOfTimeError,
    SolverMissingError,
    TilewrightError,
    UnknownNameError,
    did_you_mean,
    of_status,
)

Progress = Callable[[float, int | None, int | None], None]
"""Called now and then with seconds, incumbent and bound."""

Method = Callable[..., Any]
"""A method of the caller's own: ``method(problem)`` or ``method(problem, context)``, as `solve` says."""

WIDER_SHARE = 0.05
"""Share of the time that ``auto`` keeps for plans of a larger space."""

CONSTRUCTION_SHARE, CONSTRUCTION_SECONDS = 0.3, 2.0
"""Share of the time, or seconds, that constructive heuristics may take before what starts from them."""

JUDGING_SHARE = 0.01
"""Share of the time that is left for the simulation of the answer, at least."""

JUDGING_GRACE_SECONDS = 0.7
"""Seconds that the simulation of the answer is always given, though the time limit is then passed by them."""

ASKING_SECONDS, MOST_ASKING_SECONDS = 0.8, 20.0
"""How long after its deadline a run waits to hear whether the solver that its method names is installed.

The longer time is for solvers that may well be missing, and where there is no plan yet: `unknown` would be no
answer then. Importing a solver's package takes long on a busy machine.
"""

ANY_PLAN_SECONDS, LEAST_ANY_PLAN_SECONDS = 0.5, 0.1
"""How long after the time limit some plan is still looked for where there is none, and how long at least."""

GRACE_SECONDS = 0.2
"""Grace period between a method's deadline and the killing of its worker."""

QUICK_SECONDS = 0.5
"""How long a method that keeps its deadline may run in this process, before a worker gets the rest."""

LONG_SECONDS = 2.0
"""How long executing a plan of a problem may take for that to be tried at all: its search takes longer."""

QUICK_PARTS = 8
"""Different parts of a problem, as the layers of a network, up to which that is tried at all."""


PATIENCE_SHARE = 0.5
"""Share of the time that they may take as long as there is no plan at all, as on a busy machine."""


class _Interrupted(Exception):
    """The caller's stop event is set."""


class _Enough(Exception):
    """What was begun has had its time and found a plan."""


@dataclass(frozen=True)
class Options:
    """How a problem is to be solved.

    Attributes
    ----------
    warm_start : str, Plan, Result, optional
        A heuristic's name, a plan, a result of the same problem or its file, ``auto`` for the best
        constructive heuristic, or ``none``.
    time_limit
        Seconds for everything, counted from `started`, but for compiling what has not been compiled yet.
    threads
        Most processes and threads that work at a time; by default one per core.
    seed
        Seed of all random choices.
    on_plan
        Called with every better plan and its objective, as soon as it is found.
    progress
        Called several times a second with seconds, incumbent and bound.
    on_part
        Called when a worker begins a layer of a network whose layers are solved one by one, and when it has
        ended it: of a method that proves, or of the only one.
    on_compile
        Called with a sentence before something is compiled, which takes up to a minute, once.
    stop
        When set, the best plan so far is returned; so it is on KeyboardInterrupt.
    started
        ``time.monotonic()`` from which the time limit counts; by default now.
    confirm
        Whether a claim that rests on one solver, or that nothing is feasible, is put to a second method for a
        part of the time that is left.
    widen
        Whether ``auto`` looks for a part of the time at a larger space of plans than the declared one, where
        the room has one, and tells what that gains.
    remember
        Whether layers need no search that equal one which the same process has solved; or the file in which
        it and others keep them, too.
    """

    warm_start: Any = "auto"
    time_limit: float = 60.0
    threads: int | None = None
    seed: int = 0
    on_plan: Callable[[Any, int], None] | None = None
    progress: Progress | None = None
    on_part: Callable[[PartInHand], None] | None = None
    on_compile: compiling.Tell | None = None
    stop: threading.Event | None = None
    started: float | None = None
    confirm: bool = True
    widen: bool = True
    remember: bool | str = False

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Return options from what a caller has given, checked.

        Raises
        ------
        InputError
            For an option that there is not, or a value that it cannot have.
        """
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                limit = f"unknown option{did_you_mean(name, known)}"
                raise InputError(name, str(given[name]), limit)
        options = cls(**given)
        threads = options.threads
        return replace(
            options,
            time_limit=seconds_limit("time_limit", options.time_limit),
            threads=os.cpu_count() or 1 if threads is None else whole("threads", threads, 1),
            seed=whole("seed", options.seed),
            started=time.monotonic() if options.started is None else options.started,
        )


def solve(problem: Any, method: str | Method = "auto", **options: Any) -> Result:
    """Solve a problem or an instance, as `tilewright.solve` says.

    Parameters
    ----------
    problem : str, Path, Instance, Problem
        What to solve: a bundled instance's name, an instance file, or what has been read or built.
    method : str, callable
        A method's name, or a function.
    **options
        Those of `Options`.
    """
    asked = Options.of(options)
    if isinstance(problem, str | Path):
        problem = read(problem)
    name = problem.name if isinstance(problem, Instance) else "unnamed"
    if isinstance(problem, Instance):
        problem = problem.problem
    room = room_of(problem)
    if isinstance(method, str):
        check_method(room.name, method)
    elif not callable(method):
        raise InputError("method", method, "must be the name of a method, or a function")
    assert asked.started is not None
    run = _Run(Incumbent(room, problem, asked.started, asked.on_plan), asked)
    interrupted, gained = False, None
    try:
        gained = _search(run, method)
    except (KeyboardInterrupt, _Interrupted):
        interrupted = True
    finally:
        run.dismiss()
    said = method if isinstance(method, str) else _name(method)
    result = _judge(run, name, said, interrupted, run.incumbent.started + asked.time_limit)
    spent = run.phases.seconds()
    return replace(result, time_limit=asked.time_limit, threads=run.threads, spent=spent, wider=gained)


def _search(run: _Run, method: str | Method) -> dict[str, Any] | None:
    """Run a method within the time limit, and put its claims to a second one; return what `_widen` does."""
    room, incumbent, asked = run.room, run.incumbent, run.options
    wider = room.wider(incumbent.problem) if asked.widen and method == "auto" else None
    run.prepare(method)
    run.compile([])
    with run.in_phase("bounding"):
        bound = room.best_bound(incumbent.problem)
    run.simulation_seconds = room.simulation_seconds(incumbent.problem, bound.steps)
    judging = max(run.simulation_seconds, JUDGING_SHARE * asked.time_limit)
    run.latest = incumbent.started + asked.time_limit
    run.deadline = run.latest - min(0.25 * asked.time_limit, judging)
    run.part_bounds = bound.parts
    incumbent.raise_bound(bound.value, str(bound))
    incumbent.infeasible = bound.impossible is not None
    kept = 0.0 if wider is None else WIDER_SHARE * asked.time_limit
    run.deadline -= kept
    _run_phases(run, method, asked.warm_start)
    run.deadline += kept
    if asked.confirm:
        _confirm(run, method, bound)
    return None if wider is None else _widen(run, wider, kept)


def _name(method: Method) -> str:
    """Return what a method of the caller's own is called in results."""
    return str(getattr(method, "__name__", type(method).__name__))


def _run_phases(run: _Run, method: str | Method, warm_start: Any) -> None:
    """Run a method, or the room's portfolio, from the start that was asked for."""
    room, incumbent = run.room, run.incumbent
    if callable(method):
        run.call(method, _resolve(run, "none" if warm_start == "auto" else warm_start))
    elif incumbent.infeasible and (method == "auto" or proves(room.name, method)):
        run.look_at(method)
    elif method == "auto":
        _auto(run, warm_start)
    elif takes_start(room.name, method):
        # Who needs no start gets none, and who has one only where it helps.
        if warm_start != "auto" or not run.try_here(method, None, run.deadline):
            run.phase([method], _resolve(run, warm_start), here=warm_start != "auto")
    elif warm_start not in ("auto", "none", None):
        raise InputError("warm_start", str(warm_start), f"{method} takes no start")
    else:
        run.phase([method], None)


class _Run:
    """What the phases of one solve share."""

    def __init__(self, incumbent: Incumbent, options: Options) -> None:
        assert options.threads is not None
        self.room, self.incumbent, self.options = incumbent.room, incumbent, options
        self.threads, self.seed, self.stop = options.threads, options.seed, options.stop
        self.deadline = self.latest = float("inf")
        self.simulation_seconds = 0.0
        self.part_bounds: tuple[int, ...] = ()
        self.optional = self.alone = self.chooses = False
        self.failures: list[str] = []
        self.warm_start: str | None = None
        self.confirmed_by: str | None = None
        self.begun: set[str] = set()
        self.versions: dict[str, str] = {}
        self.phases = Phases()
        self._asked: Any = None
        self._jobs_made = 0
        self._last = 0.0

    @property
    def quiet_options(self) -> Options:
        """The options of a run beside this one, which tells nobody and remembers nothing."""
        return Options(threads=self.threads, seed=self.seed, stop=self.stop)

    def compile(self, methods: list[str]) -> float:
        """Have compiled what the room and some methods need; return for how many seconds the clock stood."""
        began = time.monotonic()
        try:
            needed = compiling.units(self.room.name, methods, self.incumbent.problem)
            compiling.ensure(needed, self.options.on_compile, self._look_for_stop)
        finally:
            stood = time.monotonic() - began
            self.incumbent.started += stood
            self.deadline += stood
            self.latest += stood
        return stood

    @contextlib.contextmanager
    def in_phase(self, phase: str) -> Iterator[None]:
        """Note that this process does something itself."""
        self.phases.tell("here", phase)
        try:
            yield
        finally:
            self.phases.tell("here", None)

    def prepare(self, method: str | Method) -> None:
        """Start a worker where one is sure to be needed, so that it has begun when there is a job for it."""
        if isinstance(method, str) and "@" in method:
            from tilewright.run import supervisor  # for start-up time, as in `_work`

            self._asked = supervisor.IDLE.asked(self.room.name, method)
            return
        if not self._has_many_parts:
            return
        if method == "auto":
            method = self.room.portfolio(self.incumbent.problem).proving or method
        if isinstance(method, str) and catalogue.in_process(self.room.name, method):
            from tilewright.run import supervisor  # for start-up time, as in `_work`

            supervisor.IDLE.prepare(self.room.name, method)

    def _look_for_solver(self, seconds: float = 0.0) -> None:
        """Wait for as long to hear whether the solver is installed that the method names.

        Raises
        ------
        SolverMissingError
            If it is not.
        """
        if self._asked is None or not self._asked.prepared(seconds):
            return
        missing = [said for said in self._asked.ready.values() if said is not None]
        self.dismiss()
        if missing:
            raise SolverMissingError(missing[0])

    def dismiss(self) -> None:
        """Let others have the worker that has been asked for a solver."""
        if self._asked is not None:
            from tilewright.run import supervisor  # for start-up time, as in `_work`

            supervisor.IDLE.keep(self._asked)
            self._asked = None

    @property
    def _has_many_parts(self) -> bool:
        """Whether a problem has too many parts to be solved in a moment."""
        return len({id(part) for _, part in self.room.parts(self.incumbent.problem)}) > QUICK_PARTS

    def phase(
        self,
        methods: list[str],
        start: Any,
        until: float | None = None,
        *,
        here: bool = True,
    ) -> None:
        """Run methods side by side until they end, time is up, or plan and bound meet.

        Parameters
        ----------
        until
            ``time.monotonic()`` of the phase's end, if it comes before the run's own.
        here
            Whether a single method may be tried in this process first.
        """
        self.alone = len(methods) == 1
        if self.incumbent.closed:
            for method in methods:
                self.look_at(method)
            return
        if any("@" in method for method in methods):
            self._wait_for_solver(methods)
        stood = self.compile(methods)
        deadline = self.deadline if until is None else min(until + stood, self.deadline)
        if here and len(methods) == 1 and self.try_here(methods[0], start, deadline):
            return
        self._work(self._jobs(alike(methods, self.threads), start, deadline), deadline)

    def _wait_for_solver(self, methods: list[str]) -> None:
        """Wait to hear whether the solver is installed that the method names, as `_look_for_solver` does."""
        if self._asked is None:
            return
        certain = self.incumbent.plan is not None and all(
            is_trusted(self.room.name, method) for method in methods
        )
        with self.in_phase("starting"):
            left = max(0.0, self.deadline - time.monotonic())
            self._look_for_solver(left + (ASKING_SECONDS if certain else MOST_ASKING_SECONDS))

    def look_at(self, method: str) -> None:
        """Load a model and its solver and check that it takes the problem, though nothing is left to do."""
        if "@" in method:
            self.alone = True
            self._wait_for_solver([method])
            jobs = self._jobs(alike([method], self.threads), None, self.deadline)
            self._work([job | {"only_look": True} for job in jobs], self.deadline)

    def construct(self, until: float, latest: float) -> None:
        """Run the constructive heuristics until a moment; if there is no plan by then, until there is one."""
        stood = 0.0 if self.incumbent.closed else self.compile([CONSTRUCT])
        until, latest = until + stood, latest + stood

        def look() -> None:
            self._on_tick()
            if time.monotonic() >= until and self.incumbent.plan is not None:
                raise _Enough

        self.alone = False
        if not self.incumbent.closed:
            latest = min(latest, self.deadline)
            with contextlib.suppress(_Enough):
                self._work(self._jobs(alike([CONSTRUCT], self.threads), None, latest), latest, on_tick=look)

    def portfolio(self, parts: Portfolio, start: Any) -> None:
        """Run the parts of ``auto`` until they end, time is up, or plan and bound meet; see `run.shares`."""
        self.optional, self.alone, self.chooses = True, False, parts.chooses
        incumbent = self.incumbent
        if incumbent.closed and not self.chooses:
            return
        if parts.proving is not None and self.try_here(parts.proving, start, self.deadline):
            if incumbent.closed:
                return
            parts, self.chooses = replace(parts, proving=None), False

        def next_jobs(ended: dict[str, Any]) -> list[dict[str, Any]]:
            share = Share(ended["method"], ended["threads"])
            return self._jobs(successors(parts, share, self.threads), incumbent.plan, self.deadline)

        divided = shares(parts, self.threads)
        self.alone = parts.alone and parts.proving is not None
        self._work(
            self._jobs(divided, incumbent.plan or start, self.deadline),
            self.deadline,
            successors=next_jobs,
            in_turns=len(divided) > self.threads,
        )

    def _work(
        self,
        jobs: list[dict[str, Any]],
        deadline: float,
        on_tick: Callable[[], None] | None = None,
        **how: Any,
    ) -> None:
        """Let workers do jobs, as `supervisor.run` says."""
        if deadline > time.monotonic():
            # For start-up time: many searches need no process, and so none of what starting one imports.
            from tilewright.run import supervisor

            for job in jobs:
                self.phases.tell(job["number"], "starting")
                self.begun |= set() if job["only_look"] else {job["method"]}
            try:
                supervisor.run(jobs, deadline, self._on_event, on_tick or self._on_tick, **how)
            finally:
                self.phases.end_all()

    def _jobs(self, shares: list[Share], start: Any, deadline: float) -> list[dict[str, Any]]:
        """Return what workers are told, for the methods that share the threads."""
        problem = self.incumbent.problem.model_dump(mode="json") if shares else None
        self._jobs_made += len(shares)
        return [
            {
                "number": self._jobs_made - number,
                "room": self.room.name,
                "problem": problem,
                "method": share.method,
                "start": None if start is None else start.to_json(),
                "seed": self.seed + share.number,
                # A method that ends by itself can still say what it proved.
                "deadline": deadline - GRACE_SECONDS,
                "threads": share.threads,
                "bound": self.incumbent.bound,
                "part_bounds": self.part_bounds,
                "remember": self.options.remember,
                "only_look": False,
            }
            for number, share in enumerate(shares)
        ]

    def try_here(self, method: str, start: Any, deadline: float) -> bool:
        """Run a method that keeps its deadline in this process for a moment; return whether it has ended.

        So a search of milliseconds is answered in milliseconds. What takes longer begins anew in a worker.
        """
        long = self._has_many_parts or self.simulation_seconds > LONG_SECONDS
        if long or not catalogue.in_process(self.room.name, method):
            return False
        until = min(deadline, time.monotonic() + QUICK_SECONDS)
        listener = Listener(self.versions.update)
        self.begun.add(method)
        try:
            context = self._context(method, start, until)
            with self.in_phase("starting"):
                outcome = run_method(method, self.incumbent.problem, context, listener)
        except TilewrightError as error:
            self._take_error(method, error)
            return True
        over = outcome.status in ("optimal", "infeasible") or self.incumbent.closed
        self._take_outcome(method, outcome)
        chooses = self.room.portfolio(self.incumbent.problem).chooses
        return over and not (
            chooses and time.monotonic() >= until
        )  # among the best plans it may not have chosen

    def find_any_plan(self, method: str) -> None:
        """Run a method that gives some plan at once in this process, as time is up and there is none.

        Where even that takes long it is left alone, and what it finds later counts for nothing.
        """
        now = time.monotonic()
        found: list[Callable[[], None]] = []
        failed: list[Exception] = []
        context = self._context(method, None, now)
        later = replace(
            context,
            on_plan=lambda plan: found.append(partial(context.on_plan, plan)),
            on_bound=lambda *bound: found.append(partial(context.on_bound, *bound)),
        )

        def begin() -> None:
            try:
                run_method(method, self.incumbent.problem, later, Listener(self.versions.update))
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=begin, daemon=True)
        with self.in_phase("starting"):
            thread.start()
            thread.join(max(LEAST_ANY_PLAN_SECONDS, self.latest + ANY_PLAN_SECONDS - now))
        for tell in list(found):
            tell()
        if failed:
            raise failed[0]

    def call(self, method: Method, start: Any) -> None:
        """Run a method of the caller's own in this process."""
        name = _name(method)
        context = self._context(name, start, self.deadline)
        takes_context = len(inspect.signature(method).parameters) > 1
        problem = self.incumbent.problem
        self.begun.add(name)
        answer = None
        with self.in_phase("solving"), contextlib.suppress(OutOfTimeError):
            answer = method(problem, context) if takes_context else method(problem)
        outcome = answer if isinstance(answer, Outcome) else Outcome("unknown", answer)
        if outcome.plan is not None:
            self.incumbent.offer(outcome.plan)
        self._take_outcome(name, outcome)

    def _context(self, method: str, start: Any, until: float) -> RunContext:
        """Return what a method in this process is told, and whom it tells."""
        proven = proves(self.room.name, method)
        return RunContext(
            start=start,
            seed=self.seed,
            deadline=until,
            latest=max(until, self.deadline),
            threads=self.threads,
            bound=self.incumbent.bound,
            part_bounds=self.part_bounds,
            remember=self.options.remember,
            on_plan=lambda plan: self.incumbent.offer(plan, proven=proven),
            on_bound=lambda bound, grounds=None: self._proved(method, bound, grounds),
            on_failure=self.failures.append,
            on_phase=lambda phase, at=None: self.phases.tell("here", phase, at),
        )

    def _on_event(self, job: dict[str, Any], event: dict[str, Any]) -> bool:
        """Take what a worker says; return whether that is enough."""
        incumbent, method = self.incumbent, job["method"]
        kind = event["event"]
        if kind in ("error", "outcome"):
            self.phases.tell(job["number"], None)
        if kind == "plan":
            plan = self.room.plan_type.from_json(event["plan"])
            incumbent.offer(plan, proven=proves(self.room.name, method))
        elif kind == "bound":
            self._proved(method, event["bound"], event["grounds"])
        elif kind == "phase":
            self.phases.tell(job["number"], event["phase"], event["at"])
        elif kind == "part":
            self._tell_part(method, PartInHand(**{name: event[name] for name in event if name != "event"}))
        elif kind == "started":
            self.versions |= event["versions"]
        elif kind == "failure":
            self.failures.append(event["message"])
        elif kind == "error":
            error = of_status(event["exit_status"], event["message"])
            self._take_error(method, error, died=event.get("died", False))
        else:
            outcome = {name: event[name] for name in ("status", "bound", "warm_start", "versions")}
            self._take_outcome(method, Outcome(**outcome))
        # The only method ends by itself, and still has to say how; so does one that chooses among the best.
        ended = kind in ("error", "outcome")
        chosen = not self.chooses or (ended and proves(self.room.name, method))
        return incumbent.closed and not self.alone and chosen

    def _tell_part(self, method: str, part: PartInHand) -> None:
        """Hand on which part is in hand, unless another method's parts are told."""
        on_part = self.options.on_part
        if on_part is not None and (self.alone or proves(self.room.name, method)):
            on_part(part)

    def _take_error(self, method: str, error: TilewrightError, *, died: bool = False) -> None:
        """Raise what ends the run; note what other methods make up for, as that a method's process died."""
        contradicts = isinstance(error, Disagreement) and not died
        if contradicts or (not self.optional and method != CONSTRUCT):
            raise error
        if died or not isinstance(error, SolverMissingError):
            self.failures.append(str(error))

    def _take_outcome(self, method: str, outcome: Outcome) -> None:
        self.versions |= outcome.versions
        self.warm_start = outcome.warm_start or self.warm_start
        if outcome.bound is not None:
            self._proved(method, outcome.bound)
        if outcome.status == "infeasible":
            if self.incumbent.plan is not None and not self._is_narrow(method):
                raise Disagreement(f"{method} calls a problem infeasible that has a valid plan")
            if is_trusted(self.room.name, method):
                self.incumbent.infeasible, self.incumbent.infeasible_by = True, method
            else:
                self.incumbent.claim(Claim(method, None, self._is_narrow(method)))

    def _is_narrow(self, method: str) -> bool:
        return is_narrow(self.room.name, method)

    def _proved(self, method: str, bound: int, grounds: str | None = None) -> None:
        """Take a bound, or the claim of one; one that is no integer is a failure of the method."""
        try:
            bound = whole("bound", bound, -LARGEST)
        except InputError as error:
            self._take_error(method, InputError(f"bound of {method}", bound, error.limit))
            return
        if is_trusted(self.room.name, method):
            self.incumbent.raise_bound(bound, method, grounds)
        else:
            self.incumbent.claim(Claim(method, bound, self._is_narrow(method)))

    def _look_for_stop(self) -> None:
        self._look_for_solver()
        if self.stop is not None and self.stop.is_set():
            raise _Interrupted

    def _on_tick(self) -> None:
        self._look_for_stop()
        now = time.monotonic()
        progress = self.options.progress
        if progress is not None and now - self._last > 0.2:
            self._last = now
            progress(now - self.incumbent.started, self.incumbent.objective, self.incumbent.bound)


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
            run.construct(until, max(until, now + PATIENCE_SHARE * (run.deadline - now)))
            return incumbent.plan
        if isinstance(warm_start, str) and warm_start in catalogue.heuristics(run.room.name):
            run.phase([warm_start], None, until)
            if incumbent.plan is None and incumbent.violation:
                raise InputError("warm_start", warm_start, f"gives no valid plan here: {incumbent.violation}")
            return incumbent.plan
        if not isinstance(warm_start, Result):
            if not Path(warm_start).is_file():
                raise UnknownNameError(
                    "warm start",
                    str(warm_start),
                    [*catalogue.heuristics(run.room.name), "auto", "none", "or a result file"],
                )
            warm_start = Result.read(warm_start, incumbent.problem)
        if warm_start.instance_sha256 != digest(run.room.name, incumbent.problem):
            raise InputError("warm_start", warm_start.instance, "is a result of another instance")
        if warm_start.plan is None:
            raise InputError("warm_start", warm_start.instance, "is a result without a plan")
        warm_start = warm_start.plan
    check_plan(incumbent.problem, warm_start)
    violation = incumbent.room.violation(incumbent.problem, warm_start)
    if violation is not None:
        raise InputError("warm_start", "plan", f"breaks a limit: {violation}")
    incumbent.offer(warm_start)
    return warm_start


def _auto(run: _Run, warm_start: Any) -> None:
    """Run the room's portfolio, from the start that was asked for."""
    parts = run.room.portfolio(run.incumbent.problem)
    # Heuristics come first, unless they are a part themselves.
    starts = warm_start != "auto" or parts.constructs_first
    start = _resolve(run, warm_start) if starts else None
    if not run.incumbent.closed:
        run.compile(list(parts.methods))
    run.portfolio(parts, start)
    if parts.alone and parts.proving is not None and run.incumbent.plan is None and not run.incumbent.closed:
        run.find_any_plan(parts.proving)


def _confirm(run: _Run, method: str | Method, own: Bound) -> None:
    """Put a claim that rests on one method's proof to a second one, for as long as `second_route` says.

    Raises
    ------
    Disagreement
        If that finds a plan which the claim denies.
    """
    incumbent = run.incumbent
    claim = _claim(incumbent, method if isinstance(method, str) else _name(method), own)
    if claim is None:
        return
    now = time.monotonic()
    took, left = now - incumbent.started, run.deadline - now
    asked = second_route.asked(incumbent.problem, claim.by, claim.bound is None, took, left)
    for other, seconds in asked:
        run.compile([other])
        found = Incumbent(run.room, incumbent.problem, time.monotonic(), None)
        found.raise_bound(own.value, str(own))
        again = _Run(found, run.quiet_options)
        again.deadline = min(run.deadline, time.monotonic() + seconds)
        try:
            with run.in_phase("confirming"):
                again.phase([other], incumbent.plan)
        except Disagreement as error:  # its own fault: only a valid plan speaks against the claim
            run.failures.append(f"{other}, asked to confirm {claim.by}: {error}")
            continue
        except TilewrightError:
            continue  # its solver is not installed, or it does not take the problem
        denial = f"{other} finds a plan of {found.objective}"
        if not claim.denied(found.objective):
            least = found.bound
            if found.infeasible if claim.bound is None else least is not None and least >= claim.bound:
                run.confirmed_by = other
                incumbent.accept_claim(claim)
        elif claim.narrow:
            incumbent.denial = denial
        else:
            said = (
                "calls the problem infeasible" if claim.bound is None else f"proves a bound of {claim.bound}"
            )
            raise Disagreement(f"{claim.by} {said}, {denial}")
        return


def _widen(run: _Run, wider: Wider, kept: float) -> dict[str, Any] | None:
    """Return what is found in a larger space, in as long as the run took, or the time that was kept for it.

    Nothing where there is no plan, neither there nor here, or no time.
    """
    incumbent, began = run.incumbent, time.monotonic()
    if began >= run.deadline:
        return None
    bound = run.room.best_bound(wider.problem)
    found = Incumbent(run.room, wider.problem, began, None)
    found.raise_bound(bound.value, str(bound))
    if incumbent.plan is not None:
        found.offer(incumbent.plan)
    again = _Run(found, run.quiet_options)
    again.part_bounds, again.simulation_seconds = bound.parts, run.simulation_seconds
    run.compile(list(run.room.portfolio(wider.problem).methods))
    now = time.monotonic()
    again.deadline = min(run.deadline, now + max(kept, now - incumbent.started))
    try:
        with run.in_phase("widening"):
            _auto(again, incumbent.plan)
    except TilewrightError as error:  # its own fault: what is declared has its answer
        run.failures.append(f"among {wider.space}: {error}")
    except (KeyboardInterrupt, _Interrupted):
        pass  # which has its answer then, too
    if found.objective is None or found.bound is None:
        return None
    seconds = round(time.monotonic() - began, 3)
    told = {"space": wider.space, "set": wider.setting}
    return told | {"objective": found.objective, "bound": found.bound, "seconds": seconds}


def _claim(incumbent: Incumbent, method: str, own: Bound) -> Claim | None:
    """Return the claim that ends a run and rests on one method's proof, or on a solver's word; or None."""
    if incumbent.optimal:
        by_itself = incumbent.bound_by == str(own)
        return None if by_itself else Claim(incumbent.bound_by or method, incumbent.bound)
    if incumbent.infeasible:
        return None if own.impossible is not None else Claim(incumbent.infeasible_by or method, None)
    word = incumbent.untrusted
    ends = word is not None and word.bound in (None, incumbent.objective)
    return word if ends and incumbent.denial is None else None


def _execute(run: _Run, method: str, until: float) -> tuple[Verdict | None, bool]:
    """Let the simulator execute the best plan; return its report, None where time is up or Ctrl-C comes.

    The plan has kept all limits and its cost is known: late or not, it stays the answer.

    Returns
    -------
    verdict : Verdict, optional
    interrupted : bool
    """
    room, problem, incumbent = run.room, run.incumbent.problem, run.incumbent
    # The clock may have gone on while this process was stopped.
    deadline = max(until, time.monotonic()) + JUDGING_GRACE_SECONDS
    try:
        report = room.simulate(problem, incumbent.plan, overlapped=False, deadline=deadline)
    except OutOfTimeError:
        return None, False
    except KeyboardInterrupt:
        return None, True
    if report.violation is not None:
        raise Disagreement(f"the simulator refuses a plan of {method}: {report.violation}")
    measured = room.measured_objective(problem, report)
    if measured != incumbent.objective:
        raise Disagreement(f"the simulator measured {measured}, the closed form says {incumbent.objective}")
    return report.verdict(), False


def _judge(run: _Run, name: str, method: str, interrupted: bool, until: float) -> Result:
    """Simulate the best plan and write down what holds; a plan is never lost for want of time."""
    incumbent = run.incumbent
    room, problem = run.room, incumbent.problem
    status: Status
    at_least: dict[str, str] = {}
    if incumbent.plan is not None:
        at_least = room.at_least(problem, incumbent.plan)
        status = "optimal" if incumbent.optimal and not at_least else "feasible"
    else:
        status = "infeasible" if incumbent.infeasible else "unknown"
    idle = method != "auto" and method not in run.begun and incumbent.closed
    verdict: Verdict | None = None
    if incumbent.plan is not None:
        with run.in_phase("simulating"):
            verdict, again = _execute(run, method, until)
        interrupted = interrupted or again
    elif incumbent.violation is not None and status == "unknown":
        # A heuristic that ignores a limit: say which.
        verdict = Verdict(False, incumbent.violation)
    return Result(
        room=room.name,
        instance=name,
        instance_sha256=digest(room.name, problem),
        method=method,
        status=status,
        objective=incumbent.objective,
        bound=incumbent.bound,
        gap=None if at_least else relative_gap(incumbent.objective, incumbent.bound),
        seconds=round(time.monotonic() - incumbent.started, 3),
        seed=run.seed,
        warm_start=run.warm_start,
        plan=incumbent.plan,
        report=verdict,
        bound_by=incumbent.bound_by,
        grounds=incumbent.grounds,
        failures=list(dict.fromkeys(run.failures)),
        interrupted=interrupted,
        simulated=incumbent.plan is None or verdict is not None,
        trace=incumbent.trace,
        versions=versions(run.versions),
        confirmed_by=run.confirmed_by,
        proved_by=incumbent.bound_by if idle else None,
        unverified=incumbent.unverified(),
        at_least=at_least or None,
        minimise=problem.minimise,
        unit=unit_of(problem),
        space=room.space(problem),
        problem=problem,
    )
