"""What the steps of a plan need of the memory if other operations load their weights than did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tilewright.residency.graph import members
from tilewright.residency.shapes.groups import Group, Groups
from tilewright.residency.shapes.pareto_shapes import Limits, pareto_shapes
from tilewright.residency.shapes.shape import Shape, elements_moved
from tilewright.residency.shapes.strips import strip_widths
from tilewright.residency.transitions import StepChoice

NEVER = 2**60
"""What a step needs that does not fit, or moves more."""


class _Step(NamedTuple):
    """A step.

    Attributes
    ----------
    whole, taken
        Tensors that are on chip as a whole, and the elements that they take.
    streamed, again
        Elements of sources that are read through line buffers, and that are moved more than once.
    """

    choice: StepChoice
    group: Group
    whole: frozenset[int]
    streamed: int
    taken: int
    again: int


class WeightNeeds:
    """What the steps of a plan need that move no more than they do.

    Parameters
    ----------
    choices
        Steps in some memory of `capacity` elements.

    Attributes
    ----------
    maps
        Elements of maps that they move, and of weights that are loaded once more.
    """

    def __init__(self, groups: Groups, choices: Sequence[StepChoice], capacity: int) -> None:
        self.groups, self.graph, self.capacity = groups, groups.graph, capacity
        self._steps = self._read(choices)
        self._known: dict[tuple[int, int], tuple[int, Shape]] = {}
        self.maps = sum(step.streamed + step.again for step in self._steps) + self._fetched_and_written(
            choices
        )

    def _read(self, choices: Sequence[StepChoice]) -> list[_Step]:
        graph, alive, done, found = self.graph, 0, self.graph.begin, []
        sizes = [tensor.size for tensor in graph.tensors]
        for choice in choices:
            group = self.groups[choice.group]
            alive = alive & ~choice.dropped | choice.fetched | choice.resident
            taken = sum(sizes[number] for number in members(alive))
            if choice.in_place >= 0:
                taken -= sizes[choice.in_place]
            streamed = members(group.read & ~alive)
            size = group.elements_read(group.read & ~alive)
            again = elements_moved(group, choice.shape, streamed, ()) - size - group.weights
            found.append(_Step(choice, group, frozenset(members(alive)), size, taken, again))
            done |= choice.group
            alive &= graph.still_read(done)
        return found

    def _fetched_and_written(self, choices: Sequence[StepChoice]) -> int:
        """Return the elements of the tensors that are loaded whole, and that are written."""
        graph, done, found = self.graph, self.graph.begin, 0
        for choice in choices:
            found += sum(graph.still_needed(tensor, done) for tensor in members(choice.fetched))
            found += sum(graph.tensors[tensor].size for tensor in members(choice.written))
            done |= choice.group
        return found

    def most(self, loading: int) -> tuple[int, int]:
        """Return what the steps need if some operations load their weights, and which ones need most.

        Parameters
        ----------
        loading
            Bit mask of operations.
        """
        needs = [need for need, _ in self._of_steps(loading)]
        place = max(range(len(needs)), key=needs.__getitem__)
        return needs[place], self._steps[place].choice.group

    def choices(self, loading: int) -> tuple[StepChoice, ...]:
        """Return the steps, cut up as they need least if some operations load their weights."""
        found = zip(self._steps, self._of_steps(loading), strict=True)
        return tuple(step.choice._replace(shape=shape) for step, (_, shape) in found)

    def _of_steps(self, loading: int) -> list[tuple[int, Shape]]:
        """Return what each step needs, and its shape."""
        found = []
        for number, step in enumerate(self._steps):
            key = number, loading & step.choice.group
            if key not in self._known:
                self._known[key] = self._least(step, key[1])
            found.append(self._known[key])
        return found

    def _least(self, step: _Step, loading: int) -> tuple[int, Shape]:
        """Return what a step needs so that no more is moved again, and how it is cut up."""
        operations = tuple(
            replace(op, weights=op.parameters, staying=0)
            if loading >> op.number & 1
            else replace(op, weights=0, staying=op.parameters)
            for op in step.group.operations
        )
        group = Group(self.groups, operations)
        limits, columns = Limits(self.capacity - step.taken, step.again), (None, *strip_widths(group))
        found = pareto_shapes(group, step.whole, step.streamed, limits, columns, step.choice.in_place)
        return (step.taken + found[0].memory, found[0].shape) if found else (NEVER, step.choice.shape)
