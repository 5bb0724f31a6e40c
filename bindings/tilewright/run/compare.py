"""Run several methods on several instances under the same conditions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from tilewright.core import catalogue
from tilewright.run.instance import Instance
from tilewright.run.result import Result
from tilewright.run.solve import solve
from tilewright.spec.errors import SolverMissingError, TilewrightError


@dataclass(frozen=True)
class Entry:
    """One run of a comparison: a result, or the reason why there is none."""

    instance: str
    method: str
    result: Result | None
    error: TilewrightError | None = None

    @property
    def remark(self) -> str:
        """What a reader must know about this run, one line."""
        if self.error is not None:
            return "solver not installed" if isinstance(self.error, SolverMissingError) else str(self.error)
        assert self.result is not None
        if self.result.report and self.result.report["violation"]:
            return f"refused: {self.result.report['violation'].split(':')[0]}"
        if not self.result.simulated:
            return "not simulated"
        return "interrupted" if self.result.interrupted else ""


def default_methods(
    instances: Sequence[Instance], on_failure: Callable[[str, Exception], None] = lambda _name, _error: None
) -> list[str]:
    """Return the constructive heuristics that take all instances, and ``auto``.

    Parameters
    ----------
    on_failure
        Called with a heuristic that cannot be imported, and why.
    """
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
    instances: Iterable[Instance],
    methods: list[str],
    *,
    time_limit: float,
    jobs: int,
    threads: int,
    seed: int,
    on_entry: Callable[[Entry], None],
    stop: threading.Event,
) -> list[Entry]:
    """Solve every instance with every method; entries come in that order, whatever ends first.

    Parameters
    ----------
    jobs
        Runs at a time.
    threads
        Threads of each run.
    on_entry
        Called when a run has ended.
    stop
        Ends running solves with their best plan and skips those that have not begun.
    """
    runs = [(instance, method) for instance in instances for method in methods]
    entries: dict[int, Entry] = {}

    def work(instance: Instance, method: str) -> Entry:
        if stop.is_set():
            return Entry(instance.name, method, None, TilewrightError("interrupted before it began"))
        try:
            result = solve(instance, method, time_limit=time_limit, threads=threads, seed=seed, stop=stop)
        except TilewrightError as error:
            return Entry(instance.name, method, None, error)
        return Entry(instance.name, method, result)

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = {pool.submit(work, *run): number for number, run in enumerate(runs)}
        try:
            for future in as_completed(futures):
                entries[futures[future]] = future.result()
                on_entry(entries[futures[future]])
        except KeyboardInterrupt:
            stop.set()
            for future, number in futures.items():
                entries[number] = future.result()
    return [entries[number] for number in range(len(runs))]
