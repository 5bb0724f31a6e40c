"""Pixels of a step: how far each pass gets in every tensor, and how many pixels a line buffer holds.

In each pass the last operation computes some pixels, row by row. Going backwards, every other operation
computes the pixels that are new among those needed, so that none is computed or loaded twice. In the last
pass all is completed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.residency.graph import Graph, Operation, Reading, members
from tilewright.simulator.program import Counts


@dataclass(frozen=True)
class Group:
    """Operations of one step, numbers ascending: all that the last one needs and that is not computed yet."""

    graph: Graph
    operations: tuple[Operation, ...]

    @classmethod
    def of(cls, graph: Graph, mask: int) -> Group:
        """Return the group of a bit mask; those of the same last operation share what they know."""
        group = cls(graph, graph.numbers(mask))
        group.__dict__["_known"] = graph.passes.setdefault(group.last.number, {})
        return group

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
        return {tensor: self._end(tensor, pixels) for tensor in (self.output, *reversed(self.lines))}

    @cached_property
    def _known(self) -> dict[tuple[str, int, int, int], Any]:
        """What has been counted, by what it is, pixels, tensor, and who reads the tensor in this group.

        All that leads from a tensor to the last operation is in every group that computes it, so that what
        is counted depends on no more than that.
        """
        return {}

    def forget(self, pixels: int) -> None:
        """Forget how far each pass gets, which takes much room."""
        for key in [key for key in self._known if key[:2] in (("end", pixels), ("end", 0))]:
            del self._known[key]

    @cached_property
    def _numbered(self) -> dict[int, Operation]:
        """Its operations by number."""
        return {operation.number: operation for operation in self.operations}

    def _readers(self, tensor: int) -> Iterator[tuple[Operation, Reading]]:
        """Return the operations that read a tensor here."""
        for number in self.graph.tensors[tensor].readers:
            operation = self._numbered.get(number)
            if operation is not None:
                for reading in operation.readings:
                    if reading.tensor == tensor:
                        yield operation, reading

    def _end(self, tensor: int, pixels: int) -> Counts:
        """Return the end of the pixels of a tensor that are there after each pass."""
        key = "end", pixels, tensor, self.graph.readers[tensor] & self.mask
        if key not in self._known:
            if tensor == self.output:
                passes = self.passes(pixels)
                counted = np.minimum(np.arange(passes + 1, dtype=np.int64) * pixels, self.pixels)
                self._known[key] = counted
                return counted
            ends: Counts | None = None
            for operation, reading in self._readers(tensor):
                needed = reading.end(self._end(operation.number + 1, pixels))
                needed[-1] = reading.pixels
                ends = needed if ends is None else np.maximum(ends, needed)
            self._known[key] = ends
        known: Counts = self._known[key]
        return known

    def held(self, pixels: int) -> dict[int, int]:
        """Return the pixels of each tensor's line buffer: the most that a pass needs or computes."""
        return {tensor: self.line(tensor, pixels) for tensor in reversed(self.lines)}

    def line(self, tensor: int, pixels: int) -> int:
        """Return the pixels of a tensor's line buffer: the most that a pass needs or computes."""
        if not pixels % self.row:
            return int(self._of_rows(tensor, "line")[min(pixels, self.pixels) // self.row - 1])
        key = "line", pixels, tensor, self.graph.readers[tensor] & self.mask
        known = self._known.get(key)
        if known is None:
            ends = self._end(tensor, pixels)
            # What is computed or loaded in a pass is held even if nobody reads it any more.
            first = ends[:-1]
            for operation, reading in self._readers(tensor):
                first = np.minimum(first, reading.first(self._end(operation.number + 1, pixels)[:-1]))
            known = self._known[key] = int((ends[1:] - first).max())
        return known

    @cached_property
    def row(self) -> int:
        """Pixels of a row of the last operation's output."""
        return self.graph.tensors[self.output].shape[2]

    @cached_property
    def _begins(self) -> Counts:
        """Where the ends of passes of one row, of two rows, and so on begin, one behind the other."""
        height = self.pixels // self.row
        passes = -(-height // np.arange(1, height + 1, dtype=np.int64))
        return np.cumsum([0, *(passes + 1)], dtype=np.int64)

    def _of_rows(self, tensor: int, what: str) -> Counts:
        """Return what there is of a tensor with one row a pass, two rows, and so on, all counted at once.

        Parameters
        ----------
        what
            ``end``: ends of all passes, those of one row first; ``line``: pixels of line buffers; ``active``:
            passes in which anything is computed.
        """
        key = what, 0, tensor, self.graph.readers[tensor] & self.mask
        known: Counts | None = self._known.get(key)
        if known is None:
            known = self._known[key] = self._counted(tensor, what)
        return known

    def _counted(self, tensor: int, what: str) -> Counts:
        begins = self._begins
        if what == "end":
            return self._all_ends(tensor)
        ends = self._of_rows(tensor, "end")
        after = np.append(ends[1:], 0)
        if what == "active":
            new = (after != ends).astype(np.int64)
            new[begins[1:] - 1] = 0
            return np.add.reduceat(new, begins[:-1])
        first = ends
        for operation, reading in self._readers(tensor):
            first = np.minimum(first, reading.first(self._of_rows(operation.number + 1, "end")))
        there = after - first
        there[begins[1:] - 1] = 0
        return np.maximum.reduceat(there, begins[:-1])

    def _all_ends(self, tensor: int) -> Counts:
        begins = self._begins
        if tensor == self.output:
            counts = np.diff(begins)
            rows = np.repeat(np.arange(1, len(counts) + 1, dtype=np.int64), counts)
            passes = np.arange(begins[-1], dtype=np.int64) - np.repeat(begins[:-1], counts)
            return np.minimum(passes * rows * self.row, self.pixels)
        ends: Counts | None = None
        for operation, reading in self._readers(tensor):
            needed = reading.end(self._of_rows(operation.number + 1, "end"))
            needed[begins[1:] - 1] = reading.pixels
            ends = needed if ends is None else np.maximum(ends, needed)
        assert ends is not None
        return ends

    def active(self, pixels: int) -> dict[int, int]:
        """Return for each operation, by number, the passes in which it computes anything."""
        found = reversed(self.operations)
        return {operation.number: self._active(operation.number + 1, pixels) for operation in found}

    def _active(self, tensor: int, pixels: int) -> int:
        if not pixels % self.row:
            return int(self._of_rows(tensor, "active")[min(pixels, self.pixels) // self.row - 1])
        key = "active", pixels, tensor, self.graph.readers[tensor] & self.mask
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = int(np.count_nonzero(np.diff(self._end(tensor, pixels))))
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
