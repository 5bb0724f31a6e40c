"""The search for plans that lie in one memory, without DRAM, where weights may be copied there from flash.

A copy takes memory, and lowers other costs. So of each way to execute a step all sets of copies are kept that
no other one beats in the memory that is taken and in all costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tilewright.core.branch_and_bound import check_deadline
from tilewright.residency.core_accesses import WEIGHTS, Thing
from tilewright.residency.exact.ram_search import (
    Costs,
    Label,
    Way,
    Where,
    WithoutDram,
    are_beaten,
    undominated,
)
from tilewright.residency.problem import Problem
from tilewright.residency.shapes.shape import has_blocks
from tilewright.residency.transitions import StepChoice


class _Copies(NamedTuple):
    """What a way takes and costs with some weights copied, these by the numbers of their operations."""

    costs: Costs
    copied: frozenset[int] = frozenset()


class InOneOfMemories(WithoutDram):
    """The search for the plans of a problem that no other one beats, in one of its memories.

    Parameters
    ----------
    first
        What counts besides memory; None for nothing but what is limited.
    region
        Number of the memory.
    capacity
        Elements of it that may be taken.
    """

    def __init__(
        self, problem: Problem, deadline: float, first: str | None, *, region: int, capacity: int
    ) -> None:
        super().__init__(problem, deadline, first, capacity=capacity)
        self.region, self.streams = region, self.memory_costs.may_copy(self.names)

    def ways(self, mask: int, done: int, left: int | None = None, where: Where = ()) -> list[Label]:
        """Return the ways to execute a group next that no other one beats."""
        return undominated(
            [label for way in self.every_way(mask, done, left) for label in self._labels_of(way)]
        )

    def _labels_of(self, way: Way) -> list[Label]:
        """Return a way with the weights copied that are worth it."""
        check_deadline(self.deadline)
        inside = {(buffer.what, buffer.number) for buffer in way.buffers}
        stay = has_blocks(self.groups[way.choice.group], way.choice.shape)  # or are streamed
        costs, copies = self.counted(way.spent), list[tuple[int, int, Costs]]()
        for thing in way.accesses:
            here, flash = self._costs_of(way, thing)
            if thing[0] != WEIGHTS or thing in inside:
                costs = _sum(costs, here)
                continue
            costs, less = _sum(costs, flash), tuple(a - b for a, b in zip(here, flash, strict=True))
            if min(less, default=0) < 0 and not stay:
                copies.append((thing[1], self.graph.operations[thing[1]].copyable, less))
        found, room = [_Copies((way.memory, *costs))], self.steps.capacity
        for number, size, less in copies:
            more = [
                _Copies(_sum(each.costs, (size, *less)), each.copied | {number})
                for each in found
                if each.costs[0] + size <= room
            ]
            found = _unbeaten([*found, *more])
        return [Label(each.costs, None, self._choice(way, each.copied), way.left) for each in found]

    def _costs_of(self, way: Way, thing: Thing) -> tuple[Costs, Costs]:
        """Return what accesses to a thing add to all costs in this memory, and if it stays in flash.

        The second is told of weights alone.
        """
        every = {name: self.costs_of(name, way, thing) for name in self.placed}
        nothing = (0,) * (self.region + 1)
        told = [every.get(name, nothing) for name in self.names]
        return tuple(each[self.region] for each in told), tuple(each[-1] for each in told)

    @staticmethod
    def _choice(way: Way, copied: frozenset[int]) -> StepChoice:
        if not copied:
            return way.choice
        shape = way.choice.shape
        return way.choice._replace(shape=replace(shape, copied=shape.copied | copied))


def _sum(one: Costs, other: Sequence[int]) -> Costs:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _unbeaten(ways: list[_Copies]) -> list[_Copies]:
    """Return those that no other one beats in the memory that it takes and in all costs."""
    found, known = list[_Copies](), list[Costs]()
    for way in sorted(ways, key=lambda each: each.costs):
        if not are_beaten(way.costs, known):
            known.append(way.costs)
            found.append(way)
    return found
