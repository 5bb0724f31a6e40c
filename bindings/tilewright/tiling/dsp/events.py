"""What the tiles of a plan do, as the events of a loop nest: what moves between one tile and the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tilewright.simulator.columns import COMPUTE, FREE, LOAD, READ, WRITE, Marks
from tilewright.simulator.nest import (
    Along,
    Convolution,
    LoopNest,
    NestEvent,
    by_value,
    intersect_marks,
    mark_first,
    mark_last,
)
from tilewright.simulator.operations import ConvolveBox
from tilewright.simulator.program import Box, Region
from tilewright.tiling.dsp.compute import cost_of_tile, loop_of
from tilewright.tiling.dsp.nest import C, G, K, N, Nest, X, Y
from tilewright.tiling.dsp.plan import LOOPS, DspPlan
from tilewright.tiling.dsp.traffic import RELEVANT, moved_by

Span = tuple[int, int]


def loop_nest(nest: Nest, plan: DspPlan, local: int) -> LoopNest:
    """Return the tiles of a plan in their order.

    Parameters
    ----------
    local
        Units of local traffic of the whole layer.
    """
    tiles = _TileEvents(nest, plan, local)
    return LoopNest(
        trips=tuple(tiles.trips),
        events=tuple(tiles.all()),
        names={
            loop: [f"{LOOPS[d]}{first}-{last - 1}" for first, last in tiles.spans[d]]
            for loop, d in enumerate(tiles.order)
            if tiles.trips[loop] > 1
        },
        end="empty the memory",
        whole={"input": (), "kernels": (3, 4), "output": ()},
    )


def convolution(nest: Nest) -> Convolution:
    """Return what gives the arithmetic of a tile."""
    machine = nest.machine
    kept = (nest.lines[0].kept, nest.lines[1].kept) if machine.dma_step else None

    def operation(_tensor: str, outputs: Region, operands: Mapping[str, Region]) -> ConvolveBox:
        kernels = operands["kernels"]
        assert isinstance(outputs, Box) and isinstance(kernels, Box)
        images, groups, maps, rows, columns = (span for span in outputs.ranges if span is not None)
        channels = kernels.ranges[2]
        assert channels is not None
        return ConvolveBox(
            nest.layer,
            images=images,
            groups=groups,
            kernels=maps,
            channels=channels,
            rows=rows,
            cols=columns,
            generated_padding=machine.padding == "generated",
            kept=kept,
        )

    return operation


class _TileEvents:
    """The events of all tiles.

    Attributes
    ----------
    order
        The dimensions of the layer, from the outermost loop on.
    loop
        Of each dimension, its place in that order.
    trips
        Iterations of the loops, in that order.
    spans
        Of each dimension, the range of each tile.
    along, planes
        The same ranges by loop, and the input's rows and columns under them.
    halo
        The dimension along which the next tile needs a part of what this one has; None if nothing stays.
    """

    def __init__(self, nest: Nest, plan: DspPlan, local: int) -> None:
        self.nest, self.plan, self.local = nest, plan, local
        self.order = [LOOPS.index(loop) for loop in "g" + plan.order]
        self.loop = {d: loop for loop, d in enumerate(self.order)}
        trips, step = nest.trips(plan.tile), nest.step(plan.tile)
        self.trips = [trips[d] for d in self.order]
        self.spans: list[list[Span]] = [
            [(first, min(first + width, size)) for first in range(0, size, width)]
            for size, width in zip(nest.sizes, step, strict=True)
        ]
        self.along = {d: Along.spans(self.loop[d], self.spans[d]) for d in self.order}
        self.planes: dict[int, Along] = {}
        for axis in (Y, X):
            under = nest.axis(axis, step[axis])
            self.planes[axis] = Along(self.loop[axis], under.start, under.stop)
        self.always = plan.reuse == "none"
        self.moved_by = moved_by(plan.reuse)
        moving = [d for d in self.order if d in RELEVANT["input"] and trips[d] > 1]
        self.halo = moving[-1] if plan.keeps_halo and moving and moving[-1] in (Y, X) else None

    def all(self) -> Iterator[NestEvent]:
        """Return what the tiles free, write back, load and compute, in the order within a step."""
        inputs, outputs, own = self._input(self.planes), self._output(), self._kernels()
        kernels = self._group_kernels() if self.plan.reuse == "weights" else own
        first, last = (
            {operand: mark(self.trips, self._level(operand)) for operand in RELEVANT}
            for mark in (mark_first, mark_last)
        )
        (leaves, left), (comes, new) = self._input_parts()
        yield NestEvent(
            (FREE, "input"), self._input(leaves), intersect_marks(last["input"], left), after=True
        )
        yield NestEvent((FREE, "kernels"), kernels, last["kernels"], after=True)
        yield from self._writes(outputs, last["output"])
        yield NestEvent(
            (LOAD, "input", "bus", 0, 0), self._input(comes), intersect_marks(first["input"], new)
        )
        yield NestEvent((LOAD, "kernels", "bus", 0, 0), kernels, first["kernels"])
        loop = self.loop[K]
        if self.trips[loop] > 1:
            again = {loop: np.arange(self.trips[loop]) > 0}
            yield NestEvent((LOAD, "output", "bus", 0, 0), outputs, intersect_marks(first["output"], again))
        for operand, ranges in (("input", inputs), ("kernels", own)):
            yield NestEvent((READ, operand, "dsp", 0, 0, 0, 0, "output"), ranges)
        yield from self._computes(outputs)

    def _writes(self, outputs: tuple[Along, ...], last: dict[int, Marks]) -> Iterator[NestEvent]:
        """Return the write-backs, those of partial sums apart where they are wider."""
        complete, sums = (WRITE, "output", "bus", 0, 0), (WRITE, "output", "bus", 0, 0, 0, 0, -1, 1)
        if not self.nest.widens(self.plan):
            yield NestEvent(complete, outputs, last, after=True)
            return
        ends = np.arange(self.trips[self.loop[K]]) == self.trips[self.loop[K]] - 1
        for form, when in ((complete, ends), (sums, ~ends)):
            found = intersect_marks(last, {self.loop[K]: when})
            if all(marks.any() for marks in found.values()):
                yield NestEvent(form, outputs, found, after=True)

    def _level(self, operand: str) -> int:
        """Return the innermost loop that moves an operand, -1 if none does."""
        loops = range(6) if self.always else [self.loop[d] for d in self.moved_by[operand]]
        return max((loop for loop in loops if self.always or self.trips[loop] > 1), default=-1)

    def _input_parts(
        self,
    ) -> tuple[tuple[dict[int, Along], dict[int, Marks]], tuple[dict[int, Along], dict[int, Marks]]]:
        """Return what of the input leaves after a tile and what comes before it, and when that is something.

        The part that the next tile needs, too, stays: what comes begins where the tile before ended.
        """
        axis = self.halo
        if axis is None:
            return (self.planes, {}), (self.planes, {})
        loop, start, stop = self.loop[axis], self.planes[axis].low, self.planes[axis].high
        first, end = start.copy(), stop.copy()
        first[1:] = np.minimum(np.maximum(start[1:], stop[:-1]), stop[1:])
        end[:-1] = np.minimum(stop[:-1], start[1:])
        return (
            ({**self.planes, axis: Along(loop, start, end)}, {loop: start < end}),
            ({**self.planes, axis: Along(loop, first, stop)}, {loop: first < stop}),
        )

    def _input(self, planes: dict[int, Along]) -> tuple[Along, ...]:
        return *(self.along[d] for d in (N, G, K)), planes[Y], planes[X]

    def _kernels(self) -> tuple[Along, ...]:
        rows, columns = self.nest.layer.kernel
        return *(self.along[d] for d in (G, C, K)), Along.fixed(0, rows), Along.fixed(0, columns)

    def _group_kernels(self) -> tuple[Along, ...]:
        """Return all weights of a tile's groups."""
        sizes = self.nest.sizes
        whole = Along.fixed(0, sizes[C]), Along.fixed(0, sizes[K])
        return self.along[G], *whole, *self._kernels()[3:]

    def _output(self) -> tuple[Along, ...]:
        return tuple(self.along[d] for d in (N, G, C, Y, X))

    def _computes(self, outputs: tuple[Along, ...]) -> Iterator[NestEvent]:
        """Return the computes, those of as many MACs and as much local traffic together."""
        nest, local = self.nest, self.local
        if nest.machine.vector_unit is not None:
            yield from self._inner_loops(outputs)
            return
        matter = [d for d in self.order if local or d == K]
        sizes = [self.along[d].lengths if d in matter else None for d in self.order]
        for numbers, when in by_value(sizes):
            macs = nest.window
            for size in numbers:
                macs *= size or 1
            each = nest.window * numbers[self.loop[K]]
            streamed = int(nest.streamed(macs, local))
            yield NestEvent((COMPUTE, "output", "dsp", each, 0, streamed, 0), outputs, when)

    def _inner_loops(self, outputs: tuple[Along, ...]) -> Iterator[NestEvent]:
        """Return the computes on a vector unit: those of equal size, that begin and end outputs or do not."""
        nest, maps = self.nest, self.loop[K]
        loop, last = loop_of(nest, self.plan), self.trips[maps] - 1
        values: list[Any] = [self.along[d].lengths for d in self.order]
        number = np.arange(self.trips[maps])
        values[maps] = 4 * values[maps] + 2 * (number == 0) + (number == last)
        for numbers, when in by_value(values):
            size, ends = divmod(numbers[maps], 4)
            by_loop = [*numbers[:maps], size, *numbers[maps + 1 :]]
            sizes = tuple(by_loop[self.loop[d]] for d in range(6))
            cycles, streamed = cost_of_tile(nest, loop, sizes, ends >= 2, ends % 2 == 1)
            macs = nest.window * int(np.prod(sizes))
            further = cycles - -(-macs // nest.machine.macs_per_cycle)
            yield NestEvent(
                (COMPUTE, "output", "dsp", nest.window * size, 0, streamed, further), outputs, when
            )
