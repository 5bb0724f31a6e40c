"""The steps of a tiled loop nest as columns of numbers: what `lowering` makes one by one, all at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.columns import COMPUTE, FREE, LOAD, READ, WRITE, Key, StepTable
from tilewright.tiling.dsp.nest import C, G, K, N, X, Y
from tilewright.tiling.dsp.plan import LOOPS
from tilewright.tiling.dsp.traffic import RELEVANT
from tilewright.tiling.dsp.walk import TileWalk

Numbers = NDArray[np.int64]
Ranges = tuple[Numbers, Numbers]
"""Where ranges begin and end, one of each tile."""

Events = tuple[Key, Numbers, Numbers, Numbers]
"""A form, the steps (from 0) in which it occurs, and bounds of its regions, shape ``(steps, axes)``."""


def step_table(walk: TileWalk) -> StepTable:
    """Return the steps of a walk over all tiles, as `TileWalk.steps` makes them."""
    tiles = _Tiles(walk)
    events = list(tiles.events())
    step = np.concatenate([steps for _, steps, _, _ in events])
    place = np.repeat(np.arange(len(events)), [len(steps) for _, steps, _, _ in events])
    order = np.lexsort((place, step))
    low, high = (np.concatenate([each[side] for each in events])[order] for side in (2, 3))
    return StepTable(
        labels=[*tiles.labels(), "empty the memory"],
        start=None,
        forms=[form for form, _, _, _ in events],
        step=step[order] + 1,
        form=place[order],
        low=low,
        high=high,
        whole={"input": (), "kernels": (3, 4), "output": ()},
    )


class _Tiles:
    """All tiles of a walk, in order; arrays have one entry per tile.

    Attributes
    ----------
    at : int, shape (6, tiles)
        The iteration of each loop.
    ranges
        What a tile has of each dimension of the loop nest.
    planes
        The rows and the columns of the padded input under it.
    """

    def __init__(self, walk: TileWalk) -> None:
        self.walk, self.count = walk, walk.length
        trips = [walk.trips[d] for d in walk.order]
        numbers = np.stack(np.unravel_index(np.arange(walk.length), trips))
        self.at = np.zeros((6, walk.length), dtype=np.int64)
        self.at[walk.order] = numbers
        self.ranges = [_looked_up(walk.spans[d], self.at[d]) for d in range(6)]
        self.planes: dict[int, Ranges] = {
            axis: _looked_up(walk.planes[axis], self.at[axis]) for axis in (Y, X)
        }
        self.changed = np.ones((6, walk.length), dtype=np.bool_)
        self.changed[:, 1:] = self.at[:, 1:] != self.at[:, :-1]

    def labels(self) -> list[str]:
        """Name the loops of several iterations with what each tile has of them."""
        columns = []
        for d in self.walk.order:
            if self.walk.trips[d] > 1:
                names = [f"{LOOPS[d]}{first}-{last - 1}" for first, last in self.walk.spans[d]]
                columns.append([names[number] for number in self.at[d].tolist()])
        return [" ".join(parts) for parts in zip(*columns, strict=True)] if columns else [""] * self.count

    def events(self) -> Iterator[Events]:
        """Return what each step frees, writes back, loads and computes, in the order within a step."""
        after = {operand: self._comes(operand) for operand in RELEVANT}
        leaves, comes = self._input_parts()
        yield self._moved((FREE, "input"), 1 + leaves[0], "input", leaves[0], leaves[1])
        freed = np.append(after["kernels"][1:], self.count)
        yield self._moved((FREE, "kernels"), freed, "kernels", freed - 1)
        written = np.append(after["output"][1:], self.count)
        yield self._moved((WRITE, "output", "bus", 0, 0), written, "output", written - 1)
        yield self._moved((LOAD, "input", "bus", 0, 0), comes[0], "input", comes[0], comes[1])
        yield self._moved((LOAD, "kernels", "bus", 0, 0), after["kernels"], "kernels", after["kernels"])
        again = after["output"][self.at[K][after["output"]] > 0]
        yield self._moved((LOAD, "output", "bus", 0, 0), again, "output", again)
        every = np.arange(self.count)
        for operand in ("input", "kernels"):
            yield self._moved((READ, operand, "dsp", 0, 0, 0, 0, "output"), every, operand, every)
        yield from self._computes()

    def _comes(self, operand: str) -> Numbers:
        """Return the tiles before which an operand's part changes; the first is one."""
        if self.walk.always:
            return np.arange(self.count)
        return np.flatnonzero(self.changed[sorted(RELEVANT[operand])].any(axis=0))

    def _input_parts(self) -> tuple[tuple[Numbers, dict[int, Ranges]], tuple[Numbers, dict[int, Ranges]]]:
        """Return what of the input leaves after which tiles and comes before which: parts of an axis."""
        comes = self._comes("input")
        leaves = np.append(comes[1:] - 1, self.count - 1)
        axis = self.walk.halo
        if axis is None:
            return (leaves, {}), (comes, {})
        start, stop = self.planes[axis]
        others = [d for d in sorted(RELEVANT["input"]) if d != axis]
        follows = np.zeros(self.count, dtype=np.bool_)
        follows[1:] = ~self.changed[others, 1:].any(axis=0) & (np.diff(self.at[axis]) == 1)
        # The part that the next tile needs, too, stays: what comes begins where the tile before ended.
        first, end = start.copy(), stop.copy()
        first[1:] = np.where(follows[1:], np.minimum(np.maximum(start[1:], stop[:-1]), stop[1:]), start[1:])
        end[:-1] = np.where(follows[1:], np.minimum(stop[:-1], start[1:]), stop[:-1])
        comes, leaves = comes[first[comes] < stop[comes]], leaves[start[leaves] < end[leaves]]
        return (leaves, {axis: (start, end)}), (comes, {axis: (first, stop)})

    def _moved(
        self,
        form: Key,
        steps: Numbers,
        operand: str,
        tiles: Numbers,
        instead: dict[int, Ranges] | None = None,
    ) -> Events:
        """Return events on the parts of an operand that belong to some tiles."""
        low, high = self._bounds(operand, tiles, instead or {})
        return form, steps, low, high

    def _bounds(self, operand: str, tiles: Numbers, instead: dict[int, Ranges]) -> tuple[Numbers, Numbers]:
        whole = np.zeros_like(tiles)
        if operand == "input":
            planes = {**self.planes, **instead}
            ranges = [*(self.ranges[d] for d in (N, G, K)), planes[Y], planes[X]]
        elif operand == "kernels":
            ranges = [self.ranges[d] for d in (G, C, K)]
        else:
            ranges = [self.ranges[d] for d in (N, G, C, Y, X)]
        low, high = ([each[side][tiles] for each in ranges] for side in (0, 1))
        if operand == "kernels":
            low += [whole, whole]
            high += [whole + size for size in self.walk.nest.layer.kernel]
        return np.column_stack(low), np.column_stack(high)

    def _computes(self) -> Iterator[Events]:
        """Return one event per tile; those of as many MACs and as much local traffic have one form."""
        nest, local = self.walk.nest, self.walk.local
        sizes = np.stack([end - begin for begin, end in self.ranges])
        per_element = nest.window * sizes[K]
        macs = nest.window * sizes.prod(axis=0)
        streamed = -(-macs * local // nest.macs) if local else np.zeros_like(macs)
        pairs, number = np.unique(np.stack([per_element, streamed]), axis=1, return_inverse=True)
        for form, (each, local_elements) in enumerate(pairs.T.tolist()):
            tiles = np.flatnonzero(number.ravel() == form)
            key = (COMPUTE, "output", "dsp", each, 0, local_elements, 0)
            yield self._moved(key, tiles, "output", tiles)


def _looked_up(spans: list[tuple[int, int]], numbers: Numbers) -> Ranges:
    begins, ends = np.array(spans, dtype=np.int64).T
    return begins[numbers], ends[numbers]
