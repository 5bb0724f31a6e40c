"""The curve of traffic over memory: a staircase, from the least memory in which a network runs at all."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import isqrt, log
from typing import NamedTuple

from tilewright.addresses import least_height
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.evaluation import memory_taken, objective
from tilewright.residency.exact.labels import StepSequence
from tilewright.residency.exact.traffic import PARAMS as TRAFFIC_PARAMS
from tilewright.residency.exact.traffic import label_search, least_traffic
from tilewright.residency.machine import ONE, ResidencyObjective
from tilewright.residency.placement import peak_elements, place_steps, placed_items, plan_of
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.spec.base import unchecked_copy
from tilewright.spec.errors import InputError, OutOfTimeError

SHARED = ("graph", "groups", "least_by_operation")
"""What is derived of a problem without looking at the size of its memory."""

SHARE = 0.25
"""Part of the time that is left which a single memory may take."""

COARSE = 1.25
"""Sizes that lie further apart have another one between them looked at; what is nearer is gone through."""

ADDRESS_SECONDS = 5.0
"""Longest time for the addresses of one plan."""


Point = tuple[int, int]
"""Bytes of a memory, and bytes that are moved."""


class Corner(NamedTuple):
    """A plan that moves less than those of less memory.

    Attributes
    ----------
    memory_bytes
        Of the memory for which it is.
    proven
        Whether no plan moves less in any memory up to that of the next corner.
    """

    memory_bytes: int
    traffic_bytes: int
    plan: Plan
    proven: bool


@dataclass(frozen=True)
class Curve:
    """Traffic over memory, as far as it is known.

    Attributes
    ----------
    corners
        Of the best plans, least memory first.
    bounds
        Sizes of the memory, and what is moved in so many bytes at least; the largest memory last. Each holds
        for all smaller memories, too.
    compulsory_bytes
        What is moved in any memory.
    """

    corners: tuple[Corner, ...]
    bounds: tuple[tuple[int, int], ...]
    compulsory_bytes: int

    @property
    def proven(self) -> bool:
        """Whether all of it is: no plan moves less in any memory."""
        return bool(self.corners) and all(corner.proven for corner in self.corners)

    def traffic(self, memory_bytes: int) -> int | None:
        """Return what the best plan for a memory moves, None where there is none."""
        place = bisect_right(self.corners, memory_bytes, key=lambda corner: corner.memory_bytes)
        return self.corners[place - 1].traffic_bytes if place else None

    def bound(self, memory_bytes: int) -> int:
        """Return what every plan for a memory moves at least."""
        place = bisect_left(self.bounds, memory_bytes, key=lambda bound: bound[0])
        return self.bounds[place][1] if place < len(self.bounds) else self.compulsory_bytes


def traffic_curve(
    problem: Problem,
    deadline: float = float("inf"),
    on_step: Callable[[Curve], None] | None = None,
    *,
    plans: Iterable[Plan] = (),
) -> Curve:
    """Return the least traffic of a network for every size of the memory, exactly or as far as time allows.

    More memory never moves more, and a plan runs in all the memories that are no smaller than what it needs.
    So each size that is looked at tells of others: below it nothing moves less, and from what its plan needs
    on nothing has to move more. The largest open area is next, and of a small one the largest size: what
    needs less than the plan above it is a corner for certain.

    Parameters
    ----------
    problem
        Its network and its limits; the size of its memory and its objective play no part.
    deadline
        ``time.monotonic()`` at which to give up.
    on_step
        Called with what is known after each size.
    plans
        Valid plans of the problem that are known already.

    Raises
    ------
    InputError
        For several memories, plans of many frames, and operations that are executed twice.
    """
    refuse_curve(problem)
    known = _Known(problem, deadline)
    for plan in plans:
        memory_bytes, traffic_bytes = _taken(problem, plan)
        known.take(memory_bytes // known.width, traffic_bytes // known.width, plan)
    memory: int | None = known.top
    while memory is not None and time.monotonic() < deadline:
        known.ask(memory)
        if on_step is not None:
            on_step(known.curve())
        memory = known.next_memory()
    return known.curve()


def refuse_curve(problem: Problem) -> None:
    """Refuse constraints, several memories, many frames, and operations that are executed twice.

    Raises
    ------
    InputError
        Names the field that says so.
    """
    if problem.constraints:
        limit = "is not looked at by the curve of traffic over memory"
        raise InputError("constraints[0].say", str(problem.constraints[0]), limit)
    if not problem.machine.dram:
        limit = "has no curve of traffic over memory: maps are not moved"
        raise InputError("machine.dram", problem.machine.dram, limit)
    if len(problem.machine.regions) > 1:
        names = [region.name for region in problem.machine.regions]
        raise InputError("machine.memory", names, "has no curve of traffic over memory, which is for one")
    if problem.limits.frames != ONE:
        limit = "has no curve of traffic over memory, which is for a single frame"
        raise InputError("limits.frames", problem.limits.frames, limit)
    if problem.limits.executions != 1:
        limit = "has no curve of traffic over memory, which is for operations that are executed once"
        raise InputError("limits.executions", problem.limits.executions, limit)


def point_of(problem: Problem, plan: Plan) -> Point:
    """Return the memory that a plan is for, or that it takes where that was the question, and its traffic."""
    memory, traffic = _taken(problem, plan)
    return (memory if problem.minimise == "memory" else problem.machine.memory_bytes), traffic


def _taken(problem: Problem, plan: Plan) -> Point:
    steps, width = decode_plan(problem, plan), problem.machine.element_bytes
    return width * memory_taken(problem, plan, steps), width * sum(step.moved for step in steps)


class _Known:
    """What is known of a curve, in elements.

    Attributes
    ----------
    asked
        For each memory that was looked at, what every plan for it moves at least.
    plans
        What plans move, and the plans, by the memory that they need.
    least, top
        The least memory in which the network runs, and one in which everything lies on chip.
    """

    def __init__(self, problem: Problem, deadline: float) -> None:
        self.problem = _in_memory(problem, problem.machine.memory_bytes)
        self.graph, self.deadline = problem.graph, deadline
        self.width = problem.machine.element_bytes
        self.asked: dict[int, int] = {}
        self.plans: dict[int, tuple[int, Plan]] = {}
        self.least = problem.least_memory
        maps = sum(tensor.size for tensor in self.graph.tensors)
        self.top = self.least + maps + sum(operation.weights for operation in self.graph.operations)

    def ask(self, memory: int) -> None:
        """Look for the least traffic in a memory."""
        now = time.monotonic()
        until = now + SHARE * (self.deadline - now) if self.deadline < float("inf") else self.deadline
        low = self._bound(memory)
        self.asked[memory] = low
        below = [moved for size, (moved, _) in self.plans.items() if size <= memory]
        most = min(below, default=sum(self.problem.one_by_one(memory).values()) + 1) - 1
        try:
            found = self._found(memory, low, most, until)
        except OutOfTimeError:
            return
        if found is not None:
            self.asked[memory] = found.cost
            self._place(found, memory, until)

    def _found(self, memory: int, low: int, most: int, until: float) -> StepSequence | None:
        """Return the steps that move least, which is from `low` to `most`; None if that is more."""
        compulsory, limit = self.graph.compulsory, min(low, most)
        while low <= most:
            search = label_search(self.problem, memory, limit, until)
            try:
                found = next(search.paths(), None)
            except OutOfTimeError:
                self.asked[memory] = max(self.asked[memory], search.bound)
                raise
            if found is not None:
                return found
            self.asked[memory] = limit + 1
            if limit == most:
                break
            limit = min(
                most, compulsory + 2 * max(limit - compulsory, compulsory // TRAFFIC_PARAMS.fineness, 1)
            )
        return None

    def _place(self, found: StepSequence, memory: int, until: float) -> None:
        """Take the plan of some steps, at what it needs; or any other one for the memory."""
        groups = self.problem.groups
        placed = placed_items(self.problem.groups, found.choices)
        need = peak_elements(placed)
        plan = place_steps(groups, found.choices, need, until)
        if plan is None:
            begins, ends, sizes = ([item[column] for item in placed] for column in range(3))
            soon = min(until, time.monotonic() + ADDRESS_SECONDS)
            offsets = least_height(begins, ends, sizes, deadline=soon).offsets
            if offsets is not None:
                addresses = [int(offset) for offset in offsets]
                need = max(at + item.size for at, item in zip(addresses, placed, strict=True))
                plan = plan_of(groups, found.choices, list(zip(placed, addresses, strict=True)))
        if plan is not None and need <= memory:
            self.take(need, found.cost, plan)
            return
        problem = _in_memory(self.problem, memory * self.width)
        plan = least_traffic(problem, until, lambda _bound: None, lambda _plan: None).plan
        if plan is not None:
            self.take(memory, objective(problem, plan) // self.width, plan)

    def take(self, memory: int, moved: int, plan: Plan) -> None:
        """Take a plan that needs some memory."""
        if memory not in self.plans or moved < self.plans[memory][0]:
            self.plans[memory] = moved, plan

    def _bound(self, memory: int) -> int:
        return max(
            (bound for asked, bound in self.asked.items() if asked >= memory), default=self.graph.compulsory
        )

    def _corners(self) -> list[tuple[int, int, Plan]]:
        """Return memory, traffic and plan of those that move less than all that need less memory."""
        found: list[tuple[int, int, Plan]] = []
        for memory in sorted(self.plans):
            moved, plan = self.plans[memory]
            if not found or moved < found[-1][1]:
                found.append((memory, moved, plan))
        return found

    def _bounds(self) -> list[tuple[int, int]]:
        """Return memory and traffic of bounds than which none is better for more memory."""
        found: list[tuple[int, int]] = []
        for memory in sorted(self.asked, reverse=True):
            if not found or self.asked[memory] > found[-1][1]:
                found.append((memory, self.asked[memory]))
        return found[::-1]

    def _open(self) -> Iterator[tuple[float, int]]:
        """Return areas between plans and bounds, and a size of each that has not been looked at."""
        corners, bounds = self._corners(), self._bounds()
        ends = {
            self.least,
            self.top + 1,
            *(size for size, _, _ in corners),
            *(size + 1 for size, _ in bounds),
        }
        worst = 2 * bounds[0][1]  # above all plans, where there is none yet
        for first, end in pairwise(sorted(ends)):
            moved = [moved for size, moved, _ in corners if size <= first]
            area = ((moved[-1] if moved else worst) - self._bound(end - 1)) * log(end / first)
            middle = [isqrt(first * end)] if end > COARSE * first else []
            for memory in (*middle, end - 1):
                if area > 0 and memory not in self.asked:
                    yield area, memory
                    break

    def next_memory(self) -> int | None:
        """Return the size to be looked at next, None if nothing is open."""
        return max(self._open(), default=(0.0, None))[1]

    def curve(self) -> Curve:
        """Return what is known in bytes."""
        corners, width = self._corners(), self.width
        ends = [*(memory - 1 for memory, _, _ in corners[1:]), self.top][: len(corners)]
        return Curve(
            tuple(
                Corner(memory * width, moved * width, plan, self._bound(end) >= moved)
                for (memory, moved, plan), end in zip(corners, ends, strict=True)
            ),
            tuple((memory * width, moved * width) for memory, moved in self._bounds()),
            self.graph.compulsory * width,
        )


def _in_memory(problem: Problem, memory_bytes: int) -> Problem:
    """Return the problem of least traffic in another memory; what does not depend on it is shared."""
    shared = {name: getattr(problem, name) for name in SHARED}
    other = unchecked_copy(
        problem, machine=problem.machine.with_(memory_bytes=memory_bytes), objective=ResidencyObjective()
    )
    vars(other).update(shared)
    return other
