"""The exact search: shortest paths from state to state, a state being what is executed and what is where.

A step ends with one operation, to which all others of it lead; it then has all that this one needs and that
has not been executed. So from a state there are as many groups as operations that are left. What is still to
be moved in any case is the lower bound of A*: weights once, outputs of the network once, and once each tensor
that is in DRAM alone and still to be read. It never falls by more than a step moves, so that the first path
that arrives is a shortest one.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from tilewright.residency.graph import members
from tilewright.residency.shapes.groups import group_mask
from tilewright.residency.transitions import State, StepChoice, Transitions
from tilewright.spec.errors import OutOfTimeError


class Path(NamedTuple):
    """The steps up to a state, last first."""

    choice: StepChoice
    before: Path | None

    def choices(self) -> tuple[StepChoice, ...]:
        """Return the steps, first one first."""
        found, path = [], self
        while path is not None:
            found.append(path.choice)
            path = path.before  # type: ignore[assignment]
        return tuple(reversed(found))


class StepSequence(NamedTuple):
    """A sequence of steps, and the elements that it moves."""

    moved: int
    choices: tuple[StepChoice, ...]


class Search:
    """The search for one memory.

    Attributes
    ----------
    bound
        Elements that every plan moves, as far as that is known.
    expanded
        States whose steps have been looked at.
    """

    def __init__(
        self,
        transitions: Transitions,
        *,
        given_order: bool = False,
        most_operations: int | None = None,
        most: int | None = None,
        repeat: int = 1,
        deadline: float = float("inf"),
    ) -> None:
        self.steps, self.graph = transitions, transitions.graph
        self.given_order, self.most_operations, self.most = given_order, most_operations, most
        self.repeat, self.deadline = repeat, deadline
        self.expanded = 0
        self.bound = self.remaining(transitions.start())

    def remaining(self, state: State) -> int:
        """Return what is still to be moved in any case."""
        left = self._left(state.done)
        return left + self.steps.size(state.in_dram & ~state.on_chip)

    def _left(self, done: int) -> int:
        known = self._known.get(done)
        if known is None:
            graph, known = self.graph, 0
            for operation in graph.numbers(graph.all & ~done):
                known += operation.weights
                if operation.op.leaves:
                    known += graph.tensors[operation.number + 1].size
            self._known[done] = known
        return known

    @property
    def _known(self) -> dict[int, int]:
        return self.__dict__.setdefault("_lefts", {})  # type: ignore[no-any-return]

    def groups(self, done: int) -> list[int]:
        """Return the groups that may come next, the smallest first."""
        found = []
        for last in members(self.graph.all & ~done):
            mask = group_mask(self.graph, done, last)
            if self.given_order and mask != ((1 << last + 1) - 1) & ~done:
                continue
            if self.most_operations is None or mask.bit_count() <= self.most_operations:
                found.append(mask)
        return sorted(found, key=lambda mask: (mask.bit_count(), mask))

    def paths(self) -> Iterator[StepSequence]:
        """Return sequences of steps, from the one that moves least on.

        Of those that lead to the same state, `repeat` are looked at. Each is only followed while it moves no
        more than `most`.

        Raises
        ------
        OutOfTimeError
            When the deadline passes; `bound` is what has been proven by then.
        """
        steps, tick = self.steps, count()
        start = steps.start()
        everything = self.graph.all
        heap: list[tuple[int, int, int, int, int, State, int, Path | None]] = []
        cost, popped = {start: 0}, dict[State, int]()
        too_large: dict[int, list[int]] = {}
        heapq.heappush(heap, (self.remaining(start), 0, 0, next(tick), 0, start, 0, None))
        while heap:
            total, _, _, _, moved, state, mask, path = heapq.heappop(heap)
            self.bound = max(self.bound, total)
            if time.monotonic() > self.deadline:
                raise OutOfTimeError
            if not mask:
                if popped.get(state, 0) >= self.repeat:
                    continue
                popped[state] = popped.get(state, 0) + 1
                if state.done == everything:
                    assert path is not None
                    yield StepSequence(moved, path.choices())
                    continue
                self.expanded += 1
                depth = -state.done.bit_count()
                for group in self.groups(state.done):
                    entry = (total, depth, group.bit_count(), next(tick), moved, state, group, path)
                    heapq.heappush(heap, entry)
                continue
            large = too_large.setdefault(state.done, [])
            if any(mask & each == each for each in large):
                continue
            if steps.least(mask) > steps.capacity:
                large.append(mask)
                continue
            for move in steps.moves(state, mask):
                reached = moved + move.moved
                if popped.get(move.after, 0) >= self.repeat:
                    continue
                if self.repeat == 1 and reached >= cost.get(move.after, reached + 1):
                    continue
                expected = reached + self.remaining(move.after)
                if self.most is not None and expected > self.most:
                    continue
                cost[move.after] = min(reached, cost.get(move.after, reached))
                depth = -move.after.done.bit_count()
                further = Path(move.choice, path)
                heapq.heappush(heap, (expected, depth, 0, next(tick), reached, move.after, 0, further))
        self.bound = max(self.bound, self.most + 1) if self.most is not None else self.bound
