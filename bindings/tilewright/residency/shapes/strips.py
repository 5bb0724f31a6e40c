"""A step cut into strips of columns: line buffers are as narrow as what a strip reads.

Strips follow each other from left to right, each as wide as the others but the last. In a strip, passes go
row by row as they do over a whole plane. What a strip reads and the one before it has read, too, is read
again, and what it needs and the one before it has computed is computed again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

import numpy as np

from tilewright.residency.graph import Reading
from tilewright.residency.shapes.groups import Group, Read, most_held, pass_sizes, take_turns
from tilewright.simulator.program import Counts

MOST_ENDS = 2**12
"""Tensors, with the size of passes, of which it is remembered how far passes get: that takes much room."""


class Strips:
    """A group in strips of some columns of the last operation's output."""

    def __init__(self, group: Group, columns: int) -> None:
        self.group, self.columns = group, columns
        self._spans: dict[int, tuple[Counts, Counts]] = {}
        self._read_in: dict[int, tuple[list[int], Counts]] = {}

    def span(self, tensor: int) -> tuple[Counts, Counts]:
        """Return begin and end of the columns that each strip reads or computes of a tensor, without gaps."""
        known = self._spans.get(tensor)
        if known is None:
            known = self._spans[tensor] = self.group.share(
                "strips", self.columns, tensor, lambda: self._needed(tensor)
            )
        return known

    def _needed(self, tensor: int) -> tuple[Counts, Counts]:
        width = self.group.graph.tensors[tensor].shape[2]
        if tensor == self.group.output:
            width = self.group.row
            starts = np.arange(0, width, self.columns, dtype=np.int64)
            return starts, np.minimum(starts + self.columns, width)
        from tilewright.residency.shapes import line_buffers  # start-up time: numba

        numbers, readings = self.group.readings_of(tensor)
        own = np.array([self.span(number + 1) for number in numbers])
        found: tuple[Counts, Counts] = line_buffers.span_strips(
            np.array([0, own.shape[2]]), readings, own, width
        )
        return found

    def _widths(self, tensor: int) -> Counts:
        begins, ends = self.span(tensor)
        return ends - begins

    def _own(self, width: Counts, pixels: int) -> Counts:
        """Return the pixels of passes in strips of some widths: part of a row, or the same rows in all."""
        if pixels < self.columns:
            return np.minimum(pixels, width)
        return pixels // self.columns * width

    def ends(self, pixels: int) -> list[dict[int, Counts]]:
        """Return for each strip, by tensor, the end of the pixels that are there after each pass."""
        tensors = (self.group.output, *reversed(self.group.lines))
        cuts = self._begins(pixels)[1:-1]
        every = {tensor: np.split(self._ends(tensor, pixels), cuts) for tensor in tensors}
        return [{tensor: every[tensor][strip] for tensor in tensors} for strip in range(len(cuts) + 1)]

    def _begins(self, pixels: int) -> Counts:
        """Return where the ends of each strip begin, one strip behind the other, and the end of all."""
        widths = self._widths(self.group.output)
        height = self.group.plane[0]
        passes = -(-height * widths // self._own(widths, pixels))
        return np.cumsum([0, *(passes + 1)], dtype=np.int64)

    def line_pixels(self, pixels: int) -> dict[int, int]:
        """Return the pixels of each tensor's line buffer."""
        return {tensor: self.line_pixels_of(tensor, pixels) for tensor in reversed(self.group.lines)}

    def line_pixels_of(self, tensor: int, pixels: int) -> int:
        """Return the pixels of a tensor's line buffer."""
        return self._counts(tensor, pixels)[0]

    def count_passes(self, pixels: int) -> int:
        """Return how many passes there are in all strips."""
        return self._counts(self.group.output, pixels)[1]

    def active(self, pixels: int) -> dict[int, int]:
        """Return for each operation the passes in which it computes anything."""
        return {tensor - 1: self._counts(tensor, pixels)[1] for tensor in reversed(self.group.computed)}

    def _counts(self, tensor: int, pixels: int) -> tuple[int, int]:
        """Return the pixels of a line buffer, and the passes of all strips in which there is anything new."""

        def counts() -> tuple[int, int]:
            _, lines, active = self._counted(tensor, pixels)
            return int(lines.max()), int(active.sum())

        return self.group.share("in strips", (self.columns, pixels), tensor, counts)

    def _counted(self, tensor: int, pixels: int) -> tuple[Counts, Counts, Counts]:
        """Return the ends of all passes, strip by strip, and what there is of each strip: see `Group`."""
        group = self.group
        height, widths = group.plane[0], self._widths(group.output)
        begins = self._begins(pixels)
        if tensor == group.output:
            own, total, counts = self._own(widths, pixels), height * widths, np.diff(begins)
            numbers = np.arange(begins[-1], dtype=np.int64) - np.repeat(begins[:-1], counts)
            ends = np.minimum(numbers * np.repeat(own, counts), np.repeat(total, counts))
            return ends, np.minimum(own, total), counts - 1
        from tilewright.residency.shapes import line_buffers  # start-up time: numba

        readers, strips = self._readings(tensor)
        ends = np.array([self._ends(number + 1, pixels) for number in readers])
        found: tuple[Counts, Counts, Counts] = line_buffers.count_passes(begins, strips, ends)
        return found

    def _readings(self, tensor: int) -> tuple[list[int], Counts]:
        """Return the operations that read a tensor, by number, and how: shape (strips, readers, 10)."""
        if tensor in self._read_in:
            return self._read_in[tensor]
        readers, readings = self.group.readings_of(tensor)
        widths = self._widths(self.group.output)
        strips = np.repeat(readings[None], len(widths), axis=0)
        starts, strips[:, :, 1] = self.span(tensor)[0][:, None], self._widths(tensor)[:, None]
        for place, number in enumerate(readers):
            shift = starts[:, 0] - self.span(number + 1)[0] * readings[place, 5]
            strips[:, place, 3], strips[:, place, 7] = self._widths(number + 1), readings[place, 7] + shift
        self._read_in[tensor] = readers, strips
        return readers, strips

    # Taking turns ----------------------------------------------------------------------------------------

    def line_pixels_in_turns(self) -> dict[int, int]:
        """Return the pixels of each tensor's line buffer where operations take turns."""
        return {tensor: self.line_pixels_in_turns_of(tensor) for tensor in reversed(self.group.lines)}

    def line_pixels_in_turns_of(self, tensor: int) -> int:
        """Return the pixels of a tensor's line buffer where operations take turns, of the strip with most."""

        def count() -> int:
            strips = range(len(self._widths(self.group.output)))
            return max(most_held(self.group, tensor, self._read(strip)) for strip in strips)

        return self.group.share("in turns", self.columns, tensor, count)

    def _read(self, strip: int) -> Read:
        """Return how tensors are read in a strip, and how many pixels they have in it."""

        def read(tensor: int) -> tuple[Counts, int]:
            height = (
                self.group.plane[0]
                if tensor == self.group.output
                else self.group.graph.tensors[tensor].shape[1]
            )
            readings = np.zeros((0, 10), dtype=np.int64)
            if tensor != self.group.output:
                readings = self._readings(tensor)[1][strip]
            return readings, height * int(self._widths(tensor)[strip])

        return read

    def turns(
        self, whole: Collection[int], held: Mapping[int, int], strip: int
    ) -> Iterator[tuple[int, int, int]]:
        """Return tensors with the first and the end of their pixels in a strip, as `Group.turns` does."""
        return take_turns(self.group, whole, held, self._read(strip))

    # Ends of passes ---------------------------------------------------------------------------------------

    def _ends(self, tensor: int, pixels: int) -> Counts:
        """Return the ends of all passes, strip by strip."""
        known: dict[tuple[int, int, int, int], Counts] = self.group.groups.share("ends in strips", dict)
        key = self.group.last.number, self.columns, pixels, tensor
        found = known.get(key)
        if found is None:
            if len(known) == MOST_ENDS:
                known.clear()
            found = known[key] = self._counted(tensor, pixels)[0]
        return found

    def widest(self, tensor: int) -> int:
        """Return the most columns that a strip has of a tensor."""
        return self.group.share("widest", self.columns, tensor, lambda: int(self._widths(tensor).max()))

    def read(self, tensor: int) -> int:
        """Return the columns of a tensor that all strips read."""
        return self.group.share("read", self.columns, tensor, lambda: int(self._widths(tensor).sum()))


def strips_of(group: Group, columns: int) -> Strips:
    """Return a group in strips, always the same: of what is added up, where the last output is a pixel."""
    group = group.running or group
    if columns not in group.in_strips:
        group.in_strips[columns] = Strips(group, columns)
    found: Strips = group.in_strips[columns]
    return found


def strip_widths(group: Group) -> list[int]:
    """Return the columns of strips: the least for each number of strips from two on, the widest first.

    Where the last output is one pixel that has running values, they are of what is added up. There are none
    where windows go over an operand that is put together of parts: a strip might have no
    column of one; nor where each pixel that is read gives several of another plane.
    """
    parts = any(operation.op.spread > 1 for operation in group.operations) or any(
        access.source + 1 in {reading.tensor for reading in operation.readings if reading.extent is not None}
        for operation in group.operations
        for access in operation.op.accesses
        if access.at is not None
    )
    width = (group.running or group).row if group.graph.tiles and not parts else 1
    return [columns for columns in reversed(pass_sizes(width)) if columns < width]


def least_line(group: Group, tensor: int, columns: int) -> int:
    """Return the elements of a line buffer, at least: the rows under a window, of the last one a pixel."""
    group = group.running or group

    def least() -> int:
        return (most_rows(group, tensor) - 1) * strips_of(group, columns).widest(tensor) + 1

    return group.share("least line", columns, tensor, least) * group.channels(tensor)


def reread(group: Group, whole: Collection[int], columns: int | None) -> int:
    """Return the elements of sources that strips of some columns read again."""
    if columns is None:
        return 0
    strips, again = strips_of(group, columns), 0
    for number in group.sources:
        if number not in whole:
            _, height, width = group.graph.tensors[number].shape
            again += (strips.read(number) - width) * group.channels(number) * height
    return again


def most_rows(group: Group, tensor: int) -> int:
    """Return the most rows of a tensor that a row of a reader's output needs."""
    return max(_rows(reading) for _, reading in group.readers(tensor))


@lru_cache(maxsize=4096)
def _rows(reading: Reading) -> int:
    """Return the most rows that a row of the output reads."""
    if reading.extent is None:
        return reading.plane[0]
    rows = np.arange(reading.output[0], dtype=np.int64)
    return int((reading.last(rows, 0) - reading.begin(rows, 0)).max()) + 1
