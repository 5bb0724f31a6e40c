"""Tensors that all operations that are left treat alike: which of them leaves the chip is all the same.

That is, to what is moved. To addresses it is not: what lies beside free memory should leave first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import accumulate, combinations
from typing import NamedTuple

from tilewright.residency.graph import Graph, members
from tilewright.residency.shapes.groups import Groups
from tilewright.residency.transitions import State, StepChoice


class InterchangeableTensors:
    """Sets of tensors of a graph that all operations that are left treat alike.

    Parameters
    ----------
    counted
        For each tensor, numbers that must be the same for tensors of a set.
    """

    def __init__(self, graph: Graph, counted: Sequence[object]) -> None:
        self.graph, self._counted = graph, counted
        self._sets: dict[int, list[int]] = {}
        # For each tensor how each operation reads it.
        self._readings: list[dict[int, tuple[object, ...]]] = [{} for _ in graph.tensors]
        for operation in graph.operations:
            for reading in operation.readings:
                own = (reading.plane, reading.output, reading.stride, reading.before, reading.extent)
                known = self._readings[reading.tensor].get(operation.number, ())
                self._readings[reading.tensor][operation.number] = (*known, own)

    def sets(self, done: int) -> list[int]:
        """Return the sets of two or more tensors when `done` have been executed, as bit masks."""
        if done in self._sets:
            return self._sets[done]
        found: dict[object, int] = {}
        left = self.graph.all & ~done
        for number in members(self.graph.still_read(done)):
            if number and not done >> (number - 1) & 1:
                continue
            readers = tuple((op, how) for op, how in self._readings[number].items() if left >> op & 1)
            # What is read in parts is like no other.
            apart = number if self.graph.read_in_parts >> number & 1 else None
            key = self.graph.tensors[number].shape, self._counted[number], readers, apart
            found[key] = found.get(key, 0) | 1 << number
        self._sets[done] = [mask for mask in found.values() if mask & (mask - 1)]
        return self._sets[done]


def canonical(sets: Sequence[int], chip: int, dram: int) -> tuple[int, int]:
    """Return a state that differs from another one by interchangeable tensors: of all such the same."""
    for mask in sets:
        here, there = chip & mask, dram & mask
        if not here or not mask & ~(here & ~there):
            continue
        count, both, firsts = here.bit_count(), (here & there).bit_count(), _firsts(mask)
        chip = chip & ~mask | firsts[count]
        dram = dram & ~mask | mask & ~firsts[count - both]
    return chip, dram


@cache
def _firsts(mask: int) -> tuple[int, ...]:
    """Return the first members of a bit mask as a bit mask: none, one, two, and so on."""
    return tuple(accumulate((1 << number for number in members(mask)), int.__or__, initial=0))


def true_names(sets: Sequence[int], chip: int, dram: int, own: dict[int, int]) -> dict[int, int]:
    """Return what the tensors of `canonical` are in truth, given what those before were."""
    found: dict[int, int] = {}
    for mask in sets:
        numbers = members(mask)
        order = sorted(numbers, key=lambda n: (not chip >> n & 1, dram >> n & 1))
        found |= {name: own[number] for name, number in zip(numbers, order, strict=True)}
    return found


# Exchanges in plans ---------------------------------------------------------------------------------------


class Stay(NamedTuple):
    """A tensor that is on chip from a step until before another one, and whether it is in DRAM as well."""

    tensor: int
    begin: int
    end: int
    in_dram: bool


class Exchanges:
    """Which tensors of the plans of a graph may leave the chip in place of others."""

    def __init__(self, groups: Groups) -> None:
        self.groups, self.graph = groups, groups.graph
        # What it costs to have them in DRAM alone must be the same.
        self._alike = InterchangeableTensors(self.graph, [tensor.leaves for tensor in self.graph.tensors])

    def states(self, choices: Sequence[StepChoice]) -> list[State]:
        """Return what there is before each step, and after the last one."""
        graph = self.graph
        found = [State(graph.begin, 0, graph.given & graph.still_read(graph.begin))]
        for choice in choices:
            found.append(found[-1].after(graph, choice))
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
                begins.pop(self.groups[choice.group].output, None)
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
                if self._are_alike(first.tensor, second.tensor, states[number].done):
                    found.append((one, other, number))
                    break
        return found

    def _are_alike(self, one: int, other: int, done: int) -> bool:
        both = 1 << one | 1 << other
        return any(mask & both == both for mask in self._alike.sets(done))

    def exchange(
        self, choices: Sequence[StepChoice], stays: Sequence[Stay], wanted: Sequence[int]
    ) -> list[StepChoice]:
        """Return steps that move as much, in which stays have other ends.

        Parameters
        ----------
        wanted
            The end of each stay, which some of those that are alike have now.
        """
        new, states = list(choices), self.states(choices)
        tensors, ends = [stay.tensor for stay in stays], [stay.end for stay in stays]
        for number in sorted(set(wanted)):
            late = [each for each, end in enumerate(ends) if end > number == wanted[each]]
            for early in [each for each, end in enumerate(ends) if end == number < wanted[each]]:
                for other in late:
                    one, two = tensors[early], tensors[other]
                    alike = stays[early].in_dram == stays[other].in_dram
                    if alike and self._are_alike(one, two, states[number].done):
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

    return choice._replace(
        dropped=mask(choice.dropped),
        fetched=mask(choice.fetched),
        resident=mask(choice.resident),
        written=mask(choice.written),
        in_place=one + other - choice.in_place if choice.in_place in (one, other) else choice.in_place,
    )
