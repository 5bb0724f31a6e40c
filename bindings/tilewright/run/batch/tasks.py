"""Many solves as a list of tasks: each done once, by whatever executor, and kept as soon as it is done."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from tilewright.core import catalogue
from tilewright.core.context import CONSTRUCT
from tilewright.core.failures import told as failure
from tilewright.core.kernel_cache import Unit
from tilewright.core.version import __version__
from tilewright.run.batch.journal import Journal
from tilewright.run.instance import Instance, digest
from tilewright.run.methods import takes_start
from tilewright.run.result import Result
from tilewright.run.solve import solve
from tilewright.run.solving.shares import shares
from tilewright.run.verify import doubt
from tilewright.run.workers import compiling
from tilewright.run.workers.warming import forget, prepare
from tilewright.spec.errors import Disagreement, TilewrightError, of_status


@dataclass(frozen=True)
class Task:
    """One solve: an instance, a method, and the conditions.

    Attributes
    ----------
    warm
        Whether processes are started and files imported before the clock runs, so that times are comparable.
    remember
        Whether layers need no search that equal one which has been solved, as `solve` says.
    """

    instance: Instance
    method: str
    time_limit: float
    threads: int = 1
    seed: int = 0
    warm: bool = False
    remember: bool | str = False

    @cached_property
    def key(self) -> str:
        """Digest of all that the answer depends on; neither the instance's name nor where it is solved."""
        content = [
            self.instance.sha256,
            self.method,
            self.time_limit,
            self.threads,
            self.seed,
            __version__,
            *(["warm"] if self.warm else []),
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return what another process needs to do the task."""
        return {
            "version": __version__,
            "room": self.instance.room,
            "name": self.instance.name,
            "problem": self.instance.problem.model_dump(mode="json"),
            "method": self.method,
            "time_limit": self.time_limit,
            "threads": self.threads,
            "seed": self.seed,
            "warm": self.warm,
            "remember": self.remember,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Task:
        """Return the task that another process of the same version has told.

        Raises
        ------
        TilewrightError
            If the versions differ, so that the answers might.
        """
        if data["version"] != __version__:
            own = f"a worker has tilewright {__version__}"
            raise TilewrightError(f"{own}, what has sent the task {data['version']}")
        problem = catalogue.room(data["room"]).problem_type.model_validate_json(json.dumps(data["problem"]))
        instance = Instance(data["room"], data["name"], "", problem, digest(data["room"], problem))
        return cls(instance, *(data[name] for name in _CONDITIONS))


_CONDITIONS = ("method", "time_limit", "threads", "seed", "warm", "remember")


@dataclass(frozen=True)
class Answer:
    """What has become of a task: a result, or the reason why there is none."""

    result: Result | None
    error: TilewrightError | None = None

    @property
    def lasting(self) -> bool:
        """Whether the task need not be done again: an error may be of this machine or this moment."""
        return self.result is not None and not self.result.interrupted

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` takes."""
        if self.result is not None:
            return {"result": self.result.to_json()}
        assert self.error is not None
        return {"error": str(self.error), "exit_status": self.error.exit_status}

    @classmethod
    def from_json(cls, data: dict[str, Any], task: Task, file: str | None = None) -> Answer:
        """Return the answer to a task that another process has written."""
        if "result" not in data:
            return cls(None, of_status(data["exit_status"], data["error"]))
        result = Result.from_json(data["result"], file).of(task.instance)
        return cls(replace(result, instance=task.instance.name))


OnAnswer = Callable[[int, Answer], None]
"""Called with the number of a task and its answer."""


class Executor(Protocol):
    """Does tasks, in any order, here or elsewhere."""

    def run(self, tasks: Sequence[Task], stop: threading.Event, on_answer: OnAnswer) -> None:
        """Do tasks; return when all are answered, or early when `stop` is set or on KeyboardInterrupt.

        Whatever has been answered by then has been told, once, in this thread.

        Raises
        ------
        TilewrightError
            If the executor itself is lost, as a cluster whose scheduler has died.
        """


def perform(
    task: Task, stop: threading.Event | None = None, on_compile: compiling.Tell | None = None
) -> Answer:
    """Do a task in this process."""
    try:
        instance = task.instance
        if task.warm:
            _warm_up(task, stop)
            # A problem of its own, since problems keep what has been computed of them.
            told = instance.problem.model_dump_json()
            instance = replace(instance, problem=type(instance.problem).model_validate_json(told))
        result = solve(
            instance,
            task.method,
            time_limit=task.time_limit,
            threads=task.threads,
            seed=task.seed,
            stop=stop,
            on_compile=on_compile,
            remember=task.remember,
            widen=False,
        )
    except TilewrightError as error:
        return Answer(None, error)
    return Answer(result)


def _warm_up(task: Task, stop: threading.Event | None) -> None:
    """Start the processes that a task needs, and import and load what it uses; what is wrong shows later."""
    from tilewright.run.workers import (
        supervisor,  # for start-up time: many tasks are done in this process alone
    )

    room = catalogue.room(task.instance.room)
    forget()
    methods, many = _methods(task), 1
    if task.method == "auto":
        many = len(shares(room.portfolio(task.instance.problem), task.threads))
    for method in methods:
        if method != CONSTRUCT and catalogue.in_process(room.name, method):
            with contextlib.suppress(Exception):
                prepare(room.name, method, kernels=True)
    supervisor.IDLE.warm(room.name, methods, many, stop)


def perform_told(text: str) -> str:
    """Do the task that a JSON text tells, and return the answer as one, whatever goes wrong."""
    try:
        answer = perform(Task.from_json(json.loads(text)))
    except TilewrightError as error:
        answer = Answer(None, error)
    except MemoryError:
        answer = Answer(None, TilewrightError("out of memory"))
    except AssertionError as error:
        answer = Answer(None, Disagreement(failure(error)))
    except Exception as error:  # of a formulation or heuristic of the user's own
        answer = Answer(None, TilewrightError(failure(error)))
    return json.dumps(answer.to_json())


def perform_all(
    tasks: Sequence[Task],
    executor: Executor,
    *,
    journal: Journal | None = None,
    stop: threading.Event | None = None,
    on_answer: OnAnswer = lambda _number, _answer: None,
) -> list[Answer]:
    """Do tasks, those of one key once; what stands in the journal is not done again.

    Parameters
    ----------
    journal
        Where answers are kept as they come. What is found there is computed anew, as far as that needs no
        search, and done again where it is not so.
    stop
        Ends the work; so does KeyboardInterrupt. What is in hand then is answered as the executor can.
    on_answer
        Called when a task has been answered, in the order in which this happens.

    Returns
    -------
    list of Answer
        In the order of the tasks, whatever ended first.

    Raises
    ------
    TilewrightError
        If the executor is lost, when all that it has answered is in the journal.
    """
    stop = stop or threading.Event()
    alike: dict[str, list[int]] = {}
    for number, task in enumerate(tasks):
        alike.setdefault(task.key, []).append(number)
    answers: dict[int, Answer] = {}

    def answer(key: str, data: Answer) -> None:
        for number in alike[key]:
            name = tasks[number].instance.name
            result = None if data.result is None else replace(data.result, instance=name)
            answers[number] = Answer(result, data.error)
            on_answer(number, answers[number])

    left = []
    for key, numbers in alike.items():
        known = None if journal is None else _recalled(journal, key, tasks[numbers[0]])
        if known is None:
            left.append(tasks[numbers[0]])
        else:
            answer(key, known)

    def take(number: int, found: Answer) -> None:
        if journal is not None and found.lasting:
            journal.append(left[number].key, found.to_json())
        answer(left[number].key, found)

    try:
        if left:
            executor.run(left, stop, take)
    except KeyboardInterrupt:
        stop.set()
    never = Answer(None, TilewrightError("interrupted before it began"))
    return [answers.get(number, never) for number in range(len(tasks))]


def _recalled(journal: Journal, key: str, task: Task) -> Answer | None:
    """Return what a journal says of a task, if it is so: its plan is executed again."""
    said = journal.get(key)
    if said is None:
        return None
    try:
        known = Answer.from_json(said, task)
        why = None if known.result is None else doubt(task.instance, known.result)
    except TilewrightError as error:
        why = str(error)
    if why is None:
        return known
    journal.doubt(key, why)
    return None


def compiled(task: Task) -> list[Unit]:
    """Return what a task uses compiled, and what its start does."""
    return compiling.units(task.instance.room, _methods(task), task.instance.problem)


def _methods(task: Task) -> list[str]:
    """Return what a task runs: its method or the parts of ``auto``, and what gives these a start."""
    room = catalogue.room(task.instance.room)
    if task.method == "auto":
        return list(room.portfolio(task.instance.problem).methods)
    return [task.method, *([CONSTRUCT] if takes_start(room.name, task.method) else [])]
