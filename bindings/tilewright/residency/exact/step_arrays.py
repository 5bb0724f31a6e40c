"""Steps of several operations as arrays: what each way to cut one up takes of the memory, and moves again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.residency.exact import knapsack
from tilewright.residency.exact.line_tables import OUTPUT, LineTables
from tilewright.residency.graph import members
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.in_blocks import in_blocks, most_keys, pixels_in_blocks
from tilewright.residency.shapes.product_tiles import Cut, ProductTiles, product_tiles
from tilewright.residency.shapes.shape import Shape, computed_whole, replaces
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
        pixels, with all weights kept, in which the output can take the place of an operand, passes that load
        second operands in blocks, and tiles of a product with the softmax before it.
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
        self._added = self._more_shapes()
        self._tiles, self._cut = self._in_tiles(capacity)
        self._own = np.array([rows.pop(tensor, OUTPUT) for tensor in ends])
        self._others = rows
        self.places = {tensor: place for place, tensor in enumerate(ends)}
        self.sizes = np.array([tensors[tensor].size for tensor in ends], dtype=np.int64)
        held = buffers.all(total, blocks) + buffers.running
        tiles = len(self._cut.pixels)
        if not len(self.weighted) and all(shape.blocks for shape in self._added):
            held[buffers.by_rows] = knapsack.NEVER
        if total > capacity:
            held[0] = held[buffers.by_rows.stop :] = knapsack.NEVER
        every = total if total <= capacity else knapsack.NEVER
        more = [blocks if shape.blocks else every for shape in self._added]
        self._held = self._with(held, more, np.zeros(tiles, dtype=np.int64))
        more = [self._sums(shape) for shape in self._added]
        self._held += self._with(buffers.all(0, 0), more, self._tile("partial sums", group.last.number))
        others = [*self._others]
        self._own_added, self._others_added = self._lines_of(ends), self._lines_of(others)
        self._own_tiles, self._others_tiles = self._tile_lines(ends), self._tile_lines(others)
        self._look()
        self.extras = buffers.weights[self.weighted] - buffers.blocks[self.weighted]
        none = np.zeros((len(self.weighted), tiles), dtype=np.int64)
        self.savings = self._with(buffers.loaded_again(group, self.weighted), self._loaded_again(), none)
        self.last = len(self.weighted) - 1 if group.last.weights else -1
        channels = tensors[group.output].channels
        wide = [(channels - 1) * shape.pixels * shape.blocks for shape in self._added]
        wide = wide if group.last.weights else [0] * len(wide)
        self.wide = self._with(buffers.wide, wide, np.zeros(tiles, dtype=np.int64))
        self.again = np.zeros_like(self.lines)
        for source in group.sources:
            place = self.places[source]
            strips = buffers.again(self._own[place]) if total <= capacity else buffers.all(0, 0)
            again = [] if self._tiles is None else self._tiles.reloaded(source, self._cut)
            self.again[place] = self._with(strips, self._again(source), again)

    def _more_shapes(self) -> list[Shape]:
        """Return passes of some more pixels: in the place of an operand, and with blocks."""
        group = self.group
        sizes = {
            size
            for operand in group.replaceable_operands(group.graph.all)
            for size in group.pixels_that_replace(operand)
        }
        every, running = self.group.keepable, group.is_running
        more = [size for size in sorted(sizes - {1}) if size % self.buffers.width]
        found = [Shape("pixels", size, 1, every, running=running) for size in more]
        self._plain = len(found)
        in_tiles = product_tiles(group)
        passing = most_keys(group) and (in_tiles is None or in_tiles.attention is None)
        self._keys: list[int | None] = [None, 1] if passing else [None]
        for pixels, each in product(pixels_in_blocks(group), self._keys):
            found.append(Shape("pixels", pixels, 1, blocks=True, keys=each))
        return found

    def _in_tiles(self, capacity: int) -> tuple[ProductTiles | None, Cut]:
        """Return how tiles of a product and the softmax before it are computed, and what may fit."""
        tiles, none = product_tiles(self.group), np.zeros(0, dtype=np.int64)
        if tiles is None or tiles.attention is None:
            return None, Cut(none, none, none)
        every = tiles.every(1)
        needed = sum(tiles.buffers(every, members(self.group.touched)).values())
        return tiles, Cut(*(each[needed <= capacity] for each in every))

    def _tile(self, what: str, number: int) -> Counts:
        """Return what tiles take of something."""
        if self._tiles is None:
            return np.zeros(0, dtype=np.int64)
        found: Counts = self._tiles.buffers(self._cut, ()).get((what, number), 0 * self._cut.pixels)
        return found

    def _with(self, shapes: Any, added: Any, tiles: Any) -> Any:
        """Return what there is for each shape of the buffers, for those that are added, and for tiles."""
        sizes = (len(self._added), len(self._cut.pixels))
        more = (
            np.array(each, dtype=shapes.dtype).reshape(*shapes.shape[:-1], size)
            for each, size in zip((added, tiles), sizes, strict=True)
        )
        return np.concatenate((shapes, *more), axis=-1)

    def _look(self) -> None:
        """Pick rows of the line buffers, as far as they are known."""
        buffers, others = self.buffers, np.array([*self._others.values()], dtype=np.int64)
        self.lines = self._with(buffers.lines[self._own], self._own_added, self._own_tiles)
        rest = self._with(buffers.lines[others], self._others_added, self._others_tiles)
        self.fixed = self._held + rest.sum(axis=0)
        rough = buffers.rough[self._own].any(axis=0) | buffers.rough[others].any(axis=0)
        self.rough = self._with(rough, [False] * len(self._added), [False] * len(self._cut.pixels))

    # Passes of some more pixels -------------------------------------------------------------------------

    def _lines_of(self, tensors: Sequence[int]) -> Counts:
        """Return what line buffers, or the output's block, take with each of the shapes that are added."""
        found = np.zeros((len(tensors), len(self._added)), dtype=np.int64)
        for place, tensor in enumerate(tensors):
            found[place] = self._line(tensor)
        return found

    def _tile_lines(self, tensors: Sequence[int]) -> Counts:
        """Return what tiles take of tensors."""
        found = np.zeros((len(tensors), len(self._cut.pixels)), dtype=np.int64)
        for place, tensor in enumerate(tensors):
            found[place] = self._tile("lines", tensor)
            if self._tiles is not None and tensor in self._tiles.parts:
                found[place] += self._tiles.operand(tensor, self._cut)
        return found

    def _line(self, tensor: int) -> Counts:
        group = self.group
        if tensor == group.output:
            return np.array([self._block(shape) for shape in self._added], dtype=np.int64)
        plain = [
            group.channels(tensor) * group.line_pixels_of(tensor, shape.pixels)
            for shape in self._added[: self._plain]
        ]
        found = self._in_blocks(tensor)
        if tensor in group.sources:
            # A source that takes more than all of it is loaded as a whole: that moves less.
            found = np.minimum(found, group.graph.tensors[tensor].size)
        return np.concatenate([np.array(plain, dtype=np.int64), found])

    def _in_blocks(self, tensor: int) -> Counts:
        """Return what a tensor takes in its line buffer and in blocks of second operands, by shape."""
        if self._plain == len(self._added):
            return np.zeros(0, dtype=np.int64)
        area = in_blocks(self.group)
        widths = np.array([area.width(tensor, keys) for keys in self._keys], dtype=np.int64)
        blocks = np.array([area.blocks_of(tensor, keys) for keys in self._keys], dtype=np.int64)
        return (area.lines_by_size(tensor)[:, None] * widths + blocks).reshape(-1)

    def _block(self, shape: Shape) -> int:
        """Return what the block of the output takes."""
        group = self.group
        if shape.blocks:
            passing = in_blocks(group).passing(shape.keys)
            if any(each.context == group.last.number for each in passing):
                return 0
            if group.last.weights or not computed_whole(group.last, shape):
                return shape.pixels
        return shape.pixels * group.graph.tensors[group.output].channels

    def _sums(self, shape: Shape) -> int:
        """Return what partial sums take."""
        if shape.keys is None:
            return 0
        area = in_blocks(self.group)
        return sum(area.sums(each, shape.pixels) for each in area.passing(shape.keys))

    def _loaded_again(self) -> Counts:
        """Return what is moved again of weights that are not kept, shape (weights, shapes that are added)."""
        found = np.zeros((len(self.weighted), len(self._added)), dtype=np.int64)
        if self._plain == len(self._added):
            return found
        area = in_blocks(self.group)
        for place, number in enumerate(self.weighted.tolist()):
            passes = np.repeat(area.active_by_size(number) - 1, len(self._keys))
            found[place, self._plain :] = passes * self.buffers.weights[number]
        return found

    def _again(self, source: int) -> Counts:
        """Return what is read again of a source with each of the shapes that are added."""
        found = np.zeros(len(self._added), dtype=np.int64)
        if self._plain < len(self._added):
            area = in_blocks(self.group)
            again = np.stack([area.reloaded_by_size(source, keys) for keys in self._keys], axis=1).ravel()
            more = self._in_blocks(source) > self.group.graph.tensors[source].size
            found[self._plain :] = np.maximum(again, more)
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
        if more >= len(self._added):
            pixels, kernels, keys = (int(each[more - len(self._added)]) for each in self._cut)
            return Shape("pixels", pixels, kernels, blocks=True, keys=keys)
        if more >= 0:
            added = self._added[more]
            return replace(added, kept=frozenset(self.weighted[weights].tolist())) if added.blocks else added
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
