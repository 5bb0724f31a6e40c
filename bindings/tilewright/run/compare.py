"""Run several methods on several instances under the same conditions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.core import catalogue
from tilewright.run.batch.executors import Threads
from tilewright.run.batch.journal import Journal
from tilewright.run.batch.tasks import Answer, Executor, Task, compiled, perform_all
from tilewright.run.instance import Instance
from tilewright.run.methods import check_method
from tilewright.run.methods import methods as all_methods
from tilewright.run.result import Result
from tilewright.run.workers import compiling
from tilewright.spec.errors import SolverMissingError, TilewrightError, UnknownNameError


@dataclass(frozen=True)
class Entry:
    """One run of a comparison: a result, or the reason why there is none."""

    instance: str
    method: str
    result: Result | None
    error: TilewrightError | None = None
    room: str = ""
    seed: int = 0
    threads: int | None = None
    time_limit: float | None = None

    @property
    def remark(self) -> str:
        """What a reader must know about this run, one line."""
        if self.error is not None:
            return "solver not installed" if isinstance(self.error, SolverMissingError) else str(self.error)
        assert self.result is not None
        if self.result.report and self.result.report.violation:
            return f"refused: {self.result.report.violation.split(':')[0]}"
        if not self.result.simulated:
            return "not simulated"
        if self.result.at_least:
            return "at least"
        if self.result.proved_by is not None:
            return f"not run; proved by the {self.result.proved_by}"
        by_others = self.method != "auto" and self.result.bound_by not in (None, self.method)
        if self.result.status == "optimal" and by_others:
            return f"bound: {self.result.bound_by}"
        return "interrupted" if self.result.interrupted else ""

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON, or what stands for it."""
        if self.result is not None:
            return self.result.to_json()
        conditions = {"seed": self.seed, "threads": self.threads, "time_limit": self.time_limit}
        return {
            "room": self.room,
            "instance": self.instance,
            "method": self.method,
            **{name: value for name, value in conditions.items() if value is not None},
            "objective": None,
            "bound": None,
            "error": str(self.error),
        }


Run = tuple[Instance, str]
"""An instance and a method."""

OnFailure = Callable[[str, Exception], None]
"""Called with a heuristic that cannot be imported, and why."""


def plan_runs(
    instances: Sequence[Instance],
    methods: Sequence[str] | None = None,
    on_failure: OnFailure = lambda _name, _error: None,
) -> list[Run]:
    """Return every instance with each method that its room has; different ones of one name get their paths.

    Parameters
    ----------
    instances
        Of one or several rooms.
    methods
        Names; ``all`` stands for all of a room. By default a room's constructive heuristics that take all its
        instances, and ``auto``.

    Raises
    ------
    UnknownNameError
        If no room has a method; names for each room an instance, and the methods that there are.
    """
    instances = _told_apart(instances)
    by_room: dict[str, list[Instance]] = {}
    for instance in instances:
        by_room.setdefault(instance.room, []).append(instance)
    if methods is None:
        chosen = {room: _default_methods(own, on_failure) for room, own in by_room.items()}
    elif "all" in methods:
        chosen = {room: all_methods(room) for room in by_room}
    else:
        having = {name: _rooms_with(name, [own[0] for own in by_room.values()]) for name in methods}
        chosen = {room: [name for name in methods if room in having[name]] for room in by_room}
    return [(instance, name) for instance in instances for name in chosen[instance.room]]


def _told_apart(instances: Sequence[Instance]) -> list[Instance]:
    """Name different problems differently, since results are compared by the name of their instance."""
    problems: dict[str, list[str]] = {}
    for instance in instances:
        of_name = problems.setdefault(instance.name, [])
        of_name += [instance.sha256] if instance.sha256 not in of_name else []
    return [
        instance
        if len(problems[instance.name]) == 1
        else replace(
            instance,
            name=f"{instance.name} ({instance.path or problems[instance.name].index(instance.sha256) + 1})",
        )
        for instance in instances
    ]


def _rooms_with(method: str, instances: Sequence[Instance]) -> list[str]:
    """Return the rooms that have a method, of those of some instances; there must be one."""
    found: list[str] = []
    refused: list[UnknownNameError] = []
    for instance in instances:
        try:
            check_method(instance.room, method)
            found.append(instance.room)
        except UnknownNameError as error:
            error.args = (f"{instance.name}: {error}",)
            refused.append(error)
    if not found:
        refused[0].args = ("\n".join(map(str, refused)),)
        raise refused[0]
    return found


def _default_methods(instances: Sequence[Instance], on_failure: OnFailure) -> list[str]:
    """Return the constructive heuristics that take all instances of a room, and ``auto``."""
    quick = catalogue.constructive(instances[0].room, on_failure)
    suited = []
    for module in quick:
        name = module.__name__.rpartition(".")[2]
        try:
            if all(catalogue.suits(module, instance.problem) for instance in instances):
                suited.append(name)
        except Exception as error:  # a user's own file may do anything
            on_failure(name, error)
    return [*suited, "auto"]


def compare(
    runs: Sequence[Run],
    *,
    time_limit: float,
    jobs: int,
    threads: int,
    seeds: Sequence[int] = (0,),
    on_entry: Callable[[Entry], None],
    stop: threading.Event,
    on_compile: compiling.Tell | None = None,
    executor: Executor | None = None,
    journal: Journal | None = None,
) -> list[Entry]:
    """Solve instances with methods, with each seed; entries come in that order, whatever ends first.

    What the methods need compiled is compiled before the first run, and what a run needs started, imported
    and loaded is before its clock begins, so that no method loses time to what only the first one pays for.

    Parameters
    ----------
    runs
        What `plan_runs` returns.
    jobs
        Runs at a time.
    threads
        Threads of each run.
    seeds
        Of all random choices; a run of each instance and method for each of them.
    on_entry
        Called when a run has ended.
    stop
        Ends running solves with their best plan and skips those that have not begun.
    on_compile
        Called with a sentence before something is compiled.
    executor
        Where the runs are done; by default here, `jobs` at a time.
    journal
        Where results are kept as they come, and those of runs that need not be done again are found.
    """
    tasks = [
        Task(instance, method, time_limit, threads, seed, warm=True)
        for instance, method in runs
        for seed in seeds
    ]
    if executor is None:
        compiling.ensure(list(dict.fromkeys(unit for task in tasks for unit in compiled(task))), on_compile)
        executor = Threads(jobs, on_compile)
        from tilewright.run.workers import supervisor  # for start-up time: what only asks for help needs none

        # All that wait for a run, whose start may have a solver's package, which its method cannot share.
        supervisor.IDLE.most = max(supervisor.IDLE.most, jobs * (threads + 1))

    def entry(task: Task, answer: Answer) -> Entry:
        return Entry(
            task.instance.name,
            task.method,
            answer.result,
            answer.error,
            task.instance.room,
            task.seed,
            task.threads,
            task.time_limit,
        )

    answers = perform_all(
        tasks,
        executor,
        journal=journal,
        stop=stop,
        on_answer=lambda number, answer: on_entry(entry(tasks[number], answer)),
    )
    return list(map(entry, tasks, answers))
