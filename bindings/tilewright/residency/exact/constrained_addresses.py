"""Addresses of what steps place where constraints say something about them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright.core.branch_and_bound import share_of
from tilewright.residency.graph import members
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
        What must hold, of ``address`` and ``memory`` alone.
    capacity
        Elements of the memory.
    below
        Elements that lie below it, of weights that stay.
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
        self.owner = {term: owners[term] for term in open_ if term.word == "address"}
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
            left = self._left(parts, place)
            if left is not None and self._descend(place + 1, left):
                return True
            self.at[number] = None
        return False

    def _places(self, place: int, item: Item, beside: list[tuple[int, int]]) -> Iterator[int] | list[int]:
        last = self.capacity - item.size
        if place < self.told:
            return iter(range(last + 1))
        return [at for at in sorted({0, *(high for _, high in beside)}) if at <= last]

    def _left(self, parts: tuple[Ground, ...], place: int) -> tuple[Ground, ...] | None:
        """Return what is left of constraints; None where it cannot hold."""
        width, ended = self.problem.machine.element_bytes, place >= len(self.order)

        def value(term: Term) -> Ground | None:
            if term.word == "address":
                at = self.at[self.owner[term]]
                return None if at is None else Constant(at + self.below)
            if not ended:
                return None
            placed = zip(self.items, self.at, strict=True)
            top = max((int(at) + item.size for item, at in placed if at is not None), default=0)
            return Constant((top + self.below) * width)

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
        most = self.capacity + self.below
        return (0, most) if term.word == "address" else (0, most * self.problem.machine.element_bytes)


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
        return place_steps(problem.groups, choices, capacity, deadline, exact=True)
    return Placing(problem, choices, parts, capacity, below, share_of(deadline, PROOF_SHARE)).plan()
