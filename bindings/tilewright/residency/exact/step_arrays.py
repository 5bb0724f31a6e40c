"""Steps of several operations as arrays: what each way to cut one up takes of the memory, and moves again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.residency.exact import knapsack
from tilewright.residency.exact.line_tables import OUTPUT, LineTables
from tilewright.residency.graph import members
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.shape import Shape, replaces
from tilewright.simulator.program import Counts


class TensorOption(NamedTuple):
    """What becomes of a tensor in a step: each but the excess is 0, or 1 at its place."""

    excess: int
    on_chip: int = 0
    in_dram: int = 0
    fetched: int = 0
    resident: int = 0
    written: int = 0


class StepArrays:
    """A group of several operations, with all the ways to cut it up that have room.

    Where its last operation may have running values, there are first the shapes without, then those with
    them.

    Attributes
    ----------
    sizes
        Elements of the tensors that are not of this step alone.
    places
        Their rows in `sizes`, `lines` and `again`.
    weighted
        The operations that have weights, in whose order `extras` and `savings` are.
    lines, again, fixed, extras, savings, last, wide, rough
        See `PassArrays`.
    """

    def __init__(self, group: Group, capacity: int) -> None:
        areas = [group] if group.running is None else [group, group.running]
        self.group, self._parts = group, [PassArrays(area, capacity) for area in areas]
        first = self._parts[0]
        self._counts = [len(part.fixed) for part in self._parts]
        self.sizes, self.places, self.weighted = first.sizes, first.places, first.weighted
        self.extras, self.last = first.extras, first.last
        self.savings, self.wide, self.again = (self._joined(name) for name in ("savings", "wide", "again"))
        self._look()

    def _joined(self, name: str) -> Any:
        """Return an array of all shapes."""
        parts = [getattr(part, name) for part in self._parts]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)

    def _look(self) -> None:
        self.lines, self.fixed, self.rough = (self._joined(name) for name in ("lines", "fixed", "rough"))

    def _part(self, number: int) -> tuple[int, int]:
        """Return which of the two kinds a shape is of, and its number there."""
        first = self._counts[0]
        return (0, number) if number < first else (1, number - first)

    def refine(self, shapes: Collection[int]) -> None:
        """Count what line buffers take with shapes of which they have only been estimated."""
        for place, part in enumerate(self._parts):
            own = [number for each, number in map(self._part, shapes) if each == place]
            if own:
                part.refine(own)
        self._look()

    def fits(self, operand: int) -> list[bool]:
        """Return whether the output can take the place of an operand, for each shape."""
        every = np.ones(len(self.weighted), dtype=np.bool_)
        shapes = (self.shape(number, every) for number in range(len(self.fixed)))
        return [replaces(self.group, shape, operand) for shape in shapes]

    def fits_moving_once(self, capacity: int) -> bool:
        """Return whether there is room to move nothing again with no tensor on chip as a whole."""
        saving = self.savings > 0
        needed = self.fixed + self.lines.sum(axis=0) + (saving * self.extras[:, None]).sum(axis=0)
        if self.last >= 0:
            needed += self.wide * saving[self.last]
        fits = np.flatnonzero((needed <= capacity) & ~self.again.any(axis=0))
        rough = fits[self.rough[fits]]
        if len(rough) < len(fits) or not len(rough):
            return bool(len(fits))
        self.refine(rough.tolist())
        return self.fits_moving_once(capacity)

    def shape(self, number: int, weights: NDArray[np.bool_]) -> Shape:
        """Return a shape by its number, given which weights are kept."""
        part, own = self._part(number)
        return self._parts[part].shape(own, weights)


class PassArrays:
    """A group, with all the ways to cut it up in passes over what its last operation computes, or adds up.

    Attributes
    ----------
    places
        The tensors that are not of this step alone, sources and outputs, and their rows in `sizes`, `lines`
        and `again`, which have a column for each shape: see `LineTables`. Then there are passes of some more
        pixels, with all weights kept, in which the output can take the place of an operand.
    lines, again
        Elements of line buffers, or of the output's block; what is read again of what is not whole on chip.
    rough
        Shapes of which line buffers have only been estimated.
    fixed
        Elements of all else, with a block of each operation's weights unless these are kept.
    extras, savings
        What weights take more if they are kept, and what that saves.
    last, wide
        Which weights are the last operation's, -1 if it has none, and what the output's block takes more if
        they are kept.
    """

    def __init__(self, group: Group, capacity: int) -> None:
        self.group, tensors = group, group.graph.tensors
        self.buffers = buffers = LineTables.of(group)
        self._ends = ends = (*group.sources, *group.outputs)
        rows = {tensor: buffers.place(group, tensor) for tensor in group.lines}
        self.weighted = np.array(
            [operation.number for operation in group.operations if operation.weights], dtype=np.int64
        )
        total, blocks = buffers.weights[self.weighted].sum(), buffers.blocks[self.weighted].sum()
        if total <= capacity:
            for tensor, place in rows.items():
                buffers.estimate(group, tensor, place)
        # In the place of an operand passes may have to be larger than a pixel.
        sizes = {
            size
            for operand in group.replaceable_operands(group.graph.all)
            for size in group.pixels_that_replace(operand)
        }
        self._pixels = sorted(size for size in sizes - {1} if size % buffers.width)
        self._own = np.array([rows.pop(tensor, OUTPUT) for tensor in ends])
        self._others = rows
        self.places = {tensor: place for place, tensor in enumerate(ends)}
        self.sizes = np.array([tensors[tensor].size for tensor in ends], dtype=np.int64)
        self._held = self._with_pixels(buffers.all(total, blocks) + buffers.running, total)
        if not len(self.weighted) and sizes <= {1}:
            self._held[buffers.by_rows] = knapsack.NEVER
        if total > capacity:
            self._held[0] = self._held[buffers.by_rows.stop :] = knapsack.NEVER
        self._look()
        self.extras = buffers.weights[self.weighted] - buffers.blocks[self.weighted]
        self.savings = self._with_pixels(buffers.loaded_again(group, self.weighted))
        self.last = len(self.weighted) - 1 if group.last.weights else -1
        self.wide = self._with_pixels(buffers.wide)
        self.again = np.zeros_like(self.lines)
        if total <= capacity:
            for source in group.sources:
                place = self.places[source]
                self.again[place] = self._with_pixels(buffers.again(self._own[place]))

    def _with_pixels(self, shapes: Any, more: Any = 0) -> Any:
        """Return what there is for each shape of the buffers, and then for passes of some more pixels."""
        added = np.full((*shapes.shape[:-1], len(self._pixels)), more, dtype=shapes.dtype)
        return np.concatenate((shapes, added), axis=-1)

    def _look(self) -> None:
        """Pick rows of the line buffers, as far as they are known."""
        buffers, others = self.buffers, np.array([*self._others.values()], dtype=np.int64)
        self.lines = self._with_pixels(buffers.lines[self._own], self._in_pixels(self._ends))
        rest = self._with_pixels(buffers.lines[others], self._in_pixels([*self._others]))
        self.fixed = self._held + rest.sum(axis=0)
        rough = buffers.rough[self._own].any(axis=0) | buffers.rough[others].any(axis=0)
        self.rough = self._with_pixels(rough)

    def _in_pixels(self, tensors: Sequence[int]) -> Counts:
        """Return what line buffers, or the output's block, take in passes of some more pixels."""
        group, found = self.group, np.zeros((len(tensors), len(self._pixels)), dtype=np.int64)
        for place, tensor in enumerate(tensors):
            channels = group.channels(tensor)
            for number, pixels in enumerate(self._pixels):
                held = pixels if tensor == group.output else group.line_pixels_of(tensor, pixels)
                found[place, number] = channels * held
        return found

    def refine(self, shapes: Collection[int]) -> None:
        """Count what line buffers take with shapes of which they have only been estimated."""
        for shape in shapes:
            self.buffers.refine(self.group, shape)
        self._look()

    def shape(self, number: int, weights: NDArray[np.bool_]) -> Shape:
        """Return a shape by its number, given which weights are kept."""
        by_rows, running = self.buffers.by_rows, self.group.is_running
        if by_rows.start <= number < by_rows.stop:
            pixels = (number - by_rows.start + 1) * self.buffers.width
            kept = frozenset(self.weighted[weights].tolist()) & self.group.keepable
            return Shape("pixels", pixels, 1, kept, running=running)
        every, more = self.group.keepable, number - self.buffers.count
        if more >= 0:
            return Shape("pixels", self._pixels[more], 1, every, running=running)
        columns = None if number < by_rows.start else self.buffers.columns[number - by_rows.stop]
        return Shape("pixels", 1, 1, every, columns, running=running)


class TensorOptions:
    """What may become of a tensor, by where it is before: nowhere or anywhere, on chip, in DRAM, or both.

    Attributes
    ----------
    options
        For each of the four.
    costs, wholes, on_chip, in_dram
        What each moves, whether the tensor is on chip as a whole then, and where it is afterwards; shape
        (4, most options).
    counts
        How many options there are, shape (4,).
    """

    MOST = 4

    def __init__(self, options: list[list[TensorOption]], source: bool) -> None:
        self.options = options
        self.costs = np.zeros((4, self.MOST), dtype=np.int64)
        self.wholes, self.on_chip, self.in_dram = np.zeros((3, 4, self.MOST), dtype=np.bool_)
        self.counts = np.array([len(own) for own in options], dtype=np.int64)
        for kind, own in enumerate(options):
            for place, option in enumerate(own):
                self.costs[kind, place] = option.excess
                self.wholes[kind, place] = bool((kind & 1 and source) or option.fetched or option.resident)
                self.on_chip[kind, place] = bool(option.on_chip)
                self.in_dram[kind, place] = bool(option.in_dram)


class FoundSteps(NamedTuple):
    """Ways to execute a step, those that move least first.

    Attributes
    ----------
    ways
        See `knapsack.Ways`.
    least, reached
        What all ways move at least, and up to which amount all are there.
    where
        Which tensors are on chip and in DRAM after each: see `knapsack.best_steps`.
    """

    ways: knapsack.Ways
    least: int
    reached: int
    where: Counts


class StepFrame:
    """A step, given which of its tensors are still to be read after it.

    Parameters
    ----------
    tensors
        Those that are not of this step alone.
    options
        What may become of each.
    operands
        Tensors whose place the output may take.
    later
        What counts where each tensor is read last.
    """

    def __init__(
        self,
        step: StepArrays,
        tensors: Sequence[int],
        options: Sequence[TensorOptions],
        operands: Sequence[int],
        later: Sequence[int],
    ) -> None:
        self.step, self.tensors, self.options, self.operands = step, tensors, options, operands
        self._rows = np.array([step.places[tensor] for tensor in tensors])
        fits = [step.fits(tensor) for tensor in operands]
        self._tables = knapsack.StepTables(
            sizes=step.sizes[self._rows],
            lines=step.lines[self._rows],
            reread=step.again[self._rows],
            costs=np.array([each.costs for each in options]),
            flags=np.array([(each.wholes, each.on_chip, each.in_dram) for each in options]),
            options=np.array([each.counts for each in options]),
            later=np.array([later[tensor] for tensor in tensors], dtype=np.int64),
            sources=np.array([tensor in step.group.sources for tensor in tensors]),
            fixed=step.fixed,
            extras=step.extras,
            savings=step.savings,
            last=step.last,
            wide=step.wide,
            output=tensors.index(step.group.output),
            operands=np.array([tensors.index(tensor) for tensor in operands], dtype=np.int64),
            fits=np.array(fits, dtype=np.bool_).reshape(len(operands), len(step.fixed)),
        )
        self._masks: dict[tuple[int, ...], int] = {}

    def find(self, question: knapsack.Question) -> FoundSteps:
        """Return the ways to execute the step; what is moved least may be less if that alone is asked.

        Line buffers have then only been estimated.
        """
        step = self.step
        while True:
            tables = self._tables
            if tables.fixed is not step.fixed:  # it has been refined, perhaps for another frame
                tables = self._tables = tables._replace(fixed=step.fixed, lines=step.lines[self._rows])
            found = FoundSteps(*knapsack.best_steps(tables, question))
            shapes = found.ways.numbers[:, 1]
            rough = shapes[step.rough[shapes]]
            if not len(rough) or question.only_best:
                return found
            step.refine(set(rough.tolist()))

    def mask(self, places: Sequence[int]) -> int:
        """Return tensors as a bit mask, given masks of their places: see `knapsack.best_steps`."""
        key = tuple(places)
        known = self._masks.get(key)
        if known is None:
            known = self._masks[key] = sum(
                1 << self.tensors[number * knapsack.BITS + place]
                for number, mask in enumerate(places)
                for place in members(mask)
            )
        return known
