"""The tiles of all TLEs in their order, and what is moved between one and the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import TypedDict

import numpy as np

from tilewright.simulator import Box, Compute, Free, Load, Step, WriteBack
from tilewright.simulator.operations import ConvolveBox
from tilewright.tiling.npu.plan import NpuPlan
from tilewright.tiling.npu.slices import Cut, Pieces, Span, quotient
from tilewright.tiling.npu.tle import Tle


class Moving(TypedDict):
    """Of a transfer, its engine, bursts, and what its bytes take in picoseconds."""

    engine: str
    bursts: int
    cycles: int


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


class TileWalk:
    """The steps of all TLEs, and what each moves between one and the next."""

    def __init__(self, cut: Cut, plan: NpuPlan, tles: list[Tle]) -> None:
        self.cut, self.plan, self.tles = cut, plan, tles
        self.step = cut.step(plan.tile)
        m, n, r, c = (quotient(size, step) for size, step in zip(cut.sizes, self.step, strict=True))
        groups = 1 if cut.depthwise else cut.layer.groups
        self.order = "bgjrcn" if plan.schedule == "WS" else "bgrcjn"
        inner = (m, r, c, n) if plan.schedule == "WS" else (r, c, m, n)
        self.ranges = [range(length) for length in (cut.layer.batch, groups, *inner)]
        self.length = int(np.prod([len(loop) for loop in self.ranges]))

    def steps(self) -> Iterator[Step]:
        """Make the steps anew."""
        held: list[dict[str, Box]] = [{} for _ in self.tles]
        order = self.order
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

    def _add(self, tle: Tle, chip: dict[str, Box], at: dict[str, int], actions: _Actions) -> None:
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
            each = self._plane_pieces(tile.down, tile.across, tile.columns, "input")
            actions.load.append(Load(inputs, boxes[inputs], **self.moving(_length(tile.channels), each)))
        if weights not in chip:
            each = self.cut.filter_pieces(_length(tile.weight_maps))
            actions.load.append(Load(weights, boxes[weights], **self.moving(_length(tile.filters), each)))
        chip.update(boxes)
        used = boxes[weights]
        if self.plan.schedule == "WS":
            used = Box((tile.group, tile.filters, tile.maps, None, None))
        operands = ((inputs, boxes[inputs]), (weights, used))
        actions.compute.append(self._compute(tle, tile, outputs, boxes[outputs], operands))

    def _tile(self, tle: Tle, at: dict[str, int]) -> _Tile | None:
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
        self, tle: Tle, tile: _Tile, outputs: str, box: Box, operands: tuple[tuple[str, Box], ...]
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

    def _plane_pieces(self, rows: Span, columns: Span, outputs: Span, operand: str) -> Pieces:
        """Return the pieces of a part of one map; `outputs` are the columns of the output that it serves."""
        whole = _length(outputs) == self.cut.layer.output_plane[1]
        return self.cut.plane_pieces(_length(rows), _length(columns), whole, operand)

    def moving(self, many: int, each: Pieces) -> Moving:
        """Return what a transfer of so many maps or filters takes."""
        cycles = many * each.bytes * self.cut.machine.byte_ps
        return {"engine": "dram", "bursts": many * each.bursts, "cycles": cycles}

    def _leave(self, tle: Tle, chip: dict[str, Box], kept: dict[str, Box], actions: _Actions) -> None:
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
            each = self._plane_pieces(rows, columns, columns, "output")
            actions.write.append(WriteBack(tensor.name, box, **self.moving(_length(filters), each)))


def _length(span: Span) -> int:
    return span[1] - span[0]
