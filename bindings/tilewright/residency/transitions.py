"""From what is on chip before a step to what is on chip after it: all that can be done, with its cost."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import combinations, product
from typing import NamedTuple

from tilewright.residency.attention import Attention
from tilewright.residency.graph import Graph, Operation, members
from tilewright.residency.machine import ResidencyLimits
from tilewright.residency.shapes.groups import Group, Groups, group_mask
from tilewright.residency.shapes.pareto_shapes import Limits, ParetoShape, pareto_shapes
from tilewright.residency.shapes.shape import Shape
from tilewright.residency.shapes.strips import least_line, strip_widths
from tilewright.residency.shapes.tiles import summed_channels

ANYTHING = 2**60
"""More than any step moves."""


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

    def after(self, graph: Graph, choice: StepChoice) -> State:
        """Return what there is after a step."""
        done = self.done | choice.group
        live = graph.still_read(done)
        on_chip = self.on_chip & ~choice.dropped | choice.fetched | choice.resident
        return State(done, on_chip & live, (self.in_dram | choice.written) & live)


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


class TensorChoice(NamedTuple):
    """What a step does with its tensors, as bit masks.

    Attributes
    ----------
    whole
        Tensors of the step that are on chip as a whole during it.
    streamed
        Sources that are read through line buffers.
    in_place
        Number of the tensor whose place the output takes, or -1.
    taken
        Elements of what is on chip as a whole, beside other things: the output may take none.
    """

    fetched: int
    resident: int
    written: int
    streamed: int
    whole: int
    in_place: int
    taken: int


class Transitions:
    """The steps that are possible in a memory.

    Parameters
    ----------
    capacity
        Elements of the memory.
    limits
        On the order, and on the operations of a step.
    most_again
        Most elements that a step is worth moving again.
    """

    def __init__(
        self,
        groups: Groups,
        capacity: int,
        limits: ResidencyLimits | None = None,
        most_again: int = ANYTHING,
    ) -> None:
        self.groups, self.graph, self.capacity = groups, groups.graph, capacity
        self.limits = limits or ResidencyLimits()
        self.most_again = most_again
        self.sizes = [tensor.size for tensor in self.graph.tensors]
        self._blocks = [0, *map(least_block, self.graph.operations)]
        self._shapes: dict[tuple[object, ...], tuple[list[int], list[ParetoShape]]] = {}
        self._least: dict[int, int] = {}
        self._lines: dict[int, dict[int, int]] = {}
        self._sums: dict[int, int] = {0: 0}

    def start(self) -> State:
        """Return what there is before the first step."""
        graph = self.graph
        return State(graph.begin, 0, graph.given & graph.still_read(graph.begin))

    def needed(self, mask: int, done: int) -> int:
        """Return the elements of some tensors that are still read when `done` have been executed."""
        if not mask & self.graph.read_in_parts:
            return self.size(mask)
        return sum(self.graph.still_needed(tensor, done) for tensor in members(mask))

    def streamed(self, group: Group, mask: int) -> int:
        """Return the elements that a group reads of some sources through line buffers, each once."""
        return group.elements_read(mask) if mask & self.graph.read_in_parts else self.size(mask)

    def size(self, mask: int) -> int:
        """Return the elements of some tensors."""
        known = self._sums.get(mask)
        if known is None:
            low = mask & -mask
            known = self._sums[mask] = self.size(mask ^ low) + self.sizes[low.bit_length() - 1]
        return known

    # Groups --------------------------------------------------------------------------------------------

    def next_groups(self, done: int) -> Iterator[int]:
        """Return the groups that may come next and are not too large: a step ends with one of its operations.

        It then has all that this one needs and that has not been executed.
        """
        too_large: list[int] = []
        for mask in self.groups_within_limits(done):
            if any(mask & each == each for each in too_large):
                continue
            if self.least_memory(mask) > self.capacity:
                # More operations need more, but for those with which all of some attention is there.
                if not any(self._begins(each, mask) for each in self.graph.attentions):
                    too_large.append(mask)
                continue
            yield mask

    def _begins(self, attention: Attention, mask: int) -> bool:
        """Whether a group has operations of attention, but not the one that gives the context."""
        there = any(mask >> number & 1 for number in attention.operations)
        return there and not mask >> attention.context & 1

    def groups_within_limits(self, done: int) -> Iterator[int]:
        """Return the groups that may come next, however large they are; none before one that it contains."""
        most, alone = self.limits.most_operations, self.graph.alone
        for last in members(self.graph.all & ~done):
            mask = group_mask(self.graph, done, last)
            if mask & alone and mask & (mask - 1):
                continue
            if self.limits.order == "given" and mask != ((1 << last + 1) - 1) & ~done:
                continue
            if most is None or mask.bit_count() <= most:
                yield mask

    def least_memory(self, mask: int) -> int:
        """Return what a group takes at least, whatever is on chip as a whole; more operations take more."""
        if mask not in self._least:
            group = self.groups[mask]
            lines = self.least_lines(group)
            blocks = 0 if self._in_blocks(group) else sum(map(self._blocks.__getitem__, group.computed))
            buffers = sum(map(lines.__getitem__, group.computed[:-1])) if lines else 0
            self._least[mask] = blocks + buffers
        return self._least[mask]

    def _in_blocks(self, group: Group) -> bool:
        """Whether a group can be executed in blocks of input channels, in a few elements."""
        return len(group.operations) == 1 and summed_channels(self.graph, group.last) > 0

    def least_lines(self, group: Group) -> dict[int, int]:
        """Return the fewest elements of the line buffers of what a group computes, and others may have.

        They are smallest in passes over what the last operation adds up, where it has running values.
        """
        if self._in_blocks(group):
            return {}
        known = self._lines.setdefault(group.last.number, {})
        narrowest: int | None = None
        for tensor in group.computed[:-1]:
            if tensor not in known:
                # All that leads from a tensor to the last operation is in each group that computes it. The
                # narrowest strips have the smallest buffers.
                if narrowest is None:
                    narrowest = next(iter(strip_widths(group)[-1:]), (group.running or group).row)
                known[tensor] = self._with_keys(group, tensor, least_line(group, tensor, narrowest))
        return known

    def _with_keys(self, group: Group, tensor: int, elements: int) -> int:
        """Return what a line buffer takes at least of so many elements, as keys may pass by one by one."""
        leading = self.graph.ops.ancestors[group.last.number] | 1 << group.last.number
        for each in self.graph.attentions:
            if tensor in each.rows and leading >> each.context & 1:
                alone = self.graph.tiles and each.context == group.last.number  # matrix by matrix
                return min(elements, each.share if alone else each.groups)
        return elements

    # Tensors -------------------------------------------------------------------------------------------

    def tensor_choices(
        self, group: Group, there: int, done: int, *, written_early: bool = False
    ) -> Iterator[TensorChoice]:
        """Return what a group may do with its tensors, as far as what is whole then fits into the memory.

        Parameters
        ----------
        there
            Tensors that are on chip before, and stay during the step.
        done
            Operations that have been executed before.
        written_early
            Whether what stays on chip may be written although nobody else needs it in DRAM: that takes no
            more traffic than to write it later, and the bus may have time for it.
        """
        outputs = list(self._places_of_outputs(group, done | group.mask, written_early))
        operands = group.replaceable_operands(done)
        for fetched in subsets(group.read & ~there & ~self.graph.too_large):
            on_chip = there | fetched
            if self.size(on_chip) > self.capacity:
                continue
            streamed = group.read & ~on_chip
            for resident, written in outputs:
                whole = on_chip | resident
                taken = self.size(whole)
                if resident >> group.output & 1:
                    for operand in operands:
                        less = taken - self.sizes[operand]
                        if on_chip >> operand & 1 and less <= self.capacity:
                            yield TensorChoice(fetched, resident, written, streamed, whole, operand, less)
                if taken <= self.capacity:
                    yield TensorChoice(fetched, resident, written, streamed, whole, -1, taken)

    def _places_of_outputs(self, group: Group, done: int, written_early: bool) -> Iterator[tuple[int, int]]:
        """Return where the outputs of a group may go: those that stay on chip, those that are written.

        What only one more operation reads need not be in both places: it is needed in that one where it is
        read from. But what takes the place of an operand needs no memory while it is written.
        """
        live, options = self.graph.still_read(done), []
        for tensor in group.outputs:
            bit = 1 << tensor
            leaves = self.graph.leaving & bit
            if not live & bit:
                options.append([(0, leaves)])
            elif leaves:
                options.append([(bit, bit), (0, bit)])
            else:
                several = (self.graph.readers[tensor] & ~group.mask).bit_count() > 1
                replacing = tensor == group.output and group.last.pixelwise
                both = [(bit, bit)] if several or replacing or written_early else []
                options.append([(bit, 0), (0, bit), *both])
        for tensor, ways in zip(group.outputs, options, strict=True):
            if self.graph.too_large >> tensor & 1:
                ways[:] = [way for way in ways if not way[0]]
        for chosen in product(*options):
            yield sum(resident for resident, _ in chosen), sum(written for _, written in chosen)

    # Shapes --------------------------------------------------------------------------------------------

    def best_shape(
        self,
        group: Group,
        whole: int,
        streamed: int,
        room: int,
        in_place: int = -1,
        columns: tuple[int | None, ...] | None = None,
        keys: int = 1,
        parts: int = 0,
    ) -> ParetoShape | None:
        """Return how to cut up a group so that least is moved again in some room; None if it does not fit.

        Parameters
        ----------
        whole, streamed
            Tensors that are on chip as a whole, and sources that are read through line buffers.
        room
            Elements that buffers may take.
        in_place
            Tensor whose place the output takes, or -1.
        columns
            Of strips that are looked at, None for whole rows; by default all.
        keys
            That pass by at a time, where keys do; 0 if they are not to.
        parts
            Blocks of columns in which the softmax of a tile is computed again; 0 for any number.
        """
        if len(group.operations) == 1:
            in_place = -1  # any shape will do
        whole &= group.touched
        key = group.mask, whole, streamed, in_place, columns, keys, parts
        if key not in self._shapes:
            found = pareto_shapes(
                group,
                frozenset(members(whole)),
                self.streamed(group, streamed),
                Limits(self.capacity, self.most_again),
                (None, *strip_widths(group)) if columns is None else columns,
                in_place,
                keys,
                parts,
            )
            self._shapes[key] = [each.memory for each in found], found
        memories, shapes = self._shapes[key]
        place = bisect_right(memories, room)
        return shapes[place - 1] if place else None


def least_block(operation: Operation) -> int:
    """Return the fewest elements of an operation's weights that are on chip while it is computed."""
    least = operation.block(1)
    if operation.running is None:
        return least
    return min(least, operation.running.each + operation.running.bias)


def subsets(mask: int) -> Iterator[int]:
    """Return the subsets of a bit mask, the empty one first."""
    bits = [1 << number for number in members(mask)]
    for count in range(len(bits) + 1):
        for chosen in combinations(bits, count):
            yield sum(chosen)
