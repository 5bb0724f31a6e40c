"""The steps of a move that gives values another order: one for each tile, and one that empties the memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.simulator import Compute, Free, Step, WriteBack
from tilewright.simulator.program import Box, LazySteps, Values
from tilewright.spec.network import Permutation
from tilewright.tiling.operations.permuting import INPUT, MoveWalk
from tilewright.tiling.operations.steps import Timing
from tilewright.tiling.operations.walk import OUTPUT


@dataclass(frozen=True)
class Permute:
    """Give a box of what the chip holds in the order of the output."""

    order: Permutation
    box: Box

    def __call__(self, chip: dict[str, Values]) -> Values:
        """Return the values of the box."""
        part = chip[INPUT][tuple(slice(*span) for span in self.box.ranges if span is not None)]
        found: Values = part.transpose(self.order.axes)
        return found


def move_steps(walk: MoveWalk, timing: Timing) -> LazySteps:
    """Return the steps of a walk."""
    return LazySteps(walk.steps + 1, lambda: _steps(walk, timing))


def _steps(walk: MoveWalk, timing: Timing) -> Iterator[Step]:
    free: tuple[Free, ...] = ()
    wrote: tuple[WriteBack, ...] = ()
    for tile, (kind, read, given) in enumerate(walk.boxes()):
        load = timing.load(INPUT, read, kind)
        compute = Compute(
            OUTPUT,
            given,
            ((INPUT, read),),
            1,
            Permute(walk.order, read),
            engine=timing.works,
            streamed=timing.of_streamed(kind),
            cycles=int(timing.durations[kind]),
        )
        yield Step(free=free, write_back=wrote, load=(load,), compute=(compute,), label=f"tile {tile + 1}")
        free, wrote = (Free(INPUT, read),), (timing.write_back(given, kind),)
    yield Step(free=free, write_back=wrote, label="empty the memory")
