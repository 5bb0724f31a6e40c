"""Addresses of what steps place where constraints say something about them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright.core.branch_and_bound import share_of
from tilewright.residency.exact.residuals import PLACED_IN
from tilewright.residency.graph import members
from tilewright.residency.machine import Region, region_of, tops_of
from tilewright.residency.placement import Item, place_steps, placed_items, plan_of
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.residency.transitions import State, StepChoice
from tilewright.spec.constraints.parts import Constant, Ground, Term, conjuncts, substituted, terms
from tilewright.spec.constraints.ranges import Range, can_hold

PROOF_SHARE = 0.3
"""Share of the time in which addresses are sought for one sequence of steps."""

LOOKED_AT = 256
"""Places between two looks at the clock."""


@dataclass
class Placing:
    """The search for addresses of one sequence of steps, by depth first.

    What constraints speak of is tried at each address, all else at 0 and at the ends of what is placed: if
    there are addresses, then also some in which nothing else could lie lower.

    Attributes
    ----------
    parts
        What must hold, of ``address`` and ``memory`` alone, and of which memory it is.
    capacity
        Elements of the memory, or of several together.
    below
        Elements that lie below it, of weights that stay. Of several memories there are none.
    """

    problem: Problem
    choices: Sequence[StepChoice]
    parts: tuple[Ground, ...]
    capacity: int
    below: int
    deadline: float

    def __post_init__(self) -> None:
        self.items = placed_items(self.problem.groups, self.choices)
        owners = self._owners()
        open_ = {term for part in self.parts for term in terms(part)}
        self.owner = {term: owners[term] for term in open_ if term.word in ("address", PLACED_IN)}
        self.regions = memories_of(self.problem) or (Region("", 0, self.capacity),)
        told = sorted(set(self.owner.values()))
        rest = sorted(set(range(len(self.items))) - set(told), key=lambda n: -self.items[n].size)
        self.order, self.told = [*told, *rest], len(told)
        self.at: list[int | None] = [None] * len(self.items)
        self._looks = 0

    def _owners(self) -> dict[Term, int]:
        """Return the item of each tensor that is on chip as a whole, in the step of each operation."""
        graph, groups = self.problem.graph, self.problem.groups
        found: dict[Term, int] = {}
        state = State(graph.begin, 0, graph.given & graph.still_read(graph.begin))
        for number, choice in enumerate(self.choices):
            on_chip = state.on_chip & ~choice.dropped | choice.fetched | choice.resident
            for tensor in members(on_chip):
                key = graph.tensors[tensor].key
                item = next(
                    place
                    for place, each in enumerate(self.items)
                    if each.begin <= number < each.end
                    and any(name == key and step <= number for step, name in each.names)
                )
                found.setdefault(Term(PLACED_IN, (graph.tensors[tensor].name,)), item)
                for operation in groups[choice.group].operations:
                    found[Term("address", (graph.tensors[tensor].name, operation.name))] = item
            state = state.after(graph, choice)
        return found

    def plan(self) -> Plan | None:
        """Return the plan of the steps, None where there are no addresses, or none are found in time."""
        if not self._descend(0, self.parts):
            return None
        addresses = [int(at) for at in self.at if at is not None]
        return plan_of(self.problem.groups, self.choices, list(zip(self.items, addresses, strict=True)))

    def _descend(self, place: int, parts: tuple[Ground, ...]) -> bool:
        if place == len(self.order):
            return self._left(parts, place) is not None
        number = self.order[place]
        item = self.items[number]
        beside = [
            (int(at), int(at) + other.size)
            for other, at in zip(self.items, self.at, strict=True)
            if at is not None and other.begin < item.end and item.begin < other.end
        ]
        for at in self._places(place, item, beside):
            self._looks += 1
            if self._looks % LOOKED_AT == 0 and time.monotonic() > self.deadline:
                return False
            if any(at < high and low < at + item.size for low, high in beside):
                continue
            self.at[number] = at
            left = self._left(parts, place) if self._taken() <= self.capacity else None
            if left is not None and self._descend(place + 1, left):
                return True
            self.at[number] = None
        return False

    def _taken(self) -> int:
        """Return what is taken of each memory up to the highest element, added up."""
        placed = zip(self.items, self.at, strict=True)
        return sum(tops_of(self.regions, ((int(at), item.size) for item, at in placed if at is not None)))

    def _places(self, place: int, item: Item, beside: list[tuple[int, int]]) -> Iterator[int]:
        for begin, end in ((region.begin, region.end) for region in self.regions):
            last = end - item.size
            if place < self.told:
                yield from range(begin, last + 1)
            else:
                ends = (high for _, high in beside if begin <= high)
                yield from (at for at in sorted({begin, *ends}) if at <= last)

    def _left(self, parts: tuple[Ground, ...], place: int) -> tuple[Ground, ...] | None:
        """Return what is left of constraints; None where it cannot hold."""
        width, ended = self.problem.machine.element_bytes, place >= len(self.order)

        def value(term: Term) -> Ground | None:
            if term.word in ("address", PLACED_IN):
                at = self.at[self.owner[term]]
                if at is None:
                    return None
                found = at + self.below if term.word == "address" else 2 + region_of(self.regions, at)
                return Constant(found)
            return Constant((self._taken() + self.below) * width) if ended else None

        if place >= self.told and not ended:
            return parts
        found: list[Ground] = []
        for part in parts:
            for each in conjuncts(substituted(part, value)):
                if not can_hold(each, self._range):
                    return None
                if each != Constant(True):
                    found.append(each)
        return tuple(found)

    def _range(self, term: Term) -> Range:
        if term.word == PLACED_IN:
            return 2, 1 + len(self.regions)
        most = max(self.capacity, self.regions[-1].end) + self.below
        return (0, most) if term.word == "address" else (0, most * self.problem.machine.element_bytes)


def memories_of(problem: Problem) -> tuple[Region, ...]:
    """Return the memories beside DRAM, if there are several. Without DRAM addresses are sought in each."""
    regions = problem.machine.regions
    return regions if problem.machine.dram and len(regions) > 1 else ()


def place_constrained(
    problem: Problem,
    choices: Sequence[StepChoice],
    parts: tuple[Ground, ...],
    capacity: int,
    below: int,
    deadline: float,
) -> Plan | None:
    """Return the plan of some steps whose addresses keep what must hold, or None if none are found."""
    if not parts:
        regions = memories_of(problem)
        return place_steps(problem.groups, choices, capacity, deadline, exact=True, regions=regions)
    return Placing(problem, choices, parts, capacity, below, share_of(deadline, PROOF_SHARE)).plan()
