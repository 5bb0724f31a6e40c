"""Start worker processes, listen to them, and stop them: on time, on Ctrl-C, always.

A worker that has ended its job by itself is kept for the next one, since starting a process and importing
what a method needs takes longer than many a search. Whatever is stopped before its end is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

from tilewright import drivers
from tilewright.core import catalogue
from tilewright.core.kernel_cache import TEMPORARY
from tilewright.run.workers import processes
from tilewright.run.workers.processes import environment, kill_marked, resume_marked, suspend_marked
from tilewright.run.workers.turns import Turns
from tilewright.spec.errors import Disagreement, SolverBrokenError

Event = dict[str, Any]

MOST_IDLE = 2
"""Workers that are kept for later jobs, unless more are asked for."""

ENDING_SECONDS = 0.2
"""How long a worker whose event was enough may take to end its job, after which it can be used again."""

PREPARING_SECONDS = 60.0
"""How long a worker may take to import what it is told to."""


class Worker:
    """A process that runs methods, in a session of its own, so that Ctrl-C reaches the parent alone.

    Parameters
    ----------
    state
        Of the files that it may have imported (`_state`): a worker that has old ones is not used again.
    """

    def __init__(self, state: object) -> None:
        self.state = state
        self.job: dict[str, Any] = {}
        self.ended = False
        self.gone = False
        self.asked: set[str] = set()
        self.ready: dict[str, str | None] = {}
        self._buffer = b""
        # Solvers leave files behind when they are killed.
        self._scratch = tempfile.TemporaryDirectory(prefix="tilewright-", ignore_cleanup_errors=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tilewright.run.workers.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment() | {"TMPDIR": self._scratch.name, TEMPORARY: tempfile.gettempdir()},
            start_new_session=True,
        )
        assert (
            self.process.stdin is not None
            and self.process.stdout is not None
            and self.process.stderr is not None
        )
        os.set_blocking(self.process.stdout.fileno(), False)
        os.set_blocking(self.process.stderr.fileno(), False)
        self._said = b""

    @property
    def folder(self) -> str:
        """The folder that marks the worker's processes."""
        return self._scratch.name

    def begin(self, job: dict[str, Any]) -> None:
        """Hand over a job."""
        self.job, self.ended, self._said = job, False, b""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()

    def prepare(self, room: str, method: str, *, kernels: bool = False) -> None:
        """Let the worker import what a method needs, which it does before the next job."""
        self.asked.add(method)
        self.ready.pop(method, None)
        assert self.process.stdin is not None
        line = json.dumps({"room": room, "method": method, "kernels": kernels})
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()

    def prepared(self, seconds: float = 0.0) -> bool:
        """Wait for as long until all that was to be prepared is, or the process is gone.

        `ready` then says of each method which solver is missing, or None.
        """
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self, selectors.EVENT_READ)
            while not self.asked <= set(self.ready):
                if selector.select(max(0.0, until - time.monotonic())):
                    self.events()
                elif time.monotonic() >= until:
                    return False
                if self.gone:  # whoever begins a job in it is told
                    return True
        return True

    def fileno(self) -> int:
        """Return the descriptor on which events arrive."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def events(self) -> list[Event]:
        """Return the events that have arrived; if the process is gone before its job's end, an error."""
        while True:
            try:
                chunk = os.read(self.fileno(), 1 << 20)
            except BlockingIOError:
                break
            if not chunk:
                self.gone = True
                break
            self._buffer += chunk
        *lines, self._buffer = self._buffer.split(b"\n")
        told = [json.loads(line) for line in lines]
        self.ready |= {event["method"]: event["missing"] for event in told if event["event"] == "ready"}
        found = [event for event in told if event["event"] != "ready"]
        self.ended = self.ended or any(event["event"] in ("outcome", "error") for event in found)
        if self.gone and not self.ended:
            self.listen()
            said = self._said.decode(errors="replace").strip().splitlines()
            reason = said[-1] if said else f"exit status {self.process.wait()}"
            method = self.job.get("method", "a worker")
            status = (SolverBrokenError if "@" in method else Disagreement).exit_status
            message = f"{method} failed: {reason}"
            found.append({"event": "error", "message": message, "exit_status": status, "died": True})
            self.ended = True
        return found

    def let_end(self, seconds: float) -> None:
        """Wait for as long until the job has ended; what it tells until then is not wanted."""
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self, selectors.EVENT_READ)
            while not self.ended and (left := until - time.monotonic()) > 0:
                selector.select(left)
                self.events()

    def listen(self) -> None:
        """Keep the end of what the worker prints, and keep its pipe from filling up."""
        assert self.process.stderr is not None
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.process.stderr.fileno(), 1 << 16):
                self._said = (self._said + chunk)[-4000:]

    def suspend(self) -> None:
        """Let the worker and all that it has started rest."""
        self.process.send_signal(signal.SIGSTOP)
        if _spawns(self.job["method"]):
            suspend_marked(self.folder)

    def resume(self) -> None:
        """Let the worker and all that it has started go on."""
        self.process.send_signal(signal.SIGCONT)
        if _spawns(self.job["method"]):
            resume_marked(self.folder)

    def stop(self) -> None:
        """Kill the worker and all that it has started."""
        self.process.kill()  # first, so that it starts no more
        kill_marked(self._scratch.name)
        processes.kill(self.process)
        self._scratch.cleanup()


class _IdleWorkers:
    """Workers that wait for a job; they are killed when this process ends.

    Attributes
    ----------
    most
        How many are kept.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Worker] = []
        self.most = MOST_IDLE

    def take(self, state: object) -> Worker:
        """Return a worker that waits and has imported nothing else, or a new one."""
        while True:
            with self._lock:
                fitting = [worker for worker in self._waiting if worker.state == state]
                if not fitting:
                    break
                self._waiting.remove(fitting[-1])
            if fitting[-1].process.poll() is None:
                return fitting[-1]
            fitting[-1].stop()
        return Worker(state)

    def keep(self, worker: Worker) -> None:
        """Keep a worker whose job has ended; where enough wait, stop the one that has waited longest."""
        with self._lock:
            self._waiting.append(worker)
            surplus = self._waiting.pop(0) if len(self._waiting) > self.most else None
        if surplus is not None:
            surplus.stop()

    def stop(self) -> None:
        """Stop them all."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for worker in waiting:
            worker.stop()

    def prepare(self, room: str, method: str) -> None:
        """Start a worker for a method that is sure to be run in one, unless there is one that waits."""
        state = _state(room, method)
        with self._lock:
            waits = any(worker.state == state for worker in self._waiting)
        if not waits:
            worker = Worker(state)
            worker.prepare(room, method)
            self.keep(worker)

    def asked(self, room: str, method: str) -> Worker:
        """Return a worker, of which nobody else knows, that imports what a method needs."""
        worker = self.take(_state(room, method))
        worker.prepare(room, method)
        return worker

    def warm(self, room: str, methods: list[str], many: int, stop: threading.Event | None = None) -> None:
        """Have as many workers wait that have imported and loaded what methods need.

        Returns when they have, or `stop` is set. What goes wrong shows when a method is run.
        """
        states: dict[str, list[str]] = {}
        for method in methods:
            states.setdefault(_solver(method), []).append(method)
        taken: list[Worker] = []
        try:
            for own in states.values():
                for _ in range(many):
                    taken.append(self.take(_state(room, own[0])))
                    for method in own:
                        taken[-1].prepare(room, method, kernels=True)
            until = time.monotonic() + PREPARING_SECONDS
            for worker in taken:
                while not (worker.prepared(0.1) or time.monotonic() > until):
                    if stop is not None and stop.is_set():
                        return
        finally:
            for worker in taken:
                self.keep(worker)


IDLE = _IdleWorkers()
atexit.register(IDLE.stop)


def _state(room: str, method: str) -> object:
    """Return what a worker's imports depend on: environment, solver, and the room's methods as they are now.

    A method may import what cannot share a process with a solver, as some OR-tools and HiGHS cannot.
    """
    files = [
        path
        for kind in ("models", "heuristics")
        for folder in catalogue.folders(kind, room)
        for path in sorted(folder.iterdir())
        if path.is_file()  # Python's folder of compiled modules changes whenever one is imported first
    ]
    files += drivers.files()
    modified = [(str(path), path.stat().st_mtime_ns) for path in files]
    return os.getcwd(), dict(os.environ), _solver(method), modified


def _solver(method: str) -> str:
    """Return the solver that a method names, or an empty string."""
    return method.partition("@")[2]


def _reusable(worker: Worker) -> bool:
    """Whether a worker has ended its job and left nothing behind: processes of a solver, a low priority."""
    left = worker.job["uncompiled"] or _spawns(worker.job["method"])
    return worker.ended and worker.process.poll() is None and not left


def _spawns(method: str) -> bool:
    """Whether a method's solver runs in processes of its own."""
    solver = _solver(method)
    return bool(solver) and drivers.find(solver).spawns


def run(
    jobs: list[dict[str, Any]],
    deadline: float,
    on_event: Callable[[dict[str, Any], Event], bool],
    on_tick: Callable[[], None],
    *,
    successors: Callable[[dict[str, Any]], list[dict[str, Any]]] = lambda _job: [],
    in_turns: bool = False,
) -> None:
    """Run jobs side by side until all end, the deadline passes, or `on_event` says that it is enough.

    Parameters
    ----------
    jobs
        What `tilewright.run.workers.worker` takes.
    deadline
        ``time.monotonic()`` at which the workers are killed.
    on_event
        Called with a job and one of its events; returns whether to stop them all.
    on_tick
        Called several times a second; raises to stop everything.
    successors
        Called with a job that has ended by itself; returns the jobs that begin in its place.
    in_turns
        Whether only one works at a time, as `Turns` says, rather than all.
    """
    workers: list[Worker] = []
    try:
        with selectors.DefaultSelector() as selector:
            _begin(jobs, workers, selector, in_turns)
            turns = Turns(workers, time.monotonic(), deadline) if in_turns else None
            while selector.get_map():
                wait = deadline - time.monotonic()
                if wait <= 0:
                    for worker in workers:
                        for event in worker.events():
                            on_event(worker.job, event)
                    return
                for key, _ in selector.select(min(wait, 0.1)):
                    worker = key.data
                    for event in worker.events():
                        if on_event(worker.job, event):
                            worker.let_end(min(ENDING_SECONDS, deadline - time.monotonic()))
                            return
                    if worker.ended:
                        selector.unregister(worker)
                        _begin(successors(worker.job), workers, selector)
                for worker in workers:
                    worker.listen()
                if turns is not None:
                    turns.look(time.monotonic())
                on_tick()
    finally:
        for worker in workers:
            if _reusable(worker):
                worker.resume()
                IDLE.keep(worker)
            else:
                worker.stop()


def _begin(
    jobs: list[dict[str, Any]],
    workers: list[Worker],
    selector: selectors.BaseSelector,
    in_turns: bool = False,
) -> None:
    """Hand jobs to workers, which are added to a list as soon as they exist; and listen to these."""
    begun = len(workers)
    for job in jobs:
        workers.append(IDLE.take(_state(job["room"], job["method"])))
    folders = [worker.folder for worker in workers] if in_turns else []
    for worker, job in zip(workers[begun:], jobs, strict=True):
        partners = [folder for folder in folders if folder != worker.folder]
        worker.begin(job | {"partners": partners})
        selector.register(worker, selectors.EVENT_READ, worker)
