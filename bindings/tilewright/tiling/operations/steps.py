"""The steps of an operation: one for each tile, and one that writes the last one back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.simulator import Compute, Free, Load, Step, WriteBack
from tilewright.simulator.program import Box, LazySteps
from tilewright.tiling.operations.arithmetic import ComputeTile
from tilewright.tiling.operations.walk import OUTPUT, Counts, Walk


@dataclass(frozen=True)
class Timing:
    """Who does what, and how long it takes.

    Attributes
    ----------
    moves, works
        The engines that transfer and that compute.
    durations : int, shape (tiles,)
        Of the computation of each tile.
    streamed : int, shape (tiles,), optional
        Units between memory and registers meanwhile.
    bursts, moving : by tensor, int, shape (tiles,)
        Of the transfers of each tile: bursts, and what they take beside units and bursts.
    """

    moves: str
    works: str
    durations: Counts
    streamed: Counts | None = None
    bursts: Mapping[str, Counts] | None = None
    moving: Mapping[str, Counts] | None = None

    def load(self, name: str, box: Box, tile: int) -> Load:
        """Return the load of a part of a tensor for a tile."""
        return Load(name, box, self.moves, _of(self.bursts, name, tile), _of(self.moving, name, tile))

    def write_back(self, box: Box, tile: int) -> WriteBack:
        """Return the write-back of the outputs of a tile."""
        bursts, moving = (_of(counts, OUTPUT, tile) for counts in (self.bursts, self.moving))
        return WriteBack(OUTPUT, box, self.moves, bursts=bursts, cycles=moving)

    def of_streamed(self, tile: int) -> int:
        """Return the units between memory and registers of a tile."""
        return 0 if self.streamed is None else int(self.streamed[tile])


def _of(counts: Mapping[str, Counts] | None, name: str, tile: int) -> int:
    return 0 if counts is None else int(counts[name][tile])


def steps(walk: Walk, timing: Timing) -> LazySteps:
    """Return the steps of a walk."""
    return LazySteps(walk.steps + 1, lambda: _steps(walk, timing))


def _steps(walk: Walk, timing: Timing) -> Iterator[Step]:
    streamed = np.zeros(walk.steps, np.int64) if timing.streamed is None else timing.streamed
    held: dict[str, Box] = {}
    wrote: tuple[WriteBack, ...] = ()
    for tile, (boxes, changes, now) in enumerate(walk.tiles()):
        leaving, coming = (
            [(name, pair[end]) for name, pair in changes.items() if _has(pair[end])] for end in (0, 1)
        )
        compute = Compute(
            OUTPUT,
            now,
            tuple((name, box) for name, box in boxes.items() if _has(box)),
            1,
            ComputeTile(walk.operation, now),
            engine=timing.works,
            streamed=int(streamed[tile]),
            cycles=int(timing.durations[tile]),
        )
        yield Step(
            free=tuple(Free(name, box) for name, box in leaving if box is not None),
            write_back=wrote,
            load=tuple(timing.load(name, box, tile) for name, box in coming if box is not None),
            compute=(compute,),
            label=f"tile {tile + 1}",
        )
        held, wrote = boxes, (timing.write_back(now, tile),)
    yield Step(
        free=tuple(Free(name, box) for name, box in held.items() if _has(box)),
        write_back=wrote,
        label="empty the memory",
    )


def _has(box: Box | None) -> bool:
    """Whether there is a region, and it has any elements."""
    return box is not None and all(span is None or span[0] < span[1] for span in box.ranges)
