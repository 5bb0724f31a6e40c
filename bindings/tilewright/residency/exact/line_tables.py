"""Line buffers of all groups that have the same last operation, as arrays with a column for each shape.

What is needed of a tensor depends on the operations that read it alone, so that it is counted once, and
groups pick their rows.
"""

from __future__ import annotations

import numpy as np

from tilewright.residency.shapes import line_buffers
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.shape import Shape, computed_whole
from tilewright.residency.shapes.strips import most_rows, strip_widths, strips_of
from tilewright.simulator.program import Counts

OUTPUT = 0
"""The row of the block of the output."""


class LineTables:
    """The rows that groups pick, by tensor and who reads it: one for tensors that are alike.

    Shapes: first all weights are kept, and a pass is a pixel; then passes have one row, two rows, and so on;
    then there are strips of some columns, with all weights kept. If pixels are added to running values, the
    weights of the last operation are none of those that may be kept.

    Attributes
    ----------
    by_rows
        The shapes in which passes are whole rows.
    columns
        Of strips, for each shape from ``by_rows.stop`` on.
    lines
        Elements of line buffers, shape (rows, shapes).
    rough
        Which of them have only been estimated from below.
    wide
        What the output's block takes more if the last operation's weights are kept, shape (shapes,).
    weights, blocks
        Of each operation of the graph, and a block of them for one output channel.
    running
        Elements of running values, and of weights for a pass over what is added to them, shape (shapes,).
    """

    def __init__(self, group: Group) -> None:
        graph, last = group.graph, group.last
        self.graph = graph
        channels, (height, self.width) = graph.tensors[group.output].channels, group.plane
        self.by_rows = slice(1, 1 + height)
        # Where the last output is a pixel with running values, strips are of what is added up to it.
        self.columns = strip_widths(group) if group.running is None else []
        self.count = self.by_rows.stop + len(self.columns)
        rows = np.minimum(np.arange(1, height + 1, dtype=np.int64) * self.width, group.pixels)
        at_once = channels if computed_whole(last, Shape("pixels", 1, 1)) else 1
        self.wide = self.all(0, (channels - at_once) * rows)
        self.weights = np.array([operation.weights for operation in graph.operations], dtype=np.int64)
        self.blocks = np.array([operation.block(1) for operation in graph.operations], dtype=np.int64)
        self.lines = np.zeros((16, self.count), dtype=np.int64)
        self.rough = np.zeros((16, self.count), dtype=np.bool_)
        self.lines[OUTPUT] = self.all(channels, at_once * rows)
        self.running = self.all(0, 0)
        if group.is_running:
            assert last.running is not None
            _, value, each, bias = last.running
            own = self.all(1, rows) * each + bias if last.weights else 0
            self.running = self.running + channels * value + own
            self.wide[:] = self.lines[OUTPUT] = 0
            self.weights[last.number] = self.blocks[last.number] = 0
        self._places: dict[tuple[int, int, int], int] = {}
        self._again: dict[int, Counts] = {}
        every = [self.width, *self.columns]
        self._in_pixels = np.array([0, *range(self.by_rows.stop, self.count)])
        starts = [np.arange(0, self.width, columns, dtype=np.int64) for columns in every]
        ends = [np.minimum(each + columns, self.width) for each, columns in zip(starts, every, strict=True)]
        self._strips = np.cumsum([0, *map(len, starts)], dtype=np.int64)
        self._spans = {(group.output, 0): np.array([np.concatenate(starts), np.concatenate(ends)])}
        self._savings = np.zeros((len(self.weights), self.count), dtype=np.int64)
        self._counted = np.zeros(len(self.weights), dtype=np.bool_)

    @classmethod
    def of(cls, group: Group) -> LineTables:
        """Return those of a group, the same for all with its last operation."""
        key = "line tables", group.last.number, group.is_running
        return group.groups.share(key, lambda: cls(group))

    def all(self, other: int, rows: Counts | int) -> Counts:
        """Return a value for each shape."""
        found = np.full(self.count, other, dtype=np.int64)
        found[self.by_rows] = rows
        return found

    def place(self, group: Group, tensor: int) -> int:
        """Return the row of a tensor that is read in a group."""
        channels = group.channels(tensor)
        key = self.graph.alike[tensor], self.graph.readers[tensor] & group.mask, channels
        known = self._places.get(key)
        if known is None:
            known = self._places[key] = len(self._places) + 1
            if known == len(self.lines):
                self.lines = np.concatenate((self.lines, np.zeros_like(self.lines)))
                self.rough = np.concatenate((self.rough, np.zeros_like(self.rough)))
            self.lines[known, self.by_rows] = group.lines_by_rows(tensor) * channels
        return known

    def estimate(self, group: Group, tensor: int, place: int) -> None:
        """Count what a line buffer takes at least if a pass is a pixel, and what strips read again."""
        if place in self._again:
            return
        channels, (height, width) = group.channels(tensor), self.graph.tensors[tensor].shape[1:]
        begins, ends = self._span(group, tensor)
        read = ends - begins
        widest = np.maximum.reduceat(read, self._strips[:-1])
        line = ((most_rows(group, tensor) - 1) * widest + 1) * channels
        again = np.zeros(self.count, dtype=np.int64)
        again[self.by_rows.stop :] = (np.add.reduceat(read, self._strips[:-1])[1:] - width) * (
            channels * height
        )
        self.lines[place, self._in_pixels], self.rough[place, self._in_pixels] = line, True
        self._again[place] = again

    def _span(self, group: Group, tensor: int) -> Counts:
        """Return begin and end of the columns that each strip reads or computes of a tensor."""
        key = tensor, self.graph.readers[tensor] & group.mask
        known = self._spans.get(key)
        if known is None:
            numbers, readings = group.readings_of(tensor)
            own = np.array([self._span(group, number + 1) for number in numbers])
            width = self.graph.tensors[tensor].shape[2]
            known = self._spans[key] = np.array(line_buffers.span_strips(self._strips, readings, own, width))
        return known

    def again(self, place: int) -> Counts:
        """Return what strips read of a source again, for each shape."""
        return self._again[place]

    def loaded_again(self, group: Group, numbers: Counts) -> Counts:
        """Return what is moved again of operations' weights if they are not kept, shape (numbers, shapes)."""
        for number in numbers[~self._counted[numbers]].tolist():
            active = group.active_by_rows(number)
            self._savings[number, self.by_rows] = (active - 1) * self.weights[number]
            self._counted[number] = True
        return self._savings[numbers]

    def refine(self, group: Group, shape: int) -> None:
        """Count what line buffers of a group take with a shape of which they have only been estimated."""
        area = strips_of(group, self.columns[shape - self.by_rows.stop]) if shape else group
        for tensor in group.lines:
            place = self.place(group, tensor)
            if self.rough[place, shape]:
                self.lines[place, shape] = area.line_pixels_of(tensor, 1) * group.channels(tensor)
                self.rough[place, shape] = False
