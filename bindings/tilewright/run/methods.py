"""Methods: which there are, and how one is run on a problem, in this process or in a worker's.

A method is a heuristic's name, the name of an exact search, or ``MODEL@SOLVER``.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from tilewright import drivers
from tilewright.core import catalogue
from tilewright.core.context import CONSTRUCT, Outcome, RunContext, Status
from tilewright.core.cutoffs import of_model
from tilewright.core.failures import told
from tilewright.core.lists import solve_in_turn
from tilewright.core.locations import PACKAGE, package_path
from tilewright.core.room import Room, room_of
from tilewright.core.stated import must_hold, refuse_unstated, unstated
from tilewright.drivers.neighbourhoods import improve
from tilewright.run.solving.remembering import Memory
from tilewright.spec.errors import (
    Disagreement,
    InputError,
    OutOfTimeError,
    SolverBrokenError,
    TilewrightError,
    UnknownNameError,
)


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
    formulation = catalogue.model(room, name)
    if not _takes(solver, formulation):
        raise UnknownNameError(f"solver for the model {name}", solver, suited_solvers(formulation))


def _takes(solver: str, formulation: Path) -> bool:
    """Whether a solver, installed or not, takes a formulation."""
    if catalogue.solves_itself(formulation):
        return False
    try:
        driver = drivers.find(solver)
    except UnknownNameError:
        return False
    # A driver that does not say what it takes is told so when it is loaded.
    return driver.takes in (catalogue.written_for(formulation), "")


def suited_solvers(formulation: Path) -> list[str]:
    """Names of the solvers that take a formulation; none takes one that solves itself.

    ``minizinc:SOLVER`` and ``pyomo:SOLVER`` stand for all that MiniZinc and Pyomo know.
    """
    return [] if catalogue.solves_itself(formulation) else drivers.names(catalogue.written_for(formulation))


def is_method(room: str, method: str) -> bool:
    """Whether there is such a method, as far as can be told without its solver."""
    try:
        check_method(room, method)
    except UnknownNameError:
        return False
    return True


def is_trusted(room: str, method: str) -> bool:
    """Whether a method's proofs are ours to answer for.

    They are not where a solver proves that nobody tests, or a formulation or search of the user's own.
    """
    name, at, solver = method.partition("@")
    try:
        ours = catalogue.bundled(catalogue.model(room, name))
        return ours and (not at or drivers.find(solver).tested)
    except UnknownNameError:
        return False


def is_narrow(room: str, method: str) -> bool:
    """Whether a method may solve a narrower problem than it is given, as a model of the user's own may."""
    name, at, _ = method.partition("@")
    return bool(at) and not catalogue.bundled(catalogue.model(room, name))


def methods(room: str) -> list[str]:
    """Every method of a room, as `solve` takes them, but for solvers that MiniZinc and Pyomo know."""
    formulations = [
        f"{path.stem}@{driver.name}"
        for driver in drivers.known()
        for path in catalogue.models(room)
        if driver.takes == catalogue.written_for(path) and not catalogue.solves_itself(path)
    ]
    return ["auto", *catalogue.heuristics(room), *catalogue.exact_methods(room), *formulations]


def proves(room: str, method: str) -> bool:
    """Whether a method proves bounds, and its plans valid, rather than choosing without proof."""
    return "@" in method or method in catalogue.exact_methods(room)


def takes_start(room: str, method: str) -> bool:
    """Whether a method begins with a plan that is known, if there is one."""
    return proves(room, method) or catalogue.searches(catalogue.heuristic(room, method))


@dataclass(frozen=True)
class PartInHand:
    """A part that is being solved, of a problem whose parts are solved one by one.

    Attributes
    ----------
    number, many
        Which of how many different ones it is, from 1.
    name
        Of the first of equal parts.
    ended
        Whether it has just been solved, for now: a part whose time was too short may have another turn.
    objective, bound
        Of the part itself, as far as they are known.
    """

    number: int
    many: int
    name: str
    ended: bool
    objective: int | None
    bound: int | None


def _ignore(*_values: Any) -> None:
    """Take what nobody waits for."""


@dataclass
class Listener:
    """Whom a running method tells what its context does not take.

    Attributes
    ----------
    on_versions
        Called with the versions of the solver, before it begins.
    on_part
        Called when a part is begun and when it has ended.
    """

    on_versions: Callable[[dict[str, str]], None]
    on_part: Callable[[PartInHand], None] = _ignore


def run_method(method: str, problem: Any, context: RunContext, listener: Listener) -> Outcome:
    """Run a method on a problem, or on each of its parts where the room solves them one by one.

    Raises
    ------
    TilewrightError
        Also for whatever else the method raises, with file and line.
    """
    with _errors_told(method):
        return _run_method(method, problem, context, listener)


@contextmanager
def _errors_told(method: str) -> Iterator[None]:
    """Let all that a method raises be an error that is told, with its exit status.

    What does not hold that a program of ours or of the user's own asserts is a contradiction. Of all else,
    what is neither of a formulation nor of a driver of the user's own is of the solver.
    """
    try:
        yield
    except (TilewrightError, MemoryError):
        raise
    except AssertionError as error:
        raise Disagreement(f"{method} failed: {told(error)}") from error
    except Exception as error:  # a user's own file may do anything
        kind = SolverBrokenError if _is_of_solver(method, error) else TilewrightError
        raise kind(f"{method} failed: {told(error)}") from error


def _is_of_solver(method: str, error: Exception) -> bool:
    """Whether an exception comes from a solver, or what it is reached through, while one is at work."""
    _, at, solver = method.partition("@")
    if not at or drivers.find(solver).file is not None:
        return False
    if getattr(error, "location", None) is not None:
        return False  # MiniZinc names a line of a model
    folders = [folder for kind in ("models", "heuristics") for folder in package_path(kind)]
    frames = traceback.extract_tb(error.__traceback__)
    in_driver = any(Path(frame.filename).is_relative_to(PACKAGE / "drivers") for frame in frames)
    return in_driver and not any(
        Path(frame.filename).is_relative_to(folder) for frame in frames for folder in folders
    )


def look_at(method: str, problem: Any, context: RunContext, listener: Listener) -> Outcome:
    """Load a model and its solver and check that it takes a problem, without solving it.

    A model of the user's own is also built, since nobody has tested that it can be.

    Raises
    ------
    TilewrightError
        As `run_method`.
    """
    name, solver = method.split("@", 1)
    room = room_of(problem)
    with _errors_told(method), suppress(OutOfTimeError):
        driver = drivers.load(solver)
        listener.on_versions(driver.versions())
        formulation = catalogue.formulation(room.name, name)
        with of_model(foreign=not catalogue.bundled(formulation), constrained=bool(must_hold(problem))):
            for part in {id(part): part for _, part in room.parts(problem)}.values():
                if room.only_method(part) is None:
                    _refuse_unsuited(formulation, method, part)
                    # A driver of the user's own need not be able to look at a model.
                    first, *_ = catalogue.stages(formulation, part)
                    getattr(driver, "look_at", _ignore)(first, formulation, context)
    return Outcome("unknown")


def _run_method(method: str, problem: Any, context: RunContext, listener: Listener) -> Outcome:
    room = room_of(problem)
    parts = room.parts(problem)
    if parts[0][1] is problem:
        return _run_on_part(method, problem, context, listener)
    proven = proves(room.name, method)
    threads = context.threads if catalogue.side_by_side(room.name, method) else 1
    whole = _Parts(room, parts, context, proven, listener.on_part, threads)
    memory = Memory(context)

    def run(part: Any, share: RunContext) -> Outcome:
        name = room.only_method(part) or method

        def search(part: Any, share: RunContext) -> Outcome:
            return _run_on_part(name, part, share, listener)

        if not (share.remember and proves(room.name, name) and is_trusted(room.name, name)):
            return search(part, share)
        return memory.solve(name, part, share, search)

    outcome = whole.run(run)
    memory.end(whole.found)
    if proven and outcome.status == "unknown":
        # What was proven of some layers is not lost because others got no plan.
        whole.complete(lambda part, share: _run_on_part(CONSTRUCT, part, share, listener))
    return outcome


def _run_on_part(method: str, problem: Any, context: RunContext, listener: Listener) -> Outcome:
    room = room_of(problem).name
    if method == CONSTRUCT:
        return _construct(problem, context)
    if "@" in method:
        name, solver = method.split("@", 1)
        driver = drivers.load(solver)
        listener.on_versions(driver.versions())
        formulation = catalogue.formulation(room, name)
        with of_model(foreign=not catalogue.bundled(formulation), constrained=bool(must_hold(problem))):
            _refuse_unsuited(formulation, method, problem)
            context.on_phase("solving")
            if getattr(problem, "in_turn", False):

                def solve(stage: Any, own: RunContext) -> Outcome:
                    _refuse_unsuited(formulation, method, stage)
                    found: Outcome = driver.solve(stage, formulation, own)
                    return found

                return solve_in_turn(problem, context, solve)
            solved: Outcome = driver.solve(problem, formulation, context)
            return solved
    if method in catalogue.exact_methods(room):
        exact = catalogue.formulation(room, method)
        _refuse_unsuited(exact, method, problem)
        context.on_phase("solving")
        proven: Outcome = exact.solve(problem, context)  # type: ignore[union-attr]
        return proven
    heuristic = catalogue.heuristic(room, method)
    _refuse_unsuited(heuristic, method, problem)
    searches = catalogue.searches(heuristic)
    context.on_phase("solving")
    try:
        improving = replace(context, improve=improve)
        plan = heuristic.plan(problem, improving) if searches else heuristic.plan(problem)
    except OutOfTimeError:
        return Outcome("unknown")
    catalogue.refuse_other_than_plans(plan, room, heuristic)
    context.on_plan(plan)
    return Outcome("feasible", plan)


def _construct(problem: Any, context: RunContext) -> Outcome:
    """Run every constructive heuristic."""
    context.on_phase("constructing")
    for plan in catalogue.constructed(problem, context.on_failure):
        context.on_plan(plan)
    return Outcome("feasible")


def honours(room: str, method: str, problem: Any) -> bool:
    """Whether a method that proves states all constraints of a problem."""
    return not unstated(catalogue.model(room, method.partition("@")[0]), problem)


def _refuse_unsuited(chosen: ModuleType | Path, method: str, problem: Any) -> None:
    room = room_of(problem).name
    if problem.constraints and proves(room, method):
        name = method.partition("@")[0]
        refuse_unstated(catalogue.model(room, name), name, problem)
    if not catalogue.suits(chosen, problem):
        raise InputError("method", method, catalogue.why_not(chosen, problem))


def is_before(room: Room[Any, Any], problem: Any, plan: Any, other: Any, proven: bool) -> bool:
    """Whether a plan comes before another of equal objective; of equal rank if what proves has found it."""
    own, known = room.rank(problem, plan), room.rank(problem, other)
    return own < known or (proven and own == known)


LEAST_SHARE = 0.01
"""Seconds of a layer's share, on average, for which it is worth to begin again."""


def _impossible(ended: dict[int, Outcome]) -> bool:
    # Other threads end layers meanwhile.
    return any(outcome.status == "infeasible" for outcome in list(ended.values()))


class _Parts:
    """The layers of a network, equal ones once; their plans make the network's.

    Parameters
    ----------
    threads
        How many layers are solved at a time.
    """

    def __init__(
        self,
        room: Room[Any, Any],
        parts: Sequence[tuple[str, Any]],
        context: RunContext,
        proves: bool,
        on_part: Callable[[PartInHand], None] = _ignore,
        threads: int = 1,
    ) -> None:
        self.room, self.context, self.proves, self.on_part = room, context, proves, on_part
        self.threads, self._lock = threads, threading.RLock()
        self.sequence = [id(part) for _, part in parts]
        self.distinct = {id(part): part for _, part in parts}
        self.names = {id(part): name for name, part in reversed(parts)}
        starts = [None] * len(parts) if context.start is None else context.start.split()
        self.plans = dict(zip(self.sequence, starts, strict=True))
        self.costs = {
            key: None if plan is None else room.objective(self.distinct[key], plan)
            for key, plan in self.plans.items()
        }
        self.broken: dict[int, Any] = {}
        """Of each layer, the first plan that breaks a limit."""
        self.bounds = dict(zip(self.sequence, context.part_bounds, strict=False))
        for key, part in self.distinct.items():
            if key not in self.bounds:
                self.bounds[key] = room.best_bound(part).value

    def run(self, method: Callable[[Any, RunContext], Outcome]) -> Outcome:
        """Run a method on every distinct layer, each with its share of the time that is left.

        What other layers leave of their shares goes to those for which theirs was too short.
        """
        ended: dict[int, Outcome] = {}
        short = list(self.distinct)
        while short:
            short = self._run_each(short, method, ended)
            if self.context.remaining() < LEAST_SHARE * len(short) or _impossible(ended):
                break
        outcomes = list(ended.values())
        self._tell_broken()
        statuses = {outcome.status for outcome in outcomes}
        status: Status = "unknown"
        if "infeasible" in statuses:
            status = "infeasible"
        elif all(plan is not None for plan in self.plans.values()):
            status = "optimal" if statuses == {"optimal"} else "feasible"
        versions: dict[str, str] = {}
        for outcome in outcomes:
            versions |= outcome.versions
        started = [outcome.warm_start for outcome in outcomes if outcome.warm_start]
        told = f"{len(started)} of {len(outcomes)} layers: {started[0]}" if started else None
        return Outcome(status, None, None, told, versions)

    def _run_each(
        self, keys: Sequence[int], method: Callable[[Any, RunContext], Outcome], ended: dict[int, Outcome]
    ) -> list[int]:
        """Run a method on some layers, as many at a time as there are threads.

        Returns
        -------
        list of int
            Those whose share of the time was too short.
        """
        short = []

        def run(number: int, key: int) -> None:
            if _impossible(ended):
                return
            share = self.context.remaining() / -(-(len(keys) - number) // self.threads)
            deadline = min(self.context.deadline, time.monotonic() + share)
            outcome = self._run_one(key, method, deadline)
            if key not in ended or ended[key].status != "optimal":
                ended[key] = outcome
            if time.monotonic() >= deadline:  # also for choosing among the best plans
                short.append(key)

        if self.threads == 1:
            for number, key in enumerate(keys):
                run(number, key)
            return short
        from concurrent.futures import ThreadPoolExecutor  # for start-up time

        with ThreadPoolExecutor(self.threads) as pool:
            try:
                for one in [pool.submit(run, number, key) for number, key in enumerate(keys)]:
                    one.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return short

    def _run_one(self, key: int, method: Callable[[Any, RunContext], Outcome], deadline: float) -> Outcome:
        """Run a method on one layer."""
        share_of_it = replace(
            self.context,
            start=self.plans[key],
            deadline=deadline,
            bound=self.bounds[key],
            on_plan=partial(self._found, key),
            on_bound=partial(self._proved, key),
            part_bounds=(),
            threads=1 if self.threads > 1 else self.context.threads,
        )
        self._tell(key, ended=False)
        outcome = method(self.distinct[key], share_of_it)
        if outcome.bound is not None:
            self._proved(key, outcome.bound)
        self._tell(key, ended=True)
        return outcome

    def _tell(self, key: int, *, ended: bool) -> None:
        """Say which layer is in hand."""
        number, many = list(self.distinct).index(key) + 1, len(self.distinct)
        with self._lock:
            known = self.costs[key], self.bounds[key]
            self.on_part(PartInHand(number, many, self.names[key], ended, *known))

    def complete(self, method: Callable[[Any, RunContext], Outcome]) -> None:
        """Run another method on the layers that have no plan."""
        for key, part in self.distinct.items():
            if self.plans[key] is None:
                method(part, replace(self.context, start=None, on_plan=partial(self._found, key)))

    def found(self, part: Any) -> tuple[Any, int | None, int]:
        """Return the plan of a layer, what it costs, and the bound."""
        key = id(part)
        return self.plans[key], self.costs[key], self.bounds[key]

    def _found(self, key: int, plan: Any) -> None:
        part = self.distinct[key]
        violation = self.room.violation(part, plan)
        if violation is not None and self.proves:
            raise Disagreement(f"a solver's plan breaks a limit: {violation}")
        if violation is not None:
            self.broken.setdefault(key, plan)
            return
        cost = self.room.objective(part, plan)
        with self._lock:
            known = self.costs[key]
            before = self.plans[key]
            if (
                known is None
                or cost < known
                or (cost == known and is_before(self.room, part, plan, before, self.proves))
            ):
                self.plans[key], self.costs[key] = plan, cost
                if None not in self.plans.values():
                    self.context.on_plan(self.room.plan_type.joined([self.plans[k] for k in self.sequence]))

    def _tell_broken(self) -> None:
        """Hand on a plan that breaks a limit if there is no other, so that it is told which."""
        plans = {key: self.broken.get(key) if plan is None else plan for key, plan in self.plans.items()}
        if None in self.plans.values() and None not in plans.values():
            self.context.on_plan(self.room.plan_type.joined([plans[key] for key in self.sequence]))

    def _proved(self, key: int, bound: int, _grounds: str | None = None) -> None:
        with self._lock:
            if bound > self.bounds[key]:
                self.bounds[key] = bound
                self.context.on_bound(sum(self.bounds[k] for k in self.sequence))
