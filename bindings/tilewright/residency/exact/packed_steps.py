"""Steps that fit into several memories by size, thing by thing, for plans where the sum of all is not enough.

The searches count what is on chip as if all memories were one. If what they find has no addresses, as
something would lie across a border, steps are looked at of which each thing can lie in one memory as a whole.
That leaves out ways to cut up a step that take more in all and could be divided better. So plans found here
may not be best, and nothing is proven.
"""

from __future__ import annotations

from tilewright.residency.exact.priced_steps import PricedShape, PricedSteps, undominated
from tilewright.residency.graph import members
from tilewright.residency.placement import rooms_of
from tilewright.residency.problem import Problem
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.shape import step_buffers
from tilewright.residency.transitions import ANYTHING, TensorChoice


class PackedSteps(PricedSteps):
    """The steps that are possible in several memories, as far as they are not worse than another in one.

    Parameters
    ----------
    names, most_again
        As of `PricedSteps`.
    """

    def __init__(
        self, problem: Problem, names: tuple[str, ...] = ("traffic",), most_again: int = ANYTHING
    ) -> None:
        super().__init__(problem, problem.machine.capacity, names, most_again)
        self.rooms = tuple(region.elements for region in problem.machine.regions)

    def _shapes(self, group: Group, tensors: TensorChoice, capacity: int | None = None) -> list[PricedShape]:
        found, room = list[PricedShape](), self.capacity if capacity is None else capacity
        waiting = super()._shapes(group, tensors, room)
        while waiting:
            found += [each for each in waiting if self._fits(group, tensors, each)]
            rest = [each for each in waiting if not self._fits(group, tensors, each)]
            room = tensors.taken + max((each.memory for each in rest), default=0) - 1
            waiting = super()._shapes(group, tensors, room) if rest and room >= 0 else []
            waiting = [each for each in waiting if each not in found]
        return undominated(found)

    def _fits(self, group: Group, tensors: TensorChoice, priced: PricedShape) -> bool:
        """Whether each thing of a step can lie in one memory."""
        whole = members(tensors.whole)
        output = group.output if tensors.in_place >= 0 else -1
        sizes = [self.steps.sizes[tensor] for tensor in whole if tensor != output]
        sizes += [buffer.size for buffer in step_buffers(group, priced.shape, frozenset(whole))]
        return rooms_of(sorted(filter(None, sizes)), self.rooms) is not None
