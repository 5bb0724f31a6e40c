"""What the tiles of a walk do, as the events of a loop nest: the steps of `TileWalk`, all at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilewright.simulator.columns import COMPUTE, FREE, LOAD, READ, WRITE, Marks
from tilewright.simulator.nest import Along, LoopNest, NestEvent, both, by_value, entering, leaving
from tilewright.tiling.dsp.nest import C, G, K, N, X, Y
from tilewright.tiling.dsp.plan import LOOPS
from tilewright.tiling.dsp.traffic import RELEVANT
from tilewright.tiling.dsp.walk import TileWalk


def loop_nest(walk: TileWalk) -> LoopNest:
    """Return the nest of a walk over all tiles, with the steps that `TileWalk.steps` makes."""
    return LoopNest(
        trips=tuple(walk.trips[d] for d in walk.order),
        events=tuple(_Events(walk).all()),
        names={
            loop: [f"{LOOPS[d]}{first}-{last - 1}" for first, last in walk.spans[d]]
            for loop, d in enumerate(walk.order)
            if walk.trips[d] > 1
        },
        end="empty the memory",
        whole={"input": (), "kernels": (3, 4), "output": ()},
    )


class _Events:
    """The events of a walk.

    Attributes
    ----------
    loop
        Of each dimension of the layer, its place in the order of the loops.
    """

    def __init__(self, walk: TileWalk) -> None:
        self.walk = walk
        self.loop = {d: loop for loop, d in enumerate(walk.order)}
        self.trips = [walk.trips[d] for d in walk.order]
        self.along = {d: Along.spans(self.loop[d], walk.spans[d]) for d in walk.order}
        self.planes: dict[int, Along] = {
            axis: Along.spans(self.loop[axis], walk.planes[axis]) for axis in (Y, X)
        }

    def all(self) -> Iterator[NestEvent]:
        """Return what the tiles free, write back, load and compute, in the order within a step."""
        inputs, outputs, own = self._input(self.planes), self._output(), self._kernels()
        kernels = self._group_kernels() if self.walk.plan.reuse == "weights" else own
        first, last = (
            {operand: mark(self.trips, self._level(operand)) for operand in RELEVANT}
            for mark in (entering, leaving)
        )
        (leaves, left), (comes, new) = self._input_parts()
        yield NestEvent((FREE, "input"), self._input(leaves), both(last["input"], left), after=True)
        yield NestEvent((FREE, "kernels"), kernels, last["kernels"], after=True)
        yield from self._writes(outputs, last["output"])
        yield NestEvent((LOAD, "input", "bus", 0, 0), self._input(comes), both(first["input"], new))
        yield NestEvent((LOAD, "kernels", "bus", 0, 0), kernels, first["kernels"])
        if self.walk.trips[K] > 1:
            again = {self.loop[K]: np.arange(self.walk.trips[K]) > 0}
            yield NestEvent((LOAD, "output", "bus", 0, 0), outputs, both(first["output"], again))
        for operand, ranges in (("input", inputs), ("kernels", own)):
            yield NestEvent((READ, operand, "dsp", 0, 0, 0, 0, "output"), ranges)
        yield from self._computes(outputs)

    def _writes(self, outputs: tuple[Along, ...], last: dict[int, Marks]) -> Iterator[NestEvent]:
        """Return the write-backs, those of partial sums apart where they are wider."""
        complete, sums = (WRITE, "output", "bus", 0, 0), (WRITE, "output", "bus", 0, 0, 0, 0, -1, 1)
        if not self.walk.widens:
            yield NestEvent(complete, outputs, last, after=True)
            return
        ends = np.arange(self.trips[self.loop[K]]) == self.trips[self.loop[K]] - 1
        for form, when in ((complete, ends), (sums, ~ends)):
            found = both(last, {self.loop[K]: when})
            if all(marks.any() for marks in found.values()):
                yield NestEvent(form, outputs, found, after=True)

    def _level(self, operand: str) -> int:
        """Return the innermost loop that moves an operand, -1 if none does."""
        loops = range(6) if self.walk.always else [self.loop[d] for d in self.walk.moved_by[operand]]
        return max((loop for loop in loops if self.walk.always or self.trips[loop] > 1), default=-1)

    def _input_parts(
        self,
    ) -> tuple[tuple[dict[int, Along], dict[int, Marks]], tuple[dict[int, Along], dict[int, Marks]]]:
        """Return what of the input leaves after a tile and what comes before it, and when that is something.

        The part that the next tile needs, too, stays: what comes begins where the tile before ended.
        """
        axis = self.walk.halo
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
        rows, columns = self.walk.nest.layer.kernel
        return *(self.along[d] for d in (G, C, K)), Along.fixed(0, rows), Along.fixed(0, columns)

    def _group_kernels(self) -> tuple[Along, ...]:
        """Return all weights of a tile's groups."""
        sizes = self.walk.nest.sizes
        whole = Along.fixed(0, sizes[C]), Along.fixed(0, sizes[K])
        return self.along[G], *whole, *self._kernels()[3:]

    def _output(self) -> tuple[Along, ...]:
        return tuple(self.along[d] for d in (N, G, C, Y, X))

    def _computes(self, outputs: tuple[Along, ...]) -> Iterator[NestEvent]:
        """Return the computes, those of as many MACs and as much local traffic together."""
        nest, local = self.walk.nest, self.walk.local
        matter = [d for d in self.walk.order if local or d == K]
        sizes = [self.along[d].lengths if d in matter else None for d in self.walk.order]
        for numbers, when in by_value(sizes):
            macs = nest.window
            for size in numbers:
                macs *= size or 1
            each = nest.window * numbers[self.loop[K]]
            streamed = int(nest.streamed(macs, local))
            yield NestEvent((COMPUTE, "output", "dsp", each, 0, streamed, 0), outputs, when)
