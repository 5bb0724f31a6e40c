"""Tasks on a Dask cluster: ``--scheduler ADDRESS``, or ``local:N`` for one on this machine.

A worker that dies costs its tasks a second try, which the scheduler sees to. Answers are told as they come,
so what has been answered is kept when the scheduler dies.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import re
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.run.batch.tasks import Answer, OnAnswer, Task, perform_told
from tilewright.spec.errors import InputError, SolverMissingError, TilewrightError

CONNECTING_SECONDS = 10.0
"""How long a scheduler may take to answer."""

IN_HAND_PER_THREAD = 4
"""Tasks that a cluster is given beforehand for each of its threads; more only burden the scheduler."""

LEAST_IN_HAND = 16
"""Tasks that it is given while it has no workers yet, or few."""

LOOKING_SECONDS = 2.0
"""Between two looks at how many workers there are."""


class Cluster:
    """The workers of a Dask scheduler.

    Parameters
    ----------
    address
        As Dask prints it, ``tcp://host:8786``; or ``local:N`` for a cluster of N processes on this machine,
        which ends with the run.

    Raises
    ------
    SolverMissingError
        If `distributed` is not installed.
    InputError
        If the address is none.
    """

    def __init__(self, address: str) -> None:
        try:
            import distributed  # noqa: F401 (asked for before any work is done)
        except ImportError:
            needs = "a cluster needs Dask: pip install 'tilewright[cluster]'"
            raise SolverMissingError(needs) from None
        local = re.fullmatch(r"local:([1-9]\d{0,3})", address)
        if local is None and not re.fullmatch(
            r"((tcp|tls|ws|wss|ucx)://)?[^\s:/]+:\d+|inproc://\S+", address
        ):
            raise InputError("--scheduler", address, "must be like tcp://host:8786, or local:4")
        self.address, self.processes = address, int(local[1]) if local else 0

    def run(self, tasks: Sequence[Task], stop: threading.Event, on_answer: OnAnswer) -> None:
        """See `Executor`."""
        with self._client() as client:
            from distributed.comm import CommClosedError  # for start-up time

            try:
                self._run(client, tasks, stop, on_answer)
            except CommClosedError as error:  # while something is asked, before the client is told
                raise self._lost() from error

    @contextlib.contextmanager
    def _client(self) -> Iterator[Any]:
        import distributed

        with contextlib.ExitStack() as stack:
            if self.processes:
                cluster = stack.enter_context(
                    distributed.LocalCluster(
                        n_workers=self.processes,
                        threads_per_worker=1,
                        dashboard_address=None,
                        silence_logs=50,  # logging.CRITICAL
                    )
                )
            try:
                client = distributed.Client(
                    cluster if self.processes else self.address,
                    timeout=CONNECTING_SECONDS,
                    set_as_default=False,
                )
            except (OSError, ValueError) as error:
                raise TilewrightError(f"no Dask scheduler answers at {self.address}: {error}") from None
            yield stack.enter_context(client)

    def _run(self, client: Any, tasks: Sequence[Task], stop: threading.Event, on_answer: OnAnswer) -> None:
        """Keep the cluster supplied, and tell what it answers."""
        ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        waiting = iter(enumerate(tasks))
        futures: dict[str, Any] = {}
        run = uuid.uuid4().hex[:8]
        left, most, looked = len(tasks), LEAST_IN_HAND, -LOOKING_SECONDS
        try:
            while left and not stop.is_set():
                if time.monotonic() - looked > LOOKING_SECONDS:
                    looked = time.monotonic()
                    workers = client.scheduler_info(n_workers=-1)["workers"].values()
                    threads = sum(worker["nthreads"] for worker in workers)
                    most = max(LEAST_IN_HAND, IN_HAND_PER_THREAD * threads)
                for number, task in itertools.islice(waiting, most - len(futures)):
                    key = f"tilewright-{run}-{number}"
                    told = json.dumps(task.to_json())
                    futures[key] = client.submit(perform_told, told, key=key, pure=False)
                    futures[key].add_done_callback(ended.put)
                try:
                    future = ended.get(timeout=0.2)
                except queue.Empty:
                    future = None
                if client.status != "running":
                    raise self._lost()
                if future is None:
                    continue
                number = int(future.key.rpartition("-")[2])
                del futures[future.key]
                on_answer(number, self._answer(future, tasks[number]))
                left -= 1
        finally:
            if futures and client.status == "running":
                client.cancel(list(futures.values()), force=True)

    def _answer(self, future: Any, task: Task) -> Answer:
        """Return what a task has become, or why there is nothing."""
        from distributed.scheduler import KilledWorker

        if future.status == "finished":
            return Answer.from_json(json.loads(future.result()), task)
        if future.status == "error":
            error = future.exception()
            if isinstance(error, KilledWorker):
                return Answer(None, TilewrightError("the workers that took it have died"))
            raise TilewrightError(
                f"a worker of {self.address} cannot work: {type(error).__name__}: {error}"
            ) from error
        raise self._lost()

    def _lost(self) -> TilewrightError:
        return TilewrightError(f"the scheduler at {self.address} is gone; the same command again goes on")
