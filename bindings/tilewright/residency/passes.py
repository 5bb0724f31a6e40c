"""Pixels of a step: how far each pass gets in every tensor, and how many pixels a line buffer holds.

In each pass the last operation computes some pixels, row by row. Going backwards, every other operation
computes the pixels that are new among those needed, so that none is computed or loaded twice. In the last
pass all is completed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tilewright.residency.graph import Graph, Operation, members
from tilewright.simulator.program import Counts


@dataclass(frozen=True)
class Group:
    """Operations of one step, numbers ascending: all that the last one needs and that is not computed yet."""

    graph: Graph
    operations: tuple[Operation, ...]

    @classmethod
    def of(cls, graph: Graph, mask: int) -> Group:
        """Return the group of a bit mask."""
        return cls(graph, graph.numbers(mask))

    @cached_property
    def mask(self) -> int:
        """Bit mask of its operations."""
        return sum(1 << operation.number for operation in self.operations)

    @property
    def last(self) -> Operation:
        """The operation to which all others lead."""
        return self.operations[-1]

    @property
    def output(self) -> int:
        """The tensor that the last operation computes."""
        return self.last.number + 1

    @cached_property
    def pixels(self) -> int:
        """Pixels of the last operation's output."""
        return self.graph.tensors[self.output].pixels

    @cached_property
    def computed(self) -> tuple[int, ...]:
        """Tensors that the operations compute."""
        return tuple(operation.number + 1 for operation in self.operations)

    @cached_property
    def sources(self) -> tuple[int, ...]:
        """Tensors that are read and not computed here, ascending."""
        read = {reading.tensor for operation in self.operations for reading in operation.readings}
        return tuple(sorted(read.difference(self.computed)))

    @cached_property
    def outputs(self) -> tuple[int, ...]:
        """Tensors computed here that others read, and the last one, which nobody may read."""
        return tuple(
            tensor
            for tensor in self.computed
            if self.graph.readers[tensor] & ~self.mask or tensor == self.output
        )

    @cached_property
    def lines(self) -> tuple[int, ...]:
        """Tensors that are read here: each has a line buffer, unless it is on chip as a whole."""
        return tuple(sorted({reading.tensor for op in self.operations for reading in op.readings}))

    def dying(self, tensor: int, done: int) -> bool:
        """Whether nobody reads a tensor after this step, where `done` have been executed before it."""
        return not self.graph.readers[tensor] & ~(self.mask | done)

    def passes(self, pixels: int) -> int:
        """Return how many passes there are."""
        return -(-self.pixels // pixels)

    def ends(self, pixels: int) -> dict[int, Counts]:
        """Return for each tensor the end of the pixels that are there after each pass, from none on."""
        known = self._ends.get(pixels)
        if known is not None:
            return known
        passes = self.passes(pixels)
        ends = {self.output: np.minimum(np.arange(passes + 1, dtype=np.int64) * pixels, self.pixels)}
        for operation in reversed(self.operations):
            done = ends[operation.number + 1]
            for reading in operation.readings:
                needed = reading.end(done)
                needed[-1] = reading.pixels
                other = ends.get(reading.tensor)
                ends[reading.tensor] = needed if other is None else np.maximum(other, needed)
        self._ends[pixels] = ends
        return ends

    @cached_property
    def _ends(self) -> dict[int, dict[int, Counts]]:
        return {}

    def forget(self, pixels: int) -> None:
        """Forget how far each pass gets, which takes much room."""
        self._ends.pop(pixels, None)

    def held(self, pixels: int) -> dict[int, int]:
        """Return the pixels of each tensor's line buffer: the most that a pass needs or computes."""
        known = self._held.get(pixels)
        if known is None:
            if self.wider is not None:
                held = self.wider.held(pixels)
                known = {tensor: held[tensor] for tensor in self.lines}
            else:
                known = self._counted(pixels)
            self._held[pixels] = known
        return known

    @cached_property
    def wider(self) -> Group | None:
        """A group with the same last operation in which the same pixels are needed of all that is read here.

        What is needed of a tensor depends on its readers alone, so that what is counted for one group serves
        others, too. The latest operations that lead to the last one are taken, a power of two of them. None
        if there is no such group, or if it is this one.
        """
        before = members(self.graph.ops.ancestors[self.last.number] & ~self.graph.begin)
        latest = [*before, self.last.number]
        reached = len(latest) - latest.index(self.operations[0].number)
        taken = latest[-(1 << (reached - 1).bit_length()) :]
        mask = sum(1 << number for number in taken)
        if mask == self.mask or any(self.graph.readers[tensor] & mask & ~self.mask for tensor in self.lines):
            return None
        # All groups of a graph share them.
        known: dict[int, Group] = self.graph.__dict__.setdefault("_wider", {})
        if mask not in known:
            known[mask] = Group.of(self.graph, mask)
        return known[mask]

    @cached_property
    def _held(self) -> dict[int, dict[int, int]]:
        return {}

    def _counted(self, pixels: int) -> dict[int, int]:
        ends, first = self.ends(pixels), self._firsts(pixels)
        # What is computed or loaded in a pass is held even if nobody reads it any more.
        return {
            tensor: int((ends[tensor][1:] - np.minimum(first[tensor], ends[tensor][:-1])).max())
            for tensor in self.lines
        }

    def _firsts(self, pixels: int) -> dict[int, Counts]:
        """Return the first pixel of each tensor that each pass, or one after it, reads."""
        ends = self.ends(pixels)
        first: dict[int, Counts] = {}
        for operation in self.operations:
            before = ends[operation.number + 1][:-1]
            for reading in operation.readings:
                own = reading.first(before)
                known = first.get(reading.tensor)
                first[reading.tensor] = own if known is None else np.minimum(known, own)
        return first

    def active(self, pixels: int) -> dict[int, int]:
        """Return for each operation, by number, the passes in which it computes anything."""
        if self.wider is not None:
            active = self.wider.active(pixels)
            return {operation.number: active[operation.number] for operation in self.operations}
        ends = self.ends(pixels)
        return {
            operation.number: int(np.count_nonzero(np.diff(ends[operation.number + 1])))
            for operation in self.operations
        }

    def least_active(self, pixels: int) -> int:
        """Return the passes in which every operation computes something, for the one with the fewest."""
        if pixels not in self._least_active:
            self._least_active[pixels] = min(self.active(pixels).values())
        return self._least_active[pixels]

    @cached_property
    def _least_active(self) -> dict[int, int]:
        return {}

    def replaceable(self, pixels: int, done: int) -> tuple[int, ...]:
        """Return the sources whose place the output can take, pixel by pixel, if they are on chip whole.

        The last operation computes each value from those at its place, nobody else reads the tensor later,
        and no other operation of the step still needs a pixel when it is overwritten.

        Parameters
        ----------
        done
            Bit mask of what has been executed before.
        """
        if not self.last.pixelwise:
            return ()
        ends, found = self.ends(pixels), []
        shape = self.graph.tensors[self.output].shape
        for tensor in dict.fromkeys(reading.tensor for reading in self.last.readings):
            if (
                tensor not in self.sources
                or self.graph.tensors[tensor].shape != shape
                or not self.dying(tensor, done)
            ):
                continue
            if all(
                self._ahead(operation, reading.first, ends)
                for operation in self.operations[:-1]
                for reading in operation.readings
                if reading.tensor == tensor
            ):
                found.append(tensor)
        return tuple(found)

    def _ahead(
        self, operation: Operation, first: Callable[[Counts], Counts], ends: dict[int, Counts]
    ) -> bool:
        """Whether an operation needs no pixel that the output has overwritten."""
        return bool((first(ends[operation.number + 1]) >= ends[self.output]).all())


def pass_sizes(length: int) -> list[int]:
    """Return the smallest part for each number of parts of a length, ascending."""
    return list(dict.fromkeys(-(-length // parts) for parts in range(length, 0, -1)))


def group_mask(graph: Graph, done: int, last: int) -> int:
    """Return the operations of the step that ends with `last` when `done` have been executed."""
    return (graph.ops.ancestors[last] | 1 << last) & ~done
