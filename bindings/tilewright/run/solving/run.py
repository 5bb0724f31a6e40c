"""One run: methods in this process and in workers, what they tell, and the time that they have."""

from __future__ import annotations

import contextlib
import inspect
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from tilewright.core import catalogue, jit
from tilewright.core.context import CONSTRUCT, Outcome, RunContext
from tilewright.core.portfolio import Portfolio
from tilewright.run.arguments import LARGEST, whole
from tilewright.run.methods import (
    Listener,
    PartInHand,
    is_narrow,
    is_trusted,
    proves,
    run_method,
)
from tilewright.run.solving.incumbent import Claim, Incumbent
from tilewright.run.solving.options import Method, Options, name_of
from tilewright.run.solving.phases import Phases
from tilewright.run.solving.shares import Share, alike, shares, successors
from tilewright.run.solving.uncompiled import Compiled, Tick, run_uncompiled, uncompiled_deadline
from tilewright.run.workers import compiling
from tilewright.spec.errors import (
    Disagreement,
    InputError,
    OutOfTimeError,
    SolverMissingError,
    TilewrightError,
    of_status,
)

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


class Interrupted(Exception):
    """The caller's stop event is set."""


class Enough(Exception):
    """What was begun has had its time and found a plan."""


class Run:
    """What the phases of one solve share."""

    def __init__(self, incumbent: Incumbent, options: Options) -> None:
        assert options.threads is not None
        self.room, self.incumbent, self.options = incumbent.room, incumbent, options
        self.threads, self.seed, self.stop = options.threads, options.seed, options.stop
        self.deadline = self.latest = float("inf")
        self.stood = 0.0
        self.uncompiled = contextlib.ExitStack()
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

    def begin_uncompiled(self) -> None:
        """Run what the room itself uses uncompiled until `compile` has ended, unless it can be loaded."""
        if compiling.lacking(compiling.units(self.room.name, [], self.incumbent.problem)):
            self.uncompiled.enter_context(jit.uncompiled())

    def compile(self, methods: list[str], uncompiled: Callable[[Tick], None] | None = None) -> bool:
        """Have compiled what the room and some methods need, while the clock stands.

        Parameters
        ----------
        uncompiled
            Runs the methods meanwhile, and calls what it is given several times a second.

        Returns
        -------
        bool
            Whether that has ended by itself, so that nothing need be compiled.
        """
        needed = compiling.lacking(compiling.units(self.room.name, methods, self.incumbent.problem))
        if not needed:
            self.uncompiled.close()
            return False
        began = time.monotonic()
        tell = self.options.on_compile or (lambda _text: None)
        answered = False
        try:
            if uncompiled is not None:
                answered = run_uncompiled(uncompiled, needed, tell, self._on_tick)
                answered = answered and self._has_ended(methods)
            if not answered:
                compiling.ensure(needed, tell, self._look_for_stop)
                self.uncompiled.close()
        finally:
            # What has been answered in the time that there was has taken that time.
            self.let_clock_stand(time.monotonic() - (max(began, self.deadline) if answered else began))
        return answered

    def _has_ended(self, methods: list[str]) -> bool:
        """Whether methods that have ended uncompiled have nothing more to find.

        A search that has given up, or an improver whose time was up, finds more when it is compiled.
        """
        room = self.room.name
        constructive = all(
            name == CONSTRUCT or (catalogue.constructs(room, name) and not proves(room, name))
            for name in methods
        )
        return self.incumbent.closed or constructive

    def let_clock_stand(self, seconds: float) -> None:
        """Let some seconds count for nothing."""
        stood = max(0.0, seconds)
        self.stood += stood
        self.incumbent.let_clock_stand(stood)
        self.deadline += stood
        self.latest += stood

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
            from tilewright.run.workers import supervisor  # for start-up time, as in `_work`

            self._asked = supervisor.IDLE.asked(self.room.name, method)
            return
        if not self._has_many_parts:
            return
        if method == "auto":
            method = self.room.portfolio(self.incumbent.problem).proving or method
        if isinstance(method, str) and catalogue.in_process(self.room.name, method):
            from tilewright.run.workers import supervisor  # for start-up time, as in `_work`

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
            from tilewright.run.workers import supervisor  # for start-up time, as in `_work`

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
        stood = self.stood
        divided = alike(methods, self.threads)
        if self.compile(methods, lambda tick: self._work_uncompiled(divided, start, tick)):
            return
        deadline = self.deadline if until is None else min(until + self.stood - stood, self.deadline)
        if here and len(methods) == 1 and self.try_here(methods[0], start, deadline):
            return
        self._work(self._jobs(divided, start, deadline), deadline)

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
        self.alone = False
        stood = self.stood
        divided = alike([CONSTRUCT], self.threads)
        if self.incumbent.closed or self.compile(
            [CONSTRUCT], lambda tick: self._work_uncompiled(divided, None, tick)
        ):
            return
        until, latest = until + self.stood - stood, latest + self.stood - stood

        def look() -> None:
            self._on_tick()
            if time.monotonic() >= until and self.incumbent.plan is not None:
                raise Enough

        latest = min(latest, self.deadline)
        with contextlib.suppress(Enough):
            self._work(self._jobs(divided, None, latest), latest, on_tick=look)

    def portfolio(self, parts: Portfolio, start: Any) -> None:
        """Run the parts of ``auto`` until they end, time is up, or plan and bound meet; see `shares`."""
        self.optional, self.alone, self.chooses = True, False, parts.chooses
        incumbent = self.incumbent
        if incumbent.closed and not self.chooses:
            return
        if self.compile(
            list(parts.methods),
            lambda tick: self._divide(parts, start, uncompiled_deadline(), tick, uncompiled=True),
        ):
            return
        if parts.proving is not None and self.try_here(parts.proving, start, self.deadline):
            if incumbent.closed:
                return
            parts, self.chooses = replace(parts, proving=None), False
        self._divide(parts, start, self.deadline)

    def _divide(
        self,
        parts: Portfolio,
        start: Any,
        deadline: float,
        on_tick: Tick | None = None,
        *,
        uncompiled: bool = False,
    ) -> None:
        """Run the parts of ``auto`` in workers."""
        incumbent = self.incumbent

        def jobs(shares: list[Share]) -> list[dict[str, Any]]:
            return self._jobs(shares, incumbent.plan or start, deadline, uncompiled=uncompiled)

        def next_jobs(ended: dict[str, Any]) -> list[dict[str, Any]]:
            return jobs(successors(parts, Share(ended["method"], ended["threads"]), self.threads))

        divided = shares(parts, self.threads)
        self.alone = parts.alone and parts.proving is not None
        in_turns = len(divided) > self.threads
        self._work(jobs(divided), deadline, on_tick, successors=next_jobs, in_turns=in_turns)

    def _work(
        self,
        jobs: list[dict[str, Any]],
        deadline: float,
        on_tick: Tick | None = None,
        **how: Any,
    ) -> None:
        """Let workers do jobs, as `supervisor.run` says."""
        if deadline > time.monotonic():
            # For start-up time: many searches need no process, and so none of what starting one imports.
            from tilewright.run.workers import supervisor

            for job in jobs:
                self.phases.tell(job["number"], "starting")
                self.begun |= set() if job["only_look"] else {job["method"]}
            try:
                supervisor.run(jobs, deadline, self._on_event, on_tick or self._on_tick, **how)
            finally:
                self.phases.end_all()

    def _work_uncompiled(self, shares: list[Share], start: Any, on_tick: Tick) -> None:
        deadline = uncompiled_deadline()
        self._work(self._jobs(shares, start, deadline, uncompiled=True), deadline, on_tick)

    def _jobs(
        self, shares: list[Share], start: Any, deadline: float, *, uncompiled: bool = False
    ) -> list[dict[str, Any]]:
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
                "uncompiled": uncompiled,
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
        name = name_of(method)
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
            on_unproven=self.incumbent.leave_open,
            on_failure=self.failures.append,
            on_phase=lambda phase, at=None: self.phases.tell("here", phase, at),
        )

    def _on_event(self, job: dict[str, Any], event: dict[str, Any]) -> bool:
        """Take what a worker says; return whether that is enough."""
        incumbent, method = self.incumbent, job["method"]
        kind = event["event"]
        if kind in ("error", "outcome"):
            self.phases.tell(job["number"], None)
        if job["uncompiled"] and kind == "error":
            raise Compiled  # which may go better: there, integers have no end
        if kind == "plan":
            plan = self.room.plan_type.from_json(event["plan"])
            incumbent.offer(plan, proven=proves(self.room.name, method))
        elif kind == "unproven":
            incumbent.leave_open()
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
        if outcome.status == "optimal" and is_trusted(self.room.name, method):
            self.incumbent.prove_in_turn()
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
            raise Interrupted

    def _on_tick(self) -> None:
        self._look_for_stop()
        now = time.monotonic()
        progress = self.options.progress
        if progress is not None and now - self._last > 0.2:
            self._last = now
            progress(now - self.incumbent.started, self.incumbent.objective, self.incumbent.bound)
