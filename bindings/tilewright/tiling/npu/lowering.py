"""Lower an NPU plan to a program in which all TLEs go on together, tile by tile.

Every TLE has tensors of its own: the input rows that it needs, its filters and its outputs. Its filters stand
in the order in which its cores take them, so that what all its cores hold at a time is one box; a step of a
TLE is one transfer per operand and one computation, which lasts as long as its core with most filters needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, product
from typing import Any

import numpy as np

from tilewright.simulator import (
    Box,
    Compute,
    Engine,
    Free,
    LazySteps,
    Load,
    Memory,
    Program,
    Step,
    Tensor,
    WriteBack,
)
from tilewright.simulator.operations import ConvolveBox
from tilewright.simulator.program import Values
from tilewright.spec.layer import Layer
from tilewright.tiling.npu.plan import NpuPlan
from tilewright.tiling.npu.slices import Cut, Share, Span, quotient


def lower(cut: Cut, plan: NpuPlan) -> Program:
    """Turn a plan into steps; time counts in picoseconds.

    A memory's capacity and its buffers are those of all cores of a TLE together, each buffer as large as that
    of the core that has most; the input tile that its cores share counts once.
    """
    machine = cut.machine
    step = cut.step(plan.tile)
    tles = [_Tle(cut, number, share, step, plan.schedule) for number, share in enumerate(cut.shares)]
    memories, engines = (
        [],
        [Engine("dram", per_element=machine.byte_ps * machine.element_bytes, per_burst=machine.burst_ps)],
    )
    for tle in tles:
        for operand, capacity in cut.capacity.items():
            memories.append(Memory(f"{operand} {tle.name}", capacity * tle.copies[operand]))
        engines.append(Engine(f"mac {tle.name}"))
    walk = _TileWalk(cut, plan, tles)
    return Program(
        tensors=tuple(tensor for tle in tles for tensor in tle.tensors),
        memories=tuple(memories),
        engines=tuple(engines),
        steps=LazySteps(walk.length + 1, walk.steps),
    )


def data(cut: Cut, plan: NpuPlan, values: Values, kernels: Values, outputs: Values) -> tuple[Any, Any]:
    """Return the contents of DRAM at the start and the expected ones at the end, by tensor.

    Parameters
    ----------
    values, kernels, outputs : int64
        Input without padding, kernels and the reference output of the whole layer.
    """
    layer = cut.layer
    top, bottom, left, right = layer.padding
    padded = np.pad(values, ((0, 0), (0, 0), (top, bottom), (left, right)))
    groups = 1 if cut.depthwise else layer.groups
    given, expected = {}, {}
    for number, share in enumerate(cut.shares):
        tle = _Tle(cut, number, share, cut.step(plan.tile), plan.schedule)
        order = [filters for lane in tle.lanes for first, last in lane for filters in range(first, last)]
        rows = slice(*tle.input_rows)
        shapes = {tensor.name: tensor.shape for tensor in tle.tensors}
        plane = padded[:, order, rows] if cut.depthwise else padded[:, :, rows]
        names = [tensor.name for tensor in tle.tensors]
        given[names[0]] = np.ascontiguousarray(plane[..., : tle.width]).reshape(shapes[names[0]])
        weights = kernels.reshape(groups, -1, *kernels.shape[1:])[:, order]
        given[names[1]] = np.ascontiguousarray(weights).reshape(shapes[names[1]])
        result = outputs.reshape(layer.batch, groups, -1, *layer.output_plane)
        part = result[:, :, order, slice(*share.rows)]
        expected[names[2]] = np.ascontiguousarray(part).reshape(shapes[names[2]])
    return given, expected


@dataclass(frozen=True)
class _Tle:
    """One TLE: its tensors, and the tiles of its share."""

    cut: Cut
    number: int
    share: Share
    step: tuple[int, int, int, int]
    schedule: str

    @property
    def name(self) -> str:
        return f"TLE{self.number}"

    @cached_property
    def lanes(self) -> list[list[Span]]:
        """Filters that its cores hold at a time: for each tile of filters, one span per core."""
        m = self.step[0]
        most = self.share.cores[0][1] - self.share.cores[0][0]
        return [
            [
                (first + lane * m, min(first + (lane + 1) * m, last))
                for first, last in self.share.cores
                if first + lane * m < last
            ]
            for lane in range(quotient(most, m))
        ]

    @cached_property
    def spans(self) -> list[Span]:
        """Places of each lane's filters in the order of `lanes`."""
        ends = np.cumsum([0] + [sum(last - first for first, last in lane) for lane in self.lanes]).tolist()
        return list(pairwise(ends))

    @property
    def input_rows(self) -> Span:
        """Rows of the padded input that its outputs need."""
        first, last = self.share.rows
        start = first * self.cut.layer.stride[0]
        return start, start + self.cut.reach(0, last - first)

    @property
    def width(self) -> int:
        """Columns of the padded input that outputs need."""
        return int(self.cut.reach(1, self.cut.layer.output_plane[1]))

    @property
    def copies(self) -> dict[str, int]:
        """Cores whose buffers each tensor stands for; a shared input tile is one."""
        cores = len(self.share.cores)
        return {"input": cores if self.cut.depthwise else 1, "weights": cores, "output": cores}

    @cached_property
    def layer(self) -> Layer:
        """Its share as a layer of its own, padding included in the input."""
        cut, layer = self.cut, self.cut.layer
        filters = self.share.filters[1] - self.share.filters[0]
        first, last = self.input_rows
        groups = filters if cut.depthwise else layer.groups
        return Layer(
            input=(groups * cut.maps, last - first, self.width),
            kernels=filters if cut.depthwise else filters * layer.groups,
            kernel=layer.kernel,
            stride=layer.stride,
            dilation=layer.dilation,
            groups=groups,
            batch=layer.batch,
        )

    @cached_property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Input, weights and output: groups (of a layer that is not depthwise) stand apart."""
        cut, layer = self.cut, self.cut.layer
        groups = 1 if cut.depthwise else layer.groups
        filters = self.share.filters[1] - self.share.filters[0]
        rows = self.share.rows[1] - self.share.rows[0]
        maps = filters if cut.depthwise else cut.maps
        need = {name: size * self.copies[name] for name, size in cut.need(self.step, self.schedule).items()}
        first, last = self.input_rows
        return (
            Tensor(
                f"input {self.name}",
                (layer.batch, groups, maps, last - first, self.width),
                "input",
                memory=f"input {self.name}",
                buffer=need["input"],
            ),
            Tensor(
                f"weights {self.name}",
                (groups, filters, cut.maps, *layer.kernel),
                "kernels",
                memory=f"weights {self.name}",
                buffer=need["weights"],
            ),
            Tensor(
                f"output {self.name}",
                (layer.batch, groups, filters, rows, layer.output_plane[1]),
                "output",
                memory=f"output {self.name}",
                macs_per_element=layer.macs_per_output,
                buffer=need["output"],
            ),
        )


@dataclass
class _Actions:
    """What is done in a step, filled TLE by TLE."""

    free: list[Free] = field(default_factory=list)
    write: list[WriteBack] = field(default_factory=list)
    load: list[Load] = field(default_factory=list)
    compute: list[Compute] = field(default_factory=list)

    def step(self, label: str) -> Step:
        """Return the step."""
        return Step(tuple(self.free), tuple(self.write), tuple(self.load), tuple(self.compute), label)


@dataclass(frozen=True)
class _Tile:
    """What a TLE computes in a step, as ranges.

    Attributes
    ----------
    filters, maps
        Of all its cores, and of the input.
    rows, columns
        Of the output, from the first row of the TLE's share.
    down, across
        Rows and columns of the input under them.
    channels, weight_maps
        Maps of the input and of the filters that are on chip.
    lane
        Filters of each core.
    """

    image: Span
    group: Span
    filters: Span
    maps: Span
    rows: Span
    columns: Span
    down: Span
    across: Span
    channels: Span
    weight_maps: Span
    lane: list[Span]


class _TileWalk:
    """The steps of all TLEs, and what each moves between one and the next."""

    def __init__(self, cut: Cut, plan: NpuPlan, tles: list[_Tle]) -> None:
        self.cut, self.plan, self.tles = cut, plan, tles
        self.step = cut.step(plan.tile)
        m, n, r, c = (quotient(size, step) for size, step in zip(cut.sizes, self.step, strict=True))
        groups = 1 if cut.depthwise else cut.layer.groups
        inner = (m, r, c, n) if plan.schedule == "WS" else (r, c, m, n)
        self.ranges = [range(length) for length in (cut.layer.batch, groups, *inner)]
        self.length = int(np.prod([len(loop) for loop in self.ranges]))

    def steps(self) -> Iterator[Step]:
        """Make the steps anew."""
        held: list[dict[str, Box]] = [{} for _ in self.tles]
        order = "bgjrcn" if self.plan.schedule == "WS" else "bgrcjn"
        several = [name for name, loop in zip(order, self.ranges, strict=True) if len(loop) > 1]
        for numbers in product(*self.ranges):
            at = dict(zip(order, numbers, strict=True))
            actions = _Actions()
            for tle, chip in zip(self.tles, held, strict=True):
                self._add(tle, chip, at, actions)
            yield actions.step(" ".join(f"{name}{at[name]}" for name in several))
        actions = _Actions()
        for tle, chip in zip(self.tles, held, strict=True):
            self._leave(tle, chip, {}, actions)
        yield actions.step("empty the memories")

    def _add(self, tle: _Tle, chip: dict[str, Box], at: dict[str, int], actions: _Actions) -> None:
        """Add what one TLE does in a step; one that has no such tile only puts away what it holds.

        Parameters
        ----------
        chip
            What the TLE holds, by tensor; it is brought up to date.
        at
            Numbers of the loops over images b, groups g, filters j, rows r, columns c and maps n.
        """
        tile = self._tile(tle, at)
        if tile is None:
            self._leave(tle, chip, {}, actions)
            return
        inputs, weights, outputs = (tensor.name for tensor in tle.tensors)
        boxes = {
            inputs: Box((tile.image, tile.group, tile.channels, tile.down, tile.across)),
            weights: Box((tile.group, tile.filters, tile.weight_maps, None, None)),
            outputs: Box((tile.image, tile.group, tile.filters, tile.rows, tile.columns)),
        }
        # Every image and group starts anew, so its first tile finds nothing.
        begins = not any(at[loop] for loop in "jrcn")
        keep = set() if begins else {outputs} | ({weights} if self.plan.schedule == "WS" else set())
        kept = {name: boxes[name] for name in keep if chip.get(name) == boxes[name]}
        self._leave(tle, chip, kept, actions)
        if inputs not in chip:
            bursts = _length(tile.channels) * self._plane_bursts(tile.down, tile.across, tile.columns)
            actions.load.append(Load(inputs, boxes[inputs], "dram", bursts=bursts))
        if weights not in chip:
            bursts = _length(tile.filters) * self.cut.filter_bursts(_length(tile.weight_maps))
            actions.load.append(Load(weights, boxes[weights], "dram", bursts=bursts))
        chip.update(boxes)
        used = boxes[weights]
        if self.plan.schedule == "WS":
            used = Box((tile.group, tile.filters, tile.maps, None, None))
        operands = ((inputs, boxes[inputs]), (weights, used))
        actions.compute.append(self._compute(tle, tile, outputs, boxes[outputs], operands))

    def _tile(self, tle: _Tle, at: dict[str, int]) -> _Tile | None:
        """Return a TLE's tile, None where it has none."""
        cut, (_, n, r, c) = self.cut, self.step
        height = _length(tle.share.rows)
        rows = at["r"] * r, min((at["r"] + 1) * r, height)
        if at["j"] >= len(tle.lanes) or rows[0] >= height:
            return None
        columns = at["c"] * c, min((at["c"] + 1) * c, cut.layer.output_plane[1])
        maps = at["n"] * n, min((at["n"] + 1) * n, cut.maps)
        filters, (sy, sx) = tle.spans[at["j"]], cut.layer.stride
        return _Tile(
            image=(at["b"], at["b"] + 1),
            group=(at["g"], at["g"] + 1),
            filters=filters,
            maps=maps,
            rows=rows,
            columns=columns,
            down=(rows[0] * sy, rows[0] * sy + cut.reach(0, _length(rows))),
            across=(columns[0] * sx, columns[0] * sx + cut.reach(1, _length(columns))),
            channels=filters if cut.depthwise else maps,
            weight_maps=(0, cut.maps) if self.plan.schedule == "WS" else maps,
            lane=tle.lanes[at["j"]],
        )

    def _compute(
        self, tle: _Tle, tile: _Tile, outputs: str, box: Box, operands: tuple[tuple[str, Box], ...]
    ) -> Compute:
        """Return the computation of a tile, as long as the core with most filters needs."""
        cut = self.cut
        area = _length(tile.rows) * _length(tile.columns)
        rounds = quotient(area * cut.window, cut.machine.macs_per_cycle)
        cycles = max(map(_length, tile.lane)) * _length(tile.maps) * rounds
        (inputs, _), (weights, _) = operands
        return Compute(
            outputs,
            box,
            operands=operands,
            macs_per_element=_length(tile.maps) * cut.window,
            operation=ConvolveBox(
                tle.layer,
                images=tile.image,
                groups=tile.filters if cut.depthwise else tile.group,
                kernels=(0, 1) if cut.depthwise else tile.filters,
                channels=tile.maps,
                rows=tile.rows,
                cols=tile.columns,
                input=inputs,
                weights=weights,
            ),
            engine=f"mac {tle.name}",
            cycles=cycles * cut.machine.cycle_ps,
        )

    def _plane_bursts(self, rows: Span, columns: Span, outputs: Span) -> int:
        """Return the bursts of a part of one map; `outputs` are the columns of the output that it serves."""
        whole = _length(outputs) == self.cut.layer.output_plane[1]
        return int(self.cut.plane_bursts(_length(rows), _length(columns), whole))

    def _leave(self, tle: _Tle, chip: dict[str, Box], kept: dict[str, Box], actions: _Actions) -> None:
        """Put away what a TLE holds: outputs are written back, the rest is forgotten."""
        for tensor in tle.tensors:
            box = chip.get(tensor.name)
            if box is None or tensor.name in kept:
                continue
            del chip[tensor.name]
            if tensor.role != "output":
                actions.free.append(Free(tensor.name, box))
                continue
            _, _, filters, rows, columns = (span for span in box.ranges if span is not None)
            bursts = _length(filters) * self._plane_bursts(rows, columns, columns)
            actions.write.append(WriteBack(tensor.name, box, "dram", bursts=bursts))


def _length(span: Span) -> int:
    return span[1] - span[0]
