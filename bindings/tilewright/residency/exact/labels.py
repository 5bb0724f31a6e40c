"""The exact search for time and energy, and for several objectives: labels that no other is as good as.

Like `tilewright.residency.exact.search` it goes from state to state, but what a path has cost is several
numbers: what is minimised, and all that is limited. A path is given up for another that leads to the same
state and costs no more of anything. What is still to be spent in any case is the bound of A*, for each
number; with second buffers bus and core work beside each other, so that of time it is the longer of both.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from tilewright.residency.exact.search import Search
from tilewright.residency.exact.timed_steps import Costs, TimedSteps
from tilewright.residency.problem import Problem
from tilewright.residency.transitions import State, StepChoice
from tilewright.spec.errors import OutOfTimeError


class Path(NamedTuple):
    """The steps up to a state, last first."""

    choice: StepChoice
    before: Path | None


class Found(NamedTuple):
    """A sequence of steps, and what it costs."""

    costs: Costs
    choices: tuple[StepChoice, ...]


class Labels:
    """The search for one memory.

    Parameters
    ----------
    names
        Objectives: the one that is minimised, then those that are limited.
    most
        The most that each may cost; None without a limit.
    repeat
        Labels of a state that are followed although another is as good.

    Attributes
    ----------
    bound
        What every plan costs of the first objective, as far as that is known.
    limited
        Whether something has been left out that costs more of the first objective than `most`.
    """

    def __init__(
        self,
        problem: Problem,
        ways: TimedSteps,
        most: tuple[int | None, ...],
        *,
        given_order: bool = False,
        repeat: int = 1,
        deadline: float = float("inf"),
    ) -> None:
        self.problem, self.ways, self.most = problem, ways, most
        self.repeat, self.deadline = repeat, deadline
        limits = problem.limits
        self._groups = Search(
            ways.steps,
            given_order=given_order or limits.order == "given",
            most_operations=limits.most_operations,
        ).groups
        self.limited = False
        self._left: dict[tuple[int, int], Costs] = {}
        self.bound = self.remaining(ways.steps.start())[0]

    def remaining(self, state: State) -> Costs:
        """Return what is still to be spent in any case."""
        key = state.done, state.in_dram & ~state.on_chip
        known = self._left.get(key)
        if known is None:
            known = self._left[key] = self.ways.costs(self.problem.remaining.least(*key))
        return known

    def paths(self) -> Iterator[Found]:
        """Return sequences of steps, from the one that costs least on.

        Raises
        ------
        OutOfTimeError
            When the deadline passes; `bound` is what has been proven by then.
        """
        steps, tick, everything = self.ways.steps, count(), self.problem.graph.all
        start, nothing = steps.start(), (0,) * len(self.ways.names)
        closed: dict[State, list[Costs]] = {}
        opened: dict[State, list[Costs]] = {}
        heap: list[tuple[Costs, int, int, Costs, State, Path | None]] = [
            (self.remaining(start), 0, next(tick), nothing, start, None)
        ]
        while heap:
            total, _, _, costs, state, path = heapq.heappop(heap)
            self.bound = max(self.bound, total[0])
            known = closed.setdefault(state, [])
            if _worse(costs, known, self.repeat):
                continue
            known.append(costs)
            if state.done == everything:
                assert path is not None
                yield Found(costs, _choices(path))
                continue
            for mask in self._fitting(state.done):
                if time.monotonic() > self.deadline:
                    raise OutOfTimeError

                def worth(least: Costs, after: State, costs: Costs = costs) -> bool:
                    reached = tuple(a + b for a, b in zip(costs, least, strict=True))
                    known = closed.get(after, ()) if self.repeat > 1 else opened.get(after, ())
                    return not _worse(reached, known, self.repeat) and not self._too_much(
                        tuple(a + b for a, b in zip(reached, self.remaining(after), strict=True))
                    )

                for way in self.ways.ways(state, mask, worth):
                    reached = tuple(a + b for a, b in zip(costs, way.costs, strict=True))
                    others = opened.setdefault(way.after, [])
                    if _worse(reached, closed.get(way.after, ()), self.repeat):
                        continue
                    if self.repeat == 1 and _worse(reached, others, 1):
                        continue
                    expected = tuple(a + b for a, b in zip(reached, self.remaining(way.after), strict=True))
                    if self._too_much(expected):
                        continue
                    if self.repeat == 1:
                        others[:] = [each for each in others if not _covers(reached, each)]
                        others.append(reached)
                    depth = -way.after.done.bit_count()
                    entry = expected, depth, next(tick), reached, way.after, Path(way.choice, path)
                    heapq.heappush(heap, entry)

    def _fitting(self, done: int) -> Iterator[int]:
        """Return the groups that may come next and are not too large."""
        steps, large = self.ways.steps, list[int]()
        for mask in self._groups(done):
            if any(mask & each == each for each in large):
                continue
            if steps.least(mask) > steps.capacity:
                large.append(mask)
                continue
            yield mask

    def _too_much(self, expected: Costs) -> bool:
        """Whether a path costs too much in any case."""
        for place, (cost, most) in enumerate(zip(expected, self.most, strict=True)):
            if most is not None and cost > most:
                self.limited |= not place
                return True
        return False


def _covers(one: Costs, other: Costs) -> bool:
    """Whether one costs no more than the other of anything."""
    return all(a <= b for a, b in zip(one, other, strict=True))


def _worse(costs: Costs, known: list[Costs] | tuple[Costs, ...], repeat: int) -> bool:
    """Whether enough others cost no more of anything."""
    if not known:
        return False
    return sum(_covers(each, costs) for each in known) >= repeat


def _choices(path: Path | None) -> tuple[StepChoice, ...]:
    found = []
    while path is not None:
        found.append(path.choice)
        path = path.before
    return tuple(reversed(found))
