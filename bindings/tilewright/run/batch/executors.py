"""Where tasks are done on this machine: in threads of this process, or in processes of their own."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from tilewright.core.failures import debugging
from tilewright.run.batch.tasks import Answer, Executor, OnAnswer, Task, perform
from tilewright.run.workers import compiling, processes
from tilewright.spec.errors import TilewrightError

MOST_DEATHS = 3
"""Processes that a task may take with it before it counts as failed."""


class Threads:
    """Threads of this process: Ctrl-C ends what is in hand with its best plan.

    For tasks that leave the work to processes of their own, as long searches do; short ones share one core.
    """

    def __init__(self, jobs: int = 1, on_compile: compiling.Tell | None = None) -> None:
        self.jobs, self.on_compile = jobs, on_compile

    def run(self, tasks: Sequence[Task], stop: threading.Event, on_answer: OnAnswer) -> None:
        """See `Executor`."""

        def work(task: Task) -> Answer | None:
            return None if stop.is_set() else perform(task, stop, self.on_compile)

        with ThreadPoolExecutor(max_workers=self.jobs) as pool:
            futures = {pool.submit(work, task): number for number, task in enumerate(tasks)}
            left = set(futures)

            def tell(future: Any) -> None:
                left.discard(future)
                answer = future.result()
                if answer is not None:
                    on_answer(futures[future], answer)

            try:
                for future in as_completed(futures):
                    tell(future)
            except BaseException as error:
                stop.set()
                if not isinstance(error, KeyboardInterrupt):
                    raise
                for future in list(left):
                    tell(future)


class Processes:
    """Processes of this machine, each with one task at a time; one that dies costs its task a second try."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def run(self, tasks: Sequence[Task], stop: threading.Event, on_answer: OnAnswer) -> None:
        """See `Executor`."""
        waiting: queue.SimpleQueue[tuple[int, Task]] = queue.SimpleQueue()
        for numbered in enumerate(tasks):
            waiting.put(numbered)
        answered: queue.SimpleQueue[tuple[int, Answer | BaseException]] = queue.SimpleQueue()
        runners = [_Runner() for _ in range(min(self.jobs, len(tasks)))]

        def serve(runner: _Runner) -> None:
            with contextlib.suppress(queue.Empty):
                while not stop.is_set():
                    number, task = waiting.get_nowait()
                    try:
                        answered.put((number, runner.perform(task)))
                    except BaseException as error:  # raised where it is seen
                        answered.put((number, error))

        servers = [threading.Thread(target=serve, args=(runner,), daemon=True) for runner in runners]
        try:
            for server in servers:
                server.start()
            left = len(tasks)
            while left and not stop.is_set():
                with contextlib.suppress(queue.Empty):
                    number, answer = answered.get(timeout=0.1)
                    if isinstance(answer, BaseException):
                        raise answer
                    on_answer(number, answer)
                    left -= 1
        finally:
            for runner in runners:
                runner.stop()


def executor_of(scheduler: str | None, jobs: int, on_compile: compiling.Tell | None = None) -> Executor:
    """Return where tasks are done: on a cluster, in several processes, or in this one."""
    if scheduler is not None:
        from tilewright.run.batch.cluster import Cluster  # for start-up time

        return Cluster(scheduler)
    return Processes(jobs) if jobs > 1 else Threads(1, on_compile)


class _Runner:
    """A process that does tasks (`tilewright.run.batch.runner`), begun anew when it dies."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped = False
        self._process: subprocess.Popen[bytes] | None = None

    def perform(self, task: Task) -> Answer:
        """Have a task done; try again where the process dies of it."""
        line = json.dumps(task.to_json()).encode() + b"\n"
        how = ""
        for _ in range(MOST_DEATHS):
            process = self._begun()
            if process is None:
                return Answer(None, TilewrightError("interrupted"))
            assert process.stdin is not None and process.stdout is not None
            with contextlib.suppress(OSError, ValueError):  # it is dead, or killed by `stop`
                process.stdin.write(line)
                process.stdin.flush()
                said = process.stdout.readline()
                if said.endswith(b"\n"):
                    return Answer.from_json(json.loads(said), task)
            how = _ended(process.wait())
        return Answer(None, TilewrightError(f"{MOST_DEATHS} processes have died of it, the last {how}"))

    def stop(self) -> None:
        """Kill the process; what it has started notices by itself."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                processes.kill(self._process)

    def _begun(self) -> subprocess.Popen[bytes] | None:
        """Return the process, a new one if there is none that lives, None after `stop`."""
        with self._lock:
            if self._stopped:
                return None
            if self._process is None or self._process.poll() is not None:
                if self._process is not None:
                    processes.kill(self._process)
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "tilewright.run.batch.runner"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=None if debugging() else subprocess.DEVNULL,
                    env=processes.environment(),
                    start_new_session=True,  # Ctrl-C reaches the parent alone
                )
            return self._process


def _ended(status: int) -> str:
    """Say how a process has ended."""
    if status >= 0:
        return f"with exit status {status}"
    try:
        return f"by {signal.Signals(-status).name}"
    except ValueError:
        return f"by signal {-status}"
