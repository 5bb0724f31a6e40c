"""From what is on chip before a step to what is on chip after it: all the ways, each with its traffic."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import combinations, product
from typing import NamedTuple

from tilewright.residency.graph import Graph, members
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.pareto_shapes import ParetoShape, pareto_shapes
from tilewright.residency.shapes.shape import Shape
from tilewright.residency.shapes.strips import least_line, strip_widths
from tilewright.residency.shapes.tiles import summed_channels

Key = tuple[int, frozenset[int], int, int]
"""Group, tensors on chip, those that are streamed, and the one whose place is taken."""


class State(NamedTuple):
    """What there is between two steps, as bit masks.

    Attributes
    ----------
    done
        Operations that have been executed.
    on_chip, in_dram
        Tensors that are still to be read, where they are: in one place or in both.
    """

    done: int
    on_chip: int
    in_dram: int


class StepChoice(NamedTuple):
    """A step, in numbers: see `tilewright.residency.plan.Step`.

    Attributes
    ----------
    group
        Bit mask of its operations; the others are of tensors.
    in_place
        Number of a tensor, or -1.
    """

    group: int
    dropped: int
    fetched: int
    resident: int
    written: int
    in_place: int
    shape: Shape


class Transition(NamedTuple):
    """A step with the elements that it moves and takes, and what there is after it."""

    moved: int
    memory: int
    choice: StepChoice
    after: State


class Transitions:
    """The steps that are possible in a memory.

    Parameters
    ----------
    capacity
        Elements of the memory.
    worst
        Most elements that a step is worth moving again.
    groups
        Where groups that are known already are found, and others are kept.
    """

    def __init__(
        self, graph: Graph, capacity: int, worst: int = 2**60, groups: dict[int, Group] | None = None
    ) -> None:
        self.graph, self.capacity, self.worst = graph, capacity, worst
        self.sizes = [tensor.size for tensor in graph.tensors]
        self._blocks = [0, *(operation.block(1) for operation in graph.operations)]
        self._groups: dict[int, Group] = {} if groups is None else groups
        self._stairs: dict[Key, tuple[list[int], list[ParetoShape]]] = {}
        self._least: dict[int, int] = {}
        self._lines: dict[int, dict[int, int]] = {}

    def start(self) -> State:
        """Return what there is before the first step."""
        graph = self.graph
        read = sum(1 << number for number, readers in enumerate(graph.readers) if readers)
        return State(graph.begin, 0, graph.given & read)

    def group(self, mask: int) -> Group:
        """Return the group of a bit mask, always the same."""
        if mask not in self._groups:
            self._groups[mask] = Group.of(self.graph, mask)
        return self._groups[mask]

    def least(self, mask: int) -> int:
        """Return what a group takes at least, whatever is on chip as a whole; more operations take more."""
        if mask not in self._least:
            group = self.group(mask)
            lines = self.lines(group)
            blocks = 0 if self._in_blocks(group) else sum(map(self._blocks.__getitem__, group.computed))
            buffers = sum(map(lines.__getitem__, group.computed[:-1])) if lines else 0
            self._least[mask] = blocks + buffers
        return self._least[mask]

    def _in_blocks(self, group: Group) -> bool:
        """Whether a group can be executed in blocks of input channels, in a few elements."""
        return len(group.operations) == 1 and summed_channels(self.graph, group.last) > 0

    def lines(self, group: Group) -> dict[int, int]:
        """Return the fewest elements of the line buffers of what a group computes, and others may have."""
        if self._in_blocks(group):
            return {}
        known = self._lines.setdefault(group.last.number, {})
        narrowest: int | None = None
        for tensor in group.computed[:-1]:
            if tensor not in known:
                # All that leads from a tensor to the last operation is in each group that computes it. The
                # narrowest strips have the smallest buffers.
                if narrowest is None:
                    narrowest = next(
                        iter(strip_widths(group)[-1:]), self.graph.tensors[group.output].shape[2]
                    )
                known[tensor] = least_line(group, tensor, narrowest)
        return known

    def size(self, mask: int) -> int:
        """Return the elements of some tensors."""
        return sum(self.sizes[number] for number in members(mask))

    def moves(self, state: State, mask: int) -> Iterator[Transition]:
        """Return the ways to execute a group next: for each, what moves least in the memory that remains."""
        group = self.group(mask)
        sources = sum(1 << tensor for tensor in group.sources)
        done = state.done | mask
        live = self._live(done)
        keeps = list(self.outputs(group, live))
        weights = sum(operation.weights for operation in group.operations)
        for dropped in subsets(state.on_chip & state.in_dram):
            there = state.on_chip & ~dropped
            if self.size(there) > self.capacity:
                continue
            for fetched in subsets(sources & ~there):
                on_chip = there | fetched
                taken = self.size(on_chip)
                if taken > self.capacity:
                    continue
                streamed = sources & ~on_chip
                for resident, written in keeps:
                    after = State(
                        done,
                        (on_chip | resident) & live,
                        (state.in_dram | written) & live,
                    )
                    total = taken + self.size(resident)
                    moved = weights + self.size(fetched) + self.size(written) + self.size(streamed)
                    for in_place in self.places(group, on_chip, resident, state.done):
                        room = self.capacity - total + (self.sizes[in_place] if in_place >= 0 else 0)
                        whole = on_chip | resident
                        stair = self.best(group, whole, streamed, room, in_place)
                        if stair is None:
                            continue
                        yield Transition(
                            moved + stair.again,
                            self.capacity - room + stair.memory,
                            StepChoice(mask, dropped, fetched, resident, written, in_place, stair.shape),
                            after,
                        )

    def _live(self, done: int) -> int:
        """Return the tensors that are still to be read."""
        return sum(1 << number for number, readers in enumerate(self.graph.readers) if readers & ~done)

    def outputs(self, group: Group, live: int) -> Iterator[tuple[int, int]]:
        """Return where the outputs of a group may go: those that stay on chip, those that are written.

        What only one more operation reads is never worth being in both places: it is needed in that one
        where it is read from. But what takes the place of an operand needs no memory while it is written.
        """
        ways = []
        for tensor in group.outputs:
            bit = 1 << tensor
            leaves = self.graph.leaving & bit
            if not live & bit:
                ways.append([(0, leaves)])
                continue
            if leaves:
                ways.append([(bit, bit), (0, bit)])
                continue
            several = (self.graph.readers[tensor] & ~group.mask).bit_count() > 1
            both = several or (tensor == group.output and group.last.pixelwise)
            ways.append([(bit, 0), (0, bit), *([(bit, bit)] if both else [])])
        for way in product(*ways):
            yield sum(each[0] for each in way), sum(each[1] for each in way)

    def places(self, group: Group, on_chip: int, resident: int, done: int) -> list[int]:
        """Return the tensors whose place the output may take, and -1 for a place of its own."""
        if not resident >> group.output & 1:
            return [-1]
        found = [tensor for tensor in group.replaceable_operands(done) if on_chip >> tensor & 1]
        return [*found, -1]

    def best(
        self, group: Group, whole: int, streamed: int, room: int, in_place: int = -1
    ) -> ParetoShape | None:
        """Return how to cut up a group so that least is moved again in some room; None if it does not fit.

        Parameters
        ----------
        in_place
            Tensor whose place the output takes, or -1.
        """
        if len(group.operations) == 1:
            in_place = -1  # any shape will do
        seen = frozenset(tensor for tensor in {*group.lines, group.output} if whole >> tensor & 1)
        key = (group.mask, seen, streamed, in_place)
        if key not in self._stairs:
            cuts = None, *strip_widths(group)
            size = self.size(streamed)
            stairs = pareto_shapes(group, seen, size, self.capacity, self.worst, cuts, in_place)
            self._stairs[key] = [stair.memory for stair in stairs], stairs
        memories, stairs = self._stairs[key]
        place = bisect_right(memories, room)
        return stairs[place - 1] if place else None


def subsets(mask: int) -> Iterator[int]:
    """Return the subsets of a bit mask, the empty one first."""
    bits = [1 << number for number in members(mask)]
    for count in range(len(bits) + 1):
        for chosen in combinations(bits, count):
            yield sum(chosen)
