"""Steps of several operations as arrays: what each way to cut one up takes of the memory, and moves again."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from tilewright.residency.costs import Shape, computed_whole
from tilewright.residency.exact import knapsack
from tilewright.residency.passes import Group
from tilewright.residency.strips import cut, least_lines, lines_of, reread, widths
from tilewright.simulator.program import Counts


class Way(NamedTuple):
    """What becomes of a tensor in a step: each but the excess is 0, or 1 at its place."""

    excess: int
    on_chip: int = 0
    in_dram: int = 0
    fetched: int = 0
    resident: int = 0
    written: int = 0


class Found(NamedTuple):
    """A way to execute a step: the way of each tensor, what it moves beyond what it must, and the rest.

    Attributes
    ----------
    in_place
        The tensor whose place the output takes, -1 if it has its own.
    """

    ways: list[int]
    excess: int
    shape: Shape
    in_place: int


class Step:
    """A group of several operations, with all the ways to cut it up that have room.

    First all weights are kept, and a pass is a pixel; then passes have one row, two rows, and so on; then
    there are strips of some columns, with all weights kept.

    Attributes
    ----------
    places
        The tensors that are not of this step alone, sources and outputs, and their rows in `sizes`, `lines`
        and `again`, which have a column for each shape.
    lines, again
        Elements of line buffers, or of the output's block; what is read again of what is not whole on chip.
    fixed
        Elements of all else, with a block of each operation's weights unless these are kept.
    extras, savings
        What weights take more if they are kept, and what that saves.
    wide
        What the output's block takes more if the last operation's weights are kept.
    """

    def __init__(self, group: Group, capacity: int) -> None:
        self.group, tensors = group, group.graph.tensors
        self.weighted = [operation for operation in group.operations if operation.weights]
        total = sum(operation.weights for operation in self.weighted)
        self.single = total <= capacity
        _, height, self.width = tensors[group.output].shape
        self.rows = height if self.weighted else 0
        self.by_rows = slice(int(self.single), int(self.single) + self.rows)
        ends = (*group.sources, *group.outputs)
        self.columns = [
            columns
            for columns in (widths(group) if self.single else ())
            if total + least_lines(group, ends, columns) <= capacity
        ]
        shapes = self.by_rows.stop + len(self.columns)
        self.places = {tensor: place for place, tensor in enumerate(ends)}
        self.sizes = np.array([tensors[tensor].size for tensor in ends], dtype=np.int64)
        self.lines = np.zeros((len(ends), shapes), dtype=np.int64)
        self.fixed = np.zeros(shapes, dtype=np.int64)
        for tensor in group.lines:
            if self.rows:
                line = group.lines_by_rows(tensor) * tensors[tensor].channels
                self._row(tensor)[self.by_rows] += line
        self.rough = [*range(self.by_rows.start), *range(self.by_rows.stop, shapes)]
        for shape in self.rough:
            columns = self.width if shape < self.by_rows.start else self.columns[shape - self.by_rows.stop]
            for tensor, size in lines_of(group, (), columns).items():
                self._row(tensor)[shape] += size
        rows = np.minimum(np.arange(1, self.rows + 1, dtype=np.int64) * self.width, group.pixels)
        channels, last = tensors[group.output].channels, group.last
        at_once = channels if computed_whole(last, Shape("pixels", 1, 1)) else 1
        self.lines[self.places[group.output]] = self._all(channels, at_once * rows, channels)
        blocks = [operation.block(1) for operation in self.weighted]
        self.fixed += self._all(total, sum(blocks), total)
        self.extras = np.array(
            [each.weights - block for each, block in zip(self.weighted, blocks, strict=True)], dtype=np.int64
        )
        self.savings = np.zeros((len(self.weighted), shapes), dtype=np.int64)
        for place, operation in enumerate(self.weighted):
            active = group.active_by_rows(operation.number)
            self.savings[place, self.by_rows] = (active - 1) * operation.weights
        self.wide = self._all(0, (channels - at_once) * rows, 0)
        self.last = len(self.weighted) - 1 if last.weights else -1
        self.again = np.zeros_like(self.lines)
        for place, columns in enumerate(self.columns, self.by_rows.stop):
            for source in group.sources:
                others = set(group.sources) - {source}
                self.again[self.places[source], place] = reread(group, others, columns)

    def _all(self, single: int, rows: Counts | int, strips: Counts | int) -> Counts:
        """Return a value for each shape."""
        found = np.full(self.by_rows.stop + len(self.columns), single, dtype=np.int64)
        found[self.by_rows], found[self.by_rows.stop :] = rows, strips
        return found

    def _row(self, tensor: int) -> Counts:
        return self.lines[self.places[tensor]] if tensor in self.places else self.fixed

    def refine(self, shape: int) -> None:
        """Count what line buffers take with a shape of which they have only been estimated."""
        self.rough.remove(shape)
        group, tensors = self.group, self.group.graph.tensors
        if shape < self.by_rows.start:
            columns, held = self.width, group.held(1)
        else:
            columns = self.columns[shape - self.by_rows.stop]
            held = cut(group, columns).held(1)
        for tensor, size in lines_of(group, (), columns).items():
            self._row(tensor)[shape] += held[tensor] * tensors[tensor].channels - size

    def fits(self, operand: int, done: int) -> Counts:
        """Return whether the output can take the place of an operand, for each shape."""
        alone = all(
            reading.tensor != operand
            for operation in self.group.operations[:-1]
            for reading in operation.readings
        )
        rows = [
            operand in self.group.replaceable(rows * self.width, done) for rows in range(1, self.rows + 1)
        ]
        return self._all(1, np.array(rows, dtype=np.int64), int(alone))

    def once(self, capacity: int) -> bool:
        """Return whether there is room to move nothing again with no tensor on chip as a whole."""
        saving = self.savings > 0
        needed = self.fixed + self.lines.sum(axis=0) + (saving * self.extras[:, None]).sum(axis=0)
        if self.last >= 0:
            needed += self.wide * saving[self.last]
        fits = np.flatnonzero((needed <= capacity) & ~self.again.any(axis=0)).tolist()
        rough = [shape for shape in fits if shape in self.rough]
        if len(rough) < len(fits) or not rough:
            return bool(fits)
        for shape in rough:
            self.refine(shape)
        return self.once(capacity)

    def shape(self, number: int, weights: Sequence[bool]) -> Shape:
        """Return a shape by its number, given which weights are kept."""
        if self.by_rows.start <= number < self.by_rows.stop:
            names = (each.number for each, kept in zip(self.weighted, weights, strict=True) if kept)
            return Shape("pixels", (number - self.by_rows.start + 1) * self.width, 1, frozenset(names))
        every = frozenset(operation.number for operation in self.weighted)
        columns = None if number < self.by_rows.start else self.columns[number - self.by_rows.stop]
        return Shape("pixels", 1, 1, every, columns)


class Frame:
    """A step, given which of its tensors are still to be read after it.

    Parameters
    ----------
    tensors
        Those that are not of this step alone.
    ways
        What may become of each, by where it is before: nowhere or anywhere, on chip, in DRAM, or both.
    operands
        Tensors whose place the output may take.
    """

    def __init__(
        self,
        step: Step,
        tensors: Sequence[int],
        ways: Sequence[Sequence[Sequence[Way]]],
        operands: Sequence[int],
        done: int,
    ) -> None:
        self.step, self.tensors, self.ways, self.operands = step, tensors, ways, operands
        self.rows = np.array([step.places[tensor] for tensor in tensors])
        self.sizes, self.again = step.sizes[self.rows], step.again[self.rows]
        longest = max(len(own) for each in ways for own in each)
        self.costs = np.zeros((len(ways), len(tensors), longest), dtype=np.int64)
        self.wholes = np.zeros(self.costs.shape, dtype=np.bool_)
        self.counts = np.zeros(self.costs.shape[:2], dtype=np.int64)
        for kind, each in enumerate(ways):
            for place, own in enumerate(each):
                self.counts[kind, place] = len(own)
                for number, way in enumerate(own):
                    self.costs[kind, place, number] = way.excess
                    here = kind & 1 and tensors[place] in step.group.sources
                    self.wholes[kind, place, number] = bool(here or way.fetched or way.resident)
        self.output = tensors.index(step.group.output)
        self.places = np.array([tensors.index(tensor) for tensor in operands], dtype=np.int64)
        fits = [step.fits(tensor, done) for tensor in operands]
        self.fits = np.array(fits, dtype=np.bool_).reshape(len(operands), len(step.fixed))
        self.alike = np.zeros(len(tensors), dtype=np.bool_)

    def of(self, tensors: Sequence[int], same: Sequence[bool]) -> Frame:
        """Return this with its tensors in another order, and which are like the one before them."""
        found = copy(self)
        places = [self.tensors.index(tensor) for tensor in tensors]
        found.tensors, found.alike = tensors, np.array(same)
        found.ways = [[each[place] for place in places] for each in self.ways]
        found.rows, found.sizes, found.again = self.rows[places], self.sizes[places], self.again[places]
        found.costs, found.wholes = self.costs.take(places, 1), self.wholes.take(places, 1)
        found.counts = self.counts.take(places, 1)
        found.output = places.index(self.output)
        found.places = np.array([places.index(place) for place in self.places.tolist()], dtype=np.int64)
        return found

    def found(self, kinds: Sequence[int], room: int, limit: int, only_best: bool) -> tuple[list[Found], int]:
        """Return the ways to execute the step in some room that move no more than a limit, and a bound.

        Parameters
        ----------
        kinds
            Where each of the tensors is before.
        only_best
            Whether only what is moved least is sought, or less if line buffers have only been estimated.
        """
        step = self.step
        while True:
            chosen, numbers, kept, bound = knapsack.assigned(
                self.sizes,
                step.lines[self.rows],
                self.again,
                self.costs,
                self.wholes,
                self.counts,
                self.alike,
                np.array(kinds),
                step.fixed,
                step.extras,
                step.savings,
                step.last,
                step.wide,
                self.output,
                self.places,
                self.fits,
                room,
                limit,
                only_best,
            )
            rough = {shape for shape in numbers[:, 1].tolist() if shape in step.rough}
            if not rough or only_best:
                break
            for shape in rough:
                step.refine(shape)
        return [
            Found(own, excess, step.shape(shape, weights), -1 if operand < 0 else self.operands[operand])
            for own, (excess, shape, operand), weights in zip(
                chosen.tolist(), numbers.tolist(), kept.tolist(), strict=True
            )
        ], bound
