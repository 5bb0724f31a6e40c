"""What the TLEs do tile by tile, as the events of a loop nest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tilewright.simulator.columns import COMPUTE, FREE, LOAD, READ, WRITE, Key, Marks
from tilewright.simulator.nest import (
    EVERYWHERE,
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
from tilewright.simulator.program import Box, Counts, Region
from tilewright.tiling.npu.cut import Cut, Pieces, Span, quotient
from tilewright.tiling.npu.plan import NpuPlan
from tilewright.tiling.npu.tle import Tle


def loop_nest(cut: Cut, plan: NpuPlan, tles: Sequence[Tle]) -> LoopNest:
    """Return the tiles of a plan in their order, in which all TLEs go on together.

    The loops go over images b, groups g, tiles of filters j, of rows r, of columns c and of input maps n.
    """
    m, n, r, c = (quotient(size, step) for size, step in zip(cut.sizes, cut.step(plan.tile), strict=True))
    groups = 1 if cut.depthwise else cut.layer.groups
    order = "bgjrcn" if plan.schedule == "WS" else "bgrcjn"
    inner = (m, r, c, n) if plan.schedule == "WS" else (r, c, m, n)
    trips = dict(zip(order, (cut.layer.batch, groups, *inner), strict=True))
    each = [_TleEvents(cut, plan, tle, trips) for tle in tles]
    kinds = (_TleEvents.frees, _TleEvents.writes, _TleEvents.loads, _TleEvents.computes)
    whole: dict[str, tuple[int, ...]] = {}
    for tle in tles:
        inputs, weights, outputs = (tensor.name for tensor in tle.tensors)
        whole |= {inputs: (), weights: (3, 4), outputs: ()}
    return LoopNest(
        trips=tuple(trips.values()),
        events=tuple(event for kind in kinds for events in each for event in kind(events)),
        names={
            loop: [f"{name}{number}" for number in range(many)]
            for loop, (name, many) in enumerate(trips.items())
            if many > 1
        },
        end="empty the memories",
        whole=whole,
    )


def convolution(cut: Cut, tles: Sequence[Tle]) -> Convolution:
    """Return what gives the arithmetic of a tile of a TLE."""
    layers = {tle.tensors[2].name: tle.layer for tle in tles}

    def operation(tensor: str, outputs: Region, operands: Mapping[str, Region]) -> ConvolveBox:
        (inputs, _), (weights, used) = operands.items()
        assert isinstance(outputs, Box) and isinstance(used, Box)
        images, groups, filters, rows, columns = (span for span in outputs.ranges if span is not None)
        channels = used.ranges[2]
        assert channels is not None
        return ConvolveBox(
            layers[tensor],
            images=images,
            groups=filters if cut.depthwise else groups,
            kernels=(0, 1) if cut.depthwise else filters,
            channels=channels,
            rows=rows,
            cols=columns,
            input=inputs,
            weights=weights,
        )

    return operation


class _TleEvents:
    """The events of one TLE, whose tiles are the first ones of each loop.

    Attributes
    ----------
    order, total, trips
        The loops, the outermost first; iterations of all TLEs and of this one.
    image, group, filters, maps, rows, columns, down, across
        Ranges of a tile: of the output, where rows count from the first of the TLE's share and filters stand
        in the order of its lanes, of input maps, and of the input's rows and columns under it.
    lanes
        Filters of the core that has most of them.
    """

    def __init__(self, cut: Cut, plan: NpuPlan, tle: Tle, total: Mapping[str, int]) -> None:
        self.cut, self.tle = cut, tle
        self.stationary = plan.schedule == "WS"
        self.order, self.total = list(total), list(total.values())
        height, (_, n, r, c) = _length(tle.share.rows), cut.step(plan.tile)
        own = {**total, "j": len(tle.lanes), "r": quotient(height, r)}
        self.trips = list(own.values())
        self.image = self._along("b", [(number, number + 1) for number in range(own["b"])])
        self.group = self._along("g", [(number, number + 1) for number in range(own["g"])])
        self.filters = self._along("j", tle.spans)
        self.maps = self._along("n", _tiles(self.cut.maps, n))
        rows, columns = _tiles(height, r), _tiles(self.cut.layer.output_plane[1], c)
        self.rows, self.columns = self._along("r", rows), self._along("c", columns)
        self.down, self.across = (
            self._along("r", self._under(0, rows)),
            self._along("c", self._under(1, columns)),
        )
        self.lanes = self._filled("j", [max(map(_length, lane)) for lane in tle.lanes])
        self.input, self.weights, self.output = (tensor.name for tensor in tle.tensors)

    def frees(self) -> Iterator[NestEvent]:
        """Return what is forgotten."""
        yield NestEvent((FREE, self.input), self._input, self._leaving("bgjrcn"), after=True)
        yield NestEvent((FREE, self.weights), self._weights, self._leaving(self._weight_loops), after=True)

    def writes(self) -> Iterator[NestEvent]:
        """Return the write-backs."""
        when = self._leaving("bgjrc")
        for moving, marks in self._moving(self.filters, self.rows, self.columns, "output"):
            key = (WRITE, self.output, *moving)
            yield NestEvent(key, self._output, intersect_marks(when, marks), after=True)

    def loads(self) -> Iterator[NestEvent]:
        """Return the loads."""
        when = self._entering("bgjrcn")
        for moving, marks in self._moving(self._channels, self.down, self.across, "input"):
            yield NestEvent((LOAD, self.input, *moving), self._input, intersect_marks(when, marks))
        when = self._entering(self._weight_loops)
        for numbers, marks in by_value(self._by_loop([self.filters, self._weight_maps])):
            filters = numbers[self.filters.loop]
            maps = self.cut.maps if self.stationary else numbers[self.maps.loop]
            key = (LOAD, self.weights, *self._key(filters, self.cut.filter_pieces(maps)))
            yield NestEvent(key, self._weights, intersect_marks(when, marks))

    def computes(self) -> Iterator[NestEvent]:
        """Return the computes with their operands, those that take as long together."""
        cut, machine, engine = self.cut, self.cut.machine, f"mac {self.tle.name}"
        tiles = self._entering("bgjrcn")
        used = (self.group, self.filters, self.maps, *self._kernel)
        for operand, ranges in ((self.input, self._input), (self.weights, used)):
            yield NestEvent((READ, operand, engine, 0, 0, 0, 0, self.output), ranges, tiles)
        values = self._by_loop([self.maps, self.rows, self.columns])
        values[self.filters.loop] = self.lanes
        for numbers, marks in by_value(values):
            maps, rows, columns, lane = (
                numbers[along.loop] for along in (self.maps, self.rows, self.columns, self.filters)
            )
            cycles = lane * maps * quotient(rows * columns * cut.window, machine.macs_per_cycle)
            key = (COMPUTE, self.output, engine, maps * cut.window, 0, 0, int(cycles * machine.cycle_ps))
            yield NestEvent(key, self._output, intersect_marks(tiles, marks))

    # Regions -----------------------------------------------------------------------------------------

    @property
    def _channels(self) -> Along:
        return self.filters if self.cut.depthwise else self.maps

    @property
    def _weight_maps(self) -> Along:
        return Along.fixed(0, self.cut.maps) if self.stationary else self.maps

    @property
    def _kernel(self) -> tuple[Along, Along]:
        rows, columns = self.cut.layer.kernel
        return Along.fixed(0, rows), Along.fixed(0, columns)

    @property
    def _input(self) -> tuple[Along, ...]:
        return self.image, self.group, self._channels, self.down, self.across

    @property
    def _weights(self) -> tuple[Along, ...]:
        return self.group, self.filters, self._weight_maps, *self._kernel

    @property
    def _output(self) -> tuple[Along, ...]:
        return self.image, self.group, self.filters, self.rows, self.columns

    def _along(self, name: str, spans: Sequence[Span]) -> Along:
        loop = self.order.index(name)
        return Along.spans(loop, [*spans, *[spans[-1]] * (self.total[loop] - len(spans))])

    def _filled(self, name: str, numbers: list[int]) -> Counts:
        """Return numbers of the TLE's own iterations, with anything for those of others."""
        missing = self.total[self.order.index(name)] - len(numbers)
        return np.array([*numbers, *[numbers[-1]] * missing], dtype=np.int64)

    def _under(self, side: int, outputs: list[Span]) -> list[Span]:
        """Return the rows or columns of the input under those of the output."""
        stride = self.cut.layer.stride[side]
        return [
            (first * stride, first * stride + int(self.cut.reach(side, last - first)))
            for first, last in outputs
        ]

    # When --------------------------------------------------------------------------------------------

    @property
    def _weight_loops(self) -> str:
        """The loops with which the weights change."""
        return "bgj" if self.stationary else "bgjrcn"

    def _level(self, loops: str) -> int:
        """Return the innermost of some loops that has several iterations; the last one, if all are meant."""
        numbers = [self.order.index(name) for name in loops]
        if len(numbers) == len(self.total):
            return max(numbers)
        return max((loop for loop in numbers if self.trips[loop] > 1), default=-1)

    def _entering(self, loops: str) -> dict[int, Marks]:
        return mark_first(self.trips, self._level(loops), self.total)

    def _leaving(self, loops: str) -> dict[int, Marks]:
        return mark_last(self.trips, self._level(loops), self.total)

    # What it costs -----------------------------------------------------------------------------------

    def _by_loop(self, ranges: Sequence[Along]) -> list[Counts | None]:
        """Return the lengths of some ranges, by loop."""
        values: list[Counts | None] = [None] * len(self.total)
        for along in ranges:
            if along.loop != EVERYWHERE:
                values[along.loop] = along.lengths
        return values

    def _moving(
        self, maps: Along, rows: Along, columns: Along, operand: str
    ) -> Iterator[tuple[Key, dict[int, Marks]]]:
        """Yield the keys of transfers of a part of some maps, and when they have them."""
        values = self._by_loop([maps, rows])
        # Which columns these are tells whether the rows are whole.
        values[columns.loop] = self.columns.lengths
        width = dict(zip(self.columns.lengths.tolist(), columns.lengths.tolist(), strict=True))
        for numbers, marks in by_value(values):
            outputs = numbers[columns.loop]
            whole = outputs == self.cut.layer.output_plane[1]
            plane = self.cut.plane_pieces(numbers[rows.loop], width[outputs], whole, operand)
            yield self._key(numbers[maps.loop], plane), marks

    def _key(self, many: int, each: Pieces) -> Key:
        """Return the rest of the key of a transfer of so many maps or filters."""
        return "dram", 0, many * each.bursts, 0, many * each.bytes * self.cut.machine.byte_ps


def _tiles(size: int, step: int) -> list[Span]:
    return [(first, min(first + step, size)) for first in range(0, size, step)]


def _length(span: Span) -> int:
    return span[1] - span[0]
