"""The steps of a recurrent layer: one for each tile, and one that empties the memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tilewright.simulator import Compute, Free, Step, WriteBack
from tilewright.simulator.program import Box, LazySteps
from tilewright.tiling.operations.scan import CELL, GATED, INPUT, Moment, ScanWalk, own
from tilewright.tiling.operations.scan_numbers import ScanArithmetic
from tilewright.tiling.operations.steps import Timing
from tilewright.tiling.operations.walk import OUTPUT, Span


def scan_steps(walk: ScanWalk, timing: Timing) -> LazySteps:
    """Return the steps of a walk."""
    return LazySteps(walk.steps + 1, lambda: _ScanSteps(walk, timing).steps())


def elements_read(walk: ScanWalk) -> int:
    """Return the elements that all tiles are computed from."""
    shapes = walk.operands | walk.kept | {OUTPUT: walk.given}
    untimed = Timing("", "", np.zeros(len(walk.weights), dtype=np.int64))
    return sum(
        box.size(shapes[name])
        for step in scan_steps(walk, untimed)
        for name, box in (step.compute[0].operands if step.compute else ())
    )


@dataclass(frozen=True)
class _ScanSteps:
    walk: ScanWalk
    timing: Timing

    def steps(self) -> Iterator[Step]:
        """Yield the steps."""
        walk, timing = self.walk, self.timing
        moments, tiles = walk.moments, list(self._tiles())
        writes: tuple[WriteBack, ...] = ()
        old: list[Free] = []
        for number, moment in enumerate(moments):
            for at, (each, place) in enumerate(tiles):
                kind = walk.kind(number, at)
                yield Step(
                    free=(*old, *self._before(moment, each, place)),
                    write_back=writes,
                    load=tuple(
                        timing.load(name, box, kind) for name, box in self._loads(moment, at, each, place)
                    ),
                    compute=self._computes(number, each, place, kind),
                    label=f"direction {moment.direction + 1}, time {moment.time + 1}, tile {at + 1}",
                )
                writes, old = (), []
            if moment.leaves is not None:
                left = Box((own(moment), moment.images, moment.leaves, None))
                writes = (timing.write_back(left, walk.kind(number, len(tiles) - 1)),)
            old = list(self._outdated(number))
        yield Step(free=tuple(old), write_back=writes, label="empty the memory")

    def _tiles(self) -> Iterator[tuple[int, int]]:
        """Yield the passes of a point in time, and the places of their tiles."""
        for each in range(len(self.walk.scan.passes)):
            yield from ((each, place) for place in range(len(self.walk.pieces)))

    def _weights(self, moment: Moment, each: int, rows: Span) -> tuple[str, Box]:
        return self.walk.scan.weights(each), Box((own(moment), rows, None))

    def _before(self, moment: Moment, each: int, place: int) -> Iterator[Free]:
        """Yield what leaves before a tile: the weights of the tile before, unless they stay."""
        rows = self.walk.pieces[place - 1]
        if place and rows[0] >= self.walk.tile.resident:
            yield Free(*self._weights(moment, each, rows))

    def _loads(self, moment: Moment, at: int, each: int, place: int) -> Iterator[tuple[str, Box]]:
        """Yield what comes for a tile."""
        if at == 0 and moment.arrives is not None:
            yield INPUT, Box((moment.images, moment.arrives, None))
        rows = self.walk.pieces[place]
        if rows[0] >= self.walk.tile.resident or moment.first:
            yield self._weights(moment, each, rows)

    def _outdated(self, number: int) -> Iterator[Free]:
        """Yield what is not needed any more when a point in time is complete."""
        walk, moment = self.walk, self.walk.moments[number]
        following = walk.moments[number + 1] if number + 1 < len(walk.moments) else None
        for each in range(len(walk.scan.passes)):
            if walk.tile.resident < walk.scan.hidden:
                yield Free(*self._weights(moment, each, walk.pieces[-1]))
            if walk.tile.resident and (following is None or following.first):
                yield Free(*self._weights(moment, each, (0, walk.tile.resident)))
        if following is None or following.arrives is not None:
            yield Free(INPUT, Box((moment.images, moment.chunk, None)))
        for name in walk.kept:
            if name != GATED and not moment.begins:
                yield Free(name, walk.box(name, walk.moments[number - 1]))
            if name == GATED or (name == CELL and (following is None or following.begins)):
                yield Free(name, walk.box(name, moment))

    def _computes(self, number: int, each: int, place: int, kind: int) -> tuple[Compute, ...]:
        """Return what a tile computes: of an LSTM cells and then the state, of two passes gates first."""
        walk, timing, moment = self.walk, self.timing, self.walk.moments[number]
        before = None if moment.begins else walk.moments[number - 1]
        rows = walk.pieces[place]
        operands = [
            (INPUT, Box((moment.images, (moment.time, moment.time + 1), None))),
            self._weights(moment, each, rows),
        ]
        if before is not None:
            state = walk.state_of(before)
            operands.append((state, walk.box(state, before, rows if each else None)))
            if CELL in walk.kept:
                operands.append((CELL, walk.box(CELL, before, rows)))
        if each:
            lead = walk.box(GATED, moment).ranges[:3]
            operands += [(GATED, Box((*lead, (0, 1), None))), (GATED, Box((*lead, (1, 2), rows)))]
        last = each == len(walk.scan.passes) - 1
        names = [CELL] * (CELL in walk.kept) + [walk.state_of(moment) if last else GATED]
        return tuple(
            Compute(
                name,
                walk.box(name, moment, rows),
                tuple(operands) if not also else (*operands, (CELL, walk.box(CELL, moment, rows))),
                1,
                ScanArithmetic(walk, name, moment, before, each, rows),
                engine=timing.works,
                streamed=0 if also else timing.of_streamed(kind),
                cycles=0 if also else int(timing.durations[kind]),
            )
            for also, name in enumerate(names)
        )
