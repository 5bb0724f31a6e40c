"""The process that runs methods: jobs in, events out, and no way to outlive its parent.

Solvers and compiled searches run in here, so that a deadline, Ctrl-C or a crash of theirs never takes
the command down. The parent writes a job as one JSON line to standard input, and reads events as JSON lines
from standard output until one says how the job ended; then it may write the next job. A line without a
problem lets the worker import what a method needs; the answer says whether its solver is installed. Standard
input's end means that the parent is gone. Workers that take turns with this one may be suspended and notice
nothing, so this one ends them, too: the job says in which folders their processes are.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import shutil
import signal
import threading
import time
from dataclasses import asdict
from typing import IO, Any

from tilewright.core import catalogue, jit
from tilewright.core.context import RunContext
from tilewright.run.methods import Listener, look_at, run_method
from tilewright.run.workers.processes import kill_marked
from tilewright.run.workers.warming import prepare
from tilewright.spec.errors import SolverMissingError, TilewrightError

UNCOMPILED_NICENESS = 10
"""How much a worker that runs uncompiled gives way to others; it is not used again."""

SELDOM = 50_000, 50, 100
"""When garbage is looked for: searches make millions of objects that stay, and few cycles."""


def main() -> None:
    """Run the jobs that come from standard input, one after the other."""
    gc.set_threshold(*SELDOM)
    # Solvers print where they like; events have a channel of their own.
    events = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read_jobs, args=(jobs,), daemon=True).start()
    while True:
        job = json.loads(jobs.get())
        if "problem" in job:
            _work(job, events)
        else:
            _prepare(job, events)


def _read_jobs(jobs: queue.SimpleQueue[str]) -> None:
    """Hand jobs on while the method before may still run, so that the parent's end is noticed at once."""
    # The raw descriptor: a buffered reader's lock would be held at interpreter exit.
    unread = b""
    suspended: list[str] = []
    while chunk := os.read(0, 1 << 16):
        *lines, unread = (unread + chunk).split(b"\n")
        for line in lines:
            suspended = json.loads(line).get("partners", [])
            jobs.put(line.decode())
    for folder in (*suspended, os.environ.get("TMPDIR", "")):
        kill_marked(folder, but=os.getpid())
        shutil.rmtree(folder, ignore_errors=True)
    os.kill(os.getpid(), signal.SIGKILL)


def _prepare(job: dict[str, Any], events: IO[str]) -> None:
    """Import what a method of a room needs; what goes wrong, but for its solver, shows with the job."""
    missing = None
    try:
        prepare(job["room"], job["method"], kernels=job["kernels"])
    except SolverMissingError as error:
        missing = str(error)
    except (Exception, SystemExit):
        pass
    _send(events, event="ready", method=job["method"], missing=missing)


def _work(job: dict[str, Any], events: IO[str]) -> None:
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


def _run(job: dict[str, Any], events: IO[str]) -> Any:
    """Run the job's method and report what it finds as it finds it."""
    room = catalogue.room(job["room"])
    problem = room.problem_type.model_validate_json(json.dumps(job["problem"]))
    context = RunContext(
        start=None if job["start"] is None else room.plan_type.from_json(job["start"]),
        seed=job["seed"],
        deadline=job["deadline"],  # the clock is the parent's, too
        threads=job["threads"],
        bound=job["bound"],
        part_bounds=tuple(job["part_bounds"]),
        remember=job["remember"],
        on_plan=lambda plan: _send(events, event="plan", plan=plan.to_json()),
        on_bound=lambda bound, grounds=None: _send(events, event="bound", bound=bound, grounds=grounds),
        on_unproven=lambda: _send(events, event="unproven"),
        on_failure=lambda message: _send(events, event="failure", message=message),
        on_phase=lambda phase, at=None: _send(
            events, event="phase", phase=phase, at=time.monotonic() if at is None else at
        ),
    )
    listener = Listener(
        on_versions=lambda versions: _send(events, event="started", versions=versions),
        on_part=lambda part: _send(events, event="part", **asdict(part)),
    )
    run = look_at if job["only_look"] else run_method
    if not job["uncompiled"]:
        return run(job["method"], problem, context, listener)
    os.nice(UNCOMPILED_NICENESS)  # compiling comes first
    with jit.uncompiled():
        return run(job["method"], problem, context, listener)


_sending = threading.Lock()
"""Held while an event is written: several threads may have one to send."""


def _send(events: IO[str], **message: Any) -> None:
    line = json.dumps(message) + "\n"
    try:
        with _sending:
            events.write(line)
            events.flush()
    except BrokenPipeError:  # the parent is gone: `_read_jobs` ends all that waits, and then this process
        threading.Event().wait()


if __name__ == "__main__":
    main()
