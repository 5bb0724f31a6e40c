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
from numpy.typing import NDArray

from tilewright.residency.graph import Graph, Operation, Reading, members
from tilewright.simulator.program import Counts

BY_ROWS = 0
"""In place of the pixels of a pass: passes of one row, of two rows, and so on."""


@dataclass(frozen=True)
class Group:
    """Operations of one step, numbers ascending: all that the last one needs and that is not computed yet."""

    graph: Graph
    operations: tuple[Operation, ...]

    @classmethod
    def of(cls, graph: Graph, mask: int) -> Group:
        """Return the group of a bit mask; those of the same last operation share what they know."""
        group = cls(graph, graph.numbers(mask))
        group.__dict__["mask"] = mask
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
        read, reads = 0, self.graph.reads
        for tensor in self.computed:
            read |= reads[tensor - 1]
        return tuple(members(read & ~(self.mask << 1)))

    @cached_property
    def outputs(self) -> tuple[int, ...]:
        """Tensors computed here that others read or that leave the network, and the last one."""
        readers, others, leaving = self.graph.readers, ~self.mask, self.graph.leaving
        wanted = (t for t in self.computed[:-1] if readers[t] & others or leaving >> t & 1)
        return (*wanted, self.output)

    @cached_property
    def lines(self) -> tuple[int, ...]:
        """Tensors that are read here: each has a line buffer, unless it is on chip as a whole."""
        return tuple(sorted({*self.sources, *self.computed[:-1]}))

    def is_last_reader(self, tensor: int, done: int) -> bool:
        """Whether nobody reads a tensor after this step, where `done` have been executed before it."""
        return not self.graph.readers[tensor] & ~(self.mask | done)

    def passes(self, pixels: int) -> int:
        """Return how many passes there are."""
        return -(-self.pixels // pixels)

    def ends(self, pixels: int) -> dict[int, Counts]:
        """Return for each tensor the end of the pixels that are there after each pass, from none on."""
        return {tensor: self._end(tensor, pixels) for tensor in (self.output, *reversed(self.lines))}

    @cached_property
    def _known(self) -> dict[tuple[str, int | tuple[int, int], int, int], Any]:
        """What has been counted, by what it is, pixels, tensor, and who reads the tensor in this group.

        Tensors that are `Graph.alike` are one. All that leads from a tensor to the last operation is in
        every group that computes it, so that what is counted depends on no more than that.
        """
        return {}

    def shared(self, what: str, number: int | tuple[int, int], tensor: int, count: Callable[[], Any]) -> Any:
        """Return what is counted for a tensor, or has been in another group with the same last operation."""
        key = what, number, self.graph.alike[tensor], self.graph.readers[tensor] & self.mask
        if key not in self._known:
            self._known[key] = count()
        return self._known[key]

    def readers(self, tensor: int) -> Iterator[tuple[Operation, Reading]]:
        """Return the operations that read a tensor here."""
        mask = self.mask
        return ((one, reading) for one, reading in self.graph.read[tensor] if mask >> one.number & 1)

    def readings_of(self, tensor: int) -> tuple[list[int], Counts]:
        """Return the operations that read a tensor here, by number, and how: see `line_buffers.numbers`."""
        from tilewright.residency.shapes import line_buffers  # start-up time: numba

        known: dict[int, tuple[list[int], Counts]] = self.graph.__dict__.setdefault("_looks", {})
        if tensor not in known:
            every = self.graph.read[tensor]
            readings = line_buffers.encode_readings([reading for _, reading in every])
            known[tensor] = [operation.number for operation, _ in every], readings
        numbers, readings = known[tensor]
        here = [place for place, number in enumerate(numbers) if self.mask >> number & 1]
        if len(here) == len(numbers):
            return numbers, readings
        return [numbers[place] for place in here], readings[here]

    def _end(self, tensor: int, pixels: int) -> Counts:
        """Return the end of the pixels of a tensor that are there after each pass."""
        return self._counts(tensor, pixels, "end")

    def line_pixels(self, pixels: int) -> dict[int, int]:
        """Return the pixels of each tensor's line buffer: the most that a pass needs or computes."""
        return {tensor: self.line_pixels_of(tensor, pixels) for tensor in reversed(self.lines)}

    def line_pixels_of(self, tensor: int, pixels: int) -> int:
        """Return the pixels of a tensor's line buffer: the most that a pass needs or computes."""
        if not pixels % self.row:
            return int(self.lines_by_rows(tensor)[min(pixels, self.pixels) // self.row - 1])
        return int(self._counts(tensor, pixels, "line")[0])

    def lines_by_rows(self, tensor: int) -> Counts:
        """Return the pixels of a tensor's line buffer with one row of the output a pass, and so on."""
        return self._counts(tensor, BY_ROWS, "line")

    def active_by_rows(self, number: int) -> Counts:
        """Return the passes in which an operation computes anything, with one row a pass, and so on."""
        return self._counts(number + 1, BY_ROWS, "active")

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

    def _counts(self, tensor: int, pixels: int, what: str) -> Counts:
        """Return what there is of a tensor with some pixels a pass, or one row a pass, two rows, and so on.

        Parameters
        ----------
        pixels
            Of a pass, or `BY_ROWS`.
        what
            ``end``: ends of all passes, those of one row first; ``line``: pixels of line buffers; ``active``:
            passes in which anything is computed.
        """
        readers, alike = self.graph.readers[tensor] & self.mask, self.graph.alike[tensor]
        key = what, pixels, alike, readers
        known: Counts | None = self._known.get(key)
        if known is None:
            for each, found in zip(("end", "line", "active"), self._counted(tensor, pixels), strict=True):
                self._known[each, pixels, alike, readers] = found
            known = self._known[key]
        return known

    def _counted(self, tensor: int, pixels: int) -> tuple[Counts, Counts, Counts]:
        """Return ends, pixels of line buffers, and passes in which anything is computed."""
        if pixels == BY_ROWS:
            begins = self._begins
            sizes = np.arange(1, len(begins), dtype=np.int64) * self.row
        else:
            begins = np.array([0, self.passes(pixels) + 1], dtype=np.int64)
            sizes = np.array([pixels], dtype=np.int64)
        if tensor == self.output:
            counts = np.diff(begins)
            passes = np.arange(begins[-1], dtype=np.int64) - np.repeat(begins[:-1], counts)
            ends = np.minimum(passes * np.repeat(sizes, counts), self.pixels)
            return ends, np.minimum(sizes, self.pixels), counts - 1
        from tilewright.residency.shapes import line_buffers  # start-up time: numba

        # What is computed or loaded in a pass is held even if nobody reads it any more.
        numbers, readings = self.readings_of(tensor)
        ends = np.array([self._counts(number + 1, pixels, "end") for number in numbers])
        found: tuple[Counts, Counts, Counts] = line_buffers.count_passes(begins, readings[None], ends)
        return found

    def active(self, pixels: int) -> dict[int, int]:
        """Return for each operation, by number, the passes in which it computes anything."""
        found = reversed(self.operations)
        return {operation.number: self._active(operation.number + 1, pixels) for operation in found}

    def _active(self, tensor: int, pixels: int) -> int:
        if not pixels % self.row:
            return int(self.active_by_rows(tensor - 1)[min(pixels, self.pixels) // self.row - 1])
        return int(self._counts(tensor, pixels, "active")[0])

    def least_active(self, pixels: int) -> int:
        """Return the passes in which every operation computes something, for the one with the fewest."""
        if pixels not in self._least_active:
            self._least_active[pixels] = min(self.active(pixels).values())
        return self._least_active[pixels]

    @cached_property
    def _least_active(self) -> dict[int, int]:
        return {}

    def replaceable_operands(self, done: int) -> tuple[int, ...]:
        """Return the sources on chip as a whole whose place the output can take, in passes of some size.

        The last operation computes each value from those at its place, and nobody else reads the tensor
        later. In a single pass all other operations of the step have read it before it is overwritten.

        Parameters
        ----------
        done
            Bit mask of what has been executed before.
        """
        if not self.last.pixelwise:
            return ()
        tensors, shape = self.graph.tensors, self.graph.tensors[self.output].shape
        read = dict.fromkeys(reading.tensor for reading in self.last.readings)
        return tuple(
            t
            for t in read
            if t in self.sources and tensors[t].shape == shape and self.is_last_reader(t, done)
        )

    def replaces(self, tensor: int, pixels: int) -> bool:
        """Whether the output can take the place of one of `operands`, some pixels a pass."""
        return bool(self._read_before(tensor)[pixels::pixels].all())

    def pixels_that_replace(self, tensor: int) -> list[int]:
        """Return the pixels of passes in which the output can take a tensor's place, without multiples.

        Line buffers of a multiple are no smaller: each of its passes needs what several have needed.
        """

        def counts() -> list[int]:
            free = self._read_before(tensor)
            found, multiples = [], np.zeros(len(free), dtype=np.bool_)
            for pixels in np.flatnonzero(free).tolist():
                if pixels and not multiples[pixels] and free[pixels::pixels].all():
                    found.append(pixels)
                    multiples[pixels::pixels] = True
            return found

        known: list[int] = self.shared("smallest", 0, tensor, counts)
        return known

    def _read_before(self, tensor: int) -> NDArray[np.bool_]:
        """Return whether a pass may end with so many pixels if the output takes a tensor's place.

        Then no other operation of the step still needs one of these pixels, which are overwritten.
        """

        def counts() -> NDArray[np.bool_]:
            ends = self._end(self.output, 1)
            free = np.ones(len(ends), dtype=np.bool_)
            for operation, reading in self.readers(tensor):
                if operation is not self.last:
                    free &= reading.first(self._end(operation.number + 1, 1)) >= ends
            return free

        known: NDArray[np.bool_] = self.shared("free", 0, tensor, counts)
        return known


def pass_sizes(length: int) -> list[int]:
    """Return the smallest part for each number of parts of a length, ascending."""
    return list(dict.fromkeys(-(-length // parts) for parts in range(length, 0, -1)))


def group_mask(graph: Graph, done: int, last: int) -> int:
    """Return the operations of the step that ends with `last` when `done` have been executed."""
    return (graph.ops.ancestors[last] | 1 << last) & ~done
