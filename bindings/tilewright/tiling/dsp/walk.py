"""The tiles of a loop nest in their order, and what is moved between one and the next."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tilewright.simulator import Box, Compute, Free, Load, Step, WriteBack
from tilewright.simulator.operations import ConvolveBox
from tilewright.tiling.dsp.nest import C, G, K, N, Nest, X, Y
from tilewright.tiling.dsp.plan import LOOPS, DspPlan
from tilewright.tiling.dsp.traffic import RELEVANT, moved_by

Span = tuple[int, int]


class TileWalk:
    """The tiles in their order, and what is moved between one and the next."""

    def __init__(self, nest: Nest, plan: DspPlan, local: int) -> None:
        self.nest, self.plan, self.local = nest, plan, local
        step = nest.step(plan.tile)
        self.trips = nest.trips(plan.tile)
        self.spans: list[list[Span]] = [
            [(first, min(first + width, size)) for first in range(0, size, width)]
            for size, width in zip(nest.sizes, step, strict=True)
        ]
        self.planes: dict[int, list[Span]] = {}
        for axis in (Y, X):
            tiles = nest.axis(axis, step[axis])
            self.planes[axis] = list(zip(tiles.start.tolist(), tiles.stop.tolist(), strict=True))
        self.order = [LOOPS.index(loop) for loop in "g" + plan.order]
        self.length = 1
        for trips in self.trips:
            self.length *= trips
        self.always = plan.reuse == "none"
        self.moved_by = moved_by(plan.reuse)
        self.widens = self.trips[K] > 1 and nest.machine.units.partial > nest.machine.units.output
        moving = [d for d in self.order if d in RELEVANT["input"] and self.trips[d] > 1]
        self.halo = moving[-1] if plan.keeps_halo and moving and moving[-1] in (Y, X) else None

    def steps(self) -> Iterator[Step]:
        """Make the steps anew."""
        before: tuple[int, ...] | None = None
        output = None
        for numbers in product(*(range(self.trips[d]) for d in self.order)):
            at = [0] * 6
            for d, number in zip(self.order, numbers, strict=True):
                at[d] = number
            now = tuple(at)
            free, load = [], []
            leaves, comes = self._input(before, now)
            free += [Free("input", leaves)] if leaves else []
            load += [Load("input", comes, engine="bus")] if comes else []
            if before is None or self._changes("kernels", before, now):
                free += [Free("kernels", self._kernels(before))] if before else []
                load.append(Load("kernels", self._kernels(now), engine="bus"))
            write: tuple[WriteBack, ...] = ()
            if before is None or self._changes("output", before, now):
                write = (self._write(before, output),) if before and output else ()
                output = self._output(now)
                load += [Load("output", output, engine="bus")] if now[K] else []
            assert output is not None
            yield Step(
                free=tuple(free),
                write_back=write,
                load=tuple(load),
                compute=(self._compute(now, output),),
                label=self._label(now),
            )
            before = now
        assert before is not None and output is not None
        yield Step(
            free=(Free("input", self._window(before)), Free("kernels", self._kernels(before))),
            write_back=(self._write(before, output),),
            label="empty the memory",
        )

    def _changes(self, operand: str, before: tuple[int, ...], now: tuple[int, ...]) -> bool:
        return self.always or any(before[d] != now[d] for d in self.moved_by[operand])

    def _input(self, before: tuple[int, ...] | None, now: tuple[int, ...]) -> tuple[Box | None, Box | None]:
        """Return the parts of the input that leave the chip and that come, None for nothing."""
        if before is None:
            return None, self._window(now)
        if not self._changes("input", before, now):
            return None, None
        changed = [d for d in RELEVANT["input"] if before[d] != now[d]]
        axis = self.halo
        if axis is None or changed != [axis] or now[axis] != before[axis] + 1:
            return self._window(before), self._window(now)
        (old, end), (start, stop) = self.planes[axis][before[axis]], self.planes[axis][now[axis]]
        leaves, comes = (old, min(end, start)), (min(max(start, end), stop), stop)
        return (
            self._window(before, {axis: leaves}) if leaves[0] < leaves[1] else None,
            self._window(now, {axis: comes}) if comes[0] < comes[1] else None,
        )

    def _window(self, at: tuple[int, ...], instead: dict[int, Span] | None = None) -> Box:
        """Return the input under a tile, or the part of it between certain rows or columns."""
        rows, columns = ((instead or {}).get(axis, self.planes[axis][at[axis]]) for axis in (Y, X))
        return Box((*(self.spans[d][at[d]] for d in (N, G, K)), rows, columns))

    def _kernels(self, at: tuple[int, ...]) -> Box:
        """Return the weights that the chip holds for a tile."""
        if self.plan.reuse == "weights":
            return Box((self.spans[G][at[G]], None, None, None, None))
        return self._own_kernels(at)

    def _own_kernels(self, at: tuple[int, ...]) -> Box:
        return Box((*(self.spans[d][at[d]] for d in (G, C, K)), None, None))

    def _output(self, at: tuple[int, ...]) -> Box:
        return Box(tuple(self.spans[d][at[d]] for d in (N, G, C, Y, X)))

    def _write(self, before: tuple[int, ...], output: Box) -> WriteBack:
        """Return the write-back of a tile's outputs; only its last input maps complete them."""
        sums = self.widens and before[K] < self.trips[K] - 1
        return WriteBack("output", output, engine="bus", sums=sums)

    def _compute(self, at: tuple[int, ...], output: Box) -> Compute:
        nest = self.nest
        spans = [self.spans[d][at[d]] for d in range(6)]
        macs = nest.window
        for first, last in spans:
            macs *= last - first
        return Compute(
            "output",
            output,
            operands=(("input", self._window(at)), ("kernels", self._own_kernels(at))),
            macs_per_element=nest.window * (spans[K][1] - spans[K][0]),
            operation=ConvolveBox(
                nest.layer,
                images=spans[N],
                groups=spans[G],
                kernels=spans[C],
                channels=spans[K],
                rows=spans[Y],
                cols=spans[X],
                generated_padding=nest.machine.padding == "generated",
                kept=(nest.lines[0].kept, nest.lines[1].kept) if nest.machine.dma_step else None,
            ),
            engine="dsp",
            streamed=int(nest.streamed(macs, self.local)),
        )

    def _label(self, at: tuple[int, ...]) -> str:
        """Name a tile by its ranges in the loops of several iterations."""
        return " ".join(
            f"{LOOPS[d]}{first}-{last - 1}"
            for d in self.order
            if self.trips[d] > 1
            for first, last in [self.spans[d][at[d]]]
        )
