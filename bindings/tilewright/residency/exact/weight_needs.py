"""What steps need that were found for some weights that stay, if others do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tilewright.residency.graph import Graph, members
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.pareto_shapes import pareto_shapes
from tilewright.residency.shapes.shape import Shape, elements_moved
from tilewright.residency.shapes.strips import strip_widths
from tilewright.residency.transitions import StepChoice

NEVER = 2**60
"""What a step needs that does not fit, or moves more."""


class _Step(NamedTuple):
    """A step: what is on chip as a whole takes `taken` elements, and `again` are moved more than once."""

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
    graph, choices
        Operations, and their steps in some memory of `capacity` elements.

    Attributes
    ----------
    maps
        Elements of maps that they move, and of weights that are loaded once more.
    """

    def __init__(self, graph: Graph, choices: Sequence[StepChoice], capacity: int) -> None:
        self.graph, self.capacity = graph, capacity
        self._steps = list(self._read(choices))
        self._known: dict[tuple[int, int], tuple[int, Shape]] = {}
        sizes = [tensor.size for tensor in graph.tensors]
        masks = (each for step in self._steps for each in (step.choice.fetched, step.choice.written))
        self.maps = sum(step.streamed + step.again for step in self._steps)
        self.maps += sum(sizes[number] for mask in masks for number in members(mask))

    def _read(self, choices: Sequence[StepChoice]) -> list[_Step]:
        graph, alive, done, found = self.graph, 0, self.graph.begin, []
        sizes = [tensor.size for tensor in graph.tensors]
        for choice in choices:
            group = Group.of(graph, choice.group)
            alive = alive & ~choice.dropped | choice.fetched | choice.resident
            taken = sum(sizes[number] for number in members(alive))
            if choice.in_place >= 0:
                taken -= sizes[choice.in_place]
            streamed = [number for number in group.sources if not alive >> number & 1]
            size = sum(sizes[number] for number in streamed)
            again = elements_moved(group, choice.shape, streamed, ()) - size
            again -= sum(operation.weights for operation in group.operations)
            found.append(_Step(choice, group, frozenset(members(alive)), size, taken, again))
            done |= choice.group
            alive = sum(1 << number for number in members(alive) if graph.readers[number] & ~done)
        return found

    def most(self, loading: int) -> tuple[int, int]:
        """Return what the steps need if some operations load their weights, and which ones need most.

        Parameters
        ----------
        loading
            Bit mask of operations.
        """
        needs = [need for need, _ in self._all(loading)]
        place = max(range(len(needs)), key=needs.__getitem__)
        return needs[place], self._steps[place].choice.group

    def choices(self, loading: int) -> tuple[StepChoice, ...]:
        """Return the steps, cut up as they need least if some operations load their weights."""
        found = zip(self._steps, self._all(loading), strict=True)
        return tuple(step.choice._replace(shape=shape) for step, (_, shape) in found)

    def _all(self, loading: int) -> list[tuple[int, Shape]]:
        return [self._of(number, loading & step.choice.group) for number, step in enumerate(self._steps)]

    def _of(self, number: int, loading: int) -> tuple[int, Shape]:
        key = number, loading
        if key not in self._known:
            self._known[key] = self._least(self._steps[number], loading)
        return self._known[key]

    def _least(self, step: _Step, loading: int) -> tuple[int, Shape]:
        """Return what a step needs so that no more is moved again, and how it is cut up."""
        operations = tuple(
            replace(op, weights=op.parameters, staying=0)
            if loading >> op.number & 1
            else replace(op, weights=0, staying=op.parameters)
            for op in step.group.operations
        )
        group = Group(self.graph, operations)
        group.__dict__["_known"] = step.group._known
        room = self.capacity - step.taken
        cuts = None, *strip_widths(group)
        stairs = pareto_shapes(group, step.whole, step.streamed, room, step.again, cuts, step.choice.in_place)
        return (step.taken + stairs[0].memory, stairs[0].shape) if stairs else (NEVER, step.choice.shape)
