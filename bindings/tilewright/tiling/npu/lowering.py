"""Lower an NPU plan to a program in which all TLEs go on together, tile by tile.

Every TLE has tensors of its own: the input rows that it needs, its filters and its outputs. Its filters stand
in the order in which its cores take them, so that what all its cores hold at a time is one box; a step of a
TLE is one transfer per operand and one computation, which lasts as long as its core with most filters needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
    walk = _Walk(cut, plan, tles)
    return Program(
        tensors=tuple(tensor for tle in tles for tensor in tle.tensors),
        memories=tuple(memories),
        engines=tuple(engines),
        steps=LazySteps(walk.length + 1, walk.steps),
    )


def data(cut: Cut, plan: NpuPlan, values: Values, kernels: Values, outputs: Values) -> tuple[Any, Any]:
    """Return what DRAM holds at the start, and what it must hold in the end, by tensor.

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


class _Walk:
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
            free: list[Free] = []
            write: list[WriteBack] = []
            load: list[Load] = []
            compute: list[Compute] = []
            for tle, chip in zip(self.tles, held, strict=True):
                self._tle(tle, chip, at, free, write, load, compute)
            label = " ".join(f"{name}{at[name]}" for name in several)
            yield Step(tuple(free), tuple(write), tuple(load), tuple(compute), label)
        free, write = [], []
        for tle, chip in zip(self.tles, held, strict=True):
            self._leave(tle, chip, {}, free, write)
        yield Step(tuple(free), tuple(write), label="empty the memories")

    def _tle(
        self,
        tle: _Tle,
        chip: dict[str, Box],
        at: dict[str, int],
        free: list[Free],
        write: list[WriteBack],
        load: list[Load],
        compute: list[Compute],
    ) -> None:
        """Add what one TLE does in a step; one that has no such tile only puts away what it holds."""
        cut, (_, n, r, c) = self.cut, self.step
        height = tle.share.rows[1] - tle.share.rows[0]
        rows = at["r"] * r, min((at["r"] + 1) * r, height)
        if at["j"] >= len(tle.lanes) or rows[0] >= height:
            self._leave(tle, chip, {}, free, write)
            return
        columns = at["c"] * c, min((at["c"] + 1) * c, cut.layer.output_plane[1])
        maps = at["n"] * n, min((at["n"] + 1) * n, cut.maps)
        filters, image, group = tle.spans[at["j"]], (at["b"], at["b"] + 1), (at["g"], at["g"] + 1)
        (sy, sx), names = cut.layer.stride, [tensor.name for tensor in tle.tensors]
        down = rows[0] * sy, rows[0] * sy + cut.reach(0, rows[1] - rows[0])
        across = columns[0] * sx, columns[0] * sx + cut.reach(1, columns[1] - columns[0])
        channels = filters if cut.depthwise else maps
        weight_maps = (0, cut.maps) if self.plan.schedule == "WS" else maps
        boxes = {
            names[0]: Box((image, group, channels, down, across)),
            names[1]: Box((group, filters, weight_maps, None, None)),
            names[2]: Box((image, group, filters, rows, columns)),
        }
        # Every image and group starts anew, so its first tile finds nothing.
        begins = not any(at[loop] for loop in "jrcn")
        keep = set() if begins else {names[2]} | ({names[1]} if self.plan.schedule == "WS" else set())
        kept = {name: boxes[name] for name in keep if chip.get(name) == boxes[name]}
        self._leave(tle, chip, kept, free, write)
        whole = columns[1] - columns[0] == cut.layer.output_plane[1]
        if names[0] not in chip:
            planes = (channels[1] - channels[0]) * cut.plane_bursts(
                down[1] - down[0], across[1] - across[0], whole
            )
            load.append(Load(names[0], boxes[names[0]], "dram", bursts=planes))
        if names[1] not in chip:
            bursts = (filters[1] - filters[0]) * cut.filter_bursts(weight_maps[1] - weight_maps[0])
            load.append(Load(names[1], boxes[names[1]], "dram", bursts=bursts))
        chip.update(boxes)
        widest = max(last - first for first, last in tle.lanes[at["j"]])
        area = (rows[1] - rows[0]) * (columns[1] - columns[0])
        cycles = widest * (maps[1] - maps[0]) * quotient(area * cut.window, cut.machine.macs_per_cycle)
        used = boxes[names[1]]
        if self.plan.schedule == "WS":
            used = Box((group, filters, maps, None, None))
        compute.append(
            Compute(
                names[2],
                boxes[names[2]],
                operands=((names[0], boxes[names[0]]), (names[1], used)),
                macs_per_element=(maps[1] - maps[0]) * cut.window,
                operation=ConvolveBox(
                    tle.layer,
                    images=image,
                    groups=filters if cut.depthwise else group,
                    kernels=(0, 1) if cut.depthwise else filters,
                    channels=maps,
                    rows=rows,
                    cols=columns,
                    input=names[0],
                    weights=names[1],
                ),
                engine=f"mac {tle.name}",
                cycles=cycles * cut.machine.cycle_ps,
            )
        )

    def _leave(
        self, tle: _Tle, chip: dict[str, Box], kept: dict[str, Box], free: list[Free], write: list[WriteBack]
    ) -> None:
        """Put away what a TLE holds: outputs are written back, the rest is forgotten."""
        cut = self.cut
        for tensor in tle.tensors:
            box = chip.get(tensor.name)
            if box is None or tensor.name in kept:
                continue
            del chip[tensor.name]
            if tensor.role != "output":
                free.append(Free(tensor.name, box))
                continue
            _, _, filters, rows, columns = (span for span in box.ranges if span is not None)
            whole = columns[1] - columns[0] == cut.layer.output_plane[1]
            planes = (filters[1] - filters[0]) * cut.plane_bursts(
                rows[1] - rows[0], columns[1] - columns[0], whole
            )
            write.append(WriteBack(tensor.name, box, "dram", bursts=planes))
