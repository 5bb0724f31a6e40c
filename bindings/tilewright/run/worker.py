"""The process that runs one method: a job in, events out, and no way to outlive its parent.

Solvers and compiled searches run in here, so that a deadline, Ctrl-C or a crash of theirs never takes
the command down. The parent writes a job as one JSON line to standard input and keeps it open; it reads
events as JSON lines from standard output. Standard input's end means that the parent is gone.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from tilewright import drivers
from tilewright.core import catalogue
from tilewright.core.context import CONSTRUCT, Outcome, RunContext, Status
from tilewright.core.room import Room
from tilewright.run.processes import kill_marked
from tilewright.spec.errors import InputError, TilewrightError


def main() -> None:
    """Run the job that stands on standard input."""
    # Solvers print where they like; events have a channel of their own.
    events = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    job = json.loads(sys.stdin.readline())
    _find_room_for_compiled_code()
    threading.Thread(target=_die_with_parent, daemon=True).start()
    try:
        outcome = _run(job, events)
        _send(
            events,
            event="outcome",
            status=outcome.status,
            bound=outcome.bound,
            warm_start=outcome.warm_start,
            versions=outcome.versions,
        )
    except TilewrightError as error:
        _send(events, event="error", message=str(error), exit_status=error.exit_status)
    except MemoryError:
        _send(events, event="error", message="out of memory", exit_status=2)


def _find_room_for_compiled_code() -> None:
    """Where neither the package's folder nor a home can be written to, numba caches in the temporary one."""
    places = [*catalogue.folders("heuristics", catalogue.ROOMS[0]), Path.home()]
    if not any(os.access(place, os.W_OK) for place in places):
        os.environ.setdefault("NUMBA_CACHE_DIR", os.environ.get("TMPDIR", "/tmp"))


def _die_with_parent() -> None:
    # The raw descriptor: a buffered reader's lock would be held at interpreter exit.
    while os.read(0, 1024):
        pass
    kill_marked(os.environ.get("TMPDIR", ""), but=os.getpid())
    shutil.rmtree(os.environ.get("TMPDIR", ""), ignore_errors=True)
    os.kill(os.getpid(), signal.SIGKILL)


def _send(events: IO[str], **message: Any) -> None:
    events.write(json.dumps(message) + "\n")
    events.flush()


def _run(job: dict[str, Any], events: IO[str]) -> Outcome:
    """Run the job's method and report what it finds as it finds it."""
    room = catalogue.room(job["room"])
    problem = room.problem_type.model_validate_json(json.dumps(job["problem"]))
    search = RunContext(
        start=None if job["start"] is None else room.plan_type.from_json(job["start"]),
        seed=job["seed"],
        deadline=job["deadline"],  # the clock is the parent's, too
        threads=job["threads"],
        bound=job["bound"],
        on_plan=lambda plan: _send(events, event="plan", plan=plan.to_json()),
        on_bound=lambda bound, grounds=None: _send(events, event="bound", bound=bound, grounds=grounds),
    )
    parts = room.parts(problem)
    if parts[0][1] is problem:
        return _run_method(job, events, problem, search)
    proves = job["method"] in catalogue.exact_methods(job["room"]) or "@" in job["method"]
    network = _Parts(room, parts, search, proves)
    outcome = network.run(lambda part, share: _run_method(job, events, part, share))
    if proves and outcome.status == "unknown":
        # What was proven of some layers is not lost because others got no plan.
        network.complete(lambda part, share: _run_method(job | {"method": CONSTRUCT}, events, part, share))
    return outcome


class _Parts:
    """The layers of a network, one after the other, equal ones once; their plans make the network's."""

    def __init__(
        self, room: Room[Any, Any], parts: Sequence[tuple[str, Any]], search: RunContext, proves: bool
    ) -> None:
        self.room, self.search, self.proves = room, search, proves
        self.sequence = [id(part) for _, part in parts]
        self.distinct = {id(part): part for _, part in parts}
        starts = [None] * len(parts) if search.start is None else search.start.split()
        self.plans = dict(zip(self.sequence, starts, strict=True))
        self.costs = {
            key: None if plan is None else room.objective(self.distinct[key], plan)
            for key, plan in self.plans.items()
        }
        self.bounds = {key: room.best_bound(part).value for key, part in self.distinct.items()}

    def run(self, method: Callable[[Any, RunContext], Outcome]) -> Outcome:
        """Run a method on every distinct layer, each with its share of the time that is left."""
        outcomes = []
        for number, (key, part) in enumerate(self.distinct.items()):
            share = self.search.remaining() / (len(self.distinct) - number)
            search = replace(
                self.search,
                start=self.plans[key],
                deadline=min(self.search.deadline, time.monotonic() + share),
                bound=self.bounds[key],
                on_plan=partial(self._found, key),
                on_bound=partial(self._proved, key),
            )
            outcome = method(part, search)
            if outcome.bound is not None:
                self._proved(key, outcome.bound)
            outcomes.append(outcome)
            if outcome.status == "infeasible":
                break
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

    def complete(self, method: Callable[[Any, RunContext], Outcome]) -> None:
        """Run another method on the layers that have no plan."""
        for key, part in self.distinct.items():
            if self.plans[key] is None:
                method(part, replace(self.search, start=None, on_plan=partial(self._found, key)))

    def _found(self, key: int, plan: Any) -> None:
        part, known = self.distinct[key], self.costs[key]
        if self.room.violation(part, plan) is not None:
            return
        cost = self.room.objective(part, plan)
        if known is None or cost < known or (self.proves and cost == known):
            self.plans[key], self.costs[key] = plan, cost
            if all(plan is not None for plan in self.plans.values()):
                self.search.on_plan(self.room.plan_type.joined([self.plans[k] for k in self.sequence]))

    def _proved(self, key: int, bound: int, _grounds: str | None = None) -> None:
        if bound > self.bounds[key]:
            self.bounds[key] = bound
            self.search.on_bound(sum(self.bounds[k] for k in self.sequence))


def _run_method(job: dict[str, Any], events: IO[str], problem: Any, search: RunContext) -> Outcome:
    """Run the job's method on a problem, or on one layer of it."""
    method = job["method"]
    if method == CONSTRUCT:
        # One that fails, a user's own perhaps, leaves the others their turn.
        def on_failure(name: str, error: Exception) -> None:
            _send(events, event="failure", message=f"{name} failed: {type(error).__name__}: {error}")

        for module in catalogue.constructive(job["room"], on_failure):
            if not catalogue.suits(module, problem):
                continue
            try:
                search.on_plan(module.plan(problem))
            except Exception as error:
                on_failure(module.__name__.rpartition(".")[2], error)
        return Outcome("feasible")
    if "@" in method:
        name, solver = method.split("@")
        driver = drivers.load(solver)
        _send(events, event="started", versions=driver.versions())
        formulation = catalogue.formulation(job["room"], name)
        _refuse_unsuited(formulation, method, problem)
        outcome: Outcome = driver.solve(problem, formulation, search)
        return outcome
    if method in catalogue.exact_methods(job["room"]):
        exact = catalogue.formulation(job["room"], method)
        _refuse_unsuited(exact, method, problem)
        proven: Outcome = exact.solve(problem, search)  # type: ignore[union-attr]
        return proven
    module = catalogue.heuristic(job["room"], method)
    _refuse_unsuited(module, method, problem)
    plan = module.plan(problem, search) if catalogue.searches(module) else module.plan(problem)
    search.on_plan(plan)
    return Outcome("feasible", plan)


def _refuse_unsuited(chosen: ModuleType | Path, method: str, problem: Any) -> None:
    if not catalogue.suits(chosen, problem):
        raise InputError("method", method, "does not take this kind of machine or objective, or one so large")


if __name__ == "__main__":
    main()
