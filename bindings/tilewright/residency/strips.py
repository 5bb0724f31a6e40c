"""A step cut into strips of columns: line buffers are as narrow as what a strip reads.

Strips follow each other from left to right, each as wide as the others but the last. In a strip, passes go
row by row as they do over a whole plane. What a strip reads and the one before it has read, too, is read
again, and what it needs and the one before it has computed is computed again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tilewright.residency.graph import Operation
from tilewright.residency.passes import Group, pass_sizes
from tilewright.simulator.program import Counts


@dataclass(frozen=True)
class Strip(Group):
    """A strip by itself: its columns are all that its planes have.

    Attributes
    ----------
    width
        Columns of the last operation's output.
    """

    width: int

    @cached_property
    def pixels(self) -> int:
        """Pixels of the strip of the last operation's output."""
        return self.graph.tensors[self.output].shape[1] * self.width


class Cut:
    """A group in strips of some columns of the last operation's output.

    Attributes
    ----------
    begins, ends
        For each tensor the columns that each strip reads or computes, without gaps.
    strips
        One after the other; those that are alike are the same.
    """

    def __init__(self, group: Group, columns: int) -> None:
        self.group, self.columns = group, columns
        width = group.graph.tensors[group.output].shape[2]
        self.begins: dict[int, Counts] = {group.output: np.arange(0, width, columns, dtype=np.int64)}
        self.ends: dict[int, Counts] = {group.output: np.minimum(self.begins[group.output] + columns, width)}
        for operation in reversed(group.operations):
            for reading in operation.readings:
                self._need(operation, reading.tensor)
        self.strips = self._strips()
        self._held: dict[int, dict[int, int]] = {}

    def _need(self, operation: Operation, tensor: int) -> None:
        """Widen what each strip has of a tensor by what an operation reads of it."""
        width = self.group.graph.tensors[tensor].shape[2]
        begins, ends = self.begins[operation.number + 1], self.ends[operation.number + 1]
        for reading in operation.readings:
            if reading.tensor != tensor:
                continue
            if reading.extent is None:
                first, end = np.zeros_like(begins), np.full_like(ends, width)
            else:
                first, end = reading.begin(begins, 1), reading.last(ends - 1, 1) + 1
            if tensor in self.begins:
                first, end = np.minimum(first, self.begins[tensor]), np.maximum(end, self.ends[tensor])
            # What strides and borders leave out belongs to a strip, too.
            first[0], end[-1] = 0, width
            first[1:] = np.minimum(first[1:], end[:-1])
            self.begins[tensor], self.ends[tensor] = first, end

    def _strips(self) -> list[Strip]:
        known: dict[tuple[int, ...], Strip] = {}
        strips = []
        for place in range(len(self.begins[self.group.output])):
            key, operations = list[int](), []
            for operation in self.group.operations:
                begin, end = (int(side[operation.number + 1][place]) for side in (self.begins, self.ends))
                readings = []
                for reading in operation.readings:
                    low, high = (int(side[reading.tensor][place]) for side in (self.begins, self.ends))
                    before = reading.before[1] - begin * reading.stride[1] + low
                    key += [high - low, before]
                    readings.append((reading, low, high, before))
                key.append(end - begin)
                operations.append((operation, end - begin, readings))
            strip = known.get(tuple(key))
            if strip is None:
                strip = known[tuple(key)] = Strip(
                    self.group.graph,
                    tuple(
                        replace(
                            operation,
                            readings=tuple(
                                replace(
                                    reading,
                                    plane=(reading.plane[0], high - low),
                                    output=(reading.output[0], width),
                                    before=(reading.before[0], before),
                                )
                                for reading, low, high, before in readings
                            ),
                        )
                        for operation, width, readings in operations
                    ),
                    operations[-1][1],
                )
            strips.append(strip)
        return strips

    @cached_property
    def _alike(self) -> list[tuple[Strip, int]]:
        """Each strip that differs from others, and how many are like it."""
        found = {id(strip): strip for strip in self.strips}
        return [(found[key], count) for key, count in Counter(map(id, self.strips)).items()]

    def own(self, strip: Strip, pixels: int) -> int:
        """Return the pixels of a pass in a strip: part of a row, or as many rows as in the others."""
        if pixels < self.columns:
            return min(pixels, strip.width)
        return pixels // self.columns * strip.width

    def held(self, pixels: int) -> dict[int, int]:
        """Return the pixels of each tensor's line buffer."""
        known = self._held.get(pixels)
        if known is None:
            counts = [strip.held(self.own(strip, pixels)) for strip, _ in self._alike]
            known = {tensor: max(each[tensor] for each in counts) for tensor in counts[0]}
            self._held[pixels] = known
        return known

    def passes(self, pixels: int) -> int:
        """Return how many passes there are in all strips."""
        return sum(count * strip.passes(self.own(strip, pixels)) for strip, count in self._alike)

    def active(self, pixels: int) -> dict[int, int]:
        """Return for each operation the passes in which it computes anything."""
        found = Counter[int]()
        for strip, count in self._alike:
            for number, passes in strip.active(self.own(strip, pixels)).items():
                found[number] += count * passes
        return dict(found)

    def read(self, tensor: int) -> int:
        """Return the columns of a tensor that all strips read."""
        return int((self.ends[tensor] - self.begins[tensor]).sum())


def cut(group: Group, columns: int) -> Cut:
    """Return a group in strips, always the same."""
    known: dict[int, Cut] = group.__dict__.setdefault("_cuts", {})
    if columns not in known:
        known[columns] = Cut(group, columns)
    return known[columns]


def widths(group: Group) -> list[int]:
    """Return the columns of strips: the least for each number of strips from two on, the widest first."""
    width = group.graph.tensors[group.output].shape[2]
    return [columns for columns in reversed(pass_sizes(width)) if columns < width]
