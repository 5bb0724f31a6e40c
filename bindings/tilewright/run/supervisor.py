"""Start worker processes, listen to them, and stop them: on time, on Ctrl-C, always."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from tilewright.core.locations import PACKAGE
from tilewright.run.processes import kill_marked

Event = dict[str, Any]


class Worker:
    """One running method, in a session of its own, so that Ctrl-C reaches the parent alone."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.done = False
        self._buffer = b""
        # Solvers leave files behind when they are killed.
        self._scratch = tempfile.TemporaryDirectory(prefix="tilewright-", ignore_cleanup_errors=True)
        path = os.pathsep.join([str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tilewright.run.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path.strip(os.pathsep), "TMPDIR": self._scratch.name},
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
        self._ended = False
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()

    def fileno(self) -> int:
        """Return the descriptor on which events arrive."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def events(self) -> list[Event]:
        """Return the events that have arrived; at the worker's end, an error unless it gave an outcome."""
        while True:
            try:
                chunk = os.read(self.fileno(), 1 << 20)
            except BlockingIOError:
                break
            if not chunk:
                self.done = True
                break
            self._buffer += chunk
        *lines, self._buffer = self._buffer.split(b"\n")
        found = [json.loads(line) for line in lines]
        self._ended = self._ended or any(event["event"] in ("outcome", "error") for event in found)
        if self.done and not self._ended:
            self.listen()
            said = self._said.decode(errors="replace").strip().splitlines()
            reason = said[-1] if said else f"exit status {self.process.wait()}"
            found.append(
                {"event": "error", "message": f"{self.job['method']} failed: {reason}", "exit_status": 2}
            )
        return found

    def listen(self) -> None:
        """Keep the end of what the worker prints, and keep its pipe from filling up."""
        assert self.process.stderr is not None
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.process.stderr.fileno(), 1 << 16):
                self._said = (self._said + chunk)[-4000:]

    def stop(self) -> None:
        """Kill the worker and all that it has started."""
        self.process.kill()
        kill_marked(self._scratch.name)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._scratch.cleanup()


def run(
    jobs: list[dict[str, Any]],
    deadline: float,
    on_event: Callable[[dict[str, Any], Event], bool],
    on_tick: Callable[[], None],
) -> None:
    """Run jobs side by side until all end, the deadline passes, or `on_event` says that it is enough.

    Parameters
    ----------
    jobs
        What `tilewright.run.worker` takes.
    deadline
        ``time.monotonic()`` at which the workers are killed.
    on_event
        Called with a job and one of its events; returns whether to stop them all.
    on_tick
        Called several times a second; raises to stop everything.
    """
    workers: list[Worker] = []
    try:
        workers.extend(Worker(job) for job in jobs)
        with selectors.DefaultSelector() as selector:
            for worker in workers:
                selector.register(worker, selectors.EVENT_READ, worker)
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
                            return
                    if worker.done:
                        selector.unregister(worker)
                for worker in workers:
                    worker.listen()
                on_tick()
    finally:
        for worker in workers:
            worker.stop()
