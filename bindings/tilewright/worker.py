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
from pathlib import Path
from typing import IO, Any

from tilewright import catalogue, drivers
from tilewright.errors import TilewrightError
from tilewright.processes import kill_marked
from tilewright.search import Outcome, Search

CONSTRUCT = "construct"
"""Name of the method that runs every constructive heuristic of the room in turn."""


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
    problem = room.Problem.model_validate_json(json.dumps(job["problem"]))

    def on_plan(plan: Any) -> None:
        _send(events, event="plan", plan=plan.to_json())

    search = Search(
        start=None if job["start"] is None else room.Plan.from_json(job["start"]),
        seed=job["seed"],
        deadline=job["deadline"],  # the clock is the parent's, too
        threads=job["threads"],
        bound=job["bound"],
        on_plan=on_plan,
        on_bound=lambda bound: _send(events, event="bound", bound=bound),
    )
    method = job["method"]
    if method == CONSTRUCT:
        # One that fails, a user's own perhaps, leaves the others their turn.
        def on_failure(name: str, error: Exception) -> None:
            _send(events, event="failure", message=f"{name} failed: {type(error).__name__}: {error}")

        for module in catalogue.constructive(job["room"], on_failure):
            try:
                on_plan(module.plan(problem))
            except Exception as error:
                on_failure(module.__name__.rpartition(".")[2], error)
        return Outcome("feasible")
    if "@" in method:
        name, solver = method.split("@")
        driver = drivers.load(solver)
        _send(events, event="started", versions=driver.versions())
        outcome: Outcome = driver.solve(problem, catalogue.formulation(job["room"], name), search)
        return outcome
    module = catalogue.heuristic(job["room"], method)
    plan = module.plan(problem, search) if catalogue.searches(module) else module.plan(problem)
    on_plan(plan)
    return Outcome("feasible", plan)


if __name__ == "__main__":
    main()
