"""Divide threads among the parts of ``auto``, so that each has what it would have alone in half the time.

What is guaranteed, at every moment t after the constructive heuristics:

- The part that improves plans is one process from the beginning to the end, and so is the part that proves.
  Neither is begun anew.
- With two threads or more they run side by side. The improving part, which alone has one thread, too, has had
  all of t. The proving part has at least half of the threads: all of them would have done as much in t / 2.
- On one thread they take turns (`tilewright.run.workers.turns`). The improving part has had at least t / 2,
  the proving part at least that less the length of two turns.

Further threads improve plans from other seeds, and so do those of a proving part that gives up. A proving
part that needs nothing beside it has all threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.core.context import CONSTRUCT
from tilewright.core.portfolio import Portfolio


@dataclass(frozen=True)
class Share:
    """A method, and what it gets.

    Attributes
    ----------
    method
        Its name.
    threads
        How many threads it may use.
    number
        What is added to the seed, so that no two processes of a method do the same.
    """

    method: str
    threads: int = 1
    number: int = 0


def alike(methods: list[str], threads: int) -> list[Share]:
    """Divide threads among methods that count alike."""
    each = max(1, threads // len(methods))
    return [Share(method, each, number) for number, method in enumerate(methods)]


def shares(parts: Portfolio, threads: int) -> list[Share]:
    """Divide threads among the parts of a portfolio; the first has the first turn where they take turns."""
    if parts.proving is not None and parts.alone:
        return [Share(parts.proving, threads)]
    processes = threads if parts.proving is None else max(1, threads // 2)
    if parts.improving == CONSTRUCT:
        processes = 1
    found = [Share(parts.improving, 1, number) for number in range(processes)]
    if parts.proving is not None:
        found.append(Share(parts.proving, max(1, threads - processes)))
    return found


def successors(parts: Portfolio, ended: Share, threads: int) -> list[Share]:
    """Return what gets the threads of a part that has ended and has left something to search for."""
    if ended.method != parts.proving or parts.improving == CONSTRUCT or threads == 1:
        return []
    first = threads - ended.threads
    return [Share(parts.improving, 1, number) for number in range(first, threads)]
