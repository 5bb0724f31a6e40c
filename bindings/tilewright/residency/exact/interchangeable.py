"""Tensors that all operations that are left treat alike: which of them leaves the chip is all the same.

That is, to what is moved. To addresses it is not: what lies beside free memory should leave first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from tilewright.residency.exact.traffic_steps import TrafficSteps
from tilewright.residency.graph import Graph, members
from tilewright.residency.transitions import State, StepChoice, Transitions


class Stay(NamedTuple):
    """A tensor that is on chip from a step until before another one, and whether it is in DRAM as well."""

    tensor: int
    begin: int
    end: int
    in_dram: bool


class Interchangeable:
    """What is alike in the plans of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.steps = Transitions(graph, 1)
        self.options = TrafficSteps(self.steps)

    def states(self, choices: Sequence[StepChoice]) -> list[State]:
        """Return what there is before each step, and after the last one."""
        found = [self.steps.start()]
        for choice in choices:
            done, on_chip, in_dram = found[-1]
            done |= choice.group
            live = self.options.still_read(done)
            on_chip = on_chip & ~choice.dropped | choice.fetched | choice.resident
            found.append(State(done, on_chip & live, (in_dram | choice.written) & live))
        return found

    def stays(self, choices: Sequence[StepChoice], states: Sequence[State]) -> list[Stay]:
        """Return what stays on chip after the step that brings it; not what lies in place of another."""
        found: list[Stay] = []
        begins: dict[int, int] = {}

        def ended(tensor: int, end: int) -> None:
            begin = begins.pop(tensor, end)
            if begin + 1 < end or (begin < end and states[end].on_chip >> tensor & 1):
                found.append(Stay(tensor, begin, end, bool(states[begin + 1].in_dram >> tensor & 1)))

        for number, choice in enumerate(choices):
            for tensor in members(choice.dropped):
                ended(tensor, number)
            begins |= dict.fromkeys(members(choice.fetched | choice.resident), number)
            if choice.in_place >= 0:
                begins.pop(choice.in_place, None)
                begins.pop(self.steps.group(choice.group).output, None)
            for tensor in [each for each in begins if not states[number + 1].on_chip >> each & 1]:
                ended(tensor, number + 1)
        return found

    def pairs(self, stays: Sequence[Stay], states: Sequence[State]) -> list[tuple[int, int, int]]:
        """Return pairs of stays that may change their ends, and before which step first."""
        found = []
        for one, other in combinations(range(len(stays)), 2):
            first, second = stays[one], stays[other]
            if first.in_dram != second.in_dram or first.tensor == second.tensor:
                continue
            for number in range(max(first.begin, second.begin) + 1, max(first.end, second.end)):
                if self._alike(first.tensor, second.tensor, states[number].done):
                    found.append((one, other, number))
                    break
        return found

    def _alike(self, one: int, other: int, done: int) -> bool:
        both = 1 << one | 1 << other
        return any(mask & both == both for mask in self.options.interchangeable(done))

    def exchanged(
        self, choices: Sequence[StepChoice], stays: Sequence[Stay], wanted: Sequence[int]
    ) -> list[StepChoice]:
        """Return steps that move as much, in which stays of alike tensors have other ends."""
        new, states = list(choices), self.states(choices)
        tensors, ends = [stay.tensor for stay in stays], [stay.end for stay in stays]
        for number in sorted(set(wanted)):
            late = [each for each, end in enumerate(ends) if end > number == wanted[each]]
            for early in [each for each, end in enumerate(ends) if end == number < wanted[each]]:
                for other in late:
                    one, two = tensors[early], tensors[other]
                    if stays[early].in_dram == stays[other].in_dram and self._alike(
                        one, two, states[number].done
                    ):
                        break
                else:
                    raise AssertionError("the ends of these stays cannot be changed")
                late.remove(other)
                new[number:] = (_renamed(choice, one, two) for choice in new[number:])
                ends[early], ends[other] = ends[other], ends[early]
                for each, stay in enumerate(stays):
                    if stay.begin >= number and tensors[each] in (one, two):
                        tensors[each] = one + two - tensors[each]
        return new


def _renamed(choice: StepChoice, one: int, other: int) -> StepChoice:
    """Return a step in which two tensors have changed places."""
    both = 1 << one | 1 << other

    def mask(old: int) -> int:
        return old ^ both if old & both not in (0, both) else old

    in_place = one + other - choice.in_place if choice.in_place in (one, other) else choice.in_place
    return StepChoice(
        choice.group,
        mask(choice.dropped),
        mask(choice.fetched),
        mask(choice.resident),
        mask(choice.written),
        in_place,
        choice.shape,
    )
